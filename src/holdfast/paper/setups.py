"""A case: one data set, split and model of the paper, its people, and what deletions do to them.

Set up once and shared by all figures, methods and overshoots that need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier

from holdfast.algebra.rows import Array, Positions
from holdfast.datasets import load_dataset
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.paper.settings import DELETIONS, FOLDS, Scale
from holdfast.recourse import find_recourse
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.result import Recourse
from holdfast.searches import search
from holdfast.searches.plan import Plan
from holdfast.shared_state import quiet

REGRESSORS = ("linear", "ntk")
#: a lighter portfolio than the search's default, which takes three times as long
BEST: dict[str, Any] = {"rounds": 1, "temperatures": (0.3,)}
#: in the paper's scaled features every change costs the same, and nothing is off limits
FREE = Actionability(weights="unit")


def estimator(model: str, data: str) -> Any:
    """The paper's model (Table 1), unfitted."""
    if model == "linear":
        return LinearRegression()
    if model == "ntk":
        return NTKRegressor(beta=2.0 if data == "admission" else 5.0)
    if model == "logistic":
        return LogisticRegression(C=1.0, solver="lbfgs", tol=1e-6, max_iter=5000)
    if model == "ls-svm":
        return LSSVMClassifier(gamma=1.0, beta=1.0)
    return MLPClassifier(
        (30,),
        activation="logistic",
        alpha=10.0,
        solver="lbfgs",
        max_iter=5000,
        tol=1e-8,
        random_state=0,
    )


@dataclass
class Setup:
    """A fitted model, the people of the test part, and the score they need.

    Attributes
    ----------
    model : ErasableModel
    people : frame
        The test part, encoded.
    target : float
    target_is : str
        What the target is: the training median of the labels, even odds, or, where fewer than
        100 people score below those, the training median of the scores.
    below_even_odds : int
        How many people of the test part score below even odds (classifiers).
    scale : Scale
    threads : int
    """

    data: str
    model: ErasableModel
    people: pd.DataFrame
    target: float
    target_is: str
    scale: Scale
    threads: int
    below_even_odds: int = 0
    _given: dict[tuple[str, float], Recourse] = field(default_factory=dict)
    _refits: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _random: list[list[Positions]] | None = None
    #: what a figure sets up for itself, once
    memory: dict[Any, Any] = field(default_factory=dict)

    # recourses ------------------------------------------------------------------------------

    def recourse(self, method: str, overshoot: float) -> Recourse:
        """Recourse for everybody below the target, the valid ones."""
        known = (method, overshoot)
        if known not in self._given:
            found = find_recourse(
                self.model,
                self.people,
                method,
                target=self.target,
                actionability=FREE,
                overshoot=overshoot,
            )
            self._given[known] = found
        return self._given[known]

    def points(self, method: str, overshoot: float) -> pd.DataFrame:
        """The valid points."""
        found = self.recourse(method, overshoot)
        return found.points[found.valid.to_numpy()]

    def plan(self, recourses: str, overshoot: float, method: str, **options: Any) -> Plan:
        """A search on everybody's recourse, kept for other figures."""
        known = (recourses, overshoot, method, *sorted(options.items()))
        if known not in self.memory:
            self.memory[known] = self.search(self.points(recourses, overshoot), method, **options)
        found: Plan = self.memory[known]
        return found

    def search(self, points: pd.DataFrame, method: str, **options: Any) -> Plan:
        """A search on some recourses: the paper's by the jackknife, ``best`` by what is better."""
        approximation = None
        if not self.model.exact:
            better = self.model.can.predictions[0]
            approximation = "jackknife" if method == "greedy-count" else better
        return search(
            self.model,
            points,
            self.target,
            options.pop("max_deletions", DELETIONS),
            method,
            threads=self.threads,
            approximation=approximation,
            **(BEST if method == "best" else {}),
            **options,
        )

    def search_action(
        self, points: pd.DataFrame, people: pd.DataFrame, goal: float, method: str, options: Any
    ) -> list[Positions]:
        """The rows whose deletion moves closed-form recourse to ``goal`` most, by budget."""
        plan = search(
            self.model,
            points,
            goal,
            DELETIONS,
            method,
            objective="action",
            people=people,
            threads=self.threads,
            **options,
        )
        return plan.sets

    # what deletions really do -----------------------------------------------------------------

    def after(
        self, points: pd.DataFrame, sets: Sequence[Positions], refit: bool = True
    ) -> tuple[Array, list[str]]:
        """Scores without each set (sets, q), and how each was confirmed.

        The sets are those of 1, 2, … 14 deletions, once or several times over.

        Linear and logistic models are refitted. Kernel models, whose refit costs n³, are solved
        for by the algebra, and the solution is put into the shortened system, whose residual must
        vanish; with ``refit``, those of ``refit_at`` deletions are refitted in full. Networks are
        refitted, from the fitted weights, at those only: elsewhere NaN.
        """
        if self.model.can.refit == "cubic":
            return self._kernel_after(points, sets, refit)
        if self.model.can.refit == "training":
            scores = np.full((len(sets), len(points)), np.nan)
            how = ["predicted"] * len(sets)
            for j, rows in enumerate(sets):
                if 1 + j % DELETIONS in self.scale.refit_at:
                    scores[j] = self._network(rows).scores(points)
                    how[j] = "refit, warm"
            return scores, how
        if self.model.can.form == "smooth":
            x, core = self.model.features(points), self.model.form("smooth")
            return np.stack([core.scores_at(self._fit(s), x) for s in sets]), ["refit"] * len(sets)
        return np.stack([self._fit(s).predict(points) for s in sets]), ["refit"] * len(sets)

    def _kernel_after(
        self, points: pd.DataFrame, sets: Sequence[Positions], refit: bool
    ) -> tuple[Array, list[str]]:
        core = self.model.form("kernel")
        known = self._refits
        new = [s for s in sets if ("residual", *s.tolist()) not in known]
        if new:
            sums, biases = core.fits_without(new)
            known.update(
                {("residual", *s.tolist()): (sums[:, c], biases[c]) for c, s in enumerate(new)}
            )
        fits = [known[("residual", *s.tolist())] for s in sets]
        x = self.model.features(points)
        sums, biases = np.column_stack([f[0] for f in fits]), np.array([f[1] for f in fits])
        scores = core.scores_of(x, sums, biases)
        how = ["residual" if np.isfinite(f[1]) else "predicted" for f in fits]
        for j, rows in enumerate(sets):
            if refit and 1 + j % DELETIONS in self.scale.refit_at:
                fitted = self._fit(rows)
                decide = getattr(fitted, "decision_function", fitted.predict)
                scores[j], how[j] = decide(points), "refit"
        return scores, how

    def _fit(self, rows: Positions) -> Any:
        """A fit from scratch without some rows: an estimator, or a logistic one's parameters."""
        key = tuple(sorted(rows.tolist()))
        if key not in self._refits:
            if self.model.can.form == "smooth":
                self._refits[key] = self.model.form("smooth").optimum_without(rows)
            else:
                keep = np.setdiff1d(np.arange(self.model.rows.n), rows)
                fresh = clone(self.model.estimator)
                self._refits[key] = fresh.fit(self.model.X.iloc[keep], self.model.y[keep])
        return self._refits[key]

    def _network(self, rows: Positions) -> ErasableModel:
        key = tuple(sorted(rows.tolist()))
        if key not in self._refits:
            self._refits[key] = self.model.without(rows)
        return self._refits[key]

    def forget_refits(self) -> None:
        """Give back the memory of refitted networks that no other cell is likely to ask for."""
        if self.model.can.refit == "training":
            shared = {tuple(sorted(s.tolist())) for draw in self._random or [] for s in draw}
            self._refits = {key: fit for key, fit in self._refits.items() if key in shared}

    def random_sets(self, draws: int | None = None) -> list[list[Positions]]:
        """Random deletions of 1 … 14 rows, the same for everything asked of this case."""
        if self._random is None:
            many = self.scale.draws
            if self.model.can.refit == "training":
                many = self.scale.network_draws
            orders = [
                np.random.default_rng([7, draw]).permutation(self.model.rows.n)
                for draw in range(many)
            ]
            self._random = [[order[:k].copy() for k in range(1, DELETIONS + 1)] for order in orders]
        return self._random[:draws]

    def shortened(self, rows: Positions, refit: bool) -> ErasableModel:
        """The model without some rows, for recourse to be found again.

        Kernel models: refitted, or the shortened solution, its residual checked. Others: refitted.
        """
        if self.model.can.refit != "cubic":
            return self.model.without(rows)
        core = self.model.form("kernel")
        if not refit:
            sums, biases = core.fits_without([rows])
            if np.isfinite(biases[0]):
                return self.model.with_core(core.with_fit(sums[:, 0], float(biases[0])))
        fitted = self._fit(rows)
        dual = np.zeros(self.model.rows.n)
        dual[np.setdiff1d(np.arange(dual.size), rows)] = fitted.dual_coef_
        bias = float(getattr(fitted, "intercept_", 0.0))
        return self.model.with_core(core.with_fit(core.summed(dual), bias))

    def without(self, rows: Positions) -> Setup:
        """The same case with some rows never trained on."""
        keep = np.setdiff1d(np.arange(self.model.rows.n), rows)
        X, y = self.model.X.iloc[keep], self.model.y[keep]
        fitted = clone(self.model.estimator).fit(X, y)
        return Setup(
            self.data,
            erasable(fitted, X, y),
            self.people,
            self.target,
            self.target_is,
            self.scale,
            self.threads,
        )


def set_up(data: str, model: str, split: int, scale: Scale, threads: int, path: Any) -> Setup:
    """Load, split, encode and fit."""
    task = "regression" if model in REGRESSORS else "classification"
    found = load_dataset(data, task, path=path)
    train, test = found.split(split)
    train, test = train[: scale.train], test[: None if scale.train is None else 2 * scale.train]
    encoder = found.encoder().fit(found.X.iloc[train])
    X, people = encoder.transform(found.X.iloc[train]), encoder.transform(found.X.iloc[test])
    y: Any = found.y[train]
    if task == "regression":
        # relative to the target: the NTK has no bias, and the paper's bounds are for target 0
        y = y.astype(float) - float(np.median(y))
    with quiet:
        fitted = estimator(model, data).fit(X, y)
        made = erasable(fitted, X, y)
    target, target_is = 0.0, "median label" if task == "regression" else "even odds"
    fewest = 100 if scale.train is None else 20
    below_even_odds = int(np.sum(made.scores(people) < target))
    if task == "classification" and below_even_odds < fewest:
        target, target_is = float(np.median(made.training_scores)), "median score"
    most = scale.people if split == 0 else scale.split_people
    below = np.flatnonzero(made.scores(people) < target)[:most]
    return Setup(data, made, people.iloc[below], target, target_is, scale, threads, below_even_odds)


def folds(q: int) -> list[Positions]:
    """The people of each fold."""
    return [np.asarray(part, dtype=np.intp) for part in np.array_split(np.arange(q), FOLDS)]


def over_folds(values: Array) -> tuple[float, float]:
    """The mean, and its standard error from the folds' means; NaN counts for nothing."""
    if not np.isfinite(values).any():
        return float("nan"), float("nan")
    parts = np.array([np.nanmean(values[f]) for f in folds(len(values)) if f.size])
    error = float(np.std(parts, ddof=1) / np.sqrt(parts.size)) if parts.size > 1 else float("nan")
    return float(np.nanmean(values)), error

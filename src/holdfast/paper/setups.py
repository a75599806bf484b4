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
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neural_network import MLPClassifier

from holdfast.algebra.rows import Array, Positions
from holdfast.datasets import load_dataset
from holdfast.errors import HoldfastError
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.paper.settings import AS_IS, BY_NAME, DELETIONS, FOLDS, Encoding, Scale
from holdfast.recourse import find_recourse, published
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.result import Recourse
from holdfast.searches import search
from holdfast.searches.plan import Plan
from holdfast.shared_state import quiet

REGRESSORS = ("linear", "ntk")
#: a lighter portfolio than the search's default, which takes three times as long
BEST: dict[str, Any] = {"rounds": 1, "temperatures": (0.3,)}
#: seeds tried for a network
SEEDS = 3
#: in the paper's scaled features every change costs the same, and nothing is off limits
FREE = Actionability(weights="unit")


def estimator(model: str, data: str, encoding: Encoding) -> Any:
    """The paper's model (Table 1), unfitted."""
    if model == "linear":
        return LinearRegression(fit_intercept=encoding.intercept)
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
    name : str
        Of the model: ``linear``, ``ntk``, …
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
    facts : dict
        What is told about the case: rows, features, people, settings and quality of the model.
    rules : Actionability
        What people can change, in the encoded columns; the figures ask for it where they say so.
    held : (frame, ndarray)
        The test part with its labels.
    """

    data: str
    name: str
    model: ErasableModel
    people: pd.DataFrame
    target: float
    target_is: str
    scale: Scale
    threads: int
    below_even_odds: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    rules: Actionability = FREE
    held: tuple[Any, Any] | None = None
    _given: dict[tuple[str, float], Recourse] = field(default_factory=dict)
    _refits: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _random: list[list[Positions]] | None = None
    #: what a figure sets up for itself, once
    memory: dict[Any, Any] = field(default_factory=dict)

    # recourses ------------------------------------------------------------------------------

    def recourse(self, method: str, overshoot: float) -> Recourse:
        """Recourse for everybody below the target; fewer where it takes too long."""
        known = (method, overshoot)
        if known not in self._given:
            self._given[known] = find_recourse(
                self.model,
                self.asked(method, overshoot),
                method,
                target=self.target,
                actionability=FREE,
                overshoot=published.AS_IS if overshoot == AS_IS else overshoot,
            )
        return self._given[known]

    def asked(self, method: str, overshoot: float) -> pd.DataFrame:
        """Whose recourse is found."""
        most = None
        if overshoot == AS_IS and self.model.can.refit == "cubic":
            most = {"scfe": None, "cem": self.scale.bisected}.get(method, self.scale.sampled)
        return self.people.iloc[:most]

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
        self,
        points: pd.DataFrame,
        sets: Sequence[Positions],
        refit: bool = True,
        at: tuple[int, ...] | None = None,
    ) -> tuple[Array, list[str]]:
        """Scores without each set (sets, q), and how each was confirmed.

        The sets are those of 1, 2, … 14 deletions, once or several times over.

        Linear and logistic models are refitted. Kernel models, whose refit costs n³, are solved
        for by the algebra, and the solution is put into the shortened system, whose residual must
        vanish; with ``refit``, those of ``refit_kernel_at`` deletions are refitted in full.
        Networks are refitted, from the fitted weights, at ``at`` (by default ``refit_at``)
        deletions only: elsewhere NaN.
        """
        if self.model.can.refit == "cubic":
            return self._kernel_after(points, sets, refit)
        if self.model.can.refit == "training":
            scores = np.full((len(sets), len(points)), np.nan)
            how = ["predicted"] * len(sets)
            for j, rows in enumerate(sets):
                if 1 + j % DELETIONS in (at or self.scale.refit_at):
                    scores[j] = self._network(rows).scores(points)
                    how[j] = "refit, warm"
            return scores, how
        if self.model.can.form == "smooth":
            x, core = self.model.features(points), self.model.form("smooth")
            return np.stack([core.scores_at(self._fit(s), x) for s in sets]), ["refit"] * len(sets)
        return np.stack([self._fit(s).predict(points) for s in sets]), ["refit"] * len(sets)

    def solve_for(self, sets: Sequence[Positions]) -> None:
        """Shortened solutions of a kernel model, all at once: checking them reads the kernel."""
        if self.model.can.refit != "cubic":
            return
        core, known = self.model.form("kernel"), self._refits
        new = {("residual", *s.tolist()): s for s in sets}
        new = {key: s for key, s in new.items() if key not in known}
        if new:
            sums, biases = core.fits_without(list(new.values()))
            known.update({key: (sums[:, c], biases[c]) for c, key in enumerate(new)})

    def _kernel_after(
        self, points: pd.DataFrame, sets: Sequence[Positions], refit: bool
    ) -> tuple[Array, list[str]]:
        core = self.model.form("kernel")
        known = self._refits
        self.solve_for(sets)
        fits = [known[("residual", *s.tolist())] for s in sets]
        x = self.model.features(points)
        sums, biases = np.column_stack([f[0] for f in fits]), np.array([f[1] for f in fits])
        scores = core.scores_of(x, sums, biases)
        how = ["residual" if np.isfinite(f[1]) else "predicted" for f in fits]
        for j, rows in enumerate(sets):
            if refit and 1 + j % DELETIONS in self.scale.refit_kernel_at:
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
            self.name,
            erasable(fitted, X, y),
            self.people,
            self.target,
            self.target_is,
            self.scale,
            self.threads,
        )


def set_up(
    data: str, model: str, split: int, encoding: str, scale: Scale, threads: int, path: Any
) -> Setup:
    """Load, split, encode and fit."""
    how = BY_NAME[encoding]
    task = "regression" if model in REGRESSORS else "classification"
    found = load_dataset(data, task, path=path)
    train, test = found.split(split)
    train, test = train[: scale.train], test[: None if scale.train is None else 2 * scale.train]
    encoder = found.encoder(how.flags).fit(found.X.iloc[train])
    X, held = encoder.transform(found.X.iloc[train]), encoder.transform(found.X.iloc[test])
    y: Any = found.y[train]
    target, target_is, middle = 0.0, "even odds", 0.0
    if task == "regression":
        # relative to the target: the NTK has no bias, and the paper's bounds are for target 0
        target_is, median = "median label", float(np.median(y))
        target, middle = (0.0, median) if how.centred else (median, 0.0)
        y = y.astype(float) - middle
    fitted, made = _fitted(estimator(model, data, how), X, y)
    fewest = 100 if scale.train is None else 20
    scores = made.scores(held)
    below_even_odds = int(np.sum(scores < target))
    if task == "classification" and below_even_odds < fewest:
        target, target_is = float(np.median(made.training_scores)), "median score"
    most = scale.split_people
    if split == 0:
        most = scale.people or len(held)
    everybody = np.flatnonzero(scores < target)
    judge, of = (r2_score, "R²") if task == "regression" else (roc_auc_score, "AUC")
    truth = found.y[test] - middle if task == "regression" else found.y[test]
    facts = {
        "rows": len(X),
        "features": X.shape[1],
        "model": fitted.get_params(),
        "target": target,
        "target is": target_is,
        "people below the target": int(everybody.size),
        "people taken": int(min(most, everybody.size)),
        f"{of}, training part": round(float(judge(y, made.training_scores)), 4),
        f"{of}, test part": round(float(judge(truth, scores)), 4),
    }
    people = held.iloc[everybody[:most]]
    return Setup(
        *(data, model, made, people, target, target_is, scale, threads, below_even_odds, facts),
        rules=encoded_rules(found.actionability, found.X, X),
        held=(held, truth),
    )


def _fitted(unfitted: Any, X: pd.DataFrame, y: Any) -> tuple[Any, ErasableModel]:
    """The model; of networks the first of a few seeds at whose optimum derivatives foretell refits.

    A network can end on a plateau or a saddle, where the paper's jackknife is not defined.
    """
    seeds = range(SEEDS) if "random_state" in unfitted.get_params() else (None,)
    for seed in seeds:
        fresh = clone(unfitted) if seed is None else clone(unfitted).set_params(random_state=seed)
        with quiet:
            fitted = fresh.fit(X, y)
            made = erasable(fitted, X, y)
        if made.can.predictions:
            return fitted, made
    raise HoldfastError(
        f"{made!r}: no optimum at which derivatives foretell refits was found with {len(seeds)} "
        f"seeds: {made.can.why_not}"
    )


def encoded_rules(rules: Actionability, raw: pd.DataFrame, encoded: pd.DataFrame) -> Actionability:
    """The data set's rules in the encoded columns.

    One-hot columns change together, what says that a value was missing stays as it is, frozen and
    one-way features are, and nobody is sent beyond what there is in the training part.
    """
    features: dict[Any, Any] = {}
    one_hot: dict[str, list[Any]] = {}
    for name in raw.columns:
        rule = rules.features.get(name)
        way = "any" if rule is None else rule.direction
        if name in encoded:
            features[name] = {"direction": way}
            if way != "frozen":
                features[name] |= {"range": [0.0, 1.0], "widen": True}
            continue
        group = [column for column in encoded if str(column).startswith(f"{name}_")]
        if len(group) < 2:
            features |= {column: {"direction": way} for column in group}
            continue
        one_hot[f"{name} (one-hot)"] = group
        if way == "frozen":
            features[f"{name} (one-hot)"] = {"direction": "frozen"}
    for column in encoded:
        if str(column).startswith("missingindicator_"):
            features[column] = {"direction": "frozen"}
    return Actionability(features, one_hot, weights="unit")


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

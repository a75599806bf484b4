"""Models without the algebra: candidates ranked by a stand-in, leaders refitted, within a budget.

Boosting models rank candidates by the leaves they share with the recourses
(:mod:`holdfast.searches.by_leaves`). For others the stand-in is kernel ridge regression on the same
rows and labels (for models with an algebra, that algebra itself), its scores matched to the model's
own; what it says of a deletion orders the candidates. The model is then refitted without each of
the leaders in turn; with ``max_refits``, as many of them as the budget has for each step.

A boosting model also moves when nothing is deleted but the seed or the order of the rows changes
(:meth:`holdfast.models.refits.Refits.reseeded` measures that), and a broken recourse means little
where that is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from holdfast.algebra.rows import Positions
from holdfast.algebra.sweeps import Sweep
from holdfast.algebra.units import Units
from holdfast.arguments import positive_number
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits
from holdfast.recourse.promises import Promises
from holdfast.searches.attack import AlgebraAttack, Watched, damage, late
from holdfast.searches.by_leaves import LeafStandIn, RandomStandIn
from holdfast.searches.found import Found

#: what can rank candidates
SURROGATES = ("leaves", "kernel", "linear", "random")

#: beyond so many rows the kernel matrix costs more than the refits it saves
_MOST_ROWS = 6_000


def stand_in(
    model: ErasableModel, promises: Promises, units: Units, kind: str, threads: int | None
) -> AlgebraAttack:
    """An attack on kernel or linear ridge, margins in the model's own scores."""
    if model.can.predicts and model.can.form != "parts":
        outcome = model.deletions(promises.kept_points)
        return AlgebraAttack(outcome, promises.margins, units, threads=threads)
    text = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (text, make_column_selector(dtype_exclude="number")),
    )
    use_kernel = kind == "kernel" and model.rows.n <= _MOST_ROWS
    last = KernelRidge(kernel="rbf", alpha=1.0) if use_kernel else Ridge(1.0)
    X = pd.DataFrame(model.X)
    X.columns = X.columns.astype(str)
    labels = np.asarray(model.y, dtype=float) if model.rows.classes is None else model.rows.classes
    labels = model.sign * (labels - np.mean(labels))
    weights = model.sample_weight
    pipeline = make_pipeline(columns, last)
    step = pipeline.steps[-1][0]
    pipeline.fit(X, labels, **({} if weights is None else {f"{step}__sample_weight": weights}))
    other = ErasableModel(pipeline, X, labels, sample_weight=weights)
    ours, theirs = model.training_scores, other.scores(X)
    slope = float(np.cov(ours, theirs)[0, 1] / (np.var(theirs) or 1.0))
    slope = slope if slope > 0 else 1.0
    frame = pd.DataFrame(promises.kept_points)
    frame.columns = X.columns
    return AlgebraAttack(other.deletions(frame), promises.margins / slope, units, threads=threads)


class SurrogateAttack(Watched):
    """Damage by deletion, known by refitting only.

    Parameters
    ----------
    model, promises, units
    surrogate : {"leaves", "kernel", "linear", "random"}, optional
        By default the leaves where they are known, else the kernel.
    leaders : int, optional
        Candidates refitted at every step; 4, or what the budget has.
    threads : int, optional
    max_refits : int, optional
        Refits the search may make.
    """

    objective = "outcome"
    #: how many refits a search will make, at most: for whoever watches its progress
    planned = 1
    costly = True
    sweeps_all = False

    def __init__(
        self,
        model: ErasableModel,
        promises: Promises,
        units: Units,
        surrogate: str | None,
        leaders: int | None,
        threads: int | None,
        max_refits: int | None = None,
        rng: Any = None,
    ):
        for name, value in (("leaders", leaders), ("max_refits", max_refits)):
            if value is not None:
                positive_number(name, value)
        if leaders is not None and max_refits is not None:
            raise HoldfastError("leaders and max_refits both say how many refits: give one of them")
        if surrogate not in (None, *SURROGATES):
            known = ", ".join(map(repr, SURROGATES))
            raise HoldfastError(f"surrogate must be one of {known}, got {surrogate!r}")
        self.ranked_by = surrogate or ("leaves" if model.can.leaves else "kernel")
        self.units, self.margins = units, promises.margins
        self.max_refits = None if max_refits is None else int(max_refits)
        self._leaders = int(leaders or 4)
        self._scores, self._target = promises.kept_scores, promises.target
        self._refits = Refits(model, promises.kept_points)
        if self.ranked_by == "leaves":
            self._stand_in: Any = LeafStandIn(model, promises, units)
        elif self.ranked_by == "random":
            self._stand_in = RandomStandIn(units, np.random.default_rng(rng))
        else:
            self._stand_in = stand_in(model, promises, units, self.ranked_by, threads)

    @property
    def refits(self) -> int:
        """How many refits were made so far."""
        return self._refits.fits

    def leaders_at(self, step: int, steps: int) -> int:
        """How many candidates are refitted at a step, of so many: the budget, spread evenly."""
        if self.max_refits is None:
            return self._leaders
        return self.max_refits * step // steps - self.max_refits * (step - 1) // steps

    def singles(self, temperature: float | None = None) -> Sweep:
        return self._stand_in.singles(temperature)

    def ranked(self, units: Sequence[int], most: int) -> list[int]:
        """The stand-in's leaders after some deletions."""
        leaders: list[int] = self._stand_in.sweep(units).ranked(most).tolist()
        return leaders

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """The stand-in's leaders, each refitted."""
        return self.refitted(units, self.ranked(units, self._leaders))

    def refitted(self, units: Sequence[int], candidates: Sequence[int]) -> Sweep:
        """Some candidates after some deletions, each refitted while there is time."""
        value = np.full(len(self.units), -np.inf)
        tie, possible = value.copy(), np.zeros(len(self.units), dtype=bool)
        for candidate in candidates:
            if possible.any() and late(self):
                break
            possible[candidate] = True
            value[candidate], tie[candidate] = self.value([*units, candidate])
            self.tell(self.refits, self.planned)
        return Sweep(value, tie, possible)

    def feasible(self, units: Sequence[int]) -> bool:
        return self._stand_in.feasible(units)

    def worst_for(self, recourses: Positions) -> list[Positions]:
        return []

    def _after(self, units: Sequence[int]) -> Any:
        """Scores without some units, by refitting everything."""
        return self._refits.without([self.units.rows(units)])[0]

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        return damage(self.margins, self._scores - self._after(units), self.objective)

    def broken(self, units: Sequence[int]) -> int:
        return int(np.sum(~(self._after(units) >= self._target)))


def refit(attack: SurrogateAttack, budget: int, rng: Any) -> Found:
    """One at a time, each the worst of the leaders that were refitted; never less than before.

    With fewer refits than steps, the stand-in chooses by itself in between.
    """
    chosen: list[int] = []
    sets: list[list[int]] = [[]]
    reached = -math.inf
    attack.planned = attack.max_refits or budget * attack.leaders_at(1, budget)
    for step in range(1, budget + 1):
        if late(attack):
            break
        refits = attack.leaders_at(step, budget)
        leaders = attack.ranked(chosen, max(refits, 1))
        if not leaders:
            break
        if not refits:
            chosen = [*chosen, *leaders]
            sets.append(sets[-1])
            continue
        sweep = attack.refitted(chosen, leaders)
        chosen = [*chosen, sweep.best]
        better = sweep.value[sweep.best] >= reached
        reached = max(reached, float(sweep.value[sweep.best]))
        sets.append(chosen if better else sets[-1])
    notes = {"candidates ranked by": attack.ranked_by, "refits made": attack.refits}
    if attack.max_refits is not None:
        notes["max refits"] = attack.max_refits
    return Found(sets, notes=notes)

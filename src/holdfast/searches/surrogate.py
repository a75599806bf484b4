"""Models without the algebra: candidates screened by a stand-in, leaders refitted.

The stand-in is kernel ridge regression on the same rows and labels (for models with an algebra,
that algebra itself), its scores matched to the model's own; what it says of a deletion orders the
candidates. The model is then refitted without each of the leaders in turn. A boosting model also
moves when nothing is deleted but the seed or the order of the rows changes
(:meth:`holdfast.models.refits.Refits.reseeded` measures that), and a broken recourse means little
where that is large.
"""

from __future__ import annotations

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
from holdfast.searches.attack import AlgebraAttack, Watched, damage

#: beyond so many rows the kernel matrix costs more than the refits it saves
_MOST_ROWS = 6_000


def stand_in(
    model: ErasableModel, promises: Promises, units: Units, kind: str, threads: int | None
) -> AlgebraAttack:
    """An attack on a stand-in for the model, margins in the model's own scores."""
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
    surrogate : {"kernel", "linear"}
    leaders : int
        Candidates refitted in every sweep.
    threads : int, optional
    """

    objective = "outcome"
    costly = True
    sweeps_all = False

    def __init__(
        self,
        model: ErasableModel,
        promises: Promises,
        units: Units,
        surrogate: str,
        leaders: int,
        threads: int | None,
    ):
        positive_number("leaders", leaders)
        if surrogate not in ("kernel", "linear"):
            raise HoldfastError(f"surrogate must be 'kernel' or 'linear', got {surrogate!r}")
        self.units, self.margins, self._leaders = units, promises.margins, int(leaders)
        self._scores, self._target = promises.kept_scores, promises.target
        self._refits = Refits(model, promises.kept_points)
        self._stand_in = stand_in(model, promises, units, surrogate, threads)

    def singles(self, temperature: float | None = None) -> Sweep:
        return self._stand_in.singles(temperature)

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """The stand-in's leaders, each refitted."""
        screened = self._stand_in.sweep(units)
        value = np.full(len(self.units), -np.inf)
        tie, possible = value.copy(), np.zeros(len(self.units), dtype=bool)
        for candidate in screened.ranked(self._leaders).tolist():
            possible[candidate] = True
            value[candidate], tie[candidate] = self.value([*units, candidate])
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

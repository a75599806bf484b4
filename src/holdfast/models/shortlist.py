"""A model of very many rows, of which a few thousand are looked at: the others are bounded.

A :class:`Shortlist` is an :class:`~holdfast.models.erasable.ErasableModel` of the same fit. Its
rows are those of the list, numbered from 0; a few more stand for all others
(:mod:`holdfast.models.anchored`). What any row outside can do is in ``outside``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from holdfast.algebra.deletions import Deletions, LowRankDeletions
from holdfast.algebra.design import features
from holdfast.algebra.outside import Outside
from holdfast.algebra.rows import Array, Positions, take
from holdfast.errors import HoldfastError
from holdfast.models.anchored import AnchoredLinear, Standing
from holdfast.models.core import Training
from holdfast.models.erasable import ErasableModel
from holdfast.models.passes import Gathering, InMemory, Linearised, RowSource
from holdfast.models.pipelines import final_step
from holdfast.models.scales import Scales

#: rows from which a model in memory is looked at through a list
MANY = 20_000

#: rows of a list that are a fair sample of all
SAMPLED = 2048


@dataclass(frozen=True)
class Looked:
    """What a screening found of the rows outside.

    Attributes
    ----------
    ceilings : dict
        The most one does alone to each point, by the bytes of its features.
    sums : (ways,)
        And to sums of them.
    """

    ceilings: dict[bytes, float] = field(default_factory=dict, repr=False)
    sums: Array = field(default_factory=lambda: np.zeros(0), repr=False)

    def at(self, Z: Array) -> Array | None:
        """For points with these features; ``None`` where one was not looked at."""
        found = [self.ceilings.get(row.tobytes()) for row in np.ascontiguousarray(Z)]
        return None if None in found else np.array(found, dtype=float)


class Shortlist(ErasableModel):
    """Some rows of a model, and the model they are rows of.

    Attributes
    ----------
    whole : ErasableModel
        Fitted on all rows.
    outside : Outside
        The rows that are not on the list.
    looked : Looked
    """

    #: whether it is itself the model of all rows, a sample of which is in memory
    is_whole = False
    whole: Any
    outside: Outside
    looked: Looked

    def __repr__(self) -> str:
        return f"<Shortlist of {self.rows.own:,} rows of {self.whole!r}>"

    def deletions(
        self,
        Q: Any,
        of: str = "scores",
        method: str | None = None,
        preprocessing: str = "refitted",
    ) -> Deletions:
        found: Any = super().deletions(Q, of, method, preprocessing)
        if not isinstance(found, LowRankDeletions) or self.outside.rows == 0:
            return cast(Deletions, found)
        ceilings = self.looked.at(self.features(Q)) if of == "scores" else None
        return replace(found, outside=replace(self.outside, ceilings=ceilings))

    @property
    def scales(self) -> Any:
        """How refitting the preprocessing re-weights the penalty, for the rows of the list."""
        if "_scales" not in self.__dict__:
            found = self.whole.scales
            listed = None if found is None else ListedScales(found, self)
            self.__dict__["_scales"] = listed
        return self.__dict__["_scales"]

    @property
    def of_all(self) -> ErasableModel:
        found: ErasableModel = self.whole
        return found

    @property
    def many(self) -> int:
        return self.rows.own + self.outside.rows

    @property
    def score_unit(self) -> float:
        return self.whole.score_unit

    @property
    def median_label(self) -> float:
        return self.whole.median_label

    def source(self, tell: Any = None) -> RowSource:
        """All rows, for one pass or more."""
        return in_memory(self.whole)

    def listed(self, names: Positions, looked: Looked, tell: Any = None) -> Shortlist:
        """Other rows of the same model, beside the fair sample."""
        fair, mine = self.rows.sample, self.rows.names
        assert mine is not None
        sample = None if fair is None else mine[fair]
        return shortlist(self.whole, names, sample, looked)

    @property
    def linearised(self) -> Linearised:
        """The loss where it is expanded."""
        return Linearised()

    def _gone(self, rows: Positions) -> Positions:
        """The numbers in the whole table of the rows that are not among some of the list."""
        here = np.zeros(self.rows.n, dtype=np.intp)
        np.add.at(here, rows, 1)
        if np.any(here > 1) or not here[self.rows.own :].all():
            raise HoldfastError("only a few rows of this many are here: none can be drawn twice")
        assert self.rows.names is not None
        return self.rows.names[np.flatnonzero(here[: self.rows.own] == 0)]

    def refitted_on(
        self, rows: Positions, *, refit_preprocessing: bool = True, start: str = "fitted"
    ) -> ErasableModel:
        """The whole model refitted without the rows of the list that are not among these."""
        return self.whole.without(
            self._gone(rows), refit_preprocessing=refit_preprocessing, start=start
        )

    def without(
        self,
        rows: Any = None,
        *,
        subjects: Any = None,
        refit_preprocessing: bool = True,
        start: str = "fitted",
    ) -> ErasableModel:
        """The same list without some of its rows, the whole model refitted."""
        gone = self.rows.positions(rows, subjects)
        keep = np.delete(np.arange(self.rows.n), gone)
        fresh = self.refitted_on(keep, refit_preprocessing=refit_preprocessing, start=start)
        assert self.rows.names is not None
        names = np.delete(self.rows.names, gone)
        names = names - np.searchsorted(np.sort(self.rows.names[gone]), names)
        return shortlist(fresh, names)


def shortlist(
    whole: ErasableModel,
    names: Positions,
    sample: Positions | None = None,
    looked: Looked | None = None,
) -> Shortlist:
    """A model of least squares in memory, seen through some of its rows.

    Parameters
    ----------
    whole : ErasableModel
    names : the rows of the list, in order
    sample : those of them that are a fair sample of all
    looked : Looked, optional
    """
    core: Any = whole.form("linear")
    source = in_memory(whole)
    found = Gathering(names, Linearised(), core.design.T, core.theta).over(source, "sums")
    made = Shortlist.__new__(Shortlist)
    known = ("training_scores", "training_cells", "frame", "row_ids", "last_step", "scales")
    made.__dict__.update({k: v for k, v in whole.__dict__.items() if k not in known})
    made.whole, made.outside, made.looked = whole, found.outside, looked or Looked()
    made.X, made.y = take(whole.X, names), whole.y[names]
    weights = np.ones(len(names)) if whole.sample_weight is None else whole.sample_weight[names]
    fair = None if sample is None else np.searchsorted(names, sample)
    rows = replace(whole.rows.only(names), names=names, sample=fair)
    made.sample_weight = None if whole.sample_weight is None else weights
    made._oriented = whole._oriented[names]
    data = Training(whole.features(made.X), made._oriented, weights, rows, whole.sign)
    both = (np.arange(len(found.triangle)) % 2).astype(np.float64)
    standing = Standing.of(found.triangle, len(core.theta), both)
    made.core = AnchoredLinear(final_step(whole.estimator), data, standing, core.centre)
    made.rows = made.core.rows
    return made


def in_memory(whole: ErasableModel) -> RowSource:
    """All rows of a model of least squares, as a source of passes."""
    core: Any = whole.form("linear")
    weights = None if np.all(core._weights == 1.0) else core._weights
    return InMemory(features(core._X, core.centre), core._y, weights)


class ListedScales(Scales):
    """The scales of the whole model, asked about rows of a list.

    Parameters
    ----------
    scales : Scales
    model : Shortlist
    """

    def __init__(self, scales: Any, model: Shortlist):
        assert model.rows.names is not None
        self._all, self._names = scales, model.rows.names
        self._standing = model.rows.standing
        self.n, self.before, self.moving = model.rows.n, scales.before, scales.moving
        self.columns = [
            replace(c, values=self._placed(c.values[self._names])) for c in scales.columns
        ]
        here = np.zeros(scales.n, dtype=bool)
        here[self._names] = True
        self._outside = ~here

    def _placed(self, values: Array, fill: float = 0.0) -> Array:
        more = np.full((self._standing, *values.shape[1:]), fill)
        return np.concatenate([np.asarray(values, dtype=float), more])

    def factors(self, sets: Sequence[Positions]) -> Array:
        found: Array = self._all.factors([self._names[rows] for rows in sets])
        return found

    @property
    def singles(self) -> Array:
        return self._placed(self._all.singles[self._names], 1.0)

    def interval(self, k: int, stay: Positions | None = None) -> tuple[Array, Array]:
        some = None if stay is None else self._names[stay[stay < len(self._names)]]
        found: tuple[Array, Array] = self._all.interval(k, some)
        return found

    def shares(self, k: int, stay: Positions) -> tuple[Array, Array, Any]:
        up, down, known = self._all.shares(k, self._names[stay[stay < len(self._names)]])
        return self._placed(up[:, self._names].T).T, self._placed(down[:, self._names].T).T, known

    def outside_shares(self, k: int) -> tuple[Array, Array]:
        """What a row outside adds to each ``ρ − 1``, and to the contrary, at most."""
        up, down, _ = self._all.shares(k, np.zeros(0, dtype=np.intp))
        if not self._outside.any():
            return np.zeros(len(up)), np.zeros(len(down))
        up, down = (np.maximum(part[:, self._outside].max(axis=1), 0.0) for part in (up, down))
        return up, down

    def lost(self, rows: Positions, Z: Array) -> Any:
        return self._all.lost(self._names[rows], Z)

    @property
    def rarest(self) -> int:
        return int(self._all.rarest)

    def covers(self, queries: Any) -> bool:
        return bool(self._all.covers(queries))

    def words(self, f: int) -> str:
        return str(self._all.words(f))


#: scores of points without each of some sets: points, sets, how the preprocessing is, with a pass
InPasses = Callable[[Any, Sequence[Positions], str, bool], Array]

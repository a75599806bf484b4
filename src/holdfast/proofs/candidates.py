"""Which rows can do most to each recourse, and what is known of all the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from holdfast.algebra.box_loops import candidates, reach
from holdfast.algebra.boxes import Boxes
from holdfast.algebra.deletions import Deletions, LowRankDeletions
from holdfast.algebra.executors import Threads
from holdfast.algebra.rows import Array, Mask, Positions, take
from holdfast.algebra.sweeps import SMALL
from holdfast.algebra.threads import cores
from holdfast.algebra.units import Units
from holdfast.models.erasable import ErasableModel
from holdfast.proofs.pairs import Among

#: rows kept per recourse; entries of a tile of C
KEPT, _TILE = 128, 1 << 20
#: recourses by which it is judged how many deletions are worth asking about
_SAMPLE = 24
#: points without some rows that are kept at a time
_POINTS = 24


@dataclass(frozen=True)
class Missed:
    """What the formula may miss of the true effect of a set ``S`` of ``k`` rows or fewer.

    On recourse ``j`` that is at most ``Σ_{i ∈ S} (Σ left right)_{ji} + hidden_{jk}``.

    Attributes
    ----------
    n : how many rows there are
    parts : of every k, pairs of left (q, m), not negative, and right (m, n)
    hidden : (q, budget + 1)
    limit : the largest ``k`` it holds for
    outside : (q, budget + 1) what is charged at most for a row that is not among these; or 0
    """

    n: int
    parts: list[list[tuple[Array, Array]]]
    hidden: Array
    limit: int
    outside: Any = 0.0

    @classmethod
    def nothing(cls, q: int, n: int, budget: int) -> Missed:
        """Of a formula that is exact."""
        return cls(n, [[] for _ in range(budget + 1)], np.zeros((q, budget + 1)), budget)

    def of(self, k: int, recourses: Any, rows: Any = slice(None)) -> Array:
        """What is charged for every row, per recourse; (0, n) where nothing is."""
        if not self.parts[k]:
            return np.zeros((0, np.arange(self.n)[rows].size))
        every = isinstance(rows, slice) and rows == slice(None)
        out: Array | None = None
        for left, right in self.parts[k]:
            charged = left[recourses] @ (right if every else right[:, rows])
            out = charged if out is None else np.add(out, charged, out=out)
        assert out is not None
        return out

    def at(self, k: int, places: npt.NDArray[np.int64]) -> Array:
        """What is charged for some rows of every recourse, (q, places)."""
        out = np.zeros(places.shape)
        once, where = np.unique(places, return_inverse=True)
        where = where.reshape(places.shape)
        for left, right in self.parts[k]:
            those = right[:, once]
            for start in range(0, len(places), 64):
                some = slice(start, start + 64)
                out[some] += np.einsum("qm,mqt->qt", left[some], those[:, where[some]])
        return out

    def for_units(
        self, units: Units, budget: int
    ) -> tuple[Array, Callable[[int, Positions, Positions], Array]]:
        """What is hidden of every ``k``, (q, budget + 1), and what single units are charged."""
        hidden = np.full((len(self.hidden), budget + 1), np.inf)
        hidden[:, : self.limit + 1] = self.hidden[:, : self.limit + 1]

        def charged(k: int, recourses: Positions, some: Positions) -> Array:
            found = self.of(k, recourses, units.order[some]) if k <= self.limit else ()
            return np.asarray(found) if len(found) else np.zeros((recourses.size, some.size))

        return hidden, charged

    def set_aside(self, rows: Positions) -> Missed:
        """The same with some rows' parts taken into what is hidden, whoever goes."""
        if not rows.size:
            return self
        hidden = self.hidden.copy()
        for k in range(1, self.limit + 1):
            theirs = self.of(k, slice(None), rows)
            if len(theirs):
                hidden[:, k] += np.sort(np.maximum(theirs, 0.0), axis=1)[:, -k:].sum(axis=1)
        stay = np.ones(self.n)
        stay[rows] = 0.0
        parts = [[(left, right * stay) for left, right in part] for part in self.parts]
        return Missed(self.n, parts, hidden, self.limit, self.outside)

    def useful(self, margins: Array) -> int:
        """The largest ``k`` at which it leaves most recourses some margin to be certified with."""
        some = np.unique(np.linspace(0, margins.size - 1, _SAMPLE).astype(int))
        for k in range(self.limit, 0, -1):
            charges = np.maximum(self.of(k, some), 0.0)
            most = np.partition(charges, -k, axis=1)[:, -k:].sum(axis=1) if len(charges) else 0.0
            if np.median((most + self.hidden[some, k]) / margins[some]) < 0.5:
                return k
        return min(self.limit, 1)


Remainder = Callable[[Boxes], Missed]


@dataclass(frozen=True)
class Asked:
    """What verdicts are asked for.

    Attributes
    ----------
    model : ErasableModel
    points : its recourses
    margins, errors : (q,)
        Score minus target, and what rounding may hide of it.
    units : what one deletion removes
    budget : int
    stay : units that do not go
    quick : whether bounds alone are enough, without trees and refits
    """

    model: ErasableModel
    points: Any
    margins: Array
    errors: Array
    units: Units
    budget: int
    stay: tuple[int, ...] = ()
    quick: bool = False

    def of(self, some: Positions, **changes: Any) -> Asked:
        """The same of some recourses."""
        fewer = {"points": take(self.points, some), "margins": self.margins[some]}
        return replace(self, **{**fewer, "errors": self.errors[some], **changes})


@dataclass
class Verdicts:
    """Per recourse: the deletions it survives, and the fewest known to break it (0: none known)."""

    certified: Positions
    attacked: Positions
    witness: list[tuple[int, ...]]
    bound: Array
    singular: Mask
    limit: int
    #: how many recourses any ``k`` deletions can break together, (budget + 1,), where it is known
    together: Array | None = None
    boxes: Boxes | None = field(default=None, repr=False)
    missed: Missed | None = field(default=None, repr=False)

    @classmethod
    def nothing(cls, q: int) -> Verdicts:
        """Nothing is known yet."""
        zero = np.zeros(q, dtype=np.intp)
        return cls(zero, zero.copy(), [()] * q, np.zeros(q), np.zeros(q, dtype=bool), 0)

    def improve(self, places: Positions, better: Verdicts) -> None:
        """Take over what is known better of some recourses."""
        self.limit = max(self.limit, better.limit)
        for place, j in enumerate(places.tolist()):
            if better.certified[place] >= self.certified[j]:
                self.certified[j], self.bound[j] = better.certified[place], better.bound[place]
                self.singular[j] = better.singular[place]
            known = better.attacked[place]
            if known and (self.attacked[j] == 0 or known <= self.attacked[j]):
                self.attacked[j], self.witness[j] = known, better.witness[place]


class Candidates:
    """For every recourse the rows that can do most to it, and a ceiling for all others."""

    def __init__(self, deletions: Deletions, found: Boxes, missed: Missed, limit: int):
        self.deletions, self.missed = deletions, missed
        self._among: dict[tuple[int, ...], Among] = {}
        n, q = deletions.rows.n, int(np.prod(deletions.shape))
        kept = min(max(KEPT, 2 * limit), n)
        self.values, self.places = np.zeros((q, kept)), np.zeros((q, kept), np.int64)
        self.rest = np.zeros(q)
        low, high = found.low[limit], found.high[limit]
        many = max(1, _TILE // n)

        def find(start: int) -> None:
            rows = slice(start, min(start + many, q))
            candidates(
                deletions.functionals(rows),
                low,
                high,
                missed.of(limit, rows),
                self.values[rows],
                self.places[rows],
                self.rest[rows],
            )

        find.loop = candidates  # type: ignore[attr-defined]
        Threads(cores() if n * q > SMALL else 1).map(find, range(0, q, many))
        self.strangers = self._outside(found, limit)
        self._add_clusters(found)

    def _outside(self, found: Boxes, limit: int) -> Array:
        """What a row outside can do to each recourse as one of ``k``, (q, limit + 1)."""
        outside, q = self.deletions.outside, len(self.values)
        gains = np.zeros((q, limit + 1))
        if outside is None:
            return gains
        lengths = self.deletions.lengths
        for k in range(1, limit + 1):
            gains[:, k] = outside.together(lengths, float(found.partners[k]))
        if np.ndim(self.missed.outside):
            gains += self.missed.outside[:, : limit + 1]
        return gains

    def _add_clusters(self, found: Boxes) -> None:
        """What groups of fragile rows can add to each recourse, (groups, q) for every ``k``."""
        self.cluster_gains: list[Array] = []
        self.cap = np.full(len(self.values), 10**6, dtype=np.intp)
        columns = [self.deletions.columns(cluster.rows) for cluster in found.clusters]
        for cluster, C in zip(found.clusters, columns, strict=True):
            self.cap = np.minimum(self.cap, cluster.first_touch(C, self.deletions.lengths) - 1)
        for k in range(found.limit + 1):
            gains = [c.gains(C, k) for c, C in zip(found.clusters, columns, strict=True)]
            self.cluster_gains.append(np.array(gains).reshape(len(gains), len(self.values)))

    def reach(self, found: Boxes, k: int) -> Array:
        """A bound on what ``k`` deletions can do to each recourse; ∞ where one may be singular."""
        charges = self.missed.at(k, self.places)
        out = np.empty(len(self.values))
        parts = (self.values, self.places, np.maximum(self.rest, self.strangers[:, k]))
        reach(*parts, found.low[k], found.high[k], charges, k, out)
        if found.clusters:  # somebody of a group and k − 1 others, or k others
            fewer = np.zeros(len(out))
            if k > 1:
                reach(*parts, found.low[k], found.high[k], charges, k - 1, fewer)
            out = np.maximum(out, fewer + self.cluster_gains[k].sum(axis=0))
        return np.where(self.cap < k, np.inf, out)

    def among(self, gone: Positions, found: Boxes) -> tuple[Positions, Among | None]:
        """Rows that may go, outside of all groups, and what they can do without some others."""
        given = self.deletions
        able = given.deletable.copy()
        for cluster in found.clusters:
            able[cluster.rows] = False
        rows = np.flatnonzero(able)
        if given.row_lengths is None or given.outside is not None:  # rows that are no vectors here
            return rows, None
        key = tuple(gone.tolist())
        if key not in self._among:
            if len(self._among) >= _POINTS:
                self._among.clear()
            self._among[key] = Among(cast(LowRankDeletions, given), gone, rows)
        return rows, self._among[key]

    def others(self, j: int, k: int, whole: bool) -> float:
        """What a row can do to one recourse that is not on its list; ``whole``: all rows are."""
        outside = float(self.strangers[j, k])
        return outside if whole else max(outside, float(self.rest[j]))

"""Which rows do most, each alone, found in one pass over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np

from holdfast.algebra.box_loops import sift
from holdfast.algebra.rows import Array, Positions
from holdfast.models.passes import Batch, Linearised, RowSource

_compiled: Any = nb.njit(cache=True, nogil=True, error_model="numpy")


@dataclass(frozen=True)
class Screened:
    """The rows that do most, by any way of looking at them.

    Attributes
    ----------
    names : their numbers, in order
    ceilings : (q,) the most any other row does alone to each recourse
    sums : (ways,) the most any other row does to sums of recourses
    first : the row that breaks most: of several the one that takes most from margins, and the
        first
    """

    names: Positions
    ceilings: Array
    sums: Array
    first: tuple[int, int]


@dataclass(frozen=True)
class Screening:
    """The work of finding the rows that do most, each alone.

    Attributes
    ----------
    linearised : Linearised
    theta, whitening : as in :class:`Gathering`
    queries : (q, rank) ``W``
    slack : (q,) margins that are left
    ways : (q, ways) sums of recourses by which rows are ranked too
    each : rows kept for every recourse, at most
    most : rows kept for all recourses together
    leaders : rows kept by every other way
    gone : rows that went before
    """

    linearised: Linearised
    theta: Array
    whitening: Array
    queries: Array
    slack: Array
    ways: Array
    each: int
    most: int
    leaders: int
    gone: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def over(self, source: RowSource, stage: str) -> Screened:
        """One pass."""
        return self.folded(source.each(self, stage))

    def folded(self, parts: Iterable[Any]) -> Screened:
        """What was found in every block, as one."""
        q, ways = self.ways.shape
        keys, places = np.full((q, self.each), -np.inf), np.full((q, self.each), -1)
        best: list[tuple[Array, Positions]] = []
        for part in parts:
            if part is None:
                continue
            _merge(keys, places, part[0], part[1])
            best = (
                part[2]
                if not best
                else [
                    _first(np.append(old[0], new[0]), np.append(old[1], new[1]), self.leaders)
                    for old, new in zip(best, part[2], strict=True)
                ]
            )
        names, ceilings = _few(keys, places, self.most)
        names = np.unique(np.concatenate([names, *(found[1] for found in best)]))
        full = [
            float(found[0].min()) if len(found[0]) == self.leaders else -np.inf for found in best
        ]
        leaders = [int(found[1][np.lexsort((found[1], -found[0]))[0]]) for found in best[:2]]
        return Screened(names, ceilings, np.array(full[-ways:]), (leaders[0], leaders[1]))

    def __call__(self, batches: Iterable[Batch]) -> Any:
        q = len(self.ways)
        right = np.ascontiguousarray(self.queries.T)
        sums = right @ self.ways
        keys, places = np.full((q, self.each), -np.inf), np.full((q, self.each), -1)
        found: list[tuple[Array, Positions]] = []
        for batch in batches:
            root, b = self.linearised(batch)
            a = batch.phi * root[:, None]
            U, r = a @ self.whitening, b - a @ self.theta
            leverage = np.einsum("ij,ij->i", U, U)
            U *= (r / np.maximum(1.0 - leverage, 1e-12))[:, None]
            value, tie = np.empty(len(b)), np.empty(len(b))
            rows = max(1, (1 << 18) // q)
            for at in range(0, len(b), rows):
                some = slice(at, at + rows)
                first = batch.first + at
                look(U[some] @ right, self.slack, first, keys, places, value[some], tie[some])
            steps = np.sqrt(np.einsum("ij,ij->i", U, U))
            both = value + _share(tie / max(float(self.slack.sum()), 1e-300))
            by = [both, value, steps, leverage, *(U @ sums).T]
            numbers = np.arange(batch.first, batch.first + len(b))
            there = ~np.isin(numbers, self.gone)
            if batch.weights is not None:  # rows that are there no more cannot go
                there &= batch.weights > 0
            if not there.all():
                by, numbers = [each[there] for each in by], numbers[there]
            before = found or [(each[:0], numbers[:0]) for each in by]
            found = [
                _first(np.append(old[0], each), np.append(old[1], numbers), self.leaders)
                for old, each in zip(before, by, strict=True)
            ]
        return (keys, places, found) if found else None


@dataclass(frozen=True)
class Several:
    """Several works in one pass."""

    works: Sequence[Any]

    def __call__(self, batches: Iterable[Batch]) -> list[Any]:
        here = list(batches)
        return [work(here) for work in self.works]


def _share(tie: Array) -> Array:
    """Ties as a part of one."""
    return 0.5 + np.arctan(tie) / np.pi


def _first(values: Array, names: Positions, many: int) -> tuple[Array, Positions]:
    """The largest values, and whose they are; of equals those with the lowest numbers."""
    if len(values) <= many:
        return values, names
    order = np.lexsort((names, -values))[:many]
    return values[order], names[order]


def _merge(keys: Array, places: Any, others: Array, theirs: Any) -> None:
    """Take over what is larger, line by line."""
    both, names = np.hstack([keys, others]), np.hstack([places, theirs])
    each = keys.shape[1]
    order = np.argpartition(-both, each - 1, axis=1)[:, :each]
    keys[:] = np.take_along_axis(both, order, axis=1)
    places[:] = np.take_along_axis(names, order, axis=1)


def _few(keys: Array, places: Any, most: int) -> tuple[Positions, Array]:
    """As many rows for every recourse as make no more than so many; and what the next one does."""
    each = keys.shape[1]
    order = np.argsort(-keys, axis=1, kind="stable")
    keys, places = (
        np.take_along_axis(keys, order, axis=1),
        np.take_along_axis(places, order, axis=1),
    )
    while True:
        names = np.unique(places[:, :each])
        if len(names) <= most or each == 1:
            break
        each = max(1, each // 2)
    least = keys[:, each - 1]
    return names[names >= 0], np.where(np.isfinite(least), least, -np.inf)


@_compiled
def look(
    effects: Array, slack: Array, first: int, keys: Array, places: Any, value: Array, tie: Array
) -> None:
    """Count what every row breaks and takes, and keep for each recourse those that do most.

    ``keys`` and ``places`` (q, each) are heaps: the least comes first.
    """
    rows, q = effects.shape
    for i in range(rows):
        broken, taken = 0.0, 0.0
        for j in range(q):
            e = effects[i, j]
            broken += e > slack[j]
            taken += min(e, slack[j])
        value[i], tie[i] = broken, taken
        for j in range(q):
            if effects[i, j] > keys[j, 0]:
                keys[j, 0] = effects[i, j]
                places[j, 0] = first + i
                sift(keys[j], places[j], 0, keys.shape[1])

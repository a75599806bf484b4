"""Where a tree stands: a model without some units, and what bounds what others can do there."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy import linalg

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.models.optima import Optima, Optimum
from holdfast.proofs.remainder import Ladder
from holdfast.proofs.sets import Pool, Sets, rows_of

#: leverages that are light together: heavier sets are bounded apart
LIGHT = 0.2


class Point(Protocol):
    """The model without some units."""

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        """Some units as candidates, and their rows."""

    def functionals(self, some: Positions, rows: Positions) -> Array:
        """``c`` of some recourses, (recourses, rows)."""

    def drops(self) -> Array:
        """What those that are gone took off the scores, (q,)."""

    def ladders(self, units: Positions, k: int) -> list[tuple[Ladder, float]] | None:
        """What bounds the remainder of a Newton step; ``None`` where there is no remainder.

        Each ladder speaks of sets with more leverage than so much, or at most (negative) so much.
        There are none where there are no boxes.
        """


class Points(Protocol):
    """All of them."""

    def without(self, gone: tuple[int, ...]) -> Point:
        """The point without some units."""

    def drops(self, gone: tuple[int, ...]) -> Array:
        """What some units take off the scores, (q,); an error where there is no such model."""


class LinearPoints:
    """Points of least squares, where one step is the refit."""

    def __init__(self, deletions: LowRankDeletions, order: Positions, starts: Positions):
        self.deletions, self._order, self._starts = deletions, order, starts

    def rows(self, gone: tuple[int, ...]) -> Positions:
        """Rows of some units."""
        return self._order[rows_of(self._starts, np.array(gone, dtype=np.intp))[0]]

    def _change(self, gone: tuple[int, ...]) -> tuple[Positions, Array]:
        rows = self.rows(gone)
        U = self.deletions.factor[rows]
        block = np.eye(len(rows)) - U @ U.T
        if rows.size and np.linalg.eigvalsh(block)[0] <= self.deletions.floor:
            raise ValueError("there is no unique fit without these rows")
        return rows, U.T @ np.linalg.solve(block, self.deletions.residuals[rows])

    def drops(self, gone: tuple[int, ...]) -> Array:
        return np.asarray(self.deletions.queries @ self._change(gone)[1])

    def without(self, gone: tuple[int, ...]) -> LinearPoint:
        rows, change = self._change(gone)
        given = self.deletions
        U = given.factor
        root = linalg.cholesky(np.eye(U.shape[1]) - U[rows].T @ U[rows], lower=True)
        fresh, queries = (
            linalg.solve_triangular(root, part.T, lower=True).T for part in (U, given.queries)
        )
        residuals = given.residuals + U @ change
        drops = given.queries @ change
        return LinearPoint(fresh, residuals, queries, drops, self._order, self._starts)


class LinearPoint:
    """Least squares without some units."""

    def __init__(
        self,
        U: Array,
        residuals: Array,
        queries: Array,
        drops: Array,
        order: Positions,
        starts: Positions,
    ):
        self._U, self._residuals, self._queries = U, residuals, queries
        self._drops, self._order, self._starts = drops, order, starts

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        places, starts = rows_of(self._starts, units)
        rows = self._order[places]
        return Pool(self._U[rows], self._residuals[rows], starts), rows

    def functionals(self, some: Positions, rows: Positions) -> Array:
        found: Array = self._queries[some] @ self._U[rows].T
        return found

    def drops(self) -> Array:
        return self._drops

    def ladders(self, units: Positions, k: int) -> None:
        return None


class SmoothPoints:
    """Points of a smooth training problem."""

    def __init__(self, optima: Optima, queries: Array, order: Positions, starts: Positions):
        self._optima, self._queries = optima, queries
        self._order, self._starts = order, starts

    def rows(self, gone: tuple[int, ...]) -> Positions:
        """Rows of some units."""
        return self._order[rows_of(self._starts, np.array(gone, dtype=np.intp))[0]]

    def drops(self, gone: tuple[int, ...]) -> Array:
        found: Array = -(self._queries @ self._optima.change(self.rows(gone)))
        return found

    def without(self, gone: tuple[int, ...]) -> SmoothPoint:
        at = self._optima.without(self.rows(gone))
        return SmoothPoint(at, self._queries, self._order, self._starts)


class SmoothPoint:
    """The optimum of a smooth training problem without some units."""

    def __init__(self, at: Optimum, queries: Array, order: Positions, starts: Positions):
        self.at, self._order, self._starts = at, order, starts
        self._queries, self._raw = at.whiten(queries), queries

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        places, starts = rows_of(self._starts, units)
        rows = self._order[places]
        return Pool(self.at.U[rows], self.at.residuals[rows], starts), rows

    def functionals(self, some: Positions, rows: Positions) -> Array:
        found: Array = self._queries[some] @ self.at.U[rows].T
        return found

    def drops(self) -> Array:
        return self.at.drops(self._raw)

    def ladders(self, units: Positions, k: int) -> list[tuple[Ladder, float]] | None:
        pool, rows = self.pool(units)
        sets = Sets(pool, k)
        if not sets.fine:
            return []
        heaviest = pool.spread(k)
        sizes = np.sort(np.diff(pool.starts))[::-1]
        shifts = self.at.shifts(int(sizes[:k].sum()))

        def ladder(h: float) -> Ladder:
            return Ladder(self.at, sets, rows, self._queries, h, shifts)

        if heaviest <= LIGHT:
            return [(ladder(heaviest), 0.0)]
        return [(ladder(LIGHT), -LIGHT), (ladder(heaviest), LIGHT)]

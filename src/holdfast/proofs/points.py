"""Where a tree stands: a model without some units, and what bounds what others can do there."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.models.optima import Optima, Optimum
from holdfast.proofs.levels import Edge
from holdfast.proofs.remainder import Ladder
from holdfast.proofs.sets import Pool, Sets, rows_of

#: leverages that are light together: heavier sets are bounded apart
LIGHT = 0.2

#: what is left of a direction when all that determines it is gone, at most
_SINGULAR = 1e-9


class Point(Protocol):
    """The model without some units."""

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        """Some units as candidates, and their rows."""

    def functionals(self, some: Positions, rows: Positions) -> Array:
        """``c`` of some recourses, (recourses, rows)."""

    def score(self, j: int) -> Array:
        """A recourse's score as a functional of whitened parameters, (p,)."""

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

    def edge(self, gone: tuple[int, ...], j: int, drop: float) -> Edge | None:
        """A recourse without some units where its score is so much lower, if there is such a place.

        ``None`` too where it says no more than a step.
        """


class LinearPoints:
    """Points of least squares, where one step is the refit."""

    def __init__(self, deletions: LowRankDeletions, order: Positions, starts: Positions):
        self.deletions, self._order, self._starts = deletions, order, starts

    def rows(self, gone: tuple[int, ...]) -> Positions:
        """Rows of some units."""
        return self._order[rows_of(self._starts, np.array(gone, dtype=np.intp))[0]]

    def _change(self, gone: tuple[int, ...]) -> tuple[Array, Array]:
        """How the parameters change, and what they do to the scores.

        Rows that alone determine a direction have no residual there: it is left out, and what
        has a part in it has no score any more (NaN).
        """
        given, rows = self.deletions, self.rows(gone)
        U = given.factor[rows]
        values, vectors = np.linalg.eigh(np.eye(len(rows)) - U @ U.T)
        fine = values > max(given.floor, _SINGULAR)
        steps = (vectors[:, fine] / values[fine]) @ (vectors[:, fine].T @ given.residuals[rows])
        change = U.T @ steps
        drops = given.queries @ change
        if not fine.all():
            touched = np.abs(given.queries @ (U.T @ vectors[:, ~fine]))
            drops[np.any(touched > 1e-7 * given.lengths[:, None], axis=1)] = np.nan
        return change, drops

    def drops(self, gone: tuple[int, ...]) -> Array:
        return self._change(gone)[1]

    def without(self, gone: tuple[int, ...]) -> LinearPoint:
        change, drops = self._change(gone)
        given = self.deletions
        U, left = given.factor, given.factor[self.rows(gone)]
        values, vectors = np.linalg.eigh(np.eye(U.shape[1]) - left.T @ left)
        fine = values > _SINGULAR
        whiten = vectors[:, fine] * values[fine] ** -0.5
        residuals = given.residuals + U @ change
        queries = given.queries @ whiten
        return LinearPoint(U @ whiten, residuals, queries, drops, self._order, self._starts)

    def edge(self, gone: tuple[int, ...], j: int, drop: float) -> None:
        return None


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

    def score(self, j: int) -> Array:
        found: Array = self._queries[j]
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

    def edge(self, gone: tuple[int, ...], j: int, drop: float) -> Edge | None:
        if not self._optima.penalised:  # deletions might leave no unique optimum
            return None
        query = self._queries[j]
        try:
            at = self._optima.at_drop(self.rows(gone), query, drop)
        except (ArithmeticError, np.linalg.LinAlgError):
            return None
        return Edge(at, query, self._order, self._starts)


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

    def score(self, j: int) -> Array:
        found: Array = self._queries[j]
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

"""Refits without some rows from the sums of a table in files, or by passes over it.

With a pass, nothing is taken off: the rows that no set has are summed up anew, and the others added
back for every set that leaves them. Without one, the rows are taken off the sums that are kept, in
coordinates in which those are the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from holdfast.algebra.deletions import FLOOR
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.models.passes import Gathered, Sloping, folded
from holdfast.models.recipe import Recipe

#: passes by which refits of a smooth loss come to rest, at most; and with one Hessian for all
_STEPS, _CHORDS = 40, 5

#: scores stand still when a step moves none by more
_STANDSTILL = 1e-9


class BySums:
    """Parameters without some rows.

    Parameters
    ----------
    model : ScannedModel
    gathered : Gathered
        The rows of all sets; and, after a pass, the triangle of all others.
    """

    def __init__(self, model: Any, gathered: Gathered):
        self.model, self.gathered = model, gathered

    @cached_property
    def _as_it_is(self) -> Array:
        recipe = self.model.recipe
        return np.eye(recipe.width + recipe.gaps.size, recipe.width)

    def down_dated(self, at: Positions, B: Array) -> Array:
        """Least squares: the rows taken off the sums, in coordinates in which those are 1."""
        triangle, width = self.model.triangle, self.model.recipe.width
        root = np.sqrt(self.model.problem.penalty(width))
        stacked = np.vstack(
            [
                np.column_stack([triangle[:, :-1] @ B, triangle[:, -1]]),
                np.column_stack([np.diag(root), np.zeros(width)]),
            ]
        )
        whole = linalg.qr(stacked, mode="r", check_finite=False)[0]
        R, t = whole[:width, :width], whole[:width, -1]
        if np.abs(np.diag(R)).min() < 1e-9 * np.abs(np.diag(R)).max():  # columns say the same
            return self._least_norm(stacked, at, B)
        rows = np.hstack([self.gathered.phi[at], self.gathered.gaps[at]]) @ B
        U = linalg.solve_triangular(R, rows.T, trans="T").T
        left = np.eye(width) - U.T @ U
        if linalg.eigvalsh(left)[0] < FLOOR:  # some of them alone determine a direction
            return self._least_norm(stacked, at, B)
        found = linalg.solve(left, t - U.T @ self.gathered.y[at], assume_a="pos")
        theta: Array = linalg.solve_triangular(R, found)
        return theta

    def _least_norm(self, stacked: Array, at: Positions, B: Array) -> Array:
        """The same where several solutions are as good: that of least norm."""
        rows = np.hstack([self.gathered.phi[at], self.gathered.gaps[at]]) @ B
        gram = stacked[:, :-1].T @ stacked[:, :-1] - rows.T @ rows
        right = stacked[:, :-1].T @ stacked[:, -1] - rows.T @ self.gathered.y[at]
        theta: Array = linalg.lstsq(gram, right, cond=1e-11)[0]
        return theta

    def added_back(self, at: Positions, B: Array) -> Array:
        """Least squares: the rows that stay added to the sums of those no set has."""
        width = self.model.recipe.width
        stay = np.delete(np.arange(len(self.gathered.y)), at)
        rows = np.hstack([self.gathered.phi[stay], self.gathered.gaps[stay]])
        triangle = self.gathered.triangle
        root = np.sqrt(self.model.problem.penalty(width))
        a = np.vstack([triangle[:, :-1] @ B, rows @ B, np.diag(root)])
        b = np.concatenate([triangle[:, -1], self.gathered.y[stay], np.zeros(width)])
        theta: Array = linalg.lstsq(a, b, cond=1e-13, lapack_driver="gelsd")[0]
        return theta

    def newton(
        self,
        places: list[Positions],
        new: list[tuple[Recipe, Array]],
        look: bool,
    ) -> list[Array]:
        """A smooth loss: steps with the Hessian of all rows less those that go."""
        width, loss = self.model.recipe.width, self.model.problem.loss
        hessian = self.model.triangle[:, :-1].T @ self.model.triangle[:, :-1]
        thetas, factors, wides = [], [], []
        for at, (recipe, B) in zip(places, new, strict=True):
            rows = self.model.rows_of(self.gathered, at)
            penalty = self.model.problem.penalty(width, recipe.rows)
            left = B.T @ (hessian - rows[:, :-1].T @ rows[:, :-1]) @ B
            left[np.diag_indices_from(left)] += penalty
            factors.append((_inverse(left), penalty))
            wide = np.hstack([self.gathered.phi[at], self.gathered.gaps[at]])
            wides.append(wide)
            # where the old weights are in the new units, then one step by the sums
            theta = np.linalg.lstsq(B, self._as_it_is @ self.model.theta, rcond=None)[0]
            slopes = wide.T @ loss.slopes(wide @ (B @ theta), self.gathered.y[at])
            moved = hessian @ (B @ theta - self._as_it_is @ self.model.theta)
            own = -self._as_it_is @ (
                self.model.problem.penalty(width, self.model.many) * self.model.theta
            )
            gradient = B.T @ (own + moved - slopes) + penalty * theta
            thetas.append(theta - factors[-1][0](gradient))
        if not look:
            return thetas
        for turn in range(_STEPS):
            stacked = np.column_stack([B @ t for (_, B), t in zip(new, thetas, strict=True)])
            work = Sloping(loss, stacked, curved=turn >= _CHORDS)
            slopes, curves = work.over(self.model.source(), "refits")
            moved_most = 0.0
            for k, (_, B) in enumerate(new):
                wide, (factor, penalty) = wides[k], factors[k]
                y, z = self.gathered.y[places[k]], wide @ stacked[:, k]
                gradient = B.T @ (slopes[:, k] - wide.T @ loss.slopes(z, y)) + penalty * thetas[k]
                if work.curved:  # too far for one Hessian
                    own = (wide * loss.curvatures(z, y)[:, None]).T @ wide
                    factor = _inverse(B.T @ (curves[k] - own) @ B + np.diag(penalty))
                step = factor(gradient)
                thetas[k] = thetas[k] - step
                size = float(np.abs(self.model.triangle[:, :-1] @ (B @ step)).max())
                moved_most = max(moved_most, size / np.sqrt(self.model.many))
            if moved_most <= _STANDSTILL:
                return thetas
        raise HoldfastError("a refit without some rows does not come to rest")


def _inverse(matrix: Array) -> Callable[[Array], Array]:
    """Solves with a symmetric matrix; of least norm where it is singular."""
    try:
        factor = linalg.cho_factor(matrix)
        if np.abs(np.diag(factor[0])).min() > 1e-7 * np.abs(np.diag(factor[0])).max():
            return lambda right: np.asarray(linalg.cho_solve(factor, right))
    except linalg.LinAlgError:
        pass
    inverse = np.linalg.pinv(matrix, rcond=1e-12, hermitian=True)
    return lambda right: np.asarray(inverse @ right)


def taken_off(triangle: Array, rows: Array) -> Array | None:
    """A triangle without some of its rows; ``None`` where digits would be lost."""
    size = np.abs(np.diag(triangle))
    if size.min() < 1e-7 * size.max():
        return None
    U = linalg.solve_triangular(triangle, rows.T, trans="T").T
    values, vectors = linalg.eigh(np.eye(len(triangle)) - U.T @ U)
    if values[0] < 1e-3:
        return None
    return folded([(vectors * np.sqrt(values)) @ vectors.T @ triangle])

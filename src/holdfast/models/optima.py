r"""Optima of one training problem without some of its rows, for bounds on what others can do there.

Features are in the coordinates in which the Hessian of the whole problem is the identity
(:class:`holdfast.algebra.design.Design`). An :class:`Optimum` goes on from there: its own Hessian
is the identity again, ``a_i`` are the rows, ``u_i = √v_i a_i``, ``r`` the residuals of
:mod:`holdfast.models.smooth`. Scales, averages and balanced class weights are those of the rows
that are left; how they move further is said by :mod:`holdfast.models.shifts`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy import linalg

from holdfast.algebra.design import features
from holdfast.algebra.rows import Array, Positions
from holdfast.models.losses import Loss
from holdfast.models.scales import Scales
from holdfast.models.shifts import Shifts, shifts_at
from holdfast.models.smooth import SmoothLinearCore

#: numbers kept of optima for when they are asked for again, and how many optima at least
_KEPT, _FEWEST = 4e7, 8

#: steps to an optimum on a hyperplane at most, and when it stands still
_STEPS, _STILL = 30, 1e-11

#: outward rounding of what a loss says of a score
_OUT = 1e-12

#: sets of weights from which it pays to have the products of coordinates
_MANY = 16


class Optima:
    """Optima of a training problem without some rows.

    Parameters
    ----------
    core : SmoothLinearCore
    scales : Scales, optional
        Of the preprocessing, where it is refitted with the model.
    """

    def __init__(self, core: SmoothLinearCore, scales: Scales | None = None):
        self.core, self.loss, self.y = core, core.loss, core.labels
        self.scales = scales
        self.rows: Array = core.design.whiten(core.training_features)
        self._known: dict[tuple[int, ...], Optimum] = {}
        self._changes: dict[tuple[int, ...], Array] = {}
        self._paired: tuple[Optimum, Array] | None = None

    @property
    def penalised(self) -> bool:
        """Whether there is one optimum whoever goes."""
        return self.core.penalised

    def queries(self, Z: Array) -> Array:
        """Points in the coordinates of the whole problem."""
        return self.core.design.whiten(features(Z, self.core.centre))

    def factors(self, gone: Positions) -> Array | None:
        """What the penalties are multiplied by without some rows."""
        if self.scales is None or not gone.size:
            return None
        found: Array = self.scales.factors([gone])[0]
        return found

    def change(self, gone: Positions) -> Array:
        """Where the optimum without some rows lies, from that of all rows."""
        key = tuple(np.sort(gone).tolist())
        if key not in self._changes:
            rows = np.array(key, dtype=np.intp)
            theta = self.core.optimum_without(rows, self.factors(rows)) if key else self.core.theta
            self._changes[key] = self.core.design.coordinates(theta - self.core.theta)
        return self._changes[key]

    def at_drop(self, gone: Positions, query: Array, drop: float) -> Optimum:
        """The optimum without some rows among the parameters that lower a score by so much.

        Newton's method on that hyperplane; ``query`` is one of :meth:`queries`.
        """
        core, rows = self.core, self.rows
        posed = core.posed_without(gone, self.factors(gone))
        weights, penalty, linear = posed
        T = core.design.T
        stiff, last = (T.T * penalty) @ T, np.inf
        change = self.change(gone)
        for _ in range(_STEPS):
            theta = core.theta + core.design.parameters(change)
            z = core.training_features @ theta
            slopes = rows.T @ (weights * self.loss.slopes(z, self.y))
            slopes += T.T @ (penalty * theta + linear)
            root = np.sqrt(weights * self.loss.curvatures(z, self.y))[:, None] * rows
            factored = linalg.cho_factor(root.T @ root + stiff, check_finite=False)
            down, across = linalg.cho_solve(factored, np.column_stack([slopes, query])).T
            pull = (-drop - query @ change + query @ down) / (query @ across)
            step = pull * across - down
            change = change + step
            size = float(np.linalg.norm(step))
            if size <= _STILL * (1.0 + float(np.linalg.norm(change))):
                return Optimum(self, gone, change)
            if not size < 4.0 * last:
                break
            last = min(last, size)
        raise ArithmeticError("no optimum was found where the score is that low")

    def pairs(self, at: Optimum) -> Array:
        """Products of two coordinates of every row, (n, p(p + 1)/2); of one optimum at a time."""
        if self._paired is None or self._paired[0] is not at:
            one, other = np.triu_indices(at.A.shape[1])
            self._paired = at, at.A[:, one] * at.A[:, other]
        return self._paired[1]

    def without(self, gone: Positions) -> Optimum:
        """The optimum without some rows."""
        key = tuple(np.sort(gone).tolist())
        if key not in self._known:
            if len(self._known) >= max(_KEPT / (2 * self.rows.size), _FEWEST):
                self._known.pop(next(iter(self._known)))
            self._known[key] = Optimum(self, np.array(key, dtype=np.intp))
        return self._known[key]


class Optimum:
    """A training problem without some rows: at its optimum, or at ``change`` from that of all.

    Attributes
    ----------
    theta, penalty, linear : parameters and penalties
    change : (p,) where it lies, from the optimum of all rows
    weights, v, z : (n,) weights, curvatures and scores; 0 weight for rows that are gone
    A, U : (n, p) rows ``a_i`` and ``u_i = √v_i a_i``, where the Hessian is the identity
    residuals, errors : (n,) ``r`` and ``e = r√v``
    lengths : (n,) ``‖a_i‖``
    directions : (features, p) of the parameters
    """

    def __init__(self, optima: Optima, gone: Positions, change: Array | None = None):
        core, self.gone = optima.core, gone
        self._optima = optima
        self.loss: Loss = optima.loss
        self.y = optima.y
        self.change = optima.change(gone) if change is None else change
        self.theta = core.theta + core.design.parameters(self.change)
        posed = core.posed_without(gone, optima.factors(gone))
        self.weights, self.penalty, self.linear = posed
        self.z: Array = core.training_features @ self.theta
        self.v: Array = self.weights * self.loss.curvatures(self.z, self.y)
        T = core.design.T
        hessian = (optima.rows * self.v[:, None]).T @ optima.rows + (T.T * self.penalty) @ T
        root = linalg.cholesky(hessian, lower=True)
        self._inverse = linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        self.A: Array = optima.rows @ self._inverse.T
        halves, residuals = self.loss.whitened(self.z, self.y)
        outer = np.sqrt(self.weights)
        self.U: Array = (outer * halves)[:, None] * self.A
        self.residuals: Array = outer * residuals
        self.errors: Array = -self.weights * self.loss.slopes(self.z, self.y)
        self.lengths: Array = np.sqrt(np.einsum("ij,ij->i", self.A, self.A))

    @cached_property
    def directions(self) -> Array:
        found: Array = self._optima.core.design.T @ self._inverse.T
        return found

    @cached_property
    def slopes(self) -> Array:
        """The gradient of the problem, (p,); 0 at its optimum."""
        pull = self.penalty * self.theta + self.linear
        found: Array = self.directions.T @ pull - self.errors @ self.A
        return found

    def whiten(self, queries: Array) -> Array:
        """Queries of :meth:`Optima.queries` where this Hessian is the identity."""
        found: Array = queries @ self._inverse.T
        return found

    def drops(self, queries: Array) -> Array:
        """What the rows that are gone took off the scores."""
        found: Array = -(queries @ self.change)
        return found

    @cached_property
    def _shifts(self) -> dict[int, Shifts | None]:
        return {}

    def shifts(self, most: int) -> Shifts | None:
        """What else changes when at most so many rows go; ``None`` where nothing bounds it."""
        if most not in self._shifts:
            optima = self._optima
            self._shifts[most] = shifts_at(optima.core, optima.scales, self, self.gone, most)
        return self._shifts[most]

    def largest(self, weights: Array) -> float:
        """The largest eigenvalue of ``Σ w_i a_i a_iᵀ``, not below 0."""
        if weights.min() >= 0:  # as a square, of which BLAS makes half
            root = self.A * np.sqrt(weights)[:, None]
            matrix = root.T @ root
        else:
            matrix = (self.A * weights[:, None]).T @ self.A
        last = len(matrix) - 1
        found = linalg.eigvalsh(matrix, subset_by_index=[last, last], check_finite=False)[0]
        return max(float(found), 0.0) * (1.0 + 1e-9)

    def secants(self, moves: Array) -> tuple[Array, Array]:
        """How far curvatures may fall and rise on the way, (n,) each."""
        low, high = self.loss.secants(self.z, self.y, moves)
        fall, rise = self.v - self.weights * low, self.weights * high - self.v
        return np.maximum(fall, 0.0), np.maximum(rise, 0.0)

    def pulls(self, moves: Array) -> tuple[Array, Array]:
        """Between what ``e`` lies when scores move by at most so much, (n,) each."""
        low = -self.weights * self.loss.slopes(self.z + moves, self.y)
        high = -self.weights * self.loss.slopes(self.z - moves, self.y)
        return low - _OUT * np.abs(low), high + _OUT * np.abs(high)

    def bends(self, moves: Array) -> tuple[Array, Array]:
        """Bounds on how they change, per unit of a move."""
        low, high = self.loss.bends(self.z, self.y, moves)
        return self.weights * low, self.weights * high

    def largest_of_each(self, weights: Callable[[slice], Array], count: int) -> Array:
        """:meth:`largest` for many sets of weights, given a few sets (m, n) at a time."""
        if count < _MANY:
            return np.array([self.largest(w) for w in weights(slice(0, count))])
        p = self.A.shape[1]
        one, other = np.triu_indices(p)
        out = np.empty(count)
        many = max(1, (1 << 22) // len(self.A))
        for start in range(0, count, many):
            some = slice(start, min(start + many, count))
            upper = weights(some) @ self._optima.pairs(self)
            matrices = np.zeros((len(upper), p, p))
            matrices[:, one, other] = upper
            matrices[:, other, one] = upper
            out[some] = np.linalg.eigvalsh(matrices)[:, -1]
        return np.maximum(out, 0.0) * (1.0 + 1e-9)

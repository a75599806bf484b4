r"""Optima of one training problem without some of its rows, for bounds on what others can do there.

Features are in the coordinates in which the Hessian of the whole problem is the identity
(:class:`holdfast.algebra.design.Design`). An :class:`Optimum` goes on from there: its own Hessian is
the identity again, ``a_i`` are the rows, ``u_i = √v_i a_i``, ``r`` the residuals of
:mod:`holdfast.models.smooth`.

Some problems change with the *number* of rows left: averages, balanced class weights. A problem is
therefore posed for so many rows of either class gone, whichever they are; deleting that many from
it is then a plain deletion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy import linalg

from holdfast.algebra.design import features
from holdfast.algebra.rows import Array, Positions
from holdfast.models.losses import Loss
from holdfast.models.smooth import SmoothLinearCore

#: optima kept for when they are asked for again
_KEPT = 256

#: sets of weights from which it pays to have the products of coordinates
_MANY = 16


class Optima:
    """Optima of a training problem without some rows.

    Parameters
    ----------
    core : SmoothLinearCore
    gone : pair of ints, optional
        The rows of either class that will be gone: what the problem is posed for.
    """

    def __init__(self, core: SmoothLinearCore, gone: tuple[int, int] = (0, 0)):
        self.core, self.loss, self.y = core, core.loss, core.labels
        self.rows: Array = core.design.whiten(core.training_features)
        self._moved = any(gone) and core.changes_with_counts
        self.weights, self.penalty, self.linear = core.posed_for(gone)
        T = core.design.T
        self.ridge: Array = (T.T * self.penalty) @ T
        self._known: dict[tuple[int, ...], Optimum] = {}
        self._start = core.theta
        if self._moved:
            self._start = self._solved(np.zeros(0, dtype=np.intp))

    def queries(self, Z: Array) -> Array:
        """Points in the coordinates of the whole problem."""
        return self.core.design.whiten(features(Z, self.core.centre))

    def _solved(self, gone: Positions) -> Array:
        if not self._moved:
            return self.core.optimum_without(gone) if gone.size else self.core.theta
        weights = self.weights.copy()
        weights[gone] = 0.0
        return self.core.optimum_for(self._start, weights, self.penalty, self.linear)

    def without(self, gone: Positions) -> Optimum:
        """The optimum without some rows."""
        key = tuple(np.sort(gone).tolist())
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[key] = Optimum(self, np.array(key, dtype=np.intp), self._solved(gone))
        return self._known[key]


class Optimum:
    """A training problem at its optimum without some rows.

    Attributes
    ----------
    change : (p,) where it lies, from the optimum of all rows
    weights, v, z : (n,) weights, curvatures and scores; 0 weight for rows that are gone
    A, U : (n, p) rows ``a_i`` and ``u_i = √v_i a_i``, where the Hessian is the identity
    residuals : (n,) ``r``
    lengths : (n,) ``‖a_i‖``
    """

    def __init__(self, optima: Optima, gone: Positions, theta: Array):
        core = optima.core
        self.loss: Loss = optima.loss
        self.y = optima.y
        self.change = core.design.coordinates(theta - core.theta)
        self.z: Array = core.training_features @ theta
        self.weights = optima.weights.copy()
        self.weights[gone] = 0.0
        self.v: Array = self.weights * self.loss.curvatures(self.z, self.y)
        hessian = (optima.rows * self.v[:, None]).T @ optima.rows + optima.ridge
        root = linalg.cholesky(hessian, lower=True)
        self._inverse = linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        self.A: Array = optima.rows @ self._inverse.T
        halves, residuals = self.loss.whitened(self.z, self.y)
        outer = np.sqrt(self.weights)
        self.U: Array = (outer * halves)[:, None] * self.A
        self.residuals: Array = outer * residuals
        self.lengths: Array = np.sqrt(np.einsum("ij,ij->i", self.A, self.A))

    def whiten(self, queries: Array) -> Array:
        """Queries of :meth:`Optima.queries` where this Hessian is the identity."""
        found: Array = queries @ self._inverse.T
        return found

    def drops(self, queries: Array) -> Array:
        """What the rows that are gone took off the scores."""
        found: Array = -(queries @ self.change)
        return found

    def largest(self, weights: Array) -> float:
        """The largest eigenvalue of ``Σ w_i a_i a_iᵀ``, not below 0."""
        matrix = (self.A * weights[:, None]).T @ self.A
        last = len(matrix) - 1
        found = linalg.eigvalsh(matrix, subset_by_index=[last, last])[0]
        return max(float(found), 0.0) * (1.0 + 1e-9)

    def secants(self, moves: Array) -> tuple[Array, Array]:
        """How far curvatures may fall and rise on the way, (n,) each."""
        low, high = self.loss.secants(self.z, self.y, moves)
        fall, rise = self.v - self.weights * low, self.weights * high - self.v
        return np.maximum(fall, 0.0), np.maximum(rise, 0.0)

    def bends(self, moves: Array) -> tuple[Array, Array]:
        """Bounds on how they change, per unit of a move."""
        low, high = self.loss.bends(self.z, self.y, moves)
        return self.weights * low, self.weights * high

    @cached_property
    def _pairs(self) -> Array:
        """Products of two coordinates of every row, (n, p(p + 1)/2)."""
        one, other = np.triu_indices(self.A.shape[1])
        return self.A[:, one] * self.A[:, other]

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
            upper = weights(some) @ self._pairs
            matrices = np.zeros((len(upper), p, p))
            matrices[:, one, other] = upper
            matrices[:, other, one] = upper
            out[some] = np.linalg.eigvalsh(matrices)[:, -1]
        return np.maximum(out, 0.0) * (1.0 + 1e-9)

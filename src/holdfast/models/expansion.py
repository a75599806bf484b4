r"""A training problem near its optimum, without a look at most of its rows.

Without a few rows of many, the optimum moves so little that the gradient of all rows is known to
second order from sums made once: in coordinates ``δ`` in which the Hessian of the whole problem is
the identity, with ``u`` a row in them,

.. math:: Σ ω ℓ'(z − uᵀδ) u = Σ ω ℓ' u − (Σ ω ℓ'' u uᵀ) δ + \tfrac12 (Σ ω ℓ''' u u uᵀ) δ δ + …

The longest rows, whose scores move most, are no part of the sums: they are looked at each time. So
are the rows that go. What is left out is small: for losses with :math:`|ℓ''''| ≤ ℓ''` (all of ours
without kinks, but for a factor of :math:`e^a`), with :math:`a = \max_i |u_iᵀδ|` over the rows of
the sums, by Cauchy's inequality at most :math:`a²/6` of the first-order term.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.models.losses import Loss

#: rows from which sums are worth making
MANY = 20_000

#: parameters up to which a cube of them is
FEW = 64

#: the longest rows, looked at each time
LONGEST = 512

#: what may be left out, at most, as a share of the step
LEFT_OUT = 0.04

#: and what needs no look at all rows to be seen through
LITTLE = 1e-3

#: rows at a time
_BLOCK = 4096


class Expansion:
    """Sums over the rows of a training problem, by group.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        ``u``, all rows in coordinates in which the Hessian is the identity.
    z, y, weights : ndarrays of shape (n,)
        Scores at the optimum, labels, ``ω``.
    loss : Loss
    groups : ndarray of shape (n,)
        Numbers from 0: rows whose weights change in the same proportion when others go.
    """

    def __init__(
        self, rows: Array, z: Array, y: Array, weights: Array, loss: Loss, groups: Positions
    ):
        self._rows, self._z, self._y, self._weights = rows, z, y, weights
        self._loss, self._groups = loss, groups
        p, many = rows.shape[1], int(groups.max(initial=0)) + 1
        lengths = np.einsum("ij,ij->i", rows, rows)
        order = np.argpartition(-lengths, min(LONGEST, len(rows) - 1))
        self._long = np.sort(order[:LONGEST])
        self.longest = float(np.sqrt(lengths[order[LONGEST:]].max(initial=0.0)))
        summed = weights.copy()
        summed[self._long] = 0.0
        curvatures = summed * loss.curvatures(z, y)
        slopes, bends = summed * loss.slopes(z, y), curvatures * loss.skews(z, y)
        self._first = np.zeros((many, p))
        self._second = np.zeros((many, p, p))
        self._third = np.zeros((many, p * p, p))
        for start in range(0, len(rows), _BLOCK):
            some = slice(start, start + _BLOCK)
            for group in range(many):
                mine = groups[some] == group
                u = rows[some] if many == 1 else rows[some][mine]
                pairs = (u[:, :, None] * u[:, None, :]).reshape(len(u), p * p)
                self._first[group] += slopes[some][mine] @ u
                self._second[group] += (curvatures[some][mine] @ pairs).reshape(p, p)
                self._third[group] += pairs.T @ (bends[some][mine][:, None] * u)

    def gradient(self, change: Array, factors: Array, gone: Positions) -> Array:
        """``Σ ωℓ'u`` with the parameters moved by ``−change``, groups re-weighted, rows gone."""
        second, bend = self._summed(change, factors)
        moved: Array = factors @ self._first - second @ change + 0.5 * bend @ change
        for rows, sign in ((self._long, 1.0), (gone, -1.0)):
            u, z, y, each = self._of(rows, change, factors)
            moved += sign * (each * self._loss.slopes(z, y)) @ u
        return moved

    def hessian(self, change: Array, factors: Array, gone: Positions) -> Array:
        """``Σ ωℓ''uuᵀ`` there."""
        second, bend = self._summed(change, factors)
        moved: Array = second - bend
        for rows, sign in ((self._long, 1.0), (gone, -1.0)):
            u, z, y, each = self._of(rows, change, factors)
            moved += sign * (u.T * (each * self._loss.curvatures(z, y))) @ u
        return moved

    def whitened(self, change: Array, factors: Array, rows: Positions) -> tuple[Array, Array]:
        """``√v u`` and ``−ℓ'/√v`` of some rows there."""
        u, z, y, each = self._of(rows, change, factors)
        root, residuals = self._loss.whitened(z, y)
        return (np.sqrt(each) * root)[:, None] * u, np.sqrt(each) * residuals

    def left_out(self, change: Array) -> float:
        """What is left out, at most, as a share of the first-order term."""
        reach = self.longest * float(np.linalg.norm(change))
        return reach**2 * float(np.exp(min(reach, 50.0))) / 6.0

    def _summed(self, change: Array, factors: Array) -> tuple[Array, Array]:
        """The second sums, and the third in the direction of a change."""
        p = change.size
        third = (factors @ self._third.reshape(len(factors), -1)).reshape(p, p, p)
        return np.tensordot(factors, self._second, 1), third @ change

    def _of(
        self, rows: Positions, change: Array, factors: Array
    ) -> tuple[Array, Array, Array, Any]:
        """Some rows, their scores and labels and weights there."""
        u = self._rows[rows]
        each = self._weights[rows] * factors[self._groups[rows]]
        return u, self._z[rows] - u @ change, self._y[rows], each

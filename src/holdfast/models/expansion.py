r"""A training problem near its optimum, without a look at its rows.

Without a few rows of many, the optimum moves so little that the gradient of all rows is known to
second order from sums made once: in coordinates ``δ`` in which the Hessian of the whole problem is
the identity, with ``u`` a row in them,

.. math:: Σ ω ℓ'(z − uᵀδ) u = Σ ω ℓ' u − (Σ ω ℓ'' u uᵀ) δ + \tfrac12 (Σ ω ℓ''' u u uᵀ) δ δ + …

The rows that go are taken off it exactly. What is left out is small: for losses with
:math:`|ℓ''''| ≤ ℓ''` (all of ours without kinks, but for a factor of :math:`e^a`), with
:math:`a = \max_i |u_iᵀδ|`, by Cauchy's inequality at most :math:`a²/6` of the first-order term.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array, Positions

#: rows from which sums are worth making
MANY = 20_000

#: parameters up to which a cube of them is
FEW = 64

#: what is left out, at most, as a share of the step
LEFT_OUT = 1e-3

#: rows at a time
_BLOCK = 4096


class Expansion:
    """Sums over the rows of a training problem, by group.

    Parameters
    ----------
    train : ndarray of shape (n, p)
        ``u``, all rows in coordinates in which the Hessian is the identity.
    slopes, curvatures, bends : ndarrays of shape (n,)
        ``ωℓ'``, ``ωℓ''`` and ``ωℓ'''`` at the optimum.
    groups : ndarray of shape (n,)
        Numbers from 0: rows whose weights change in the same proportion when others go.
    """

    def __init__(
        self, train: Array, slopes: Array, curvatures: Array, bends: Array, groups: Positions
    ):
        p, many = train.shape[1], int(groups.max(initial=0)) + 1
        self._first = np.zeros((many, p))
        self._second = np.zeros((many, p, p))
        self._third = np.zeros((many, p * p, p))
        self.longest = 0.0
        for start in range(0, len(train), _BLOCK):
            some = slice(start, start + _BLOCK)
            u = train[some]
            self.longest = max(self.longest, float(np.einsum("ij,ij->i", u, u).max()))
            for group in range(many):
                mine = groups[some] == group
                v = u if many == 1 else u[mine]
                pairs = (v[:, :, None] * v[:, None, :]).reshape(len(v), p * p)
                self._first[group] += slopes[some][mine] @ v
                self._second[group] += (curvatures[some][mine] @ pairs).reshape(p, p)
                self._third[group] += pairs.T @ (bends[some][mine][:, None] * v)
        self.longest = float(np.sqrt(self.longest))

    def gradient(self, change: Array, factors: Array) -> Array:
        """``Σ ωℓ'u`` of all rows with the parameters moved by ``−change``, groups re-weighted."""
        p = change.size
        bend = (factors @ self._third.reshape(len(factors), -1)).reshape(p, p, p) @ change
        second = np.tensordot(factors, self._second, 1)
        moved: Array = factors @ self._first - second @ change + 0.5 * bend @ change
        return moved

    def left_out(self, change: Array) -> float:
        """What is left out, at most, as a share of the first-order term."""
        reach = self.longest * float(np.linalg.norm(change))
        return reach**2 * float(np.exp(min(reach, 50.0))) / 6.0

r"""What single rows do to one score together: each pair is paid for once, by the weaker of the two.

A box lets every row be everybody's worst partner, whether or not that partner does the score any
harm. Looked at from one score ``b`` it need not. With :math:`c_i = u_iᵀb`, ``x = P_SS⁻¹ r_S`` and
:math:`H = UUᵀ`, the effect of ``S`` is

.. math:: e = Σ_S c_i r_i + Σ_{i,l ∈ S} c_i H_{il} x_l .

1. **Along the score's own direction it is exact.** Split :math:`u_i = c_i b/‖b‖² + u_i^⊥`. Since
   :math:`Σ_S c_l x_l = e`, that part of the double sum is :math:`e κ`, :math:`κ = Σ_S c_i²/‖b‖²`,
   and :math:`κ < 1` wherever the refit exists. So :math:`e (1 − κ) = Σ_S c_i r_i + Σ_{i,l} c_i
   H^⊥_{il} x_l`, and a set with :math:`e ≥ m` has

   .. math:: Σ_S (c_i r_i + m c_i²/‖b‖²) + Σ_{i,l ∈ S} c_i H^⊥_{il} x_l ≥ m .

   If rows are charged beside, a set breaks the score with :math:`e ≥ m − χ`, ``χ`` the sum of its
   charges. Then :math:`Σ_S (c_i r_i + m' c_i²/‖b‖²) + Σ c_i H^⊥_{il} x_l + χ ≥ m` for any
   :math:`m' ≥ m − χ`. Charges may have signs: ``m'`` is ``m`` and the most they can take off.
2. **Across, pairs are shared out.** What ``i`` and ``l`` do together, :math:`(c_i x_l + c_l x_i)
   H^⊥_{il}` with ``x`` in its box, is paid by the one with the smaller value of its own: a row pays
   for at most ``k − 1`` partners, all stronger than itself. The strongest pays nothing.

The sum over ``S`` of what rows have and pay is then at least what they do: it takes the place of
the gains by boxes. Rows so weak that even the longest partners do not make them count are not
looked at pair by pair.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.box_loops import branch
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.proofs.points import LinearPoints
from holdfast.proofs.sets import OUT, Sets, largest_sum, largest_sums

#: rows that are looked at pair by pair in any case, and at a time
_FIRST, _MANY = 256, 512

#: a set of candidates is looked at again when it has become this much smaller
_FEWER = 0.85


class Among:
    """Least squares without some rows: what others can do there, looked at by pairs.

    Parameters
    ----------
    deletions : LowRankDeletions
    gone : rows that went
    rows : candidates
    """

    def __init__(self, deletions: LowRankDeletions, gone: Positions, rows: Positions):
        n = deletions.rows.n
        points = LinearPoints(deletions, np.arange(n), np.arange(n + 1))
        self._point = points.without(tuple(gone.tolist()))
        self._pool, _ = self._point.pool(rows)
        self._sets: dict[int, Sets] = {}

    def left(self, j: int, k: int, room: float, charge: Array) -> Positions | None:
        """Places of candidates that can be part of a set of ``k`` that takes more than the room.

        ``None``: there is no such set. ``charge`` is what each candidate adds beside.
        """
        if k not in self._sets:
            self._sets[k] = Sets(self._pool, k)
        sets, places = self._sets[k], np.arange(len(self._pool))
        if not places.size:
            return places
        b = self._point.score(j)
        while sets.fine and room >= 0:
            reach = room + largest_sum(np.maximum(-charge[places], 0.0), k)
            values = paired_gains(sets, b, reach) + charge[places]
            values = np.maximum(values + 1e-9 * np.abs(values), 0.0)
            if largest_sum(values, k) <= room:
                return None
            alive = values + largest_sum(values, k - 1) > room
            if alive.sum() > _FEWER * places.size:
                break
            places = places[alive]
            sets = Sets(self._pool.only(places), k)
        return places

    def branch(
        self,
        j: int,
        places: Positions,
        k: int,
        margin: float,
        room: float,
        charge: Array,
        nodes: int,
    ) -> tuple[int, Positions]:
        """A tree on some candidates: 0 nobody breaks it, 1 some do (their places), 2 not known."""
        pool = self._pool.only(places)
        sets = Sets(pool, k)
        if not sets.fine:
            return 2, places[:0]
        witness = np.zeros(k, dtype=np.int64)
        verdict, size, _ = branch(
            pool.U @ self._point.score(j),
            pool.residuals,
            np.eye(len(pool)) - pool.U @ pool.U.T,
            pool.scale(sets.low),
            pool.scale(sets.high),
            charge,
            k,
            margin,
            room,
            nodes,
            witness,
        )
        return verdict, places[witness[:size]]


def paired_gains(sets: Sets, b: Array, room: float) -> Array:
    """Values of single rows, those of a set with an effect of at least ``room`` adding up to it.

    With charges to rows beside, ``room`` is what an effect may have to be at most for a set to
    break the score.

    Parameters
    ----------
    sets : Sets
        Of single rows, with boxes.
    b : ndarray of shape (p,)
        The score, whitened.
    room : float
        At least 0.
    """
    pool, k = sets.candidates, sets.k
    square = float(b @ b)
    c = pool.U @ b
    across = pool.U - np.outer(c, b / max(square, 1e-300))
    low, high = pool.scale(sets.low), pool.scale(sets.high)
    lengths = np.sqrt(np.einsum("ij,ij->i", across, across))
    alone = c * pool.residuals + room * c**2 / max(square, 1e-300)
    alone = alone + np.maximum(c * low, c * high) * lengths**2
    order = np.argsort(-alone, kind="stable")
    rows = _Ranked(across[order], c[order], low[order], high[order])
    found = np.empty(c.size)
    found[order] = alone[order] + _paid(rows, alone[order], lengths[order], k, room)
    return found


class _Ranked:
    """Rows from the strongest to the weakest."""

    def __init__(self, across: Array, c: Array, low: Array, high: Array):
        self.across, self.c, self.low, self.high = across, c, low, high

    def pairs(self, some: Positions) -> Array:
        """What some rows, a run of neighbours, do with everybody before the last of them."""
        until = int(some[-1])
        H = self.across[some] @ self.across[:until].T
        with_mine = H * self.c[some, None]
        with_theirs = H * self.c[:until]
        found = np.maximum(with_mine * self.low[:until], with_mine * self.high[:until])
        found += np.maximum(with_theirs * self.low[some, None], with_theirs * self.high[some, None])
        np.maximum(found, 0.0, out=found)
        found[np.arange(until) >= some[:, None]] = 0.0  # only with those before
        return found


def _paid(rows: _Ranked, alone: Array, lengths: Array, k: int, room: float) -> Array:
    """What every row pays for its partners."""
    reach = np.maximum(np.abs(rows.low), np.abs(rows.high))
    size = np.abs(rows.c)
    paid = lengths * (
        size * largest_sum(lengths * reach, k - 1) + reach * largest_sum(lengths * size, k - 1)
    )
    count = alone.size

    def look(some: Positions) -> None:
        paid[some] = largest_sums(rows.pairs(some), k - 1).sum(axis=1) if some[-1] else 0.0

    look(np.arange(min(_FIRST, count)))
    if count > _FIRST:
        top = np.sort(np.maximum(alone[:_FIRST] + paid[:_FIRST], 0.0))[::-1][:k]
        matters = max(min(float(top[-1]), room - float(top[:-1].sum())), 0.0)
        rest = _FIRST + np.flatnonzero((alone + paid)[_FIRST:] > matters)
        for start in range(0, rest.size, _MANY):
            look(rest[start : start + _MANY])
    return paid * OUT

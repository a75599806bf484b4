r"""What a refit under a smooth loss may take off a score beyond one Newton step.

At an optimum in coordinates where its Hessian is the identity, ``a_i`` the rows, ``v_i`` their
curvatures, :math:`u_i = √v_i a_i`, :math:`e_i = −ω_iℓ'_i = r_i√v_i`, let the rows of ``S`` go,
``δ`` be the way to the new optimum, :math:`m_i = a_iᵀδ`. With the secant curvature
:math:`ω_i(ℓ'(z_i+m_i) − ℓ'(z_i)) = s_i m_i` stationarity reads

.. math:: (M_S + X) δ = −g_S, \quad M_S = I − Σ_S u_iu_iᵀ, \quad
          X = Σ_{i∉S} (s_i − v_i) a_ia_iᵀ, \quad g_S = Σ_S e_i a_i .

**How far.** Let :math:`ε = ‖δ‖_{M_S}`, :math:`ρ² = g_SᵀM_S^{-1}g_S = r_Sᵀ(P_{SS}^{-1} − I)r_S`: a
sum over ``S`` which the boxes bound unit by unit (*pulls*). ``h`` bounds the largest eigenvalue of
:math:`Σ_S uuᵀ`, so :math:`‖δ‖ ≤ D = ε/\sqrt{1−h}`.

1. :math:`|m_i| ≤ ℓ_i ε`, :math:`ℓ_i² = a_iᵀM_S^{-1}a_i ≤ ‖a_i‖² + ‖U_S a_i‖²/(1−h)`; for the
   longest rows also :math:`|m_i| ≤ N_i + ℓ_i X/\sqrt{1−h}` with their Newton move ``N_i`` and
   :math:`X ≥ ‖Xδ‖`.
2. For moves up to these the loss bounds :math:`v_i − f_i ≤ s_i ≤ v_i + g_i`. If :math:`λ =
   λ_{max}(Σ f_i a_ia_iᵀ)` and :math:`h_ν` bounds :math:`Σ_S (1 − f_i/(νv_i))^+ uuᵀ`, then
   :math:`−X ≼ νM_S` for any :math:`ν ≥ λ + νh_ν`, because :math:`Σ_{i∉S} f_i a_ia_iᵀ ≼ νM_S` says
   :math:`Σ_{all} f_i a_ia_iᵀ + Σ_S (νv_i − f_i)a_ia_iᵀ ≼ νI`. So :math:`ε(1 − ν) ≤ ρ`.
3. Scaling :math:`g_S` from 0 to 1 moves ``ε`` continuously from 0: if :math:`ρ < ε_l(1 − ν(ε_l))`,
   then ``ε`` never reaches :math:`ε_l`. So a *step* :math:`ε_l` of a ladder speaks of all ``S``
   with :math:`ρ² ≤ Q_l = ε_l²(1 − ν_l)²`.

**How much.** For a query ``b``, :math:`−bᵀδ` is the Newton effect plus :math:`bᵀM_S^{-1}Xδ = bᵀXδ
+ bᵀU_SᵀP_{SS}^{-1}U_S Xδ`. The second part is at most :math:`‖U_Sb‖\,\sqrt{h_S}\,X/(1−h)`. The
first is :math:`Σ_{i∉S} β_i t_i m_i²`, :math:`β_i = bᵀa_i`, where the loss bounds :math:`t_i = (s_i
− v_i)/m_i`. With :math:`w_i = \max β_i t_i` it is at most :math:`λ_{max}(Σ w_ia_ia_iᵀ)^+ ‖δ‖² +
Σ_S (−w_i)^+ ‖a_i‖² D²`: rows of ``S`` are in the first sum though they should not be. Every term
is charged to the units of ``S``: :math:`ε² ≤ ρ²/(1−ν)²`, :math:`‖δ‖² ≤ ε²(1 + h_S/(1−h))`,
:math:`h_S ≤ Σ_S ‖u_i‖²`, products of roots by :math:`2xy ≤ αx² + y²/α`.

**What else changes** (:mod:`holdfast.models.shifts`): factors add :math:`p_S = Σ_f δ_f(S) π_f` to
the gradient and :math:`ΔH`, :math:`‖ΔH‖ ≤ ω`, to the Hessian, so :math:`(M_S + X + ΔH) δ = −(g_S +
p_S)`. With :math:`π ≥ ‖p_S‖/\sqrt{1−h}` the way is bounded by :math:`ε(1 − ν − ω/(1−h)) ≤ ρ + π`,
and to what is charged come :math:`bᵀp_S`, a sum over ``S`` with its sign, :math:`‖ΔH b‖ D`, and
:math:`‖p_S‖ + ωD` beside ``X`` in the second part. Classes that are re-weighted also re-weight the
rows of ``S`` themselves, by no more than ω.

**Levels.** What is charged grows with ``ε``, and the sets that pull hardest are rarely those that
threaten a given recourse. So sets are told apart by which :math:`Q_l` they stay below: at level
``l`` the charges are those of :math:`ε_l`, and the units of ``S`` pull more than :math:`Q_{l−1}`
together, which :func:`holdfast.algebra.unit_loops.within_level` uses against them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.models.optima import Optimum
from holdfast.models.shifts import Shifts
from holdfast.proofs.sets import OUT, Pool, Sets, largest_sum, largest_sums

#: rows whose Newton moves are looked at
LONGEST = 256

#: units of the largest leverage that are looked at with all rows
_HEAVY = 48

#: the ratio of two steps, the first step, and how many there are at most
_RATIO, _FIRST, STEPS = 1.35, 0.35, 16

#: what is pushed grows with the square of a step, and a little more
_GUESS = 1.3


@dataclass(frozen=True)
class Step:
    """One ``ε_l``: how far it leads, and what is charged there.

    Attributes
    ----------
    eps, distance : ``ε`` and ``D``
    pulls : ``Q``, what units may pull together
    nu : ``ν``
    pushed : ``X``
    reweighted : ``ω`` of classes, their curvatures on the way
    bends : what bounds ``t``, (n,) each
    """

    eps: float
    distance: float
    pulls: float
    nu: float
    pushed: float
    reweighted: float
    bends: tuple[Array, Array]


class Ladder:
    """Steps of one optimum, for sets of at most ``k`` of some candidates.

    Parameters
    ----------
    at : Optimum
    sets : Sets
    positions : rows of the candidates
    queries : (q, p)
        Recourses where the Hessian is the identity.
    heaviest : ``h``
    shifts : what else changes; ``None`` where nothing bounds that, nor the ladder then
    """

    def __init__(
        self,
        at: Optimum,
        sets: Sets,
        positions: Positions,
        queries: Array,
        heaviest: float,
        shifts: Shifts | None,
    ):
        self.at, self.sets, self.queries = at, sets, queries
        pool, k = sets.candidates, sets.k
        self.h, self._positions = heaviest, positions
        self._steps: list[Step] = []
        self._prices: list[Array] = []
        self.ended = shifts is None or not self.h < 1.0
        if shifts is None or self.ended:
            return
        self.shifts = shifts
        by_row, anyway = shifts.sizes
        self.shifted = largest_sum(pool.by_unit(by_row[positions]), k) + anyway
        # rows of a set are re-weighted by their own class each: within a unit nothing cancels
        each = np.abs(pool.residuals) * np.sqrt(np.einsum("ij,ij->i", pool.U, pool.U))
        self.shifted += shifts.reweighted * largest_sum(pool.by_unit(each), k)
        self.shifted *= OUT
        self.shoved = self.shifted / np.sqrt(1.0 - heaviest)
        most = largest_sum(sets.pulls, k)
        self._first = max(np.sqrt(most) * _FIRST + 1.1 * self.shoved, 1e-12)
        self._reach = self._lengthened(pool, k)
        longest = np.argpartition(-at.lengths, min(LONGEST, at.lengths.size - 1))[:LONGEST]
        along = np.abs(at.A[longest] @ pool.whitened.T) * sets.reach
        self._newton = largest_sums(pool.by_unit(along), k).sum(axis=1) * OUT
        self._longest = longest

    def _lengthened(self, pool: Pool, k: int) -> Array:
        """``ℓ`` of every row."""
        squares = self.at.lengths**2
        heavy = pool.strongest(pool.leverage, _HEAVY)
        rows, starts = pool.rows_of(heavy)
        taken = (self.at.A @ pool.U[rows].T) ** 2
        if not pool.single:
            taken = np.add.reduceat(taken, starts[:-1], axis=1)
        rest = float(np.delete(pool.leverage, heavy).max(initial=0.0))
        top = np.maximum(largest_sums(taken, k), (squares * rest)[:, None])
        short = max(k - top.shape[1], 0) * rest * squares
        taken = np.minimum(top.sum(axis=1) + short, squares * self.h)
        return np.sqrt(squares + taken / (1.0 - self.h)) * OUT

    def step(self, number: int) -> Step | None:
        """A step of the ladder; ``None`` beyond its end."""
        while len(self._steps) <= number and not self.ended:
            made = self._made(self._first * _RATIO ** len(self._steps))
            rising = not self._steps or (made is not None and made.pulls > self._steps[-1].pulls)
            if made is None or not rising or len(self._steps) >= STEPS:
                self.ended = True
            else:
                self._steps.append(made)
                self._prices.append(np.full(len(self.queries), np.nan))
        return self._steps[number] if number < len(self._steps) else None

    def _made(self, eps: float) -> Step | None:
        """One step, if there is one.

        Moves of the longest rows are closer than ``ℓε`` where ``X`` is small. A guess of it is
        confirmed by what comes out: as long as moves stay within what it says, ``X`` is less, and
        so they never leave. Where it is not confirmed, what ``ℓε`` alone gives is one.
        """
        at, h, longest = self.at, self.h, self._longest
        plain = self._reach * eps
        distance = eps / np.sqrt(1.0 - h) * OUT
        last = self._steps[-1] if self._steps else None
        guess = np.inf if last is None else _GUESS * last.pushed * (eps / last.eps) ** 2
        for _ in range(3):
            moves = plain.copy()
            if np.isfinite(guess):
                further = self.shoved + guess / np.sqrt(1.0 - h)
                closer = (self._newton + self._reach[longest] * further) * OUT
                moves[longest] = np.minimum(plain[longest], closer)
            fall, rise = at.secants(moves)
            if not (np.all(np.isfinite(fall)) and np.all(np.isfinite(rise))):
                return None
            down, up = at.largest(fall), at.largest(rise)
            reweighted = self.shifts.reweighted * (1.0 + up)
            moved = self.shifts.stiffened + reweighted
            pushed = (max(down, up) + moved) * distance
            before, guess = guess, pushed
            if np.isfinite(before) and pushed <= before:
                break
            if np.isfinite(before):  # not confirmed: start from what holds in any case
                guess = np.inf
        else:
            return None
        if not down < 1.0 - 1e-9:
            return None
        nu = self._share(fall, down) + moved / (1.0 - h) * OUT
        if not nu < 1.0 - 1e-6:
            return None
        pulls = max(eps * (1.0 - nu) - self.shoved, 0.0) ** 2 * (1.0 - 1e-9)
        return Step(eps, distance, pulls, nu, pushed, reweighted, at.bends(moves))

    def _share(self, fall: Array, down: float) -> float:
        """``ν``."""
        pool, rows = self.sets.candidates, self._positions
        nu = down / (1.0 - self.h)
        v = self.at.v[rows]
        ratio = np.divide(fall[rows], v, out=np.ones(v.size), where=v > 0)
        for _ in range(2):  # a smaller ν weighs the rows that go less: what holds stays valid
            left = pool.spread(self.sets.k, np.clip(1.0 - ratio / max(nu, 1e-300), 0.0, 1.0))
            left = min(left, self.h)
            better = down / (1.0 - left) if left < 1.0 else np.inf
            if not better < nu:
                break
            nu = better
        return nu * OUT

    def price(self, number: int, some: Positions) -> Array:
        """``λ_max(Σ w_i a_i a_iᵀ)`` of some recourses at a step."""
        step, known = self._steps[number], self._prices[number]
        new = some[np.isnan(known[some])]
        if new.size:
            low, high = step.bends

            def weights(few: slice) -> Array:
                along = self.queries[new[few]] @ self.at.A.T
                return np.maximum(along * low, along * high)

            known[new] = self.at.largest_of_each(weights, new.size)
        found: Array = known[some]
        return found


def charges(
    ladder: Ladder,
    number: int,
    some: Positions,
    sets: Sets,
    rows: Positions,
    pulls: Array,
    c: Array,
    gains: Array,
) -> tuple[Array, Array]:
    """What each unit is charged at a step, (recourses, units), and what all are, (recourses,).

    Parameters
    ----------
    sets, rows : candidates, and their rows
    pulls : (units,) whose sum over ``S`` bounds ``ρ²``
    c : (recourses, m) ``u_iᵀb``
    gains : (recourses, units) by which the weight of a product of roots is chosen
    """
    step = ladder.step(number)
    assert step is not None
    pool, at, h, shifts = sets.candidates, ladder.at, ladder.h, ladder.shifts
    price = ladder.price(number, some)
    along = ladder.queries[some] @ at.A[rows].T
    worst = np.minimum(-along * step.bends[0][rows], -along * step.bends[1][rows])
    squares = pool.by_unit(c**2)
    own = pool.by_unit(np.maximum(worst, 0.0) * at.lengths[rows] ** 2)
    k = min(sets.k, gains.shape[1])
    top = np.argpartition(-gains, k - 1, axis=1)[:, :k]
    alpha = np.sqrt(np.maximum(pool.leverage[top].sum(axis=1), 1e-300))
    alpha /= np.sqrt(np.maximum(np.take_along_axis(squares, top, axis=1).sum(axis=1), 1e-300))
    alpha = alpha[:, None]
    # ε² ≤ (ρ + π)²/(1 − ν)² ≤ (ρ²/(1 − x) + π²/x)/(1 − ν)², best at x = π/(ρ + π)
    per_pull = price / ((1.0 - step.nu) ** 2 * (1.0 - h))
    split = min(ladder.shoved / max(step.eps * (1.0 - step.nu), 1e-300), 0.5)
    found = (per_pull / (1.0 - split))[:, None] * pulls + own * step.distance**2
    second = step.pushed + ladder.shifted
    found += 0.5 * second / (1.0 - h) * (alpha * squares + pool.leverage / alpha)
    anyway = np.zeros(some.size)
    if len(shifts.vectors):
        if ladder.shoved:
            anyway += per_pull * (ladder.shoved**2 / split)
        queries = ladder.queries[some]
        more, always = shifts.along(queries, rows)
        found += pool.by_unit(more)
        if shifts.reweighted:
            found += shifts.reweighted * pool.by_unit(np.abs(c * pool.residuals))
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries))
        anyway += always + (shifts.stiffness(queries) + step.reweighted * lengths) * step.distance
    slack = 1e-9 * np.abs(found)
    return np.asarray(found + slack), anyway * (1.0 + 1e-9)

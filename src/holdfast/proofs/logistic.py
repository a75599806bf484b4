r"""What one Newton step can miss of a logistic refit, bounded without trying any.

Let θ̂ be the optimum, ``S`` the rows deleted, :math:`F_S` the loss of the others, :math:`H_S` its
Hessian at θ̂, :math:`g_S` its gradient there, :math:`d = θ_{−S} − θ̂`,
:math:`d_N = −H_S^{-1} g_S`.
With :math:`H̄ = ∫_0^1 ∇²F_S(θ̂ + t d)\,dt` the optimum satisfies :math:`H̄ d = −g_S`, so

.. math:: x̌ᵀd − x̌ᵀd_N = −(H_S^{-1}x̌)ᵀ (H̄ − H_S) d .

The curvature :math:`v = ω p(1−p)` of a row obeys :math:`|v'| ≤ v` (self-concordance). Hence, with
:math:`M = \max_i |φ_iᵀd|`,

1. :math:`H̄ ≽ \frac{1 − e^{−M}}{M} H_S`, so :math:`‖d‖_{H_S} ≤ b(M) ρ` with
   :math:`b(M) = M/(1 − e^{−M})` and :math:`ρ = ‖g_S‖_{H_S^{-1}}`;
2. for a training row the same identity gives :math:`M ≤ N + ½ κ_2(M) \tfrac{Lτ}{1−h} ‖d‖_H²`:
   ``N`` bounds its Newton move :math:`|φ_iᵀd_N|`, :math:`κ_2(M) = 2(e^M − 1 − M)/M²`,
   :math:`L = \max_i ‖φ_i‖_{H^{-1}}`, :math:`τ = \max_{‖a‖_H=1} Σ_i v_i|φ_iᵀa|³`,
   :math:`‖d‖_H² ≤ b(M)² ρ²/(1−h)`, and ``h`` is the largest eigenvalue of
   :math:`H^{-½}Φ_SᵀV_SΦ_SH^{-½}`. Call the right-hand side ``F(M)``. Scaling :math:`g_S` from 0 to
   1 moves ``M`` continuously from 0, so an ``m`` with ``F(m) < m`` is never crossed:
   :math:`M ≤ m`. Iterating ``F`` from ``N`` finds one, if there is one. Besides,
   :math:`M ≤ L‖d‖_H` gives :math:`1 − e^{−M} ≤ c = Lρ/\sqrt{1−h}`, so :math:`M ≤ −\ln(1−c)` where
   ``c < 1``; the smaller counts, and where there is neither there is no bound;
3. each row's averaged curvature is :math:`v̄ = v + ½v'm + e`, :math:`m = φ_iᵀd`, with
   :math:`|e| ≤ v (e^{|m|} − 1 − |m| − m²/2)/|m| ≤ \frac{m²}{6} κ(M)\, v` (as :math:`|v''| ≤ v`
   too), :math:`κ(M) = 6(e^M − 1 − M − M²/2)/M³`. So the remainder is at most ``½ a ‖d‖²_H`` with

.. math:: a = λ^+ + h α + τ‖x̌‖_{H^{-1}}\tfrac{h}{1−h}
              + \tfrac{M}{3} κ(M) \left(λ + τ‖x̌‖_{H^{-1}}\tfrac{h}{1−h}\right),

where :math:`λ^+` is the largest eigenvalue of :math:`H^{-½}(Σ_i v_i' (φ_iᵀH^{-1}x̌) φ_iφ_iᵀ)H^{-½}`
(signed: much of it cancels; 0 at least), λ that of the same with absolute values,
:math:`α = \max_i |φ_iᵀH^{-1}x̌|`; the terms with ``h`` pay for the rows of ``S`` that the sums
include and for ``H`` in place of :math:`H_S`.

In the letters of the triple, :math:`ρ² = r_Sᵀ(P_{SS}^{-1} − I) r_S = Σ_{i∈S} r_i (u_i − r_i)`: a
sum over the rows deleted, which the boxes bound. So each row is charged its part, and only the rows
that threaten a recourse count against it. ``h`` is at most the sum of the ``k`` largest leverages,
and at most the largest sum of ``k`` entries of a row of the hat matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from holdfast.algebra.boxes import Boxes, hat_row_sums, many_rows, newton_moves
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.models.smooth import SmoothLinearCore
from holdfast.proofs.candidates import Missed, Verdicts


@dataclass(frozen=True)
class Path:
    """How far the optimum can move when ``k`` rows go.

    Attributes
    ----------
    M : the largest move of a remaining row's score
    h : the largest share of the Hessian that goes with the rows
    distance : how far the parameters move, in the metric of the Hessian
    """

    M: float
    h: float
    distance: float


def missed_by_newton(
    core: SmoothLinearCore, deletions: LowRankDeletions, found: Boxes
) -> tuple[Missed, list[Path]]:
    """What a true effect may have beyond one Newton step, row by row; and how far each k leads."""
    U, r, W = deletions.factor, deletions.residuals, deletions.queries
    norms, outside = np.linalg.norm(W, axis=1), deletions.outside
    if outside is not None:  # Σ v|φᵀa|³ ≤ max|φᵀa| Σ v(φᵀa)², whatever the rows
        longest = third = core.longest
        signed = absolute = farthest = longest * norms
    else:
        rows = core.design.whiten(core.training_features)
        longest = float(np.linalg.norm(rows, axis=1).max())
        third = third_moment(rows, core.curvatures)
        # effect = −x̌ᵀd gains +½ Σ v'(φᵀH⁻¹x̌)(φᵀd)²; v' = v(1 − 2p)
        signed = np.maximum(_largest_signed(U, core.curvature_slopes[:, None] * rows, W), 0.0)
        if many_rows(deletions):
            absolute, farthest = third * norms, longest * norms
        else:
            along = rows @ W.T
            absolute, farthest = _largest_eigenvalues(U, np.abs(along)), np.abs(along).max(axis=0)
    own = deletions.rows.own
    leverage = np.sort(1.0 - deletions.diagonal[:own])[::-1]
    if outside is not None:
        leverage = np.maximum(leverage, outside.leverage)
    sums = hat_row_sums(deletions, found.limit)
    moves = newton_moves(deletions, found, core.curvatures, longest)
    parts: list[list[tuple[Array, Array]]] = [[]]
    paths = [Path(0.0, 0.0, 0.0)]
    beside = np.zeros((len(W), found.limit + 1))
    for k in range(1, found.limit + 1):
        gains = np.maximum(r * found.low[k], r * found.high[k]) - r**2
        charge, strange = np.maximum(gains, 0.0), 0.0
        if outside is not None:
            wider = np.sqrt(outside.spread / (1.0 - outside.leverage)) * found.partners[k]
            strange = outside.residual * (outside.residual * outside.spread + wider)
        rho = np.maximum(np.partition(charge, len(r) - k)[-k:], strange).sum()
        h = min(float(leverage[:k].sum()), sums[k])
        M = _largest_move(moves[k], longest, third, rho, h) if h < 1 else np.inf
        if np.isinf(M):
            break
        replaced = third * norms * h / (1.0 - h)
        shape = signed + h * farthest + replaced + M / 3.0 * _kappa(M) * (absolute + replaced)
        price = 0.5 * shape * growth(M) ** 2 / (1.0 - h) * (1.0 + 1e-9)
        parts.append([(price[:, None], charge[None])])
        beside[:, k] = price * strange
        paths.append(Path(M, h, growth(M) * float(np.sqrt(rho / (1.0 - h)))))
    limit = len(parts) - 1
    return Missed(len(r), parts, np.zeros((len(W), limit + 1)), limit, beside), paths


def _largest_signed(U: Array, weighted: Array, W: Array) -> Array:
    """The largest eigenvalue of ``Uᵀ diag(weighted w_j) U`` for every query: linear in it."""
    p = U.shape[1]
    tensor = np.zeros((p, p * p))
    for start in range(0, len(U), 8192):
        some = slice(start, start + 8192)
        pairs = (U[some, :, None] * U[some, None, :]).reshape(-1, p * p)
        tensor += weighted[some].T @ pairs
    out = np.empty(len(W))
    for start in range(0, len(W), 256):
        matrices = (W[start : start + 256] @ tensor).reshape(-1, p, p)
        out[start : start + 256] = np.linalg.eigvalsh(matrices)[:, -1]
    return out


def _largest_eigenvalues(U: Array, weights: Array) -> Array:
    """The largest eigenvalue of ``Uᵀ diag(w_j) U`` for every column of weights (n, q)."""
    pairs = U[:, :, None] * U[:, None, :]
    p = U.shape[1]
    out = np.empty(weights.shape[1])
    for start in range(0, weights.shape[1], 256):
        some = weights[:, start : start + 256]
        matrices = (some.T @ pairs.reshape(len(U), -1)).reshape(-1, p, p)
        out[start : start + 256] = np.linalg.eigvalsh(matrices)[:, -1]
    return out


def third_moment(rows: Array, curvature: Array) -> float:
    r"""A bound on :math:`\max_{‖a‖=1} Σ_i v_i |φ_iᵀa|³` over whitened rows, (n, p).

    By Cauchy–Schwarz it is at most the root of the largest fourth moment (the second is at most
    1), a quadratic form in :math:`aaᵀ = I/p + A` with ``A`` traceless and of norm at most 1: the
    form at ``I/p``, twice the cross term, and the largest eigenvalue on traceless matrices.
    """
    p = rows.shape[1]
    upper = np.triu_indices(p)
    weight = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    form = np.zeros((weight.size, weight.size))
    for start in range(0, len(rows), 4096):
        some = rows[start : start + 4096]
        squares = some[:, upper[0]] * some[:, upper[1]]
        squares *= np.sqrt(curvature[start : start + 4096])[:, None]
        form += squares.T @ squares
    form *= np.outer(weight, weight)
    identity = (upper[0] == upper[1]).astype(float)
    at = form @ identity / p
    # the form on traceless matrices: projected on both sides, which is a change of rank two
    middle = np.outer(identity, at)
    projected = form - middle - middle.T + np.outer(identity, identity) * (identity @ at / p)
    last = identity.size - 1
    largest = linalg.eigvalsh(projected, subset_by_index=[last, last])[0]
    cross = float(np.linalg.norm(at - identity * (identity @ at / p)))
    return float(np.sqrt(identity @ at / p + 2.0 * cross + largest)) * (1.0 + 1e-9)


def _largest_move(newton: float, longest: float, third: float, rho: float, h: float) -> float:
    """An ``m`` with ``F(m) < m``: no logit of a remaining row moves further; ∞ if none is found."""

    def F(m: float) -> float:
        size = growth(m) ** 2 * rho / (1.0 - h)
        return newton + 0.5 * _kappa_2(m) * longest * third / (1.0 - h) * size

    c = longest * np.sqrt(rho / (1.0 - h))
    simple = float(-np.log1p(-c)) if c < 1 else np.inf
    m = newton
    for _ in range(100):
        further = F(m) * (1.0 + 1e-6) + 1e-12 if m <= 5.0 else np.inf
        if further > 5.0:
            break
        if F(further) < further:
            return min(further, simple)
        m = further
    return simple


def _kappa_2(M: float) -> float:
    return float(2.0 * (np.expm1(M) - M) / M**2) if M > 1e-4 else 1.0 + M


def growth(M: float) -> float:
    """``b(M)``."""
    return M / -np.expm1(-M) if M > 1e-8 else 1.0 + M


def _kappa(M: float) -> float:
    return 6.0 * (np.expm1(M) - M - M**2 / 2.0) / M**3 if M > 1e-2 else 1.0 + M


#: rows a stronger attack on one recourse is made of, sets kept for the next size, sets solved for
_FEW, _BEAM, _SOLVED = 24, 12, 6

#: sets solved for in all: the rest is left to the formula
MOST_SOLVED = 1000

#: how many more deletions than are certified an attack is looked for with
_FURTHER = 2


def stronger_attacks(
    deletions: LowRankDeletions,
    margins: Array,
    found: Verdicts,
    stay: Positions,
    drops: Callable[[Positions, Positions], Array],
    budget: int,
    deadline: float,
) -> None:
    """Sets that break a recourse though one Newton step says that they just do not.

    For every recourse whose attack is not known to be the smallest, the sets of its next size that
    the formula finds strongest are solved for; each tells about all recourses.
    """
    able = np.ones(deletions.rows.n, dtype=bool)
    able[deletions.rows.undeletable()] = False
    able[stay] = False
    _withdraw(margins, found, drops, deadline)
    solved: dict[tuple[int, ...], Array] = {}
    for k in range(1, budget + 1):
        near = (found.certified < k) & (found.certified >= k - _FURTHER)
        smaller = (found.attacked == 0) | (found.attacked > k)
        open_ = np.flatnonzero(near & smaller & ~found.singular)
        for j in open_.tolist():
            if time.monotonic() > deadline or len(solved) > MOST_SOLVED:
                return
            if 0 < found.attacked[j] <= k:
                continue  # by a set tried for somebody else
            for rows in _strongest(deletions, j, k, float(margins[j]), able):
                if rows in solved:
                    continue
                drop = solved[rows] = drops(np.array(rows), open_)
                broken = drop > margins[open_] + 1e-9 * (np.abs(margins[open_]) + np.abs(drop))
                for i in open_[broken].tolist():
                    if found.attacked[i] == 0 or found.attacked[i] > k:
                        found.attacked[i], found.witness[i] = k, rows
                if found.attacked[j] == k:
                    break


def _withdraw(
    margins: Array,
    found: Verdicts,
    drops: Callable[[Positions, Positions], Array],
    deadline: float,
) -> None:
    """Take back attacks that only a Newton step believed in, where there is something smaller."""
    by_set: dict[tuple[int, ...], list[int]] = {}
    for j, rows in enumerate(found.witness):
        if 0 < len(rows) <= found.certified[j] + _FURTHER:
            by_set.setdefault(tuple(sorted(rows)), []).append(j)
    for rows, some in by_set.items():
        if time.monotonic() > deadline:
            return
        places = np.array(some)
        for j in places[~(drops(np.array(rows), places) > margins[places])].tolist():
            found.attacked[j], found.witness[j] = 0, ()


def _strongest(
    deletions: LowRankDeletions, j: int, k: int, margin: float, able: Any
) -> list[tuple[int, ...]]:
    """Sets of ``k`` rows by what the formula says they do to one recourse, near its margin."""
    c = deletions.functionals(slice(j, j + 1))[0]
    alone = np.where(able, c * np.nan_to_num(deletions.single_steps), -np.inf)
    top = np.argpartition(-alone, min(_FEW, alone.size - 1))[:_FEW]
    top = top[np.isfinite(alone[top])]
    P, r, c = deletions.block(top), deletions.residuals[top], c[top]
    beams: list[tuple[int, ...]] = [()]
    values = np.zeros(1)
    for _ in range(k):
        more = ((b, i) for b in beams for i in range(top.size) if i not in b)
        sets = sorted({tuple(sorted((*b, i))) for b, i in more})
        if not sets:
            return []
        places = np.array(sets)
        blocks = P[places[:, :, None], places[:, None, :]]
        steps = np.linalg.solve(blocks, r[places][:, :, None])[:, :, 0]
        values = np.einsum("sk,sk->s", c[places], steps)
        order = np.argsort(-values, kind="stable")[:_BEAM]
        beams, values = [sets[i] for i in order], values[order]
    near = values > 0.7 * margin
    return [tuple(np.sort(top[list(b)]).tolist()) for b, n in zip(beams, near, strict=True) if n][
        :_SOLVED
    ]

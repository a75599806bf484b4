r"""A recourse on its edge: what deletions do just where it is about to break.

Let ``θ`` be the optimum among the parameters that give a recourse the least score it may have. The
loss without a set ``S`` is convex, so its least value for a given score falls up to the score of
the refit and rises beyond it: ``S`` breaks the recourse only if the optimum *on that hyperplane* is
pushed towards lower scores. So nothing has to be known of the way from the old optimum to the edge;
along the score everything is exact, and what is left to bound is the move across.

In coordinates where the Hessian at ``θ`` is the identity let ``b̂`` be the direction of the score,
:math:`β_i = b̂ᵀa_i`, from now on :math:`a_i` the rows across it, :math:`e_i = −ω_iℓ'_i`, and ``−m``
the slope of the loss along ``b̂`` (``m`` is the *margin*). Without ``S`` the optimum on the
hyperplane lies at ``δ``, across. With moves :math:`m_i = a_iᵀδ`, secant curvatures :math:`s_i`,
:math:`X = Σ_{all} (s_i − v_i) a_ia_iᵀ` and :math:`e_i^+ = −ω_iℓ'(z_i + m_i)`, what a row pulls with
*where it ends up*,

.. math:: (I + X) δ = −G, \qquad G = Σ_S e_i^+ a_i,

and the recourse is safe where the *push* does not exceed the margin: with :math:`ψ_i = (s_i − v_i)
m_i`, :math:`γ_i = v_iβ_i`,

.. math:: Σ_S β_i e_i^+ + Σ_{all} β_i ψ_i \;=\; Σ_S β_i e_i − Σ_S γ_i m_i + Σ_{i∉S} β_i ψ_i .

**How far.** As long as rows move by at most :math:`μ_i`, the loss says :math:`−F ≼ X ≼ R`, two
matrices, and where :math:`e_i^+` lies. Of rows that may move far that is little: for these, ``O``,
:math:`e_i^+ = e_i − s_i m_i` is put on the other side, so that :math:`I + X − Σ_{S∩O} s_ia_ia_iᵀ`
takes the place of :math:`I + X`, and :math:`e_i` that of :math:`e_i^+`; ``F`` then counts all of
:math:`v_i a_ia_iᵀ`, whether the row stays (:math:`s_i ≥ 0`) or goes. With :math:`M = (I −
F)^{-1}` then :math:`|m_i| ≤ ‖a_i‖_M ‖G‖_M`. A *level* has :math:`μ_i = ‖a_i‖_M ε`: scaling ``S``
from 0 to 1 moves ``δ`` continuously from 0, so sets with :math:`‖G‖_M < ε` wherever their
:math:`e^+` lie never leave it. That is a quadratic form in ``S``, bounded once for all sets of
``k``; where it is less than :math:`ε^2` the level *covers* them all.

**How much.** The inverse of what stands before ``δ`` lies between :math:`(I + R)^{-1}` and ``M``:
it is their mean ``Y``, half of their difference ``Δ`` off at most, :math:`|pᵀ(\cdot − Y)q| ≤
‖p‖_Δ‖q‖_Δ`. The loss says :math:`β_iψ_i ≤ w_i m_i^2`; with :math:`W = Σ_{all} w_i a_ia_iᵀ`,
``λ`` the largest eigenvalue of :math:`Δ^½WΔ^½`, and any positive ``t`` and ``α``,

.. math:: −Σ_S γ_im_i ≤ Σ_{i,l∈S} γ_i e_l^+ a_iᵀYa_l + \tfrac α2 ‖Σ_Sγ_ia_i‖_Δ^2
          + \tfrac 1{2α} ‖G‖_Δ^2, \qquad
          δᵀWδ ≤ Gᵀ\bigl(YWY + t\,YWΔWY + (\tfrac 1t + λ)Δ\bigr)G .

``W`` counts rows of ``S`` that it should not: where :math:`w_i` is negative they pay
:math:`−w_iμ_i^2`. A row may also be charged :math:`\max β_ie_i^+` instead of :math:`β_i e_i −
γ_im_i` and what comes of it (by the left side of the push), where that is less. So the push is a
quadratic form over ``S`` whose coefficients are known up to :math:`e^+`, bilinear in them: largest
at the corners of their ranges.

**Which sets** (:mod:`holdfast.proofs.edges`). A set counts at the lowest level that covers it, so
at each level only sets that the one below does not cover: what they pull *there* exceeds what it
covers, somewhere in the ranges of that level.

**What else changes** (:mod:`holdfast.models.shifts`): ``p`` is added to ``G``, ``ΔH`` to ``X``,
and their parts along the score to the push.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.models.optima import Optimum
from holdfast.models.shifts import Shifts
from holdfast.proofs.sets import OUT, largest_sum, rows_of

#: the first level, and the ratio of two
_FIRST, _RATIO = 0.4, 1.15

#: rounds to the moves of a level, and how much further each looks
_ROUNDS, _FURTHER = 15, 1.002

#: rows that may move further are apart: they count with what they pull before they move
_FAR = 2.0

#: curvatures that are too large to be worked with
_HUGE = 1e12

#: what they may hold of the curvature of any direction
_HELD = 0.8

#: an eigenvalue of ``F`` that leaves too little of the identity
_SOFT = 0.999


@dataclass(frozen=True)
class Level:
    """Sets that move the rows so far and no further.

    Attributes
    ----------
    metric, middle, spread, bent : ``M``, ``Y``, ``Δ`` and the form that ``δᵀWδ`` stays below
    least, most : (n,) where lies what a row pulls with in ``G``
    twice : (n,) what rows pay for being in a sum over all
    directly : (n,) ``βe⁺`` at most
    sizes : (n,) ``|e⁺|`` at most
    covers : the ``‖G‖_M²`` it holds up to
    shoved : what ``p`` adds to ``‖G‖_M`` at most
    hidden : what everybody is charged
    """

    metric: Array
    middle: Array
    spread: Array
    bent: Array
    least: Array
    most: Array
    twice: Array
    directly: Array
    sizes: Array
    covers: float
    shoved: float
    hidden: float


class Edge:
    """A recourse on its edge.

    Parameters
    ----------
    at : Optimum
        Among the parameters that give it the least score it may have.
    query : ndarray of shape (p,)
        The score, in the coordinates of :meth:`Optima.queries`.
    order, starts : rows of all units

    Attributes
    ----------
    along, across : (n,) and (n, p)
        ``β`` and the rows across the score.
    margin : what pushes the optimum back to higher scores
    """

    def __init__(self, at: Optimum, query: Array, order: Positions, starts: Positions):
        self.at, self._order, self._starts = at, order, starts
        score = at.whiten(query[None])[0]
        self.direction: Array = score / np.linalg.norm(score)
        self.along: Array = at.A @ self.direction
        self.across: Array = at.A - np.outer(self.along, self.direction)
        self._lengths = np.sqrt(np.einsum("ij,ij->i", self.across, self.across))
        slope = float(at.slopes @ self.direction)
        self.margin = -slope
        self._astray = float(np.linalg.norm(at.slopes - slope * self.direction))
        self._levels: dict[tuple[int, int], Level | None] = {}

    @cached_property
    def sizes(self) -> Positions:
        """How many rows the units have, the largest first."""
        return np.sort(np.diff(self._starts))[::-1]

    def rows(self, units: Positions) -> tuple[Positions, Positions]:
        """Rows of some units, and where each unit begins among them."""
        places, starts = rows_of(self._starts, units)
        return self._order[places], starts

    def lengths(self, units: Positions) -> Array:
        """How hard units pull where nobody has gone yet."""
        rows, starts = self.rows(units)
        found: Array = np.add.reduceat(np.abs(self.at.errors * self._lengths)[rows], starts[:-1])
        return found

    def beside(self, level: Level, rows: Positions, k: int) -> Array:
        """What rows change along the score beside their own terms."""
        shifts = self.shifts(k)
        if shifts is None or not len(shifts.vectors):
            return np.zeros(rows.size)
        found: Array = shifts.along(self.direction[None], rows)[0][0]
        return found + shifts.reweighted * np.abs(self.along[rows]) * level.sizes[rows]

    def shifts(self, k: int) -> Shifts | None:
        """What else changes when so many units go; ``None`` where nothing bounds it."""
        return self.at.shifts(int(self.sizes[:k].sum()))

    def level(self, number: int, k: int) -> Level | None:
        """A level, for sets of at most ``k`` units; ``None`` where there is none."""
        shifts = self.shifts(k)
        if shifts is None or not np.count_nonzero(self.at.weights) > self.sizes[:k].sum():
            return None
        key = number, k if len(shifts.vectors) else 0
        if key not in self._levels:
            try:
                with np.errstate(all="ignore"):
                    self._levels[key] = self._made(_FIRST * _RATIO**number, k, shifts)
            except np.linalg.LinAlgError:  # what the loss says is too large to be worked with
                self._levels[key] = None
        return self._levels[key]

    def _made(self, reach: float, k: int, shifts: Shifts) -> Level | None:
        """One level, if there is one: moves that what they allow does not exceed."""
        at, A, moves = self.at, self.across, self._lengths * reach
        far = self._far(moves)
        for _ in range(_ROUNDS):
            fall, rise = at.secants(moves)
            fall[far] = at.v[far]
            if not (np.all(np.isfinite(fall)) and np.all(rise < _HUGE)):
                return None
            up = at.largest(rise) if shifts.reweighted else 0.0
            moved = shifts.stiffened + shifts.reweighted * (1.0 + up)
            values, vectors = np.linalg.eigh(_form(A, fall))
            longest = 1.0 / (1.0 - moved - values[-1])
            if not 0.0 < longest < 1.0 / (1.0 - _SOFT):
                return None
            M = (vectors / (1.0 - moved - values)) @ vectors.T
            reached = np.sqrt(np.einsum("ij,ij->i", A @ M, A)) * (reach * OUT)
            if np.all(reached <= moves):
                break
            moves = np.maximum(moves, reached * _FURTHER)
        else:
            return None
        inner = np.linalg.inv(np.eye(len(M)) * (1.0 + moved) + _form(A, rise))
        low, high = at.bends(moves)
        weights = np.maximum(self.along * low, self.along * high)
        W = _form(A, weights)
        least, most = at.pulls(moves)
        sizes = np.maximum(-least, most)
        directly = np.maximum(self.along * least, self.along * most)
        least, most = np.where(far, at.errors, least), np.where(far, at.errors, most)
        shoved = self._shoved(k, shifts, sizes) * np.sqrt(longest) * OUT
        hidden = float(np.linalg.norm(W, 2)) * longest * (2.0 * reach + shoved) * shoved
        if len(shifts.vectors):
            b = self.direction[None]
            stiff = shifts.stiffness(b)[0] + moved - shifts.stiffened
            always = shifts.along(b, np.zeros(0, dtype=np.intp))[1][0]
            hidden += always + stiff * np.sqrt(longest) * reach
        return Level(
            metric=M,
            middle=0.5 * (M + inner),
            spread=0.5 * (M - inner),
            bent=_bent(0.5 * (M + inner), 0.5 * (M - inner), W),
            least=least,
            most=most,
            twice=np.maximum(-weights, 0.0) * moves**2,
            directly=directly,
            sizes=sizes,
            covers=max(reach / OUT - shoved, 0.0) ** 2,
            shoved=float(shoved),
            hidden=float(hidden) * OUT,
        )

    def _far(self, moves: Array) -> Any:
        """Rows that may move far, as long as they do not hold too much of a direction."""
        least = _FAR
        while np.any(far := moves > least):
            if self.at.largest(np.where(far, self.at.v, 0.0)) <= _HELD:
                break
            least *= _RATIO
        return far

    def _shoved(self, k: int, shifts: Shifts, pulls: Array) -> float:
        """``‖p‖`` at most."""
        if not len(shifts.vectors):
            return self._astray
        by_row, anyway = shifts.sizes
        by_row = by_row + shifts.reweighted * pulls * self.at.lengths
        by_unit = np.add.reduceat(by_row[self._order], self._starts[:-1])
        return self._astray + largest_sum(by_unit, k) + anyway


def _form(A: Array, weights: Array) -> Array:
    """``Σ w_i a_i a_iᵀ``."""
    found: Array = (A * weights[:, None]).T @ A
    return found


def _bent(Y: Array, spread: Array, W: Array) -> Array:
    """``YWY + t YWΔWY + (1/t + λ)Δ``."""
    values, vectors = np.linalg.eigh(spread)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    largest = max(float(np.linalg.eigvalsh(root @ W @ root)[-1]), 0.0)
    t = 1.0 / max(float(np.linalg.norm(W, 2)), 1e-300)
    YW = Y @ W
    found: Array = YW @ Y + t * (YW @ spread @ YW.T) + (1.0 / t + largest) * spread
    return found

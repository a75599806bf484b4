r"""SCFE: Wachter, Mittelstadt and Russell's counterfactuals.

.. math:: \min_{x̌} \; (f(x̌) − s)² + λ \, d(x, x̌), \qquad λ → 0,

stopped at the first point that reaches the goal. A score that is linear in what people can change
has the solution of :mod:`holdfast.recourse.cheapest` in closed form. Otherwise the score is
linearised where the search stands and the same closed form gives the next point (a Gauss–Newton
step on the objective, whose λ is divided by ten each time), within a trust region that shrinks
where the linearisation misleads. The first step from a person is the paper's first-order recourse
for kernel models. Where descent stalls, it starts again from the nearest training rows beyond the
goal and goes down in cost instead, as far as the goal allows.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array, Mask
from holdfast.recourse.actionable import PROGRAMS, actionable, affordable, closed
from holdfast.recourse.cheapest import cheapest_change
from holdfast.recourse.problem import Problem
from holdfast.recourse.settle import restarted, settled

#: seconds for the program of one person
EXACT_SECONDS = 10.0

#: what is said where the program was used
EXACTLY = "whole numbers, steps and categories: by the integer program, provably cheapest"


def scfe(
    problem: Problem,
    rng: np.random.Generator,
    trade_off: float = 0.1,
    max_iter: int = 60,
    exact: bool | None = None,
) -> Array:
    """Recourse by Wachter's objective.

    Parameters
    ----------
    trade_off : float
        The λ of the first step; divided by 10 at every further one, 0 below 1e-3.
    max_iter : int
        Most steps of the descent.
    exact : bool, optional
        Whether linear scores over whole numbers, steps and categories are solved exactly, by the
        integer program of method ``actionable``; by default for up to some hundred people.
    """
    few = problem.most is not None or len(problem) <= PROGRAMS
    if (few if exact is None else exact) and not closed(problem) and affordable(problem):
        problem.said.append(EXACTLY)
        return actionable(problem, rng, EXACT_SECONDS)
    if problem.affine is not None:
        Z = problem.factual.copy()
        slopes = np.broadcast_to(problem.affine.slopes, Z.shape)
        return settled(problem, Z + _step(problem, Z, Z, slopes, problem.scores(Z), 0.0))
    Z, found = descended(problem, problem.factual, trade_off, max_iter)
    lost = np.flatnonzero(~found)
    if lost.size:
        some = problem.take(lost)
        Z[lost] = cheapened(some, restarted(some, Z[lost]))
    return settled(problem, Z)


def _step(
    problem: Problem,
    base: Array,
    Z: Array,
    slopes: Array,
    scores: Array,
    trade_off: float,
    radius: Array | None = None,
) -> Array:
    """The cheapest change from ``base`` that reaches the goal, by the slopes at ``Z``."""
    space = problem.space
    low, high = problem.low, problem.high
    if radius is not None:
        reach = radius[:, None] / space.weight
        low, high = np.maximum(low, Z - reach), np.minimum(high, Z + reach)
    low, high = (np.where(space.number, bound - base, 0.0) for bound in (low, high))
    # a hair beyond the goal: the score must not miss it by rounding
    hair = 1e-9 * (problem.unit + abs(problem.goal))
    gap = problem.goal + hair - scores + np.einsum("qm,qm->q", slopes, Z - base)
    return cheapest_change(
        gap / problem.unit,
        slopes / problem.unit,
        low,
        high,
        space.weight,
        problem.norm,
        trade_off,
    )


def descended(problem: Problem, base: Array, trade_off: float, max_iter: int) -> tuple[Array, Mask]:
    """Where descent from ``base`` first reaches the goal, and for whom it does."""
    q = len(problem)
    Z = problem.clipped(base)
    scores = problem.scores(Z)
    radius = np.full(q, 4.0 * np.sqrt(problem.space.number.sum()))
    active = np.flatnonzero(~problem.reached(scores))
    for turn in range(max_iter):
        if active.size == 0:
            break
        some, here = problem.take(active), Z[active]
        slopes = some.gradients(here)
        lam = trade_off * 0.1**turn if trade_off * 0.1**turn >= 1e-3 else 0.0
        change = _step(some, base[active], here, slopes, scores[active], lam, radius[active])
        tried = base[active] + change
        tried = np.where(problem.space.number, tried, here)
        after = some.scores(tried)
        promised = np.einsum("qm,qm->q", slopes, tried - here)
        gained = after - scores[active]
        better = gained > 0
        Z[active[better]], scores[active[better]] = tried[better], after[better]
        poor = gained < 0.25 * promised
        radius[active] *= np.where(poor, 0.25, np.where(gained > 0.75 * promised, 2.0, 1.0))
        stuck = (radius[active] < 1e-6) | (promised <= 1e-9 * problem.unit)
        active = active[~problem.reached(scores[active], active) & ~stuck]
        problem.progress(q - active.size)
    return Z, problem.reached(scores)


def cheapened(problem: Problem, Z: Array, rounds: int = 15) -> Array:
    """Points at the goal moved along it to where they cost less, as long as they stay there."""
    Z = Z.copy()
    radius = np.full(len(problem), np.sqrt(problem.space.number.sum()))
    active = np.flatnonzero(problem.reached(problem.scores(Z)))
    for _ in range(rounds):
        if active.size == 0:
            break
        some, here = problem.take(active), Z[active]
        slopes, scores = some.gradients(here), some.scores(here)
        change = _step(some, some.factual, here, slopes, scores, 0.0, radius[active])
        tried = np.where(problem.space.number, some.factual + change, here)
        fine = some.reached(some.scores(tried)) & (some.cost(tried) < some.cost(here))
        Z[active[fine]] = tried[fine]
        radius[active] *= np.where(fine, 1.0, 0.4)
        active = active[radius[active] > 1e-3]
    return Z

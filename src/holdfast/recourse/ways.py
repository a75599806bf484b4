"""Several ways for everybody: few changes at once, and other things than the cheapest changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdfast.algebra.rows import Array, Mask
from holdfast.recourse.actionable import affordable
from holdfast.recourse.problem import Problem

#: a problem → coordinates
Solve = Callable[[Problem], Array]

FEWEST, OTHERS = "fewest changes", "different features"


def solved(problem: Problem, solve: Solve, exactly: bool) -> Array:
    """What a method finds, with no more changes at once than allowed.

    Some methods have a program for that (``exactly``). Otherwise the changes that matter least are
    given up and the method tries again with the others.
    """
    if problem.most is None or exactly:
        return solve(problem)
    free = replace(problem, most=None)
    Z = solve(free)
    for _ in range(2):
        over = np.flatnonzero(free.changed(Z).sum(axis=1) > problem.most)
        if over.size == 0:
            break
        some = free.take(over)
        Z[over] = solve(replace(some.holding(_weakest(some, Z[over], problem.most)), remarks={}))
    return Z


def _weakest(problem: Problem, Z: Array, most: int) -> Mask:
    """What is to stay as it is: all but the few changes without which most of the score is lost."""
    scores, changed = problem.scores(Z), problem.changed(Z)
    worth = np.full(Z.shape, -np.inf)
    for k in np.flatnonzero(changed.any(axis=0)).tolist():
        back = Z.copy()
        back[:, k] = problem.factual[:, k]
        worth[:, k] = np.where(changed[:, k], scores - problem.scores(back), -np.inf)
    keep = np.argsort(-worth, axis=1, kind="stable")[:, :most]
    held = np.ones(Z.shape, dtype=bool)
    np.put_along_axis(held, keep, False, axis=1)
    return held


def other_ways(
    problem: Problem, Z: Array, valid: Mask, solve: Solve, many: int
) -> dict[str, Array]:
    """Ways beside the first, ``Z``: the people's own coordinates where there is none."""
    quiet = replace(problem, remarks={}, progress=lambda done: None)
    found = {FEWEST: _fewest(quiet, Z, valid, solve)}
    if many > 1:
        found[OTHERS] = _others(quiet, Z, valid, solve)
    return found


def _fewest(problem: Problem, Z: Array, valid: Mask, solve: Solve) -> Array:
    out = problem.factual.copy()
    count = problem.changed(Z).sum(axis=1)
    left = np.flatnonzero(valid & (count > 1))
    for few in range(1, int(count[left].max(initial=1))):
        left = left[count[left] > few]
        if left.size == 0:
            break
        some = replace(problem.take(left), most=few)
        tried = solve(some) if affordable(some) else solved(some, solve, False)
        fine = some.reached(some.scores(tried)) & np.array([not v for v in some.violations(tried)])
        out[left[fine]] = tried[fine]
        left = left[~fine]
    return out


def _others(problem: Problem, Z: Array, valid: Mask, solve: Solve) -> Array:
    out, rows = problem.factual.copy(), np.flatnonzero(valid)
    if rows.size:
        some = problem.take(rows)
        some = some.holding(some.changed(Z[rows]))
        free = np.flatnonzero(some.movable().any(axis=1) | _has_choices(some))
        if free.size:
            tried = solve(some.take(free))
            fine = some.take(free).reached(some.take(free).scores(tried))
            out[rows[free[fine]]] = tried[fine]
    return out


def _has_choices(problem: Problem) -> Mask:
    found = np.zeros(len(problem), dtype=bool)
    for mask in problem.allowed.values():
        found |= mask.sum(axis=1) > 1
    return found

"""From where a method arrived to a point that is allowed, reaches the goal, and not much more.

Every method ends here: what it found is put on the grids and within the bounds, lifted to the
goal where rounding lost it, and pulled back towards the person as far as the goal allows.
"""

from __future__ import annotations

import numpy as np

from holdfast.models.rows import Array, Positions
from holdfast.recourse.problem import Problem
from holdfast.recourse.space import Mask


def settled(problem: Problem, Z: Array, reset: bool = False) -> Array:
    """Feasible points at the goal wherever that could be managed.

    Parameters
    ----------
    problem : Problem
    Z : (q, m)
        Where a method arrived.
    reset : bool
        Whether to give up single changes the goal does not need (fewer features change).
    """
    Z = problem.feasible(Z)
    scores = problem.scores(Z)
    low = np.flatnonzero(~problem.reached(scores))
    if low.size:
        Z[low] = climbed(problem.take(low), Z[low])
    scores = problem.scores(Z)
    fine = np.flatnonzero(problem.reached(scores))
    if fine.size:
        some, at = problem.take(fine), Z[fine]
        grid = some.space.number & (some.space.step > 0)
        at = without_needless(some, at, np.ones(grid.shape, bool) if reset else ~some.space.number)
        at = stepped_back(some, at, np.flatnonzero(grid))
        Z[fine] = pulled_back(some, at)
    problem.progress(len(problem))
    return Z


def pulled_back(problem: Problem, Z: Array, tries: int = 40) -> Array:
    """Continuous changes shrunk together until the score is just at the goal.

    Regula falsi and bisection in turn, per person, on the line to their own values; the point
    kept is always one that reaches the goal.
    """
    space = problem.space
    loose = space.number & (space.step == 0)
    if not loose.any() or len(problem) == 0:
        return Z
    own = np.where(loose, problem.factual, Z)

    def at(t: Array, rows: Positions) -> tuple[Array, Array]:
        some = problem.take(rows)
        points = own[rows] + t[:, None] * (Z[rows] - own[rows])
        points = some.linked(some.clipped(points))
        return points, some.scores(points)

    everybody = np.arange(len(problem))
    best, high_score = Z.copy(), problem.scores(Z)
    start, low_score = at(np.zeros(len(problem)), everybody)
    low, high = np.zeros(len(problem)), np.ones(len(problem))
    at_once = problem.reached(low_score)  # the discrete changes alone do
    best[at_once] = start[at_once]
    tolerance = 1e-7 * problem.unit
    active = problem.reached(high_score) & ~at_once
    for turn in range(tries):
        open_ = active & (high_score - problem.goal > tolerance) & (high - low > 1e-12)
        rows = np.flatnonzero(open_)
        if rows.size == 0:
            break
        share = np.full(rows.size, 0.5)
        if turn % 3 < 2:
            rise = high_score[rows] - low_score[rows]
            aim = problem.goal + 0.3 * tolerance - low_score[rows]
            share = np.divide(aim, rise, out=share, where=rise > 0)
            share = np.clip(share, 1e-3, 1 - 1e-9)
        t = low[rows] + share * (high[rows] - low[rows])
        points, scores = at(t, rows)
        up = problem.reached(scores)
        high[rows[up]], high_score[rows[up]] = t[up], scores[up]
        best[rows[up]] = points[up]
        low[rows[~up]], low_score[rows[~up]] = t[~up], scores[~up]
    return best


def without_needless(problem: Problem, Z: Array, which: Mask) -> Array:
    """Changes given up one by one, the dearest first, where the goal is reached without them."""
    space = problem.space
    order = np.argsort(-np.abs(np.where(space.number, Z - problem.factual, 1.0)) * space.weight)
    Z = Z.copy()
    for place in range(order.shape[1]):
        k = order[:, place]
        rows = np.flatnonzero(
            which[k] & (np.take_along_axis(Z - problem.factual, k[:, None], 1)[:, 0] != 0)
        )
        if rows.size == 0:
            continue
        some, tried = problem.take(rows), Z[rows].copy()
        here = np.arange(rows.size)
        tried[here, k[rows]] = some.factual[here, k[rows]]
        _accept(some, Z, rows, tried)
    return Z


def stepped_back(problem: Problem, Z: Array, gridded: Positions, rounds: int = 3) -> Array:
    """Numbers on a grid taken back step by step while the goal is still reached."""
    Z = Z.copy()
    for _ in range(rounds):
        before = Z.copy()
        for k in gridded:
            away = Z[:, k] - problem.factual[:, k]
            rows = np.flatnonzero(np.abs(away) > 0)
            if rows.size == 0:
                continue
            some, tried = problem.take(rows), Z[rows].copy()
            h = problem.space.step[k]
            back = np.minimum(h, np.abs(away[rows])) * np.sign(away[rows])
            tried[:, k] -= back
            _accept(some, Z, rows, tried)
        if np.array_equal(before, Z):
            break
    return Z


def _accept(some: Problem, Z: Array, rows: Positions, tried: Array) -> None:
    """Write into ``Z`` what was tried, where it is allowed, cheaper and still at the goal."""
    tried = some.feasible(tried)
    fine = (some.cost(tried) < some.cost(Z[rows])) & some.reached(some.scores(tried))
    Z[rows[fine]] = tried[fine]


def climbed(problem: Problem, Z: Array, rounds: int = 40) -> Array:
    """Single allowed moves, the one with most score for its cost first, up to the goal.

    It asks only for scores, so that it serves steps, categories and forests alike.
    """
    Z = Z.copy()
    active = np.arange(len(problem))
    scores = problem.scores(Z)
    for _ in range(rounds):
        active = active[~problem.reached(scores[active])]
        if active.size == 0:
            break
        moved, at, gained = _best_moves(problem.take(active), Z[active], scores[active])
        Z[active[gained]], scores[active[gained]] = moved[gained], at[gained]
        active = active[gained]
    return Z


def _best_moves(problem: Problem, Z: Array, scores: Array) -> tuple[Array, Array, Mask]:
    """The best single move of every person, its score, and whether it is a gain."""
    space, q = problem.space, len(problem)
    moves = []
    for k, c in enumerate(space.coordinates):
        if c.categories is None:
            h = space.step[k] or 0.25 * c.spread
            moves += [(k, size * h, -1) for size in (-64, -16, -4, -1, 1, 4, 16, 64)]
        else:
            moves += [(k, 0.0, code) for code in range(len(c.categories))]
    best, at, worth = Z.copy(), scores.copy(), np.zeros(q)
    cost = problem.cost(Z)
    need = problem.goal - scores
    for k, change, code in moves:
        tried = Z.copy()
        if code < 0:
            rows = np.flatnonzero(problem.high[:, k] > problem.low[:, k])
            tried[:, k] = np.clip(tried[:, k] + change, problem.low[:, k], problem.high[:, k])
        else:
            rows = np.flatnonzero(problem.allowed[k][:, code] & (Z[:, k] != code))
            tried[:, k] = code
        if rows.size == 0:
            continue
        some = problem.take(rows)
        points = some.feasible(tried[rows])
        after = some.scores(points)
        gain = np.minimum(after - scores[rows], need[rows])
        dearer = np.maximum(some.cost(points) - cost[rows], 1e-9)
        value = np.where(gain > 1e-12 * problem.unit, gain / dearer, 0.0)
        better = value > worth[rows]
        chosen = rows[better]
        best[chosen], at[chosen], worth[chosen] = points[better], after[better], value[better]
    return best, at, worth > 0

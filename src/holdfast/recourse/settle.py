"""From where a method arrived to a point that is allowed, reaches the goal, and not much more.

Every method ends here: what it found is put on the grids and within the bounds, lifted to the
goal where it falls short (by a few single moves; else from the nearest training rows beyond the
goal; else by more single moves), and pulled back towards the person as far as the goal allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.recourse.problem import Problem


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
    lifts = (restarted, climbed)
    for lift in (_few_steps, *lifts) if problem.space.discrete else lifts:
        low = np.flatnonzero(~problem.reached(scores))
        if low.size:
            Z[low] = lift(problem.take(low), Z[low])
            scores[low] = problem.take(low).scores(Z[low])
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
            aim = problem.goal[rows] + 0.3 * tolerance - low_score[rows]
            share = np.divide(aim, rise, out=share, where=rise > 0)
            share = np.clip(share, 1e-3, 1 - 1e-9)
        t = low[rows] + share * (high[rows] - low[rows])
        points, scores = at(t, rows)
        up = problem.reached(scores, rows)
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


def _few_steps(problem: Problem, Z: Array) -> Array:
    """What rounding lost is won back by a few single moves."""
    return climbed(problem, Z, rounds=4)


def climbed(problem: Problem, Z: Array, rounds: int = 40) -> Array:
    """Single allowed moves, the one with most score for its cost first, up to the goal.

    It asks only for scores, so that it serves steps, categories and forests alike.
    """
    Z = Z.copy()
    active = np.arange(len(problem))
    scores = problem.scores(Z)
    for _ in range(rounds):
        active = active[~problem.reached(scores[active], active)]
        if active.size == 0:
            break
        still = []
        for some in np.array_split(active, 1 + active.size * len(problem.space.weight) // 10_000):
            moved, at, gained = _best_moves(problem.take(some), Z[some], scores[some])
            Z[some[gained]], scores[some[gained]] = moved[gained], at[gained]
            still.append(some[gained])
        active = np.concatenate(still)
    return Z


def restarted(problem: Problem, Z: Array, nearest: int = 5) -> Array:
    """The cheapest feasible point among the nearest training rows beyond the goal, if any."""
    space, model = problem.space, problem.model
    scores = model.training_scores
    beyond = np.flatnonzero(scores >= problem.goal.min(initial=np.inf))
    if beyond.size == 0:
        return Z
    rows, kept, _ = space.encoded(model.frame.iloc[beyond])
    rows = rows[~(kept & space.number).any(axis=1)]
    if len(rows) == 0:
        return Z
    Z = Z.copy()
    for i in range(len(problem)):
        one = problem.take(np.array([i]))
        away = np.where(space.number, rows - one.factual, rows != one.factual)
        close = np.argsort(space.cost(away, "l1"), kind="stable")[:nearest]
        many = problem.take(np.full(close.size, i))
        points = many.feasible(np.where(many.kept, many.factual, rows[close]))
        fine = np.flatnonzero(many.reached(many.scores(points)))
        if fine.size:
            Z[i] = points[fine[np.argmin(many.cost(points)[fine])]]
    return Z


def _best_moves(problem: Problem, Z: Array, scores: Array) -> tuple[Array, Array, Mask]:
    """The best single move of every person, its score, and whether it is a gain."""
    owner, points = _moves(problem, Z)
    many = problem.take(owner)
    points = many.feasible(points)
    after = many.scores(points)
    need = problem.goal - scores
    gain = np.minimum(after - scores[owner], need[owner])
    dearer = np.maximum(many.cost(points) - problem.cost(Z)[owner], 1e-9)
    worth = np.where(gain > 1e-12 * problem.unit, gain / dearer, 0.0)
    order = np.lexsort((-worth, owner))  # the best move of each person first
    people, first = np.unique(owner[order], return_index=True)
    first = order[first]
    best, at, gained = Z.copy(), scores.copy(), np.zeros(len(problem), dtype=bool)
    best[people], at[people], gained[people] = points[first], after[first], worth[first] > 0
    return best, at, gained


def _moves(problem: Problem, Z: Array) -> tuple[Positions, Array]:
    """Every allowed single move: whose it is, and where it leads."""
    space = problem.space
    owners, points = [np.zeros(0, dtype=np.intp)], [np.zeros((0, Z.shape[1]))]

    def add(rows: Positions, k: int, values: Any) -> None:
        moved = Z[rows]
        moved[:, k] = values
        owners.append(rows)
        points.append(moved)

    for k, c in enumerate(space.coordinates):
        if c.categories is None:
            rows = np.flatnonzero(problem.high[:, k] > problem.low[:, k])
            low, high = problem.low[rows, k], problem.high[rows, k]
            for size in (-64, -16, -4, -1, 1, 4, 16, 64):
                change = size * (space.step[k] or 0.25 * c.spread)
                add(rows, k, np.clip(Z[rows, k] + change, low, high))
        else:
            for code in range(len(c.categories)):
                add(np.flatnonzero(problem.allowed[k][:, code] & (Z[:, k] != code)), k, code)
    return np.concatenate(owners), np.concatenate(points)

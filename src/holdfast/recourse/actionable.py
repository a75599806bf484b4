r"""Actionable recourse (after Ustun, Spangher and Liu): provably cheapest, by integer programming.

For a score that is linear in what people can change, the cheapest recourse under every constraint
is a mixed-integer program, solved to optimality by HiGHS (scipy's ``milp``):

.. math:: \min Σ_j w_j (δ⁺_j + δ⁻_j) + Σ_g w_g (1 − y_{g,own})
          \quad \text{s.t.} \quad Σ_j g_j (δ⁺_j − δ⁻_j) + Σ_{g,c} v_{gc} y_{gc} ≥ \text{gap},

with :math:`x + δ⁺ − δ⁻` within its bounds and on its grid, one category of each choice, and the
links. A link acts only where its trigger rises, which is not convex: every combination of links
acting or not is solved, and the cheapest solution wins. Where no number is on a grid, there is no
choice and no link, the program is a knapsack with a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from holdfast.algebra.rows import Array, Mask
from holdfast.errors import HoldfastError
from holdfast.recourse.cheapest import cheapest_change
from holdfast.recourse.problem import Affine, Problem
from holdfast.recourse.trees import TreeProgram

#: people whose program is solved where another method would do, and variables of each, at most
PROGRAMS, WIDEST = 300, 400
#: links one person's program may have: each doubles the number of programs
MOST_LINKS = 8
#: how far a number that nothing bounds goes at most, where few may change: in typical deviations
_FAR = 1e4
#: how far past the goal the solver is asked to go, in deviations: its tolerance may leave it short
NUDGES = (1e-9, 1e-7, 1e-6, 1e-5)


def actionable(problem: Problem, rng: np.random.Generator, time_limit: float = 60.0) -> Array:
    """The cheapest recourse there is, for linear scores and trees; without one, their own values.

    Parameters
    ----------
    time_limit : float
        Seconds per person, after which the best solution so far is taken.
    """
    if problem.norm != "l1":
        raise HoldfastError("method='actionable' minimises the weighted ℓ1 cost: pass cost='l1'")
    if len(problem.space.links) > MOST_LINKS:
        raise HoldfastError(
            f"method='actionable' takes at most {MOST_LINKS} links, got {len(problem.space.links)}"
        )
    if problem.affine is None:
        return _by_trees(problem, time_limit)
    gap = problem.goal - problem.scores(problem.factual)
    if closed(problem):
        hair = 1e-9 * (problem.unit + abs(problem.goal))
        low, high = problem.low - problem.factual, problem.high - problem.factual
        slopes = np.broadcast_to(problem.affine.slopes, low.shape)
        weight = problem.space.weight
        return problem.factual + cheapest_change(gap + hair, slopes, low, high, weight)
    Z = problem.factual.copy()
    for i in range(len(problem)):
        Z[i], remark = _cheapest(problem.take(np.array([i])), float(gap[i]), time_limit)
        if remark:
            problem.remarks[i] = remark
        problem.progress(i + 1)
    return Z


def _by_trees(problem: Problem, time_limit: float) -> Array:
    program, Z = TreeProgram(problem), problem.factual.copy()
    for i in range(len(problem)):
        Z[i], remark = program.cheapest(problem.take(np.array([i])), time_limit)
        if remark:
            problem.remarks[i] = remark
        problem.progress(i + 1)
    return Z


def closed(problem: Problem) -> bool:
    """Whether the program has a closed form."""
    grids = bool(np.any(problem.space.number & (problem.space.step > 0)))
    return not (grids or problem.allowed or problem.space.links or problem.most is not None)


def affordable(problem: Problem) -> bool:
    """Whether the program is one that is worth solving for everybody."""
    space = problem.space
    width = 3 * int(space.number.sum()) + sum(m.shape[1] for m in problem.allowed.values())
    few = len(space.links) <= MOST_LINKS and width <= WIDEST
    return problem.affine is not None and problem.norm == "l1" and few


def _cheapest(one: Problem, gap: float, time_limit: float) -> tuple[Array, str]:
    """The best point over all combinations of links acting, checked with the model itself."""
    assert one.affine is not None
    goal = float(one.goal[0])
    hair = 1e-9 * (one.unit + abs(goal))
    late = False
    for nudge in NUDGES:
        found = []
        for acting in product((False, True), repeat=len(one.space.links)):
            demands = [(one.affine, gap + hair + nudge * one.unit)]
            point, in_time = program(one, demands, acting, time_limit)
            late |= not in_time
            if point is not None:
                found.append(point)
        if not found:
            break
        points = np.array(found)
        many = one.take(np.zeros(len(points), dtype=np.intp))
        fine = many.scores(points) >= goal + 0.1 * hair
        cost = np.where(fine, many.cost(points), np.inf)
        if fine.any() and (fine.all() or nudge == NUDGES[-1] or not _cheaper(many, points, fine)):
            return points[int(np.argmin(cost))], "not proven cheapest: out of time" if late else ""
    if late:
        return one.factual[0], "undecided: out of time (time_limit)"
    return one.factual[0], "infeasible: proven by the integer program, no allowed change reaches it"


def _cheaper(many: Problem, points: Array, fine: Mask) -> bool:
    """Whether a point that falls a hair short is cheaper than all that do not."""
    cost = many.cost(points)
    return bool(cost[~fine].min() < cost[fine].min())


def program(
    one: Problem,
    demands: Sequence[tuple[Affine, float]],
    acting: tuple[bool, ...],
    time_limit: float,
) -> tuple[Array | None, bool]:
    """The optimum of one program (``None``: it has none), and whether there was time to prove it.

    Every linear score in ``demands`` is to rise by its gap. Variables: rises, falls (in units of
    cost), grid places, the categories of each choice; where few things may change, for every
    number whether it does.
    """
    space = one.space
    x, low, high = one.factual[0], one.low[0], one.high[0]
    numbers = np.flatnonzero(space.number)
    gridded = np.flatnonzero(space.number & (space.step > 0))
    r, g = numbers.size, gridded.size
    starts, width = {}, 2 * r + g
    for k, mask in one.allowed.items():
        starts[k] = width
        width += mask.shape[1]
    moves = width
    width += 0 if one.most is None else r
    position = {k: p for p, k in enumerate(numbers.tolist())}
    cost, lower, upper = np.zeros(width), np.zeros(width), np.full(width, np.inf)
    whole = np.zeros(width)
    rows: list[tuple[Array, float, float]] = []

    unit_cost = float(np.exp(np.mean(np.log(space.weight))))  # costs near 1, whatever their unit
    weight = space.weight / unit_cost
    w = weight[numbers]
    cost[: 2 * r] = 1.0
    upper[:r] = np.maximum(high[numbers] - x[numbers], 0.0) * w
    upper[r : 2 * r] = np.maximum(x[numbers] - low[numbers], 0.0) * w
    rises = np.zeros((len(demands), width))
    for score, (affine, gap) in zip(rises, demands, strict=True):
        score[:r] = affine.slopes[numbers] / w / one.unit
        score[r : 2 * r] = -score[:r]
        rows.append((score, gap / one.unit, np.inf))
    for p, k in enumerate(numbers.tolist()):
        # the person's own value is out of range; on a grid the places' bounds see to it
        if (low[k] > x[k] or high[k] < x[k]) and not space.step[k]:
            move = np.zeros(width)
            move[[p, r + p]] = 1.0 / w[p], -1.0 / w[p]
            rows.append((move, low[k] - x[k], high[k] - x[k]))
    for place, k in enumerate(gridded.tolist()):
        p, h = position[k], space.step[k]
        move = np.zeros(width)
        move[[p, r + p]] = 1.0 / (w[p] * h), -1.0 / (w[p] * h)
        move[2 * r + place] = -1.0
        offset = (one.anchor[0, k] - x[k]) / h
        rows.append((move, offset, offset))
        whole[2 * r + place] = 1
        lower[2 * r + place] = (low[k] - one.anchor[0, k]) / h
        upper[2 * r + place] = (high[k] - one.anchor[0, k]) / h
    for k, mask in one.allowed.items():
        own, here = int(x[k]), np.arange(starts[k], starts[k] + mask.shape[1])
        whole[here], upper[here] = 1, mask[0]
        single = np.zeros(width)
        single[here] = 1.0
        rows.append((single, 1.0, 1.0))
        cost[here] = weight[k]
        cost[here[own]] = 0.0
        if not one.kept[0, k]:
            for score, (affine, _) in zip(rises, demands, strict=True):
                score[here] = (affine.values[k] - affine.values[k][own]) / one.unit
    for (when, code, then, by), acts in zip(space.links, acting, strict=True):
        trigger = position[when] if code < 0 else starts[when] + code
        if code >= 0 and x[when] == code:
            if acts:
                return None, True  # staying in a category is no switch: the other case covers it
            continue
        if not acts:
            upper[trigger] = 0.0
            continue
        follow, t = np.zeros(width), position[then]
        follow[[t, r + t]] = np.sign(by) / w[t], -np.sign(by) / w[t]
        follow[trigger] -= abs(by) / (weight[when] if code < 0 else 1.0)
        rows.append((follow, 0.0, np.inf))
    if one.most is not None:
        rows += _few_changes(one, upper, moves, starts)
        whole[moves:], upper[moves:] = 1, 1.0
    matrix, least, most = (np.array(part) for part in zip(*rows, strict=True))
    solved = milp(
        cost,
        integrality=whole,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(matrix, least, most),
        options={"mip_rel_gap": 0.0, "time_limit": time_limit},
    )
    in_time = solved.status != 1
    if solved.x is None:
        return None, in_time
    Z = x.copy()
    Z[numbers] += (solved.x[:r] - solved.x[r : 2 * r]) / w
    Z[gridded] = one.anchor[0, gridded] + space.step[gridded] * np.round(
        solved.x[2 * r : 2 * r + g]
    )
    for k, mask in one.allowed.items():
        Z[k] = int(np.argmax(solved.x[starts[k] : starts[k] + mask.shape[1]]))
    tidy = np.abs(Z - x) <= 1e-12 * (1.0 + np.abs(x))
    Z = np.where(tidy & space.number, x, Z)
    return one.linked(one.clipped(Z[None]))[0], in_time


def _few_changes(
    one: Problem, upper: Array, moves: int, starts: dict[int, int]
) -> list[tuple[Array, float, float]]:
    """At most so many numbers and choices change.

    A number's rise and fall are bounded by how far it may go; what nothing bounds, by far more than
    anybody would be asked for.
    """
    rows, width = [], upper.size
    r = width - moves
    far = np.where(np.isfinite(upper[: 2 * r]), upper[: 2 * r], _FAR)
    upper[: 2 * r] = far
    for p in range(r):
        either = np.zeros(width)
        either[[p, r + p, moves + p]] = 1.0, 1.0, -max(far[p], far[r + p], 1e-12)
        rows.append((either, -np.inf, 0.0))
    total = np.zeros(width)
    total[moves:] = 1.0
    switched = 0
    for k, start in starts.items():
        if not one.kept[0, k]:
            total[start + int(one.factual[0, k])] = -1.0  # a choice that stays does not count
            switched += 1
    assert one.most is not None
    rows.append((total, -np.inf, float(one.most - switched)))
    return rows

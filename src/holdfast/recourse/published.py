r"""Where published implementations stop: ``find_recourse(…, overshoot="as-is")``.

Every method of this package ends on a common overshoot (:mod:`holdfast.recourse.settle`), so that
methods can be compared. The implementations the literature runs end where their own loops do, and
how far beyond the target that is decides how many erasures a promise survives. These functions
repeat the loops that CARLA ships, with its default settings, for everybody at once: the losses,
constants, steps and stopping rules. Features are taken in parts of their training range, which is
what those implementations are given; columns of zeros and ones are categories there, rounded before
the model sees them, so that no gradient moves them.

Where a model has probabilities, its score is their log-odds and the losses are of probabilities, as
published; elsewhere they are of the score: squared errors, and CEM's confidence in standard
deviations. Not repeated: CEM's clipping to :math:`[-½, ½]` and its rule that features may only rise
(both made for images); DiCE's post-hoc sparsity, which takes small changes back and so would stop
nearer; draws of binary columns in Growing Spheres, which here move with the numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from holdfast.algebra.rows import Array, Mask
from holdfast.recourse.problem import Problem

#: the word for ``overshoot=``
AS_IS = "as-is"

#: points scored at a time
_BLOCK = 200_000


def scfe(
    problem: Problem,
    rng: np.random.Generator,
    rate: float = 0.01,
    trade_off: float = 0.01,
    patience: int = 1000,
    lowered: float = 0.05,
) -> Array:
    """Wachter et al.: Adam (AMSGrad) on ``loss + λ‖δ‖₁`` up to the first valid point.

    The loss is ``−log p`` where the model has probabilities, else ``(f(x̌) − s)²``.

    Parameters
    ----------
    rate : float
        Of Adam.
    trade_off : float
        λ; after every ``patience`` steps without a valid point it is lowered by ``lowered``, not
        below 0.
    """
    scale = np.where(_binary(problem), 0.0, _ranges(problem))
    U = np.zeros_like(problem.factual)
    first, second, largest = np.zeros_like(U), np.zeros_like(U), np.zeros_like(U)
    found = problem.clipped(problem.factual)
    active = np.arange(len(problem))
    for turn in range(1, 3 * patience + 1):
        some = problem.take(active)
        Z = some.clipped(some.factual + U[active] * scale[active])
        scores = some.scores(Z)
        found[active] = Z
        short = ~some.reached(scores)
        active, Z, scores, some = active[short], Z[short], scores[short], some.take(short)
        if active.size == 0:
            break
        slope = some.gradients(Z) * scale[active]
        if _has_probabilities(problem):
            slope *= (expit(scores) - 1.0)[:, None]
        else:
            slope *= (2.0 * (scores - some.goal) / some.unit**2)[:, None]
        slope += max(0.0, trade_off - lowered * ((turn - 1) // patience)) * np.sign(U[active])
        first[active] = 0.9 * first[active] + 0.1 * slope
        second[active] = 0.999 * second[active] + 0.001 * slope**2
        largest[active] = np.maximum(largest[active], second[active])
        deviation = np.sqrt(largest[active] / (1 - 0.999**turn)) + 1e-8
        U[active] -= rate / (1 - 0.9**turn) * first[active] / deviation
        problem.progress(len(problem) - active.size)
    return problem.feasible(found)


def dice(problem: Problem, rng: np.random.Generator, k: int = 2, samples: int = 1000) -> Array:
    """DiCE by random sampling: a feature more at a random value each round, until ``k`` are valid.

    There are two rounds at least. One of all points found valid is picked at random, as the paper
    picks one of DiCE's.
    """
    low, span = _lows(problem), _ranges(problem).max(axis=0, initial=0.0)

    def drawn(some: Problem) -> Array:
        people, m = some.factual.shape
        picked, have = some.factual.copy(), np.zeros(people, dtype=np.intp)
        active, many = np.arange(people), some.take(np.repeat(np.arange(people), samples))
        values = low + rng.random(many.factual.shape) * span
        for column, mask in many.allowed.items():
            values[:, column] = rng.integers(mask.shape[1], size=len(many))
        at = many.factual.copy()
        for turn in range(m):
            free = (many.movable() | _choices(many)) * rng.random(at.shape)
            rows, which = np.arange(len(many)), np.argmax(free, axis=1)
            at[rows, which] = np.where(free[rows, which] > 0, values[rows, which], at[rows, which])
            points = many.feasible(at)
            valid = many.reached(many.scores(points)).reshape(-1, samples)
            first = np.argmax(rng.random(valid.shape) * valid, axis=1)  # a random valid one
            chosen = points.reshape(-1, samples, m)[np.arange(active.size), first]
            # every valid point is as likely as any other to be the one that is kept
            fresh = valid.sum(axis=1)
            have[active] += fresh
            take = rng.random(active.size) * have[active] < fresh
            picked[active[take]] = chosen[take]
            short = (have[active] < k) | (turn < 1)
            if not short.any():
                break
            active, rows = active[short], np.flatnonzero(np.repeat(short, samples))
            many, at, values = many.take(rows), at[rows], values[rows]
        return picked

    return _by_blocks(problem, drawn, samples)


def cem(
    problem: Problem,
    rng: np.random.Generator,
    kappa: float = 0.1,
    beta: float = 0.9,
    constant: float = 10.0,
    rate: float = 0.01,
    searches: int = 9,
    iterations: int = 100,
) -> Array:
    """CEM: FISTA on ``c · max(0, s + κ − f) + β‖δ‖₁ + ‖δ‖₂²``, the least of what is valid by κ.

    ``c`` is searched for by bisection. The confidence κ is a difference of probabilities where the
    model has them, with ``f`` and ``s`` the probabilities too, else in standard deviations of the
    scores.
    """
    q, m = problem.factual.shape
    scale, likely = _ranges(problem), _has_probabilities(problem)
    enough = problem.goal + kappa * problem.unit
    if likely:
        enough = logit(np.minimum(expit(problem.goal) + kappa, 1.0 - 1e-6))
    c, c_low, c_high = np.full(q, constant), np.zeros(q), np.full(q, np.inf)
    best, least = problem.factual.copy(), np.full(q, np.inf)
    for search in range(searches):
        U, V, found = np.zeros((q, m)), np.zeros((q, m)), np.zeros(q, dtype=bool)
        for turn in range(iterations):
            Z = problem.clipped(problem.factual + V * scale)
            scores = problem.scores(Z)
            pull = expit(scores) * expit(-scores) if likely else np.full(q, 1.0 / problem.unit)
            pull *= c * (scores < enough)
            slope = 2.0 * V - pull[:, None] * problem.gradients(Z) * scale
            moved = V - rate * np.sqrt(1.0 - turn / iterations) * slope
            moved = np.sign(moved) * np.maximum(np.abs(moved) - beta, 0.0)
            V = moved + turn / (turn + 3) * (moved - U)
            U = moved
            Z = problem.clipped(problem.factual + U * scale)
            fine = problem.scores(Z) >= enough
            found |= fine
            distance = np.sum(U**2, axis=1) + beta * np.sum(np.abs(U), axis=1)
            better = fine & (distance < least)
            best[better], least[better] = Z[better], distance[better]
        c_high = np.where(found, np.minimum(c_high, c), c_high)
        c_low = np.where(found, c_low, np.maximum(c_low, c))
        c = np.where(np.isfinite(c_high), 0.5 * (c_low + c_high), 10.0 * c)
        problem.progress(q * (search + 1) // (searches + 1))
    return problem.feasible(best)


def growing_spheres(
    problem: Problem,
    rng: np.random.Generator,
    samples: int = 1000,
    step: float = 0.2,
    shells: int = 200,
) -> Array:
    """Growing Spheres: the nearest valid point of the first shell that has one, ℓ2, as drawn."""
    span = _ranges(problem).max(axis=0, initial=0.0)

    def grown(some: Problem) -> Array:
        Z = some.factual.copy()
        active = np.arange(len(some))
        for shell in range(shells):
            many = some.take(np.repeat(active, samples))
            drawn = rng.normal(size=many.factual.shape) * many.movable()
            lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
            radius = step * (shell + rng.random((len(many), 1)))
            drawn *= radius / np.where(lengths > 0, lengths, 1.0)
            points = many.factual + drawn * span
            for column, mask in many.allowed.items():
                points[:, column] = rng.integers(mask.shape[1], size=len(points))
            points = many.feasible(points)
            valid = many.reached(many.scores(points)).reshape(-1, samples)
            away = np.where(valid, np.sum(drawn**2, axis=1).reshape(-1, samples), np.inf)
            found, nearest = valid.any(axis=1), away.argmin(axis=1)
            points = points.reshape(active.size, samples, -1)
            Z[active[found]] = points[np.flatnonzero(found), nearest[found]]
            active = active[~found]
            if active.size == 0:
                break
        return Z

    return _by_blocks(problem, grown, samples)


def _has_probabilities(problem: Problem) -> bool:
    """Whether scores are the log-odds of probabilities the model has."""
    return problem.model.classes is not None and hasattr(problem.model.estimator, "predict_proba")


def _binary(problem: Problem) -> Mask:
    """Which numbers are only ever 0 or 1 in the training table, (m,)."""
    rows, kept, _ = problem.space.encoded(problem.model.frame)
    found: Mask = np.all(kept | (rows == 0) | (rows == 1), axis=0) & problem.space.number
    return found


def _by_blocks(problem: Problem, solve: Callable[[Problem], Array], samples: int) -> Array:
    """Some people at a time, so that what is drawn for them fits into memory."""
    Z, each = problem.factual.copy(), max(1, _BLOCK // samples)
    for start in range(0, len(problem), each):
        rows = np.arange(start, min(start + each, len(problem)))
        Z[rows] = solve(problem.take(rows))
        problem.progress(rows[-1] + 1)
    return Z


def _ranges(problem: Problem) -> Array:
    """The training range of every number that may move, (q, m); 0 for all else."""
    rows, kept, _ = problem.space.encoded(problem.model.frame)
    known = np.where(kept | ~problem.space.number, np.nan, rows)
    some = ~np.isnan(known).all(axis=0)
    span = np.zeros(known.shape[1])
    span[some] = np.nanmax(known[:, some], axis=0) - np.nanmin(known[:, some], axis=0)
    found: Array = np.where(problem.movable(), np.where(span > 0, span, 1.0), 0.0)
    return found


def _lows(problem: Problem) -> Array:
    """The smallest training value of every number, (m,); 0 for choices."""
    rows, kept, _ = problem.space.encoded(problem.model.frame)
    known = np.where(kept | ~problem.space.number, np.inf, rows)
    low = known.min(axis=0)
    return np.where(np.isfinite(low), low, 0.0)


def _choices(problem: Problem) -> Mask:
    """Which coordinates are choices with more than one possibility, (q, m)."""
    found = np.zeros(problem.factual.shape, dtype=bool)
    for column, mask in problem.allowed.items():
        found[:, column] = mask.sum(axis=1) > 1
    return found


#: by the name of the method: how its published implementation goes and where it stops
PUBLISHED: dict[str, Callable[..., Array]] = {
    "scfe": scfe,
    "dice": dice,
    "dice-random": dice,
    "cem": cem,
    "growing-spheres": growing_spheres,
}

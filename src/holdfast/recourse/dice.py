r"""DiCE (Mothilal et al.): several recourses per person that differ from each other.

For each person, ``k`` points minimise

.. math:: \frac{1}{k} Σ_c \max(0, s − f(c)) + \frac{λ_1}{k} Σ_c d(c, x)
          − λ_2 · \text{diversity}(c_1 … c_k),

with the determinant of :math:`K_{ij} = 1/(1 + d(c_i, c_j))` or the mean pairwise distance as the
diversity, by Adam on all people at once; categories stay as they are until the points are
settled. One of the k is then picked at random, as in the paper. ``dice-random`` is the variant
that ships under DiCE's name elsewhere: random values for ever more features until the goal is
reached.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError
from holdfast.recourse.problem import Problem
from holdfast.recourse.scfe import descended
from holdfast.recourse.settle import settled


def dice(
    problem: Problem,
    rng: np.random.Generator,
    k: int = 2,
    diversity: str = "determinant",
    proximity_weight: float = 0.5,
    diversity_weight: float = 1.0,
    iterations: int = 60,
    learning_rate: float = 0.1,
) -> Array:
    """One of ``k`` diverse recourses per person, picked at random.

    Parameters
    ----------
    k : int
        Recourses per person to choose from.
    diversity : {"determinant", "pairwise"}
    proximity_weight, diversity_weight : float
        λ₁ and λ₂.
    iterations, learning_rate
        Of Adam, in typical deviations of the features.
    """
    if diversity not in ("determinant", "pairwise"):
        raise HoldfastError(f"diversity must be 'determinant' or 'pairwise', got {diversity!r}")
    q, m = problem.factual.shape
    many = problem.take(np.repeat(np.arange(q), k))
    scale = np.where(many.movable(), 1.0 / problem.space.weight, 0.0)
    start = rng.normal(size=(q * k, m)) * 0.5
    U = start.copy()  # the change, in units of the features' weights
    first, second = np.zeros_like(U), np.zeros_like(U)
    for turn in range(1, iterations + 1):
        Z = many.clipped(many.factual + U * scale)
        short = ~many.reached(many.scores(Z))
        slope = np.where(short[:, None], -many.gradients(Z) * scale / problem.unit, 0.0)
        slope += proximity_weight / m * np.sign(U)
        slope -= diversity_weight * _diversity_slope(U.reshape(q, k, m), diversity).reshape(-1, m)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        rate = learning_rate / (1 - 0.9**turn)
        U -= rate * first / (np.sqrt(second / (1 - 0.999**turn)) + 1e-8)
        problem.progress(q * turn // (iterations + 1))
    Z = many.clipped(many.factual + U * scale)
    Z, _ = descended(many, Z, 0.0, 30)
    Z = settled(many, Z)
    return _one_of(many, Z, k, rng)


def _diversity_slope(U: Array, kind: str) -> Array:
    """The derivative of the diversity in every point, (q, k, m); distances are mean ℓ1."""
    q, k, m = U.shape
    apart = U[:, :, None, :] - U[:, None, :, :]
    distance = np.abs(apart).mean(axis=3)
    if kind == "pairwise":
        weight = np.full((q, k, k), 2.0 / max(k * (k - 1), 1))
    else:
        kernel = 1.0 / (1.0 + distance) + 1e-4 * np.eye(k)
        determinant = np.linalg.det(kernel)[:, None, None]
        # d det(K) = det(K) tr(K⁻¹ dK), dK = −K² dd, and every pair appears twice
        weight = -2.0 * determinant * np.linalg.inv(kernel) * (1.0 + distance) ** -2
    weight = weight * (1.0 - np.eye(k))
    return np.einsum("qij,qijm->qim", weight, np.sign(apart)) / m


def _one_of(many: Problem, Z: Array, k: int, rng: np.random.Generator) -> Array:
    """One of each person's ``k`` points at random, among those that reach the goal if any do."""
    valid = many.reached(many.scores(Z)).reshape(-1, k)
    chance = rng.random(valid.shape) + valid
    pick = chance.argmax(axis=1)
    picked: Array = Z.reshape(len(valid), k, -1)[np.arange(len(valid)), pick]
    return picked


def dice_random(problem: Problem, rng: np.random.Generator, k: int = 2, samples: int = 50) -> Array:
    """Random values for one feature, then two, then three, until ``k`` points reach the goal.

    Values are drawn from the training rows, each feature on its own; changes that turn out not to
    be needed are taken back. One of the ``k`` is picked at random.

    Parameters
    ----------
    k : int
        Recourses per person to choose from.
    samples : int
        Points drawn per person for each number of features.
    """
    space, q = problem.space, len(problem)
    m = len(space.coordinates)
    pool, kept, _ = space.encoded(problem.model.frame)
    Z = np.repeat(problem.factual, k, axis=0).reshape(q, k, m)
    have = np.zeros(q, dtype=np.intp)
    for width in range(1, m + 1):
        active = np.flatnonzero(have < k)
        if active.size == 0:
            break
        many = problem.take(np.repeat(active, samples))
        chosen = rng.random(many.factual.shape).argsort(axis=1) < width
        rows = rng.integers(len(pool), size=many.factual.shape)
        values = np.take_along_axis(pool, rows, axis=0)
        fresh = chosen & ~np.take_along_axis(kept, rows, axis=0)
        points = many.feasible(np.where(fresh, values, many.factual))
        valid = many.reached(many.scores(points)).reshape(-1, samples)
        order = np.argsort(~valid, axis=1, kind="stable")[:, :k]  # those that reach it first
        for place in range(order.shape[1]):
            here = order[:, place]
            fine = valid[np.arange(len(active)), here] & (have[active] < k)
            who = active[fine]
            Z[who, have[who]] = points.reshape(active.size, samples, m)[fine, here[fine]]
            have[who] += 1
        problem.progress(int(np.sum(have >= k)))
    many = problem.take(np.repeat(np.arange(q), k))
    return _one_of(many, settled(many, Z.reshape(q * k, m), reset=True), k, rng)

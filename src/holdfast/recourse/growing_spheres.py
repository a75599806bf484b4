"""Growing Spheres (Laugel et al.): points drawn in ever larger shells around the person.

It asks the model for scores and nothing else, so that it serves forests and boosting too.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError
from holdfast.recourse.problem import Problem
from holdfast.recourse.settle import settled


def growing_spheres(
    problem: Problem,
    rng: np.random.Generator,
    samples: int = 50,
    growth: float = 1.4,
    first_radius: float = 0.1,
    shells: int = 25,
    switch: float = 0.2,
) -> Array:
    """The cheapest valid point of the first shell that has one, then only the changes it needs.

    Parameters
    ----------
    samples : int
        Points drawn per person and shell.
    growth : float
        Outer over inner radius of a shell.
    first_radius : float
        Where the shells begin, in weighted distance (typical deviations of the features).
    shells : int
        Most shells.
    switch : float
        The share of points in which a given category is switched.
    """
    if not growth > 1:
        raise HoldfastError(f"growth must be above 1, got {growth!r}")
    space = problem.space
    Z = problem.feasible(problem.factual)
    active = np.flatnonzero(~problem.reached(problem.scores(Z)))
    radius = first_radius
    for _ in range(shells):
        if active.size == 0:
            break
        many = problem.take(np.repeat(active, samples))
        drawn = rng.normal(size=many.factual.shape) * many.movable()
        lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn /= np.where(lengths > 0, lengths, 1.0)
        drawn *= rng.uniform(radius, growth * radius, size=(len(drawn), 1)) / space.weight
        points = np.where(space.number, many.factual + drawn, many.factual)
        for k, mask in many.allowed.items():
            codes = rng.integers(mask.shape[1], size=len(points))
            points[:, k] = np.where(rng.random(len(points)) < switch, codes, points[:, k])
        points = many.feasible(points)
        valid = many.reached(many.scores(points)).reshape(-1, samples)
        cost = np.where(valid, many.cost(points).reshape(-1, samples), np.inf)
        found, pick = valid.any(axis=1), cost.argmin(axis=1)
        Z[active[found]] = points.reshape(active.size, samples, -1)[found, pick[found]]
        active = active[~found]
        radius *= growth
        problem.progress(len(problem) - active.size)
    return settled(problem, Z, reset=True)

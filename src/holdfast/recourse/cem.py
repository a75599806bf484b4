r"""CEM (Dhurandhar et al.): pertinent negatives with an elastic-net cost, kept near the data.

For each person the change δ minimises

.. math:: c · \max(0, s − f(x + δ)) + β‖δ‖_1 + ‖δ‖_2² + γ‖x + δ − \mathrm{AE}(x + δ)‖_2²

by FISTA, with ``c`` found by bisection per person, everything in typical deviations of the
features. AE is what keeps recourse near the data. The original trains a deep convolutional
autoencoder on images; for tables this offers two plainer ones: the reconstruction in the leading
principal components of the training table (``manifold="subspace"``, linear, no training noise) and
a one-hidden-layer tanh network trained to reproduce its input (``"autoencoder"``, scikit-learn's
``MLPRegressor``). Categories stay as they are until the points are settled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from holdfast.errors import HoldfastError
from holdfast.models.rows import Array
from holdfast.recourse.problem import Problem
from holdfast.recourse.scfe import descended
from holdfast.recourse.settle import settled
from holdfast.recourse.space import Mask


def cem(
    problem: Problem,
    rng: np.random.Generator,
    beta: float = 0.1,
    gamma: float = 1.0,
    manifold: str = "subspace",
    explained: float = 0.9,
    searches: int = 4,
    iterations: int = 40,
    learning_rate: float = 0.1,
) -> Array:
    """Pertinent negatives.

    Parameters
    ----------
    beta, gamma : float
        Weights of the ℓ1 term and of the reconstruction error.
    manifold : {"subspace", "autoencoder"}
        What reconstructs a row.
    explained : float
        Share of the variance the subspace keeps; also sets the width of the autoencoder.
    searches, iterations, learning_rate
        Bisection steps for ``c``; FISTA steps in each, and their first length.
    """
    q, m = problem.factual.shape
    scale = np.where(problem.movable(), 1.0 / problem.space.weight, 0.0)
    error_slope = _reconstruction(problem, manifold, explained, rng)
    c, c_low, c_high = np.ones(q), np.zeros(q), np.full(q, np.inf)
    best, best_cost = problem.factual.copy(), np.full(q, np.inf)
    last = best.copy()
    for search in range(searches):
        U, V = np.zeros((q, m)), np.zeros((q, m))
        found = np.zeros(q, dtype=bool)
        for turn in range(iterations):
            Z = problem.clipped(problem.factual + V * scale)
            short = problem.goal - problem.scores(Z) > 0
            slope = 2.0 * V + gamma * error_slope(Z) * (scale > 0)
            slope -= (c * short)[:, None] * problem.gradients(Z) * scale / problem.unit
            rate = learning_rate * np.sqrt(1 - turn / iterations)
            moved = V - rate * slope
            moved = np.sign(moved) * np.maximum(np.abs(moved) - rate * beta, 0.0)
            V = moved + turn / (turn + 3) * (moved - U)
            U = moved
            last = problem.clipped(problem.factual + U * scale)
            reached = problem.reached(problem.scores(last))
            found |= reached
            cost = problem.cost(last)
            better = reached & (cost < best_cost)
            best[better], best_cost[better] = last[better], cost[better]
        c_high = np.where(found, np.minimum(c_high, c), c_high)
        c_low = np.where(found, c_low, np.maximum(c_low, c))
        c = np.where(np.isfinite(c_high), 0.5 * (c_low + c_high), 10.0 * c)
        problem.progress(q * (search + 1) // (searches + 1))
    lost = np.flatnonzero(~np.isfinite(best_cost))
    if lost.size:
        best[lost], _ = descended(problem.take(lost), last[lost], 0.0, 30)
    return settled(problem, best)


def _reconstruction(
    problem: Problem, manifold: str, explained: float, rng: np.random.Generator
) -> Callable[[Array], Array]:
    """The derivative of the squared reconstruction error, in typical deviations."""
    if manifold not in ("subspace", "autoencoder"):
        raise HoldfastError(f"manifold must be 'subspace' or 'autoencoder', got {manifold!r}")
    if not 0 < explained <= 1:
        raise HoldfastError(f"explained must be a share above 0, got {explained!r}")
    space = problem.space
    rows, kept, _ = space.encoded(problem.model.frame)
    weight = space.weight[space.number]
    rows, kept = rows[:, space.number] * weight, kept[:, space.number]
    middle = _medians(rows, kept)
    rows = np.where(kept, middle, rows)
    if rows.shape[1] == 0:
        return lambda Z: np.zeros_like(Z)
    mean = rows.mean(axis=0)
    _, sizes, axes = np.linalg.svd(rows - mean, full_matrices=False)
    shares = np.cumsum(sizes**2) / max(float(np.sum(sizes**2)), np.finfo(float).tiny)
    width = int(np.searchsorted(shares, explained * (1 - 1e-12))) + 1
    leading = axes[:width]

    def in_subspace(z: Array) -> Array:
        left = z - mean
        return 2.0 * (left - (left @ leading.T) @ leading)

    slope = in_subspace if manifold == "subspace" else _autoencoder(rows, width, rng)

    def whole(Z: Array) -> Array:
        out = np.zeros_like(Z)
        z = np.where(problem.kept[:, space.number], middle, Z[:, space.number] * weight)
        out[:, space.number] = slope(z)
        return out

    return whole


def _medians(rows: Array, kept: Mask) -> Array:
    missing = np.where(kept, np.nan, rows)
    some = ~kept.all(axis=0)
    out = np.zeros(rows.shape[1])
    out[some] = np.nanmedian(missing[:, some], axis=0)
    return out


def _autoencoder(rows: Array, width: int, rng: np.random.Generator) -> Callable[[Array], Array]:
    """``∇‖z − AE(z)‖²`` of a tanh network with ``width`` hidden units."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    net = MLPRegressor(
        (width,),
        activation="tanh",
        solver="lbfgs",
        alpha=1e-3,
        max_iter=200,
        random_state=int(rng.integers(2**31)),
    )
    inputs = (rows - mean) / deviation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit(inputs, inputs[:, 0] if inputs.shape[1] == 1 else inputs)
    (into, out), (bias, back) = net.coefs_, net.intercepts_

    def slope(z: Array) -> Array:
        inner = (z - mean) / deviation
        hidden = np.tanh(inner @ into + bias)
        left = z - (mean + deviation * (hidden @ out + back))
        through = (((left * deviation) @ out.T) * (1.0 - hidden**2)) @ into.T / deviation
        found: Array = 2.0 * (left - through)
        return found

    return slope

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

from collections.abc import Callable

import numpy as np
from sklearn.neural_network import MLPRegressor

from holdfast.algebra.rows import Array, Mask
from holdfast.errors import HoldfastError
from holdfast.recourse.problem import Problem
from holdfast.recourse.scfe import descended
from holdfast.recourse.settle import settled
from holdfast.shared_state import quiet


def cem(
    problem: Problem,
    rng: np.random.Generator,
    beta: float = 0.1,
    gamma: float = 1.0,
    manifold: str = "subspace",
    explained: float = 0.9,
    searches: int = 4,
    iterations: int = 40,
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
    searches, iterations : int
        Bisection steps for ``c``, and FISTA steps in each.
    """
    q, m = problem.factual.shape
    scale = np.where(problem.movable(), 1.0 / problem.space.weight, 0.0)
    reconstruction_error = _reconstruction(problem, manifold, explained, rng)
    c, c_low, c_high = np.ones(q), np.zeros(q), np.full(q, np.inf)
    best, least = problem.factual.copy(), np.full(q, np.inf)
    last = best.copy()
    for search in range(searches):
        U, V = np.zeros((q, m)), np.zeros((q, m))
        found = np.zeros(q, dtype=bool)
        for turn in range(iterations):
            Z = problem.clipped(problem.factual + V * scale)
            reached = problem.reached(problem.scores(Z))
            found |= reached
            error, error_slope = reconstruction_error(Z)
            value = np.sum(beta * np.abs(V) + V**2, axis=1) + gamma * error
            better = reached & (value < least)
            best[better], least[better] = Z[better], value[better]
            slope = 2.0 * V + gamma * error_slope * (scale > 0)
            slope -= (c * ~reached)[:, None] * problem.gradients(Z) * scale / problem.unit
            rate = np.sqrt(1 - turn / iterations) / (2.0 + 2.0 * gamma)  # 1 / Lipschitz
            moved = V - rate * slope
            moved = np.sign(moved) * np.maximum(np.abs(moved) - rate * beta, 0.0)
            V = moved + turn / (turn + 3) * (moved - U)
            U, last = moved, Z
        c_high = np.where(found, np.minimum(c_high, c), c_high)
        c_low = np.where(found, c_low, np.maximum(c_low, c))
        c = np.where(np.isfinite(c_high), 0.5 * (c_low + c_high), 10.0 * c)
        problem.progress(q * (search + 1) // (searches + 1))
    lost = np.flatnonzero(~np.isfinite(least))
    if lost.size:
        best[lost], _ = descended(problem.take(lost), last[lost], 0.0, 30)
    return settled(problem, best)


def _reconstruction(
    problem: Problem, manifold: str, explained: float, rng: np.random.Generator
) -> Callable[[Array], tuple[Array, Array]]:
    """The squared reconstruction error and its derivative, in typical deviations."""
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
        return lambda Z: (np.zeros(len(Z)), np.zeros_like(Z))
    mean = rows.mean(axis=0)
    _, sizes, axes = np.linalg.svd(rows - mean, full_matrices=False)
    shares = np.cumsum(sizes**2) / max(float(np.sum(sizes**2)), np.finfo(float).tiny)
    width = int(np.searchsorted(shares, explained * (1 - 1e-12))) + 1
    if manifold == "subspace":
        left_over = _subspace(mean, axes[:width])
    else:
        left_over = _autoencoder(rows, width, rng)

    def error(Z: Array) -> tuple[Array, Array]:
        z = np.where(problem.kept[:, space.number], middle, Z[:, space.number] * weight)
        left, slope = left_over(z)
        whole = np.zeros_like(Z)
        whole[:, space.number] = slope
        return np.sum(left**2, axis=1), whole

    return error


def _medians(rows: Array, kept: Mask) -> Array:
    missing = np.where(kept, np.nan, rows)
    some = ~kept.all(axis=0)
    out = np.zeros(rows.shape[1])
    out[some] = np.nanmedian(missing[:, some], axis=0)
    return out


def _subspace(mean: Array, axes: Array) -> Callable[[Array], tuple[Array, Array]]:
    """``z − AE(z)`` and ``∇‖z − AE(z)‖²`` of the projection onto principal axes."""

    def left_over(z: Array) -> tuple[Array, Array]:
        left = z - mean
        left = left - (left @ axes.T) @ axes
        return left, 2.0 * left

    return left_over


def _autoencoder(
    rows: Array, width: int, rng: np.random.Generator
) -> Callable[[Array], tuple[Array, Array]]:
    """``z − AE(z)`` and ``∇‖z − AE(z)‖²`` of a tanh network with ``width`` hidden units."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    net = MLPRegressor(
        hidden_layer_sizes=(width,),
        activation="tanh",
        solver="lbfgs",
        alpha=1e-3,
        max_iter=200,
        random_state=int(rng.integers(2**31)),
    )
    inputs = (rows - mean) / deviation
    with quiet:
        net.fit(inputs, inputs[:, 0] if inputs.shape[1] == 1 else inputs)
    (into, out), (bias, back) = net.coefs_, net.intercepts_

    def left_over(z: Array) -> tuple[Array, Array]:
        hidden = np.tanh((z - mean) / deviation @ into + bias)
        left = z - (mean + deviation * (hidden @ out + back))
        through = (((left * deviation) @ out.T) * (1.0 - hidden**2)) @ into.T / deviation
        return left, 2.0 * (left - through)

    return left_over

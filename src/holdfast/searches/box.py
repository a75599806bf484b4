r"""Bounds on what any small deletion can do to one score.

With ``D = diag P``, ``c̃ = c/√D``, ``r̃ = r/√D`` and ``E = I − D^-½ P D^-½`` (zero diagonal),
``effect(S) = c̃_Sᵀ x`` where ``x = (I − E_SS)⁻¹ r̃_S``. A *box* is an interval ``[lo_i, hi_i]`` that
contains ``x_i`` for every ``S`` with ``i ∈ S`` and ``|S| ≤ k``:

1. ``T(z) = |r̃| + (sum of the k−1 largest |e_ij| z_j)`` is iterated; a ``z`` with ``T(z) < z``
   everywhere is a strict super-solution, so the spectral radius of every ``|E_SS|`` is below 1
   (Collatz–Wielandt) and ``|x_i| ≤ z_i``.
2. Signed passes tighten it: ``hi_i = r̃_i + top_{k−1} of max(e_ij lo_j, e_ij hi_j)⁺``, likewise lo.
"""

from __future__ import annotations

import numpy as np

from holdfast.models.rows import Array

#: outward rounding: sums here have at most a few thousand terms of like size
_OUTWARD = 1e-10


def box(P: Array, r: Array, k: int, passes: int = 4) -> tuple[Array, Array] | None:
    """Bounds on ``u = P_SS⁻¹ r_S``, for every row and every set of at most ``k`` rows.

    Returns ``None`` where no bound is found: deletions that large may be singular.
    """
    root = np.sqrt(np.diag(P))
    scaled = r / root
    E = -P / np.outer(root, root)
    np.fill_diagonal(E, 0.0)
    magnitude = np.abs(E)
    z = np.abs(scaled)
    for _ in range(100):
        grown = np.abs(scaled) + _largest(magnitude * z, k - 1)
        if not np.all(np.isfinite(grown)) or grown.max() > 1e12 * max(np.abs(scaled).max(), 1e-300):
            return None
        done = np.allclose(grown, z, rtol=1e-9, atol=0.0)
        z = grown
        if done:
            break
    z = z * (1.0 + 1e-6) + 1e-12 * float(z.max(initial=0.0)) + 1e-300
    if not np.all(np.abs(scaled) + _largest(magnitude * z, k - 1) < z):
        return None
    lo, hi = -z, z
    for _ in range(passes):
        reach = np.maximum(E * lo, E * hi)
        fall = np.maximum(-E * lo, -E * hi)
        slack = _OUTWARD * (np.abs(scaled) + z)
        hi_new = scaled + _largest(np.maximum(reach, 0.0), k - 1) + slack
        lo_new = scaled - _largest(np.maximum(fall, 0.0), k - 1) - slack
        lo, hi = np.maximum(lo, lo_new), np.minimum(hi, hi_new)
    return lo / root, hi / root


def _largest(matrix: Array, count: int) -> Array:
    """The sum of the ``count`` largest entries of every row."""
    if count <= 0:
        return np.zeros(len(matrix))
    if count >= matrix.shape[1]:
        return matrix.sum(axis=1)
    return np.partition(matrix, matrix.shape[1] - count, axis=1)[:, -count:].sum(axis=1)

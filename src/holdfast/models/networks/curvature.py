"""The inverse Hessian at a stationary point: written down, or by conjugate gradients."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy import linalg

from holdfast.algebra.conjugate import MOST, TOLERANCE, NotPositiveError
from holdfast.algebra.conjugate import solved as by_conjugate_gradients
from holdfast.algebra.rows import Array
from holdfast.errors import UnsupportedModelError
from holdfast.models.networks.problem import TrainingProblem

#: share of the rows' gradients that may be left at a point called stationary
STATIONARY = 1e-5

_HELP = "A larger penalty (alpha, l2) or fewer units help; without(rows) works as it is"


class Curvature(Protocol):
    """``H⁻¹`` at the stationary point."""

    def solve(self, right: Array) -> Array:
        """``H⁻¹`` times some vectors, (p, k)."""
        ...


class Whitened:
    """``H⁻¹ = T Tᵀ``, written down.

    Directions the loss does not see at all (the bias of a unit the penalty has switched off) are
    left out, like the null space of a rank-deficient design.
    """

    def __init__(self, hessian: Array, row_gradients: Array, norm: float):
        if not np.all(np.isfinite(hessian)):
            raise UnsupportedModelError(
                "the second derivative of the training problem is not finite at the polished "
                "weights (a power below 2, or a square root, at 0?): deletions cannot be predicted"
            )
        values, vectors = linalg.eigh(hessian)
        noise = 1e-10 * float(np.abs(values).max())
        flat = vectors[:, np.abs(values) <= noise]
        seen = float(np.abs(row_gradients @ flat).max(initial=0.0))
        if values[0] < -noise or seen > 1e-6 * np.abs(row_gradients).max():
            raise UnsupportedModelError(
                f"the Hessian at the polished weights is not positive definite (smallest "
                f"eigenvalue {values[0]:.2e}, gradient norm {norm:.1e}): this is no strict minimum "
                f"and derivatives predict nothing. {_HELP}"
            )
        kept = values > noise
        self.T: Array = vectors[:, kept] / np.sqrt(values[kept])

    def solve(self, right: Array) -> Array:
        found: Array = self.T @ (self.T.T @ right)
        return found


class ByProducts:
    """``H⁻¹`` by conjugate gradients, with products of ``H`` and vectors."""

    def __init__(self, problem: TrainingProblem, theta: Array):
        self._products = problem.products(theta)
        self.solve(problem.pull_of(theta, slice(None, None, 2))[:, None])  # or is it no minimum?

    def solve(self, right: Array) -> Array:
        try:
            found, left = by_conjugate_gradients(self._products, right)
        except NotPositiveError as bent:
            raise UnsupportedModelError(
                f"the Hessian at the polished weights is not positive definite (it has {bent}): "
                f"this is no strict minimum and derivatives predict nothing. {_HELP}"
            ) from bent
        if left > 100 * TOLERANCE:
            raise UnsupportedModelError(
                f"conjugate gradients with the Hessian left {left:.0e} of the right-hand side "
                f"after {MOST} iterations: its condition is too bad. {_HELP}"
            )
        return found

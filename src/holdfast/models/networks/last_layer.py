r"""The last layer alone: what rows do to a network whose other layers stay as they are.

With features ``φ_i`` (the gradient of the score in the last layer's parameters) the score is
linear, so that the triple of linear scores holds: ``H = Φᵀ V Φ + Λ``, ``C = Φ̌ H⁻¹ Φᵀ V^{½}``,
``P = I − V^{½} Φ H⁻¹ Φᵀ V^{½}``, ``r = −ω ℓ'/√v``. That is exact algebra under squared loss, and
one Newton step under others, of the network with the rest frozen. Rows are compared by it; no
effect is reported by it.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from holdfast.algebra.rows import Array
from holdfast.errors import UnsupportedModelError
from holdfast.models.networks.problem import TrainingProblem


class LastLayer:
    """The factors of the triple.

    Attributes
    ----------
    T : ndarray of shape (h, r)
        ``T Tᵀ = H⁻¹``.
    factor : ndarray of shape (n, r)
    residuals : ndarray of shape (n,)
    coupled : bool
        Whether rows take their curvature along; not where some have none that is positive.
    """

    def __init__(self, problem: TrainingProblem, theta: Array):
        last = problem.network.last
        features = problem.network.parameter_gradients(theta, problem.X, last)
        first, second = problem.derivatives(theta)
        hessian = (features.T * second) @ features + np.diag(problem.penalty[last])
        values, vectors = linalg.eigh(hessian)
        kept = values > 1e-10 * float(np.abs(values).max())
        if not kept.any():
            raise UnsupportedModelError(
                "the last layer's Hessian has no positive direction: rows cannot be compared by it"
            )
        self.T: Array = vectors[:, kept] / np.sqrt(values[kept])
        smallest = 1e-12 * float(second.max(initial=0.0))
        self.coupled = bool(second.min() > smallest)
        if self.coupled:
            root = np.sqrt(second)
            self.factor: Array = root[:, None] * (features @ self.T)
            self.residuals: Array = -first / root
        else:
            self.factor = -first[:, None] * (features @ self.T)
            self.residuals = np.ones(len(first))

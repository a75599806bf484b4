"""Ridge regression with the neural tangent kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from holdfast.algebra import kernel_functions
from holdfast.algebra.rows import Array
from holdfast.estimators.dual_fit import dual_fit, expansion


class NTKRegressor(RegressorMixin, BaseEstimator):
    r"""Ridge regression with the neural tangent kernel of the two-layer ReLU network.

    The infinitely wide limit of :math:`f(x) = k^{-1/2} Σ_j a_j \mathrm{relu}(w_jᵀ x)` trained on
    squared loss; the model the paper studies networks through. It has no bias: add a constant
    column to the features if the labels are far from 0.

    Parameters
    ----------
    beta : float, default=5.0
        Ridge added to the kernel matrix.

    Attributes
    ----------
    X_fit_ : ndarray of shape (n, d)
        Training rows.
    dual_coef_ : ndarray of shape (n,)
        Dual weights ``Ω^½ (Ω^½ K Ω^½ + βI)⁻¹ Ω^½ y``.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = hf.NTKRegressor(beta=0.1).fit(X, y - y.mean())
    >>> round(model.score(X, y - y.mean()), 2)
    0.54
    """

    def __init__(self, beta: float = 5.0):
        self.beta = beta

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve for the dual weights; ``sample_weight`` is the paper's ω, real-valued."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        y = y.astype(np.float64)
        self.dual_coef_, _ = dual_fit(
            kernel_functions.ntk, X, y, sample_weight, self.beta, bias=False
        )
        self.X_fit_ = X
        return self

    def predict(self, X: Any) -> Array:
        """Scores ``K(X, X_fit_) · dual_coef_``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return expansion(kernel_functions.ntk, X, self.X_fit_, self.dual_coef_)

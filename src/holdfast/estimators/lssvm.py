"""The least-squares support vector machine."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from holdfast.algebra import kernel_functions
from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number
from holdfast.estimators.dual_fit import dual_fit, expansion


class LSSVMClassifier(ClassifierMixin, BaseEstimator):
    r"""Least-squares support vector machine with a Gaussian kernel and a bias.

    Ridge regression on labels ±1 in the feature space of
    :math:`K(x, x') = \exp(−γ ‖x − x'‖²)`, the bias not penalised.

    Parameters
    ----------
    gamma : float, default=1.0
        Kernel width, in scikit-learn's convention: larger is narrower.
    beta : float, default=1.0
        Ridge added to the kernel matrix.

    Attributes
    ----------
    X_fit_ : ndarray of shape (n, d)
    dual_coef_ : ndarray of shape (n,)
    intercept_ : float
    classes_ : ndarray of shape (2,)

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = hf.LSSVMClassifier().fit(minmax_scale(X), y)
    >>> round(model.score(minmax_scale(X), y), 2)
    0.98
    """

    def __init__(self, gamma: float = 1.0, beta: float = 1.0):
        self.gamma = gamma
        self.beta = beta

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the bordered system; ``sample_weight`` is the paper's ω, real-valued."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            present = len(np.unique(codes[sample_weight > 0]))
        else:
            present = len(self.classes_)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: {len(self.classes_)} classes."
            )
        if present < 2:
            raise ValueError(
                f"LSSVMClassifier needs samples of two classes, got {present} class"
                " with positive weight."
            )
        self.dual_coef_, self.intercept_ = dual_fit(
            self._kernel(), X, np.where(codes == 1, 1.0, -1.0), sample_weight, self.beta, bias=True
        )
        self.X_fit_ = X
        return self

    def _kernel(self) -> kernel_functions.Kernel:
        positive_number("gamma", self.gamma)
        return kernel_functions.gaussian(self.gamma)

    def decision_function(self, X: Any) -> Array:
        """Signed scores, positive for ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return expansion(self._kernel(), X, self.X_fit_, self.dual_coef_) + self.intercept_

    def predict(self, X: Any) -> Any:
        """The class of the larger score."""
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

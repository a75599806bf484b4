"""Features by which a linear model comes near the neural tangent kernel, for many rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from holdfast.algebra import kernel_functions
from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number


class NystroemNTK(TransformerMixin, BaseEstimator):
    r"""Nyström features of the neural tangent kernel: :math:`K(x, L)\, K_{LL}^{-½}`.

    Ridge regression on them is :class:`NTKRegressor` but for what the landmarks ``L`` do not span,
    and costs what a linear model costs: no matrix of all pairs of rows is made.

    Landmarks are training rows, chosen by a hash of their values: whoever is erased, the others
    stay landmarks, so that only the erasure of a landmark changes the features.

    Parameters
    ----------
    landmarks : int, default=500
    random_state : int, default=0
        Which rows the hash prefers.

    Attributes
    ----------
    landmarks_ : ndarray of shape (landmarks, d)
    normalization_ : ndarray of shape (landmarks, rank)

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ridge = Ridge(alpha=0.1, fit_intercept=False)
    >>> near = make_pipeline(hf.NystroemNTK(100), ridge).fit(X, y - y.mean())
    >>> exact = hf.NTKRegressor(beta=0.1).fit(X, y - y.mean())
    >>> bool(abs(near.predict(X) - exact.predict(X)).mean() < 0.1 * y.std())
    True
    """

    def __init__(self, landmarks: int = 500, random_state: int = 0):
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the landmarks."""
        positive_number("landmarks", self.landmarks)
        X = np.ascontiguousarray(validate_data(self, X, dtype=np.float64))
        rows = np.unique(X, axis=0)
        self.landmarks_ = rows[np.argsort(_drawn(rows, self.random_state))[: int(self.landmarks)]]
        values, vectors = linalg.eigh(kernel_functions.ntk.gram(self.landmarks_))
        kept = values > 1e-10 * max(float(values[-1]), 1e-300)
        self.normalization_ = vectors[:, kept] / np.sqrt(values[kept])
        return self

    def transform(self, X: Any) -> Array:
        """The features of some rows, (n, rank)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        found: Array = kernel_functions.ntk(X, self.landmarks_) @ self.normalization_
        return found

    def pullback(self, X: Array, gradient: Array) -> Array:
        """A gradient in the features, (…, q, rank), as one in the columns, (…, q, d)."""
        by_landmark = gradient @ self.normalization_.T
        jacobian = kernel_functions.ntk.jacobian(np.asarray(X, dtype=float), self.landmarks_)
        return np.einsum("qdl,...ql->...qd", jacobian, by_landmark)


def _drawn(rows: Array, seed: int) -> Any:
    """A number for every row that depends on nothing but its values: a mixing hash of its bits."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(rows), np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15), dtype=np.uint64)
        for column in np.ascontiguousarray(rows.T):
            mixed ^= (column + 0.0).view(np.uint64)  # −0.0 and 0.0 are the same value
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(32)
    return mixed

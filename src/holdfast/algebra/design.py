r"""A weighted, penalised design in whitened coordinates.

Least squares and logistic regression both need :math:`A = Φᵀ V Φ + R` only through its inverse.
The normal equations lose half the digits on badly scaled data, so ``A`` is never formed: a QR of
the column-scaled :math:`[V^{1/2} Φ; R^{1/2}]` and the SVD of its small triangle give

.. math:: V^{1/2} Φ = U\, Σ\, Zᵀ D, \qquad A^{-1} = T Tᵀ, \qquad T = D^{-1} Z Σ^{-1}.

Directions in which the design says nothing (one-hot groups beside an intercept) are left out:
``T`` is then the factor of the pseudo-inverse.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from holdfast.algebra.rows import Array


def features(X: Array, centre: Array | None) -> Array:
    """``Φ``: the columns of ``X`` behind a column of ones, if there is an intercept.

    Then they are also taken from a ``centre``: an intercept absorbs any, and columns far from 0
    (a year of birth) would lose digits against it. ``None``: no intercept.
    """
    return X if centre is None else np.column_stack([np.ones(len(X)), X - centre])


def centre_of(X: Array, weights: Array, intercept: bool) -> Array | None:
    """Where columns far from 0 lie, 0 for the others; ``None`` without an intercept."""
    if not intercept:
        return None
    mean = np.average(X, axis=0, weights=weights)
    return np.where(np.abs(mean) > 10.0 * X.std(axis=0), mean, 0.0)


def functional_features(X: Array, of: str, centre: Array | None) -> tuple[Array, tuple[int, ...]]:
    """Features of the functionals asked for, for a score ``φᵀθ``: scores, or their gradients."""
    if of == "scores":
        return features(X, centre), (len(X),)
    d, intercept = X.shape[1], centre is not None
    unit = np.eye(d + intercept)[int(intercept) :]
    return np.tile(unit, (len(X), 1)), (len(X), d)


class LinearScores:
    """Scores ``φᵀθ`` and their one gradient, for every core whose score is linear in ``x``."""

    centre: Array | None
    theta: Array

    def scores(self, X: Array) -> Array:
        """``Φ̌ θ``: the prediction, or the log-odds of the favourable class."""
        return features(X, self.centre) @ self.theta

    def score_gradients(self, X: Array) -> Array:
        """The coefficients, once for every query."""
        coefficients = self.theta if self.centre is None else self.theta[1:]
        return np.tile(coefficients, (len(X), 1))


class Design:
    """``U`` (n, p) and the map that whitens features, for ``V^½ Φ`` and the penalty ``R``.

    Parameters
    ----------
    weighted : ndarray of shape (n, p)
        ``V^½ Φ``.
    penalty : ndarray of shape (p,)
        The diagonal of ``R``; 0 for what is not penalised.
    intercept : bool
        Whether the first column is the intercept.
    """

    def __init__(self, weighted: Array, penalty: Array, intercept: bool):
        n, p = weighted.shape
        penalised = np.flatnonzero(penalty > 0)
        stacked = np.zeros((n + penalised.size, p))
        stacked[:n] = weighted
        stacked[n + np.arange(penalised.size), penalised] = np.sqrt(penalty[penalised])
        scale = np.sqrt(np.einsum("ij,ij->j", stacked, stacked))
        scale[scale == 0] = 1.0
        stacked /= scale
        if len(stacked) < p:  # fewer rows than parameters: QR wants a tall matrix
            stacked = np.vstack([stacked, np.zeros((p - len(stacked), p))])
        q, triangle = linalg.qr(stacked, mode="economic", overwrite_a=True, check_finite=False)
        b, sigma, zt = linalg.svd(triangle)
        kept = sigma > 50 * p * np.finfo(float).eps * sigma[0]
        self.U: Array = q[:n] @ b[:, kept]
        self.T: Array = (zt[kept].T / sigma[kept]) / scale[:, None]
        self.rank = int(kept.sum())
        self._minimum_norm = _minimum_norm_map(zt[~kept].T / scale[:, None], intercept)

    def whiten(self, phi: Array) -> Array:
        """``Φ̌ T`` of shape (q, rank): features in the coordinates in which ``A`` is the identity.

        Where the design is rank-deficient, parameters are those of least norm (the intercept
        not counted), as scikit-learn chooses them; a deletion that keeps the rank keeps the
        choice.
        """
        if self._minimum_norm is not None:
            phi = phi @ self._minimum_norm
        whitened: Array = phi @ self.T
        return whitened

    def coordinates(self, theta: Array) -> Array:
        """The whitened coordinates of parameters."""
        return np.asarray(np.linalg.lstsq(self.T, theta, rcond=None)[0], dtype=np.float64)

    def parameters(self, whitened: Array) -> Array:
        """The parameters (p,) whose whitened coordinates are given."""
        theta: Array = self.T @ whitened
        return theta if self._minimum_norm is None else self._minimum_norm @ theta


def _minimum_norm_map(null: Array, intercept: bool) -> Array | None:
    """``I − N N_c⁺ E``: moves parameters along the null space to least norm of the coefficients."""
    p, dimension = null.shape
    if dimension == 0:
        return None
    null, _ = linalg.qr(null, mode="economic")
    coefficients = np.eye(p)[1:] if intercept else np.eye(p)
    moved: Array = np.eye(p) - null @ np.linalg.pinv(coefficients @ null) @ coefficients
    return moved

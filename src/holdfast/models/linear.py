r"""Least squares and ridge: the algebra is exact.

With :math:`A = ΦᵀΩΦ + R` (Φ with a column of ones for the intercept, which is not penalised) and
residuals :math:`r = Ω^{1/2}(y − Φθ)`, removing the rows ``S`` changes ``A`` by
:math:`−Φ_Sᵀ Ω_S Φ_S`. The Woodbury identity gives

.. math:: θ − θ_{−S} = A^{-1} Φ_Sᵀ Ω_S^{1/2} (I − Ω^{1/2}Φ_S A^{-1} Φ_Sᵀ Ω^{1/2})^{-1} r_S,

which is :math:`C_{:S} P_{SS}^{-1} r_S` with :math:`C = Φ̌ A^{-1} Φᵀ Ω^{1/2}` and
:math:`P = I − Ω^{1/2} Φ A^{-1} Φᵀ Ω^{1/2}`; for one row it is Miller's leave-one-out formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge

from holdfast.errors import DataMismatchError, UnsupportedModelError
from holdfast.models.deletions import LowRankDeletions
from holdfast.models.design import Design, features, functional_features
from holdfast.models.drift import warning_of
from holdfast.models.reweighting import Reweighted
from holdfast.models.rows import Array, TrainingRows

_ITERATIVE = ("sag", "saga", "lsqr", "sparse_cg", "lbfgs")


class LinearCore:
    """scikit-learn's ``LinearRegression`` and ``Ridge`` as models that can forget."""

    approximations = ("exact", "jackknife")

    def __init__(
        self, estimator: Any, X: Array, y: Array, weights: Array, rows: TrainingRows, sign: int
    ):
        _refuse_variants(estimator)
        self.intercept = bool(estimator.fit_intercept)
        self.rows = rows
        phi = features(X, self.intercept)
        alpha = float(np.ravel(estimator.alpha)[0]) if isinstance(estimator, Ridge) else 0.0
        self.penalty = np.full(phi.shape[1], alpha)
        if self.intercept:
            self.penalty[0] = 0.0
        self._phi, self._y, self._weights = phi, y, weights
        root = np.sqrt(weights)
        self.design = Design(root[:, None] * phi, self.penalty, self.intercept)
        self._t = self.design.U.T @ (root * y)
        self.theta = self.design.parameters(self._t)
        self.residuals = root * y - self.design.U @ self._t
        self._estimator, self._X, self._sign = estimator, X, sign
        fitted, optimal = sign * estimator.predict(X), phi @ self.theta
        self._spread = float(np.std(optimal)) or float(np.std(y)) or 1.0
        self.drift = float(np.max(np.abs(fitted - optimal))) / self._spread

    def verify(self) -> str | None:
        """Refit the estimator as it is: other scores mean other data."""
        estimator, X, sign = self._estimator, self._X, self._sign
        again = clone(estimator).fit(X, sign * self._y, self._weights)
        worst = float(np.max(np.abs(estimator.predict(X) - again.predict(X))))
        tolerance = 1e-2 if getattr(estimator, "solver", None) in _ITERATIVE else 1e-6
        name = type(estimator).__name__
        if worst > tolerance * self._spread:
            raise DataMismatchError(
                f"X and y are not the data this {name} was fitted on: refitted on them, its score "
                f"of a training row differs by up to {worst:.3g} ({worst / self._spread:.2g} "
                "standard deviations of the scores). Pass the training data themselves, in the "
                "same row order, with the sample_weight of the fit if any"
            )
        return warning_of(
            self.drift,
            f"{name}'s solver cut off directions of the data that are small in their units but "
            "not zero; scale the features, or lower its tol (0 for LinearRegression)",
        )

    def scores(self, X: Array) -> Array:
        """``Φ̌ θ``."""
        return features(X, self.intercept) @ self.theta

    def score_gradients(self, X: Array) -> Array:
        """The coefficients, once for every query."""
        coefficients = self.theta[1:] if self.intercept else self.theta
        return np.tile(coefficients, (len(X), 1))

    def deletions(
        self, X: Array, of: str = "scores", method: str | None = None
    ) -> LowRankDeletions:
        """The exact triple, or (``method="jackknife"``) its first-order part."""
        phi, shape = functional_features(X, of, self.intercept)
        return LowRankDeletions(
            queries=self.design.whiten(phi),
            factor=self.design.U,
            residuals=self.residuals,
            rows=self.rows,
            shape=shape,
            coupled=method != "jackknife",
            exact=method != "jackknife",
        )

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The fit for other sample weights: ``∂f/∂ω_i = φ̌ A(ω)⁻¹ φ_i (y_i − φ_i θ(ω))``."""
        root = np.sqrt(self._weights * omega)
        design = Design(root[:, None] * self._phi, self.penalty, self.intercept)
        theta = design.parameters(design.U.T @ (root * self._y))
        residuals = self._weights * (self._y - self._phi @ theta)
        train = design.whiten(self._phi)
        return Reweighted(
            scores=lambda X: features(X, self.intercept) @ theta,
            pullback=lambda X, v: (
                residuals * (train @ (design.whiten(features(X, self.intercept)).T @ v))
            ),
            derivatives=lambda X: (
                (design.whiten(features(X, self.intercept)) @ train.T) * residuals
            ),
        )

    def leave_one_out(self) -> Array:
        """Every training row's score by the model fitted without it."""
        diagonal = 1.0 - np.einsum("ij,ij->i", self.design.U, self.design.U)
        raw = self._y - self._phi @ self.theta
        return self._y - raw / np.where(diagonal > 1e-8, diagonal, np.nan)


def _refuse_variants(estimator: Any) -> None:
    name = type(estimator).__name__
    if getattr(estimator, "positive", False):
        raise UnsupportedModelError(
            f"{name}(positive=True) is constrained least squares: its deletions have no closed "
            "form. Supported: positive=False"
        )
    if np.ndim(estimator.coef_) > 1 and len(estimator.coef_) > 1:
        raise UnsupportedModelError(
            f"{name} was fitted on {len(estimator.coef_)} targets; one is supported"
        )

r"""Logistic regression: one Newton step, or the infinitesimal jackknife.

The score is the log-odds :math:`φᵀθ`. At the optimum of
:math:`Σ ω_i ℓ_i(θ) + ½ θᵀ R θ` the gradient vanishes, so without the rows ``S`` it is
:math:`Σ_S ω_i (y_i − p_i) φ_i`, and one Newton step with the *remaining* rows' Hessian lowers a
score by :math:`C_{:S} P_{SS}^{-1} r_S` with :math:`v = ω p (1 − p)`, :math:`H = ΦᵀVΦ + R`,

.. math:: C = Φ̌ H^{-1} Φᵀ V^{1/2}, \quad P = I − V^{1/2} Φ H^{-1} Φᵀ V^{1/2},
          \quad r = ω (y − p) / \sqrt{v}.

Keeping the full Hessian instead (:math:`P = I`) is the infinitesimal jackknife. Both assume an
optimum, so the fitted parameters are polished by Newton's method first. The effect of one given
deletion is read off after a second step from there, which costs one pass over the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import expit, log_expit
from sklearn.utils.class_weight import compute_class_weight

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.design import Design, LinearScores, centre_of, features, functional_features
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions, TrainingRows
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.drift import drift_between, gradient_share, judge


class LogisticCore(LinearScores):
    """scikit-learn's ``LogisticRegression`` with an L2 penalty as a model that can forget."""

    approximations = ("newton", "jackknife")

    def __init__(
        self, estimator: Any, X: Array, y: Array, weights: Array, rows: TrainingRows, sign: int
    ):
        self.rows = rows
        self.intercept = bool(estimator.fit_intercept)
        self.balanced = estimator.class_weight == "balanced"
        self.centre = centre_of(X, weights, self.intercept)
        self._phi, self._y = features(X, self.centre), y
        self._penalised = bool(np.isfinite(estimator.C))
        self._weights = weights * _class_weights(estimator, y, weights, sign)
        self.penalty = np.full(self._phi.shape[1], 1.0 / estimator.C)
        if self.intercept:
            self.penalty[0] = 0.0
        coefficients = np.ravel(estimator.coef_).astype(np.float64)
        if self.centre is not None:
            shifted = estimator.intercept_ + coefficients @ self.centre
            coefficients = np.concatenate([shifted, coefficients])
        fitted = sign * coefficients
        self.theta = self._optimum(fitted, self._weights)
        self.drift = drift_between(self._phi @ fitted, self._phi @ self.theta, y)
        errors = self._weights * (y - expit(self._phi @ fitted))
        self.gradient_share = gradient_share(
            self._phi.T @ errors - self.penalty * fitted,
            np.abs(errors) * np.linalg.norm(self._phi, axis=1),
        )
        self._advice = (
            f"LogisticRegression(solver={estimator.solver!r}, tol={estimator.tol:g}, "
            f"max_iter={estimator.max_iter}) stopped after {int(np.max(estimator.n_iter_))} "
            "iterations; scale the features, lower tol or raise max_iter"
        )
        self.design, self.residuals = self._linearised(self.theta, self._weights)

    def _optimum(self, theta: Array, weights: Array) -> Array:
        """Newton's method with halved steps, until the scores stand still."""
        phi, y, penalty = self._phi, self._y, self.penalty
        signs = 2.0 * y - 1.0

        def objective(at: Array) -> float:
            return float(-weights @ log_expit(signs * (phi @ at)) + 0.5 * (penalty * at) @ at)

        value = objective(theta)
        for _ in range(200):
            z = phi @ theta
            p = expit(z)
            gradient = phi.T @ (weights * (y - p)) - penalty * theta
            hessian = (phi.T * (weights * p * (1.0 - p))) @ phi
            hessian[np.diag_indices_from(hessian)] += penalty
            step = _scaled_solve(hessian, gradient)
            if np.max(np.abs(phi @ step)) <= 1e-11 * (1.0 + np.max(np.abs(z))):
                return theta + step
            length, rounding = 1.0, 1e-12 * abs(value)
            while (candidate := objective(theta + length * step)) > value + rounding:
                length /= 2.0
            theta, value = theta + length * step, candidate
            if not self._penalised and float(np.max(np.abs(phi @ theta))) > 1e3:
                break
        raise HoldfastError(
            "no optimum of this logistic regression was found: without a penalty, classes that "
            "can be separated perfectly have none. Fit it with a smaller C"
        )

    def _linearised(self, theta: Array, weights: Array) -> tuple[Design, Array]:
        """The whitened design at ``theta``, and ``r``, written so that tiny ``v`` do no harm."""
        margin = (2.0 * self._y - 1.0) * (self._phi @ theta)
        root = np.sqrt(weights)
        curvature = root * np.exp(0.5 * (log_expit(margin) + log_expit(-margin)))
        residuals = root * (2.0 * self._y - 1.0) * np.exp(-0.5 * margin)
        return Design(curvature[:, None] * self._phi, self.penalty, self.intercept), residuals

    @property
    def curvatures(self) -> Array:
        """``v = ω p(1 − p)`` of every row at the optimum."""
        z = self._phi @ self.theta
        found: Array = self._weights * np.exp(log_expit(z) + log_expit(-z))
        return found

    @property
    def curvature_slopes(self) -> Array:
        """``v'/v = 1 − 2p`` of every row at the optimum."""
        slopes: Array = 1.0 - 2.0 * expit(self._phi @ self.theta)
        return slopes

    @property
    def training_features(self) -> Array:
        """``Φ``, the rows of the fit."""
        return self._phi

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The drift to the optimum tells whether these are the data of the fit."""
        return judge(self.drift, self.gradient_share, "LogisticRegression", self._advice)

    def deletions(self, X: Array, of: str, method: str | None) -> LowRankDeletions:
        """The triple of one Newton step, or (``method="jackknife"``) of the jackknife."""
        self._refuse_balanced("deletions")
        phi, shape = functional_features(X, of, self.centre)
        queries = self.design.whiten(phi)

        def second_step(change: Array, rows: Positions) -> Array:
            return queries @ (change - self._correction(change, rows))

        return LowRankDeletions(
            queries=queries,
            factor=self.design.U,
            residuals=self.residuals,
            rows=self.rows,
            shape=shape,
            coupled=method != "jackknife",
            exact=False,
            move=None if method == "jackknife" else second_step,
        )

    def _correction(self, change: Array, rows: Positions) -> Array:
        """A second Newton step, from where the first one led, in whitened coordinates."""
        theta = self.theta - self.design.parameters(change)
        p = expit(self._phi @ theta)
        weights = self._weights.copy()
        weights[rows] = 0.0
        gradient = self._phi.T @ (weights * (self._y - p)) - self.penalty * theta
        hessian = (self._phi.T * (weights * p * (1.0 - p))) @ self._phi
        hessian[np.diag_indices_from(hessian)] += self.penalty
        T = self.design.T
        step: Array = _scaled_solve(T.T @ hessian @ T, T.T @ gradient)
        return step

    def scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        """The score of each row of ``X`` by the optimum without its own set of rows."""
        self._refuse_balanced("deletions")
        phi = features(X, self.centre)
        known: dict[tuple[int, ...], Array] = {}
        out = np.empty(len(sets))
        for j, gone in enumerate(sets):
            key = tuple(sorted(gone.tolist()))
            if key not in known:
                known[key] = self.optimum_without(gone)
            out[j] = phi[j] @ known[key]
        return out

    def optimum_without(self, rows: Positions) -> Array:
        """The parameters of the fit without some rows, by Newton's method to convergence."""
        weights = self._weights.copy()
        weights[rows] = 0.0
        return self._optimum(self.theta, weights)

    def scores_at(self, theta: Array, X: Array) -> Array:
        """The scores of ``X`` by the parameters ``theta``."""
        scores: Array = features(X, self.centre) @ theta
        return scores

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The optimum for other weights: ``∂f/∂ω_i = φ̌ H(ω)⁻¹ φ_i (y_i − p_i)``."""
        self._refuse_balanced("reweighting")
        weights = self._weights * omega
        theta = self._optimum(self.theta, weights)
        design, _ = self._linearised(theta, weights)
        residuals = self._weights * (self._y - expit(self._phi @ theta))
        train = design.whiten(self._phi)

        def whiten(X: Array) -> Array:
            return design.whiten(features(X, self.centre))

        return Reweighted(
            scores=lambda X: features(X, self.centre) @ theta,
            pullback=lambda X, v: residuals * (train @ (whiten(X).T @ v)),
            derivatives=lambda X: (whiten(X) @ train.T) * residuals,
        )

    def _refuse_balanced(self, what: str) -> None:
        if self.balanced:
            raise UnsupportedModelError(
                f"class_weight='balanced' makes every row's weight depend on who is in the data, "
                f"so {what} have no closed form. What works: scores, score_gradients, and "
                "without(rows), which balances anew; or fit with sample_weight or a dict of "
                "class weights, which stay fixed"
            )


def _scaled_solve(matrix: Array, right: Array) -> Array:
    """Solve with a symmetric matrix scaled to unit diagonal; least squares where it is singular."""
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    scaled = matrix / np.outer(scale, scale)
    try:
        factor = linalg.cho_factor(scaled)
        if np.min(np.abs(np.diag(factor[0]))) < 1e-7:
            raise linalg.LinAlgError
        solution: Array = linalg.cho_solve(factor, right / scale)
    except linalg.LinAlgError:
        solution = linalg.lstsq(scaled, right / scale, cond=1e-13)[0]
    return solution / scale


def _class_weights(estimator: Any, y: Array, weights: Array, sign: int) -> Array:
    """What ``class_weight`` multiplies every row's weight by."""
    if estimator.class_weight is None:
        return np.ones(len(y))
    codes = (y > 0).astype(int) if sign > 0 else (y == 0).astype(int)
    labels = estimator.classes_[codes]
    by_class = compute_class_weight(
        estimator.class_weight, classes=estimator.classes_, y=labels, sample_weight=weights
    )
    found: Array = by_class[codes]
    return found


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if estimator.solver == "liblinear":
        return "solver='liblinear' penalises the intercept too (lbfgs and newton solvers do not)"
    penalty = getattr(estimator, "penalty", "deprecated")
    if penalty in ("l1", "elasticnet") or (penalty == "deprecated" and estimator.l1_ratio):
        return "an L1 or elastic-net penalty is not smooth (L2 is)"
    if penalty is None:
        return "penalty=None is not read here; C=np.inf means the same"
    return None

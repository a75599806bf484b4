r"""One-hidden-layer networks: the infinitesimal jackknife at a polished optimum.

For :math:`f(x) = b_2 + Σ_j u_j σ(w_jᵀ x̃)` (x̃ with a constant) and the objective
:math:`Σ ω_i ℓ(y_i, f(x_i)) + \frac{α}{2}(‖W‖² + ‖u‖²)`, biases not penalised, deleting ``S``
moves the parameters to first order by :math:`H^{-1} Σ_S ω_i ∇ℓ_i`, so with the per-row gradients
``g``

.. math:: C = −∇_θ f(X̌)\, H^{-1} gᵀ, \quad P = I, \quad r = 1.

The Hessian is exact (not Gauss–Newton) and includes the regulariser. It means something only at
a stationary point, so the fitted network is polished by damped Newton steps first; where the
Hessian there is not positive definite, deletions are refused. A single deletion's scores are
those of the network at the moved parameters, not their linear part.

With ``relu`` the loss has kinks: the second derivative of the activation is 0 wherever it exists,
and a deletion that switches a unit on or off is not seen by any derivative.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg
from scipy.special import expit

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import UnsupportedModelError
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.drift import drift_between, gradient_share, judge
from holdfast.models.losses import LOSSES

Activation = Callable[[Array], tuple[Array, Array, Array]]


def _logistic(a: Array) -> tuple[Array, Array, Array]:
    z = expit(a)
    slope = z * (1.0 - z)
    return z, slope, slope * (1.0 - 2.0 * z)


def _tanh(a: Array) -> tuple[Array, Array, Array]:
    z = np.tanh(a)
    slope = 1.0 - z * z
    return z, slope, -2.0 * z * slope


def _relu(a: Array) -> tuple[Array, Array, Array]:
    on = (a > 0).astype(float)
    return a * on, on, np.zeros_like(a)


def _identity(a: Array) -> tuple[Array, Array, Array]:
    return a, np.ones_like(a), np.zeros_like(a)


#: value, first and second derivative of scikit-learn's activations
ACTIVATIONS: dict[str, Activation] = {
    "logistic": _logistic,
    "tanh": _tanh,
    "relu": _relu,
    "identity": _identity,
}


class NetworkCore(Core):
    """scikit-learn's ``MLPClassifier`` and ``MLPRegressor`` with one hidden layer."""

    def __init__(self, estimator: Any, data: Training):
        X, y, weights, sign = data.X, data.y, data.weights, data.sign
        self.rows = data.rows
        self.activation = ACTIVATIONS[estimator.activation]
        self.loss = LOSSES["logistic" if estimator.out_activation_ == "logistic" else "squared"]
        self.hidden = estimator.coefs_[0].shape[1]
        self._x, self._y, self._weights = _with_ones(X), y, weights
        d = X.shape[1]
        self.penalty = np.full((d + 1) * self.hidden + self.hidden + 1, float(estimator.alpha))
        self.penalty[d * self.hidden : (d + 1) * self.hidden] = 0.0
        self.penalty[-1] = 0.0
        fitted = np.concatenate(
            [
                np.ravel(estimator.coefs_[0]),
                estimator.intercepts_[0],
                sign * np.ravel(estimator.coefs_[1]),
                sign * estimator.intercepts_[1],
            ]
        )
        self.theta, self.gradient_norm = self._polished(fitted)
        self.drift = drift_between(
            self._forward(fitted, self._x)[0], self._forward(self.theta, self._x)[0], y
        )
        gradients = self._row_gradients(fitted)
        self.gradient_share = gradient_share(
            gradients.sum(axis=0) + self.penalty * fitted, np.linalg.norm(gradients, axis=1)
        )
        self._sign, self._estimator = sign, estimator
        self._name = type(estimator).__name__
        self._advice = (
            f"{self._name}(solver={estimator.solver!r}) stopped after {estimator.n_iter_} "
            "iterations; use solver='lbfgs' with a larger max_iter and a smaller tol"
        )

    @cached_property
    def can(self) -> Capabilities:
        """Deletions where there is a strict minimum to take derivatives at; refits everywhere."""
        common: dict[str, Any] = {"refit": "training", "draws": True}
        try:
            self._whitening  # noqa: B018 (worked out once, or refused)
        except UnsupportedModelError as refusal:
            return Capabilities(why_not=str(refusal), **common)
        return Capabilities(predictions=("jackknife",), **common)

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The drift to the stationary point tells whether these are the data of the fit."""
        return judge(self.drift, self.gradient_share, self._name, self._advice)

    def polished(self) -> Any:
        """A copy of the estimator with the polished weights: where a refit starts."""
        W, u, b = self._parts(self.theta)
        fresh = copy.deepcopy(self._estimator)
        fresh.coefs_ = [W[:-1].copy(), self._sign * u[:, None]]
        fresh.intercepts_ = [W[-1].copy(), np.array([self._sign * b])]
        return fresh

    # the network and its derivatives ------------------------------------------------------

    def _parts(self, theta: Array) -> tuple[Array, Array, float]:
        cut = theta.size - self.hidden - 1
        return theta[:cut].reshape(-1, self.hidden), theta[cut:-1], float(theta[-1])

    def _forward(self, theta: Array, x: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        W, u, b = self._parts(theta)
        layers = self.activation(x @ W)
        return layers[0] @ u + b, layers

    def _parameter_gradients(self, theta: Array, x: Array) -> Array:
        """``∇_θ f`` of shape (q, p)."""
        _, u, _ = self._parts(theta)
        _, (z, slope, _) = self._forward(theta, x)
        first = (x[:, :, None] * (slope * u)[:, None, :]).reshape(len(x), -1)
        return np.concatenate([first, z, np.ones((len(x), 1))], axis=1)

    def _losses(self, f: Array) -> tuple[float, Array, Array]:
        """Total loss, and first and second derivative of every row's loss in its score."""
        y, weights = self._y, self._weights
        first, second = self.loss.slopes(f, y), self.loss.curvatures(f, y)
        return float(weights @ self.loss.values(f, y)), weights * first, weights * second

    def objective(self, theta: Array) -> float:
        """What the fit minimises, as a sum over rows."""
        loss, _, _ = self._losses(self._forward(theta, self._x)[0])
        return loss + 0.5 * float((self.penalty * theta) @ theta)

    def objective_gradient(self, theta: Array) -> Array:
        """Gradient of :meth:`objective`."""
        _, u, _ = self._parts(theta)
        f, (z, slope, _) = self._forward(theta, self._x)
        _, first, _ = self._losses(f)
        hidden = self._x.T @ (first[:, None] * slope * u)
        return np.concatenate([hidden.ravel(), z.T @ first, [first.sum()]]) + self.penalty * theta

    def hessian(self, theta: Array) -> Array:
        """Hessian of :meth:`objective`: Gauss–Newton part, curvature of ``f``, regulariser."""
        _, u, _ = self._parts(theta)
        f, (_, slope, bend) = self._forward(theta, self._x)
        _, first, second = self._losses(f)
        jacobian = self._parameter_gradients(theta, self._x)
        out: Array = (jacobian.T * second) @ jacobian
        p, h, x = theta.size, self.hidden, self._x
        cut = p - h - 1
        inner = np.arange(cut).reshape(-1, h)
        cross = x.T @ (first[:, None] * slope)
        for j in range(h):
            own = inner[:, j]
            out[np.ix_(own, own)] += (x.T * (first * u[j] * bend[:, j])) @ x
            out[own, cut + j] += cross[:, j]
            out[cut + j, own] += cross[:, j]
        out[np.diag_indices_from(out)] += self.penalty
        return out

    def _polished(self, theta: Array) -> tuple[Array, float]:
        """Damped Newton steps to the stationary point the fit was heading for.

        With relu a step across a kink may not lower the objective: the best point is kept.
        """
        value, damping = self.objective(theta), 0.0
        gradient = self.objective_gradient(theta)
        for _ in range(60):
            hessian = self.hessian(theta)
            scale = float(np.abs(np.diag(hessian)).max())
            while True:
                try:
                    factor = linalg.cho_factor(hessian + damping * np.eye(theta.size))
                    step = -linalg.cho_solve(factor, gradient)
                    candidate = self.objective(theta + step)
                    if candidate <= value + 1e-14 * abs(value):
                        break
                except linalg.LinAlgError:
                    pass
                damping = max(10.0 * damping, 1e-8 * scale)
                if damping > 1e8 * scale:
                    return theta, float(np.linalg.norm(gradient))
            theta, value = theta + step, candidate
            gradient = self.objective_gradient(theta)
            damping = damping / 10.0 if damping > 1e-8 * scale else 0.0
            moved = np.abs(
                self._forward(theta, self._x)[0] - self._forward(theta - step, self._x)[0]
            )
            if moved.max() < 1e-11 * (1.0 + np.abs(value) / len(self._y)) and damping == 0.0:
                break
        return theta, float(np.linalg.norm(gradient))

    # what a model that can forget says ----------------------------------------------------

    def scores(self, X: Array) -> Array:
        """The output before the link: log-odds, or the prediction."""
        return self._forward(self.theta, _with_ones(X))[0]

    def score_gradients(self, X: Array) -> Array:
        """``Σ_j u_j σ'(w_jᵀx̃) w_j``."""
        return self._input_gradients(self.theta, X)

    def _input_gradients(self, theta: Array, X: Array) -> Array:
        W, u, _ = self._parts(theta)
        _, (_, slope, _) = self._forward(theta, _with_ones(X))
        gradients: Array = (slope * u) @ W[:-1].T
        return gradients

    @cached_property
    def _whitening(self) -> Array:
        """``T`` (p, r) with ``T Tᵀ = H⁻¹``, refused where the Hessian is no minimum's.

        Directions the loss does not see at all (the bias of a unit the penalty has switched off)
        are left out, like the null space of a rank-deficient design.
        """
        values, vectors = linalg.eigh(self.hessian(self.theta))
        noise = 1e-10 * float(np.abs(values).max())
        flat = vectors[:, np.abs(values) <= noise]
        gradients = self._row_gradients(self.theta)
        seen = float(np.abs(gradients @ flat).max(initial=0.0))
        total = gradients.sum(axis=0) + self.penalty * self.theta
        if gradient_share(total, np.linalg.norm(gradients, axis=1)) > 1e-5:
            raise UnsupportedModelError(
                f"no stationary point was found near the fitted weights (gradient norm "
                f"{self.gradient_norm:.1e} after polishing; with relu the optimum can sit on a "
                "kink), and derivatives predict nothing elsewhere. activation='logistic' or "
                "'tanh' and a larger alpha help; without(rows) works as it is"
            )
        if values[0] < -noise or seen > 1e-6 * np.abs(gradients).max():
            raise UnsupportedModelError(
                f"the Hessian at the polished weights is not positive definite (smallest "
                f"eigenvalue {values[0]:.2e}, gradient norm {self.gradient_norm:.1e}): this is no "
                "strict minimum and derivatives predict nothing. A larger alpha helps; "
                "without(rows) works as it is"
            )
        kept = values > noise
        whitening: Array = vectors[:, kept] / np.sqrt(values[kept])
        return whitening

    def _row_gradients(self, theta: Array) -> Array:
        """Gradient of every row's loss, (n, p)."""
        _, first, _ = self._losses(self._forward(theta, self._x)[0])
        return first[:, None] * self._parameter_gradients(theta, self._x)

    def deletions(
        self, X: Array, of: str = "scores", method: str | None = None
    ) -> LowRankDeletions:
        """The jackknife's triple; its :meth:`effect` evaluates the network at the moved weights."""
        T, x = self._whitening, _with_ones(X)
        if of == "scores":
            gradients, shape = self._parameter_gradients(self.theta, x), (len(X),)
        else:
            gradients, shape = self._gradient_jacobian(X), X.shape

        def value(theta: Array) -> Array:
            return self._forward(theta, x)[0] if of == "scores" else self._input_gradients(theta, X)

        before = value(self.theta)

        def move(whitened: Array, rows: Positions) -> Array:
            return before - value(self.theta - T @ whitened)

        return LowRankDeletions(
            queries=gradients @ T,
            factor=-self._row_gradients(self.theta) @ T,
            residuals=np.ones(self.rows.n),
            rows=self.rows,
            shape=shape,
            coupled=False,
            exact=False,
            move=move,
        )

    def _gradient_jacobian(self, X: Array) -> Array:
        """``∂(∂f/∂x_k)/∂θ`` of shape (q·d, p)."""
        W, u, _ = self._parts(self.theta)
        x = _with_ones(X)
        _, (_, slope, bend) = self._forward(self.theta, x)
        q, d = X.shape
        V = W[:-1]
        first = (u * bend)[:, None, None, :] * V[None, :, None, :] * x[:, None, :, None]
        k = np.arange(d)
        first[:, k, k, :] += (slope * u)[:, None, :]
        second = slope[:, None, :] * V[None]
        flat = [first.reshape(q * d, -1), second.reshape(q * d, -1), np.zeros((q * d, 1))]
        return np.concatenate(flat, axis=1)

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The jackknife's ``θ(ω) = θ + H⁻¹ Σ (1 − ω_i) g_i`` and the scores there."""
        T = self._whitening
        rows = self._row_gradients(self.theta) @ T
        theta = self.theta + T @ ((1.0 - omega) @ rows)

        def pullback(X: Array, v: Array) -> Array:
            return -rows @ ((v @ self._parameter_gradients(theta, _with_ones(X))) @ T)

        def derivatives(X: Array) -> Array:
            return -(self._parameter_gradients(theta, _with_ones(X)) @ T) @ rows.T

        return Reweighted(
            scores=lambda X: self._forward(theta, _with_ones(X))[0],
            pullback=pullback,
            derivatives=derivatives,
            exact=False,
        )


def _with_ones(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if estimator.n_layers_ != 3:
        return f"it has {estimator.n_layers_ - 2} hidden layers, and one is supported"
    if estimator.n_outputs_ != 1:
        return f"it has {estimator.n_outputs_} outputs, and one is supported"
    if getattr(estimator, "loss", "") == "poisson":
        return "loss='poisson' is not supported (squared_error is)"
    if estimator.early_stopping and estimator.solver != "lbfgs":
        return (
            "early_stopping=True holds part of the rows out of the fit and stops before the "
            "optimum (early_stopping=False does not)"
        )
    return None

"""The training problem of a network: its loss, its rows, and every derivative of their sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.conjugate import Products
from holdfast.algebra.rows import Array
from holdfast.models.networks.contract import Network

#: entries of rows' gradients that are worked out to measure how long they are
_AT_ONCE = 20_000_000


class TrainingProblem:
    """``Σ ω_i ℓ(y_i, f_θ(x_i)) + ½ Σ penalty θ²`` as a function of ``θ``.

    Parameters
    ----------
    network : Network
    loss : Loss
        Values, slopes and curvatures in the score.
    X, y, weights : ndarrays
        Labels as the loss takes them.
    """

    def __init__(self, network: Network, loss: Any, X: Array, y: Array, weights: Array):
        self.network, self.loss = network, loss
        self.X, self.y, self.weights = X, y, weights
        self.penalty, self.size = network.penalty, network.fitted.size

    def scores(self, theta: Array) -> Array:
        """Of the training rows, (n,)."""
        return self.network.scores(theta, self.X)

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        """First and second derivative of every row's weighted loss in its score."""
        f = self.scores(theta)
        first, second = self.loss.slopes(f, self.y), self.loss.curvatures(f, self.y)
        return self.weights * first, self.weights * second

    def value(self, theta: Array) -> float:
        """What the fit minimises, as a sum over rows."""
        return self._value(theta, self.scores(theta))

    def gradient(self, theta: Array) -> Array:
        """Gradient of :meth:`value`."""
        return self._gradient(theta, self.scores(theta))

    def both(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient."""
        f = self.scores(theta)
        return self._value(theta, f), self._gradient(theta, f)

    def _value(self, theta: Array, f: Array) -> float:
        loss = float(self.weights @ self.loss.values(f, self.y))
        return loss + 0.5 * float((self.penalty * theta) @ theta)

    def _gradient(self, theta: Array, f: Array) -> Array:
        first = self.weights * self.loss.slopes(f, self.y)
        return self.network.pullback(theta, self.X, first) + self.penalty * theta

    def hessian(self, theta: Array) -> Array:
        """Hessian of :meth:`value`, exact (not Gauss–Newton)."""
        out = self.network.hessian(theta, self.X, *self.derivatives(theta))
        out[np.diag_indices_from(out)] += self.penalty
        return out

    def products(self, theta: Array) -> Products:
        """The same as a function of vectors."""
        inner = self.network.hessian_products(theta, self.X, *self.derivatives(theta))
        penalty = self.penalty[:, None]
        return lambda vectors: inner(vectors) + penalty * vectors

    def row_gradients(self, theta: Array) -> Array:
        """Gradient of every row's loss, (n, p)."""
        first = self.weights * self.loss.slopes(self.scores(theta), self.y)
        return first[:, None] * self.network.parameter_gradients(theta, self.X)

    def pull_of(self, theta: Array, rows: Any, shares: Array | None = None) -> Array:
        """The sum of some rows' gradients, (p,), each times its share."""
        X, y = self.X[rows], self.y[rows]
        first = self.weights[rows] * self.loss.slopes(self.network.scores(theta, X), y)
        return self.network.pullback(theta, X, first if shares is None else shares * first)

    def pulls(self, theta: Array) -> float:
        """The sum of the lengths of the rows' gradients; of very many, from some of the rows."""
        n = len(self.X)
        step = max(1, -(-n * self.size // _AT_ONCE))
        some = slice(None, None, step)
        first = self.weights[some] * self.loss.slopes(
            self.network.scores(theta, self.X[some]), self.y[some]
        )
        slopes = self.network.parameter_gradients(theta, self.X[some])
        lengths = np.abs(first) * np.linalg.norm(slopes, axis=1)
        return float(lengths.sum()) * n / len(lengths)

    def uncancelled(self, theta: Array) -> float:
        """How much of the rows' gradients does not cancel: 0 at a stationary point."""
        return float(np.linalg.norm(self.gradient(theta))) / (self.pulls(theta) or 1.0)

r"""scikit-learn's multi-layer perceptrons with any number of hidden layers, by numpy.

Layer ``l`` takes ``a_{l-1}`` (``a_0 = x``) and gives ``z_l = W_lᵀ ã_{l-1}`` and
``a_l = σ(z_l)``, with ``ã`` for ``a`` and a constant, whose row of ``W_l`` is the bias. The last
layer has one unit and no activation. With ``δ_l = ∂f/∂z_l``, ``J_{lm} = ∂a_l/∂z_m`` and
``E_{lm} = ∂δ_l/∂z_m`` of every row,

.. math::

   \frac{∂f}{∂W_l} = ã_{l-1} ⊗ δ_l, \qquad
   \frac{∂²f}{∂W_l ∂W_m} = (ã_{l-1} ⊗ ã_{m-1}) ⊗ E_{lm} + J_{l-1,m} ⊗ ã_{m-1} ⊗ δ_l \quad (m ≤ l),

so the Hessian of a sum of losses is a few matrix products of the size of the Gauss–Newton one, and
its products with vectors are one more forward and backward pass (Pearlmutter's R-operator).

The penalty is scikit-learn's: ``α/2`` times the squared weights, biases free, beside the *sum* of
the rows' losses. With ``relu`` second derivatives are 0 wherever they exist, and a deletion that
switches a unit on or off is not seen by any derivative.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from holdfast.algebra.rows import Array
from holdfast.estimators.from_torch import torch_network

Activation = Callable[[Array], tuple[Array, Array, Array]]

#: numbers held at a time while a Hessian is summed up
_AT_ONCE = 8_000_000


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


class Perceptron:
    """``MLPClassifier`` and ``MLPRegressor`` as a differentiable network."""

    def __init__(self, estimator: Any):
        self._estimator, self._activation = estimator, ACTIVATIONS[estimator.activation]
        layers = [
            np.vstack([W, b]) for W, b in zip(estimator.coefs_, estimator.intercepts_, strict=True)
        ]
        self._shapes = [layer.shape for layer in layers]
        ends = np.cumsum([0, *(layer.size for layer in layers)])
        self._places = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.fitted = np.concatenate([layer.ravel() for layer in layers])
        self.penalty = np.full(self.fitted.size, float(estimator.alpha))
        for place, (_, units) in zip(self._places, self._shapes, strict=True):
            self.penalty[place.stop - units : place.stop] = 0.0
        self.last = self._places[-1]
        self.name = type(estimator).__name__
        self.advice = (
            f"{self.name}(solver={estimator.solver!r}) stopped after {estimator.n_iter_} "
            "iterations; use solver='lbfgs' with a larger max_iter and a smaller tol"
        )

    def estimator(self, theta: Array) -> Any:
        fresh = copy.deepcopy(self._estimator)
        layers = self._layers(theta)
        fresh.coefs_ = [layer[:-1].copy() for layer in layers]
        fresh.intercepts_ = [layer[-1].copy() for layer in layers]
        return fresh

    def as_module(self) -> Any:
        """A ``torch.nn.Sequential`` of the same shape, with parameters of its own."""
        return torch_network().sequential(
            [rows - 1 for rows, _ in self._shapes] + [1], self._estimator.activation
        )

    def _layers(self, theta: Array) -> list[Array]:
        return [
            theta[place].reshape(shape)
            for place, shape in zip(self._places, self._shapes, strict=True)
        ]

    # one pass forward, one back -----------------------------------------------------------

    def _forward(self, layers: Sequence[Array], X: Array) -> tuple[list[Array], list[Any], Array]:
        """The layers' inputs with a constant, the activations' derivatives, the scores."""
        inputs, bends, a = [], [], X
        for layer in layers[:-1]:
            inputs.append(_with_ones(a))
            a, slope, bend = self._activation(inputs[-1] @ layer)
            bends.append((slope, bend))
        inputs.append(_with_ones(a))
        return inputs, bends, (inputs[-1] @ layers[-1])[:, 0]

    def _backward(
        self, layers: Sequence[Array], bends: Sequence[Any], start: Array
    ) -> tuple[list[Array], list[Array]]:
        """``δ`` of every layer and what comes down to it, for ``start`` at the output."""
        deltas, below = [start[:, None]], []
        for layer, (slope, _) in zip(layers[:0:-1], bends[::-1], strict=True):
            below.append(deltas[-1] @ layer[:-1].T)
            deltas.append(slope * below[-1])
        return deltas[::-1], below[::-1]

    def scores(self, theta: Array, X: Array) -> Array:
        return self._forward(self._layers(theta), X)[2]

    def pullback(self, theta: Array, X: Array, v: Array) -> Array:
        layers = self._layers(theta)
        inputs, bends, _ = self._forward(layers, X)
        deltas, _ = self._backward(layers, bends, v)
        return np.concatenate(
            [(a.T @ delta).ravel() for a, delta in zip(inputs, deltas, strict=True)]
        )

    def parameter_gradients(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        layers = self._layers(theta)
        inputs, bends, _ = self._forward(layers, X)
        if part == self.last:
            return inputs[-1]
        deltas, _ = self._backward(layers, bends, np.ones(len(X)))
        return _rows_of(inputs, deltas)[:, part]

    def input_gradients(self, theta: Array, X: Array) -> Array:
        layers = self._layers(theta)
        _, bends, _ = self._forward(layers, X)
        deltas, _ = self._backward(layers, bends, np.ones(len(X)))
        gradients: Array = deltas[0] @ layers[0][:-1].T
        return gradients

    # second derivatives -------------------------------------------------------------------

    def hessian(self, theta: Array, X: Array, first: Array, second: Array) -> Array:
        layers, widest = self._layers(theta), max(a * b for a, b in self._shapes)
        most = widest * max(b for _, b in self._shapes)
        step = max(32, _AT_ONCE // most)
        out: Array = np.zeros((theta.size, theta.size))
        for start in range(0, len(X), step):
            some = slice(start, start + step)
            self._add_hessian(out, layers, X[some], first[some], second[some])
        return out

    def _add_hessian(
        self, out: Array, layers: Sequence[Array], X: Array, first: Array, second: Array
    ) -> None:
        inputs, bends, _ = self._forward(layers, X)
        deltas, below = self._backward(layers, bends, np.ones(len(X)))
        n, depth = len(X), len(layers)
        for m in range(depth):
            moved = self._moved_inputs(layers, bends, m)
            turned = self._turned_deltas(layers, bends, below, moved, m)
            for j in range(m, depth):
                (d, h), (e, k) = self._shapes[j], self._shapes[m]
                G = (second[:, None] * deltas[j])[:, :, None] * deltas[m][:, None, :]
                if turned[j] is not None:
                    G = G + first[:, None, None] * turned[j]
                pairs = (inputs[j][:, :, None] * inputs[m][:, None, :]).reshape(n, d * e)
                block = (pairs.T @ G.reshape(n, h * k)).reshape(d, e, h, k).transpose(0, 2, 1, 3)
                if j > m:
                    pushed = (first[:, None] * deltas[j])[:, None, :, None] * moved[j][:, :, None]
                    more = (inputs[m].T @ pushed.reshape(n, -1)).reshape(e, d - 1, h, k)
                    block[:-1] += more.transpose(1, 2, 0, 3)
                flat = block.reshape(d * h, e * k)
                out[self._places[j], self._places[m]] += flat
                if j > m:
                    out[self._places[m], self._places[j]] += flat.T

    def _moved_inputs(self, layers: Sequence[Array], bends: Sequence[Any], m: int) -> list[Any]:
        """``∂a/∂z_m`` of the inputs of every layer above ``m``, (n, units, units of m)."""
        found: list[Any] = [None] * len(layers)
        for j in range(m + 1, len(layers)):
            slope, _ = bends[j - 1]
            if j == m + 1:
                found[j] = slope[:, :, None] * np.eye(slope.shape[1])
            else:
                found[j] = slope[:, :, None] * (layers[j - 1][:-1].T @ found[j - 1])
        return found

    def _turned_deltas(
        self,
        layers: Sequence[Array],
        bends: Sequence[Any],
        below: Sequence[Array],
        moved: Sequence[Any],
        m: int,
    ) -> list[Any]:
        """``∂δ/∂z_m`` of every layer from ``m`` up, (n, units, units of m); ``None`` for 0."""
        found: list[Any] = [None] * len(layers)
        for j in range(len(layers) - 2, m - 1, -1):
            slope, bend = bends[j]
            own = np.eye(slope.shape[1]) if j == m else layers[j][:-1].T @ moved[j]
            turned = (bend * below[j])[:, :, None] * own
            if found[j + 1] is not None:
                turned = turned + slope[:, :, None] * (layers[j + 1][:-1] @ found[j + 1])
            found[j] = turned
        return found

    def _tangent_forward(
        self, layers: Sequence[Array], turned: Sequence[Any], passed: Any, start: Any
    ) -> tuple[list[Any], list[Any], Array]:
        """How layers' inputs, ``z`` and scores move with the parameters (and with x)."""
        inputs, bends, _ = passed
        moved: list[Any] = []
        pushed: list[Any] = []
        a = start
        for place, layer in enumerate(layers):
            moved.append(a)
            z = 0.0 if a is None else a @ layer[:-1]
            if turned[place] is not None:
                z = z + inputs[place] @ turned[place]
            pushed.append(z)
            if place < len(bends):
                a = bends[place][0] * z
        return moved, pushed, pushed[-1][:, 0]

    def along(self, theta: Array, X: Array, direction: Array) -> Array:
        layers, turned = self._layers(theta), self._layers(direction)
        return self._tangent_forward(layers, turned, self._forward(layers, X), None)[2]

    def _tangent_backward(
        self, layers: Sequence[Array], turned: Sequence[Any], passed: Any, back: Any, tangent: Any
    ) -> list[Array]:
        """How ``δ`` moves; ``tangent``: the moves of ``z``, and of ``δ`` at the output."""
        (_, bends, _), (deltas, below), (pushed, start) = passed, back, tangent
        found = [start[:, None]]
        for place in range(len(layers) - 1, 0, -1):
            slope, bend = bends[place - 1]
            down = found[-1] @ layers[place][:-1].T
            if turned[place] is not None:
                down = down + deltas[place] @ turned[place][:-1].T
            found.append(bend * pushed[place - 1] * below[place - 1] + slope * down)
        return found[::-1]

    def hessian_products(
        self, theta: Array, X: Array, first: Array, second: Array
    ) -> Callable[[Array], Array]:
        layers = self._layers(theta)
        passed = self._forward(layers, X)
        back = self._backward(layers, passed[1], first)
        inputs, deltas = passed[0], back[0]

        def product(v: Array) -> Array:
            turned = self._layers(v)
            moved, pushed, scores = self._tangent_forward(layers, turned, passed, None)
            start = second * scores
            swung = self._tangent_backward(layers, turned, passed, back, (pushed, start))
            parts = []
            for place, a in enumerate(inputs):
                part = a.T @ swung[place]
                if moved[place] is not None:
                    part[:-1] += moved[place].T @ deltas[place]
                parts.append(part.ravel())
            return np.concatenate(parts)

        return lambda vectors: np.column_stack([product(v) for v in vectors.T])

    def input_jacobian(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        layers, (q, d) = self._layers(theta), X.shape
        passed = self._forward(layers, X)
        back = self._backward(layers, passed[1], np.ones(q))
        inputs, deltas = passed[0], back[0]
        still, found = [None] * len(layers), []
        for k in range(d):
            step = np.zeros_like(X)
            step[:, k] = 1.0
            moved, pushed, _ = self._tangent_forward(layers, still, passed, step)
            swung = self._tangent_backward(layers, still, passed, back, (pushed, np.zeros(q)))
            shifted = [np.column_stack([a, np.zeros(q)]) for a in moved]
            both = _rows_of(inputs, swung) + _rows_of(shifted, deltas)
            found.append(both[:, part])
        return np.stack(found, axis=1).reshape(q * d, -1)


def _rows_of(inputs: Sequence[Array], deltas: Sequence[Array]) -> Array:
    """``ã ⊗ δ`` of every row and layer, side by side."""
    return np.concatenate(
        [
            (a[:, :, None] * delta[:, None, :]).reshape(len(a), -1)
            for a, delta in zip(inputs, deltas, strict=True)
        ],
        axis=1,
    )


def _with_ones(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])

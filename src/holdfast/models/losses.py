r"""Losses of a score, apart from the models that have them.

A loss takes scores ``z`` and labels ``y`` and knows its value, slope and curvature in ``z``, row by
row. What a Newton step and its remainder need besides is written so that curvatures of 1e-300 do no
harm: ``whitened`` gives :math:`\sqrt{v}` and :math:`−ℓ'/\sqrt{v}` without dividing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, log_expit

from holdfast.algebra.rows import Array


class Loss(Protocol):
    """A convex loss of a score, three times differentiable but for kinks its reading names."""

    name: str
    #: whether labels cannot be turned round with the scores
    one_sided: bool
    #: whether ``secants`` and ``bends`` are bounds
    bounded: bool

    def adapted(self, z: Array, y: Array, weights: Array) -> Loss:
        """The loss for these errors, where it estimates a scale of its own; else itself."""

    def values(self, z: Array, y: Array) -> Array:
        """``ℓ`` of every row."""

    def slopes(self, z: Array, y: Array) -> Array:
        """``ℓ'``, the derivative in the score."""

    def curvatures(self, z: Array, y: Array) -> Array:
        """``v = ℓ''``."""

    def skews(self, z: Array, y: Array) -> Array:
        """``v'/v``, the relative change of the curvature."""

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        """``√v`` and ``−ℓ'/√v``."""

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """Bounds on ``(ℓ'(z + m) − ℓ'(z))/m`` for every ``|m|`` up to ``moves``."""

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """Bounds on ``((ℓ'(z + m) − ℓ'(z))/m − ℓ''(z))/m``, a mean of ``½ ℓ'''``."""


#: outward rounding of what is bounded by formula
_OUT = 1e-12


class Plain:
    """A loss without a scale of its own, for labels that turn round with the scores."""

    one_sided = False
    bounded = False

    def adapted(self, z: Array, y: Array, weights: Array) -> Any:
        return self

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """Of a convex loss nothing more is known."""
        return np.zeros_like(z), np.full_like(z, np.inf)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        return np.full_like(z, -np.inf), np.full_like(z, np.inf)


class Turned:
    """A loss of the score turned round: for labels that do not turn round with it."""

    one_sided = True

    def __init__(self, loss: Loss):
        self.loss, self.name, self.bounded = loss, loss.name, loss.bounded

    def adapted(self, z: Array, y: Array, weights: Array) -> Loss:
        return self

    def values(self, z: Array, y: Array) -> Array:
        return self.loss.values(-z, y)

    def slopes(self, z: Array, y: Array) -> Array:
        return -self.loss.slopes(-z, y)

    def curvatures(self, z: Array, y: Array) -> Array:
        return self.loss.curvatures(-z, y)

    def skews(self, z: Array, y: Array) -> Array:
        return -self.loss.skews(-z, y)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        root, residuals = self.loss.whitened(-z, y)
        return root, -residuals

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        return self.loss.secants(-z, y, moves)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        low, high = self.loss.bends(-z, y, moves)
        return -high, -low


class Squared(Plain):
    """``½ (z − y)²``."""

    name = "squared"
    bounded = True

    def values(self, z: Array, y: Array) -> Array:
        return 0.5 * (z - y) ** 2

    def slopes(self, z: Array, y: Array) -> Array:
        return z - y

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.ones_like(z)

    def skews(self, z: Array, y: Array) -> Array:
        return np.zeros_like(z)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        return np.ones_like(z), y - z

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        return np.ones_like(z), np.ones_like(z)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        return np.zeros_like(z), np.zeros_like(z)


class Logistic(Plain):
    """``log(1 + exp(−(2y − 1) z))`` for labels 0 and 1."""

    name = "logistic"
    bounded = True

    def values(self, z: Array, y: Array) -> Array:
        found: Array = -log_expit((2.0 * y - 1.0) * z)
        return found

    def slopes(self, z: Array, y: Array) -> Array:
        found: Array = expit(z) - y
        return found

    def curvatures(self, z: Array, y: Array) -> Array:
        rarer = expit(-np.abs(z))
        found: Array = rarer * (1.0 - rarer)
        return found

    def skews(self, z: Array, y: Array) -> Array:
        found: Array = 1.0 - 2.0 * expit(z)
        return found

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        signs = 2.0 * y - 1.0
        margin = signs * z
        root = np.exp(0.5 * (log_expit(margin) + log_expit(-margin)))
        return root, signs * np.exp(-0.5 * margin)

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """A mean of ``σ'``, which falls with ``|z|``: least away from 0, at most ``σ'`` nearest."""
        far, moves = np.abs(z), np.maximum(moves, 1e-300)
        v = self.curvatures(z, y)
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − e^{b−a}), where nothing cancels
        low = expit(far + moves) * expit(-far) * (-np.expm1(-moves) / moves)
        high = np.minimum(self.curvatures(np.maximum(far - moves, 0.0), y), v * _exponential(moves))
        return np.minimum(low * (1.0 - _OUT), v), np.maximum(high * (1.0 + _OUT), v)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """Half of ``σ''``, which is largest at ``−log(2 + √3)`` and least at the contrary."""
        left, right = z - moves, z + moves
        ends = self._third(left), self._third(right)
        low, high = np.minimum(*ends), np.maximum(*ends)
        turn, most = float(np.log(2.0 + np.sqrt(3.0))), 1.0 / (6.0 * np.sqrt(3.0))
        high = np.where((left <= -turn) & (right >= -turn), most, high)
        low = np.where((left <= turn) & (right >= turn), -most, low)
        slack = _OUT * np.maximum(np.abs(low), np.abs(high))
        return 0.5 * (low - slack), 0.5 * (high + slack)

    def _third(self, z: Array) -> Array:
        v, skews = self.curvatures(z, z), self.skews(z, z)
        return v * skews


class LogLinked(Plain, ABC):
    """Losses of a log-mean: ``|ℓ'''| ≤ ℓ''`` and ``ℓ'''`` grows with the score.

    So curvatures change by ``e^{±m}`` at most, and third derivatives are largest at an end.
    """

    one_sided = True
    bounded = True

    @abstractmethod
    def curvatures(self, z: Array, y: Array) -> Array: ...

    @abstractmethod
    def skews(self, z: Array, y: Array) -> Array: ...

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        v, moves = self.curvatures(z, y), np.maximum(moves, 1e-300)
        low = np.where(moves > 1e-3, -np.expm1(-moves) / moves, 1.0 - 0.5 * moves)
        return v * low * (1.0 - _OUT), v * _exponential(moves) * (1.0 + _OUT)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = (
                0.5 * self.curvatures(at, y) * self.skews(at, y) for at in (z - moves, z + moves)
            )
        slack = _OUT * np.maximum(np.abs(low), np.abs(high))
        return low - slack, high + slack


def _exponential(moves: Array) -> Array:
    """``(e^m − 1)/m``; ∞ where that is beyond all numbers."""
    with np.errstate(over="ignore"):
        return np.where(moves > 1e-3, np.expm1(moves) / moves, 1.0 + 0.5 * moves + moves**2)


class Poisson(LogLinked):
    """``exp(z) − y z``: counts, with the score their log-mean."""

    name = "poisson"

    def values(self, z: Array, y: Array) -> Array:
        return np.exp(z) - y * z

    def slopes(self, z: Array, y: Array) -> Array:
        return np.exp(z) - y

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.exp(z)

    def skews(self, z: Array, y: Array) -> Array:
        return np.ones_like(z)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        return np.exp(0.5 * z), y * np.exp(-0.5 * z) - np.exp(0.5 * z)


class Gamma(LogLinked):
    """``y exp(−z) + z``: amounts, with the score their log-mean."""

    name = "gamma"

    def values(self, z: Array, y: Array) -> Array:
        return y * np.exp(-z) + z

    def slopes(self, z: Array, y: Array) -> Array:
        return 1.0 - y * np.exp(-z)

    def curvatures(self, z: Array, y: Array) -> Array:
        return y * np.exp(-z)

    def skews(self, z: Array, y: Array) -> Array:
        return -np.ones_like(z)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        root = np.sqrt(y) * np.exp(-0.5 * z)
        return root, root - 1.0 / root


class Tweedie(LogLinked):
    """``y exp((1 − p) z)/(p − 1) + exp((2 − p) z)/(2 − p)``, ``1 < p < 2``: log-means again."""

    name = "tweedie"

    def __init__(self, power: float):
        self.power = power

    def _parts(self, z: Array, y: Array) -> tuple[Array, Array]:
        return y * np.exp((1.0 - self.power) * z), np.exp((2.0 - self.power) * z)

    def values(self, z: Array, y: Array) -> Array:
        a, b = self._parts(z, y)
        return a / (self.power - 1.0) + b / (2.0 - self.power)

    def slopes(self, z: Array, y: Array) -> Array:
        a, b = self._parts(z, y)
        return b - a

    def curvatures(self, z: Array, y: Array) -> Array:
        a, b = self._parts(z, y)
        return (self.power - 1.0) * a + (2.0 - self.power) * b

    def skews(self, z: Array, y: Array) -> Array:
        a, b = self._parts(z, y)
        third = (2.0 - self.power) ** 2 * b - (self.power - 1.0) ** 2 * a
        return third / self.curvatures(z, y)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        root = np.sqrt(self.curvatures(z, y))
        return root, -self.slopes(z, y) / root


class Pieces(Plain, ABC):
    """A loss of straight and quadratic pieces, as a function of an error ``e = z − y``.

    Where it is straight it has a slope and no curvature; a curvature of next to nothing keeps the
    product of the two finite.
    """

    tiny = 1e-10

    def skews(self, z: Array, y: Array) -> Array:
        return np.zeros_like(z)

    @abstractmethod
    def slopes(self, z: Array, y: Array) -> Array: ...

    @abstractmethod
    def curvatures(self, z: Array, y: Array) -> Array: ...

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        slopes = self.slopes(z, y)
        root = np.sqrt(np.maximum(self.curvatures(z, y), self.tiny * (slopes != 0)))
        return root, np.divide(-slopes, root, out=np.zeros_like(z), where=root > 0)


class SquaredHinge(Pieces):
    """``max(0, 1 − y z)²`` for labels −1 and 1."""

    name = "squared hinge"

    def values(self, z: Array, y: Array) -> Array:
        return np.maximum(0.0, 1.0 - y * z) ** 2

    def slopes(self, z: Array, y: Array) -> Array:
        return -2.0 * y * np.maximum(0.0, 1.0 - y * z)

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.where(y * z < 1.0, 2.0, 0.0)


class ModifiedHuber(Pieces):
    """``max(0, 1 − y z)²``, and ``−4 y z`` below a margin of −1, for labels −1 and 1."""

    name = "modified huber"

    def values(self, z: Array, y: Array) -> Array:
        margin = y * z
        return np.where(margin >= -1.0, np.maximum(0.0, 1.0 - margin) ** 2, -4.0 * margin)

    def slopes(self, z: Array, y: Array) -> Array:
        margin = y * z
        return -y * np.where(margin >= -1.0, 2.0 * np.maximum(0.0, 1.0 - margin), 4.0)

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.where((y * z < 1.0) & (y * z >= -1.0), 2.0, 0.0)


class SquaredEpsilon(Pieces):
    """``max(0, |z − y| − ε)²``."""

    name = "squared epsilon-insensitive"

    def __init__(self, epsilon: float):
        self.epsilon = epsilon

    def values(self, z: Array, y: Array) -> Array:
        return np.maximum(0.0, np.abs(z - y) - self.epsilon) ** 2

    def slopes(self, z: Array, y: Array) -> Array:
        return 2.0 * np.sign(z - y) * np.maximum(0.0, np.abs(z - y) - self.epsilon)

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.where(np.abs(z - y) > self.epsilon, 2.0, 0.0)


class Huber(Pieces):
    """``σ + σ h((z − y)/σ)``, ``h(u) = u²`` up to ``ε`` and ``2ε|u| − ε²`` beyond.

    The scale ``σ`` is estimated with the weights (scikit-learn's ``HuberRegressor``), or fixed.
    """

    name = "huber"

    def __init__(self, epsilon: float, scale: float, fixed: bool = False):
        self.epsilon, self.scale, self.fixed = epsilon, scale, fixed

    def adapted(self, z: Array, y: Array, weights: Array) -> Huber:
        """With the scale that is best for these errors."""
        if self.fixed:
            return self
        errors, scale = np.abs(z - y), self.scale
        for _ in range(100):
            near = errors <= self.epsilon * scale
            outside = float(weights[~near].sum())
            room = float(weights.sum()) - self.epsilon**2 * outside
            if room <= 0:
                break
            found = float(np.sqrt((weights * errors**2)[near].sum() / room))
            if found <= 0 or abs(found - scale) <= 1e-14 * scale:
                break
            scale = found
        return Huber(self.epsilon, scale)

    def values(self, z: Array, y: Array) -> Array:
        u = np.abs(z - y) / self.scale
        inside = np.where(u <= self.epsilon, u**2, 2.0 * self.epsilon * u - self.epsilon**2)
        return self.scale * (1.0 + inside)

    def slopes(self, z: Array, y: Array) -> Array:
        u = (z - y) / self.scale
        return 2.0 * np.clip(u, -self.epsilon, self.epsilon)

    def curvatures(self, z: Array, y: Array) -> Array:
        return np.where(np.abs(z - y) <= self.epsilon * self.scale, 2.0 / self.scale, 0.0)


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic(), Poisson())}

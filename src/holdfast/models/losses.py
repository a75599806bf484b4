r"""Losses of a score, apart from the models that have them.

A loss takes scores ``z`` and labels ``y`` and knows its value, slope and curvature in ``z``, row by
row. What a Newton step and its remainder need besides is written so that curvatures of 1e-300 do no
harm: ``whitened`` gives :math:`\sqrt{v}` and :math:`−ℓ'/\sqrt{v}` without dividing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import expit, log_expit

from holdfast.algebra.rows import Array


class Loss(Protocol):
    """A convex, three times differentiable loss of a score."""

    name: str

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


class Squared:
    """``½ (z − y)²``."""

    name = "squared"

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


class Logistic:
    """``log(1 + exp(−(2y − 1) z))`` for labels 0 and 1."""

    name = "logistic"

    def values(self, z: Array, y: Array) -> Array:
        found: Array = -log_expit((2.0 * y - 1.0) * z)
        return found

    def slopes(self, z: Array, y: Array) -> Array:
        found: Array = expit(z) - y
        return found

    def curvatures(self, z: Array, y: Array) -> Array:
        found: Array = np.exp(log_expit(z) + log_expit(-z))
        return found

    def skews(self, z: Array, y: Array) -> Array:
        found: Array = 1.0 - 2.0 * expit(z)
        return found

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        signs = 2.0 * y - 1.0
        margin = signs * z
        root = np.exp(0.5 * (log_expit(margin) + log_expit(-margin)))
        return root, signs * np.exp(-0.5 * margin)


class Poisson:
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


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic(), Poisson())}

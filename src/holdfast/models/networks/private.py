"""Networks trained privately: scores, gradients and refits, without an optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.models.core import Capabilities, Core, Training


class PrivateNetworkCore(Core):
    """A module that DP-SGD has trained."""

    def __init__(self, estimator: Any, data: Training):
        self.rows, self._sign = data.rows, data.sign
        self._network = estimator.network(data.X)
        self._middle = getattr(estimator, "middle_", 0.0)
        self._half = getattr(estimator, "half_", 1.0)

    @property
    def can(self) -> Capabilities:
        return Capabilities(
            why_not="it was trained with noise and stops at no optimum, so what a deletion does "
            "is known by training again only",
            draws=True,
        )

    def scores(self, X: Array) -> Array:
        """Log-odds, or the prediction in the labels' unit."""
        network = self._network
        found: Array = self._middle + self._half * network.scores(network.fitted, X)
        return self._sign * found

    def score_gradients(self, X: Array) -> Array:
        network = self._network
        found: Array = np.asarray(network.input_gradients(network.fitted, X))
        return self._sign * self._half * found

"""The paper's wide ReLU network: its deletions are known by refitting only."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, TrainingRows
from holdfast.errors import DataMismatchError, UnsupportedModelError
from holdfast.estimators.wide import unit_slices


class WideCore:
    """The wide network as a model that can forget, but only by refitting."""

    approximations: tuple[str, ...] = ()
    drift = float("nan")

    def __init__(
        self, estimator: Any, X: Array, y: Array, weights: Array, rows: TrainingRows, sign: int
    ):
        self.net, self.sign, self.rows = estimator, sign, rows
        _, start = estimator.objective(estimator.start_, X, sign * y, weights)
        _, end = estimator.objective(estimator.weights_, X, sign * y, weights)
        share = float(np.linalg.norm(end) / (np.linalg.norm(start) or 1.0))
        if share > 0.05:
            raise DataMismatchError(
                f"the gradient of this WideReLURegressor on X and y is {share:.2g} of what it was "
                "before training: either they are not the data it was fitted on, or it was "
                "stopped far too early (raise max_iter)"
            )

    def polished(self) -> Any:
        """A copy of the network: where a refit starts."""
        return copy.copy(self.net)

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The gradient was checked when the model was made."""
        return None

    def scores(self, X: Array) -> Array:
        """The network's output."""
        return self.sign * self.net.output(self.net.weights_, X)

    def score_gradients(self, X: Array) -> Array:
        """``k^-½ Σ_j a_j 1[w_jᵀx > 0] w_j``."""
        W, a = self.net.weights_, self.net.signs_
        out: Array = np.zeros(X.shape)
        for part in unit_slices(len(W)):
            out += ((X @ W[part].T > 0) * a[part]) @ W[part]
        return self.sign * out / np.sqrt(len(W))

    def deletions(self, X: Array, of: str, method: str | None) -> Any:
        """Refused: see the message."""
        raise self._refusal()

    def reweighted(self, omega: Array) -> Any:
        """Refused for the same reason."""
        raise self._refusal()

    def _refusal(self) -> UnsupportedModelError:
        p = self.net.weights_.size
        return UnsupportedModelError(
            f"a WideReLURegressor with {p:,} trained weights has a dense Hessian of "
            f"{p * p * 8 / 2**30:,.0f} GiB: its deletions cannot be written down. What works: "
            "scores, score_gradients, without(rows), and the deletions of an NTKRegressor with "
            "the same beta, its infinitely wide limit"
        )

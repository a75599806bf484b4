"""The paper's wide ReLU network: its deletions are known by refitting only."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import DataMismatchError
from holdfast.estimators.wide import WideReLURegressor, unit_slices
from holdfast.models.core import Capabilities, Core, Training


class WideCore(Core):
    """The wide network as a model that can forget, but only by refitting."""

    def __init__(self, estimator: WideReLURegressor, data: Training):
        X, y, weights, sign = data.X, data.y, data.weights, data.sign
        self.net, self.sign, self.rows = estimator, sign, data.rows
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

    @property
    def can(self) -> Capabilities:
        p = self.net.weights_.size
        return Capabilities(
            why_not=(
                f"with {p:,} trained weights its Hessian is a dense matrix of "
                f"{p * p * 8 / 2**30:,.0f} GiB; an NTKRegressor with the same beta, its infinitely "
                "wide limit, has predicted deletions"
            ),
            refit="training",
            draws=True,
        )

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

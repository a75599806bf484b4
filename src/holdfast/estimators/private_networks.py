r"""Networks trained with differential privacy: DP-SGD, by opacus.

Every step draws a batch (each row by itself, Poisson sampling), clips every row's gradient to a
length, adds Gaussian noise to their sum and takes a step of Adam. What is released is
``(ε, δ)``-differentially private for the addition or removal of one row, by opacus's Rényi
accounting of all steps, **provided that what was done before is public**: the preprocessing, the
range of the labels, the number of rows. The same seed draws the same noise in every fit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number, whole_number
from holdfast.errors import HoldfastError
from holdfast.estimators.from_torch import torch_network


class _PrivateNetwork(BaseEstimator):
    """What classifiers and regressors share."""

    loss: str

    def __init__(
        self,
        module: Any,
        epsilon: float = 1.0,
        l2: float = 0.0,
        epochs: int = 20,
        share: float = 0.05,
        clip: float = 1.0,
        rate: float = 0.02,
        random_state: int = 0,
    ):
        self.module = module
        self.epsilon = epsilon
        self.l2 = l2
        self.epochs = epochs
        self.share = share
        self.clip = clip
        self.rate = rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train from new parameters; ``epsilon_``, ``delta_`` say what it cost."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        labels = self._labels(y)
        positive_number("epochs", self.epochs)
        whole_number("epochs", self.epochs)
        # rows are drawn by themselves, so many of them on average that whole batches make an epoch
        self.share_ = 1.0 / np.ceil(len(X) / max(1, round(self.share * len(X))))
        self.delta_ = 10.0 ** np.floor(np.log10(0.1 / len(X)))  # the same without a few rows
        self.module_, self.epsilon_, self.noise_multiplier_ = training().trained_privately(
            self.module,
            self.loss,
            X,
            labels,
            self.epsilon,
            self.delta_,
            self.epochs,
            self.share,
            self.clip,
            self.rate,
            self.l2 / len(X),
            int(self.random_state),
        )
        return self

    def _labels(self, y: Any) -> Array:
        """Labels as the loss takes them."""
        labels: Array = np.asarray(y, dtype=np.float64)
        return labels

    def network(self, X: Array) -> Any:
        """The fitted module as a differentiable network, tried on some rows."""
        return torch_network().TorchNetwork(self.module_, self.l2, X)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        network = self.network(X)
        return network.scores(network.fitted, X)


class PrivateNetworkClassifier(ClassifierMixin, _PrivateNetwork):
    """A module of log-odds, trained privately under logistic loss."""

    loss = "logistic"

    def _labels(self, y: Any) -> Array:
        self.classes_, codes = np.unique(y, return_inverse=True)
        return codes.astype(np.float64)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of ``classes_[1]``."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of both classes, (n, 2)."""
        p = expit(self._scores(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> Any:
        """The likelier class of every row."""
        return self.classes_[(self._scores(X) > 0).astype(int)]


class PrivateNetworkRegressor(RegressorMixin, _PrivateNetwork):
    """A module of numbers, trained privately under squared loss on labels scaled into [−1, 1]."""

    loss = "squared"

    def _labels(self, y: Any) -> Array:
        values = super()._labels(y)
        self.middle_ = float((values.max() + values.min()) / 2)
        self.half_ = float((values.max() - values.min()) / 2) or 1.0
        scaled: Array = (values - self.middle_) / self.half_
        return scaled

    def predict(self, X: Any) -> Array:
        """The module's output, in the labels' unit."""
        return self.middle_ + self.half_ * self._scores(X)


def training() -> Any:
    """What trains privately, which needs torch and opacus."""
    torch_network()
    try:
        from holdfast.estimators import private_training as found
    except ImportError as missing:
        raise HoldfastError(
            "training a network with differential privacy needs opacus: pip install 'holdfast[dp]'"
        ) from missing
    return found

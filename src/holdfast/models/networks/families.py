"""The networks there are, as cores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.estimators.from_torch import torch_network
from holdfast.models.core import Training
from holdfast.models.losses import LOSSES
from holdfast.models.networks.core import NetworkCore
from holdfast.models.networks.perceptron import Perceptron

#: how many times as far as an L-BFGS fit a training in torch may have stopped from its optimum
LOOSE = 20.0


def perceptron_core(estimator: Any, data: Training) -> NetworkCore:
    """scikit-learn's multi-layer perceptrons."""
    network = Perceptron(estimator)
    loss = LOSSES["logistic" if estimator.out_activation_ == "logistic" else "squared"]
    return NetworkCore(network, loss, _labels(data), data, network.estimator)


def torch_core(estimator: Any, data: Training) -> NetworkCore:
    """A torch module."""
    torch_side = torch_network()
    network = estimator.network(data.X)
    labels = _labels(data)
    if callable(estimator.loss):
        fitted = network.scores(network.fitted, data.X)
        torch_side.refuse_strange_losses(estimator.loss, fitted, labels)
        loss: Any = torch_side.TorchLoss(estimator.loss)
    else:
        loss = LOSSES[estimator.loss]
    first = loss.slopes(network.scores(network.fitted, data.X), labels)
    network.refuse_strange_gradients(network.pullback(network.fitted, data.X, first))
    return NetworkCore(
        network,
        loss,
        labels,
        data,
        partial(_torch_estimator, estimator, network, data.X.shape[1]),
        draws=torch_side.without_a_start(estimator.module) is None,
        noise=LOOSE,
        caveat=torch_side.kept_statistics(estimator.module_),
    )


def _torch_estimator(estimator: Any, network: Any, width: int, theta: Array) -> Any:
    """The estimator with these parameters."""
    return estimator.with_module(network.module(theta), width)


def _labels(data: Training) -> Array:
    """Labels as they were given: class codes, or numbers."""
    if data.rows.classes is not None:
        return np.asarray(data.rows.classes, dtype=np.float64)
    return data.sign * data.y


def unsupported_perceptron(estimator: Any) -> str | None:
    """Why one of scikit-learn's has no algebra, if so."""
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

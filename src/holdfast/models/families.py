"""Which core an estimator gets, and why some get none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor

from holdfast.errors import UnsupportedModelError
from holdfast.estimators.forest import ForgettingForestClassifier, ForgettingForestRegressor
from holdfast.estimators.from_statsmodels import StatsmodelsRegressor
from holdfast.estimators.from_torch import TorchClassifier, TorchRegressor
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.estimators.private_networks import PrivateNetworkClassifier, PrivateNetworkRegressor
from holdfast.estimators.sharded import ShardedClassifier, ShardedRegressor
from holdfast.estimators.wide import WideReLURegressor
from holdfast.models import kernel, linear, readings
from holdfast.models.core import Core, Family, Training
from holdfast.models.kernel import GaussianProcessCore, KernelCore
from holdfast.models.linear import LinearCore
from holdfast.models.networks.families import (
    perceptron_core,
    torch_core,
    unsupported_perceptron,
)
from holdfast.models.networks.private import PrivateNetworkCore
from holdfast.models.parts import PartsCore
from holdfast.models.pipelines import cross_fits
from holdfast.models.preprocessing import Preprocessing
from holdfast.models.readings import READINGS, Reading
from holdfast.models.smooth import SmoothLinearCore
from holdfast.models.wide import WideCore


def smooth_core(estimator: Any, data: Training) -> Core:
    """A linear score under a smooth loss; least squares that stay such, exactly."""
    if isinstance(estimator, RidgeClassifier) and estimator.class_weight != "balanced":
        return LinearCore(estimator, data)
    if isinstance(estimator, StatsmodelsRegressor) and estimator.kind == "ols":
        return LinearCore(estimator, data)
    return SmoothLinearCore(Reading.of(estimator), data)


def sharded_core(estimator: Any, data: Training) -> Core:
    """A mean of shards, each by the algebra of its own family where that is exact."""
    return PartsCore(estimator, data, core_maker)


#: the families we bring; :func:`holdfast.register` adds others
FAMILIES: list[Family] = [
    Family(
        (LinearRegression, Ridge, RidgeCV, RidgeClassifierCV, BayesianRidge),
        LinearCore,
        linear.unsupported,
    ),
    Family((KernelRidge, NTKRegressor, LSSVMClassifier), KernelCore, kernel.unsupported),
    Family(tuple(READINGS), smooth_core, readings.unsupported),
    Family((GaussianProcessRegressor,), GaussianProcessCore, kernel.unsupported),
    Family((MLPClassifier, MLPRegressor), perceptron_core, unsupported_perceptron),
    Family((TorchClassifier, TorchRegressor), torch_core),
    Family((PrivateNetworkClassifier, PrivateNetworkRegressor), PrivateNetworkCore),
    Family((WideReLURegressor,), WideCore),
    Family((ShardedClassifier, ShardedRegressor), sharded_core, raw=True),
    Family((ForgettingForestClassifier, ForgettingForestRegressor), PartsCore, raw=True),
]


def family_of(final: Any) -> Family | None:
    """The family an estimator is of, the one registered last; ``None``: none we know."""
    return next((f for f in reversed(FAMILIES) if type(final) in f.estimators), None)


def core_maker(
    final: Any, preprocessing: Preprocessing | None
) -> tuple[Callable[[Any, Training], Core] | None, str | None]:
    """What makes the core of an estimator; ``None``, and why, where it can only be refitted."""
    if isinstance(final, KernelRidge) and final.kernel == "precomputed":
        raise UnsupportedModelError(
            "KernelRidge(kernel='precomputed') is not supported: a precomputed kernel matrix "
            "cannot be evaluated at new points, so neither queries nor refits are possible. "
            "Supported kernels: linear, rbf, poly (polynomial), laplacian"
        )
    family = family_of(final)
    if family is None or family.raw:
        return None, None
    reason = family.unsupported(final)
    if reason is None and _n_targets(final) > 1:
        raise UnsupportedModelError(
            f"{type(final).__name__} was fitted on {_n_targets(final)} targets; one is supported"
        )
    if preprocessing is not None and cross_fits(preprocessing.transformer):
        reason = (
            "a TargetEncoder shows the training rows other values than it shows anybody else, so "
            "the model's own features are not known"
        )
    if reason is not None:
        return None, reason
    if isinstance(final, KernelRidge) and final.kernel == "linear":
        return LinearCore, None
    return family.make, None


def _n_targets(final: Any) -> int:
    """How many targets a linear or kernel regressor was fitted on."""
    if is_classifier(final):
        return 1
    weights = getattr(final, "coef_", getattr(final, "dual_coef_", None))
    if weights is None or np.ndim(weights) < 2:
        return 1
    return int(weights.shape[1] if hasattr(final, "dual_coef_") else weights.shape[0])

"""One estimator of every family, for tests that ask the same of all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import LinearSVC, LinearSVR

import holdfast as hf


class Case(NamedTuple):
    """An estimator, whether it tells classes apart, and whether its deletions are predicted."""

    estimator: object
    classes: bool
    predicts: bool
    #: whether its labels must be positive
    positive: bool = False


def _network(kind, units=3, **options):
    settings = {"solver": "lbfgs", "alpha": 2.0, "max_iter": 5000, "tol": 1e-9, "random_state": 0}
    return kind(hidden_layer_sizes=(units,), **{**settings, **options})


CLOSE = {"tol": 1e-10, "max_iter": 100_000}

FAMILIES = {
    "linear": Case(LinearRegression(), False, True),
    "ridge": Case(Ridge(1.0, fit_intercept=False), False, True),
    "rbf": Case(KernelRidge(kernel="rbf", alpha=0.5), False, True),
    "ntk": Case(hf.NTKRegressor(1.0), False, True),
    "lssvm": Case(hf.LSSVMClassifier(0.3), True, True),
    "logistic": Case(LogisticRegression(tol=1e-10, max_iter=1000), True, True),
    "balanced": Case(LogisticRegression(tol=1e-10, class_weight="balanced"), True, True),
    "ridge classifier": Case(RidgeClassifier(2.0), True, True),
    "ridge cv": Case(RidgeCV((0.1, 1.0, 10.0)), False, True),
    "bayesian": Case(BayesianRidge(), False, True),
    "process": Case(
        GaussianProcessRegressor(1.0 * RBF(2.0) + WhiteKernel(0.3), optimizer=None), False, True
    ),
    "svc": Case(LinearSVC(C=0.3, **CLOSE), True, True),
    "svr": Case(LinearSVR(C=0.3, loss="squared_epsilon_insensitive", **CLOSE), False, True),
    "poisson": Case(PoissonRegressor(alpha=0.5, **CLOSE), False, True, True),
    "gamma": Case(GammaRegressor(alpha=0.5, **CLOSE), False, True, True),
    "tweedie": Case(TweedieRegressor(power=1.5, alpha=0.5, **CLOSE), False, True, True),
    "huber": Case(HuberRegressor(tol=1e-9, max_iter=10_000), False, True),
    "elastic": Case(ElasticNet(0.05, **CLOSE), False, True),
    "sparse logistic": Case(
        LogisticRegression(C=0.5, l1_ratio=1.0, solver="saga", **CLOSE), True, True
    ),
    "sgd": Case(SGDClassifier(loss="log_loss", alpha=0.05, random_state=0, **CLOSE), True, True),
    "network": Case(_network(MLPClassifier, activation="tanh"), True, True),
    "kinked": Case(_network(MLPRegressor, 8, activation="relu", alpha=1e-4), False, False),
    "wide": Case(hf.WideReLURegressor(n_units=40, beta=1.0), False, False),
    "forest": Case(RandomForestRegressor(5, random_state=0), False, False),
    "boosting": Case(HistGradientBoostingClassifier(max_iter=5, random_state=0), True, False),
}

#: those whose every candidate can be refitted in a test
WITH_CHEAP_ALGEBRA = {
    name: (FAMILIES[name].estimator, FAMILIES[name].classes)
    for name in ("linear", "ridge", "rbf", "ntk", "lssvm", "logistic")
}


def fitted(name, rng, n=60, d=3):
    """A model of a family on random data, and points to score."""
    case = FAMILIES[name]
    X = rng.normal(size=(n, d))
    signal = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    y = (signal > 0).astype(int) if case.classes else signal
    if case.positive:
        y = np.exp(0.3 * signal)
    from holdfast.shared_state import quiet

    with quiet:  # a network stopped early says so
        return hf.erasable(case.estimator.fit(X, y), X, y), rng.normal(size=(15, d))

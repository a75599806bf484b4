"""Every estimator with predicted deletions: how far the predictions are from refits.

``python benchmarks/supported.py`` measures all of them and writes ``docs/supported.md``, a row for
every class in the registry. An estimator without an example here is an error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import LinearSVC, LinearSVR

import holdfast as hf
from holdfast.estimators.from_statsmodels import StatsmodelsClassifier, StatsmodelsRegressor
from holdfast.models.families import FAMILIES

CLOSE = {"tol": 1e-10, "max_iter": 100_000}
EPSILON = "squared_epsilon_insensitive"

PAGE = Path(__file__).resolve().parent.parent / "docs" / "supported.md"


@dataclass(frozen=True)
class Example:
    """An estimator, the labels it takes, and what is special about its settings."""

    estimator: Any
    labels: str
    settings: str = ""


def _network(kind: Any) -> Any:
    options = {"solver": "lbfgs", "alpha": 5.0, "max_iter": 20_000, "tol": 1e-10}
    return kind(hidden_layer_sizes=(4,), activation="tanh", random_state=0, **options)


def _logistic(**settings: Any) -> LogisticRegression:
    return LogisticRegression(**{"C": 0.5, **CLOSE, **settings})


EXAMPLES: dict[str, Example] = {
    "least squares": Example(LinearRegression(), "numbers"),
    "ridge": Example(Ridge(3.0), "numbers"),
    "ridge, chosen": Example(RidgeCV((0.1, 1.0, 10.0)), "numbers"),
    "ridge classes": Example(RidgeClassifier(3.0), "classes"),
    "ridge classes, balanced": Example(
        RidgeClassifier(3.0, class_weight="balanced"), "classes", "balanced classes"
    ),
    "ridge classes, chosen": Example(RidgeClassifierCV((0.1, 1.0, 10.0)), "classes"),
    "bayesian": Example(BayesianRidge(), "numbers"),
    "kernel ridge": Example(KernelRidge(kernel="rbf", gamma=0.2, alpha=0.5), "numbers"),
    "ntk": Example(hf.NTKRegressor(2.0), "numbers"),
    "ls-svm": Example(hf.LSSVMClassifier(0.2), "classes"),
    "process": Example(
        GaussianProcessRegressor(1.0 * RBF(2.0) + WhiteKernel(0.5), optimizer=None), "numbers"
    ),
    "logistic": Example(_logistic(), "classes"),
    "logistic, balanced": Example(
        _logistic(class_weight="balanced"), "classes", "balanced classes"
    ),
    "logistic, liblinear": Example(_logistic(solver="liblinear"), "classes", "liblinear"),
    "logistic, sparse": Example(_logistic(C=0.05, l1_ratio=1.0, solver="saga"), "classes", "L1"),
    "logistic, elastic": Example(
        _logistic(C=0.05, l1_ratio=0.5, solver="saga"), "classes", "elastic net"
    ),
    "logistic, chosen": Example(
        LogisticRegressionCV(
            Cs=(0.1, 1.0),
            cv=3,
            l1_ratios=(0,),
            scoring="accuracy",
            use_legacy_attributes=False,
            **CLOSE,
        ),
        "classes",
    ),
    "svc": Example(LinearSVC(C=0.3, **CLOSE), "classes"),
    "svc, balanced": Example(
        LinearSVC(C=0.3, class_weight="balanced", **CLOSE), "classes", "balanced classes"
    ),
    "svr": Example(LinearSVR(C=0.3, loss=EPSILON, epsilon=0.2, **CLOSE), "numbers"),
    "poisson": Example(PoissonRegressor(alpha=0.5, **CLOSE), "counts"),
    "gamma": Example(GammaRegressor(alpha=0.5, **CLOSE), "amounts"),
    "tweedie": Example(TweedieRegressor(power=1.5, alpha=0.5, **CLOSE), "counts"),
    "huber": Example(HuberRegressor(tol=1e-9, max_iter=10_000), "numbers"),
    "elastic net": Example(ElasticNet(0.05, **CLOSE), "numbers"),
    "elastic net, chosen": Example(ElasticNetCV(cv=3, **CLOSE), "numbers"),
    "lasso": Example(Lasso(0.05, **CLOSE), "numbers"),
    "lasso, chosen": Example(LassoCV(cv=3, **CLOSE), "numbers"),
    "sgd classes": Example(
        SGDClassifier(loss="log_loss", alpha=0.01, random_state=0, **CLOSE), "classes"
    ),
    "sgd": Example(SGDRegressor(alpha=0.01, random_state=0, **CLOSE), "numbers"),
    "statsmodels classes": Example(StatsmodelsClassifier("logit"), "classes", "`Logit`, `GLM`"),
    "statsmodels": Example(StatsmodelsRegressor("poisson"), "counts", "`GLM`"),
    "statsmodels, least squares": Example(StatsmodelsRegressor("ols"), "numbers", "`OLS`"),
    "network classes": Example(_network(MLPClassifier), "classes"),
    "network": Example(_network(MLPRegressor), "numbers"),
    "wide network": Example(hf.WideReLURegressor(n_units=60, beta=1.0), "numbers"),
    "shards": Example(hf.ShardedClassifier(LogisticRegression(), 20), "classes", "of anything"),
    "shards of numbers": Example(
        hf.ShardedRegressor(LinearRegression(), 20, -6, 6), "numbers", "of anything"
    ),
    "forest": Example(hf.ForgettingForestClassifier(100), "classes"),
    "forest of numbers": Example(hf.ForgettingForestRegressor(-6, 6, 100), "numbers"),
}


#: the same with its hyperparameters as chosen
KEPT: dict[type, Any] = {
    RidgeCV: lambda fit: Ridge(fit.alpha_),
    RidgeClassifierCV: lambda fit: RidgeClassifier(fit.alpha_),
    BayesianRidge: lambda fit: Ridge(fit.lambda_ / fit.alpha_),
    LogisticRegressionCV: lambda fit: LogisticRegression(C=float(np.ravel(fit.C_)[0]), **CLOSE),
    ElasticNetCV: lambda fit: ElasticNet(fit.alpha_, l1_ratio=fit.l1_ratio_, **CLOSE),
    LassoCV: lambda fit: Lasso(fit.alpha_, **CLOSE),
}


@dataclass(frozen=True)
class Measured:
    """Largest error over largest effect, over the recourses."""

    single: float
    ten: float
    effect: float
    exact: bool
    predicts: bool
    how: str
    certified: str
    chooses: bool
    sparse: bool
    notes: str


def problem(labels: str, n: int) -> tuple[Any, Any]:
    """A table with five features, and labels of some kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    z = X @ [1.0, -0.5, 0.3, 0.0, 0.2]
    made = {
        "numbers": z + rng.normal(0, 0.5, n),
        "classes": (z + rng.logistic(size=n) > 0.5).astype(int),
        "counts": rng.poisson(np.exp(0.5 * z)).astype(float),
        "amounts": np.exp(0.5 * z) * rng.gamma(2.0, 0.5, n) + 1e-3,
    }
    return X, made[labels]


def measured(name: str, n: int = 2000) -> Measured:
    """The errors of one example: ten single rows and five sets of ten, by refits."""
    example = EXAMPLES[name]
    X, y = problem(example.labels, n)
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = hf.erasable(clone(example.estimator).fit(X, y), X, y)
        about = _about(model)
        if model.can.chooses:  # compared with refits that keep the choice
            model = hf.erasable(KEPT[type(example.estimator)](model.estimator).fit(X, y), X, y)
        if not model.can.predicts:
            return Measured(np.nan, np.nan, np.nan, **about)
        if model.can.form == "parts":  # what parts do alone is what refits say
            sets = [rng.choice(n, size, replace=False) for size in (1, 1, 10, 10)]
            Q = rng.normal(size=(50, 5))
            drops = [model.scores(Q) - model.without(s).scores(Q) for s in sets]
            deletions = model.deletions(Q)
            off = max(
                np.abs(deletions.effect(s) - d).max() for s, d in zip(sets, drops, strict=True)
            )
            return Measured(off, off, off, **about)
        Q = rng.normal(size=(50, 5))
        deletions: Any = model.deletions(Q, preprocessing="kept")
        rows = [np.array([row]) for row in rng.choice(n, 10, replace=False)]
        sets = [*rows, *(rng.choice(n, 10, replace=False) for _ in range(5))]
        before = model.scores(Q)
        true = [before - model.without(s).scores(Q) for s in sets]
        formula = [deletions.columns(s) @ deletions.solve(s) for s in sets]
        if deletions.also is not None:
            formula = [f + deletions.also.effect(s) for f, s in zip(formula, sets, strict=True)]
        better = [deletions.effect(s) for s in sets]

    def worst(found: list[Any], some: slice) -> float:
        error = max(np.abs(a - b).max() for a, b in zip(found[some], true[some], strict=True))
        return float(error / max(np.abs(b).max() for b in true[some]))

    one, many = slice(0, 10), slice(10, 15)
    effect = max(worst(better, one), worst(better, many))
    return Measured(worst(formula, one), worst(formula, many), effect, **about)


def _about(model: Any) -> dict[str, Any]:
    can, reading = model.can, getattr(model.core, "reading", None)
    how = (
        "exact"
        if can.exact
        else {
            "newton": "a Newton step",
            "jackknife": "the jackknife",
            "parts": "refits of the parts that had the rows",
        }.get(next(iter(can.predictions), ""), "refits only")
    )
    certified = "no" if can.certificate is None else "yes"
    if can.certificate is None and can.uncertified:
        certified += f": {can.uncertified}"
    notes = [] if reading is None or not reading.kinks else [reading.kinks]
    if can.chooses:
        certified += ", its penalty kept" if can.certificate else ""
        notes.append("refits choose its hyperparameter again; compared with it kept")
    return {
        "exact": can.exact,
        "predicts": can.predicts,
        "how": how,
        "certified": certified,
        "chooses": bool(can.chooses),
        "sparse": bool(reading is not None and reading.lasso),
        "notes": "; ".join(notes),
    }


def row(name: str) -> str:
    """A line of the table."""
    example, found = EXAMPLES[name], measured(name)
    title = f"`{type(example.estimator).__name__}`"
    title += f", {example.settings}" if example.settings else ""
    errors = (found.single, found.ten, found.effect)
    shown = [_shown(e) if found.predicts else "" for e in errors]
    cells = [title, found.how, *shown, found.certified, found.notes]
    return "| " + " | ".join(cells) + " |"


def _shown(error: float) -> str:
    return f"{100 * error:.2g} %" if error > 1e-7 else "below 1e-7"


#: modules of estimators that bench_networks.py measures: they need torch
ELSEWHERE = ("from_torch", "private_networks")

INTRODUCTION = """\
# Supported models

Made by `python benchmarks/supported.py` from the registry: every class that has a family of its
own, measured against refits on 2,000 rows with five features. Errors are the largest error over
the largest effect, over 50 points: of ten single rows and of five sets of ten by the formula that
searches screen with, and of `deletions(Q).effect(S)`, which takes further steps. Everything else
that can be cloned and refitted is audited by refits. `TorchClassifier` and `TorchRegressor` (torch
modules) are measured in [networks.md](networks.md); `PrivateNetworkClassifier` and
`PrivateNetworkRegressor` are known by refits only.

| estimator | deletions | a row | ten rows | `effect` | certificates | |
|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Measure and write the page."""
    named = {type(example.estimator) for example in EXAMPLES.values()}
    known = [kind for family in FAMILIES for kind in family.estimators]
    here = [kind for kind in known if not kind.__module__.endswith(ELSEWHERE)]
    missing = [kind.__name__ for kind in here if kind not in named]
    if missing:
        raise SystemExit(f"no example of {', '.join(missing)}")
    PAGE.write_text(INTRODUCTION + "\n".join(map(row, EXAMPLES)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""The mitigations, one function each: a case in, one or more ways of doing it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from holdfast.algebra.units import Units
from holdfast.audits.hardening.comparison import Comparison, Mitigation, promised
from holdfast.audits.hardening.margin import margins
from holdfast.audits.hardening.robust import deletion_aware, worst_case_ball
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.estimators.from_torch import TorchClassifier, TorchRegressor
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.estimators.sharded import ShardedClassifier, ShardedRegressor
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.refits import Refits, broken
from holdfast.searches import search
from holdfast.shared_state import quiet

#: how much stronger each step of the regularisation path is
STRONGER = (10.0, 100.0, 1000.0)
#: quartile ranges from the median beyond which numbers are clipped
CLIPPED = 5.0
#: categories of fewer rows are merged by robust preprocessing
MERGED = 10
#: shards at most, and people in each at least, unless it is said how many
SHARDS, A_SHARD = 100, 50
#: which parameter of an estimator is the strength of its penalty
PENALTIES: dict[type, str] = {
    Ridge: "alpha",
    KernelRidge: "alpha",
    NTKRegressor: "beta",
    LSSVMClassifier: "beta",
    MLPClassifier: "alpha",
    MLPRegressor: "alpha",
    TorchClassifier: "l2",
    TorchRegressor: "l2",
}
#: the ridge given to a model without any, as a share of a feature's sum of squares
RIDGE_SHARE = 1e-4


def honour(case: Comparison) -> list[Mitigation]:
    """Keep every promise whatever the refitted model says: who is granted against it?"""
    made = promised("honour", "", case.model, case.given, case)
    if len(made.points):
        plan = search(
            case.model, made.points, case.target, case.survive, unit=case.unit, random_state=0
        )
        after = Refits(case.model, made.points).without([plan.rows])[0]
        below = case.target - after[broken(after, case.target)]
        deviations = below / case.model.score_unit
        made.note = (
            f"the worst {case.survive} deletions leave {below.size} of {len(made.points)} people "
            "granted against the refitted model"
        )
        if below.size:
            made.note += f", by {np.nanmedian(deviations):.2g} deviations of the score (median)"
    return [made]


def uniform(case: Comparison) -> list[Mitigation]:
    """The same larger overshoot for everybody: the yardstick."""
    made = []
    for overshoot in (0.05, 0.2):
        given = case.recourse(case.model, overshoot)
        made.append(promised("uniform", f"overshoot={overshoot:g}", case.model, given, case))
    return made


def margin(case: Comparison) -> list[Mitigation]:
    """For everybody the cheapest recourse that provably survives."""
    found = margins(
        case.model,
        case.people,
        case.target,
        case.survive,
        case.actionability,
        case.overshoot,
        case.cost,
        case.unit,
        case.method,
        case.random_state,
    )
    given = found.given
    short = ~given.valid.to_numpy()
    note = found.method
    if short.any():
        note += f"; {int(short.sum())} people have none: {given.reason[short].iloc[0]}"
    made = promised("margin", f"survive={case.survive}", case.model, given, case, note=note)
    made.proven = found.proven and bool(given.valid.any())
    return [made]


def drop_critical(case: Comparison, m: int = 15, rounds: int = 2) -> list[Mitigation]:
    """The paper's onion: remove the ``m`` most critical rows, refit, and again."""
    if m < 1 or rounds < 1:
        raise HoldfastError(f"m and rounds must be at least 1, got {m!r} and {rounds!r}")
    made, model = [], case.model
    given = case.given
    for turn in range(1, rounds + 1):
        if not given.valid.any() or m >= len(Units(model.rows, case.unit)):
            break
        method = "greedy" if model.can.predicts else "best"
        rows = search(model, given, case.target, m, method, unit=case.unit).rows
        model = model.without(rows)
        given = case.recourse(model)
        note = (
            f"{turn * m} rows removed for being influential: evidence, not a policy. It treats "
            "people differently for the effect their data have"
        )
        made.append(promised("drop-critical", f"m={turn * m}", model, given, case, note=note))
    return made


def regularise(case: Comparison) -> list[Mitigation]:
    """More ridge, a smaller C, a larger β: steadier, and worse at predicting."""
    made = []
    for factor in STRONGER:
        estimator, setting = _stronger(case.model, factor)
        model = _refitted(case.model, estimator)
        made.append(promised("regularise", setting, model, case.recourse(model), case))
    return made


def _stronger(model: ErasableModel, factor: float) -> tuple[Any, str]:
    estimator = clone(model.estimator)
    last: Any = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(last, LinearRegression):
        Z = model.last_step.features(model.last_step.X)
        alpha = factor * RIDGE_SHARE * float(np.median(np.sum((Z - Z.mean(axis=0)) ** 2, axis=0)))
        replaced = Ridge(alpha=alpha, fit_intercept=last.fit_intercept)
        if isinstance(estimator, Pipeline):
            estimator.steps[-1] = (estimator.steps[-1][0], replaced)
            return estimator, f"ridge alpha={alpha:.3g}"
        return replaced, f"ridge alpha={alpha:.3g}"
    if isinstance(last, LogisticRegression):
        last.set_params(C=(last.C if np.isfinite(last.C) else 1.0) / factor)
        return estimator, f"C={last.C:g}"
    for kind, name in PENALTIES.items():
        if isinstance(last, kind):
            value = (getattr(last, name) or 0.1) * factor
            setattr(last, name, value)
            return estimator, f"{name}={value:g}"
    raise UnsupportedModelError(
        f"it is not known which parameter of {type(last).__name__} makes it steadier"
    )


def shard(
    case: Comparison,
    shards: int | None = None,
    low: float | None = None,
    high: float | None = None,
) -> list[Mitigation]:
    """The same model once for every shard of the people, averaged: any learner can be proven.

    Parameters
    ----------
    shards : int, optional
        By default so many that each has :data:`A_SHARD` people, at most :data:`SHARDS`; a
        quarter of that is tried too.
    low, high : float, optional
        What a regressor may say; needed for one.
    """
    model = case.model
    if model.can.form == "parts":
        raise UnsupportedModelError("it is a mean of parts already")
    people = len(Units(model.rows, case.unit))
    most = max(2, min(SHARDS, people // A_SHARD)) if shards is None else shards
    made = []
    for count in sorted({max(2, most // 4), most} if shards is None else {most}):
        estimator = clone(model.estimator)
        sharded: Any
        if model.classes is not None:
            if not hasattr(estimator, "predict_proba"):
                raise UnsupportedModelError(
                    "it gives no probabilities, by which shards are averaged"
                )
            sharded = ShardedClassifier(estimator, count, case.random_state)
        elif low is None or high is None:
            raise UnsupportedModelError(
                "shards of a regressor need the range of what it may say: "
                'mitigations={"shard": {"low": …, "high": …}}'
            )
        else:
            sharded = ShardedRegressor(estimator, count, low, high, case.random_state)
        X = model.queries(model.X, "X")
        with quiet:
            fitted = sharded.fit(X, model.y, model.rows.subjects, model.sample_weight)
            ours = erasable(
                fitted, model.X, model.y, model.rows.subjects, model.sample_weight, model.favourable
            )
        given, setting = case.recourse(ours), f"{count} shards"
        made.append(promised("shard", setting, ours, given, case))
    return made


def robust_preprocessing(case: Comparison) -> list[Mitigation]:
    """Outliers clipped, scales that no single row moves, rare categories merged.

    Numbers beyond :data:`CLIPPED` quartile ranges from the median are taken for slips and moved
    there, in the training table: bounds that stay what they are.
    """
    estimator = clone(case.model.estimator)
    changed, names = {}, []
    for name, step in estimator.get_params(deep=True).items():
        if type(step) in (StandardScaler, MinMaxScaler, MaxAbsScaler):
            changed[name] = RobustScaler()
            names.append("robust scaler")
        elif type(step) is OneHotEncoder and step.drop is None and step.min_frequency is None:
            merged = {"min_frequency": MERGED, "handle_unknown": "infrequent_if_exist"}
            changed[name] = clone(step).set_params(**merged)
            names.append(f"categories under {MERGED} rows merged")
    if not changed:
        raise UnsupportedModelError("there is no scaler and no one-hot encoder to replace")
    model = _refitted(case.model, estimator.set_params(**changed), _clipped(case.model.X))
    setting = ", ".join(dict.fromkeys(["clipped", *names]))
    return [promised("robust-preprocessing", setting, model, case.recourse(model), case)]


def _clipped(X: Any) -> Any:
    """A table whose numbers stay within some quartile ranges of their medians."""
    table = pd.DataFrame(X).copy()
    for name in table.select_dtypes("number"):
        low, middle, high = np.nanquantile(table[name].to_numpy(dtype=float), [0.25, 0.5, 0.75])
        reach = CLIPPED * (high - low)
        if reach > 0:
            table[name] = table[name].clip(middle - reach, middle + reach)
    return table if isinstance(X, pd.DataFrame) else table.to_numpy()


def _refitted(model: ErasableModel, estimator: Any, table: Any = None) -> ErasableModel:
    table = model.X if table is None else table
    X = model.queries(table, "X")
    extra = {}
    if model.sample_weight is not None:
        step = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        extra = {f"{step}sample_weight": model.sample_weight}
    with quiet:
        fitted = estimator.fit(X, model.y, **extra)
        return erasable(
            fitted, table, model.y, model.rows.subjects, model.sample_weight, model.favourable
        )


def robust_recourse(case: Comparison) -> list[Mitigation]:
    """Published baselines: ROAR's ball of weights, and the deletion-aware recourse."""
    made = []
    for radius in (0.01, 0.05, 0.2):
        points = worst_case_ball(case, radius)
        made.append(_at(case, points, f"ROAR radius={radius:g}"))
    points = deletion_aware(case)
    made.append(_at(case, points, f"deletion-aware k={case.survive}"))
    return made


def _at(case: Comparison, points: Any, setting: str) -> Mitigation:
    fine = case.model.scores(points) >= case.target if len(points) else np.zeros(0, dtype=bool)
    served = int(fine.sum()) / max(len(case.people), 1)
    return Mitigation("robust-recourse", setting, case.model, points[fine], served)

"""Models fitted for those who bring a table and no model: one pipeline per kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from holdfast.algebra.rows import as_text
from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.estimators.nystroem import NystroemNTK
from holdfast.estimators.sharded import ShardedClassifier, ShardedRegressor
from holdfast.models.recipe import MOST_CATEGORIES, front
from holdfast.shared_state import quiet

#: one hidden layer of 30 sigmoid units, as in the paper; its alpha of 10 is for larger tables
NETWORK = {
    "hidden_layer_sizes": (30,),
    "activation": "logistic",
    "alpha": 1.0,
    "solver": "lbfgs",
    "max_iter": 5000,
    "tol": 1e-8,
}


@dataclass(frozen=True)
class Kind:
    """What a kind of model is for each task; ``None`` where it does not do the task."""

    regressor: Callable[..., Any] | None
    classifier: Callable[..., Any] | None
    defaults: Mapping[str, Any]


KINDS: dict[str, Kind] = {
    "linear": Kind(LinearRegression, None, {}),
    "ridge": Kind(Ridge, None, {}),
    "logistic": Kind(None, LogisticRegression, {"tol": 1e-8, "max_iter": 10_000}),
    "poisson": Kind(PoissonRegressor, None, {"tol": 1e-8, "max_iter": 10_000}),
    "gamma": Kind(GammaRegressor, None, {"tol": 1e-8, "max_iter": 10_000}),
    "tweedie": Kind(TweedieRegressor, None, {"power": 1.5, "tol": 1e-8, "max_iter": 10_000}),
    "ntk": Kind(NTKRegressor, None, {"beta": 5.0}),
    "nystroem-ntk": Kind(Ridge, None, {"alpha": 5.0, "fit_intercept": False}),
    "lssvm": Kind(None, LSSVMClassifier, {}),
    "mlp": Kind(MLPRegressor, MLPClassifier, NETWORK),
    "boosting": Kind(HistGradientBoostingRegressor, HistGradientBoostingClassifier, {}),
}


#: kinds that predict counts and amounts, by their logarithm
COUNTS = ("poisson", "gamma", "tweedie")


@dataclass(frozen=True)
class Labels:
    """Labels as a kind of model takes them.

    Attributes
    ----------
    values : ndarray of shape (n,)
    favourable : the good outcome, as :func:`holdfast.erasable` takes it
    classes : bool
        Whether they are classes, to be told apart, or numbers to be predicted.
    indicator : bool
        Whether numbers are 1 for the favourable outcome and 0 for the other.
    """

    values: Any
    favourable: Any
    classes: bool
    indicator: bool = False


def plain(value: Any) -> str:
    """A label as text: spaces around it and a fraction of zero do not count."""
    text = as_text(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return as_text(number) if number.is_integer() else text


def labels_for(kind: str, column: pd.Series, favourable: str | None) -> Labels:
    """The label column as a kind of model takes it, oriented by the favourable value."""
    found = KINDS[kind]
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise HoldfastError(
            f"the label {column.name!r} is missing in row {missing[0] + 1} ({missing.size} such "
            "rows): leave them out"
        )
    words = np.array([plain(value) for value in column])
    different = sorted(set(words.tolist()))
    if len(different) < 2:
        raise HoldfastError(f"the label {column.name!r} is {different[0]!r} in every row")
    if len(different) == 2 and kind in COUNTS:
        raise HoldfastError(
            f"a {kind} model predicts counts and amounts, and the label {column.name!r} has two "
            "classes: a logistic model tells them apart"
        )
    if len(different) == 2 and not (found.classifier is None and favourable in ("high", "low")):
        good = _favourable_class(favourable, different, str(column.name))
        flags = (words == good).astype(np.int64)
        if found.classifier is None:
            return Labels(flags.astype(float), "high", False, indicator=True)
        return Labels(flags, 1, True)
    if (spelt := _spelt_differently(words)) is not None:
        raise HoldfastError(f"the label {column.name!r} has {spelt}: correct it in the file")
    if found.regressor is None:
        raise HoldfastError(
            f"a {kind} model tells two classes apart, and the label {column.name!r} has "
            f"{len(different)} different values. For numbers: "
            + ", ".join(name for name, k in KINDS.items() if k.regressor)
        )
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise HoldfastError(
            f"the label {column.name!r} has {len(different)} different texts, such as "
            f"{different[0]!r}: two classes or numbers are wanted"
        )
    if favourable not in (None, "high", "low"):
        raise HoldfastError(
            f"the label {column.name!r} is a number: favourable must be 'high' or 'low', got "
            f"{favourable!r}"
        )
    return Labels(column.to_numpy(dtype=float), favourable or "high", False)


def _spelt_differently(words: Any) -> str | None:
    """Labels that are two but for capitals and white space: the odd ones, with their counts."""
    values, counts = np.unique(words, return_counts=True)
    alike: dict[str, list[tuple[int, str]]] = {}
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        alike.setdefault(value.strip().lower(), []).append((count, value))
    if len(alike) != 2 or len(values) == 2:
        return None
    odd = [
        f"{value!r} ({count:,} times), which seems to be another spelling of {max(some)[1]!r}"
        for some in alike.values()
        for count, value in sorted(some)[:-1]
    ]
    return " and ".join(odd)


def _favourable_class(favourable: str | None, classes: list[str], name: str) -> str:
    if favourable is None and classes == ["0", "1"]:
        return "1"
    said = None if favourable is None else plain(favourable)
    if said not in classes:
        spelt = {c.lower(): c for c in classes}  # True and true
        said = spelt.get(str(said).lower(), said)
    if said not in classes:
        got = "" if favourable is None else f", got {favourable!r}"
        raise HoldfastError(
            f"the label {name!r} is {classes[0]!r} or {classes[1]!r}: name the one that is good "
            f"for the person as favourable{got}"
        )
    return str(said)


def fit_kind(
    kind: str,
    X: pd.DataFrame,
    labels: Labels,
    parameters: Mapping[str, Any] | None = None,
    random_state: int = 0,
    shards: int | None = None,
    groups: Any = None,
) -> Any:
    """A pipeline fitted on a table of numbers and text, or one for every shard of it.

    Missing numbers become the median, numbers are scaled to mean 0 and deviation 1; missing text
    becomes a category of its own, text becomes one-hot columns.

    Parameters
    ----------
    kind : one of :data:`KINDS`
    X : frame of numbers and text
    labels : Labels
    parameters : mapping
        Of the estimator, over this kind's defaults.
    random_state : int
        For estimators that draw.
    shards : int, optional
        Average as many pipelines, each fitted on its own people (``groups``, or rows).
    """
    told = dict(parameters or {})
    if shards is not None:
        return _fit_shards(kind, X, labels, told, random_state, shards, groups)
    pipeline = _pipeline(kind, X, labels, told, random_state)
    try:
        with quiet:
            return pipeline.fit(X, labels.values)
    except (ValueError, TypeError) as failure:
        raise HoldfastError(f"a {kind} model cannot be fitted: {failure}") from None


def _fit_shards(
    kind: str,
    X: pd.DataFrame,
    labels: Labels,
    told: dict[str, Any],
    random_state: int,
    shards: int,
    groups: Any,
) -> Any:
    """Everything inside the shards, so that nobody is in two of them."""
    sharded: Any
    if labels.classes:
        inside = _pipeline(kind, X, labels, told, random_state)
        if not hasattr(inside, "predict_proba"):
            raise HoldfastError(
                f"a {kind} model gives no probabilities, by which ⟦shards⟧ are averaged"
            )
        sharded = ShardedClassifier(inside, shards, random_state)
    else:
        low, high = (
            (0.0, 1.0) if labels.indicator else (told.pop("low", None), told.pop("high", None))
        )
        if low is None or high is None:
            raise HoldfastError(
                "⟦shards⟧ of a model that predicts numbers needs their range, or one shard could "
                "say anything: give the parameters low and high (what labels can be, not what "
                "these are)"
            )
        inside = _pipeline(kind, X, labels, told, random_state)
        sharded = ShardedRegressor(inside, shards, low, high, random_state)
    try:
        with quiet:
            return sharded.fit(X, labels.values, groups=groups)
    except HoldfastError:
        raise
    except (ValueError, TypeError) as failure:
        raise HoldfastError(f"a {kind} model cannot be fitted on shards: {failure}") from None


def _pipeline(
    kind: str, X: pd.DataFrame, labels: Labels, told: dict[str, Any], random_state: int
) -> Pipeline:
    """The unfitted pipeline of a kind for a table, which is looked at."""
    landmarks = told.pop("landmarks", 500) if kind == "nystroem-ntk" else 0
    estimator = unfitted(kind, labels.classes, told, random_state)
    text = [name for name in X if not pd.api.types.is_numeric_dtype(X[name].dtype)]
    numbers = [name for name in X if name not in text]
    for name in X:
        different = X[name].nunique()
        if different == 0:
            raise HoldfastError(f"the column {name!r} is empty: leave it out")
        if name in text and different > min(MOST_CATEGORIES, max(20, len(X) // 2)):
            raise HoldfastError(
                f"the column {name!r} has {different} different texts: it looks like an id or "
                "free text, not a category. Leave it out (⟦drop⟧, or ⟦id⟧ if it names rows)"
            )
    if not numbers and not text:
        raise HoldfastError("no column is left to fit a model on")
    between = [NystroemNTK(landmarks, random_state)] if landmarks else []
    return make_pipeline(front(numbers, text), *between, estimator)


def unfitted(kind: str, classes: bool, parameters: Mapping[str, Any], random_state: int) -> Any:
    """An estimator of a kind, its parameters checked."""
    found = KINDS[kind]
    make = found.classifier if classes else found.regressor
    if make is None:
        raise HoldfastError(
            f"a {kind} model does not predict {'classes' if classes else 'numbers'}"
        )
    known = list(inspect.signature(make).parameters)
    for name in parameters:
        if name not in known:
            raise HoldfastError(
                f"a {kind} model has no parameter {name!r}"
                + (near_name(name, known) or f"; it has {', '.join(known)}")
            )
    drawn = {"random_state": random_state} if "random_state" in known else {}
    return make(**{**drawn, **found.defaults, **parameters})


def described(estimator: Any) -> list[str]:
    """What a pipeline does to a table before its last step, one line each."""
    if isinstance(estimator, ShardedClassifier | ShardedRegressor):
        one = next((fit for fit in estimator.estimators_ if not isinstance(fit, float)), None)
        inside = described(one)
        return [f"{line}, in every shard by itself" for line in inside]
    if not isinstance(estimator, Pipeline):
        return []
    lines = []
    for _, step in estimator.steps[:-1]:
        lines += _described(step)
    return lines


def _described(step: Any) -> list[str]:
    if isinstance(step, ColumnTransformer):
        lines = []
        for _, part, columns in step.transformers_:
            chosen = [columns] if isinstance(columns, str) else list(columns)
            if isinstance(part, str) or not chosen:
                continue
            names = ", ".join(map(str, chosen[:8])) + (" …" if len(chosen) > 8 else "")
            lines += [f"{line} ({len(chosen)}: {names})" for line in _described(part)]
        return lines
    if isinstance(step, Pipeline):
        return ["; ".join(line for _, part in step.steps for line in _described(part))]
    if isinstance(step, SimpleImputer):
        filled = {
            "median": "the median",
            "mean": "the mean",
            "most_frequent": "the commonest value",
        }
        return [f"missing values become {filled.get(step.strategy, repr(step.fill_value))}"]
    if isinstance(step, StandardScaler):
        return ["numbers are scaled to mean 0 and deviation 1"]
    if isinstance(step, NystroemNTK):
        return [f"kernel features by {len(step.landmarks_)} landmarks"]
    if isinstance(step, OneHotEncoder):
        width = sum(len(values) for values in step.categories_)
        return [f"text becomes {width} one-hot columns"]
    return [] if step in (None, "passthrough") else [type(step).__name__]


def target_by_default(estimator: Any, labels: Labels | None) -> float | None:
    """Half of an indicator; else whatever is natural for the model."""
    if labels is not None and labels.indicator and not is_classifier(estimator):
        return 0.5
    return None

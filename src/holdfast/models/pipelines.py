"""The anatomy of a fitted estimator: its last step, its columns, fresh fits of it."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pandas as pd
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.validation import check_is_fitted

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import UnsupportedModelError
from holdfast.estimators.steady import steadied

#: what parameters that seed random numbers are called
SEEDS = ("random_state", "random_seed")


def final_step(estimator: Any) -> Any:
    """The estimator itself, or the last step of a pipeline, fitted and of a kind we can serve."""
    if isinstance(estimator, type):
        raise UnsupportedModelError(
            f"{estimator.__name__} is a class, not a fitted model: pass "
            f"{estimator.__name__}(...).fit(X, y)"
        )
    needed = ("fit", "predict", "get_params")
    if any(not hasattr(estimator, method) for method in needed):
        raise UnsupportedModelError(
            f"{type(estimator).__name__} is not a scikit-learn style estimator (fit, predict, "
            "get_params). Supported: LinearRegression, Ridge, KernelRidge, LogisticRegression, "
            "MLPClassifier, MLPRegressor, NTKRegressor, LSSVMClassifier, WideReLURegressor, "
            "pipelines ending in one of them, and any regressor or binary classifier that can be "
            "cloned and refitted"
        )
    check_is_fitted(estimator)
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(last, FrozenEstimator):
        raise UnsupportedModelError(
            "a FrozenEstimator is never refitted, so it forgets nothing: pass the estimator inside"
        )
    if not (is_classifier(last) or is_regressor(last)):
        raise UnsupportedModelError(
            f"{type(last).__name__} is neither a regressor nor a classifier: it gives no score"
        )
    return last


def raw_scores(estimator: Any, X: Any) -> Any:
    """Decision values of a classifier, predictions of a regressor."""
    decides = is_classifier(estimator) and hasattr(estimator, "decision_function")
    return (estimator.decision_function if decides else estimator.predict)(X)


def flattened(estimator: Any) -> Any:
    """A pipeline whose last step is a pipeline, as one pipeline of the same fitted steps."""
    while isinstance(estimator, Pipeline) and isinstance(estimator.steps[-1][1], Pipeline):
        *first, (name, last) = estimator.steps
        whole = copy.copy(estimator)
        whole.steps = [*first, *((f"{name}-{inner}", step) for inner, step in last.steps)]
        estimator = whole
    return estimator


def fitted_names(estimator: Any) -> list[Any] | None:
    """The names of the columns an estimator was fitted on, if it was fitted on a named frame."""
    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    for step in steps:
        if step not in (None, "passthrough"):
            names = getattr(step, "feature_names_in_", None)
            return None if names is None else list(names)
    return None


def wants_frames(estimator: Any, X: Any) -> bool:
    """Whether the estimator is to be given frames: as it was fitted, as far as can be told."""
    if fitted_names(estimator) is not None:
        return True
    if not isinstance(X, pd.DataFrame):
        return False
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    unnamed = not all(isinstance(name, str) for name in X.columns)
    return unnamed or not hasattr(first, "n_features_in_")


def cross_fits(transformer: Any) -> bool:
    """Whether a transformer shows the training rows something else than other rows."""
    if isinstance(transformer, TargetEncoder):
        return True
    if isinstance(transformer, Pipeline):
        return any(cross_fits(step) for _, step in transformer.steps)
    if isinstance(transformer, ColumnTransformer):
        return any(cross_fits(part) for _, part, _ in transformer.transformers_)
    return False


def refitted(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Array | None,
    refit_preprocessing: bool,
    warm: Any = None,
    rows: Positions | None = None,
) -> Any:
    """A fresh fit of the same estimator.

    ``warm``: a last step whose weights it goes on from. ``rows``: which of the rows of its fit
    these are, for an estimator whose draws are its rows' own.
    """
    if not isinstance(estimator, Pipeline):
        return _refit_step(estimator, X, y, sample_weight, warm, rows, True)
    *transformers, (name, last) = estimator.steps
    if transformers:
        before = Pipeline(transformers)
        if refit_preprocessing:
            X, before = fitted_to(before, X, y)
        else:
            X = before.transform(X)
        transformers = before.steps
        if warm is not None and X.shape[1] != warm.n_features_in_:
            warm = None  # a category went with the rows: there are no weights to go on from
    fresh = copy.copy(estimator)
    unchanged = not refit_preprocessing or not transformers
    step = _refit_step(last, X, y, sample_weight, warm, rows, unchanged)
    fresh.steps = [*transformers, (name, step)]
    return fresh


def fitted_to(transformer: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """What a fresh fit of a transformer makes of a table, and the fit; else which step fails."""
    fresh = clone(transformer)
    try:
        return fresh.fit_transform(X, y), fresh
    except Exception as failure:  # whatever a transformer does
        raise ValueError(f"its step {_failing(transformer, X, y)} fails: {failure}") from failure


def _failing(transformer: Any, X: Any, y: Any) -> str:
    """The innermost step that cannot be fitted, by name and kind, or the transformer itself."""
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(transformer, Pipeline):
        parts = [(name, step, X) for name, step in transformer.steps]
    elif isinstance(transformer, ColumnTransformer) and isinstance(X, pd.DataFrame):
        chosen = {name: columns for name, _, columns in transformer.transformers_}
        for name, part, _ in transformer.transformers:
            columns = chosen.get(name, [])
            some = X[columns] if isinstance(columns, list) else X.iloc[:, columns]
            parts.append((name, part, some))
    for name, step, table in parts:
        if step is None or isinstance(step, str):
            continue
        table = X if isinstance(transformer, Pipeline) else table
        try:
            made = clone(step).fit_transform(table, y)
        except Exception:
            return f"{name!r} ({type(step).__name__}){_inside(step, table, y)}"
        X = made if isinstance(transformer, Pipeline) else X
    return type(transformer).__name__


def _inside(step: Any, X: Any, y: Any) -> str:
    if not isinstance(step, Pipeline | ColumnTransformer):
        return ""
    found = _failing(step, X, y)
    return "" if found == type(step).__name__ else f", in it {found}"


def anew(estimator: Any) -> Any:
    """A clone that is to be fitted as refits are."""
    fresh = clone(estimator)
    pair = [e.steps[-1][1] if isinstance(e, Pipeline) else e for e in (fresh, estimator)]
    steadied(*pair)
    return fresh


def seeds_of(estimator: Any) -> list[str]:
    """The parameters by which something in an estimator draws random numbers."""
    names = [name for name in estimator.get_params() if name.split("__")[-1] in SEEDS]
    last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not names and "random_seed" in inspect.signature(type(last[1]).__init__).parameters:
        names = [f"{last[0]}__random_seed".removeprefix("__")]  # CatBoost lists what was set only
    return names


def _refit_step(
    step: Any,
    X: Any,
    y: Any,
    sample_weight: Array | None,
    warm: Any,
    rows: Positions | None,
    unchanged: bool,
) -> Any:
    if rows is not None and hasattr(step, "refitted_on"):
        return step.refitted_on(rows, X, y, sample_weight, unchanged)
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    if warm is None:
        return steadied(clone(step), step).fit(X, y, **extra)
    going_on = copy.deepcopy(warm).set_params(warm_start=True).fit(X, y, **extra)
    return going_on.set_params(warm_start=step.warm_start)

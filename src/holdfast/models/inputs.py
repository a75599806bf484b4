"""What users hand over, checked: tables, labels, weights, subjects, estimators."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.validation import check_is_fitted

from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.rows import Array


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


def positive_number(name: str, value: Any) -> None:
    """Refuse what is not a finite number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise HoldfastError(f"{name} must be a number above 0, got {value!r}")


def table(rows: Any, what: str) -> Any:
    """A two-dimensional frame or array, nothing converted yet."""
    if isinstance(rows, pd.DataFrame):
        twice = rows.columns[rows.columns.duplicated()]
        if len(twice):
            raise HoldfastError(f"column {twice[0]!r} appears twice in {what}")
        return rows
    if sparse.issparse(rows):
        raise HoldfastError(f"{what} must be dense: call .toarray() on the sparse matrix")
    if isinstance(rows, pd.Series):
        raise HoldfastError(f"{what} must be a table of rows, got one Series: use .to_frame().T")
    try:
        found = np.asarray(rows)
    except ValueError:
        raise HoldfastError(f"{what} must be a table whose rows are all equally long") from None
    if found.ndim != 2:
        raise HoldfastError(
            f"{what} must be a table of shape (rows, columns), got shape {found.shape}"
        )
    return found


def numbers(rows: Any) -> Array:
    """A table as finite floats; the error names the first cell that is not."""
    names = list(rows.columns) if isinstance(rows, pd.DataFrame) else None
    kinds = [c.kind for c in rows.dtypes] if names else [rows.dtype.kind]
    if any(kind in "mMc" for kind in kinds):
        raise HoldfastError("dates and complex numbers are no features: turn them into numbers")

    def shown(k: int) -> str:
        return f"column {names[k]!r}" if names else f"column {k}"

    try:
        found: Array = np.asarray(rows, dtype=np.float64)
    except (ValueError, TypeError):
        cells = np.asarray(rows, dtype=object)
        for i, k in np.ndindex(*cells.shape):
            try:
                float(cells[i, k])
            except (ValueError, TypeError):
                raise HoldfastError(
                    f"row {i}, {shown(k)}: {cells[i, k]!r} is not a number. Put the model behind "
                    "a Pipeline that encodes text, or encode it first"
                ) from None
        raise
    bad = np.argwhere(~np.isfinite(found))
    if bad.size:
        i, k = bad[0]
        kind = "missing (NaN)" if np.isnan(found[i, k]) else "infinite"
        raise HoldfastError(
            f"row {i}, {shown(k)}: the value is {kind}, and this model takes finite numbers only "
            f"({len(bad)} such cells). Impute it, or put the model behind a Pipeline that does"
        )
    return found


def near_name(name: Any, known: Iterable[Any]) -> str:
    """What a misspelt name may have meant, as the end of a message."""
    near = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def in_order(frame: pd.DataFrame, names: list[Any], what: str) -> pd.DataFrame:
    """The frame's columns in the model's order; the error names the nearest column."""
    given = list(frame.columns)
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing:
        hint = near_name(missing[0], unknown)
        raise HoldfastError(f"column {missing[0]!r} is missing from {what}{hint}")
    if unknown:
        raise HoldfastError(
            f"{what} has the column {unknown[0]!r}, which the model was not fitted on: drop it"
        )
    return frame[names]


def weights(given: Any, n: int, name: str = "sample_weight") -> Array | None:
    """Non-negative finite weights, one per row."""
    if given is None:
        return None
    try:
        found = np.array(given, dtype=np.float64)
    except (ValueError, TypeError):
        raise HoldfastError(f"{name} must be numbers, one for each of {n} rows") from None
    if found.shape != (n,):
        raise HoldfastError(f"{name} must have one number for each of {n} rows, got {found.shape}")
    if not np.all(np.isfinite(found)) or found.min() < 0:
        raise HoldfastError(f"{name} must be finite and not negative, got {found.min():g} at least")
    if not found.any():
        raise HoldfastError(f"{name} is 0 for every row: nothing is left to fit")
    return found


def subject_ids(given: Any, n: int) -> npt.NDArray[Any] | None:
    """Whose row each is, or ``None``."""
    if given is None:
        return None
    found = np.empty(len(given), dtype=object)
    found[:] = list(given)
    if found.shape != (n,):
        raise HoldfastError(
            f"subjects must name the owner of each of the {n} rows, got shape {found.shape}"
        )
    missing = np.flatnonzero(pd.isna(found))
    if missing.size:
        raise HoldfastError(f"row {missing[0]} has no subject ({missing.size} such rows)")
    return found


def oriented_target(
    estimator: Any, y: Any, n: int, favourable: Any
) -> tuple[npt.NDArray[Any], Array, npt.NDArray[np.intp] | None, int]:
    """Labels as given, as numbers with the good outcome up, class codes, and the orientation."""
    labels = np.array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise HoldfastError(f"y must be one label per row, got shape {labels.shape}")
    if len(labels) != n:
        raise HoldfastError(f"X has {n} rows but y has {len(labels)} labels")
    missing = np.flatnonzero(pd.isna(labels))
    if missing.size:
        raise HoldfastError(f"y is missing in row {missing[0]} ({missing.size} such rows)")
    if is_classifier(estimator):
        return _oriented_classes(estimator, labels, favourable)
    try:
        values = labels.astype(np.float64)
    except (ValueError, TypeError):
        raise HoldfastError(
            f"y must be numbers for a regressor, got {labels.dtype} such as {labels.tolist()[0]!r}"
        ) from None
    if not np.all(np.isfinite(values)):
        raise HoldfastError("y must be finite numbers for a regressor")
    if favourable not in (1, "high", "low"):
        raise HoldfastError(
            f"favourable must be 'high' or 'low' for a regressor, got {favourable!r}"
        )
    sign = -1 if favourable == "low" else 1
    return labels, sign * values, None, sign


def _oriented_classes(
    estimator: Any, labels: npt.NDArray[Any], favourable: Any
) -> tuple[npt.NDArray[Any], Array, npt.NDArray[np.intp], int]:
    classes = np.asarray(estimator.classes_).tolist()  # as Python values, which print plainly
    if len(classes) != 2:
        raise UnsupportedModelError(
            f"{type(estimator).__name__} was fitted on {len(classes)} classes; two are supported: "
            "fit it on the favourable class against the others"
        )
    matches = [i for i, label in enumerate(classes) if bool(label == favourable)]
    if not matches:
        raise HoldfastError(
            f"favourable={favourable!r} is not a class of this model; its classes are "
            f"{classes[0]!r} and {classes[1]!r}: pass the one that is good for the person"
        )
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if unknown.size:
        raise HoldfastError(
            f"y has the label {labels.tolist()[unknown[0]]!r} in row {unknown[0]}, which the model "
            f"was not fitted on (classes {classes[0]!r} and {classes[1]!r})"
        )
    codes = (labels == classes[1]).astype(np.intp)
    present = np.unique(codes)
    if present.size < 2:
        raise HoldfastError(
            f"y holds only the class {classes[present[0]]!r}: a classifier needs rows of both"
        )
    sign = 1 if matches[0] == 1 else -1
    return labels, (codes if sign > 0 else 1 - codes).astype(np.float64), codes, sign


def refitted(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Array | None,
    refit_preprocessing: bool,
    warm: Any = None,
) -> Any:
    """A fresh fit of the same estimator; ``warm``: a last step whose weights it goes on from."""
    if not isinstance(estimator, Pipeline):
        return _refit_step(estimator, X, y, sample_weight, warm)
    *transformers, (name, last) = estimator.steps
    if transformers:
        before = Pipeline(transformers)
        if refit_preprocessing:
            before = clone(before)
            X = before.fit_transform(X, y)
        else:
            X = before.transform(X)
        transformers = before.steps
        if warm is not None and X.shape[1] != warm.n_features_in_:
            warm = None  # a category went with the rows: there are no weights to go on from
    fresh = copy.copy(estimator)
    fresh.steps = [*transformers, (name, _refit_step(last, X, y, sample_weight, warm))]
    return fresh


def _refit_step(step: Any, X: Any, y: Any, sample_weight: Array | None, warm: Any) -> Any:
    extra = {} if sample_weight is None else {"sample_weight": sample_weight}
    if warm is None:
        return clone(step).fit(X, y, **extra)
    going_on = copy.deepcopy(warm).set_params(warm_start=True).fit(X, y, **extra)
    return going_on.set_params(warm_start=step.warm_start)


def take(rows: Any, positions: Any) -> Any:
    """Some rows of a frame or array."""
    return rows.iloc[positions] if isinstance(rows, pd.DataFrame) else rows[positions]

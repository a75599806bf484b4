"""What a model is trained on, checked: tables, labels, weights, subjects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.base import is_classifier

from holdfast.algebra.rows import Array
from holdfast.arguments import near_name
from holdfast.errors import HoldfastError, UnsupportedModelError


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


def in_order(frame: pd.DataFrame, names: list[Any], what: str) -> pd.DataFrame:
    """The frame's columns in the model's order; the error names the nearest column."""
    given = list(frame.columns)
    if given == names:
        return frame
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

"""Which pipelines only scale: the columns a fitted preprocessing makes, where that is all it does.

Refitting these re-weights the penalty of a linear model and changes nothing else
(:mod:`holdfast.models.scales`); behind any other transformer it may do more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from holdfast.algebra.rows import Array
from holdfast.models.scales import Column, Scales


def scales_of(transformer: Any, X: Any, features: Array, intercept: bool) -> Scales | None:
    """The scales of a fitted preprocessing; ``None`` where refitting it may do more.

    Parameters
    ----------
    transformer : fitted scikit-learn transformer
    X : the training table, as the transformer takes it
    features : what it makes of it, (n, d)
    intercept : bool
        Whether the model behind it has a free intercept, which absorbs where columns are centred.
    """
    names = list(map(str, X.columns)) if isinstance(X, pd.DataFrame) else _numbered(X.shape[1])
    table = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    cells = [table.iloc[:, i].to_numpy() for i in range(table.shape[1])]
    given = [Column(c, name=n, source=i) for i, (c, n) in enumerate(zip(cells, names, strict=True))]
    found = _through(transformer, given)
    if found is None or len(found) != features.shape[1]:
        return None
    try:
        columns = [replace(c, values=np.asarray(c.values, dtype=np.float64)) for c in found]
    except (ValueError, TypeError):
        return None
    if not intercept and any(c.centred for c in columns):
        return None
    made = Scales(columns)
    for f, column in enumerate(columns):  # it must be the feature, but for its centre
        mine = column.values / made.before[f]
        moved = features[:, f] - mine
        if np.isnan(mine).any() or np.ptp(moved) > 1e-9 * (1.0 + np.abs(mine).max()):
            constant = column.kind == "fixed" and np.ptp(mine) == 0 and np.ptp(features[:, f]) == 0
            if not constant and not _proportional(features[:, f], mine):
                return None
    return made


def undetermined(features: Array, moving: Any, intercept: bool) -> bool:
    """Whether some columns that are scaled have weights that the rows leave open.

    Without a penalty the weights of least norm are chosen, and the norm depends on the scales.
    """
    Z = features - features.mean(axis=0) if intercept else features
    Z = Z / np.maximum(np.linalg.norm(Z, axis=0), 1e-300)
    values, vectors = np.linalg.eigh(Z.T @ Z)
    open_ = values < 1e-10 * max(float(values[-1]), 1e-300)
    return bool(np.any(np.abs(vectors[moving][:, open_]) > 1e-6))


def _numbered(count: int) -> list[str]:
    return [f"column {i}" for i in range(count)]


def _proportional(feature: Array, mine: Array) -> bool:
    """Whether one is the other in another unit: a feature range, a transformer's weight."""
    a, b = feature - feature.mean(), mine - mine.mean()
    if not np.any(b):
        return not np.any(np.abs(a) > 1e-12)
    slope = float(a @ b / (b @ b))
    return bool(np.all(np.abs(a - slope * b) <= 1e-9 * (np.abs(a).max() + 1e-300)))


def _through(transformer: Any, columns: list[Column]) -> list[Column] | None:
    """The columns a transformer makes of some."""
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return columns
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            made = _through(step, columns)
            if made is None:
                return None
            columns = made
        return columns
    rule = _RULES.get(type(transformer))
    return None if rule is None else rule(transformer, columns)


def _side_by_side(transformer: ColumnTransformer, columns: list[Column]) -> list[Column] | None:
    names = list(getattr(transformer, "feature_names_in_", range(transformer.n_features_in_)))
    found: list[tuple[int, list[Column]]] = []
    for name, part, chosen in transformer.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        places = _places(chosen, names)
        if places is None:
            return None
        made = _through(part, [columns[i] for i in places]) if places else []
        if made is None:
            return None
        found.append((transformer.output_indices_[name].start, made))
    return [column for _, made in sorted(found, key=lambda pair: pair[0]) for column in made]


def _places(chosen: Any, names: list[Any]) -> list[int] | None:
    if isinstance(chosen, slice):
        start, stop = chosen.start, chosen.stop
        start = names.index(start) if isinstance(start, str) else start
        stop = names.index(stop) + 1 if isinstance(stop, str) else stop  # labels: the last too
        return list(range(len(names)))[slice(start, stop, chosen.step)]
    some = np.atleast_1d(np.asarray(chosen))
    if some.dtype == bool:
        return np.flatnonzero(some).tolist()
    if some.dtype.kind in "iu":
        return [int(i) % len(names) for i in some.tolist()]
    return (
        [names.index(c) for c in some.tolist()] if all(c in names for c in some.tolist()) else None
    )


def _scaled(columns: list[Column], kind: str, centred: bool, **more: Any) -> list[Column] | None:
    if any(c.kind != "fixed" for c in columns):  # scaled twice: the second scale depends on both
        return None
    return [replace(c, kind=kind, centred=centred or c.centred, **more) for c in columns]


def _standard(step: StandardScaler, columns: list[Column]) -> list[Column] | None:
    return _scaled(columns, "deviation" if step.with_std else "fixed", bool(step.with_mean))


def _min_max(step: MinMaxScaler, columns: list[Column]) -> list[Column] | None:
    return None if step.clip else _scaled(columns, "range", centred=True)


def _max_abs(step: MaxAbsScaler, columns: list[Column]) -> list[Column] | None:
    moves = getattr(step, "clip", False) or any(c.centred for c in columns)
    return None if moves else _scaled(columns, "largest", centred=False)


def _robust(step: RobustScaler, columns: list[Column]) -> list[Column] | None:
    kind = "quantiles" if step.with_scaling else "fixed"
    low, high = step.quantile_range
    return _scaled(columns, kind, bool(step.with_centering), quantiles=(float(low), float(high)))


def _imputed(step: SimpleImputer, columns: list[Column]) -> list[Column] | None:
    gaps = [
        pd.isna(c.values) if pd.isna(step.missing_values) else c.values == step.missing_values
        for c in columns
    ]
    constant = step.strategy == "constant"
    if any(np.any(g) for g in gaps) and not constant:
        return None
    if not constant and (not pd.isna(step.missing_values) or any(c.source < 0 for c in columns)):
        return None  # where a point would have a gap is not known
    for column, gap in zip(columns, gaps, strict=True):  # what is filled in is not scaled with it
        if np.any(gap) and (column.kind != "fixed" or column.centred):
            return None
    if step.add_indicator and any(np.any(g) for g in gaps):
        return None
    fills = np.asarray(step.statistics_, dtype=object).tolist()
    filled = []
    for column, gap, fill in zip(columns, gaps, fills, strict=True):
        values = column.values
        if np.any(gap):
            values = values.astype(object)
            values[gap] = fill
        filled.append(replace(column, values=values, fills=column.fills or not constant))
    return filled


def _one_hot(step: OneHotEncoder, columns: list[Column]) -> list[Column] | None:
    plain = step.drop is None and not getattr(step, "_infrequent_enabled", False)
    if not plain or any(c.kind != "fixed" for c in columns):
        return None
    made = []
    for column, known in zip(columns, step.categories_, strict=True):
        for category in known:
            same = column.values == category
            if isinstance(category, float) and category != category:
                same = pd.isna(column.values)
            ones = np.asarray(same, dtype=np.float64)
            strict = step.handle_unknown == "error" and isinstance(step.categories, str)
            made.append(replace(column, values=ones, strict=strict))
    return made


def _stateless(step: Any, columns: list[Column]) -> list[Column] | None:
    """What does not depend on which rows there are: applied, and nothing more."""
    if any(c.kind != "fixed" or c.centred or c.fills or c.strict for c in columns):
        return None
    try:
        out = step.transform(np.column_stack([c.values for c in columns]))
    except Exception:  # a function that wants a frame, say: it is not known what it does
        return None
    out = out.toarray() if sparse.issparse(out) else np.asarray(out)
    if out.ndim != 2 or len(out) != len(columns[0].values):
        return None
    names = [c.name for c in columns] if out.shape[1] == len(columns) else _numbered(out.shape[1])
    return [Column(out[:, i], name=names[i]) for i in range(out.shape[1])]


_RULES: dict[type, Callable[[Any, list[Column]], list[Column] | None]] = {
    ColumnTransformer: _side_by_side,
    StandardScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    RobustScaler: _robust,
    SimpleImputer: _imputed,
    OneHotEncoder: _one_hot,
    FunctionTransformer: _stateless,
    PolynomialFeatures: _stateless,
}

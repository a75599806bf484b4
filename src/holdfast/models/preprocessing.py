"""Frozen preprocessing in front of a model: raw rows in, features out, gradients back.

The algebra of deletions treats a pipeline's transformers as frozen. Gradients pass back through
the transformers in :data:`PULLBACKS`; behind any other one a model still scores, forgets and
predicts deletions, but has no gradient in the raw columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.estimators.nystroem import NystroemNTK
from holdfast.models.fast_features import FastFeatures, fast_features

#: (fitted transformer, its input, gradient (…, q, columns out)) → gradient (…, q, columns in)
Pullback = Callable[[Any, Any, Array], Array]


class Preprocessing:
    """A fitted transformer, frozen.

    Parameters
    ----------
    transformer : fitted scikit-learn transformer
    like : Preprocessing, optional
        The same fitted on other rows: what was found out about it holds here too.
    """

    def __init__(self, transformer: Any, like: Preprocessing | None = None):
        self.transformer = transformer
        self.fast: FastFeatures | None = None
        self._tried: bool = like is not None and like._tried
        if like is not None and like.fast is not None:
            self.fast = fast_features(transformer)

    def transform(self, rows: Any) -> Array:
        """The features of raw rows, dense and finite."""
        if self.fast is not None and isinstance(rows, pd.DataFrame):
            found = self.fast(rows)
            if found is not None:
                return found
        out = self._by_scikit_learn(rows)
        if not self._tried and isinstance(rows, pd.DataFrame):  # trusted once it has agreed
            fast, self._tried = fast_features(self.transformer), True
            found = None if fast is None else fast(rows)
            if found is not None and np.array_equal(found, out):
                self.fast = fast
        return out

    def _by_scikit_learn(self, rows: Any) -> Array:
        out = _transformed(self.transformer, rows.copy())  # some transformers work in place
        try:
            out = np.asarray(out.toarray() if sparse.issparse(out) else out, dtype=np.float64)
        except (ValueError, TypeError):
            raise HoldfastError(
                "the pipeline's preprocessing puts out values that are not numbers: encode text "
                "columns, for example with OneHotEncoder"
            ) from None
        bad = np.argwhere(~np.isfinite(out))
        if bad.size:
            raise HoldfastError(
                f"the pipeline's preprocessing puts out NaN or infinity (row {bad[0][0]}, feature "
                f"{bad[0][1]}): impute missing values in the pipeline or in the table"
            )
        return out

    def pullback(self, rows: Any, gradient: Array) -> Array:
        """A gradient in the features, carried back to the raw columns."""
        return _pull(self.transformer, rows, gradient)


def _transformed(transformer: Any, rows: Any) -> Any:
    try:
        return transformer.transform(rows)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as refusal:
        raise HoldfastError(
            f"the pipeline's preprocessing does not accept these rows: {refusal}"
        ) from refusal


def _pull(transformer: Any, rows: Any, gradient: Array) -> Array:
    if transformer == "passthrough":
        return gradient
    for kind, rule in PULLBACKS.items():
        if isinstance(transformer, kind):
            return rule(transformer, rows, gradient)
    raise UnsupportedModelError(
        f"gradients do not pass through {type(transformer).__name__}. They pass through: "
        f"{', '.join(sorted(kind.__name__ for kind in PULLBACKS))}. Behind other transformers, "
        "scores, deletions and without work"
    )


def _n_columns(rows: Any) -> int:
    return int(rows.shape[1])


def _pipeline(pipeline: Any, rows: Any, gradient: Array) -> Array:
    inputs = []
    for _, step in pipeline.steps:
        inputs.append((step, rows))
        rows = rows if step in (None, "passthrough") else _transformed(step, rows)
    for step, given in reversed(inputs):
        gradient = gradient if step is None else _pull(step, given, gradient)
    return gradient


def _column_transformer(transformer: Any, rows: Any, gradient: Array) -> Array:
    back = np.zeros((*gradient.shape[:-1], _n_columns(rows)))
    for name, part, columns in transformer.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        inputs = _column_positions(transformer, columns)
        if inputs.size:
            given = rows.iloc[:, inputs] if hasattr(rows, "iloc") else rows[:, inputs]
            share = gradient[..., transformer.output_indices_[name]]
            share = share * (transformer.transformer_weights or {}).get(name, 1.0)
            back[..., inputs] += _pull(part, given, share)
    return back


def _column_positions(transformer: Any, columns: Any) -> Any:
    """Positions of the columns a part of a ColumnTransformer takes, however they were named."""
    names = list(getattr(transformer, "feature_names_in_", range(transformer.n_features_in_)))
    if isinstance(columns, str):
        return np.array([names.index(columns)])
    if isinstance(columns, slice):
        start, stop = (
            names.index(end) if isinstance(end, str) else end
            for end in (columns.start, columns.stop)
        )
        if isinstance(columns.stop, str):
            stop += 1  # label slices include their end
        return np.arange(len(names))[slice(start, stop, columns.step)]
    columns = np.atleast_1d(np.asarray(columns))
    if columns.dtype == bool:
        return np.flatnonzero(columns)
    if columns.dtype.kind in "OUT":
        return np.array([names.index(c) for c in columns], dtype=np.intp)
    return np.arange(len(names))[columns.astype(np.intp)] if columns.size else columns.astype(int)


def _feature_union(union: Any, rows: Any, gradient: Array) -> Array:
    back = np.zeros((*gradient.shape[:-1], _n_columns(rows)))
    start = 0
    for name, part in union.transformer_list:
        if part == "drop":
            continue
        width = _n_columns(rows) if part == "passthrough" else _n_columns(_transformed(part, rows))
        weight = (union.transformer_weights or {}).get(name, 1.0)
        back += _pull(part, rows, weight * gradient[..., start : start + width])
        start += width
    return back


def _standard(scaler: Any, rows: Any, gradient: Array) -> Array:
    return gradient if scaler.scale_ is None else gradient / scaler.scale_


def _min_max(scaler: Any, rows: Any, gradient: Array) -> Array:
    back = gradient * scaler.scale_
    if scaler.clip:
        raw = np.asarray(rows, dtype=float) * scaler.scale_ + scaler.min_
        low, high = scaler.feature_range
        back = back * ((raw >= low) & (raw <= high))
    return back


def _max_abs(scaler: Any, rows: Any, gradient: Array) -> Array:
    back = gradient / scaler.scale_
    if getattr(scaler, "clip", False):
        back = back * (np.abs(np.asarray(rows, dtype=float) / scaler.scale_) <= 1.0)
    return back


def _flat(transformer: Any, rows: Any, gradient: Array) -> Array:
    """Categories and bins: the score is piecewise constant in them, its derivative 0."""
    return np.zeros((*gradient.shape[:-1], _n_columns(rows)))


def _imputer(imputer: Any, rows: Any, gradient: Array) -> Array:
    """The identity where a value is there; 0 for a missing one and for indicator columns."""
    back = np.zeros((*gradient.shape[:-1], _n_columns(rows)))
    statistics = np.asarray(imputer.statistics_, dtype=object)
    dropped = np.array([s is np.nan or s != s for s in statistics])
    if imputer.keep_empty_features:
        dropped[:] = False
    kept = np.flatnonzero(~dropped)
    back[..., kept] = gradient[..., : kept.size]
    values = np.asarray(rows, dtype=object)
    code = imputer.missing_values
    missing = values != values if code is np.nan or code != code else values == code
    return back * ~missing.astype(bool)


def _selector(selector: Any, rows: Any, gradient: Array) -> Array:
    back = np.zeros((*gradient.shape[:-1], _n_columns(rows)))
    back[..., selector.get_support(indices=True)] = gradient
    return back


def _pca(pca: Any, rows: Any, gradient: Array) -> Array:
    if pca.whiten:
        gradient = gradient / np.sqrt(pca.explained_variance_)
    back: Array = gradient @ pca.components_
    return back


def _truncated_svd(svd: Any, rows: Any, gradient: Array) -> Array:
    back: Array = gradient @ svd.components_
    return back


def _polynomial(expansion: Any, rows: Any, gradient: Array) -> Array:
    x = np.asarray(rows, dtype=float)
    powers = expansion.powers_
    back = np.zeros((*gradient.shape[:-1], x.shape[1]))
    for k in range(x.shape[1]):
        lowered = powers.copy()
        lowered[:, k] = np.maximum(lowered[:, k] - 1, 0)
        slopes = powers[:, k] * np.prod(x[:, None, :] ** lowered, axis=2)
        back[..., k] = np.sum(gradient * slopes, axis=-1)
    return back


def _function(transformer: Any, rows: Any, gradient: Array) -> Array:
    if transformer.func is not None:
        raise UnsupportedModelError(
            "gradients do not pass through a FunctionTransformer with a function of its own; "
            "methods that need only scores work"
        )
    return gradient


PULLBACKS: dict[type, Pullback] = {
    Pipeline: _pipeline,
    ColumnTransformer: _column_transformer,
    FeatureUnion: _feature_union,
    StandardScaler: _standard,
    RobustScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    SimpleImputer: _imputer,
    MissingIndicator: _flat,
    OneHotEncoder: _flat,
    OrdinalEncoder: _flat,
    KBinsDiscretizer: _flat,
    SelectorMixin: _selector,
    PCA: _pca,
    TruncatedSVD: _truncated_svd,
    PolynomialFeatures: _polynomial,
    FunctionTransformer: _function,
    NystroemNTK: lambda transformer, rows, gradient: transformer.pullback(rows, gradient),
}

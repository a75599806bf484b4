"""The features of a table by plain arithmetic, for the commonest preprocessing.

scikit-learn's transformers check and copy a table at every step: 15 milliseconds for fifty rows of
thirteen text columns, of which the arithmetic is a hundredth; recourse and refits do it hundreds of
times. For the transformers here (gaps filled, numbers scaled, texts one-hot, side by side) the same
numbers are made directly, and made anew without some rows. Anything else, and any value they would
complain of, is left to scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from holdfast.algebra.rows import Array, Positions

#: numbers that scikit-learn works with as double precision
EIGHT_BYTES = ("f8", "i8", "u8")


class ColumnsPart(Protocol):
    """Some columns and what becomes of them."""

    @property
    def columns(self) -> list[str]:
        """Their names."""

    def cells(self, table: pd.DataFrame) -> Any:
        """The columns as an array to work with; ``None`` where scikit-learn has to decide."""

    def features(self, cells: Any) -> Array | None:
        """The features of such an array; ``None`` likewise."""

    def refitted(self, cells: Any) -> ColumnsPart | None:
        """The same fitted on such an array; ``None`` likewise."""


@dataclass(frozen=True)
class FastFeatures:
    """Parts side by side."""

    parts: Sequence[ColumnsPart]

    def __call__(self, table: pd.DataFrame) -> Array | None:
        """The features of a table; ``None`` where scikit-learn has to decide."""
        cells = self.cells(table)
        return None if cells is None else self.features(cells)

    def cells(self, table: pd.DataFrame) -> list[Any] | None:
        """A table as arrays, to be kept where it is looked at again."""
        if any(name not in table.columns for part in self.parts for name in part.columns):
            return None
        found = [part.cells(table) for part in self.parts]
        return None if any(each is None for each in found) else found

    def features(self, cells: list[Any], rows: Positions | None = None) -> Array | None:
        """The features of a table, or of some of its rows."""
        found = []
        for part, mine in zip(self.parts, cells, strict=True):
            some = part.features(mine if rows is None else mine[rows])
            if some is None or not np.all(np.isfinite(some)):
                return None
            found.append(some)
        return np.hstack(found)

    def refitted(self, cells: list[Any], rows: Positions) -> FastFeatures | None:
        """The same preprocessing fitted on some rows of a table."""
        parts = []
        for part, mine in zip(self.parts, cells, strict=True):
            fresh = part.refitted(mine[rows])
            if fresh is None:
                return None
            parts.append(fresh)
        return FastFeatures(parts)


def fast_features(transformer: Any, columns: list[Any] | None = None) -> FastFeatures | None:
    """The features of a frame by plain arithmetic; ``None`` where a transformer is not known.

    ``columns``: what the table's are called, where the transformer was not told.
    """
    steps = _steps(transformer)
    if len(steps) == 1 and type(steps[0]) is ColumnTransformer:
        return _side_by_side(steps[0])
    names = getattr(steps[0], "feature_names_in_", columns) if steps else None
    part = None if names is None else _part(steps, list(names))
    return None if part is None else FastFeatures([part])


def _steps(transformer: Any) -> list[Any]:
    """What a transformer does one after another, nested pipelines taken apart."""
    if type(transformer) is Pipeline:
        return [inner for _, step in transformer.steps for inner in _steps(step)]
    return [] if transformer in (None, "passthrough") else [transformer]


def _side_by_side(transformer: ColumnTransformer) -> FastFeatures | None:
    if transformer.transformer_weights or any(map(_looks, transformer.transformers)):
        return None
    parts = []
    for name, step, columns in transformer.transformers_:
        named = isinstance(columns, list) and all(isinstance(c, str) for c in columns)
        if isinstance(columns, list) and (step == "drop" or not columns):
            continue
        part = _part(_steps(step), columns) if named and name != "remainder" else None
        if part is None:
            return None
        parts.append(part)
    return FastFeatures(parts) if parts else None


def _looks(chosen: tuple[str, Any, Any]) -> bool:
    """Whether columns are chosen by looking at the cells: others, perhaps, without some rows."""
    return callable(chosen[2]) and type(chosen[2]) is not make_column_selector


def _part(steps: list[Any], columns: list[str]) -> ColumnsPart | None:
    if steps and type(steps[-1]) is OneHotEncoder:
        return _texts(steps[:-1], steps[-1], columns)
    return Numbers(columns, tuple(steps)) if all(map(_is_known, steps)) else None


def _is_known(step: Any) -> bool:
    if type(step) is SimpleImputer:
        return _fills_plainly(step)
    if type(step) in (MaxAbsScaler, MinMaxScaler):
        return not getattr(step, "clip", False)
    if type(step) is RobustScaler:
        return not step.unit_variance
    return type(step) is StandardScaler


def _fills_plainly(step: SimpleImputer) -> bool:
    fills = np.asarray(step.statistics_).tolist()
    return _fills_gaps(step) and all(isinstance(f, int | float) and f == f for f in fills)


def _fills_gaps(step: SimpleImputer) -> bool:
    """Whether it fills NaN and nothing else, and leaves no trace of that."""
    gaps = step.missing_values
    return isinstance(gaps, float) and np.isnan(gaps) and not step.add_indicator


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers: gaps filled, then scaled, in scikit-learn's own order of operations."""

    columns: list[str]
    steps: tuple[Any, ...]

    def cells(self, table: pd.DataFrame) -> Any:
        some = table[self.columns]
        plain = all(isinstance(k, np.dtype) and k.str[1:] in EIGHT_BYTES for k in some.dtypes)
        # a constant may not fit whole numbers, which scikit-learn then says
        constant = any(getattr(step, "strategy", "") == "constant" for step in self.steps)
        if not plain or (constant and any(kind.kind != "f" for kind in some.dtypes)):
            return None
        return some.to_numpy(dtype=np.float64, copy=True)

    def features(self, cells: Any) -> Array | None:
        for step in self.steps:
            cells = _applied(step, cells)
        return np.asarray(cells, dtype=np.float64)

    def refitted(self, cells: Any) -> ColumnsPart | None:
        fresh = []
        for step in self.steps:
            fitted = clone(step).fit(cells)
            if not _is_known(fitted):  # a column that is all gaps now
                return None
            cells = _applied(fitted, cells)
            fresh.append(fitted)
        return replace(self, steps=tuple(fresh))


def _applied(step: Any, X: Array) -> Array:
    """What a fitted transformer of numbers does."""
    if isinstance(step, SimpleImputer):
        return np.where(np.isnan(X), np.asarray(step.statistics_, dtype=np.float64), X)
    if isinstance(step, MinMaxScaler):
        return np.asarray(X * step.scale_ + step.min_)
    centre = scale = None
    if isinstance(step, StandardScaler):
        centre = step.mean_ if step.with_mean else None
        scale = step.scale_ if step.with_std else None
    elif isinstance(step, RobustScaler):
        centre = step.center_ if step.with_centering else None
        scale = step.scale_ if step.with_scaling else None
    else:
        scale = step.scale_
    X = X if centre is None else X - centre
    return X if scale is None else X / scale


def _texts(before: list[Any], encoder: OneHotEncoder, columns: list[str]) -> ColumnsPart | None:
    if encoder.drop is not None or getattr(encoder, "_infrequent_enabled", False):
        return None
    if encoder.handle_unknown == "warn":
        return None
    fills: list[Any] = [None] * len(columns)
    constant = True
    if len(before) > 1:
        return None
    for step in before:
        if type(step) is not SimpleImputer or not _fills_gaps(step):
            return None
        fills = np.asarray(step.statistics_, dtype=object).tolist()
        constant = step.strategy == "constant"
    known = [np.asarray(values, dtype=object).tolist() for values in encoder.categories_]
    words = [value for values in known for value in values] + [f for f in fills if f is not None]
    if any(not isinstance(value, str) for value in words):
        return None
    return Texts(
        columns,
        fills,
        known,
        [np.arange(len(values)) for values in known],
        encoder.handle_unknown != "error",  # where no text is infrequent, there is but one way
        constant and isinstance(encoder.categories, str),
    )


@dataclass(frozen=True)
class Texts:
    """Columns of text: gaps filled, then one column for every category.

    Attributes
    ----------
    known : list of list of str
        The categories a column may be told apart by: those of the first fit.
    places : list of ndarray
        Which of them each column's features stand for; fewer after some rows went.
    ignore : bool
        Whether an unknown category has no feature, instead of being refused.
    can_refit : bool
        Whether categories are those that occur, and fills do not depend on the rows.
    """

    columns: list[str]
    fills: list[Any]
    known: list[list[str]]
    places: list[Any]
    ignore: bool
    can_refit: bool

    def cells(self, table: pd.DataFrame) -> Any:
        """Codes (n, columns) into ``known``: −1 for a text that is not known."""
        codes = np.empty((len(table), len(self.columns)), dtype=np.intp)
        for k, name in enumerate(self.columns):
            code_of = {value: code for code, value in enumerate(self.known[k])}
            for i, cell in enumerate(table[name].tolist()):
                if type(cell) is float and cell != cell:
                    cell = self.fills[k]
                if type(cell) is not str:  # None, a number, a gap that nobody fills
                    return None
                codes[i, k] = code_of.get(cell, -1)
        return codes

    def features(self, cells: Any) -> Array | None:
        found = []
        for k, places in enumerate(self.places):
            one_hot = cells[:, [k]] == places
            if not self.ignore and not one_hot.any(axis=1).all():
                return None
            found.append(one_hot)
        return np.hstack(found).astype(np.float64)

    def refitted(self, cells: Any) -> ColumnsPart | None:
        if not self.can_refit or (cells < 0).any():
            return None
        return replace(self, places=[np.unique(cells[:, k]) for k in range(cells.shape[1])])

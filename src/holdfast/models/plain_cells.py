r"""Tables as numbers in which every score of a plain pipeline is linear, whatever it was fitted on.

Filling gaps, scaling and one-hot encoding turn a column into :math:`a x + b` where there is a value
and into :math:`a m + b` where there is none. So a linear score behind them is linear in the *cells*
of a row: its numbers (0 where missing), whether each is missing, and one column for every text. An
intercept absorbs ``b``; which slope ``a`` and fill ``m`` there are depends on the rows the pipeline
was fitted on. Here they are worked out for a table without each of many sets of rows at once, as
scikit-learn would on the rows left: from sums less those of the rows that go, and from sorted
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.models.fast_features import Numbers, Texts, fast_features

_EPS = np.finfo(float).eps
#: a variance smaller than this share of what it was has lost too many digits
_CANCELS = 1e-6


@dataclass(frozen=True)
class Cells:
    """A table, or some rows of it.

    Attributes
    ----------
    values : ndarray of shape (q, k)
        Numbers, NaN where there is none.
    texts : ndarray of shape (q, c)
        1 in the column of each text.
    told : ndarray of shape (q, columns of text)
        1 where a text is no gap.
    """

    values: Array
    texts: Array
    told: Array

    def of(self, rows: Any) -> Cells:
        """Some of the rows."""
        return Cells(self.values[rows], self.texts[rows], self.told[rows])

    @property
    def matrix(self) -> Array:
        """Numbers, whether they are missing, texts, and a 1: what scores are linear in."""
        missing = np.isnan(self.values)
        known = np.where(missing, 0.0, self.values)
        return np.hstack([known, missing, self.texts, np.ones((len(known), 1))])


@dataclass(frozen=True)
class Layout:
    """Which columns of a table become which cells, for the same pipeline fitted on several tables.

    Attributes
    ----------
    numbers : sequence of (columns, steps)
        Columns of numbers, and what is done to them one after another.
    texts : sequence of (column, words, ignore, fill)
        Columns of text, the words that are known, whether others are ignored, and what a missing
        one is taken for.
    """

    numbers: Sequence[tuple[list[Any], tuple[Any, ...]]]
    texts: Sequence[tuple[Any, list[str], bool, str | None]]

    @classmethod
    def of(cls, transformers: Sequence[Any], columns: list[Any]) -> Layout | None:
        """The layout of fitted clones of one transformer; ``None`` where it is not plain."""
        numbers: list[tuple[list[Any], tuple[Any, ...]]] = []
        words: dict[Any, tuple[set[str], bool, str | None]] = {}
        for transformer in transformers:
            found = fast_features(transformer, columns) if transformer is not None else None
            if transformer is not None and found is None:
                return None
            parts = [Numbers(columns, ())] if found is None else found.parts
            mine = [p for p in parts if isinstance(p, Numbers)]
            if not all(_is_plain(part.steps) for part in mine):
                return None
            numbers = [(p.columns, p.steps) for p in mine]
            mine_too = [p for p in parts if isinstance(p, Texts)]
            named = [name for part in mine_too for name in part.columns]
            if len(set(named)) < len(named):  # coded twice, penalised twice
                return None
            for part in mine_too:
                if not part.can_refit:
                    return None
                for name, known, fill in zip(part.columns, part.known, part.fills, strict=True):
                    words.setdefault(name, (set(), part.ignore, fill))[0].update(known)
        texts = [(name, sorted(known), *more) for name, (known, *more) in words.items()]
        return cls(numbers, texts)

    def cells(self, table: Any) -> Cells | None:
        """A table's cells; ``None`` where scikit-learn has to say what is wrong with it."""
        values = [self._column(table, name) for columns, _ in self.numbers for name in columns]
        if any(v is None for v in values):
            return None
        texts, told = [], []
        for name, words, ignore, fill in self.texts:
            gaps = [_is_gap(cell) for cell in table[name].tolist()]
            told.append(~np.array(gaps, dtype=bool))
            held = [fill if gap else cell for cell, gap in zip(table[name], gaps, strict=True)]
            codes = pd.Index(words, dtype=object).get_indexer(pd.Index(held, dtype=object))
            if (codes < 0).any() and not ignore:
                return None
            texts.append(codes[:, None] == np.arange(len(words)))
        rows = len(table)
        return Cells(_beside(values, rows), _beside(texts, rows), _beside(told, rows))

    def _column(self, table: Any, name: Any) -> Array | None:
        held = table[name] if isinstance(table, pd.DataFrame) else np.asarray(table)[:, name]
        try:
            column = np.asarray(held, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        return None if np.isinf(column).any() or column.ndim != 1 else column

    def fitted(self, cells: Cells, sets: Sequence[Positions]) -> Fitted:
        """The pipeline fitted without each set of rows of a table, all at once."""
        fills, slopes, centred, start = [], [], False, 0
        for columns, steps in self.numbers:
            column = Columns(cells.values[:, start : start + len(columns)], sets)
            fill, slope = _fitted(steps, column)
            fills.append(fill)
            slopes.append(slope)
            centred |= any(_centres(step) for step in steps)
            start += len(columns)
        none = np.zeros((len(sets), 0))
        gone = gone_of(sets, len(cells.values))
        left = cells.texts.sum(axis=0) - gone @ cells.texts
        told = cells.told.sum(axis=0) - gone @ cells.told
        widths = [len(words) for _, words, *_ in self.texts]
        strict = np.repeat([not ignore for _, _, ignore, _ in self.texts], widths).astype(bool)
        return Fitted(
            np.hstack([none, *fills]),
            np.hstack([none, *slopes]),
            (left > 0.5) | ~strict,
            (told > 0.5).all(axis=1),
            centred,
        )


@dataclass(frozen=True)
class Fitted:
    """A pipeline fitted without each of some sets.

    Attributes
    ----------
    fill : (sets, k)
        What a missing number is taken for, in its own units; NaN where gaps are not filled.
    slope : (sets, k)
        By what numbers are multiplied; NaN where scikit-learn has to say.
    knows : (sets, c)
        Which texts can be scored.
    told : (sets,)
        Whether every column of text has one left; scikit-learn drops one of gaps alone.
    centred : bool
        Whether something is added to them.
    """

    fill: Array
    slope: Array
    knows: Mask
    told: Mask
    centred: bool


def gone_of(sets: Sequence[Positions], n: int) -> Array:
    """1 where a set has a row, (sets, n)."""
    gone = np.zeros((len(sets), n))
    for place, rows in enumerate(sets):
        gone[place, rows] = 1.0
    return gone


class Columns:
    """Columns of numbers without each of some sets of rows: counts, sums, order statistics.

    Attributes
    ----------
    left, known : (sets, 1), (sets, k)
        How many rows there are, and how many of them have a number.
    """

    def __init__(self, values: Array, sets: Sequence[Positions]):
        there = ~np.isnan(values)
        gone = gone_of(sets, len(values))
        self.left = len(values) - gone.sum(axis=1, keepdims=True)
        self.known = there.sum(axis=0) - gone @ there
        some = np.maximum(there.sum(axis=0), 1)
        self.centre = np.where(there, values, 0.0).sum(axis=0) / some
        away = np.where(there, values - self.centre, 0.0)
        #: sums of distances from where all rows' mean is, and of their squares
        self.sums = away.sum(axis=0) - gone @ away
        self.squares = (away**2).sum(axis=0) - gone @ away**2
        self.all_squares = (away**2).sum(axis=0)
        #: gaps of all rows
        self.empty = (~there).sum(axis=0)
        order = np.argsort(values, axis=0, kind="stable")  # NaN come last
        self._sorted = np.take_along_axis(values, order, axis=0)
        ranks = np.argsort(order, axis=0, kind="stable")
        most = max((len(rows) for rows in sets), default=0)
        self._ranks = np.full((len(sets), most, values.shape[1]), len(values))
        for place, rows in enumerate(sets):
            self._ranks[place, : len(rows)] = np.sort(ranks[rows], axis=0)

    def smallest(self, place: Array) -> Array:
        """The number in this place of those left, from 0, (sets, k)."""
        at: Positions = place.astype(np.intp)
        for k in range(self._ranks.shape[1]):  # every one that is gone before it moves it on
            at = at + (self._ranks[:, k] <= at)
        at = np.clip(at, 0, len(self._sorted) - 1)
        found: Array = np.take_along_axis(self._sorted, at, axis=0)
        return found


def _is_gap(cell: Any) -> bool:
    return cell is pd.NA or (isinstance(cell, float) and cell != cell)


def _is_plain(steps: Sequence[Any]) -> bool:
    """An imputer, a scaler, or a scaler behind an imputer."""
    imputers = [step for step in steps if type(step) is SimpleImputer]
    scalers = [s for s in steps if type(s) in (StandardScaler, MinMaxScaler, MaxAbsScaler)]
    return list(steps) == imputers[:1] + scalers[:1] and all(
        s.strategy in ("median", "mean", "constant") and not s.keep_empty_features for s in imputers
    )


def _centres(step: Any) -> bool:
    return type(step) is MinMaxScaler or (type(step) is StandardScaler and step.with_mean)


def _fitted(steps: Sequence[Any], columns: Columns) -> tuple[Array, Array]:
    """Fills and slopes of some columns of numbers, (sets, k)."""
    known = columns.known
    fill, slope = np.full(known.shape, np.nan), np.ones(known.shape)
    for step in steps:
        if isinstance(step, SimpleImputer):
            fill = _fill(step, columns)
        else:
            slope = _slope(step, columns, fill)
    return fill, slope


def _fill(step: SimpleImputer, columns: Columns) -> Array:
    """What gaps are filled with; NaN where nothing is known of a column."""
    known = columns.known
    if step.strategy == "constant":
        constant = np.asarray(step.statistics_, dtype=np.float64)
        return np.where(known > 0, constant, np.nan)  # a column of gaps alone is dropped
    if step.strategy == "mean":
        found = columns.centre + columns.sums / np.maximum(known, 1)
    else:
        found = (columns.smallest((known - 1) // 2) + columns.smallest(known // 2)) / 2.0
    return np.where(known > 0, found, np.nan)


def _slope(step: Any, columns: Columns, fill: Array) -> Array:
    """What a scaler multiplies by, as scikit-learn has it: a constant column keeps its scale."""
    known, centre = columns.known, columns.centre
    gaps = np.where(np.isnan(fill), 0.0, columns.left - known)
    away, count = np.where(gaps > 0, fill - centre, 0.0), known + gaps
    if isinstance(step, StandardScaler):
        if not step.with_std:
            return np.ones_like(known)
        some = np.maximum(count, 1)
        mean = (columns.sums + gaps * away) / some
        squares = columns.squares + gaps * away**2
        variance = np.maximum(squares / some - mean**2, 0.0)
        total = len(columns._sorted)
        filled = np.where(columns.empty > 0, np.nan_to_num(fill) - centre, 0.0)
        before = (columns.all_squares + columns.empty * filled**2) / total
        whole = centre + mean
        same = (before == 0) | (variance <= count * _EPS * variance + (count * whole * _EPS) ** 2)
        lost = (variance <= _CANCELS * np.maximum(before, mean**2)) & ~same
        scale = np.sqrt(np.where(same | lost, 1.0, variance))
        # of a column that has become constant, rounding may be all that is left
        unsure = lost | (same & (before > 0)) | (count == 0)
        return np.where(unsure, np.nan, 1.0 / scale)
    low, high = columns.smallest(np.zeros_like(known)), columns.smallest(known - 1)
    low = np.where(gaps > 0, np.fmin(low, fill), low)
    high = np.where(gaps > 0, np.fmax(high, fill), high)
    if isinstance(step, MaxAbsScaler):
        width, over = np.fmax(np.abs(low), np.abs(high)), 1.0
    else:
        width, over = high - low, step.feature_range[1] - step.feature_range[0]
    found = over / np.where(width < 10 * _EPS, 1.0, width)
    return np.where(known > 0, found, np.nan)


def _beside(columns: Sequence[Any], rows: int) -> Array:
    """Columns, or blocks of them, side by side."""
    made = [np.asarray(c, dtype=np.float64).reshape(rows, -1) for c in columns]
    return np.hstack([np.zeros((rows, 0)), *made])

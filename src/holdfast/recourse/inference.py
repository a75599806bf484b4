"""Sensible rules read off a table: kinds, ranges, one-hot groups, names nobody can change."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array
from holdfast.recourse.columns import kind_of
from holdfast.recourse.rules import Feature

#: rows from which somebody has similar people
SIMILAR_FROM = 100

#: so many rows at one value, or beyond it, and it is nobody's in particular
ENOUGH = 10


def is_category(column: pd.Series) -> bool:
    """Whether a column holds text, truth values or categories rather than numbers."""
    if pd.api.types.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return False
    return any(isinstance(value, str | bool | np.bool_) for value in column.dropna())


def _is_indicator(column: pd.Series) -> bool:
    values = set(pd.unique(column.dropna()))
    return pd.api.types.is_numeric_dtype(column) and values <= {0, 1} and not column.isna().any()


def one_hot_groups(table: pd.DataFrame) -> dict[str, list[Any]]:
    """0/1 columns with a prefix in common (up to the last ``_``, ``=``, ``:``) that sum to 1."""
    by_prefix: dict[str, list[Any]] = {}
    for name in table.columns:
        prefix = re.match(r"(.+)[_=:]", str(name))
        if prefix and _is_indicator(table[name]):
            by_prefix.setdefault(prefix[1], []).append(name)
    return {
        prefix: columns
        for prefix, columns in by_prefix.items()
        if len(columns) > 1
        and prefix not in table.columns
        and bool((table[columns].sum(axis=1) == 1).all())
    }


def inferred(name: Any, column: pd.Series, grouped: bool) -> tuple[Feature, str]:
    """A feature's rule, and why."""
    category = grouped or is_category(column)
    direction, reason = kind_of(name, column, category)
    why = [reason] if reason else []
    if category:
        said = "0/1 columns that sum to 1" if grouped else "categories"
        return Feature(direction), "; ".join([*why, said])
    values = pd.to_numeric(column, errors="coerce").dropna()
    if values.nunique() <= 1:
        return Feature("frozen"), "the same for everybody"
    if direction == "frozen":
        return Feature("frozen"), why[0]
    whole = bool((values % 1 == 0).all())
    low, high = range_of(values.to_numpy(dtype=float), whole)
    said = "whole numbers in the range seen, rounded" if whole else "the range seen, rounded"
    similar = len(values) >= SIMILAR_FROM
    if similar:
        said += "; no further than similar people are"
    rule = Feature(direction, low, high, integer=whole, widen=True, similar=similar)
    return rule, "; ".join([*why, said])


def range_of(values: Array, whole: bool) -> tuple[float, float]:
    """A range that is nobody's value.

    An end that :data:`ENOUGH` rows share stays as it is. Others are rounded outward to a grid, by
    at least a quarter of its step, so that neither the end nor anything near it says what the
    outermost person has. Whole numbers that lie close together (counts, grades) have no room for
    that: they end at values that several rows share. What is never negative stays so; shares and
    percentages end at their whole.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.recourse.inference import range_of
    >>> range_of(np.append(np.linspace(10, 20, 50), 0.0123456789), whole=False)
    (0.0, 20.2)
    """
    ordered = np.sort(values)
    enough = min(ENOUGH, max(2, ordered.size // 10))
    spread = float(np.subtract(*np.quantile(ordered, [0.9, 0.1]))) or float(np.ptp(ordered))
    if not 1e-300 < spread < np.inf:  # no grid for that
        return float(ordered[0]), float(ordered[-1])
    step, digits = _grid(spread / 20)
    if whole and step <= 1:
        found, counts = np.unique(ordered, return_counts=True)
        shared = found[counts >= min(3, enough)]
        if set(found) <= {0.0, 1.0}:
            return 0.0, 1.0
        if shared.size > 1:
            return float(shared[0]), float(shared[-1])
        step, digits = max(2.0, _grid(float(np.ptp(ordered)) / 10)[0]), 0
    if whole:
        digits = 0
    low, high = float(ordered[0]), float(ordered[-1])
    if np.sum(ordered == low) < enough:
        below = round(np.floor(low / step - 0.25) * step, digits)
        low = max(below, 0.0) if low >= 0 else below
    if np.sum(ordered == high) < enough:
        above = round(np.ceil(high / step + 0.25) * step, digits)
        if high <= 0:
            above = min(above, 0.0)
        for whole_of_it in (1.0, 100.0):  # shares and percentages
            if ordered[0] >= 0 and 0.9 * whole_of_it < high <= whole_of_it:
                above = min(above, whole_of_it)
        high = above
    return float(low), float(high)


def near(value: float, values: Array) -> float:
    """A value to about a hundredth of the spread of some: none of them, as a rule."""
    return float(all_near(np.array([value]), values)[0])


def all_near(some: Array, values: Array) -> Array:
    """The same of several values."""
    spread = float(np.subtract(*np.quantile(values, [0.9, 0.1]))) or float(np.ptp(values))
    if not 1e-300 < spread < np.inf:
        return some
    step, digits = _grid(spread / 100)
    return np.asarray(np.round(np.round(some / step) * step, digits))


def _grid(about: float) -> tuple[float, int]:
    """The largest of 1, 2 and 5 times a power of ten below some number, and its decimals."""
    power = math.floor(math.log10(about))
    lead = max(m for m in (1, 2, 5) if m * 10.0**power <= about * (1 + 1e-9))
    return round(lead * 10.0**power, max(0, -power)), max(0, -power)

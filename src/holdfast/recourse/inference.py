"""Sensible rules read off a table: kinds, ranges, one-hot groups, names nobody can change."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from holdfast.recourse.rules import Feature

#: words in a column's name that make an inferred feature frozen: nobody is told to change these
IMMUTABLE = {
    *("age", "birth", "birthdate", "birthday", "born", "dob", "disability", "ethnic", "ethnicity"),
    *("gender", "nationality", "race", "religion", "sex"),
}


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
    immutable = bool(IMMUTABLE.intersection(_words(str(name))))
    direction = "frozen" if immutable else "any"
    why = ["the name speaks of something nobody can change"] if immutable else []
    if grouped:
        return Feature(direction), "; ".join([*why, "0/1 columns that sum to 1"])
    if is_category(column):
        return Feature(direction), "; ".join([*why, "categories"])
    values = pd.to_numeric(column, errors="coerce").dropna()
    if values.nunique() <= 1:
        return Feature("frozen"), "the same for everybody"
    whole = bool((values % 1 == 0).all())
    if immutable:
        return Feature("frozen"), why[0]
    low, high = float(values.min()), float(values.max())
    said = "whole numbers in the range seen" if whole else "the range seen"
    return Feature("any", low, high, integer=whole, widen=True), said


def _words(name: str) -> list[str]:
    """The words of a column's name: snake_case, camelCase, spaces and dots apart."""
    ends = [0, *(m.start() for m in re.finditer(r"(?<=[a-z])(?=[A-Z])", name)), len(name)]
    parts = " ".join(name[a:b] for a, b in pairwise(ends))
    return [word for word in re.split(r"[^A-Za-z]+", parts.lower()) if word]

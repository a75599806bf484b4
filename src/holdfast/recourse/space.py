"""A table seen as coordinates: one per number, one per choice among categories.

A one-hot group of columns is one choice, and so is a column of text: what a method moves is the
code of the category, so that a group cannot stop being one-hot. Everything a person is not asked
to change (a missing value, a category the training table does not have) stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.algebra.rows import Array, Mask
from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.inference import is_category
from holdfast.recourse.rules import Feature, Link

_PLAIN = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]


@dataclass(frozen=True)
class Coordinate:
    """One thing a person can change: a number, or a choice.

    Parameters
    ----------
    name : the column's name, or the group's
    columns : positions of its columns in the table
    rule : Feature
    weight : float
        What a change by 1, or a switch, costs.
    spread : float
        How far training rows typically are from the median (numbers).
    categories : the values of a choice, or ``None`` for a number
        For a one-hot group the column names, and ``None`` last where no column set is a choice.
    dtype : the training column's, for choices in one column
    """

    name: Any
    columns: tuple[int, ...]
    rule: Feature
    weight: float
    spread: float
    categories: tuple[Any, ...] | None = None
    dtype: Any = None

    @property
    def one_hot(self) -> bool:
        """Whether the choice is spread over several 0/1 columns."""
        return len(self.columns) > 1

    def cells(self, table: pd.DataFrame) -> npt.NDArray[Any]:
        """What every row has here: its number, or its category."""
        if not self.one_hot:
            return table.iloc[:, self.columns[0]].to_numpy(dtype=object)
        names = np.empty(len(self.columns) + 1, dtype=object)
        names[:-1] = list(self.categories or ())[: len(self.columns)]
        return names[self.codes(table)]

    def codes(self, table: pd.DataFrame) -> npt.NDArray[np.intp]:
        """The category of every row; −1 for one the training table does not have."""
        assert self.categories is not None
        cells = table.iloc[:, list(self.columns)]
        if not self.one_hot:
            found = cells.iloc[:, 0].astype(object)
            return pd.Index(self.categories, dtype=object).get_indexer(pd.Index(found))
        ones = cells.to_numpy(dtype=float)
        proper = np.all((ones == 0) | (ones == 1), axis=1)
        total = ones.sum(axis=1)
        codes = np.where(proper & (total == 1), ones.argmax(axis=1), -1)
        if len(self.categories) > len(self.columns):
            codes = np.where(proper & (total == 0), len(self.columns), codes)
        return codes


class Space:
    """The coordinates of a training table under its actionability.

    Parameters
    ----------
    X : frame
        The training table.
    rules : Actionability
    """

    def __init__(self, X: pd.DataFrame, rules: Actionability):
        self.names = list(X.columns)
        self.rules = rules = rules.for_columns(self.names)
        where = {name: k for k, name in enumerate(self.names)}
        for name in (c for columns in rules.one_hot.values() for c in columns):
            _known(name, self.names, "one_hot")
        grouped = {c: group for group, columns in rules.one_hot.items() for c in columns}
        for group in rules.one_hot:
            if group in where:
                raise HoldfastError(f"the one_hot group {group!r} is named like a column")
        self.coordinates: list[Coordinate] = []
        done = set()
        for name in self.names:
            of_group = grouped.get(name)
            what: Any = name if of_group is None else of_group
            if what in done:
                continue
            done.add(what)
            columns = [name] if of_group is None else rules.one_hot[of_group]
            positions = tuple(where[c] for c in columns)
            rule = rules.features.get(what, Feature())
            self.coordinates.append(_coordinate(X, what, positions, rule, rules.weights))
        known = [c.name for c in self.coordinates]
        for name in rules.features:
            if name in grouped:
                raise HoldfastError(
                    f"column {name!r} is part of the one_hot group {grouped[name]!r}: declare the "
                    "group's name in features instead"
                )
            _known(name, known, "features")
        self.number = np.array([c.categories is None for c in self.coordinates], dtype=bool)
        self.columns = np.array([c.columns[0] for c in self.coordinates], dtype=np.intp)
        self.weight = np.array([c.weight for c in self.coordinates])
        self.spread = np.array([c.spread for c in self.coordinates])
        self.step = np.array(
            [c.rule.step or float(c.rule.integer) for c in self.coordinates], dtype=float
        )
        self.links = [self._link(link) for link in _in_sequence(rules.links)]
        #: whether coordinates and columns are the same thing
        self.plain = bool(self.number.all())
        #: whether a point between two allowed ones may not be allowed
        self.discrete = bool(np.any(self.step > 0) or self.links or not self.plain)

    def _link(self, link: Link) -> tuple[int, int, int, float]:
        """Positions of when, of its category (−1: a number) and of then; and by how much."""
        names = [c.name for c in self.coordinates]
        choices = {
            f"{c.name}={category}": (k, code)
            for k, c in enumerate(self.coordinates)
            for code, category in enumerate(c.categories or ())
        }
        for k, c in enumerate(self.coordinates):
            if c.one_hot:
                choices.update({str(column): (k, i) for i, column in enumerate(c.categories or ())})
        _known(link.then, names, "a link's then")
        then = names.index(link.then)
        if not self.number[then]:
            raise HoldfastError(
                f"a link's then must be a number, but {link.then!r} is a choice of categories"
            )
        if link.when in choices:
            when, code = choices[link.when]
            return when, code, then, float(link.by)
        _known(link.when, [*names, *choices], "a link's when")
        when = names.index(link.when)
        if not self.number[when]:
            some = next(key for key, (k, _) in choices.items() if k == when)
            raise HoldfastError(
                f"{link.when!r} is a choice: say which category a link is about, as {some!r}"
            )
        return when, -1, then, float(link.by)

    def tidy(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with its numbers as plain numbers: no numeric text, no nullable types."""
        odd = {
            c.columns[0]: table.iloc[:, c.columns[0]]
            for c in self.coordinates
            if c.categories is None and table.dtypes.iloc[c.columns[0]] not in _PLAIN
        }
        changed = {}
        for column, cells in odd.items():
            values = as_numbers(cells)
            if not np.any(np.isnan(values) & cells.notna().to_numpy()):  # text is refused later
                changed[self.names[column]] = values
        return table.assign(**changed) if all(isinstance(n, str) for n in changed) else table

    def encoded(self, table: pd.DataFrame) -> tuple[Array, Mask, list[str]]:
        """Coordinates of people, which of them stay as they are, and what is wrong with a row."""
        q, m = len(table), len(self.coordinates)
        Z, kept, wrong = np.zeros((q, m)), np.zeros((q, m), dtype=bool), [""] * q
        for k, c in enumerate(self.coordinates):
            if c.categories is None:
                cells = table.iloc[:, c.columns[0]]
                values = as_numbers(cells)
                text = np.flatnonzero(np.isnan(values) & cells.notna().to_numpy())
                if text.size:
                    raise HoldfastError(
                        f"row {text[0]}, column {c.name!r}: {cells.iloc[text[0]]!r} is not a number"
                    )
                for i in np.flatnonzero(np.isinf(values)):
                    wrong[i] = wrong[i] or f"{c.name} is infinite"
                kept[:, k] = ~np.isfinite(values)
                Z[:, k] = np.where(kept[:, k], 0.0, values)
            else:
                codes = c.codes(table)
                kept[:, k] = codes < 0
                Z[:, k] = np.maximum(codes, 0)
                for i in np.flatnonzero(codes < 0) if c.one_hot else ():
                    wrong[i] = wrong[i] or f"{c.name} is not one-hot"
        return Z, kept, wrong

    def decoded(self, Z: Array, kept: Mask, people: pd.DataFrame) -> pd.DataFrame:
        """The table of people at coordinates ``Z``; cells that are kept come from ``people``."""
        if self.plain and not kept.any():
            order = np.argsort(self.columns)
            return pd.DataFrame(Z[:, order], index=people.index, columns=self.names)
        cells: dict[int, Any] = {}
        for k, c in enumerate(self.coordinates):
            codes = Z[:, k].astype(np.intp)
            for place, column in enumerate(c.columns):
                own = people.iloc[:, column]
                if c.categories is None:
                    values: Any = Z[:, k]
                elif c.one_hot:
                    values = (codes == place).astype(bool if own.dtype == bool else float)
                else:
                    values = _labels(c.categories, c.dtype)[codes]
                if kept[:, k].any():
                    values = pd.Series(values, index=people.index)
                    if isinstance(values.dtype, pd.CategoricalDtype) or c.categories is not None:
                        values = values.astype(object)
                    values = values.where(~kept[:, k], own)
                cells[column] = values
        made = pd.DataFrame(
            {column: cells[column] for column in range(len(self.names))}, index=people.index
        )
        made.columns = pd.Index(self.names)
        return made

    def cost(self, change: Array, norm: str) -> Array:
        """What changes cost: the weighted ℓ1 or ℓ2 norm; a switch counts as a change by 1."""
        moved = np.where(self.number, np.abs(change), change != 0) * self.weight
        if norm == "l1":
            return moved.sum(axis=-1)
        lengths: Array = np.sqrt((moved**2).sum(axis=-1))
        return lengths

    def distance(self, people: pd.DataFrame, points: pd.DataFrame, norm: str) -> Array:
        """What it costs to get from one table's rows to another's."""
        (start, kept, _), (end, held, _) = self.encoded(people), self.encoded(points)
        return self.cost(np.where(kept | held, 0.0, end - start), norm)


def as_numbers(cells: pd.Series) -> Array:
    """A column as floats; NaN for what is missing or no number."""
    if cells.dtype.kind in "cmM":
        raise HoldfastError(
            f"column {cells.name!r}: dates and complex numbers are no features: turn them into "
            "numbers"
        )
    numbers = pd.to_numeric(cells, errors="coerce")
    return np.asarray(numbers.to_numpy(dtype=float, na_value=np.nan))


def _labels(categories: Sequence[Any], dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Categorical(list(categories), dtype=dtype)
    if pd.api.types.is_bool_dtype(dtype):
        return np.array(categories, dtype=bool)
    made = np.empty(len(categories), dtype=object)
    made[:] = list(categories)
    return made


def _coordinate(
    X: pd.DataFrame, name: Any, positions: tuple[int, ...], rule: Feature, weights: str
) -> Coordinate:
    columns = X.iloc[:, list(positions)]
    if len(positions) > 1:
        categories: tuple[Any, ...] | None = tuple(columns.columns)
        ones = columns.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
        bad = np.flatnonzero(~np.all((ones == 0) | (ones == 1), axis=1) | (ones.sum(axis=1) > 1))
        if bad.size:
            raise HoldfastError(
                f"one_hot group {name!r}: training row {bad[0]} is not one-hot ({bad.size} such "
                "rows)"
            )
        none = ones.sum(axis=1) == 0
        shares = ones.mean(axis=0)
        if none.any():
            categories = (*columns.columns, None)
            shares = np.append(shares, none.mean())
    elif is_category(columns.iloc[:, 0]):
        counts = columns.iloc[:, 0].astype(object).value_counts(normalize=True)
        found = sorted(counts.items(), key=lambda pair: (str(type(pair[0])), pair[0]))
        categories = tuple(category for category, _ in found)
        shares = np.array([share for _, share in found])
    else:
        categories, shares = None, np.zeros(0)
    _check_kind(name, rule, categories)
    if categories is None:
        values = as_numbers(columns.iloc[:, 0])
        spread = _typical_deviation(values[np.isfinite(values)])
    else:
        spread = float(1.0 - np.sum(shares**2)) or 1.0
    weight = rule.cost or (1.0 if weights == "unit" else 1.0 / spread)
    dtype = columns.dtypes.iloc[0]
    return Coordinate(name, positions, rule, float(weight), spread, categories, dtype)


def _check_kind(name: Any, rule: Feature, categories: tuple[Any, ...] | None) -> None:
    if categories is None:
        if rule.allowed is not None:
            raise HoldfastError(f"feature {name!r} is a number: give a range, not allowed=")
        return
    numeric = [k for k in ("low", "high", "step") if getattr(rule, k) is not None]
    if numeric or rule.integer or rule.direction in ("up", "down"):
        what = [*numeric, "integer" if rule.integer else f"direction={rule.direction!r}"][0]
        raise HoldfastError(
            f"feature {name!r} is a choice of categories: {what} has no meaning for it (frozen, "
            "allowed and cost have)"
        )
    for category in rule.allowed or ():
        _known(category, list(categories), f"allowed of feature {name!r}")


def _typical_deviation(values: Array) -> float:
    """The median absolute deviation; where it is 0 the mean one; 1 for a constant."""
    if values.size == 0:
        return 1.0
    deviations = np.abs(values - np.median(values))
    return float(np.median(deviations)) or float(np.mean(deviations)) or 1.0


def _known(name: Any, known: list[Any], what: str) -> None:
    if name in known:
        return
    hint = near_name(name, known)
    raise HoldfastError(f"{what} names {name!r}, which the training table does not have{hint}")


def _in_sequence(links: Sequence[Link]) -> list[Link]:
    """Links in an order in which what follows from a change is known when it is needed."""
    left, ordered = list(links), []
    while left:
        ready = [a for a in left if all(b.then != a.when for b in left)]
        ordered += ready
        left = [a for a in left if a not in ready]
    return ordered

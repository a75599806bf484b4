"""From the columns of a file to what a linear model sees: fitted in one look, done block by block.

Numbers: gaps become the median, then mean 0 and deviation 1. Text: one-hot columns of its commoner
values; a gap is a value of its own, a rare value is none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.models.looking import MISSING, Moments, median_of, medians
from holdfast.models.passes import Batch, Work
from holdfast.scale.engines import Engine
from holdfast.scale.scan import ROWS, RowGroup, Scan

#: values of a column of text that get a column of their own, at most
MOST_CATEGORIES = 200

#: rows a value needs for that
COMMON = 50


@dataclass(frozen=True)
class Labelled:
    """How labels become numbers with the good outcome up.

    Attributes
    ----------
    column : str
    good : frozenset
        The values that are the good one of two outcomes; empty for numbers to be predicted.
    sign : {1, -1}
    """

    column: str
    good: frozenset[Any] = frozenset()
    sign: int = 1

    def __call__(self, values: Any) -> Array:
        """Labels of a block."""
        if not self.good:
            found: Array = self.sign * values.to_numpy().astype(np.float64)
            return found
        column = pd.Series(values.to_pandas())
        return column.isin(list(self.good)).to_numpy().astype(np.float64)


@dataclass(frozen=True)
class Recipe:
    """What is done to every block.

    Attributes
    ----------
    scan : Scan
    labels : Labelled
    fills, means, scales : ndarray of shape (numbers,)
    gaps : places of the columns of numbers that have gaps
    categories : list of list of str, one for each column of text
    intercept : bool
    moments : Moments
        Of the numbers as they are in the files.
    gone : numbers of rows that are there no more, in order
    carry : bool
        Whether batches give their rows as they are in the files, ids included.
    near : list of ndarray
        For every column with gaps, the sorted values around its median, and the rank of the first.
    rare : dict
        Values of text that are too rare for a column of their own, by column.
    """

    scan: Scan
    labels: Labelled
    fills: Array
    means: Array
    scales: Array
    gaps: Positions
    categories: list[list[str]]
    intercept: bool
    moments: Moments
    gone: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.intp), repr=False)
    carry: bool = False
    near: list[tuple[Array, int]] = field(default_factory=list, repr=False)
    rare: dict[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """How many parameters a linear score has."""
        return int(self.intercept) + len(self.fills) + sum(map(len, self.categories))

    def raw(self, table: Any) -> tuple[Array, list[Array]]:
        """Numbers with gaps (n, numbers), and codes of text (−1: a rare value)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        X = np.empty((len(table), len(self.scan.numbers)), order="F")
        for place, name in enumerate(self.scan.numbers):
            X[:, place] = table[name].to_numpy()
        codes = []
        for name, values in zip(self.scan.texts, self.categories, strict=True):
            column = pc.fill_null(table[name], MISSING)
            found = pc.index_in(column, value_set=pa.array(values, pa.string()))
            codes.append(pc.fill_null(found, -1).to_numpy().astype(np.intp))
        return X, codes

    def features(self, X: Array, codes: list[Array]) -> tuple[Array, Array]:
        """``φ`` and where there were gaps."""
        n, first = len(X), int(self.intercept)
        phi = np.zeros((n, self.width), order="F")
        phi[:, :first] = 1.0
        missing = np.isnan(X[:, self.gaps]) if self.gaps.size else np.zeros((n, 0), dtype=bool)
        for place in range(X.shape[1]):
            column = X[:, place]
            at = np.searchsorted(self.gaps, place)
            if at < self.gaps.size and self.gaps[at] == place:
                column = np.where(missing[:, at], self.fills[place], column)
            phi[:, first + place] = (column - self.means[place]) / self.scales[place]
        start = first + X.shape[1]
        for values, code in zip(self.categories, codes, strict=True):
            known = np.flatnonzero(code >= 0)
            phi[known, start + code[known]] = 1.0
            start += len(values)
        return phi, missing.astype(np.float64)

    def batches(self, part: RowGroup) -> Iterator[Batch]:
        """The rows of a part, some thousands at a time."""
        scan = self.scan
        table = scan.read(part, None if self.carry else [*scan.features, scan.label])
        y, here = self.labels(table[scan.label]), self._weights(part)
        for at in range(0, part.rows, ROWS):
            some = table.slice(at, ROWS)
            phi, gaps = self.features(*self.raw(some))
            weights = None if here is None else here[at : at + ROWS]
            raw = partial(_taken, some) if self.carry else None
            yield Batch(part.first + at, phi, y[at : at + ROWS], weights, gaps, raw)

    def _weights(self, part: RowGroup) -> Array | None:
        """0 for rows that are there no more."""
        ends = np.searchsorted(self.gone, [part.first, part.first + part.rows])
        if ends[0] == ends[1]:
            return None
        weights = np.ones(part.rows)
        weights[self.gone[ends[0] : ends[1]] - part.first] = 0.0
        return weights

    @property
    def rows(self) -> int:
        """How many rows are there still."""
        return self.scan.rows - self.gone.size

    def transformer(self) -> Pipeline:
        """The same as a fitted scikit-learn transformer."""
        numbers, texts = self.scan.numbers, self.scan.texts
        frame = pd.DataFrame(np.zeros((2, len(numbers))), columns=numbers)
        for name, values in zip(texts, self.categories, strict=True):
            frame[name] = pd.Series([values[0]] * 2, dtype=object)
        made = Pipeline([("columntransformer", front(numbers, texts, self.categories))]).fit(frame)
        if numbers:
            fill, scaler = (step for _, step in made[0].named_transformers_["numbers"].steps)
            fill.statistics_ = self.fills.copy()
            scaler.mean_, scaler.scale_ = self.means.copy(), self.scales.copy()
            scaler.var_, scaler.n_samples_seen_ = self.scales**2, self.scan.rows
        return made


def front(numbers: list[Any], texts: list[Any], categories: Any = "auto") -> ColumnTransformer:
    """What stands before every model that is fitted here: gaps filled, numbers scaled, texts coded.

    Parameters
    ----------
    numbers, texts : list
        Columns.
    categories : "auto", or a list of values for each column of text
    """
    parts = []
    if numbers:
        both = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        parts.append(("numbers", both, numbers))
    if texts:
        fill = SimpleImputer(strategy="constant", fill_value=MISSING)
        encode = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
        parts.append(("text", make_pipeline(fill, encode), texts))
    return ColumnTransformer(parts)


def _taken(table: Any, rows: Positions) -> pd.DataFrame:
    """Some rows of a block as a frame."""
    import pyarrow as pa

    frame: pd.DataFrame = table.take(pa.array(rows)).to_pandas()
    return frame


def recipe_for(
    scan: Scan,
    labels: Labelled,
    looked: tuple[Moments, list[Counter[str]], Counter[Any], Moments],
    intercept: bool,
    gone: Positions,
    engine: Engine,
    tell: Callable[[str, int, int], None],
) -> Recipe:
    """The preprocessing, fitted; medians of columns with gaps take a pass or two more."""
    moments, words, _, _ = looked
    categories, rare = [], {}
    for name, counts in zip(scan.texts, words, strict=True):
        common = [value for value, many in counts.most_common(MOST_CATEGORIES) if many >= COMMON]
        if not common:
            raise HoldfastError(
                f"the column {name!r} has {len(counts):,} different texts, none of them in "
                f"{COMMON} rows: it looks like an id or free text. Leave it out (⟦drop⟧)"
            )
        categories.append(sorted(common))
        if len(counts) > len(common):
            rare[name] = len(counts) - len(common)
    count = float(scan.rows - gone.size)
    gaps = np.flatnonzero(moments.count < count)
    fills, near = moments.mean.copy(), []
    if gaps.size:
        names = [scan.numbers[place] for place in gaps.tolist()]
        near = medians(scan, names, moments.only(gaps), gone, engine, tell)
        for place, (values, first), many in zip(gaps, near, moments.count[gaps], strict=True):
            fills[place] = median_of(values, first, int(many))
    missing = count - moments.count
    mean = (moments.mean * moments.count + fills * missing) / count
    squares = moments.squares + (moments.mean - fills) ** 2 * moments.count * missing / count
    deviation = np.sqrt(squares / count)
    constant = deviation <= 10 * np.finfo(float).eps * np.abs(mean)
    return Recipe(
        scan,
        labels,
        fills,
        mean,
        np.where(constant, 1.0, deviation),
        gaps,
        categories,
        intercept,
        moments,
        gone,
        near=near,
        rare=rare,
    )


#: what is left of a column's squares, as a share, below which they are worked out anew
_CANCELS = 1e-10

#: moments and values around medians of some columns, without some rows
Anew = Callable[[list[str], Positions], tuple[Moments, list[tuple[Array, int]]]]


def refilled(recipe: Recipe, X: Array, names: Positions, anew: Anew) -> Recipe:
    """The recipe fitted without some rows, whose raw numbers are given.

    No pass is needed, but where next to nothing is left of a column's spread, or its median lies
    beyond the values that are known: ``anew`` looks at those columns again.
    """
    if not len(X):
        return recipe
    moments, rows = recipe.moments, recipe.rows - len(X)
    gone = Moments.of(list(X.T))
    count = moments.count - gone.count
    mean = (moments.mean * moments.count - gone.mean * gone.count) / np.maximum(count, 1.0)
    apart = (gone.mean - mean) ** 2 * count * gone.count / np.maximum(moments.count, 1.0)
    squares = moments.squares - gone.squares - apart
    near = dict(zip(recipe.gaps.tolist(), recipe.near, strict=True))
    lost = set(np.flatnonzero(squares < _CANCELS * moments.squares).tolist())
    for place, (values, first) in list(near.items()):
        column = X[:, place]
        known = np.sort(column[~np.isnan(column)])
        kept, start = _less(values, known), first - int(np.sum(known < values[0]))
        ends = ((int(count[place]) - 1) // 2 - start, int(count[place]) // 2 - start)
        near[place] = (kept, start)
        if not (ends[0] >= 0 and ends[1] < len(kept)):
            lost.add(place)
    if lost:
        some = sorted(lost)
        found, around = anew(
            [recipe.scan.numbers[place] for place in some], np.union1d(recipe.gone, names)
        )
        count[some], mean[some], squares[some] = found.count, found.mean, found.squares
        near.update({p: w for p, w in zip(some, around, strict=True) if p in near})
    fills = recipe.fills.copy()
    for place, (values, first) in near.items():
        if count[place] == 0:
            raise HoldfastError(
                f"without these rows the column {recipe.scan.numbers[place]!r} is empty: there is "
                "nothing to fill its gaps with"
            )
        fills[place] = median_of(values, first, int(count[place]))
    missing = rows - count
    whole = (mean * count + fills * missing) / rows
    spread = np.maximum(squares, 0.0) + (mean - fills) ** 2 * count * missing / rows
    deviation = np.sqrt(spread / rows)
    constant = deviation <= 10 * np.finfo(float).eps * np.abs(whole)
    return replace(
        recipe,
        fills=fills,
        means=whole,
        scales=np.where(constant, 1.0, deviation),
        moments=replace(moments, count=count, mean=mean, squares=np.maximum(squares, 0.0)),
        near=list(near.values()),
        gone=np.union1d(recipe.gone, names),
    )


def _less(values: Array, gone: Array) -> Array:
    """Sorted values without some of them, each taken off once."""
    kept = np.ones(len(values), dtype=bool)
    for value in gone[(gone >= values[0]) & (gone <= values[-1])].tolist():
        same = np.flatnonzero((values == value) & kept)
        if same.size:
            kept[same[0]] = False
    return values[kept]


def between(old: Recipe, new: Recipe) -> Array:
    """``B`` with ``φ_new = [φ_old, gaps] B``: what another fill and scale are, (p + g, p)."""
    first, numbers, width = int(old.intercept), len(old.fills), old.width
    made = np.zeros((width + old.gaps.size, width))
    made[np.arange(width), np.arange(width)] = 1.0
    for place in range(numbers):
        column = first + place
        made[column, column] = old.scales[place] / new.scales[place]
        if old.intercept:
            made[0, column] = (old.means[place] - new.means[place]) / new.scales[place]
        elif old.means[place] != new.means[place]:
            raise HoldfastError("without an intercept centres cannot be moved without a pass")
        at = np.searchsorted(old.gaps, place)
        if at < old.gaps.size and old.gaps[at] == place:
            made[width + at, column] = (new.fills[place] - old.fills[place]) / new.scales[place]
    return made


class Blocks:
    """All rows of a scanned table, as a model sees them: a source of passes.

    Parameters
    ----------
    recipe : Recipe
    engine : Engine
    tell : callable
    """

    def __init__(self, recipe: Recipe, engine: Engine, tell: Callable[[str, int, int], None]):
        self.recipe, self.engine, self.tell = recipe, engine, tell
        self.passes = 0

    @property
    def n(self) -> int:
        """How many rows there are."""
        return self.recipe.scan.rows

    def each(self, work: Work, stage: str) -> Iterator[Any]:
        self.passes += 1
        parts = self.recipe.scan.parts
        found = self.engine.map(OverPart(self.recipe, work), parts)
        for done, result in enumerate(found, 1):
            self.tell(stage, done, len(parts))
            yield result


@dataclass(frozen=True)
class OverPart:
    """A work on batches, as one on parts of files."""

    recipe: Recipe
    work: Work

    def __call__(self, part: RowGroup) -> Any:
        return self.work(self.recipe.batches(part))

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
from holdfast.models.passes import Batch, Work
from holdfast.scale.engines import Engine
from holdfast.scale.scan import ROWS, Part, Scan

#: values of a column of text that get a column of their own, at most
MOST_CATEGORIES = 200

#: rows a value needs for that
COMMON = 50

#: different values of a column of text that are counted at a time
COUNTED = 100_000

#: different labels that are kept
LABELS = 1000

#: what a gap among texts is called
MISSING = "(missing)"

#: values on either side of a median that are known, so that it can be moved without a pass
NEAR_MEDIAN = 256

#: bins of one round in the search for a median
_BINS = 1 << 14


@dataclass(frozen=True)
class Moments:
    """How many there are of some columns, their means, squared deviations, least and most."""

    count: Array
    mean: Array
    squares: Array
    least: Array
    most: Array

    @classmethod
    def of(cls, columns: list[Array]) -> Moments:
        """Of columns with gaps (NaN)."""
        found = []
        for values in columns:
            known = values[~np.isnan(values)]
            if not known.size:
                found.append((0.0, 0.0, 0.0, np.inf, -np.inf))
                continue
            mean = float(known.mean())
            squares = float(np.square(known - mean).sum())
            found.append((float(known.size), mean, squares, known.min(), known.max()))
        return cls(*np.array(found, dtype=float).reshape(-1, 5).T)

    def only(self, some: Any) -> Moments:
        """Of some of the columns."""
        return Moments(*(getattr(self, name)[some] for name in self.__dataclass_fields__))

    def plus(self, other: Moments) -> Moments:
        """Of both together."""
        count = self.count + other.count
        safe = np.maximum(count, 1.0)
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * other.count / safe,
            self.squares + other.squares + apart**2 * self.count * other.count / safe,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )


@dataclass(frozen=True)
class Looking:
    """The work of a first look: moments, values of text, labels."""

    scan: Scan
    gone: Positions

    def __call__(self, part: Part) -> tuple[Moments, list[Counter[str]], Counter[Any], Moments]:
        import pyarrow.compute as pc

        scan = self.scan
        table = _still_there(scan.read(part, [*scan.features, scan.label]), part, self.gone)
        columns = [table[name].to_numpy() for name in scan.numbers]
        for name, values in zip(scan.numbers, columns, strict=True):
            if np.isinf(values).any():
                raise HoldfastError(f"{part}: the column {name!r} has an infinite number")
        words = []
        for name in scan.texts:
            counted = pc.value_counts(pc.fill_null(table[name], MISSING))
            found = Counter(dict(zip(*(counted.field(i).to_pylist() for i in (0, 1)), strict=True)))
            words.append(Counter(dict(found.most_common(COUNTED))))
        label = table[scan.label]
        if label.null_count:
            raise HoldfastError(
                f"{part}: the label {scan.label!r} is missing in {label.null_count} rows: leave "
                "them out"
            )
        different = Counter(
            dict.fromkeys(pc.unique(label.slice(0, len(label))).to_pylist()[: LABELS + 1], 1)
        )
        numbers = pd.to_numeric(pd.Series(label.to_pandas()), errors="coerce").to_numpy(dtype=float)
        return Moments.of(columns), words, different, Moments.of([numbers])


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

    def batches(self, part: Part) -> Iterator[Batch]:
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

    def _weights(self, part: Part) -> Array | None:
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
        numbers, texts, parts = self.scan.numbers, self.scan.texts, []
        frame = pd.DataFrame(np.zeros((2, len(numbers))), columns=numbers)
        if numbers:
            both = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
            parts.append(("numbers", both, numbers))
        if texts:
            encode = OneHotEncoder(
                categories=self.categories, handle_unknown="ignore", sparse_output=False
            )
            fill = SimpleImputer(strategy="constant", fill_value=MISSING)
            parts.append(("text", make_pipeline(fill, encode), texts))
            for name, values in zip(texts, self.categories, strict=True):
                frame[name] = pd.Series([values[0]] * 2, dtype=object)
        made = Pipeline([("columntransformer", ColumnTransformer(parts))]).fit(frame)
        if numbers:
            fill, scaler = (step for _, step in made[0].named_transformers_["numbers"].steps)
            fill.statistics_ = self.fills.copy()
            scaler.mean_, scaler.scale_ = self.means.copy(), self.scales.copy()
            scaler.var_, scaler.n_samples_seen_ = self.scales**2, self.scan.rows
        return made


def _still_there(table: Any, part: Part, gone: Positions) -> Any:
    """The rows of a part that are there still."""
    ends = np.searchsorted(gone, [part.first, part.first + part.rows])
    if ends[0] == ends[1]:
        return table
    mask = np.ones(part.rows, dtype=bool)
    mask[gone[ends[0] : ends[1]] - part.first] = False
    return table.filter(mask)


def write_rest(scan: Scan, gone: Positions, place: Any) -> None:
    """The files without some rows, as one Parquet file, cells as they were."""
    from pyarrow import parquet

    writer: Any = None
    try:
        for part in scan.parts:
            with parquet.ParquetFile(part.file) as file:
                table = _still_there(file.read_row_group(part.group), part, gone)
            if writer is None:
                writer = parquet.ParquetWriter(place, table.schema)
            if len(table):
                writer.write_table(table.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _taken(table: Any, rows: Positions) -> pd.DataFrame:
    """Some rows of a block as a frame."""
    import pyarrow as pa

    frame: pd.DataFrame = table.take(pa.array(rows)).to_pandas()
    return frame


def first_look(
    scan: Scan, gone: Positions, engine: Engine, tell: Callable[[str, int, int], None]
) -> tuple[Moments, list[Counter[str]], Counter[Any], Moments]:
    """Moments, values of text and labels of the whole table: one pass."""
    found: Any = None
    for done, part in enumerate(engine.map(Looking(scan, gone), scan.parts), 1):
        if found is None:
            found = part
        else:
            words = [
                Counter(dict((a + b).most_common(COUNTED)))
                for a, b in zip(found[1], part[1], strict=True)
            ]
            labels = Counter(dict((found[2] | part[2]).most_common(LABELS + 1)))
            found = found[0].plus(part[0]), words, labels, found[3].plus(part[3])
        tell("looking at the columns", done, len(scan.parts))
    moments = found[0]
    for place in np.flatnonzero(moments.count == 0).tolist():
        raise HoldfastError(f"the column {scan.numbers[place]!r} is empty: leave it out")
    return found  # type: ignore[no-any-return]


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


def median_of(values: Array, first: int, many: int) -> float:
    """The median of ``many`` numbers of which the sorted ``values`` are those from ``first`` on."""
    low, high = (many - 1) // 2 - first, many // 2 - first
    return float((values[low] + values[high]) / 2.0)


@dataclass(frozen=True)
class Binning:
    """The work of counting values within bins, or of collecting them where there are few."""

    scan: Scan
    columns: list[str]
    low: Array
    high: Array
    collect: Any
    gone: Positions

    def __call__(self, part: Part) -> list[tuple[int, Any]]:
        table = _still_there(self.scan.read(part, self.columns), part, self.gone)
        found = []
        for place, name in enumerate(self.columns):
            values = table[name].to_numpy().astype(np.float64)
            values = values[~np.isnan(values)]
            inside = values[(values >= self.low[place]) & (values <= self.high[place])]
            below = int(np.sum(values < self.low[place]))
            if self.collect[place]:
                found.append((below, inside))
            else:
                edges = (self.low[place], self.high[place])
                found.append((below, np.histogram(inside, bins=_BINS, range=edges)[0]))
        return found


def medians(
    scan: Scan,
    names: list[str],
    moments: Moments,
    gone: Positions,
    engine: Engine,
    tell: Callable[[str, int, int], None],
) -> list[tuple[Array, int]]:
    """The sorted values around the exact median of some columns, and the rank of the first.

    Bins are counted, the one with the median is looked into, until few values are left: a pass each
    time, all columns at once.
    """
    low, high = moments.least.copy(), moments.most.copy()
    many = moments.count.astype(int)
    inside = many.copy()
    few = 1 << 20
    for _ in range(8):
        collect = (inside <= few) | (low == high)
        work = Binning(scan, names, low, high, collect, gone)
        sums: list[Any] = [None] * len(names)
        for done, part in enumerate(engine.map(work, scan.parts), 1):
            for place, (below, found) in enumerate(part):
                old = sums[place]
                if collect[place]:
                    kept = found if low[place] < high[place] else found[:0]
                    equal = 0 if low[place] < high[place] else len(found)
                    sums[place] = (
                        below + (old[0] if old else 0),
                        np.concatenate([old[1], kept]) if old else kept,
                        equal + (old[2] if old else 0),
                    )
                else:
                    sums[place] = (
                        (below + old[0], found + old[1]) if old else (below, found)
                    )
            tell("finding medians", done, len(scan.parts))
        if collect.all():
            break
        for place in np.flatnonzero(~collect).tolist():
            below, counts = sums[place]
            edges = np.linspace(low[place], high[place], _BINS + 1)
            ranks = below + np.concatenate([[0], np.cumsum(counts)])
            middle = (many[place] - 1) // 2
            reach = min(NEAR_MEDIAN, many[place])
            first = np.searchsorted(ranks, max(middle - reach, 0), side="right") - 1
            last = np.searchsorted(ranks, min(middle + reach + 1, many[place]), side="left")
            low[place], high[place] = edges[max(first, 0)], edges[min(last, _BINS)]
            inside[place] = ranks[min(last, _BINS)] - ranks[max(first, 0)]
            if inside[place] > few and high[place] - low[place] <= 1e-15 * abs(high[place]):
                inside[place] = 0
    out = []
    for place in range(len(names)):
        below, values, equal = sums[place]
        ordered = np.sort(values) if equal == 0 else np.full(min(equal, 1 << 20), low[place])
        middle = (many[place] - 1) // 2 - below
        start = max(0, min(middle - NEAR_MEDIAN, len(ordered) - 1)) if equal == 0 else 0
        if equal:  # all the same around the median: however many go, it stays
            wide = 2 * NEAR_MEDIAN + 2
            out.append((np.full(wide, low[place]), int(below + max(middle - NEAR_MEDIAN, 0))))
            continue
        out.append((ordered[start : start + 2 * NEAR_MEDIAN + 2], int(below + start)))
    return out


def refilled(recipe: Recipe, X: Array, names: Positions) -> Recipe:
    """The recipe fitted without some rows, whose raw numbers are given: no pass is needed."""
    moments, rows = recipe.moments, recipe.rows - len(X)
    if not len(X):
        return recipe
    gone = Moments.of(list(X.T))
    count = moments.count - gone.count
    safe = np.maximum(count, 1.0)
    mean = (moments.mean * moments.count - gone.mean * gone.count) / safe
    apart = gone.mean - mean
    squares = moments.squares - gone.squares - apart**2 * count * gone.count / moments.count
    left = replace(moments, count=count, mean=mean, squares=np.maximum(squares, 0.0))
    fills, near = mean.copy(), []
    for (values, first), place in zip(recipe.near, recipe.gaps.tolist(), strict=True):
        column = X[:, place]
        known = np.sort(column[~np.isnan(column)])
        before = int(np.sum(known < values[0]))
        kept = _less(values, known)
        start = first - before
        if not 0 <= (int(count[place]) - 1) // 2 - start <= len(kept) - 2:
            raise HoldfastError(
                "so many rows go that a median has to be found anew: fit the model on what is left"
            )
        near.append((kept, start))
        fills[place] = median_of(kept, start, int(count[place]))
    missing = rows - count
    whole_mean = (mean * count + fills * missing) / rows
    whole = left.squares + (mean - fills) ** 2 * count * missing / rows
    deviation = np.sqrt(whole / rows)
    constant = deviation <= 10 * np.finfo(float).eps * np.abs(whole_mean)
    return replace(
        recipe,
        fills=np.where(count < rows, fills, recipe.fills),
        means=whole_mean,
        scales=np.where(constant, 1.0, deviation),
        moments=left,
        near=near,
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

    def __call__(self, part: Part) -> Any:
        return self.work(self.recipe.batches(part))

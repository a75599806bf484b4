"""What a table in files is like, found out by looking at every block: moments, texts, medians."""

from __future__ import annotations

import csv as csv_lines
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.scale.engines import Engine
from holdfast.scale.scan import RowGroup, Scan

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

    def rounded(self) -> Moments:
        """With the least and the most rounded outward: they are nobody's own value."""
        width = np.maximum(self.most - self.least, 1e-300)
        step = 10.0 ** (np.floor(np.log10(width)) - 1.0)
        with np.errstate(invalid="ignore", over="ignore"):
            least, most = np.floor(self.least / step) * step, np.ceil(self.most / step) * step
        same = self.most == self.least  # shared by everybody
        return Moments(
            self.count,
            self.mean,
            self.squares,
            np.where(same, self.least, np.minimum(least, self.least)),
            np.where(same, self.most, np.maximum(most, self.most)),
        )


@dataclass(frozen=True)
class Counting:
    """The work of working out moments of some columns, without some rows."""

    scan: Scan
    columns: list[str]
    gone: Positions

    def __call__(self, part: RowGroup) -> Moments:
        table = still_there(self.scan.read(part, self.columns), part, self.gone)
        return Moments.of([table[name].to_numpy() for name in self.columns])


@dataclass(frozen=True)
class Looking:
    """The work of a first look: moments, values of text, labels."""

    scan: Scan
    gone: Positions

    def __call__(self, part: RowGroup) -> tuple[Moments, list[Counter[str]], Counter[Any], Moments]:
        import pyarrow.compute as pc

        scan = self.scan
        table = still_there(scan.read(part, [*scan.features, scan.label]), part, self.gone)
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
        if np.isinf(numbers).any():
            raise HoldfastError(f"{part}: the label {scan.label!r} has an infinite number")
        return Moments.of(columns), words, different, Moments.of([numbers])


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
    return moments.rounded(), found[1], found[2], found[3]


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

    def __call__(self, part: RowGroup) -> list[tuple[int, Any]]:
        table = still_there(self.scan.read(part, self.columns), part, self.gone)
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
                    sums[place] = (below + old[0], found + old[1]) if old else (below, found)
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


def still_there(table: Any, part: RowGroup, gone: Positions) -> Any:
    """The rows of a part that are there still."""
    ends = np.searchsorted(gone, [part.first, part.first + part.rows])
    if ends[0] == ends[1]:
        return table
    mask = np.ones(part.rows, dtype=bool)
    mask[gone[ends[0] : ends[1]] - part.first] = False
    return table.filter(mask)


def write_rest(scan: Scan, gone: Positions, place: Any, suffix: str, delimiter: str) -> None:
    """The files without some rows as one file, Parquet or CSV by its suffix, cells as they were."""
    sources = dict.fromkeys(part.source for part in scan.parts)
    if suffix.lower() == ".csv" and all(name.lower().endswith(".csv") for name in sources):
        _copy_lines(scan, gone, place, delimiter)
        return
    from pyarrow import csv, parquet

    writer: Any = None
    try:
        for part in scan.parts:
            with parquet.ParquetFile(part.file) as file:
                table = still_there(file.read_row_group(part.group), part, gone)
            if writer is None and suffix.lower() == ".csv":
                options = csv.WriteOptions(delimiter=delimiter)
                writer = csv.CSVWriter(place, table.schema, write_options=options)
            elif writer is None:
                writer = parquet.ParquetWriter(place, table.schema)
            if len(table):
                writer.write_table(table.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _copy_lines(scan: Scan, gone: Positions, place: Any, delimiter: str) -> None:
    """Lines of CSV files, without those of some rows, under one header."""
    went = set(gone.tolist())
    row, header = 0, None
    with open(place, "w", encoding="utf-8", newline="") as out:
        writer = csv_lines.writer(out, delimiter=delimiter, lineterminator="\n")
        for source in dict.fromkeys(part.source for part in scan.parts):
            with open(source, encoding="utf-8-sig", newline="") as lines:
                reader = csv_lines.reader(lines, delimiter=delimiter)
                first = next(reader)
                if header is None:
                    header = first
                    writer.writerow(header)
                order = [first.index(name) for name in header]
                for cells in reader:
                    if not cells:  # a blank line is no row
                        continue
                    if row not in went:
                        writer.writerow([cells[at] for at in order])
                    row += 1

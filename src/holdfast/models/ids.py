"""Where ids are in files: an index of their hashes, sorted, on disk where it is large.

A hash only points to a row; the id itself is read from the files before anything is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.algebra.rows import Positions, as_text
from holdfast.errors import HoldfastError
from holdfast.scale.engines import Engine
from holdfast.scale.scan import RowGroup, Scan
from holdfast.scale.spill import Spill

Hashes = npt.NDArray[np.uint64]

#: ids of one bucket: so many are sorted at a time
BUCKET = 1 << 22


@dataclass(frozen=True)
class Hashing:
    """The work of hashing the ids of a part, refusing those that are no ids."""

    scan: Scan
    column: str

    def __call__(self, part: RowGroup) -> Hashes:
        values = self.scan.read(part, [self.column])[self.column]
        if values.null_count:
            raise HoldfastError(
                f"{part}: the id {self.column!r} is missing in {values.null_count} rows"
            )
        names = texts(values)
        if any(name != name.strip() for name in names):
            raise HoldfastError(f"{part}: an id of {self.column!r} begins or ends with white space")
        return hashed(names)


def texts(values: Any) -> list[str]:
    """Ids of a pyarrow column as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(values.type):
        values = pc.cast(values, pa.string())
    return [name if isinstance(name, str) else as_text(name) for name in values.to_pylist()]


def hashed(names: list[str]) -> Hashes:
    """A number for every id."""
    return np.asarray(pd.util.hash_array(np.array(names, dtype=object), categorize=False))


class IdIndex:
    """Which rows have an id.

    Parameters
    ----------
    scan : Scan
    column : str
    hashes, places : arrays
        Hashes in order, and the numbers of their rows.
    """

    def __init__(self, scan: Scan, column: str, hashes: Any, places: Any, spill: Any = None):
        self.scan, self.column = scan, column
        self.hashes, self.places, self._spill = hashes, places, spill

    @classmethod
    def of(
        cls,
        scan: Scan,
        column: str,
        unique: bool,
        engine: Engine,
        tell: Callable[[str, int, int], None],
    ) -> IdIndex:
        """Made in one pass over the column; an id that appears twice is refused if ``unique``."""
        n = scan.rows
        buckets = max(1, -(-n // BUCKET))
        spill = Spill() if buckets > 1 else None
        with spill.kept_on_success() if spill is not None else contextlib.nullcontext():
            parts = cls._hashed(scan, column, buckets, spill, engine, tell)
            made = cls(scan, column, np.zeros(0, np.uint64), np.zeros(0, np.int64), spill)
            hashes, places = [], []
            for b in range(buckets):
                pairs = parts(b)
                order = np.lexsort((pairs[:, 1], pairs[:, 0]))
                some, rows = pairs[order, 0], pairs[order, 1].astype(np.int64)
                if unique:
                    made._refuse_twice(some, rows)
                if spill is None:
                    hashes.append(some)
                    places.append(rows)
                    continue
                # written, not mapped: a full disk is an error then, and no signal
                for name, values in (("hashes", some), ("places", rows)):
                    with (spill.folder / name).open("ab") as file:
                        file.write(values.tobytes())
            if spill is None:
                made.hashes, made.places = np.concatenate(hashes), np.concatenate(places)
            else:
                made.hashes = np.memmap(spill.folder / "hashes", np.uint64, "r", shape=(n,))
                made.places = np.memmap(spill.folder / "places", np.int64, "r", shape=(n,))
        return made

    @staticmethod
    def _hashed(
        scan: Scan, column: str, buckets: int, spill: Spill | None, engine: Engine, tell: Any
    ) -> Callable[[int], Any]:
        """Hashes and rows by bucket, in memory or on disk: one pass."""
        held: list[list[Any]] = [[] for _ in range(buckets)]
        width = np.uint64((2**64 - 1) // buckets + (buckets > 1))
        found = engine.map(Hashing(scan, column), scan.parts)
        for done, (part, hashes) in enumerate(zip(scan.parts, found, strict=True), 1):
            rows = np.arange(part.first, part.first + part.rows, dtype=np.uint64)
            pairs = np.column_stack([hashes, rows])
            where = np.minimum(hashes // width, buckets - 1).astype(int)
            for b in np.unique(where).tolist():
                if spill is None:
                    held[b].append(pairs[where == b])
                    continue
                with (spill.folder / f"ids-{b}").open("ab") as file:
                    file.write(pairs[where == b].tobytes())
            tell("looking at ids", done, len(scan.parts))

        def bucket(b: int) -> Any:
            file = None if spill is None else spill.folder / f"ids-{b}"
            if file is None:
                return np.concatenate([*held[b], np.zeros((0, 2), dtype=np.uint64)])
            pairs = np.fromfile(file, np.uint64) if file.exists() else np.zeros(0, np.uint64)
            file.unlink(missing_ok=True)
            return pairs.reshape(-1, 2)

        return bucket

    def _refuse_twice(self, hashes: Any, places: Any) -> None:
        same = np.flatnonzero(hashes[1:] == hashes[:-1])
        for at in same[:100].tolist():
            first, second = int(places[at]), int(places[at + 1])
            one, other = self.names([first])[0], self.names([second])[0]
            if one == other:
                parts = self.scan.parts
                a, b = (parts[int(self.scan.part_of(row))] for row in (first, second))
                raise HoldfastError(
                    f"an id of {self.column!r} appears twice: in {a} (row "
                    f"{first - a.first + 1} of it) and in {b} (row {second - b.first + 1}). If "
                    "one person may have several rows, name the column with ⟦subject⟧ instead"
                )

    def names(self, rows: Any) -> list[str]:
        """The ids of some rows, read from the files."""
        found: dict[int, str] = {}
        rows = np.asarray(rows)
        numbers = self.scan.part_of(rows)
        for number in np.unique(numbers).tolist():
            part, mine = self.scan.parts[number], rows[numbers == number]
            column = self.scan.read(part, [self.column])[self.column]
            picked = texts(column.take(mine - part.first))
            found.update(zip(mine.tolist(), picked, strict=True))
        return [found[int(row)] for row in rows]

    def find(self, ids: list[str], gone: Positions) -> Positions:
        """The rows of some ids, in order; an unknown one is refused."""
        wanted = hashed(ids)
        low = np.searchsorted(self.hashes, wanted, side="left")
        high = np.searchsorted(self.hashes, wanted, side="right")
        rows: list[int] = []
        unknown = []
        for name, a, b in zip(ids, low.tolist(), high.tolist(), strict=True):
            places = np.setdiff1d(self.places[a:b], gone)
            mine = [
                int(row)
                for row, found in zip(places, self.names(places), strict=True)
                if found == name
            ]
            rows += mine
            if not mine:
                unknown.append(name)
        if unknown:
            raise HoldfastError(
                f"unknown id {unknown[0]!r} ({len(unknown)} of {len(ids)} unknown); the training "
                f"data have {self.scan.rows:,} rows"
            )
        if len(set(ids)) < len(ids):
            raise HoldfastError("an id is named twice")
        return np.array(sorted(rows), dtype=np.intp)

    def known(self, ids: list[str]) -> Positions:
        """The rows of those of some ids that are there."""
        wanted = hashed(ids)
        low = np.searchsorted(self.hashes, wanted, side="left")
        high = np.searchsorted(self.hashes, wanted, side="right")
        there = [self.places[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        rows = np.unique(np.concatenate([*there, np.zeros(0, dtype=np.int64)]))
        meant = set(ids)
        mine = [name in meant for name in self.names(rows)]
        return rows[np.array(mine, dtype=bool)].astype(np.intp)

    def count(self, gone: Positions) -> int:
        """How many different ids there are, of rows that are not gone."""
        hashes = np.asarray(self.hashes)
        if gone.size:
            hashes = hashes[~np.isin(self.places, gone)]
        return int(np.sum(hashes[1:] != hashes[:-1])) + 1

    def companions(self, rows: Positions) -> Positions:
        """All rows that have an id of some rows: by hash, so a stranger may be among them."""
        mine = np.unique(hashed(self.names(rows)))
        low = np.searchsorted(self.hashes, mine, side="left")
        high = np.searchsorted(self.hashes, mine, side="right")
        return np.unique(np.concatenate([self.places[a:b] for a, b in zip(low, high, strict=True)]))

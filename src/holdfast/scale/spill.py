"""Blocks that are put on disk for a while: in a folder of their own, removed at the end.

They hold personal data: the folder is readable by its owner only, and one that a killed process
left behind is removed by the next.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.cells import MISSING_WORDS
from holdfast.errors import HoldfastError

#: how folders of spilled blocks are named; the number is the process that made them
NAME = "holdfast-spill-"

#: bytes of a CSV file that are one block
BLOCK = 1 << 25


class Spill:
    """A folder for blocks, gone with the object or the process."""

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        _remove_left_behind(place)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{NAME}{os.getpid()}-", dir=place))
        self._gone = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._count = 0

    def file(self) -> Path:
        """A name for one more file."""
        self._count += 1
        return self.folder / f"{self._count:06}.parquet"

    def remove(self) -> None:
        """Remove everything now."""
        self._gone()

    @contextlib.contextmanager
    def kept_on_success(self) -> Iterator[None]:
        """Remove everything if something goes wrong; a full disk is said so."""
        try:
            yield
        except OSError as failure:
            self.remove()
            if failure.errno != errno.ENOSPC and "No space left" not in str(failure):
                raise
            raise HoldfastError(
                f"no space is left in {str(self.folder.parent)!r} for spilled blocks, which were "
                "removed: set TMPDIR to a larger disk, or write the table as Parquet"
            ) from None
        except BaseException:
            self.remove()
            raise


def _remove_left_behind(place: Path) -> None:
    """Remove folders of processes that are no more."""
    for folder in place.glob(f"{NAME}*"):
        number = folder.name.removeprefix(NAME).split("-")[0]
        if not number.isdigit() or folder.stat().st_uid != os.getuid():
            continue
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def csv_as_parquet(
    source: Path, spill: Spill, codes: set[str], delimiter: str, decimal: str
) -> Path:
    """A CSV file as Parquet, a block at a time; what its first block says of types holds."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    bad: list[int] = []

    def refuse(row: Any) -> str:
        bad.append(int(row.number or 0))
        return "error"

    reading = csv.ReadOptions(block_size=BLOCK, use_threads=False)
    parsing = csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse
    )
    block = 0
    names: list[str] = []
    empty: list[str] = []
    # what stands for a missing number; in a column of text these are words like any other
    words = sorted({word for m in MISSING_WORDS for word in (m, m.upper(), m.title())} | {"NaN"})
    try:
        with csv.open_csv(
            source,
            reading,
            parsing,
            csv.ConvertOptions(decimal_point=decimal, null_values=words),
        ) as opened:
            names = list(opened.schema.names)
            kinds = {f.name: _read_as(f.name, f.type, codes) for f in opened.schema}
            empty = [f.name for f in opened.schema if pa.types.is_null(f.type)]
        made = spill.file()
        options = csv.ConvertOptions(column_types=kinds, decimal_point=decimal, null_values=words)
        with (
            csv.open_csv(source, reading, parsing, options) as opened,
            parquet.ParquetWriter(made, opened.schema, compression="lz4") as writer,
        ):
            for batch in opened:
                if batch.num_rows:
                    writer.write_table(_gaps_in_texts(pa.Table.from_batches([batch])))
                block += 1
        made.chmod(0o600)
        return made
    except pa.ArrowException as failure:
        raise HoldfastError(_what_is_wrong(source, failure, block, names, bad, empty)) from None


def _gaps_in_texts(table: Any) -> Any:
    """A table whose texts without a letter are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            blank = pc.equal(column, "")
            table = table.set_column(place, field, pc.if_else(blank, None, column))
    return table


def _read_as(name: str, kind: Any, codes: set[str]) -> Any:
    import pyarrow as pa

    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
    return pa.float64() if number and name not in codes else pa.string()


def _what_is_wrong(
    source: Path, failure: Any, block: int, names: list[str], bad: list[int], empty: list[str]
) -> str:
    """In words, without a cell of the file: it may be personal."""
    where = f"{str(source)!r}, block {block}"
    said = str(failure)
    if bad:
        return f"{where}: row {bad[0]} has another number of cells than the header"
    if "UTF8" in said:
        return f"{where}: it is not UTF-8: save it as such"
    if "conversion error" in said and "#" in said:
        number = said.split("#", 1)[1].split(":", 1)[0].strip()
        name = names[int(number)] if number.isdigit() and int(number) < len(names) else number
        if name in empty:
            return (
                f"{where}: the column {name!r} is empty in the first block and has a text here: "
                "say that it is text (⟦text⟧)"
            )
        return (
            f"{where}: the column {name!r} has numbers in the first block and a text here: correct "
            "it, or say that it is text (⟦text⟧)"
        )
    if "Empty CSV" in said or not names:
        return f"{str(source)!r} has no rows: remove it, or leave it out"
    return f"{where}: it cannot be read as CSV"

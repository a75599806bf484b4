"""Tables read from files: what is wrong with one is said by file, line, column and value."""

from __future__ import annotations

import csv
import io
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.errors import EmptyDataError, ParserError

from holdfast.archives import refuse_if_larger
from holdfast.cells import TRUTHS, amounts, are_dates, stand_for_missing
from holdfast.errors import HoldfastError
from holdfast.formats import OTHERS, opened
from holdfast.inert import for_spreadsheet, from_spreadsheet

#: the column that says a file of ours is meant to be read back, and how its text is quoted
MARK = "holdfast_file"

#: numbers whose squares, added up over the rows of a table, are none any more
LARGEST = 1e145

#: bytes of memory needed for each byte of a file that is read
MEMORY_FACTOR = 3


def read_table(
    path: Any,
    text: Iterable[str] = (),
    delimiter: str = ",",
    decimal: str = ".",
    missing_words: bool = False,
    notes: list[str] | None = None,
) -> pd.DataFrame:
    """A CSV, Parquet, Feather or Excel file as a frame; errors say what to do.

    CSV files may be packed (``.gz``), and in other encodings than UTF-8.

    Parameters
    ----------
    path : path of a file
    text : column names
        Columns kept as text: ids, which may have leading zeros.
    delimiter, decimal : str
        What separates the cells of a CSV file, and what stands before a fraction.
    missing_words : bool
        Whether words like ``NA`` are missing values everywhere, as pandas reads them; otherwise
        only an empty cell is.
    notes : list, optional
        Is told what was found out about the file.
    """
    told: list[str] = [] if notes is None else notes
    if not isinstance(path, str | Path):
        raise HoldfastError(f"a table comes as the path of a file, got {type(path).__name__}")
    file = existing_file(path)
    _refuse_if_memory_is_short(file, file.stat().st_size)
    try:
        kind = file.suffix.lower()
        if kind == ".toml":
            raise HoldfastError(
                f"{str(path)!r} is a settings file, and a table is wanted here: settings are named "
                "without an option, right behind the command"
            )
        if is_parquet(file):
            return _parquet(file)
        if kind in OTHERS:
            return _checked(OTHERS[kind](file, told), file)
        return _csv(file, list(text), delimiter, decimal, missing_words, told)
    except ImportError as missing:
        extra = "excel" if "openpyxl" in str(missing) else "parquet"
        package = "openpyxl" if extra == "excel" else "pyarrow"
        raise HoldfastError(
            f"reading {str(path)!r} needs {package}: pip install 'holdfast[{extra}]'"
        ) from None
    except MemoryError:
        raise HoldfastError(
            f"not enough memory to read {str(path)!r} ({size_in_words(file)})"
        ) from None
    except OSError as failure:
        raise HoldfastError(f"cannot read {str(path)!r}: {failure.strerror or failure}") from None


def existing_file(path: Any, what: str = "the file") -> Path:
    """A path at which there is a file: nothing that would be waited for."""
    file = Path(path)
    try:
        found, folder, other = file.is_file(), file.is_dir(), os.path.lexists(file)
    except (OSError, ValueError):  # a name too long, a NUL in it
        found = folder = other = False
    if not found:
        kind = "not there"
        if folder:
            kind = "a directory, not a file"
        elif other:
            kind = "no regular file"
        raise HoldfastError(f"{what} {str(path)!r} is {kind}")
    return file


def read_toml(path: Any, what: str) -> dict[str, Any]:
    """A TOML file; whatever is wrong with it is said in one message."""
    file = existing_file(path, what)
    if file.suffix.lower() in (".csv", ".gz", ".parquet", ".pq", ".xlsx", ".feather", ".tsv"):
        raise HoldfastError(
            f"{str(path)!r} is a table, and {what} is wanted here: name the table with ⟦train⟧"
        )
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as failure:
        raise HoldfastError(f"cannot read {what} {str(path)!r}: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise HoldfastError(f"{str(path)!r} is not a text file (UTF-8)") from None
    except RecursionError:
        raise HoldfastError(f"{str(path)!r} is not read: its brackets are too deep") from None
    except ValueError as wrong:  # a number of thousands of digits is one too
        raise HoldfastError(f"{str(path)!r} is not valid TOML: {wrong}") from None


def to_be_read_back(table: pd.DataFrame, kind: str, delimiter: str = ",") -> str:
    """A table as the text of a CSV file of ours that :func:`read_table` gives back as it was.

    A column says that it is one. Text that a spreadsheet would run has an apostrophe before it,
    which is taken away again when the file is read.
    """
    return safe_csv(table.assign(**{MARK: kind}), delimiter)


def safe_csv(table: pd.DataFrame, delimiter: str = ",") -> str:
    """A table as the text of a CSV file no cell of which a spreadsheet would run."""
    return as_csv(table.map(for_spreadsheet).rename(columns=for_spreadsheet), delimiter)


def as_csv(table: pd.DataFrame, delimiter: str) -> str:
    """The text of a CSV file; with a carriage return in some cell all text is quoted."""
    texts = table.select_dtypes(exclude="number")
    cells = (cell for column in texts.to_numpy().T for cell in column)
    returns = any("\r" in cell for cell in cells if isinstance(cell, str))
    if returns:
        return str(table.to_csv(index=False, sep=delimiter, quoting=csv.QUOTE_NONNUMERIC))
    return str(table.to_csv(index=False, sep=delimiter))


def _read_back(table: pd.DataFrame) -> pd.DataFrame:
    if MARK not in table.columns:
        return table
    plain = table.drop(columns=MARK).rename(columns=from_spreadsheet)
    for name in plain.columns:
        if not pd.api.types.is_numeric_dtype(plain[name].dtype):
            plain[name] = plain[name].map(from_spreadsheet)
    return plain


def is_parquet(file: Path) -> bool:
    """Whether the name says that a table is stored as Parquet."""
    return file.suffix.lower() in (".parquet", ".pq")


def size_in_words(file: Path) -> str:
    """The size of a file for people."""
    return f"{file.stat().st_size / 1e9:.1f} GB"


def _refuse_if_memory_is_short(file: Path, size: int) -> None:
    free = available_memory()
    if free is not None and MEMORY_FACTOR * size > free:
        raise HoldfastError(
            f"not enough memory to read {str(file)!r}: it has {size / 1e9:.1f} GB, about "
            f"{MEMORY_FACTOR * size / 1e9:.1f} GB of memory are needed and {free / 1e9:.1f} GB are "
            "free. Audit a sample of the rows, or use a larger machine"
        )


def available_memory() -> int | None:
    """Bytes this process may still take, as far as the system says."""
    known = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                known.append(1024 * int(line.split()[1]))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdigit():
            used = Path("/sys/fs/cgroup/memory.current").read_text()
            known.append(max(int(limit) - int(used), 0))
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            known.append(max(soft - taken, 0))
    except (ImportError, OSError, ValueError):
        pass
    return min(known) if known else None


def _parquet(file: Path) -> pd.DataFrame:
    try:
        table = _unpacked_parquet(file)
    except (ImportError, HoldfastError):
        raise
    except Exception as failure:  # pyarrow's own errors are many
        first = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise HoldfastError(
            f"{str(file)!r} is not a Parquet file that can be read: {first}"
        ) from None
    if isinstance(table.index, pd.RangeIndex):  # row numbers, whatever they are called
        table.index.name = None
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    table.attrs = {}  # whatever was noted beside the rows stays with the file it was noted in
    table.columns.name = None
    return _checked(table.rename(columns=str), file)


def _unpacked_parquet(file: Path) -> pd.DataFrame:
    """A Parquet file, looked at before it is unpacked.

    Its footer says how many values there are; a text repeated a million times is stored once, so
    texts stay stored once until their lengths have been added up.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    what, packed = f"{str(file)!r}", file.stat().st_size
    about = pq.ParquetFile(file)
    schema = about.schema_arrow
    for column in schema:
        if pa.types.is_nested(column.type):
            raise HoldfastError(
                f"{what}, column {column.name!r} holds {column.type}: one value per cell is wanted"
            )
    widths = [_width(column.type) for column in schema]
    declared = 0
    for i in range(about.metadata.num_row_groups):
        group = about.metadata.row_group(i)
        for j in range(group.num_columns):
            chunk = group.column(j)
            declared += max(chunk.total_uncompressed_size, widths[j] * chunk.num_values)
    refuse_if_larger(what, packed, declared)
    _refuse_if_memory_is_short(file, declared)
    kinds = (
        *(pa.types.is_string, pa.types.is_large_string),
        *(pa.types.is_binary, pa.types.is_large_binary),
    )
    texts = [f.name for f in schema if any(is_kind(f.type) for is_kind in kinds)]
    table = pq.read_table(file, read_dictionary=texts)
    lengths = 0
    for name in texts:
        for chunk in table.column(name).chunks:
            if not pa.types.is_dictionary(chunk.type):
                continue
            each = pc.binary_length(chunk.dictionary).take(chunk.indices)
            lengths += pc.sum(each.cast(pa.int64())).as_py() or 0
    refuse_if_larger(what, packed, declared + lengths)
    _refuse_if_memory_is_short(file, declared + lengths)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and field.name in texts:
            plain = table.column(place).cast(schema.field(field.name).type)
            table = table.set_column(place, field.name, plain)
    return table.to_pandas()


def _width(kind: Any) -> int:
    """Bytes of one value in memory, as far as its type says."""
    try:
        return max(8, int(kind.bit_width) // 8)
    except ValueError:  # texts are counted by themselves
        return 8


def _csv(
    file: Path,
    text: list[str],
    delimiter: str,
    decimal: str,
    missing_words: bool,
    notes: list[str],
) -> pd.DataFrame:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise HoldfastError(f"the delimiter must be one character, got {delimiter!r}")
    source, encoding = opened(file)
    if encoding != "utf-8-sig":
        notes.append(f"{file.name} is no UTF-8: it was read as {encoding}.")
    _check_header(file, source, encoding, delimiter)
    try:
        table = pd.read_csv(
            source,
            sep=delimiter,
            dtype=dict.fromkeys([*text, *map(for_spreadsheet, text)], str),
            keep_default_na=missing_words,
            na_values=[""],
            decimal=decimal,
            index_col=False,
            low_memory=False,
            encoding=encoding,
            compression=None,  # never guessed from the name: nothing is unpacked unseen
        )
    except EmptyDataError:
        raise HoldfastError(
            f"{str(file)!r} is empty: a table with a header line is wanted"
        ) from None
    except ParserError as wrong:
        said = str(wrong).replace("Error tokenizing data. C error: ", "").strip()
        if "out of memory" in said:
            raise MemoryError from None
        raise HoldfastError(f"{str(file)!r} is not a well-formed CSV file: {said}") from None
    except UnicodeDecodeError as wrong:
        raise HoldfastError(_not_utf8(file, wrong)) from None
    except (ValueError, csv.Error) as wrong:
        raise HoldfastError(f"{str(file)!r} cannot be read as a CSV file: {wrong}") from None
    return _checked(_read_back(table), file)


def _check_header(file: Path, source: Any, encoding: str, delimiter: str) -> None:
    """Wrong delimiters, double names and cells too many are told from the first lines."""
    try:
        first, second = _first_lines(source, encoding)
    except UnicodeDecodeError as wrong:
        raise HoldfastError(_not_utf8(file, wrong)) from None
    if not first.strip():
        raise HoldfastError(f"{str(file)!r} is empty: a table with a header line is wanted")
    try:
        names = next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
        cells = next(csv.reader(io.StringIO(second), delimiter=delimiter), [])
    except csv.Error as wrong:
        raise HoldfastError(f"{str(file)!r} is not a CSV file: {wrong}") from None
    if len(names) == 1:
        others = [c for c in ";\t|," if c != delimiter and c in first]
        if others:
            shown = {"\t": "a tab"}.get(others[0], repr(others[0]))
            raise HoldfastError(
                f"{str(file)!r} seems to have one column, named {names[0]!r}: is it delimited by "
                f"{shown} instead of {delimiter!r}? Say so with the delimiter option"
            )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise HoldfastError(f"{str(file)!r}: the column {min(twice)!r} appears twice")
    if len(cells) > len(names):  # pandas would take the first for names of rows, or cut the last
        raise HoldfastError(
            f"{str(file)!r}: its lines have more cells than its header, which has {len(names)}"
        )


def _first_lines(source: Any, encoding: str) -> tuple[str, str]:
    if isinstance(source, Path):
        with source.open(encoding=encoding, newline="") as lines:
            return lines.readline(1_000_000), lines.readline(1_000_000)
    wrapped = io.TextIOWrapper(source, encoding=encoding, newline="")
    first = wrapped.readline(1_000_000), wrapped.readline(1_000_000)
    wrapped.detach()
    source.seek(0)
    return first


def _not_utf8(file: Path, wrong: UnicodeDecodeError) -> str:
    return (
        f"{str(file)!r} is not a text file in UTF-8 (byte {wrong.start} is "
        f"0x{wrong.object[wrong.start]:02x}): save it as CSV in UTF-8, or as Parquet"
    )


def _checked(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    if table.shape[1] == 0 or len(table) == 0:
        raise HoldfastError(f"{str(file)!r} has no rows")
    for place, name in enumerate(table.columns):
        if "\0" in str(name):
            raise HoldfastError(
                f"{str(file)!r}: the name of column {place + 1} has a NUL in it: rename it"
            )
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise HoldfastError(f"{str(file)!r}: the column {twice[0]!r} appears twice")
    return table


def typed(
    table: pd.DataFrame, what: str, text: Iterable[str] = (), notes: list[str] | None = None
) -> pd.DataFrame:
    """Every column as numbers or as text, decided by its cells.

    Truth values become text, amounts with signs of money or separators numbers. Dates are left out.
    A column in which most cells are numbers and some are not (and do not stand for a missing value)
    is refused, unless it is declared as text. ``notes`` is told what was done.
    """
    declared = set(text)
    columns = {}
    for name in table.columns:
        cells = table[name]
        if name in declared or pd.api.types.is_bool_dtype(cells.dtype):
            columns[name] = _as_words(cells)
        elif pd.api.types.is_numeric_dtype(cells.dtype):
            columns[name] = _plain_numbers(cells, what)
        elif are_dates(cells):
            if notes is not None:
                notes.append(
                    f"Column {name!r} holds dates and is left out: a number of days or months "
                    "would be a feature."
                )
        else:
            columns[name] = _numbers_or_words(cells, what, notes)
    if not columns:
        raise HoldfastError(f"{what} has no column that is a number or a text: nothing to fit on")
    return pd.DataFrame(columns, index=table.index)


def like(table: pd.DataFrame, model: pd.DataFrame, what: str) -> pd.DataFrame:
    """The columns of another table with numbers where that one has numbers, text where text."""
    columns = {}
    for name in table.columns:
        cells = table[name]
        if name not in model.columns:
            columns[name] = cells
        elif pd.api.types.is_bool_dtype(model[name].dtype):
            columns[name] = _truths(cells, what)
        elif pd.api.types.is_numeric_dtype(model[name].dtype):
            columns[name] = as_numbers(cells, what)
        else:
            columns[name] = _as_words(cells)
    return pd.DataFrame(columns, index=table.index)


def _truths(cells: pd.Series, what: str) -> pd.Series:
    """A column as truth values; missing ones stay missing."""
    words = cells.astype(str).str.strip().str.lower()
    known = TRUTHS
    gone = cells.isna().to_numpy(dtype=bool)
    strange = np.flatnonzero(~words.isin(list(known)).to_numpy() & ~gone)
    if strange.size:
        raise HoldfastError(
            f"{what}, row {strange[0] + 1}, column {cells.name!r}: "
            f"{str(cells.iloc[strange[0]])[:40]!r} is neither True nor False"
        )
    return words.map(known).astype(object if gone.any() else bool)


def as_numbers(cells: pd.Series, what: str) -> pd.Series:
    """A column as numbers; the first cell that is none is named."""
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        return _plain_numbers(cells, what)
    values = pd.to_numeric(cells, errors="coerce").astype(float)
    bad = np.flatnonzero(values.isna().to_numpy() & ~stand_for_missing(cells))
    if bad.size and (read := amounts(cells)) is not None:
        return _plain_numbers(read[0], what)
    if bad.size:
        raise HoldfastError(_not_a_number(cells, int(bad[0]), what))
    return values


def _plain_numbers(cells: pd.Series, what: str) -> pd.Series:
    values = cells
    if not isinstance(cells.dtype, np.dtype):
        values = cells.astype(float)
    if values.dtype.kind == "c":
        raise HoldfastError(f"{what}, column {cells.name!r} holds complex numbers")
    refuse_too_large(values, what)
    return values


def refuse_too_large(cells: pd.Series, what: str) -> None:
    """Refuse numbers whose squares are none any more, naming the first."""
    if not isinstance(cells.dtype, np.dtype) or cells.dtype.kind != "f":
        return
    sizes = np.abs(cells.to_numpy())
    beyond = np.flatnonzero(sizes > LARGEST)
    if beyond.size:
        place = int(beyond[0])
        said = "is infinite"
        if np.isfinite(sizes[place]):
            said = f"{cells.iloc[place]:g} is too large to compute with"
        raise HoldfastError(f"{what}, row {place + 1}, column {cells.name!r}: the value {said}")


def _numbers_or_words(cells: pd.Series, what: str, notes: list[str] | None = None) -> pd.Series:
    values = pd.to_numeric(cells, errors="coerce").astype(float)
    missing = stand_for_missing(cells)
    numbers = values.notna().to_numpy()
    strange = np.flatnonzero(~numbers & ~missing)
    if strange.size == 0 and numbers.any():
        return _plain_numbers(values, what)
    if (read := amounts(cells)) is not None:
        if notes is not None:
            notes.append(f"Column {cells.name!r}: amounts such as {read[1]!r} are read as numbers.")
        return _plain_numbers(read[0], what)
    if 2 * numbers.sum() > numbers.sum() + strange.size:
        raise HoldfastError(_not_a_number(cells, int(strange[0]), what))
    return _as_words(cells)


def _not_a_number(cells: pd.Series, place: int, what: str) -> str:
    return (
        f"{what}, row {place + 1}, column {cells.name!r}: {str(cells.iloc[place])[:40]!r} is not a "
        "number, and most of the column are. Correct it, or declare the column as text"
    )


def _as_words(cells: pd.Series) -> pd.Series:
    """Text, with missing cells missing; numbers as people write them."""
    values = [
        np.nan if gone else _word(cell) for cell, gone in zip(cells, cells.isna(), strict=True)
    ]
    return pd.Series(values, index=cells.index, name=cells.name, dtype=object)


def _word(cell: Any) -> str:
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)

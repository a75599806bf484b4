"""Tables in other files than plain CSV and Parquet: packed, in other encodings, other kinds."""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.archives import limit, refuse_if_larger
from holdfast.errors import HoldfastError

#: bytes of a file by which its encoding is guessed
_LOOKED_AT = 1 << 24

#: encodings that are tried, in this order, where a file is no UTF-8
_ENCODINGS = ("cp1252", "latin-1")


def opened(file: Path) -> tuple[Any, str]:
    """A CSV file unpacked where it is packed (as something to read from), and its encoding."""
    if file.suffix.lower() != ".gz":
        with file.open("rb") as plain:
            return file, _encoding(plain.read(_LOOKED_AT))
    content, packed = bytearray(), file.stat().st_size
    try:
        with gzip.open(file) as unpacking:
            while part := unpacking.read(1 << 20):
                content += part
                refuse_if_larger(repr(str(file)), packed, len(content))
    except HoldfastError:
        raise
    except (OSError, EOFError, ValueError) as wrong:
        raise HoldfastError(f"{str(file)!r} is no gzip file that can be read: {wrong}") from None
    return io.BytesIO(content), _encoding(bytes(content[:_LOOKED_AT]))


def _encoding(start: bytes) -> str:
    """What the first bytes of a text are written in."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8-sig")().decode(start)
        return "utf-8-sig"
    except UnicodeDecodeError:
        pass
    if b"\0" in start:  # no text at all: said by whoever reads it
        return "utf-8-sig"
    for encoding in _ENCODINGS:
        try:
            start.decode(encoding)
            return encoding
        except UnicodeDecodeError:
            continue
    return "utf-8-sig"


def _excel(file: Path, notes: list[str]) -> pd.DataFrame:
    """The first sheet of an Excel file."""
    import_module("openpyxl")  # pandas reads with it

    what = repr(str(file))
    try:
        with zipfile.ZipFile(file) as archive:
            declared = sum(member.file_size for member in archive.infolist())
            refuse_if_larger(what, file.stat().st_size, declared)
        with pd.ExcelFile(file, engine="openpyxl") as book:
            names = [str(name) for name in book.sheet_names]
            table: pd.DataFrame = pd.read_excel(book, sheet_name=0)
    except HoldfastError:
        raise
    except Exception as failure:  # openpyxl's own errors are many
        first = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise HoldfastError(f"{what} is no Excel file that can be read: {first}") from None
    if len(names) > 1:
        notes.append(f"{file.name} has {len(names)} sheets: the first, {names[0]!r}, was read.")
    return table.rename(columns=str)


def _feather(file: Path, notes: list[str]) -> pd.DataFrame:
    """A Feather (Arrow) file, batch by batch."""
    import pyarrow as pa
    import pyarrow.ipc as ipc

    what, packed, read, batches = repr(str(file)), file.stat().st_size, 0, []
    try:
        with pa.OSFile(str(file)) as source:
            reader = ipc.open_file(source)
            for column in reader.schema:
                if pa.types.is_nested(column.type):
                    raise HoldfastError(
                        f"{what}, column {column.name!r} holds {column.type}: one value per cell "
                        "is wanted"
                    )
            for i in range(reader.num_record_batches):
                batches.append(reader.get_batch(i))
                read += batches[-1].nbytes
                refuse_if_larger(what, packed, read)
            table = pa.Table.from_batches(batches, reader.schema)
    except HoldfastError:
        raise
    except Exception as failure:  # pyarrow's own errors are many
        first = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise HoldfastError(f"{what} is no Feather file that can be read: {first}") from None
    refuse_if_larger(what, max(packed, limit()[0] // 1000), read)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame.rename(columns=str)


#: by the end of a file's name
OTHERS: dict[str, Callable[[Path, list[str]], pd.DataFrame]] = {
    ".xlsx": _excel,
    ".feather": _feather,
}

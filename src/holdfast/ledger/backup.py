"""The books in one file, and back."""

from __future__ import annotations

import datetime
import json
import zipfile
from pathlib import Path
from typing import Any

from sqlalchemy import Date, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from holdfast.archives import checked_zip, member
from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs
from holdfast.ledger.accounts import LOGICAL, content, content_hash, verified
from holdfast.ledger.chain import canonical
from holdfast.ledger.places import Places
from holdfast.ledger.records import book_of, newest_model
from holdfast.ledger.tables import REVISIONS, Entry, ModelVersion
from holdfast.tables import existing_file

#: the day every member has, so that the same books give the same bytes
_DAY = (1980, 1, 1, 0, 0, 0)
BOOKS, NOTE, WHOSE = "books.json", "READ-ME-FIRST.txt", "opened.txt"
_TEXT = (
    "Personal data: everything a ledger of Holdfast holds, with its table and its model. "
    "Whoever is erased from the ledger must go from here too: make a new export then, and remove "
    "this one. Read it back with: holdfast ledger import.\n"
)


def is_backup(path: Path, opened: str | None = None) -> bool:
    """Whether a file is an export of a ledger; of the one opened then, where that is said."""
    try:
        with zipfile.ZipFile(path) as archive:
            if opened is None:
                return BOOKS in archive.namelist()
            return archive.getinfo(WHOSE).file_size < 200 and archive.read(WHOSE).decode() == opened
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, NotImplementedError, RuntimeError):
        return False


def exported(session: Session, places: Places, path: Path, out: Outputs) -> str:
    """Everything the books hold in a file for its owner only; the hash of it."""
    found = content(session)
    version = newest_model(session)
    files: dict[str, Path] = {}
    if version is not None:
        for name, wanted, what in (
            (version.table_path, version.table_sha256, "the table"),
            (version.path, version.sha256, "the model"),
        ):
            files[str(name)] = places.checked(name, wanted, what)

    def fill(place: Path) -> None:
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            _put(archive, NOTE, _TEXT.encode())
            _put(archive, WHOSE, book_of(session).opened.encode())
            told = {"version": REVISIONS[-1], "books": found}
            _put(archive, BOOKS, canonical(told).encode("utf-8", "surrogatepass"))
            for name, file in files.items():
                _put(archive, f"files/{name}", file.read_bytes())

    out.file(path, fill, PRIVATE)
    return content_hash(session)


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DAY)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, PRIVATE << 16
    archive.writestr(info, data)


def restored(session: Session, places: Places, path: Path) -> str:
    """An export read back into books that are empty; the hash of what they hold then."""
    what = repr(str(path))
    if session.execute(select(ModelVersion.id).limit(1)).first() is not None:
        raise HoldfastError(
            f"{what} is an export, and this ledger is not empty: read it back into a new one"
        )
    try:
        with checked_zip(existing_file(path).read_bytes(), what) as archive:
            told = json.loads(member(archive, BOOKS, what))
            files = {
                name.removeprefix("files/"): member(archive, name, what)
                for name in archive.namelist()
                if name.startswith("files/")
            }
    except (zipfile.BadZipFile, ValueError, KeyError, RecursionError):
        raise HoldfastError(f"{what} is damaged: it cannot be read back") from None
    if not isinstance(told, dict) or told.get("version") not in REVISIONS:
        raise HoldfastError(f"{what} was exported by another version of Holdfast")
    try:
        _insert(session, told.get("books"), what)
    except HoldfastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SQLAlchemyError):
        raise HoldfastError(f"{what} is damaged: it cannot be read back") from None
    names = _place(session, places, files, what)
    faults = verified(session, places).faults
    if faults:
        places.remove(names)
        raise HoldfastError(f"{what} was changed since it was exported: {faults[0]}")
    return content_hash(session)


def _insert(session: Session, books: Any, what: str) -> None:
    names = {table.__tablename__ for table in LOGICAL} | {"books"}
    if not isinstance(books, dict) or set(books) != names:
        raise HoldfastError(f"{what} is damaged: it has not the tables of a ledger")
    book = book_of(session)
    about = dict(books["books"][0])
    book.opened, book.settings = about.pop("opened"), about
    _empty_log(session)
    for table in LOGICAL:
        lines = books[table.__tablename__]
        columns = {column.name: column for column in table.__table__.columns}
        days = [name for name, column in columns.items() if isinstance(column.type, Date)]
        for line in lines:
            if set(line) != set(columns):
                raise HoldfastError(f"{what} is damaged: a line of {table.__tablename__}")
            for name in days:
                if line[name] is not None:
                    line[name] = datetime.date.fromisoformat(line[name])
        if lines:
            session.execute(insert(table), lines)
    session.flush()


def _empty_log(session: Session) -> None:
    """A new ledger has one line, which says that it was opened; that of the export takes over."""
    if session.execute(select(Entry.id).limit(1)).first() is not None:
        raise HoldfastError(
            "an export is read back into a ledger that was made for it: the log of this one has "
            "begun already"
        )


def _place(session: Session, places: Places, files: dict[str, bytes], what: str) -> list[str]:
    """The files put where the books look for them; their names."""
    version = newest_model(session)
    if version is None:
        return []
    names = [str(version.table_path), str(version.path)]
    for name, stem in zip(names, ("table", "model"), strict=True):
        data = files.get(name)
        if data is None or Path(name).name != name:
            raise HoldfastError(f"{what} is damaged: the {stem} is missing")
        places.put(name, data)
    return names

"""Where the books are: SQLite in a file of their own, or a PostgreSQL server by its address."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE
from holdfast.ledger.tables import REVISIONS, Book

#: seconds to wait for somebody else who writes
WAIT = 30.0

#: tables a person's values may have stood in
PERSONAL = ("people", "promises", "requests", "breaks", "letters", "chores", "files")


class Database:
    """A database with books in it, read by many and written by one at a time.

    Parameters
    ----------
    address : str or path
        A file, or a URL: ``sqlite:///books.db``, ``postgresql+psycopg://user@host/name``.
    wait : float
        Seconds to wait for another writer.
    """

    def __init__(self, address: str | Path, wait: float = WAIT):
        self._url = _read(str(address))
        self._wait = wait
        self._known = False
        self.file: Path | None = None
        url = self._url
        #: the address as it may be shown: no passwords, wherever they stand
        self.address = f"postgresql://{url.host or ''}/{url.database or ''}"
        if url.get_backend_name() == "sqlite":
            self.file = Path(str(url.database)).resolve()
            self.address = str(address)
        self._engine = self._made()

    def _made(self) -> Engine:
        if self.file is None:
            try:
                options: Any = {"connect_args": {"connect_timeout": max(2, int(self._wait))}}
                return create_engine(self._url, poolclass=NullPool, **options)
            except ModuleNotFoundError:
                raise HoldfastError(
                    "books on a PostgreSQL server need psycopg: pip install 'holdfast[postgres]'"
                ) from None
        place, wait = f"file:{quote(str(self.file))}?mode=rw", self._wait

        def connect() -> sqlite3.Connection:
            made = sqlite3.connect(place, timeout=wait, isolation_level=None, uri=True)
            made.execute("PRAGMA foreign_keys = ON")
            made.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            made.execute("PRAGMA synchronous = FULL")  # what is committed survives a power cut
            return made

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine

    def close(self) -> None:
        """Let connections go."""
        self._engine.dispose()

    def create(self) -> str | None:
        """Make the books, or bring those of an earlier version up to date.

        Returns the version they were of; ``None`` if there were none.
        """
        if self.file is not None and not self.file.exists():
            self._create_file(self.file)
        with self._worded(), self._engine.connect() as connection:
            before = _version(connection)
            connection.rollback()
            _refuse_newer(before, self.address)
            if before is None and inspect(connection).get_table_names():
                raise HoldfastError(
                    f"{self.address!r} is a database of something else: name a new one. Nothing "
                    "was done"
                )
            connection.rollback()
            if self.file is not None:
                raw: Any = connection.connection.driver_connection
                raw.execute("PRAGMA journal_mode = WAL")
            if before != REVISIONS[-1]:
                with connection.execution_options(writing=True).begin():
                    _upgrade(connection)
        return before

    def _create_file(self, file: Path) -> None:
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
        except OSError as failure:
            raise HoldfastError(
                f"cannot make a ledger at {self.address!r}: {failure.strerror}"
            ) from None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A look at the books as they are at one moment."""
        self._refuse_others()
        with self._worded(), self._engine.connect() as connection, connection.begin():
            if self.file is None:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            yield Session(bind=connection, expire_on_commit=False)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """The books, and nobody else writes in them meanwhile: all of it happens or nothing."""
        self._refuse_others()
        with self._worded(), self._engine.connect() as plain, _locked(plain) as connection:
            if self.file is None:
                milliseconds = int(1000 * self._wait)
                connection.execute(text(f"SET LOCAL lock_timeout = {milliseconds}"))
            session = Session(bind=connection, expire_on_commit=False)
            session.execute(select(Book.id).with_for_update()).all()
            yield session
            session.flush()

    def wipe(self) -> bool:
        """Let nothing remain of what was deleted; whether all of it could be done now."""
        with self._worded(), self._engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            if self.file is None:
                try:
                    alone.execute(text(f"SET lock_timeout = {int(1000 * self._wait)}"))
                    for name in PERSONAL:
                        alone.execute(text(f"VACUUM FULL {name}"))
                except DBAPIError:  # somebody reads, or there is no room: another time
                    return False
                return True
            raw: Any = connection.connection.driver_connection
            try:
                raw.execute("VACUUM")
                busy, *_ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError:  # somebody reads, or there is no room: another time
                return False
            return not busy

    def _refuse_others(self) -> None:
        """Refuse what is no ledger, or one of another version."""
        if self._known:
            return
        if self.file is not None and not self.file.is_file():
            raise HoldfastError(
                f"there is no ledger at {self.address!r}: make one with: holdfast ledger init"
            )
        with self._worded(), self._engine.connect() as connection:
            found = _version(connection)
        _refuse_newer(found, self.address)
        if found is None:
            raise HoldfastError(
                f"there is no ledger in {self.address!r}: make one with: holdfast ledger init"
            )
        if found != REVISIONS[-1]:
            raise HoldfastError(
                f"the ledger at {self.address!r} is of an earlier version ({found}; this is "
                f"{REVISIONS[-1]}): back it up, then bring it up to date with: holdfast ledger init"
            )
        self._known = True

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """What a database complains about, in words and without passwords."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as failure:
            raise self._in_words(failure) from None
        except SQLAlchemyError as failure:
            said = str(failure).splitlines()[0]
            raise HoldfastError(f"the ledger at {self.address!r}: {said}") from None

    def _in_words(self, failure: DBAPIError | sqlite3.Error) -> HoldfastError:
        cause = failure.orig if isinstance(failure, DBAPIError) else failure
        said = next((line for line in str(cause).splitlines() if line.strip()), "no answer").strip()
        secret = self._url.password
        if secret:
            said = said.replace(str(secret), "***")
        what = f"the ledger at {self.address!r}"
        if "locked" in said or "lock timeout" in said:
            return HoldfastError(
                f"{what} is being written by somebody else: nothing was done, try again"
            )
        if "full" in said and isinstance(cause, sqlite3.Error):
            return HoldfastError(f"{what}: the disk is full; nothing was written")
        if "disk I/O error" in said:
            return HoldfastError(f"{what} cannot be read or written: is the disk full, or faulty?")
        if "not a database" in said or "malformed" in said:
            return HoldfastError(f"{what} is no ledger: {said}")
        return HoldfastError(f"{what}: {said}; nothing was written")


def _read(address: str) -> Any:
    """The address of a database; a plain path is one of SQLite's files."""
    if "://" not in address:
        if re.match(r"(sqlite|postgres(ql)?)(\+\w+)?:", address, re.IGNORECASE):
            raise HoldfastError(
                "the ledger's address cannot be read: two slashes follow the colon, as in "
                "postgresql+psycopg://user@host/name"
            )
        return make_url("sqlite://").set(database=address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise HoldfastError(
            "the ledger's address cannot be read: it is a file, or like "
            "postgresql+psycopg://user@host/name"
        ) from None
    kind = url.get_backend_name()
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite" or not url.database:
        raise HoldfastError(
            f"ledgers are kept in SQLite files or on PostgreSQL, not on {kind!r} without a name"
            if kind == "sqlite"
            else f"ledgers are kept in SQLite files or on PostgreSQL, not on {kind!r}"
        )
    return url


@contextlib.contextmanager
def _locked(connection: Connection) -> Iterator[Connection]:
    writing = connection.execution_options(writing=True)
    with writing.begin():
        yield writing


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _refuse_newer(version: str | None, address: str) -> None:
    if version is not None and version not in REVISIONS:
        raise HoldfastError(
            f"the ledger at {address!r} was written by a newer version of Holdfast "
            f"({version}; this one knows {REVISIONS[-1]}): update Holdfast. Nothing was done"
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")

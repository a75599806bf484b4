"""The desk's own folder: who may come in, what runs, reports that are kept. No promises."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Double, Engine, QueuePool, Text, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE

#: of the tables below
VERSION = 1


class DeskTable(DeclarativeBase):
    """All tables of the desk; moments are seconds since 1970."""

    type_annotation_map = {str: Text, float: Double}  # noqa: RUF012


class User(DeskTable):
    """Somebody with a password; ``locked_until`` after too many wrong ones."""

    __tablename__ = "users"
    name: Mapped[str] = mapped_column(primary_key=True)
    role: Mapped[str]
    password: Mapped[str]
    failures: Mapped[int] = mapped_column(default=0)
    locked_until: Mapped[float] = mapped_column(default=0.0)
    must_change: Mapped[bool] = mapped_column(default=False)


class Visit(DeskTable):
    """Somebody who is signed in; the cookie itself is kept nowhere, only its hash."""

    __tablename__ = "visits"
    key: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(index=True)
    role: Mapped[str]
    csrf: Mapped[str]
    began: Mapped[float]
    seen: Mapped[float]


class Client(DeskTable):
    """A program with a token of its own, of which only the hash is kept."""

    __tablename__ = "clients"
    name: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    expires: Mapped[float]


class Ticket(DeskTable):
    """The token in the address the desk was started with: good for one visit."""

    __tablename__ = "tickets"
    key: Mapped[str] = mapped_column(primary_key=True)
    expires: Mapped[float]
    used: Mapped[bool] = mapped_column(default=False)


class Setting(DeskTable):
    """How the desk works: ``two_people`` is "yes" where honouring needs a second person."""

    __tablename__ = "settings"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Proposal(DeskTable):
    """Requests somebody wants honoured, waiting for a second person."""

    __tablename__ = "proposals"
    request: Mapped[int] = mapped_column(primary_key=True)
    by: Mapped[str]
    at: Mapped[float]


class Job(DeskTable):
    """A report being made, or made: an audit in a process of its own."""

    __tablename__ = "jobs"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    source: Mapped[str]
    asked: Mapped[str]
    by: Mapped[str]
    state: Mapped[str]
    stage: Mapped[str] = mapped_column(default="")
    done: Mapped[float] = mapped_column(default=0.0)
    message: Mapped[str] = mapped_column(default="")
    began: Mapped[float]
    ended: Mapped[float | None]


class Home:
    """A folder for its owner only, with a small database in it.

    Parameters
    ----------
    folder : path
    clock : callable, optional
        Seconds since 1970.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time):
        self.folder, self.clock = folder.absolute(), clock
        self._engine: Engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=16, max_overflow=64
        )
        event.listen(self._engine, "begin", _begin)

    @property
    def reports(self) -> Path:
        """Where reports are kept."""
        return self.folder / "reports"

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(
            self.folder / "desk.db", timeout=30, isolation_level=None, check_same_thread=False
        )
        made.execute("PRAGMA secure_delete = ON")
        return made

    def create(self) -> None:
        """Make the folder and its tables, or find them as they are."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.reports.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self.folder / "desk.db", os.O_CREAT | os.O_RDWR, PRIVATE))
        except OSError as failure:
            raise HoldfastError(
                f"cannot keep the desk's files in {str(self.folder)!r}: {failure.strerror}"
            ) from None
        try:
            with self._engine.connect() as connection:
                found = connection.execute(text("PRAGMA user_version")).scalar_one()
                connection.rollback()
                if found > VERSION:
                    raise HoldfastError(
                        f"{str(self.folder)!r} was written by a newer version of Holdfast: update "
                        "Holdfast. Nothing was done"
                    )
                raw: Any = connection.connection.driver_connection
                raw.execute("PRAGMA journal_mode = WAL")
                DeskTable.metadata.create_all(connection)
                connection.execute(text(f"PRAGMA user_version = {VERSION}"))
                connection.commit()
        except DBAPIError as failure:
            raise HoldfastError(f"{str(self.folder / 'desk.db')!r}: {failure.orig}") from None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A look at the desk's own tables."""
        with self._engine.connect() as connection, connection.begin():
            yield Session(bind=connection, expire_on_commit=False)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """The desk's own tables, and nobody else writes in them meanwhile."""
        with self._engine.connect() as plain:
            connection = plain.execution_options(writing=True)
            with connection.begin():
                session = Session(bind=connection, expire_on_commit=False)
                yield session
                session.flush()

    def setting(self, name: str, default: str = "") -> str:
        """How the desk works."""
        with self.reading() as session:
            found = session.get(Setting, name)
            return default if found is None else found.value

    def set(self, name: str, value: str) -> None:
        """Have the desk work another way."""
        with self.writing() as session:
            session.merge(Setting(name=name, value=value))

    def close(self) -> None:
        """Let connections go."""
        self._engine.dispose()


def _begin(connection: Any) -> None:
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

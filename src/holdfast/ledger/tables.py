"""What the books hold: one class per table.

Moments are text in UTC (``2026-01-31T09:00:00.000000Z``), which sorts as it reads on every
database; days are dates. What is personal can be emptied: a record outlives the person in it.
"""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: every version of the books there has been, oldest first
REVISIONS = ("0001",)

#: what a promise can be
LIVE, BROKEN, MENDED, TOLD = "live", "broken", "mended", "told"
KEPT, EXPIRED, WITHDRAWN = "kept", "expired", "withdrawn"
PROMISE_STATES = (LIVE, BROKEN, MENDED, TOLD, KEPT, EXPIRED, WITHDRAWN)

#: what a request can be, in the words of OpenDSR
PENDING, IN_PROGRESS, COMPLETED, CANCELLED = "pending", "in_progress", "completed", "cancelled"
OPEN = (PENDING, IN_PROGRESS)

#: why a request waits to be refused
UNKNOWN = "nobody of this id is known"

#: a chore: let nothing remain of what was deleted
WIPE = "wipe"


class Base(DeclarativeBase):
    """All tables; constraints have names, so that migrations can find them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        str: Text,
        float: Double,
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


class Book(Base):
    """The one line about the books themselves; whoever writes locks it first.

    ``settings`` are those of the case (columns, method, rules, labels) and of the desk (days until
    a request is due, how many erasures certificates look ahead); ``files`` is the folder of the
    table and the model, relative to the database's own where that is a file.
    """

    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    opened: Mapped[str]
    files: Mapped[str]
    settings: Mapped[dict[str, Any]]


class ModelVersion(Base):
    """A model people were, or are, judged by; the last one is in force.

    Versions of one ``lineage`` differ by erasures only: a certificate given under one of them
    holds for the others, less the people erased since (``erased`` counts them from its beginning).
    """

    __tablename__ = "models"
    id: Mapped[int] = mapped_column(primary_key=True)
    sha256: Mapped[str]
    kind: Mapped[str]
    settings: Mapped[dict[str, Any]]
    target: Mapped[float]
    rows: Mapped[int]
    lineage: Mapped[int]
    erased: Mapped[int]
    registered: Mapped[str]
    reason: Mapped[str]
    path: Mapped[str | None]
    table_path: Mapped[str | None]
    table_sha256: Mapped[str | None]


class Person(Base):
    """Somebody with a promise or a request; the log knows them by ``token`` only.

    The token is a hash of name and salt: once this line is gone nobody can tell whose it was.
    """

    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    salt: Mapped[str]
    token: Mapped[str] = mapped_column(unique=True)


class Promise(Base):
    """What somebody was told to reach, and what became of it.

    ``certified``: no so many erasures could break it, counted from the model ``certified_under``.
    ``mends`` is the promise this one takes the place of.
    """

    __tablename__ = "promises"
    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"), index=True)
    reference: Mapped[str | None]
    factual: Mapped[list[Any] | None]
    point: Mapped[list[Any] | None]
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), index=True)
    target: Mapped[float]
    margin: Mapped[float | None]
    certified: Mapped[int | None]
    certified_under: Mapped[int | None] = mapped_column(ForeignKey("models.id"))
    issued: Mapped[datetime.date]
    expires: Mapped[datetime.date | None]
    state: Mapped[str] = mapped_column(index=True)
    since: Mapped[str]
    reason: Mapped[str]
    mends: Mapped[int | None] = mapped_column(ForeignKey("promises.id"), index=True)


class Request(Base):
    """Somebody asks to be erased."""

    __tablename__ = "requests"
    id: Mapped[int] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(unique=True)
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"), index=True)
    received: Mapped[datetime.date]
    due: Mapped[datetime.date] = mapped_column(index=True)
    extension: Mapped[str | None]
    state: Mapped[str] = mapped_column(index=True)
    since: Mapped[str]
    reason: Mapped[str]
    by: Mapped[str]
    model_id: Mapped[int | None] = mapped_column(ForeignKey("models.id"), index=True)
    told: Mapped[dict[str, Any]]


class Break(Base):
    """A promise that a model broke, and by how much."""

    __tablename__ = "breaks"
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), index=True)
    promise_id: Mapped[int] = mapped_column(ForeignKey("promises.id"), index=True)
    before: Mapped[float | None]
    after: Mapped[float | None]


class Letter(Base):
    """What somebody has to be told; ``content`` is theirs and goes with them."""

    __tablename__ = "letters"
    id: Mapped[int] = mapped_column(primary_key=True)
    promise_id: Mapped[int] = mapped_column(ForeignKey("promises.id"), index=True)
    content: Mapped[dict[str, Any] | None]
    due: Mapped[str]
    written: Mapped[str | None]
    told: Mapped[str | None]


class KnownFile(Base):
    """A file outside the books that has personal data from them, or that they were filled from."""

    __tablename__ = "files"
    id: Mapped[int] = mapped_column(primary_key=True)
    role: Mapped[str]
    path: Mapped[str] = mapped_column(unique=True)
    made: Mapped[str]
    sha256: Mapped[str | None]


class Chore(Base):
    """What is left to do after something was decided: done by whoever comes next if need be."""

    __tablename__ = "chores"
    id: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[str]
    path: Mapped[str]


class Entry(Base):
    """A line of the log; each has the hash of the one before in its own."""

    __tablename__ = "log"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[str]
    by: Mapped[str]
    event: Mapped[str]
    body: Mapped[str]
    before: Mapped[str]
    hash: Mapped[str]


Index("ix_promises_state_certified", Promise.state, Promise.certified)

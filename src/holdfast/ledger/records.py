"""Lines of the books, read and changed together with the log."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.ledger.chain import Log, fresh_salt, salted
from holdfast.ledger.tables import (
    BROKEN,
    EXPIRED,
    LIVE,
    MENDED,
    Book,
    Chore,
    KnownFile,
    Letter,
    ModelVersion,
    Person,
    Promise,
    Request,
)

if TYPE_CHECKING:
    import pandas as pd

#: how many values one question to a database may have
MANY = 500


def book_of(session: Session) -> Book:
    """The line about the books themselves."""
    found = session.execute(select(Book)).scalar_one_or_none()
    if found is None:
        raise HoldfastError("the ledger is not finished: run holdfast ledger init again")
    return found


def newest_model(session: Session) -> ModelVersion | None:
    """The model in force; ``None`` where the books are empty."""
    newest = select(ModelVersion).order_by(ModelVersion.id.desc()).limit(1)
    return session.execute(newest).scalar_one_or_none()


def model_in_force(session: Session) -> ModelVersion:
    """The model people are judged by now."""
    found = newest_model(session)
    if found is None:
        raise HoldfastError(
            "the ledger is empty: fill it with holdfast ledger import and the settings of an audit"
        )
    return found


#: files outside the books that have people in them: removed, or made anew, when one is erased
CASE_FILE, LETTERS, EXPORT = "case file", "letters", "export"

#: files the books were filled from, and those of them in which somebody is who was erased since
SOURCE, OUTDATED = "source", "outdated source"

#: the list of letters in a folder of them
SUMMARY = "summary.html"


def pages_of(letter: int) -> list[str]:
    """What the files of a letter are called."""
    return [f"letter-{letter:05d}.{kind}" for kind in ("html", "pdf")]


def take_back_pages(session: Session, promises: Sequence[int]) -> None:
    """Pages of letters about some promises are to go: they do not hold, or nobody may know.

    The list of all letters goes with them; writing the letters again makes another.
    """
    numbers: list[int] = []
    for start in range(0, len(promises), MANY):
        about = Letter.promise_id.in_(promises[start : start + MANY])
        numbers += session.execute(select(Letter.id).where(about)).scalars()
        session.execute(update(Letter).where(about).values(written=None))
    folders = select(KnownFile.path).where(KnownFile.role == LETTERS)
    for folder in session.execute(folders).scalars().all() if numbers else ():
        for name in [*(page for n in numbers for page in pages_of(n)), SUMMARY]:
            session.add(Chore(what="remove", path=str(Path(folder, name))))
    session.flush()


def pairs(session: Session, asked: Any) -> dict[Any, Any]:
    """What a question with two columns finds: the second by the first."""
    return {one: other for one, other in session.execute(asked)}


def request_of(session: Session, number: int) -> Request:
    """A request by its number."""
    found = session.get(Request, number) if 0 < number < 2**31 else None
    if found is None:
        raise HoldfastError(f"there is no request {number}: nothing was done")
    return found


def next_id(session: Session, table: Any) -> int:
    """The number of the next line of a table."""
    return (session.execute(select(func.max(table.id))).scalar() or 0) + 1


def people_named(session: Session, names: Iterable[str]) -> dict[str, Person]:
    """Those of some people whom the books know, by name."""
    wanted, found = list(dict.fromkeys(names)), {}
    for start in range(0, len(wanted), MANY):
        some = select(Person).where(Person.name.in_(wanted[start : start + MANY]))
        found.update({each.name: each for each in session.execute(some).scalars()})
    return found


def people_for(session: Session, names: Iterable[str]) -> dict[str, Person]:
    """The lines of some people, made where there are none."""
    wanted = list(dict.fromkeys(names))
    found, lines = people_named(session, wanted), []
    number = next_id(session, Person)
    for name in wanted:
        if name not in found:
            salt = fresh_salt()
            line = {"id": number, "name": name, "salt": salt, "token": salted(salt, name)}
            lines.append(line)
            found[name] = Person(**line)
            number += 1
    if lines:
        session.execute(insert(Person), lines)
    return found


def cells(table: pd.DataFrame) -> list[list[Any]]:
    """Values as the books keep them: a list per row, nothing where a value is missing."""
    found: list[list[Any]] = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    return found


def move(
    session: Session, log: Log, promises: Sequence[tuple[int, str]], to: str, reason: str
) -> None:
    """Promises, by number and the state they are in, change their state."""
    if not promises:
        return
    for number, state in promises:
        log.add("promise", promise=number, was=state, now=to, reason=reason)
    lines = [
        {"id": number, "state": to, "since": log.at, "reason": reason} for number, _ in promises
    ]
    session.execute(update(Promise), lines)


def move_request(session: Session, log: Log, request: Request, to: str, reason: str) -> None:
    """A request changes its state."""
    log.add("request", request=request.id, was=request.state, now=to, reason=reason)
    request.state, request.since, request.reason = to, log.at, reason
    session.flush()


def expire(session: Session, log: Log) -> int:
    """Promises whose day has passed have expired; how many."""
    due = select(Promise.id, Promise.state).where(
        Promise.state.in_((LIVE, BROKEN, MENDED)), Promise.expires < log.day
    )
    found = [(number, state) for number, state in session.execute(due)]
    move(session, log, found, EXPIRED, "its day has passed")
    take_back_pages(session, [number for number, _ in found])
    return len(found)


def certified_left(
    session: Session, version: ModelVersion, without: Sequence[int] = ()
) -> dict[int, int]:
    """How many more erasures every live promise provably survives.

    A certificate covers all erasures since it was given: of k, k − j are left after j of them. One
    given before the model was replaced for another reason is void.
    """
    asked = (
        select(Promise.id, Promise.certified, ModelVersion.erased)
        .join(ModelVersion, Promise.certified_under == ModelVersion.id)
        .where(
            Promise.state == LIVE,
            Promise.person_id.not_in(without),
            Promise.certified.is_not(None),
            ModelVersion.lineage == version.lineage,
        )
    )
    left = {n: int(k or 0) - (version.erased - then) for n, k, then in session.execute(asked)}
    return {n: k for n, k in left.items() if k >= 0}


def promised_values(line: dict[str, Any]) -> list[Any]:
    """What must not change of a promise once it was made."""
    days = [None if line[name] is None else str(line[name]) for name in ("issued", "expires")]
    return [line["reference"], line["factual"], line["point"], line["target"], *days]


def refuse_no_text(text: str | None, what: str) -> None:
    """Refuse what cannot be written down: bytes that are no text."""
    try:
        (text or "").encode()
        fine = "\0" not in (text or "")
    except UnicodeEncodeError:
        fine = False
    if not fine:
        raise HoldfastError(f"{what} has bytes that are no text: nothing was done")


def as_day(text: str | datetime.date | None, what: str) -> datetime.date | None:
    """A day as people write it to machines."""
    if text is None or isinstance(text, datetime.date):
        return text
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise HoldfastError(f"{what}: {text!r} is no day; days are written 2026-01-31") from None

"""Looking things up in the books: promises by page, one promise with all that became of it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.ledger.records import MANY, certified_left, newest_model, pairs
from holdfast.ledger.tables import (
    PROMISE_STATES,
    Break,
    Entry,
    Letter,
    ModelVersion,
    Person,
    Promise,
    Request,
)

#: what promises can be sorted by
SORTS = {
    "number": Promise.id,
    "id": Promise.reference,
    "state": Promise.state,
    "since": Promise.since,
    "issued": Promise.issued,
    "expires": Promise.expires,
    "margin": Promise.margin,
    "certified": Promise.certified,
}

#: promises on one page
PER_PAGE = 50

#: lines of the log that change nothing in the books
ASIDE = ("looked", "proposed", "signed in")


@dataclass(frozen=True)
class PromiseLine:
    """A promise in a list; ``left``: erasures it provably survives yet, where that is known."""

    number: int
    reference: str | None
    state: str
    since: str
    issued: str
    expires: str | None
    margin: float | None
    left: int | None


@dataclass(frozen=True)
class PromisePage:
    """Some promises, and how many there are."""

    lines: list[PromiseLine]
    total: int
    page: int
    pages: int


@dataclass(frozen=True)
class PromiseRecord:
    """One promise with all that became of it.

    Attributes
    ----------
    line : PromiseLine
    person : str or None
        What requests call its holder; ``None`` where they were erased.
    factual, point : values in the order of the ledger's features, or ``None``
    target, reason
    mends, mended_by : numbers of the promises before and after it
    others : further promises of the same person, by number with their state
    requests : of the same person, by number with their state
    breaks : with ``at``, ``before``, ``after``
    letters : with ``due``, ``written``, ``told``
    history : lines of the log about it, oldest first
    """

    line: PromiseLine
    person: str | None
    factual: list[Any] | None
    point: list[Any] | None
    target: float
    reason: str
    mends: int | None
    mended_by: int | None
    others: dict[int, str] = field(default_factory=dict)
    requests: dict[int, str] = field(default_factory=dict)
    breaks: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)


def promises_on_page(
    session: Session,
    *,
    state: str | None = None,
    about: str = "",
    sort: str = "number",
    descending: bool = False,
    page: int = 1,
    per_page: int = PER_PAGE,
) -> PromisePage:
    """Promises of a state whose reference or holder has a text in it, sorted."""
    if state is not None and state not in PROMISE_STATES:
        raise HoldfastError(f"promises are {', '.join(PROMISE_STATES)}; not {state!r}")
    if sort not in SORTS:
        raise HoldfastError(f"promises are sorted by {', '.join(SORTS)}; not {sort!r}")
    asked = select(Promise).outerjoin(Person, Promise.person_id == Person.id)
    if state is not None:
        asked = asked.where(Promise.state == state)
    if about:
        asked = asked.where(
            or_(
                Promise.reference.contains(about, autoescape=True),
                Person.name.contains(about, autoescape=True),
            )
        )
    total = session.execute(select(func.count()).select_from(asked.subquery())).scalar_one()
    pages = max(1, -(-total // per_page))
    page = min(max(page, 1), pages)
    key = SORTS[sort]
    order = key.desc().nulls_last() if descending else key.asc().nulls_last()
    asked = asked.order_by(order, Promise.id).limit(per_page).offset((page - 1) * per_page)
    left = _left(session)
    lines = [_line(promise, left) for promise in session.execute(asked).scalars()]
    return PromisePage(lines, total, page, pages)


def _left(session: Session) -> dict[int, int]:
    version = newest_model(session)
    return {} if version is None else certified_left(session, version)


def _line(promise: Promise, left: dict[int, int]) -> PromiseLine:
    return PromiseLine(
        promise.id,
        promise.reference,
        promise.state,
        promise.since,
        promise.issued.isoformat(),
        None if promise.expires is None else promise.expires.isoformat(),
        promise.margin,
        left.get(promise.id),
    )


def promise_record(session: Session, number: int) -> PromiseRecord:
    """One promise, by its number."""
    promise = session.get(Promise, number) if 0 < number < 2**31 else None
    if promise is None:
        raise HoldfastError(f"there is no promise {number}")
    person = None if promise.person_id is None else session.get_one(Person, promise.person_id)
    others: dict[int, str] = {}
    requests: dict[int, str] = {}
    if person is not None:
        mine = select(Promise.id, Promise.state).where(Promise.person_id == person.id)
        others = pairs(session, mine.where(Promise.id != number).order_by(Promise.id))
        asked = select(Request.id, Request.state).where(Request.person_id == person.id)
        requests = pairs(session, asked)
    after = session.execute(select(Promise.id).where(Promise.mends == number)).scalar()
    breaks = session.execute(
        select(Break, ModelVersion.registered)
        .join(ModelVersion, Break.model_id == ModelVersion.id)
        .where(Break.promise_id == number)
        .order_by(Break.id)
    )
    letters = session.execute(
        select(Letter).where(Letter.promise_id == number).order_by(Letter.id)
    ).scalars()
    return PromiseRecord(
        _line(promise, _left(session)),
        None if person is None else person.name,
        promise.factual,
        promise.point,
        promise.target,
        promise.reason,
        promise.mends,
        after,
        others,
        requests,
        [{"at": at, "before": b.before, "after": b.after} for b, at in breaks],
        [
            {"letter": each.id, "due": each.due, "written": each.written, "told": each.told}
            for each in letters
        ],
        _history(session, number),
    )


def _history(session: Session, number: int) -> list[dict[str, Any]]:
    """What the log says of a promise."""
    about = f'"promise":{number}'
    asked = select(Entry).where(Entry.body.contains(about, autoescape=True)).order_by(Entry.id)
    found = []
    for entry in session.execute(asked).scalars():
        body = json.loads(entry.body)
        if body.get("promise") == number:
            said = {k: v for k, v in body.items() if k not in ("promise", "values", "person")}
            found.append({"at": entry.at, "by": entry.by, "event": entry.event, **said})
    return found


def changes_since(session: Session, at: str) -> dict[str, dict[str, int]]:
    """What has come to another state since a moment: promises, requests, and models."""
    moved = select(Promise.state, func.count()).where(Promise.since >= at)
    asked = select(Request.state, func.count()).where(Request.since >= at)
    models = select(ModelVersion.reason, func.count()).where(ModelVersion.registered >= at)
    return {
        "promises": pairs(session, moved.group_by(Promise.state)),
        "requests": pairs(session, asked.group_by(Request.state)),
        "models": pairs(session, models.group_by(ModelVersion.reason)),
    }


def last_change(session: Session) -> str:
    """The hash of the log's last line that changed something: books put back have another."""
    asked = select(Entry.hash).where(Entry.event.not_in(ASIDE)).order_by(Entry.id.desc()).limit(1)
    return str(session.execute(asked).scalar() or "")


def moment_before(day: datetime.date, days: int) -> str:
    """The beginning of a day some days before another, as the books write moments."""
    return f"{day - datetime.timedelta(days=days)}T00:00:00.000000Z"


def tokens_of(session: Session, promises: Sequence[int]) -> list[str]:
    """By what the log knows the holders of some promises."""
    found: list[str] = []
    for start in range(0, len(promises), MANY):
        asked = select(Person.token).join(Promise, Promise.person_id == Person.id)
        found += session.execute(
            asked.where(Promise.id.in_(promises[start : start + MANY])).distinct()
        ).scalars()
    return sorted(set(found))

"""What the books say: how things stand, and whether the books are as they were written."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from holdfast.files import sha256
from holdfast.ledger.chain import broken_at, digest, lines, salted
from holdfast.ledger.places import Places
from holdfast.ledger.records import (
    EXPORT,
    LETTERS,
    OUTDATED,
    book_of,
    certified_left,
    newest_model,
    pairs,
    promised_values,
)
from holdfast.ledger.tables import (
    BROKEN,
    LIVE,
    MENDED,
    OPEN,
    PROMISE_STATES,
    Book,
    Break,
    Chore,
    Entry,
    KnownFile,
    Letter,
    ModelVersion,
    Person,
    Promise,
    Request,
)


@dataclass
class Status:
    """How things stand.

    Attributes
    ----------
    promises : by state
    overdue : live promises whose day has passed, not yet moved
    requests : by state
    due : open requests, soonest first: number, due, received, extended
    certified_left : how many live promises provably survive 0, 1, 2 … more erasures
    uncertified : live promises of which nothing is proven, or whose certificate is used up
    letters : how many are due, and how many written and not yet told
    model : what is in force
    chores : what is left to be tidied up
    """

    promises: dict[str, int]
    overdue: int
    requests: dict[str, int]
    due: list[dict[str, Any]]
    certified_left: dict[int, int]
    uncertified: int
    letters: dict[str, int]
    model: dict[str, Any] | None
    chores: int


def standing(session: Session, today: datetime.date, most: int = 20) -> Status:
    """How things stand on a day."""
    states = pairs(session, select(Promise.state, func.count()).group_by(Promise.state))
    asked = pairs(session, select(Request.state, func.count()).group_by(Request.state))
    overdue = session.execute(
        select(func.count()).where(Promise.state == LIVE, Promise.expires < today)
    ).scalar_one()
    due = session.execute(
        select(Request).where(Request.state.in_(OPEN)).order_by(Request.due, Request.id).limit(most)
    ).scalars()
    version = newest_model(session)
    left = {} if version is None else certified_left(session, version)
    counts = Counter(left.values())
    holders = (
        select(func.max(Letter.id).label("last"))
        .join(Promise, Letter.promise_id == Promise.id)
        .where(*to_be_told(today))
        .group_by(Promise.person_id, Promise.reference)
        .subquery()
    )
    letters = session.execute(
        select(func.count(), func.count(Letter.written)).join(holders, Letter.id == holders.c.last)
    ).one()
    return Status(
        {state: states.get(state, 0) for state in PROMISE_STATES if states.get(state)},
        overdue,
        asked,
        [
            {
                "request": request.id,
                "due": request.due.isoformat(),
                "received": request.received.isoformat(),
                "extended": request.extension is not None,
                "late": request.due < today,
            }
            for request in due
        ],
        dict(sorted(counts.items())),
        states.get(LIVE, 0) - len(left),
        {"due": letters[0] - letters[1], "written": letters[1]},
        None if version is None else _about(version),
        session.execute(select(func.count(Chore.id))).scalar_one(),
    )


def _about(version: ModelVersion) -> dict[str, Any]:
    return {
        "version": version.id,
        "kind": version.kind,
        "sha256": version.sha256,
        "target": version.target,
        "rows": version.rows,
        "erased_since_certified": version.erased,
        "registered": version.registered,
        "reason": version.reason,
        "file": version.path,
        "table": version.table_path,
    }


def to_be_told(day: datetime.date) -> tuple[Any, ...]:
    """Letters that are due: of promises broken or mended whose holders do not know it yet."""
    state = Promise.state.in_((BROKEN, MENDED))
    alive = or_(Promise.expires.is_(None), Promise.expires >= day)
    return Letter.told.is_(None), Letter.content.is_not(None), state, alive


@dataclass
class Verified:
    """Whether the books are as they were written; ``faults`` is empty then."""

    lines: int
    head: str
    content: str
    faults: list[str] = field(default_factory=list)


def verified(session: Session, places: Places, head: str | None = None) -> Verified:
    """The chain followed, states replayed from it, values and files held against their hashes."""
    broken, count, last = broken_at(lines(session))
    found = Verified(count, last, content_hash(session))
    if broken is not None:
        found.faults.append(f"line {broken} of the log does not follow from those before it")
        return found
    if head is not None:
        known = session.execute(select(Entry.id).where(Entry.hash == head)).first()
        if known is None:
            found.faults.append("no line of the log has the hash given: lines at its end are gone")
    told = _replayed(session)
    found.faults += _promises_against(session, told)
    found.faults += _requests_against(session, told)
    found.faults += _models_against(session, told)
    found.faults += _people_against(session)
    if told.settings is not None and told.settings != digest(book_of(session).settings):
        found.faults.append("the ledger's settings are not what the log says")
    found.faults += _files(session, places)
    return found


@dataclass
class _Told:
    """What the log tells, by number: what was written last about each."""

    promises: dict[int, dict[str, Any]] = field(default_factory=dict)
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    models: dict[int, dict[str, Any]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    settings: str | None = None


#: which events are about what
_ABOUT = {
    "issued": "promise",
    "promise": "promise",
    "certified": "promise",
    "received": "request",
    "request": "request",
    "extended": "request",
    "model": "model",
}


def _replayed(session: Session) -> _Told:
    """Promises, requests and models as the log tells them."""
    told = _Told()
    for entry in lines(session):
        noun = _ABOUT.get(entry.event)
        body = json.loads(entry.body)
        if entry.event == "forgotten":
            told.forgotten.add(body["person"])
        if entry.event in ("opened", "settings"):
            told.settings = body["settings"]
        if entry.event in ("issued", "promise", "received", "request"):
            body["since"] = entry.at
        if noun is not None:
            getattr(told, f"{noun}s").setdefault(body[noun], {}).update(body)
    return told


def _promises_against(session: Session, told: _Told) -> list[str]:
    asked = select(
        *(Promise.id, Promise.state, Promise.since, Promise.certified, Promise.certified_under),
        *(Promise.reference, Promise.factual, Promise.point, Promise.target),
        *(Promise.issued, Promise.expires, Promise.person_id, Person.salt, Person.token),
    ).outerjoin(Person, Promise.person_id == Person.id)
    faults, seen = [], set()
    for line in session.execute(asked.execution_options(yield_per=5000)):
        seen.add(line.id)
        log = told.promises.get(line.id, {})
        if log.get("now") != line.state or log.get("since") != line.since:
            said = log.get("now", "nothing")
            faults.append(f"promise {line.id} is {line.state!r}, and the log says {said!r}")
        elif line.certified != log["certified"] or (
            line.certified is not None and line.certified_under != log["model"]
        ):
            faults.append(f"the certificate of promise {line.id} is not what the log says")
        elif line.token != log["person"] and log["person"] not in told.forgotten:
            faults.append(f"promise {line.id} is somebody else's, by the log")
        elif line.token is not None and (
            salted(line.salt, promised_values(line._asdict())) != log["values"]
        ):
            faults.append(f"what promise {line.id} promises is not what the log says")
        elif line.token is None and (line.point, line.factual, line.reference) != (None,) * 3:
            faults.append(f"promise {line.id} has values of nobody")
    return faults + [f"promise {n} is gone from the books" for n in told.promises.keys() - seen]


def _requests_against(session: Session, told: _Told) -> list[str]:
    asked = select(
        *(Request.id, Request.state, Request.since, Request.due, Request.received),
        *(Request.extension,),
        *(Request.reference, Person.token),
    ).outerjoin(Person, Request.person_id == Person.id)
    now = {line.id: line for line in session.execute(asked)}
    faults = []
    for number in sorted(told.requests.keys() | now.keys()):
        log, line = told.requests.get(number, {}), now.get(number)
        state = None if line is None else line.state
        if line is None or log.get("now") != state:
            faults.append(f"request {number} is {state!r}, and the log says {log.get('now')!r}")
        elif log["due"] != line.due.isoformat():
            faults.append(f"request {number} is due {line.due}, and the log says {log['due']}")
        elif line.state in OPEN and line.token != log["person"]:
            faults.append(f"request {number} is somebody else's, by the log")
        elif (log["since"], log["received"], log["reference"], log.get("why")) != (
            line.since,
            line.received.isoformat(),
            line.reference,
            line.extension,
        ):
            faults.append(f"request {number} is not as it was received, by the log")
    return faults


def _people_against(session: Session) -> list[str]:
    return [
        f"person {person.id} has another name than the one their token was made of"
        for person in session.execute(select(Person)).scalars()
        if salted(person.salt, person.name) != person.token
    ]


def _models_against(session: Session, told: _Told) -> list[str]:
    names = ("sha256", "kind", "target", "lineage", "erased", "reason", "rows")
    versions = {version.id: version for version in session.execute(select(ModelVersion)).scalars()}
    faults = []
    for number in sorted(told.models.keys() | versions.keys()):
        log, version = told.models.get(number, {}), versions.get(number)
        faults += [
            f"the {name} of model {number} is not what the log says"
            for name in names
            if log.get(name) != getattr(version, name, None)
        ]
        if version is not None and log.get("settings") != digest(version.settings):
            faults.append(f"the settings of model {number} are not what the log says")
        if number == max(versions, default=0) and log.get("table") != versions[number].table_sha256:
            faults.append(f"the table of model {number} is not what the log says")
    return faults


def _files(session: Session, places: Places) -> list[str]:
    version = newest_model(session)
    if version is None:
        return []
    faults = []
    for what, name, wanted in (
        ("table", version.table_path, version.table_sha256),
        ("model", version.path, version.sha256),
    ):
        place = places.path(str(name))
        if not place.is_file():
            faults.append(f"the {what} in force is missing: {str(place)!r}")
        elif sha256(place) != wanted:
            faults.append(f"the {what} in force is not the one on record: {str(place)!r}")
    return faults


#: tables whose content makes the books what they are
LOGICAL = (ModelVersion, Person, Promise, Request, Break, Letter, KnownFile, Entry)


def content(session: Session) -> dict[str, Any]:
    """Everything the books hold, as plain values."""
    book = book_of(session)
    found: dict[str, Any] = {Book.__tablename__: [{"opened": book.opened, **book.settings}]}
    for table in LOGICAL:
        columns = [column.name for column in table.__table__.columns]
        asked = select(*table.__table__.columns).order_by(table.id)
        if table is KnownFile:  # what would be removed wherever it is does not travel
            asked = asked.where(KnownFile.role.in_((LETTERS, EXPORT, OUTDATED)))
        found[table.__tablename__] = [
            {name: _plain(value) for name, value in zip(columns, line, strict=True)}
            for line in session.execute(asked)
        ]
    return found


def content_hash(session: Session) -> str:
    """The hash of everything the books hold."""
    return digest(content(session))


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value

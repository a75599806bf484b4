"""Requests: received, extended, refused, listed."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.ledger.chain import Log
from holdfast.ledger.ground import names_in_table
from holdfast.ledger.opendsr import Incoming, Lookup
from holdfast.ledger.places import Places
from holdfast.ledger.records import (
    MANY,
    book_of,
    expire,
    model_in_force,
    move_request,
    next_id,
    people_for,
    people_named,
    refuse_no_text,
    request_of,
)
from holdfast.ledger.tables import (
    CANCELLED,
    COMPLETED,
    IN_PROGRESS,
    OPEN,
    PENDING,
    UNKNOWN,
    Person,
    Promise,
    Request,
)

#: how long ago a request may have been received
AGO = datetime.timedelta(days=3650)


def known_names(session: Session, places: Places) -> set[str]:
    """Everybody who can be erased: in the training table, or holding a promise."""
    inside = names_in_table(book_of(session), model_in_force(session), places)
    holders = select(Person.name).join(Promise, Promise.person_id == Person.id).distinct()
    return inside | set(session.execute(holders).scalars())


def received(
    session: Session,
    places: Places,
    ids: Sequence[str],
    by: str,
    *,
    incoming: Sequence[Incoming] = (),
    day: datetime.date | None = None,
    unknown: bool = False,
    at: datetime.datetime | None = None,
) -> list[Request]:
    """Requests written down, by id or as they came from another system.

    Parameters
    ----------
    unknown : bool
        Whether requests of people nobody knows are written down too: they wait to be refused.
    """
    log, book = Log(session, by, at), book_of(session)
    known = known_names(session, places)
    today = day or log.day
    wanted: list[tuple[str, str, datetime.date, dict[str, Any]]] = []
    lookup = Lookup(known)
    for name in dict.fromkeys(ids):
        if not name.strip():
            raise HoldfastError("an id is empty: nothing was written down")
        if name not in known and not unknown:
            raise _nobody(f"{name!r} is")
        wanted.append((name, str(uuid.uuid4()), today, {}))
    for number, each in enumerate(incoming, 1):
        found = lookup(each)
        if found is None and not (unknown and each.form == "raw"):
            raise _nobody(f"the person of request {each.reference} (number {number} of them) is")
        wanted.append((found or each.value, each.reference, each.submitted or today, each.told))
    for name, reference, start, _ in wanted:
        refuse_no_text(name, f"the id of request {reference}")
        if not log.day - AGO <= start <= log.day:
            when = "in the future" if start > log.day else "more than ten years ago"
            raise HoldfastError(f"{start} is {when}: nothing was written down")
    _refuse_twice(session, wanted)
    expire(session, log)
    people = people_for(session, [name for name, *_ in wanted])
    number, lines = next_id(session, Request), []
    for name, reference, start, told in wanted:
        due = start + datetime.timedelta(days=int(book.settings["due_days"]))
        lines.append(
            {
                "id": number,
                "reference": reference,
                "person_id": people[name].id,
                "received": start,
                "due": due,
                "extension": None,
                "state": PENDING,
                "since": log.at,
                "reason": "" if name in known else UNKNOWN,
                "by": by,
                "model_id": None,
                "told": told,
            }
        )
        log.add(
            "received",
            request=number,
            reference=reference,
            person=people[name].token,
            received=start.isoformat(),
            due=due.isoformat(),
            now=PENDING,
        )
        number += 1
    session.execute(insert(Request), lines)
    log.write()
    return [session.get_one(Request, line["id"]) for line in lines]


def _nobody(who: str) -> HoldfastError:
    return HoldfastError(
        f"{who} neither in the training table nor holding a promise: nothing was written down. "
        "Check the id; to keep a request of somebody nobody knows, until it is refused, say "
        "⟦unknown⟧"
    )


def _refuse_twice(session: Session, wanted: Sequence[tuple[str, str, Any, Any]]) -> None:
    """Refuse a request that is there already, by its own id or by whose it is."""
    if not wanted:
        raise HoldfastError("nobody asks to be erased: name ids, or a file of ids or requests")
    references = [reference for _, reference, *_ in wanted]
    names = [name for name, *_ in wanted]
    for what, given in (("request", references), ("person", names)):
        if len(set(given)) < len(given):
            raise HoldfastError(f"the same {what} comes twice: nothing was written down")
    for start in range(0, len(references), MANY):
        some = Request.reference.in_(references[start : start + MANY])
        found = session.execute(select(Request).where(some)).scalars().first()
        if found is not None:
            raise HoldfastError(
                f"request {found.reference} is here already, as number {found.id} "
                f"({found.state} since {found.since[:10]}): nothing was written down"
            )
    people = {person.id: name for name, person in people_named(session, names).items()}
    numbers = list(people)
    for start in range(0, len(numbers), MANY):
        open_now = select(Request).where(
            Request.person_id.in_(numbers[start : start + MANY]), Request.state.in_(OPEN)
        )
        found = session.execute(open_now).scalars().first()
        if found is not None:
            raise HoldfastError(
                f"{people[int(str(found.person_id))]!r} has asked already: request {found.id}, "
                f"due {found.due}. Nothing was written down"
            )


def _open(session: Session, number: int) -> Request:
    request = request_of(session, number)
    if request.state not in OPEN:
        done = "honoured" if request.state == COMPLETED else f"closed ({request.reason})"
        raise HoldfastError(
            f"request {number} was {done} on {request.since[:10]}: nothing was done"
        )
    return request


def refused(
    session: Session, number: int, reason: str, by: str, at: datetime.datetime | None = None
) -> Request:
    """A request closed without erasing anybody, and why."""
    refuse_no_text(reason, "the reason")
    if not reason.strip():
        raise HoldfastError("a refusal needs its ⟦reason⟧")
    log, request = Log(session, by, at), _open(session, number)
    move_request(session, log, request, CANCELLED, reason)
    log.write()
    _let_go(session, request)
    return request


def _let_go(session: Session, request: Request) -> None:
    """Somebody with neither a promise nor another request has no line in the books."""
    person = request.person_id
    request.person_id = None
    session.flush()
    for table in (Promise, Request):
        if session.execute(select(table.id).where(table.person_id == person)).first():
            return
    session.delete(session.get_one(Person, person))
    session.flush()


def extended(
    session: Session,
    number: int,
    reason: str,
    by: str,
    days: int | None = None,
    at: datetime.datetime | None = None,
) -> Request:
    """A request that needs longer: once, with the reason."""
    refuse_no_text(reason, "the reason")
    if not reason.strip():
        raise HoldfastError("an extension needs its ⟦reason⟧")
    log, request = Log(session, by, at), _open(session, number)
    if request.extension is not None:
        raise HoldfastError(
            f"request {number} was extended before, to {request.due}: it can be once. Nothing was "
            "done"
        )
    more = int(book_of(session).settings["extension_days"]) if days is None else days
    if not 1 <= more <= 3650:
        raise HoldfastError(f"⟦days⟧ must be from 1 to 3650, got {more}")
    request.due += datetime.timedelta(days=more)
    request.extension = reason
    log.add("extended", request=number, due=request.due.isoformat(), why=reason)
    if request.state == PENDING:
        move_request(session, log, request, IN_PROGRESS, "extended")
    session.flush()
    log.write()
    return request

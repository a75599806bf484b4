"""Requests previewed and honoured."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from holdfast.cases.modelfile import save_model
from holdfast.cases.remaining import write_without
from holdfast.errors import HoldfastError
from holdfast.ledger import sources
from holdfast.ledger.chain import Log, digest, now, salted
from holdfast.ledger.ground import Ground, loaded
from holdfast.ledger.judging import Mend, Outcome, judged_again, promises_held, scores_of
from holdfast.ledger.places import Places
from holdfast.ledger.records import (
    CASE_FILE,
    EXPORT,
    LETTERS,
    book_of,
    certified_left,
    expire,
    model_in_force,
    move,
    move_request,
    next_id,
    promised_values,
    request_of,
    take_back_pages,
)
from holdfast.ledger.tables import (
    BROKEN,
    COMPLETED,
    LIVE,
    MENDED,
    OPEN,
    WIPE,
    WITHDRAWN,
    Break,
    Chore,
    KnownFile,
    Letter,
    ModelVersion,
    Person,
    Promise,
    Request,
)


@dataclass
class Erasure:
    """What honouring some requests does, or has done.

    Attributes
    ----------
    requests : numbers of the requests
    done_before : those that had been honoured already, with the day
    rows : how many training rows go
    people_in_training : how many of them are in the training table
    own_promises : how many promises of theirs end
    outcome : what it does to the promises of others; ``None`` where the model stays
    left : certified erasures left afterwards, by promise in force: number, how many
    elsewhere : files the ledger was filled from that still have them, which it does not touch
    left_over : what could not be tidied up yet
    """

    requests: list[int]
    done_before: dict[int, str]
    rows: int
    people_in_training: int
    own_promises: int
    outcome: Outcome | None
    left: dict[int, int]
    elsewhere: list[str]
    left_over: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """What is said of it, for programs."""
        outcome = self.outcome
        return {
            "requests": self.requests,
            "honoured_before": self.done_before,
            "rows": self.rows,
            "people_in_training": self.people_in_training,
            "own_promises": self.own_promises,
            "promises": 0 if outcome is None else len(outcome.held),
            "breaks": 0 if outcome is None else int(outcome.breaks.sum()),
            "broken": [] if outcome is None else outcome.broken().to_dict(orient="records"),
            "certified_left": dict(sorted(Counter(self.left.values()).items())),
        }


def _asked(session: Session, numbers: Sequence[int]) -> tuple[list[Request], dict[int, str]]:
    """Open requests by number, and those honoured before."""
    found: list[Request] = []
    before: dict[int, str] = {}
    for number in dict.fromkeys(numbers):
        request = request_of(session, number)
        if request.state == COMPLETED:
            before[number] = request.since[:10]
        elif request.state not in OPEN:
            raise HoldfastError(
                f"request {number} was closed on {request.since[:10]} ({request.reason}): nothing "
                "was done"
            )
        else:
            found.append(request)
    return found, before


@dataclass
class _Plan:
    """Requests beside what they lead to."""

    ground: Ground
    requests: list[Request]
    people: list[Person]
    rows: Any
    erasure: Erasure


def _planned(
    session: Session,
    places: Places,
    numbers: Sequence[int],
    trust: Sequence[str],
    ahead: int | None,
    start: str,
    day: datetime.date,
    skip: bool,
) -> _Plan | Erasure:
    """Everything worked out, and nothing written."""
    requests, done = _asked(session, numbers)
    if not requests:
        return Erasure([], done, 0, 0, 0, None, {}, [])
    book, version = book_of(session), model_in_force(session)
    ground = loaded(book, version, places, trust)
    people = [session.get_one(Person, request.person_id) for request in requests]
    names = [person.name for person in people]
    rows = ground.rows_of(names)
    inside = set(ground.names[rows])
    holders = {
        number
        for (number,) in session.execute(
            select(Promise.person_id).where(Promise.person_id.in_([p.id for p in people]))
        )
    }
    for request, person in list(zip(requests, people, strict=True)):
        if person.name not in inside and person.id not in holders:
            if skip:
                requests.remove(request)
                people.remove(person)
                continue
            raise HoldfastError(
                f"request {request.id} is of somebody who is neither in the training table nor "
                "holds a promise: there is nothing to erase, and nothing was done. Check the id; "
                "if nothing is held of them, refuse the request and say so"
            )
    if not requests:
        return Erasure([], done, 0, 0, 0, None, {}, [])
    if rows.size >= len(ground.names):
        raise HoldfastError("without them the training table is empty: nothing was done")
    outcome = None
    units = len(inside)
    if rows.size:
        held = promises_held(session, ground, {person.id for person in people}, day)
        updated = ground.model.without(rows, start=start)
        looks = book.settings["certify"] if ahead is None else ahead
        before = scores_of(ground.model, held)
        outcome = judged_again(session, ground, held, updated, before, looks)
    own = session.execute(
        select(Promise.id).where(
            Promise.person_id.in_([p.id for p in people]), Promise.state.in_((LIVE, BROKEN, MENDED))
        )
    ).all()
    erasure = Erasure(
        [request.id for request in requests],
        done,
        int(rows.size),
        units,
        len(own),
        outcome,
        _left(session, version, units, outcome, [person.id for person in people]),
        [],
    )
    return _Plan(ground, requests, people, rows, erasure)


def _left(
    session: Session,
    version: ModelVersion,
    more: int,
    outcome: Outcome | None,
    without: Sequence[int],
) -> dict[int, int]:
    """Certified erasures left for every live promise that stays, after so many more."""
    gone: set[int] = set()
    if outcome is not None:
        gone = {outcome.held.lines[place].id for place in np.flatnonzero(outcome.breaks).tolist()}
    left = certified_left(session, version, without)
    return {n: k - more for n, k in left.items() if k >= more and n not in gone}


def previewed(
    session: Session,
    places: Places,
    numbers: Sequence[int],
    trust: Sequence[str] = (),
    start: str = "fitted",
    at: datetime.datetime | None = None,
    skip: bool = False,
) -> Erasure:
    """What honouring some requests would do; nothing is written."""
    day = (at or now()).astimezone(datetime.UTC).date()
    plan = _planned(session, places, numbers, trust, 0, start, day, skip)
    return plan if isinstance(plan, Erasure) else plan.erasure


def honoured(
    session: Session,
    places: Places,
    numbers: Sequence[int],
    by: str,
    trust: Sequence[str] = (),
    start: str = "fitted",
    at: datetime.datetime | None = None,
    skip: bool = False,
) -> Erasure:
    """Some requests honoured, as one change of the books; the files stand, the chores remain."""
    log = Log(session, by, at)
    expire(session, log)
    plan = _planned(session, places, numbers, trust, None, start, log.day, skip)
    if isinstance(plan, Erasure):
        log.write()
        return plan
    in_files = sources.called(session, plan.people)
    files = sources.sources_with(session, plan.ground, places, in_files)
    sources.remember(session, [file for file, _ in files], log.at)
    plan.erasure.elsewhere = [file.path for file, still in files if still]
    version = model_in_force(session)
    if plan.erasure.outcome is not None:
        version = _new_version(session, places, log, plan)
        recorded(session, log, version, plan.erasure.outcome, "after an erasure")
    for request, person in zip(plan.requests, plan.people, strict=True):
        forgotten(session, log, person, "its holder was erased")
        request.person_id, request.model_id = None, version.id
        move_request(session, log, request, COMPLETED, "honoured")
        session.execute(delete(Person).where(Person.id == person.id))
    log.add("erasure", requests=plan.erasure.requests, model=version.id)
    plan.erasure.left = certified_left(session, version)
    leave_chores(session)
    log.write()
    return plan.erasure


def _new_version(session: Session, places: Places, log: Log, plan: _Plan) -> ModelVersion:
    """The table and the model without them, written and on record."""
    outcome, ground, old = plan.erasure.outcome, plan.ground, model_in_force(session)
    assert outcome is not None
    number = old.id + 1
    suffix = Path(str(old.table_path)).suffix
    table, table_hash = places.write(
        f"table-{number}", suffix, lambda place: write_without(ground.settings, plan.rows, place)
    )
    estimator = outcome.model.estimator
    path, model_hash = places.write(
        f"model-{number}", ".skops", lambda place: save_model(estimator, place)
    )
    made = ModelVersion(
        id=number,
        sha256=model_hash,
        kind=old.kind,
        settings=old.settings,
        target=ground.target + outcome.model.shift,
        rows=len(ground.names) - plan.erasure.rows,
        lineage=old.lineage,
        erased=old.erased + plan.erasure.people_in_training,
        registered=log.at,
        reason="erasure",
        path=path,
        table_path=table,
        table_sha256=table_hash,
    )
    put_in_force(session, log, made, old)
    return made


def put_in_force(session: Session, log: Log, made: ModelVersion, old: ModelVersion | None) -> None:
    """A model in the place of another, whose files go."""
    if old is not None:
        for name in (old.path, old.table_path):
            session.add(Chore(what="remove", path=str(name)))
        old.path = old.table_path = old.table_sha256 = None
    session.add(made)
    session.flush()
    log.add(
        "model",
        model=made.id,
        sha256=made.sha256,
        kind=made.kind,
        target=made.target,
        lineage=made.lineage,
        erased=made.erased,
        reason=made.reason,
        rows=made.rows,
        table=made.table_sha256,
        settings=digest(made.settings),
    )


def recorded(
    session: Session, log: Log, version: ModelVersion, outcome: Outcome, reason: str
) -> None:
    """Promises broken and mended, and letters that are due, in the books."""
    held = outcome.held.lines
    fallen = np.flatnonzero(outcome.breaks).tolist()
    move(session, log, [(held[place].id, LIVE) for place in fallen], BROKEN, reason)
    if fallen:
        session.execute(insert(Break), [_broken(version, outcome, place) for place in fallen])
    fresh: list[dict[str, Any]] = []
    mended, letters = [], []
    number = next_id(session, Promise)
    for place, mend in outcome.mends.items():
        old = held[place]
        letters.append({"promise_id": old.id, "content": mend.content, "due": log.at})
        if mend.point is not None:
            mended.append((old.id, BROKEN))
            fresh.append(_anew(number + len(fresh), old, mend, version, log))
            issued(log, fresh[-1], old.token, old.salt)
    if fresh:
        session.execute(insert(Promise), fresh)
    move(session, log, mended, MENDED, "another promise was made")
    again = [held[place] for place in np.flatnonzero(outcome.recovers).tolist()]
    move(session, log, [(line.id, BROKEN) for line in again], LIVE, "it holds again")
    told = [line.id for line in again] + [line["promise_id"] for line in letters]
    take_back_pages(session, told)
    if told:
        untold = delete(Letter).where(Letter.promise_id == bindparam("of"), Letter.told.is_(None))
        session.connection().execute(untold, [{"of": number} for number in told])
    if letters:
        session.execute(insert(Letter), letters)


def settle(session: Session, log: Log, promises: Sequence[int]) -> None:
    """Promises were settled in whose place others had come before anybody was told.

    There is nothing to tell of those any more: they end too, and so do their letters.
    """
    for number in promises:
        line = session.get_one(Promise, number)
        earlier = select(Promise.id, Promise.state).where(
            Promise.person_id == line.person_id,
            Promise.reference == line.reference,
            Promise.state.in_((BROKEN, MENDED)),
            Promise.id.not_in(promises),
        )
        found = [(n, state) for n, state in session.execute(earlier)]
        move(session, log, found, WITHDRAWN, "settled before its holder was told")
        take_back_pages(session, [number, *(n for n, _ in found)])


def _anew(number: int, old: Any, mend: Mend, version: ModelVersion, log: Log) -> dict[str, Any]:
    """The promise that takes the place of a broken one."""
    return {
        "id": number,
        "person_id": old.person_id,
        "reference": old.reference,
        "factual": mend.factual,
        "point": mend.point,
        "model_id": version.id,
        "target": version.target,
        "margin": mend.margin,
        "certified": mend.certified,
        "certified_under": None if mend.certified is None else version.id,
        "issued": log.day,
        "expires": old.expires,
        "state": LIVE,
        "since": log.at,
        "reason": f"mends promise {old.id}",
        "mends": old.id,
    }


def issued(log: Log, line: dict[str, Any], token: str, salt: str) -> None:
    """A promise made, in the log: by number and by hashes."""
    log.add(
        "issued",
        promise=line["id"],
        person=token,
        model=line["model_id"],
        values=salted(salt, promised_values(line)),
        certified=line["certified"],
        now=line["state"],
        mends=line["mends"],
    )


def _broken(version: ModelVersion, outcome: Outcome, i: int) -> dict[str, Any]:
    before, after = (None if s != s else float(s) for s in (outcome.before[i], outcome.after[i]))
    promise = outcome.held.lines[i].id
    return {"model_id": version.id, "promise_id": promise, "before": before, "after": after}


def forgotten(session: Session, log: Log, person: Person, reason: str) -> None:
    """Nothing of a person's own is left on their promises; what they were is on record."""
    lines = session.execute(
        select(Promise.id, Promise.state).where(Promise.person_id == person.id)
    ).all()
    numbers = [number for number, _ in lines]
    take_back_pages(session, numbers)
    standing = [(n, s) for n, s in lines if s in (LIVE, BROKEN, MENDED)]
    move(session, log, standing, WITHDRAWN, reason)
    session.execute(delete(Break).where(Break.promise_id.in_(numbers)))
    session.execute(update(Letter).where(Letter.promise_id.in_(numbers)).values(content=None))
    empty = {"person_id": None, "reference": None, "factual": None, "point": None, "margin": None}
    session.execute(update(Promise).where(Promise.id.in_(numbers)).values(**empty))
    log.add("forgotten", person=person.token)


def leave_chores(session: Session, purge: bool = False) -> None:
    """What is to be done about files outside once somebody was erased, and the wiping.

    With ``purge`` all letters go, whoever they are to.
    """
    for known in session.execute(select(KnownFile)).scalars().all():
        if known.role == CASE_FILE or (purge and known.role == LETTERS):
            session.add(Chore(what="remove", path=known.path))
            session.delete(known)
        elif known.role == EXPORT:
            session.add(Chore(what="export", path=known.path))
    session.add(Chore(what=WIPE, path=""))
    session.flush()

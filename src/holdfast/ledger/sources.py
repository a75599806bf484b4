"""Files outside the books: where they were filled from, and what has people of theirs in it.

Nobody who was erased is recognised again, since nothing of them is kept. But files as they came are
known by their hashes, and which of them had the person can be told while they are erased: those
bring nobody back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.algebra.rows import as_text
from holdfast.cases.files import read
from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.files import sha256
from holdfast.ledger.chain import Log
from holdfast.ledger.ground import Ground
from holdfast.ledger.places import Places
from holdfast.ledger.records import CASE_FILE, OUTDATED, SOURCE
from holdfast.ledger.tables import KnownFile, Person, Promise


def know_case(session: Session, log: Log, settings: Settings) -> None:
    """Files the books are filled from, and case files that name people."""
    for path in _sources(settings):
        know(session, SOURCE, path, log.at, sha256(path))
    if settings.case_file is not None:
        know(session, CASE_FILE, settings.case_file, log.at)


def _sources(settings: Settings) -> list[Path]:
    named = (settings.train, settings.people, settings.recourses, settings.model_file)
    return [Path(path) for path in named if path is not None]


def refuse_outdated(session: Session, settings: Settings) -> None:
    """Refuse files in which people are who were erased since: they do not come back."""
    asked = select(KnownFile.sha256).where(KnownFile.role == OUTDATED)
    outdated = set(session.execute(asked).scalars())
    for path in _sources(settings):
        if sha256(path) in outdated:
            raise HoldfastError(
                f"{str(path)!r} has somebody in it who was erased since it was imported: take them "
                "out of it first. Nothing was imported"
            )


def know(session: Session, role: str, path: Any, at: str, hash_: str | None = None) -> None:
    """A file outside the books, on record."""
    place = str(Path(path).absolute())
    found = session.execute(select(KnownFile).where(KnownFile.path == place)).scalar_one_or_none()
    if found is not None and found.role != role:
        raise HoldfastError(f"{place!r} is on record as {found.role}: name another")
    if found is None:
        session.add(KnownFile(role=role, path=place, made=at, sha256=hash_))
    else:
        found.made, found.sha256 = at, hash_
    session.flush()


def sources_with(
    session: Session, ground: Ground, places: Places, names: Sequence[str]
) -> list[tuple[KnownFile, bool]]:
    """Files the ledger was filled from in which somebody of these was; whether they still are.

    One that is not as it came, or not there, may have had them.
    """
    found = []
    known = select(KnownFile).where(KnownFile.role == SOURCE).order_by(KnownFile.path)
    for file in session.execute(known).scalars():
        place = Path(file.path)
        if place.parent.absolute() == places.folder.absolute() or place.suffix == ".skops":
            continue
        there = place.is_file()
        still = there and _has(ground, place, names)
        if still or not there or sha256(place) != file.sha256:
            found.append((file, still))
    return found


def _has(ground: Ground, place: Path, names: Sequence[str]) -> bool:
    """Whether somebody of these is in a file; one that cannot be read may have them."""
    try:
        table = read(ground.settings.model_copy(update={"text": []}), place)
    except HoldfastError:
        return True
    columns = [c for c in (ground.settings.id, ground.settings.subject) if c in table.columns]
    inside = {as_text(cell) for name in columns for cell in table[name]}
    return not columns or not inside.isdisjoint(names)


def remember(session: Session, files: Sequence[KnownFile], at: str) -> None:
    """Files as they came in which somebody was: nobody is brought back from them."""
    for file in files:
        key = f"sha256:{file.sha256}"
        known = select(KnownFile.id).where(KnownFile.path == key)
        if session.execute(known).first() is None:
            session.add(KnownFile(role=OUTDATED, path=key, made=at, sha256=file.sha256))
    session.flush()


def called(session: Session, people: Sequence[Person]) -> list[str]:
    """What some people are called in files: by their own names, and those of their promises."""
    names = [person.name for person in people]
    for person in people:
        held = select(Promise.reference).where(Promise.person_id == person.id)
        names += [str(reference) for reference in session.execute(held).scalars()]
    return names

"""What is left to do once something was decided: files removed, exports made anew, pages wiped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.files import Outputs, sweep
from holdfast.ledger import backup
from holdfast.ledger.database import Database
from holdfast.ledger.places import Places
from holdfast.ledger.records import book_of
from holdfast.ledger.tables import WIPE, Book, Chore, KnownFile


def tidied(database: Database, places_of: Callable[[Session], Places]) -> list[str]:
    """Do every chore there is; what is left, to be tried by whoever is next."""
    try:
        with database.reading() as session:
            book = session.execute(select(Book)).scalar_one_or_none()
            if book is None or session.execute(select(Chore.id).limit(1)).first() is None:
                return []
        with database.writing() as session:  # nobody makes files anew meanwhile
            left, wipe = _chores_done(session, places_of(session))
        if not wipe:
            return left
        if not database.wipe():
            return [*left, database.address]
        with database.writing() as session:
            session.execute(delete(Chore).where(Chore.what == WIPE))
        return left
    except HoldfastError:  # locked, or no room: what was decided stands
        return [database.address]


def _chores_done(session: Session, places: Places) -> tuple[list[str], bool]:
    """What could not be done, and whether something is to be wiped."""
    places.refuse_others()
    left, wipe = [], False
    for chore in session.execute(select(Chore).order_by(Chore.id)).scalars().all():
        if chore.what == WIPE:
            wipe = True
        elif _done(session, chore, places):
            session.delete(chore)
        else:
            left.append(chore.path)
    for path in map(Path, session.execute(select(KnownFile.path)).scalars()):
        if path.is_absolute():
            sweep(path.parent)  # what somebody who was killed left there
            sweep(path)
    return left, wipe


def _done(session: Session, chore: Chore, places: Places) -> bool:
    path = Path(chore.path)
    if chore.what == "export":
        return exported_again(session, path, places)
    place = path if path.is_absolute() else places.path(chore.path)
    try:
        if place.is_dir():
            from holdfast.ledger.letters import remove_folder

            remove_folder(place)
        else:
            place.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def exported_again(session: Session, path: Path, places: Places) -> bool:
    """An export made anew in its place; whether that is done."""
    if not backup.is_backup(path, book_of(session).opened):
        return True  # moved away: nobody here can reach it
    try:
        with Outputs() as out:
            backup.exported(session, places, path, out)
    except (HoldfastError, OSError):
        return False
    return True

"""The ledger: promises that live for months, and what erasures did to them."""

from __future__ import annotations

import datetime
import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401 (said in words where it is missing)
except ModuleNotFoundError:
    raise HoldfastError(
        "a ledger needs SQLAlchemy and Alembic: pip install 'holdfast[ledger]'"
    ) from None

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from holdfast.files import Outputs, writable, writable_folder
from holdfast.ledger import accounts, backup, browsing, records, tidying
from holdfast.ledger.chain import Log, now
from holdfast.ledger.database import WAIT, Database
from holdfast.ledger.places import Places
from holdfast.ledger.records import refuse_no_text
from holdfast.ledger.tables import (
    KEPT,
    LIVE,
    OPEN,
    WITHDRAWN,
    Chore,
    Entry,
    KnownFile,
    Letter,
    ModelVersion,
    Person,
    Promise,
    Request,
)

if TYPE_CHECKING:
    from holdfast.cases.settings import Settings
    from holdfast.ledger import erasing, filling
    from holdfast.models.refits import Progress
    from holdfast.report.letters import LetterText

#: where the books are unless somebody says otherwise
DEFAULT = "holdfast.db"


# What needs models is imported where it is used, so that a look at the books takes no time.


class Ledger:
    """Books of promises, requests and what became of them.

    Parameters
    ----------
    address : str or path
        A file, which SQLite keeps, or ``postgresql+psycopg://user@host/name``.
    by : str, optional
        Who does what is done; the log has it. By default the name of the user who is logged in.
    wait : float
        Seconds to wait while somebody else writes.
    clock : callable, optional
        What tells the time.

    Examples
    --------
    >>> import os, tempfile
    >>> import holdfast as hf
    >>> books = hf.Ledger(os.path.join(tempfile.mkdtemp(), "books.db"), by="desk 1")
    >>> books.create()
    True
    >>> books.status().promises
    {}
    >>> books.verify().faults
    []
    """

    def __init__(
        self,
        address: str | Path = DEFAULT,
        *,
        by: str | None = None,
        wait: float = WAIT,
        clock: Any = now,
    ):
        refuse_no_text(str(address), "the ledger's address")
        self.database = Database(address, wait)
        refuse_no_text(by, "⟦by⟧")
        self.by = by or _somebody()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Ledger {self.database.address}>"

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    # making and filling

    def create(self, files: str | Path | None = None, **desk: Any) -> bool:
        """Make the books, or bring them up to date; whether there were none before.

        Parameters
        ----------
        files : path, optional
            The folder for the table and the model; by default beside a SQLite file, or
            ``holdfast.files`` here.
        **desk
            ``due_days`` (30), ``extension_days`` (60), ``certify`` (5: how many erasures
            certificates look ahead), ``language`` ("en"), ``sender`` (at the head of letters).
        """
        from holdfast.ledger import filling

        unknown = [name for name in desk if name not in filling.DESK]
        if unknown:
            raise HoldfastError(f"a ledger has no setting {unknown[0]!r}")
        for name in ("due_days", "extension_days", "certify"):
            least = 0 if name == "certify" else 1
            if desk.get(name) is not None and not least <= int(desk[name]) <= 3650:
                raise HoldfastError(f"⟦{name}⟧ must be from {least} to 3650, got {desk[name]}")
        for name in ("language", "sender"):
            refuse_no_text(desk.get(name), f"⟦{name}⟧")
        if files is not None:
            writable_folder(files)
        self.database.create()
        with self.database.writing() as session:
            new = filling.opened(session, self._folder(files), desk, self.by, self._clock())
            places = self._places(session)
            if files is None or new:
                places.refuse_others()
            else:
                records.book_of(session).files = self._folder(files)
                places = self._places(session)
                self._move_to(session, places)
            places.create()
        return new

    def _move_to(self, session: Session, places: Places) -> None:
        """Another folder for these books: one of nobody's, or one that has their own files."""
        version = records.newest_model(session)
        if version is None:
            places.refuse_others()
            return
        for name, wanted, what in (
            (version.table_path, version.table_sha256, "the table"),
            (version.path, version.sha256, "the model"),
        ):
            places.checked(name, wanted, what)
        places.adopt()

    def _folder(self, files: str | Path | None) -> str:
        if self.database.file is not None and files is None:
            return f"{self.database.file.name}.files"
        return str(Path(files or "holdfast.files").absolute())

    def _places(self, session: Session) -> Places:
        file = self.database.file
        folder = Path(records.book_of(session).files)
        if file is None:
            opened = records.book_of(session).opened
            return Places(folder, f"{self.database.address}, opened {opened}")
        folder = file.parent / folder  # both may be moved together
        return Places(folder, os.path.relpath(file, folder.parent))

    @contextmanager
    def _writing(self) -> Iterator[tuple[Session, Places]]:
        """The books alone; what somebody killed left behind is tidied up before."""
        self.tidy()
        with self.database.writing() as session:
            places = self._places(session)
            places.refuse_others()
            places.create()
            places.sweep(_files_named(session))
            yield session, places
            session.flush()

    def import_case(
        self, settings: Settings, progress: Progress | None = None, remark: Any = None
    ) -> filling.Filled:
        """The table, the model and the promises of a case; with a filled ledger, more promises."""
        from holdfast.ledger import filling

        with self.database.reading() as session:
            records.book_of(session)
            version = records.newest_model(session)
        if version and settings.target is None and settings.target_probability is None:
            settings = settings.model_copy(update={"target": version.target})
        case = filling.case_to_fill(settings, progress, remark)
        with self._writing() as (session, places):
            found = filling.filled(session, places, settings, case, self.by, self._clock())
        self.tidy()
        return found

    def import_export(self, path: str | Path) -> str:
        """What :meth:`export` wrote, into a ledger that was made for it; the hash of all of it."""
        with self._writing() as (session, places):
            return backup.restored(session, places, Path(path))

    def export(self, path: str | Path) -> str:
        """Everything in one file for its owner only; the hash of all of it.

        The file is on record: once somebody is erased it is made anew.
        """
        from holdfast.ledger import sources

        refuse_no_text(str(path), "the path")
        place = writable(path)
        with self._writing() as (session, places):  # on record before it stands there
            if place.exists() and not backup.is_backup(place, records.book_of(session).opened):
                raise HoldfastError(
                    f"{str(path)!r} exists already and is no export of this ledger: name another "
                    "file. Nothing was written"
                )
            if place.absolute().parent == places.folder.absolute():
                raise HoldfastError(f"{str(path)!r} would stand among the ledger's own files")
            sources.know(session, records.EXPORT, path, Log(session, self.by, self._clock()).at)
        with self.database.writing() as session, Outputs() as out:
            return backup.exported(session, places, place, out)

    def replace_model(
        self,
        model_file: str | Path | None = None,
        *,
        reason: str,
        train: str | Path | None = None,
        target: float | None = None,
        target_probability: float | None = None,
        trust: Sequence[str] = (),
        allow_pickle: bool = False,
    ) -> filling.Replaced:
        """Another model for another reason than erasure; every promise is judged again."""
        from holdfast.ledger import filling

        refuse_no_text(reason, "the reason")
        if model_file is None and target is None and target_probability is None:
            raise HoldfastError("nothing is new: name a model file, or another target")
        with self._writing() as (session, places):
            found = filling.replaced(
                session,
                places,
                self.by,
                reason,
                model_file=None if model_file is None else Path(model_file),
                train=None if train is None else Path(train),
                target=target,
                target_probability=target_probability,
                trust=trust,
                allow_pickle=allow_pickle,
                at=self._clock(),
            )
        found.outcome.left_over = self.tidy()
        return found

    def certify(self) -> int:
        """New certificates for every live promise, from the model in force; how many there are."""
        from holdfast.ledger import filling

        with self._writing() as (session, places):
            return filling.certified_again(session, places, self.by, self._clock())

    # how things stand

    def status(self, today: datetime.date | None = None, most: int = 20) -> accounts.Status:
        """Promises by state, requests by due date, what is left of the certificates."""
        with self.database.reading() as session:
            return accounts.standing(session, today or self.today(), most)

    def verify(self, head: str | None = None) -> accounts.Verified:
        """Whether the books are as they were written."""
        refuse_no_text(head, "the hash")
        with self.database.reading() as session:
            return accounts.verified(session, self._places(session), head)

    def log(self, last: int | None = None) -> list[Entry]:
        """The log, oldest line first: all of it, or its last lines."""
        asked = select(Entry).order_by(Entry.id.desc())
        if last is not None:
            asked = asked.limit(min(last, 10**9))
        with self.database.reading() as session:
            return list(session.execute(asked).scalars())[::-1]

    def changes(self, days: int = 7) -> dict[str, dict[str, int]]:
        """What has come to another state within so many days: promises, requests, models."""
        since = browsing.moment_before(self.today(), days)
        with self.database.reading() as session:
            return browsing.changes_since(session, since)

    def last_change(self) -> tuple[int, str]:
        """The newest model, and the hash of the log's last line that changed anything."""
        with self.database.reading() as session:
            version = records.newest_model(session)
            return 0 if version is None else version.id, browsing.last_change(session)

    def note(self, event: str, promises: Sequence[int] = (), **body: Any) -> None:
        """A line in the log about something that changes nothing: who looked at whom.

        People go by their tokens, as everywhere in the log.
        """
        if event not in browsing.ASIDE:
            raise HoldfastError(f"notes are of {', '.join(browsing.ASIDE)}; not {event!r}")
        with self.database.writing() as session:
            log = Log(session, self.by, self._clock())
            tokens = browsing.tokens_of(session, promises)
            log.add(event, **body, **({"people": tokens} if tokens else {}))
            log.write()

    # promises

    def promises(self, **which: Any) -> browsing.PromisePage:
        """Promises, a page at a time: ``state``, ``about``, ``sort``, ``descending``, ``page``."""
        with self.database.reading() as session:
            return browsing.promises_on_page(session, **which)

    def promise(self, number: int) -> browsing.PromiseRecord:
        """One promise with all that became of it."""
        with self.database.reading() as session:
            return browsing.promise_record(session, number)

    def mark(self, ids: Sequence[str], state: str, reason: str = "") -> int:
        """Promises that were kept, or withdrawn, by whose they are; how many."""
        from holdfast.ledger import erasing

        refuse_no_text(reason, "the reason")
        for text in (reason, *ids):
            refuse_no_text(text, "an id or the reason")
        if state not in (KEPT, WITHDRAWN):
            raise HoldfastError(f"promises are marked {KEPT!r} or {WITHDRAWN!r}, not {state!r}")
        with self._writing() as (session, _):
            log = Log(session, self.by, self._clock())
            records.expire(session, log)
            people = records.people_named(session, ids)
            moved = []
            for name in dict.fromkeys(ids):
                lines = []
                if name in people:
                    asked = select(Promise.id, Promise.state).where(
                        Promise.person_id == people[name].id, Promise.state == LIVE
                    )
                    lines = [(number, was) for number, was in session.execute(asked)]
                if not lines:
                    raise HoldfastError(f"{name!r} holds no live promise: nothing was done")
                moved += lines
            records.move(session, log, moved, state, reason)
            erasing.settle(session, log, [number for number, _ in moved])
            log.write()
        self.tidy()
        return len(moved)

    def forget(self, ids: Sequence[str] = ()) -> tuple[int, list[str], list[str]]:
        """Remove people's records, and every case file, letter and export on record.

        For people who are in no training table: whoever is asks to be erased by a request.

        Returns
        -------
        How many promises were emptied; the files that were removed or made anew; what could not be
        yet.
        """
        from holdfast.ledger import erasing

        with self._writing() as (session, places):
            log = Log(session, self.by, self._clock())
            emptied = 0
            if ids:
                emptied = self._forget(session, places, log, ids)
            files = [
                f.path
                for f in session.execute(select(KnownFile)).scalars()
                if f.role not in (records.SOURCE, records.OUTDATED)
            ]
            erasing.leave_chores(session, purge=True)
            session.execute(update(Letter).where(Letter.told.is_(None)).values(written=None))
            log.add("purged", files=len(files))
            log.write()
        left = self.tidy()
        return emptied, files, left

    def _forget(self, session: Session, places: Places, log: Log, ids: Sequence[str]) -> int:
        from holdfast.ledger import erasing, sources
        from holdfast.ledger.ground import loaded, names_in_table

        for name in ids:
            refuse_no_text(name, "an id")
        people = records.people_named(session, ids)
        inside = names_in_table(records.book_of(session), records.model_in_force(session), places)
        count = 0
        book, version = records.book_of(session), records.model_in_force(session)
        known = sources.called(session, [people[name] for name in ids if name in people])
        ground = loaded(book, version, places)
        for name in dict.fromkeys(ids):
            if name in inside:
                raise HoldfastError(
                    f"{name!r} is in the training table: a model would remember them. Add a "
                    "request and honour it instead. Nothing was done"
                )
            if name not in people:
                raise HoldfastError(f"the ledger knows nobody called {name!r}: nothing was done")
            person = people[name]
            asked = select(Request.id).where(
                Request.person_id == person.id, Request.state.in_(OPEN)
            )
            if (number := session.execute(asked).scalar()) is not None:
                raise HoldfastError(
                    f"{name!r} has asked to be erased: honour request {number} instead. Nothing "
                    "was done"
                )
            held = select(Promise.id).where(Promise.person_id == person.id)
            count += len(session.execute(held).all())
            erasing.forgotten(session, log, person, "forgotten")
            session.execute(delete(Person).where(Person.id == person.id))
        files = sources.sources_with(session, ground, places, known)
        sources.remember(session, [file for file, _ in files], log.at)
        return count

    # requests

    def ids_in(self, path: str | Path) -> list[str]:
        """Ids from a file, one on each line, or a table with the ledger's own column of ids."""
        from holdfast.cases.books import settings_on
        from holdfast.cases.files import ids_in

        with self.database.reading() as session:
            kept = records.book_of(session).settings
            records.model_in_force(session)
        return ids_in(path, settings_on(kept, Path(path), Path()))

    def today(self) -> datetime.date:
        """The day it is, in UTC."""
        return self._clock().astimezone(datetime.UTC).date()

    def receive(
        self,
        ids: Sequence[str] = (),
        *,
        opendsr_file: str | Path | None = None,
        day: datetime.date | str | None = None,
        unknown: bool = False,
    ) -> list[Request]:
        """Requests to be erased, by id or from a file of OpenDSR requests."""
        from holdfast.ledger import opendsr, requests

        incoming = [] if opendsr_file is None else opendsr.read_requests(Path(opendsr_file))
        with self._writing() as (session, places):
            return requests.received(
                session,
                places,
                ids,
                self.by,
                incoming=incoming,
                day=records.as_day(day, "⟦received⟧"),
                unknown=unknown,
                at=self._clock(),
            )

    def requests(self, open_only: bool = False) -> list[Request]:
        """All requests, or those that are open, by due date."""
        with self.database.reading() as session:
            asked = select(Request).order_by(Request.due, Request.id)
            if open_only:
                asked = asked.where(Request.state.in_(OPEN))
            return list(session.execute(asked).scalars())

    def preview(
        self,
        numbers: Sequence[int],
        *,
        trust: Sequence[str] = (),
        start: str = "fitted",
        skip: bool = False,
    ) -> erasing.Erasure:
        """What honouring some requests would do; nothing is written.

        ``skip``: requests of people of whom nothing is held are left out, not refused.
        """
        from holdfast.ledger import erasing

        with self.database.reading() as session:
            places = self._places(session)
            return erasing.previewed(session, places, numbers, trust, start, self._clock(), skip)

    def honour(
        self,
        numbers: Sequence[int],
        *,
        trust: Sequence[str] = (),
        start: str = "fitted",
        skip: bool = False,
    ) -> erasing.Erasure:
        """Requests honoured: model and table without them, promises marked, letters due.

        All of it or nothing; a request honoured before is left as it is.
        """
        from holdfast.ledger import erasing

        with self._writing() as (session, places):
            found = erasing.honoured(
                session, places, numbers, self.by, trust, start, self._clock(), skip
            )
        found.left_over = self.tidy()
        return found

    def refuse(self, number: int, reason: str) -> Request:
        """A request closed without erasing anybody."""
        from holdfast.ledger import requests

        with self._writing() as (session, _):
            return requests.refused(session, number, reason, self.by, self._clock())

    def extend(self, number: int, reason: str, days: int | None = None) -> Request:
        """More time for a request: once, with the reason."""
        from holdfast.ledger import requests

        with self._writing() as (session, _):
            return requests.extended(session, number, reason, self.by, days, self._clock())

    # letters

    def write_letters(
        self,
        folder: str | Path,
        *,
        language: str | None = None,
        templates: str | Path | None = None,
        pdf: bool = False,
    ) -> list[LetterText]:
        """Letters to everybody who has to be told something."""
        from holdfast.ledger import letters

        own = None if templates is None else Path(templates)
        with self._writing() as (session, places):
            log = Log(session, self.by, self._clock())
            if not letters.announced(session, places, log, Path(folder), own, pdf):
                return []
        with self.database.writing() as session, Outputs() as out:
            return letters.written(
                session,
                Path(folder),
                self.by,
                out,
                language=language,
                templates=own,
                pdf=pdf,
                at=self._clock(),
            )

    def letters_sent(self, only: Sequence[int] = ()) -> int:
        """Letters that were written were sent: how many people have been told."""
        from holdfast.ledger import letters

        with self._writing() as (session, _):
            return letters.told(session, self.by, only, self._clock())

    # tidying up

    def tidy(self) -> list[str]:
        """Do what was decided and is not done yet; what is left, to be tried by whoever is next."""
        return tidying.tidied(self.database, self._places)


def _files_named(session: Session) -> set[str]:
    """The files of the folder that the books speak of."""
    found: set[str] = set()
    for path, table in session.execute(select(ModelVersion.path, ModelVersion.table_path)):
        found |= {name for name in (path, table) if name is not None}
    return found | set(session.execute(select(Chore.path)).scalars())


def _somebody() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"

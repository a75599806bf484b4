"""What the desk can be asked, whoever shows the answer: the API as JSON, the pages as HTML."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import delete, select

from holdfast.desk.access import Access, Refused, Visitor
from holdfast.desk.home import Home, Proposal
from holdfast.desk.jobs import Jobs
from holdfast.desk.sources import CaseSource, LedgerSource, Source
from holdfast.desk.whatif import Answer, Shelf, WhatIf, answered, bars, named, people_picked
from holdfast.desk.workers import Workers, result_of
from holdfast.errors import HoldfastError
from holdfast.ledger import Ledger
from holdfast.ledger.browsing import PromisePage, PromiseRecord
from holdfast.ledger.judging import advice_in_words
from holdfast.ledger.letters import due
from holdfast.ledger.records import SUMMARY, pages_of
from holdfast.ledger.tables import OPEN
from holdfast.models.refits import broken
from holdfast.report.suppression import FEWEST, enough, hidden_together

#: seconds to wait while somebody else writes in the ledger
PATIENCE = 10.0

#: letters of an id, at most
LONGEST_ID = 500

#: what a viewer reads where the reason may name somebody
KEPT_BACK = "it could not be worked out: an analyst can see why"

#: suggestions for an id that is being typed
SUGGESTIONS = 12


class Overview(BaseModel):
    """How things stand; for viewers with small groups left out."""

    ledger: bool
    promises: dict[str, int | None] = Field(default_factory=dict)
    requests: dict[str, int | None] = Field(default_factory=dict)
    due: list[dict[str, Any]] = Field(default_factory=list)
    late: int | None = None
    certified_left: dict[str, int | None] = Field(default_factory=dict)
    letters: dict[str, int | None] = Field(default_factory=dict)
    model: dict[str, Any] | None = None
    changed: dict[str, dict[str, int | None]] = Field(default_factory=dict)
    proposals: int = 0
    worst: dict[str, Any] | None = Field(
        default=None,
        description="headline and curve of an audit of now, as the shareable report has them",
    )
    waiting: bool = False
    trouble: str | None = None


class Desk:
    """Everything behind the pages.

    Parameters
    ----------
    home : Home
    ledger : str, optional
        The ledger's address.
    case : path, optional
        An ``audit.toml``.
    """

    def __init__(self, home: Home, ledger: str | None = None, case: Path | None = None):
        self.home, self.ledger_address = home, ledger
        self.access, self.jobs, self.workers = Access(home), Jobs(home), Workers()
        sources: dict[str, Source] = {}
        if ledger is not None:
            sources["ledger"] = LedgerSource(ledger)
        if case is not None:
            sources["case"] = CaseSource(str(Path(case).absolute()))
        self.loaded = Shelf(sources)

    def close(self) -> None:
        """Let everything go."""
        self.workers.close()
        self.home.close()

    @contextlib.contextmanager
    def books(self, visitor: Visitor) -> Iterator[Ledger]:
        """The ledger, in somebody's hands."""
        if self.ledger_address is None:
            raise HoldfastError("this desk was started without a ledger: start it with one")
        books = Ledger(self.ledger_address, by=visitor.name, wait=PATIENCE)
        try:
            yield books
        finally:
            books.close()

    # how things stand

    def overview(self, visitor: Visitor) -> Overview:
        """Promises by state, requests, the worst case and what is likely, what is new."""
        found = Overview(ledger=self.ledger_address is not None)
        if self.ledger_address is not None:
            with self.books(visitor) as books:
                status, changed = books.status(most=10), books.changes()
                waiting, today = books.requests(open_only=True), books.today()
            whole = visitor.may("analyst")
            show = dict if whole else _shown
            found.promises = show(status.promises)
            found.requests = show(status.requests)
            left = {str(k): n for k, n in status.certified_left.items()}
            found.certified_left = show({**left, "not known": status.uncertified})
            found.letters = dict(status.letters) if whole else {}
            totals = {"promises": status.promises, "requests": status.requests}
            found.changed = {
                name: {**counts} if whole else _shown_of(counts, totals.get(name, counts))
                for name, counts in changed.items()
            }
            if not whole and found.promises.get("live") is None:  # their sum would tell
                found.certified_left = dict.fromkeys(found.certified_left)
            late = sum(each.due < today for each in waiting)
            found.late = late if whole else enough(late)
            if visitor.may("officer"):
                found.due = status.due
                still = {each.id for each in waiting}
                found.proposals = sum(each.request in still for each in self.proposals())
            if status.model is not None:
                names = ("version", "kind", "rows", "registered", "reason")
                found.model = {name: status.model[name] for name in names}
        try:
            survey = self.survey(None)
            found.waiting = survey is None
            if survey is not None:
                shareable = survey["shareable"]
                found.worst = {name: shareable[name] for name in ("headline", "curve")}
        except HoldfastError as wrong:
            found.trouble = str(wrong) if visitor.may("analyst") else KEPT_BACK
        return found

    def survey(self, source: str | None, seconds: float = 0.0) -> Any:
        """The worst case for every number of erasures; ``None`` while it is worked out."""
        where = self.loaded.source(source)
        found = result_of(self.workers.survey(where, where.stamp()), seconds)
        return None if found == "changed" else found

    # what if

    def what_if(self, question: WhatIf) -> Answer:
        """What the algebra says; nothing is written."""
        return self.asked(question)[0]

    def asked(self, question: WhatIf) -> tuple[Answer, list[dict[str, Any]] | None]:
        """What the algebra says, and the curve beside it where it is known already."""
        source, stamp, dossier = self.loaded.at_hand(question.source)
        survey = self._survey_beside(source, stamp)
        rows, count = people_picked(dossier, question, None if survey is None else survey["sets"])
        answer = answered(source, dossier, question, rows, count)
        answer.waiting = survey is None
        erased = count if dossier.unit == "subject" else len(rows)
        if survey is not None and erased < len(survey["curve"]) and question.room == 0:
            answer.ceiling = survey["curve"][erased]["ceiling"]
        return answer, None if survey is None else survey["curve"]

    def _survey_beside(self, source: Source, stamp: Any) -> Any:
        """The survey if it is done; begun if not. What is wrong with it is said elsewhere."""
        try:
            found = result_of(self.workers.survey(source, stamp))
        except HoldfastError:
            return None
        return None if found == "changed" else found

    def trouble(self, source: str | None) -> str | None:
        """Why there is no worst case, where there is none."""
        try:
            self.survey(source)
        except HoldfastError as wrong:
            return str(wrong)
        return None

    def confirm(self, question: WhatIf, seconds: float = 1.0) -> Answer:
        """The same with the refit's number beside it, as soon as there is one."""
        source, stamp, dossier = self.loaded.at_hand(question.source)
        answer = self.what_if(question)
        survey = self._survey_beside(source, stamp)
        rows, count = people_picked(dossier, question, None if survey is None else survey["sets"])
        if count == 0:
            return answer
        after = result_of(self.workers.refit(source, stamp, rows), seconds)
        if after is None or isinstance(after, str):
            answer.confirming = "running" if after is None else "changed"
            return answer
        unit = dossier.model.score_unit
        left = (after - dossier.target) / unit + question.room
        fallen = broken(left, 0.0)
        answer.confirmed, answer.confirming = int(fallen.sum()), "done"
        if answer.predicted is None:  # only the refit tells
            margins = (dossier.scores - dossier.target) / unit + question.room
            answer.broken = named(dossier, margins, left, fallen)
            answer.bars = bars(margins, left)
        return answer

    def who(self, question: WhatIf, visitor: Visitor) -> list[str]:
        """Whom a question is about, by id; that somebody looked is in the log."""
        source, stamp, dossier = self.loaded.at_hand(question.source)
        survey = self._survey_beside(source, stamp)
        rows, _ = people_picked(dossier, question, None if survey is None else survey["sets"])
        names = list(dict.fromkeys(str(dossier.names[row]) for row in rows.tolist()))
        if self.ledger_address is not None:
            with self.books(visitor) as books:
                books.note(
                    "looked",
                    page="people of the training table",
                    count=len(names),
                    pick=question.pick,
                    k=question.k,
                    seed=question.seed,
                )
        return names

    def suggestions(self, text: str, source: str | None = None) -> list[str]:
        """People of the training table whose id begins with a text, or has it in it."""
        _, _, dossier = self.loaded.at_hand(source)
        if not text:
            return []
        first = [name for name in dossier.people if name.startswith(text)][:SUGGESTIONS]
        more = [name for name in dossier.people if text in name and name not in first]
        return (first + more)[:SUGGESTIONS]

    # promises

    def promises(self, visitor: Visitor, **which: Any) -> PromisePage:
        """Promises, a page at a time; the log has that somebody looked, and at whom."""
        with self.books(visitor) as books:
            found = books.promises(**which)
            numbers = [line.number for line in found.lines]
            if numbers:
                books.note("looked", numbers, page="promises", count=len(numbers))
        return found

    def promise(self, number: int, visitor: Visitor) -> tuple[PromiseRecord, str | None]:
        """One promise, and the advice in words; the log has who looked."""
        with self.books(visitor) as books:
            found = books.promise(number)
            books.note("looked", [number], page="promise", promise=number)
        words = None
        if found.factual is not None and found.point is not None:
            try:
                _, _, dossier = self.loaded.at_hand("ledger")
                if dossier.ground is not None:
                    words = advice_in_words(dossier.ground, found.factual, found.point)
            except HoldfastError:
                words = None
        return found, words

    # requests

    def requests(self, visitor: Visitor, open_only: bool = False) -> list[dict[str, Any]]:
        """Requests by due date, and who wants which honoured."""
        waiting = {each.request: each.by for each in self.proposals()}
        with self.books(visitor) as books:
            found, today = books.requests(open_only), books.today()
        return [
            {
                "request": each.id,
                "reference": each.reference,
                "received": each.received.isoformat(),
                "due": each.due.isoformat(),
                "state": each.state,
                "since": each.since,
                "reason": each.reason,
                "extended": each.extension is not None,
                "late": each.state in OPEN and each.due < today,
                "proposed_by": waiting.get(each.id),
            }
            for each in found
        ]

    def receive(self, visitor: Visitor, ids: list[str], day: str | None, unknown: bool) -> Any:
        """Requests written down."""
        longest = max(map(len, ids), default=0)
        if longest > LONGEST_ID:
            raise HoldfastError(
                f"an id has at most {LONGEST_ID} letters, one of these {longest:,}: nothing was "
                "done"
            )
        with self.books(visitor) as books:
            return [
                {"request": each.id, "due": each.due.isoformat()}
                for each in books.receive(ids, day=day or None, unknown=unknown)
            ]

    def preview(self, visitor: Visitor, numbers: list[int]) -> dict[str, Any]:
        """What honouring some requests would do; only that somebody looked is written."""
        with self.books(visitor) as books:
            found = books.preview(numbers).as_dict()
            seen = [line["promise"] for line in found["broken"]]
            books.note("looked", seen, page="preview", requests=numbers, count=len(seen))
        return _plain(found)

    def two_people(self) -> bool:
        """Whether honouring needs a second person."""
        return self.home.setting("two_people") == "yes"

    def proposals(self) -> list[Proposal]:
        """What waits for a second person."""
        with self.home.reading() as session:
            return list(session.execute(select(Proposal).order_by(Proposal.request)).scalars())

    def honour(self, visitor: Visitor, numbers: list[int]) -> dict[str, Any]:
        """Requests honoured; or, where two people are asked for, the first of them.

        ``proposed`` are those that wait for somebody else now.
        """
        if not numbers:
            raise HoldfastError("which requests? None was chosen")
        signed = visitor
        if self.two_people():
            waiting = {each.request: each.by for each in self.proposals()}
            fresh = [n for n in numbers if n not in waiting]
            if fresh:
                return self._propose(visitor, fresh)
            mine = [n for n in numbers if waiting[n] == visitor.name]
            if mine:
                raise Refused(
                    f"you asked for request {mine[0]} to be honoured: somebody else has to agree"
                )
            first = ", ".join(sorted({waiting[n] for n in numbers}))
            signed = Visitor(f"{visitor.name}, asked for by {first}", visitor.role)
            return self._honoured(signed, numbers, self._claimed(numbers, waiting))
        return self._honoured(signed, numbers, [])

    def _honoured(
        self, signed: Visitor, numbers: list[int], claimed: list[tuple[int, str, float]]
    ) -> dict[str, Any]:
        try:
            with self.books(signed) as books:
                found = books.honour(numbers)
        except BaseException:
            with self.home.writing() as session:  # what was asked for still is
                for number, by, at in claimed:
                    session.merge(Proposal(request=number, by=by, at=at))
            raise
        self._no_proposal(numbers)
        told = _plain(found.as_dict())
        return {**told, "left_over": found.left_over, "elsewhere": found.elsewhere, "proposed": []}

    def _claimed(
        self, numbers: list[int], waiting: Mapping[int, str]
    ) -> list[tuple[int, str, float]]:
        """Proposals taken to be honoured: from here on nobody can take them back, nor agree twice.

        The ledger may keep whoever honours waiting, so this comes first.
        """
        with self.home.writing() as session:
            asked = select(Proposal).where(Proposal.request.in_(numbers))
            found = [(p.request, p.by, p.at) for p in session.execute(asked).scalars()]
            if {number: by for number, by, _ in found} != {n: waiting[n] for n in numbers}:
                raise Refused("what was asked for was taken back meanwhile: nothing was done", 409)
            session.execute(delete(Proposal).where(Proposal.request.in_(numbers)))
        return found

    def _propose(self, visitor: Visitor, numbers: list[int]) -> dict[str, Any]:
        with self.books(visitor) as books:
            known = {each.id for each in books.requests(open_only=True)}
        for number in numbers:
            if number not in known:
                raise HoldfastError(f"request {number} is not open: nothing was done")
        with self.home.writing() as session:
            for number in numbers:
                session.merge(Proposal(request=number, by=visitor.name, at=self.home.clock()))
        try:
            with self.books(visitor) as books:
                books.note("proposed", requests=numbers)
        except BaseException:
            self._no_proposal(numbers)
            raise
        return {"requests": [], "proposed": numbers}

    def withdraw(self, visitor: Visitor, number: int) -> None:
        """Somebody's wish that a request be honoured, taken back by anybody."""
        if not self._no_proposal([number]):
            raise HoldfastError(f"nobody asked for request {number}: nothing was done")
        with self.books(visitor) as books:
            books.note("proposed", requests=[number], withdrawn="yes")

    def _no_proposal(self, numbers: list[int]) -> int:
        with self.home.writing() as session:
            gone: Any = session.execute(delete(Proposal).where(Proposal.request.in_(numbers)))
            return int(gone.rowcount)

    def refuse(self, visitor: Visitor, number: int, reason: str) -> None:
        """A request closed without erasing anybody."""
        with self.books(visitor) as books:
            books.refuse(number, reason)
        self._no_proposal([number])

    def extend(self, visitor: Visitor, number: int, reason: str) -> str:
        """More time for a request; when it is due now."""
        with self.books(visitor) as books:
            return books.extend(number, reason).due.isoformat()

    # letters

    @property
    def letters_folder(self) -> Path:
        """Where the desk writes letters: on the ledger's record."""
        return self.home.folder / "letters"

    def letters(self, visitor: Visitor) -> list[dict[str, Any]]:
        """Letters that are to be sent: numbers and kinds, and whether they are written."""
        with self.books(visitor) as books, books.database.reading() as session:
            return [
                {
                    "letter": text.number,
                    "promise": lines[-1].promise_id,
                    "advice": text.advice,
                    "written": lines[-1].written,
                }
                for text, lines in due(session, books.today())
            ]

    def write_letters(self, visitor: Visitor, language: str | None = None) -> int:
        """Letters written, to be looked at and printed."""
        if language and not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z]{2})?", language):
            raise HoldfastError(f"{language!r} is no language: en, de")
        with self.books(visitor) as books:
            return len(books.write_letters(self.letters_folder, language=language or None))

    def letter(self, visitor: Visitor, number: int) -> str:
        """One letter as it was written; the log has who looked."""
        found = {each["letter"]: each for each in self.letters(visitor)}.get(number)
        if found is None or found["written"] is None:
            raise HoldfastError(f"letter {number} is not written and waiting: write it first")
        try:
            page = Path(self.letters_folder, pages_of(number)[0]).read_text(encoding="utf-8")
        except OSError:
            raise HoldfastError(
                f"letter {number} was written somewhere else: write the letters again here"
            ) from None
        with self.books(visitor) as books:
            books.note("looked", [found["promise"]], page="letter", letter=number)
        return page

    def letters_sent(self, visitor: Visitor, numbers: list[int]) -> int:
        """Letters were sent; how many people know now."""
        if not numbers:
            raise HoldfastError("which letters? None was chosen")
        with self.books(visitor) as books:
            sent = books.letters_sent(numbers)
        for number in numbers:  # they have served: the books keep what was said
            for name in (*pages_of(number), SUMMARY):
                Path(self.letters_folder, name).unlink(missing_ok=True)
        return sent

    # the log

    def log(self, visitor: Visitor, last: int = 100) -> list[dict[str, Any]]:
        """The log's last lines, newest first."""
        with self.books(visitor) as books:
            lines = books.log(max(1, min(last, 1000)))
        names = ("id", "at", "by", "event", "before", "hash")
        return [
            {**{n: getattr(e, n) for n in names}, "body": json.loads(e.body)} for e in lines[::-1]
        ]

    def verify(self, visitor: Visitor, head: str | None = None) -> dict[str, Any]:
        """Whether the books are as they were written."""
        with self.books(visitor) as books:
            return asdict(books.verify(head or None))

    def welcome(self, visitor: Visitor) -> None:
        """Somebody came in: in the log, where there is one."""
        if self.ledger_address is not None:
            with contextlib.suppress(HoldfastError), self.books(visitor) as books:
                books.note("signed in", role=visitor.role)


def _shown(counts: Mapping[Any, int]) -> dict[Any, int | None]:
    """Counts with small groups left out, and so much else that they cannot be worked out."""
    hidden = hidden_together(dict(counts), FEWEST)
    return {name: None if name in hidden else count for name, count in counts.items()}


def _shown_of(part: Mapping[Any, int], whole: Mapping[Any, int]) -> dict[Any, int | None]:
    """Counts of a part of each group, shown where neither it nor the rest is small."""
    shown = _shown(part)
    rest = {name: whole.get(name, 0) - count for name, count in part.items()}
    return {
        n: c if c is not None and enough(rest[n]) is not None else None for n, c in shown.items()
    }


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    """What JSON can say: no NaN, no numpy."""
    lines = []
    for line in content["broken"]:
        short = line["short_by"]
        fine = short is not None and short == short
        lines.append({**line, "short_by": float(short) if fine else None})
        certified = line["certified"]
        known = certified is not None and certified == certified
        lines[-1]["certified"] = int(certified) if known else None
    left = {str(k): int(n) for k, n in Counter(content["certified_left"]).items()}
    return {**content, "broken": lines, "certified_left": left}


def day_of(moment: str) -> str:
    """The day of a moment, as people write it."""
    return datetime.datetime.fromisoformat(moment).strftime("%Y-%m-%d %H:%M")

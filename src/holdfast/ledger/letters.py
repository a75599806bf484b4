"""Letters that are due: written, and told once they were sent."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs, sweep, writable_folder
from holdfast.ledger.accounts import to_be_told
from holdfast.ledger.chain import Log
from holdfast.ledger.places import Places
from holdfast.ledger.records import LETTERS, SUMMARY, book_of, expire, move, pages_of
from holdfast.ledger.sources import know
from holdfast.ledger.tables import BROKEN, MENDED, TOLD, KnownFile, Letter, Promise
from holdfast.recourse.wording import Wording
from holdfast.report.case_file import PRIVATE_TABLES
from holdfast.report.letters import LetterText, letter_page, summary_page

#: browsers that print pages to PDF
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "msedge")


def due(
    session: Session, day: datetime.date, only: Sequence[int] = ()
) -> list[tuple[LetterText, list[Letter]]]:
    """Letters that are to be sent: one for everybody, however often their promise broke since.

    It tells of the first promise they know of and of the last one made.
    """
    asked = (
        select(Letter, Promise)
        .join(Promise, Letter.promise_id == Promise.id)
        .where(*to_be_told(day))
        .order_by(Letter.id)
    )
    by_holder: dict[Any, list[tuple[Letter, Promise]]] = {}
    for letter, promise in session.execute(asked):
        by_holder.setdefault((promise.person_id, promise.reference), []).append((letter, promise))
    found = []
    for (_, reference), lines in by_holder.items():
        first, last = lines[0][0].content, lines[-1][0].content
        assert first is not None
        assert last is not None
        number = lines[-1][0].id
        if only and number not in only:
            continue
        text = LetterText(
            number=number,
            to=str(reference),
            advice=last["advice"],
            was=first["was"],
            now=last["now"],
            reasons=last["reasons"],
        )
        found.append((text, [letter for letter, _ in lines]))
    return found


def announced(
    session: Session, places: Places, log: Log, folder: Path, templates: Path | None, pdf: bool
) -> bool:
    """Put a folder for letters on record, before anything stands in it; whether any is due."""
    expire(session, log)
    letters = due(session, log.day)
    log.write()
    if not letters:
        return False
    if templates is not None and not templates.is_dir():
        raise HoldfastError(f"there is no folder {str(templates)!r} with templates")
    if pdf:
        _browser()
    writable_folder(folder)
    if folder.absolute() == places.folder.absolute():
        raise HoldfastError(f"{str(folder)!r} is the ledger's own: name another folder")
    _refuse_others(session, folder, [text.number for text, _ in letters], pdf)
    know(session, LETTERS, folder, log.at)
    return True


def written(
    session: Session,
    folder: Path,
    by: str,
    out: Outputs,
    *,
    language: str | None = None,
    templates: Path | None = None,
    pdf: bool = False,
    at: datetime.datetime | None = None,
) -> list[LetterText]:
    """All letters that are due, into a folder for its owner only."""
    log, book = Log(session, by, at), book_of(session)
    letters = due(session, log.day)
    speech = language or str(book.settings["language"])
    wording = Wording.of(book.settings["labels"])
    browser = _browser() if pdf else None
    place = out.folder(folder, 0o700)
    for text, lines in letters:
        page = letter_page(text, wording, speech, str(book.settings["sender"]), log.day, templates)
        html, printed = pages_of(text.number)
        out.text(Path(place, html), page, PRIVATE)
        Path(place, printed).unlink(missing_ok=True)  # of an earlier writing
        if browser is not None:
            out.file(Path(place, printed), partial(_print, browser, page), PRIVATE)
        for letter in lines:
            letter.written = log.at
        log.add("letter", letter=text.number, promise=lines[-1].promise_id, language=speech)
    summary = summary_page([text for text, _ in letters], log.day)
    out.text(Path(place, SUMMARY), summary, PRIVATE)
    session.flush()
    log.write()
    return [text for text, _ in letters]


def _refuse_others(session: Session, folder: Path, numbers: list[int], pdf: bool) -> None:
    """Refuse to write over files that are not the ledger's."""
    place = str(folder.absolute())
    known = session.execute(select(KnownFile.role).where(KnownFile.path == place)).scalar()
    if known == LETTERS:
        return
    if known is not None:
        raise HoldfastError(f"{str(folder)!r} is on record as {known}: name another folder")
    for name in [SUMMARY, *(page for n in numbers for page in pages_of(n)[: 1 + pdf])]:
        if Path(folder, name).exists():
            raise HoldfastError(
                f"{str(folder / name)!r} exists already: name another folder. Nothing was written"
            )


def told(
    session: Session, by: str, only: Sequence[int] = (), at: datetime.datetime | None = None
) -> int:
    """Letters that were written have been sent; how many people know now."""
    log, count = Log(session, by, at), 0
    letters = [(text, lines) for text, lines in due(session, log.day, only) if lines[-1].written]
    missing = set(only) - {text.number for text, _ in letters}
    if missing:
        raise HoldfastError(f"letter {min(missing)} is not written and waiting: nothing was done")
    for _, lines in letters:
        count += 1
        for letter in lines:
            letter.told = log.at
            promise = session.get_one(Promise, letter.promise_id)
            if promise.state in (BROKEN, MENDED):
                move(session, log, [(promise.id, promise.state)], TOLD, "their holder was told")
    session.flush()
    log.write()
    return count


def _browser() -> str:
    for name in BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise HoldfastError(
        "no browser to print PDF with was found (Chromium, Chrome or Edge): print the HTML pages "
        "from a browser of yours instead"
    )


def _print(browser: str, page: str, to: Path) -> None:
    """One page as PDF, through a browser that gets nothing but that page."""
    with Outputs() as beside:  # what a killed browser leaves is found where letters are
        scratch = beside.folder(to.parent / "printing")
        source, made = Path(scratch, "letter.html"), Path(scratch, "letter.pdf")
        source.write_text(page, encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer"]
        command += ["--disable-background-networking", "--no-first-run"]
        command += [f"--user-data-dir={scratch}/profile", f"--print-to-pdf={made}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # a browser refuses to run as root with it
        try:
            subprocess.run(  # noqa: S603 (a browser found by name, and a page of our own)
                [*command, source.as_uri()], check=True, capture_output=True, timeout=120
            )
            to.write_bytes(made.read_bytes())
            beside.abandon()
        except (subprocess.SubprocessError, OSError):
            raise HoldfastError(f"{Path(browser).name} could not print a letter to PDF") from None


def remove_folder(folder: Path) -> None:
    """Take letters and case files of a folder away, and the folder where nothing else is in it."""
    sweep(folder)
    for file in folder.iterdir():
        ours = file.name in (SUMMARY, *PRIVATE_TABLES)
        if ours or re.fullmatch(r"letter-\d+\.(html|pdf)", file.name):
            file.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()

"""What the commands about the ledger do, once their options are known."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from holdfast.cli import screen
from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs
from holdfast.inert import one_line
from holdfast.ledger import DEFAULT, Ledger
from holdfast.ledger.backup import is_backup
from holdfast.ledger.opendsr import status
from holdfast.ledger.tables import COMPLETED, Request

if TYPE_CHECKING:
    from holdfast.ledger.erasing import Erasure
    from holdfast.ledger.judging import Outcome

#: broken promises a screen shows
MOST = 20


@contextlib.contextmanager
def _opened(address: str | None, by: str | None = None) -> Iterator[Ledger]:
    books = Ledger(address or DEFAULT, by=by)
    try:
        yield books
    finally:
        books.close()


def _say(*lines: str) -> None:
    """Findings, whoever reads them."""
    with screen.reading():
        for line in lines:
            screen.out().print(one_line(line), markup=False)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{number:,} people"


def _as_json(content: Any) -> None:
    with screen.reading():
        print(json.dumps(content, indent=2, ensure_ascii=False, default=str))


def run_init(address: str | None, by: str | None, files: Path | None, desk: dict[str, Any]) -> int:
    """Make a ledger, or bring it up to date."""
    with _opened(address, by) as books:
        new = books.create(files, **desk)
        what = "a new ledger stands" if new else "the ledger is up to date and stands"
        _say(f"{what} at {books.database.address}")
        if new:
            _say("fill it with: holdfast ledger import audit.toml --recourses issued.csv")
    return 0


def run_import(
    address: str | None, by: str | None, source: Path | None, options: dict[str, Any]
) -> int:
    """Fill the ledger from a case, or from an export."""
    with _opened(address, by) as books:
        if source is not None and is_backup(source):
            _say(f"read back; everything in it has the hash {books.import_export(source)}")
            return 0
        from holdfast.cases.settings import made

        settings = made(options, source)
        with screen.showing(settings.quiet) as (tell, remark):
            found = books.import_case(settings, tell, remark)
    written = sum(found.states.values())
    states = ", ".join(f"{number:,} {state}" for state, number in found.states.items())
    _say(f"{_count(written, 'promise')} written down{': ' if states else ''}{states}")
    if found.same:
        _say(f"{_count(found.same, 'promise')} there already, as before")
    if found.replaced:
        _say(f"{_count(found.replaced, 'earlier promise')} withdrawn: another one was given")
    return 0


def run_status(address: str | None, as_json: bool) -> int:
    """How things stand."""
    with _opened(address) as books:
        found = books.status()
    if as_json:
        _as_json(asdict(found))
        return 0
    with screen.reading():
        _show_status(found)
    return 0


def _show_status(found: Any) -> None:
    console = screen.out()
    if found.model is None:
        console.print("The ledger is empty: fill it with holdfast ledger import.", markup=False)
        return
    about = found.model
    console.print(
        f"Model {about['version']} ({about['kind']}, {about['rows']:,} rows) since "
        f"{about['registered'][:10]}; target {about['target']:.6g}.",
        markup=False,
    )
    rows = [(state, f"{number:,}") for state, number in found.promises.items()]
    _table("promises", rows or [("none", "")])
    if found.overdue:
        console.print(f"{_count(found.overdue, 'live promise')} of these past their day.")
    if found.promises.get("live"):
        left = [(f"{k} more", f"{number:,}") for k, number in found.certified_left.items()]
        _table("erasures survived for certain", [*left, ("not known", f"{found.uncertified:,}")])
    _table("requests", [(state, f"{n:,}") for state, n in found.requests.items()] or [("none", "")])
    lines = []
    for request in found.due:
        late = "late" if request["late"] else "extended" if request["extended"] else ""
        lines.append((f"request {request['request']}", request["due"], late))
    if lines:
        _table("due", lines)
    if found.letters["due"] or found.letters["written"]:
        console.print(
            f"Letters: {found.letters['due']:,} to write, {found.letters['written']:,} written "
            "and not yet told."
        )
    if found.chores:
        console.print("Something is left to be tidied up: the next change does it.")


def _table(head: str, rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(min_width=18)
    for _ in rows[0][1:]:
        table.add_column(justify="right")
    for row in rows:
        table.add_row(*(escape(one_line(cell)) for cell in row))
    console = screen.out()
    console.print(f"\n[bold]{head}[/bold]")
    console.print(table)


def run_verify(address: str | None, head: str | None, as_json: bool) -> int:
    """Whether the books are as they were written; 1 if not."""
    with _opened(address) as books:
        found = books.verify(head)
    if as_json:
        _as_json(asdict(found))
        return 1 if found.faults else 0
    if not found.faults:
        _say(
            f"all {found.lines:,} lines of the log follow from each other, and the books from them",
            f"last line's hash: {found.head}",
            f"hash of everything: {found.content}",
        )
    for fault in found.faults[:MOST]:
        screen.finding(fault)
    if len(found.faults) > MOST:
        screen.finding(f"... and {len(found.faults) - MOST} more")
    return 1 if found.faults else 0


def run_log(address: str | None, last: int, as_json: bool) -> int:
    """The last lines of the log."""
    with _opened(address) as books:
        found = books.log(last)
    if as_json:
        names = ("id", "at", "by", "event", "before", "hash")
        _as_json([{n: getattr(e, n) for n in names} | {"body": json.loads(e.body)} for e in found])
        return 0
    table = Table(box=None, pad_edge=False)
    for name in ("line", "at (UTC)", "by", "event", ""):
        table.add_column(name, overflow="fold")
    for entry in found:
        body = {k: v for k, v in json.loads(entry.body).items() if k not in ("values", "sha256")}
        about = ", ".join(f"{k} {str(v)[:40]}" for k, v in body.items() if v is not None)
        cells = (str(entry.id), entry.at[:19], entry.by, entry.event, about)
        table.add_row(*(escape(one_line(cell)) for cell in cells))
    with screen.reading():
        screen.out().print(table)
    return 0


def run_export(address: str | None, by: str | None, path: Path) -> int:
    """Everything in one file."""
    with _opened(address, by) as books:
        found = books.export(path)
    _say(f"{path} (personal data) has everything; its hash is {found}")
    return 0


def run_forget(address: str | None, by: str | None, ids: list[str], file: Path | None) -> int:
    """Purge files on record, and people's records."""
    with _opened(address, by) as books:
        emptied, files, left = books.forget([*ids, *([] if file is None else books.ids_in(file))])
    if emptied:
        _say(f"{_count(emptied, 'promise')} emptied")
    _say(f"{_count(len(files), 'file')} on record removed, or made anew where it was an export")
    for path in files:
        _say(f"  {path}")
    return _left_over(left)


def run_mark(address: str | None, by: str | None, state: str, ids: list[str], reason: str) -> int:
    """Promises kept, or withdrawn."""
    with _opened(address, by) as books:
        _say(f"{_count(books.mark(ids, state, reason), 'promise')} {state}")
    return 0


def run_certify(address: str | None, by: str | None) -> int:
    """New certificates from the model in force."""
    with _opened(address, by) as books:
        found = books.certify()
    _say(f"{_count(found, 'certificate')} given; holdfast ledger status counts them")
    return 0


def run_model(
    address: str | None,
    by: str | None,
    model_file: Path | None,
    reason: str,
    new: dict[str, Any],
) -> int:
    """Another model for another reason than erasure."""
    if not reason.strip():
        raise HoldfastError("say why the model is new, with ⟦reason⟧: the log has it")
    with _opened(address, by) as books:
        found = books.replace_model(model_file, reason=reason, **new)
    _say(
        f"model {found.version} is in force: {_count(int(found.outcome.breaks.sum()), 'promise')} "
        f"of {len(found.outcome.held):,} broken by it",
        f"{_count(found.void, 'certificate')} void, {found.certified_again:,} given again",
    )
    _show_broken(found.outcome)
    _say_letters(found.outcome)
    return _left_over(found.outcome.left_over)


def run_add(
    address: str | None,
    by: str | None,
    ids: list[str],
    file: Path | None,
    opendsr: Path | None,
    received: str | None,
    unknown: bool,
) -> int:
    """Requests received."""
    with _opened(address, by) as books:
        names = [*ids, *([] if file is None else books.ids_in(file))]
        added = books.receive(names, opendsr_file=opendsr, day=received, unknown=unknown)
    if len(added) > MOST:
        _say(f"{_count(len(added), 'request')} received: {added[0].id} to {added[-1].id}")
        return 0
    for request in added:
        _say(f"request {request.id} received, due {request.due}")
    return 0


def _wanted(books: Ledger, numbers: list[int], everybody: bool) -> list[int]:
    if everybody and numbers:
        raise HoldfastError("name requests by number, or say ⟦all⟧, not both")
    if not everybody and not numbers:
        raise HoldfastError("which requests? Name their numbers, or say ⟦all⟧")
    found = [each.id for each in books.requests(open_only=True)] if everybody else numbers
    if not found:
        raise HoldfastError("no request is open: nothing was done")
    return found


def run_preview(
    address: str | None, numbers: list[int], everybody: bool, trust: list[str], as_json: bool
) -> int:
    """What honouring requests would do."""
    with _opened(address) as books:
        wanted = _wanted(books, numbers, everybody)
        found = books.preview(wanted, trust=trust, skip=everybody)
    _say_skipped(found, wanted)
    if as_json:
        _as_json(found.as_dict())
    else:
        _show(found, "would")
    return 0


def run_honour(
    address: str | None,
    by: str | None,
    numbers: list[int],
    everybody: bool,
    trust: list[str],
    quiet: bool,
) -> int:
    """Erase people."""
    with _opened(address, by) as books:
        wanted = _wanted(books, numbers, everybody)
        found = books.honour(wanted, trust=trust, skip=everybody)
    _say_skipped(found, wanted)
    if not quiet:
        _show(found, "did")
        if found.outcome is not None:
            _say_letters(found.outcome)
        for path in found.elsewhere:
            _say(f"still has them, and is not the ledger's to change: {path}")
    return _left_over(found.left_over)


def _left_over(paths: list[str]) -> int:
    """1 where something of somebody erased could not be removed yet."""
    for path in paths:
        screen.finding(f"done, but {path} could not be tidied up yet: the next command tries again")
    return 1 if paths else 0


def _say_skipped(found: Erasure, wanted: list[int]) -> None:
    left = len(wanted) - len(found.requests) - len(found.done_before)
    if left:
        screen.note(
            f"{_count(left, 'request')} of people of whom nothing is held left out: check their "
            "ids, or refuse them"
        )


def _show(found: Erasure, verb: str) -> None:
    """An erasure on the screen."""
    for number, day in found.done_before.items():
        _say(f"request {number} was honoured on {day}: nothing more is done")
    if not found.requests:
        return
    said = "Honouring" if verb == "would" else "Honoured"
    asked = ", ".join(map(str, found.requests[:10]))
    more = f" and {len(found.requests) - 10:,} more" if len(found.requests) > 10 else ""
    _say(
        f"{said} {_count(len(found.requests), 'request')} ({asked}{more}): "
        f"{_count(found.rows, 'training row')} of {_people(found.people_in_training)} erased, "
        f"{_count(found.own_promises, 'promise')} of their own ended"
    )
    if found.outcome is None:
        _say("none of them is in the training table: the model stays as it is")
    else:
        broken = int(found.outcome.breaks.sum())
        live = len(found.outcome.held) - int(found.outcome.held.broken_before.sum())
        _say(
            f"{broken:,} of {live:,} live promises {'would break' if verb == 'would' else 'broke'}"
        )
        _show_broken(found.outcome)
    counts: dict[int, int] = {}
    for k in found.left.values():
        counts[k] = counts.get(k, 0) + 1
    if counts:
        left = ", ".join(f"{n:,} survive {k} more" for k, n in sorted(counts.items()))
        _say(f"of the certificates there are left: {left}")
    elif found.outcome is not None:
        _say("nothing is left of the certificates")


def _show_broken(outcome: Outcome) -> None:
    """Broken promises, worst first."""
    broken = outcome.broken()
    if broken.empty:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "short by", "promised", "told now"):
        table.add_column(name, overflow="fold")
    for line in broken.head(MOST).to_dict(orient="records"):
        short = line["short_by"]
        short = "no score any more" if short is None or short != short else f"{short:.3g}"
        since = "" if line["new"] else " (broken before)"
        cells = (line["id"], short + since, line["promised"], line["now"])
        table.add_row(*(escape(one_line(cell)) for cell in cells))
    with screen.reading():
        screen.out().print(table)
    if len(broken) > MOST:
        _say(f"... and {len(broken) - MOST:,} more: a preview as JSON has them all")


def _say_letters(outcome: Outcome) -> None:
    if outcome.mends:
        _say(f"{_count(len(outcome.mends), 'letter')} due: holdfast letters --out letters")


def run_refuse(address: str | None, by: str | None, number: int, reason: str) -> int:
    """A request refused."""
    with _opened(address, by) as books:
        books.refuse(number, reason)
    _say(f"request {number} was refused")
    return 0


def run_extend(
    address: str | None, by: str | None, number: int, reason: str, days: int | None
) -> int:
    """A request extended."""
    with _opened(address, by) as books:
        found = books.extend(number, reason, days)
    _say(f"request {number} is due {found.due} now")
    return 0


def run_list(address: str | None, open_only: bool, callbacks: Path | None, as_json: bool) -> int:
    """Requests, and what is reported back about them."""
    with _opened(address) as books:
        found = books.requests(open_only)
        today = books.today()
    if callbacks is not None:
        with Outputs() as out:
            folder = out.folder(callbacks)
            for request in found:
                content = json.dumps(status(request), indent=2) + "\n"
                out.text(folder / f"{request.reference}.json", content, PRIVATE)
        if not as_json:
            _say(f"{_count(len(found), 'status callback')} in {callbacks}")
    if as_json:
        _as_json([_line(request) for request in found])
    elif callbacks is None:
        with screen.reading():
            _show_requests(found, today)
    return 0


def _line(request: Request) -> dict[str, Any]:
    return {
        "request": request.id,
        "subject_request_id": request.reference,
        "state": request.state,
        "received": request.received.isoformat(),
        "due": request.due.isoformat(),
        "extension": request.extension,
        "since": request.since,
        "reason": request.reason,
        "by": request.by,
    }


def _show_requests(found: list[Request], today: Any) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("request", "state", "received", "due", "since", ""):
        table.add_column(name)
    for request in found:
        late = "late" if request.due < today and request.state != COMPLETED else ""
        late = "" if request.state == "cancelled" else late
        about = "; ".join(filter(None, (late, request.reason)))
        cells = (str(request.id), request.state, str(request.received), str(request.due))
        table.add_row(*cells, request.since[:10], escape(one_line(about)))
    screen.out().print(table if found else "no requests")


def run_letters(
    address: str | None,
    by: str | None,
    out: Path | None,
    told: bool,
    only: list[int],
    more: dict[str, Any],
) -> int:
    """Letters written, or told."""
    if (out is None) == (not told):
        raise HoldfastError("say where letters go with ⟦out⟧, or that they were sent with ⟦told⟧")
    if only and not told:
        raise HoldfastError("⟦letter⟧ goes with ⟦told⟧: all letters that are due are written")
    with _opened(address, by) as books:
        if out is None:
            _say(f"{_people(books.letters_sent(only))} told")
            return 0
        found = books.write_letters(out, **more)
    if not found:
        _say("no letter is due")
        return 0
    _say(f"{_count(len(found), 'letter')} in {out} (personal data); summary.html lists them")
    _say("once they are sent: holdfast letters --told")
    return 0

"""What is shown: findings on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table

from holdfast.cli.stops import leave_stdout
from holdfast.inert import for_terminal, one_line
from holdfast.report.suppression import FEWEST
from holdfast.report.words import at_most, percent

Tell = Callable[[str, int, int], None]
#: seconds between two lines about a stage that goes on, where there is no terminal
_EVERY = 30.0


def out() -> Console:
    """Where findings go."""
    return _console()


class _Console(Console):
    """No emoji out of ids, nothing a terminal would act on, no line breaks where a program reads.

    Whatever is printed comes by here, so no name, id or message can send an escape of its own.
    """

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            safe = segment.text if segment.control else for_terminal(segment.text)
            yield segment if safe == segment.text else Segment(safe, segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(stderr: bool = False) -> Console:
    made = _Console(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal:
        made = _Console(stderr=stderr, highlight=False, emoji=False, width=1000)
    return made


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """While findings are printed: a reader who has seen enough ends that, and nothing else."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        leave_stdout()


def places(written: dict[str, Any]) -> None:
    """Where files now stand; those that were not asked for are left out."""
    try:
        for name, path in written.items():
            if path is not None:
                out().print(f"{name}: {one_line(str(path))}", markup=False)
        sys.stdout.flush()
    except OSError:  # they stand there, whether or not it can be said
        leave_stdout()


def finding(text: str) -> None:
    """A threshold that was passed: the exit code says so too."""
    with contextlib.suppress(OSError):
        print(f"holdfast: {one_line(text)}", file=sys.stderr, flush=True)


def err() -> Console:
    """Where progress, notes and errors go."""
    return _console(stderr=True)


@contextlib.contextmanager
def showing(quiet: bool, json: bool = False) -> Iterator[tuple[Tell, Callable[[str], None]]]:
    """How stages and remarks are shown while the work goes on.

    On stderr: on a terminal a bar for each stage, with counts and the time left; elsewhere one line
    when a stage begins, and one every half minute while it goes on. Remarks are told there at once;
    :func:`remarks` repeats them beside the findings where those go to a file.
    """
    if quiet or json:
        yield (lambda stage, done, total: None), (lambda text: None)
        return
    console = err()
    if not console.is_terminal:
        begun: dict[str, float] = {}
        told: dict[str, float] = {}

        def line(stage: str, done: int, total: int) -> None:
            now = time.monotonic()
            if stage not in begun:
                begun[stage] = told[stage] = now
                count = f" ({total:,})" if total > 1 else ""
                print(f"… {stage}{count}", file=sys.stderr, flush=True)
            elif now - told[stage] >= _EVERY:
                told[stage] = now
                took = timedelta(seconds=round(now - begun[stage]))
                print(f"… {stage}: {done:,} of {total:,} after {took}", file=sys.stderr, flush=True)

        yield line, lambda text: print(for_terminal(text), file=sys.stderr, flush=True)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield tell, lambda text: bars.console.print(escape(text), style="dim")


def remarks(notes: Iterable[Any]) -> None:
    """What was told on the way, for whoever reads the findings from a file."""
    console = out()
    if not console.is_terminal and not _one_place():
        for each in notes:
            console.print(escape(str(each)))


def _one_place() -> bool:
    """Whether stdout and stderr end up in the same file."""
    try:
        one, other = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (OSError, ValueError, AttributeError):  # replaced by something that is no file
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def note(text: str, quiet: bool = False) -> None:
    """A remark on stderr."""
    if not quiet:
        err().print(escape(text), style="dim")


def audit_findings(result: Any) -> None:
    """The headline and a small table."""
    console = out()
    console.print()
    console.print(f"[bold]{escape(result.headline)}[/bold]")
    console.print(result.summary().headline.caution)
    console.print()
    noun = "people" if result.unit == "subject" else "rows"
    columns = ["predicted", "refitted", "random", "random_low", "random_high", "ceiling"]
    table = Table(box=None, pad_edge=False)
    for name in (f"{noun} erased", "predicted", "refitted", "at random (90 %)", "proven ceiling"):
        table.add_column(name, justify="right")
    most = len(result.curve) - 1
    for k in sorted({1, 2, 3, 5, 8, result.headline_at, most}):
        if k > most:
            continue
        predicted, refitted, mean, low, high, top = result.curve.loc[k, columns]
        table.add_row(
            str(k),
            percent(predicted),
            percent(refitted),
            f"{percent(mean)} ({percent(low)} to {percent(high)})",
            "none" if top != top else at_most(top),
        )
    console.print(table)
    if result.likelihood is not None:
        found = result.likelihood
        console.print(
            f"\n{found.erasures:,} erasures at random break {percent(found.random.mean)} "
            f"({percent(found.random.low)} to {percent(found.random.high)}), confirmed by "
            f"{found.random.draws} refits; a bootstrap refit {percent(found.bootstrap.mean)}; the "
            f"worst found with as many {percent(found.worst)}."
        )
    if result.cohorts is not None:
        worst = result.cohorts.sort_values("refitted", ascending=False).iloc[0]
        size = int(worst["rows"])
        named = f"group {escape(one_line(str(worst['cohort'])))}, {size} rows"
        named = f"a group under {FEWEST}" if size < FEWEST else named
        console.print(
            f"\nErasing one group of {len(result.cohorts)} at a time breaks at most "
            f"{percent(worst['refitted'])} ({named})."
        )


def hardening_findings(found: Any) -> None:
    """The recommendation and every way that was measured."""
    console = out()
    console.print(f"\n[bold]{escape(found.recommendation)}[/bold]\n")
    table = Table(box=None, pad_edge=False)
    names = ("survive", "certified", "extra cost", "served", "quality")
    table.add_column("mitigation")
    for name in names:
        table.add_column(name, justify="right")

    def share(value: float) -> str:
        return "" if value != value else percent(value, 1)

    for row in found.table.to_dict(orient="records"):
        star = " *" if row["proven"] else ""
        cells = [share(row[n]) for n in ("survive", "certified", "extra_cost", "served")]
        cells.append("" if row["quality"] != row["quality"] else f"{row['quality']:.3g}")
        table.add_row(escape(f"{row['mitigation']} {row['setting']}".strip()) + star, *cells)
    console.print(table)
    console.print("* proven for all of them. quality: R², or the area under the ROC curve, on rows")
    console.print("  held out.")
    honour = [m for m in found.made if m.name == "honour"]
    for each in honour:
        console.print(f"honour: {escape(each.note)}.")
    for name, why in found.skipped.items():
        console.print(f"{name} was left out: {escape(why)}")


def impact_findings(found: Any, most: int = 20) -> None:
    """The headline and the promises that break, worst first."""
    console = out()
    console.print()
    console.print(f"[bold]{escape(found.headline)}[/bold]")
    if len(found.broken):
        table = Table(box=None, pad_edge=False)
        for name in ("id", "short by", "promised", "tell them now", "extra cost"):
            table.add_column(name, overflow="fold")
        for name, row in (
            found.broken.sort_values("shortfall", ascending=False).head(most).iterrows()
        ):
            extra = "" if row["extra_cost"] != row["extra_cost"] else f"{row['extra_cost']:+.3g}"
            short = row["shortfall"]
            short = "no score any more" if short != short else f"{short:.3g}"
            cells = (str(name), short, row["promised"], row["now"], extra)
            table.add_row(*(escape(one_line(cell)) for cell in cells))
        console.print(table)
        if len(found.broken) > most:
            console.print(f"... and {len(found.broken) - most} more: see --case-file or --json")
    if found.largest_error == found.largest_error:
        console.print(
            f"Predicted and refitted scores differ by at most {found.largest_error:.1e} deviations."
        )
    if found.preprocessing_matters:
        frozen = int((found.recourses["frozen"] < found.target).sum())
        console.print(
            f"With the preprocessing kept instead of refitted, {frozen} would break instead of "
            f"{len(found.broken)}."
        )

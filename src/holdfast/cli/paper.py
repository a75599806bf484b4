"""``holdfast data`` and ``holdfast reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from holdfast.cli import screen
from holdfast.datasets import NAMES, cache, load_dataset, source_of, tasks_of


def list_datasets() -> int:
    """Every data set, what is predicted, and where its file comes from."""
    table = Table(box=None, pad_edge=False)
    for name in ("data set", "task", "predicted", "from"):
        table.add_column(name)
    for name in NAMES:
        source = source_of(name)
        origin = "scikit-learn" if source is None else source.archive
        for number, (task, predicted) in enumerate(tasks_of(name).items()):
            first = number == 0
            table.add_row(
                name if first else "", task, escape(predicted), escape(origin) if first else ""
            )
    screen.out().print(table)
    screen.out().print(
        "\nLooked for in the folder HOLDFAST_DATA, then in the cache "
        f"({escape(str(cache.folder()))}), then fetched.",
        soft_wrap=True,
    )
    return 0


def fetch_datasets(names: list[str], quiet: bool) -> int:
    """Have data sets at hand: found, or fetched into the cache."""
    for name in names or NAMES:
        data = load_dataset(name, progress=lambda said: screen.note(said, quiet))
        rows = data.about["rows before duplicates were dropped"]
        screen.out().print(
            f"{name}: {rows:,} rows, {len(data.X):,} without duplicates, from {data.about['from']}",
            markup=False,
        )
    return 0


def show_dataset(name: str, task: str | None, path: Path | None, quiet: bool) -> int:
    """What a data set is: its rows, what is predicted, and what a person can change."""
    data = load_dataset(name, task, path=path, progress=lambda said: screen.note(said, quiet))
    console = screen.out()
    console.print(f"[bold]{escape(name)}[/bold], {data.task}: {escape(data.about['predicted'])}")
    rows = data.about["rows before duplicates were dropped"]
    console.print(f"{rows:,} rows, {len(data.X):,} without duplicates; from {data.about['from']}")
    if data.task == "regression":
        console.print(f"labels from {data.y.min():g} to {data.y.max():g}, high is good")
    else:
        console.print(f"{100 * data.y.mean():.1f} % have the favourable outcome")
    if data.subjects is not None:
        console.print(f"{len(set(data.subjects)):,} people")
    table = Table(box=None, pad_edge=False)
    for heading in ("feature", "kind", "missing", "may change"):
        table.add_column(heading)
    rules = data.actionability.features
    for feature, column in data.X.items():
        text = column.dtype.kind not in "iufb"
        kind = f"{column.nunique()} categories" if text else f"{column.min():g} to {column.max():g}"
        gone = float(column.isna().mean())
        way = rules[feature].direction if feature in rules else "any"
        table.add_row(escape(str(feature)), kind, f"{100 * gone:.0f} %" if gone else "", way)
    console.print()
    console.print(table)
    return 0


def run_reproduction(figures: list[str], options: dict[str, Any], quiet: bool) -> int:
    """Measure, draw, judge, and say what was found."""
    from holdfast.paper import reproduce

    with screen.showing(quiet) as (tell, _):
        made = reproduce(
            figures,
            progress=tell,
            note=lambda said: screen.note(said, quiet),
            **{name: value for name, value in options.items() if value is not None},
        )
    table = Table(box=None, pad_edge=False)
    for heading in ("claim", "the paper", "judged by", "verdict"):
        table.add_column(heading)
    for claim in made.claims:
        if claim.verdict != "not measured":
            cells = (claim.sentence, claim.number, claim.by)
            table.add_row(*map(escape, cells), claim.verdict)
    screen.out().print(table)
    for why in made.missing.values() if quiet else ():  # said already otherwise
        screen.err().print(f"left out: {why}", markup=False)
    screen.out().print(f"\nfigures, tables and claims: {made.folder}", markup=False)
    return 0

"""What each command does, once its options are known."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.arguments import near_name
from holdfast.cases.issuing import check_promises_out, write_promises
from holdfast.cases.loading import Case, load_case
from holdfast.cases.running import audit_case, check_audit, check_harden, harden_case
from holdfast.cases.settings import TEMPLATE, Settings, made, threshold
from holdfast.cli import screen
from holdfast.errors import HoldfastError
from holdfast.files import Outputs, writable, writable_folder
from holdfast.inert import one_line
from holdfast.models.hold import hold
from holdfast.models.refits import Progress
from holdfast.report import hardening_page, page
from holdfast.report.case_file import PRIVATE_TABLES, write_case_file
from holdfast.report.schema import AuditSummary, HardeningPart, ImpactSummary
from holdfast.report.tables import TABLES, write_tables
from holdfast.report.words import at_most, people

PROMISES = "recourses (personal data; read back with --recourses)"


def write_template(config: Path | None) -> None:
    """Write a commented settings file, never over another."""
    path = config or Path("audit.toml")
    if path.exists():
        raise HoldfastError(f"{str(path)!r} exists already: name another file, or remove it first")
    with Outputs() as out:
        out.text(path, TEMPLATE)
    name = one_line(str(path))
    screen.note(f"wrote {name}; edit it, then run: holdfast audit {name}")


def parameters_of(pairs: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are read as JSON where they can be."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise HoldfastError(f"--param must be NAME=VALUE, got {pair!r}")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        except (ValueError, RecursionError):
            raise HoldfastError(
                f"--param {name}: a number of that many digits, or brackets that deep, cannot be "
                "read"
            ) from None
    return found


@contextlib.contextmanager
def loaded(settings: Settings, hold_out: bool = True) -> Iterator[tuple[Case, Progress]]:
    """The loaded case, with progress and remarks shown while the work goes on."""
    with screen.showing(settings.quiet, settings.json_) as (tell, remark):
        case = load_case(settings, tell, remark, hold_out)
        if settings.hold is not None and not Path(settings.hold).exists():
            model: Any = case.model
            hold(model, settings.hold)
            remark(f"Sums were written to {one_line(settings.hold.name)} (personal data).")
        yield case, tell


def run_audit(options: dict[str, Any], config: Path | None) -> int:
    """Audit; write what was asked for; 1 if a threshold was passed."""
    settings = made(options, config)
    check_outputs(settings, config)
    check_audit(settings)
    with loaded(settings) as (case, tell):
        result = audit_case(settings, case, tell)
    summary = result.summary()
    with Outputs() as out:
        _write_audit(result, summary, settings, out)
        with screen.reading():
            if settings.json_:
                print(summary.as_json(), end="")
            else:
                screen.remarks([] if settings.quiet else case.about.notes)
                screen.audit_findings(result)
                if result.hardening is not None:
                    screen.hardening_findings(result.hardening)
    if not settings.json_:
        _say_what_was_written(settings)
    failed = _failures(result, settings)
    for line in failed:
        screen.finding(line)
    return 1 if failed else 0


def run_harden(options: dict[str, Any], config: Path | None) -> int:
    """Measure the mitigations; write down what was proven."""
    settings = made(options, config)
    check_outputs(settings, config)
    check_harden(settings)
    with loaded(settings) as (case, tell):
        check_promises_out(settings, case.given)
        found = harden_case(settings, case, tell, of_the_audit=settings.recourses is not None)
    if settings.out is not None and "margin" not in found.mitigations:
        why = found.skipped.get("margin", "it was not measured")
        raise HoldfastError(f"⟦out⟧ writes the recourses of the mitigation 'margin': {why}")
    with Outputs() as out:
        if settings.html is not None:
            out.text(settings.html, hardening_page(found.part()))
        if settings.json_file is not None:
            out.text(settings.json_file, found.to_json())
        if settings.out is not None:
            write_promises(found.mitigations["margin"].points, settings, out)
        with screen.reading():
            if settings.json_:
                print(found.to_json(), end="")
            else:
                screen.remarks([] if settings.quiet else case.about.notes)
                screen.hardening_findings(found)
    if not settings.json_:
        screen.places({"page": settings.html, "JSON": settings.json_file, PROMISES: settings.out})
    return 0


def check_outputs(settings: Settings, config: Path | None) -> None:
    """Refuse places that cannot be written to before any work is done."""
    files = [settings.html, settings.json_file, settings.emit, settings.save_model, settings.out]
    if settings.hold is not None and not settings.hold.exists():
        files.append(settings.hold)
    inside: list[Path] = []  # files of folders
    case = settings.case_file
    if case is not None and case.suffix.lower() in (".html", ".htm"):
        files.append(case)
    elif case is not None:
        if case.suffix:
            raise HoldfastError(f"--case-file must be an .html file or a folder, got {str(case)!r}")
        writable_folder(case)
        inside += [case / name for name in PRIVATE_TABLES]
    if settings.csv is not None:
        writable_folder(settings.csv)
        inside += [settings.csv / f"{name}.csv" for name in TABLES]
        if case is not None and os.path.realpath(case) == os.path.realpath(settings.csv):
            raise HoldfastError("--csv can be shared and --case-file cannot: use two folders")
    read = [settings.train, settings.people, settings.recourses, settings.model_file]
    read += [settings.erased, config, *map(Path, [*settings.erase, *settings.erase_file])]
    if settings.actionability not in ("infer", "none"):
        read.append(Path(settings.actionability))
    inputs = {os.path.realpath(path) for path in read if path is not None and "\0" not in str(path)}
    named = []
    for path in (*(p for p in files if p is not None), *inside):
        if path in inside and not path.parent.is_dir():
            continue  # a new folder: nothing is there yet
        named.append(os.path.realpath(writable(path)))
        if named[-1] in inputs:
            raise HoldfastError(f"{str(path)!r} is read from: write somewhere else")
    if len(set(named)) < len(named):
        raise HoldfastError("two outputs go to the same file")
    if settings.save_model is not None and settings.save_model.suffix.lower() != ".skops":
        raise HoldfastError(f"--save-model writes .skops files, got {str(settings.save_model)!r}")


def _write_audit(result: Any, summary: AuditSummary, settings: Settings, out: Outputs) -> None:
    if settings.html is not None:
        out.text(settings.html, page(summary))
    if settings.json_file is not None:
        out.text(settings.json_file, summary.as_json())
    if settings.csv is not None:
        write_tables(summary, settings.csv, out)
    if settings.case_file is not None:
        write_case_file(result, settings.case_file, out)


def _say_what_was_written(settings: Settings) -> None:
    screen.out().print()
    screen.places(
        {
            "report": settings.html,
            "JSON": settings.json_file,
            "tables": settings.csv,
            "case file (personal data, keep it safe)": settings.case_file,
        }
    )
    if settings.html is None:
        screen.places({"No report was written": "add --html report.html"})


def _failures(result: Any, settings: Settings) -> list[str]:
    above, unproven = (
        threshold(getattr(settings, name), name, settings.max_deletions)
        for name in ("fail_above", "fail_unproven")
    )
    failed = []
    if above is not None and (share := result.share_broken(above[1])) > above[0]:
        failed.append(
            f"{people(above[1], result.unit)} erased: {share:.1%} of the recourses broken, "
            f"confirmed by refitting, above {above[0]:.1%} (--fail-above)"
        )
    if unproven is not None:
        ceiling, said = result.ceiling(unproven[1]), "nothing is proven"
        if ceiling is not None:
            ceiling = max(ceiling, result.share_broken(unproven[1]))  # solvers stop short of it
            said = f"the proven ceiling is {at_most(ceiling, 1)}"
        if ceiling is None or ceiling > unproven[0]:
            failed.append(
                f"{people(unproven[1], result.unit)} erased: {said}, not at most "
                f"{unproven[0]:.1%} (--fail-unproven)"
            )
    return failed


def run_recourse(options: dict[str, Any], config: Path | None) -> int:
    """Find recourse and write it down, in the form --recourses reads back."""
    settings = made(options, config)
    check_outputs(settings, config)
    with loaded(settings, hold_out=False) as (case, _):
        given = case.given
    check_promises_out(settings, given)
    fine = given.take(np.flatnonzero(given.valid.to_numpy()))
    console, words = screen.out(), fine.in_words()
    with Outputs() as out:
        if settings.out is not None:
            write_promises(fine.told, settings, out)
        with screen.reading():
            screen.remarks([] if settings.quiet else case.about.notes)
            shown = set(words.head(20).index)
            for person, way, said, _ in fine.in_ways().itertuples(index=False):
                if person in shown:
                    kind = f" ({way})" if fine.ways else ""
                    console.print(f"{one_line(str(person))}{kind}: {one_line(said)}", markup=False)
            if len(words) > 20:
                hint = "" if settings.out else ": add --out"
                console.print(f"... and {len(words) - 20} more{hint}")
    screen.places({PROMISES: settings.out})
    return 0


def run_rules(table: Path, options: dict[str, Any]) -> int:
    """What people can change, as inferred, as a TOML file for editing."""
    from holdfast.recourse.actionability import Actionability
    from holdfast.tables import read_table, typed

    apart = [options[name] for name in ("label", "id", "subject") if options.get(name)]
    text = [*(options.get("text") or []), *apart[1:]]
    delimiter, decimal = options.get("delimiter") or ",", options.get("decimal") or "."
    raw = read_table(table, text, delimiter, decimal)
    for name in [*apart, *(options.get("drop") or [])]:
        if name not in raw.columns:
            known = near_name(name, raw.columns)
            raise HoldfastError(f"{str(table)!r} has no column {name!r}{known}")
    X = typed(raw.drop(columns=[*apart, *(options.get("drop") or [])]), str(table), text)
    rules = Actionability.infer(X)
    head = [
        f"# What people can change, inferred from {one_line(table.name)}. Edit it, then pass it",
        "# with --actionability. A change is: direction = any, up, down or frozen; low and high;",
        "# step; integer; allowed = [categories]; similar = true: no further than similar people.",
        "",
    ]
    print("\n".join(head) + rules.to_toml(), end="")
    if not apart:
        screen.note("no --label was named: the label is among the features here")
    return 0


def print_schema(of: str) -> None:
    """The JSON Schema of a summary."""
    parts: dict[str, Any] = {
        "audit": AuditSummary,
        "impact": ImpactSummary,
        "harden": HardeningPart,
    }
    print(json.dumps(parts[of].model_json_schema(), indent=1))

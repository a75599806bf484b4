"""What each command does, once its options are known."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast import __version__
from holdfast.audits import audit
from holdfast.audits.likelihood import erasures_in
from holdfast.cli import screen
from holdfast.cli.loading import Case, belongs_to, ids_in, load_case
from holdfast.cli.modelfile import save_model
from holdfast.cli.settings import TEMPLATE, Settings, made, threshold
from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs, writable, writable_folder
from holdfast.hardening import harden
from holdfast.hardening.result import Hardening
from holdfast.impacts import Impact, impact
from holdfast.report import hardening_page, page
from holdfast.report.cases import write_case_file, write_private_tables
from holdfast.report.schema import AuditSummary, BrokenPart, HardeningPart, ImpactSummary
from holdfast.report.tables import write_tables
from holdfast.report.words import at_most, people
from holdfast.tables import is_parquet, read_table


def write_template(config: Path | None) -> None:
    """Write a commented settings file, never over another."""
    path = config or Path("audit.toml")
    if path.exists():
        raise HoldfastError(f"{str(path)!r} exists already: name another file, or remove it first")
    with Outputs() as out:
        out.text(path, TEMPLATE)
    screen.note(f"wrote {path}; edit it, then run: holdfast audit {path}")


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
    return found


@contextlib.contextmanager
def _case(settings: Settings, hold_out: bool = True) -> Iterator[tuple[Case, screen.Tell]]:
    """The loaded case, with progress shown while the work goes on."""
    with screen.progress(settings.quiet or settings.json_) as tell:
        yield load_case(settings, tell, hold_out), tell


def run_audit(options: dict[str, Any], config: Path | None) -> int:
    """Audit; write what was asked for; 1 if a threshold was passed."""
    settings = made(options, config)
    _check_outputs(settings, config)
    above = threshold(settings.fail_above, "fail_above", settings.max_deletions)
    unproven = threshold(settings.fail_unproven, "fail_unproven", settings.max_deletions)
    if (settings.rate is None) != (settings.horizon is None):
        raise HoldfastError("--rate and --horizon go together: 40/week for 26w")
    erasures = None
    if settings.rate is not None:
        erasures = erasures_in(settings.rate, str(settings.horizon))
    with _case(settings) as (case, tell):
        case.about["rate"], case.about["horizon"] = settings.rate, settings.horizon
        case.about["settings"] = {"overshoot": settings.overshoot, "jobs": settings.jobs}
        result = audit(
            case.model,
            case.given,
            case.target,
            settings.max_deletions,
            settings.certify,
            settings.seed,
            search=settings.search,
            unit=_unit(settings),
            draws=settings.draws,
            erasures=erasures,
            cohorts=_cohorts(settings, case),
            at=(above or unproven or (0, None))[1],
            time_limit=settings.time_limit,
            n_jobs=settings.jobs,
            progress=tell,
            about=case.about,
        )
        if settings.survive is not None:
            result.hardening = _hardened(settings, case, tell)
        summary = result.summary()
    _write_audit(result, summary, settings)
    if settings.json_:
        print(_as_json(summary))
    else:
        screen.audit_findings(result, [] if settings.quiet else case.notes)
        if result.hardening is not None:
            screen.hardening_findings(result.hardening)
        _say_what_was_written(settings)
    failed = _failures(result, above, unproven)
    for line in failed:
        print(f"holdfast: {line}", file=sys.stderr)
    return 1 if failed else 0


def _hardened(settings: Settings, case: Case, tell: screen.Tell) -> Hardening:
    """Every mitigation measured on the same people."""
    return harden(
        case.model,
        case.given.people,
        case.target,
        settings.survive or 3,
        _labelled(case),
        mitigations=settings.mitigation or None,
        actionability=case.given.actionability,
        overshoot=settings.overshoot,
        method=settings.method,
        cost=settings.cost,
        unit=_unit(settings),
        max_deletions=settings.max_deletions,
        random_state=settings.seed,
        n_jobs=settings.jobs,
        progress=tell,
    )


def _labelled(case: Case) -> tuple[Any, Any] | None:
    """People whose outcome is known and who were not trained on: models are judged by them."""
    people, trained = case.people, set(case.train.X.index[case.training])
    if people.label is None or case.labels is None or people.X.index.isin(list(trained)).any():
        return None
    known = people.X.index.isin(case.train.X.index) & people.label.notna().to_numpy()
    if not known.any():
        return None
    rows = case.train.X.index.get_indexer(people.X.index[known])
    return people.X[known], case.labels.values[rows]


def run_harden(options: dict[str, Any], config: Path | None) -> int:
    """Measure the mitigations; write down what was proven."""
    settings = made(options, config)
    _check_outputs(settings, config)
    with _case(settings) as (case, tell):
        found = _hardened(settings, case, tell)
    part = found.part()
    with Outputs() as out:
        if settings.html is not None:
            out.text(settings.html, hardening_page(part))
        if settings.json_file is not None:
            out.text(settings.json_file, found.to_json())
        if settings.out is not None:
            if "margin" not in found.mitigations:
                raise HoldfastError("--out writes the recourses of the mitigation 'margin'")
            table = found.mitigations["margin"].points.reset_index(names=settings.id or "id")
            out.text(settings.out, table.to_csv(index=False, sep=settings.delimiter), PRIVATE)
    if settings.json_:
        print(found.to_json(), end="")
        return 0
    for line in [] if settings.quiet else case.notes:
        screen.out().print(line, style="dim", markup=False)
    screen.hardening_findings(found)
    places = {"page": settings.html, "JSON": settings.json_file}
    for name, path in {**places, "recourses (personal data)": settings.out}.items():
        if path is not None:
            screen.out().print(f"{name}: {path}", markup=False)
    return 0


def _unit(settings: Settings) -> str:
    return settings.unit or ("subject" if settings.subject else "row")


def _cohorts(settings: Settings, case: Case) -> Any:
    if settings.cohort is None:
        return None
    column = read_table(settings.train, [settings.cohort], settings.delimiter)[settings.cohort]
    return column.iloc[case.training].to_numpy()


def _as_json(summary: Any) -> str:
    return json.dumps(summary.model_dump(mode="json"), indent=1, allow_nan=False)


def _check_outputs(settings: Settings, config: Path | None) -> None:
    """Refuse places that cannot be written to before any work is done."""
    files = [settings.html, settings.json_file, settings.emit, settings.save_model, settings.out]
    case = settings.case_file
    if case is not None and case.suffix.lower() in (".html", ".htm"):
        files.append(case)
    elif case is not None:
        if case.suffix:
            raise HoldfastError(f"--case-file must be an .html file or a folder, got {str(case)!r}")
        writable_folder(case)
    if settings.csv is not None:
        writable_folder(settings.csv)
        if case is not None and case.resolve() == settings.csv.resolve():
            raise HoldfastError("--csv can be shared and --case-file cannot: use two folders")
    read = [settings.train, settings.people, settings.recourses, settings.model_file]
    read += [settings.erased, config, *map(Path, settings.erase)]
    if settings.actionability not in ("infer", "none"):
        read.append(Path(settings.actionability))
    inputs = {path.resolve() for path in read if path is not None}
    named = [path.resolve() for path in files if path is not None]
    for path in (p for p in files if p is not None):
        writable(path)
        if path.resolve() in inputs:
            raise HoldfastError(f"{str(path)!r} is read from: write somewhere else")
    if len(set(named)) < len(named):
        raise HoldfastError("two outputs go to the same file")
    if settings.save_model is not None and settings.save_model.suffix.lower() != ".skops":
        raise HoldfastError(f"--save-model writes .skops files, got {str(settings.save_model)!r}")


def _write_audit(result: Any, summary: AuditSummary, settings: Settings) -> None:
    with Outputs() as out:
        if settings.html is not None:
            out.text(settings.html, page(summary))
        if settings.json_file is not None:
            out.text(settings.json_file, _as_json(summary) + "\n")
        if settings.csv is not None:
            write_tables(summary, settings.csv, out)
        if settings.case_file is not None:
            write_case_file(result, settings.case_file, out)


def _say_what_was_written(settings: Settings) -> None:
    console = screen.out()
    console.print()
    places = {"report": settings.html, "JSON": settings.json_file, "tables": settings.csv}
    for name, path in places.items():
        if path is not None:
            console.print(f"{name}: {path}", markup=False)
    if settings.case_file is not None:
        console.print(
            f"case file (personal data, keep it safe): {settings.case_file}", markup=False
        )
    if settings.html is None:
        console.print("No report was written: add --html report.html")


def _failures(
    result: Any, above: tuple[float, int] | None, unproven: tuple[float, int] | None
) -> list[str]:
    failed = []
    if above is not None and (share := result.share_broken(above[1])) > above[0]:
        failed.append(
            f"{people(above[1], result.unit)} erased: {share:.1%} of the recourses broken, "
            f"confirmed by refitting, above {above[0]:.1%} (--fail-above)"
        )
    if unproven is not None:
        ceiling, said = result.ceiling(unproven[1]), "nothing is proven"
        if ceiling is not None:  # it is about the preprocessing kept: refits may show more
            ceiling = max(ceiling, result.share_broken(unproven[1]))
            said = f"the proven ceiling is {at_most(ceiling, 1)}"
        if ceiling is None or ceiling > unproven[0]:
            failed.append(
                f"{people(unproven[1], result.unit)} erased: {said}, not at most "
                f"{unproven[0]:.1%} (--fail-unproven)"
            )
    return failed


def run_impact(options: dict[str, Any], config: Path | None) -> int:
    """Erase some people; say whose promise breaks and what to tell them."""
    settings = made(options, config)
    if settings.id is None and settings.subject is None:
        raise HoldfastError("people are erased by id: say which column with --id or --subject")
    ids = _requested(settings)
    _check_outputs(settings, config)
    with _case(settings, hold_out=False) as (case, tell):
        tell("refits without them", 0, 1)
        inside, rows = _inside(case, ids)
        given = case.given
        found = impact(
            case.model,
            given,
            inside,
            case.target,
            own=_of_the_erased(case, rows),
            overshoot=max(settings.overshoot, given.overshoot),
            actionability=_rules_without(settings, case, inside),
            start="scratch" if settings.from_scratch else "fitted",
            random_state=settings.seed,
        )
        tell("refits without them", 1, 1)
    summary = _impact_summary(found, len(ids), found.promises_of_erased)
    _write_impact(found, summary, settings, np.union1d(rows, case.gone))
    if settings.json_:
        print(_as_json(summary))
    else:
        screen.impact_findings(found, [] if settings.quiet else case.notes)
        written = {"table without them": settings.emit, "model": settings.save_model}
        for name, path in {**written, "case file (personal data)": settings.case_file}.items():
            if path is not None:
                screen.out().print(f"{name}: {path}", markup=False)
    return 0


def _requested(settings: Settings) -> list[str]:
    """Ids from options: each a file of ids where there is such a file, else an id."""
    if not settings.erase:
        raise HoldfastError("nobody is to be erased: name ids, or files of ids, with --erase")
    ids: list[str] = []
    for word in settings.erase:
        path = Path(word)
        try:
            is_path = path.exists()
        except OSError:
            is_path = False
        if is_path and path.is_dir():
            raise HoldfastError(
                f"--erase {word!r} is a directory: an id or a file of ids is wanted"
            )
        ids += ids_in(path, settings) if is_path else [word]
    return list(dict.fromkeys(ids))


def _inside(case: Case, ids: list[str]) -> tuple[list[str], Any]:
    """The ids with training rows, and the file's rows of everybody named; strangers are refused."""
    known = set(case.names)
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise HoldfastError(
            f"unknown id {unknown[0]!r} ({len(unknown)} of {len(ids)} unknown; no file of that "
            "name is there either): nothing was done"
        )
    wanted = set(ids)
    rows = np.flatnonzero([name in wanted for name in case.names])
    fitted = {case.names[row] for row in case.training}
    inside = [name for name in ids if name in fitted]
    if not inside:
        raise HoldfastError("all of them were erased before: there is nothing left to erase")
    return inside, rows


def _of_the_erased(case: Case, rows: Any) -> Any:
    """Which promises were given to those who are erased."""
    gone = case.people.X.index[belongs_to(case.people, case.train, rows)]
    return case.given.people.index.isin(list(gone))


def _rules_without(settings: Settings, case: Case, inside: list[str]) -> Any:
    """Inferred rules are inferred again, so that no bound is an erased person's value."""
    if settings.actionability != "infer":
        return None
    from holdfast.recourse.actionability import Actionability

    model = case.model
    keep = np.setdiff1d(np.arange(model.rows.n), model.positions_of(inside))
    return Actionability.infer(model.frame.iloc[keep])


def _impact_summary(found: Impact, requests: int, promises_of_erased: int) -> ImpactSummary:
    lines = found.recourses[found.recourses["breaks"]]
    parts = []
    for (name, row), (_, scores) in zip(found.broken.iterrows(), lines.iterrows(), strict=True):
        parts.append(
            BrokenPart(
                id=str(name),
                score=float(scores["score"]),
                **{name: _known(scores[name]) for name in ("predicted", "frozen", "refitted")},
                shortfall=_known(row["shortfall"]),
                promised=row["promised"],
                now=row["now"],
                further=row["further"],
                extra_cost=_known(row["extra_cost"]),
            )
        )
    return ImpactSummary(
        requests=requests,
        erased_rows=found.erased_rows,
        recourses=len(found.recourses),
        broken=parts,
        frozen_broken=int((~(found.recourses["frozen"] >= found.target)).sum()),
        promises_of_erased=promises_of_erased,
        target=found.target,
        largest_error=_known(found.largest_error),
        headline=found.headline,
        version=__version__,
    )


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def _write_impact(found: Impact, summary: ImpactSummary, settings: Settings, rows: Any) -> None:
    mode = settings.train.stat().st_mode & 0o666
    with Outputs() as out:
        if settings.json_file is not None:
            out.text(settings.json_file, _as_json(summary) + "\n", PRIVATE)
        if settings.case_file is not None:
            _write_impact_case(found, settings.case_file, out)
        if settings.save_model is not None:
            estimator = found.updated.estimator
            # as open as the training table, and no more: some models hold training rows
            out.file(settings.save_model, lambda place: save_model(estimator, place), mode)
        if settings.emit is not None:
            out.file(settings.emit, lambda place: _emit(settings, rows, place), mode)


def _write_impact_case(found: Impact, path: Path, out: Outputs) -> None:
    broken = found.broken.reset_index(names="id")
    everybody = found.recourses.reset_index(names="id")
    if path.suffix.lower() in (".html", ".htm"):
        from holdfast.report.cases import impact_page

        out.text(path, impact_page(found.headline, broken, everybody), PRIVATE)
        return
    write_private_tables({"broken": broken, "recourses": everybody}, path, out)


def _emit(settings: Settings, rows: Any, place: Path) -> None:
    """The training file without some rows, its cells as they were."""
    if is_parquet(settings.train):
        table = pd.read_parquet(settings.train)
        if table.index.name is not None:
            table = table.reset_index()
    elif is_parquet(place):
        table = read_table(settings.train, [], settings.delimiter, settings.decimal)
    else:
        table = pd.read_csv(
            settings.train,
            sep=settings.delimiter,
            dtype=str,
            keep_default_na=False,
            index_col=False,
            encoding="utf-8-sig",
        )
    keep = np.setdiff1d(np.arange(len(table)), rows)
    table = table.iloc[keep]
    for name, kind in table.dtypes.items():
        if isinstance(kind, pd.CategoricalDtype):  # else it remembers what nobody has any more
            table[name] = table[name].cat.remove_unused_categories()
    if is_parquet(place):
        table.to_parquet(place, index=False)
    else:
        table.to_csv(place, index=False, sep=settings.delimiter)


def run_recourse(options: dict[str, Any], config: Path | None) -> int:
    """Find recourse and write it down, in the form --recourses reads back."""
    settings = made(options, config)
    _check_outputs(settings, config)
    with _case(settings, hold_out=False) as (case, _):
        given = case.given
    fine = given.take(np.flatnonzero(given.valid.to_numpy()))
    if settings.out is not None:
        table = fine.points.reset_index(names=settings.id or "id")
        with Outputs() as out:
            out.text(settings.out, table.to_csv(index=False, sep=settings.delimiter), PRIVATE)
    console = screen.out()
    for line in [] if settings.quiet else case.notes:
        console.print(line, style="dim", markup=False)
    words = fine.in_words()
    for name, said in words.head(20).items():
        console.print(f"{name}: {said}", markup=False)
    if len(words) > 20:
        console.print(f"... and {len(words) - 20} more" + ("" if settings.out else ": add --out"))
    if settings.out is not None:
        console.print(f"recourses (personal data): {settings.out}", markup=False)
    return 0


def print_schema(of: str) -> None:
    """The JSON Schema of a summary."""
    parts: dict[str, Any] = {
        "audit": AuditSummary,
        "impact": ImpactSummary,
        "harden": HardeningPart,
    }
    print(json.dumps(parts[of].model_json_schema(), indent=1))

"""``holdfast impact``: concrete requests, honoured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.audits.impacts import Impact
from holdfast.cases.modelfile import save_model
from holdfast.cases.remaining import write_without
from holdfast.cases.running import erase_from_case, requested
from holdfast.cases.settings import Settings, made
from holdfast.cli import screen
from holdfast.cli.commands import check_outputs, loaded
from holdfast.files import PRIVATE, Outputs
from holdfast.models.hold import write_hold
from holdfast.models.looking import write_rest
from holdfast.models.scanned import ScannedModel, files_of
from holdfast.report.case_file import impact_page, write_private_tables
from holdfast.report.schema import BrokenPart, ImpactSummary


def run_impact(options: dict[str, Any], config: Path | None) -> int:
    """Erase some people; say whose promise breaks and what to tell them."""
    settings = made(options, config)
    requests = requested(settings)
    check_outputs(settings, config)
    with loaded(settings, hold_out=False) as (case, tell):
        found, rows = erase_from_case(settings, case, requests, tell)
        files = files_of(case.model)
    summary = _impact_summary(found, len(requests.ids), found.promises_of_erased)
    with Outputs() as out:
        _write_impact(found, summary, settings, rows, files, out)
        with screen.reading():
            if settings.json_:
                print(summary.as_json(), end="")
            else:
                screen.remarks([] if settings.quiet else case.about.notes)
                screen.impact_findings(found)
    if not settings.json_:
        screen.places(
            {
                "table without them (cells as they were; read back with --train)": settings.emit,
                "model": settings.save_model,
                "JSON (personal data)": settings.json_file,
                "case file (personal data)": settings.case_file,
            }
        )
    return 0


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


def _write_impact(
    found: Impact,
    summary: ImpactSummary,
    settings: Settings,
    rows: Any,
    files: list[str],
    out: Outputs,
) -> None:
    mode = min(Path(file).stat().st_mode & 0o666 for file in files or [str(settings.train)])
    if settings.json_file is not None:
        out.text(settings.json_file, summary.as_json(), PRIVATE)
    if settings.case_file is not None:
        _write_impact_case(found, settings.case_file, out)
    if settings.save_model is not None:
        estimator = found.updated.estimator
        # as open as the training table, and no more: some models hold training rows
        out.file(settings.save_model, lambda place: save_model(estimator, place), mode)
    updated = found.updated
    if settings.emit is not None and isinstance(updated, ScannedModel):
        scan, to = updated.recipe.scan, settings.emit.suffix
        write = partial(write_rest, scan, rows, suffix=to, delimiter=settings.delimiter)
        out.file(settings.emit, write, mode)
    elif settings.emit is not None:
        out.file(settings.emit, lambda place: write_without(settings, rows, place), mode)
    honoured = settings.emit is not None or settings.save_model is not None
    held = honoured and settings.hold is not None and Path(settings.hold).exists()
    if held and isinstance(updated, ScannedModel):
        # once they are erased, sums that have them in are kept no longer
        out.file(settings.hold, lambda place: write_hold(updated, place), PRIVATE)


def _write_impact_case(found: Impact, path: Path, out: Outputs) -> None:
    broken = found.broken.reset_index(names="id")
    everybody = found.recourses.reset_index(names="id")
    if path.suffix.lower() in (".html", ".htm"):
        out.text(path, impact_page(found.headline, broken, everybody), PRIVATE)
        return
    write_private_tables({"broken": broken, "recourses": everybody}, path, out)

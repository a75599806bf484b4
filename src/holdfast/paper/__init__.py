"""The paper, reproduced: every figure from the real data, and a table of its claims."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.arguments import near_name
from holdfast.datasets import load_dataset, path_with, source_of
from holdfast.errors import HoldfastError
from holdfast.files import Outputs
from holdfast.paper import choices, drawing, notions, pages
from holdfast.paper.claims import Verdict, as_markdown, verdicts
from holdfast.paper.names import NAMES
from holdfast.paper.provenance import (
    SEARCHES_TOLD,
    commit,
    machine,
    measuring_source,
    methods_told,
)
from holdfast.paper.runner import FIGURES, run
from holdfast.paper.settings import (
    AS_IS,
    EVERYONE,
    FULL,
    METHODS,
    OVERSHOOTS,
    PRINTED,
    QUICK,
    Cell,
    Scale,
)
from holdfast.paper.store import Store

_LIBRARIES = ("holdfast", "numpy", "scipy", "scikit-learn", "pandas", "numba", "matplotlib")
_COLUMNS = (
    *("figure", "data", "model", "method", "overshoot", "split", "encoding", "stop"),
    *("people", "measure"),
    *("series", "deletions", "value", "error", "spread", "predicted", "by", "count"),
    *("target", "below_even_odds"),
)


@dataclass(frozen=True)
class Reproduction:
    """What a run made.

    Attributes
    ----------
    folder : Path
    results : frame
        One row per measurement.
    claims : list of Verdict
    missing : dict
        Data sets that could not be had, and why.
    """

    folder: Path
    results: pd.DataFrame
    claims: list[Verdict]
    missing: dict[str, str]


def reproduce(
    figures: Iterable[str] = ("all",),
    out: Any = "reproduction",
    *,
    data: Any = None,
    quick: bool = False,
    everyone: bool = False,
    redraw: bool = False,
    overshoots: Iterable[float] = OVERSHOOTS,
    jobs: int | None = None,
    resume: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> Reproduction:
    """Measure, draw and judge.

    Parameters
    ----------
    figures : iterable of str
        ``"all"``, or some of ``outcome``, ``action``, ``classification``, ``gates``, ``onion``,
        ``wide``, ``bounds``, ``overshoot``, ``encodings``, ``rules``, ``privacy``.
    out : path
        The folder the results go to.
    data : path, optional
        A folder with the raw files of the data sets.
    quick : bool
        A small version of everything: 800 training rows, two recourse methods.
    everyone : bool
        No caps: everybody below the target for every model, every method at every overshoot,
        every point refitted. Most of a day on two cores.
    redraw : bool
        Measure nothing: draw and judge what ``out`` holds, whatever version measured it. The
        manifest names both.
    overshoots : iterable of float
        How far past the target recourses are, in standard deviations of the training scores.
    jobs : int, optional
        Cases worked on at the same time; by default as many as there are cores, at most 4.
    resume : bool
        Go on with what ``out`` holds already, if the same sources measured it.
    progress : callable, optional
        Told the stage, how much is done, and of how much.
    note : callable, optional
        Told remarks in words.

    Returns
    -------
    Reproduction
    """
    wanted = _wanted(figures)
    grid = _grid(overshoots)
    if quick and everyone:
        raise HoldfastError("quick and everyone contradict each other: choose one")
    scale = QUICK if quick else EVERYONE if everyone else FULL
    tell, say = progress or (lambda stage, done, total: None), note or (lambda said: None)
    if jobs is not None and (not isinstance(jobs, int) or jobs < 1):
        raise HoldfastError(f"jobs must be a whole number from 1, got {jobs!r}")
    for name, place in (("data", data), ("out", out)):
        if place is not None and not isinstance(place, str | os.PathLike):
            raise HoldfastError(f"{name} must be a folder, got {place!r}")
    if data is not None and not Path(data).is_dir():
        raise HoldfastError(f"there is no folder {str(data)!r} with data sets")
    folder = _folder(out)
    cells = [cell for figure in wanted for cell in FIGURES[figure][0](scale, grid)]
    missing = _missing({cell.data for cell in cells}, data, say)
    cells = [cell for cell in cells if cell.data not in missing]
    if not cells:
        raise HoldfastError(next(iter(missing.values())))
    store = Store(folder, _settings(scale, grid, quick))
    if redraw:
        store.read_only()
    else:
        store.open(resume)
        said = ["holdfast reproduce", *([] if wanted == list(FIGURES) else wanted)]
        said += ["--quick"] if quick else ["--everyone"] if everyone else []
        said += [f"--overshoot {o:g}" for o in grid] if grid != OVERSHOOTS else []
        said += ["--resume"] if resume else []
        jobs = jobs or min(4, os.cpu_count() or 1)
        if quick:
            say(
                f"a quick run: {scale.train} training rows, {len(scale.methods)} of "
                f"{len(METHODS)} recourse methods: not the paper's size"
            )
        with store.timed({"command": " ".join(said), "commit": commit(), "jobs": jobs}) as keep:

            def kept(stage: str, done: int, total: int) -> None:
                keep(done)
                tell(stage, done, total)

            run(store, cells, scale, jobs, data, kept)
    complete = _complete(store, scale, grid)
    if not complete:
        raise HoldfastError(f"{str(folder)!r} holds no figure in full: run without ⟦redraw⟧")
    results, facts = _gathered(store, complete)
    claims = verdicts(results, grid)
    _write(store, results, claims, grid, facts, missing, path_with("admission", data))
    return Reproduction(folder, results, claims, missing)


def _wanted(figures: Iterable[str]) -> list[str]:
    names: list[Any] = [figures] if not isinstance(figures, list | tuple) else list(figures)
    for name in names:
        if name != "all" and name not in FIGURES:
            raise HoldfastError(
                f"there is no figure {name!r}{near_name(name, FIGURES)}. There are: all, "
                f"{', '.join(FIGURES)}"
            )
    return list(FIGURES) if "all" in names or not names else list(dict.fromkeys(names))


def _grid(overshoots: Iterable[float]) -> tuple[float, ...]:
    try:
        grid = tuple(sorted({float(overshoot) for overshoot in overshoots}))
    except (TypeError, ValueError):
        grid = ()
    if not grid or not all(0 <= overshoot < np.inf for overshoot in grid):
        raise HoldfastError("overshoots must be numbers from 0, at least one")
    return grid


def _folder(out: Any) -> Path:
    """A folder results can go to; it is made once there are any."""
    nearest = folder = Path(out)
    try:
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
    except (OSError, ValueError):
        raise HoldfastError(f"no folder can have the name {str(out)!r}") from None
    if not nearest.is_dir():
        raise HoldfastError(
            f"cannot write into {str(out)!r}: {str(nearest)!r} is a file, a folder is wanted"
        )
    if not os.access(nearest, os.W_OK):
        raise HoldfastError(f"cannot write into {str(out)!r}: no permission")
    return folder


def _missing(names: set[str], data: Any, say: Callable[[str], None]) -> dict[str, str]:
    """Data sets that cannot be had, and why; the rest is fetched now if it must be."""
    missing = {}
    for name in sorted(names):
        try:
            load_dataset(name, path=path_with(name, data), progress=say)
        except HoldfastError as failure:
            missing[name] = str(failure)
            say(f"left out: {failure}")
    return missing


def _settings(scale: Scale, grid: tuple[float, ...], quick: bool) -> dict[str, Any]:
    """What must be the same for results to belong together."""
    names = sorted({cell.data for figure in FIGURES for cell in FIGURES[figure][0](scale, grid)})
    hashes = {name: source.sha256 for name in names if (source := source_of(name)) is not None}
    settings = {
        "versions": {name: metadata.version(name) for name in _LIBRARIES[:-1]},
        "source": measuring_source(),
        "quick": quick,
        "overshoots": list(grid),
        "scale": asdict(scale),
        "data": hashes,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _complete(store: Store, scale: Scale, grid: tuple[float, ...]) -> list[Cell]:
    """The cells of what is there in full, earlier runs included: figures, overshoot by overshoot.

    A data set that could not be had may be missing from a figure as a whole.
    """
    complete = []
    for figure in FIGURES:
        cells = FIGURES[figure][0](scale, grid)
        had = {cell.data for cell in store.done(cells)}
        for overshoot in sorted({cell.overshoot for cell in cells}):
            wanted = [c for c in cells if c.overshoot == overshoot and c.data in had]
            if len(store.done(wanted)) == len(wanted):
                complete += wanted
    return complete


def _gathered(store: Store, cells: list[Cell]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """All finished cells as one table; what is told of their cases, and the time figures took."""
    records: list[dict[str, Any]] = []
    seconds: dict[str, dict[str, float]] = {}
    cases: dict[str, dict[str, Any]] = {}
    for cell in sorted(cells):
        found = store.read(cell)
        records += found["records"]
        took = seconds.setdefault(cell.figure, {"wall": 0.0, "core": 0.0})
        took["wall"] += found["seconds"]
        took["core"] += found.get("core seconds", 0.0)
        data, model, split, encoding = cell.case
        name = f"{data}, {model}, split {split}" + (
            "" if encoding == PRINTED.name else f", {encoding}"
        )
        cases[name] = found.get("case", {})
    table = pd.DataFrame(records).reindex(columns=list(_COLUMNS))
    table.loc[table["overshoot"] == AS_IS, "overshoot"] = np.nan
    rounded = {f: {k: round(v) for k, v in took.items()} for f, took in seconds.items()}
    return table, {"seconds of work by figure": rounded, "cases": cases}


def _write(
    store: Store,
    results: pd.DataFrame,
    claims: list[Verdict],
    grid: tuple[float, ...],
    facts: dict[str, Any],
    missing: dict[str, str],
    path: Any,
) -> None:
    """Tables, figures, claims, pages and the manifest: all of them or none."""
    folder = store.folder
    manifest = {
        "runs": store.runs(),
        "wall seconds of all runs": round(sum(r["wall seconds"] for r in store.runs())),
        "core seconds of all cells": round(
            sum(took["core"] for took in facts["seconds of work by figure"].values())
        ),
        "measured by": store.settings.get("source"),
        "drawn by": commit(),
        "machine": machine(),
        "settings": store.settings,
        "recourse methods": methods_told(),
        "searches": SEARCHES_TOLD,
        "seeds": {
            "splits": "numpy.random.default_rng(split).permutation(n), first 80 % to train",
            "people held out": "default_rng([11, split])",
            "random deletions": "default_rng([7, draw])",
            "recourse and searches": 0,
        },
        **facts,
        "missing data": missing,
    }
    drawn = {} if "admission" in missing else {"notions": notions.draw(path)}
    drawn |= {
        name: figure
        for which in results["figure"].unique()
        for name, figure in drawing.draw(which, results).items()
    }
    basis = _basis(results, missing, bool(store.settings["quick"]))
    with Outputs() as out:
        out.file(folder / "results.csv", lambda path: _csv(results, path))
        out.text(folder / "results.json", _json(results))
        out.text(folder / "claims.md", as_markdown(claims, grid, basis))
        out.text(folder / "choices.md", choices.as_markdown(results))
        out.text(folder / "claims.json", _dumped([asdict(claim) for claim in claims]))
        out.text(folder / "manifest.json", _dumped(manifest))
        out.text(folder / "figures.html", pages.slider(drawn, _stops(results)))
        for name, figure in drawn.items():
            for kind in ("svg", "png"):
                out.file(folder / f"{name}.{kind}", partial(drawing.save, figure))


def _stops(results: pd.DataFrame) -> list[str]:
    """The stops of the grid, and where methods stop by themselves; the finer ones apart."""
    known = results.loc[results["figure"] != "overshoot", "stop"].unique().tolist()
    return sorted(known, key=lambda stop: (stop == "as published", stop))


def _basis(results: pd.DataFrame, missing: dict[str, str], quick: bool) -> str:
    """What the claims are judged by, in a sentence or two."""
    figures = ", ".join(name for name in FIGURES if (results["figure"] == name).any())
    said = f"Judged by the figures {figures}."
    if quick:
        said += (
            " **A quick run: 800 training rows and two recourse methods, not the paper's size.**"
        )
    if missing:
        said += f" Left out, as the data could not be had: {', '.join(missing)}."
    few = sorted(
        {
            f"{NAMES[data]} ({NAMES[model]})"
            for data, model, target in zip(
                results["data"], results["model"], results["target"], strict=True
            )
            if target == "median score"
        }
    )
    if few:
        said += (
            " Fewer than 100 people score below even odds, and the median training score is the "
            f"target instead: {', '.join(few)}."
        )
    return said


def _csv(results: pd.DataFrame, path: Path) -> None:
    results.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def _json(results: pd.DataFrame) -> str:
    """One object per curve: what it is of, and its values by deletions."""
    what = list(_COLUMNS[:10])
    points = [c for c in _COLUMNS if c not in what]
    curves = []
    for key, found in results.groupby(what, dropna=False, sort=True):
        curve: dict[str, Any] = dict(zip(what, key, strict=True))
        found = found.sort_values("deletions")
        for name in points:
            values = found[name].astype(object).where(found[name].notna(), None).tolist()
            if any(value is not None for value in values):
                curve[name] = [_short(value) for value in values]
        curves.append(curve)
    lines = (json.dumps(curve, ensure_ascii=False, default=_plain) for curve in curves)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _plain(value: Any) -> Any:
    """A number as Python's own: some releases of pandas group by numpy's."""
    return value.item()


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) and not value.is_integer() else value


def _dumped(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

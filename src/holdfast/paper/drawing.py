"""The figures, laid out as the paper's: data sets in rows, recourse methods in columns.

One page per figure and per stop (an overshoot, or where methods stop by themselves); random
deletions are dotted; bands are two standard errors: of folds of the people, of draws of random
rows, and of splits of the data where those were measured (Figure 2 on the overshoots).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from holdfast.paper.names import NAMES
from holdfast.paper.settings import DELETIONS, PRINTED, TRAINED

#: the report's colours: told apart by the colour-blind, and each has a marker of its own too
ORANGE, BLUE, GREEN, GREY, INK = "#c2410c", "#2563a8", "#4d7c0f", "#6e7781", "#1f2328"
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
}
#: which methods, data sets and models come first
ORDER = {name: place for place, name in enumerate(NAMES)}
_MODELS = {
    "linear": (ORANGE, "o"),
    "ntk": (BLUE, "s"),
    "logistic": (ORANGE, "o"),
    "ls-svm": (BLUE, "s"),
    "ann": (GREEN, "^"),
}
_FEW = (1, 5, 9, DELETIONS)
_HOLLOW = {"fillstyle": "none"}


@dataclass(frozen=True)
class Line:
    """One line of a panel: which rows of the results it is drawn from, and how."""

    label: str
    where: dict[str, Any]
    colour: str
    style: str = "-"
    marker: str = ""
    band: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


def draw(figure: str, results: pd.DataFrame) -> dict[str, Figure]:
    """The pictures of a figure by name, from all results."""
    with mpl.rc_context(STYLE):
        return _DRAWN[figure](results)


def stop_name(stop: str) -> str:
    """A stop as a part of a file's name."""
    return stop.replace(" ", "-")


def _stops(results: pd.DataFrame) -> list[str]:
    """The stops measured: overshoots by size, then where methods stop by themselves."""
    known = set(results["stop"])
    numbers = sorted((s for s in known if s != "as published"), key=float)
    return numbers + (["as published"] if "as published" in known else [])


def _told(stop: str) -> str:
    if stop == "as published":
        return "stopped as published"
    return f"overshoot {stop} of a deviation"


#: the encoding behind the curves of regressions (:data:`~holdfast.paper.settings.PRINTED`)
_AS_PRINTED = "as printed: no intercept, labels relative to the target"


def _ordered(values: Any) -> list[Any]:
    return sorted(set(values), key=lambda value: (ORDER.get(value, 99), value))


# panels --------------------------------------------------------------------------------------


def _page(
    results: pd.DataFrame,
    lines: Sequence[Line],
    rows: str = "data",
    columns: str = "method",
    title: str = "",
    ylabel: str = "invalidated (%)",
    scale: float = 100.0,
    limits: tuple[float, float] | None = (-3, 103),
) -> Figure:
    """A panel for each value of ``rows`` (down) and ``columns`` (across)."""
    down, across = _ordered(results[rows]), _ordered(results[columns])
    if columns == "stop":
        across = _stops(results)
    size = (1.95 * len(across) + 0.7, 1.7 * len(down) + 0.95)
    figure = Figure(figsize=(max(size[0], 4.2), size[1]), layout="constrained")
    axes = figure.subplots(len(down), len(across), squeeze=False, sharex=True, sharey="row")
    for i, row in enumerate(down):
        for j, column in enumerate(across):
            here = results[(results[rows] == row) & (results[columns] == column)]
            _panel(axes[i, j], here, lines, scale)
            _people(axes[i, j], here, lines)
            if limits is not None:
                axes[i, j].set_ylim(*limits)
        low = (results.loc[results[rows] == row, "target"] == "median score").any()
        mark = "\n(target: median score)" if low else ""
        axes[i, 0].set_ylabel(f"{NAMES.get(row, row)}{mark}\n{ylabel}")
    for j, column in enumerate(across):
        name = _told(column) if columns == "stop" else NAMES.get(column, column)
        axes[0, j].set_title(name, fontsize=8, pad=11)
        axes[-1, j].set_xlabel("rows deleted")
    if title:
        figure.suptitle(title, fontsize=9)
    _key(figure, [line for line in lines if _drawn(results, line)])
    return figure


def _select(results: pd.DataFrame, line: Line) -> pd.DataFrame:
    found = results
    for column, value in line.where.items():
        found = found[found[column] == value]
    return found[found["value"].notna()].sort_values("deletions")


def _drawn(results: pd.DataFrame, line: Line) -> bool:
    return len(_select(results, line)) > 0


def _panel(ax: Any, here: pd.DataFrame, lines: Sequence[Line], scale: float) -> None:
    empty = True
    for line in lines:
        found = _select(here, line)
        if found.empty:
            continue
        empty = False
        sure = found[found["by"] != "predicted"]
        x, y = sure["deletions"].to_numpy(), scale * sure["value"].to_numpy()
        marks = [i for i, k in enumerate(x) if k in _FEW] if len(x) > 5 else list(range(len(x)))
        ax.plot(
            *(x, y, line.style),
            color=line.colour,
            linewidth=1.2,
            marker=line.marker or None,
            markersize=3.5,
            markevery=marks or None,
            **line.extra,
        )
        wide = 2 * scale * sure["band"].fillna(0).to_numpy() if "band" in sure else np.zeros(len(x))
        if line.band and np.any(wide > 0):
            top = 100.0 if scale == 100.0 else np.inf
            ax.fill_between(
                *(x, np.maximum(y - wide, 0), np.minimum(y + wide, top)),
                color=line.colour,
                alpha=0.15,
                linewidth=0,
            )
    if empty:
        ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center", color=GREY)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.grid(axis="y", color=GREY, alpha=0.15, linewidth=0.6)


def _people(ax: Any, here: pd.DataFrame, lines: Sequence[Line]) -> None:
    """Of how many people a panel is; of several lines, the fewest and the most."""
    if "count" not in here:
        return
    counts = pd.concat([_select(here, line)["count"] for line in lines]).dropna()
    if counts.empty:
        return
    low, high = int(counts.min()), int(counts.max())
    said = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    ax.text(
        *(1.0, 1.015, f"{said} people"),
        transform=ax.transAxes,
        ha="right",
        va="bottom",
        fontsize=6,
        color=GREY,
    )


def _key(figure: Figure, lines: Sequence[Line]) -> None:
    """What the lines are, below the panels, in as many columns as the page is wide."""
    made = [
        Line2D(
            *([], []),
            color=line.colour,
            ls=line.style,
            marker=line.marker,
            markersize=3.5,
            label=line.label,
            **line.extra,
        )
        for line in lines
    ]
    if made:
        each = 0.5 + 0.065 * max(len(line.label) for line in lines)  # inches, handle included
        across = int(np.clip(figure.get_figwidth() / each, 1, min(len(made), 4)))
        figure.legend(handles=made, loc="outside lower center", ncols=across)


def with_bands(results: pd.DataFrame) -> pd.DataFrame:
    """The standard error of every share, with what splits and draws change.

    Folds give the error of people; what another split changes is measured with SCFE on regressions
    and taken for all methods of the same model; the spread over random draws is each curve's own.
    """
    over = results[(results["people"] == "searched") & (results["figure"] == "outcome")]
    keys = ["data", "model", "stop", "series", "deletions"]
    spread = over.groupby(keys)["value"].std().rename("over_splits").reset_index()
    merged = results.merge(spread, on=keys, how="left")
    merged.index = results.index
    fewest = np.where(results["model"].isin(TRAINED), 2, 5)  # draws a mean is taken over, at least
    draws = np.where(results["series"] == "random", results["spread"].fillna(0.0), 0.0)
    folds, splits = results["error"].fillna(0.0), merged["over_splits"].fillna(0.0)
    return results.assign(band=np.sqrt(folds**2 + splits**2 + (draws / np.sqrt(fewest)) ** 2))


def _shares(results: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The shares a figure shows, with their bands."""
    found = with_bands(results)
    return found[(found["figure"] == figure) & (found["measure"] == "invalidated")]


def _attack_lines(models: Sequence[str], series: str, name: str) -> list[Line]:
    lines = []
    for model in models:
        colour, marker = _MODELS[model]
        where = {"model": model, "encoding": PRINTED.name}
        lines.append(
            Line(f"{NAMES[model]}, {name}", {**where, "series": series}, colour, "-", marker)
        )
    for model in models:
        where = {"model": model, "encoding": PRINTED.name, "series": "random"}
        # networks are refitted here and there, and the line between says nothing
        dots = "." if model in TRAINED else ""
        lines.append(Line(f"{NAMES[model]}, random", where, _MODELS[model][0], ":", dots))
    return lines


_SEARCH_NAMES = {"greedy-count": "greedy (the paper's)", "best": "best (ours)"}


def _by_search(results: pd.DataFrame, figure: str, models: Sequence[str]) -> dict[str, Figure]:
    """A page for each stop, the paper's search and ours apart."""
    found = _shares(results, figure)
    found = found[found["people"] == "all"]
    made = {}
    for series, name in _SEARCH_NAMES.items():
        lines = _attack_lines(models, series, name)
        prefix = figure if series == "greedy-count" else f"{figure}-best"
        for stop in _stops(found):
            here = found[found["stop"] == stop]
            title = _told(stop) + (f"; {_AS_PRINTED}" if figure == "outcome" else "")
            made[f"{prefix}-{stop_name(stop)}"] = _page(here, lines, title=title)
    return made


# the figures -----------------------------------------------------------------------------------


def _outcome(results: pd.DataFrame) -> dict[str, Figure]:
    made = _by_search(results, "outcome", ("linear", "ntk"))
    found = _shares(results, "outcome")
    scfe = found[(found["people"] == "all") & (found["method"] == "scfe")]
    lines = _attack_lines(("linear", "ntk"), "greedy-count", "greedy (the paper's)")
    made["outcome-by-overshoot"] = _page(scfe, lines, columns="stop", title=f"SCFE; {_AS_PRINTED}")
    splits = found[found["people"].isin(["searched", "held out"])]
    if splits["split"].nunique() > 1:
        table = over_splits(splits[splits["series"].isin(["best", "random"])])
        lines = []
        for model in ("linear", "ntk"):
            colour, marker = _MODELS[model]
            where = {"model": model, "series": "best"}
            name = NAMES[model]
            lines += [
                Line(f"{name}, held out", {**where, "people": "held out"}, colour, "-", marker),
                Line(f"{name}, searched on", {**where, "people": "searched"}, colour, "--"),
            ]
        made["held-out"] = _page(
            table, lines, columns="stop", title="best (ours), SCFE, people held out of the search"
        )
    return made


def over_splits(results: pd.DataFrame) -> pd.DataFrame:
    """Mean over the splits, and its standard error."""
    keys = ["data", "model", "method", "stop", "series", "people", "deletions", "target"]
    table = results.groupby(keys, dropna=False)["value"].agg(["mean", "std", "count"]).reset_index()
    return table.assign(value=table["mean"], band=table["std"] / np.sqrt(table["count"]), by="")


def _classification(results: pd.DataFrame) -> dict[str, Figure]:
    return _by_search(results, "classification", ("logistic", "ls-svm", "ann"))


def _gates(results: pd.DataFrame) -> dict[str, Figure]:
    found = _shares(results, "gates")
    made = {}
    for stop in _stops(found):
        here = found[found["stop"] == stop].copy()
        here["row"] = [
            f"{NAMES[d]}, {NAMES[m]}" for d, m in zip(here.data, here.model, strict=True)
        ]
        lines = [
            Line("gates (Algorithm 2)", {"series": "gates"}, BLUE, "-", "s"),
            Line("greedy (Algorithm 1)", {"series": "greedy-count"}, ORANGE, "-", "o"),
            Line("gates, weak ℓ0 weight", {"series": "gates, weak ℓ0"}, BLUE, "--", "", False),
            Line("random", {"series": "random"}, GREY, ":"),
        ]
        made[f"gates-{stop_name(stop)}"] = _page(
            here, lines, rows="row", title=f"{_told(stop)}; {_AS_PRINTED}"
        )
    return made


def _onion(results: pd.DataFrame) -> dict[str, Figure]:
    found = _shares(results, "onion")
    made = {}
    for series, name in _SEARCH_NAMES.items():
        prefix = "onion" if series == "greedy-count" else "onion-best"
        lines = [
            Line(f"{name}, all rows", {"series": f"{series}, before"}, ORANGE, "-", "o"),
            Line("15 most critical removed", {"series": f"{series}, after"}, BLUE, "-", "s"),
            Line("random, all rows", {"series": "random, before"}, GREY, ":"),
        ]
        for stop in _stops(found):
            made[f"{prefix}-{stop_name(stop)}"] = _page(
                found[found["stop"] == stop],
                lines,
                columns="model",
                title=f"SCFE, {_told(stop)}\n{_AS_PRINTED}",
            )
    return made


def _wide(results: pd.DataFrame) -> dict[str, Figure]:
    found = _shares(results, "wide")
    lines = [
        Line("NTK's critical rows, warm", {"series": "greedy on the NTK"}, ORANGE, "-", "o"),
        Line("random, warm", {"series": "random"}, GREY, ":", "o"),
        Line("noise: another seed", {"series": "another seed, cold"}, INK, "none", "x"),
        Line("the same rows, cold", {"series": "the same seed, cold"}, ORANGE, "none", "D"),
    ]
    return {"wide": _page(found, lines, columns="stop", title="SCFE on the wide ReLU network")}


def _action(results: pd.DataFrame) -> dict[str, Figure]:
    """Φ₂ on a logarithmic scale, so that one jump does not squash everything else."""
    found = results[
        (results["figure"] == "action") & results["measure"].str.startswith("phi2").fillna(False)
    ].copy()
    found["band"] = found["error"]
    made = {}
    for cost, words in (("l1", "ℓ1 cost (the paper's)"), ("l2", "ℓ2 cost (closed forms)")):
        here = found[found["measure"].isin([f"phi2, {cost} cost", "phi2, as published cost"])]
        if cost == "l2":
            here = here[here["measure"] == "phi2, l2 cost"]
        lines = [
            Line("gates (the paper's)", {"series": "gates"}, ORANGE, "-", "o"),
            Line("best (ours)", {"series": "best"}, BLUE, "--", "s"),
            Line("random", {"series": "random"}, GREY, ":", "."),
        ]
        if here.empty:
            continue
        here = here.assign(
            row=[f"{NAMES[d]}, {NAMES[m]}" for d, m in zip(here.data, here.model, strict=True)]
        )
        figure = _page(
            *(
                here,
                lines,
                "row",
                "stop",
                f"how far recourse moves, {words}; {_AS_PRINTED}",
                "mean Φ₂",
                1.0,
                None,
            )
        )
        for ax in figure.axes:
            if ax.lines:
                ax.set_yscale("log")
        made[f"action-{cost}"] = figure
    return made


_SHORT = {
    "Proposition 1": "Prop. 1 (Δ)",
    "Proposition 3": "Prop. 3 (Δ)",
    "Proposition 2": "Prop. 2 (Φ), worst row",
    "Proposition 2, 5 rows": "Prop. 2 (Φ), 5 rows",
    "Proposition 2, 14 rows": "Prop. 2 (Φ), 14 rows",
    "Corollary (general)": "general bound (Φ)",
    "Corollary (paper)": "corollary (Φ)",
}


_WHY_LOOSE = (
    "Why so loose: products of norms stand where inner products are bounded, as if every deletion\n"
    "moved the weights straight along the person. Kernel models have a weight for each row: norms\n"
    "of thousands of numbers add up what cancels in a score."
)


def _bounds(results: pd.DataFrame) -> dict[str, Figure]:
    """Each bound and what it bounds as dots, with the looseness written beside."""
    here = results[results["figure"] == "bounds"]
    made = {}
    for stop in _stops(here):
        at = here[here["stop"] == stop]
        cases = list(at[["data", "model"]].drop_duplicates().itertuples(index=False, name=None))
        cases.sort(key=lambda case: (ORDER[case[1]], ORDER[case[0]]))
        tables = {}
        for data, model in cases:
            some = at[(at["data"] == data) & (at["model"] == model)]
            table = some.pivot_table(index="series", columns="measure", values="value")
            names = [name for name in _SHORT if name in table.index]
            if names:
                tables[f"{NAMES[data]}, {NAMES[model]}"] = table.loc[names]
        if not tables:
            continue
        rows = sum(len(table) for table in tables.values())
        figure = Figure(figsize=(6.6, 0.26 * rows + 0.32 * len(tables) + 1.0), layout="constrained")
        axes = figure.subplots(
            *(len(tables), 1),
            squeeze=False,
            sharex=True,
            height_ratios=[len(t) + 0.6 for t in tables.values()],
        )[:, 0]
        for ax, (name, table) in zip(axes, tables.items(), strict=True):
            y = np.arange(len(table))[::-1]
            ax.hlines(y, table["measured"], table["bound"], color=GREY, alpha=0.5, linewidth=1)
            ax.plot(table["measured"], y, "o", color=ORANGE, markersize=5)
            ax.plot(table["bound"], y, "s", color=BLUE, markersize=5, **_HOLLOW)
            for place, ratio, x in zip(y, table["bound / measured"], table["bound"], strict=True):
                ax.annotate(
                    *(f"{ratio:,.0f} ×", (x, place)),
                    xytext=(6, -2.5),
                    textcoords="offset points",
                    fontsize=7,
                )
            ax.set_yticks(y, [_SHORT[s] for s in table.index], fontsize=7)
            ax.set_ylim(-0.7, len(table) - 0.3)
            ax.set_xscale("log")
            ax.set_title(name, fontsize=8, loc="left")
        low, high = axes[-1].get_xlim()
        axes[-1].set_xlim(low, high * (high / low) ** 0.12)  # room for what stands beside the dots
        axes[-1].set_xlabel(f"median person (Δ: score, Φ: features in [0, 1])\n\n{_WHY_LOOSE}")
        title = f"bounds and what they bound, SCFE, {_told(stop)}\n{_AS_PRINTED}"
        figure.suptitle(title, fontsize=9)
        _key(
            figure,
            [
                Line("the worst that was measured", {}, ORANGE, "none", "o"),
                Line("bound (its looseness beside it)", {}, BLUE, "none", "s", extra=_HOLLOW),
            ],
        )
        made[f"bounds-{stop_name(stop)}"] = figure
    return made


def _overshoot(results: pd.DataFrame) -> dict[str, Figure]:
    """Invalidation against the overshoot itself, data sets down and models across."""
    found = results[(results["figure"] == "overshoot") & (results["measure"] == "invalidated")]
    made = {}
    shades = {1: ("#f0b48a", "o"), 2: ("#e07b39", "s"), 5: (ORANGE, "^"), 14: ("#5c1d06", "D")}
    for series, name in _SEARCH_NAMES.items():
        here = found[found["series"] == series]
        if here.empty:
            continue
        down, across = _ordered(here["data"]), _ordered(here["model"])
        figure = Figure(
            figsize=(2.6 * len(across) + 0.8, 1.9 * len(down) + 0.9), layout="constrained"
        )
        axes = figure.subplots(len(down), len(across), squeeze=False, sharex=True, sharey=True)
        for i, data in enumerate(down):
            for j, model in enumerate(across):
                ax = axes[i, j]
                some = here[(here["data"] == data) & (here["model"] == model)]
                for k, (colour, marker) in shades.items():
                    line = some[some["deletions"] == k].sort_values("overshoot")
                    ax.plot(
                        *(line["overshoot"], 100 * line["value"], "-"),
                        color=colour,
                        marker=marker,
                        markersize=3,
                        linewidth=1.2,
                    )
                _where_published(ax, results, data, model)
                ax.set(xscale="log", ylim=(-3, 103))
                ax.grid(axis="y", color=GREY, alpha=0.15, linewidth=0.6)
                if i == 0:
                    ax.set_title(NAMES[model], fontsize=8)
            axes[i, 0].set_ylabel(f"{NAMES[data]}\ninvalidated (%)")
        for ax in axes[-1]:
            ax.set_xlabel("overshoot (score deviations)")
        figure.suptitle(f"SCFE, {name}; {_AS_PRINTED}", fontsize=9)
        keys = [
            Line(f"{k} row{'s' if k > 1 else ''} deleted", {}, colour, "-", marker)
            for k, (colour, marker) in shades.items()
        ]
        _key(figure, [*keys, Line("where SCFE stops as published (80 %)", {}, GREY, "-")])
        prefix = "overshoot" if series == "best" else "overshoot-greedy"
        made[prefix] = figure
    return made


def _where_published(ax: Any, results: pd.DataFrame, data: str, model: str) -> None:
    """Where the published implementation of SCFE stops: its median and its middle 80 %."""
    told = results[
        (results["measure"] == "overshoot reached")
        & (results["data"] == data)
        & (results["model"] == model)
        & (results["method"] == "scfe")
        & (results["stop"] == "as published")
        & (results["encoding"] == PRINTED.name)
    ]
    at = told.drop_duplicates("series").set_index("series")["value"]
    if {"10 %", "median", "90 %"} <= set(at.index):
        ax.axvspan(max(at["10 %"], 1e-4), at["90 %"], color=GREY, alpha=0.15, linewidth=0)
        ax.axvline(at["median"], color=GREY, linewidth=1)


def _encodings(results: pd.DataFrame) -> dict[str, Figure]:
    """SCFE, the paper's greedy search: a line for each way of writing the regression down."""
    found = _shares(results, "encodings")
    main = _shares(results, "outcome")
    main = main[(main["people"] == "all") & main["data"].isin(found["data"].unique())]
    both = pd.concat([main, found])
    both = both[(both["method"] == "scfe") & (both["series"] == "greedy-count")]
    palette = [INK, ORANGE, BLUE, ORANGE, BLUE, GREY]
    styles = ["-", "-", "-", "--", "--", "--"]
    names = [PRINTED.name, "intercept", "raw labels", "intercept, no flags"]
    names += ["raw labels, no flags", "no flags"]
    made = {}
    for model in ("linear", "ntk"):
        here = both[both["model"] == model]
        if model == "ntk":
            here = here[here["stop"].isin(found.loc[found["model"] == "ntk", "stop"].unique())]
        if here.empty:
            continue
        lines = [
            Line(name, {"encoding": name}, colour, style, marker, band=False)
            for name, colour, style, marker in zip(names, palette, styles, "osD^v.", strict=True)
        ]
        made[f"encodings-{model}"] = _page(
            here,
            lines,
            columns="stop",
            title=f"{NAMES[model]}, SCFE, greedy: what a reader chooses",
        )
    return made


def _rules(results: pd.DataFrame) -> dict[str, Figure]:
    """The same figure for advice that people could follow."""
    main = _shares(results, "outcome")
    main = main[(main["people"] == "all") & (main["method"] == "scfe")]
    found = _shares(results, "rules")
    made = {}
    for series, name in _SEARCH_NAMES.items():
        some = found[found["series"].str.startswith(series)]
        here = pd.concat([main[main["series"] == series], some])
        here = here[here["encoding"] == PRINTED.name]
        prefix = "rules" if series == "greedy-count" else "rules-best"
        lines = [
            Line("no rules, ℓ1 (the paper's)", {"series": series}, INK, "-", "o"),
            Line("no rules, ℓ2", {"series": f"{series}, free, ℓ2"}, GREY, "--", "", False),
            Line("rules, ℓ1", {"series": f"{series}, rules, ℓ1"}, ORANGE, "-", "s"),
            Line("rules, ℓ2", {"series": f"{series}, rules, ℓ2"}, BLUE, "--", "^", False),
        ]
        linear = here[(here["model"] == "linear") & here["stop"].isin(found["stop"].unique())]
        made[prefix] = _page(
            linear, lines, columns="stop", title=f"linear, SCFE, {name}: under rules of action"
        )
    return made


def _privacy(results: pd.DataFrame) -> dict[str, Figure]:
    found = results[(results["figure"] == "privacy") & (results["measure"] == "invalidated")]
    found = found.assign(band=found["spread"] / np.sqrt(3))
    lines = [
        Line("as it is", {"series": "as it is"}, INK, "-", "o"),
        Line("ε = 100", {"series": "ε = 100"}, GREY, "--", "s"),
        Line("ε = 10", {"series": "ε = 10"}, BLUE, "-", "^"),
        Line("ε = 1", {"series": "ε = 1"}, ORANGE, "-", "D"),
    ]
    stop = _stops(found)[0]
    return {
        "privacy": _page(
            *(found, lines, "data", "model"),
            title=f"differentially private training\nbest (ours), {_told(stop)}",
        )
    }


_DRAWN: dict[str, Callable[[pd.DataFrame], dict[str, Figure]]] = {
    "outcome": _outcome,
    "action": _action,
    "classification": _classification,
    "gates": _gates,
    "onion": _onion,
    "wide": _wide,
    "bounds": _bounds,
    "overshoot": _overshoot,
    "encodings": _encodings,
    "rules": _rules,
    "privacy": _privacy,
}


def save(figure: Figure, path: Any) -> None:
    """Write a picture in the format of its name, the same bytes every time."""
    with mpl.rc_context(STYLE):
        dated = {"Date": None} if str(path).endswith(".svg") else None
        figure.savefig(path, dpi=110, metadata=dated)

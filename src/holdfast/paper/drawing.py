"""The figures, drawn from the table of results: rows are data and models, columns overshoots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

COLOURS = {
    "scfe": "#c2410c",
    "dice": "#2563a8",
    "cem": "#4d7c0f",
    "growing-spheres": "#7e3f98",
}
GREY = "#6e7781"
NAMES = {
    "admission": "Admission",
    "heloc": "HELOC",
    "compas": "COMPAS",
    "diabetes": "Diabetes",
    "linear": "linear",
    "ntk": "NTK",
    "logistic": "logistic",
    "ls-svm": "LS-SVM",
    "ann": "ANN",
    "scfe": "SCFE",
    "dice": "DICE",
    "cem": "CEM",
    "growing-spheres": "Growing Spheres",
}
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "holdfast",
}
#: a line: its series, its style, and what it is called
Lines = tuple[tuple[str, str, str], ...]


def draw(figure: str, results: pd.DataFrame) -> dict[str, Figure]:
    """The pictures of a figure by name, from its rows of the results."""
    with mpl.rc_context(STYLE):
        return _DRAWN[figure](results)


def _outcome(results: pd.DataFrame) -> dict[str, Figure]:
    paper = results[(results["measure"] == "invalidated") & (results["people"] == "all")]
    made = {"outcome": _shares(paper, _ATTACKS)}
    splits = results[results["people"].isin(["searched", "held out"])]
    if len(splits):
        found = splits[splits["series"] == "best"].copy()
        found["series"] = found["people"]
        lines = (("held out", "-", "people held out"), ("searched", "--", "people searched on"))
        made["outcome-held-out"] = _shares(over_splits(found), lines)
    return made


def _classification(results: pd.DataFrame) -> dict[str, Figure]:
    found = results[results["measure"] == "invalidated"]
    return {
        f"classification-{data}": _shares(some, _ATTACKS) for data, some in found.groupby("data")
    }


_ATTACKS: Lines = (
    ("greedy-count", "-", "greedy (the paper's)"),
    ("best", "--", "best found"),
    ("random", ":", "random"),
)


def over_splits(results: pd.DataFrame) -> pd.DataFrame:
    """Mean over the splits, and its standard error."""
    keys = ["data", "model", "method", "overshoot", "series", "deletions"]
    grouped = results.groupby(keys)["value"]
    table = grouped.agg(["mean", "std", "count"]).reset_index()
    error = table["std"] / np.sqrt(table["count"])
    return table.assign(value=table["mean"], error=error, by="")


def _grid(
    results: pd.DataFrame, panel: Callable[[Any, pd.DataFrame], None], ylabel: str, xlabel: str
) -> Figure:
    """A panel for each data set and model (down) and overshoot (across)."""
    rows = list(results[["data", "model"]].drop_duplicates().itertuples(index=False, name=None))
    columns = sorted(results["overshoot"].unique())
    figure = Figure(
        figsize=(2.3 * len(columns) + 0.6, 1.75 * len(rows) + 0.9), layout="constrained"
    )
    axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey="row")
    for ax, ((data, model), overshoot) in zip(
        axes.flat, ((r, c) for r in rows for c in columns), strict=True
    ):
        here = (results["data"] == data) & (results["model"] == model)
        panel(ax, results[here & (results["overshoot"] == overshoot)])
    for ax, overshoot in zip(axes[0], columns, strict=True):
        ax.set_title(f"overshoot {overshoot:g}", fontsize=8)
    for ax, (data, model) in zip(axes[:, 0], rows, strict=True):
        here = results[(results["data"] == data) & (results["model"] == model)]
        low = "target" in here and (here["target"] == "median score").any()
        mark = "\n(target: median score)" if low else ""
        ax.set_ylabel(f"{NAMES[data]}, {NAMES[model]}{mark}\n{ylabel}")
    for ax in axes[-1]:
        ax.set_xlabel(xlabel)
    return figure


def _curve(ax: Any, found: pd.DataFrame, style: str, colour: str, scale: float = 100.0) -> None:
    """A line with its error as a band; what only a prediction says is hollow."""
    found = found.sort_values("deletions")
    k, value = found["deletions"].to_numpy(), scale * found["value"].to_numpy(float)
    ax.plot(k, value, style, color=colour, linewidth=1.1)
    if "error" in found:
        error = scale * np.nan_to_num(found["error"].to_numpy(float))
        ax.fill_between(k, value - error, value + error, color=colour, alpha=0.15, linewidth=0)
    how = found["by"].fillna("").astype(str)
    if (how == "predicted").any():
        hollow = (how == "predicted").to_numpy()
        ax.plot(k[hollow], value[hollow], "o", color=colour, markersize=3, fillstyle="none")
        ax.plot(k[~hollow], value[~hollow], "o", color=colour, markersize=3)


def _shares(results: pd.DataFrame, lines: Lines) -> Figure:
    """Shares of recourses invalidated: a colour for each method, a style for each series."""
    methods = [m for m in COLOURS if (results["method"] == m).any()]

    def panel(ax: Any, found: pd.DataFrame) -> None:
        for method in methods:
            for series, style, _ in lines:
                some = found[(found["method"] == method) & (found["series"] == series)]
                if len(some):
                    _curve(ax, some, style, COLOURS[method])
        ax.set_ylim(-3, 103)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))

    figure = _grid(results, panel, "invalidated (%)", "rows deleted")
    keys = [(COLOURS[m], "-", NAMES[m]) for m in methods] if len(methods) > 1 else []
    keys += [(GREY, style, name) for _, style, name in lines]
    _key(figure, keys)
    return figure


def _key(figure: Figure, keys: Iterable[tuple[str, Any, str]]) -> None:
    made = [Line2D([], [], color=c, ls=s, label=name) for c, s, name in keys]
    figure.legend(handles=made, loc="outside lower center", ncols=min(len(made), 5), frameon=False)


def _gates(results: pd.DataFrame) -> dict[str, Figure]:
    lines = (
        ("greedy-count", "-", "greedy"),
        ("gates", "--", "gates"),
        ("gates, weak ℓ0", "-.", "gates, weak ℓ0 weight"),
        ("random", ":", "random"),
    )
    return {"gates": _shares(results, lines)}


def _onion(results: pd.DataFrame) -> dict[str, Figure]:
    lines = (
        ("greedy-count, before", "-", "greedy, all rows"),
        ("greedy-count, after", "--", "greedy, 15 most critical rows removed first"),
        ("random, before", ":", "random"),
    )
    return {"onion": _shares(results, lines)}


def _wide(results: pd.DataFrame) -> dict[str, Figure]:
    found = results[results["measure"] == "invalidated"]
    lines = (
        ("greedy on the NTK", "-", "the NTK's critical rows, wide network refitted"),
        ("random", ":", "random"),
    )
    return {"wide": _shares(found, lines)}


def _action(results: pd.DataFrame) -> dict[str, Figure]:
    colours = {"gates": "#c2410c", "best": "#2563a8", "random": GREY}
    styles = {"phi2, l2 cost": "-", "phi2, l1 cost": "--"}

    def panel(ax: Any, found: pd.DataFrame) -> None:
        for series, colour in colours.items():
            for measure, style in styles.items():
                some = found[(found["series"] == series) & (found["measure"] == measure)]
                if len(some):
                    _curve(ax, some, style, colour, 1.0)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))

    figure = _grid(results, panel, "mean Φ₂", "rows deleted")
    for ax in figure.axes:
        ax.set_ylim(bottom=0)
    keys = [(colour, "-", name) for name, colour in colours.items()]
    keys += [(GREY, "-", "ℓ2 cost"), (GREY, "--", "ℓ1 cost")]
    _key(figure, keys)
    return {"action": figure}


def _bounds(results: pd.DataFrame) -> dict[str, Figure]:
    found = results[results["measure"].isin(["bound", "measured"])]
    short = {
        "Proposition 1": "Prop. 1\n(Δ)",
        "Proposition 2": "Prop. 2\n(Φ, path)",
        "Corollary (paper)": "Corollary\n(Φ, paper)",
        "Corollary (general)": "general\n(Φ)",
        "Proposition 3": "Prop. 3\n(Δ)",
    }

    def panel(ax: Any, some: pd.DataFrame) -> None:
        names = [n for n in short if (some["series"] == n).any()]
        for offset, measure, colour in ((-0.2, "measured", "#c2410c"), (0.2, "bound", GREY)):
            table = some[some["measure"] == measure].set_index("series")["value"]
            heights = [float(table.get(n, np.nan)) for n in names]
            ax.bar(np.arange(len(names)) + offset, heights, 0.4, color=colour)
        ax.set_yscale("log")
        ax.set_xticks(np.arange(len(names)), [short[n] for n in names], fontsize=5.5)
        ax.tick_params(labelbottom=True)

    both = [
        _grid(found[found["model"] == model], panel, "median person", "")
        for model in ("linear", "ntk")
        if (found["model"] == model).any()
    ]
    for figure in both:
        _key(figure, [("#c2410c", "-", "worst single deletion, measured"), (GREY, "-", "bound")])
    models = [m for m in ("linear", "ntk") if (found["model"] == m).any()]
    return {f"bounds-{m}": figure for m, figure in zip(models, both, strict=True)}


def _overshoot(results: pd.DataFrame) -> dict[str, Figure]:
    """One panel for each data set and model: invalidation against the overshoot."""
    rows = list(results[["data", "model"]].drop_duplicates().itertuples(index=False, name=None))
    figure = Figure(figsize=(2.4 * len(rows) + 0.4, 2.6), layout="constrained")
    axes = figure.subplots(1, len(rows), squeeze=False, sharey=True)[0]
    shades = {1: "#fdba74", 2: "#f97316", 5: "#c2410c", 14: "#5c1d06"}
    for ax, (data, model) in zip(axes, rows, strict=True):
        here = results[(results["data"] == data) & (results["model"] == model)]
        for k, colour in shades.items():
            found = here[here["deletions"] == k].sort_values("overshoot")
            ax.plot(found["overshoot"], 100 * found["value"], "o-", color=colour, markersize=2.5)
        ax.set(xscale="log", title=f"{NAMES[data]}, {NAMES[model]}", ylim=(-3, 103))
        ax.set_xlabel("overshoot (score deviations)")
    axes[0].set_ylabel("invalidated (%)")
    keys = [(c, "-", f"{k} row{'s' if k > 1 else ''} deleted") for k, c in shades.items()]
    _key(figure, keys)
    return {"overshoot": figure}


_DRAWN: dict[str, Callable[[pd.DataFrame], dict[str, Figure]]] = {
    "outcome": _outcome,
    "action": _action,
    "classification": _classification,
    "gates": _gates,
    "onion": _onion,
    "wide": _wide,
    "bounds": _bounds,
    "overshoot": _overshoot,
}


def save(figure: Figure, path: Any) -> None:
    """Write a picture in the format of its name, the same bytes every time."""
    with mpl.rc_context(STYLE):
        dated = {"Date": None} if str(path).endswith(".svg") else None
        figure.savefig(path, dpi=110, metadata=dated)

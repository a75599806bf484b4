"""Figure 1: the two notions of instability, for forty real students and two features."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.linear_model import LinearRegression

from holdfast.algebra.rows import Array
from holdfast.datasets import load_dataset
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.paper.drawing import BLUE, GREY, ORANGE, STYLE
from holdfast.recourse import find_recourse
from holdfast.searches import search

STUDENTS, DELETED = 40, 3
_FEATURES = ["LSAT", "UGPA"]
_NEW, _WHO = ORANGE, BLUE


def draw(path: Any) -> Figure:
    """A recourse that deletions invalidate (left), and where it would have to move (right)."""
    data = load_dataset("admission", path=path)
    train, test = data.split(0)
    rows = train[:STUDENTS]
    X, y = data.X.iloc[rows][_FEATURES].astype(float), data.y[rows]
    others = data.X.iloc[test[:STUDENTS]][_FEATURES].astype(float)
    target = float(np.median(y))
    model = erasable(LinearRegression().fit(X, y), X, y)
    given = find_recourse(model, others, target=target, overshoot=0.01, cost="l2")
    plan = search(model, given, target, DELETED)
    after = model.without(plan.rows)
    again = find_recourse(after, others, target=target, overshoot=0.01, cost="l2")
    broken = given.points.index[after.scores(given.points) < target]
    # somebody for whom both arrows can be seen: by their length in parts of the features' ranges
    span = np.ptp(X.to_numpy(), axis=0)

    def lengths(ends: Any, starts: Any) -> Array:
        return np.linalg.norm((ends.loc[broken] - starts.loc[broken])[_FEATURES] / span, axis=1)

    moves = lengths(again.points, given.points)
    person = broken[int(np.argmax(moves * lengths(given.points, given.people)))]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        for ax in (left, right):
            _students(ax, X, y >= target, plan.rows)
            ax.plot(*given.people.loc[person, _FEATURES], "D", color=_WHO, markersize=6, zorder=4)
            for one, style, colour in ((model, "-", "black"), (after, "--", _NEW)):
                ax.plot(*_boundary(one, X, target), style, color=colour, linewidth=1.1)
        start = given.people.loc[person, _FEATURES].to_numpy(float)
        promised = given.points.loc[person, _FEATURES].to_numpy(float)
        moved = again.points.loc[person, _FEATURES].to_numpy(float)
        for ax in (left, right):
            _arrow(ax, start, promised, "black")
            _say(ax, "promised", (start + promised) / 2, "black", (-34, -15))
        left.plot(*promised, "x", color=_NEW, markersize=10, markeredgewidth=2)
        _say(left, "no longer enough", promised, _NEW, (-78, 10))
        _arrow(right, start, moved, _NEW)
        _say(right, "needed now", (start + moved) / 2, _NEW, (-42, 7))
        left.set_title("outcome: the promise no longer reaches the target", fontsize=8)
        right.set_title("action: the advice has to move (Φ₂)", fontsize=8)
        left.set_ylabel("UGPA")
        for ax in (left, right):
            ax.set_xlabel("LSAT")
        low, high = X.min().to_numpy(), X.max().to_numpy()
        room = 0.12 * (high - low)
        ends = np.vstack([low - room, high + room, start, promised, moved])
        left.set(xlim=(ends[:, 0].min(), ends[:, 0].max() + 0.5))
        left.set(ylim=(ends[:, 1].min(), ends[:, 1].max() + 0.05))
        handles = [
            _key("at the target, all 40 students", color="black"),
            _key(f"the same, {DELETED} erased", color=_NEW, ls="--"),
            _key("erased", color="black", marker="o", fillstyle="none"),
            _key("the person advised, who is none of the 40", color=_WHO, marker="D"),
            _key("student above the median grade", color=GREY, marker="^"),
            _key("student below it", color=GREY, marker="v"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _students(ax: Any, X: Any, good: Any, erased: Any) -> None:
    """Everybody the model was trained on; filled where the grade is above the median."""
    for which, marker in ((good, "^"), (~good, "v")):
        ax.plot(X["LSAT"][which], X["UGPA"][which], marker, color=GREY, markersize=4, alpha=0.6)
    gone = X.iloc[erased]
    ax.plot(gone["LSAT"], gone["UGPA"], "o", color="black", markersize=9, fillstyle="none")


def _boundary(model: ErasableModel, X: Any, target: float) -> tuple[Array, Array]:
    """Where the score is the target, across the plot."""
    corner = np.zeros((3, 2))
    corner[1, 0] = corner[2, 1] = 1.0
    b, with_lsat, with_ugpa = model.scores(_frame(X, corner))
    lsat = np.linspace(X["LSAT"].min() - 10, X["LSAT"].max() + 10, 2)
    return lsat, (target - b - (with_lsat - b) * lsat) / (with_ugpa - b)


def _frame(X: Any, rows: Array) -> Any:
    return type(X)(rows, columns=X.columns)


def _key(label: str, ls: str = "", **how: Any) -> Any:
    """A line of the legend: a line, or the marker that is named."""
    return Line2D([], [], label=label, ls=ls or ("" if "marker" in how else "-"), **how)


def _arrow(ax: Any, start: Array, end: Array, colour: str) -> None:
    ax.annotate(
        *("", end),
        xytext=start,
        arrowprops={
            "arrowstyle": "-|>",
            "mutation_scale": 11,
            "color": colour,
            "lw": 1.6,
            "shrinkA": 2,
            "shrinkB": 0,
        },
        zorder=5,
    )


def _say(ax: Any, words: str, at: Array, colour: str, offset: tuple[int, int]) -> None:
    """A few words beside a point, readable whatever lies behind them."""
    ax.annotate(
        words,
        xy=at,
        xytext=offset,
        textcoords="offset points",
        color=colour,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
        zorder=6,
    )

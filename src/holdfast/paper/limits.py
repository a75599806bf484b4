"""Each proposition's bound beside the worst that any single deletion does."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr
from sklearn.linear_model import LinearRegression

from holdfast import propositions
from holdfast.errors import UnsupportedModelError
from holdfast.models.erasable import erasable
from holdfast.paper.settings import Cell, Scale, scfe_cells
from holdfast.paper.setups import Setup
from holdfast.propositions import Bound

#: sizes of the sets Proposition 2 is tried on, beside single rows
SETS = (5, 14)
#: people drawn again for the interval of a rank correlation
RESAMPLED = 200


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot, SCFE."""
    return scfe_cells("bounds", overshoots, ("ntk", "linear", "logistic"))


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """Bound and measured value of every proposition that applies, for the median person."""
    if len(case.people) == 0:
        return []
    found = case.recourse(cell.method, cell.overshoot)
    fine = np.flatnonzero(found.valid.to_numpy())[: case.scale.bound_people]
    points, people = found.points.iloc[fine], found.people.iloc[fine]
    if len(points) == 0:
        return []
    goal = case.target + cell.overshoot * case.model.score_unit
    if cell.model == "logistic":
        return _along_paths(case, cell, people, goal, ())
    records = _critical(case, cell)
    worst = tuple(case.search_action(points, people, goal, "influence", {})[1].tolist())
    records += _along_paths(case, cell, people, goal, worst)
    if cell.model == "ntk":
        return records + _said(cell, propositions.outcome_kernel(case.model, points))
    records += _said(cell, propositions.outcome_linear(case.model, points))
    records += _factors(case, cell, people, goal)
    records += _said(cell, propositions.action_linear(case.model, people, goal))
    # the paper's corollary is for target 0 and no intercept: the labels are relative to the target
    plain = LinearRegression(fit_intercept=False).fit(case.model.X, case.model.y - goal)
    bare = erasable(plain, case.model.X, case.model.y - goal)
    with contextlib.suppress(UnsupportedModelError):  # silent where a deletion turns w around
        records += _said(cell, propositions.action_linear_paper(bare, people, 0.0))
    return records


def _along_paths(
    case: Setup, cell: Cell, people: Any, goal: float, worst: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Proposition 2 for the worst row and for the sets that break most recourses."""
    plan = case.plan(cell.method, cell.overshoot, "best")
    records = []
    for rows in (worst or plan.sets[1], *(plan.sets[k] for k in SETS)):
        with contextlib.suppress(UnsupportedModelError):  # the path turns the weights around
            bound = propositions.action_path(case.model, people, goal, rows)
            name = bound.name if len(rows) == 1 else f"{bound.name}, {len(rows)} rows"
            records += _said(cell, replace(bound, name=name), len(rows))
    return records


def _critical(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """How unusual the rows the greedy search picks are: their labels, their features, either."""
    points = case.points(cell.method, cell.overshoot)
    plan = case.plan(cell.method, cell.overshoot, "greedy-count")
    # once nothing more breaks, the paper's search takes whatever comes first
    rows = plan.rows[np.flatnonzero(np.diff(plan.predicted) > 0)]
    if rows.size == 0:
        return []
    deletions = case.model.deletions(points.iloc[:1])
    # the smaller the diagonal of P, the more a row decides its own score: its leverage
    share = deletions.diagonal / deletions.diagonal.max()
    labels = rankdata(np.abs(deletions.residuals / deletions.diagonal)) / case.model.rows.n
    features = rankdata(-share) / case.model.rows.n
    either = np.maximum(labels, features)
    return [
        cell.record(
            measure="rank among all rows",
            series=f"critical rows: {name}",
            people="all",
            deletions=len(rows),
            value=float(np.median(ranks[rows])),
            by="algebra",
            count=len(points),
        )
        for name, ranks in (
            ("error of the label", labels),
            ("leverage", features),
            ("either", either),
        )
    ]


def _factors(case: Setup, cell: Cell, people: Any, goal: float) -> list[dict[str, Any]]:
    """How well ‖d‖‖x‖/‖w‖ ranks the Φ₂ of single deletions, and what explains the rest.

    Beside it the factor's parts alone, the length of ``d`` across ``w`` in place of its whole
    length, and all the terms of the exact change: the direction's turn and the intercept's part.
    Intervals are of people drawn again, 95 %.
    """
    x, (b, w), b_after, w_after = propositions.before_and_after(case.model, people, None)
    moved = propositions.action_by_row(x, w, b, w_after, b_after, goal)  # (rows, people)
    length, lengths = np.linalg.norm(w), np.linalg.norm(w_after, axis=1)
    d = np.linalg.norm(w - w_after, axis=1)
    sizes = np.linalg.norm(x, axis=1)
    # the turn of the direction moves the projection of x, weighted by its part along d
    turned = w_after / lengths[:, None] - w / length
    gaps = np.abs(x @ w + b - goal) / length
    steps = np.abs(
        (goal - b_after[:, None] - w_after @ x.T) / lengths[:, None]
        - (goal - b - x @ w)[None] / length
    )
    turn = np.outer(np.linalg.norm(turned, axis=1), gaps)
    some = np.random.default_rng(0).permutation(len(d))[:2000]
    records = []
    for name, factor in (
        ("‖d‖‖x‖/‖w‖", np.outer(d, sizes) / length),
        ("‖d‖ alone", np.outer(d, np.ones(len(x)))),
        ("‖x‖ alone", np.outer(np.ones(len(d)), sizes)),
        ("turn of w × distance", turn),
        ("change of distance", steps),
        ("both, added in squares", np.hypot(turn, steps)),
    ):
        value, low, high = _ranked(moved[some], factor[some])
        for series, number in ((name, value), (f"{name}, low", low), (f"{name}, high", high)):
            records.append(
                cell.record(
                    measure="rank correlation",
                    series=series,
                    people="all",
                    deletions=1,
                    value=number,
                    by="algebra",
                    count=len(x),
                )
            )
    return records


def _ranked(moved: Any, factor: Any) -> tuple[float, float, float]:
    """Spearman's correlation over rows and people, and its interval over people drawn again."""
    rng = np.random.default_rng(1)
    few = rng.permutation(len(moved))[:300]
    value = float(spearmanr(moved.ravel(), factor.ravel()).statistic)
    drawn = []
    for _ in range(RESAMPLED):
        who = rng.integers(moved.shape[1], size=moved.shape[1])
        drawn.append(spearmanr(moved[few][:, who].ravel(), factor[few][:, who].ravel()).statistic)
    # the intervals' width is that of a sample of rows; it is put around the value of all
    low, high = np.quantile(drawn, [0.025, 0.975]) - np.mean(drawn)
    return value, value + float(low), value + float(high)


def _said(cell: Cell, bound: Bound, deletions: int = 1) -> list[dict[str, Any]]:
    """The median of the bound, of what was measured, and of their ratio; and the least ratio."""
    shared: dict[str, Any] = {
        "series": bound.name,
        "people": "all",
        "deletions": deletions,
        "count": len(bound.bound),
        "by": "algebra",
    }
    return [
        cell.record(measure=name, value=float(value), **shared)
        for name, value in (
            ("bound", np.median(bound.bound)),
            ("measured", np.median(bound.measured)),
            ("bound / measured", np.nanmedian(bound.ratio)),
            ("least bound / measured", np.nanmin(bound.ratio)),
        )
    ]

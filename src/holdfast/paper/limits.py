"""Each proposition's bound beside the worst that any single deletion does."""

from __future__ import annotations

import contextlib
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


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot, SCFE."""
    return scfe_cells("bounds", overshoots)


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """Bound and measured value of every proposition that applies, for the median person."""
    if len(case.people) == 0:
        return []
    found = case.recourse(cell.method, cell.overshoot)
    fine = np.flatnonzero(found.valid.to_numpy())[: case.scale.bound_people]
    points, people = found.points.iloc[fine], found.people.iloc[fine]
    if len(points) == 0:
        return []
    records = _critical(case, cell)
    if cell.model == "ntk":
        return records + _said(cell, propositions.outcome_kernel(case.model, points))
    goal = case.target + cell.overshoot * case.model.score_unit
    records += _said(cell, propositions.outcome_linear(case.model, points))
    records += _factors(case, cell, people, goal)
    records += _said(cell, propositions.action_linear(case.model, people, goal))
    worst = int(case.search_action(points, people, goal, "influence", {})[1][0])
    records += _said(cell, propositions.action_path(case.model, people, goal, worst))
    # the paper's corollary is for target 0 and no intercept: the labels are relative to the target
    plain = LinearRegression(fit_intercept=False).fit(case.model.X, case.model.y - goal)
    bare = erasable(plain, case.model.X, case.model.y - goal)
    with contextlib.suppress(UnsupportedModelError):  # silent where a deletion turns w around
        records += _said(cell, propositions.action_linear_paper(bare, people, 0.0))
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
    """How well ‖d‖‖x‖/‖w‖ ranks the Φ₂ of single deletions."""
    x, (b, w), b_after, w_after = propositions.before_and_after(case.model, people, None)
    moved = propositions.action_by_row(x, w, b, w_after, b_after, goal)
    factor = np.outer(np.linalg.norm(w - w_after, axis=1), np.linalg.norm(x, axis=1))
    factor /= np.linalg.norm(w)
    some = np.random.default_rng(0).choice(moved.size, min(moved.size, 100_000), replace=False)
    return [
        cell.record(
            measure="rank correlation",
            series="Φ₂ and ‖d‖‖x‖/‖w‖",
            people="all",
            deletions=1,
            value=float(spearmanr(moved.ravel()[some], factor.ravel()[some]).statistic),
            by="algebra",
            count=len(x),
        )
    ]


def _said(cell: Cell, bound: Bound) -> list[dict[str, Any]]:
    """The median of the bound, of what was measured, and of their ratio; and the least ratio."""
    shared: dict[str, Any] = {
        "series": bound.name,
        "people": "all",
        "deletions": 1,
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

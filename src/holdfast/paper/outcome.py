"""Figure 2 and its likes: the share of recourses that deletions invalidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.paper.settings import CLASSIFICATIONS, REGRESSIONS, Cell, Scale
from holdfast.paper.setups import Setup, over_folds
from holdfast.searches.plan import Plan

CLASSIFIERS = ("logistic", "ls-svm", "ann")


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Admission and HELOC × linear and NTK × methods × overshoots × splits."""
    return [
        Cell("outcome", data, model, method, overshoot, split)
        for data in REGRESSIONS
        for model in ("ntk", "linear")
        for split in range(scale.splits)
        for method in scale.methods
        for overshoot in overshoots
    ]


def classification_cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Four data sets × three classifiers × methods × overshoots."""
    return [
        Cell("classification", data, model, method, overshoot)
        for data in CLASSIFICATIONS
        for model in CLASSIFIERS
        for method in scale.methods
        for overshoot in overshoots
    ]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The paper's protocol on the first split; on every split, people held out from the search."""
    if len(case.people) == 0:
        return [_success(case, cell, float("nan"), 0)]
    found = case.recourse(cell.method, cell.overshoot)
    points = case.points(cell.method, cell.overshoot)
    records = [] if cell.split else [_success(case, cell, found.success, len(found.points))]
    if len(points) == 0:
        return records
    if cell.split == 0:
        for method in ("greedy-count", "best"):
            plan = case.plan(cell.method, cell.overshoot, method)
            records += broken(case, cell, plan, points, method, "all")
        records += at_random(case, cell, points)
    if cell.figure == "outcome":
        records += _held_out(case, cell, points)
    case.forget_refits()
    return records


def _success(case: Setup, cell: Cell, share: float, people: int) -> dict[str, Any]:
    """For which share of the people recourse was found."""
    return cell.record(
        measure="success",
        series="recourse",
        people="all",
        deletions=0,
        value=share,
        count=people,
        below_even_odds=case.below_even_odds,
    )


def broken(
    case: Setup, cell: Cell, plan: Plan, points: pd.DataFrame, series: str, people: str
) -> list[dict[str, Any]]:
    """The share of recourses a plan breaks at every number of deletions, confirmed."""
    sets = plan.sets[1:]
    scores, how = case.after(points, sets, refit=people == "all")
    records = []
    for k, (after, by) in enumerate(zip(scores, how, strict=True), start=1):
        predicted = float(plan.predicted[k]) if people != "held out" else float("nan")
        value, error = predicted, float("nan")
        if by != "predicted":
            value, error = over_folds((after < case.target).astype(float))
        records.append(
            cell.record(
                measure="invalidated",
                series=series,
                people=people,
                deletions=k,
                value=value,
                error=error,
                predicted=predicted,
                by=by,
                count=len(points),
            )
        )
    return records


def at_random(case: Setup, cell: Cell, points: pd.DataFrame) -> list[dict[str, Any]]:
    """The share random deletions break: mean over draws, error over folds, spread over draws."""
    sets = case.random_sets()
    scores, how = case.after(points, [rows for draw in sets for rows in draw], refit=False)
    low = (scores < case.target).astype(float).reshape(len(sets), -1, len(points))
    low[~np.isfinite(scores).reshape(low.shape)] = np.nan
    records = []
    for k in range(1, low.shape[1] + 1):
        if how[k - 1] == "predicted":
            continue
        value, error = over_folds(low[:, k - 1].mean(axis=0))
        draws = low[:, k - 1].mean(axis=1)
        records.append(
            cell.record(
                measure="invalidated",
                series="random",
                people="all",
                deletions=k,
                value=value,
                error=error,
                spread=float(np.std(draws, ddof=1)) if draws.size > 1 else float("nan"),
                by=how[k - 1],
                count=len(points),
            )
        )
    return records


def _held_out(case: Setup, cell: Cell, points: pd.DataFrame) -> list[dict[str, Any]]:
    """The plan found on half of some people, scored on them and on the other half."""
    order = np.random.default_rng([11, cell.split]).permutation(len(points))
    order = order[: case.scale.split_people]
    half = len(order) // 2
    searched, held_out = points.iloc[order[:half]], points.iloc[order[half:]]
    if half == 0:
        return []
    records = []
    for method in ("greedy-count", "best"):
        plan = case.search(searched, method)
        records += broken(case, cell, plan, searched, method, "searched")
        records += broken(case, cell, plan, held_out, method, "held out")
    return records

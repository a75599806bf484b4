"""Figure 2 and its likes: the share of recourses that deletions invalidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.base import clone

from holdfast.models.erasable import erasable
from holdfast.paper.settings import AS_IS, CLASSIFICATIONS, DELETIONS, REGRESSIONS, Cell, Scale
from holdfast.paper.setups import Setup, over_folds
from holdfast.searches.plan import Plan
from holdfast.shared_state import quiet

CLASSIFIERS = ("logistic", "ls-svm", "ann")
#: the paper's search, and the strongest there is
SEARCHES = ("greedy-count", "best")
#: figures in which kernel models are refitted in full here and there
CONFIRMED = ("outcome", "classification")


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Admission and HELOC × linear and NTK × methods × overshoots; SCFE on further splits."""
    everybody = [
        Cell("outcome", data, model, method, stop)
        for data in REGRESSIONS
        for model in ("ntk", "linear")
        for method in scale.methods
        for stop in scale.grid(model, method, overshoots)
    ]
    return everybody + [
        Cell("outcome", data, model, "scfe", overshoot, split)
        for data in REGRESSIONS
        for model in ("ntk", "linear")
        for split in range(1, scale.splits)
        for overshoot in overshoots
    ]


def classification_cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Four data sets × three classifiers × methods × overshoots."""
    return [
        Cell("classification", data, model, method, stop)
        for data in CLASSIFICATIONS
        for model in CLASSIFIERS
        for method in scale.methods
        for stop in scale.grid(model, method, overshoots)
    ]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The paper's protocol on the first split; on every split, people held out from the search."""
    if len(case.people) == 0:
        return [_success(case, cell, float("nan"), 0)]
    points = case.points(cell.method, cell.overshoot)
    records = [] if cell.split else told(case, cell)
    if len(points) == 0:
        return records
    if cell.split == 0:
        records += attacked(case, cell, points)
        if not case.model.exact:
            records += _predicted(case, cell, points)
        if case.model.can.refit == "training" and cell.method == "scfe":
            records.append(_noise(case, cell, points))
    if cell.figure == "outcome" and cell.method == "scfe" and cell.overshoot != AS_IS:
        records += _held_out(case, cell, points)
    case.forget_refits()
    return records


def attacked(
    case: Setup, cell: Cell, points: pd.DataFrame, methods: tuple[str, ...] = SEARCHES
) -> list[dict[str, Any]]:
    """What the searches break, and random deletions."""
    plans = {method: case.plan(cell.method, cell.overshoot, method) for method in methods}
    case.solve_for([rows for plan in plans.values() for rows in plan.sets[1:]])
    records = []
    for method, plan in plans.items():
        records += broken(case, cell, plan, points, method, "all")
    return records + at_random(case, cell, points)


def told(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """For how many recourse was found, and how far past the target it is."""
    found = case.recourse(cell.method, cell.overshoot)
    past = found.overshoot_reached[found.valid].to_numpy()
    records = [_success(case, cell, found.success, len(found.points))]
    for name, share in (("10 %", 0.1), ("median", 0.5), ("90 %", 0.9)) if past.size else ():
        records.append(
            cell.record(
                measure="overshoot reached",
                series=name,
                people="all",
                deletions=0,
                value=float(np.quantile(past, share)),
                count=past.size,
            )
        )
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
    at = case.scale.refit_best_at if series == "best" else None
    # every kernel solution is put into its own system; a full refit beside it for these
    full = people == "all" and cell.method == "scfe" and cell.figure in CONFIRMED
    scores, how = case.after(points, sets, refit=full, at=at)
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


def at_random(
    case: Setup, cell: Cell, points: pd.DataFrame, people: str = "all"
) -> list[dict[str, Any]]:
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
                people=people,
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
    records = at_random(case, cell, searched, "searched")
    plans = {method: case.search(searched, method) for method in SEARCHES}
    case.solve_for([rows for plan in plans.values() for rows in plan.sets[1:]])
    for method, plan in plans.items():
        records += broken(case, cell, plan, searched, method, "searched")
        records += broken(case, cell, plan, held_out, method, "held out")
    return records


def _noise(case: Setup, cell: Cell, points: pd.DataFrame) -> dict[str, Any]:
    """The share that training a network anew breaks, with another seed and nobody deleted."""
    if "another seed" not in case.memory:
        model = case.model
        seed = model.estimator.random_state + 1
        with quiet:
            fresh = clone(model.estimator).set_params(random_state=seed).fit(model.X, model.y)
            case.memory["another seed"] = erasable(fresh, model.X, model.y)
    low = case.memory["another seed"].scores(points) < case.target
    value, error = over_folds(low.astype(float))
    return cell.record(
        measure="invalidated",
        series="another seed, cold",
        people="all",
        deletions=0,
        value=value,
        error=error,
        by="refit, cold",
        count=len(points),
    )


def _predicted(case: Setup, cell: Cell, points: pd.DataFrame) -> list[dict[str, Any]]:
    """How well the paper's jackknife foretells the refits of the greedy search's sets, and random.

    The rank correlation of predicted and refitted drops over the recourses, and the median ratio.
    """
    if "jackknife" not in case.model.can.predictions or cell.method != "scfe":
        return []
    deletions = case.model.deletions(points, method="jackknife")
    before = case.model.scores(points)
    greedy = case.plan(cell.method, cell.overshoot, "greedy-count").sets[1:]
    records = []
    for name, sets in (("greedy-count", greedy), ("random", case.random_sets()[0])):
        scores, how = case.after(points, sets, refit=False)
        for k, (rows, after, by) in enumerate(zip(sets, scores, how, strict=True), start=1):
            if by == "predicted" or k not in (1, 2, 5, DELETIONS):
                continue
            said, true = deletions.effect(rows), before - after
            if not (np.ptp(said) > 0 and np.ptp(true) > 0):
                continue
            for measure, value in (
                ("jackknife, rank correlation", spearmanr(said, true).statistic),
                ("jackknife, predicted / refitted", np.median(said / true)),
            ):
                records.append(
                    cell.record(
                        measure=measure,
                        series=name,
                        people="all",
                        deletions=k,
                        value=float(value),
                        by=by,
                        count=len(points),
                    )
                )
    return records

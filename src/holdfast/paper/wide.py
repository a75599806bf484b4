"""The NTK's critical rows, deleted from the training of a wide ReLU network (Admission, SCFE)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from holdfast.algebra.rows import Array, Positions
from holdfast.estimators.wide import WideReLURegressor
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.paper.settings import Cell, Scale
from holdfast.paper.setups import FREE, Setup, over_folds
from holdfast.recourse import find_recourse
from holdfast.shared_state import quiet

#: overshoots measured by default, and deletions refitted after
FEW, REFIT_AT = (0.001, 0.05), (1, 5, 14)


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every overshoot; two unless everything is measured, as a refit takes minutes."""
    few = overshoots if scale.beside is None else [o for o in overshoots if o in FEW]
    return [Cell("wide", "admission", "ntk", "scfe", at) for at in few or overshoots[:1]]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The share of the wide network's own recourses that break, refitted from where it stood."""
    if len(case.people) == 0:
        return []
    wide = _wide(case)
    given = find_recourse(
        wide,
        case.people,
        cell.method,
        target=case.target,
        actionability=FREE,
        overshoot=cell.overshoot,
    )
    points = given.points[given.valid.to_numpy()]
    ntk_points = case.points(cell.method, cell.overshoot)
    if len(points) == 0 or len(ntk_points) == 0:
        return []
    records = [
        cell.record(
            measure="success",
            series="recourse",
            people="below target, wide network",
            deletions=0,
            value=given.success,
            count=len(given.points),
        )
    ]
    records.append(_resolution(case, cell, points))
    plan = case.plan(cell.method, cell.overshoot, "greedy")
    for name, sets in (("another seed, cold", None), ("the same seed, cold", plan.sets[5])):
        records.append(_cold(case, cell, points, name, sets))
    for k in REFIT_AT:
        chosen = _refit(case, plan.sets[k]).scores(points)
        at_random = [_refit(case, draw[k - 1]).scores(points) for draw in case.random_sets(1)]
        records.append(_record(case, cell, "greedy on the NTK", k, chosen[None]))
        records.append(_record(case, cell, "random", k, np.stack(at_random)))
    return records


def _record(case: Setup, cell: Cell, series: str, k: int, scores: Array) -> dict[str, Any]:
    value, error = over_folds((scores < case.target).mean(axis=0))
    return cell.record(
        measure="invalidated",
        series=series,
        people="all",
        deletions=k,
        value=value,
        error=error,
        by="refit, warm",
        count=scores.shape[1],
    )


def _wide(case: Setup) -> ErasableModel:
    """The wide network on the same rows, with the NTK's ridge."""
    if "wide" not in case.memory:
        ntk = case.model
        net = WideReLURegressor(
            n_units=case.scale.width,
            beta=ntk.estimator.beta,
            max_iter=5000,
            tol=1e-7,
            random_state=0,
        )
        with quiet:
            case.memory["wide"] = erasable(net.fit(ntk.X, ntk.y), ntk.X, ntk.y)
    found: ErasableModel = case.memory["wide"]
    return found


def _cold(
    case: Setup, cell: Cell, points: Any, name: str, rows: Positions | None
) -> dict[str, Any]:
    """The share broken when the network is trained from its start: what refits do by themselves.

    With another seed and nobody deleted; with the same seed and five rows deleted, to set beside
    the warm refit without them.
    """
    known = ("cold", name, () if rows is None else tuple(sorted(rows.tolist())))
    if known not in case.memory:
        model = _wide(case)
        keep = np.setdiff1d(np.arange(model.rows.n), [] if rows is None else rows)
        fresh = clone(model.estimator).set_params(random_state=1 if rows is None else 0)
        with quiet:
            case.memory[known] = fresh.fit(model.X.iloc[keep], model.y[keep])
    scores = case.memory[known].predict(points)
    value, error = over_folds((scores < case.target).astype(float))
    return cell.record(
        measure="invalidated",
        series=name,
        people="all",
        deletions=0 if rows is None else len(rows),
        value=value,
        error=error,
        by="refit, cold",
        count=len(points),
    )


def _refit(case: Setup, rows: Positions) -> ErasableModel:
    known = ("wide", *sorted(rows.tolist()))
    if known not in case.memory:
        case.memory[known] = _wide(case).without(rows)
    found: ErasableModel = case.memory[known]
    return found


def _resolution(case: Setup, cell: Cell, points: Any) -> dict[str, Any]:
    """What refitting changes by itself: the median change of a score when nothing is deleted."""
    again = _refit(case, np.empty(0, dtype=np.intp)).scores(points)
    moved = np.abs(again - _wide(case).scores(points)) / _wide(case).score_unit
    return cell.record(
        measure="score change, nothing deleted",
        series="wide network",
        people="all",
        deletions=0,
        value=float(np.median(moved)),
        by="refit, warm",
        count=len(points),
    )

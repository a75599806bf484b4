"""Figure 3: how far recourse moves when it is found again after deletions (Φ₂)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions
from holdfast.models.erasable import ErasableModel
from holdfast.paper.settings import AS_IS, DELETIONS, Cell, Scale, scfe_cells
from holdfast.paper.setups import BEST, FREE, Setup, over_folds
from holdfast.recourse import find_recourse, published

#: overshoots at which the NTK is measured
NTK_AT = (0.001, 0.05)
#: random deletions averaged; one for kernel models, of which everybody's recourse is dear
DRAWS = 5


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot, SCFE; the NTK at the ends of the grid's middle.

    Where SCFE stops by itself, linear models only: its steps are many, and repeated after every
    deletion.
    """
    few = overshoots if scale.beside is None else [o for o in overshoots if o in NTK_AT]
    linear = scfe_cells("action", [*overshoots, AS_IS], ("linear",))
    return linear + scfe_cells("action", few or overshoots[:1], ("ntk",))


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """Gates and ``best`` on ΣΦ₂ by the ℓ2 closed form; recourses found again, ℓ2 and ℓ1 cost."""
    if len(case.people) == 0:
        return []
    goal = case.target + max(cell.overshoot, 0.0) * case.model.score_unit
    people = case.people.iloc[: case.scale.action_people]
    costs = ("as published",) if cell.overshoot == AS_IS else ("l2", "l1")
    first = {cost: _recourse(case.model, people, goal, cost) for cost in costs}
    points = pd.DataFrame(first[costs[0]], index=people.index, columns=people.columns)
    able = np.flatnonzero(np.isfinite(first[costs[0]]).all(axis=1))
    if able.size == 0:
        return []
    records = []
    for method, options in (
        ("gates", {"steps": case.scale.gate_steps}),
        ("best", {"rounds": BEST["rounds"]}),
    ):
        sets = case.search_action(points.iloc[able], people.iloc[able], goal, method, options)
        for k, rows in enumerate(sets[1:], start=1):
            if case.model.can.refit == "cubic" and k not in case.scale.moved_at(method):
                continue
            records += _moved(case, cell, people, goal, first, [rows], k, method)
    draws = 1 if case.model.can.refit == "cubic" and case.scale.beside else DRAWS
    for k in (1, 5, DELETIONS):
        sets = [draw[k - 1] for draw in case.random_sets(draws)]
        records += _moved(case, cell, people, goal, first, sets, k, "random")
    case.forget_refits()
    return records


def _moved(
    case: Setup,
    cell: Cell,
    people: pd.DataFrame,
    goal: float,
    first: dict[str, Array],
    sets: list[Positions],
    k: int,
    series: str,
) -> list[dict[str, Any]]:
    """Φ₂ after some deletions of ``k`` rows, averaged over them, for both costs."""
    full = series == "gates" and k in case.scale.refit_kernel_at
    kernel = case.model.can.refit == "cubic"
    models = [case.shortened(s, refit=full) for s in sets]
    records = []
    for cost, before in first.items():
        moves = [
            np.linalg.norm(_recourse(model, people, goal, cost) - before, axis=1)
            for model in models
        ]
        value, error = over_folds(np.nanmean(moves, axis=0))
        means = np.nanmean(moves, axis=1)
        records.append(
            cell.record(
                measure=f"phi2, {cost} cost",
                series=series,
                people="all",
                deletions=k,
                value=value,
                error=error,
                spread=float(np.std(means, ddof=1)) if len(means) > 1 else float("nan"),
                by="residual" if kernel and not full else "refit",
                count=int(np.isfinite(moves[0]).sum()),
            )
        )
    return records


def _recourse(model: ErasableModel, people: pd.DataFrame, goal: float, cost: str) -> Array:
    """Where everybody is sent (q, d); NaN where no recourse is found."""
    own = cost == "as published"
    found = find_recourse(
        model,
        people,
        "scfe",
        target=goal,
        actionability=FREE,
        overshoot=published.AS_IS if own else 0.0,
        cost="l1" if own else cost,
    )
    points = people.to_numpy(dtype=float, copy=True)
    where = people.index.get_indexer(found.points.index)
    points[where] = np.where(
        found.valid.to_numpy()[:, None], found.points.to_numpy(dtype=float), np.nan
    )
    return points

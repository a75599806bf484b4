"""Invalidation against the overshoot itself: what the other figures hang on."""

from __future__ import annotations

from typing import Any

from holdfast.paper.outcome import SEARCHES, broken
from holdfast.paper.settings import Cell, Scale, scfe_cells
from holdfast.paper.setups import Setup

#: finer than the grid of the other figures, which it contains
FINE = (0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot of the finer grid, SCFE."""
    return scfe_cells("overshoot", sorted({*FINE, *overshoots}))


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The share the paper's search and the strongest attack found break."""
    if len(case.people) == 0:
        return []
    points = case.points(cell.method, cell.overshoot)
    if len(points) == 0:
        return []
    plans = {method: case.plan(cell.method, cell.overshoot, method) for method in SEARCHES}
    case.solve_for([rows for plan in plans.values() for rows in plan.sets[1:]])
    records: list[dict[str, Any]] = []
    for method, plan in plans.items():
        records += broken(case, cell, plan, points, method, "all")
    return records

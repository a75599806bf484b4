"""The onion: remove the 15 most critical rows, refit, give recourse anew, attack again."""

from __future__ import annotations

from typing import Any

from holdfast.paper.outcome import at_random, broken
from holdfast.paper.settings import Cell, Scale, scfe_cells
from holdfast.paper.setups import Setup

REMOVED = 15


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot, SCFE."""
    return scfe_cells("onion", overshoots)


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The greedy search before and after the rows it finds first are removed."""
    if len(case.people) == 0:
        return []
    points = case.points(cell.method, cell.overshoot)
    if len(points) == 0:
        return []
    # the paper's greedy search takes whatever comes first once nothing more breaks; the soft count
    # still tells rows apart then
    critical = case.search(points, "greedy-soft", max_deletions=REMOVED).rows
    reduced = case.without(critical)
    anew = reduced.points(cell.method, cell.overshoot)
    records = []
    for which, at, given in (("before", case, points), ("after", reduced, anew)):
        if len(given) == 0:
            continue
        plan = at.plan(cell.method, cell.overshoot, "greedy-count")
        records += broken(at, cell, plan, given, f"greedy-count, {which}", "all")
        for record in at_random(at, cell, given):
            records.append({**record, "series": f"random, {which}"})
    case.forget_refits()
    return records

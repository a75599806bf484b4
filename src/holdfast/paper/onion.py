"""The onion: remove the 15 most critical rows, refit, give recourse anew, attack again."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import r2_score

from holdfast.paper.outcome import SEARCHES, at_random, broken
from holdfast.paper.settings import AS_IS, Cell, Scale, scfe_cells
from holdfast.paper.setups import Setup

REMOVED = 15


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """One for every data set, model and overshoot, SCFE; the NTK at two and as published."""
    every = [*overshoots, AS_IS]
    few = every if scale.beside is None else [*overshoots[:2], AS_IS]
    return scfe_cells("onion", every, ("linear",)) + scfe_cells("onion", few, ("ntk",))


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The searches before and after the rows found first are removed, and the model's quality."""
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
        plans = {method: at.plan(cell.method, cell.overshoot, method) for method in SEARCHES}
        at.solve_for([rows for plan in plans.values() for rows in plan.sets[1:]])
        for method, plan in plans.items():
            records += broken(at, cell, plan, given, f"{method}, {which}", "all")
        held, truth = case.held or (None, None)
        if held is not None:
            records.append(
                cell.record(
                    measure="quality",
                    series=which,
                    people="all",
                    deletions=0,
                    value=float(r2_score(truth, at.model.scores(held))),
                    count=len(given),
                )
            )
        for record in at_random(at, cell, given):
            records.append({**record, "series": f"random, {which}"})
    case.forget_refits()
    return records

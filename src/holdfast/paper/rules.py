"""A check of robustness: the same figure for advice that people could follow.

In the paper's encoded features one-hot columns move by fractions, columns that say a value was
missing move, and with an ℓ1 cost a linear score's recourse changes a single feature. Here the data
set's rules hold (:func:`~holdfast.paper.setups.encoded_rules`), with either cost; and without
rules, the ℓ2 cost.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from holdfast.paper.outcome import SEARCHES, broken
from holdfast.paper.settings import Cell, Scale, scfe_cells
from holdfast.paper.setups import FREE, Setup
from holdfast.recourse import find_recourse

#: the variants, beside the main figure's: free, ℓ1
VARIANTS = (("rules, ℓ1", True, "l1"), ("rules, ℓ2", True, "l2"), ("free, ℓ2", False, "l2"))
#: overshoots at which the NTK is measured too
NTK_AT = (0.001,)


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Linear models at every overshoot, the NTK at the smallest."""
    few = [o for o in overshoots if o in NTK_AT] or list(overshoots[:1])
    ntk = list(overshoots) if scale.beside is None else few
    return scfe_cells("rules", overshoots, ("linear",)) + scfe_cells("rules", ntk, ("ntk",))


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """What the searches break of each variant's recourses, and whom each serves."""
    records: list[dict[str, Any]] = []
    if len(case.people) == 0:
        return records
    for name, ruled, cost in VARIANTS:
        found = find_recourse(
            case.model,
            case.people,
            cell.method,
            target=case.target,
            actionability=case.rules if ruled else FREE,
            overshoot=cell.overshoot,
            cost=cost,
        )
        records.append(
            cell.record(
                measure="success under rules",
                series=name,
                people="all",
                deletions=0,
                value=found.success,
                count=len(found.points),
            )
        )
        points: pd.DataFrame = found.points[found.valid.to_numpy()]
        if len(points) == 0:
            continue
        plans = {method: case.search(points, method) for method in SEARCHES}
        case.solve_for([rows for plan in plans.values() for rows in plan.sets[1:]])
        for method, plan in plans.items():
            records += broken(case, cell, plan, points, f"{method}, {name}", "all")
    return records

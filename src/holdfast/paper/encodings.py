"""Figure 2 again, written down in the other ways a reader of the paper could choose."""

from __future__ import annotations

from typing import Any

from holdfast.paper.outcome import SEARCHES, attacked, told
from holdfast.paper.settings import AS_IS, ENCODINGS, Cell, Scale
from holdfast.paper.setups import Setup

#: overshoots at which the NTK is measured too
NTK_AT = (0.001, 0.01)


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Every encoding but the main figures' own: linear with all methods, the NTK with SCFE."""
    linear = [
        Cell("encodings", data, model, method, stop, 0, encoding.name)
        for (data, model), encodings in ENCODINGS.items()
        for encoding in encodings
        for method in (scale.methods if model == "linear" else ())
        for stop in (*overshoots, AS_IS)
    ]
    return linear + [
        Cell("encodings", data, model, "scfe", overshoot, 0, encoding.name)
        for (data, model), encodings in ENCODINGS.items()
        for encoding in encodings
        for overshoot in (overshoots if model == "ntk" else ())
        if overshoot in NTK_AT or scale.beside is None or not set(NTK_AT) & set(overshoots)
    ]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The paper's greedy search and random deletions; for OLS with SCFE ``best`` too."""
    points = case.points(cell.method, cell.overshoot) if len(case.people) else case.people
    if len(points) == 0:
        return []
    strongest = cell.model == "linear" and cell.method == "scfe"
    searches = SEARCHES if strongest else SEARCHES[:1]
    return told(case, cell) + attacked(case, cell, points, searches)

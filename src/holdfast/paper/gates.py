"""The gates (Algorithm 2) beside the greedy search (Algorithm 1), and a weak ℓ0 weight."""

from __future__ import annotations

from typing import Any

from holdfast.paper.outcome import at_random, broken
from holdfast.paper.settings import AS_IS, REGRESSIONS, Cell, Scale
from holdfast.paper.setups import Setup

#: the ℓ0 weight of the search's default, and one that is too weak
STRONG, WEAK = 0.5, 0.01


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Admission and HELOC × linear (all methods) and NTK (SCFE) × overshoots.

    A thousand descent steps are dear: all overshoots for SCFE on linear models, elsewhere those at
    which methods beside SCFE are measured.
    """
    every = [*overshoots, AS_IS]
    few = every if scale.beside is None else [stop for stop in every if stop in scale.beside]
    return [
        Cell("gates", data, model, method, stop)
        for data in REGRESSIONS
        for model, methods in (("ntk", ("scfe",)), ("linear", scale.methods))
        for method in methods
        for stop in (every if (model, method) == ("linear", "scfe") else few)
    ]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The share broken by greedy-count, by the gates, and by gates with a weak ℓ0 weight."""
    if len(case.people) == 0:
        return []
    points = case.points(cell.method, cell.overshoot)
    if len(points) == 0:
        return []
    records = []
    for series, method, options in (
        ("greedy-count", "greedy-count", {}),
        ("gates", "gates", {"l0_weight": STRONG}),
        ("gates, weak ℓ0", "gates", {"l0_weight": WEAK}),
    ):
        more: dict[str, Any] = dict(options)
        if method == "gates":
            more["steps"] = case.scale.gate_steps
        plan = case.plan(cell.method, cell.overshoot, method, **more)
        records += broken(case, cell, plan, points, series, "all")
    records += at_random(case, cell, points)
    case.forget_refits()
    return records

"""The paper's conjecture that differential privacy helps: private training, attacked again."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.audits.hardening import harden
from holdfast.paper.settings import CLASSIFICATIONS, REGRESSIONS, Cell, Scale
from holdfast.paper.setups import FREE, Setup, over_folds
from holdfast.searches import search

#: promises that survive this many deletions are what is asked for
SURVIVE = 5
#: people whose recourse is found for every draw of the noise, by a program each
PEOPLE = 100
EPSILONS, DRAWS = (100.0, 10.0, 1.0), 3


def cells(scale: Scale, overshoots: tuple[float, ...]) -> list[Cell]:
    """Linear and logistic models at one overshoot: 0.01, or the nearest to it that is asked for."""
    at = min(overshoots, key=lambda overshoot: abs(overshoot - 0.01))
    linear = [Cell("privacy", data, "linear", "scfe", at) for data in REGRESSIONS]
    return linear + [Cell("privacy", data, "logistic", "scfe", at) for data in CLASSIFICATIONS]


def measure(case: Setup, cell: Cell) -> list[dict[str, Any]]:
    """The share broken with and without private training, model quality, and what noise breaks."""
    people = case.people.iloc[: min(PEOPLE, case.scale.people or PEOPLE)]
    if len(people) == 0:
        return []
    found = harden(
        case.model,
        people,
        case.target,
        SURVIVE,
        case.held,
        mitigations={"private": {"epsilons": EPSILONS, "draws": DRAWS}},
        actionability=FREE,
        overshoot=cell.overshoot,
        method=cell.method,
    )
    given = found.case.given
    plan = search(case.model, given, case.target, threads=case.threads)
    after, _ = case.after(given.points[given.valid.to_numpy()], plan.sets[1:])
    records = [
        cell.record(
            measure="invalidated",
            series="as it is",
            people="some",
            deletions=k,
            value=over_folds((scores < case.target).astype(float))[0],
            by="refit",
            count=len(people),
        )
        for k, scores in enumerate(after, start=1)
    ]
    quality = next(value for name, value in case.facts.items() if name.endswith("test part"))
    records.append(_one(cell, "quality", "as it is", quality, len(people)))
    for epsilon in EPSILONS:
        series = f"ε = {epsilon:g}"
        same = [m for m in found.made if m.setting.startswith(f"ε={epsilon:g},")]
        for k in range(1, min(len(m.broken) for m in same)):
            shares = [float(m.broken[k]) for m in same]
            records.append(
                cell.record(
                    measure="invalidated",
                    series=series,
                    people="some",
                    deletions=k,
                    value=float(np.mean(shares)),
                    spread=float(np.std(shares, ddof=1)) if len(shares) > 1 else float("nan"),
                    by="refit",
                    count=int(np.mean([len(m.points) for m in same])),
                )
            )
        told = [m.measured["quality"] for m in same]
        records.append(_one(cell, "quality", series, float(np.mean(told)), len(people)))
        alone = [m.alone for m in same]
        records.append(
            _one(cell, "broken by fresh noise", series, float(np.nanmean(alone)), len(people))
        )
    return records


def _one(cell: Cell, measure: str, series: str, value: float, count: int) -> dict[str, Any]:
    return cell.record(
        measure=measure, series=series, people="some", deletions=0, value=value, count=count
    )

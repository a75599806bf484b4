"""Beside the worst case: what so many erasures by chance do, and what any refit does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions, as_text
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.refits import Refits, broken
from holdfast.searches import search
from holdfast.searches.greedy import median_margin
from holdfast.searches.plan import Plan

DAYS = {"day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}

#: a 90 % band
LOW, HIGH = 0.05, 0.95

#: more groups than this are no cohorts
MOST_COHORTS = 100


@dataclass(frozen=True)
class DrawnBand:
    """A share over several draws, each confirmed by a refit: its mean and a 90 % band."""

    mean: float
    low: float
    high: float
    draws: int

    @classmethod
    def of(cls, shares: Array) -> DrawnBand:
        """The band of what was drawn; draws that could not be refitted are left out."""
        known = shares[np.isfinite(shares)]
        if known.size == 0:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        low, high = np.quantile(known, [LOW, HIGH])
        return cls(float(known.mean()), float(low), float(high), int(known.size))


@dataclass(frozen=True)
class Likelihood:
    """What a number of erasures by chance breaks, and what to hold it against.

    Attributes
    ----------
    erasures : int
    random : DrawnBand
        As many erased at random.
    worst : float or None
        The strongest attack found with as many, confirmed by a refit.
    bootstrap : DrawnBand
        A yardstick: refitted on as many rows drawn with replacement, nobody erased.
    """

    erasures: int
    random: DrawnBand
    worst: float | None
    bootstrap: DrawnBand


def erasures_in(rate: str, horizon: str) -> int:
    """How many erasures a rate like ``"40/week"`` makes in a time like ``"26w"``.

    Examples
    --------
    >>> from holdfast.audits.likelihood import erasures_in
    >>> erasures_in("40/week", "26w")
    1040
    """
    per = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*", str(rate).lower())
    long = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(horizon).lower())
    if per is None or not _days(per[2]):
        raise HoldfastError(
            f"rate must be like '40/week' (per day, week, month, year), got {rate!r}"
        )
    if long is None or not _days(long[2]):
        raise HoldfastError(
            f"horizon must be like '26w' (days, weeks, months, years), got {horizon!r}"
        )
    count = float(per[1]) / _days(per[2]) * float(long[1]) * _days(long[2])
    if not 0.5 <= count < 1e9:
        raise HoldfastError(f"{rate} over {horizon} makes {count:g} erasures: at least 1 is wanted")
    return round(count)


def _days(unit: str) -> float:
    """The days of a unit of time; 0 if there is no such unit."""
    for name, days in DAYS.items():
        if unit in (name, name + "s", name[0]):
            return days
    return 0.0


def refuse_too_many(erasures: int, units: Units) -> None:
    """Nobody can draw more people than there are."""
    if not 1 <= erasures < len(units):
        noun = "people" if units.unit == "subject" else "training rows"
        raise HoldfastError(
            f"{erasures} erasures cannot be drawn from {len(units)} {noun}: lower the rate or the "
            "horizon"
        )


def likelihood(
    refits: Refits, units: Units, plan: Plan, erasures: int, draws: int, rng: Any, target: float
) -> Likelihood:
    """Random erasures, the worst found, and bootstrap samples, all by refitting."""
    n = refits.model.rows.n
    chosen = [units.drawn(rng, erasures).tolist() for _ in range(draws)]
    sets = [units.rows(members) for members in chosen]
    random = refits.shares(sets, target, "random erasures", by="solver")
    samples = [rng.integers(0, n, n) for _ in range(draws)]
    again = refits.shares_on(samples, target, "bootstrap refits", by="solver")
    worst = _worst(refits, units, plan, erasures, target)
    return Likelihood(erasures, DrawnBand.of(random), worst, DrawnBand.of(again))


def _worst(refits: Refits, units: Units, plan: Plan, erasures: int, target: float) -> float | None:
    """The plan's own set where it is large enough, else joined by what hurts most alone."""
    sets = [plan.sets[min(erasures, plan.max_deletions)]]
    if erasures > plan.max_deletions and refits.model.can.predicts:
        ranked = _ranked(refits, units, plan, erasures)
        number = {name: u for u, name in enumerate(units.names)}
        joined = list(dict.fromkeys([*(number[name] for name in plan.units[-1]), *ranked]))
        sets += [units.rows(ranked), units.rows(joined[:erasures])]
    elif erasures > plan.max_deletions:
        return None
    found = refits.shares(sets, target, "worst case at that number")
    return float(np.nanmax(found)) if np.isfinite(found).any() else None


def _ranked(refits: Refits, units: Units, plan: Plan, erasures: int) -> list[int]:
    """The candidates that hurt most alone, softly counted."""
    ranking: list[int] = []

    def one_shot(attack: Any, budget: int, rng: Any) -> list[list[int]]:
        order = attack.singles(median_margin(attack.margins)).ranked()
        ranking.extend(int(u) for u in order[:erasures])
        return [[]]

    search(refits.model, refits.points, plan.target, 1, one_shot, unit=units.unit)
    return ranking


def group_names(groups: Any, q: int) -> Any:
    """A name for everybody with a recourse; "(unknown)" where there is none."""
    names = ["(unknown)" if pd.isna(value) else as_text(value) for value in groups]
    if len(names) != q:
        raise HoldfastError(f"groups must name the group of each of {q} people, got {len(names)}")
    different = len(set(names))
    if not 1 < different <= MOST_COHORTS:
        raise HoldfastError(
            f"the group column has {different} different values: from 2 to {MOST_COHORTS} are "
            "wanted; put numbers into a few classes first"
        )
    return np.array(names, dtype=object)


def group_table(groups: Any, scores: Any, target: float) -> pd.DataFrame:
    """Promises by group, and the share that breaks with these scores."""
    fallen = pd.Series(broken(scores, target).astype(float))
    by = fallen.groupby(pd.Series(groups, index=fallen.index), sort=True)
    table = pd.DataFrame({"recourses": by.size(), "broken": by.mean()})
    return table.rename_axis("group").reset_index()


def cohort_rows(cohorts: Any, n: int) -> dict[str, Positions]:
    """The training rows of every group, the largest first."""
    names = [None if pd.isna(value) else as_text(value) for value in cohorts]
    if len(names) != n:
        raise HoldfastError(f"cohorts must name the group of each of {n} rows, got {len(names)}")
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name is not None:
            groups.setdefault(name, []).append(place)
    if not 2 <= len(groups) <= MOST_COHORTS:
        raise HoldfastError(
            f"the cohort column has {len(groups)} different values: from 2 to {MOST_COHORTS} "
            "groups can be erased one at a time"
        )
    order = sorted(groups, key=lambda name: (-len(groups[name]), name))
    return {name: np.array(groups[name], dtype=np.intp) for name in order}


def cohort_table(
    refits: Refits, groups: dict[str, Positions], target: float, predicted: bool
) -> pd.DataFrame:
    """One group of the training rows erased at a time: rows, share broken by refitting."""
    order, sets = list(groups), list(groups.values())
    shares = refits.shares(sets, target, "cohorts")
    table = pd.DataFrame({"cohort": order, "rows": [len(s) for s in sets], "refitted": shares})
    table["predicted"] = np.nan
    if predicted:
        deletions = refits.model.deletions(refits.points)
        before = refits.model.scores(refits.points)
        for i, rows in enumerate(sets):
            if len(rows) <= 2000:  # the algebra solves a system of this size
                try:
                    after = before - deletions.effect(rows)
                    table.loc[i, "predicted"] = float(np.mean(broken(after, target)))
                except HoldfastError:
                    continue
    return table

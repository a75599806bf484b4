"""Attacks on a mean of parts: effects add up over parts, and few parts know a row.

What a candidate does alone comes from refits of the parts that have it; as long as the members of
a set share no part that is all there is to know. Where two of a set share one, it is fitted without
both. At most so many candidates are looked at, those that do most in a stand-in for the model: the
plan says how many there were.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import hash as content

from holdfast.algebra.additive import KnownEffects
from holdfast.algebra.rows import Array, Mask, Positions, TrainingRows
from holdfast.algebra.sweeps import Sweep
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.parts import Falls
from holdfast.recourse.promises import Promises
from holdfast.searches.attack import AlgebraAttack, Watched, damage
from holdfast.searches.surrogate import stand_in

#: candidates looked at one by one, each at the cost of fitting the parts that have it
LOOKED_AT = 1_000
#: entries of the table of what they do, where that is known at no such cost
ENTRIES = 50_000_000
#: and in a first answer
QUICK = 100
#: leaders of a sweep that share a part with the set, fitted again together with it
LEADERS = 8


@dataclass(frozen=True)
class Alone:
    """What candidates do alone.

    Attributes
    ----------
    units : positions of those that were looked at
    falls : Falls
        At the recourses, of those.
    everybody : bool
        Whether nobody was left out.
    """

    units: Positions
    falls: Falls
    everybody: bool


def alone(
    model: ErasableModel,
    promises: Promises,
    units: Units,
    most: int = LOOKED_AT,
    until: float = math.inf,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Alone:
    """What candidates do alone, worked out once for the same recourses."""
    points = promises.kept_points
    key = ("alone", units.unit, content(points), most)
    memory = model.rows.memory
    if key not in memory:
        core: Any = model.form("parts")
        quick = len(points) * len(units) <= ENTRIES and core.quick(units)
        chosen = np.zeros(0, dtype=np.intp)
        if quick or time.monotonic() < until:
            chosen = _promising(model, promises, units, len(units) if quick else most)
        sets = [units.rows([u]) for u in chosen.tolist()]
        falls = core.falls(model.features(points), sets, quick, until, tell)
        chosen = chosen[falls.done]
        everybody = len(chosen) == int(_can_go(units).sum())
        found = Alone(chosen, falls, everybody)
        if time.monotonic() > until:  # who asks with more time gets more
            return found
        memory[key] = found
    known: Alone = memory[key]
    return known


def _can_go(units: Units) -> Mask:
    return units.keeps_classes(np.empty(0, dtype=np.intp))


def _promising(model: ErasableModel, promises: Promises, units: Units, most: int) -> Positions:
    """The candidates to look at: all, or those that do most in a stand-in for the model."""
    possible = _can_go(units)
    if possible.sum() <= most:
        return np.flatnonzero(possible)
    attack = stand_in(model, promises, units, "kernel", None)
    ranked = attack.sweep([], max(float(np.median(attack.margins)), 1e-12)).ranked()
    return np.sort(ranked[possible[ranked]][:most])


class PartsAttack(Watched):
    """Damage by deletion, by refits of the parts that had the rows.

    Parameters
    ----------
    model, promises, units, objective, threads
        As for :class:`~holdfast.searches.attack.AlgebraAttack`.
    most : int
        Candidates looked at.
    """

    costly = False
    sweeps_all = True

    def __init__(
        self,
        model: ErasableModel,
        promises: Promises,
        units: Units,
        objective: str = "outcome",
        threads: int | None = None,
        most: int = LOOKED_AT,
    ):
        self._most = most
        self._model, self._promises, self.units = model, promises, units
        self.objective, self._threads = objective, threads
        self._core: Any = model.form("parts")
        self._points = model.features(promises.kept_points)
        self._scores, self._target = promises.kept_scores, promises.target
        self.margins = promises.margins
        means = self._core.known_outputs(self._points).mean(axis=1)
        self._means, self._room = means, means - self._core.mean_at(self._target)
        self._screen: AlgebraAttack | None = None
        self._alone: Alone | None = None
        self._drops: dict[tuple[int, ...], Array] = {}

    @property
    def looked_at(self) -> int | None:
        """How many candidates were looked at one by one; ``None``: nobody asked yet."""
        return None if self._alone is None else len(self._alone.units)

    def _screening(self) -> tuple[AlgebraAttack, Positions]:
        """An attack on the mean by what candidates do alone, and who they are."""
        if self._screen is None or self._alone is None:
            self._alone = alone(
                self._model, self._promises, self.units, self._most, self.deadline, self.tell
            )
            rows = TrainingRows(len(self._alone.units))
            self._screen = AlgebraAttack(
                KnownEffects(self._alone.falls.mean, rows),
                self._room,
                Units(rows, "row"),
                self.objective,
                self._threads,
            )
        return self._screen, self._alone.units

    def cannot_go(self) -> Positions:
        return np.flatnonzero(~_can_go(self.units))

    def singles(self, temperature: float | None = None) -> Sweep:
        return self.sweep([], temperature)

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate as if it shared no part with the set; leaders that do, together."""
        screen, known = self._screening()
        place = {int(u): i for i, u in enumerate(known.tolist())}
        state = screen.sweeps.state([place[u] for u in units if u in place])
        screened = screen.sweep_at(replace(state, base=self._mean_drop(units)), temperature)
        value = np.full(len(self.units), -np.inf)
        tie, possible = value.copy(), self.units.keeps_classes(self.units.rows(units))
        value[known], tie[known] = screened.value, screened.tie
        looked = np.zeros(len(self.units), dtype=bool)
        looked[known] = True
        possible &= looked
        possible[list(units)] = False
        for leader in self._sharing(units, Sweep(value, tie, possible).ranked(LEADERS)):
            drop = self._mean_drop([*units, leader])
            value[leader], tie[leader] = damage(self._room, drop, self.objective, temperature)
        return Sweep(value, tie, possible)

    def _sharing(self, units: Sequence[int], leaders: Positions) -> list[int]:
        """Those of some candidates that share a part with the set."""
        membership = self._core.membership
        taken = np.unique(membership[self.units.rows(units)])
        return [
            u for u in leaders.tolist() if np.isin(membership[self.units.rows([u])], taken).any()
        ]

    def _mean_drop(self, units: Sequence[int]) -> Array:
        """By how much the mean falls without a set, all of its parts fitted again."""
        key = tuple(sorted(units))
        if key not in self._drops:
            if len(self._drops) > 4096:
                self._drops.clear()
            after = self._core.means_without(self._points, [self.units.rows(key)])[0]
            self._drops[key] = self._means - after
        return self._drops[key]

    def _after(self, units: Sequence[int]) -> Array:
        after: Array = self._core.scored(self._means - self._mean_drop(units))
        return after

    def feasible(self, units: Sequence[int]) -> bool:
        try:
            self._model.rows.refuse_if_too_much(self.units.rows(units))
        except HoldfastError:
            return False
        return True

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        return damage(self.margins, self._scores - self._after(units), self.objective)

    def broken(self, units: Sequence[int]) -> int:
        after = self._core.scores_without(self._points, [self.units.rows(units)])[0]
        return int(np.sum(~(after >= self._target)))

    def worst_for(self, recourses: Positions) -> list[Positions]:
        if self.objective != "outcome":
            return []
        screen, known = self._screening()
        return [known[order] for order in screen.worst_for(recourses)]

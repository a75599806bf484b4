"""An attack on a whole pipeline: what is erased is refitted for, transformers included.

Few units act through the preprocessing (:mod:`holdfast.searches.acting`). For the others the
algebra with the preprocessing kept is right to within what a search can tell apart. So a set of
deletions is taken apart: the pipeline is refitted without those of its members that act through it,
and the others are deleted from *that* model, by its own attack. Values of sets are those of the
whole pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.sweeps import Sweep
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.solving import scores_or_nan
from holdfast.recourse.promises import Promises
from holdfast.searches.acting import Acting
from holdfast.searches.attack import Attack, Watched, damage

#: refits at most where each chooses a penalty by cross-validation
REFITS = 100

#: model, its points, their margins, its units → an attack on it
Make = Callable[[ErasableModel, Any, Array, Units], Attack]


@dataclass(frozen=True)
class _Without:
    """The model without some acting units, and an attack on it."""

    attack: Attack | None
    #: the number in our units of each of its own
    places: Any
    #: which of our units are its own, and their numbers there
    inner: dict[int, int]
    #: recourses it cannot score: broken, whatever else goes
    lost: int


class WholeAttack(Watched):
    """Damage by deletion with everything refitted.

    Parameters
    ----------
    model, promises, units
    outcome : Deletions
        Of the recourses' scores, effects of the whole pipeline.
    make : callable
        An attack on a model with its preprocessing kept.
    acting : Acting
    """

    objective = "outcome"

    def __init__(
        self,
        model: ErasableModel,
        promises: Promises,
        units: Units,
        outcome: Deletions,
        make: Make,
        acting: Acting,
    ):
        self._model, self._promises, self._make = model, promises, make
        self.units, self.outcome, self.acting = units, outcome, acting
        self.margins = promises.margins
        self._known: dict[tuple[int, ...], _Without] = {}
        self._values: dict[tuple[int, ...], tuple[float, float]] = {}
        self._drops: dict[tuple[int, ...], Array] = {}
        self._base = self._without(())
        inside = self._base.attack
        assert inside is not None
        self.costly, self.sweeps_all = inside.costly, inside.sweeps_all
        self._dear = model.can.chooses == "dearly"
        self._refits_left = REFITS if self._dear else math.inf

    def _without(self, gone: tuple[int, ...]) -> _Without:
        """The pipeline refitted without some acting units."""
        if gone not in self._known:
            if len(self._known) > 64:
                self._known.pop(next(iter(self._known)))
            self._known[gone] = self._refitted(gone)
        return self._known[gone]

    def _refitted(self, gone: tuple[int, ...]) -> _Without:
        points, target = self._promises.kept_points, self._promises.target
        everybody = {u: u for u in range(len(self.units))}
        if not gone:
            itself = self._make(self._model, points, self.margins, self.units)
            return _Without(itself, np.arange(len(self.units)), everybody, 0)
        try:
            fresh = self._model.without(self.units.rows(gone))
        except HoldfastError:
            return _Without(None, np.zeros(0, dtype=np.intp), {}, 0)
        scores = scores_or_nan(fresh, points)
        fine = np.flatnonzero(np.isfinite(scores))
        own = Units(fresh.rows, self.units.unit)
        if self.units.unit == "row":
            places = np.setdiff1d(np.arange(len(self.units)), gone)
        else:
            number = {name: u for u, name in enumerate(self.units.names)}
            places = np.array([number[name] for name in own.names])
        attack: Attack | None = None
        if fine.size:
            some = points.iloc[fine] if hasattr(points, "iloc") else points[fine]
            attack = self._make(fresh, some, scores[fine] - target, own)
        inner = {int(u): i for i, u in enumerate(places.tolist())}
        return _Without(attack, places, inner, len(scores) - fine.size)

    def _apart(self, units: Sequence[int]) -> tuple[_Without, list[int]]:
        """The model without the acting ones, and the numbers of the others there."""
        acting = set(self.acting.units)
        state = self._without(tuple(sorted(u for u in units if u in acting)))
        return state, [state.inner[u] for u in units if u not in acting and u in state.inner]

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate by the model without the acting ones; those that act by themselves."""
        state, rest = self._apart(units)
        value = np.full(len(self.units), -np.inf)
        tie, possible = value.copy(), np.zeros(len(self.units), dtype=bool)
        if state.attack is not None:
            found = state.attack.sweep(rest, temperature)
            value[state.places] = found.value + state.lost
            tie[state.places], possible[state.places] = found.tie, found.possible
        for unit in self.acting.units:
            if unit in units:
                continue
            wanted = [*units, unit]
            possible[unit] = self._refits_left > 0 and self.feasible(wanted)
            if possible[unit]:
                value[unit], tie[unit] = self._valued(wanted, temperature)
        return Sweep(value, tie, possible)

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate alone: all screened, as the attack on the model itself does."""
        inside = self._base.attack
        assert inside is not None
        found = inside.singles(temperature)
        value, tie = found.value.copy(), found.tie.copy()
        for unit in self.acting.units:
            if found.possible[unit]:
                value[unit], tie[unit] = self._valued([unit], temperature)
        return Sweep(value, tie, found.possible)

    def _valued(self, units: Sequence[int], temperature: float | None) -> tuple[float, float]:
        key = tuple(sorted(units))
        if key not in self._drops:
            if len(self._drops) > 2000:
                self._drops.pop(next(iter(self._drops)))
            self._refits_left -= 1
            self._drops[key] = self.outcome.effect_at(self.units.rows(units))
        drop = self._drops[key]
        return damage(self.margins, drop, self.objective, temperature)

    def feasible(self, units: Sequence[int]) -> bool:
        inside = self._base.attack
        assert inside is not None
        return inside.feasible(units)

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        key = tuple(sorted(units))
        if self._dear and not set(key) & set(self.acting.units):  # the choice kept
            inside = self._base.attack
            assert inside is not None
            return inside.value(key)
        if key not in self._values:
            self._values[key] = self._valued(key, None)
        return self._values[key]

    def broken(self, units: Sequence[int]) -> int:
        return int(self._valued(units, None)[0])

    def worst_for(self, recourses: Positions) -> list[Positions]:
        inside = self._base.attack
        assert inside is not None
        return inside.worst_for(recourses)

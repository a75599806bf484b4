"""Attacks on models of many rows: a few thousand candidates are searched, not all.

What one row of a hundred thousand does is little, and what a few do together is nearly what the
triple says, deletion after deletion, without a look at the data again. So all rows are screened
once, and the candidates that do most are swept: those that break most recourses alone, and those
that lower the recourses' scores most in sums with the weights a soft count gives them. Sets are
valued by what :meth:`~holdfast.algebra.deletions.Deletions.effect` says of them; where that is far
from what the triple said, the sweep is made as for fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.sweeps import Sweep
from holdfast.searches.attack import AlgebraAttack, RefittingAttack
from holdfast.searches.greedy import TEMPERATURES, median_margin

#: candidates from which a search is screened
MANY = 20_000

#: candidates kept by each way of screening
KEPT = 512

#: how far the triple may be from a set's effect, as a share of it, and still be swept with
NEAR = 0.02


class ScreenedAttack(RefittingAttack):
    """Damage by deletion from a model of many rows; parameters as for its base."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._singles: dict[float | None, Sweep] = {}
        self._effects: Any = self._model.deletions(self._points)

    def singles(self, temperature: float | None = None) -> Sweep:
        if temperature not in self._singles:
            self._singles[temperature] = super().singles(temperature)
        return self._singles[temperature]

    @cached_property
    def _few(self) -> AlgebraAttack:
        """An attack by the triple, on the candidates that were kept."""
        return self._screened(self.outcome, self.margins, self.units.among(self._kept))

    @cached_property
    def _kept(self) -> Positions:
        """The candidates that do most by some way of looking at them."""
        alone = self.singles()
        chosen = [alone.ranked(KEPT)]
        sums = self._summed_effects()
        sums[~alone.possible] = -np.inf
        for values in sums.T:
            chosen.append(np.argpartition(-values, min(KEPT, len(values)) - 1)[:KEPT])
        found = np.unique(np.concatenate(chosen))
        return found[alone.possible[found]]

    def _summed_effects(self) -> Array:
        """Weighted sums of what each unit does to the recourses, by temperature, (units, 5)."""
        if self.objective == "delta":
            weights = np.sign(np.ones((self.margins.size, 1)))
        else:
            heat = median_margin(self.margins) * np.array([*TEMPERATURES, np.inf])
            cosh = np.cosh(np.minimum(self.margins[:, None] / (2.0 * heat), 300.0))
            weights = 1.0 / cosh**2
        outcome: Any = self.outcome
        steps = np.nan_to_num(outcome.single_steps)
        each = (outcome.factor * steps[:, None]) @ (outcome.queries.T @ weights)
        if outcome.also is not None:
            each += outcome.also.rows @ (outcome.also.functionals.T @ weights)
        found: Array = np.add.reduceat(each[self.units.order], self.units.starts[:-1], axis=0)
        return np.abs(found) if self.objective == "delta" else found

    @cached_property
    def _place(self) -> dict[int, int]:
        return {int(unit): place for place, unit in enumerate(self._kept)}

    def _swept(self, units: Sequence[int], temperature: float | None) -> Sweep:
        few, drop = self._few, self._drop(units)
        if not all(unit in self._place for unit in units):
            return super()._swept(units, temperature)
        state = few.sweeps.state([self._place[unit] for unit in units])
        if np.abs(state.base - drop).max(initial=0.0) > NEAR * np.abs(drop).max(initial=0.0):
            return super()._swept(units, temperature)
        found = few.sweep_at(replace(state, base=drop), temperature)
        value, tie = np.full((2, len(self.units)), -np.inf)
        possible = np.zeros(len(self.units), dtype=bool)
        value[self._kept], tie[self._kept] = found.value, found.tie
        possible[self._kept] = found.possible
        return Sweep(value, tie, possible)

    def _drop(self, units: Sequence[int]) -> Array:
        if not len(units):
            return np.zeros(len(self._Z))
        key = tuple(sorted(units))
        if key not in self._drops:
            if len(self._drops) > 1000:
                self._drops.pop(next(iter(self._drops)))
            self._drops[key] = self._effects.effect_at(self.units.rows(key))
        return self._drops[key]

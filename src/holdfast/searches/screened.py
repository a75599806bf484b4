"""Attacks on models of many rows: a few thousand candidates are searched, not all.

All rows are screened once, and the candidates that do most are swept: those that break most
recourses alone, and those that lower the recourses' scores most in sums with the weights a soft
count gives them. What some deletions do, and the triple at the optimum without them, is known
without a look at all rows (:mod:`holdfast.models.expansion`); where it is not, the sweep is made as
for fewer rows. Sets are valued by :meth:`~holdfast.algebra.deletions.Deletions.effect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.sweeps import Sweep
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.searches.attack import RefittingAttack, damage
from holdfast.searches.greedy import soft_weights

#: candidates from which a search is screened
MANY = 20_000

#: candidates that are kept, by all ways of screening together
KEPT = 2048

#: how far a sweep's first may be from its true effect, as a share, before others are valued
NEAR = 0.01


#: sets after which everybody is screened again, at most
AGAIN = 40

#: weights of recourses with a smaller cosine are others
ALIKE = 0.9


class ScreenedAttack(RefittingAttack):
    """Damage by deletion from a model of many rows; parameters as for its base."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._singles: dict[float | None, Sweep] = {}
        self._looked_at: Array = np.zeros((len(self.margins), 0))
        self._again = 0
        self._whole = self._model.deletions(self._points)  # what sets do is known without refits

    def singles(self, temperature: float | None = None) -> Sweep:
        if temperature not in self._singles:
            self._singles[temperature] = super().singles(temperature)
        return self._singles[temperature]

    @cached_property
    def _kept(self) -> Positions:
        """The candidates that do most by some way of looking at them."""
        alone, triple = self.singles(), cast(Any, self.outcome)
        weights = self._weights(self.margins)
        self._looked_at = weights
        sums = self._sums(triple.factor, triple.single_steps, triple.queries, weights)
        return _leaders([*(-sums).T, -alone.tie, -alone.value], alone.possible, KEPT)

    def _weights(self, slack: Array) -> Array:
        """How much each recourse matters to soft counts with these margins left, (q, ways)."""
        if self.objective == "delta":
            return np.ones((slack.size, 1)) / np.sqrt(slack.size)
        return soft_weights(self.margins, slack)

    def _sums(self, U: Array, steps: Array, W: Array, weights: Array) -> Array:
        """Weighted sums of what each unit does to the recourses, (units, ways)."""
        each = (U * np.nan_to_num(steps)[:, None]) @ (W.T @ weights)
        also = self.outcome.also
        if also is not None:
            each += also.rows @ (also.functionals.T @ weights)
        sums = np.add.reduceat(each[self.units.order], self.units.starts[:-1], axis=0)
        return np.abs(sums) if self.objective == "delta" else np.asarray(sums)

    @cached_property
    def _few(self) -> tuple[Units, Units]:
        """The candidates that were kept, and the same with only their rows numbered."""
        few = self.units.among(self._kept)
        return few, few.renumbered()

    def _says(self, triple: Any, rows: Positions, base: Array, true: Array) -> bool:
        """Whether a triple says nearly what some rows do after others went."""
        said = base + triple.columns(rows) @ triple.solve(rows)
        if triple.also is not None:
            said = said + triple.also.effect(rows)
        return bool(np.abs(said - true).max() <= NEAR * np.abs(true).max())

    def _screen_again(self, units: Sequence[int], gone: Positions, base: Array) -> None:
        """Keep also those that do most to the recourses that matter once some are gone."""
        weights = self._weights(self.margins - base)
        new = (weights.T @ self._looked_at).max(axis=1) < ALIKE
        if not new.any() or self._again >= AGAIN:
            return
        found = self._nearby(gone, np.arange(self._model.rows.n))
        if found is None:
            return
        self._again += 1
        self._looked_at = np.hstack([self._looked_at, weights[:, new]])
        W, U, residuals = found
        steps = residuals / np.maximum(1.0 - np.einsum("ij,ij->i", U, U), 1e-3)
        possible = self.units.keeps_classes(gone)
        possible[list(units)] = False
        sums = self._sums(U, steps, W, weights[:, new])
        self._kept = np.union1d(self._kept, _leaders([*(-sums).T], possible, KEPT // 8))
        self.__dict__.pop("_few", None)

    def _nearby(self, gone: Positions, rows: Positions) -> tuple[Array, Array, Array] | None:
        """``W``, ``U`` and ``r`` of some rows at the optimum without others; else ``None``."""
        factors = None if self._scales is None else self._scales.factors([gone])[0]
        form: Any = self._model.form("smooth")
        try:
            found: Any = form.nearby(cast(Any, self.outcome).queries, gone, rows, factors)
        except (HoldfastError, np.linalg.LinAlgError):
            return None
        return None if found is None else tuple(found)

    def _swept(self, units: Sequence[int], temperature: float | None) -> Sweep:
        base, gone = self._drop(units), self.units.rows(units)
        self._kept  # noqa: B018 (everybody is screened first)
        self._screen_again(units, gone, base)
        few, own = self._few
        found = self._nearby(gone, few.order)
        if found is None:
            return super()._swept(units, temperature)
        outcome: Any = self.outcome
        also = outcome.also
        if also is not None:
            also = replace(also, rows=also.rows[few.order])
        triple = replace(
            outcome,
            queries=found[0],
            factor=found[1],
            residuals=found[2],
            rows=own.training,
            also=also,
        )
        attack = self._screened(triple, self.margins - base, own)
        attack.sweeps.source.keeps_a_running_copy = False  # it is swept once
        state = attack.sweeps.state([])
        there = few.keeps_classes(gone) & ~np.isin(self._kept, units)
        state = replace(state, possible=state.possible & there)
        if self.objective == "delta":
            state = replace(state, base=base)
        swept = attack.sweep_at(state, temperature)
        swept = self._checked(swept, units, base, triple, own, temperature)
        return self._placed(swept, self._kept)

    def _checked(
        self,
        swept: Sweep,
        units: Sequence[int],
        base: Array,
        triple: Any,
        own: Units,
        temperature: float | None,
    ) -> Sweep:
        """The leaders valued one by one where the first is not what the triple says."""
        leaders = swept.ranked(self._leaders)
        if not leaders.size:
            return swept
        first = int(leaders[0])
        true = self._drop([*units, int(self._kept[first])])
        if self._says(triple, own.rows([first]), base, true):
            return swept
        value, tie = np.full((2, len(swept.value)), -np.inf)
        possible = np.zeros(len(value), dtype=bool)
        for place in leaders.tolist():
            drop = self._drop([*units, int(self._kept[place])])
            value[place], tie[place] = damage(self.margins, drop, self.objective, temperature)
            possible[place] = True
        return Sweep(value, tie, possible)

    def _placed(self, found: Sweep, kept: Positions) -> Sweep:
        """Of the candidates that were kept, among all."""
        value, tie = np.full((2, len(self.units)), -np.inf)
        possible = np.zeros(len(self.units), dtype=bool)
        value[kept], tie[kept], possible[kept] = found.value, found.tie, found.possible
        return Sweep(value, tie, possible)


def _leaders(costs: list[Array], possible: Any, many: int) -> Positions:
    """Those that are among the first by any of some costs, as many as wanted."""
    best = np.full(len(possible), len(possible))
    for cost in costs:
        order = np.argsort(cost, kind="stable")
        best[order] = np.minimum(best[order], np.arange(len(order)))
    best[~possible] = len(possible)
    some = np.argsort(best, kind="stable")[:many]
    return np.sort(some[possible[some]])

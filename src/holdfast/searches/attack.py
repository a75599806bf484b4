"""An attack: a model, the recourses it threatens, and what counts as damage.

Searches know only this: :meth:`Attack.sweep` values every candidate after some deletions,
:meth:`Attack.value` values one set. :class:`Attack` takes both from the algebra, which is exact for
squared loss. :class:`RefittingAttack` is for approximate families: it screens with the algebra,
looks closer at the leaders, and refits after each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from holdfast.algebra import sweep_loops
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array
from holdfast.algebra.sweeps import Problem, State, Sweep
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError, SingularDeletionError, UnsupportedModelError
from holdfast.instability import first_order_change
from holdfast.models.erasable import ErasableModel
from holdfast.models.network import NetworkCore

OBJECTIVES = ("outcome", "delta", "action")


class Attack:
    """Damage by deletion, worked out by the algebra.

    Parameters
    ----------
    model : ErasableModel
    points : recourses, as the model takes them
    margins : ndarray of shape (q,)
        Score minus target, none negative.
    units : Units
    objective : {"outcome", "delta", "action"}
        What a search maximises: recourses broken, ΣΔ, or ΣΦ₂.
    people : factuals, as the model takes them; for ``"action"``
    target : float; for ``"action"``
    threads : int, optional
    approximation : str, optional
        Which algebra, for families that have more than one.
    """

    #: whether a sweep costs so much that a search should not ask for hundreds
    costly = False

    def __init__(
        self,
        model: ErasableModel,
        points: Any,
        margins: Array,
        units: Units,
        objective: str = "outcome",
        people: Any = None,
        target: float = 0.0,
        threads: int | None = None,
        approximation: str | None = None,
    ):
        if objective not in OBJECTIVES:
            raise HoldfastError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
        self.model, self.points, self.margins = model, points, margins
        self.units, self.objective = units, objective
        self.outcome = model.deletions(points, method=approximation)
        if objective == "action":
            self._prepare_action(people, target, threads)
        else:
            self.problem = Problem(self.outcome, units, threads)

    def _prepare_action(self, people: Any, target: float, threads: int | None) -> None:
        if people is None:
            raise HoldfastError(
                "objective='action' compares recourses from the same starting points: pass "
                "people= (their features, in the order of the recourses)"
            )
        if not hasattr(self.model.core, "first_order"):
            raise UnsupportedModelError(
                "objective='action' has closed forms for linear and kernel models only"
            )
        deletions, self._slopes = self.model.core.first_order(self.model.features(people))
        self._gaps = target - self.model.scores(people)
        if not np.all(np.sum(self._slopes**2, axis=1) > 0):
            raise HoldfastError(
                "a person's score has no gradient: there is no first-order recourse to move"
            )
        self.problem = Problem(deletions, self.units, threads)

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate's value after some deletions; soft with a ``temperature``."""
        return self.sweep_at(self.problem.state(units), temperature)

    def sweep_at(self, state: State, temperature: float | None = None) -> Sweep:
        """The sweep of a given state."""
        if self.objective == "action":
            q, slopes = self._gaps.size, self._slopes
            gaps = self._gaps + state.base[:q]
            now = slopes - state.base[q:].reshape(slopes.shape)
            return self.problem.sweep(state, sweep_loops.action, gaps, now, self._gaps, slopes)
        if self.objective == "delta":
            return self.problem.sweep(state, sweep_loops.absolute, state.base)
        slack = self.margins - state.base
        if temperature is None:
            return self.problem.sweep(state, sweep_loops.count_and_hinge, slack)
        return self.problem.sweep(state, sweep_loops.sigmoid, slack, temperature)

    def feasible(self, units: Sequence[int]) -> bool:
        """Whether these units can go together."""
        return can_go(self.outcome, self.units, units)

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate alone, all of them screened."""
        return self.sweep([], temperature)

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        """Damage of one set, and its tie-break."""
        drop = self.problem.drop(units)
        if self.objective == "delta":
            return float(np.abs(drop).sum()), 0.0
        if self.objective == "action":
            q, slopes = self._gaps.size, self._slopes
            now = slopes - drop[q:].reshape(slopes.shape)
            before = first_order_change(self._gaps, slopes)
            after = first_order_change(self._gaps + drop[:q], now)
            return float(np.linalg.norm(after - before, axis=1).sum()), 0.0
        left = self.margins - drop
        return float(np.sum(left < 0)), -float(np.maximum(left, 0).sum())

    def broken(self, units: Sequence[int]) -> int:
        """How many recourses a set breaks."""
        return int(np.sum(self.outcome.effect_at(self.units.rows(units)) > self.margins))


def can_go(deletions: Deletions, units: Units, chosen: Sequence[int]) -> bool:
    """Whether a fit, and every class, is left when these units go together."""
    rows = units.rows(chosen)
    try:
        deletions.rows.refuse_if_too_much(rows)
        deletions.solve(rows)
    except SingularDeletionError:
        return False
    return True


class RefittingAttack:
    """Damage by deletion for approximate families: screened by the algebra, then refitted.

    As in the algebra, a pipeline's preprocessing is frozen; :meth:`Plan.rerun` refits it too.

    Parameters
    ----------
    leaders : int
        How many candidates of a sweep are looked at more closely.
    """

    def __init__(
        self,
        model: ErasableModel,
        points: Any,
        target: float,
        units: Units,
        objective: str = "outcome",
        threads: int | None = None,
        leaders: int = 8,
    ):
        points = model.features(points) if model._preprocessing is not None else points
        model = model.last_step
        self.model, self.points, self.target = model, points, target
        self.units, self.objective, self.leaders = units, objective, leaders
        self._attack = partial(Attack, objective=objective, threads=threads)
        self._scores = model.scores(points)
        self.margins = self._scores - target
        self._refits: dict[tuple[int, ...], ErasableModel] = {}
        self._algebra = model.deletions(points)
        self.costly = isinstance(model.core, NetworkCore)

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate alone, screened by the algebra."""
        return self._attack(self.model, self.points, self.margins, self.units).singles(temperature)

    def feasible(self, units: Sequence[int]) -> bool:
        """Whether these units can go together."""
        return can_go(self._algebra, self.units, units)

    def _refit(self, units: Sequence[int]) -> ErasableModel:
        key = tuple(sorted(units))
        if key not in self._refits:
            if len(self._refits) > 8:
                self._refits.pop(next(iter(self._refits)))
            self._refits[key] = self.model.without(self.units.rows(key)) if key else self.model
        return self._refits[key]

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate screened at the refitted model; the leaders looked at more closely."""
        model = self._refit(units)
        left = np.setdiff1d(np.arange(self.model.rows.n), self.units.rows(units))
        inner_units = Units(model.rows, self.units.unit)
        base = self._scores - model.scores(self.points)
        attack = self._attack(model, self.points, self.margins - base, inner_units)
        state = attack.problem.state([])
        if self.objective == "delta":
            state = replace(state, base=base)
        screened = attack.sweep_at(state, temperature)
        place = self._places(inner_units, left)
        value = np.full(len(self.units), -np.inf)
        tie = np.full(len(self.units), -np.inf)
        possible = np.zeros(len(self.units), dtype=bool)
        for candidate in screened.ranked(self.leaders):
            drop = base + attack.outcome.effect_at(inner_units.rows([candidate]))
            at = place[candidate]
            possible[at] = True
            value[at], tie[at] = self._damage(drop, temperature)
        return Sweep(value, tie, possible)

    def _places(self, inner: Units, left: Any) -> Any:
        """Number in our units of each unit of the refitted model."""
        if self.units.unit == "row":
            return left
        ours = {name: i for i, name in enumerate(self.units.names)}
        return np.array([ours[name] for name in inner.names])

    def _damage(self, drop: Array, temperature: float | None = None) -> tuple[float, float]:
        if self.objective == "delta":
            return float(np.abs(drop).sum()), 0.0
        left = self.margins - drop
        if temperature is not None:
            return float(np.sum(1.0 / (1.0 + np.exp(np.minimum(left / temperature, 700))))), 0.0
        return float(np.sum(left < 0)), -float(np.maximum(left, 0).sum())

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        """Damage of one set, by refitting."""
        return self._damage(self._scores - self._refit(units).scores(self.points))

    def broken(self, units: Sequence[int]) -> int:
        """How many recourses a set breaks, by refitting."""
        return int(np.sum(self._refit(units).scores(self.points) < self.target))

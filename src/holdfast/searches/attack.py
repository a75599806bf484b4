"""An attack: the recourses it threatens, and what counts as damage.

Searches know only the protocol :class:`Attack`: :meth:`Attack.sweep` values every candidate after
some deletions, :meth:`Attack.value` values one set. There are three kinds, and one factory,
:func:`attack_on`:

- :class:`AlgebraAttack` takes both from the algebra, which is exact for squared loss;
- :class:`RefittingAttack`, for families whose algebra is an approximation, screens with it, looks
  closer at the leaders, and refits after each choice;
- :class:`~holdfast.searches.surrogate.SurrogateAttack`, for models without the algebra, screens
  with a stand-in and refits the leaders.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np

from holdfast.algebra import sweep_loops
from holdfast.algebra.deletions import Also, Deletions
from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.states import State
from holdfast.algebra.sweeps import Sweep, Sweeps
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError, SingularDeletionError, UnsupportedModelError
from holdfast.instability import first_order_change
from holdfast.models.core import Core
from holdfast.models.erasable import ErasableModel
from holdfast.models.solving import rescaled, whole_effect
from holdfast.recourse.promises import Promises

OBJECTIVES = ("outcome", "delta", "action")

#: how much it must be beside what the strongest row does by itself
BESIDE = 0.05

#: recourses, softly counted, that a change beside a row's own must be worth to be swept
WORTH = 0.25

#: recourses by which that is judged
_LOOKED_AT = 64

#: candidates of all sweeps that a refitting attack remembers
_REMEMBERED = 1_000_000


class Attack(Protocol):
    """What a search may ask."""

    #: what one deletion removes
    units: Units
    #: score minus target of every recourse, none negative
    margins: Array
    #: what is maximised: recourses broken ("outcome"), ΣΔ ("delta"), or ΣΦ₂ ("action")
    objective: str
    #: whether a sweep costs so much that a search should not ask for hundreds
    costly: bool
    #: whether a sweep values all candidates, not leaders only
    sweeps_all: bool
    #: whether it values them exactly as sets are valued
    exact_sweeps: bool
    #: when a search should come to an end, by ``time.monotonic``
    deadline: float
    #: told how much of a search is done, and how much there is
    tell: Callable[[int, int], None]

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate's value after some deletions; soft with a ``temperature``."""
        ...

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate alone, all of them screened."""
        ...

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        """Damage of one set, and its tie-break."""
        ...

    def broken(self, units: Sequence[int]) -> int:
        """How many recourses a set breaks."""
        ...

    def feasible(self, units: Sequence[int]) -> bool:
        """Whether these units can go together."""
        ...

    def worst_for(self, recourses: Positions) -> list[Positions]:
        """For single recourses, the candidates by how much they hurt it; none where unknown."""
        ...

    def cannot_go(self) -> Positions:
        """Candidates that cannot be deleted even alone."""
        ...


class ByAlgebra(Attack, Protocol):
    """An attack with the triple behind it, for searches that need more than values."""

    #: the deletions of the scores
    outcome: Deletions
    #: sweeps of what is maximised: the scores, or for ``"action"`` scores and gradients
    sweeps: Sweeps


def late(attack: Attack) -> bool:
    """Whether a search should come to an end."""
    return time.monotonic() > attack.deadline


def damage(
    margins: Array, drop: Array, objective: str, temperature: float | None = None
) -> tuple[float, float]:
    """What a drop of the scores is worth, and its tie-break."""
    if objective == "delta":
        return float(np.abs(drop).sum()), 0.0
    left = margins - drop
    if temperature is not None:
        return float(np.sum(1.0 / (1.0 + np.exp(np.minimum(left / temperature, 700))))), 0.0
    return float(np.sum(~(left >= 0))), -float(np.nan_to_num(np.maximum(left, 0)).sum())


class Watched:
    """An attack that is in no hurry, and whose progress nobody watches, until a search says so."""

    deadline = math.inf
    exact_sweeps = False
    tell: Callable[[int, int], None] = staticmethod(lambda done, total: None)
    singles: Callable[..., Sweep]

    def cannot_go(self) -> Positions:
        return np.flatnonzero(~self.singles().possible)


class AlgebraAttack(Watched):
    """Damage by deletion, worked out by the algebra.

    Parameters
    ----------
    outcome : Deletions
        Of the recourses' scores.
    margins, units
        As in :class:`Attack`.
    objective : {"outcome", "delta"}
    threads : int, optional
    """

    costly = False
    sweeps_all = True

    def __init__(
        self,
        outcome: Deletions,
        margins: Array,
        units: Units,
        objective: str = "outcome",
        threads: int | None = None,
    ):
        self.outcome, self.margins, self.units = outcome, margins, units
        self.objective, self._threads = objective, threads
        self.sweeps = Sweeps(self._maximised(), units, threads)
        self.exact_sweeps = self.sweeps.deletions.whole is None

    def _maximised(self) -> Deletions:
        """The functionals whose change is damage."""
        return self.outcome

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        return self.sweep_at(self.sweeps.state(units), temperature)

    def sweep_at(self, state: State, temperature: float | None = None) -> Sweep:
        """The sweep of a given state."""
        if self.objective == "delta":
            return self.sweeps.sweep(state, sweep_loops.absolute, state.base)
        slack = self.margins - state.base
        if temperature is None:
            return self.sweeps.sweep(state, sweep_loops.count_and_hinge, slack)
        return self.sweeps.sweep(state, sweep_loops.sigmoid, slack, temperature)

    def feasible(self, units: Sequence[int]) -> bool:
        return can_go(self.outcome, self.units, units)

    def singles(self, temperature: float | None = None) -> Sweep:
        return self.sweep([], temperature)

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        return damage(self.margins, self.sweeps.drop(units), self.objective)

    def broken(self, units: Sequence[int]) -> int:
        drop = self.outcome.effect_at(self.units.rows(units))
        return int(np.sum(~(self.margins - drop >= 0)))

    def worst_for(self, recourses: Positions) -> list[Positions]:
        if self.objective != "outcome":
            return []
        state = self.sweeps.state([])
        effects = np.concatenate(
            [
                self.sweeps.effects(state, slice(start, start + 4096))[:, recourses]
                for start in range(0, len(state.steps), 4096)
            ]
        )
        effects *= state.steps[:, None]
        effects = np.add.reduceat(effects, self.units.starts[:-1], axis=0)
        effects[~state.possible] = -np.inf
        return list(np.argsort(-effects, axis=0, kind="stable").T)


class ActionAttack(AlgebraAttack):
    """Damage to the advice itself: how far closed-form recourse moves, ΣΦ₂.

    Parameters
    ----------
    outcome, margins, units, threads
        As for :class:`AlgebraAttack`.
    both : Deletions
        Of the factuals' scores and gradients, as the family's ``first_order`` gives them.
    gaps : ndarray of shape (q,)
        Target minus the factuals' scores.
    slopes : ndarray of shape (q, d), or (1, d) where all share them
    """

    def __init__(
        self,
        outcome: Deletions,
        margins: Array,
        units: Units,
        both: Deletions,
        gaps: Array,
        slopes: Array,
        threads: int | None = None,
    ):
        if not np.all(np.sum(slopes**2, axis=1) > 0):
            raise HoldfastError(
                "a person's score has no gradient: there is no first-order recourse to move"
            )
        self._both, self.gaps, self.slopes = both, gaps, slopes
        super().__init__(outcome, margins, units, "action", threads)

    def _maximised(self) -> Deletions:
        return self._both

    def sweep_at(self, state: State, temperature: float | None = None) -> Sweep:
        q = self.gaps.size
        gaps = self.gaps + state.base[:q]
        now = self.slopes - state.base[q:].reshape(self.slopes.shape)
        return self.sweeps.sweep(state, sweep_loops.action, gaps, now, self.gaps, self.slopes)

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        drop, q = self.sweeps.drop(units), self.gaps.size
        now = self.slopes - drop[q:].reshape(self.slopes.shape)
        before = first_order_change(self.gaps, self.slopes)
        after = first_order_change(self.gaps + drop[:q], now)
        return float(np.linalg.norm(after - before, axis=1).sum()), 0.0


def can_go(deletions: Deletions, units: Units, chosen: Sequence[int]) -> bool:
    """Whether a fit, and every class, is left when these units go together."""
    rows = units.rows(chosen)
    try:
        deletions.rows.refuse_if_too_much(rows)
        deletions.solve(rows)
    except SingularDeletionError:
        return False
    return True


class RefittingAttack(Watched):
    """Damage by deletion for approximate families: screened by the algebra, then refitted.

    Values are those of the whole pipeline; the screening keeps its preprocessing as it is.

    Parameters
    ----------
    model : ErasableModel
    points : recourses, as the model takes them
    target : float
    units, objective, threads
        As for :class:`AlgebraAttack`.
    leaders : int
        How many candidates of a sweep are looked at more closely.
    """

    sweeps_all = False

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
        self._model, self._Z, self._target = model, model.features(points), target
        self._points = points
        whole = model.deletions(points)
        self._whole = None if whole.whole is None else whole
        self.units, self.objective = units, objective
        self._leaders, self._threads = leaders, threads
        start = model.core_without()
        self._scores = model.scores(points)
        self.margins = self._scores - target
        self._refits: dict[tuple[int, ...], Core] = {}
        self._sweeps: dict[Any, Sweep] = {}
        self._drops: dict[tuple[int, ...], Array] = {}
        scales = model.scales
        self._scales = scales if scales is not None and scales.covers(points) else None
        self.outcome = self._with_scales(start, np.arange(model.rows.n))[0]
        self.costly = model.can.refit == "training"

    def _with_scales(self, core: Core, rows: Any) -> tuple[Deletions, Also | None]:
        """The triple of a core, and the rows' part in the scales where that is worth something."""
        outcome: Any = core.deletions(self._Z, "scores", None)
        more = None
        if self._scales is not None:
            more = rescaled(self._scales, core, outcome, rows)
        if more is None or not _matters(more, outcome, self.margins):
            self._scales = None  # nor will it be later
            return outcome, None
        return replace(outcome, also=more.plus(outcome.also)), more

    def singles(self, temperature: float | None = None) -> Sweep:
        screened = self._screened(self.outcome, self.margins, self.units)
        screened.sweeps.source.keeps_a_running_copy = False  # it is swept once
        return screened.singles(temperature)

    def _screened(self, outcome: Deletions, margins: Array, units: Units) -> AlgebraAttack:
        return AlgebraAttack(outcome, margins, units, self.objective, self._threads)

    def feasible(self, units: Sequence[int]) -> bool:
        return can_go(self.outcome, self.units, units)

    def worst_for(self, recourses: Positions) -> list[Positions]:
        return []

    def _refit(self, units: Sequence[int]) -> Core:
        key = tuple(sorted(units))
        if key not in self._refits:
            if len(self._refits) > 8:
                self._refits.pop(next(iter(self._refits)))
            self._refits[key] = self._model.core_without(self.units.rows(key))
        return self._refits[key]

    def sweep(self, units: Sequence[int], temperature: float | None = None) -> Sweep:
        """Every candidate screened at the refitted model; the leaders looked at more closely."""
        key = (frozenset(units), temperature)
        if key not in self._sweeps:
            if len(self._sweeps) * len(self.units) > _REMEMBERED:
                self._sweeps.pop(next(iter(self._sweeps)))
            try:
                self._sweeps[key] = self._swept(units, temperature)
            except SingularDeletionError:
                raise
            except HoldfastError:  # without these there is no optimum to go on from
                nothing = np.full(len(self.units), -np.inf)
                none = np.zeros(len(self.units), dtype=bool)
                self._sweeps[key] = Sweep(nothing, nothing, none)
        return self._sweeps[key]

    def _swept(self, units: Sequence[int], temperature: float | None) -> Sweep:
        refit = self._refit(units)
        left = np.delete(np.arange(self._model.rows.n), self.units.rows(units))
        inner = Units(refit.rows, self.units.unit)
        base = self._drop(units)
        outcome, more = self._with_scales(refit, left)
        attack = self._screened(outcome, self.margins - base, inner)
        attack.sweeps.source.keeps_a_running_copy = False  # it is swept once
        state = attack.sweeps.state([])
        if self.objective == "delta":
            state = replace(state, base=base)
        screened = attack.sweep_at(state, temperature)
        place = self._places(inner, left)
        value = np.full(len(self.units), -np.inf)
        tie = np.full(len(self.units), -np.inf)
        possible = np.zeros(len(self.units), dtype=bool)
        for candidate in screened.ranked(self._leaders):
            at = place[candidate]
            if self._model.cutoff is None:
                drop = base + outcome.effect_at(inner.rows([candidate]))
                if more is not None:
                    drop = drop + more.effect(inner.rows([candidate]))
            else:
                drop = self._drop([*units, int(at)])
            possible[at] = True
            value[at], tie[at] = damage(self.margins, drop, self.objective, temperature)
        return Sweep(value, tie, possible)

    def _places(self, inner: Units, left: Any) -> Any:
        """Number in our units of each unit of the refitted model."""
        if self.units.unit == "row":
            return left
        ours = {name: i for i, name in enumerate(self.units.names)}
        return np.array([ours[name] for name in inner.names])

    def _drop(self, units: Sequence[int]) -> Array:
        """What a set does, everything refitted."""
        if not len(units):
            return np.zeros(len(self._Z))
        if self._whole is None:
            try:
                return self._scores - self._refit(units).scores(self._Z)
            except SingularDeletionError:
                raise
            except HoldfastError:
                return np.full(len(self._Z), np.inf)
        key = tuple(sorted(units))
        if key not in self._drops:
            if len(self._drops) > 1000:
                self._drops.pop(next(iter(self._drops)))
            self._drops[key] = self._whole.effect_at(self.units.rows(key))
        return self._drops[key]

    def value(self, units: Sequence[int]) -> tuple[float, float]:
        return damage(self.margins, self._drop(units), self.objective)

    def broken(self, units: Sequence[int]) -> int:
        return int(np.sum(~(self._scores - self._drop(units) >= self._target)))


def _matters(also: Also, found: Any, margins: Array) -> bool:
    """Whether what rows change beside their own terms is worth sweeping with."""
    some = np.unique(np.linspace(0, len(margins) - 1, _LOOKED_AT).astype(int))
    steps = np.nan_to_num(found.single_steps)
    own = np.abs(found.queries[some] @ (found.factor * steps[:, None]).T).sum(axis=0)
    beside = np.abs(also.functionals[some] @ also.rows.T).sum(axis=0)
    return bool(beside.max() > BESIDE * own.max()) and also.worth(margins) >= WORTH


def attack_on(
    model: ErasableModel,
    promises: Promises,
    units: Units,
    objective: str = "outcome",
    threads: int | None = None,
    approximation: str | None = None,
    surrogate: str | None = None,
    max_refits: int | None = None,
    leaders: int | None = None,
    by_refits: bool = False,
    rng: Any = None,
) -> Attack:
    """The attack a model allows: by its algebra, by algebra and refits, or through a stand-in.

    Parameters
    ----------
    approximation : str, optional
        Search by this algebra alone.
    surrogate : {"leaves", "kernel", "linear", "random"}, optional
        What ranks candidates for models without the algebra.
    max_refits : int, optional
        How many refits a search may make, where it refits its leaders.
    leaders : int, optional
        How many candidates of a sweep are looked at more closely, where refits are made.
    by_refits : bool
        Whether every choice is to be confirmed by refits even where the algebra is exact.
    rng : Generator, optional
        For candidates ranked at random.
    """
    if objective not in OBJECTIVES:
        raise HoldfastError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    points, margins = promises.kept_points, promises.margins
    parts = model.can.form == "parts" and objective != "action"
    if parts and model.cutoff is not None:  # a target that moves is every part's business
        by_refits = True
    elif parts and not by_refits:
        from holdfast.searches.parts import LOOKED_AT, QUICK, PartsAttack

        most = LOOKED_AT if approximation is None else QUICK
        return PartsAttack(model, promises, units, objective, threads, most)
    if objective == "action" and (approximation is not None or not by_refits):
        return _action_attack(model, promises, units, threads)
    if not model.can.predicts or by_refits:
        if objective != "outcome":
            raise UnsupportedModelError(
                "estimators without the algebra have objective='outcome' only"
            )
        from holdfast.searches.surrogate import SurrogateAttack

        return SurrogateAttack(model, promises, units, surrogate, leaders, threads, max_refits, rng)
    if approximation is not None:
        outcome = model.deletions(points, method=approximation)
        return AlgebraAttack(outcome, margins, units, objective, threads)

    def on(other: ErasableModel, some: Any, room: Array, its: Units) -> Attack:
        if other.exact:
            found: Any = other.deletions(some)
            if found.also is not None and not _matters(found.also, found, room):
                found = replace(found, also=None)
            return AlgebraAttack(found, room, its, objective, threads)
        from holdfast.searches.screened import MANY, ScreenedAttack

        screens = len(its) > MANY and other.can.form == "smooth" and other.cutoff is None
        kind = ScreenedAttack if screens else RefittingAttack
        return kind(other, some, promises.target, its, objective, threads, leaders or 8)

    if objective == "outcome" and model.in_passes is None:
        from holdfast.searches.acting import acting_units
        from holdfast.searches.whole import WholeAttack

        acting = acting_units(model, promises, units)
        if acting.units:
            outcome = cast(Any, model.deletions(points))
            if outcome.whole is None:  # a penalty chosen by cross-validation, chosen again
                outcome = replace(outcome, whole=whole_effect(model, points))
            return WholeAttack(model, promises, units, outcome, on, acting)
    return on(model, points, margins, units)


def _action_attack(
    model: ErasableModel, promises: Promises, units: Units, threads: int | None
) -> ActionAttack:
    if not model.exact:
        raise UnsupportedModelError(
            "objective='action' has closed forms for linear and kernel models only"
        )
    if promises.kept_people is None:
        raise HoldfastError(
            "objective='action' compares recourses from the same starting points: pass "
            "people= (their features, in the order of the recourses)"
        )
    people = promises.kept_people
    both, slopes = model.form(str(model.can.form)).first_order(model.features(people))
    gaps = promises.target - model.scores(people)
    outcome = model.deletions(promises.kept_points)
    return ActionAttack(outcome, promises.margins, units, both, gaps, slopes, threads)

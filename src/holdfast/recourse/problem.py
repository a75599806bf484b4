"""People below the target, what they may change, and how far a change gets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.erasable import ErasableModel
from holdfast.recourse.similar import similar_ranges
from holdfast.recourse.space import Space

#: how far beside its grid a value may lie, in steps: rounding, nothing else
ON_GRID = 1e-6


@dataclass(frozen=True)
class Affine:
    """A score that is linear in the coordinates: slopes of numbers, values of categories."""

    slopes: Array
    values: dict[int, Array]


@dataclass(frozen=True)
class Problem:
    """What a recourse method is given: (q, m) arrays, one row per person.

    A method returns the coordinates ``Z`` of shape (q, m) of its recourses. ``factual`` are the
    people's own coordinates; numbers must lie in ``[low, high]``, choices among ``allowed``.
    :meth:`take` gives the same for other people, one person several times included.

    Attributes
    ----------
    model : ErasableModel
    space : Space
    people : frame
    factual : (q, m)
    kept : (q, m) bool
        What stays as it is: missing values, categories unknown to the training table.
    low, high, anchor : (q, m)
        Bounds of the numbers, on the grid; where the grid of a number with a step starts.
    allowed : dict of (q, categories) bool
        By the position of each choice.
    goal : (q,)
        The score to reach: target plus overshoot.
    unit : float
        A standard deviation of the training scores, the unit of every tolerance.
    norm : {"l1", "l2"}
    most : int, optional
        How many things may change at once.
    remarks : dict
        For a method to fill: what is to be said about the person at a position.
    said : list
        Likewise: how it was done, where there is a choice.
    progress : callable
        ``progress(done)``; to be told how many people are done.
    """

    model: ErasableModel
    space: Space
    people: pd.DataFrame
    factual: Array
    kept: Mask
    low: Array
    high: Array
    anchor: Array
    allowed: dict[int, Mask]
    goal: Array
    unit: float
    norm: str = "l1"
    affine: Affine | None = None
    most: int | None = None
    remarks: dict[int, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    progress: Callable[[int], None] = field(default=lambda done: None, repr=False)

    def __len__(self) -> int:
        return len(self.factual)

    def take(self, rows: Any) -> Problem:
        """The same for some people, in that order, each as often as named."""
        return replace(
            self,
            people=self.people.iloc[rows],
            factual=self.factual[rows],
            kept=self.kept[rows],
            low=self.low[rows],
            high=self.high[rows],
            anchor=self.anchor[rows],
            allowed={k: mask[rows] for k, mask in self.allowed.items()},
            goal=self.goal[rows],
        )

    def holding(self, held: Mask) -> Problem:
        """The same with some coordinates of each person, (q, m), staying as they are."""
        low = np.where(held & self.space.number, self.factual, self.low)
        high = np.where(held & self.space.number, self.factual, self.high)
        allowed = {}
        for k, mask in self.allowed.items():
            own = np.zeros_like(mask)
            own[np.arange(len(own)), self.factual[:, k].astype(np.intp)] = True
            allowed[k] = np.where(held[:, [k]], own, mask)
        return replace(self, low=low, high=high, allowed=allowed)

    def changed(self, Z: Array) -> Mask:
        """What differs from the people's own, (q, m)."""
        near = 1e-9 * (1.0 + np.abs(self.factual)) * self.space.number
        found: Mask = np.abs(Z - self.factual) > near
        return found

    # what the model says -------------------------------------------------------------------

    def table(self, Z: Array) -> pd.DataFrame:
        """The coordinates as rows of the model's table."""
        return self.space.decoded(Z, self.kept, self.people)

    def scores(self, Z: Array) -> Array:
        """The model's scores at coordinates ``Z``, a block of people at a time."""
        block = max(256, 2**25 // max(self.model.rows.n, 1))
        if len(Z) <= block:
            return self.model.scores(self.table(Z))
        parts = [np.arange(a, min(a + block, len(Z))) for a in range(0, len(Z), block)]
        return np.concatenate([self.take(rows).scores(Z[rows]) for rows in parts])

    def gradients(self, Z: Array) -> Array:
        """Their derivatives (q, m); 0 for choices and for what is kept."""
        try:
            raw = np.asarray(self.model.score_gradients(self.table(Z)), dtype=float)
        except UnsupportedModelError as refusal:
            raise UnsupportedModelError(
                f"this method needs gradients. {refusal}. The methods 'growing-spheres' and "
                "'dice-random' need scores only"
            ) from None
        return np.where(self.space.number & ~self.kept, raw[:, self.space.columns], 0.0)

    def cost(self, Z: Array) -> Array:
        """What it costs people to get to ``Z``."""
        return self.space.cost(Z - self.factual, self.norm)

    def reached(self, scores: Array, rows: Any = slice(None)) -> Mask:
        """Which scores, of everybody or of those at ``rows``, are at the goal."""
        found: Mask = scores >= self.goal[rows]
        return found

    # what is allowed -----------------------------------------------------------------------

    def movable(self) -> Mask:
        """Which numbers may differ from the person's own (q, m)."""
        return self.space.number & (self.high > self.low)

    def clipped(self, Z: Array) -> Array:
        """Numbers within their bounds; nothing else changed."""
        return np.where(self.space.number, np.clip(Z, self.low, self.high), Z)

    def on_grid(self, Z: Array) -> Array:
        """Numbers on their grids, rounded away from the person's own value, within bounds."""
        step = self.space.step
        gridded = np.flatnonzero(self.space.number & (step > 0))
        if gridded.size == 0:
            return self.clipped(Z)
        Z = Z.copy()
        own, h = self.factual[:, gridded], step[gridded]
        at = self.anchor[:, gridded]
        places = (Z[:, gridded] - at) / h
        up, down = np.ceil(places - ON_GRID), np.floor(places + ON_GRID)
        away = Z[:, gridded] - own
        places = np.where(away > 0, up, np.where(away < 0, down, np.round(places)))
        Z[:, gridded] = at + h * places
        return self.clipped(Z)

    def linked(self, Z: Array) -> Array:
        """What follows from the links: ``then`` moved at least as far as it must."""
        if not self.space.links:
            return Z
        Z = Z.copy()
        for when, code, then, by in self.space.links:
            least = self.factual[:, then] + by * self.rise(Z, when, code)
            better = np.maximum if by > 0 else np.minimum
            Z[:, then] = np.where(
                self.rise(Z, when, code) > 0, better(Z[:, then], least), Z[:, then]
            )
            Z = self.on_grid(Z)
        for when, code, then, by in self.space.links:  # two links may pull opposite ways
            rise, moved = self.rise(Z, when, code), Z[:, then] - self.factual[:, then]
            least = abs(by) * rise - 1e-9 * (1.0 + np.abs(self.factual[:, then]))
            unmet = (rise > 0) & (np.sign(by) * moved < least)
            Z[:, when] = np.where(unmet, self.factual[:, when], Z[:, when])
        return Z

    def rise(self, Z: Array, when: int, code: int) -> Array:
        """By how much the trigger of a link rose; 1 where its category was switched to."""
        own = self.factual[:, when]
        if code < 0:
            return np.maximum(Z[:, when] - own, 0.0)
        return ((Z[:, when] == code) & (own != code)).astype(float)

    def feasible(self, Z: Array) -> Array:
        """The nearest coordinates we can name that satisfy every constraint."""
        Z = self.on_grid(np.where(self.kept, self.factual, Z))
        for k, mask in self.allowed.items():
            codes = np.clip(np.round(Z[:, k]), 0, mask.shape[1] - 1).astype(np.intp)
            fine = mask[np.arange(len(Z)), codes]
            Z[:, k] = np.where(fine, codes, self.factual[:, k])
        return self.linked(Z)

    def violations(self, Z: Array) -> list[str]:
        """What each person's point violates; "" for nothing. Tolerances are for rounding only."""
        found = [""] * len(Z)
        slack = 1e-9 * (1.0 + np.abs(self.factual))

        def say(broken: Mask, words: str) -> None:
            for i in np.flatnonzero(broken):
                found[i] = found[i] or words

        for k, c in enumerate(self.space.coordinates):
            z, own, near = Z[:, k], self.factual[:, k], slack[:, k]
            if k in self.allowed:
                mask = self.allowed[k]
                codes = np.clip(z, 0, mask.shape[1] - 1).astype(np.intp)
                barred = ~mask[np.arange(len(Z)), codes] | (codes != z)
                frozen = c.rule.direction == "frozen"
                why = "is frozen but changed" if frozen else "is a category not allowed"
                say(barred & ~self.kept[:, k], f"{c.name} {why}")
                continue
            outside = (z < self.low[:, k] - near) | (z > self.high[:, k] + near)
            if c.rule.direction == "frozen":
                say(outside, f"{c.name} is frozen but changed")
            say(outside & self.kept[:, k], f"{c.name} is not known but changed")
            if c.rule.direction == "up":
                say(z < own - near, f"{c.name} may only rise")
            if c.rule.direction == "down":
                say(z > own + near, f"{c.name} may only fall")
            say(outside, f"{c.name} is out of its range")
            h = self.space.step[k]
            if h > 0:
                places = (z - self.anchor[:, k]) / h
                off = np.abs(places - np.round(places)) > ON_GRID
                what = "a whole number" if c.rule.step is None else f"in steps of {h:g}"
                say(off & ~self.kept[:, k], f"{c.name} is not {what}")
        for when, code, then, by in self.space.links:
            rise = self.rise(Z, when, code)
            moved = np.sign(by) * (Z[:, then] - self.factual[:, then])
            least = abs(by) * rise - slack[:, then] * (1.0 + abs(by))
            a, b = (self.space.coordinates[j].name for j in (when, then))
            say((rise > slack[:, when]) & (moved < least), f"{b} does not follow {a} as linked")
        if self.most is not None:
            say(self.changed(Z).sum(axis=1) > self.most, f"more than {self.most} things change")
        return found

    def hopeless(self) -> list[str]:
        """Why no recourse exists, per person; "" where that is not proven."""
        found = [""] * len(self)
        for i, k in np.argwhere(self.low > self.high):
            found[i] = found[i] or self._no_room(int(i), int(k))
        fixed = ~self.movable().any(axis=1)
        for mask in self.allowed.values():
            fixed &= mask.sum(axis=1) <= 1
        settled = np.all(np.clip(self.factual, self.low, self.high) == self.factual, axis=1)
        for i in np.flatnonzero(fixed & settled):
            found[i] = found[i] or "infeasible: nothing that could change may change"
        best = self.best_score()
        for i in np.flatnonzero(best < self.goal):
            found[i] = found[i] or (
                f"infeasible: even the best allowed change scores {best[i]:.6g}, below the "
                f"{self.goal[i]:.6g} needed"
            )
        return found

    def blocking(self) -> Mask:
        """Which rules stand between people and the goal, (q, m): without that one they reach it.

        For linear scores, each number being allowed what the training table has of it.
        """
        found = np.zeros(self.factual.shape, dtype=bool)
        if self.affine is None or not len(self):
            return found
        best, g = self.best_score(), self.affine.slopes
        rows, unknown, _ = self.space.encoded(self.model.frame)
        for k, c in enumerate(self.space.coordinates):
            own = self.factual[:, k]
            if c.categories is None:
                values = rows[~unknown[:, k], k]
                if not values.size or g[k] == 0:
                    continue
                ends = np.array([values.min(), values.max()])
                with np.errstate(invalid="ignore"):
                    now = np.maximum(g[k] * (self.low[:, k] - own), g[k] * (self.high[:, k] - own))
                    then = (g[k] * (ends[:, None] - own)).max(axis=0)
            else:
                values, codes = self.affine.values[k], own.astype(np.intp)
                now = np.where(self.allowed[k], values, -np.inf).max(axis=1) - values[codes]
                then = values.max() - values[codes]
            with np.errstate(invalid="ignore"):  # a range with no end, or none at all
                reached = best - now + np.maximum(then, now) >= self.goal
            found[:, k] = ~self.kept[:, k] & reached
        return found & (best < self.goal)[:, None]

    def _no_room(self, i: int, k: int) -> str:
        c, own = self.space.coordinates[k], self.factual[i, k]
        return (
            f"infeasible: {c.name} is {own:g} and may {_ways(c.rule.direction)}, but must lie "
            f"in {_range(c.rule)}"
        )

    def best_score(self) -> Array:
        """An upper bound on the score within the constraints, links left aside; ∞ if unknown."""
        if self.affine is None:
            return np.full(len(self), np.inf)
        g = self.affine.slopes
        with np.errstate(invalid="ignore"):
            gains = np.maximum(g * (self.low - self.factual), g * (self.high - self.factual))
        gains = np.where(self.space.number & (g != 0), gains, 0.0)
        best = self.scores(self.factual) + gains.sum(axis=1)
        for k, mask in self.allowed.items():
            values = self.affine.values[k]
            own = values[self.factual[:, k].astype(np.intp)]
            best += np.where(
                self.kept[:, k], 0.0, np.where(mask, values, -np.inf).max(axis=1) - own
            )
        with np.errstate(invalid="ignore"):  # ∞ for what nothing bounds, NaN for an empty range
            return best + 1e-9 * (self.unit + np.abs(best))


def _ways(direction: str) -> str:
    return {"up": "only rise", "down": "only fall", "frozen": "not change"}.get(direction, "change")


def _range(rule: Any) -> str:
    low = "−∞" if rule.low is None else f"{rule.low:g}"
    high = "∞" if rule.high is None else f"{rule.high:g}"
    whole = ", a whole number" if rule.integer else ""
    return f"[{low}, {high}]{whole}"


def make_problem(
    model: ErasableModel,
    space: Space,
    people: pd.DataFrame,
    coordinates: tuple[Array, Mask],
    goal: float | Array,
    unit: float,
    norm: str,
    usable: Positions,
) -> Problem:
    """The problem of these people: their bounds, grids and choices.

    Only those at the positions ``usable`` have rows the model can score.
    """
    factual, kept = coordinates
    low, high, anchor = _bounds(space, factual, kept, model.frame)
    allowed = {}
    for k, c in enumerate(space.coordinates):
        if c.categories is None:
            continue
        names = c.categories if c.rule.allowed is None else c.rule.allowed
        open_ = np.array([category in names for category in c.categories])
        if c.rule.direction == "frozen":
            open_[:] = False
        mask = np.repeat(open_[None, :], len(factual), axis=0)
        mask[kept[:, k]] = False
        mask[np.arange(len(factual)), factual[:, k].astype(np.intp)] = True
        allowed[k] = mask
    goals = np.broadcast_to(np.asarray(goal, dtype=float), len(factual))
    problem = Problem(
        model, space, people, factual, kept, low, high, anchor, allowed, goals, unit, norm
    )
    _cap_linked(problem)
    return replace(problem, affine=_affine(problem.take(usable)))


def _bounds(
    space: Space, factual: Array, kept: Mask, X: pd.DataFrame
) -> tuple[Array, Array, Array]:
    low, high = np.full(factual.shape, -np.inf), np.full(factual.shape, np.inf)
    least, most = similar_ranges(space, X, factual, kept)
    anchor = np.zeros(factual.shape)
    for k, c in enumerate(space.coordinates):
        own, rule = factual[:, k], c.rule
        if rule.low is not None:
            low[:, k] = rule.low
        if rule.high is not None:
            high[:, k] = rule.high
        low[:, k], high[:, k] = (
            np.maximum(low[:, k], least[:, k]),
            np.minimum(high[:, k], most[:, k]),
        )
        if rule.widen:
            low[:, k], high[:, k] = np.minimum(low[:, k], own), np.maximum(high[:, k], own)
        if rule.direction in ("up", "frozen"):
            low[:, k] = np.maximum(low[:, k], own)
        if rule.direction in ("down", "frozen"):
            high[:, k] = np.minimum(high[:, k], own)
        if rule.step is not None:
            anchor[:, k] = own
        h = space.step[k]
        if h > 0:
            at = anchor[:, k]
            low[:, k] = at + h * np.ceil((low[:, k] - at) / h - 1e-9)
            high[:, k] = at + h * np.floor((high[:, k] - at) / h + 1e-9)
            if rule.integer and rule.step is not None:  # whole steps lead nowhere whole from 2.5
                low[:, k] = np.where(own % 1 == 0, low[:, k], np.inf)
                high[:, k] = np.where(own % 1 == 0, high[:, k], -np.inf)
        if not space.number[k]:
            low[:, k], high[:, k] = -np.inf, np.inf
    low[kept], high[kept] = factual[kept], factual[kept]
    return low, high, anchor


def _cap_linked(problem: Problem) -> None:
    """Nobody may be asked to raise something whose consequence they cannot follow."""
    space = problem.space
    for when, code, then, by in reversed(space.links):
        own = problem.factual[:, then]
        room = (problem.high[:, then] - own) if by > 0 else (own - problem.low[:, then])
        room = np.maximum(np.where(problem.kept[:, then], 0.0, room), 0.0)
        if code >= 0:
            barred = (room < abs(by)) & (problem.factual[:, when] != code)
            problem.allowed[when][barred, code] = False
            continue
        cap = problem.factual[:, when] + room / abs(by)
        h = space.step[when]
        if h > 0:
            at = problem.anchor[:, when]
            cap = at + h * np.floor((cap - at) / h + ON_GRID)
        # what already lies above the cap may stay where it is
        problem.high[:, when] = np.minimum(
            problem.high[:, when], np.maximum(cap, problem.factual[:, when])
        )


def _affine(problem: Problem) -> Affine | None:
    """The score as a linear function of the coordinates, if it is one (found out by trying)."""
    model, space = problem.model, problem.space
    if not model.can.linear or len(problem) == 0:
        return None
    base = problem.take(np.zeros(1, dtype=np.intp))
    Z = base.factual
    try:
        slopes = base.gradients(Z)[0]
    except HoldfastError:
        return None
    slopes = np.where(space.number, np.asarray(slopes), 0.0)
    own = base.scores(Z)[0]
    values: dict[int, Array] = {}
    for k, mask in base.allowed.items():
        many = base.take(np.zeros(mask.shape[1], dtype=np.intp))
        many.kept[:, k] = False
        tried = np.repeat(Z, mask.shape[1], axis=0)
        tried[:, k] = np.arange(mask.shape[1])
        values[k] = many.scores(tried) - own
    found = Affine(_shared_slopes(problem, slopes), values)
    return found if _holds(problem, found) else None


def _shared_slopes(problem: Problem, slopes: Array) -> Array:
    """The first person's slopes, filled in from others where a value of theirs is missing."""
    missing = problem.kept[0] & problem.space.number
    for k in np.flatnonzero(missing):
        others = np.flatnonzero(~problem.kept[:, k])
        if others.size:
            one = problem.take(others[:1])
            slopes[k] = one.gradients(one.factual)[0, k]
    return slopes


def _holds(problem: Problem, affine: Affine, probes: int = 64) -> bool:
    """Whether scores near and far are what the linear function says."""
    rng = np.random.default_rng(0)
    space, q = problem.space, len(problem)
    some = problem.take(rng.integers(q, size=probes))
    far = rng.normal(size=some.factual.shape) * np.exp(rng.uniform(-2, 4, size=(probes, 1)))
    change = np.where(space.number & ~some.kept, far * space.spread, 0.0)
    Z = some.factual + change
    said = change @ affine.slopes
    for k, values in affine.values.items():
        codes = np.where(some.kept[:, k], 0, rng.integers(len(values), size=probes))
        was = some.factual[:, k].astype(np.intp)
        Z[:, k] = codes
        said += np.where(some.kept[:, k], 0.0, values[codes] - values[was])
    before, after = some.scores(some.factual), some.scores(Z)
    size = np.abs(change) @ np.abs(affine.slopes) + np.abs(before) + np.abs(after) + problem.unit
    return bool(np.all(np.abs(before + said - after) <= 1e-9 * size))

"""What some candidates can do to some recourses at one point of a tree, and who is left open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.unit_loops import branch_units, within_levels
from holdfast.proofs.pairs import paired_gains
from holdfast.proofs.points import Point
from holdfast.proofs.remainder import Ladder, charges
from holdfast.proofs.sets import Sets, largest_sum, rows_of

#: nodes of one tree of Newton steps, and the rows it is grown on at most
_NODES, GROWN = 2_000, 300

#: a set of candidates is looked at again when it has become this much smaller
_FEWER = 0.85

#: and bounded by a ladder of its own where it is that small beside those that a shared one serves
_OWN = 0.2


@dataclass
class Question:
    """What a tree is asked.

    Attributes
    ----------
    k : how many units go in all
    proof : (q, budget + 1)
        What ``k`` deletions may take off a score, rounding and what is hidden paid.
    charged : callable
        What else units are charged when ``k`` go: (k, recourses, units) → (recourses, units).
    suspect : callable
        Is told of units that may break a recourse.
    """

    k: int
    proof: Array
    charged: Callable[[int, Positions, Positions], Array]
    suspect: Callable[[tuple[int, ...], int], None]


#: what units have to weigh together at least
Demands = list[tuple[Array, float]]


class Rung(NamedTuple):
    """Sets that meet some demands, at the prices of one step."""

    number: int
    pulls: Array
    demands: Demands


class Node:
    """A point of the tree, and what is bounded there."""

    def __init__(self, asked: Question, point: Point, gone: tuple[int, ...], k: int):
        self.asked, self.point, self._gone, self.k = asked, point, gone, k
        self._drops = point.drops()
        self.ladders: list[tuple[Ladder, float]] | None = None
        self._of: Positions = np.zeros(0, dtype=np.intp)

    def rooms(self, some: Positions) -> Array:
        """What may still be taken off the scores of some recourses."""
        asked = self.asked
        found: Array = asked.proof[some, asked.k] - self._drops[some]
        if self._gone:
            found = found - asked.charged(asked.k, some, np.array(self._gone)).sum(axis=1)
        return found

    def from_afar(
        self, some: Positions, units: Positions
    ) -> tuple[dict[int, Positions], Array, bool]:
        """Who is not decided by one bound for all, with their candidates; how units pull.

        And whether there is such a bound at all.
        """
        pool, rows = self.point.pool(units)
        heavy = pool.leverage * (1.0 + pool.by_unit(pool.residuals**2))
        sets = Sets(pool, self.k)
        if not sets.fine:
            return dict.fromkeys(some.tolist(), units), pool.leverage, False
        self.share(units)
        left: dict[int, Positions] = {}
        many = max(1, (1 << 20) // max(rows.size, 1))
        for start in range(0, some.size, many):
            few = some[start : start + many]
            looked = Look(self, few, sets, rows, units, own=False)
            left |= {
                j: units[mask]
                for j, mask, done in zip(few.tolist(), looked.alive, looked.decided, strict=True)
                if not done
            }
        return left, heavy if self.ladders is None else sets.halves + heavy, True

    def together(self, some: Positions, units: Positions) -> tuple[Array, Array] | None:
        """What each unit does to each recourse at most, sums being bounds, and their rooms.

        ``None`` where not all sets of ``k`` are bounded by one step.
        """
        pool, rows = self.point.pool(units)
        sets = Sets(pool, self.k)
        self.share(units)
        if not sets.fine or not self.ladders:
            return None
        ladder = self.ladders[-1][0]  # the one that speaks of the heaviest sets holds for all
        pulls, number = sets.halves / (1.0 - ladder.h) if ladder.h < 1.0 else sets.pulls, 0
        while (step := ladder.step(number)) is not None and step.pulls < largest_sum(pulls, self.k):
            number += 1
        if step is None:
            return None
        c = self.point.functionals(some, rows)
        gains = sets.gains(pool.scale(c.T).T)
        charge, anyway = charges(ladder, number, some, sets, rows, pulls, c, gains)
        return np.maximum((gains + charge) * (1.0 + 1e-9), 0.0), self.rooms(some) - anyway

    def share(self, units: Positions) -> None:
        """Ladders that serve everybody whose candidates are among these."""
        self.ladders = self.point.ladders(units, self.k) if units.size else []
        self._of = units if self.ladders is None or self.ladders else np.zeros(0, dtype=np.intp)

    def closer(self, j: int, units: Positions) -> tuple[Positions, Array] | None:
        """The candidates of one recourse and how dangerous each is; ``None``: decided."""
        one = np.array([j])
        shared = self.ladders, self._of
        if not np.isin(units, self._of).all():
            self._of = np.zeros(0, dtype=np.intp)
        try:
            while True:
                if not units.size:
                    return None if self.rooms(one)[0] >= 0 else (units, np.zeros(0))
                pool, rows = self.point.pool(units)
                sets = Sets(pool, self.k)
                if not sets.fine:
                    return units, pool.leverage * (1.0 + pool.by_unit(pool.residuals**2))
                if not self._of.size:
                    self.share(units)
                looked = Look(self, one, sets, rows, units, own=True)
                if looked.decided[0]:
                    return None
                alive = np.flatnonzero(looked.alive[0])
                if alive.size > _FEWER * units.size:
                    if self.ladders is None or units.size > _OWN * self._of.size:
                        break
                    self._of = np.zeros(0, dtype=np.intp)  # a ladder of its own is tighter
                units = units[alive]
        finally:
            self.ladders, self._of = shared
        if self._grown(j, sets, rows, alive, looked.open, units):
            return None
        return units[alive], looked.values[0][alive]

    def _grown(
        self,
        j: int,
        sets: Sets,
        rows: Positions,
        alive: Positions,
        open_: list[tuple[Array, float]],
        units: Positions,
    ) -> bool:
        """Whether trees of Newton steps among the candidates decide all levels that are open."""
        pool = sets.candidates
        places, starts = rows_of(pool.starts, alive)
        if places.size > GROWN or any(np.isinf(charge).any() for charge, _ in open_):
            return False
        some = pool.only(alive)
        c = self.point.functionals(np.array([j]), rows[places])[0]
        P = np.eye(places.size) - some.whitened @ some.whitened.T
        within = np.repeat(np.arange(len(some)), np.diff(starts))
        same = within[:, None] == within
        P[same] = np.eye(places.size)[same]
        strongest = np.zeros(self.k, dtype=np.int64)
        for charge, proof in open_:
            verdict, size = branch_units(
                some.scale(c),
                some.scaled,
                P,
                starts,
                sets.low[places],
                sets.high[places],
                np.maximum(charge[alive] * (1.0 + 1e-9), 0.0),
                self.k,
                proof - 1e-9 * abs(proof),
                _NODES,
                strongest,
            )
            if verdict != 0:
                chosen = units[alive][strongest[:size]]
                self.asked.suspect((*self._gone, *(int(t) for t in chosen)), j)
                return False
        return True


class Look:
    """What some candidates can do to some recourses, at one node.

    Attributes
    ----------
    decided : (recourses,) whether no set of ``k`` breaks it
    alive : (recourses, units) which can be part of a set that does
    values : (recourses, units) the most each can do
    open : of the levels not decided, what is charged and what may be reached (one recourse)
    """

    def __init__(
        self,
        node: Node,
        some: Positions,
        sets: Sets,
        rows: Positions,
        units: Positions,
        own: bool,
    ):
        self.sets, self.k = sets, sets.k
        self._some, self._rows = some, rows
        self._rooms = node.rooms(some)
        self._c = node.point.functionals(some, rows)
        self._more = node.asked.charged(node.asked.k, some, units)
        self._gains = sets.gains(sets.candidates.scale(self._c.T).T)
        if own and self._may_share(node):
            most = largest_sum(np.maximum(-self._more[0], 0.0), sets.k)
            room = float(self._rooms[0]) + most
            shared = paired_gains(sets, node.point.score(int(some[0])), room)
            if largest_sum(shared, sets.k) < largest_sum(self._gains[0], sets.k):
                self._gains = shared[None]
        shape = self._gains.shape
        self.decided = np.ones(shape[0], dtype=bool)
        self.alive: Any = np.zeros(shape, dtype=bool)
        self.values = np.zeros(shape)
        self.open: list[tuple[Array, float]] = []
        if node.ladders is None:
            everybody = np.arange(shape[0])
            self._level(everybody, self._more, self._rooms, [])
            return
        for ladder, weighs in node.ladders:
            if weighs <= 0.0 or largest_sum(sets.candidates.leverage, self.k) > weighs:
                self._climb(ladder, weighs, own)

    def _may_share(self, node: Node) -> bool:
        """Whether pairs may be paid for by the weaker: what rows are charged later has no sign."""
        ladders = [ladder for ladder, _ in node.ladders or () if not ladder.ended]
        signed = any(len(ladder.shifts.vectors) for ladder in ladders)
        return self.sets.candidates.single and self.k > 1 and self._rooms[0] >= 0 and not signed

    @property
    def _wide(self) -> Positions:
        """Recourses of which something may still be learnt: not all units are alive."""
        if self.alive.shape[1] <= GROWN:  # a tree of steps wants to know all levels
            return np.arange(len(self.alive))
        return np.flatnonzero(~self.alive.all(axis=1))

    def _climb(self, ladder: Ladder, weighs: float, own: bool) -> None:
        """All levels of one ladder. ``own``: by shares of one recourse's own, as far as they go."""
        leverage = self.sets.candidates.leverage
        demands = [] if weighs == 0.0 else [(np.sign(weighs) * leverage, weighs)]
        levels, beyond, then = self._levels(ladder, demands, own)
        if beyond is not None:
            self._unknown(beyond, then)
        open_ = self._wide
        if beyond is None and levels and open_.size:  # all sets at the prices of the highest
            charge, rooms = self._charged(ladder, levels[-1].number, then, open_)
            open_ = open_[~self._within(open_, charge, rooms, demands)[0]]
        for level in reversed(levels):
            if not open_.size:
                return
            charge, rooms = self._charged(ladder, level.number, level.pulls, open_)
            self._level(open_, charge, rooms, level.demands)
            open_ = np.intersect1d(open_, self._wide, assume_unique=True)

    def _levels(
        self, ladder: Ladder, demands: Demands, own: bool
    ) -> tuple[list[Rung], Demands | None, Array]:
        """The levels; the demands of sets that are beyond all of them, if any; and the pulls."""
        sets, k = self.sets, self.k
        if ladder.step(0) is None:
            return [], demands, sets.candidates.leverage
        pulls = sets.halves / (1.0 - ladder.h)
        if largest_sum(pulls, k) > largest_sum(sets.pulls, k):
            pulls = sets.pulls
        then, enough = pulls, 0.0
        if own:  # what is tight for the units that gain most comes first
            pulls = sets.shares(self._gains[0]) / (1.0 - ladder.h)
            top = np.argpartition(-self._gains[0], min(k, pulls.size) - 1)[:k]
            enough = 1.5 * float(pulls[top].sum())
        levels: list[Rung] = []
        number = 0
        while (step := ladder.step(number)) is not None:
            levels.append(Rung(number, pulls, demands))
            floor, number = step.pulls, number + 1
            if largest_sum(pulls, k) <= floor:
                return levels, None, then
            demands = [d for d in demands if d[0] is not pulls]
            demands.append((pulls, floor))  # what this step does not cover pulls more
            if pulls is not then and floor >= enough:
                pulls, number = then, number - 1
        return levels, demands, then

    def _charged(
        self, ladder: Ladder, number: int, pulls: Array, open_: Positions
    ) -> tuple[Array, Array]:
        """What units are charged at a step, and what room is left, for some recourses."""
        charge, anyway = charges(
            ladder,
            number,
            self._some[open_],
            self.sets,
            self._rows,
            pulls,
            self._c[open_],
            self._gains[open_],
        )
        return self._more[open_] + charge, self._rooms[open_] - anyway

    def _unknown(self, demands: Demands, pulls: Array) -> None:
        """Nothing is known of sets that meet some demands; ``pulls`` says which are dangerous."""
        self.decided[:] = False
        alive = np.ones(pulls.size, dtype=bool)
        for each, floor in demands:
            alive &= each + largest_sum(np.maximum(each, 0.0), self.k - 1) >= floor
        self.alive |= alive
        self.open.append((np.full(pulls.size, np.inf), 0.0))
        share = pulls / max(float(pulls.max()), 1e-300)
        self.values = np.maximum(self.values, np.abs(self._rooms)[:, None] * share)

    def _within(
        self, open_: Positions, charge: Array, rooms: Array, demands: Demands
    ) -> tuple[Any, Any, Array, Any]:
        """Whose sets that meet all demands stay within the rooms at these charges.

        Also the units that can be part of one that does not, the values, and (of one recourse)
        the charges and the room that say most.
        """
        values = np.maximum((self._gains[open_] + charge) * (1.0 + 1e-9), 0.0)
        shape = values.shape
        here, fits = np.ones(shape, dtype=bool), np.zeros(shape[0], dtype=bool)
        found: Any = None
        for pulls, floor in demands or [(np.zeros(shape[1]), 0.0)]:
            alive, weights = np.empty(shape, dtype=bool), np.empty(shape[0])
            fit = np.empty(shape[0], dtype=bool)
            within_levels(values, pulls, self.k, floor, rooms, alive, weights, fit)
            fits |= fit
            here &= alive
            if shape[0] == 1 and (found is None or alive.sum() < found[0]):
                shifted = charge[0] + weights[0] * pulls
                found = alive.sum(), shifted, rooms[0] + weights[0] * floor
        return fits, here, values, found

    def _level(self, open_: Positions, charge: Array, rooms: Array, demands: Demands) -> None:
        """Note who is left open at a level."""
        fits, here, values, found = self._within(open_, charge, rooms, demands)
        if fits.all():
            return
        late = open_[~fits]
        self.decided[late] = False
        self.alive[late] |= here[~fits]
        self.values[late] = np.maximum(self.values[late], values[~fits])
        if found is not None:
            self.open.append((found[1], found[2]))

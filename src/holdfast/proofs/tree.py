r"""A tree that moves its expansion point: certificates where one look from afar does not decide.

``explore(T, k, open recourses)`` stands at the optimum without ``T`` and asks what ``k`` further units
can do. Whoever is already broken there has ``T`` as a witness. For the others the bound of
:mod:`holdfast.proofs.sets` and :mod:`holdfast.proofs.remainder` either decides, or leaves *candidates*:
the units that can be part of a set that breaks the recourse. With fewer candidates the bound is made
again, and is tighter; then a tree of Newton steps is grown among them (Schur updates). Who is still
open has their most dangerous unit ``t`` told apart: sets with it are explored at the optimum without
``T ∪ {t}``, and then it is no candidate any more.

All recourses share one tree: an optimum is looked at once for everybody whose candidates lead there.
``k = 1, 2, …`` are asked in turn. A recourse whose attack is known to be as small is left out. The
budget is a number of *looks*, so that the same comes out on every machine; stopping early leaves
what was proven.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.unit_loops import branch_units, within_levels
from holdfast.models.optima import Optima, Optimum
from holdfast.proofs.remainder import Ladder, charges
from holdfast.proofs.sets import Pool, Sets, largest_sum, rows_of

#: nodes of one tree of Newton steps, and the rows it is grown on at most
_NODES, _GROWN = 2_000, 300

#: a set of candidates is looked at again when it has become this much smaller
_FEWER = 0.85

#: leverages that are light together: heavier sets are bounded apart
LIGHT = 0.2

#: candidates of a recourse that are few enough to be looked at alone
FEW = 1_500

#: units told apart at once where they are too many, and looks at all of them at most for each k
AT_ONCE, AFAR = 3, 60

#: looks at one recourse, in all, before it is left as it is
LOOKS = 400


class Point(Protocol):
    """Where a node stands: the model without some units."""

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        """Some units as candidates, and their rows."""

    def functionals(self, some: Positions, rows: Positions) -> Array:
        """``c`` of some recourses, (recourses, rows)."""

    def drops(self) -> Array:
        """What those that are gone took off the scores, (q,)."""

    def ladders(self, units: Positions, k: int) -> list[tuple[Ladder, float]] | None:
        """What bounds the remainder; ``None`` where there is none.

        Each ladder speaks of sets with more leverage than so much, or at most (negative) so much.
        """


@dataclass
class Claims:
    """What is known so far, per recourse.

    Attributes
    ----------
    certified, attacked : (q,) attacked is ``budget + 1`` where nothing is known
    witness : units
    reached : (q,) an effect that ``certified`` deletions do not exceed
    """

    certified: Positions
    attacked: Positions
    witness: list[tuple[int, ...]]
    tried: dict[int, int] = field(default_factory=dict)


class Tree:
    """One tree for all recourses.

    Parameters
    ----------
    stand : callable
        The point without some units.
    starts, order : units and their rows, as in :class:`holdfast.algebra.units.Units`
    proof : (q, budget + 1)
        What ``k`` deletions may take off a score, rounding and what is hidden paid.
    margins : (q,)
    able : units that may go
    charged : callable
        What else units are charged when ``k`` go: (k, recourses, units) → (recourses, units).
    breaks : callable
        Whether some units break some recourses, by refitting: (units, recourses) → mask.
    """

    def __init__(
        self,
        stand: Callable[[tuple[int, ...]], Point],
        proof: Array,
        margins: Array,
        able: Positions,
        charged: Callable[[int, Positions, Positions], Array],
        breaks: Callable[[tuple[int, ...], Positions], Any],
        deadline: float,
        looks: int,
    ):
        self._stand, self._proof, self._margins = stand, proof, margins
        self._able, self._charged, self._breaks = able, charged, breaks
        self._deadline, self._looks = deadline, looks

    def run(self, claims: Claims, budget: int) -> None:
        """Raise what is certified, ``k`` by ``k``."""
        self._claims = claims
        for k in range(1, budget + 1):
            some = np.flatnonzero((claims.certified == k - 1) & (claims.attacked > k))
            if not some.size:
                continue
            self._k, self._spent = k, dict.fromkeys(some.tolist(), 0)
            self._undecided: set[int] = set()
            self._afar = AFAR
            self._explore((), k, some, {})
            for j in some.tolist():
                if j not in self._undecided and claims.attacked[j] > k:
                    claims.certified[j] = k

    def _over(self) -> bool:
        return time.monotonic() > self._deadline

    def _open(self, some: Any) -> Positions:
        """Those whose attack is not known to be small enough, nor given up."""
        return np.array(
            [j for j in some if self._claims.attacked[j] > self._k and j not in self._undecided],
            dtype=np.intp,
        )

    def _give_up(self, some: Any) -> None:
        self._undecided |= set(np.asarray(some).tolist())

    def _explore(
        self, gone: tuple[int, ...], k: int, some: Positions, own: dict[int, Positions]
    ) -> None:
        """Every set of at most ``k`` further units, for some recourses.

        ``own`` has the candidates of each; who has none yet has all that are able.
        """
        try:
            point = self._stand(gone)
        except (ValueError, np.linalg.LinAlgError, ArithmeticError):
            self._give_up(some)  # there is no optimum there
            return
        self._witnessed(gone, point)
        some = self._open(some)
        if k == 0 or not some.size:
            return
        node = _Node(self, point, gone, k)
        left = {j: own[j] for j in some.tolist() if j in own}
        left |= self._narrowed(node, gone, k, np.array([j for j in some.tolist() if j not in own]))
        danger: dict[int, Array] = {}
        for j in list(left):
            self._look(node, j, left, danger)
        while left := {j: left[j] for j in self._open(left).tolist()}:
            if self._over():
                self._give_up(list(left))
                return
            votes: dict[int, int] = {}
            for j, units in left.items():
                first = int(units[np.argmax(danger[j])])
                votes[first] = votes.get(first, 0) + 1
            most = max(votes, key=lambda t: (votes[t], -t))
            theirs = [j for j, units in left.items() if most in units]
            fewer = {j: left[j][left[j] != most] for j in theirs}
            self._explore((*gone, most), k - 1, np.array(theirs, dtype=np.intp), fewer)
            for j in self._open(theirs).tolist():
                left[j] = fewer[j]
                self._look(node, j, left, danger)

    def _narrowed(
        self, node: _Node, gone: tuple[int, ...], k: int, some: Positions
    ) -> dict[int, Positions]:
        """Candidates of recourses that have none of their own yet, few enough to be looked at.

        While there are too many, the units that pull hardest are told apart for all of them.
        """
        found: dict[int, Positions] = {}
        able = self._able[~np.isin(self._able, gone)]
        while some.size:
            if self._over():
                self._give_up(some)
                break
            self._afar -= 1
            left, pulls = node.from_afar(some, able)
            few = {j: units for j, units in left.items() if units.size <= FEW}
            found |= few
            some = np.array([j for j in left if j not in few], dtype=np.intp)
            if some.size and (self._afar < 0 or len(gone) > 2):
                self._give_up(some)
                break
            for t in able[np.argsort(-pulls, kind="stable")[:AT_ONCE]].tolist():
                some = self._open(some)
                if not some.size:
                    break
                able = able[able != t]
                self._without_able(t, gone, k, some, able)
        return found

    def _without_able(
        self, t: int, gone: tuple[int, ...], k: int, some: Positions, able: Positions
    ) -> None:
        """Sets with one unit, of candidates that are no longer all of them."""
        before, self._able = self._able, able
        self._explore((*gone, t), k - 1, some, {})
        self._able = before

    def _look(
        self, node: _Node, j: int, left: dict[int, Positions], danger: dict[int, Array]
    ) -> None:
        """One more look at a recourse; it is out where that decides."""
        if self._spent[j] >= self._looks:
            self._give_up([j])
            left.pop(j, None)
            return
        self._spent[j] += 1
        found = node.closer(j, left[j])
        if found is None:
            left.pop(j, None)
        else:
            left[j], danger[j] = found

    def _witnessed(self, gone: tuple[int, ...], point: Point) -> None:
        """Whoever is broken without these has a witness."""
        if not gone:
            return
        claims, size = self._claims, len(gone)
        short = (point.drops() > self._margins) & (claims.attacked > size)
        hit = np.flatnonzero(short)
        if hit.size:
            hit = hit[self._breaks(gone, hit)]
        for j in hit.tolist():
            claims.attacked[j], claims.witness[j] = size, tuple(sorted(gone))

    def try_set(self, units: tuple[int, ...], j: int) -> None:
        """Whether some units break a recourse, and whom else."""
        if self._claims.attacked[j] <= len(units):
            return
        if self._claims.tried.get(hash(units)):
            return
        self._claims.tried[hash(units)] = 1
        try:
            self._witnessed(units, self._stand(units))
        except (ValueError, np.linalg.LinAlgError, ArithmeticError):
            return


class _Node:
    """A point of the tree, and what is bounded there."""

    def __init__(self, tree: Tree, point: Point, gone: tuple[int, ...], k: int):
        self._tree, self._point, self._gone, self.k = tree, point, gone, k
        self._drops = point.drops()
        self._ladders: list[tuple[Ladder, float]] | None = None
        self._of: Positions = np.zeros(0, dtype=np.intp)

    def _rooms(self, some: Positions) -> Array:
        """What may still be taken off the scores of some recourses."""
        tree = self._tree
        rooms: Array = tree._proof[some, tree._k] - self._drops[some]
        if self._gone:
            rooms = rooms - tree._charged(tree._k, some, np.array(self._gone)).sum(axis=1)
        return rooms

    def from_afar(self, some: Positions, units: Positions) -> tuple[dict[int, Positions], Array]:
        """Who is not decided by one bound for all, with their candidates; and how units pull."""
        pool, rows = self._point.pool(units)
        heavy = pool.leverage * (1.0 + pool.by_unit(pool.residuals**2))
        sets = Sets(pool, self.k)
        if not sets.fine:
            return dict.fromkeys(some.tolist(), units), heavy
        self._ladders, self._of = self._point.ladders(units, self.k), units
        left: dict[int, Positions] = {}
        many = max(1, (1 << 20) // max(rows.size, 1))
        for start in range(0, some.size, many):
            few = some[start : start + many]
            looked = _Look(self, few, sets, rows, units, own=False)
            left |= {
                j: units[mask]
                for j, mask, done in zip(few.tolist(), looked.alive, looked.decided, strict=True)
                if not done
            }
        return left, heavy if self._ladders is None else sets.halves + heavy

    def closer(self, j: int, units: Positions) -> tuple[Positions, Array] | None:
        """The candidates of one recourse and how dangerous each is; ``None``: decided."""
        one = np.array([j])
        while True:
            if not units.size:
                return None if self._rooms(one)[0] >= 0 else (units, np.zeros(0))
            pool, rows = self._point.pool(units)
            sets = Sets(pool, self.k)
            if not sets.fine:
                return units, pool.leverage * (1.0 + pool.by_unit(pool.residuals**2))
            if not self._of.size or not np.isin(units, self._of).all():
                self._ladders, self._of = self._point.ladders(units, self.k), units
            looked = _Look(self, one, sets, rows, units, own=True)
            if looked.decided[0]:
                return None
            alive = np.flatnonzero(looked.alive[0])
            if alive.size > _FEWER * units.size:
                break
            units = units[alive]
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
        if places.size > _GROWN or any(np.isinf(charge).any() for charge, _ in open_):
            return False
        some = pool.only(alive)
        c = self._point.functionals(np.array([j]), rows[places])[0]
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
                self._tree.try_set((*self._gone, *(int(t) for t in chosen)), j)
                return False
        return True


class _Look:
    """What some candidates can do to some recourses, at one node.

    Attributes
    ----------
    decided : (recourses,) whether no set of ``k`` breaks it
    alive : (recourses, units) which can be part of a set that does
    values : (recourses, units) the most each can do
    open : of the levels that are not decided, what is charged and what may be reached (one recourse)
    """

    def __init__(
        self,
        node: _Node,
        some: Positions,
        sets: Sets,
        rows: Positions,
        units: Positions,
        own: bool,
    ):
        self.sets, self.k = sets, sets.k
        pool = sets.candidates
        self._rooms = node._rooms(some)
        c = node._point.functionals(some, rows)
        self._gains = sets.gains(pool.scale(c.T).T)
        more = node._tree._charged(node._tree._k, some, units)
        shape = self._gains.shape
        self.decided = np.ones(shape[0], dtype=bool)
        self.alive = np.zeros(shape, dtype=bool)
        self.values = np.zeros(shape)
        self.open: list[tuple[Array, float]] = []
        if node._ladders is None:
            self._level(more, [])
            return
        for ladder, weighs in node._ladders:
            if largest_sum(pool.leverage, self.k) > weighs:
                self._levels(ladder, weighs, some, rows, more, c, own)

    def _levels(
        self,
        ladder: Ladder,
        weighs: float,
        some: Positions,
        rows: Positions,
        more: Array,
        c: Array,
        own: bool,
    ) -> None:
        """All levels of one ladder. ``own``: by shares of one recourse's own, as far as they go."""
        sets, k = self.sets, self.k
        pulls = sets.halves / (1.0 - ladder.h)
        if largest_sum(pulls, k) > largest_sum(sets.pulls, k):
            pulls = sets.pulls
        then, enough = pulls, 0.0
        if own:  # what is tight for the units that gain most comes first
            pulls = sets.shares(self._gains[0]) / (1.0 - ladder.h)
            top = np.argpartition(-self._gains[0], min(k, pulls.size) - 1)[:k]
            enough = 1.5 * float(pulls[top].sum())
        demands = [] if weighs == 0.0 else [(np.sign(weighs) * sets.candidates.leverage, weighs)]
        number, floor = 0, 0.0
        while (step := ladder.step(number)) is not None:
            charge = charges(ladder, number, some, sets, rows, pulls, c, self._gains)
            self._level(more + charge, demands)
            floor, number = step.pulls, number + 1
            if largest_sum(pulls, k) <= floor:
                return
            demands = [d for d in demands if d[0] is not pulls]
            demands.append((pulls, floor))  # what this step does not cover pulls more
            if pulls is not then and floor >= enough:
                pulls, number = then, number - 1
        # of sets that pull more nothing is known
        self.decided[:] = False
        self.alive |= pulls + largest_sum(pulls, k - 1) >= floor
        self.open.append((np.full(pulls.size, np.inf), 0.0))
        share = pulls / max(float(pulls.max()), 1e-300)
        self.values = np.maximum(self.values, self._rooms[:, None] * share)

    def _level(self, charge: Array, demands: list[tuple[Array, float]]) -> None:
        """Whether the sets that meet all demands stay within the room, at these charges."""
        values = np.maximum((self._gains + charge) * (1.0 + 1e-9), 0.0)
        shape = values.shape
        here, fits = np.ones(shape, dtype=bool), np.zeros(shape[0], dtype=bool)
        found: Any = None
        for pulls, floor in demands or [(np.zeros(shape[1]), 0.0)]:
            alive, weights = np.empty(shape, dtype=bool), np.empty(shape[0])
            fit = np.empty(shape[0], dtype=bool)
            within_levels(values, pulls, self.k, floor, self._rooms, alive, weights, fit)
            fits |= fit
            here &= alive
            if shape[0] == 1 and (found is None or alive.sum() < found[0]):
                shifted = charge[0] + weights[0] * pulls
                found = alive.sum(), shifted, self._rooms[0] + weights[0] * floor
        if fits.all():
            return
        late = ~fits
        self.decided &= fits
        self.alive[late] |= here[late]
        self.values[late] = np.maximum(self.values[late], values[late])
        if found is not None:
            self.open.append((found[1], found[2]))


class SmoothPoints:
    """Points of a smooth training problem."""

    def __init__(self, optima: Optima, queries: Array, order: Positions, starts: Positions):
        self._optima, self._queries = optima, queries
        self._order, self._starts = order, starts

    def without(self, gone: tuple[int, ...]) -> SmoothPoint:
        """The point without some units."""
        rows, _ = rows_of(self._starts, np.array(gone, dtype=np.intp))
        at = self._optima.without(self._order[rows])
        return SmoothPoint(at, self._queries, self._order, self._starts)


class SmoothPoint:
    """The optimum of a smooth training problem without some units."""

    def __init__(self, at: Optimum, queries: Array, order: Positions, starts: Positions):
        self.at, self._order, self._starts = at, order, starts
        self._queries, self._raw = at.whiten(queries), queries

    def pool(self, units: Positions) -> tuple[Pool, Positions]:
        places, starts = rows_of(self._starts, units)
        rows = self._order[places]
        return Pool(self.at.U[rows], self.at.residuals[rows], starts), rows

    def functionals(self, some: Positions, rows: Positions) -> Array:
        found: Array = self._queries[some] @ self.at.U[rows].T
        return found

    def drops(self) -> Array:
        return self.at.drops(self._raw)

    def ladders(self, units: Positions, k: int) -> list[tuple[Ladder, float]] | None:
        pool, rows = self.pool(units)
        sets, heaviest = Sets(pool, k), pool.spread(k)
        if heaviest <= LIGHT:
            return [(Ladder(self.at, sets, rows, self._queries, heaviest), 0.0)]
        light = Ladder(self.at, sets, rows, self._queries, LIGHT)
        return [(light, -LIGHT), (Ladder(self.at, sets, rows, self._queries, heaviest), LIGHT)]

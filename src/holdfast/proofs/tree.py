r"""A tree that moves its expansion point: certificates where one look from afar does not decide.

``explore(T, k, open recourses)`` stands at the optimum without ``T`` and asks what ``k`` further
units can do. Whoever is already broken there has ``T`` as a witness. For the others the bound of
:mod:`holdfast.proofs.sets` and :mod:`holdfast.proofs.remainder` either decides, or leaves
*candidates*: the units that can be part of a set that breaks the recourse. With fewer candidates
the bound is made again, and is tighter; then a tree of Newton steps is grown among them (Schur
updates). Who is still open has their most dangerous unit ``t`` told apart: sets with it are
explored at the optimum without ``T ∪ {t}``, and then it is no candidate any more.

All recourses share one tree: an optimum is looked at once for everybody whose candidates lead
there. ``k = 1, 2, …`` are asked in turn. A recourse whose attack is known to be as small is left
out. The budget is a number of *looks*, so that the same comes out on every machine; stopping early
leaves what was proven.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.proofs.edges import Tops, look, strongest
from holdfast.proofs.levels import Edge
from holdfast.proofs.looks import Node, Question
from holdfast.proofs.points import Point, Points

#: candidates of a recourse that are few enough to be looked at alone
FEW = 1_500

#: units told apart at once where they are too many, how often that is done for each k, and how
#: many may be gone by then
AT_ONCE, AFAR, DEEP = 6, 200, 5

#: what a look from an edge costs
EDGED = 2

#: recourses that are looked at together at the cost of one
TOGETHER = 16

#: looks at one recourse for one k, at most
LOOKS = 100

#: candidates that a look must leave out to be repeated soon, and how long it is not at most
_LITTLE, _PATIENCE = 0.8, 16

#: sets that are solved for because they may break somebody, beside those the tree leads to
SUSPECTS = 1_500

#: sets that are few enough to be solved for, all of them, where looks do not decide
ENUMERATED = 3_000

#: a model that does not exist: no optimum, no unique fit
_NONE = (ValueError, ArithmeticError, np.linalg.LinAlgError, HoldfastError)


@dataclass
class Claims:
    """What is known so far, per recourse.

    Attributes
    ----------
    certified, attacked : (q,) attacked is ``budget + 1`` where nothing is known
    witness : units
    suspected : sets that a Newton step believes in; () for none
    """

    certified: Positions
    attacked: Positions
    witness: list[tuple[int, ...]]
    suspected: list[tuple[int, ...]]


class Tree:
    """One tree for all recourses.

    Parameters
    ----------
    points : Points
    proof : (q, budget + 1)
        What ``k`` deletions may take off a score, rounding and what is hidden paid.
    broken : (q,)
        A drop that certainly breaks it.
    able : units that may go
    claims : Claims
    charged : callable, optional
        What else units are charged when ``k`` go: (k, recourses, units) → (recourses, units).
    looks : how many there may be
    deadline : when to stop in any case
    """

    def __init__(
        self,
        points: Points,
        proof: Array,
        broken: Array,
        able: Positions,
        claims: Claims,
        charged: Callable[[int, Positions, Positions], Array] | None = None,
        looks: int = 1_000,
        deadline: float = np.inf,
    ):
        self._points, self._broken, self._able, self.claims = points, broken, able, claims
        self._left, self._deadline, self._solved = looks, deadline, 0
        self._tops: defaultdict[int, Tops] = defaultdict(Tops)
        self._stuck: dict[int, int] = {}
        self._question = Question(0, proof, charged or nothing, self._suspect)
        self._tried: set[tuple[int, ...]] = set()

    def run(self, budget: int) -> None:
        """Raise what is certified, ``k`` by ``k``; then look for the attacks that are left.

        From the root for everybody, then by exploring: first for those who have something to meet.
        """
        rounds = ((self._from_the_root, 2), (self._by_exploring, 1), (self._by_exploring, 2))
        for asks, beyond in rounds:
            for k in range(1, budget + 1):
                self._try_suspects(k)
                certified, attacked = self.claims.certified, self.claims.attacked
                here = (certified == k - 1) & (attacked > k) & (attacked < budget + beyond)
                some = np.flatnonzero(here)
                if not some.size or self._over():
                    continue
                self._question = replace(self._question, k=k)
                self._undecided: set[int] = set()
                asks(k, some)
                safe = [j for j in some.tolist() if j not in self._undecided and attacked[j] > k]
                certified[safe] = np.maximum(certified[safe], k)
        self._attack(budget)

    def _from_the_root(self, k: int, some: Positions) -> None:
        """One look for all of them, and one at each from its edge: nobody is told apart."""
        point = self._stand(())
        if point is None:
            self._give_up(some)
            return
        node = Node(self._question, point, (), k)
        some = self._with_room(some, node.rooms(some))
        self._left -= 1 + some.size // TOGETHER
        left = node.from_afar(some, self._able)[0]
        for j in left:
            if self._over() or self._stuck.get(j, 0) == k or not self._climbed(j, k):
                self._give_up([j])

    def _by_exploring(self, k: int, some: Positions) -> None:
        """The tree."""
        self._spent = dict.fromkeys(some.tolist(), 0)
        self._afar = AFAR
        self._explore((), k, some, {})
        if self._undecided and comb(self._able.size, k) <= ENUMERATED:
            self._enumerate(k)

    def _enumerate(self, k: int) -> None:
        """All sets of ``k``, for those that are still open: where sets are few that is a proof."""
        some, self._undecided = np.array(sorted(self._undecided), dtype=np.intp), set()
        for gone in combinations(self._able.tolist(), k):
            some = self._open(some)
            if not some.size or time.monotonic() > self._deadline:
                self._give_up(some)
                return
            self._arrive(gone, some)

    def _over(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._deadline

    # proofs -----------------------------------------------------------------------------------

    def _open(self, some: object) -> Positions:
        """Those whose attack is not known to be small enough, nor given up."""
        asked = self._question.k
        return np.array(
            [
                j
                for j in some  # type: ignore[attr-defined]
                if self.claims.attacked[j] > asked and j not in self._undecided
            ],
            dtype=np.intp,
        )

    def _give_up(self, some: object) -> None:
        self._undecided |= set(np.asarray(some).tolist())

    def _explore(
        self, gone: tuple[int, ...], k: int, some: Positions, own: dict[int, Positions]
    ) -> None:
        """Every set of at most ``k`` further units, for some recourses.

        ``own`` has the candidates of each; who has none yet has all that are able.
        """
        if k == 0:
            self._arrive(gone, some)
            return
        point = self._stand(gone)
        if point is None:
            self._give_up(some)
            return
        node = Node(self._question, point, gone, k)
        some = self._open(some)
        some = self._with_room(some, node.rooms(some))
        left = {j: own[j] for j in some.tolist() if j in own}
        rest = np.array([j for j in some.tolist() if j not in own], dtype=np.intp)
        if left:
            node.share(np.unique(np.concatenate(list(left.values()))))
        left |= self._narrowed(node, gone, k, rest)
        danger: dict[int, Array] = {}
        waits = dict.fromkeys(left, 1)  # a look that says little is not repeated after every unit
        since = dict.fromkeys(left, 0)
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
            others = {j: left[j] != most for j in theirs}
            fewer = {j: left[j][others[j]] for j in theirs}
            self._explore((*gone, most), k - 1, np.array(theirs, dtype=np.intp), fewer)
            for j in self._open(theirs).tolist():
                left[j], danger[j] = fewer[j], danger[j][others[j]]
                since[j] += 1
                if since[j] >= waits[j] or not left[j].size:
                    before = left[j].size
                    self._look(node, j, left, danger)
                    little = j in left and left[j].size > _LITTLE * before
                    waits[j], since[j] = min(2 * waits[j], _PATIENCE) if little else 1, 0

    def _arrive(self, gone: tuple[int, ...], some: Positions) -> None:
        """A set of its own: whether it breaks them is known."""
        try:
            drops = self._points.drops(gone)
        except _NONE:
            self._give_up(some)
            return
        self._witnessed(gone, drops)
        some = self._open(some)
        asked = self._question
        charged = asked.charged(asked.k, some, np.array(gone, dtype=np.intp)).sum(axis=1)
        self._with_room(some, asked.proof[some, asked.k] - drops[some] - charged)

    def _with_room(self, some: Positions, rooms: Array) -> Positions:
        """Those who are not neither broken nor safe, by less than rounding."""
        self._give_up(some[~(rooms >= 0)])
        return some[rooms >= 0]

    def _stand(self, gone: tuple[int, ...]) -> Point | None:
        """The point without some units, whoever is broken there noted; ``None``: there is none."""
        try:
            point = self._points.without(gone)
        except _NONE:
            return None
        self._witnessed(gone, point.drops())
        return point

    def _narrowed(
        self, node: Node, gone: tuple[int, ...], k: int, some: Positions
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
            self._left -= 1 + some.size // TOGETHER
            left, pulls, bounded = node.from_afar(some, able)
            left = self._at_edges(left, gone, k)
            few = {j: units for j, units in left.items() if units.size <= FEW and bounded}
            found |= few
            some = np.array([j for j in left if j not in few], dtype=np.intp)
            if some.size and (self._afar < 0 or (bounded and len(gone) >= DEEP)):
                self._give_up(some)
                break
            # of rows that together determine something one that stays is enough
            at_once = AT_ONCE if bounded else 1
            for t in able[np.argsort(-pulls, kind="stable")[:at_once]].tolist():
                some = self._open(some)
                if not some.size:
                    break
                able = able[able != t]
                self._without_able(t, gone, k, some, able)
            some = self._open(some)
        return found

    def _at_edges(
        self, left: dict[int, Positions], gone: tuple[int, ...], k: int
    ) -> dict[int, Positions]:
        """Who is still open after a look from the edge, and their candidates."""
        for j in self._open(left).tolist() if gone else []:
            edge = None if self._over() else self._edge(j, gone, self._question.k)
            if edge is None:
                continue
            self._left -= EDGED
            looked = look(edge, left[j], k, self._tops[len(gone)])
            if looked.proven:
                left.pop(j)
            else:
                left[j] = looked.alive
                self._suspect((*gone, *strongest(edge, left[j], k)), j)
        return {j: left[j] for j in self._open(left).tolist()}

    def _edge(self, j: int, gone: tuple[int, ...], k: int) -> Edge | None:
        """The edge of a recourse, for sets of at least ``k``."""
        return self._points.edge(gone, j, float(self._question.proof[j, k:].min()))

    def _climbed(self, j: int, k: int) -> bool:
        """How far a recourse is safe as seen from its edge; whether it is at ``k``."""
        claims, edge, tops = self.claims, self._edge(j, (), k), self._tops[0]
        low, high = k - 1, len(self._question.proof[j]) - 1
        while edge is not None and low < (high := min(high, int(claims.attacked[j]) - 1)):
            asked = (low + high + 1) // 2 if high > low + 3 else high
            self._suspect(strongest(edge, self._able, asked), j)
            if claims.attacked[j] <= asked:
                continue
            self._left -= EDGED
            if look(edge, self._able, asked, tops).proven:
                low = asked
            else:
                high = asked - 1
        claims.certified[j] = max(low, int(claims.certified[j]))
        self._stuck[j] = low + 1
        return low >= k

    def _without_able(
        self, t: int, gone: tuple[int, ...], k: int, some: Positions, able: Positions
    ) -> None:
        """Sets with one unit, of candidates that are no longer all of them."""
        before, self._able = self._able, able
        self._explore((*gone, t), k - 1, some, {})
        self._able = before

    def _look(
        self, node: Node, j: int, left: dict[int, Positions], danger: dict[int, Array]
    ) -> None:
        """One more look at a recourse; it is out where that decides."""
        if self._spent[j] >= LOOKS or self._over():
            self._give_up([j])
            left.pop(j, None)
            return
        self._spent[j] += 1
        self._left -= 1
        found = node.closer(j, left[j])
        if found is None:
            left.pop(j, None)
        else:
            left[j], danger[j] = found

    # attacks ----------------------------------------------------------------------------------

    def _witnessed(self, gone: tuple[int, ...], drops: Array) -> None:
        """Whoever is broken without these has a witness."""
        if not gone:
            return
        claims, size = self.claims, len(gone)
        for j in np.flatnonzero((drops > self._broken) & (claims.attacked > size)).tolist():
            claims.attacked[j], claims.witness[j] = size, tuple(sorted(gone))

    def _suspect(self, units: tuple[int, ...], j: int) -> None:
        """Whether some units break a recourse, and whom else."""
        key = tuple(sorted(units))
        if self.claims.attacked[j] <= len(key) or key in self._tried:
            return
        self._tried.add(key)
        self._solved += 1
        try:
            self._witnessed(key, self._points.drops(key))
        except _NONE:
            return

    def untried(self, j: int) -> tuple[int, ...]:
        """What is suspected of a recourse and was not solved for; () for nothing."""
        units = self.claims.suspected[j]
        fresh = len(units) > self.claims.certified[j] and tuple(sorted(units)) not in self._tried
        return units if fresh else ()

    def _try_suspects(self, k: int) -> None:
        """What a Newton step believes to break a recourse, at this size."""
        for j, units in enumerate(self.claims.suspected):
            if len(units) == k and self.claims.certified[j] < k and self._solved < SUSPECTS:
                self._suspect(units, j)

    def _attack(self, budget: int) -> None:
        """Attacks on those that have none: what is suspected, one more unit at a time."""
        claims = self.claims
        for size in range(1, budget + 1):
            for j in np.flatnonzero((claims.attacked > budget) & (claims.certified < budget)):
                units = claims.suspected[j]
                if len(units) != size or claims.attacked[j] <= budget:
                    continue
                if self._solved >= SUSPECTS or time.monotonic() > self._deadline:
                    return
                self._suspect(units, int(j))
                if claims.attacked[j] > budget and size < budget:
                    claims.suspected[j] = self._further(units, int(j))

    def _further(self, units: tuple[int, ...], j: int) -> tuple[int, ...]:
        """Some units and the one that does most to a recourse once they are gone."""
        able = self._able[~np.isin(self._able, units)]
        try:
            point = self._points.without(units)
        except _NONE:
            return ()
        pool, rows = point.pool(able)
        if not pool.fine or not able.size:
            return ()
        c = pool.scale(point.functionals(np.array([j]), rows)[0])
        return (*units, int(able[np.argmax(pool.by_unit(c * pool.scaled))]))


def nothing(k: int, some: Positions, units: Positions) -> Array:
    """Nothing else is charged."""
    return np.zeros((some.size, units.size))

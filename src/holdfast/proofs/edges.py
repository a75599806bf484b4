"""Which sets can break a recourse, looked at from its edge (:mod:`holdfast.proofs.levels`).

At a level the push of a set is at most a quadratic form: what its units add alone, and by pairs.
Pairs are paid for once, by who comes later in an order in which the strongest and the longest come
first; where the largest values together stay below the margin nothing breaks it. Else those who
can be part of a set that does are branched on, the pairs of those chosen counted as they are.

At a level only sets count that pull more than ``f`` at the level below, which does not cover them:
adding ``w`` times (what they pull there − ``f``), for any ``w ≥ 0``, lowers none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast.algebra.pair_loops import at_corners, branch_pairs, paid
from holdfast.algebra.rows import Array, Positions
from holdfast.proofs.levels import Edge, Level
from holdfast.proofs.sets import OUT, largest_sum, rows_of

#: the highest level, and how many are passed by on the way up to the one that covers every set
_HIGHEST, _STRIDE = 26, 2

#: the strongest and the longest units, so many of each, are looked at by pairs; others with them,
#: so many at a time; and those that are looked at for what they pull
_CORE, _TILE, _WIDE = 256, 1_024, 1_000

#: recourses for which no level covers all sets of so many, before others are not asked
_IN_VAIN = 4

#: nodes of a tree
_NODES = 500

#: weights of what sets pull that are tried, in shares of the room per unit of it
_WEIGHTS = (0.0, 0.3, 1.0, 3.0)

#: of a bound that is so much beyond the room nothing more is tried
_BEYOND = 3.0

#: where more than this share of the units may be part of a set that breaks it, no more is asked
_MANY = 0.5

#: what rounding may hide of a bound
_SLACK = 1e-9

#: units among which an attack is looked for, and how often it is changed
_STRONGEST, _CHANGES = 200, 60


Pairs = Callable[[Positions, Positions], Array]


class Sighting(NamedTuple):
    """What came of a look: whether no set breaks the recourse; else who may be part of one."""

    proven: bool
    alive: Positions
    danger: Array


class Tops:
    """From which level on all sets of so many units were covered, for other recourses."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._failed: dict[int, int] = {}

    def start(self, k: int) -> int | None:
        """Where to begin; ``None`` where it has been in vain often enough."""
        if self._failed.get(k, 0) >= _IN_VAIN:
            return None
        return max((number for size, number in self._known.items() if size <= k), default=0)

    def note(self, k: int, number: int | None) -> None:
        """What came of it."""
        if number is None:
            self._failed[k] = self._failed.get(k, 0) + 1
        else:
            self._known[k], self._failed[k] = number, 0


class Terms:
    """Some units at a level: what they do alone and by pairs.

    Attributes
    ----------
    alone, pulls : (units,)
        What each adds to the push, and to ``‖G‖_M²``.
    lengths : (units,) ``‖G‖_M`` of each at most
    """

    def __init__(self, edge: Edge, level: Level, units: Positions, k: int):
        self.k = k
        rows, self._starts = edge.rows(units)
        self._single = rows.size == units.size
        A = self._A = edge.across[rows]
        self._low, self._high = level.least[rows], level.most[rows]
        size = np.maximum(-self._low, self._high)
        along, gamma = edge.along[rows], edge.at.v[rows] * edge.along[rows]
        own = along * edge.at.errors[rows]
        tilt = _tilt(own, np.abs(edge.at.errors[rows]), np.abs(gamma), k)
        self._Y = A @ level.middle
        self._K = A @ (level.bent + level.spread / (2.0 * tilt))
        self._M = A @ level.metric
        products = [np.einsum("ij,ij->i", B, A) for B in (self._Y, self._K, self._M)]
        metric = np.sqrt(np.maximum(products[2], 0.0))
        spread = np.sqrt(np.maximum(np.einsum("ij,ij->i", A @ level.spread, A), 0.0))
        linear = own + np.maximum(gamma * self._low, gamma * self._high) * products[0]
        linear += 0.5 * tilt * (gamma * spread) ** 2 + level.twice[rows]
        linear += np.abs(gamma) * metric * level.shoved
        directly = level.directly[rows]
        gamma = self._gamma = np.where(directly < linear, 0.0, gamma)
        self._beside = np.sqrt(tilt) * np.abs(gamma) * spread
        least = np.maximum(self._low * self._high, 0.0)  # of a square, where there is a sign
        square = np.where(products[1] > 0, size**2, np.minimum(size**2, least))
        alone = np.minimum(linear, directly) + products[1] * square + edge.beside(level, rows, k)
        norms = [np.sqrt(np.einsum("ij,ij->i", B, B)) for B in (A, self._Y, self._K)]
        self.lengths = self._by_unit(size * metric)
        self.alone, self.pulls = self._by_unit(alone), self._by_unit((size * metric) ** 2)
        self.norms = [
            self._by_unit(each)
            for each in (
                size * norms[0],
                np.abs(gamma) * norms[1],
                self._beside,
                2.0 * size * norms[2],
            )
        ]
        if not self._single:
            self._add_within()

    def __len__(self) -> int:
        return len(self._starts) - 1

    def _by_unit(self, of_rows: Array) -> Array:
        if self._single:
            return of_rows
        found: Array = np.add.reduceat(of_rows, self._starts[:-1])
        return found

    def _add_within(self) -> None:
        """Pairs of rows of the same unit."""
        for unit in np.flatnonzero(np.diff(self._starts) > 1).tolist():
            rows = np.arange(self._starts[unit], self._starts[unit + 1])
            later = np.triu_indices(rows.size, 1)
            self.alone[unit] += self._rows_push(rows, rows)[later].sum()
            self.pulls[unit] += self._rows_pull(rows, rows)[later].sum()

    def _rows_push(self, some: Positions, others: Positions) -> Array:
        found: Array = (2.0 * self._K[some]) @ self._A[others].T
        at_corners(
            found,
            self._Y[some] @ self._A[others].T,
            *(each[some] for each in (self._low, self._high, self._gamma, self._beside)),
            *(each[others] for each in (self._low, self._high, self._gamma, self._beside)),
        )
        return found

    def _rows_pull(self, some: Positions, others: Positions) -> Array:
        found: Array = (2.0 * self._M[some]) @ self._A[others].T
        zero = np.zeros(max(some.size, others.size))
        at_corners(
            found,
            np.zeros_like(found),
            *(self._low[some], self._high[some], zero, zero),
            *(self._low[others], self._high[others], zero, zero),
        )
        return found

    def _by_units(self, of_rows: Pairs, some: Positions, others: Positions) -> Array:
        if self._single:
            return of_rows(some, others)
        mine, starts = rows_of(self._starts, some)
        theirs, begins = rows_of(self._starts, others)
        lines = np.add.reduceat(of_rows(mine, theirs), starts[:-1], axis=0)
        return np.asarray(np.add.reduceat(lines, begins[:-1], axis=1))

    def push_pairs(self, some: Positions, others: Positions) -> Array:
        """What pairs of units add to the push at most."""
        return self._by_units(self._rows_push, some, others)

    def pull_pairs(self, some: Positions, others: Positions) -> Array:
        """What pairs of units add to ``‖G‖_M²`` at most."""
        return self._by_units(self._rows_pull, some, others)


@dataclass(frozen=True)
class Blend:
    """The push at a level and ``weight`` times what sets pull at the level below.

    Whoever counts at a level is not covered by the one below: there it pulls more, somewhere.
    """

    terms: Terms
    below: Terms | None = None
    weight: float = 0.0

    @property
    def alone(self) -> Array:
        """What each unit adds."""
        if self.below is None or not self.weight:
            return self.terms.alone
        return self.terms.alone + self.weight * self.below.pulls

    def pairs(self, some: Positions, others: Positions) -> Array:
        """What pairs of them add at most."""
        found = self.terms.push_pairs(some, others)
        if self.below is not None and self.weight:
            found += self.weight * self.below.pull_pairs(some, others)
        return found

    def values(self, room: float) -> tuple[Array, Positions]:
        """What each adds with the partners it pays for; and their places, the core first.

        Who is not in the core pays for all of it, and for others by their lengths.
        """
        terms, alone, k = self.terms, self.alone, self.terms.k - 1
        long, first, beside, bent = terms.norms
        weighted = self.below is not None and self.weight > 0.0
        lengths = self.below.lengths if weighted and self.below is not None else None
        order, many = _ranked(alone, long)
        core, rest = order[:many], order[many:]
        values = np.empty(alone.size)
        payments = np.empty(many)
        paid(self.pairs(core, core), np.arange(many), k, np.zeros(many), payments)
        values[:many] = alone[core] + payments * OUT
        if not rest.size:
            return np.maximum(values, 0.0), order

        def for_partners(count: Any) -> Array:
            """What those of the rest pay for partners, by lengths: sums over these being given."""
            found = first[rest] * count(long) + long[rest] * count(first)
            found += beside[rest] * count(beside) + bent[rest] * count(long)
            if lengths is not None:
                found += 2.0 * self.weight * lengths[rest] * count(lengths)
            return np.asarray(found)

        values[many:] = alone[rest] + for_partners(lambda each: largest_sum(each, k)) * OUT
        far = for_partners(lambda each: float(each[rest].max()))
        top = np.sort(np.maximum(values[:many], 0.0))[::-1][: terms.k]
        matters = max(min(float(top[-1]), room - float(top[:-1].sum())), 0.0)
        looked = np.flatnonzero(values[many:] > matters)
        for start in range(0, looked.size, _TILE):
            few = looked[start : start + _TILE]
            pairs, payments = self.pairs(rest[few], core), np.empty(few.size)
            paid(pairs, np.full(few.size, many), k, far[few], payments)
            closer = alone[rest[few]] + payments * OUT
            values[many + few] = np.minimum(values[many + few], closer)
        return np.maximum(values, 0.0), order


def _ranked(alone: Array, lengths: Array) -> tuple[Positions, int]:
    """Units by rank: a core of the strongest and the longest, then the others."""
    chosen = np.zeros(alone.size, dtype=bool)
    for each in (alone, lengths):
        if each.size <= _CORE:
            chosen[:] = True
        else:
            chosen[np.argpartition(-each, _CORE)[:_CORE]] = True
    order = np.lexsort((-alone, ~chosen))
    return order, int(chosen.sum())


def covered(terms: Terms, most: float) -> bool:
    """Whether no set of ``k`` can pull more."""
    if largest_sum(terms.lengths, terms.k) ** 2 <= most:
        return True
    order = np.argsort(-terms.lengths, kind="stable")
    core = order[:_WIDE]
    longest = float(terms.lengths[order[_WIDE]]) if order.size > _WIDE else 0.0
    rest = longest * (longest + 2.0 * largest_sum(terms.lengths, terms.k - 1))
    pairs = _without_diagonal(terms.pull_pairs(core, core))
    return _branched(terms.pulls[core], pairs, terms.k, most, rest)[0] == 0


def look(edge: Edge, units: Positions, k: int, tops: Tops) -> Sighting:
    """Whether sets of at most ``k`` of some units can break a recourse.

    ``tops`` remembers what was found for other recourses.
    """
    if not units.size:
        return Sighting(edge.margin > 0, units, np.zeros(0))
    top = _top(edge, units, k, tops)
    if top is None:
        return Sighting(False, units, edge.lengths(units))
    number, terms, level = top
    room = edge.margin * (1.0 - _SLACK) - level.hidden
    if largest_sum(Blend(terms).values(room)[0], k) * (1.0 + _SLACK) <= room:
        return Sighting(True, units[:0], np.zeros(0))
    numbers = [*range(number % _STRIDE, number, _STRIDE), number]
    ladder = [(at, Terms(edge, at, units, k)) for at in _levels(edge, numbers[:-1], k)]
    ladder.append((level, terms))
    alive, danger = np.zeros(units.size, dtype=bool), np.zeros(units.size)
    for place in range(len(ladder) - 1, -1, -1):  # the highest first: it fails most often
        at, here = ladder[place]
        below = ladder[place - 1] if place else None
        proven, some, value = _within(at, here, edge.margin * (1.0 - _SLACK) - at.hidden, below)
        if not proven:
            alive |= some
            danger = np.maximum(danger, value)
            if alive.sum() > _MANY * units.size:
                return Sighting(False, units, danger)
    return Sighting(not alive.any(), units[alive], danger[alive])


def shares(edge: Edge, units: Positions, k: int, tops: Tops) -> Array | None:
    """What share of the margin each unit takes at most: sums over sets of ``k`` are bounds.

    ``None`` where nothing covers all of them.
    """
    top = _top(edge, units, k, tops)
    if top is None or edge.margin <= top[2].hidden:
        return None
    room = edge.margin * (1.0 - _SLACK) - top[2].hidden
    values, order = Blend(top[1]).values(room)
    found = np.empty(units.size)
    found[order] = values * ((1.0 + _SLACK) / room)
    return found


def _levels(edge: Edge, numbers: list[int], k: int) -> list[Level]:
    found = [edge.level(number, k) for number in numbers]
    return [level for level in found if level is not None]


def _top(edge: Edge, units: Positions, k: int, tops: Tops) -> tuple[int, Terms, Level] | None:
    """The lowest level that covers all sets, as far as can be seen."""
    found: tuple[int, Terms, Level] | None = None
    start = tops.start(k)
    if start is None:
        return None
    number, up = start, False
    while 0 <= number <= _HIGHEST:
        level = edge.level(number, k)
        if level is None:
            break
        terms = Terms(edge, level, units, k)
        if covered(terms, level.covers * (1.0 - _SLACK)):
            found = number, terms, level
            if up:
                break
            number -= 1
        elif found is not None:
            break
        else:
            number, up = number + 1, True
    tops.note(k, None if found is None else found[0])
    return found


def _within(
    level: Level, terms: Terms, room: float, below: tuple[Level, Terms] | None
) -> tuple[bool, Array, Array]:
    """Whether sets that the level below does not cover stay within the room.

    Also who may be part of one that does not, and what each does. Everybody may where such a set
    is covered here: no other level will help.
    """
    k, count = terms.k, len(terms)
    alive, danger = np.ones(count, dtype=bool), np.zeros(count)
    if room <= 0:
        return False, alive, terms.alone
    floor = 0.0 if below is None else below[0].covers
    price = room / (k * floor) if floor else 0.0
    for share in _WEIGHTS if floor else _WEIGHTS[:1]:
        weight = share * price
        blend = Blend(terms, None if below is None else below[1], weight)
        reach = room + weight * floor
        values, order = blend.values(reach)
        largest = largest_sum(values, k) * (1.0 + _SLACK)
        if largest <= reach:
            return True, alive, danger
        fine = values + largest_sum(values, k - 1) <= reach * (1.0 - _SLACK)
        alive[order[fine]] = False
        if share == 0.0:
            danger[order] = values
        if largest > _BEYOND * reach:
            break
        core, rest = order[~fine], 0.0
        if core.size > 2 * _CORE:
            core, rest = core[: 2 * _CORE], float(values[~fine][2 * _CORE :].max())
        if k * rest > reach:
            continue
        pairs = _without_diagonal(blend.pairs(core, core))
        verdict, some = _branched(blend.alone[core], pairs, k, reach * (1.0 - _SLACK), rest)
        if verdict == 0:
            return True, alive, danger
        if verdict == 1 and share == 0.0:
            found = core[some]
            if _pull(terms, found) <= level.covers and (
                below is None or _pull(below[1], found) > floor
            ):
                return False, np.ones(count, dtype=bool), danger
    return False, alive, danger


def _pull(terms: Terms, some: Positions) -> float:
    """What a set pulls at most."""
    pairs = _without_diagonal(terms.pull_pairs(some, some))
    return float(terms.pulls[some].sum() + 0.5 * pairs.sum())


def strongest(edge: Edge, units: Positions, k: int) -> tuple[int, ...]:
    """A set of ``k`` that pushes a recourse hard: one more at a time, then exchanged."""
    level = edge.level(0, k)
    if level is None or units.size < k:
        return ()
    terms = Terms(edge, level, units, k)
    some = np.argsort(-terms.alone, kind="stable")[:_STRONGEST]
    pairs = _without_diagonal(terms.push_pairs(some, some))
    gains, chosen = terms.alone[some].copy(), np.zeros(some.size, dtype=bool)
    for _ in range(k):
        best = int(np.argmax(np.where(chosen, -np.inf, gains)))
        chosen[best] = True
        gains += pairs[best]
    for _ in range(_CHANGES):
        mine, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        if not others.size:
            break
        change = gains[others] - gains[mine, None] - pairs[np.ix_(mine, others)]
        out, into = np.unravel_index(int(np.argmax(change)), change.shape)
        if not change[out, into] > 1e-12:
            break
        gone, new = mine[out], others[into]
        chosen[gone], chosen[new] = False, True
        gains += pairs[new] - pairs[gone]
    return tuple(units[some[chosen]].tolist())


def _tilt(own: Array, pulls: Array, slopes: Array, k: int) -> float:
    """``α``, for sets that push the recourse hardest."""
    top = np.argpartition(-own, min(k, own.size) - 1)[:k]
    best = float(pulls[top].sum()) / max(float(slopes[top].sum()), 1e-300)
    return float(np.clip(best, 1e-6, 1e6))  # any positive number will do


def _branched(
    alone: Array, pairs: Array, k: int, room: float, rest: float
) -> tuple[int, Positions]:
    """The verdict of a tree, and the places of the set that it is about."""
    order, found = np.argsort(-alone, kind="stable"), np.zeros(k, dtype=np.int64)
    ranked = np.ascontiguousarray(pairs[np.ix_(order, order)])
    verdict, size = branch_pairs(alone[order], ranked, k, room, rest, _NODES, found)
    return verdict, order[found[:size]]


def _without_diagonal(pairs: Array) -> Array:
    np.fill_diagonal(pairs, 0.0)
    return pairs

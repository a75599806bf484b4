"""The default: a portfolio of searches, joined, extended and polished by single swaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.searches.attack import Attack, late
from holdfast.searches.greedy import (
    TEMPERATURES,
    greedy,
    greedy_count,
    greedy_soft,
    in_turn,
    influence,
)

#: recourses that get an attack of their own as a starting point
_SEEDED = 24


def best(
    attack: Attack,
    budget: int,
    rng: Any,
    polish: bool = True,
    rounds: int = 3,
    temperatures: Sequence[float] = TEMPERATURES,
) -> list[list[int]]:
    """At every budget the strongest set any member finds, polished by 1-swaps.

    Members: ``greedy-count``, ``greedy``, ``greedy-soft`` at several temperatures, ``influence``,
    and the strongest attacks on single recourses. Never below any of them, nor below itself at a
    smaller budget. For networks, where every sweep means a refit of seconds, the members are
    ``greedy`` and ``influence``, and nothing is polished.

    Parameters
    ----------
    polish : bool
        Whether sets are polished at all.
    rounds : int
        How often at most every member of a set is tried for an exchange.
    temperatures : sequence of float
        Of the members ``greedy-soft``. Fewer are faster.
    """
    members = [greedy(attack, budget, rng)]
    if attack.objective == "outcome" and not attack.costly and not late(attack):
        members.append(greedy_count(attack, budget, rng))
        members += [greedy_soft(attack, budget, rng, t) for t in temperatures if not late(attack)]
    members.append(influence(attack, budget, rng))
    if attack.sweeps_all and attack.objective == "outcome":
        members += _attacks_on_single_recourses(attack, budget, rng)

    known: dict[tuple[int, ...], tuple[float, float]] = {}

    def value(units: list[int]) -> tuple[float, float]:
        key = tuple(sorted(units))
        if key not in known:
            feasible = attack.feasible(key)
            known[key] = attack.value(list(key)) if feasible else (-math.inf, -math.inf)
        return known[key]

    sets: list[list[int]] = [[]]
    for k in range(1, budget + 1):
        attack.tell(k - 1, budget)
        pool = [member[min(k, len(member) - 1)] for member in members] + [sets[-1]]
        if len(sets[-1]) == k - 1 and not late(attack):
            extension = attack.sweep(sets[-1])
            if extension.possible.any():
                pool.append([*sets[-1], extension.best])
        champion = max(pool, key=value)
        if polish and not attack.costly:
            champion = _polished(attack, champion, value, rounds)
        sets.append(champion)
    return sets


def _polished(attack: Attack, units: list[int], value: Any, rounds: int) -> list[int]:
    """Exchange one deletion at a time for the best other one, while that helps."""
    for _ in range(rounds):
        improved = False
        for place in range(len(units)):
            if late(attack):
                return units
            rest = units[:place] + units[place + 1 :]
            sweep = attack.sweep(rest)
            if not sweep.possible.any():
                continue
            swapped = [*rest, sweep.best]
            if swapped[-1] != units[place] and value(swapped) > value(units):
                units, improved = swapped, True
        if not improved:
            break
    return units


def _attacks_on_single_recourses(attack: Attack, budget: int, rng: Any) -> list[list[list[int]]]:
    """For some recourses, the candidates that lower that one score most."""
    q = attack.margins.size
    picked = np.sort(rng.choice(q, min(q, _SEEDED), replace=False))
    return [in_turn(attack, order, budget) for order in attack.worst_for(picked)]

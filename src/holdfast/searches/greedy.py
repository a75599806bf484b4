"""One candidate at a time: the paper's greedy search, and two that do not stall.

The paper's Algorithm 1 counts flips. Where no single row flips anybody all candidates tie at zero
and it picks the lowest index, over and over; ``greedy`` breaks such ties by the margin left, and
``greedy-soft`` counts with soft edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.algebra.sweeps import Sweep
from holdfast.arguments import positive_number
from holdfast.searches.attack import Attack, late

#: temperatures of the soft count, in units of the median margin
TEMPERATURES = (0.03, 0.1, 0.3, 1.0)


def _chosen(
    attack: Attack, budget: int, pick: Any, temperature: float | None = None
) -> list[list[int]]:
    """Nested sets, each one candidate longer than the last."""
    chosen: list[int] = []
    sets: list[list[int]] = [[]]
    for _ in range(budget):
        if late(attack):
            break
        sweep = attack.sweep(chosen, temperature)
        if not sweep.possible.any():
            break
        chosen = [*chosen, pick(sweep)]
        sets.append(chosen)
    return sets


def _first_of_the_best(sweep: Sweep) -> int:
    return int(np.argmax(np.where(sweep.possible, sweep.value, -np.inf)))


def greedy_count(attack: Attack, budget: int, rng: Any) -> list[list[int]]:
    """The paper's Algorithm 1: most recourses broken, ties to the lowest index."""
    return _chosen(attack, budget, _first_of_the_best)


def greedy(attack: Attack, budget: int, rng: Any) -> list[list[int]]:
    """Most recourses broken, ties to the least margin left."""
    return _chosen(attack, budget, lambda sweep: sweep.best)


def greedy_soft(attack: Attack, budget: int, rng: Any, temperature: float = 0.3) -> list[list[int]]:
    """Largest sum of sigmoids; ``temperature`` in units of the median margin."""
    positive_number("temperature", temperature)
    if attack.objective != "outcome":
        return greedy(attack, budget, rng)
    scale = median_margin(attack.margins)
    return _chosen(attack, budget, lambda sweep: sweep.best, temperature * scale)


def influence(attack: Attack, budget: int, rng: Any) -> list[list[int]]:
    """One-shot: the candidates that are worst alone, softly counted, all at once."""
    soft = median_margin(attack.margins) if attack.objective == "outcome" else None
    sweep = attack.singles(soft)
    return in_turn(attack, sweep.ranked(), budget)


def in_turn(attack: Attack, order: Iterable[Any], budget: int) -> list[list[int]]:
    """Nested sets in a given order, leaving out what cannot go with those before it."""
    chosen: list[int] = []
    for unit in order:
        if len(chosen) == budget:
            break
        if attack.feasible([*chosen, int(unit)]):
            chosen.append(int(unit))
    return [chosen[:k] for k in range(len(chosen) + 1)]


def soft_weights(margins: Array, slack: Array) -> Array:
    """How much each recourse matters to soft counts with these margins left, (q, ways)."""
    heat = median_margin(margins) * np.array([*TEMPERATURES, np.inf])
    weights = np.cosh(np.clip(slack[:, None] / (2.0 * heat), -300.0, 300.0)) ** -2.0
    found: Array = weights / np.maximum(np.linalg.norm(weights, axis=0), 1e-300)
    return found


def median_margin(margins: Array) -> float:
    """The median margin, or the smallest positive number there is to use in its place."""
    positive = margins[margins > 0]
    return float(np.median(positive)) if positive.size else 1e-12

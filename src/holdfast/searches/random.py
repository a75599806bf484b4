"""Random deletions: what anybody's erasure does, beside the worst."""

from __future__ import annotations

from typing import Any

from holdfast.arguments import positive_number
from holdfast.searches.attack import Attack
from holdfast.searches.found import Found
from holdfast.searches.greedy import in_turn


def random(attack: Attack, budget: int, rng: Any, draws: int = 20) -> Found:
    """Several random orders; what they break is averaged, and has a spread.

    Parameters
    ----------
    draws : int
        How many orders.
    """
    positive_number("draws", draws)
    orders = [in_turn(attack, attack.units.drawn(rng), budget)[-1] for _ in range(int(draws))]
    return Found([orders[0][:k] for k in range(budget + 1)], draws=orders, notes={"draws": draws})

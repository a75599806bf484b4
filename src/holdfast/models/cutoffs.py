"""Targets that move: a cutoff that is a quantile of the training rows is another one without some.

A lender who accepts the best tenth of its book has no fixed score to reach: when rows are erased
and the model is refitted, the quantile is taken anew. Scores of a refit are then said relative to
the cutoff before, ``score − (cutoff now − cutoff before)``, so that whoever compares them with the
target judges by the cutoff as it is now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError

#: what a target may do when rows go
RULES = ("fixed", "quantile", "label-quantile")

#: values this close to each other, in their spread, are ties; and what rounding leaves of one
_TIED, _ROUNDING = 1e-9, 1e-12


def _level(known: Array, target: float) -> float:
    """Where among sorted values a target stands, from 0 to 1; amid those it is tied with."""
    room = _TIED * max(float(known[-1] - known[0]), abs(target) * 1e-3)
    first, last = np.searchsorted(known, [target - room, target + room])
    if last > first:
        place = (first + last - 1) / 2.0
    else:
        place = first - 1 + (target - known[first - 1]) / (known[first] - known[first - 1])
    return float(np.clip(place / max(known.size - 1, 1), 0.0, 1.0))


@dataclass(frozen=True)
class Cutoff:
    """A target that is a quantile of the training rows' scores or labels.

    Attributes
    ----------
    of : {"scores", "labels"}
        Oriented: higher is better for the person.
    level : float
        From 0 to 1.
    before : float
        The quantile of all rows.
    """

    of: str
    level: float
    before: float

    @classmethod
    def at(cls, rule: str, target: float, scores: Array, labels: Array | None) -> Cutoff | None:
        """The quantile a target is now; ``None`` where it stays what it is."""
        if not isinstance(rule, str) or rule not in RULES:
            raise HoldfastError(
                f"⟦target_rule⟧ must be one of {', '.join(map(repr, RULES))}, got {rule!r}"
            )
        if rule == "fixed":
            return None
        if rule == "label-quantile" and labels is None:
            raise HoldfastError(
                "⟦target_rule⟧: the labels of a classifier have no quantile that scores are "
                "compared with; 'quantile' is one of its scores"
            )
        of = "scores" if rule == "quantile" else "labels"
        known = np.sort(scores if of == "scores" or labels is None else labels)
        if not known[0] <= target <= known[-1]:
            raise HoldfastError(
                f"⟦target_rule⟧: the target {target:g} is no quantile of the training {of}: all "
                f"of them are {'below' if target > known[-1] else 'above'} it"
            )
        level = _level(known, target)
        return cls(of, level, float(np.quantile(known, level)))

    def moved(self, scores: Array, labels: Any) -> float:
        """How much higher the cutoff is for these rows."""
        known = np.asarray(scores if self.of == "scores" else labels, dtype=float)
        now = float(np.quantile(known, self.level))
        # whoever is exactly at the cutoff stays there, rounding or not
        return now - self.before - _ROUNDING * (abs(now) + abs(self.before))

    def nearest(self, scores: Array) -> list[tuple[int, float]]:
        """The one or two rows whose scores make the cutoff, and their weights."""
        if self.of != "scores":
            return []
        order = np.argsort(scores, kind="stable")
        place = self.level * (len(order) - 1)
        low = min(int(place), len(order) - 1)
        high, share = min(low + 1, len(order) - 1), place - low
        return [(int(order[low]), 1.0 - share), (int(order[high]), share)]

    @property
    def words(self) -> str:
        """As a report says it."""
        return f"the {self.level:.0%} quantile of the training rows' {self.of}"

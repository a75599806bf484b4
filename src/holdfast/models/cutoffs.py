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
        if rule not in RULES:
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
        level = float(np.interp(target, known, np.linspace(0.0, 1.0, known.size)))
        return cls(of, level, float(np.quantile(known, level)))

    def moved(self, scores: Array, labels: Any) -> float:
        """How much higher the cutoff is for these rows."""
        known = scores if self.of == "scores" else labels
        return float(np.quantile(np.asarray(known, dtype=float), self.level)) - self.before

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

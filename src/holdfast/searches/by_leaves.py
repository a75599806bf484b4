"""Candidates ranked by the leaves they share with the recourses, for boosting models.

A row acts on a point through the trees in which both fall into the same leaf. What each row lifts
each recourse by that way (:meth:`~holdfast.models.erasable.ErasableModel.leaf_pulls`) is far from
what a refit does: new trees have other leaves. But rows that hold many recourses up are worth their
refits more than others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from holdfast.algebra.rows import take
from holdfast.algebra.sweeps import Sweep
from holdfast.algebra.units import Units
from holdfast.models.erasable import ErasableModel
from holdfast.recourse.promises import Promises
from holdfast.searches.greedy import median_margin

#: entries of the matrix of pulls: beyond that the recourses nearest to the target stand for all
_MOST_PULLS = 20_000_000


class LeafStandIn:
    """Ranks candidates by what they lift the recourses by, softly counted.

    Parameters
    ----------
    model, promises, units
    """

    def __init__(self, model: ErasableModel, promises: Promises, units: Units):
        self._units = units
        nearest = np.argsort(promises.margins, kind="stable")
        nearest = np.sort(nearest[: max(_MOST_PULLS // model.rows.n, 1)])
        self._margins = promises.margins[nearest]
        pulls = model.leaf_pulls(take(promises.kept_points, nearest))[:, units.order]
        self._pulls = np.add.reduceat(pulls, units.starts[:-1], axis=1)

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate alone."""
        return self.sweep([])

    def sweep(self, units: Sequence[int]) -> Sweep:
        """Every candidate after some others."""
        chosen = list(units)
        left = self._margins - self._pulls[:, chosen].sum(axis=1)
        heat = median_margin(self._margins)
        value = np.zeros(len(self._units))
        for margin, pulls in zip(left, self._pulls, strict=True):
            value += expit((pulls - margin) / heat)
        return Sweep(value, self._pulls.sum(axis=0), _left(self._units, chosen))

    def feasible(self, units: Sequence[int]) -> bool:
        """Whether these can go together."""
        return feasible(self._units, units)


class RandomStandIn:
    """Ranks candidates by chance: what any other order is to be held against."""

    def __init__(self, units: Units, rng: Any):
        self._units, self._order = units, rng.permutation(len(units)).astype(float)

    def singles(self, temperature: float | None = None) -> Sweep:
        """Every candidate, in an order that stays."""
        return self.sweep([])

    def sweep(self, units: Sequence[int]) -> Sweep:
        """The candidates left, in that order."""
        return Sweep(self._order, np.zeros(len(self._units)), _left(self._units, list(units)))

    def feasible(self, units: Sequence[int]) -> bool:
        """Whether these can go together."""
        return feasible(self._units, units)


def _left(units: Units, chosen: list[int]) -> Any:
    """Which candidates can go after some others."""
    possible = units.keeps_classes(units.rows(chosen))
    possible[chosen] = False
    return possible


def feasible(units: Units, chosen: Sequence[int]) -> bool:
    """Whether a row of every class is left when these go together."""
    *before, last = chosen
    return bool(_left(units, list(before))[last])

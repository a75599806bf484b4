"""What is deleted as one: single rows, or all rows of a subject."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.algebra.rows import Positions, TrainingRows
from holdfast.errors import HoldfastError


class Units:
    """Candidates for deletion and the training rows each takes along.

    Parameters
    ----------
    training : TrainingRows
    unit : {"row", "subject"}

    Attributes
    ----------
    order : ndarray of shape (n,)
        Training rows arranged so that every unit's rows are neighbours.
    starts : ndarray of shape (units + 1,)
        Where each unit begins in that order.
    names : list
        Row positions, or subject ids.
    """

    def __init__(self, training: TrainingRows, unit: str):
        self.training, self.unit = training, unit
        if unit == "row":
            self.order: Positions = np.arange(training.own)
            self.starts = np.arange(training.own + 1)
            named = range(training.own) if training.names is None else training.names.tolist()
            self.names: list[Any] = list(named)
        elif unit == "subject":
            groups = training.rows_of_subject
            self.order = np.concatenate(list(groups.values()))
            self.starts = np.concatenate([[0], np.cumsum([len(g) for g in groups.values()])])
            self.names = list(groups)
        else:
            raise HoldfastError(f"unit must be 'row' or 'subject', got {unit!r}")
        self.sizes = np.diff(self.starts)
        self.single = bool(np.all(self.sizes == 1))
        #: whether the order is that of the training rows, all of them
        self.as_trained = unit == "row" and not training.standing

    def among(self, some: Positions) -> Units:
        """Only some of the units as candidates; what is trained on stays the same."""
        fewer = copy.copy(self)
        fewer.__dict__.pop("_class_counts", None)
        fewer.as_trained = False
        fewer.order, fewer.sizes = self.rows(some.tolist()), self.sizes[some]
        fewer.starts = np.concatenate([[0], np.cumsum(fewer.sizes)])
        fewer.names = [self.names[u] for u in some.tolist()]
        return fewer

    def renumbered(self) -> Units:
        """The same units of their own rows only, numbered in the order they have here."""
        own = copy.copy(self)
        own.__dict__.pop("_class_counts", None)
        own.training, own.order = self.training.only(self.order), np.arange(self.order.size)
        own.as_trained = True
        return own

    def __len__(self) -> int:
        return len(self.starts) - 1

    def drawn(self, rng: Any, count: int | None = None) -> Positions:
        """Units at random, in random order: of those that are a fair sample of all there are."""
        fair = self.training.sample
        if fair is None:
            pool: Any = len(self)
        else:
            unit_of = np.empty(self.training.n, dtype=np.intp)
            unit_of[self.order] = np.repeat(np.arange(len(self)), self.sizes)
            pool = np.unique(unit_of[fair])
        found: Positions = (
            rng.permutation(pool) if count is None else rng.choice(pool, count, replace=False)
        )
        return found

    def rows(self, units: Sequence[int]) -> Positions:
        """Positions of the training rows of some units."""
        parts = [self.order[self.starts[u] : self.starts[u + 1]] for u in units]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)

    def places(self, unit: int) -> slice:
        """Where the rows of one unit stand in the order."""
        return slice(int(self.starts[unit]), int(self.starts[unit + 1]))

    def by_size(self) -> Iterator[tuple[Positions, npt.NDArray[np.intp]]]:
        """Units of equal size together: their numbers, and their places in the order (g, b)."""
        for size in np.unique(self.sizes):
            members = np.flatnonzero(self.sizes == size)
            yield members, self.starts[members][:, None] + np.arange(size)

    def chunks(self, rows_each: int) -> list[tuple[int, int]]:
        """Runs of units of about so many rows."""
        cuts = [0]
        while cuts[-1] < len(self):
            reach = (
                np.searchsorted(self.starts, self.starts[cuts[-1]] + rows_each, side="right") - 1
            )
            cuts.append(min(len(self), max(int(reach), cuts[-1] + 1)))
        return list(itertools.pairwise(cuts))

    @cached_property
    def _class_counts(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Rows of positive weight of either class: all of them (2,), and by unit (units, 2)."""
        classes, weights = self.training.classes, self.training.weights
        assert classes is not None
        alive = np.ones(self.training.n) if weights is None else (weights > 0).astype(float)
        counts = np.stack([alive * (classes == 0), alive * (classes == 1)], axis=1)
        by_unit = np.add.reduceat(counts[self.order], self.starts[:-1], axis=0)
        return counts.sum(axis=0), by_unit

    def keeps_classes(self, gone: Positions) -> npt.NDArray[np.bool_]:
        """Which units can go, after some rows went, without a class or all rows vanishing."""
        left_rows = self.training.n - gone.size
        possible = self.sizes < left_rows
        if self.training.classes is not None:
            alive = None if self.training.weights is None else self.training.weights[gone] > 0
            went = np.bincount(self.training.classes[gone], weights=alive, minlength=2)
            everything, by_unit = self._class_counts
            possible &= np.all(everything - went - by_unit > 0, axis=1)
        return possible

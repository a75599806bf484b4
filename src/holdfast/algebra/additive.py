"""Effects that are known one by one and add up: ``C`` as a table, ``P = I``, ``r = 1``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.algebra.deletions import FLOOR, Deletions
from holdfast.algebra.fit_by_weight import FitByWeight
from holdfast.algebra.rows import Array, Positions, TrainingRows
from holdfast.algebra.tiles import Stored, Tiles
from holdfast.errors import UnsupportedModelError


class Additive(Deletions):
    """What every row does to every functional, whoever else goes."""

    coupled = False
    floor = FLOOR

    @property
    @abstractmethod
    def effects(self) -> Array:
        """``C``, (functionals, n)."""

    @property
    def residuals(self) -> Array:  # type: ignore[override]
        return np.ones(self.rows.n)

    @property
    def diagonal(self) -> Array:
        return np.ones(self.rows.n)

    def columns(self, rows: Positions | slice) -> Array:
        return self.effects[:, rows]

    def block(self, rows: Positions) -> Array:
        return np.eye(rows.size)

    def coupling(self, rows: Positions, at: Positions | None = None) -> Array:
        at = np.arange(self.rows.n) if at is None else at
        return np.asarray(at[:, None] == rows, dtype=float)

    def less(self, others: Deletions, weights: Array) -> Deletions:
        return KnownEffects(self.effects - weights @ others.dense(), self.rows)

    def tiles(self, order: Positions) -> Tiles:
        return Stored(np.ascontiguousarray(self.effects.T[order]))

    def blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        size = rows.shape[1]
        return np.broadcast_to(np.eye(size), (len(rows), size, size)).copy()

    def functionals(self, some: slice) -> Array:
        return np.ascontiguousarray(self.effects[some])

    def couplings(self, rows: Positions, whitening: Any) -> Callable[[slice], Array]:
        return lambda some: np.zeros((len(rows[some]), len(rows)))

    def fit_by_weight(self, rows: Positions) -> FitByWeight:
        raise UnsupportedModelError("there is no fit between having a row and not having it")


class KnownEffects(Additive):
    """Such effects, given as a table (functionals, n)."""

    exact = False

    def __init__(self, effects: Array, rows: TrainingRows):
        self._effects, self.rows = effects, rows
        self.shape = (len(effects),)

    @property
    def effects(self) -> Array:
        return self._effects

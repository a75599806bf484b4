"""How refitting the preprocessing re-weights the penalty, of a table in files."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.models.recipe import COMMON
from holdfast.models.scale_bounds import deviation_shares
from holdfast.models.scales import Column, Scales


class ScannedScales(Scales):
    """Scales of a table in files: deviations of columns without gaps, known by their sums.

    Parameters
    ----------
    model : a list of rows of a table in files
    """

    def __init__(self, model: Any):
        recipe = model.recipe
        self._many, numbers = float(recipe.rows), len(recipe.fills)
        self.n = model.rows.n
        standing = np.zeros((model.rows.standing, recipe.width - 1))
        Z = np.vstack([model.found.phi[:, 1:], standing])
        spread = recipe.moments.squares > 0
        kinds = ["deviation" if spread[f] else "fixed" for f in range(numbers)]
        kinds += ["fixed"] * (recipe.width - 1 - numbers)
        names = [*recipe.scan.numbers, *[""] * (recipe.width - 1 - numbers)]
        self.columns = [
            Column(Z[:, f], kind, name, centred=kind != "fixed", source=min(f, numbers))
            for f, (kind, name) in enumerate(zip(kinds, names, strict=True))
        ]
        self.before = np.ones(len(self.columns))
        self.moving = np.array([kind != "fixed" for kind in kinds], dtype=bool)
        self._own = model.rows.own
        ends = np.maximum(recipe.moments.most - recipe.means, recipe.means - recipe.moments.least)
        self._farthest = (ends / recipe.scales)[self.moving[:numbers]]

    @cached_property
    def _deviations(self) -> tuple[Positions, Array, Array]:
        some = np.flatnonzero(self.moving)
        Z = np.column_stack([np.zeros((self.n, 0)), *(self.columns[f].values for f in some)])
        known = np.zeros(Z.shape)
        known[: self._own] = 1.0
        return some, Z, known

    @cached_property
    def _totals(self) -> tuple[Array, Array, Array]:
        count = np.full(int(self.moving.sum()), self._many)
        return count, np.zeros(count.size), count.copy()

    def _anew(self, f: int, rows: Positions) -> float:
        return 1e-12  # next to nothing of its spread is left

    def outside_shares(self, k: int) -> tuple[Array, Array]:
        """What a row outside adds to each ``ρ − 1``, and to the contrary, at most."""
        up, down = np.zeros((2, len(self.columns)))
        count = self._totals[0]
        up[self.moving] = 1.0 / np.maximum(count - k, 1.0)
        far = deviation_shares(self._farthest[:, None], np.ones((count.size, 1)), count[:, None], k)
        down[self.moving] = np.maximum(far[1][:, 0], 0.0)
        return up, down

    def interval(self, k: int, stay: Positions | None = None) -> tuple[Array, Array]:
        up, down, _ = self.shares(k, np.zeros(0, dtype=np.intp))
        most = self.outside_shares(k)
        ends = []
        for part, other in ((down, most[1]), (up, most[0])):
            top = np.partition(part, part.shape[1] - k, axis=1)[:, -k:]
            ends.append(np.maximum(top, other[:, None]).sum(axis=1))
        low, high = 1.0 - ends[0], 1.0 + ends[1]
        return np.minimum(np.where(self.moving, low, 1.0), 1.0), np.where(self.moving, high, 1.0)

    @property
    def rarest(self) -> int:
        return COMMON

    def lost(self, rows: Positions, Z: Array) -> Any:
        return np.zeros(len(Z), dtype=bool)  # a value that nobody has any more is like a rare one

    def covers(self, queries: Any) -> bool:
        return True

"""Rows of ``C`` transposed, some at a time: made by a product, or held whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from holdfast.algebra.rows import Array, Positions


class Tiles(Protocol):
    """Rows of ``C`` transposed, in some order of the training rows."""

    def __call__(self, rows: Any) -> Array:
        """(rows, functionals), before any deletion."""

    def without(self, gone: Positions) -> Callable[[Any], Array] | None:
        """The same after rows ``gone`` went, where that costs no more; else ``None``."""


class Products:
    """Tiles of a low-rank ``C``, each one product that never leaves the cache."""

    def __init__(self, queries: Array, factor: Array, moved: Callable[[Positions], Array | None]):
        self._queries, self._factor, self._moved = queries, factor, moved
        self._right = np.ascontiguousarray(queries.T)

    def __call__(self, rows: Any) -> Array:
        tile: Array = self._factor[rows] @ self._right
        return tile

    def without(self, gone: Positions) -> Callable[[Any], Array] | None:
        """With ``W' = W + C_T Z U_T`` for ``W``: one product does both, for rows still there."""
        moved = self._moved(gone)
        if moved is None:
            return self
        right = np.ascontiguousarray((self._queries @ moved).T)
        return lambda rows: self._factor[rows] @ right


class Stored:
    """Tiles of a ``C`` that is held whole."""

    def __init__(self, dense: Array):
        self._dense = dense

    def __call__(self, rows: Any) -> Array:
        return self._dense[rows]

    def without(self, gone: Positions) -> Callable[[Any], Array] | None:
        return None

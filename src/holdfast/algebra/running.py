"""Where the tiles of ``C'`` come from after some deletions.

``C'`` is never inverted for, refitted for or made anew; it comes in one of three ways:

- a search that deletes one more at a time has a running copy of ``C``, brought up to date in place
  within the sweep itself: one read and one write of memory;
- any other ``T`` where the triple makes rows of ``C'`` as fast as rows of ``C`` (low rank): one
  small product per tile, which never leaves the cache. Problems too large to hold ``C`` use only
  this;
- any other ``T``: tiles of ``C`` corrected by a product of rank ``|T|``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.algebra.states import State, States
from holdfast.algebra.tiles import Tiles
from holdfast.algebra.units import Units

#: entries of a tile made by a product: two megabytes, which stay in the cache
_TILE = 1 << 18
#: bytes of C up to which a running copy is kept
RUNNING_COPY = 1 << 28

#: rows → ``C'`` transposed, and what is still to be taken off it (lag, gone)
TilesAt = Callable[[slice], tuple[Array, Array, Array]]


class TileSource:
    """Tiles of ``C'`` for any state, in the cheapest of the ways above.

    Parameters
    ----------
    tiles : Tiles
        Of ``C`` before any deletion.
    states : States
    units : Units
    streams : bool
        Whether tiles are made anew each time, so that a copy need not be copied.
    threads : int
        Chunks are cut so that each thread has a few.
    """

    def __init__(self, tiles: Tiles, states: States, units: Units, streams: bool, threads: int):
        self._tiles, self._states, self._units = tiles, states, units
        self._streams, self._threads = streams, threads
        n, q = states.start.residuals.size, states.start.base.size
        self._nothing = (np.zeros((n, 0)), np.zeros((0, q)))
        self._running: Array | None = None
        self._running_units: tuple[int, ...] | None = None
        self._pending = self._nothing
        self.keeps_a_running_copy = 8 * n * q <= RUNNING_COPY

    def at(self, state: State) -> tuple[TilesAt, int]:
        """How to make ``C'`` transposed, a slice of rows at a time; and how many rows at a time."""
        if self._follows(state) and self._running is not None:
            running, (lag, gone) = self._running, self._pending
            many = -(-len(running) // (4 * self._threads))
            return lambda rows: (running[rows], lag[rows], gone), many
        few = max(1, _TILE // max(state.base.size, 1))
        none = self._nothing
        make = self._tiles.without(state.gone) if len(state.effects) else None
        if make is not None:
            tile = make
            return lambda rows: (tile(rows), none[0][rows], none[1]), few
        return lambda rows: (self._states.effects(state, rows), none[0][rows], none[1]), few

    def _follows(self, state: State) -> bool:
        """Whether the running copy of ``C`` is at this state, or one deletion behind it."""
        if not self.keeps_a_running_copy:
            return False
        self._pending = self._nothing
        if state.units == () and self._running_units != ():
            fresh = self._states.effects(state)
            self._running = fresh if self._streams else fresh.copy()
        elif state.units != self._running_units:
            # one block behind: what is still to be taken off is the state's own last block
            if state.parent != self._running_units or len(state.units) != len(state.parent) + 1:
                return False
            if len(state.effects):
                width = int(self._units.sizes[state.units[-1]])
                lag = np.ascontiguousarray(state.left[:, -width:])
                self._pending = (lag, state.effects[-width:])
        self._running_units = state.units
        return True

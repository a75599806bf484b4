"""Sweeps: what would each candidate do, all of them at once, after some deletions?

A candidate ``i`` lowers the scores by ``C'_i r'_i / P'_ii`` on top of what the rows already gone
did. :mod:`holdfast.algebra.states` has the small algebra, :mod:`holdfast.algebra.running` makes
the tiles of ``C'``, :mod:`holdfast.algebra.executors` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.algebra.deletions import Deletions
from holdfast.algebra.executors import Executor, Threads
from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.running import TileSource
from holdfast.algebra.states import State, States
from holdfast.algebra.threads import cores
from holdfast.algebra.units import Units

#: entries of C below which threads cost more than they save
SMALL = 1 << 19

#: a step this small is none; what a row changes beside is divided by it
_NO_STEP = 1e-9

#: takes tile, lag, gone, steps and starts, fills value and tie, and takes more of its own
Reduction = Callable[..., None]


@dataclass(frozen=True)
class Sweep:
    """For every candidate: its value, a tie-break (higher is better), and whether it can go."""

    value: Array
    tie: Array
    possible: npt.NDArray[np.bool_]

    def ranked(self, most: int | None = None) -> Positions:
        """Candidates from best to worst; ties go to the lowest index."""
        value = np.where(self.possible, self.value, -np.inf)
        order = np.lexsort((np.arange(value.size), -self.tie, -value))
        order = order[self.possible[order]]
        return order[:most]

    @property
    def best(self) -> int:
        """The best candidate that can go."""
        value = np.where(self.possible, self.value, -np.inf)
        leaders = np.flatnonzero(value == value.max())
        return int(leaders[np.argmax(self.tie[leaders])])


class Sweeps:
    """Functionals of a model with the algebra, and candidates whose deletion may move them.

    Parameters
    ----------
    deletions : Deletions
    units : Units
        What is deleted as one: rows, or subjects.
    executor : Executor or int, optional
        Where chunks run, or how many threads; all cores by default.
    """

    def __init__(self, deletions: Deletions, units: Units, executor: Executor | int | None = None):
        self.deletions, self.units = deletions, units
        if executor is None or isinstance(executor, int):
            small = units.order.size * int(np.prod(deletions.shape)) < SMALL
            executor = Threads(1 if small and executor is None else executor or cores())
        self.executor: Executor = executor
        deletions.prepare()
        self._tiles = deletions.tiles(units.order)
        self.states = States(deletions, units, self._tiles)
        self.source = TileSource(
            self._tiles, self.states, units, deletions.streams, self.executor.threads
        )
        self.source.keeps_a_running_copy &= deletions.also is None

    def state(self, units: Sequence[int]) -> State:
        """The triple without some units; raises where that fit is singular."""
        return self.states.without(units)

    def effects(self, state: State, rows: Any = slice(None)) -> Array:
        """``C'`` transposed, (rows, functionals)."""
        return self.states.effects(state, rows)

    def drop(self, units: Sequence[int]) -> Array:
        """The drop of every functional when these units go together."""
        rows = self.units.rows(units)
        if self.deletions.streams or self.deletions.refined or self.deletions.also is not None:
            return self.deletions.effect_at(rows).ravel()
        return self.deletions.solve(rows) @ self._tiles(self._places[rows])

    @cached_property
    def _places(self) -> Positions:
        """Where each row is in the order of the units."""
        return np.argsort(self.units.order)

    def sweep(self, state: State, reduce: Reduction, *more: Any) -> Sweep:
        """Reduce every candidate's effects, tile by tile, on all threads."""
        starts, also = self.units.starts, self.deletions.also
        right = np.zeros((0, 0)) if also is None else np.ascontiguousarray(also.functionals.T)
        tiles, rows_each = self.source.at(state)

        def work(chunk: tuple[int, int]) -> tuple[Array, Array]:
            first, last = chunk
            rows = slice(int(starts[first]), int(starts[last]))
            value, tie = np.zeros(last - first), np.zeros(last - first)
            some = starts[first : last + 1]
            tile, lag, gone = tiles(rows)
            steps = state.steps[rows]
            if also is not None:  # as entries of C: a step times its entry is what a row does
                steps = np.where(np.abs(steps) > _NO_STEP, steps, _NO_STEP)
                with np.errstate(over="ignore", invalid="ignore"):
                    tile = tile + (also.rows[self.units.order[rows]] / steps[:, None]) @ right
            reduce(tile, lag, gone, steps, some, value, tie, *more)
            return value, tie

        work.loop = reduce  # type: ignore[attr-defined]
        found = self.executor.map(work, self.units.chunks(rows_each))
        value, tie = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Sweep(value, tie, state.possible)

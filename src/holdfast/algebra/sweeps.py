"""What a search works on: recourses, their margins, and sweeps over all candidates at once.

A *sweep* answers, for rows ``T`` already deleted and every candidate at the same time: what would
deleting it too do to the recourses? With ``Z = P_TT⁻¹`` the triple without ``T`` is

    C' = C − C_T Z P_T,    P' = P − P_:T Z P_T:,    r' = r − P_:T Z r_T,

so a candidate ``i`` lowers the scores by ``C'_i r'_i / P'_ii`` on top of ``C_T Z r_T``. ``C'`` is
never inverted for, refitted for or made anew; it comes in one of three ways:

- a search that deletes one more at a time has a running copy of ``C``, brought up to date in place
  within the sweep itself: one read and one write of memory;
- any other ``T`` of a low-rank model: ``C' = W' Uᵀ`` with ``W' = W + C_T Z U_T``, one small product
  per tile, which never leaves the cache. Problems too large to hold ``C`` use only this;
- any other ``T`` of a kernel model: tiles of ``C`` corrected by a product of rank ``|T|``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg
from threadpoolctl import ThreadpoolController

from holdfast.algebra.deletions import Deletions, KernelDeletions, LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.units import Units

#: entries of a tile made by a product: two megabytes, which stay in the cache
_TILE = 1 << 18
#: bytes of C up to which a running copy is kept
RUNNING_COPY = 1 << 30
#: low-rank models with more parameters than this are cheaper to hold as a dense C
_STREAMED_RANK = 128


#: rows → ``C'`` transposed, and what is still to be taken off it (lag, gone)
Tiles = Callable[[slice], tuple[Array, Array, Array]]
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


@dataclass(frozen=True)
class State:
    """The triple without ``T``.

    Attributes
    ----------
    units, gone
        ``T`` as units and as rows.
    parent
        The units of the state this one was reached from, in one block.
    base : ndarray of shape (functionals,)
        What the deletion of ``T`` did.
    residuals, diagonal : ndarray of shape (n,)
        ``r'`` and the diagonal of ``P'``.
    steps : ndarray of shape (n,)
        ``P'_BB⁻¹ r'_B`` for the rows ``B`` of every candidate.
    possible : ndarray of bool
        Which candidates can go.
    left, right : ndarrays of shape (n, k)
        ``P' = P − left rightᵀ``.
    effects : ndarray of shape (k, functionals)
        ``C' = C − left effects`` (transposed).
    """

    units: tuple[int, ...]
    parent: tuple[int, ...]
    gone: Positions
    base: Array
    residuals: Array
    diagonal: Array
    steps: Array
    possible: npt.NDArray[np.bool_]
    left: Array
    right: Array
    effects: Array


class Problem:
    """Functionals of a model with the algebra, and candidates whose deletion may move them.

    Parameters
    ----------
    deletions : Deletions
    units : Units
        What is deleted as one: rows, or subjects.
    threads : int
        Threads a sweep uses; BLAS gets one inside each.
    """

    def __init__(self, deletions: Deletions, units: Units, threads: int | None = None):
        self.deletions, self.units = deletions, units
        self.threads = threads or os.cpu_count() or 1
        order = units.order
        self.residuals = np.ascontiguousarray(deletions.residuals[order])
        self.diagonal = np.ascontiguousarray(deletions.diagonal[order])
        self.streamed = (
            isinstance(deletions, LowRankDeletions) and deletions.queries.shape[1] <= _STREAMED_RANK
        )
        self._coupled = not isinstance(deletions, LowRankDeletions) or deletions.coupled
        if isinstance(deletions, LowRankDeletions) and self.streamed:
            self._factor = np.ascontiguousarray(deletions.factor[order])
            self._queries = deletions.queries
            self.n_functionals = len(deletions.queries)
        else:
            self._dense = np.ascontiguousarray(deletions.dense().T[order])
            if isinstance(deletions, KernelDeletions):
                deletions.inverse.form()
            self.n_functionals = self._dense.shape[1]
        n = len(self.residuals)
        self._nothing = (np.zeros((n, 0)), np.zeros((0, self.n_functionals)))
        self._running: Array | None = None
        self._running_units: tuple[int, ...] | None = None
        self.keeps_a_running_copy = 8 * n * self.n_functionals <= RUNNING_COPY
        empty = np.zeros((n, 0))
        self._start = self._completed(
            (),
            (),
            self._no_rows,
            np.zeros(self.n_functionals),
            self.residuals,
            self.diagonal,
            empty,
            empty,
            np.zeros((0, self.n_functionals)),
        )
        self._latest = self._start

    _no_rows = np.empty(0, dtype=np.intp)

    # the triple without T -----------------------------------------------------------------

    def state(self, units: Sequence[int]) -> State:
        """The triple without some units; raises where that fit is singular."""
        wanted = tuple(units)
        if wanted != self._latest.units:
            one_more = wanted[:-1] == self._latest.units
            before = self._latest if one_more else self._start
            self._latest = self._advanced(before, wanted[len(before.units) :])
        return self._latest

    def _advanced(self, state: State, more: tuple[int, ...]) -> State:
        """The triple without some more units, which go as one block."""
        if not more:
            return state
        rows = self.units.rows(more)
        places = np.concatenate([np.r_[self.units.places(u)] for u in more])
        effects = self.effects(state, places)
        if self._coupled:
            columns = self.deletions.coupling(rows)[self.units.order]
            columns -= state.left @ state.right[places].T
            values, vectors = linalg.eigh(columns[places])
            if values[0] <= self.deletions.floor:
                self.deletions.solve(np.concatenate([state.gone, rows]))  # says which rows
            inverse = (vectors / values) @ vectors.T
            lag = columns @ inverse
            left, right = np.hstack([state.left, lag]), np.hstack([state.right, columns])
            residuals = state.residuals - lag @ state.residuals[places]
            diagonal = state.diagonal - np.einsum("ij,ij->i", lag, columns)
            base = state.base + (inverse @ state.residuals[places]) @ effects
            effects = np.vstack([state.effects, effects])
        else:
            left, right = state.left, state.right
            residuals, diagonal = state.residuals, state.diagonal
            base = state.base + state.residuals[places] @ effects
            effects = state.effects
        gone = np.concatenate([state.gone, rows])
        return self._completed(
            (*state.units, *more),
            state.units,
            gone,
            base,
            residuals,
            diagonal,
            left,
            right,
            effects,
        )

    def _completed(
        self,
        units: tuple[int, ...],
        parent: tuple[int, ...],
        gone: Positions,
        base: Array,
        residuals: Array,
        diagonal: Array,
        left: Array,
        right: Array,
        effects: Array,
    ) -> State:
        """A state with the step of every candidate, and whether it can go."""
        floor = self.deletions.floor
        steps = np.zeros(residuals.size)
        possible = self.units.keeps_classes(gone)
        possible[list(units)] = False
        if self.units.single:
            possible &= diagonal > floor
            np.divide(residuals, diagonal, out=steps, where=possible)
        else:
            for members, rows in self.units.by_size():
                blocks = self._blocks(rows) - np.einsum("gik,gjk->gij", left[rows], right[rows])
                values, vectors = np.linalg.eigh(blocks)
                fine = values[:, 0] > floor
                possible[members] &= fine
                values = np.where(fine[:, None], values, 1.0)
                rotated = np.einsum("gji,gj->gi", vectors, residuals[rows]) / values
                found = np.einsum("gij,gj->gi", vectors, rotated)
                steps[rows] = np.where(fine[:, None], found, 0.0)
        return State(
            units, parent, gone, base, residuals, diagonal, steps, possible, left, right, effects
        )

    def effects(self, state: State, rows: Any = slice(None)) -> Array:
        """``C'`` transposed, (rows, functionals)."""
        plain = self._factor[rows] @ self._queries.T if self.streamed else self._dense[rows]
        return plain - state.left[rows] @ state.effects if len(state.effects) else plain

    def _tiles(self, state: State) -> tuple[Tiles, int]:
        """How to make ``C'`` transposed, a slice of rows at a time; and how many rows at a time."""
        if self._follow(state):
            assert self._running is not None
            running, (lag, gone) = self._running, self._pending
            many = -(-len(running) // (4 * self.threads))
            return lambda rows: (running[rows], lag[rows], gone), many
        few = max(1, _TILE // self.n_functionals)
        none = self._nothing
        if self.streamed and len(state.effects):
            # for rows that are still there, left is a linear map of U: one product does both
            right = np.ascontiguousarray(self._queries_without(state).T)
            return lambda rows: (self._factor[rows] @ right, none[0][rows], none[1]), few
        return lambda rows: (self.effects(state, rows), none[0][rows], none[1]), few

    def _queries_without(self, state: State) -> Array:
        """``W' = W + C_T Z U_T``, the queries of a low-rank model after the deletions."""
        assert isinstance(self.deletions, LowRankDeletions)
        U = self.deletions.factor[state.gone]
        return self._queries @ (
            np.eye(U.shape[1]) + U.T @ linalg.inv(self.deletions.block(state.gone)) @ U
        )

    def _follow(self, state: State) -> bool:
        """Whether the running copy of ``C`` is at this state, or one deletion behind it."""
        if not self.keeps_a_running_copy:
            return False
        self._pending = self._nothing
        if state.units == () and self._running_units != ():
            fresh = self.effects(state)
            self._running = fresh if self.streamed else fresh.copy()
        elif state.units != self._running_units:
            # one block behind: what is still to be taken off is the state's own last block
            if state.parent != self._running_units or len(state.units) != len(state.parent) + 1:
                return False
            if len(state.effects):
                width = int(self.units.sizes[state.units[-1]])
                lag = np.ascontiguousarray(state.left[:, -width:])
                self._pending = (lag, state.effects[-width:])
        self._running_units = state.units
        return True

    def _blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        """``P_BB`` of every unit with as many rows, (units, b, b)."""
        key = rows.shape[1]
        if key not in self._block_cache:
            original = self.units.order[rows]
            if isinstance(self.deletions, LowRankDeletions):
                u = self.deletions.factor[original]
                blocks = np.broadcast_to(np.eye(key), (len(rows), key, key)).copy()
                if self.deletions.coupled:
                    blocks -= np.einsum("gip,gjp->gij", u, u)
            else:
                blocks = np.stack([self.deletions.block(b) for b in original])
            self._block_cache[key] = blocks
        return self._block_cache[key]

    def _warmed_up(self, work: Any, chunks: list[Any], reduce: Reduction) -> list[Any]:
        """The chunks left after the first use of a compiled loop, which must be in one thread."""
        if reduce in self._warm:
            return chunks
        self._warm.add(reduce)
        work(chunks[0])
        return chunks[1:]

    @cached_property
    def _warm(self) -> set[Any]:
        return set()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    @cached_property
    def _block_cache(self) -> dict[int, Array]:
        return {}

    def drop(self, units: Sequence[int]) -> Array:
        """The drop of every functional when these units go together."""
        rows = self.units.rows(units)
        if self.streamed or getattr(self.deletions, "move", None) is not None:
            return self.deletions.effect_at(rows).ravel()
        return self.deletions.solve(rows) @ self._dense[self._places[rows]]

    @cached_property
    def _places(self) -> Positions:
        """Where each row is in the order of the units."""
        return np.argsort(self.units.order)

    # sweeps -------------------------------------------------------------------------------

    def sweep(self, state: State, reduce: Reduction, *more: Any) -> Sweep:
        """Reduce every candidate's effects, tile by tile, on all threads."""
        starts = self.units.starts
        value, tie = np.zeros(len(self.units)), np.zeros(len(self.units))
        tiles, rows_each = self._tiles(state)
        chunks = self.units.chunks(rows_each)

        def work(chunk: tuple[int, int]) -> None:
            first, last = chunk
            rows = slice(int(starts[first]), int(starts[last]))
            reduce(
                *tiles(rows),
                state.steps[rows],
                starts[first : last + 1],
                value[first:last],
                tie[first:last],
                *more,
            )

        with _blas().limit(limits=1, user_api="blas"):
            if self.threads == 1 or len(chunks) == 1:
                for chunk in chunks:
                    work(chunk)
            else:
                list(self._pool.map(work, self._warmed_up(work, chunks, reduce)))
        return Sweep(value, tie, state.possible)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()

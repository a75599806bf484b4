"""What a search works on: recourses, their margins, and sweeps over all candidates at once.

A *sweep* answers, for rows ``T`` already deleted and every candidate at the same time: what would
deleting it too do to the recourses? With ``Z = P_TT⁻¹`` the triple without ``T`` is

    C' = C − C_T Z P_T,    P' = P − P_:T Z P_T:,    r' = r − P_:T Z r_T,

so a candidate ``i`` lowers the scores by ``C'_i r'_i / P'_ii`` on top of ``C_T Z r_T``. For
low-rank models ``C' = W' Uᵀ`` with ``W' = W + C_T Z U_T``: tiles of ``C'`` are one small product
each, made in the cache and never stored. For others tiles are read from ``C`` and corrected by a
product of rank ``|T|``. Nothing is updated in place, so any ``T`` can be asked about at any time.
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

from holdfast.models.deletions import Deletions, LowRankDeletions
from holdfast.models.rows import Array, Positions
from holdfast.searches.units import Units

#: entries of a tile: half a megabyte, which stays in a core's cache
_TILE = 1 << 16
#: low-rank models with more parameters than this are cheaper to hold as a dense C
_STREAMED_RANK = 128


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
    """The triple without ``T``: how to make its tiles, and what every row's step is."""

    gone: Positions
    base: Array
    steps: Array
    possible: npt.NDArray[np.bool_]
    tile: Callable[[slice], Array]


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
            self.n_functionals = len(deletions.queries)
        else:
            self._dense = np.ascontiguousarray(deletions.dense().T[order])
            self.n_functionals = self._dense.shape[1]
        per_tile = max(1, _TILE // self.n_functionals)
        self._chunks = units.chunks(per_tile)

    # the triple without T -----------------------------------------------------------------

    def state(self, gone_units: Sequence[int]) -> State:
        """The triple without some units; raises where that fit is singular."""
        gone = self.units.rows(gone_units)
        r, diagonal = self.residuals, self.diagonal
        base = np.zeros(self.n_functionals)
        pull: Array | None = None
        weights = np.zeros((0, self.n_functionals))
        if gone.size:
            solved = self.deletions.solve(gone)
            columns = self.deletions.columns(gone)
            base = columns @ solved
            if self._coupled:
                coupling = self.deletions.coupling(gone)[self.units.order]
                inverse = linalg.inv(self.deletions.block(gone))
                pull = coupling @ inverse
                r = r - coupling @ solved
                diagonal = diagonal - np.einsum("ij,ij->i", pull, coupling)
                weights = columns.T
        steps, possible = self._steps(r, diagonal, gone, pull)
        possible[list(gone_units)] = False
        return State(gone, base, steps, possible, self._tiles(gone, pull, weights))

    def _tiles(
        self, gone: Positions, pull: Array | None, weights: Array
    ) -> Callable[[slice], Array]:
        """How to make ``C'`` transposed, a slice of rows at a time."""
        if self.streamed:
            assert isinstance(self.deletions, LowRankDeletions)
            queries = self.deletions.queries
            if pull is not None:
                inverse = linalg.inv(self.deletions.block(gone))
                queries = queries + weights.T @ inverse @ self.deletions.factor[gone]
            right = np.ascontiguousarray(queries.T)
            return lambda rows: self._factor[rows] @ right
        if pull is None:
            return lambda rows: self._dense[rows]
        return lambda rows: self._dense[rows] - pull[rows] @ weights

    def _steps(
        self, r: Array, diagonal: Array, gone: Positions, pull: Array | None
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """``P'_BB⁻¹ r'_B`` for the rows B of every candidate, and which candidates can go."""
        floor = self.deletions.floor
        steps = np.zeros(r.size)
        possible = self.units.keeps_classes(gone)
        if self.units.single:
            possible &= diagonal > floor
            np.divide(r, diagonal, out=steps, where=possible)
            return steps, possible
        coupling = None if pull is None else self.deletions.coupling(gone)[self.units.order]
        for members, rows in self.units.by_size():
            blocks = self._blocks(rows)
            if pull is not None and coupling is not None:
                blocks = blocks - np.einsum("gik,gjk->gij", pull[rows], coupling[rows])
            values, vectors = np.linalg.eigh(blocks)
            fine = values[:, 0] > floor
            possible[members] &= fine
            values = np.where(fine[:, None], values, 1.0)
            rotated = np.einsum("gji,gj->gi", vectors, r[rows]) / values
            found = np.einsum("gij,gj->gi", vectors, rotated)
            steps[rows] = np.where(fine[:, None], found, 0.0)
        return steps, possible

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

    @cached_property
    def _block_cache(self) -> dict[int, Array]:
        return {}

    def drop(self, units: Sequence[int]) -> Array:
        """The drop of every functional when these units go together."""
        return self.deletions.effect_at(self.units.rows(units)).ravel()

    # sweeps -------------------------------------------------------------------------------

    def sweep(
        self, state: State, reduce: Callable[[Array, Array, Any, Array, Array], None]
    ) -> Sweep:
        """Reduce every candidate's effects, tile by tile, on all threads."""
        starts = self.units.starts
        value, tie = np.zeros(len(self.units)), np.zeros(len(self.units))

        def work(chunk: tuple[int, int]) -> None:
            first, last = chunk
            rows = slice(int(starts[first]), int(starts[last]))
            reduce(
                state.tile(rows),
                state.steps[rows],
                starts[first : last + 1],
                value[first:last],
                tie[first:last],
            )

        with _blas().limit(limits=1, user_api="blas"):
            if self.threads == 1 or len(self._chunks) == 1:
                for chunk in self._chunks:
                    work(chunk)
            else:
                work(self._chunks[0])  # compiles, or loads what was compiled, in one thread
                with ThreadPoolExecutor(self.threads) as pool:
                    list(pool.map(work, self._chunks[1:]))
        return Sweep(value, tie, state.possible)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()

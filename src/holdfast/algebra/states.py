"""The triple after deletions: small algebra, no look at all of ``C``.

With ``Z = P_TT⁻¹`` the triple without the rows ``T`` is

    C' = C − C_T Z P_T,    P' = P − P_:T Z P_T:,    r' = r − P_:T Z r_T .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.tiles import Tiles
from holdfast.algebra.units import Units


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


class States:
    """States of one triple; the latest is kept, since most searches delete one more at a time.

    Parameters
    ----------
    deletions : Deletions
    units : Units
        What is deleted as one: rows, or subjects.
    tiles : Tiles
        Rows of ``C`` transposed, in the order of the units.
    """

    def __init__(self, deletions: Deletions, units: Units, tiles: Tiles):
        self._deletions, self._units, self._tiles = deletions, units, tiles
        order, q = units.order, int(np.prod(deletions.shape))
        residuals = np.ascontiguousarray(deletions.residuals[order])
        diagonal = np.ascontiguousarray(deletions.diagonal[order])
        empty = np.zeros((residuals.size, 0))
        self.start = self._completed(
            State(
                units=(),
                parent=(),
                gone=np.empty(0, dtype=np.intp),
                base=np.zeros(q),
                residuals=residuals,
                diagonal=diagonal,
                steps=np.zeros(residuals.size),
                possible=np.ones(len(units), dtype=bool),
                left=empty,
                right=empty,
                effects=np.zeros((0, q)),
            )
        )
        self._latest = self.start

    def without(self, units: Sequence[int]) -> State:
        """The triple without some units; raises where that fit is singular."""
        wanted = tuple(units)
        if wanted != self._latest.units:
            one_more = wanted[:-1] == self._latest.units
            before = self._latest if one_more else self.start
            self._latest = self._advanced(before, wanted[len(before.units) :])
        return self._latest

    def effects(self, state: State, rows: Any = slice(None)) -> Array:
        """``C'`` transposed, (rows, functionals)."""
        plain = self._tiles(rows)
        return plain - state.left[rows] @ state.effects if len(state.effects) else plain

    def _advanced(self, state: State, more: tuple[int, ...]) -> State:
        """The triple without some more units, which go as one block."""
        if not more:
            return state
        rows = self._units.rows(more)
        places = np.concatenate([np.r_[self._units.places(u)] for u in more])
        effects = self.effects(state, places)
        gone = np.concatenate([state.gone, rows])
        before = state.base
        if self._deletions.also is not None:
            before = before + self._deletions.also.effect(rows)
        moved = replace(state, units=(*state.units, *more), parent=state.units, gone=gone)
        if not self._deletions.coupled:
            base = before + state.residuals[places] @ effects
            return self._completed(replace(moved, base=base))
        at = None if self._units.as_trained else self._units.order
        columns = self._deletions.coupling(rows, at)
        columns -= state.left @ state.right[places].T
        values, vectors = linalg.eigh(columns[places])
        if values[0] <= self._deletions.floor:
            self._deletions.solve(gone)  # says which rows
        inverse = (vectors / values) @ vectors.T
        lag = columns @ inverse
        return self._completed(
            replace(
                moved,
                base=before + (inverse @ state.residuals[places]) @ effects,
                residuals=state.residuals - lag @ state.residuals[places],
                diagonal=state.diagonal - np.einsum("ij,ij->i", lag, columns),
                left=np.hstack([state.left, lag]),
                right=np.hstack([state.right, columns]),
                effects=np.vstack([state.effects, effects]),
            )
        )

    def _completed(self, state: State) -> State:
        """A state with the step of every candidate, and whether it can go."""
        floor, residuals = self._deletions.floor, state.residuals
        steps = np.zeros(residuals.size)
        possible = self._units.keeps_classes(state.gone)
        possible[list(state.units)] = False
        if self._units.single:
            possible &= state.diagonal > floor
            np.divide(residuals, state.diagonal, out=steps, where=possible)
            return replace(state, steps=steps, possible=possible)
        for members, rows in self._units.by_size():
            shift = np.einsum("gik,gjk->gij", state.left[rows], state.right[rows])
            values, vectors = np.linalg.eigh(self._blocks(rows) - shift)
            fine = values[:, 0] > floor
            possible[members] &= fine
            values = np.where(fine[:, None], values, 1.0)
            rotated = np.einsum("gji,gj->gi", vectors, residuals[rows]) / values
            found = np.einsum("gij,gj->gi", vectors, rotated)
            steps[rows] = np.where(fine[:, None], found, 0.0)
        return replace(state, steps=steps, possible=possible)

    def _blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        """``P_BB`` of every unit with as many rows, (units, b, b)."""
        size = rows.shape[1]
        if size not in self._known_blocks:
            self._known_blocks[size] = self._deletions.blocks(self._units.order[rows])
        return self._known_blocks[size]

    @cached_property
    def _known_blocks(self) -> dict[int, Array]:
        return {}

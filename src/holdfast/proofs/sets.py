r"""What sets of at most ``k`` units can do in one Newton step, before any is tried.

A unit is a row, or all rows of a person. Within a unit rows are whitened, :math:`ũ_B =
P_{BB}^{-½}u_B`, so that :math:`E = ŨŨᵀ` is looked at between units only, and :math:`effect(S) =
Σ_{B∈S} c̃_Bᵀx_B` with :math:`x = r̃_S + E_{SS}x`. Boxes bound every entry of ``x`` for every ``S``
of at most ``k`` units, as in :mod:`holdfast.algebra.boxes`, sums of the largest being over units.
Pairs are looked at within a core of the strongest; of the others lengths are enough: ``|e_ij| ≤
‖ũ_i‖ ‖ũ_j‖``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.unit_loops import shared_out, unit_sums

#: rows between which pairs are looked at
CORE = 400

#: signed passes over the boxes
_PASSES = 4

#: outward rounding
OUT = 1.0 + 1e-10

#: an eigenvalue of ``P_BB`` below which a unit's going leaves no unique fit
_SINGULAR = 1e-9


def largest_sum(values: Array, count: int) -> float:
    """The sum of the ``count`` largest values."""
    if count <= 0 or values.size == 0:
        return 0.0
    count = min(count, values.size)
    return float(np.partition(values, values.size - count)[-count:].sum())


def largest_sums(rows: Array, count: int) -> Array:
    """The ``count`` largest entries of every line, in no order."""
    count = min(max(count, 0), rows.shape[1])
    if count == 0:
        return rows[:, :0]
    found: Array = np.partition(rows, rows.shape[1] - count, axis=1)[:, -count:]
    return found


class Pool:
    """Units that may go, and their rows at one point.

    Parameters
    ----------
    U, residuals : ndarrays of shape (m, p) and (m,)
        Of their rows, those of a unit being neighbours.
    starts : where each unit begins
    """

    def __init__(self, U: Array, residuals: Array, starts: Positions):
        self.U, self.residuals, self.starts = U, residuals, starts
        self.single = len(starts) == len(U) + 1
        self.leverage = self.by_unit(np.einsum("ij,ij->i", U, U))
        self._roots: list[tuple[Any, Array]] = []
        self.fine = self._whiten()

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def gradients(self) -> Array:
        """``g`` of every unit, (units, p)."""
        of_rows = self.U * self.residuals[:, None]
        return of_rows if self.single else np.add.reduceat(of_rows, self.starts[:-1], axis=0)

    @cached_property
    def lengths(self) -> Array:
        """``‖g‖``."""
        return np.sqrt(np.einsum("ij,ij->i", self.gradients, self.gradients))

    def by_unit(self, of_rows: Array) -> Array:
        """Sums over the rows of every unit, along the last axis."""
        if self.single or of_rows.shape[-1] == 0:
            return of_rows
        found: Array = np.add.reduceat(of_rows, self.starts[:-1], axis=-1)
        return found

    def _whiten(self) -> bool:
        """``Ũ`` and ``r̃``; whether all units can go alone."""
        if self.single:
            left = 1.0 - self.leverage
            if np.any(left <= _SINGULAR):
                return False
            self._scale = 1.0 / np.sqrt(left)
            self.whitened = self.U * self._scale[:, None]
            self.scaled = self.residuals * self._scale
            return True
        sizes = np.diff(self.starts)
        for size in np.unique(sizes):
            places = self.starts[:-1][sizes == size][:, None] + np.arange(size)
            blocks = self.U[places]
            values, vectors = np.linalg.eigh(np.eye(size) - blocks @ blocks.swapaxes(1, 2))
            if np.any(values <= _SINGULAR):
                return False
            roots = (vectors * (values**-0.5)[:, None, :]) @ vectors.swapaxes(1, 2)
            self._roots.append((places, roots))
        self.whitened = self.scale(self.U)
        self.scaled = self.scale(self.residuals)
        return True

    def scale(self, of_rows: Array) -> Array:
        """``P_BB^-½`` times the entries of every unit, along the first axis."""
        if self.single:
            return of_rows * (self._scale if of_rows.ndim == 1 else self._scale[:, None])
        out = np.empty_like(of_rows)
        for places, roots in self._roots:
            part = of_rows[places]
            part = roots @ part if of_rows.ndim > 1 else (roots @ part[:, :, None])[:, :, 0]
            out[places] = part
        return out

    def spread(self, count: int, shares: Array | None = None) -> float:
        r"""A bound on the largest eigenvalue of :math:`Σ_{S} s_i u_i u_iᵀ`, ``count`` units in all.

        The sum of the largest leverages, Gershgorin's and Frobenius' bound; ``shares`` (of rows)
        are at most 1.
        """
        U = self.U if shares is None else self.U * np.sqrt(shares)[:, None]
        own = self.leverage
        if shares is not None:
            own = self.by_unit(np.einsum("ij,ij->i", U, U))
        bound = largest_sum(own, count)
        if count == 1 or len(self) == 1 or bound == 0.0:
            return bound * OUT
        core = self.strongest(own, CORE // 2)
        rows, starts = self.rows_of(core)
        products = U[rows] @ U[rows].T
        if self.single:
            ties = np.abs(products)
        else:
            squares = np.add.reduceat(products**2, starts[:-1], axis=0)
            ties = np.sqrt(np.add.reduceat(squares, starts[:-1], axis=1))
        np.fill_diagonal(ties, 0.0)
        others = np.delete(own, core)
        rest = float(np.sqrt(others.max(initial=0.0)))
        lengths = np.sqrt(own[core])
        top = np.maximum(largest_sums(ties, count - 1), lengths[:, None] * rest)
        short = count - 1 - top.shape[1]
        if short > 0:  # large units: partners that are not in the core
            top = np.hstack([top, np.repeat(lengths[:, None] * rest, short, axis=1)])
        longest = max(float(lengths.max()), rest)
        row_sums = max(
            float((own[core] + top.sum(axis=1)).max()), rest * (rest + (count - 1) * longest)
        )
        squares = own[core] ** 2 + np.sum(top**2, axis=1)
        beside = rest**4 + rest**2 * largest_sum(own, count - 1)
        squares = np.maximum(squares, beside)
        most = largest_sum(squares, count) + max(count - squares.size, 0) * beside
        return min(bound, row_sums, float(np.sqrt(most))) * OUT

    def strongest(self, weight: Array, rows: int) -> Positions:
        """Units of the largest weight, of about so many rows."""
        order = np.argsort(-weight, kind="stable")
        if self.single:
            return np.sort(order[:rows])
        sizes = np.diff(self.starts)[order]
        many = max(int(np.searchsorted(np.cumsum(sizes), rows, side="right")), 1)
        return np.sort(order[:many])

    def rows_of(self, units: Positions) -> tuple[Positions, Positions]:
        """Rows of some units, and where each begins among them."""
        return rows_of(self.starts, units)

    def only(self, units: Positions) -> Pool:
        """Some of the units."""
        rows, starts = self.rows_of(units)
        return Pool(self.U[rows], self.residuals[rows], starts)


def rows_of(starts: Positions, units: Positions) -> tuple[Positions, Positions]:
    """Places of the rows of some units, and where each unit begins among them."""
    sizes = np.diff(starts)[units]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(starts[:-1][units] - begins[:-1], sizes) + np.arange(begins[-1])
    return rows, begins


class Sets:
    """Sets of at most ``k`` of some candidates: boxes, and how hard each unit pulls.

    Attributes
    ----------
    low, high : (m,) bounds on ``x``, in whitened rows
    pulls : (units,) with ``‖g_S‖²`` in the metric of ``M_S⁻¹`` at most their sum over ``S``
    fine : whether there are boxes
    """

    def __init__(self, candidates: Pool, k: int):
        self.candidates, self.k = candidates, k
        self.fine = candidates.fine and self._boxes()
        if self.fine:
            own = candidates.scaled
            products = np.maximum(own * self.low, own * self.high)
            before = candidates.by_unit(candidates.residuals**2)
            self.pulls = np.maximum(candidates.by_unit(products) * OUT - before * (2.0 - OUT), 0.0)

    def gains(self, c: Array) -> Array:
        """Bounds on what each unit adds to an effect: (…, m) whitened functionals → (…, units)."""
        return self.candidates.by_unit(np.maximum(c * self.low, c * self.high))

    def shares(self, gains: Array) -> Array:
        """A share of ``‖g_S‖²`` for every unit, the least for those that gain most."""
        pool = self.candidates
        rank = np.argsort(-gains, kind="stable")
        core = np.zeros(len(pool), dtype=bool)
        core[rank[: CORE // 2]] = True
        core[pool.strongest(pool.lengths**2, CORE // 2)] = True
        first = rank[core[rank]]
        shares = np.empty(first.size)
        several = min(2 * self.k, first.size)
        shared_out(pool.gradients[first] @ pool.gradients[first].T, several, self.k, shares)
        # a unit outside the core pays all of what it has with the core, the core nothing of it
        found = pool.lengths * (pool.lengths + 2.0 * largest_sum(pool.lengths, self.k - 1))
        found[first] = shares
        return found * OUT

    @cached_property
    def halves(self) -> Array:
        """A share of ``‖g_S‖²`` for every unit, pairs paid for by both alike."""
        pool, k = self.candidates, self.k
        core = pool.strongest(pool.lengths**2, CORE)
        rest = float(np.delete(pool.lengths, core).max(initial=0.0))
        some, lengths = pool.gradients[core], pool.lengths[core]
        products = some @ some.T
        np.fill_diagonal(products, 0.0)
        top = np.maximum(largest_sums(products, k - 1), lengths[:, None] * rest)
        short = max(k - 1 - top.shape[1], 0) * rest * lengths
        found = pool.lengths * (pool.lengths + largest_sum(pool.lengths, k - 1))
        found[core] = lengths**2 + top.sum(axis=1) + short
        return found * OUT

    @property
    def reach(self) -> Array:
        """``|x|`` at most."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def _boxes(self) -> bool:
        own, k = self.candidates.scaled, self.k
        self.low, self.high = own.copy(), own.copy()
        if k == 1 or len(self.candidates) == 1:
            return True
        lengths = np.sqrt(np.einsum("ij,ij->i", *(2 * [self.candidates.whitened])))
        larger = np.abs(own) * (1.0 + 1e-6) + 1e-6 * float(np.abs(own).mean()) + 1e-300
        z = _by_lengths(self.candidates, np.abs(own), larger, lengths, k)
        weight = lengths * (np.abs(own) if z is None else z)
        core = self.candidates.strongest(self.candidates.by_unit(weight), CORE)
        rows, starts = self.candidates.rows_of(core)
        some = self.candidates.whitened[rows]
        E = some @ some.T
        within = np.repeat(np.arange(len(core)), np.diff(starts))
        E[within[:, None] == within] = 0.0
        rest = np.ones(own.size, dtype=bool)
        rest[rows] = False
        outside = np.ones(len(self.candidates), dtype=bool)
        outside[core] = False

        def sums(low: Array, high: Array, sign: float) -> Array:
            """The ``k − 1`` largest sums over units, for every row."""
            apiece = self.candidates.by_unit(lengths * np.maximum(np.abs(low), np.abs(high)))
            strangers = float(apiece[outside].max(initial=0.0))
            out, found = np.empty(own.size), np.empty(rows.size)
            ceiling = lengths[rows] * strangers
            unit_sums(E, starts, low[rows], high[rows], sign, k - 1, ceiling, found)
            out[rows] = found
            out[rest] = lengths[rest] * largest_sum(apiece, k - 1)
            return out * OUT

        if z is None and (z := _fixed_point(np.abs(own), larger, sums)) is None:
            return False
        low, high = -z, z
        slack = (OUT - 1.0) * (np.abs(own) + z)
        for _ in range(_PASSES):
            up, down = sums(low, high, 1.0), sums(low, high, -1.0)
            low = np.maximum(low, own - down - slack)
            high = np.minimum(high, own + up + slack)
        self.low, self.high = low, high
        return True


def _by_lengths(
    candidates: Pool, base: Array, larger: Array, lengths: Array, k: int
) -> Array | None:
    """A strict super-solution by lengths alone, if there is one."""

    def sums(low: Array, high: Array, sign: float) -> Array:
        return lengths * largest_sum(candidates.by_unit(lengths * high), k - 1) * OUT

    return _fixed_point(base, larger, sums)


def _fixed_point(base: Array, larger: Array, sums: Any) -> Array | None:
    """A ``z`` with ``|r̃| + sums(z) < z`` everywhere, verified; ``None`` if none is found."""
    z, blown = larger, 1e8 * float(larger.max())
    for _ in range(300):
        grown = larger + sums(-z, z, 1.0)
        if not np.all(np.isfinite(grown)) or float(grown.max()) > blown:
            return None
        done = bool(np.all(np.abs(grown - z) <= 1e-9 * grown))
        z = grown
        if done:
            break
    fine = np.all((base + sums(-z, z, 1.0)) * OUT < z)
    return z if fine else None

r"""Bounds on what any small deletion can do, before any is tried.

With ``D = diag P``, ``c̃ = c/√D``, ``r̃ = r/√D`` and ``E = I − D^-½ P D^-½`` (zero diagonal),
``effect(S) = c̃_Sᵀ x`` where ``x = (I − E_SS)⁻¹ r̃_S``. A *box* is an interval ``[lo_i, hi_i]`` that
contains ``x_i`` for every ``S`` with ``i ∈ S`` and ``|S| ≤ k``:

1. ``T(z) = |r̃| + (sum of the k−1 largest |e_ij| z_j)`` is iterated; a ``z`` with ``T(z) < z``
   everywhere is a strict super-solution, so the spectral radius of every ``|E_SS|`` is below 1
   (Collatz–Wielandt) and ``|x_i| ≤ z_i``.
2. Signed passes tighten it: ``hi_i = r̃_i + top_{k−1} of max(e_ij lo_j, e_ij hi_j)⁺``, likewise lo.

``E`` is n×n and is looked at twice, a few rows at a time: once with the weights ``|r̃|`` to get a
first ``z¹ = T(|r̃|)``, once to keep every row's :data:`KEPT` entries largest in ``|e_ij| z¹_j``.
What is not kept is at most ``θ_i`` there, so at most ``θ_i · max(z/z¹)`` for any later ``z``: sums
of the largest are bounded with that ceiling in place of what was not kept. Nothing n×n is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.algebra.box_loops import strongest, sums_of_largest
from holdfast.algebra.clusters import Cluster, clusters_among
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.outside import Outside
from holdfast.algebra.rows import Array, Positions

#: outward rounding: sums here have at most a few dozen terms
_OUTWARD = 1e-10
#: entries of E kept per row; entries of a tile of E
KEPT, _TILE = 64, 1 << 22
#: rows above which pairs of them are not looked at: lengths bound them
MANY = 20_000


@dataclass(frozen=True)
class Boxes:
    """``low[k] ≤ P_SS⁻¹ r_S ≤ high[k]`` for every set of at most ``k`` rows, row by row.

    Attributes
    ----------
    low, high : ndarray of shape (limit + 1, n)
        Boxes of fewer rows lie within those of more. 0 for rows that cannot go.
    limit : int
        The largest ``k`` with a box: larger deletions may be singular, or cannot be bounded so.
    clusters : list of Cluster
        Rows that are bounded together; their own boxes are 0.
    partners : ndarray of shape (limit + 1,)
        The sum of the ``k − 1`` largest ``‖ũ‖ |x|`` of all rows, where some are outside.
    strangers : ndarray of shape (limit + 1,)
        The largest ``‖ũ‖ |x|`` of a row outside.
    """

    low: Array
    high: Array
    limit: int
    clusters: list[Cluster] = field(default_factory=list)
    partners: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    strangers: Array = field(default_factory=lambda: np.zeros(0), repr=False)


def boxes(deletions: Deletions, budget: int, passes: int = 4, groups: bool = False) -> Boxes:
    """Boxes for every ``k`` from 1 to ``budget``, as far as they exist.

    ``groups``: where they end early, bound small groups of fragile rows as one. Their own boxes
    are then 0, so that only a caller that adds what the clusters can do may ask for it.
    """
    if deletions.outside is not None:
        groups = False  # few rows of very many: no group of them is fragile
    key = ("boxes", getattr(deletions, "coupled", True), budget, passes)
    found = deletions.rows.memory.get(key)
    if found is None and many_rows(deletions):
        found = deletions.rows.memory[key] = _by_lengths(deletions, budget)
    if found is None:  # they do not depend on the queries
        found = deletions.rows.memory[key] = _boxes(deletions, budget, passes, [])
    if groups and found.limit < budget:
        clusters = find_clusters(deletions, budget)
        if clusters:
            with_clusters = _boxes(deletions, budget, passes, clusters)
            found = with_clusters if with_clusters.limit > found.limit else found
    return found


def many_rows(deletions: Deletions) -> bool:
    """Whether there are too many rows to look at all pairs of them."""
    return deletions.rows.n > MANY and deletions.row_lengths is not None


def _by_lengths(deletions: Deletions, budget: int) -> Boxes:
    """Boxes in one pass over the rows: ``|e_ij| ≤ ‖ũ_i‖ ‖ũ_j‖``, ``ũ = u/√D``.

    So any ``z`` with ``|r̃_i| + ‖ũ_i‖ top_{k−1}(‖ũ_j‖ z_j) < z_i`` is a super-solution. With many
    rows leverages are small, and little is lost.
    """
    alive = np.flatnonzero(deletions.deletable)
    low, high = np.zeros((2, budget + 1, deletions.rows.n))
    root = np.sqrt(deletions.diagonal[alive])
    lengths = deletions.row_lengths
    assert lengths is not None
    s, own = lengths[alive] / root, deletions.residuals[alive] / root
    z, limit = np.abs(own) * (1.0 + 1e-6) + 1e-300, 0
    for k in range(1, budget + 1):
        for _ in range(200):
            reach = _largest_sum(s * z, k - 1) * (1.0 + _OUTWARD)
            if np.all(np.abs(own) + s * reach < z):
                break
            z = np.abs(own) * (1.0 + 1e-6) + s * reach * (1.0 + 1e-6) + 1e-300
            if not np.all(np.isfinite(z)) or reach > 1e12:
                return Boxes(low[: limit + 1], high[: limit + 1], limit)
        else:
            break
        limit = k
        low[k, alive], high[k, alive] = (own - s * reach) / root, (own + s * reach) / root
    return Boxes(low[: limit + 1], high[: limit + 1], limit)


def _largest_sum(values: Array, count: int) -> float:
    if count <= 0:
        return 0.0
    count = min(count, values.size)
    return float(np.partition(values, values.size - count)[-count:].sum())


def _boxes(deletions: Deletions, budget: int, passes: int, clusters: list[Cluster]) -> Boxes:
    n = deletions.rows.n
    fragile = [cluster.rows for cluster in clusters]
    alive = np.flatnonzero(deletions.deletable)
    alive = np.setdiff1d(alive, np.concatenate(fragile)) if fragile else alive
    low, high = np.zeros((budget + 1, n)), np.zeros((budget + 1, n))
    if alive.size == 0:
        return Boxes(low, high, 0 if clusters else budget)
    root = np.sqrt(deletions.diagonal[alive])
    own = deletions.residuals[alive] / root
    # a cluster is one more row, of which only lengths are known
    scaled = np.concatenate([own, [cluster.length for cluster in clusters]])
    known = np.arange(scaled.size) < alive.size

    def tiles() -> Iterator[tuple[int, Array]]:
        ties = np.array([cluster.coupling[alive] / root for cluster in clusters])
        for start, tile in _tiles(deletions, alive, root):
            rows = slice(start, start + len(tile))
            yield start, np.hstack([tile, ties[:, rows].T]) if clusters else tile
        for number, cluster in enumerate(clusters):
            between = [cluster.towards(other) for other in clusters]
            row = np.concatenate([ties[number], between])
            row[alive.size + number] = 0.0
            yield alive.size + number, row[None]

    lists = Lists(tiles, np.abs(scaled), budget)
    if deletions.outside is not None:
        assert deletions.row_lengths is not None
        lists.beside = Strangers(deletions.outside, deletions.row_lengths[alive] / root)
    limit, z = 0, np.abs(scaled)
    found, lengths, partners, strangers = [], [], [0.0], [0.0]
    for k in range(1, budget + 1):
        grown = lists.super_solution(np.abs(scaled), z, k)
        if grown is None:
            break
        limit, z = k, grown
        lo, hi = lists.tightened(scaled, z, k, passes, known)
        found.append((lo[known], hi[known]))
        lengths.append(z[~known])
        if lists.beside is not None:
            partners.append(lists.beside.partners(z, k))
            strangers.append(lists.beside.largest)
    for k in range(limit, 0, -1):
        lo, hi = found[k - 1]
        if k < limit:
            lo, hi = np.maximum(lo, found[k][0]), np.minimum(hi, found[k][1])
            found[k - 1] = lo, hi
        low[k, alive], high[k, alive] = lo / root, hi / root
    for number, cluster in enumerate(clusters):
        cluster.reach = np.array([cluster.length, *(each[number] for each in lengths)])
    return Boxes(
        low[: limit + 1],
        high[: limit + 1],
        limit,
        clusters,
        np.array(partners),
        np.array(strangers),
    )


def find_clusters(deletions: Deletions, budget: int) -> list[Cluster]:
    """Small groups of rows so strongly tied that a few of them may leave a singular fit."""
    alive = np.flatnonzero(deletions.deletable)
    root = np.sqrt(deletions.diagonal[alive])
    n, wanted = alive.size, min(max(budget - 1, 1), max(alive.size - 1, 1))
    values, places, rest = np.zeros((n, wanted)), np.zeros((n, wanted), np.int64), np.zeros(n)
    for at, tile in _tiles(deletions, alive, root):
        strongest(tile, at, np.ones(n), values, places, rest)
    return clusters_among(deletions, alive, np.abs(values), places)


def hat_row_sums(deletions: Deletions, budget: int) -> Array:
    """For ``k = 0 … budget``, the largest sum of ``k`` entries of a row of ``|I − P|``, diagonal
    included: a bound on the largest eigenvalue of any ``k``-row block of it (Gershgorin)."""
    n = deletions.rows.n
    if many_rows(deletions) or deletions.outside is not None:
        return np.full(budget + 1, np.inf)  # leverages alone are enough
    everything, ones = np.arange(n), np.ones(n)
    wanted = min(max(budget - 1, 1), max(n - 1, 1))
    values, places, rest = np.zeros((n, wanted)), np.zeros((n, wanted), np.int64), np.zeros(n)
    for at, tile in _tiles(deletions, everything, ones):
        strongest(tile, at, ones, values, places, rest)
    largest = -np.sort(-np.abs(values), axis=1)
    sums = np.cumsum(np.column_stack([np.abs(1.0 - deletions.diagonal), largest]), axis=1)
    found = np.zeros(budget + 1)
    found[1:] = sums.max(axis=0)[np.minimum(np.arange(budget), wanted)]
    return found


def newton_moves(
    deletions: Deletions, found: Boxes, curvature: Array, longest: float = np.inf
) -> Array:
    """For ``k = 0 … limit``, how far one Newton step moves the score of any row that stays.

    ``longest``: of all rows in whitened coordinates, for where some are outside.
    """
    n, limit = deletions.rows.n, found.limit
    if deletions.outside is not None:
        lengths = deletions.row_lengths
        assert lengths is not None
        reach = np.maximum(np.abs(found.low[limit]), np.abs(found.high[limit])) * lengths
        top = -np.sort(-reach)[:limit]
        top = np.maximum(np.append(top, np.zeros(limit - top.size)), found.strangers[limit])
        return np.concatenate([[0.0], np.cumsum(top)]) * longest * (1.0 + 1e-9)
    everything, ones = np.arange(n), np.ones(n)
    reach = np.maximum(np.abs(found.low[limit]), np.abs(found.high[limit]))
    # without any curvature nothing says how far a row's score moves
    apiece = np.divide(1.0, np.sqrt(curvature), out=np.full(n, np.inf), where=curvature > 0)
    if many_rows(deletions):
        lengths = deletions.row_lengths
        assert lengths is not None
        farthest = float((np.where(curvature > 0, lengths, 1.0) * apiece).max())
        sums = [_largest_sum(lengths * reach, k) for k in range(limit + 1)]
        return np.array(sums) * farthest * (1.0 + 1e-9)
    wanted = min(max(limit, 1), max(n - 1, 1))
    values, places, rest = np.zeros((n, wanted)), np.zeros((n, wanted), np.int64), np.zeros(n)
    for at, tile in _tiles(deletions, everything, ones):
        strongest(tile, at, reach, values, places, rest)
    products = -np.sort(-np.abs(values) * reach[places], axis=1)
    with np.errstate(invalid="ignore"):
        products = np.where(np.isinf(apiece)[:, None], np.inf, products * apiece[:, None])
    sums = np.cumsum(products, axis=1).max(axis=0)
    moves = np.zeros(limit + 1)
    moves[1:] = sums[np.minimum(np.arange(limit), wanted - 1)]
    return moves * (1.0 + 1e-9)


class Strangers:
    """Rows outside, as partners of those that are looked at.

    Parameters
    ----------
    outside : Outside
    lengths : (n,)
        ``‖ũ‖`` of the rows that are looked at.
    """

    def __init__(self, outside: Outside, lengths: Array):
        self._outside, self.lengths = outside, lengths
        #: the largest ``‖ũ‖ z`` of a row outside
        self.largest = outside.step * (1.0 + 1e-6) + 1e-300

    def partners(self, z: Array, k: int) -> float:
        """A bound on the ``k − 1`` largest ``‖ũ‖ z`` of all rows."""
        if k <= 1:
            return 0.0
        some = self.lengths * z
        most = min(k - 1, some.size)
        top = np.partition(some, some.size - most)[-most:]
        held = float(np.maximum(top, self.largest).sum()) + (k - 1 - most) * self.largest
        return held * (1.0 + _OUTWARD)

    def grown(self, z: Array, k: int, slack: float = 1e-6) -> float:
        """``‖ũ‖ z`` of a row outside, with these partners."""
        outside = self._outside
        return outside.step * (1.0 + slack) + outside.spread * self.partners(z, k) * (1.0 + slack)


class Lists:
    """The strongest entries of every row of ``E``, and what is known of the rest.

    Parameters
    ----------
    tiles : callable
        Gives ``E`` a few rows at a time, with the number of the first.
    start : (n,)
        ``|r̃|``.
    budget : int
    """

    def __init__(self, tiles: Callable[[], Iterator[tuple[int, Array]]], start: Array, budget: int):
        n = start.size
        kept = min(KEPT, max(n - 1, 1))
        first = min(max(budget - 1, 1), max(n - 1, 1))
        values, places, rest = np.zeros((n, first)), np.zeros((n, first), np.int64), np.zeros(n)
        for at, tile in tiles():
            strongest(tile, at, start, values, places, rest)
        self.reference = start + np.sum(np.abs(values) * start[places], axis=1)
        self.reference += 1e-9 * float(self.reference.max()) + 1e-300
        self.values, self.places = np.zeros((n, kept)), np.zeros((n, kept), np.int64)
        self.rest = np.zeros(n)
        for at, tile in tiles():
            strongest(tile, at, self.reference, self.values, self.places, self.rest)
        self.values *= 1.0 + _OUTWARD
        self.rest *= 1.0 + _OUTWARD
        #: rows that are not among these but may be partners
        self.beside: Strangers | None = None

    def _sums(self, low: Array, high: Array, count: int, z: Array, sign: float = 1.0) -> Array:
        ceiling = self.rest * float(np.max(z / self.reference))
        if self.beside is not None:
            ceiling = np.maximum(ceiling, self.beside.lengths * self.beside.largest)
        out = np.empty(z.size)
        sums_of_largest(self.values, self.places, ceiling, low, high, sign, count, out)
        return out * (1.0 + _OUTWARD)

    def super_solution(self, base: Array, z: Array, k: int) -> Array | None:
        """A verified ``z`` with ``T(z) < z``, or ``None``.

        The fixed point for residuals a little larger leaves ``T(z)`` below ``z`` by that little.
        """
        larger = base * (1.0 + 1e-6) + 1e-6 * float(base.mean()) + 1e-300
        blown = 1e8 * float(larger.max())
        for _ in range(300):
            grown = larger + self._sums(-z, z, k - 1, z)
            if not np.all(np.isfinite(grown)) or grown.max() > blown:
                return None
            done = bool(np.all(np.abs(grown - z) <= 1e-9 * grown))
            z = grown
            if self.beside is not None:
                further = self.beside.grown(z, k) + 1e-300
                done &= abs(further - self.beside.largest) <= 1e-9 * further
                self.beside.largest = further
            if done:
                break
        fine = np.all((base + self._sums(-z, z, k - 1, z)) * (1.0 + _OUTWARD) < z)
        if self.beside is not None:
            fine &= self.beside.grown(z, k, _OUTWARD) < self.beside.largest
        return z if fine else None

    def tightened(
        self, scaled: Array, z: Array, k: int, passes: int, known: Any
    ) -> tuple[Array, Array]:
        """Signed bounds within ``[−z, z]``, where signs are known."""
        lo, hi = -z, z
        slack = _OUTWARD * (np.abs(scaled) + z)
        for _ in range(passes):
            up = scaled + self._sums(lo, hi, k - 1, z) + slack
            down = scaled - self._sums(lo, hi, k - 1, z, -1.0) - slack
            lo = np.where(known, np.maximum(lo, down), -z)
            hi = np.where(known, np.minimum(hi, up), z)
        return lo, hi


def _tiles(deletions: Deletions, alive: Positions, root: Array) -> Iterator[tuple[int, Array]]:
    """``E`` a few rows at a time."""
    n = alive.size
    many = max(1, _TILE // n)
    tile = deletions.couplings(alive, 1.0 / root)
    for start in range(0, n, many):
        yield start, tile(slice(start, min(start + many, n)))

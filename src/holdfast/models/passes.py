r"""What one pass over all rows works out, a block at a time, whatever the blocks come from.

Near an optimum every linear model is a least squares problem in the rows
:math:`a_i = \sqrt{v_i}\, φ_i`, :math:`b_i = \sqrt{v_i}\, z_i + r_i` (for squared loss ``v = 1`` and
``b = y``). A QR of the blocks, folded in order, leaves a triangle that says of all of them what
matters: :math:`Σ a aᵀ`, :math:`Σ a b`. So a table of millions is a few rows that *stand for* it
beside those that are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from holdfast.algebra.outside import Outside
from holdfast.algebra.rows import Array, Positions
from holdfast.models.losses import Loss, Squared


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows.

    Attributes
    ----------
    first : int
        The number of the first in the whole table.
    phi : ndarray of shape (b, p)
        Features, behind a column of ones where there is an intercept.
    y : ndarray of shape (b,)
        Labels, higher is better.
    weights : ndarray of shape (b,) or None
    gaps : ndarray of shape (b, g)
        Where columns with gaps had one: 1, else 0.
    raw : callable, optional
        Gives some of the rows as they are in the files, as a frame.
    """

    first: int
    phi: Array
    y: Array
    weights: Array | None
    gaps: Array
    raw: Callable[[Positions], Any] | None = None


#: worked out from the batches of one block
Work = Callable[[Iterable[Batch]], Any]


class RowSource(Protocol):
    """All rows of a table, in blocks."""

    @property
    def n(self) -> int:
        """How many rows there are."""
        ...

    def each(self, work: Work, stage: str) -> Iterator[Any]:
        """What a work gives for every block, in order: one pass."""


@dataclass
class InMemory:
    """Rows that are in memory, a few thousand at a time.

    Parameters
    ----------
    phi, y, weights
        As in :class:`Batch`, of all rows.
    """

    phi: Array
    y: Array
    weights: Array | None
    passes: int = 0
    rows: int = 1 << 14

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.phi)

    def each(self, work: Work, stage: str) -> Iterator[Any]:
        from holdfast.scale.engines import LocalThreads

        self.passes += 1
        yield from LocalThreads().map(
            lambda first: work([self._batch(first)]), range(0, self.n, self.rows)
        )

    def _batch(self, first: int) -> Batch:
        some = slice(first, first + self.rows)
        weights = None if self.weights is None else self.weights[some]
        phi = self.phi[some]
        return Batch(first, phi, self.y[some], weights, np.zeros((len(phi), 0)))


def folded(triangles: Iterable[Array | None]) -> Array:
    """Triangles of several blocks as one, in order."""
    found: Array | None = None
    for triangle in triangles:
        if triangle is not None:
            found = triangle if found is None else _triangle(np.vstack([found, triangle]))
    assert found is not None
    return found


def _triangle(rows: Array) -> Array:
    if len(rows) < rows.shape[1]:
        rows = np.vstack([rows, np.zeros((rows.shape[1] - len(rows), rows.shape[1]))])
    made = linalg.qr(rows, mode="r", overwrite_a=True, check_finite=False)[0]
    return np.ascontiguousarray(made[: rows.shape[1]])


@dataclass(frozen=True)
class Linearised:
    """A loss at some parameters: what its rows are as least squares.

    Attributes
    ----------
    loss : Loss
    theta : parameters, or ``None`` for squared loss, which needs none
    """

    loss: Loss = field(default_factory=Squared)
    theta: Array | None = None

    def __call__(self, batch: Batch, residuals: bool = False) -> tuple[Array, Array]:
        """``√v`` and ``b`` of every row, or ``√v`` and ``r``; weights taken in."""
        outer = 1.0 if batch.weights is None else np.sqrt(batch.weights)
        z = np.zeros(len(batch.y)) if self.theta is None else batch.phi @ self.theta
        root, r = self.loss.whitened(z, batch.y)
        return outer * root, outer * (r if residuals else root * z + r)

    def value(self, batch: Batch) -> float:
        """The sum of the losses."""
        assert self.theta is not None
        values = self.loss.values(batch.phi @ self.theta, batch.y)
        return float(values.sum() if batch.weights is None else batch.weights @ values)


@dataclass(frozen=True)
class Gathered:
    """What a pass brings of some rows, and what it makes of the others.

    Attributes
    ----------
    triangle : ndarray of shape (p + g + 1, p + g + 1)
        Of ``[a, gaps, b]`` of all rows but those.
    phi, y, gaps, weights : of those, in the order of their numbers
    outside : Outside
    longest : float
        The longest whitened ``φ`` of all rows.
    value : float
        The sum of all losses, for losses that are not squared.
    scored : tuple of float
        The weight of all rows, and the sums of their scores and squared scores.
    labels : float
        The sum of the labels of all rows but those.
    frames : list
        Those rows as they are in the files, where that was asked for.
    """

    triangle: Array
    phi: Array
    y: Array
    gaps: Array
    weights: Array
    outside: Outside
    longest: float
    value: float
    scored: Array
    labels: float = 0.0
    frames: list[Any] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Gathering:
    """The work of gathering some rows and summing up the others.

    Attributes
    ----------
    names : the rows that are wanted, in order
    linearised : Linearised
    whitening : (p, rank) by which lengths are measured, or ``None``
    theta : parameters by which residuals are, for squared loss
    """

    names: Positions
    linearised: Linearised
    whitening: Array | None = None
    theta: Array | None = None

    def over(self, source: RowSource, stage: str) -> Gathered:
        """One pass."""
        triangle: Array | None = None
        kept: list[tuple[Array, ...]] = []
        frames: list[Any] = []
        largest, sums = np.zeros(4), np.zeros(5)
        for part in source.each(self, stage):
            if part is None:
                continue
            triangle = part[0] if triangle is None else folded([triangle, part[0]])
            kept.append(part[1])
            largest, sums = np.maximum(largest, part[2]), sums + part[3]
            frames += part[4]
        assert triangle is not None
        phi, y, gaps, weights = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        largest *= 1.0 + 1e-9
        return Gathered(
            triangle,
            phi,
            y,
            gaps,
            weights,
            Outside(source.n - len(self.names), *largest[:3].tolist()),
            float(largest[3]),
            float(sums[3]),
            sums[:3],
            float(sums[4]),
            frames,
        )

    def __call__(self, batches: Iterable[Batch]) -> Any:
        triangle: Array | None = None
        kept: list[tuple[Array, ...]] = []
        frames: list[Any] = []
        largest, sums = np.zeros(4), np.zeros(5)
        for batch in batches:
            own = self._own(batch)
            weights = np.ones(len(batch.y)) if batch.weights is None else batch.weights
            kept.append((batch.phi[own], batch.y[own], batch.gaps[own], weights[own]))
            if batch.raw is not None and own.size:
                frames.append(batch.raw(own))
            root, b = self.linearised(batch)
            a = np.empty((len(b), batch.phi.shape[1] + batch.gaps.shape[1] + 1), order="F")
            width = batch.phi.shape[1]
            np.multiply(batch.phi, root[:, None], out=a[:, :width])
            a[:, width:-1], a[:, -1] = batch.gaps * root[:, None], b
            if self.whitening is not None:
                largest = np.maximum(largest, self._lengths(batch, a[:, :width], b, own))
            if self.theta is not None:
                z = batch.phi @ self.theta
                sums[:3] += weights.sum(), weights @ z, weights @ z**2
            if self.linearised.theta is not None:
                sums[3] += self.linearised.value(batch)
            sums[4] += weights @ batch.y - weights[own] @ batch.y[own]
            if own.size:
                a[own] = 0.0
            stacked = a if triangle is None else np.vstack([triangle, a])
            triangle = _triangle(np.asfortranarray(stacked))
        if triangle is None:
            return None
        together = tuple(np.concatenate(parts) for parts in zip(*kept, strict=True))
        return triangle, together, largest, sums, frames

    def _own(self, batch: Batch) -> Positions:
        """The rows of a batch that are wanted, numbered within it."""
        ends = np.searchsorted(self.names, [batch.first, batch.first + len(batch.y)])
        return self.names[ends[0] : ends[1]] - batch.first

    def _lengths(self, batch: Batch, a: Array, b: Array, own: Positions) -> Array:
        """The largest leverage, residual and step of the rows not wanted; the longest ``φ``."""
        assert self.whitening is not None
        assert self.theta is not None
        U = a @ self.whitening
        rows = U if self.linearised.theta is None else batch.phi @ self.whitening
        longest = float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max(initial=0.0)))
        leverage = np.einsum("ij,ij->i", U, U)
        r = np.abs(b - a @ self.theta)
        leverage[own], r[own] = 0.0, 0.0
        steps = np.sqrt(leverage) * r / np.maximum(1.0 - leverage, 1e-300)
        return np.array([*(part.max(initial=0.0) for part in (leverage, r, steps)), longest])


@dataclass(frozen=True)
class Sloping:
    """The work of summing slopes at several parameters at once, (p + g, sets).

    Attributes
    ----------
    loss : Loss
    thetas : (p + g, sets)
    curved : bool
        Whether curvatures are summed too, (sets, p + g, p + g).
    """

    loss: Any
    thetas: Array
    curved: bool = False

    def over(self, source: RowSource, stage: str) -> tuple[Array, Array]:
        """One pass."""
        p, sets = self.thetas.shape
        slopes, curves = np.zeros((p, sets)), np.zeros((sets, p, p))
        for part in source.each(self, stage):
            slopes, curves = slopes + part[0], curves + part[1]
        return slopes, curves

    def __call__(self, batches: Iterable[Batch]) -> tuple[Array, Any]:
        total = np.zeros(self.thetas.shape)
        curves: Any = 0.0
        for batch in batches:
            wide = np.hstack([batch.phi, batch.gaps])
            z = wide @ self.thetas
            y = batch.y
            slopes = np.column_stack([self.loss.slopes(each, y) for each in z.T])
            if batch.weights is not None:
                slopes *= batch.weights[:, None]
            total += wide.T @ slopes
            if self.curved:
                curves = curves + np.stack([self._curves(wide, each, batch) for each in z.T])
        return total, curves

    def _curves(self, wide: Array, z: Array, batch: Batch) -> Array:
        v = self.loss.curvatures(z, batch.y)
        v = v if batch.weights is None else v * batch.weights
        found: Array = (wide * v[:, None]).T @ wide
        return found

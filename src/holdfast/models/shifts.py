r"""What else changes in a training problem when rows go: scales, class weights, averages.

Beside the terms of the rows themselves a problem may change by *factors* that depend on who is
left: the penalty of a feature whose scaler is refitted, the weights of a class that are balanced,
the penalty of a loss that is an average. With :math:`1 + δ_f(S)` the factors, what they add to the
gradient at the old optimum is :math:`Σ_f δ_f(S)\, π_f`, and every :math:`δ_f` lies between sums
over the rows that go,

.. math:: −Σ_{i∈S} down_{fi} ≤ δ_f(S) ≤ Σ_{i∈S} up_{fi} .

*Scales*: :mod:`holdfast.models.scales`; :math:`π_f = α θ_f τ_f`.

*Averages*: of ``N`` rows the penalties are :math:`1 − s/N` of what they were, ``s`` being the rows
that go (or their weights).

*Balanced classes*: with :math:`A_c = s_c/(N_c − s_c)` a class's weights grow by
:math:`1 + δ_c = (1 − s/N)(1 + A_c)`. The gradients of the classes nearly cancel, so
:math:`δ_0G_0 + δ_1G_1` is written as :math:`(δ_0 − δ_1)G_0 + δ_1(G_0 + G_1)`,
:math:`δ_0 − δ_1 = (1 − s/N)(A_0 − A_1)`; ``K`` being the most that can go,
:math:`s_c/N_c ≤ A_c ≤ s_c/(N_c − K)` and :math:`1 − K/N ≤ 1 − s/N ≤ 1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.models.scales import Scales

#: a scale that may fall by more than this share may become another one altogether
_VANISHES = 1.0 - 1e-6


@dataclass(frozen=True)
class Shifts:
    """What factors can do when at most so many rows go.

    Attributes
    ----------
    vectors : (m, p) ``π_f``
    up, down : (m, n)
    known : (m,) of which factors these are known; of the others only ``moved`` is
    moved : (m,) ``|δ_f|`` at most
    roots, rooted : (features, p) and (features,)
        ``√α τ_f`` of the penalties that move, and by how much they do.
    stiffened, reweighted : floats
        How far the Hessian of the penalties, and those of the classes, can move.
    """

    vectors: Array
    up: Array
    down: Array
    known: Any
    moved: Array
    roots: Array
    rooted: Array
    stiffened: float
    reweighted: float

    @property
    def sizes(self) -> tuple[Array, float]:
        """What each row adds to ``‖Σ δ_f π_f‖`` at most, (n,), and what comes whoever goes."""
        lengths = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors))
        either = np.maximum(np.maximum(self.up, self.down), 0.0)
        return lengths[self.known] @ either[self.known], float(
            lengths[~self.known] @ self.moved[~self.known]
        )

    def along(self, queries: Array, rows: Positions) -> tuple[Array, Array]:
        """What each row adds to ``bᵀΣ δ_f π_f`` at most, (q, rows), and what comes anyway, (q,)."""
        slopes = queries @ self.vectors.T
        known = self.known
        found = np.maximum(slopes[:, known], 0.0) @ self.up[known][:, rows]
        found += np.maximum(-slopes[:, known], 0.0) @ self.down[known][:, rows]
        return found, np.abs(slopes[:, ~known]) @ self.moved[~known]

    def stiffness(self, queries: Array) -> Array:
        """``‖ΔR b‖`` of the penalties, (q,)."""
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries))
        if not self.stiffened:
            return np.zeros(len(queries))
        most = float(self.rooted.max(initial=0.0))
        aligned = np.sqrt((queries @ self.roots.T) ** 2 @ self.rooted * most)
        return np.minimum(aligned, self.stiffened * lengths)


def shifts_at(
    core: Any, scales: Scales | None, at: Any, gone: Positions, most: int
) -> Shifts | None:
    """The shifts of a problem at an optimum; ``None`` where nothing bounds them.

    Parameters
    ----------
    core : SmoothLinearCore
    scales : of the preprocessing, where it is refitted
    at : Optimum
    gone : rows that are gone there
    most : rows that can go further
    """
    parts = []
    if scales is not None or core.reading.average:
        parts.append(_of_penalties(core, scales, at, gone, most))
    if core.reading.balanced:
        parts.append(_of_classes(core, at, gone, most))
    if any(part is None for part in parts):
        return None
    return _joined([part for part in parts if part is not None], len(at.z), at.A.shape[1])


def _of_penalties(
    core: Any, scales: Scales | None, at: Any, gone: Positions, most: int
) -> Shifts | None:
    first = int(core.intercept)
    tau, penalty = at.directions[first:], at.penalty[first:]
    d, n = len(penalty), len(at.z)
    up, down, moved = np.zeros((d, n)), np.zeros((d, n)), np.zeros(d)
    known = np.ones(d, dtype=bool)
    if scales is not None:
        here = _without(scales, gone)
        low, high = here.interval(most)
        if np.any(low < 1.0 - _VANISHES):
            return None
        moved = np.maximum(1.0 - low, high - 1.0)
        up, down, known = here.shares(most, np.zeros(0, dtype=np.intp))
        known = known | ~here.moving
    if core.reading.average:
        counts = core.counted(core.reading.average).copy()
        counts[gone] = 0.0
        each = counts / counts.sum()
        share = _largest(each, most)
        if not share < 0.5:
            return None
        up = up - each * (1.0 - moved)[:, None]
        down = down + each * (1.0 + moved)[:, None]
        moved = moved + share * (1.0 + moved)
    some = moved > 0
    roots = np.sqrt(penalty)[some, None] * tau[some]
    share = float(np.linalg.norm(roots, 2)) ** 2 if some.any() else 0.0
    return Shifts(
        (penalty * at.theta[first:] + at.linear[first:])[some, None] * tau[some],
        up[some],
        down[some],
        known[some],
        moved[some],
        roots,
        moved[some],
        share * float(moved.max(initial=0.0)) * (1.0 + 1e-9),
        0.0,
    )


def _of_classes(core: Any, at: Any, gone: Positions, most: int) -> Shifts | None:
    counts = core.counted(core.reading.balanced).copy()
    counts[gone] = 0.0
    classes, total = core.classes, float(counts.sum())
    sizes = np.array([counts[classes == c].sum() for c in (0, 1)])
    K = _largest(counts, most)
    if not sizes.min() > 2.0 * K:
        return None
    of = [np.where(classes == c, counts, 0.0) for c in (0, 1)]
    # A_c of every row, at most and at least, and what is left of the whole
    above = [of[c] / (sizes[c] - K) for c in (0, 1)]
    below = [of[c] / sizes[c] for c in (0, 1)]
    left = 1.0 - K / total
    up = np.stack([above[0] - left * below[1], above[1] - counts / total])
    down = np.stack(
        [
            above[1] - left * below[0],
            counts / total * (1.0 + K / (sizes[1] - K)) - below[1],
        ]
    )
    slopes = -at.errors[:, None] * at.A
    gradients = np.stack([slopes[classes == c].sum(axis=0) for c in (0, 1)])
    vectors = np.stack([gradients[0], gradients.sum(axis=0)])
    most_moved = np.max(K / (sizes - K)) + K / total
    none = np.zeros((0, at.A.shape[1]))
    return Shifts(
        vectors,
        up,
        down,
        np.ones(2, dtype=bool),
        np.full(2, 2.0 * most_moved),
        none,
        np.zeros(0),
        0.0,
        float(most_moved) * (1.0 + 1e-9),
    )


def _largest(counts: Array, most: int) -> float:
    most = min(most, counts.size)
    return float(np.partition(counts, counts.size - most)[-most:].sum()) if most else 0.0


def _without(scales: Scales, gone: Positions) -> Scales:
    """The scales of the rows that are left."""
    if not gone.size:
        return scales
    columns = []
    for column in scales.columns:
        values = np.array(column.values, dtype=np.float64)
        values[gone] = np.nan
        columns.append(replace(column, values=values))
    return Scales(columns)


def _joined(parts: list[Shifts], n: int, p: int) -> Shifts:
    """Several of them as one."""
    empty = Shifts(
        np.zeros((0, p)),
        np.zeros((0, n)),
        np.zeros((0, n)),
        np.zeros(0, dtype=bool),
        np.zeros(0),
        np.zeros((0, p)),
        np.zeros(0),
        0.0,
        0.0,
    )
    parts = [empty, *parts]
    arrays = ("vectors", "up", "down", "known", "moved", "roots", "rooted")
    both: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays
    }
    for name in ("stiffened", "reweighted"):
        both[name] = sum(getattr(part, name) for part in parts)
    return Shifts(**both)

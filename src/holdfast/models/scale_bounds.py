"""How far a scale can move when a few rows go, by order statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array

Pair = tuple[float, float]


def variance(count: Array, first: Array, second: Array) -> Array:
    """From how many there are, their sum and their sum of squares."""
    with np.errstate(all="ignore"):
        return np.asarray(second / count - (first / count) ** 2)


def split(values: Array, kept: Any) -> tuple[Array, Array]:
    """The values that may go, in order, and those that stay."""
    known = ~np.isnan(values)
    return np.sort(values[known & ~kept]), values[known & kept]


def _deviation_bounds(free: Array, fixed: Array, k: int, _: Pair) -> tuple[Array, Array]:
    """All that goes is at the ends (least), or one run of neighbours (most)."""
    everything = np.concatenate([free, fixed])
    centre = everything.mean()
    free, fixed = free - centre, fixed - centre
    m = everything.size
    first = np.concatenate([[0.0], np.cumsum(free)])
    second = np.concatenate([[0.0], np.cumsum(free**2)])
    total = first[-1] + fixed.sum(), second[-1] + (fixed**2).sum()
    least, most = np.full((2, k + 1), float(np.var(everything)))
    for j in range(1, min(k, free.size, m - 1) + 1):
        low = np.arange(j + 1)  # so many from the low end
        one = first[low] + first[-1] - first[free.size - (j - low)]
        two = second[low] + second[-1] - second[free.size - (j - low)]
        at_ends = variance(np.array(m - j), total[0] - one, total[1] - two)
        where = int(np.argmin(at_ends))
        left = free[low[where] : free.size - (j - low[where])]
        least[j:] = np.var(np.concatenate([left, fixed]) if fixed.size else left)
        runs = first[j:] - first[:-j], second[j:] - second[:-j]
        most[j:] = variance(np.array(m - j), total[0] - runs[0], total[1] - runs[1]).max()
    least, most = np.minimum.accumulate(least), np.maximum.accumulate(most)
    return np.sqrt(np.maximum(least, 0.0)), np.sqrt(most)


def _range_bounds(free: Array, fixed: Array, k: int, _: Pair) -> tuple[Array, Array]:
    everything = np.concatenate([free, fixed])
    widest = float(np.ptp(everything))
    least = np.full(k + 1, widest)
    inner = (fixed.min(), fixed.max()) if fixed.size else (np.inf, -np.inf)
    for j in range(1, k + 1):
        for low in range(min(j, free.size) + 1):
            high = free.size - (j - low)
            ends = (free[low], free[high - 1]) if high > low else (np.inf, -np.inf)
            width = max(ends[1], inner[1]) - min(ends[0], inner[0])
            least[j] = min(least[j], max(width, 0.0))
    return np.minimum.accumulate(least), np.full(k + 1, widest)


def _largest_bounds(free: Array, fixed: Array, k: int, _: Pair) -> tuple[Array, Array]:
    stays = float(fixed.max(initial=0.0))
    left = [float(free[free.size - j - 1]) if j < free.size else 0.0 for j in range(k + 1)]
    least = np.maximum(np.array(left), stays)
    return least, np.full(k + 1, least[0])


def _quantile_bounds(free: Array, fixed: Array, k: int, quantiles: Pair) -> tuple[Array, Array]:
    """Least: all that goes is outside, some of it below both quantiles; most: between them.

    Quantiles that meet have no width, and scikit-learn takes 1 for it.
    """
    ordered = np.sort(np.concatenate([free, fixed])) if fixed.size else free
    least, most = np.zeros(k + 1), np.zeros(k + 1)
    for j in range(k + 1):
        low, high = (
            _quantiles_without(ordered, min(j, ordered.size - 1), share) for share in quantiles
        )
        least[j], most[j] = float((high - low).min()), float(high[-1] - low[0])
        if least[j] < 20 * np.finfo(float).eps:
            most[j] = max(most[j], 1.0)
    return np.maximum(np.minimum.accumulate(least), 0.0), np.maximum.accumulate(most)


def _quantiles_without(ordered: Array, j: int, share: float) -> Array:
    """A quantile when ``j`` values go, of them 0, 1, … ``j`` below it."""
    h = (ordered.size - j - 1) * share / 100.0
    low = int(np.floor(h))
    high = min(low + 1, ordered.size - j - 1)
    below = np.arange(j + 1)
    return np.asarray((1 - (h - low)) * ordered[low + below] + (h - low) * ordered[high + below])


#: values that may go (in order), those that stay, k, quantiles → the least and the most a scale can
#: be when 0, 1, … k of them go
BOUNDS: dict[str, Callable[[Array, Array, int, Pair], tuple[Array, Array]]] = {
    "deviation": _deviation_bounds,
    "range": _range_bounds,
    "largest": _largest_bounds,
    "quantiles": _quantile_bounds,
}


def deviation_shares(z: Array, there: Array, count: Array, k: int) -> tuple[Array, Array]:
    r"""Rows' parts of the change of a variance, values being in units of it and centred.

    Without ``m`` of ``n`` values :math:`δ = Σ (1 − z_i²)/(n − m) − (Σ z_i/(n − m))²`, and
    :math:`(Σ z_i)² ≤ m Σ z_i²`.
    """
    squares = z**2
    part = there - squares
    rises, fewest, most = part > 0, count - k, count - 1.0
    up = part * np.where(rises, 1.0 / fewest, 1.0 / most)
    down = squares * (k / fewest**2) - part * np.where(rises, 1.0 / most, 1.0 / fewest)
    return up, down


def gap_shares(values: Array, kept: Any, both: bool, k: int) -> Array:
    r"""Rows' parts of the fall of a range's square, in units of the range.

    When the ``a`` largest go, a range falls by the gaps between them and the next: each row pays
    for the gap below it. :math:`1 − (1 − x)² ≤ 2x`.
    """
    shares = np.zeros(values.size)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    for outside in (order[::-1], order) if both else (order[::-1],):
        first = outside[: min(k, order.size - 1) + 1]
        gone = int(np.argmax(kept[first])) if kept[first].any() else first.size - 1
        shares[first[:gone]] += 2.0 * np.abs(np.diff(values[first]))[:gone]
    return shares

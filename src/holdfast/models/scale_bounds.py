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


def _sorted(values: Array, kept: Any) -> tuple[Array, Array]:
    """The values that may go, in order, and those that stay."""
    known = ~np.isnan(values)
    return np.sort(values[known & ~kept]), values[known & kept]


def _deviation_bounds(values: Array, kept: Any, k: int, _: Pair) -> tuple[float, float]:
    """All that goes is at the ends (least), or one run of neighbours (most)."""
    free, fixed = _sorted(values, kept)
    everything = np.concatenate([free, fixed])
    centre = everything.mean()
    free, fixed = free - centre, fixed - centre
    m = everything.size
    first = np.concatenate([[0.0], np.cumsum(free)])
    second = np.concatenate([[0.0], np.cumsum(free**2)])
    total = first[-1] + fixed.sum(), second[-1] + (fixed**2).sum()
    least = most = float(np.var(everything))
    for j in range(1, min(k, free.size, m - 1) + 1):
        low = np.arange(j + 1)  # so many from the low end
        one = first[low] + first[-1] - first[free.size - (j - low)]
        two = second[low] + second[-1] - second[free.size - (j - low)]
        at_ends = variance(np.array(m - j), total[0] - one, total[1] - two)
        where = int(np.argmin(at_ends))
        left = np.concatenate([free[low[where] : free.size - (j - low[where])], fixed])
        least = min(least, float(np.var(left)))
        runs = first[j:] - first[:-j], second[j:] - second[:-j]
        most = max(
            most, float(variance(np.array(m - j), total[0] - runs[0], total[1] - runs[1]).max())
        )
    return np.sqrt(max(least, 0.0)), np.sqrt(most)


def _range_bounds(values: Array, kept: Any, k: int, _: Pair) -> tuple[float, float]:
    free, fixed = _sorted(values, kept)
    everything = np.concatenate([free, fixed])
    widest = float(np.ptp(everything))
    least = widest
    for low in range(min(k, free.size) + 1):
        left = np.concatenate([free[low : max(free.size - (k - low), low)], fixed])
        least = min(least, float(np.ptp(left)) if left.size else 0.0)
    return least, widest


def _largest_bounds(values: Array, kept: Any, k: int, _: Pair) -> tuple[float, float]:
    free, fixed = _sorted(np.abs(values), kept)
    left = np.concatenate([free[: max(free.size - k, 0)], fixed])
    most = max(free.max(initial=0.0), fixed.max(initial=0.0))
    return float(left.max(initial=0.0)), float(most)


def _quantile_bounds(values: Array, kept: Any, k: int, quantiles: Pair) -> tuple[float, float]:
    """Least: all that goes is outside, some of it below both quantiles; most: between them."""
    ordered = np.sort(values[~np.isnan(values)])
    least, most = np.inf, 0.0
    for j in range(min(k, ordered.size - 1) + 1):
        low, high = (_quantiles_without(ordered, j, share) for share in quantiles)
        least = min(least, float((high - low).min()))
        most = max(most, float(high[-1] - low[0]))
    return max(least, 0.0), most


def _quantiles_without(ordered: Array, j: int, share: float) -> Array:
    """A quantile when ``j`` values go, of them 0, 1, … ``j`` below it."""
    h = (ordered.size - j - 1) * share / 100.0
    low = int(np.floor(h))
    high = min(low + 1, ordered.size - j - 1)
    below = np.arange(j + 1)
    return np.asarray((1 - (h - low)) * ordered[low + below] + (h - low) * ordered[high + below])


BOUNDS: dict[str, Callable[[Array, Any, int, Pair], tuple[float, float]]] = {
    "deviation": _deviation_bounds,
    "range": _range_bounds,
    "largest": _largest_bounds,
    "quantiles": _quantile_bounds,
}


def deviation_shares(z: Array, there: Array, count: float, k: int) -> tuple[Array, Array]:
    r"""Rows' parts of the change of a variance, values being in units of it and centred.

    Without ``m`` of ``n`` values :math:`δ = Σ (1 − z_i²)/(n − m) − (Σ z_i/(n − m))²`, and
    :math:`(Σ z_i)² ≤ m Σ z_i²`.
    """
    part = there - z**2
    fewest, most = count - k, count - 1.0
    up = part / np.where(part > 0, fewest, most)
    down = -part / np.where(part < 0, fewest, most) + k * z**2 / fewest**2
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

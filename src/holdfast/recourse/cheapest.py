r"""The cheapest change that raises a linear score by a gap, within a box, in closed form.

Both solve Wachter's problem for a score that is linear in the change,

.. math:: \min_{l ≤ δ ≤ u} (\text{gap} − gᵀδ)² + λ · \text{cost}(δ),

with the weighted cost :math:`Σ w|δ|` or :math:`Σ (wδ)²`; at :math:`λ = 0` its limit λ → 0, the
cheapest δ that closes the gap (or all that the box allows, where that is less). With the squared
cost and no box this is the paper's :math:`δ = \text{gap}/(λ + ‖g‖²) · g`.
"""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array

#: a slope smaller than this leads nowhere, and dividing by it leaves the numbers there are
FLAT = 1e-290


def cheapest_change(
    gap: Array,
    slopes: Array,
    low: Array,
    high: Array,
    weight: Array,
    norm: str = "l1",
    trade_off: float = 0.0,
) -> Array:
    """The minimiser δ of shape (q, m), one row per person.

    Parameters
    ----------
    gap : (q,)
    slopes, low, high : (q, m)
        The box need not contain 0: what it forces is taken first.
    weight : (m,)
    norm : {"l1", "l2"}
    trade_off : float
        Wachter's λ.
    """
    solve = _knapsack if norm == "l1" else _clipped_ray
    return solve(gap, slopes, low, high, weight, trade_off)


def _knapsack(
    gap: Array, slopes: Array, low: Array, high: Array, weight: Array, trade_off: float
) -> Array:
    """Features in the order of their price per point of score, each as far as it goes."""
    forced = np.clip(0.0, low, high)
    gap = gap - np.einsum("qm,qm->q", slopes, forced)
    steep = np.abs(slopes)
    room = np.where(slopes > 0, high - forced, forced - low)
    usable = (steep > FLAT) & (room > 0)
    price = np.divide(weight, steep, out=np.full(steep.shape, np.inf), where=usable)
    order = np.argsort(price, axis=1, kind="stable")
    price = np.take_along_axis(price, order, axis=1)
    gains = np.multiply(steep, room, out=np.zeros(steep.shape), where=usable)
    gains = np.take_along_axis(gains, order, axis=1)
    before = np.zeros(gains.shape)
    before[:, 1:] = np.cumsum(gains[:, :-1], axis=1)
    shaded = 0.5 * trade_off * np.where(np.isfinite(price), price, 0.0)
    taken = np.clip(gap[:, None] - shaded - before, 0.0, gains)
    change = np.zeros(steep.shape)
    np.put_along_axis(change, order, taken, axis=1)
    change = np.divide(change, steep, out=np.zeros(steep.shape), where=usable)
    return forced + np.sign(slopes) * np.minimum(change, np.where(usable, room, 0.0))


def _clipped_ray(
    gap: Array, slopes: Array, low: Array, high: Array, weight: Array, trade_off: float
) -> Array:
    """``δ = clip(t g/w²)`` with ``gᵀδ + λt = gap``: increasing in t, so bisected, then exact."""
    direction = slopes / weight**2

    def gained(t: Array) -> Array:
        moved = np.clip(t[:, None] * direction, low, high)
        return np.einsum("qm,qm->q", slopes, moved) + trade_off * t

    curvature = np.einsum("qm,qm->q", slopes, direction) + trade_off
    upper = np.divide(
        np.maximum(gap, 0.0), curvature, out=np.zeros_like(gap), where=curvature > FLAT
    )
    lower = np.zeros_like(upper)
    for _ in range(200):
        short = gained(upper) < gap
        if not short.any() or np.all(upper[short] > 1e150):
            break
        upper = np.where(short, 2.0 * upper, upper)
    for _ in range(80):
        middle = 0.5 * (lower + upper)
        short = gained(middle) < gap
        lower, upper = np.where(short, middle, lower), np.where(short, upper, middle)
    ray = upper[:, None] * direction
    moved = np.clip(ray, low, high)
    # between two corners the solution is linear in t: solve there instead of bisecting further
    free = (ray > low) & (ray < high)
    rest = gap - np.einsum("qm,qm->q", np.where(free, 0.0, slopes), moved)
    pull = np.einsum("qm,qm->q", np.where(free, slopes, 0.0), direction) + trade_off
    t = np.divide(rest, pull, out=upper.copy(), where=pull > FLAT)
    close = np.abs(t - upper) <= 1e-9 * np.abs(upper)
    return np.clip(np.where(close, t, upper)[:, None] * direction, low, high)

"""Inner loops over pairs of units, compiled: forms at corners of ranges, payments, branching."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.box_loops import _compiled, _keep_largest
from holdfast.algebra.rows import Array


@_compiled
def at_corners(
    squares: Array,
    products: Array,
    low: Array,
    high: Array,
    slopes: Array,
    beside: Array,
    others_low: Array,
    others_high: Array,
    others_slopes: Array,
    others_beside: Array,
) -> None:
    """The largest ``V xy + Y(g y + h x) + pq`` for ``x`` and ``y`` in their ranges, pair by pair.

    ``squares`` (m, t) has ``V`` and gets the result, ``products`` (m, t) is ``Y``; ``low`` and
    ``high``, ``slopes`` and ``beside`` (m,) are the range of ``x``, ``g`` and ``p``; the others
    (t,) the range of ``y``, ``h`` and ``q``.
    """
    for i in range(squares.shape[0]):
        for j in range(squares.shape[1]):
            v, y = squares[i, j], products[i, j]
            mine, theirs = y * slopes[i], y * others_slopes[j]
            best = -np.inf
            for x in (low[i], high[i]):
                steep, flat = v * x + mine, theirs * x
                best = max(best, steep * others_low[j] + flat, steep * others_high[j] + flat)
            squares[i, j] = best + beside[i] * others_beside[j]


@_compiled
def paid(pairs: Array, before: Any, count: int, far: Array, out: Array) -> None:
    """The sums of the ``count`` largest of every line, among the first ``before``, 0 at least each.

    Partners that are not here add at most ``far``.
    """
    top = np.empty(max(count, 1))
    for i in range(pairs.shape[0]):
        total = 0.0
        if count > 0:
            for t in range(count):
                top[t] = max(far[i], 0.0)
            for j in range(before[i]):
                _keep_largest(top, count, pairs[i, j])
            for t in range(count):
                total += top[t]
        out[i] = total


@_compiled
def branch_pairs(
    alone: Array,
    pairs: Array,
    budget: int,
    room: float,
    rest: float,
    most_nodes: int,
    strongest: Any,
) -> tuple[int, int]:
    """Whether ``Σ alone + Σ pairs`` over every set of at most ``budget`` stays within the room.

    Depth first over "with the one that counts most" and "without it". What is left is bounded with
    the pairs of those chosen counted as they are; a pair of others is paid for by the later one.
    What somebody pays is worked out where it matters: what it was before others were chosen or left
    out is a bound.

    Parameters
    ----------
    alone, pairs : (m,) and (m, m), a symmetric matrix; the strongest first
    rest : what anybody who is not here adds at most, partners included

    Returns
    -------
    verdict : 0 within, 1 a set is not (in ``strongest``), 2 not known
    size : of that set
    """
    m = alone.size
    gains = np.zeros((budget + 1, m))
    owed = np.full((budget + 1, m), np.inf)
    open_ = np.ones((budget + 1, m), np.bool_)
    base = np.zeros(budget + 1)
    chosen = np.zeros(budget + 1, np.int64)
    top = np.empty(max(budget, 1))
    partners = np.empty(max(budget, 1))
    gains[0] = alone
    owed[0, 0] = 0.0
    depth = 0
    nodes = 0
    while depth >= 0:
        left = budget - depth
        for t in range(left):
            top[t] = max(rest, 0.0)
        largest = 0.0
        at = -1
        order = np.argsort(-(gains[depth] + owed[depth]))
        for a in range(m):
            i = order[a]
            if not open_[depth, i]:
                continue
            if gains[depth, i] + owed[depth, i] <= top[left - 1]:
                break
            count = min(left - 1, i)
            value = 0.0
            if count > 0:
                for t in range(count):
                    partners[t] = 0.0
                for j in range(i):
                    if pairs[i, j] > partners[count - 1] and open_[depth, j]:
                        _keep_largest(partners, count, pairs[i, j])
                for t in range(count):
                    value += partners[t]
            owed[depth, i] = value
            value += gains[depth, i]
            if value > 0.0:
                _keep_largest(top, left, value)
                if value > largest:
                    largest = value
                    at = i
        bound = base[depth]
        for t in range(left):
            bound += top[t]
        if bound <= room:
            depth -= 1
            continue
        nodes += 1
        if at < 0 or nodes > most_nodes:
            return 2, 0
        others = bound - top[left - 1]
        for i in range(m):
            if open_[depth, i] and others + gains[depth, i] + owed[depth, i] <= room:
                open_[depth, i] = False
        if not open_[depth, at]:
            return 2, 0
        open_[depth, at] = False
        chosen[depth] = at
        value = base[depth] + gains[depth, at]
        if value > room:
            for t in range(depth + 1):
                strongest[t] = chosen[t]
            return 1, depth + 1
        if left > 1:
            base[depth + 1] = value
            for i in range(m):
                gains[depth + 1, i] = gains[depth, i] + pairs[at, i]
                owed[depth + 1, i] = owed[depth, i]
                open_[depth + 1, i] = open_[depth, i]
            depth += 1
    return 0, 0

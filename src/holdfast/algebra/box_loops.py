"""The inner loops behind boxes and certificates, compiled: strongest entries, sums, branching."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from holdfast.algebra.rows import Array

_compiled: Any = nb.njit(cache=True, nogil=True, error_model="numpy")


@_compiled
def sift(keys: Array, places: Any, start: int, size: int) -> None:
    """Restore the heap (smallest key on top) after its entry ``start`` was replaced."""
    at = start
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[at] <= keys[child]:
            return
        keys[at], keys[child] = keys[child], keys[at]
        places[at], places[child] = places[child], places[at]
        at = child


@_compiled
def strongest(
    tile: Array, first: int, weight: Array, values: Array, places: Any, left_out: Array
) -> None:
    """Per row of the tile, the entries largest in ``|entry| · weight``, its own diagonal aside.

    Writes entries and their columns; ``left_out`` gets the largest product not among them.
    """
    wanted = values.shape[1]
    keys = np.empty(wanted)
    where = np.empty(wanted, np.int64)
    for b in range(tile.shape[0]):
        i = first + b
        size = 0
        beaten = 0.0
        for j in range(tile.shape[1]):
            key = abs(tile[b, j]) * weight[j]
            if size == wanted:
                if key <= keys[0]:
                    beaten = max(beaten, key if j != i else 0.0)
                    continue
                if j == i:
                    continue
                beaten = max(beaten, keys[0])
                keys[0] = key
                where[0] = j
                sift(keys, where, 0, size)
            elif j != i:
                keys[size] = key
                where[size] = j
                size += 1
                if size == wanted:
                    for start in range(wanted // 2 - 1, -1, -1):
                        sift(keys, where, start, wanted)
        for t in range(wanted):
            if t < size:
                values[i, t] = tile[b, where[t]]
                places[i, t] = where[t]
            else:
                values[i, t] = 0.0
                places[i, t] = 0
        left_out[i] = beaten


@_compiled
def _keep_largest(top: Array, count: int, value: float) -> None:
    """Insert into the ``count`` largest values, which are in falling order."""
    if value <= top[count - 1]:
        return
    t = count - 1
    while t > 0 and top[t - 1] < value:
        top[t] = top[t - 1]
        t -= 1
    top[t] = value


@_compiled
def sums_of_largest(
    values: Array,
    places: Any,
    left_out: Array,
    low: Array,
    high: Array,
    sign: float,
    count: int,
    out: Array,
) -> None:
    """Per row, the sum of the ``count`` largest ``max(v·low, v·high)⁺``, entries times ``sign``.

    Entries that were left out count as their ceiling ``left_out``.
    """
    top = np.empty(max(count, 1))
    for i in range(values.shape[0]):
        total = 0.0
        if count > 0:
            for t in range(count):
                top[t] = left_out[i]
            for t in range(values.shape[1]):
                v = sign * values[i, t]
                j = places[i, t]
                _keep_largest(top, count, max(v * low[j], v * high[j]))
            for t in range(count):
                total += top[t]
        out[i] = total


@_compiled
def candidates(
    tile: Array,
    low: Array,
    high: Array,
    charges: Array,
    values: Array,
    places: Any,
    left_out: Array,
) -> None:
    """Per recourse, the rows with the largest gain, and their ``c``.

    The gain of row ``j`` is ``max(c·low, c·high)`` plus what is charged for it (``charges`` has no
    lines where that is nothing).
    """
    charged = charges.shape[0] > 0
    wanted = values.shape[1]
    keys = np.empty(wanted)
    where = np.empty(wanted, np.int64)
    for b in range(tile.shape[0]):
        size = 0
        beaten = 0.0
        for j in range(tile.shape[1]):
            c = tile[b, j]
            key = max(c * low[j], c * high[j])
            if charged:
                key += charges[b, j]
            if key <= 0.0:
                continue
            if size < wanted:
                keys[size] = key
                where[size] = j
                size += 1
                if size == wanted:
                    for start in range(wanted // 2 - 1, -1, -1):
                        sift(keys, where, start, wanted)
            elif key > keys[0]:
                beaten = max(beaten, keys[0])
                keys[0] = key
                where[0] = j
                sift(keys, where, 0, size)
            else:
                beaten = max(beaten, key)
        for t in range(wanted):
            values[b, t] = tile[b, where[t]] if t < size else 0.0
            places[b, t] = where[t] if t < size else -1
        left_out[b] = beaten


@_compiled
def reach(
    values: Array,
    places: Any,
    left_out: Array,
    low: Array,
    high: Array,
    charges: Array,
    count: int,
    out: Array,
) -> None:
    """Per recourse, a bound on what ``count`` deletions can do: its largest gains summed."""
    top = np.empty(count)
    for b in range(values.shape[0]):
        for t in range(count):
            top[t] = left_out[b]
        for t in range(values.shape[1]):
            j = places[b, t]
            if j >= 0:
                c = values[b, t]
                _keep_largest(top, count, max(c * low[j], c * high[j]) + charges[b, t])
        out[b] = top.sum()


@_compiled
def _column_without(P: Array, columns: Array, gone: Any, depth: int, at: int) -> Array:
    """Column ``at`` of ``P`` after the deletion of ``gone[:depth]``, kept as ``columns[depth]``."""
    column = columns[depth]
    for i in range(column.size):
        column[i] = P[i, at]
    for t in range(depth):
        weight = columns[t, at] / columns[t, gone[t]]
        for i in range(column.size):
            column[i] -= weight * columns[t, i]
    return column


@_compiled
def branch(
    c: Array,
    r: Array,
    P: Array,
    low: Array,
    high: Array,
    charge: Array,
    budget: int,
    margin: float,
    proof: float,
    most_nodes: int,
    witness: Any,
) -> tuple[int, int, int]:
    """Whether some set of at most ``budget`` rows lowers one score by more than its margin.

    Depth first over "delete the row with the largest gain" and "keep it"; the boxes ``low … high``
    bound ``P_SS⁻¹ r_S``, which Schur updates leave alone.

    Returns
    -------
    verdict : 0 proven that none does (every effect plus what is charged for its rows at most
        ``proof``), 1 one does by more than ``margin`` (in ``witness``), 2 not decided
    size : of the witness
    nodes : looked at
    """
    s = c.size
    cs = np.zeros((budget + 1, s))
    rs = np.zeros((budget + 1, s))
    ds = np.zeros((budget + 1, s))
    base = np.zeros(budget + 1)
    charged = np.zeros(budget + 1)
    open_ = np.ones((budget + 1, s), np.bool_)
    chosen = np.zeros(budget + 1, np.int64)
    columns = np.zeros((budget + 1, s))
    cs[0] = c
    rs[0] = r
    for i in range(s):
        ds[0, i] = P[i, i]
    top = np.empty(max(budget, 1))
    depth = 0
    nodes = 0
    undecided = False
    while depth >= 0:
        left = budget - depth
        # the best single deletion more, exactly
        best = -np.inf
        best_at = -1
        dearest = base[depth] + charged[depth]
        for i in range(s):
            if open_[depth, i] and ds[depth, i] > 0.0:
                value = base[depth] + cs[depth, i] * rs[depth, i] / ds[depth, i]
                dearest = max(dearest, value + charged[depth] + charge[i])
                if value > best:
                    best = value
                    best_at = i
        if best > margin:
            for t in range(depth):
                witness[t] = chosen[t]
            witness[depth] = best_at
            return 1, depth + 1, nodes
        if left == 1:
            if dearest > proof:
                undecided = True
            depth -= 1
            continue
        for t in range(left):
            top[t] = 0.0
        largest = 0.0
        at = -1
        for i in range(s):
            if open_[depth, i]:
                gain = max(cs[depth, i] * low[i], cs[depth, i] * high[i]) + charge[i]
                if gain > 0.0:
                    _keep_largest(top, left, gain)
                    if gain > largest:
                        largest = gain
                        at = i
        bound = base[depth] + charged[depth]
        for t in range(left):
            bound += top[t]
        if at < 0 or bound <= proof:
            if at < 0 and bound > proof:
                undecided = True
            depth -= 1
            continue
        nodes += 1
        if nodes > most_nodes:
            return 2, 0, nodes
        # delete row ``at``: an exact Schur update of everything that is left
        open_[depth, at] = False
        column = _column_without(P, columns, chosen, depth, at)
        pivot = column[at]
        chosen[depth] = at
        step = rs[depth, at] / pivot
        base[depth + 1] = base[depth] + cs[depth, at] * step
        charged[depth + 1] = charged[depth] + charge[at]
        for i in range(s):
            open_[depth + 1, i] = open_[depth, i]
            cs[depth + 1, i] = cs[depth, i] - column[i] / pivot * cs[depth, at]
            rs[depth + 1, i] = rs[depth, i] - column[i] * step
            ds[depth + 1, i] = ds[depth, i] - column[i] * column[i] / pivot
        depth += 1
    return (2 if undecided else 0), 0, nodes


@_compiled
def greedy_one(c: Array, r: Array, P: Array, budget: int, margin: float, witness: Any) -> int:
    """Delete what lowers one score most, again and again; the size at which it breaks, or 0."""
    s = c.size
    c, r, d = c.copy(), r.copy(), np.zeros(s)
    columns = np.zeros((budget, s))
    for i in range(s):
        d[i] = P[i, i]
    open_ = np.ones(s, np.bool_)
    base = 0.0
    for depth in range(min(budget, s)):
        best = -np.inf
        at = -1
        for i in range(s):
            if open_[i] and d[i] > 1e-9:
                value = c[i] * r[i] / d[i]
                if value > best:
                    best = value
                    at = i
        if at < 0:
            return 0
        column = _column_without(P, columns, witness, depth, at)
        witness[depth] = at
        base += best
        if base > margin:
            return depth + 1
        open_[at] = False
        step, pivot, effect = r[at] / column[at], column[at], c[at]
        for i in range(s):
            c[i] -= column[i] / pivot * effect
            r[i] -= column[i] * step
            d[i] -= column[i] * column[i] / pivot
    return 0

"""Inner loops over units of deletion, rows or people, compiled: sums of the largest, branching."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.box_loops import _column_without, _compiled, _keep_largest
from holdfast.algebra.rows import Array


@_compiled
def unit_sums(
    E: Array, starts: Any, low: Array, high: Array, sign: float, count: int, rest: Array, out: Array
) -> None:
    """Per row, the ``count`` largest sums over one unit of ``max(±e·low, ±e·high)``, 0 at least.

    ``E`` is 0 within a unit. Units that are not here count as ``rest`` of the row.
    """
    top = np.empty(max(count, 1))
    for i in range(E.shape[0]):
        total = 0.0
        if count > 0:
            for t in range(count):
                top[t] = rest[i]
            for b in range(starts.size - 1):
                value = 0.0
                for j in range(starts[b], starts[b + 1]):
                    e = sign * E[i, j]
                    value += max(e * low[j], e * high[j])
                _keep_largest(top, count, value)
            for t in range(count):
                total += top[t]
        out[i] = total


@_compiled
def largest_sum(values: Array, count: int, top: Array) -> float:
    """The sum of the ``count`` largest values, 0 at least each; ``top`` is room for them."""
    for t in range(count):
        top[t] = 0.0
    for i in range(values.size):
        _keep_largest(top, count, values[i])
    total = 0.0
    for t in range(count):
        total += top[t]
    return total


@_compiled
def shared_out(G: Array, first: int, count: int, out: Array) -> None:
    """A share of ``Σ_{i,j ∈ S} G_ij`` for every unit: sets of ``count`` have at most their sum.

    Of the ``first`` units, in order, a pair is paid for by the later one; a pair of one of them and
    another unit by that other; a pair of others by both, half each.
    """
    partners = max(count - 1, 1)
    top = np.empty(partners)
    for i in range(G.shape[0]):
        total = 0.0
        if count > 1:
            for t in range(partners):
                top[t] = 0.0
            for j in range(min(i, first)):
                _keep_largest(top, partners, 2.0 * G[i, j])
            if i >= first:
                for j in range(first, G.shape[0]):
                    if j != i:
                        _keep_largest(top, partners, G[i, j])
            for t in range(partners):
                total += top[t]
        out[i] = G[i, i] + total


@_compiled
def within_level(
    values: Array, pulls: Array, count: int, floor: float, room: float, alive: Any
) -> tuple[bool, float]:
    """Whether ``count`` units whose pulls are at least ``floor`` together stay within the room.

    A bound on ``Σ values`` over such sets is ``Σ (values + λ pulls) − λ floor`` for any ``λ ≥ 0``,
    at most the sum of the largest. Returns whether one is found that fits, and the best ``λ``;
    units that can be part of a set that does not fit are marked in ``alive``.
    """
    top = np.empty(count)
    shifted = values.copy()
    best = np.inf
    chosen = 0.0
    low, high = 0.0, -1.0
    largest = 0.0
    scale = 0.0
    for i in range(values.size):
        largest = max(largest, values[i])
        scale = max(scale, abs(pulls[i]))
    weight = 0.0
    for turn in range(24):
        for i in range(values.size):
            shifted[i] = values[i] + weight * pulls[i]
        bound = largest_sum(shifted, count, top) - weight * floor
        if bound < best:
            best = bound
            chosen = weight
        if bound <= room or scale == 0.0:
            break
        # the slope in λ: what the chosen units pull, less the floor
        pull = 0.0
        taken = 0
        for i in range(values.size):
            if taken < count and shifted[i] >= top[count - 1] and shifted[i] > 0.0:
                pull += pulls[i]
                taken += 1
        if pull >= floor:
            high = weight
        else:
            low = weight
        if high == 0.0:
            break
        if high < 0.0:
            weight = largest / scale if weight == 0.0 else 2.0 * weight
            if turn > 10:
                break
        else:
            if high - low <= 1e-2 * high:
                break
            weight = 0.5 * (low + high)
    if best <= room:
        return True, chosen
    for i in range(values.size):
        shifted[i] = values[i] + chosen * pulls[i]
    largest_sum(shifted, count, top)
    others = 0.0
    for t in range(count - 1):
        others += top[t]
    allowed = room + chosen * floor
    for i in range(values.size):
        if shifted[i] + others > allowed:
            alive[i] = True
    return False, chosen


@_compiled
def within_levels(
    values: Array,
    pulls: Array,
    count: int,
    floor: float,
    rooms: Array,
    alive: Any,
    weights: Array,
    fits: Any,
) -> None:
    """:func:`within_level` for several recourses, one a line; ``alive`` is marked anew."""
    for j in range(values.shape[0]):
        for i in range(values.shape[1]):
            alive[j, i] = False
        fits[j], weights[j] = within_level(values[j], pulls, count, floor, rooms[j], alive[j])


@_compiled
def branch_units(
    c: Array,
    r: Array,
    P: Array,
    starts: Any,
    low: Array,
    high: Array,
    charge: Array,
    budget: int,
    proof: float,
    most_nodes: int,
    strongest: Any,
) -> tuple[int, int]:
    """Whether every set of at most ``budget`` units lowers one score by at most ``proof``.

    Depth first over "delete the unit with the largest gain" and "keep it", the rows of a unit one
    after the other. The boxes ``low … high`` bound ``P_SS⁻¹ r_S``, which Schur updates leave alone.
    ``charge`` (units) is what each adds beside.

    Returns
    -------
    verdict : 0 proven, 2 not decided
    size : of the set that does most of those looked at, in ``strongest``
    """
    s, units = c.size, starts.size - 1
    most = 1
    for b in range(units):
        most = max(most, starts[b + 1] - starts[b])
    # one level of the tree has several single deletions
    cs = np.zeros((budget + 1, s))
    rs = np.zeros((budget + 1, s))
    base = np.zeros(budget + 1)
    charged = np.zeros(budget + 1)
    open_ = np.ones((budget + 1, units), np.bool_)
    chosen = np.zeros(budget + 1, np.int64)
    gone = np.zeros(budget * most + 1, np.int64)
    counts = np.zeros(budget + 2, np.int64)
    columns = np.zeros((budget * most + 1, s))
    cs[0] = c
    rs[0] = r
    top = np.empty(max(budget, 1))
    best = -np.inf
    size = 0
    depth = 0
    nodes = 0
    verdict = 0
    while depth >= 0:
        left = budget - depth
        for t in range(left):
            top[t] = 0.0
        largest = 0.0
        at = -1
        for b in range(units):
            if open_[depth, b]:
                gain = charge[b]
                for i in range(starts[b], starts[b + 1]):
                    gain += max(cs[depth, i] * low[i], cs[depth, i] * high[i])
                if gain > 0.0:
                    _keep_largest(top, left, gain)
                    if gain > largest:
                        largest = gain
                        at = b
        bound = base[depth] + charged[depth]
        for t in range(left):
            bound += top[t]
        if at < 0 or bound <= proof:
            if at < 0 and bound > proof:
                verdict = 2
            depth -= 1
            continue
        nodes += 1
        if nodes > most_nodes:
            return 2, size
        open_[depth, at] = False
        chosen[depth] = at
        for i in range(s):
            cs[depth + 1, i] = cs[depth, i]
            rs[depth + 1, i] = rs[depth, i]
        for b in range(units):
            open_[depth + 1, b] = open_[depth, b]
        base[depth + 1] = base[depth]
        charged[depth + 1] = charged[depth] + charge[at]
        so_far = counts[depth]
        singular = False
        for row in range(starts[at], starts[at + 1]):
            column = _column_without(P, columns, gone, so_far, row)
            pivot = column[row]
            if pivot <= 1e-9:
                singular = True
                break
            gone[so_far] = row
            step = rs[depth + 1, row] / pivot
            effect = cs[depth + 1, row]
            base[depth + 1] += effect * step
            for i in range(s):
                cs[depth + 1, i] -= column[i] / pivot * effect
                rs[depth + 1, i] -= column[i] * step
            so_far += 1
        if singular:
            verdict = 2
            continue
        counts[depth + 1] = so_far
        if base[depth + 1] > best:
            best = base[depth + 1]
            size = depth + 1
            for t in range(size):
                strongest[t] = chosen[t]
        if base[depth + 1] + charged[depth + 1] > proof:
            verdict = 2  # nothing better can be said of this set here
            return verdict, size
        if left > 1:
            depth += 1
    return verdict, size

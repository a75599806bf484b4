"""The inner loops of a forest that forgets, compiled: growing, growing again without some rows,
what every single deletion does, and what each tree says of a query.

A tree lies in preorder: the left child of node ``v`` is ``v + 1``, the right one
``v + 1 + size[v + 1]``, so a subtree is one block that can be copied. A leaf has feature −1. Every
node knows how many rows it has (``count``) and the sum of their whole-number labels (``total``).

What is chosen at a node depends on the *set* of its rows, on the tree's seed and on the way from
the root to it, and on nothing else: not on the order of rows, not on what other nodes drew. So
growing without a row gives the same tree whichever way it is come by.

Rows of unit ``gone`` are passed over everywhere. Labels are whole numbers and their sums exact; a
split's worth is the same float expression of the same whole numbers. No ``fastmath``: it would
allow that expression to be evaluated in more than one way.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from holdfast.algebra.rows import Array

_compiled: Any = nb.njit(cache=True, nogil=True, error_model="numpy")

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_LEFT, _RIGHT, _DRAWS = np.uint64(1), np.uint64(2), np.uint64(3)
_N27, _N30, _N31, _N32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@_compiled
def mixed(state: Any) -> Any:
    """64 bits that depend on all 64 bits of ``state`` (splitmix64, Steele et al. 2014)."""
    z = (state ^ (state >> _N30)) * _FIRST
    z = (z ^ (z >> _N27)) * _SECOND
    return z ^ (z >> _N31)


@_compiled
def _below(state: Any, draw: int, bound: int) -> Any:
    """The draw numbered ``draw`` at ``state``: a whole number from 0 to ``bound − 1``."""
    bits = mixed(state + (_DRAWS + np.uint64(draw)) * _GOLDEN) >> _N32
    return np.int64((bits * np.uint64(bound)) >> _N32)


@_compiled
def _permuted(state: Any, out: Any) -> None:
    """Write all features in an order drawn from ``state``."""
    d = out.size
    for j in range(d):
        out[j] = j
    for j in range(d - 1):
        k = j + _below(state, j, d - j)
        out[j], out[k] = out[k], out[j]


@_compiled
def roots(start: Any, n_trees: int) -> Any:
    """The state at the root of every tree, (T,)."""
    states = np.empty(n_trees, np.uint64)
    for t in range(n_trees):
        states[t] = mixed(start + np.uint64(t + 1) * _GOLDEN)
    return states


@_compiled
def trees_of(states: Any, n_trees: int, per_row: int) -> Any:
    """The ``per_row`` different trees of every key, in order: (n, m)."""
    members = np.empty((states.size, per_row), np.intp)
    urn = np.arange(n_trees)
    taken = np.empty(per_row, np.int64)
    for i in range(states.size):
        for j in range(per_row):
            k = j + _below(states[i], j, n_trees - j)
            taken[j] = k
            urn[j], urn[k] = urn[k], urn[j]
            members[i, j] = urn[j]
        for j in range(per_row - 1, -1, -1):  # put everything back
            k = taken[j]
            urn[j], urn[k] = urn[k], urn[j]
        members[i].sort()
    return members


@_compiled
def rows_by_tree(members: Any, trees: Any, n_trees: int) -> Any:
    """The rows of the trees named, ascending: of tree t, ``rows[starts[t] : starts[t + 1]]``."""
    starts = np.zeros(n_trees + 1, np.int64)
    named = np.zeros(n_trees, np.bool_)
    for t in trees:
        named[t] = True
    for i in range(members.shape[0]):
        for j in range(members.shape[1]):
            if named[members[i, j]]:
                starts[members[i, j] + 1] += 1
    for t in range(n_trees):
        starts[t + 1] += starts[t]
    rows = np.empty(starts[n_trees], np.int64)
    fill = starts[:-1].copy()
    for i in range(members.shape[0]):
        for j in range(members.shape[1]):
            t = members[i, j]
            if named[t]:
                rows[fill[t]] = i
                fill[t] += 1
    return starts, rows


@_compiled
def kept_rows(table: Any, gone: Any) -> Any:
    """The rows of a table that are not marked."""
    kept = np.empty((table.shape[0] - gone.sum(), table.shape[1]), table.dtype)
    k = 0
    for i in range(table.shape[0]):
        if gone[i] == 0:
            kept[k] = table[i]
            k += 1
    return kept


@_compiled
def _best_split(
    cells: Array,
    labels: Any,
    rows: Any,
    unit: Any,
    gone: int,
    features: Any,
    candidates: int,
    least: int,
    values: Array,
    orders: Any,
    known: Any,
) -> Any:
    """The best split of a node's rows without unit ``gone``: feature, threshold, count, total.

    Features are looked at in the order of ``features``, constant ones not counted, until
    ``candidates`` have been; thresholds lie midway between neighbouring values. The first of equals
    wins. A feature of −1 says that there is none.

    ``values`` and ``orders`` (slots, rows) hold what has been sorted. With a slot per feature, the
    first ``known[0]`` are there already and are used by every unit of the node; with a single slot
    each is sorted when it is wanted.
    """
    count, total = 0, 0
    lowest, highest = np.int64(0), np.int64(0)
    for i in rows:
        if unit[i] != gone:
            label = labels[i]
            if count == 0 or label < lowest:
                lowest = label
            if count == 0 or label > highest:
                highest = label
            count += 1
            total += label
    best, best_feature, best_threshold = -1.0, -1, 0.0
    if count < 2 * least or lowest == highest:
        return best_feature, best_threshold, count, total
    looked_at = 0
    for p in range(features.size):
        feature = features[p]
        slot = p if orders.shape[0] > 1 else 0
        if orders.shape[0] == 1 or p >= known[0]:
            for k in range(rows.size):
                values[slot, k] = cells[feature, rows[k]]
            order = np.argsort(values[slot, : rows.size])
            for k in range(rows.size):
                orders[slot, k] = rows[order[k]]
            for k in range(rows.size):
                values[slot, k] = cells[feature, orders[slot, k]]
            known[0] = p + 1
        varies = False
        left_count, left_total = 0, 0
        before = 0.0
        for k in range(rows.size):
            i = orders[slot, k]
            if unit[i] == gone:
                continue
            here = values[slot, k]
            if left_count > 0 and here != before:
                varies = True
                if left_count >= least and count - left_count >= least:
                    left, right = float(left_total), float(total - left_total)
                    worth = left * left / left_count + right * right / (count - left_count)
                    if worth > best:
                        best, best_feature = worth, feature
                        best_threshold = 0.5 * before + 0.5 * here
                        if not before <= best_threshold < here:  # no number lies between
                            best_threshold = before
            left_count += 1
            left_total += labels[i]
            before = here
        if varies:
            looked_at += 1
            if looked_at == candidates:
                break
    return best_feature, best_threshold, count, total


@_compiled
def _grow(
    cells: Array,
    labels: Any,
    rows: Any,
    unit: Any,
    gone: int,
    state: Any,
    candidates: int,
    least: int,
    old_root: int,
    old: Any,
    new: Any,
) -> int:
    """Grow a (sub)tree on ``rows`` without unit ``gone``; how many nodes it has.

    With ``old_root`` (else −1) the subtree of ``old`` that all of ``rows`` had gives whatever does
    not change: a branch nobody leaves is copied, and a node is left to its two sides where those
    who stay are parted as before. ``old`` and ``new`` are (feature, threshold, size, count, total).
    """
    old_feature, old_threshold, old_size, old_count, old_total = old
    feature, threshold, size, count, total = new
    d = cells.shape[0]
    order = rows.copy()
    spare = np.empty_like(order)
    features = np.empty(d, np.int64)
    values = np.empty((1, order.size))
    orders = np.empty((1, order.size), np.int64)
    known = np.zeros(1, np.int64)
    # a branch waits while the one to its left is grown: never more than there are rows
    todo = np.empty((order.size + 2, 3), np.int64)
    states = np.empty(order.size + 2, np.uint64)
    todo[0, 0], todo[0, 1], todo[0, 2] = 0, order.size, old_root
    states[0] = state
    waiting, made = 1, 0
    while waiting:
        waiting -= 1
        lo, hi, was = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
        state = states[waiting]
        if was >= 0:
            leaving = 0
            for k in range(lo, hi):
                leaving += unit[order[k]] == gone
            if leaving == 0:
                for v in range(was, was + old_size[was]):
                    feature[made], threshold[made] = old_feature[v], old_threshold[v]
                    count[made], total[made] = old_count[v], old_total[v]
                    made += 1
                continue
        _permuted(state, features)
        f, t, node_count, node_total = _best_split(
            cells, labels, order[lo:hi], unit, gone, features, candidates, least,
            values, orders, known,
        )  # fmt: skip
        feature[made], threshold[made] = f, t
        count[made], total[made] = node_count, node_total
        made += 1
        if f < 0:
            continue
        left_was = right_was = -1
        t_gone = t
        if was >= 0 and old_feature[was] == f:
            t_gone = old_threshold[was]
            same = True
            for k in range(lo, hi):
                i = order[k]
                if unit[i] != gone and (cells[f, i] <= t) != (cells[f, i] <= t_gone):
                    same = False
                    break
            if same:
                left_was = was + 1
                right_was = left_was + old_size[left_was]
        middle, behind = lo, 0
        for k in range(lo, hi):
            i = order[k]
            if cells[f, i] <= (t_gone if unit[i] == gone else t):
                order[middle] = i
                middle += 1
            else:
                spare[behind] = i
                behind += 1
        for k in range(behind):
            order[middle + k] = spare[k]
        todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = middle, hi, right_was
        states[waiting] = mixed(state + _RIGHT * _GOLDEN)
        waiting += 1
        todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = lo, middle, left_was
        states[waiting] = mixed(state + _LEFT * _GOLDEN)
        waiting += 1
    for v in range(made - 1, -1, -1):
        size[v] = 1 if feature[v] < 0 else 1 + size[v + 1] + size[v + 1 + size[v + 1]]
    return made


@_compiled
def _taken(X: Array, labels: Any, unit: Any, rows: Any) -> Any:
    """One tree's rows by themselves: cells (d, r), labels and units."""
    d = X.shape[1]
    cells = np.empty((d, rows.size))
    own_labels = np.empty(rows.size, np.int64)
    own_unit = np.empty(rows.size, np.int64)
    for k in range(rows.size):
        i = rows[k]
        own_labels[k], own_unit[k] = labels[i], unit[i]
        for j in range(d):
            cells[j, k] = X[i, j]
    return cells, own_labels, own_unit


@_compiled
def most_nodes(rows: int, least: int) -> int:
    """The largest number of nodes a tree of so many rows can have."""
    return 2 * max(1, rows // least) - 1


@_compiled
def _from(nodes: Any, first: int) -> Any:
    """The arrays of nodes from one node on."""
    return nodes[0][first:], nodes[1][first:], nodes[2][first:], nodes[3][first:], nodes[4][first:]


@_compiled
def _room(n: int) -> Any:
    """Arrays for so many nodes: feature, threshold, size, count, total."""
    return (
        np.empty(n, np.int32), np.empty(n), np.empty(n, np.int32),
        np.empty(n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip


@_compiled
def grow_trees(
    trees: Any,
    X: Array,
    labels: Any,
    unit: Any,
    gone: int,
    starts: Any,
    rows: Any,
    states: Any,
    candidates: int,
    least: int,
    again: bool,
    tree_start: Any,
    old: Any,
) -> Any:
    """The trees named, one after another, without unit ``gone``: their sizes and their nodes.

    ``again`` says that ``old`` has them grown with everybody; tree t begins at ``tree_start[t]``.
    """
    room = 0
    for t in trees:
        room += most_nodes(starts[t + 1] - starts[t], least)
    new = _room(room)
    sizes = np.empty(trees.size, np.int64)
    made = 0
    for k in range(trees.size):
        t = trees[k]
        cells, own_labels, own_unit = _taken(X, labels, unit, rows[starts[t] : starts[t + 1]])
        sizes[k] = _grow(
            cells, own_labels, np.arange(own_unit.size), own_unit, gone, states[t],
            candidates, least, tree_start[t] if again else -1, old, _from(new, made),
        )  # fmt: skip
        made += sizes[k]
    return (
        sizes, new[0][:made].copy(), new[1][:made].copy(), new[2][:made].copy(),
        new[3][:made].copy(), new[4][:made].copy(),
    )  # fmt: skip


@_compiled
def output(count: int, total: int, scale: Array) -> float:
    """What a leaf says; ``scale`` is (origin, step, low, high, what an empty tree says)."""
    if count == 0:
        return float(scale[4])
    mean = scale[0] + scale[1] * (float(total) / float(count))
    return min(max(mean, scale[2]), scale[3])


@_compiled
def _leaf(query: Array, feature: Any, threshold: Array, size: Any, root: int) -> int:
    """The leaf a query comes to."""
    v = root
    while feature[v] >= 0:
        left = v + 1
        v = left if query[feature[v]] <= threshold[v] else left + size[left]
    return v


@_compiled
def parts(Q: Array, nodes: Any, tree_start: Any, scale: Array, out: Array) -> None:
    """What every tree says of every query: (q, T)."""
    feature, threshold, size, count, total = nodes
    for j in range(Q.shape[0]):
        for t in range(tree_start.size - 1):
            v = _leaf(Q[j], feature, threshold, size, tree_start[t])
            out[j, t] = output(count[v], total[v], scale)


@_compiled
def _parted(members: Any, column: Array, threshold: float, spare: Any) -> int:
    """Put those whose cell is at most ``threshold`` first, in place; how many they are."""
    ahead, behind = 0, 0
    for i in members:
        if column[i] <= threshold:
            members[ahead] = i
            ahead += 1
        else:
            spare[behind] = i
            behind += 1
    for k in range(behind):
        members[ahead + k] = spare[k]
    return ahead


@_compiled
def _put(
    todo: Any, ways: Any, k: int, v: int, lo: int, hi: int, q_lo: int, q_hi: int, way: Any
) -> None:
    """Note a node to go to, with its rows and its queries."""
    todo[k, 0], todo[k, 1], todo[k, 2], todo[k, 3], todo[k, 4] = v, lo, hi, q_lo, q_hi
    ways[k] = way


@_compiled
def _note(
    fall: float,
    before: float,
    scale: Array,
    tree: int,
    unit: int,
    query: int,
    most: Array,
    beyond: Array,
) -> None:
    """Remember what a unit takes from a tree, for what several can do together."""
    above = before - scale[2]
    if scale[5] < 0:
        fall, above = -fall, scale[3] - before
    most[tree, query] = max(most[tree, query], fall)
    beyond[unit, query] += max(fall - 0.5 * above, 0.0)


@_compiled
def effects(
    first: int,
    last: int,
    X: Array,
    labels: Any,
    unit: Any,
    starts: Any,
    rows: Any,
    states: Any,
    candidates: int,
    least: int,
    tree_start: Any,
    nodes: Any,
    Q: Array,
    scale: Array,
    out: Array,
    most: Array,
    beyond: Array,
) -> None:
    """How much deleting each of the units ``first … last − 1`` lowers the mean of all trees.

    ``out`` (last − first, q) begins with zeros, and so do ``most`` (T, q), the largest fall of each
    tree by any of these units, and ``beyond`` (last − first, q), by how much falls of single trees
    exceed half of all the tree says above its least; both are skipped where they are empty. The
    sixth number of ``scale`` is 1, or −1 where rises are meant in place of falls.

    A tree is walked once for all its units: at a node, whoever would change its split has the
    branch grown again for the queries that come there, and is done with; everybody else goes on to
    where their rows are, down to leaves. Columns are sorted once per node.
    """
    d, q = X.shape[1], Q.shape[0]
    bounds = most.size > 0
    features = np.empty(d, np.int64)
    known = np.zeros(1, np.int64)
    before = np.empty(q)
    waits_for = np.empty(q, np.int64)
    spare_queries = np.empty(q, np.int64)
    for tree in range(tree_start.size - 1):
        own = rows[starts[tree] : starts[tree + 1]]
        r = own.size
        settled = np.empty(r, np.bool_)
        left_to_do = 0
        for k in range(r):
            settled[k] = not first <= unit[own[k]] < last
            left_to_do += not settled[k]
        if left_to_do == 0:
            continue
        cells, own_labels, own_unit = _taken(X, labels, unit, own)
        old = _from(nodes, tree_start[tree])
        feature, threshold, size, count, total = old
        for j in range(q):
            v = _leaf(Q[j], feature, threshold, size, 0)
            before[j] = output(count[v], total[v], scale)
            waits_for[j] = j
        values, orders = np.empty((d, r)), np.empty((d, r), np.int64)
        new = _room(most_nodes(r, least))
        order, spare = np.arange(r), np.empty(r, np.int64)
        looked_at = np.full(r, -1)  # the node at which a row's unit was last looked at
        todo = np.empty((r + 2, 5), np.int64)
        ways = np.empty(r + 2, np.uint64)
        _put(todo, ways, 0, 0, 0, r, 0, q, states[tree])
        waiting = 1
        while waiting:
            waiting -= 1
            v, lo, hi = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
            q_lo, q_hi, state = todo[waiting, 3], todo[waiting, 4], ways[waiting]
            if q_lo == q_hi:
                continue
            f = feature[v]
            _permuted(state, features)
            known[0] = 0
            going_on = 0
            here = order[lo:hi]
            for k in range(here.size):
                i = here[k]
                if settled[i] or looked_at[i] == v:
                    going_on += not settled[i]
                    continue
                gone = own_unit[i]
                for other in here[k:]:
                    if own_unit[other] == gone:
                        looked_at[other] = v
                # a leaf is asked as well: a feature that is constant now makes room for another
                f_then, t_then, count_then, total_then = _best_split(
                    cells, own_labels, here, own_unit, gone, features, candidates, least,
                    values, orders, known,
                )  # fmt: skip
                if f >= 0 and f_then == f and t_then == threshold[v]:
                    going_on += 1
                    continue
                drops = out[gone - first]
                if f_then < 0:
                    after = output(count_then, total_then, scale)
                    for j in waits_for[q_lo:q_hi]:
                        fall = before[j] - after
                        drops[j] += fall
                        if bounds:
                            _note(fall, before[j], scale, tree, gone - first, j, most, beyond)
                else:
                    _grow(
                        cells, own_labels, here, own_unit, gone, state, candidates, least,
                        v, old, new,
                    )  # fmt: skip
                    for j in waits_for[q_lo:q_hi]:
                        leaf = _leaf(Q[j], new[0], new[1], new[2], 0)
                        fall = before[j] - output(new[3][leaf], new[4][leaf], scale)
                        drops[j] += fall
                        if bounds:
                            _note(fall, before[j], scale, tree, gone - first, j, most, beyond)
                for other in here[k:]:
                    if own_unit[other] == gone:
                        settled[other] = True
            if f < 0 or going_on == 0:
                continue
            middle = lo + _parted(order[lo:hi], cells[f], threshold[v], spare)
            q_middle = q_lo + _parted(waits_for[q_lo:q_hi], Q[:, f], threshold[v], spare_queries)
            left = v + 1
            right, to_the_right = left + size[left], mixed(state + _RIGHT * _GOLDEN)
            to_the_left = mixed(state + _LEFT * _GOLDEN)
            _put(todo, ways, waiting, right, middle, hi, q_middle, q_hi, to_the_right)
            _put(todo, ways, waiting + 1, left, lo, middle, q_lo, q_middle, to_the_left)
            waiting += 2
    for i in range(out.shape[0]):
        for j in range(q):
            out[i, j] /= tree_start.size - 1
            if bounds:
                beyond[i, j] /= tree_start.size - 1

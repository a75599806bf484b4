"""One recourse, where the bound alone does not decide: elimination, trees, groups, attacks."""

from __future__ import annotations

import time

import numpy as np

from holdfast.algebra.box_loops import branch, greedy_one, sums_of_largest
from holdfast.algebra.boxes import Boxes
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Positions
from holdfast.proofs.candidates import Candidates, Verdicts

#: nodes of one recourse's tree
NODES = 20_000
#: rows of a core: what a tree is grown on where the bounds leave more
CORE = 300
#: rows a quick attempt looks at
QUICK = 64


class Refined:
    """One recourse, where the bound alone does not decide."""

    def __init__(
        self,
        deletions: Deletions,
        found: Boxes,
        lists: Candidates,
        j: int,
        margin: float,
        error: float,
        proof: Array,
    ):
        self.deletions, self.boxes, self.lists, self.j = deletions, found, lists, j
        self.margin, self.error, self.proof = float(margin), float(error), proof
        there = lists.places[j] >= 0
        self.rows, self.c = lists.places[j][there], lists.values[j][there]
        self.whole = False

    def into(self, result: Verdicts, budget: int, deadline: float) -> None:
        """Raise what is certified as far as it goes, and find the smallest attack."""
        j = self.j
        for k in range(int(result.certified[j]) + 1, min(result.limit, self.lists.cap[j]) + 1):
            if time.monotonic() > deadline or not np.isfinite(self.proof[k]):
                break
            verdict, rows = self._decide(k, NODES)
            if verdict == 1:
                result.attacked[j], result.witness[j] = len(rows), rows
                return
            if verdict == 2:
                break
            result.certified[j] = k
            result.bound[j] = self.proof[k]
        rows = self._attack(int(result.certified[j]), budget, result.limit, deadline)
        result.attacked[j], result.witness[j] = len(rows), rows

    def _take_all(self) -> None:
        """All rows as candidates, where the strongest are not enough to leave out the rest."""
        # a row without a gain of its own may still raise what others do
        fragile = [cluster.rows for cluster in self.boxes.clusters]
        able = self.deletions.deletable.copy()
        able[np.concatenate([np.zeros(0, dtype=np.intp), *fragile])] = False
        self.rows, self.whole = np.flatnonzero(able), True
        self.c = self.deletions.functionals(slice(self.j, self.j + 1))[0][self.rows]

    def _gains(self, k: int) -> Array:
        low, high = self.boxes.low[k][self.rows], self.boxes.high[k][self.rows]
        return np.maximum(np.maximum(self.c * low, self.c * high) + self._charge(k), 0.0)

    def _charge(self, k: int) -> Array:
        charged = self.lists.missed.of(k, slice(self.j, self.j + 1), self.rows)
        return charged[0] if len(charged) else np.zeros(self.rows.size)

    def _survivors(self, k: int) -> tuple[Positions, bool]:
        """Places of the rows that can matter at this budget, and whether no other row can."""
        gains = self._gains(k)
        order = np.argsort(-gains, kind="stable")
        threshold, outside = self.proof[k], self.lists.others(self.j, k, self.whole)
        others = float(np.maximum(gains[order[: k - 1]], outside).sum())
        if outside + others > threshold and not self.whole:
            self._take_all()
            return self._survivors(k)
        enough = int(np.sum(gains[order] * (1.0 + 1e-10) + others > threshold))
        return order[: max(enough, k)], outside == 0 or outside + others <= threshold

    def _decide(self, k: int, nodes: int) -> tuple[int, tuple[int, ...]]:
        """0: no set of ``k`` rows breaks it; 1: one does; 2: not known."""
        verdict, rows = self._without_groups(k, nodes)
        if verdict == 2 and nodes == NODES:
            verdict, rows = self._by_pairs(k, np.zeros(0, dtype=np.intp), 0.0)
        if verdict == 1 or not self.boxes.clusters:
            return verdict, rows
        verdicts = [verdict]
        for number in range(len(self.boxes.clusters)):
            verdict, rows = self._with_group(number, k, nodes)
            if verdict == 1:
                return verdict, rows
            verdicts.append(verdict)
        return max(verdicts), ()

    def _with_group(self, number: int, k: int, nodes: int) -> tuple[int, tuple[int, ...]]:
        """The same for sets that take some of a group of fragile rows along, part by part."""
        fragile = self.lists.cluster_gains[k][:, self.j]
        others = float(np.delete(fragile, number).sum())
        gains = self._gains(k)
        top = np.sort(gains)[::-1][: k - 1].sum() + 0.0
        if fragile[number] + others + max(top, 0.0) <= self.proof[k]:
            return 0, ()
        cluster = self.boxes.clusters[number]
        c = self.deletions.columns(cluster.rows)[self.j]
        base, weights = cluster.alone(c)
        sizes = cluster.sizes
        ties = self.deletions.coupling(cluster.rows, self.rows).T  # (m, candidates)
        low, high = self.boxes.low[k][self.rows], self.boxes.high[k][self.rows]
        moved = self.c - weights @ ties
        charge = self._charge(k)
        after = np.maximum(np.maximum(moved * low, moved * high) + charge, 0.0)
        widest = np.maximum(np.abs(self.boxes.low[k]), np.abs(self.boxes.high[k]))
        shift = float(np.max(cluster.coupling * widest))
        ceiling = self.lists.others(self.j, k, self.whole) + shift * cluster.widths(c)
        ranked = -np.sort(-np.maximum(after, ceiling[:, None]), axis=1)
        sums = np.concatenate([np.zeros((len(base), 1)), np.cumsum(ranked, axis=1)], axis=1)
        left = np.minimum(np.maximum(k - sizes, 0), ranked.shape[1])
        # what deleting the part does to the other groups' own effects comes on top
        spill = [
            float(other.reach[k]) * cluster.towards(other)
            for place, other in enumerate(self.boxes.clusters)
            if place != number
        ]
        rest = others + sum(spill) * cluster.widths(c)
        bound = base + sums[np.arange(len(base)), left] + rest
        threshold = self.proof[k]
        for t in np.flatnonzero((bound > threshold) & (sizes <= k)).tolist():
            others = float(rest[t])
            if base[t] > self.margin + self.error:
                return 1, tuple(cluster.rows[cluster.parts[t]].tolist())
            if left[t] == 0:
                return 2, ()
            # sets with rows of yet another group are beyond pairs: they must be within already
            alone = len(self.boxes.clusters) == 1
            if nodes == NODES and (alone or base[t] + sums[t, left[t] - 1] + others <= threshold):
                gone = cluster.rows[cluster.parts[t]]
                verdict, found = self._by_pairs(k, gone, float(base[t]))
                if verdict == 1:
                    return verdict, found
                if verdict == 0:
                    continue
            if ceiling[t] + sums[t, left[t] - 1] + base[t] + others > threshold:
                if self.whole:
                    return 2, ()
                self._take_all()
                return self._with_group(number, k, nodes)
            alive = np.flatnonzero(after[t] + sums[t, left[t] - 1] + base[t] + others > threshold)
            alive = np.union1d(alive, np.argsort(-after[t])[: left[t]])
            rows = self.rows[alive]
            part, inverse = cluster.parts[t], cluster.roots[t] @ cluster.roots[t]
            tie = ties[part][:, alive]
            witness = np.zeros(int(left[t]), dtype=np.int64)
            verdict, size, _ = branch(
                moved[t, alive],
                self.deletions.residuals[rows] - tie.T @ inverse @ cluster.residuals[part],
                self.deletions.block(rows) - tie.T @ inverse @ tie,
                low[alive],
                high[alive],
                charge[alive],
                int(left[t]),
                self.margin + self.error - base[t],
                threshold - base[t] - others,
                nodes,
                witness,
            )
            if verdict == 1:
                both = [*cluster.rows[part].tolist(), *rows[witness[:size]].tolist()]
                return 1, tuple(both)
            if verdict == 2:
                return 2, ()
        return 0, ()

    def _by_pairs(self, k: int, gone: Positions, base: float) -> tuple[int, tuple[int, ...]]:
        """The same for sets of some rows of one group and of rows outside of all groups.

        ``base`` is what those gone do alone.
        """
        candidates, among = self.lists.among(gone, self.boxes)
        if among is None:
            return 2, ()
        charged = self.lists.missed.of(k, slice(self.j, self.j + 1), candidates)
        charge = charged[0] if len(charged) else np.zeros(candidates.size)
        room = self.proof[k] - base
        left = among.left(self.j, k - gone.size, room, charge)
        if left is None:
            return 0, ()
        if left.size > CORE:
            return 2, ()
        verdict, rows = among.branch(
            self.j, left, k - gone.size, self.margin + self.error - base, room, charge[left], NODES
        )
        return verdict, tuple([*gone.tolist(), *candidates[rows].tolist()])

    def _without_groups(self, k: int, nodes: int) -> tuple[int, tuple[int, ...]]:
        alive, complete = self._survivors(k)
        if alive.size > QUICK:  # a set that breaks it is usually found at once
            few = alive[:QUICK]
            rows = self.rows[few]
            found = self._branch(
                few, k, self.boxes.low[k][rows], self.boxes.high[k][rows], False, 1
            )
            if found[0] == 1:
                return found
        if alive.size <= CORE:
            rows = self.rows[alive]
            whole = self.boxes.low[k][rows], self.boxes.high[k][rows]
            found = self._branch(alive, k, *whole, complete, nodes // 10)
            if found[0] < 2:
                return found
        alive, closed = alive[:CORE], complete and alive.size <= CORE
        low, high, complete = self._core(alive, k, closed)
        return self._branch(alive, k, low, high, complete, nodes)

    def _branch(
        self, alive: Positions, k: int, low: Array, high: Array, complete: bool, nodes: int
    ) -> tuple[int, tuple[int, ...]]:
        """A tree on some rows; ``complete``: no other row matters."""
        rows = self.rows[alive]
        witness = np.zeros(k, dtype=np.int64)
        verdict, size, _ = branch(
            self.c[alive],
            self.deletions.residuals[rows],
            self.deletions.block(rows),
            low,
            high,
            self._charge(k)[alive],
            k,
            self.margin + self.error,
            self.proof[k],
            nodes if complete else 500,
            witness,
        )
        if verdict == 0 and not complete:
            verdict = 2
        return verdict, tuple(int(i) for i in rows[witness[:size]])

    def _core(self, alive: Positions, k: int, closed: bool) -> tuple[Array, Array, bool]:
        """Tighter boxes for sets within some rows, and whether no set with others in it matters.

        The boxes of :mod:`holdfast.algebra.boxes` let any row be a partner of any other. In a set
        with ``b`` rows outside the core, a row of the core has at most ``k − b − 1`` partners
        inside and ``b`` outside, and the outside rows have small gains themselves. Going on from
        valid boxes with the same sums over these partners only, every pass is valid too.
        ``closed``: other rows are known not to matter.
        """
        rows, c, charge = self.rows[alive], self.c[alive], self._charge(k)[alive]
        root = np.sqrt(self.deletions.diagonal)
        P = self.deletions.block(rows)
        inside = P / (-root[rows, None] * root[rows])
        np.fill_diagonal(inside, 0.0)
        tight = self._tightened(rows, inside, k, k - 1, np.zeros(rows.size))
        if closed or k > rows.size:
            return *tight, closed
        outside = np.setdiff1d(np.flatnonzero(self.deletions.deletable), rows)
        reach = np.maximum(np.abs(self.boxes.low[k]), np.abs(self.boxes.high[k])) * root
        E = self.deletions.coupling(rows, outside).T / (root[rows, None] * root[outside])
        ties = np.abs(E) * reach[outside]
        most = min(k, outside.size)
        ties = -np.sort(-np.partition(ties, outside.size - most, axis=1)[:, -most:], axis=1)
        if self.deletions.outside is not None:  # some of them may be rows that are not here
            lengths, most = self.deletions.row_lengths, k
            assert lengths is not None
            ties = np.hstack([ties, np.zeros((rows.size, k - ties.shape[1]))])
            ties = np.maximum(ties, (lengths[rows] / root[rows])[:, None] * self.boxes.strangers[k])
        ties = np.cumsum(ties, axis=1) * (1.0 + 1e-10)
        gains = self._gains(k)
        gains[alive] = 0.0
        weakest = max(float(gains.max()), self.lists.others(self.j, k, self.whole))
        for b, partners in ((1, k - 2), (k, k - 3)):  # one stranger; two or more
            lo, hi = self._tightened(rows, inside, k, partners, ties[:, min(b, most) - 1])
            best = -np.sort(-(np.maximum(np.maximum(c * lo, c * hi) + charge, 0.0)))
            sums = np.concatenate([[0.0], np.cumsum(best)])
            numbers = np.array([1]) if b == 1 else np.arange(2, k + 1)
            bounds = sums[np.minimum(k - numbers, best.size)] + numbers * weakest
            if np.any(bounds * (1.0 + 1e-10) > self.proof[k]):
                return *tight, False
        return *tight, True

    def _tightened(
        self, rows: Positions, inside: Array, k: int, partners: int, strangers: Array
    ) -> tuple[Array, Array]:
        """Boxes of some rows, for sets with so many partners among them and strangers beside."""
        root = np.sqrt(self.deletions.diagonal[rows])
        r = self.deletions.residuals[rows] / root
        lo, hi = self.boxes.low[k][rows] * root, self.boxes.high[k][rows] * root
        slack = 1e-10 * (np.abs(r) + np.maximum(np.abs(lo), np.abs(hi))) + strangers
        places = np.broadcast_to(np.arange(rows.size), inside.shape).copy()
        nothing, up, down = np.zeros(rows.size), np.empty(rows.size), np.empty(rows.size)
        for _ in range(5):
            for sign, out in ((1.0, up), (-1.0, down)):
                sums_of_largest(inside, places, nothing, lo, hi, sign, max(partners, 0), out)
            lo = np.maximum(lo, r - down * (1.0 + 1e-10) - slack)
            hi = np.minimum(hi, r + up * (1.0 + 1e-10) + slack)
        return lo / root, hi / root

    def _attack(self, certified: int, budget: int, limit: int, deadline: float) -> tuple[int, ...]:
        """A set that breaks it, as small as a quick search finds; () for none."""
        if limit == 0 and not self.whole:  # without a box there is no list of candidates
            self._take_all()
        alone = self.c * self.deletions.single_steps[self.rows]
        alive = np.argsort(-alone, kind="stable")[:256]
        rows = self.rows[alive]
        witness = np.zeros(budget, dtype=np.int64)
        size = greedy_one(
            self.c[alive],
            self.deletions.residuals[rows],
            self.deletions.block(rows),
            budget,
            self.margin + self.error,
            witness,
        )
        best = tuple(int(i) for i in rows[witness[:size]])
        most = min(limit, int(self.lists.cap[self.j]))
        for k in range(certified + 1, min(len(best) or budget + 1, most + 1)):
            if time.monotonic() > deadline:
                break
            verdict, smaller = self._decide(k, NODES // 10)
            if verdict == 1:
                return smaller
        return best

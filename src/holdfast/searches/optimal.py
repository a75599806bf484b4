"""The worst set, proven: enumeration where that is possible, branch and bound elsewhere.

Finding it is NP-hard in general, so this is for small problems; it can be stopped at any time and
then says by how much it may be off.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Sequence
from numbers import Real
from typing import Any, cast

import numpy as np

from holdfast.algebra.boxes import Boxes, boxes
from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError
from holdfast.searches.attack import Attack, ByAlgebra
from holdfast.searches.best import best

#: sweeps, or refits, up to which all sets are looked at one by one
_SWEEPS, _REFITS = 1_500, 5_000
#: the same where there is no box to bound with
_SWEEPS_WITHOUT_BOX = 100_000
#: rows times recourses up to which a node of the tree is looked at
_ENTRIES = 4_000_000


def optimal(
    attack: Attack, budget: int, rng: Any, time_limit: float = 60.0
) -> tuple[list[list[int]], Array]:
    """Sets at every budget, and a proven upper bound on the recourses any such set breaks.

    Parameters
    ----------
    time_limit : float
        Seconds in all; what is not closed by then keeps its bound.
    """
    if not isinstance(time_limit, Real) or not time_limit >= 0:
        raise HoldfastError(f"time_limit must be a number of seconds, got {time_limit!r}")
    deadline = time.monotonic() + float(time_limit)
    exact = attack.exact_sweeps
    n = len(attack.units)
    most = float(attack.margins.size) if attack.objective == "outcome" else math.inf
    sets: list[list[int]] = [[]]
    upper = [0.0]
    found = best(attack, budget, rng)
    bounds: Boxes | None = None
    for k in range(1, budget + 1):
        start = max(found[k], sets[-1], key=attack.value)
        closed = None
        few = math.comb(n, k - 1) <= _SWEEPS if exact else math.comb(n, k) <= _REFITS
        if attack.units.training.names is not None:  # some rows are not here: nothing is proven
            sets.append(start)
            upper.append(most)
            continue
        if exact and not few and attack.objective == "outcome":
            if attack.units.single and n * attack.margins.size <= _ENTRIES:
                known = cast(ByAlgebra, attack)
                bounds = bounds or boxes(known.sweeps.deletions, budget)
                if k <= bounds.limit:
                    closed = _branch_and_bound(known, k, start, deadline, bounds)
            few = closed is None and math.comb(n, k - 1) <= _SWEEPS_WITHOUT_BOX
        if few:
            units, bound = _enumerated(attack, k, start, deadline)
            # only sets of exactly k were looked at: smaller ones are the last budget's business
            closed = units, most if bound is None else max(bound, upper[-1])
        units, bound = closed or (start, most)
        sets.append(units)
        upper.append(bound)
    return sets, np.array(upper)


def _enumerated(
    attack: Attack, k: int, start: list[int], deadline: float
) -> tuple[list[int], float | None]:
    """The worst set of ``k`` units, and its value; ``None`` if time ran out first."""
    champion, value = start, attack.value(start)
    by_sweep = attack.exact_sweeps
    for chosen in itertools.combinations(range(len(attack.units)), k - 1 if by_sweep else k):
        if time.monotonic() > deadline:
            return champion, None
        candidate = list(chosen)
        if not attack.feasible(candidate):
            continue
        if by_sweep:  # the last one of all candidates at once
            sweep = attack.sweep(candidate)
            if (
                not sweep.possible.any()
                or (sweep.value[sweep.best], sweep.tie[sweep.best]) <= value
            ):
                continue
            candidate.append(sweep.best)
        reached = attack.value(candidate)
        if reached > value:
            champion, value = candidate, reached
    return champion, value[0]


def _branch_and_bound(
    attack: ByAlgebra, k: int, start: list[int], deadline: float, bounds: Boxes
) -> tuple[list[int], float]:
    """Best-first over "delete this row" and "keep this row", with boxes for what may follow."""
    q = attack.margins.size
    champion, count = start, int(attack.value(start)[0])
    tick = itertools.count()
    heap: list[tuple[float, int, tuple[int, ...], frozenset[int]]] = [
        (-float(q), next(tick), (), frozenset())
    ]
    while heap:
        ceiling = -heap[0][0]
        if ceiling <= count:
            return champion, float(count)
        if time.monotonic() > deadline:
            return champion, ceiling
        _, _, gone, kept = heapq.heappop(heap)
        node = _node(attack, gone, kept, k - len(gone), (bounds.low[k], bounds.high[k]))
        if node is None:
            continue
        ceiling, branch, here, reached = node
        if reached > count:
            champion, count = here, reached
        if ceiling <= count or branch is None:
            continue
        for child in ((*gone, branch), kept), (gone, kept | {branch}):
            heapq.heappush(heap, (-ceiling, next(tick), *child))
    return champion, float(count)


def _node(
    attack: ByAlgebra,
    gone: Sequence[int],
    kept: frozenset[int],
    left: int,
    bounds: tuple[Array, Array],
) -> tuple[float, int | None, list[int], int] | None:
    """Upper bound, row to branch on, best set seen here and its count; None if impossible."""
    try:
        state = attack.sweeps.state(gone)
    except ValueError:
        return None
    slack = attack.margins - state.base
    open_rows = state.possible.copy()
    open_rows[list(kept)] = False
    candidates = np.flatnonzero(open_rows)
    C = attack.sweeps.effects(state)[candidates]
    here, reached = list(gone), int(np.sum(slack < 0))
    if candidates.size == 0:
        return float(reached), None, here, reached
    counts = np.sum(C * state.steps[candidates, None] > slack, axis=1)
    if counts.max() > reached:
        reached = int(counts.max())
        here = [*gone, int(candidates[counts.argmax()])]
    if left == 1:
        return float(reached), None, here, reached
    lo, hi = bounds[0][candidates, None], bounds[1][candidates, None]
    gains = np.maximum(np.maximum(C * lo, C * hi), 0.0)
    m = min(left, candidates.size)
    # widened by rounding: a recourse counts as breakable if it is within reach of breaking
    reach = np.partition(gains, candidates.size - m, axis=0)[-m:].sum(axis=0)
    breakable = reach > slack - 1e-9 * (1.0 + np.abs(slack))
    certain = int(np.sum(slack[breakable] <= 0))
    ceiling = float(breakable.sum())
    fought = breakable & (slack > 0)
    if not fought.any():
        return ceiling, int(candidates[counts.argmax()]), here, reached
    ratios = np.minimum(gains[:, fought] * (1.0 + 1e-9) / slack[fought], 1.0)
    covered = np.zeros(int(fought.sum()))
    branch: int | None = None
    for _ in range(m):
        marginal = np.minimum(ratios, 1.0 - covered).sum(axis=1)
        top = np.partition(marginal, marginal.size - m)[-m:].sum()
        ceiling = min(ceiling, certain + covered.sum() + top)
        pick = int(marginal.argmax())
        branch = int(candidates[pick]) if branch is None else branch
        covered = np.minimum(covered + ratios[pick], 1.0)
    return float(math.floor(ceiling + 1e-6)), branch, here, reached

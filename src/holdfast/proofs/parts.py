r"""Certificates of a mean of parts: ``k`` deletions touch few parts, whatever those are.

Every part says something in ``[low, high]``; with ``b_t = (p_t − low) / T`` deleting the rows ``S``
lowers the mean by at most ``Σ b_t`` over the parts that had some of them. A unit is in at most
``m`` parts, so for any ``k`` units that is at most the sum of the ``k m`` largest ``b_t``. Sharper,
where what every unit does alone is known (``a_t``: the most that any one takes from part ``t``): a
part that loses one of its units falls by ``a_t`` at most, one that loses more by ``b_t``, and uses
up two of the ``k m`` at least:

.. math:: \max \sum_t (a_t x_t + b_t z_t), \quad \sum_t (x_t + 2 z_t) \le k m, \quad x_t + z_t \le 1

a knapsack of items of size one and two (:func:`two_sizes`). Where units are in several parts each,
a second bound: whatever part a unit shares with others that go, charge it half of ``b_t`` there;
then the ``k`` units charged most pay for everything. One deletion is exact.

The sharper bounds are about deletions. A row that is *changed* may do to its parts what no deletion
does, and only the first bound covers it: ``largest_fall`` of the estimators.

Together: which ``k m`` parts break most recourses is an integer program whose relaxation bounds the
share that any ``k`` units break.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.errors import SingularDeletionError
from holdfast.proofs.candidates import Asked, Verdicts
from holdfast.recourse.promises import Promises
from holdfast.searches.parts import Alone, alone

#: what rounding may hide of a mean, beside its size
ROUNDING = 1e-11
#: nodes of one integer program
NODES = 20
#: recourses beyond which only single certificates bound what happens together
MOST = 5_000


def by_parts(asked: Asked, promises: Promises, until: float = math.inf) -> Verdicts:
    """Verdicts on the recourses of a mean of parts.

    ``until``: what units do alone is asked of no more of them after this.
    """
    core: Any = asked.model.form("parts")
    points = asked.model.features(asked.points)
    outputs = core.known_outputs(points)
    means, least = outputs.mean(axis=1), core.mean_at(promises.target)
    slack = max(ROUNDING, asked.model.can.rounding) * (np.abs(means) + abs(least) + 1.0)
    above = np.maximum(outputs - core.low, 0.0) / outputs.shape[1]
    known = alone(asked.model, promises, asked.units, until=until)
    one = np.maximum(known.falls.part, 0.0) / outputs.shape[1] if known.everybody else above
    one = np.minimum(one, above)
    touched = _most_parts(core, asked)
    falls = two_sizes(one, above, asked.budget * touched)[:, touched - 1 :: touched]
    bound = np.column_stack([np.zeros(len(means)), falls[:, : asked.budget]])
    if known.everybody:
        if touched > 1:
            bound[:, 1:] = np.minimum(bound[:, 1:], _largest(known.falls.shared, asked.budget))
        bound[:, 1] = np.maximum(known.falls.mean.max(axis=1, initial=0.0), 0.0)
    found = Verdicts.nothing(len(means))
    room = means - least - slack
    found.certified = np.sum(np.cumprod(bound[:, 1:] <= room[:, None], axis=1), axis=1)
    found.certified = found.certified.astype(np.intp)
    found.limit = asked.budget
    reached = bound[np.arange(len(means)), found.certified]
    found.bound = asked.margins - np.maximum(
        core.scored(means - reached) - core.scored(np.full(len(means), least)), 0.0
    )
    _attacks(core, points, known, asked, means - least + slack, found)
    if len(means) <= MOST:
        found.together = together(one, above, room, touched, asked.budget, found.certified)
    return found


def two_sizes(one: Array, two: Array, most: int) -> Array:
    """The most that parts can fall by together at every expense 1 … most, (q, most).

    A part falls by ``one`` at the expense of 1, by ``two`` at that of 2 or more, (q, parts).
    """
    q = len(one)
    table = np.zeros((q, most + 1))
    for part in range(one.shape[1]):
        before = table.copy()
        table[:, 1:] = np.maximum(table[:, 1:], before[:, :-1] + one[:, [part]])
        table[:, 2:] = np.maximum(table[:, 2:], before[:, :-2] + two[:, [part]])
    return np.maximum.accumulate(table[:, 1:], axis=1)


def _largest(values: Array, most: int) -> Array:
    """Sums of the 1 … most largest positive entries of every row."""
    top = -np.sort(-np.maximum(values, 0.0), axis=1)[:, :most]
    sums = np.full((len(values), most), np.inf)
    sums[:, : top.shape[1]] = np.cumsum(top, axis=1)
    sums[:, top.shape[1] :] = sums[:, [top.shape[1] - 1]] if top.shape[1] else 0.0
    return sums


def _most_parts(core: Any, asked: Asked) -> int:
    """In how many parts any one unit is at most."""
    units, membership = asked.units, core.membership
    if units.single:
        return int(membership.shape[1])
    return max(np.unique(membership[units.rows([u])]).size for u in range(len(units)))


def _attacks(
    core: Any, points: Any, known: Alone, asked: Asked, room: Array, found: Verdicts
) -> None:
    """For everybody the units that take most alone, of different parts, until enough are gone."""
    membership, units = core.membership, asked.units
    parts = [frozenset(np.unique(membership[units.rows([u])]).tolist()) for u in known.units]
    single = all(len(some) == 1 for some in parts)
    home = np.array([next(iter(some)) for some in parts]) if single else None
    for j in np.flatnonzero(found.certified < asked.budget).tolist():
        falls = known.falls.mean[j]
        order = np.argsort(-falls, kind="stable")
        order = order[falls[order] > 0]
        if home is not None:  # the worst of every shard, the worst shards first
            order = order[np.sort(np.unique(home[order], return_index=True)[1])]
        elif order.size:
            order = _strangers(order, parts, asked.budget)
        order = order[: asked.budget]
        enough = np.flatnonzero(np.cumsum(falls[order]) > room[j])
        if enough.size:
            chosen = tuple(known.units[order[: enough[0] + 1]].tolist())
            with contextlib.suppress(SingularDeletionError):  # without these there is no classifier
                asked.model.rows.refuse_if_too_much(units.rows(chosen))
                found.attacked[j], found.witness[j] = len(chosen), chosen


def _strangers(order: Positions, parts: list[frozenset[int]], most: int) -> Positions:
    """The first few that share no part."""
    taken: set[int] = set()
    chosen = []
    for place in order.tolist():
        if taken.isdisjoint(parts[place]):
            chosen.append(place)
            taken |= parts[place]
        if len(chosen) == most:
            break
    return np.array(chosen, dtype=np.intp)


def together(
    one: Array, two: Array, room: Array, touched: int, budget: int, certified: Positions
) -> Array:
    """How many recourses any ``k`` units can break together, (budget + 1,), proven."""
    upper = np.array([float(np.sum(certified < k)) for k in range(budget + 1)])
    for k in range(2, budget + 1):
        open_ = certified < k
        if open_.any() and upper[k] > upper[k - 1]:
            bound = _program(one[open_], two[open_], room[open_], k * touched)
            upper[k] = min(upper[k], max(bound, upper[k - 1]))
    return upper


def _program(one: Array, two: Array, room: Array, expense: int) -> float:
    """The most recourses that parts chosen at this expense can break."""
    lost: Mask = room <= 0
    one, two, room = one[~lost], two[~lost], room[~lost]
    q, parts = one.shape
    if q == 0:
        return float(lost.sum())
    # break_j ≤ Σ_t (one x + two z) / room; one of x, z for each part; Σ x + 2 z ≤ expense
    gains = np.hstack([one, two]) / room[:, None]
    rows = sparse.hstack([sparse.csr_array(np.minimum(gains, 1.0)), -sparse.eye_array(q)])
    either = sparse.hstack(
        [sparse.eye_array(parts), sparse.eye_array(parts), sparse.csr_array((parts, q))]
    )
    cost = np.concatenate([np.ones(parts), np.full(parts, 2.0), np.zeros(q)])[None]
    found = milp(
        np.concatenate([np.zeros(2 * parts), -np.ones(q)]),
        integrality=np.ones(2 * parts + q),
        bounds=Bounds(0.0, 1.0),
        constraints=[
            LinearConstraint(rows, 0.0, np.inf),
            LinearConstraint(either, -np.inf, 1.0),
            LinearConstraint(cost, -np.inf, float(expense)),
        ],
        options={"node_limit": NODES, "disp": False},
    )
    dual = found.mip_dual_bound
    most = float(q) if dual is None or not np.isfinite(dual) else np.floor(-dual + 1e-4)
    return float(lost.sum()) + min(float(q), most)

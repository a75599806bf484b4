"""What one bound for everybody leaves open, decided by a tree."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import numpy as np

from holdfast.algebra.deletions import Deletions, LowRankDeletions
from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.models.optima import Optima
from holdfast.proofs.candidates import Asked, Verdicts
from holdfast.proofs.edges import Tops, shares
from holdfast.proofs.levels import Edge
from holdfast.proofs.looks import Node, Question
from holdfast.proofs.points import LinearPoints, Points, SmoothPoints
from holdfast.proofs.sets import largest_sum
from holdfast.proofs.tree import Claims, Tree, nothing

#: what all looks of one tree may cost together, a look being ``n p^1.5``, and at least so many
EFFORT, FEWEST = 2e9, 100

#: how many at most: few rows are to take seconds, not minutes
MOST, MORE = 200, 0.4

#: of least squares other trees have left little to do
_LESS = 0.25

#: rows times recourses up to which it is asked what breaks together, and how many recourses are
#: looked at from their edges for that, each for every number of deletions
_ENTRIES, JOINTLY = 4_000_000, 200


def by_tree_of_optima(asked: Asked, found: Verdicts, whole: bool, deadline: float) -> None:
    """A smooth loss: everything else that is refitted with the model is bounded too."""
    model = asked.model
    core = model.form("smooth")
    moving = whole and model.scales is not None and core.penalised and model.scales.moving.any()
    optima = Optima(core, model.scales if moving else None)
    queries = optima.queries(model.features(asked.points))
    units = asked.units
    points = SmoothPoints(optima, queries, units.order, units.starts)
    hidden = np.zeros((asked.margins.size, asked.budget + 1))
    _grow(asked, found, points, hidden, None, deadline, optima.rows)
    if optima.rows.shape[0] * asked.margins.size <= _ENTRIES:
        found.together = _together(asked, found, points, deadline)


def by_tree_of_steps(
    asked: Asked,
    deletions: Deletions,
    found: Verdicts,
    hidden: Array,
    charged: Callable[[int, Positions, Positions], Array] | None,
    deadline: float,
) -> None:
    """Least squares, where one step is the refit; ``hidden`` (q, budget + 1) and ``charged`` pay
    for what else is refitted."""
    low_rank = cast(LowRankDeletions, deletions)
    points = LinearPoints(low_rank, asked.units.order, asked.units.starts)
    _grow(asked, found, points, hidden, charged, deadline, low_rank.factor, _LESS)


def _grow(
    asked: Asked,
    found: Verdicts,
    points: Points,
    hidden: Array,
    charged: Callable[[int, Positions, Positions], Array] | None,
    deadline: float,
    rows: Array,
    share: float = 1.0,
) -> None:
    margins, errors, budget = asked.margins, asked.errors, asked.budget
    proof = (margins - errors - 1e-9 * margins)[:, None] - hidden
    able = _able(asked)
    suspected = list(found.witness)
    bare = np.flatnonzero([not units for units in suspected] & (found.certified < budget))
    strongest = _strongest(points, bare, margins, able, budget)
    for j, units in zip(bare.tolist(), strongest, strict=True):
        suspected[j] = units
    claims = Claims(
        found.certified.copy(), np.full(margins.size, budget + 1), [()] * margins.size, suspected
    )
    claims.certified[found.singular] = budget  # nothing is claimed of those
    affordable = share * EFFORT / (rows.size * np.sqrt(rows.shape[1]))
    looks = int(np.clip(affordable, FEWEST, MOST + MORE * len(rows)))
    tree = Tree(
        points, proof, margins + errors, np.flatnonzero(able), claims, charged, looks, deadline
    )
    tree.run(budget)
    fine = ~found.singular
    better = fine & (claims.certified > found.certified)
    found.bound[better] = margins[better]
    found.certified[fine] = claims.certified[fine]
    for j in np.flatnonzero(fine).tolist():  # what was not solved for is confirmed, or not, later
        found.witness[j] = claims.witness[j] or tree.untried(j)
        found.attacked[j] = len(found.witness[j])
    open_ = fine & (found.certified < budget) & (found.attacked != found.certified + 1)
    reached = int(found.certified[fine].max(initial=0))
    found.limit = max(found.limit, reached if np.any(open_) and reached else budget)


def _together(asked: Asked, found: Verdicts, points: Points, deadline: float) -> Array:
    r"""How many recourses any ``k`` deletions break at most, (budget + 1,).

    If :math:`effect_j(S) ≤ Σ_S g_{ij}`, no set breaks more than :math:`f(S) = Σ_j \min(1, Σ_S
    g_{ij}/m_j)`, which is monotone and submodular: :math:`f(S) ≤ f(G) + Σ_S (f(G + i) − f(G))` for
    any ``G``. Those certified count nothing.
    """
    budget, units = asked.budget, np.flatnonzero(_able(asked))
    most = np.array([float(np.sum(found.certified < k)) for k in range(budget + 1)])
    proof = np.repeat((asked.margins * (1.0 - 1e-9) - asked.errors)[:, None], budget + 1, axis=1)
    point, looks = points.without(()), JOINTLY
    edges, tops = dict[int, Edge | None](), Tops()
    for k in range(1, budget + 1):
        some = np.flatnonzero(found.certified < k)
        if some.size < 2 or time.monotonic() > deadline:
            continue
        question = Question(k, proof, nothing, lambda *_: None)
        known = Node(question, point, (), k).together(some, units)
        if known is not None:
            values, rooms = known
            parts = np.where(rooms[:, None] > 0, values / np.maximum(rooms, 1e-300)[:, None], 1.0)
            most[k] = min(most[k], _most_broken(parts, k))
        if some.size <= looks:
            looks -= some.size
            parts = np.ones((some.size, units.size))
            for place, j in enumerate(some.tolist()):
                if j not in edges:
                    edges[j] = points.edge((), j, float(proof[j, k]))
                edge = edges[j]
                seen = None if edge is None else shares(edge, units, k, tops)
                parts[place] = 1.0 if seen is None else seen
            most[k] = min(most[k], _most_broken(parts, k))
    return most


def _most_broken(parts: Array, k: int) -> float:
    """The most that any ``k`` units break, each taking at most such parts of the margins."""
    parts = np.minimum(parts, 1.0)
    reached, most = np.zeros(len(parts)), float(len(parts))
    for _ in range(k + 1):
        more = np.minimum(parts, 1.0 - reached[:, None]).sum(axis=0)
        bound = float(reached.sum()) + largest_sum(more, k)
        most = min(most, float(np.floor(bound * (1.0 + 1e-9) + 1e-9)))
        reached = np.minimum(reached + parts[:, np.argmax(more)], 1.0)
    return most


def _able(asked: Asked) -> Mask:
    """Units that may go."""
    able = np.ones(len(asked.units), dtype=bool)
    able[list(asked.stay)] = False
    if asked.units.single:
        stays = asked.model.rows.undeletable()  # what stands for others is behind the units' rows
        able[stays[stays < len(able)]] = False
    return able


def _strongest(
    points: Points, some: Positions, margins: Array, able: Mask, budget: int
) -> list[tuple[int, ...]]:
    """The units that do most to each recourse alone, so many that a step believes they break it."""
    units = np.flatnonzero(able)
    point = points.without(())
    pool, rows = point.pool(units)
    found: list[tuple[int, ...]] = []
    for j in some.tolist() if pool.fine else []:
        c = point.functionals(np.array([j]), rows)[0]
        order = np.argsort(-pool.by_unit(pool.scale(c) * pool.scaled), kind="stable")[:budget]
        chosen: tuple[int, ...] = tuple(units[order].tolist())
        for k in range(1, order.size + 1):
            mine, _ = pool.rows_of(order[:k])
            U = pool.U[mine]
            steps = np.linalg.lstsq(np.eye(mine.size) - U @ U.T, pool.residuals[mine])[0]
            if c[mine] @ steps > margins[j]:
                chosen = tuple(units[order[:k]].tolist())
                break
        found.append(chosen)
    return found or [()] * some.size

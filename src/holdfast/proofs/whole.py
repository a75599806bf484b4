r"""Certificates for a whole pipeline: what is erased is refitted for, scalers included.

Where refitting the preprocessing re-weights penalties and does nothing more
(:mod:`holdfast.models.scales`), write ``t`` for the parameters in coordinates in which the normal
matrix is the identity, :math:`τ_f` for the row of feature ``f`` there, ``w`` for a recourse, and
:math:`D = Σ_f α δ_f τ_f τ_fᵀ` with :math:`δ_f = ρ_f(S) − 1`. Without ``S`` and with the penalties
re-weighted the parameters are :math:`(I_S + D)^{-1} b_S`, :math:`I_S = I − U_SᵀU_S`, so

.. math:: effect_{whole}(S) = effect_{kept}(S) + Σ_f α δ_f θ_{S,f}\; w (I_S + D)^{-1} τ_f .

Over all ``S`` of ``k`` rows :math:`|δ_f| ≤ \bar δ_f` by order statistics. With ``h`` the sum of the
largest leverages, :math:`ν = ‖Tᵀ R T‖ ≤ 1`, :math:`e = h + ν \max_f \bar δ_f`, and
:math:`c_k, g_{f,k}, r_k` the lengths of the ``k`` largest entries of :math:`U w`,
:math:`U τ_f` and the residuals, :math:`P_{SS} ≽ 1 − h` gives

.. math:: |w (I_S + D)^{-1} τ_f| ≤ |w τ_f| + \frac{c_k g_{f,k}}{1−h}
          + \frac{‖w‖ ‖τ_f‖ ν \max \bar δ}{(1−h)(1−e)},
          \qquad |θ_{S,f}| ≤ |θ_f| + \frac{g_{f,k} r_k}{1−h},

which is taken off every margin. A few rows may move a scale a lot, all others hardly: so sets are
told apart by which of those few they have. Without them the pipeline is refitted, and the bound is
about the others. Without a penalty nothing is added at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions, take
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.scales import Scales
from holdfast.models.solving import scores_or_nan
from holdfast.proofs.candidates import Verdicts
from holdfast.recourse.promises import Promises
from holdfast.searches.attack import AlgebraAttack
from holdfast.searches.optimal import optimal

#: units that are told apart at most, and the penalty's move from which a unit may be one
FEW, MOVES = 3, 0.2

#: what refitting may add, as a share of a margin, for a joint ceiling to be looked for
SMALL = 0.25

#: model, its points, their margins, what to take off by number of deletions, its units, budget
Judge = Callable[[ErasableModel, Any, Array, Array, Units, int], Verdicts]


def covered(model: ErasableModel, points: Any) -> bool:
    """Whether a certificate can speak of the whole pipeline."""
    if model.preprocessing is None:
        return True
    scales = model.scales
    return model.can.certificate == "exact" and scales is not None and scales.covers(points)


def for_the_whole(
    model: ErasableModel,
    points: Any,
    margins: Array,
    errors: Array,
    units: Units,
    budget: int,
    judge: Judge,
) -> Verdicts:
    """Verdicts that hold with the preprocessing refitted, by sets of the few that move scales."""
    scales = model.scales
    assert scales is not None
    few = _movers(model, scales, units)
    found = judge(
        model, points, margins, _taken_off(model, points, errors, units, few, budget), units, budget
    )
    for size in range(1, min(len(few), budget) + 1):
        for gone in itertools.combinations(few, size):
            _without(model, points, margins, errors, units, few, gone, budget, judge, found)
    _categories(scales, model.features(points), units, found)
    return found


def joint_ceiling(
    model: ErasableModel, promises: Promises, units: Units, budget: int, seconds: float, rng: Any
) -> Array | None:
    """The share any ``k`` deletions can break together, proven, (budget + 1,); ``None``: unknown.

    The bound for the preprocessing kept, with what refitting it may add taken off every margin.
    """
    points, margins = promises.kept_points, promises.margins
    if model.preprocessing is None or not covered(model, points):
        return None
    scales = model.scales
    assert scales is not None
    if _movers(model, scales, units) or scales.rarest <= budget:
        return None
    taken = _taken_off(model, points, np.zeros(margins.size), units, [], budget)
    small = np.flatnonzero(np.median(taken, axis=0) < SMALL * np.median(margins))
    most = int(small[-1])  # beyond that nothing much would be left of the margins
    room = margins - taken[:, most]
    fine = room > 0
    if most == 0 or not fine.any():
        return None
    kept = model.deletions(take(points, np.flatnonzero(fine)), preprocessing="kept")
    attack = AlgebraAttack(kept, room[fine], units)
    upper = np.full(budget + 1, np.nan)
    found = optimal(attack, most, rng, seconds)[1] + float(np.sum(~fine))
    upper[: len(found)] = found / margins.size
    upper[0] = 0.0
    return upper


def _movers(model: ErasableModel, scales: Scales, units: Units) -> list[int]:
    """The units that move a penalty most."""
    if model.form(str(model.can.form)).strength == 0:
        return []

    def moves() -> Array:
        sets = [] if units.single else [units.rows([u]) for u in range(len(units))]
        factors = scales.singles()[units.order] if units.single else scales.factors(sets)
        return np.asarray(np.abs(factors - 1.0).max(axis=1, initial=0.0))

    moved = _known(model, ("moves", units.unit), moves)
    order = np.argsort(-moved, kind="stable")[:FEW]
    return [int(u) for u in order if moved[u] > MOVES]


def _without(
    model: ErasableModel,
    points: Any,
    margins: Array,
    errors: Array,
    units: Units,
    few: list[int],
    gone: tuple[int, ...],
    budget: int,
    judge: Judge,
    found: Verdicts,
) -> None:
    """Lower what is certified to what holds for sets that have these few and no others of them."""
    if not np.any(found.certified >= len(gone)):
        return
    rows = units.rows(gone)
    try:
        fresh = _known(model, ("without", *rows.tolist()), lambda: model.without(rows))
    except HoldfastError:  # it cannot be refitted at all
        found.certified = np.minimum(found.certified, len(gone) - 1)
        return
    scores = scores_or_nan(fresh, points)
    target = model.scores(points) - margins
    left = scores - target
    alone = ~(left - errors > 0)
    hit = alone & (found.certified >= len(gone))
    for j in np.flatnonzero(hit & (left < -errors)).tolist():
        found.attacked[j], found.witness[j] = len(gone), tuple(gone)
    found.certified[hit] = len(gone) - 1
    others = np.flatnonzero(~alone & (found.certified > len(gone)))
    if others.size == 0:
        return
    some = points.iloc[others] if hasattr(points, "iloc") else points[others]
    own, places = _own_units(fresh, units, rows)
    number = {int(u): i for i, u in enumerate(places.tolist())}
    kept = [number[u] for u in few if u not in gone]
    more = budget - len(gone)
    taken = _taken_off(fresh, some, errors[others], own, kept, more)
    inner = judge(fresh, some, left[others], taken, own, more)
    reached = inner.certified + len(gone)
    for place, j in enumerate(others.tolist()):
        if reached[place] < found.certified[j]:
            found.certified[j] = reached[place]
            if inner.witness[place]:
                chosen = [int(places[u]) for u in inner.witness[place]]
                found.attacked[j], found.witness[j] = len(gone) + len(chosen), (*gone, *chosen)
            elif found.attacked[j] <= reached[place] + 0:
                found.attacked[j], found.witness[j] = 0, ()


def _own_units(fresh: ErasableModel, units: Units, rows: Positions) -> tuple[Units, Any]:
    """The units of the model without some rows, and their numbers among all."""
    own = Units(fresh.rows, units.unit)
    if units.unit == "row":
        return own, np.setdiff1d(np.arange(len(units)), rows)
    number = {name: u for u, name in enumerate(units.names)}
    return own, np.array([number[name] for name in own.names])


def _taken_off(
    model: ErasableModel, points: Any, errors: Array, units: Units, stay: list[int], budget: int
) -> Array:
    """What rounding and refitting the scalers may hide, (q, budget + 1)."""
    taken = np.repeat(errors[:, None], budget + 1, axis=1)
    core, scales = model.form(str(model.can.form)), model.scales
    if core.strength == 0:
        return taken
    if scales is None:  # a column is gone, say: nothing is known of it
        taken[:, 1:] = np.inf
        return taken
    kept: Any = model.deletions(points, preprocessing="kept")
    first = int(core.intercept)
    T, theta = core.design.T[first:], np.abs(core.theta[first:])
    penalty, W = core.penalty[first:], kept.queries
    along, lengths = np.abs(W @ T.T), np.linalg.norm(W, axis=1)
    reach = np.linalg.norm(T, axis=1)
    share = float(np.linalg.norm((T.T * penalty) @ T, 2))
    rows = units.rows(stay)
    free = np.setdiff1d(np.arange(kept.rows.n), rows)
    leverage = np.sort(1.0 - kept.diagonal[free])[::-1]
    sizes = np.sort(units.sizes)[::-1]
    most = int(sizes[:budget].sum())
    residuals = _largest(kept.residuals[None, free], most)[0]
    over_rows = _largest(T @ kept.factor[free].T, most)
    over_points = np.concatenate(
        [
            _largest(kept.functionals(slice(at, at + 256))[:, free], most)
            for at in range(0, len(W), 256)
        ]
    )
    for k in range(1, budget + 1):
        many = min(int(sizes[:k].sum()), free.size)
        key = ("interval", many, *rows.tolist())
        low, high = _known(model, key, partial(scales.interval, many, rows))
        moved = np.maximum(1.0 - low, high - 1.0)
        h, widest = float(leverage[:many].sum()), share * float(moved.max(initial=0.0))
        if not h + widest < 1.0:
            taken[:, k:] = np.inf
            break
        g, c, r = over_rows[:, many - 1], over_points[:, many - 1], residuals[many - 1]
        each = penalty * moved * (theta + g * r / (1.0 - h))
        extra = along @ each + c * float(g @ each) / (1.0 - h)
        extra += lengths * float(reach @ each) * widest / ((1.0 - h) * (1.0 - h - widest))
        taken[:, k] += extra * (1.0 + 1e-9)
    return taken


def _largest(entries: Array, most: int | None = None) -> Array:
    """The lengths of the 1, 2, … largest entries of every line."""
    squares = entries**2
    if most is not None and most < squares.shape[1]:
        squares = np.partition(squares, squares.shape[1] - most, axis=1)[:, -most:]
    squares = -np.sort(-squares, axis=1)
    return np.asarray(np.sqrt(np.cumsum(squares, axis=1)))


def _known(model: ErasableModel, key: Any, compute: Callable[[], Any]) -> Any:
    """What depends on the rows alone, worked out once."""
    memory = model.rows.memory.setdefault("whole", {})
    if key not in memory:
        memory[key] = compute()
    return memory[key]


def _categories(scales: Scales, Z: Array, units: Units, found: Verdicts) -> None:
    """A promise that needs a category survives only as long as somebody has it."""
    unit_of = np.repeat(np.arange(len(units)), units.sizes)[np.argsort(units.order)]
    for f, column in enumerate(scales.columns):
        if not column.strict:
            continue
        holders = np.unique(unit_of[column.values != 0])
        touched = np.flatnonzero((Z[:, f] != 0) & (found.certified >= len(holders)))
        for j in touched.tolist():
            found.certified[j] = len(holders) - 1
            found.attacked[j], found.witness[j] = len(holders), tuple(holders.tolist())

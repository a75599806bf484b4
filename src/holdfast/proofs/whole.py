r"""Certificates for a whole pipeline: what is erased is refitted for, scalers included.

What refitting scalers adds to a deletion is bounded in :mod:`holdfast.proofs.rescaled`. A few rows
may move a scale a lot, all others hardly: so sets are told apart by which of those few they have.
Without them the pipeline is refitted, and the bound is about the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions, take
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.scales import Scales
from holdfast.models.solving import scores_or_nan
from holdfast.proofs.candidates import Asked, Verdicts
from holdfast.proofs.rescaled import Rescaled
from holdfast.recourse.promises import Promises
from holdfast.searches.attack import AlgebraAttack
from holdfast.searches.optimal import optimal

#: units that are told apart at most, and the penalty's move from which a unit may be one
FEW, MOVES = 3, 0.2

#: what refitting may add, as a share of a margin, for a joint ceiling to be looked for
SMALL = 0.25


#: gives verdicts on a model's recourses
Judge = Callable[[Asked], Verdicts]


def covered(model: ErasableModel, points: Any) -> bool:
    """Whether a certificate can speak of the whole pipeline."""
    if model.can.chooses:  # a penalty is chosen again: nothing is proven of that
        return False
    if model.preprocessing is None:
        return True
    scales = model.scales
    return model.can.certificate is not None and scales is not None and scales.covers(points)


def for_the_whole(asked: Asked, judge: Judge, apart: bool) -> Verdicts:
    """Verdicts that hold with the preprocessing refitted.

    ``apart``: by sets of the few that move scales; a tree of optima tells them apart by itself.
    """
    model, units, budget = asked.model, asked.units, asked.budget
    scales = model.scales
    assert scales is not None
    few = _movers(model, scales, units) if apart else []
    found = judge(replace(asked, quick=bool(few)))
    some = np.flatnonzero(found.certified < budget)
    if few and some.size:
        theirs = asked.of(some, stay=tuple(few))
        inner = judge(theirs)
        for size in range(1, min(len(few), budget) + 1):
            for gone in itertools.combinations(few, size):
                _without(theirs, gone, judge, inner)
        found.improve(some, inner)
    _categories(scales, model.features(asked.points), units, found)
    return found


def joint_ceiling(
    model: ErasableModel, promises: Promises, units: Units, budget: int, seconds: float, rng: Any
) -> Array | None:
    """The share any ``k`` deletions can break together, proven, (budget + 1,); ``None``: unknown.

    The bound for the preprocessing kept, with what refitting it may add taken off every margin.
    """
    points, margins = promises.kept_points, promises.margins
    exact = model.can.certificate == "exact" and model.rows.names is None
    if not exact or model.preprocessing is None or not covered(model, points):
        return None
    scales = model.scales
    assert scales is not None
    if _movers(model, scales, units) or scales.rarest <= budget:
        return None
    taken = Rescaled(
        Asked(model, points, margins, np.zeros(margins.size), units, budget)
    ).off_margins()
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
    if model.form(str(model.can.form)).strength == 0 or model.in_passes is not None:
        return []

    def moves() -> Array:
        sets = [] if units.single else [units.rows([u]) for u in range(len(units))]
        factors = scales.singles[units.order] if units.single else scales.factors(sets)
        return np.asarray(np.abs(factors - 1.0).max(axis=1, initial=0.0))

    moved = _known(model, ("moves", units.unit), moves)
    order = np.argsort(-moved, kind="stable")[:FEW]
    return [int(u) for u in order if moved[u] > MOVES]


def _without(asked: Asked, gone: tuple[int, ...], judge: Judge, found: Verdicts) -> None:
    """Lower what is certified to what holds for sets that have these few and no others of them."""
    if not np.any(found.certified >= len(gone)):
        return
    model, units, points, errors = asked.model, asked.units, asked.points, asked.errors
    rows = units.rows(gone)
    try:
        fresh = _known(model, ("without", *rows.tolist()), lambda: model.without(rows))
    except HoldfastError:  # it cannot be refitted at all
        found.certified = np.minimum(found.certified, len(gone) - 1)
        return
    scores = scores_or_nan(fresh, points)
    target = model.scores(points) - asked.margins
    left = scores - target
    alone = ~(left - errors > 0)
    hit = alone & (found.certified >= len(gone))
    for j in np.flatnonzero(hit & (left < -errors)).tolist():
        found.attacked[j], found.witness[j] = len(gone), tuple(gone)
    found.certified[hit] = len(gone) - 1
    others = np.flatnonzero(~alone & (found.certified > len(gone)))
    if others.size == 0:
        return
    own, places = _own_units(fresh, units, rows)
    number = {int(u): i for i, u in enumerate(places.tolist())}
    kept = tuple(number[u] for u in asked.stay if u not in gone)
    more = asked.budget - len(gone)
    inner = judge(
        asked.of(others, model=fresh, margins=left[others], units=own, stay=kept, budget=more)
    )
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

"""Who acts through the preprocessing: rows whose erasure moves a scale, a range or a category.

Most rows act on a model by their label and their leverage, which the algebra with the preprocessing
kept knows. A few hold a minimum, a large share of a variance, a category of their own: erasing one
of them refits a transformer to something else. These are found here, and their effects are those of
the whole pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.core import Solver
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits
from holdfast.models.scales import Scales
from holdfast.recourse.promises import Promises

#: so many are followed at most: the strongest
MOST = 12

#: recourses a unit's preprocessing must be worth, softly counted, for the unit to be followed
WORTH = 0.25

#: a penalty that moves by more than this is followed: what it does is not seen to first order
MOVES = 0.35

#: features looked at one by one to say through which a row acts
LOOKED_AT = 4

#: and how much they must be worth beside what the strongest row does by itself
BESIDE = 0.1

#: units that are tried by refitting, where there is no closed form
TRIED = 48

#: and where a refit chooses a penalty by cross-validation, which is dear; so many are followed then
TRIED_DEARLY, MOST_DEARLY = 12, 2


@dataclass(frozen=True)
class Acting:
    """Units that act through the preprocessing, the strongest first.

    Attributes
    ----------
    units : list of int
    channels : dict
        By unit, what it acts through, in words.
    """

    units: list[int] = field(default_factory=list)
    channels: dict[int, str] = field(default_factory=dict)


def acting_units(model: ErasableModel, promises: Promises, units: Units) -> Acting:
    """The units whose erasure does more than the algebra with the preprocessing kept says."""
    if not model.can.predicts:
        return Acting()
    if model.can.chooses and model.can.refit == "cheap":
        return _by_choice(model, promises, units)
    if model.preprocessing is None:
        return Acting()
    model = model.with_target_rule("fixed", 0.0)  # who moves the cutoff acts through the model
    scales = model.scales
    if scales is not None and scales.covers(promises.kept_points):
        return _by_scales(model, promises, units)
    return _by_refits(model, promises, units)


def _by_scales(model: ErasableModel, promises: Promises, units: Units) -> Acting:
    """By the closed form: what each unit's change of the penalties does, to first order."""
    scales, core = model.scales, model.form(str(model.can.form))
    assert scales is not None
    lost = _last_of_a_category(model, promises, units)
    if not core.penalised:
        return Acting(list(lost)[:MOST], dict(lost))
    factors = (
        scales.singles
        if units.single
        else scales.factors([units.rows([u]) for u in range(len(units))])
    )
    if units.single:
        factors = factors[units.order]
    moved = np.abs(factors - 1.0).max(axis=1, initial=0.0)
    order = [u for u in np.argsort(-moved, kind="stable").tolist() if moved[u] > MOVES]
    return Acting([*lost, *(u for u in order if u not in lost)][:MOST], dict(lost))


def channel_of(model: ErasableModel, points: Any, rows: Positions) -> str:
    """Through what of the preprocessing some rows act, in words: the feature that does most."""
    scales = model.scales
    if scales is None or not scales.covers(points) or not model.can.solves:
        return "the preprocessing"
    Z, core = model.features(points), cast(Solver, model.form(str(model.can.form)))
    if scales.lost(rows, Z).any():
        return _last_of_a_category_in_words(scales, rows)
    factors = scales.factors([rows])[0]
    some = np.argsort(-np.abs(factors - 1.0), kind="stable")[:LOOKED_AT]
    some = some[factors[some] != 1.0]
    if some.size == 0:
        return "the preprocessing"
    alone = np.ones((some.size + 1, factors.size))
    alone[np.arange(some.size), some] = factors[some]
    after = core.scores_without(Z, [rows] * len(alone), alone)
    most = np.abs(after[:-1] - after[-1]).sum(axis=1)
    return scales.words(int(some[int(np.argmax(most))]))


def _last_of_a_category_in_words(scales: Scales, rows: Positions) -> str:
    for column in scales.columns:
        if column.strict and not np.delete(column.values, rows).any():
            return f"a category of “{column.name}”"
    return "a category"


def _last_of_a_category(model: ErasableModel, promises: Promises, units: Units) -> dict[int, str]:
    """Units without which some promise cannot be scored any more."""
    scales = model.scales
    assert scales is not None
    strict = [f for f, column in enumerate(scales.columns) if column.strict]
    if not strict:
        return {}
    Z, found = model.features(promises.kept_points), {}
    unit_of = np.repeat(np.arange(len(units)), units.sizes)[np.argsort(units.order)]
    for f in strict:
        holders = np.unique(unit_of[scales.columns[f].values != 0])
        if len(holders) == 1 and np.any(Z[:, f] != 0):
            found[int(holders[0])] = f"a category of “{scales.columns[f].name}”"
    return found


def _by_refits(model: ErasableModel, promises: Promises, units: Units) -> Acting:
    """By refitting without those that hold an extreme value, a rare category or a long row."""
    suspects = _suspects(model, units)
    if model.can.refit == "training":
        suspects = dict(list(suspects.items())[:8])
    return _tried(model, promises, units, suspects)


def _tried(
    model: ErasableModel, promises: Promises, units: Units, suspects: dict[int, str]
) -> Acting:
    """Which of some suspects do more than the algebra says, by refits."""
    points, room = promises.kept_points, np.maximum(promises.margins, 1e-12)
    kept = model.deletions(points, preprocessing="kept")
    alone = np.nan_to_num(kept.single_effects())
    least = BESIDE * float(np.abs(alone).sum(axis=0).max(initial=0.0))
    refits, worth = Refits(model, points), {}
    for unit in suspects:
        rows = units.rows([unit])
        try:
            model.rows.refuse_if_too_much(rows)
            drop = kept.effect_at(rows)
        except HoldfastError:
            continue
        after = refits.without([rows], by="solver")[0]
        whole = np.where(np.isnan(after), np.inf, promises.kept_scores - after)
        more = np.abs(whole - drop)
        if float(more.sum()) > least:  # else it hardly matters beside what rows do by themselves
            worth[unit] = float(np.minimum(more / room, 1.0).sum())
    order = [u for u in sorted(worth, key=lambda u: -worth[u]) if worth[u] >= WORTH]
    return Acting(order[:MOST], {u: suspects[u] for u in order[:MOST]})


def _by_choice(model: ErasableModel, promises: Promises, units: Units) -> Acting:
    """Those without whom another penalty is chosen, or who act through the preprocessing."""
    kept = model.deletions(promises.kept_points, preprocessing="kept")
    alone = np.abs(np.nan_to_num(kept.single_effects())).max(axis=0)
    strongest = np.argsort(-np.add.reduceat(alone[units.order], units.starts[:-1]), kind="stable")
    dear = model.can.chooses == "dearly"
    few = strongest[: TRIED_DEARLY if dear else TRIED].tolist()
    found = dict.fromkeys(few, "the choice of the penalty")
    if model.preprocessing is not None and not dear:
        found.update(_suspects(model, units))
    acting = _tried(model, promises, units, found)
    followed = acting.units[: MOST_DEARLY if dear else MOST]
    return Acting(followed, {u: acting.channels[u] for u in followed})


def _suspects(model: ErasableModel, units: Units) -> dict[int, str]:
    """Units that hold the ends of a column, a rare category, or the longest rows of features."""
    unit_of = np.repeat(np.arange(len(units)), units.sizes)[np.argsort(units.order)]
    found: dict[int, str] = {}

    def note(rows: Sequence[int] | Positions, words: str) -> None:
        for row in rows:
            found.setdefault(int(unit_of[row]), words)

    for name, column in model.frame.items():
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
            order = np.argsort(column.to_numpy(dtype=float), kind="stable")
            order = order[: int(column.notna().sum())]
            note(order[[0, -1]], f"the range of “{name}”")
        else:
            counts = column.astype(object).map(column.astype(object).value_counts())
            note(np.flatnonzero(counts.to_numpy() <= 2), f"a category of “{name}”")
    lengths: Array = np.linalg.norm(_standardised(model.features(model.X)), axis=1)
    note(np.argsort(-lengths, kind="stable")[:4], "an atypical row")
    return dict(list(found.items())[:TRIED])


def _standardised(Z: Array) -> Array:
    spread = Z.std(axis=0)
    return np.asarray((Z - Z.mean(axis=0)) / np.where(spread > 0, spread, 1.0))

"""What an audit found, as tables: the curve, who is critical, every recourse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array
from holdfast.algebra.units import Units
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits, broken, shares_broken
from holdfast.proofs.result import Proof
from holdfast.recourse.promises import Promises
from holdfast.recourse.result import Recourse
from holdfast.searches.acting import channel_of
from holdfast.searches.plan import Plan

#: how most rows act: not through the preprocessing
OWN = "its label and leverage"


def curve_table(
    plan: Plan,
    refitted: Array,
    frozen: Any,
    random: pd.DataFrame,
    proof: Proof | None,
    target: float,
) -> pd.DataFrame:
    """One line per number of erasures: predicted, refitted, at random, and what is proven."""
    k = pd.RangeIndex(len(plan.sets), name="k")
    table = pd.DataFrame({"predicted": plan.predicted, "refitted": refitted}, index=k)
    table["frozen"] = np.nan if frozen is None else shares_broken(frozen, target)
    table = table.join(random.set_axis(k, axis=0))
    ceiling = np.full(len(k), np.nan)
    if proof is not None:
        # what is proven of a preprocessing kept, or of a target that stays, is no ceiling
        if proof.preprocessing == "refitted" and plan.model.cutoff is None:
            known = np.arange(len(k)) <= proof.limit
            ceiling[known] = np.asarray(proof.upper)[known]
        if plan.upper is not None:
            ceiling = np.fmin(ceiling, plan.upper)
    # that nothing breaks more than everything is no finding
    table["ceiling"] = np.where(ceiling < 1.0, ceiling, np.nan)
    return table


def _names(model: ErasableModel, unit: str) -> Any:
    """How people are named: a subject by their id, a row by the frame's index, else by position."""
    if unit == "subject" or not isinstance(model.X, pd.DataFrame):
        return lambda name: name
    if model.rows.names is not None:  # some rows of many, named by their numbers among all
        known = dict(zip(model.rows.names.tolist(), model.row_ids, strict=True))
        return lambda place: known[int(place)]
    ids = model.row_ids
    return lambda place: ids[int(place)]


def critical_table(
    model: ErasableModel, plan: Plan, units: Units, promises: Promises
) -> pd.DataFrame:
    """Everybody the attack erases: when, how often, and what they break alone."""
    name_of = _names(model, plan.unit)
    first: dict[Any, int] = {}
    times: dict[Any, int] = {}
    for k, members in enumerate(plan.units):
        for member in members:
            first.setdefault(member, k)
            times[member] = times.get(member, 0) + 1
    number = {name: u for u, name in enumerate(units.names)}
    points = promises.kept_points
    deletions = model.deletions(points) if model.can.predicts else None
    kept = model.deletions(points, preprocessing="kept") if model.can.predicts else None
    lines = []
    for member in sorted(first, key=lambda m: (first[m], -times[m])):
        rows = units.rows([number[member]])
        alone = float("nan")
        channel = OWN
        if deletions is not None and kept is not None:
            left = promises.margins - deletions.effect_at(rows)
            alone = float(np.mean(~(left >= 0)))
            frozen = promises.margins - kept.effect_at(rows)
            if model.preprocessing is not None and np.any((left >= 0) != (frozen >= 0)):
                known = plan.notes.get("acting", {}).get(member)
                channel = known or channel_of(model, points, rows)
        lines.append((name_of(member), len(rows), first[member], times[member], alone, channel))
    columns = ["id", "rows", "first_at", "budgets", "breaks_alone", "acts_through"]
    return pd.DataFrame(lines, columns=columns)


def recourse_table(
    model: ErasableModel,
    promises: Promises,
    after: Array,
    refits: Refits,
    proof: Proof | None,
    plan: Plan,
) -> pd.DataFrame:
    """One line per valid recourse."""
    tried = refits.tried(plan.sets)
    hit: Any = broken(after, promises.target) & tried[:, None]
    at = np.where(hit.any(axis=0), hit.argmax(axis=0), 0)
    first = np.asarray(at).tolist()
    table = pd.DataFrame(
        {
            "score": promises.kept_scores,
            "margin": promises.margins,
            "overshoot": promises.margins / model.score_unit,
            "broken_at": pd.array([int(k) if k else pd.NA for k in first], dtype="Int64"),
        },
        index=promises.index[promises.kept],
    )
    why = ["" if k == 0 else refits.why_not(plan.sets[k]).get(j, "") for j, k in enumerate(first)]
    if any(why):
        table["without_score"] = why
    if proof is not None:
        name_of = _names(model, plan.unit)
        some = proof.iloc[promises.kept]
        for column in ("certified", "attacked", "status"):
            table[column] = some[column].to_numpy()
        table["attacked"] = table["attacked"].astype("Int64")
        table["witness"] = pd.Series(
            [[name_of(u) for u in chosen] for chosen in some["witness"]], index=table.index
        )
    if isinstance(promises.given, Recourse):
        table["change"] = promises.given.in_words().iloc[promises.kept].to_numpy()
    return table


def counts(model: ErasableModel, promises: Promises, units: Units, plan: Plan) -> dict[str, int]:
    """How many rows, people and recourses there are.

    ``people = above_target + without_recourse + recourses``, ``recourses = valid + not_valid``.
    """
    given = promises.given
    known = isinstance(given, Recourse)
    above, without = (given.above_target, given.without_recourse) if known else (0, 0)
    return {
        "rows": model.many,
        "units": model.many if units.unit == "row" else model.people or len(units),
        "skipped": len(plan.skipped),
        "people": above + without + len(promises),
        "above_target": above,
        "without_recourse": without,
        "recourses": len(promises),
        "valid": int(promises.kept.size),
        "not_valid": len(promises) - int(promises.kept.size),
    }

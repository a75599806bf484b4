"""Why some rows are critical, how far advice moves, how well effects are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast import propositions
from holdfast.algebra.rows import Array, Positions, take
from holdfast.algebra.units import Units
from holdfast.audits.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.instability import action_instability
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits, broken
from holdfast.recourse import METHODS, find_recourse
from holdfast.recourse.promises import Promises
from holdfast.recourse.result import Recourse
from holdfast.searches import search
from holdfast.searches.plan import Plan

#: the overshoots recourses are made for again, in standard deviations of the scores
OVERSHOOTS = (0.001, 0.01, 0.05, 0.2)

#: rows are told apart by fifths of leverage and residual
FIFTHS = 5

#: where all pairs of rows and recourses are looked at, this many recourses do
SAMPLE = 200


def sample_of(points: Any, rng: Any, most: int = SAMPLE) -> Any:
    """Some recourses at random, all of them where there are few."""
    if len(points) <= most:
        return points
    return take(points, np.sort(rng.choice(len(points), most, replace=False)))


@dataclass(frozen=True)
class Critical:
    """How leverage and residual go with harm.

    Attributes
    ----------
    cells : frame
        For every fifth of leverage and of residual size: rows, and the mean harm of one of them:
        the score it takes from a recourse when deleted alone, in median margins.
    top : int
        How many rows the most harmful hundredth are.
    high_leverage, high_residual : float
        The share of those in the highest fifth of either (a fifth would be chance).
    """

    cells: pd.DataFrame
    top: int
    high_leverage: float
    high_residual: float


def critical_rows(model: ErasableModel, points: Any, target: float, rng: Any) -> Critical | None:
    """Where harmful rows lie between ordinary and atypical, fitted well and badly."""
    if not model.can.predicts or model.can.form == "parts" or model.rows.n < 10 * FIFTHS:
        return None
    some = sample_of(points, rng)
    deletions = model.deletions(some)
    margins = model.scores(some) - target
    scale = float(np.median(margins)) or model.score_unit
    effects = deletions.single_effects()
    # of very many rows a fair sample is looked at
    fair = slice(None) if model.rows.sample is None else model.rows.sample
    harm = np.nanmean(np.maximum(effects[:, fair], 0.0), axis=0) / scale
    harm = np.nan_to_num(harm)
    # the diagonal of P falls with leverage: 1 − h for linear models, (1 − h)/β for kernels
    leverage = _fifths(-deletions.diagonal[fair])
    residual = _fifths(np.abs(deletions.residuals[fair]))
    table = pd.DataFrame({"leverage": leverage, "residual": residual, "harm": harm})
    cells = table.groupby(["leverage", "residual"])["harm"].agg(["size", "mean"]).reset_index()
    cells.columns = pd.Index(["leverage", "residual", "rows", "harm"])
    top = np.argsort(-harm, kind="stable")[: max(1, len(harm) // 100)]
    return Critical(
        cells,
        int(top.size),
        float(np.mean(leverage[top] == FIFTHS)),
        float(np.mean(residual[top] == FIFTHS)),
    )


def _fifths(values: Array) -> Any:
    """1 for the lowest fifth of the rows … 5 for the highest."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return 1 + (FIFTHS * ranks) // len(values)


def agreement(before: Array, predicted: Array, refitted: Array, unit: float) -> pd.DataFrame:
    """Score drops by tenths of the predicted drop: mean predicted and mean refitted, in units."""
    drops, true = (before - predicted) / unit, (before - refitted) / unit
    bins = min(10, max(1, len(drops) // 10))
    place = (bins * np.argsort(np.argsort(drops, kind="stable"))) // len(drops)
    table = pd.DataFrame({"bin": place, "predicted": drops, "refitted": true})
    found = table.groupby("bin").agg(
        recourses=("predicted", "size"),
        predicted=("predicted", "mean"),
        refitted=("refitted", "mean"),
    )
    return found.reset_index(drop=True)


@dataclass(frozen=True)
class ActionShift:
    """How far advice itself moves (Φ₂) when it is worked out again after a deletion."""

    deletions: int
    median: float
    high: float
    random_median: float
    random_high: float


def action_shift(
    model: ErasableModel,
    people: Any,
    rows: Positions,
    randoms: list[Positions],
    goal: float,
    rng: Any,
) -> ActionShift | None:
    """Φ₂ after the plan's deletion and after random ones, recourse by the closed form."""
    in_files = model.in_passes is not None and not model.exact  # a refit takes several passes
    if people is None or not model.can.predicts or len(rows) == 0 or in_files:
        return None
    some = sample_of(people, rng)
    try:
        worst = action_instability(model, some, rows, target=goal).values
        by_chance = np.concatenate(
            [action_instability(model, some, r, target=goal).values for r in randoms]
        )
    except HoldfastError:  # gradients do not pass through the preprocessing
        return None
    middle, high = (
        [float(np.nanquantile(values, share)) for values in (worst, by_chance)]
        for share in (0.5, 0.9)
    )
    return ActionShift(len(rows), middle[0], high[0], middle[1], high[1])


def bound_table(
    model: ErasableModel, points: Any, people: Any, goal: float, rng: Any
) -> pd.DataFrame:
    """The paper's propositions that apply, beside the worst single deletion measured."""
    asked: list[tuple[str, Any]] = []
    if points is not None:
        some = sample_of(points, rng)
        asked.append(("score", lambda: propositions.outcome_linear(model, some)))
        asked.append(("score", lambda: propositions.outcome_kernel(model, some)))
    if people is not None:
        asked.append(
            ("recourse", lambda: propositions.action_linear(model, sample_of(people, rng), goal))
        )
    lines = []
    for about, compute in asked:
        try:
            found = compute()
        except HoldfastError:
            continue
        lines.append(
            {
                "name": found.name,
                "about": about,
                "bound": float(np.median(found.bound)),
                "measured": float(np.median(found.measured)),
                "ratio": float(np.nanmedian(found.ratio)),
                "assumptions": list(found.assumptions),
            }
        )
    columns = ["name", "about", "bound", "measured", "ratio", "assumptions"]
    return pd.DataFrame(lines, columns=columns)


def by_overshoot(
    model: ErasableModel,
    given: Any,
    target: float,
    k: int,
    max_deletions: int,
    unit: str,
    rng: Any,
    tell: Any,
    clock: Clock,
) -> pd.DataFrame | None:
    """Recourses made again with other overshoots: their cost, and what deletions then break.

    Each overshoot gets a greedy search of its own, confirmed by refits at 1, ``k`` and the largest
    number. ``None`` where recourses were issued, or deletions are known by refitting only.
    """
    if not isinstance(given, Recourse) or given.method not in METHODS or not model.can.predicts:
        return None
    people = sample_of(given.people, rng)
    lines = []
    grid = sorted({*OVERSHOOTS, given.overshoot} - {0.0})
    budgets = sorted({1, k, max_deletions})
    for done, overshoot in enumerate(grid):
        tell("recourse at other overshoots", done, len(grid))
        if not clock.allows(f"recourse with an overshoot of {overshoot:g}"):
            continue
        made = given
        if overshoot != given.overshoot or len(people) < len(given):
            quickly: Any = {"exact": False} if given.method == "scfe" else {}
            made = find_recourse(
                model,
                people,
                given.method,
                target,
                given.actionability,
                overshoot,
                0,
                cost=given.cost_norm,
                **quickly,
            )
        if not made.valid.any():
            continue
        plan = search(model, made, target, max_deletions, "greedy", unit=unit)
        cost = float(made.cost[made.valid].median())
        refits = Refits(model, plan.points)
        after = refits.without([plan.sets[b] for b in budgets], by="solver")
        for budget, scores in zip(budgets, after, strict=True):
            lines.append(
                {
                    "overshoot": overshoot,
                    "recourses": len(plan.points),
                    "cost": cost,
                    "deletions": budget,
                    "predicted": float(plan.predicted[budget]),
                    "refitted": float(np.mean(broken(scores, target))),
                }
            )
    tell("recourse at other overshoots", len(grid), len(grid))
    return pd.DataFrame(lines) if lines else None


@dataclass(frozen=True)
class Explained:
    """What is said about why, beside what happens."""

    critical: Any
    action: Any
    bounds: pd.DataFrame
    agreement: pd.DataFrame | None

    @classmethod
    def of(
        cls,
        model: ErasableModel,
        promises: Promises,
        plan: Plan,
        units: Units,
        k: int,
        honest: Array,
        rng: Any,
        clock: Clock,
        quick: bool,
    ) -> Explained:
        if quick or not clock.allows("explanations"):
            return cls(None, None, bound_table(model, None, None, 0.0, rng), None)
        points, rows = promises.kept_points, plan.sets[k]
        given = promises.given
        goal = given.goal if isinstance(given, Recourse) else promises.target
        randoms = [units.rows(units.drawn(rng, k).tolist()) for _ in range(3)]
        agreed = None
        if model.can.predicts and rows.size:
            before = promises.kept_scores
            predicted = before - model.deletions(points).effect_at(rows)
            agreed = agreement(before, predicted, honest[k], model.score_unit)
        return cls(
            critical_rows(model, points, promises.target, rng),
            action_shift(model, promises.kept_people, rows, randoms, goal, rng),
            bound_table(model, points, promises.kept_people, goal, rng),
            agreed,
        )

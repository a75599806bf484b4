"""What every mitigation is given, what it gives back, and how both are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score

from holdfast.algebra.rows import Array, take
from holdfast.algebra.units import Units
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Progress, Refits, broken
from holdfast.models.solving import scores_or_nan
from holdfast.proofs import certify
from holdfast.recourse import find_recourse
from holdfast.recourse.result import Recourse
from holdfast.searches import search
from holdfast.searches.attack import AlgebraAttack
from holdfast.searches.best import best


@dataclass
class Comparison:
    """People, what they were promised, and the question: does it survive ``survive`` deletions?

    Attributes
    ----------
    model : ErasableModel
    people : frame
        Everybody below the target by the model as it is.
    given : Recourse
        What they are promised without any mitigation.
    target : float
    survive, max_deletions : int
    method, actionability, overshoot, cost, unit
        How recourse is found, and what one deletion removes.
    holdout : (X, y) or None
        Rows on which the quality of models is measured.
    """

    model: ErasableModel
    people: pd.DataFrame
    given: Recourse
    target: float
    survive: int
    max_deletions: int
    method: Any
    actionability: Any
    overshoot: float
    cost: str
    unit: str
    holdout: tuple[Any, Any] | None
    random_state: int
    n_jobs: int
    tell: Progress

    def recourse(self, model: ErasableModel, overshoot: Any = None) -> Recourse:
        """Recourse for the same people by another model, or with another overshoot.

        A model without gradients, in place of one with, takes the method that needs none.
        """
        asked = self.overshoot if overshoot is None else overshoot
        lost = self.model.can.gradients and not model.can.gradients
        return find_recourse(
            model,
            self.people,
            "growing-spheres" if lost else self.method,
            self.target,
            self.actionability,
            asked,
            self.random_state,
            cost=self.cost,
        )


@dataclass
class Mitigation:
    """One way of doing it: a model and what people are promised.

    Attributes
    ----------
    name, setting : str
        Which mitigation, and with which strength ("alpha=10").
    model : ErasableModel
    points : frame
        What people are told to reach, by their index in ``people``: those who need recourse and
        have one.
    served : float
        The share of the people who have recourse or need none.
    proven : bool
        Whether survival is certified, or only tried by attacks.
    note : str
    offset : callable or None
        What is added to the model's scores of points: the noise of private training.
    alone : float
        The share that fresh noise breaks with nobody erased.
    """

    name: str
    setting: str
    model: ErasableModel
    points: pd.DataFrame
    served: float = 1.0
    proven: bool = False
    note: str = ""
    offset: Callable[[Any], Array] | None = None
    alone: float = float("nan")
    measured: dict[str, Any] = field(default_factory=dict)
    broken: Array = field(default_factory=lambda: np.zeros(0))

    def scores(self, model: ErasableModel, points: Any) -> Array:
        """Scores of points by a refit of the model, noise included."""
        found = model.scores(points)
        return found if self.offset is None else found + self.offset(points)


def promised(
    name: str, setting: str, model: ErasableModel, given: Recourse, case: Comparison, **more: Any
) -> Mitigation:
    """A mitigation from recourses found for the people of the case."""
    points = given.points[given.valid]
    fine = len(case.people) - len(given)  # those the model already says yes to
    served = (fine + int(given.valid.sum())) / max(len(case.people), 1)
    return Mitigation(name, setting, model, points, served, **more)


def measure(made: Mitigation, case: Comparison) -> None:
    """Attack, refit, certify, price and score one way of doing it."""
    points = made.points
    line: dict[str, Any] = {
        "mitigation": made.name,
        "setting": made.setting,
        "people": len(case.people),
        "served": made.served,
        "proven": made.proven,
        "quality": quality(made, case),
    }
    if len(points):
        made.broken = _broken(made, case)
        line["survive"] = 1.0 - float(np.max(made.broken[: case.survive + 1]))
        line["broken_most"] = float(np.max(made.broken))
        line["certified"] = _certified_share(made, case)
        cost, before = _costs(made, case)
        line["cost"] = float(np.median(cost))
        line["extra_cost"] = float(np.median(cost[before > 0] / before[before > 0] - 1.0))
    else:
        made.broken = np.full(case.max_deletions + 1, np.nan)
        line |= dict.fromkeys(("survive", "broken_most", "certified", "cost", "extra_cost"), np.nan)
    line["note"] = made.note
    made.measured = line


def _costs(made: Mitigation, case: Comparison) -> tuple[Array, Array]:
    """What it costs people now and before; nothing for those the model already says yes to."""
    base = case.given
    yes = _scored(made, case.people) >= case.target
    now = pd.Series(np.where(yes, 0.0, np.nan), index=case.people.index)
    start = base.people.loc[made.points.index]
    now.loc[made.points.index] = base.space.distance(start, made.points, case.cost)
    counted = (now.notna() & base.valid).to_numpy()
    return now.to_numpy()[counted], base.cost.to_numpy()[counted]


def _scored(made: Mitigation, people: pd.DataFrame) -> Array:
    """Scores of people as they are; NaN for those with a gap the model cannot bear."""
    fine = np.isfinite(scores_or_nan(made.model, people))
    scores = np.full(len(people), np.nan)
    if fine.any():
        scores[fine] = made.scores(made.model, people[fine])
    return scores


def _broken(made: Mitigation, case: Comparison) -> Array:
    """The share the strongest attack found breaks at every budget, by refitting."""
    points, model = made.points, made.model
    if made.offset is None:
        plan = search(
            model,
            points,
            case.target,
            case.max_deletions,
            unit=case.unit,
            random_state=case.random_state,
        )
        sets, points = plan.sets, plan.points
    else:
        margins = made.scores(model, points) - case.target
        fine = np.flatnonzero(margins >= 0)
        points = take(points, fine)
        units = Units(model.rows, case.unit)
        attack = AlgebraAttack(model.deletions(points), margins[fine], units)
        rng = np.random.default_rng(case.random_state)
        sets = [units.rows(s) for s in best(attack, case.max_deletions, rng)]
        sets += [sets[-1]] * (case.max_deletions + 1 - len(sets))
    refits = Refits(model, points, case.n_jobs, case.tell)
    after = refits.without(sets, f"{made.name} {made.setting}".strip())
    if made.offset is not None:
        after = after + made.offset(points)[None, :]
    shares: Array = np.mean(broken(after, case.target), axis=1)
    shares[0] = 0.0
    return shares


def _certified_share(made: Mitigation, case: Comparison) -> float:
    if made.offset is not None or made.model.can.certificate is None:
        return float("nan")
    try:
        proof = certify(
            made.model, made.points, case.target, case.survive, unit=case.unit, time_limit=30.0
        )
    except HoldfastError:
        return float("nan")
    if proof.limit == 0 or proof.preprocessing == "kept":
        return float("nan")
    return float((proof["certified"] >= case.survive).mean())


def quality(made: Mitigation, case: Comparison) -> float:
    """R² of a regressor, the area under the ROC curve of a classifier, on rows held out."""
    if case.holdout is None:
        return float("nan")
    X, y = case.holdout
    model = made.model
    scores = made.scores(model, X)
    if model.classes is not None:
        good = np.asarray(y) == model.favourable
        return float(roc_auc_score(good, scores)) if 0 < good.mean() < 1 else float("nan")
    return float(r2_score(model.sign * np.asarray(y, dtype=float), scores))

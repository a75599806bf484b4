"""Proof: recourses that no k deletions can break."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Mask, take
from holdfast.algebra.units import Units
from holdfast.arguments import budget_of, finite_number, finite_score
from holdfast.errors import HoldfastError
from holdfast.instability import points_of
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.kernel import KernelCore
from holdfast.models.logistic import LogisticCore
from holdfast.proofs.candidates import Verdicts
from holdfast.proofs.confirm import scores_without
from holdfast.proofs.logistic import missed_by_newton, single_deletions
from holdfast.proofs.result import Proof, made
from holdfast.proofs.rows import verdicts
from holdfast.proofs.subjects import verdicts_by_subject
from holdfast.searches import search


def certify(
    model: ErasableModel,
    given: Any,
    target: float,
    max_deletions: int = 14,
    unit: str = "row",
    *,
    time_limit: float = 60.0,
    random_state: Any = 0,
) -> Proof:
    """For every recourse, how many deletions it provably survives, and how few break it.

    Parameters
    ----------
    model : ErasableModel
        Linear and ridge regression, kernel ridge, NTK and LS-SVM are certified by the exact
        algebra; logistic regression by Newton's step with a rigorous remainder. Other models get
        the attack only, and status "no bound".
    given : recourses, or points of shape (q, d)
    target : float
    max_deletions : int
        The largest number of deletions asked about.
    unit : {"row", "subject"}
        What one deletion removes. By subject the bound is the weaker block form.
    time_limit : float
        Seconds for the trees and attacks; what is not decided by then is a gap. The bounds
        themselves are not interrupted.
    random_state : int, Generator or None
        For the attack on models without a certificate.

    Returns
    -------
    Proof
        A frame with the columns ``certified``, ``attacked``, ``status``, ``slack``, ``margin``,
        ``witness``, ``confirmed``; its ``upper`` bounds the share any ``k`` deletions can break.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> given = hf.find_recourse(model, X, target=150, overshoot=0.2)
    >>> proof = hf.certify(model, given, target=150, max_deletions=5)
    >>> proof["status"].value_counts().to_dict()
    {'tight': 214}
    >>> bool(proof.rerun().dropna().all())         # every witness breaks its recourse when refitted
    True
    """
    refuse_other_models(model)
    target = finite_score(target)
    if finite_number("time_limit", time_limit) < 0:
        raise HoldfastError(f"time_limit must not be negative, got {time_limit!r}")
    units = Units(model.rows, unit)
    budget = budget_of(max_deletions, len(units), unit)
    points, index, fine = _points(model, given)
    scores = np.full(len(points), np.nan)  # what is not valid may not have a score at all
    if fine.any():
        scores[fine] = model.scores(take(points, np.flatnonzero(fine)))
    valid = np.flatnonzero(fine & (scores >= target))
    if valid.size == 0:
        raise HoldfastError(
            f"no recourse to certify: all {len(scores)} are below the target {target:g} or invalid"
        )
    deadline = time.monotonic() + float(time_limit)
    some, margins = take(points, valid), scores[valid] - target
    errors = _rounding(model, scores[valid], target)
    found, method, why = _verdicts(
        model, some, margins, errors, units, budget, deadline, target, random_state
    )
    confirmed = _confirm(model, some, found, units, target)
    frame = _frame(found, margins, confirmed, units, budget, len(scores), valid, index)
    upper = [0.0, *(float(np.mean(found.certified < k)) for k in range(1, budget + 1))]
    return made(
        frame,
        upper,
        max_deletions=budget,
        limit=found.limit,
        limit_reason=why if found.limit < budget else "",
        unit=unit,
        method=method,
        target=target,
        model=model,
        points=points,
    )


def _points(model: ErasableModel, given: Any) -> tuple[Any, pd.Index, Mask]:
    """Points as the model takes them, the index of the result, and which recourses count."""
    plain = points_of(given)
    points = model._queries(plain, "the recourses")
    if len(points) == 0:
        raise HoldfastError("no recourse to certify: the table of recourses is empty")
    index = plain.index if isinstance(plain, pd.DataFrame) else pd.RangeIndex(len(points))
    fine = np.ones(len(points), dtype=bool)
    if plain is not given and hasattr(given, "valid"):
        fine = np.asarray(given.valid, dtype=bool)
    return points, index, fine


def _rounding(model: ErasableModel, scores: Array, target: float) -> Array:
    """What rounding may hide of a score or an effect, absolute."""
    relative = 1e-11
    if isinstance(model.core, KernelCore):
        relative = max(relative, 1e-15 * model.core.condition)
    if isinstance(model.core, LogisticCore):
        relative = 1e-9  # the optimum itself is known to about this
    return relative * (np.abs(scores) + abs(target) + model.score_unit)


def _verdicts(
    model: ErasableModel,
    points: Any,
    margins: Array,
    errors: Array,
    units: Units,
    budget: int,
    deadline: float,
    target: float,
    random_state: Any,
) -> tuple[Verdicts, str, str]:
    """Verdicts, how they were reached, and why there is nothing beyond their limit."""
    loose = "deletions this large may be singular, or their bound does not converge"
    if model.exact:
        deletions = model.deletions(points)
        if isinstance(model.core, KernelCore):
            model.core.inverse.form()
        if units.single:
            return verdicts(deletions, margins, errors, budget, deadline), "rows", loose
        found = verdicts_by_subject(deletions, units, margins, errors, budget, deadline)
        return found, "subjects (block form, weaker than rows)", loose
    core = model.core
    if isinstance(core, LogisticCore) and not core.balanced and units.single:
        deletions = model.deletions(points)
        found = verdicts(
            deletions,
            margins,
            errors,
            budget,
            deadline,
            lambda boxes: missed_by_newton(core, deletions, boxes),  # type: ignore[arg-type]
        )
        single_deletions(core, model.features(points), margins, found, budget, deadline)
        why = "the remainder of the Newton step is not bounded there"
        return found, "rows, Newton step and remainder", why
    reason = "networks and refit-only models have no bound"
    if isinstance(core, LogisticCore):
        reason = "logistic regression is certified by single rows, without class balancing"
    return _attack_only(model, points, target, units, budget, random_state), "attack only", reason


def _attack_only(
    model: ErasableModel, points: Any, target: float, units: Units, budget: int, random_state: Any
) -> Verdicts:
    """The smallest sets of the strongest plan found that break each recourse."""
    q = len(points)
    plan = search(model, points, target, budget, unit=units.unit, random_state=random_state)
    attacked = np.zeros(q, dtype=np.intp)
    witness: list[tuple[int, ...]] = [()] * q
    number = {name: u for u, name in enumerate(units.names)}
    for k in range(1, budget + 1):
        rows = plan.sets[k]
        if len(rows) == 0:
            continue
        broken = model.without(rows).scores(points) < target
        for j in np.flatnonzero(broken & (attacked == 0)).tolist():
            attacked[j] = len(plan.units[k])
            witness[j] = tuple(number[name] for name in plan.units[k])
    zero = np.zeros(q, dtype=np.intp)
    return Verdicts(zero, attacked, witness, np.zeros(q), np.zeros(q, dtype=bool), 0)


def _confirm(
    model: ErasableModel, points: Any, found: Verdicts, units: Units, target: float
) -> Any:
    """Solve again without each witness; an attack that does not stand is withdrawn."""
    hit = [j for j in range(len(found.witness)) if found.witness[j]]
    sets = [units.rows(found.witness[j]) for j in hit]
    after = scores_without(model, take(points, hit), sets, target)
    confirmed = np.zeros(len(found.witness), dtype=bool)
    for j, score in zip(hit, after.tolist(), strict=True):
        if score < target:
            confirmed[j] = True
        else:
            found.attacked[j], found.witness[j] = 0, ()
    return confirmed


def _frame(
    found: Verdicts,
    margins: Array,
    confirmed: Any,
    units: Units,
    budget: int,
    q: int,
    valid: Any,
    index: pd.Index,
) -> pd.DataFrame:
    """One line per recourse, the invalid ones included."""
    certified = found.certified
    attacked = found.attacked
    status = np.full(certified.size, "gap", dtype=object)
    status[(certified >= found.limit) & (found.limit < budget)] = "no bound"
    status[(attacked == certified + 1) | (certified == budget)] = "tight"
    status[found.singular] = "singular"
    names = [tuple(units.names[u] for u in chosen) for chosen in found.witness]
    whole = pd.DataFrame(
        {
            "certified": np.full(q, -1),
            "attacked": pd.array([pd.NA] * q, dtype="Int64"),
            "status": np.full(q, "invalid", dtype=object),
            "slack": np.full(q, np.nan),
            "margin": np.full(q, np.nan),
            "witness": None,
            "confirmed": np.zeros(q, dtype=bool),
        }
    )
    whole.loc[valid, "certified"] = certified
    whole.loc[valid, "attacked"] = pd.array(
        [int(a) if a else pd.NA for a in attacked], dtype="Int64"
    )
    whole.loc[valid, "status"] = status
    whole.loc[valid, "slack"] = np.maximum(margins - found.bound, 0.0)
    whole.loc[valid, "margin"] = margins
    everybody: list[Any] = [()] * q
    for place, chosen in zip(valid.tolist(), names, strict=True):
        everybody[place] = chosen
    whole["witness"] = pd.Series(everybody, dtype=object)
    whole.loc[valid, "confirmed"] = confirmed
    return whole.set_axis(index, axis=0)

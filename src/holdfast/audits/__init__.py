"""The audit: what erasure can do to promised recourses, confirmed, bounded, explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, take
from holdfast.algebra.units import Units
from holdfast.arguments import finite_score, generator_of, positive_number
from holdfast.audits.explanation import (
    action_shift,
    agreement,
    bound_table,
    by_overshoot,
    critical_rows,
    has_algebra,
)
from holdfast.audits.likelihood import (
    HIGH,
    LOW,
    cohort_rows,
    cohort_table,
    likelihood,
    refuse_too_many,
    shares_broken,
)
from holdfast.audits.refits import Progress, Refits
from holdfast.audits.result import Audit
from holdfast.errors import HoldfastError
from holdfast.instability import points_of
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.kernel import KernelCore
from holdfast.models.preprocessing import Preprocessing
from holdfast.models.refit import RefitCore
from holdfast.proofs import certify as prove
from holdfast.proofs.result import Proof
from holdfast.recourse import target_of
from holdfast.recourse.result import Recourse
from holdfast.searches import search as look_for
from holdfast.searches.plan import Plan

#: seconds for the ceiling on what one set of deletions breaks of all recourses together
JOINT_SECONDS = 10.0


def audit(
    model: ErasableModel,
    given: Any,
    target: float | None = None,
    max_deletions: int = 14,
    certify: bool = True,
    random_state: Any = 0,
    *,
    search: Any = "best",
    unit: str = "row",
    people: Any = None,
    draws: int = 20,
    erasures: int | None = None,
    cohorts: Any = None,
    at: int | None = None,
    time_limit: float = 60.0,
    n_jobs: int = 1,
    progress: Progress | None = None,
    about: dict[str, Any] | None = None,
) -> Audit:
    """What erasure requests can do to promised recourses.

    Parameters
    ----------
    model : ErasableModel
        What :func:`holdfast.erasable` returns.
    given : recourses, or points of shape (q, d)
        What people were promised: from :func:`find_recourse`, :func:`issued_recourse`, or plain.
    target : float, optional
        The score a recourse must reach; by default that of ``given``, else the model's natural one.
    max_deletions : int
        The largest number of erasures looked at.
    certify : bool
        Whether to prove how many erasures each recourse survives.
    random_state : int, Generator or None
    search : str or callable
        As for :func:`holdfast.search`.
    unit : {"row", "subject"}
        What one erasure removes.
    people : factuals of shape (q, d)
        Taken from ``given`` where it has them.
    draws : int
        Random erasures and bootstrap samples drawn.
    erasures : int, optional
        So many erasures are expected: adds their likely effect (``result.likelihood``).
    cohorts : array-like of shape (n,), optional
        A group for every training row: adds what erasing each group does (``result.cohorts``).
    at : int, optional
        The number of erasures the headline speaks of; by default the fewest that break half of the
        recourses, or ``max_deletions``.
    time_limit : float
        Seconds for the certificates.
    n_jobs : int
        Refits at a time.
    progress : callable, optional
        Called with ``(stage, done, total)``.
    about : dict, optional
        What is known of the files: goes into the report's last section.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    >>> given = hf.find_recourse(model, X, target=-140, actionability="infer")
    >>> result = hf.audit(model, given, max_deletions=3)
    >>> result.curve[["predicted", "refitted"]].round(2).reset_index()
       k  predicted  refitted
    0  0       0.00      0.00
    1  1       0.84      0.84
    2  2       0.92      0.92
    3  3       0.96      0.96
    """
    refuse_other_models(model)
    rng = generator_of(random_state)
    target = _target(model, given, target)
    for name, value in (("draws", draws), ("n_jobs", n_jobs)):
        positive_number(name, abs(value) if name == "n_jobs" else value)
    tell: Progress = progress or (lambda stage, done, total: None)
    units = Units(model.rows, unit)
    groups_of = None if cohorts is None else cohort_rows(cohorts, model.rows.n)
    if erasures is not None:
        refuse_too_many(int(erasures), units)
    tell("search for the worst erasures", 0, 1)
    if search == "random":
        raise HoldfastError("random erasures are shown beside every search: name another search")
    asked = search if isinstance(search, str) else getattr(search, "__name__", "callable")
    options: dict[str, Any] = {}
    if search == "best" and certify and model.exact:  # the same search, and a joint ceiling
        search, options = "optimal", {"time_limit": JOINT_SECONDS}
    plan = look_for(
        model, given, target, max_deletions, search, unit=unit, random_state=rng, **options
    )
    tell("search for the worst erasures", 1, 1)
    fine, index = _attacked(model, given, target)
    points = take(model._queries(points_of(given), "the recourses"), fine)
    folk = _people(model, given, people, fine)
    refits = Refits(model, points, n_jobs, tell)

    before = model.scores(points)
    after = refits.without(plan.sets, "refits of the attack")
    frozen = None
    if isinstance(model._preprocessing, Preprocessing):
        frozen = refits.without(plan.sets, "refits, preprocessing kept", frozen=True)
    refitted = shares_broken(after, target)
    noise = 0.0
    if isinstance(model.core, RefitCore):
        noise = float(np.mean(~(refits.again() >= target)))
    k = _headline_at(refitted, at, plan.max_deletions)
    random, random_refits = _random(model, plan, refits, units, k, draws, rng, target, tell)
    proof = None
    if certify:
        tell("certificates", 0, 1)
        proof = prove(
            model,
            given,
            target,
            plan.max_deletions,
            unit=unit,
            time_limit=time_limit,
            random_state=rng,
        )
        tell("certificates", 1, 1)
    curve = _curve(plan, refitted, frozen, random, proof, target)

    chance = None
    if erasures is not None:
        chance = likelihood(refits, units, plan, int(erasures), draws, rng, target)
    groups = None
    if groups_of is not None:
        groups = cohort_table(refits, groups_of, target, has_algebra(model))
    goal = given.goal if isinstance(given, Recourse) else target
    rows = plan.sets[k]
    randoms = [units.rows(rng.choice(len(units), k, replace=False).tolist()) for _ in range(3)]
    tell("explanations", 0, 1)
    explained = critical_rows(model, points, target, rng)
    action = action_shift(model, folk, rows, randoms, goal, rng)
    bounds = bound_table(model, points, folk, goal, rng)
    agreed = None
    if has_algebra(model) and rows.size:
        predicted = before - model.deletions(points).effect_at(rows)
        honest = (after if frozen is None else frozen)[k]
        agreed = agreement(before, predicted, honest, model.score_unit)
    tell("explanations", 1, 1)
    overshoots = by_overshoot(model, given, target, k, plan.max_deletions, unit, rng, tell)
    margins = before - target
    return Audit(
        model=model,
        plan=plan,
        curve=curve,
        critical=_critical(model, plan, units, points, before, target),
        recourses=_recourses(model, given, index, fine, before, after, target, proof, plan),
        bounds=bounds,
        agreement=agreed,
        explained=explained,
        action=action,
        proof=proof,
        likelihood=chance,
        cohorts=groups,
        overshoots=overshoots,
        headline_at=k,
        random_refits=random_refits,
        target=target,
        unit=unit,
        overshoot=float(np.median(margins)) / model.score_unit,
        refit_noise=noise,
        counts=_counts(model, given, fine, units, plan),
        settings={
            "search": asked,
            "max_deletions": plan.max_deletions,
            "unit": unit,
            "certify": bool(certify),
            "draws": int(draws),
            "seed": random_state if isinstance(random_state, int) else None,
            "time_limit": float(time_limit),
        },
        about=dict(about or {}),
    )


def _target(model: ErasableModel, given: Any, target: float | None) -> float:
    if target is not None:
        return finite_score(target)
    return given.target if isinstance(given, Recourse) else target_of(model, None)


def _attacked(model: ErasableModel, given: Any, target: float) -> tuple[Any, pd.Index]:
    """Which recourses are valid, as the searches count them, and the index of all."""
    table = points_of(given)
    points = model._queries(table, "the recourses")
    fine = np.ones(len(points), dtype=bool)
    if table is not given and hasattr(given, "valid"):
        fine = np.array(given.valid, dtype=bool)
    if fine.any():
        fine[fine] = model.scores(take(points, np.flatnonzero(fine))) >= target
    index = table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(points))
    return np.flatnonzero(fine), index


def _people(model: ErasableModel, given: Any, people: Any, fine: Any) -> Any:
    folk = getattr(given, "people", None) if people is None else people
    if folk is None:
        return None
    folk = model._queries(folk, "people")
    if len(folk) != len(points_of(given)):
        raise HoldfastError(f"there are {len(points_of(given))} recourses but {len(folk)} people")
    return take(folk, fine)


def _headline_at(refitted: Array, at: int | None, most: int) -> int:
    if at is not None:
        if not isinstance(at, int | np.integer) or not 1 <= at <= most:
            raise HoldfastError(f"at must be a number of erasures from 1 to {most}, got {at!r}")
        return int(at)
    half = np.flatnonzero(refitted >= 0.5)
    return int(half[0]) if half.size and half[0] > 0 else most


def _random(
    model: ErasableModel,
    plan: Plan,
    refits: Refits,
    units: Units,
    k: int,
    draws: int,
    rng: Any,
    target: float,
    tell: Progress,
) -> tuple[pd.DataFrame, int]:
    """Random erasures at every budget, and at budget ``k`` by refitting as many as is cheap."""
    tell("random erasures", 0, 1)
    few = draws if has_algebra(model) else min(draws, 5)
    chance = look_for(
        model,
        refits.points,
        target,
        plan.max_deletions,
        "random",
        unit=plan.unit,
        random_state=rng,
        draws=few,
    )
    shares = np.asarray(chance.notes["shares"])
    refit_count = few if model.rows.n <= 3000 or not model.exact or _cheap(model) else min(few, 3)
    assert chance.draws is not None
    if has_algebra(model):
        sets = [draw[k] for draw in chance.draws[:refit_count]]
        honest = shares_broken(refits.without(sets, "random erasures"), target)
        if refit_count == few and np.isfinite(honest).all():
            shares[:, k] = honest
    table = pd.DataFrame(
        {
            "random": shares.mean(axis=0),
            "random_low": np.quantile(shares, LOW, axis=0),
            "random_high": np.quantile(shares, HIGH, axis=0),
        }
    )
    return table, refit_count


def _cheap(model: ErasableModel) -> bool:
    """Whether a refit costs far less than the cube of the rows."""
    return not isinstance(model.core, KernelCore)


def _curve(
    plan: Plan,
    refitted: Array,
    frozen: Any,
    random: pd.DataFrame,
    proof: Proof | None,
    target: float,
) -> pd.DataFrame:
    k = pd.RangeIndex(len(plan.sets), name="k")
    table = pd.DataFrame({"predicted": plan.predicted, "refitted": refitted}, index=k)
    table["frozen"] = np.nan if frozen is None else shares_broken(frozen, target)
    table = table.join(random.set_axis(k, axis=0))
    ceiling = np.full(len(k), np.nan)
    if proof is not None:
        known = np.arange(len(k)) <= proof.limit
        ceiling[known] = np.asarray(proof.upper)[known]
        if plan.upper is not None:
            ceiling = np.fmin(ceiling, plan.upper)
    table["ceiling"] = ceiling
    return table


def _names(model: ErasableModel, unit: str) -> Any:
    """How people are named: a subject by their id, a row by the frame's index, else by position."""
    if unit == "subject" or not isinstance(model.X, pd.DataFrame):
        return lambda name: name
    ids = model.row_ids
    return lambda place: ids[int(place)]


def _critical(
    model: ErasableModel, plan: Plan, units: Units, points: Any, before: Array, target: float
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
    deletions = model.deletions(points) if has_algebra(model) else None
    lines = []
    for member in sorted(first, key=lambda m: (first[m], -times[m])):
        rows = units.rows([number[member]])
        alone = float("nan")
        if deletions is not None:
            alone = float(np.mean(before - deletions.effect_at(rows) < target))
        lines.append((name_of(member), len(rows), first[member], times[member], alone))
    columns = ["id", "rows", "first_at", "budgets", "breaks_alone"]
    return pd.DataFrame(lines, columns=columns)


def _recourses(
    model: ErasableModel,
    given: Any,
    index: pd.Index,
    fine: Any,
    before: Array,
    after: Array,
    target: float,
    proof: Proof | None,
    plan: Plan,
) -> pd.DataFrame:
    """One line per valid recourse."""
    broken = ~(after >= target)
    at = np.where(broken.any(axis=0), broken.argmax(axis=0), 0)
    table = pd.DataFrame(
        {
            "score": before,
            "margin": before - target,
            "overshoot": (before - target) / model.score_unit,
            "broken_at": pd.array([int(k) if k else pd.NA for k in at], dtype="Int64"),
        },
        index=index[fine],
    )
    if proof is not None:
        name_of = _names(model, plan.unit)
        some = proof.iloc[fine]
        for column in ("certified", "attacked", "status"):
            table[column] = some[column].to_numpy()
        table["attacked"] = table["attacked"].astype("Int64")
        table["witness"] = pd.Series(
            [[name_of(u) for u in chosen] for chosen in some["witness"]], index=table.index
        )
    if isinstance(given, Recourse):
        table["change"] = given.in_words().iloc[fine].to_numpy()
    return table


def _counts(
    model: ErasableModel, given: Any, fine: Any, units: Units, plan: Plan
) -> dict[str, int]:
    counts = {
        "rows": model.rows.n,
        "units": len(units),
        "recourses": len(points_of(given)),
        "valid": int(fine.size),
        "skipped": len(plan.skipped),
    }
    if isinstance(given, Recourse):
        counts["above_target"] = given.above_target
        counts["without_recourse"] = given.without_recourse
    return counts

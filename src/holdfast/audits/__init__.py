"""The audit: what erasure can do to promised recourses, confirmed, bounded, explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array
from holdfast.algebra.threads import one_blas_thread
from holdfast.algebra.units import Units
from holdfast.arguments import finite_score, generator_of, positive_number
from holdfast.audits.about import About
from holdfast.audits.clock import Clock
from holdfast.audits.explanation import Explained, by_overshoot
from holdfast.audits.likelihood import (
    HIGH,
    LOW,
    DrawnBand,
    cohort_rows,
    cohort_table,
    group_names,
    group_table,
    likelihood,
    refuse_too_many,
)
from holdfast.audits.result import Audit
from holdfast.audits.tables import counts, critical_table, curve_table, recourse_table
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.refits import Progress, Refits, broken, shares_broken, small_matrices
from holdfast.proofs import certify as prove
from holdfast.proofs.whole import joint_ceiling
from holdfast.recourse import target_of
from holdfast.recourse.promises import Promises, judged
from holdfast.recourse.result import Recourse
from holdfast.searches import search as look_for
from holdfast.searches.plan import Plan
from holdfast.searches.shortlisting import shortlisted

#: seconds for the ceiling on what one set of deletions breaks of all recourses together
JOINT_SECONDS = 10.0
#: refits with other seeds, for models that draw
SEEDS = 3
#: random draws of a quick audit, and seconds, unless it is told how many
QUICK_DRAWS, QUICK_SECONDS = 5, 20.0


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
    time_limit: float | None = None,
    quick: bool = False,
    n_jobs: int = 1,
    progress: Progress | None = None,
    about: About | None = None,
    target_rule: str = "fixed",
    groups: Any = None,
    max_refits: int | None = None,
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
    time_limit : float, optional
        Seconds for all of it; by default there is no limit.
        What is not done by then is named in ``result.missing``.
    quick : bool
        A first answer within seconds, labelled as such: a greedy search by the algebra alone,
        few draws, no certificates, no explanations.
    n_jobs : int
        Refits at a time.
    progress : callable, optional
        Called with ``(stage, done, total)``.
    about : About, optional
        What is known of the files: goes into the report's last section.
    target_rule : {"fixed", "quantile", "label-quantile"}
        Whether the target stays what it is when rows are erased, or stays the quantile of the
        training rows' scores (or of a regressor's labels) that it is now, and so moves with every
        refit. Certificates are about a fixed target; they are no ceiling for one that moves.
    groups : array-like of shape (q,), optional
        A group for everybody with a recourse: adds whose promises break (``result.groups``).
    max_refits : int, optional
        For models known by refitting only: how many refits the search may make. Those that confirm
        what it found, and draw at random, come on top.

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
    >>> given = hf.find_recourse(model, X[:150], target=-140, actionability="infer")
    >>> result = hf.audit(model, given, max_deletions=3)
    >>> result.curve[["predicted", "refitted"]].round(2).reset_index()
       k  predicted  refitted
    0  0       0.00      0.00
    1  1       0.84      0.84
    2  2       0.93      0.93
    3  3       0.98      0.98
    """
    refuse_other_models(model)
    rng = generator_of(random_state)
    clock = Clock(QUICK_SECONDS if quick and time_limit is None else time_limit)
    target = _target(model, given, target)
    model = model.with_target_rule(target_rule, target)
    for name, value in (("draws", draws), ("n_jobs", n_jobs)):
        positive_number(name, abs(value) if name == "n_jobs" else value)
    if search == "random":
        raise HoldfastError("random erasures are shown beside every search: name another search")
    of_cohorts = None if cohorts is None else cohort_rows(cohorts, model.many)
    draws, certify = (min(draws, QUICK_DRAWS), False) if quick else (draws, certify)
    tell: Progress = progress or (lambda stage, done, total: None)
    promises = judged(model, given, target, "attack", people)
    whose = None if groups is None else group_names(groups, len(promises))
    whole, model = model, shortlisted(model, promises, unit, tell)
    units = Units(model.rows, unit)
    if model.in_passes is not None and (erasures is not None or cohorts is not None):
        raise HoldfastError("erasures= and cohorts= are for tables that fit into memory")
    of_all = units if model is whole else Units(whole.rows, unit)
    if erasures is not None:
        refuse_too_many(int(erasures), of_all)
    with one_blas_thread(small_matrices(model)):
        plan = _attack(
            model,
            promises,
            max_deletions,
            search,
            unit,
            rng,
            certify,
            quick,
            clock,
            tell,
            max_refits,
        )
        refits = Refits(model, promises.kept_points, n_jobs, tell)
        after = _confirmed(refits, plan, clock)
        frozen = None
        if model.preprocessing is not None and clock.allows("refits with the preprocessing kept"):
            stage = "refits, preprocessing kept"
            frozen = refits.without(plan.sets, stage, preprocessing="kept", by="solver")
        refitted = refits.shares(plan.sets, target)
        k = _headline_at(refitted, at, plan.max_deletions)
        noise, seeds = _restless(refits, target, rng, clock)
        random, random_refits = _random(
            model, promises, plan, refits, units, k, draws, rng, tell, clock
        )
        proof = None
        if certify and clock.allows("certificates"):
            tell("certificates", 0, 1)
            proof = prove(
                model,
                promises,
                target,
                plan.max_deletions,
                unit=unit,
                time_limit=clock.left,  # no clock but the user's: the same must come out again
                random_state=rng,
            )
            joint = None
            if model.cutoff is None:
                seconds = min(JOINT_SECONDS, clock.left)
                joint = joint_ceiling(model, promises, units, plan.max_deletions, seconds, rng)
            if joint is not None:
                plan.upper = joint if plan.upper is None else np.fmin(plan.upper, joint)
            tell("certificates", 1, 1)
        chance, among_all, on_all = None, plan, refits
        if model is not whole:
            among_all, on_all = plan.among_all(whole), Refits(whole, refits.points, n_jobs, tell)
        if erasures is not None and clock.allows("what is likely"):
            chance = likelihood(on_all, of_all, among_all, int(erasures), draws, rng, target)
        by_group = None
        if of_cohorts is not None and clock.allows("cohorts"):
            by_group = cohort_table(on_all, of_cohorts, target, model.can.predicts)
        told = Explained.of(model, promises, plan, units, k, after, rng, clock, quick)
        overshoots = None
        if not quick and clock.allows("recourse at other overshoots"):
            overshoots = by_overshoot(
                model, promises.given, target, k, plan.max_deletions, unit, rng, tell, clock
            )
    return Audit(
        model=whole,
        plan=among_all,
        curve=curve_table(plan, refitted, frozen, random, proof, target),
        critical=critical_table(model, plan, units, promises),
        recourses=recourse_table(model, promises, after, refits, proof, plan),
        bounds=told.bounds,
        agreement=told.agreement,
        explained=told.critical,
        action=told.action,
        proof=proof,
        likelihood=chance,
        cohorts=by_group,
        overshoots=overshoots,
        headline_at=k,
        random_refits=random_refits,
        target=target,
        unit=unit,
        overshoot=float(np.median(promises.margins)) / model.score_unit,
        refit_noise=noise,
        seeds=seeds,
        quick=quick,
        missing=clock.missing,
        refits={"estimator": refits.fits, "solver": refits.solved},
        counts=counts(model, promises, units, plan),
        settings={
            "search": str(search if isinstance(search, str) else getattr(search, "__name__", "")),
            "max_deletions": plan.max_deletions,
            "unit": unit,
            "target_rule": target_rule,
            "certify": bool(certify),
            "draws": int(draws),
            "seed": random_state if isinstance(random_state, int) else None,
            "time_limit": None if time_limit is None else float(time_limit),
        },
        about=about or About(),
        groups=None if whose is None else group_table(whose[promises.kept], after[k], target),
        blocked=promises.given.blocked() if isinstance(promises.given, Recourse) else None,
    )


def _target(model: ErasableModel, given: Any, target: float | None) -> float:
    if target is not None:
        return finite_score(target)
    return given.target if isinstance(given, Recourse) else target_of(model, None)


def _attack(
    model: ErasableModel,
    promises: Promises,
    max_deletions: int,
    search: Any,
    unit: str,
    rng: Any,
    certify: bool,
    quick: bool,
    clock: Clock,
    tell: Progress,
    max_refits: int | None,
) -> Plan:
    """The strongest attack found in time, and where it is proven the strongest a joint ceiling."""
    tell("search for the worst erasures", 0, 1)
    options: dict[str, Any] = {}
    if max_refits is not None and (model.can.predicts and search != "refit"):
        raise HoldfastError(
            f"⟦max_refits⟧ is for searches by refits, and {model.name} has an algebra: leave it "
            "out, or say ⟦search⟧ refit"
        )
    if max_refits is not None:
        options = {"max_refits": max_refits}
    if search == "best" and quick and model.can.predicts:
        search, options = "greedy", {"approximation": model.can.predictions[0]}
    elif search == "best" and quick and max_refits is None:
        search, options = "refit", {"leaders": 1}
    elif (
        search == "best" and certify and model.exact and model.cutoff is None
    ) and model.rows.names is None:  # the same search, and a joint ceiling
        search, options = "optimal", {"time_limit": min(JOINT_SECONDS, clock.left)}
    plan = look_for(
        model,
        promises,
        promises.target,
        max_deletions,
        search,
        unit=unit,
        random_state=rng,
        seconds=clock.left,
        progress=lambda done, total: tell("search for the worst erasures", done, total),
        **options,
    )
    if plan.notes.get("out of time"):
        clock.missing.append("the rest of the search")
    tell("search for the worst erasures", 1, 1)
    return plan


def _confirmed(refits: Refits, plan: Plan, clock: Clock) -> Array:
    """Scores after each of the attack's sets, by the estimator itself; late, of the last only."""
    stage = "refits of the attack"
    refits.without([plan.sets[-1]], stage)  # the one that must be there
    refits.until = clock.end
    after = refits.without(plan.sets, stage)
    if refits.skipped:
        clock.missing.append(f"{refits.skipped} of {plan.max_deletions} {stage}")
    return after


def _restless(
    refits: Refits, target: float, rng: Any, clock: Clock
) -> tuple[float, DrawnBand | None]:
    """What a refit breaks with nobody erased: the same once more, and with other seeds."""
    if not refits.model.can.draws or not clock.allows("refits with other seeds"):
        return 0.0, None
    seeds = DrawnBand.of(shares_broken(refits.reseeded(rng.spawn(1)[0], SEEDS), target))
    return float(broken(refits.again(), target).mean()), seeds


def _headline_at(refitted: Array, at: int | None, most: int) -> int:
    if at is not None:
        if not isinstance(at, int | np.integer) or not 1 <= at <= most:
            raise HoldfastError(f"at must be a number of erasures from 1 to {most}, got {at!r}")
        return int(at)
    half = np.flatnonzero(refitted >= 0.5)
    return int(half[0]) if half.size and half[0] > 0 else most


def _random(
    model: ErasableModel,
    promises: Promises,
    plan: Plan,
    refits: Refits,
    units: Units,
    k: int,
    draws: int,
    rng: Any,
    tell: Progress,
    clock: Clock,
) -> tuple[pd.DataFrame, int]:
    """Random erasures at every budget, and at budget ``k`` by refitting as many as is cheap."""
    if not clock.allows("random erasures"):
        nothing = np.full(plan.max_deletions + 1, np.nan)
        return pd.DataFrame(dict.fromkeys(("random", "random_low", "random_high"), nothing)), 0
    tell("random erasures", 0, 1)
    few = draws if model.can.predicts else min(draws, 5)
    chance = look_for(
        model,
        promises,
        promises.target,
        plan.max_deletions,
        "random",
        unit=plan.unit,
        random_state=rng,
        draws=few,
        seconds=clock.left,
    )
    shares = np.asarray(chance.notes["shares"])
    few = refit_count = len(shares)
    if model.can.refit == "cubic" and model.rows.n > 3000:
        refit_count = min(few, 3)
    if model.can.predicts:
        sets = [draw[k] for draw in (chance.draws or [])[:refit_count]]
        honest = refits.shares(sets, promises.target, "random erasures", by="solver")
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

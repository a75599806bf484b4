"""Proof: recourses that no k deletions can break."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from holdfast.algebra.boxes import Boxes
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions, take
from holdfast.algebra.threads import one_blas_thread
from holdfast.algebra.units import Units
from holdfast.arguments import budget_of, finite_number, finite_score
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.refits import Kept, Refits, broken, own_scores_without, small_matrices
from holdfast.models.shortlist import Shortlist
from holdfast.models.solving import whole_effect
from holdfast.proofs.candidates import Asked, Missed, Remainder, Verdicts
from holdfast.proofs.grown import by_tree_of_optima, by_tree_of_steps
from holdfast.proofs.logistic import missed_by_newton, stronger_attacks
from holdfast.proofs.parts import by_parts
from holdfast.proofs.rescaled import Rescaled
from holdfast.proofs.result import Proof, made
from holdfast.proofs.rows import verdicts
from holdfast.proofs.subjects import verdicts_by_subject
from holdfast.proofs.whole import covered, for_the_whole
from holdfast.recourse.promises import Promises, judged
from holdfast.searches import search
from holdfast.searches.shortlisting import shortlisted


def certify(
    model: ErasableModel,
    given: Any,
    target: float,
    max_deletions: int = 14,
    unit: str = "row",
    *,
    time_limit: float | None = None,
    random_state: Any = 0,
    preprocessing: str = "refitted",
) -> Proof:
    """For every recourse, how many deletions it provably survives, and how few break it.

    Parameters
    ----------
    model : ErasableModel
        Linear and ridge regression, kernel ridge, NTK and LS-SVM are certified by the exact
        algebra; logistic, Poisson, gamma and Tweedie regression by Newton steps with rigorous
        remainders, at as many optima as it takes; means of shards or trees because few of them know
        a row. Other models get the attack only, and status "no bound".
    given : recourses, or points of shape (q, d)
    target : float
        It stays what it is: nothing is proven of one that moves with the rows.
    max_deletions : int
        The largest number of deletions asked about.
    unit : {"row", "subject"}
        What one deletion removes. By subject kernel models have the weaker block form.
    time_limit : float, optional
        Seconds for the trees and attacks; what is not decided by then is a gap. The bounds
        themselves are not interrupted. By default there is no clock but a number of nodes, so that
        the same comes out on every machine.
    random_state : int, Generator or None
        For the attack on models without a certificate.
    preprocessing : {"refitted", "kept"}
        Whether a pipeline's transformers are refitted too, as an erasure does. There is a proof of
        that for scalers, undropped one-hot columns and what does not depend on the rows, before
        linear, ridge and logistic regression; for others certificates are about the preprocessing
        kept, and ``proof.preprocessing`` says so.

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
    if preprocessing not in ("refitted", "kept") or not isinstance(preprocessing, str):
        raise HoldfastError(f"preprocessing must be 'refitted' or 'kept', got {preprocessing!r}")
    if time_limit is None:
        time_limit = np.inf
    elif time_limit != np.inf and finite_number("time_limit", time_limit) < 0:
        raise HoldfastError(f"time_limit must not be negative, got {time_limit!r}")
    model = model.with_target_rule("fixed", target)
    promises = judged(model, given, target, "certify")
    model = shortlisted(model, promises, unit)
    of_all = model.whole if isinstance(model, Shortlist) else model
    units = Units(model.rows, unit)
    budget = budget_of(max_deletions, len(units), unit)
    deadline = time.monotonic() + float(time_limit)
    errors = model.can.rounding * (np.abs(promises.kept_scores) + abs(target) + model.score_unit)
    with one_blas_thread(small_matrices(model)):
        whole = preprocessing == "refitted" and covered(model, promises.kept_points)
        found, method, why = _verdicts(
            model, promises, errors, units, budget, deadline, random_state, whole
        )
        holds: Kept = "refitted" if whole or model.can.certificate is None else "kept"
        confirmed = _confirm(model, promises, found, units, holds)
    frame = _frame(found, promises, confirmed, units, budget)
    upper = np.array([float(np.mean(found.certified < k)) for k in range(budget + 1)])
    if found.together is not None:
        upper = np.minimum(upper, found.together / found.certified.size)
    return made(
        frame,
        upper,
        max_deletions=budget,
        limit=found.limit,
        limit_reason=why if found.limit < budget else "",
        unit=unit,
        method=method,
        target=target,
        model=of_all,
        points=promises.points,
        preprocessing=holds if model.preprocessing is not None or model.can.chooses else "refitted",
    )


def _verdicts(
    model: ErasableModel,
    promises: Promises,
    errors: Array,
    units: Units,
    budget: int,
    deadline: float,
    random_state: Any,
    whole: bool,
) -> tuple[Verdicts, str, str]:
    """Verdicts, how they were reached, and why there is nothing beyond their limit."""
    if model.can.certificate == "parts":
        asked = Asked(model, promises.kept_points, promises.margins, errors, units, budget)
        how = "rows" if units.single else "subjects"
        return by_parts(asked, promises, deadline), f"{how}, the few parts that know them", ""
    smooth, scanned = model.can.certificate == "newton", model.rows.names is not None
    if model.can.certificate is None or (scanned and not units.single):
        reason = model.can.uncertified or "networks and refit-only models have no bound"
        if model.can.certificate is not None:
            reason = "a table read by blocks is certified by single rows"
        return _attack_only(model, promises, units, budget, random_state), "attack only", reason
    whole &= model.preprocessing is not None
    asked = Asked(model, promises.kept_points, promises.margins, errors, units, budget)
    judge = partial(_by_newton if smooth else _by_algebra, whole, deadline)
    how = "rows" if units.single else "subjects"
    why = "deletions this large may be singular, or their bound does not converge"
    if smooth:
        how, why = f"{how}, Newton steps and remainders", "what lies beyond is not bounded closely"
    elif model.can.form == "kernel" and not units.single:
        how = f"{how} (block form, weaker than rows)"
    if not whole:
        return judge(asked), how, why
    return (
        for_the_whole(asked, judge, apart=not smooth or scanned),
        (f"{how}, preprocessing refitted"),
        why,
    )


def _by_algebra(whole: bool, deadline: float, asked: Asked) -> Verdicts:
    """Least squares: the formula is exact, but for what refitting scalers adds."""
    end = -np.inf if asked.quick else deadline
    margins, errors, budget = asked.margins, asked.errors, asked.budget
    deletions = asked.model.deletions(asked.points, preprocessing="kept")
    deletions.prepare()
    more = Rescaled(asked) if whole else None
    hidden, charged = np.zeros((margins.size, budget + 1)), None
    if asked.units.single:
        missed = Missed.nothing(margins.size, deletions.rows.n, budget)
        missed = missed if more is None else more.by_row()
        found = verdicts(deletions, margins, errors, budget, end, lambda _: missed)
        hidden, charged = missed.for_units(asked.units, budget)
    else:
        hidden = hidden if more is None else more.off_margins()
        found = verdicts_by_subject(deletions, asked.units, margins, errors, hidden, budget, end)
    grows = asked.model.can.form == "linear" and deletions.outside is None
    if grows and not asked.quick:
        by_tree_of_steps(asked, deletions, found, hidden, charged, deadline)
    return found


def _by_newton(whole: bool, deadline: float, asked: Asked) -> Verdicts:
    """A smooth loss: one Newton step and what it may miss, then a tree of optima."""
    model, margins, budget = asked.model, asked.margins, asked.budget
    triple = cast(LowRankDeletions, model.deletions(asked.points, preprocessing="kept"))
    if triple.outside is not None:
        return _by_one_step(whole, deadline, asked, triple)
    found = Verdicts.nothing(margins.size)
    if triple.also is None and asked.units.single and model.form("smooth").loss.name == "logistic":
        remainder = _remainder(whole, asked, triple)
        found = verdicts(triple, margins, asked.errors, budget, -np.inf, remainder)
    by_tree_of_optima(asked, found, whole, deadline)
    return found


def _remainder(whole: bool, asked: Asked, triple: LowRankDeletions) -> Remainder:
    """What one Newton step may miss, and what refitting scalers adds."""

    def remainder(found: Boxes) -> Missed:
        missed, paths = missed_by_newton(asked.model.form("smooth"), triple, found)
        return Rescaled(asked).by_row(missed, paths) if whole else missed

    return remainder


def _by_one_step(whole: bool, deadline: float, asked: Asked, triple: LowRankDeletions) -> Verdicts:
    """The same of a table read by blocks: rows that are not here allow no tree."""
    model, points, margins = asked.model, asked.points, asked.margins
    core, Z = model.form("smooth"), model.features(points)
    scores, refitted = model.scores(points), whole_effect(model, points) if whole else None

    def drops(rows: Positions, some: Positions) -> Array:
        if refitted is not None:
            return refitted(rows)[some]
        return np.asarray(scores[some] - core.scores_without(Z[some], [rows])[0])

    end = -np.inf if asked.quick else deadline
    remainder = _remainder(whole, asked, triple)
    found = verdicts(triple, margins, asked.errors, asked.budget, end, remainder)
    if not asked.quick:
        stay = asked.units.rows(asked.stay)
        stronger_attacks(triple, margins, found, stay, drops, asked.budget, deadline)
    return found


def _attack_only(
    model: ErasableModel, promises: Promises, units: Units, budget: int, random_state: Any
) -> Verdicts:
    """The smallest sets of the strongest plan found that break each recourse."""
    q, target = promises.kept.size, promises.target
    plan = search(model, promises, target, budget, unit=units.unit, random_state=random_state)
    attacked = np.zeros(q, dtype=np.intp)
    witness: list[tuple[int, ...]] = [()] * q
    number = {name: u for u, name in enumerate(units.names)}
    after = Refits(model, promises.kept_points).without(plan.sets)
    for k in range(1, budget + 1):
        if len(plan.sets[k]) == 0:
            continue
        hit = broken(after[k], target) & (attacked == 0)
        for j in np.flatnonzero(hit).tolist():
            attacked[j] = len(plan.units[k])
            witness[j] = tuple(number[name] for name in plan.units[k])
    zero = np.zeros(q, dtype=np.intp)
    return Verdicts(zero, attacked, witness, np.zeros(q), np.zeros(q, dtype=bool), 0)


def _confirm(
    model: ErasableModel, promises: Promises, found: Verdicts, units: Units, preprocessing: Kept
) -> Any:
    """Solve again without each witness; an attack that does not stand is withdrawn."""
    target = promises.target
    hit = [j for j in range(len(found.witness)) if found.witness[j]]
    sets = [units.rows(found.witness[j]) for j in hit]
    points = take(promises.kept_points, hit)
    after = own_scores_without(model, points, sets, target, preprocessing)
    confirmed = np.zeros(len(found.witness), dtype=bool)
    for j, score in zip(hit, after.tolist(), strict=True):
        if not score >= target:
            confirmed[j] = True
        else:
            found.attacked[j], found.witness[j] = 0, ()
    return confirmed


def _frame(
    found: Verdicts, promises: Promises, confirmed: Any, units: Units, budget: int
) -> pd.DataFrame:
    """One line per recourse, the invalid ones included."""
    q, valid, margins = len(promises), promises.kept, promises.margins
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
    return whole.set_axis(promises.index, axis=0)

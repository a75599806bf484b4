"""Recourse that survives deletions, and what it costs: measured choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.units import Units
from holdfast.arguments import budget_of, near_name, refuse_unknown_options
from holdfast.audits.hardening.comparison import Comparison, Mitigation, measure, quality
from holdfast.audits.hardening.mitigations import (
    drop_critical,
    honour,
    margin,
    regularise,
    robust_preprocessing,
    robust_recourse,
    shard,
    uniform,
)
from holdfast.audits.hardening.private import private
from holdfast.audits.hardening.result import Hardening
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.refits import Progress
from holdfast.recourse import check_settings, find_recourse, posed, target_of
from holdfast.recourse.promises import judged
from holdfast.recourse.result import Recourse
from holdfast.searches.shortlisting import shortlisted

#: those that need no look at all rows at once
BY_BLOCKS = ("honour", "uniform", "margin")

#: a mitigation takes a case and returns the ways of doing it, weakest first
MITIGATIONS: dict[str, Callable[..., list[Mitigation]]] = {
    "honour": honour,
    "uniform": uniform,
    "margin": margin,
    "drop-critical": drop_critical,
    "regularise": regularise,
    "private": private,
    "robust-recourse": robust_recourse,
    "robust-preprocessing": robust_preprocessing,
    "shard": shard,
}


def harden(
    model: ErasableModel,
    people: Any,
    target: float | None = None,
    survive: int = 3,
    holdout: tuple[Any, Any] | None = None,
    *,
    mitigations: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    target_probability: float | None = None,
    actionability: Any = None,
    overshoot: float = 0.01,
    method: Any = None,
    cost: str = "l1",
    unit: str = "row",
    max_deletions: int | None = None,
    given: Recourse | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Hardening:
    """What it would take for recourses to survive ``survive`` deletions.

    Parameters
    ----------
    model : ErasableModel
    people : frame or array
        Those at the target or above are left out.
    target, target_probability, actionability, overshoot, method, cost
        As for :func:`find_recourse`; the method is by default ``"actionable"`` (the provably
        cheapest) where scores are linear, else ``"scfe"`` or ``"growing-spheres"``.
    survive : int
        How many deletions recourses are to survive.
    holdout : (X, y), optional
        Rows on which the models' quality is measured.
    mitigations : sequence of str, or mapping of names to options, optional
        Some of ``"honour"``, ``"uniform"``, ``"margin"``, ``"drop-critical"``, ``"regularise"``,
        ``"private"``, ``"robust-recourse"``, ``"robust-preprocessing"``, ``"shard"``; all by
        default, but ``"shard"`` only for models without a certificate of their own. What a model
        does not support is noted and left out. Options: ``{"drop-critical": {"m": 30, "rounds":
        3}, "private": {"epsilons": [1.0], "draws": 5}, "shard": {"shards": 50}}``.
    unit : {"row", "subject"}
        What one deletion removes.
    max_deletions : int, optional
        The attacks go up to this many; 14 by default, or as many as there are.
    given : Recourse, optional
        What people were promised already: the baseline, in place of recourse found now.
    random_state, n_jobs, progress
        As for :func:`audit`.

    Returns
    -------
    Hardening
        ``.table``, ``.mitigations[name]``, ``.recommendation``, ``.plot()``.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> found = hf.harden(model, X[:40], target=150, survive=2, mitigations=["margin"])
    >>> print(found.recommendation)
    Asking people for 11 % more (median) makes 100 % of 22 recourses survive any 2 deletions, \
proven.
    """
    refuse_other_models(model)
    check_settings(model, overshoot, cost)
    target = target_of(model, target, target_probability)
    count = len(Units(model.rows, unit))
    survive = budget_of(survive, count, unit, "survive")
    most = min(14, count - 1) if max_deletions is None else max_deletions
    most = max(budget_of(most, count, unit), survive)
    if isinstance(mitigations, str):
        mitigations = [mitigations]
    named = MITIGATIONS if mitigations is None else mitigations
    if mitigations is None and model.can.certificate is not None:
        named = [name for name in MITIGATIONS if name != "shard"]  # it is for those without a proof
    wanted = list(dict.fromkeys(named))
    if not wanted:
        raise HoldfastError(f"name some mitigations: {', '.join(MITIGATIONS)}")
    _check_holdout(model, holdout)
    options = dict(mitigations) if isinstance(mitigations, Mapping) else {}
    for name in wanted:
        refuse_unknown_mitigation(name)
        refuse_unknown_options(MITIGATIONS[name], dict(options.get(name, {})), name)
    if method is None:
        method = _cheapest_method(model, people, target, actionability, cost)
    tell: Progress = progress or (lambda stage, done, total: None)
    if given is None:
        given = find_recourse(
            model, people, method, target, actionability, overshoot, random_state, cost=cost
        )
    if given.people.index.has_duplicates:
        given = given.renamed(pd.RangeIndex(len(given)))
    if not given.valid.any():
        why = f"; the first: {given.reason.iloc[0]}" if len(given) else ""
        raise HoldfastError(f"nobody has a recourse to harden{why}")
    if model.in_passes is not None:
        model = shortlisted(model, judged(model, given, target, "harden"), unit, tell)
    case = Comparison(
        model=model,
        people=given.people,
        given=given,
        target=target,
        survive=survive,
        max_deletions=most,
        method=method,
        actionability=given.actionability,
        overshoot=overshoot,
        cost=cost,
        unit=unit,
        holdout=holdout,
        random_state=random_state,
        n_jobs=n_jobs,
        tell=tell,
    )
    made: list[Mitigation] = []
    skipped: dict[str, str] = {}
    for done, name in enumerate(wanted):
        tell("mitigations", done, len(wanted))
        if model.in_passes is not None and name not in BY_BLOCKS:
            skipped[name] = "it is for tables that fit into memory"
            continue
        try:
            found = MITIGATIONS[name](case, **options.get(name, {}))
        except UnsupportedModelError as refusal:
            skipped[name] = str(refusal)
            continue
        for each in found:
            measure(each, case)
        made += found
    tell("mitigations", len(wanted), len(wanted))
    _note_destroyed(made, case)
    return Hardening(case=case, made=made, skipped=skipped)


def refuse_unknown_mitigation(name: str) -> None:
    """Refuse a mitigation there is not, naming the nearest that is."""
    if name not in MITIGATIONS:
        raise HoldfastError(
            f"no mitigation {name!r}{near_name(name, MITIGATIONS)}; there are "
            f"{', '.join(MITIGATIONS)}"
        )


def _check_holdout(model: ErasableModel, holdout: Any) -> None:
    """Rows and labels the quality of models can be measured on, or an error that says why not."""
    if holdout is None:
        return
    if not isinstance(holdout, tuple | list) or len(holdout) != 2:
        raise HoldfastError("holdout must be a pair: features, and their labels")
    X, y = holdout
    if len(X) != len(y) or len(X) == 0 or bool(np.any(pd.isna(np.asarray(y)))):
        raise HoldfastError(
            f"holdout must have a label for every row, got {len(X)} rows and {len(y)} labels"
        )
    known = model.classes
    if known is not None:
        strange = [label for label in np.asarray(y).tolist() if label not in known]
        if strange:
            raise HoldfastError(
                f"holdout has the label {strange[0]!r}; the model knows {known[0]!r} and "
                f"{known[1]!r}"
            )
    model.scores(X)


def _cheapest_method(
    model: ErasableModel, people: Any, target: float, actionability: Any, cost: str
) -> str:
    """The method without which extra costs would be measured against needlessly dear recourse."""
    if not model.can.gradients:
        return "growing-spheres"
    problem, _, _ = posed(model, people, target, actionability, 0.0, cost)
    return "actionable" if problem.affine is not None and cost == "l1" else "scfe"


def _note_destroyed(made: list[Mitigation], case: Comparison) -> None:
    """Say where a mitigation leaves little of the model."""
    as_it_is = quality(Mitigation("", "", case.model, case.people), case)
    for each in made:
        now = each.measured["quality"]
        if now < as_it_is - 0.1:
            each.note = f"quality falls from {as_it_is:.2f} to {now:.2f}. {each.note}"
            each.measured["note"] = each.note

"""Finding the deletions that hurt most."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.algebra.threads import one_blas_thread
from holdfast.algebra.units import Units
from holdfast.arguments import budget_of, finite_score, generator_of, refuse_unknown_options
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits, shares_broken, small_matrices
from holdfast.models.shortlist import Shortlist
from holdfast.recourse.promises import Promises, judged
from holdfast.searches.attack import OBJECTIVES, Attack, attack_on, late
from holdfast.searches.best import best
from holdfast.searches.found import Found, Method
from holdfast.searches.gates import gates
from holdfast.searches.greedy import greedy, greedy_count, greedy_soft, influence
from holdfast.searches.optimal import optimal
from holdfast.searches.plan import Plan
from holdfast.searches.random import random
from holdfast.searches.shortlisting import ROUNDS, doubtful, overlooked, shortlisted
from holdfast.searches.surrogate import refit

#: searches by name; :func:`holdfast.register` adds others
METHODS: dict[str, Method] = {
    "greedy-count": Method(greedy_count),
    "greedy": Method(greedy),
    "greedy-soft": Method(greedy_soft),
    "influence": Method(influence),
    "gates": Method(gates, needs_triple=True),
    "best": Method(best, otherwise="refit"),
    "optimal": Method(optimal),
    "random": Method(random, attack="algebra", needs_algebra=False),
    "refit": Method(refit, attack="refits", needs_algebra=False),
}


#: searches that look at a list of rows where there are very many: they choose who does most
LISTED = ("best", "greedy", "greedy-count", "greedy-soft", "influence")


def search(
    model: ErasableModel,
    given: Any,
    target: float,
    max_deletions: int = 14,
    method: str | Callable[..., Any] = "best",
    objective: str = "outcome",
    unit: str = "row",
    random_state: Any = 0,
    people: Any = None,
    threads: int | None = None,
    approximation: str | None = None,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Plan:
    """Look for the deletions that hurt the given recourses most.

    Parameters
    ----------
    model : ErasableModel
        What :func:`holdfast.erasable` returns.
    given : recourses, or points of shape (q, d)
        Whose scores are to be brought below the target.
    target : float
        The score a recourse must reach; below it is broken.
    max_deletions : int
        The largest budget ``M``; the plan has a set for every ``k = 0 … M``.
    method : str or callable
        ``"best"`` (a polished portfolio), ``"greedy-count"`` (the paper's Algorithm 1),
        ``"greedy"``, ``"greedy-soft"``, ``"influence"``, ``"gates"`` (the paper's Algorithm 2),
        ``"optimal"``, ``"random"``, ``"refit"`` (every choice by refitting the leaders: for
        estimators without the algebra, where ``"best"`` means it too). A callable takes
        ``(attack, budget, rng, **options)`` and returns the units to delete at every budget.
    objective : {"outcome", "delta", "action"}
        Recourses broken; the sum of absolute score changes ΣΔ; the sum of distances ΣΦ₂ to the
        closed-form recourse after the deletion (linear and kernel models; needs ``people``).
    unit : {"row", "subject"}
        What one deletion removes: a row, or everything a subject owns.
    random_state : int, Generator or None
    people : factuals of shape (q, d)
        For ``objective="action"``; taken from ``given`` where it has them.
    threads : int, optional
        Threads of a sweep; all cores by default.
    approximation : {"newton", "jackknife"}, optional
        For logistic regression and networks: search by this algebra alone (the paper's way, with
        the jackknife). By default such searches refit after every choice, which is slower and
        stronger; either way :meth:`Plan.rerun` refits.
    seconds : float, optional
        After so long a search ends with what it has: its largest set stands for all budgets it did
        not come to, and ``plan.notes["out of time"]`` is true.
    progress : callable, optional
        Called with ``(done, total)`` as the search goes on.
    **options
        Of the method. ``"refit"`` takes ``max_refits`` (what it may spend, spread over its steps),
        or ``leaders`` (refits at each step), and ``surrogate``: what ranks the candidates
        (``"leaves"`` they share with the recourses, for boosting models; else ``"kernel"``,
        ``"linear"``, or ``"random"`` to compare with).

    Returns
    -------
    Plan

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> scores = model.scores(X)
    >>> close = X[(scores > 150) & (scores < 155)]
    >>> plan = hf.search(model, close, target=150, max_deletions=3)
    >>> bool((plan.predicted == plan.rerun()).all())
    True
    """
    rng = generator_of(random_state)
    if objective not in OBJECTIVES:
        raise HoldfastError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise HoldfastError(f"threads must be a whole number from 1, got {threads!r}")
    promises = judged(model, given, finite_score(target), "attack", people)
    whole = model
    if model.in_passes is not None or (objective == "outcome" and method in LISTED):
        model = shortlisted(model, promises, unit)
    units = Units(model.rows, unit)
    budget = budget_of(max_deletions, len(units), unit)
    found_by, name = _method(method, model)
    if approximation is not None and found_by.attack != "model":
        raise HoldfastError(f"method={name!r} has no use for approximation=")
    own = {key: options.pop(key) for key in list(options) if key in found_by.of_attack}
    refuse_unknown_options(found_by.run, options, name)
    with one_blas_thread(small_matrices(model)):
        if found_by.attack == "algebra" and model.can.predicts:
            closed = model.exact and (model.preprocessing is None or model.scales is not None)
            approximation = None if closed else model.can.predictions[0]
        deadline = math.inf if seconds is None else time.monotonic() + seconds

        def run(on: ErasableModel, units: Units) -> Plan:
            attack = attack_on(
                on,
                promises,
                units,
                objective,
                threads,
                approximation,
                by_refits=found_by.attack == "refits",
                rng=rng,
                **own,
            )
            attack.tell, attack.deadline = progress or attack.tell, deadline
            found = found_by.run(attack, budget, rng, **options)
            return _plan(on, promises, units, budget, attack, found, name, {**own, **options}, rng)

        plan = run(model, units)
        if isinstance(model, Shortlist) and found_by.attack == "model":
            plan = _nobody_overlooked(plan, model, promises, run, deadline)
    return plan if plan.model is whole else plan.among_all(whole)


def _nobody_overlooked(
    plan: Plan, few: Shortlist, promises: Promises, run: Any, deadline: float
) -> Plan:
    """A plan found on a list of rows, and with more rows where one outside might do more."""
    proven = few.exact and plan.objective == "outcome" and plan.unit == "row"
    doubts: list[int] = []
    by_count = plan.method == "greedy-count"  # of several it takes the first
    passes = 2  # looking for the rows that do most, and gathering them
    for _ in range(ROUNDS if proven else 0):
        doubts = doubtful(few, promises, plan.sets, by_count)
        if not doubts or time.monotonic() > deadline:
            break
        more = overlooked(few, promises, plan.sets, doubts, by_count)
        passes += 1
        if not more.size:  # after each of those sets, the row that does most is on the list
            doubts = []
            break
        assert few.rows.names is not None
        few = few.listed(np.union1d(few.rows.names, more), few.looked)
        passes += 1
        plan = run(few, Units(few.rows, plan.unit))
    plan.notes["looked at"] = {
        "rows": few.many,
        "one by one": few.rows.own,
        "passes": passes,
        "steps at which a row not looked at might do more": doubts if proven else None,
    }
    return plan


def _plan(
    model: ErasableModel,
    promises: Promises,
    units: Units,
    budget: int,
    attack: Attack,
    found: Any,
    name: str,
    options: dict[str, Any],
    rng: Any,
) -> Plan:
    """What a search returned, checked and valued."""
    result = found if isinstance(found, Found) else Found.of(found)
    sets = _checked_sets(result.sets, budget, len(units), name)
    q, outcome = promises.kept.size, attack.objective == "outcome"
    notes: dict[str, Any] = {"options": options, **result.notes}
    acting = getattr(attack, "acting", None)
    if acting is not None:
        notes["acting"] = {units.names[u]: words for u, words in acting.channels.items()}
    if (looked := getattr(attack, "looked_at", None)) is not None:
        notes["looked at"] = {"candidates": len(units), "one by one": looked}
    if time.monotonic() > attack.deadline:
        notes["out of time"] = True
    predicted = np.array([attack.broken(s) / q for s in sets])
    values = np.array([attack.value(s)[0] for s in sets])
    spread = draws = None
    if result.draws is not None:
        draws = [[units.rows(order[:k]) for k in range(budget + 1)] for order in result.draws]
        drawn: list[list[float]] = []
        for order in result.draws:
            if drawn and late(attack):
                break
            drawn.append([attack.broken(order[:k]) / q for k in range(budget + 1)])
        shares, draws = np.array(drawn), draws[: len(drawn)]
        values = shares.mean(axis=0) * q
        if not outcome:
            values = np.mean(
                [[attack.value(o[:k])[0] for k in range(budget + 1)] for o in result.draws], axis=0
            )
        predicted, notes["shares"] = shares.mean(axis=0), shares
        spread = shares.std(axis=0, ddof=1) if len(shares) > 1 else np.zeros(budget + 1)
    if model.can.draws and name == "refit":
        notes["broken by a new seed and row order alone"] = restlessness(model, promises, rng)
    upper = None
    if result.upper is not None:
        upper = np.asarray(result.upper) / (q if outcome else 1)
    return Plan(
        model=model,
        points=promises.kept_points,
        target=promises.target,
        objective=attack.objective,
        unit=units.unit,
        initially_invalid=promises.below,
        method=name,
        sets=[units.rows(s) for s in sets],
        units=[[units.names[u] for u in s] for s in sets],
        predicted=predicted,
        values=values,
        upper=upper,
        skipped=[units.names[u] for u in attack.cannot_go()],
        spread=spread,
        draws=draws,
        notes=notes,
    )


def restlessness(model: ErasableModel, promises: Promises, rng: Any, draws: int = 3) -> Array:
    """Share broken when nothing is deleted but the seed and the order of the rows change."""
    refits = Refits(model, promises.kept_points)
    return shares_broken(refits.reseeded(rng, draws), promises.target)


def _method(method: Any, model: ErasableModel) -> tuple[Method, str]:
    """The search meant, and its name."""
    if callable(method):
        found, name = Method(method), getattr(method, "__name__", "callable")
    elif isinstance(method, str) and method in METHODS:
        found, name = METHODS[method], method
    else:
        raise HoldfastError(
            f"method must be one of {', '.join(map(repr, METHODS))} or a callable, got {method!r}"
        )
    if found.needs_triple and model.can.form == "parts":
        raise UnsupportedModelError(
            f"method={name!r} needs one formula for all rows, and {model.name} averages parts that "
            "are fitted again. What works: 'best', 'greedy', 'greedy-soft', 'influence', 'random'"
        )
    if model.can.predicts or not found.needs_algebra:
        return found, name
    if found.otherwise is not None:
        return METHODS[found.otherwise], found.otherwise
    raise UnsupportedModelError(
        f"method={name!r} needs the algebra of deletions, which {model.name} has not: "
        f"{model.can.why_not}. What works: 'refit' (which 'best' means here) and 'random'"
    )


def _checked_sets(sets: Any, budget: int, n: int, name: str) -> list[list[int]]:
    """What a search returned: sets of units for budgets 0, 1, …, the last one repeated."""
    try:
        found = [[int(u) for u in units] for units in sets]
    except TypeError:
        found = []
    fine = 0 < len(found) <= budget + 1 and all(
        len(units) <= k and len(set(units)) == len(units) and all(0 <= u < n for u in units)
        for k, units in enumerate(found)
    )
    if not fine:
        raise HoldfastError(
            f"method {name!r} must return the units to delete at budgets 0 … {budget}: at each, at "
            f"most that many different numbers below {n}"
        )
    return found + [found[-1]] * (budget + 1 - len(found))

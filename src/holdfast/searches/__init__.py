"""Finding the deletions that hurt most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.algebra.rows import take
from holdfast.algebra.units import Units
from holdfast.arguments import (
    budget_of,
    finite_score,
    generator_of,
    positive_number,
    refuse_unknown_options,
)
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.instability import points_of
from holdfast.models.erasable import ErasableModel
from holdfast.models.refit import RefitCore
from holdfast.searches.attack import OBJECTIVES, Attack, RefittingAttack
from holdfast.searches.best import best
from holdfast.searches.gates import gates
from holdfast.searches.greedy import greedy, greedy_count, greedy_soft, influence
from holdfast.searches.optimal import optimal
from holdfast.searches.plan import Plan
from holdfast.searches.refitting import refit_search, restlessness

#: a search takes an attack, a budget and a random generator and returns the units of every
#: budget 0 … M (or fewer), or a pair of those and an upper bound on the value at every budget
METHODS: dict[str, Callable[..., Any]] = {
    "greedy-count": greedy_count,
    "greedy": greedy,
    "greedy-soft": greedy_soft,
    "influence": influence,
    "gates": gates,
    "best": best,
    "optimal": optimal,
}


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
        ``"optimal"``, ``"random"``; ``"refit"`` for estimators without the algebra. A callable
        takes ``(attack, budget, rng, **options)`` and returns the units to delete at every budget.
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
    **options
        Of the method.

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
    points, people = _given(model, given, people)
    rng = generator_of(random_state)
    units = Units(model.rows, unit)
    budget = budget_of(max_deletions, len(units), unit)
    if objective not in OBJECTIVES:
        raise HoldfastError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise HoldfastError(f"threads must be a whole number from 1, got {threads!r}")
    target = finite_score(target)
    scores = model.scores(points)
    if not np.all(np.isfinite(scores)):
        raise HoldfastError("a recourse has no finite score")
    valid = scores >= target
    if not valid.any():
        raise HoldfastError(
            f"no recourse to attack: all {valid.size} score below the target {target:g} already"
        )
    points = take(points, np.flatnonzero(valid))
    people = None if people is None else take(people, np.flatnonzero(valid))
    frame = {
        "model": model,
        "points": points,
        "target": target,
        "objective": objective,
        "unit": unit,
        "initially_invalid": int(np.sum(~valid)),
    }
    search_for, name = _method(method, model)
    if approximation is not None and search_for in (refit_search, _random):
        raise HoldfastError(f"method={name!r} has no use for approximation=")
    refuse_unknown_options(search_for, options, name)
    if search_for is refit_search:
        return _refitted(frame, units, budget, rng, **options)
    if search_for is _random:
        return _random(frame, units, budget, rng, people, **options)
    if model.exact or approximation is not None:
        attack: Any = Attack(
            model,
            points,
            scores[valid] - target,
            units,
            objective,
            people,
            target,
            threads,
            approximation,
        )
    else:
        if objective == "action":
            raise UnsupportedModelError(
                "objective='action' has closed forms for linear and kernel models only"
            )
        attack = RefittingAttack(model, points, target, units, objective, threads)
    found = search_for(attack, budget, rng, **options)
    sets, upper = found if isinstance(found, tuple) else (found, None)
    sets = _checked_sets(sets, budget, len(units), name)
    q = int(valid.sum())
    return Plan(
        **frame,
        method=name,
        sets=[units.rows(s) for s in sets],
        units=[[units.names[u] for u in s] for s in sets],
        predicted=np.array([attack.broken(s) / q for s in sets]),
        values=np.array([attack.value(s)[0] for s in sets]),
        upper=None if upper is None else np.asarray(upper) / (q if objective == "outcome" else 1),
        skipped=[units.names[u] for u in np.flatnonzero(~attack.singles().possible)],
        notes={"options": options},
    )


def _given(model: ErasableModel, given: Any, people: Any) -> tuple[Any, Any]:
    """The points and factuals of recourses, or of plain points."""
    if points_of(given) is not given:
        fine = np.flatnonzero(getattr(given, "valid", np.ones(len(given.points), dtype=bool)))
        people = getattr(given, "people", None) if people is None else people
        given = take(points_of(given), fine)
        people = None if people is None else take(people, fine)
    points = model._queries(given, "the recourses")
    if len(points) == 0:
        raise HoldfastError("no recourse to attack: the table of recourses is empty")
    if people is not None:
        people = model._queries(people, "people")
        if len(people) != len(points):
            raise HoldfastError(f"there are {len(points)} recourses but {len(people)} people")
    return points, people


def _method(method: Any, model: ErasableModel) -> tuple[Callable[..., Any], str]:
    """The search meant, and its name."""
    known = {**METHODS, "random": _random, "refit": refit_search}
    if not callable(method) and (not isinstance(method, str) or method not in known):
        raise HoldfastError(
            f"method must be one of {', '.join(map(repr, known))} or a callable, got {method!r}"
        )
    if method == "random":
        return _random, "random"
    if isinstance(model.core, RefitCore):
        if method in ("best", "refit"):
            return refit_search, "refit"
        raise UnsupportedModelError(
            f"method={method!r} needs the algebra of deletions, which "
            f"{type(model._final).__name__} has not. What works: 'refit' and 'random'"
        )
    if method == "refit":
        raise HoldfastError("method='refit' is for estimators without the algebra; use 'best'")
    if callable(method):
        return method, getattr(method, "__name__", "callable")
    return METHODS[method], method


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


def _random(
    frame: dict[str, Any], units: Units, budget: int, rng: Any, people: Any, draws: int = 20
) -> Plan:
    """Several random orders; the mean share they break, and its spread."""
    positive_number("draws", draws)
    model, points, target = frame["model"], frame["points"], frame["target"]
    scores = model.scores(points)
    attack = None
    if not isinstance(model.core, RefitCore):
        objective = frame["objective"]
        attack = Attack(model, points, scores - target, units, objective, people, target)
    orders = [_random_order(attack, units, budget, rng) for _ in range(int(draws))]
    shares, values = [], []
    for order in orders:
        sets = [order[:k] for k in range(budget + 1)]
        if attack is None:
            after = [model.without(units.rows(s)).scores(points) for s in sets[1:]]
            broken = [0.0, *(float(np.sum(scored < target)) for scored in after)]
            values.append(broken)
        else:
            broken = [float(attack.broken(s)) for s in sets]
            values.append([attack.value(s)[0] for s in sets])
        shares.append(np.array(broken) / len(scores))
    table = np.array(shares)
    impossible: Any = [] if attack is None else np.flatnonzero(~attack.singles().possible)
    return Plan(
        **frame,
        method="random",
        sets=[units.rows(orders[0][:k]) for k in range(budget + 1)],
        units=[[units.names[u] for u in orders[0][:k]] for k in range(budget + 1)],
        predicted=table.mean(axis=0),
        values=np.mean(values, axis=0),
        spread=table.std(axis=0, ddof=1) if draws > 1 else np.zeros(budget + 1),
        draws=[[units.rows(order[:k]) for k in range(budget + 1)] for order in orders],
        skipped=[units.names[u] for u in impossible],
        notes={"draws": draws, "shares": table},
    )


def _random_order(attack: Any, units: Units, budget: int, rng: Any) -> list[int]:
    """Random units that can go together."""
    order: list[int] = []
    for candidate in rng.permutation(len(units)):
        if len(order) == budget:
            break
        both = [*order, int(candidate)]
        if attack.feasible(both) if attack else units.keeps_classes(units.rows(order))[candidate]:
            order = both
    return order


def _refitted(frame: dict[str, Any], units: Units, budget: int, rng: Any, **options: Any) -> Plan:
    if frame["objective"] != "outcome":
        raise UnsupportedModelError("estimators without the algebra have objective='outcome' only")
    model, points, target = frame["model"], frame["points"], frame["target"]
    sets, shares = refit_search(model, points, target, units, budget, **options)
    sets += [sets[-1]] * (budget + 1 - len(sets))
    shares += [shares[-1]] * (budget + 1 - len(shares))
    return Plan(
        **frame,
        method="refit",
        sets=[units.rows(s) for s in sets],
        units=[[units.names[u] for u in s] for s in sets],
        predicted=np.array(shares),
        values=np.array(shares) * len(points),
        notes={
            "options": options,
            "broken by a new seed and row order alone": restlessness(model, points, target, rng),
        },
    )

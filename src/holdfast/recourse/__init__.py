"""Recourse: what people below the target can do to get above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from holdfast.algebra.rows import Array
from holdfast.arguments import (
    check_option_values,
    finite_number,
    finite_score,
    generator_of,
    refuse_unknown_options,
    whole_number,
)
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.training import table as checked_table
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.actionable import actionable, affordable
from holdfast.recourse.cem import cem
from holdfast.recourse.dice import dice, dice_random
from holdfast.recourse.figures import rounded_away
from holdfast.recourse.growing_spheres import growing_spheres
from holdfast.recourse.problem import Problem, make_problem
from holdfast.recourse.published import AS_IS, PUBLISHED
from holdfast.recourse.result import PROVEN, Recourse, series
from holdfast.recourse.scfe import scfe
from holdfast.recourse.space import Space
from holdfast.recourse.ways import other_ways, solved

#: digits of a change that are shown, and parts of the last one, from coarse to fine
ROUNDED = ((1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (2, 5), (3, 1))

#: what rounding may add to the cost of a change
DEARER = 0.05

#: part of the cost of all changes together below which one of them is better left out
TRIFLE = 0.02

#: a method takes a problem, a random generator and its options, and returns coordinates (q, m)
METHODS: dict[str, Callable[..., Any]] = {
    "scfe": scfe,
    "dice": dice,
    "dice-random": dice_random,
    "cem": cem,
    "growing-spheres": growing_spheres,
    "actionable": actionable,
}


def find_recourse(
    model: ErasableModel,
    people: Any,
    method: str | Callable[..., Any] = "scfe",
    target: float | None = None,
    actionability: Any = None,
    overshoot: Any = 0.01,
    random_state: Any = 0,
    *,
    target_probability: float | None = None,
    cost: str = "l1",
    max_changed: int | None = None,
    ways: int = 1,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Recourse:
    """Recourse for everybody who scores below the target.

    Parameters
    ----------
    model : ErasableModel
        What :func:`holdfast.erasable` returns.
    people : frame or array of shape (q, d)
        Factuals, in the columns of the training table. Those at the target or above are left out
        and counted.
    method : str or callable
        ``"scfe"`` (Wachter et al.), ``"dice"``, ``"dice-random"``, ``"cem"``,
        ``"growing-spheres"`` (needs scores only), ``"actionable"`` (provably cheapest; linear
        scores). A callable takes ``(problem, rng, **options)`` and returns the points, as a frame
        like ``people`` or as coordinates of the :class:`~holdfast.recourse.problem.Problem`.
    target : float, optional
        The score a recourse must reach; by default the median training label of a regressor, 0
        (even odds) for a classifier.
    actionability : Actionability, path of a TOML file, mapping, "infer" or None
        What people can change. ``None``: every number may take any value (as in the paper), and
        text stays one of the categories known; ``"infer"``: see :meth:`Actionability.infer`.
    overshoot : float, array of shape (q,), or "as-is"
        How far past the target points must be, in standard deviations of the training scores; one
        number, or one for each of the people. ``"as-is"``: the method stops where its published
        implementation does (``holdfast.recourse.published``), and how far that is past the
        target is what ``given.overshoot_reached`` says; ``given.overshoot`` is its median.
    random_state : int, Generator or None
    target_probability : float, optional
        Instead of ``target``, for models with probabilities.
    cost : {"l1", "l2"}
        How changes add up; each is weighted by the actionability's cost weights.
    max_changed : int, optional
        How many things may change at once.
    ways : {1, 2, 3}
        Several ways for everybody, as far as there are: besides the cheapest the one with the
        fewest changes, and one that changes other things (``given.ways``).
    progress : callable, optional
        Called with ``(done, total)`` people.
    **options
        Of the method.

    Returns
    -------
    Recourse

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    >>> rules = hf.Actionability.infer(X, bp={"direction": "down", "range": [60, 130]})
    >>> given = hf.find_recourse(model, X, target=-150, actionability=rules)
    >>> given
    <Recourse scfe, 228 people, 228 valid, target -150 + 0.01 deviations>
    >>> print(given.in_words()[0])
    raise s1 from 157 to 172; lower s5 from 4.86 to 4.24
    """
    model = getattr(model, "of_all", model)  # whose columns say what a change costs
    as_is = isinstance(overshoot, str) and overshoot == AS_IS
    overshoot = 0.0 if as_is else overshoot
    check_settings(model, overshoot, cost)
    if progress is not None and not callable(progress):
        raise HoldfastError(f"progress must be callable with (done, total), got {progress!r}")
    target = target_of(model, target, target_probability)
    rng = generator_of(random_state)
    find, name = _method(method)
    if as_is:
        find = _published(name, max_changed, ways)
    if as_is or find in METHODS.values():
        refuse_unknown_options(find, options, name)
        check_option_values(find, options)
    for setting, value, most in (("max_changed", max_changed, None), ("ways", ways, 3)):
        whole_number(setting, value, most)
    problem, known, above = posed(model, people, target, actionability, overshoot, cost)
    problem = replace(problem, most=max_changed)
    able = np.flatnonzero(known == "")
    Z = problem.factual.copy()
    if able.size:
        some = replace(
            problem.take(able),
            remarks={},
            progress=_reporter(progress, len(problem), able.size),
        )

        def solve(fewer: Problem) -> Array:
            return _coordinates(find(fewer, rng, **options), fewer, name)

        Z[able] = solved(some, solve, find is actionable or (find is scfe and affordable(some)))
        problem.remarks.update({int(able[i]): said for i, said in some.remarks.items()})
        problem.said.extend(some.said)
    if progress is not None and len(problem):
        progress(len(problem), len(problem))

    def handed_over(way: Problem, Z: Array) -> Recourse:
        return checked(
            *(way, Z, way.table(Z), known.tolist(), target, float(np.min(overshoot)), above, name),
            unfound="no valid point found",
        )

    given = handed_over(problem, Z)
    if ways > 1 and able.size:
        others = other_ways(some, Z[able], given.valid.to_numpy()[able], solve, ways - 1)
        found = {}
        for words, points in others.items():
            every = problem.factual.copy()
            every[able] = points
            found[words] = handed_over(problem, every)
        given = replace(given, ways=found)
    if as_is:
        reached = given.overshoot_reached[given.valid]
        given = replace(given, overshoot=float(reached.median()) if len(reached) else 0.0)
    return given


def posed(
    model: ErasableModel,
    people: Any,
    target: float,
    actionability: Any,
    overshoot: Any,
    cost: str,
) -> tuple[Problem, Any, int]:
    """The problem of those below the target, why some have no recourse, and how many are above."""
    model = getattr(model, "of_all", model)
    space = Space(model.frame, Actionability.of(actionability, model.frame))
    people = space.tidy(people_frame(model, people))
    if np.ndim(overshoot) == 1 and len(overshoot) != len(people):
        raise HoldfastError(f"there are {len(people)} people but {len(overshoot)} overshoots")
    places = people.set_axis(np.arange(len(people)), axis=0)
    below, above, coordinates, wrong = below_target(model, space, places, target)
    rows = below.index.to_numpy()
    below, asked = people.iloc[rows], np.broadcast_to(overshoot, len(people))[rows]
    goal = target + asked.astype(float) * model.score_unit
    usable = np.flatnonzero([not w for w in wrong])
    problem = make_problem(model, space, below, coordinates, goal, model.score_unit, cost, usable)
    known = np.array(wrong, dtype=object)
    known[usable] = problem.take(usable).hopeless()
    return problem, known, above


def checked(
    problem: Problem,
    Z: Array,
    points: pd.DataFrame,
    known: list[str],
    target: float,
    overshoot: float,
    above: int,
    method: str,
    unfound: str,
    without_recourse: int = 0,
) -> Recourse:
    """Points as they will be handed over, each checked with the model and the constraints."""
    index = problem.people.index
    bad = np.array([bool(k) for k in known], dtype=bool)
    scores = np.full(len(problem), np.nan)
    fine = np.flatnonzero(~bad)
    points = _as_given(points, problem)
    if fine.size:
        scores[fine] = problem.model.scores(points.iloc[fine])
    reasons, remarks = list(known), [""] * len(problem)
    for i, violated in enumerate(problem.violations(Z)):
        remarks[i] = problem.remarks.get(i, "")
        short = not scores[i] >= problem.goal[i]
        if not reasons[i] and (violated or short) and remarks[i]:
            reasons[i] = remarks[i]
        elif not reasons[i] and violated:
            reasons[i] = f"not allowed: {violated}"
        elif not reasons[i] and short:
            reasons[i] = (
                f"{unfound}: its score is {scores[i]:.6g}, and {problem.goal[i]:.6g} is needed"
            )
    valid = np.array([not r for r in reasons], dtype=bool)
    return Recourse(
        points=points,
        people=problem.people,
        valid=series(valid, "valid", index).astype(bool),
        reason=series(reasons, "reason", index).astype(object),
        remark=series(remarks, "remark", index).astype(object),
        score=series(scores, "score", index),
        cost=series(problem.cost(Z), "cost", index),
        target=float(target),
        overshoot=float(overshoot),
        unit=problem.unit,
        above_target=above,
        method=method,
        cost_norm=problem.norm,
        space=problem.space,
        told=_told(problem, Z, points, valid),
        said=tuple(dict.fromkeys(problem.said)),
        blocking=_blocking(problem, reasons),
        without_recourse=without_recourse,
    )


def _blocking(problem: Problem, reasons: list[str]) -> dict[Any, int]:
    """How many of those without any recourse each rule alone stands in the way of."""
    hopeless = np.flatnonzero([reason.startswith(PROVEN) for reason in reasons])
    counts = problem.take(hopeless).blocking().sum(axis=0) if hopeless.size else []
    names = [c.name for c in problem.space.coordinates]
    found = {name: int(count) for name, count in zip(names, counts, strict=False) if count}
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _told(problem: Problem, Z: Array, points: pd.DataFrame, valid: Any) -> pd.DataFrame:
    """The points with their numbers rounded for reading, as far as that does as well.

    From coarse to fine: the first that is allowed, reaches the goal and costs little more.
    """
    told, left = points.copy(), np.flatnonzero(valid)
    steps = np.array([c.rule.step is not None for c in problem.space.coordinates], dtype=bool)
    loose = problem.space.number & ~steps
    if not loose.any():
        return told
    lean = _without_trifles(problem, Z, loose)
    for (digits, part), wanted in product(ROUNDED, (lean, Z)):
        if left.size == 0:
            break
        some = problem.take(left)
        away = rounded_away(some.factual, wanted[left], digits, part)
        short = np.where(loose, away, wanted[left])
        table = _as_given(some.table(short), some)
        fine = np.array([not words for words in some.violations(short)], dtype=bool)
        fine &= some.cost(short) <= (1.0 + DEARER) * some.cost(Z[left])
        fine &= problem.model.scores(table) >= some.goal
        told.iloc[left[fine]] = table.iloc[np.flatnonzero(fine)]
        left = left[~fine]
    return told


def _without_trifles(problem: Problem, Z: Array, loose: Any) -> Array:
    """The points with numbers as they were where their change is next to nothing of the whole.

    Rounding the others often makes up for it, and "raise savings from 738 to 739" is no advice.
    """
    whole, lean = problem.cost(Z), Z.copy()
    for k in np.flatnonzero(loose):
        alone = problem.factual.copy()
        alone[:, k] = Z[:, k]
        trifling = problem.cost(alone) < TRIFLE * whole
        lean[trifling, k] = problem.factual[trifling, k]
    return lean


def _as_given(points: pd.DataFrame, problem: Problem) -> pd.DataFrame:
    """Columns of whole numbers as whole numbers again, where the people's were."""
    for name, own in problem.people.dtypes.items():
        if pd.api.types.is_integer_dtype(own):
            column = points[name]
            ends = np.iinfo(str(own).lower())
            if bool(((column % 1 == 0) & (column >= ends.min) & (column <= ends.max)).all()):
                points = points.astype({name: own})
    return points


def target_of(
    model: ErasableModel, target: float | None, target_probability: float | None = None
) -> float:
    """The score to reach, from a score or a probability, or the model's natural one."""
    if target_probability is not None:
        if target is not None:
            raise HoldfastError("pass target= or target_probability=, not both")
        if not hasattr(model.estimator, "predict_proba"):
            raise HoldfastError(f"{model.name} gives no probabilities: pass target=, a score")
        if not isinstance(target_probability, Real) or not 0 < target_probability < 1:
            raise HoldfastError(
                f"target_probability must lie between 0 and 1, got {target_probability!r}"
            )
        return float(logit(target_probability))
    if target is None:
        if model.classes is not None:
            return 0.0
        return model.median_label
    return finite_score(target)


def people_frame(model: ErasableModel, people: Any) -> pd.DataFrame:
    """People as a frame with the training table's columns."""
    given = checked_table(people, "people")
    if len(given) == 0:
        raise HoldfastError("people has no rows: there is nobody to find recourse for")
    if not isinstance(given, pd.DataFrame):
        if given.shape[1] != model.frame.shape[1]:
            raise HoldfastError(
                f"people has {given.shape[1]} columns, the model was fitted on "
                f"{model.frame.shape[1]}"
            )
        return pd.DataFrame(given, columns=model.frame.columns).infer_objects()
    if model.feature_names is None and given.shape[1] == model.frame.shape[1]:
        return given.set_axis(model.frame.columns, axis=1)
    return model.in_columns(given, "people")


def below_target(
    model: ErasableModel, space: Space, people: pd.DataFrame, target: float
) -> tuple[pd.DataFrame, int, tuple[Array, Any], list[str]]:
    """Who is below the target, how many are not, their coordinates, and what is wrong with them."""
    Z, kept, wrong = space.encoded(people)
    missing = people.isna().to_numpy()
    strange = np.flatnonzero(missing.any(axis=1) | kept.any(axis=1)).tolist()
    odd = [i for i in strange if not wrong[i]]
    for i in [] if not odd or _scores(model, people.iloc[odd]) else odd:
        if not _scores(model, people.iloc[[i]]):
            if missing[i].any():
                wrong[i] = f"{people.columns[missing[i].argmax()]} is missing"
            else:
                name = space.coordinates[int(kept[i].argmax())].name
                wrong[i] = f"{name} has a category the model does not know"
    usable = np.flatnonzero([not w for w in wrong])
    low = np.array([bool(w) for w in wrong], dtype=bool)
    if usable.size:
        low[usable] = model.scores(people.iloc[usable]) < target
    rows = np.flatnonzero(low)
    return (
        people.iloc[rows],
        int(len(people) - rows.size),
        (Z[rows], kept[rows]),
        [wrong[i] for i in rows],
    )


def _scores(model: ErasableModel, row: pd.DataFrame) -> bool:
    try:
        return bool(np.isfinite(model.scores(row)).all())
    except HoldfastError:
        return False


def check_settings(model: Any, overshoot: Any, cost: Any) -> None:
    """Refuse what is no model, no overshoot or no cost."""
    refuse_other_models(model)
    if isinstance(overshoot, np.ndarray | pd.Series):
        if np.ndim(overshoot) != 1 or not np.all(np.isfinite(overshoot)) or np.any(overshoot < 0):
            raise HoldfastError("overshoot must be one number from 0 for each of the people")
    elif finite_number("overshoot", overshoot, "a number from 0") < 0:
        raise HoldfastError(f"overshoot must be a number from 0, got {overshoot!r}")
    if cost not in ("l1", "l2"):
        raise HoldfastError(f"cost must be 'l1' or 'l2', got {cost!r}")


def _method(method: Any) -> tuple[Callable[..., Any], str]:
    if callable(method):
        return method, getattr(method, "__name__", "callable")
    if not isinstance(method, str) or method not in METHODS:
        raise HoldfastError(
            f"method must be one of {', '.join(map(repr, METHODS))} or a callable, got {method!r}"
        )
    return METHODS[method], method


def _published(name: str, max_changed: int | None, ways: int) -> Callable[..., Any]:
    """How a method goes where it is to stop by itself."""
    if name not in PUBLISHED:
        raise HoldfastError(
            f"overshoot={AS_IS!r} is for methods with a published implementation "
            f"({', '.join(map(repr, PUBLISHED))}), not {name!r}: pass a number"
        )
    if max_changed is not None or ways > 1:
        raise HoldfastError(
            f"max_changed and ways are not known to published implementations: with "
            f"overshoot={AS_IS!r} leave them out"
        )
    return PUBLISHED[name]


def _reporter(
    progress: Callable[[int, int], None] | None, total: int, able: int
) -> Callable[[int], None]:
    if progress is None:
        return lambda done: None
    return lambda done: progress(total - able + min(done, able), total)


def _coordinates(found: Any, problem: Problem, name: str) -> Array:
    """What a method returned, as coordinates."""
    if isinstance(found, pd.DataFrame) and len(found) == len(problem):
        Z, kept, wrong = problem.space.encoded(problem.model.in_columns(found, "the recourses"))
        if any(wrong):
            raise HoldfastError(f"method {name!r}: {next(w for w in wrong if w)}")
        return np.where(kept, problem.factual, Z)
    try:
        Z = np.asarray(found, dtype=float)
    except (ValueError, TypeError):
        Z = np.zeros(0)
    if Z.shape != problem.factual.shape or not np.all(np.isfinite(Z)):
        raise HoldfastError(
            f"method {name!r} must return a frame like people, or finite coordinates of shape "
            f"{problem.factual.shape}, got {Z.shape}"
        )
    return Z

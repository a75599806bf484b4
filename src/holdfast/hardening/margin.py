r"""Recourse with a margin of its own for everybody: the least that provably survives k deletions.

Without the rows ``S`` a linear model scores a point ``x̌`` as ``f₋S(x̌) = f(x̌) − effect_S(x̌)``,
which is linear in ``x̌`` again. Surviving every deletion of at most ``k`` rows is therefore a linear
program with very many constraints,

.. math:: \min \text{cost}(x̌) \quad \text{s.t.} \quad f(x̌) ≥ \text{goal},\;
          f_{−S}(x̌) ≥ \text{target} \;\; ∀ |S| ≤ k,

of which few matter. It is solved by cutting planes: solve with the deletions known so far, look for
one that breaks the solution, add it. The ``k`` rows that hurt most alone are tried first; what they
do not break goes to :func:`holdfast.certify`, which either proves that nothing does or names a
deletion. The direction of the change is thereby chosen against the deletions that threaten it. With
steps, categories or links the program is the integer program of
:mod:`holdfast.recourse.actionable`.

Where scores are not linear (kernels), or a certificate fails without naming a deletion (the
remainder of logistic regression's Newton step), people are asked for a larger overshoot, each their
own, found by bisection; recourse is found again for every one that is tried. Models without
certificates get the smallest overshoot that survives the attack instead, and are marked as not
certified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import HoldfastError, SingularDeletionError
from holdfast.models.erasable import ErasableModel
from holdfast.models.rows import Array, Positions
from holdfast.proofs import certify
from holdfast.recourse import checked, find_recourse, posed
from holdfast.recourse.actionable import actionable, program
from holdfast.recourse.problem import Affine, Problem
from holdfast.recourse.result import Recourse

#: rounds of cutting planes; four or five are usual
ROUNDS = 30
#: cuts ask for this much more, in deviations: the solver's tolerance may leave them short
HAIR = 1e-7
#: overshoots are at most this many deviations
MOST = 8.0
#: steps of bisection of an overshoot
HALVINGS = 5


@dataclass
class Hardened:
    """Recourse with margins, what is proven of it, and how it was found."""

    given: Recourse
    certified: Any
    proven: bool
    method: str
    rounds: int


def margins(
    model: ErasableModel,
    people: Any,
    target: float,
    survive: int,
    actionability: Any = None,
    overshoot: float = 0.01,
    cost: str = "l1",
    unit: str = "row",
    method: Any = "scfe",
    random_state: Any = 0,
) -> Hardened:
    """The cheapest recourse found that survives any ``survive`` deletions, for everybody."""
    problem, known, above = posed(model, people, target, actionability, overshoot, cost)
    if problem.affine is not None and cost == "l1" and model.exact and unit == "row":
        given, rounds = _by_cuts(model, problem, known, above, target, survive, overshoot)
        certified = _certified(model, given, target, survive, unit)
        if certified.all() or not given.valid.any():
            return Hardened(given, certified, True, "cutting planes", rounds)
    return _by_overshoot(
        model, people, target, survive, actionability, overshoot, cost, unit, method, random_state
    )


def _certified(
    model: ErasableModel, given: Recourse, target: float, survive: int, unit: str
) -> Any:
    """Which valid recourses provably survive; everybody, in the order of ``given``."""
    if not given.valid.any():
        return np.zeros(len(given), dtype=bool)
    proof = certify(model, given, target, survive, unit=unit)
    return (proof["certified"] >= survive).to_numpy() | ~given.valid.to_numpy()


# cutting planes -----------------------------------------------------------------------------


@dataclass
class Cuts:
    """Scores without some rows, as linear functions of the coordinates.

    ``rows[c]`` is a deletion, ``affine[c]`` the score without it, ``own[c]`` that score of every
    person as they are (q,).
    """

    model: ErasableModel
    problem: Problem
    rows: list[Positions] = field(default_factory=list)
    affine: list[Affine] = field(default_factory=list)
    own: list[Array] = field(default_factory=list)
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = self.problem
        self._base = problem.take(np.zeros(1, dtype=np.intp))
        table, self._steps = _probes(self._base)
        self._probe = self.model.deletions(table)
        self._people = self.model.deletions(problem.table(problem.factual))
        self._scores = problem.scores(problem.factual)

    def add(self, rows: Positions) -> int | None:
        """The number of a cut; ``None`` where the deletion has no unique refit."""
        key = tuple(sorted(rows.tolist()))
        if key not in self.seen:
            gone = np.array(key, dtype=np.intp)
            try:
                drop = self._probe.effect_at(gone)
                own = self._people.effect_at(gone)
            except SingularDeletionError:
                return None
            assert self.problem.affine is not None
            moved = drop[1:] - drop[0]
            slopes, values, at = self.problem.affine.slopes.copy(), {}, 0
            for k, step in self._steps:
                if step is not None:
                    slopes[k] -= moved[at] / step
                    at += 1
                else:
                    count = len(self.problem.affine.values[k])
                    values[k] = self.problem.affine.values[k] - moved[at : at + count]
                    at += count
            self.seen[key] = len(self.rows)
            self.rows.append(gone)
            self.affine.append(Affine(slopes, values))
            self.own.append(self._scores - own)
        return self.seen[key]

    def scores(self, Z: Array, people: Positions) -> Array:
        """Scores without each deletion, (people, cuts)."""
        start = self.problem.factual[people]
        change = np.where(self.problem.space.number, Z - start, 0.0)
        slopes = np.array([a.slopes for a in self.affine])
        found = np.array(self.own)[:, people].T + change @ slopes.T
        for k in self.problem.allowed:
            values = np.array([a.values[k] for a in self.affine])
            was, now = (column[:, k].astype(np.intp) for column in (start, Z))
            switched = ~self.problem.kept[people, k]
            found += np.where(switched[:, None], (values[:, now] - values[:, was]).T, 0.0)
        scores: Array = found
        return scores


def _probes(base: Problem) -> tuple[pd.DataFrame, list[tuple[int, float | None]]]:
    """One person, and that person with one coordinate changed at a time."""
    Z, rows = base.factual, [base.factual[0]]
    steps: list[tuple[int, float | None]] = []
    for k, c in enumerate(base.space.coordinates):
        if c.categories is None:
            step = float(c.spread) or 1.0
            moved = Z[0].copy()
            moved[k] += step
            rows.append(moved)
            steps.append((k, step))
        else:
            for code in range(len(c.categories)):
                moved = Z[0].copy()
                moved[k] = code
                rows.append(moved)
            steps.append((k, None))
    many = base.take(np.zeros(len(rows), dtype=np.intp))
    many.kept[:] = False
    return many.table(np.array(rows)), steps


def _by_cuts(
    model: ErasableModel,
    problem: Problem,
    known: Any,
    above: int,
    target: float,
    survive: int,
    overshoot: float,
) -> tuple[Recourse, int]:
    """The cheapest points that no deletion found breaks, proven where certificates are tight."""
    cuts = Cuts(model, problem)
    able = np.flatnonzero(known == "")
    Z = problem.factual.copy()
    mine: list[list[int]] = [[] for _ in range(len(problem))]
    reasons = known.copy()

    def solved(people: Positions) -> None:
        for j in people.tolist():
            point = _solve(problem, j, cuts, mine[j], target)
            if point is None:
                reasons[j] = (
                    f"infeasible: no allowed change survives every deletion of {survive} rows"
                )
            else:
                Z[j] = point

    def tightened(people: Positions, sets: list[Positions]) -> Positions:
        """Add each person's deletion and whatever else breaks their point; who must move."""
        for rows in sets:
            cuts.add(rows)
        moved = []
        for start in range(0, people.size, 256):
            some = people[start : start + 256]
            short = cuts.scores(Z[some], some) < target
            for j, broken in zip(some.tolist(), short, strict=True):
                worst = np.flatnonzero(broken)
                if worst.size:
                    mine[j] += [int(c) for c in worst if int(c) not in mine[j]][:4]
                    moved.append(j)
        return np.array(moved, dtype=np.intp)

    Z[able] = actionable(problem.take(able), np.random.default_rng(0))
    short = able[~problem.reached(problem.scores(Z)[able], able)]
    solved(short)
    open_ = able[reasons[able] == ""]
    rounds = 0
    for rounds in range(1, ROUNDS + 1):  # noqa: B007 - told to the caller
        busy = open_
        while busy.size:  # what hurts most alone, until that breaks nobody
            busy = tightened(busy, _worst_alone(model, problem, Z, busy, survive))
            solved(busy)
            busy = busy[reasons[busy] == ""]
        open_ = open_[reasons[open_] == ""]
        if open_.size == 0:
            break
        proof = certify(model, problem.take(open_).table(Z[open_]), target, survive)
        short = np.flatnonzero(proof["certified"].to_numpy() < survive)
        witnesses = [proof["witness"].iloc[i] for i in short]
        named = [np.array(rows, dtype=np.intp) for rows in witnesses if rows]
        open_ = open_[short]
        moved = tightened(open_, named)
        if moved.size == 0:  # broken by nothing that can be named
            break
        solved(moved)
        open_ = moved
    given = checked(
        problem,
        Z,
        problem.table(Z),
        reasons.tolist(),
        target,
        overshoot,
        above,
        "margin",
        unfound="no point found",
    )
    return given, rounds


def _solve(problem: Problem, j: int, cuts: Cuts, mine: list[int], target: float) -> Array | None:
    """The cheapest point of one person that keeps the goal and their cuts; ``None`` without one."""
    one = problem.take(np.array([j]))
    assert problem.affine is not None
    hair = 1e-9 * (one.unit + abs(float(one.goal[0])))
    gap = float(one.goal[0]) - float(cuts._scores[j]) + hair + HAIR * one.unit
    demands = [(problem.affine, gap)]
    for c in mine:
        demands.append((cuts.affine[c], target - cuts.own[c][j] + hair + HAIR * one.unit))
    best, least = None, np.inf
    for acting in product((False, True), repeat=len(one.space.links)):
        point, _ = program(one, demands, acting, 60.0)
        if point is not None and (price := float(one.cost(point[None])[0])) < least:
            best, least = point, price
    return best


def _worst_alone(
    model: ErasableModel, problem: Problem, Z: Array, people: Positions, survive: int
) -> list[Positions]:
    """For every person the rows that hurt their point most alone, as one deletion each."""
    found: set[tuple[int, ...]] = set()
    for start in range(0, people.size, 512):
        some = people[start : start + 512]
        deletions = model.deletions(problem.take(some).table(Z[some]))
        effects = np.nan_to_num(deletions.single_effects(), nan=-np.inf)
        top = np.argpartition(-effects, survive - 1, axis=1)[:, :survive]
        found |= {tuple(sorted(rows.tolist())) for rows in top}
    return [np.array(rows, dtype=np.intp) for rows in found]


# larger overshoots --------------------------------------------------------------------------


def _by_overshoot(
    model: ErasableModel,
    people: Any,
    target: float,
    survive: int,
    actionability: Any,
    overshoot: float,
    cost: str,
    unit: str,
    method: Any,
    random_state: Any,
) -> Hardened:
    """Everybody's own overshoot: doubled until the certificate holds, then bisected."""
    options: dict[str, Any] = {"actionability": actionability, "cost": cost}

    def made(asked: Array) -> Recourse:
        return find_recourse(
            model, folk, method, target, overshoot=asked, random_state=random_state, **options
        )

    first = find_recourse(
        model, people, method, target, overshoot=overshoot, random_state=random_state, **options
    )
    folk = first.people.set_axis(np.arange(len(first)), axis=0)
    q = len(first)
    if q == 0:
        return Hardened(first, np.zeros(0, dtype=bool), True, "overshoot", 0)
    proven = _has_certificates(model, survive, unit, first, target)
    holds = _certified if proven else _survives
    low, high = np.full(q, float(overshoot)), np.full(q, np.nan)
    asked, rounds = np.full(q, float(overshoot)), 0
    while True:  # up
        rounds += 1
        given = made(asked)
        fine = holds(model, given, target, survive, unit) & given.valid.to_numpy()
        newly = fine & np.isnan(high)
        high[newly] = asked[newly]
        open_ = np.isnan(high) & given.valid.to_numpy()
        low[open_] = asked[open_]
        asked = np.where(open_, np.maximum(2 * asked, 0.02), np.where(np.isnan(high), asked, high))
        if not open_.any() or asked[open_].min() > MOST:
            break
    for _ in range(HALVINGS):
        rounds += 1
        between = np.isfinite(high) & (high > low)
        tried = np.where(between, 0.5 * (low + high), asked)
        given = made(tried)
        fine = holds(model, given, target, survive, unit) & given.valid.to_numpy()
        high = np.where(between & fine, tried, high)
        low = np.where(between & ~fine, tried, low)
    final = np.where(np.isfinite(high), high, np.minimum(asked, MOST))
    given = made(final)
    certified = holds(model, given, target, survive, unit) & given.valid.to_numpy()
    method_name = "overshoot" if proven else "overshoot, not certified"
    given = _named(given, first.people.index)
    return Hardened(given, certified, proven, method_name, rounds)


def _named(given: Recourse, index: pd.Index) -> Recourse:
    """The same with people's own names again."""
    from dataclasses import replace

    rows = given.people.index.to_numpy()
    per_person = ("points", "people", "valid", "reason", "remark", "score", "cost", "told")
    return replace(
        given, **{name: getattr(given, name).set_axis(index[rows], axis=0) for name in per_person}
    )


def _has_certificates(
    model: ErasableModel, survive: int, unit: str, given: Recourse, target: float
) -> bool:
    """Whether anything can be proven about deletions of that size."""
    if not given.valid.any():
        return True
    one = given.take(np.flatnonzero(given.valid.to_numpy())[:1])
    try:
        return certify(model, one, target, survive, unit=unit).limit >= survive
    except HoldfastError:
        return False


def _survives(model: ErasableModel, given: Recourse, target: float, survive: int, unit: str) -> Any:
    """Which recourses the strongest attack found does not break, by refitting."""
    from holdfast.searches import search

    fine = given.valid.to_numpy().copy()
    if not fine.any():
        return fine
    places = np.flatnonzero(fine & (given.score.to_numpy() >= target))
    plan = search(model, given, target, survive, unit=unit)
    for rows in plan.sets[1:]:
        if rows.size:
            after = model.without(rows).scores(given.points.iloc[places])
            fine[places[after < target]] = False
    return fine

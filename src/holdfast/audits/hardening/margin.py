r"""Recourse with a margin of its own for everybody: the least that provably survives k deletions.

Without the rows ``S`` a linear model scores a point ``x̌`` as ``f₋S(x̌) = f(x̌) − effect_S(x̌)``,
which is linear in ``x̌`` again. Surviving every deletion of at most ``k`` rows is therefore a
linear program with very many constraints,

.. math:: \min \text{cost}(x̌) \quad \text{s.t.} \quad f(x̌) ≥ \text{goal},\;
          f_{−S}(x̌) ≥ \text{target} \;\; ∀ |S| ≤ k,

of which few matter. It is solved by cutting planes: solve with the deletions known so far, look for
one that breaks the solution, add it. The ``k`` rows that hurt most alone are tried first; what they
do not break goes to :func:`holdfast.certify`, which either proves that nothing does or names a
deletion. The direction of the change is thereby chosen against the deletions that threaten it. With
steps, categories or links the program is the integer program of
:mod:`holdfast.recourse.actionable`.

Under a smooth loss the same holds: a score is linear in the features whatever the weights are, and
each deletion has its own, found by solving again.

Where scores are not linear (kernels), or a certificate fails without naming a deletion, people are
asked for a larger overshoot, each their own, found by bisection; recourse is found again for every
one that is tried. Models without certificates get the smallest overshoot that survives the attack
instead, and are marked as not certified.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Mask, Positions
from holdfast.audits.hardening.cuts import Cuts
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits, broken
from holdfast.proofs import certify
from holdfast.proofs.whole import covered
from holdfast.recourse import checked, find_recourse, posed
from holdfast.recourse.actionable import actionable, program
from holdfast.recourse.problem import Problem
from holdfast.recourse.promises import judged
from holdfast.recourse.result import Recourse
from holdfast.searches import search

#: people who share the budget of one tree of optima
TOGETHER = 100
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
    """Recourse with margins, what is proven of it, and how it was found.

    ``certified`` says for everybody whether survival is proven (or, where ``proven`` is false,
    tried); those for whom it is not have no valid recourse in ``given``.
    """

    given: Recourse
    certified: Mask
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
    options: dict[str, Any] = {"actionability": actionability, "cost": cost, "method": method}
    options["random_state"] = random_state
    whole = covered(model, problem.people)  # else certificates keep the preprocessing: no proof
    linear = problem.affine is not None and model.can.linear and model.can.certificate is not None
    if not (linear and cost == "l1" and unit == "row"):
        found = _by_overshoot(model, people, target, survive, overshoot, unit, options)
        found = replace(found, proven=found.proven and whole)
        return _only_what_holds(found, survive)
    given, certified, rounds = _by_cuts(model, problem, known, above, target, survive, overshoot)
    found = Hardened(given, certified, whole, "cutting planes", rounds)
    rest = np.flatnonzero(given.valid.to_numpy() & ~certified)
    if rest.size:  # no deletion could be named that breaks them, nor proven that none does
        some = _by_overshoot(
            model, given.people.iloc[rest], target, survive, overshoot, unit, options
        )
        if some.proven and len(some.given) == rest.size:
            certified[rest] = some.certified
            given = given.with_rows(rest, some.given)
            found = Hardened(given, certified, whole, "cutting planes, overshoot", rounds)
    return _only_what_holds(found, survive)


def _only_what_holds(found: Hardened, survive: int) -> Hardened:
    """Nobody is promised what is not known to survive; what is told is the very point proven."""
    given, holds = found.given, found.certified
    short = given.valid.to_numpy() & ~holds
    reason = given.reason.mask(
        pd.Series(short, index=given.reason.index),
        f"no recourse was found that survives every deletion of {survive}",
    )
    valid = given.valid & ~pd.Series(short, index=given.valid.index)
    given = replace(given, valid=valid, reason=reason, told=given.points)
    return replace(found, given=given, certified=holds & valid.to_numpy())


def _certified(
    model: ErasableModel, given: Recourse, target: float, survive: int, unit: str
) -> Mask:
    """Which valid recourses provably survive; everybody, in the order of ``given``."""
    sure = np.zeros(len(given), dtype=bool)
    valid = np.flatnonzero(given.valid.to_numpy())
    sure[valid] = proven_of(model, given.points.iloc[valid], target, survive, unit)[0]
    return sure


def proven_of(
    model: ErasableModel, points: pd.DataFrame, target: float, survive: int, unit: str = "row"
) -> tuple[Mask, list[Any]]:
    """Which points provably survive, and what was found that breaks the others.

    A tree of optima has one budget for all it is asked about, and points that stop where they
    just survive need most of it: so few of them share one.
    """
    many = TOGETHER if model.can.certificate == "newton" else max(len(points), 1)
    # what every row does alone, at points that move with every round, would be refits without end
    limit = 0.0 if model.can.certificate == "parts" else None
    sure, witnesses = np.zeros(len(points), dtype=bool), []
    for start in range(0, len(points), many):
        some = points.iloc[start : start + many]
        proof = certify(model, some, target, survive, unit=unit, time_limit=limit)
        sure[start : start + many] = proof["certified"] >= survive
        witnesses += list(proof["witness"])
    return sure, witnesses


# cutting planes -----------------------------------------------------------------------------


def _by_cuts(
    model: ErasableModel,
    everybody: Problem,
    known: Any,
    above: int,
    target: float,
    survive: int,
    overshoot: float,
) -> tuple[Recourse, Mask, int]:
    """The cheapest points that no deletion found breaks, and of whom that is proven."""
    able = np.flatnonzero(known == "")
    reasons, Z = known.copy(), everybody.factual.copy()
    rounds, sure = 0, np.zeros(len(known), dtype=bool)
    if able.size:
        search = CuttingPlanes(model, everybody.take(able), target, survive)
        rounds = search.run()
        Z[able], reasons[able], sure[able] = search.Z, search.reasons, search.sure
    given = checked(
        everybody,
        Z,
        everybody.table(Z),
        reasons.tolist(),
        target,
        overshoot,
        above,
        "margin",
        unfound="no point found",
    )
    return given, sure & given.valid.to_numpy(), rounds


class CuttingPlanes:
    """Points, and the deletions each of them has to survive so far."""

    def __init__(self, model: ErasableModel, problem: Problem, target: float, survive: int):
        self.model, self.problem = model, problem
        self.target, self.survive = target, survive
        self.cuts = Cuts(model, problem)
        q = len(problem)
        self.mine: list[list[int]] = [[] for _ in range(q)]
        self.reasons = np.full(q, "", dtype=object)
        self.sure = np.zeros(q, dtype=bool)
        self.Z = actionable(problem, np.random.default_rng(0))
        self.solve(np.flatnonzero(~problem.reached(problem.scores(self.Z))))

    def run(self) -> int:
        """Until every certificate holds, or none is gained any more; the rounds it took.

        A certificate that fails without naming a deletion ran out of its budget: fewer people share
        it the next time.
        """
        open_ = np.flatnonzero(self.reasons == "")
        for turn in range(1, ROUNDS + 1):
            open_ = self.against_single_rows(open_)
            if open_.size == 0:
                return turn
            table = self.problem.take(open_).table(self.Z[open_])
            holds, witnesses = proven_of(self.model, table, self.target, self.survive)
            self.sure[open_[holds]] = True
            short = np.flatnonzero(~holds)
            named = [self.model.rows.here(witnesses[i]) for i in short if witnesses[i]]
            moved = self.tighten(open_[short], named)
            if moved.size == 0 and short.size in (0, open_.size):
                moved = self.against_refits()
                if moved.size == 0:
                    return turn
            self.sure[moved] = False
            self.solve(moved)
            open_ = np.union1d(open_[short], moved)
            open_ = open_[self.reasons[open_] == ""]
        return ROUNDS

    def against_single_rows(self, people: Positions) -> Positions:
        """The rows that hurt most alone, together, until they break nobody; who is left."""
        busy = people
        for _ in range(ROUNDS):
            if busy.size == 0:
                break
            sets = worst_alone(self.model, self.problem, self.Z, busy, self.survive)
            busy = self.tighten(busy, sets)
            self.solve(busy)
            busy = busy[self.reasons[busy] == ""]
        return people[self.reasons[people] == ""]

    def against_refits(self) -> Positions:
        """The strongest attack found, with the preprocessing refitted too; whom it breaks."""
        fine = np.flatnonzero(self.reasons == "")
        if self.model.preprocessing is None or fine.size == 0:
            return np.zeros(0, dtype=np.intp)
        points = self.problem.take(fine).table(self.Z[fine])
        plan = search(self.model, points, self.target, self.survive)
        for rows in plan.sets[1:]:
            if rows.size:
                self.cuts.add_refit(rows)
        return self.tighten(fine, [])

    def tighten(self, people: Positions, sets: list[Positions]) -> Positions:
        """Add deletions; give everybody those that break their point; who must move."""
        for rows in sets:
            self.cuts.add(rows)
        moved = []
        if not self.cuts.rows:
            return np.zeros(0, dtype=np.intp)
        for start in range(0, people.size, 256):
            some = people[start : start + 256]
            short = self.cuts.scores(self.Z[some], some) < self.target
            for j, below in zip(some.tolist(), short, strict=True):
                new = [int(c) for c in np.flatnonzero(below) if int(c) not in self.mine[j]]
                if new:
                    self.mine[j] += new[:4]
                    moved.append(j)
        return np.array(moved, dtype=np.intp)

    def solve(self, people: Positions) -> None:
        """The cheapest points that keep what is known."""
        for j in people.tolist():
            point, in_time = cheapest_point(self.problem, j, self.cuts, self.mine[j], self.target)
            if point is not None:
                self.Z[j] = point
            elif in_time:
                self.reasons[j] = (
                    f"infeasible: no allowed change survives every deletion of {self.survive} rows"
                )
            else:
                self.reasons[j] = "undecided: the program ran out of time"


def cheapest_point(
    problem: Problem, j: int, cuts: Cuts, mine: list[int], target: float
) -> tuple[Array | None, bool]:
    """The cheapest point of one person that keeps the goal and their cuts, if there is one."""
    one = problem.take(np.array([j]))
    assert problem.affine is not None
    hair = 1e-9 * (one.unit + abs(float(one.goal[0]))) + HAIR * one.unit
    demands = [(problem.affine, float(one.goal[0]) - float(cuts.scores_now[j]) + hair)]
    demands += [(cuts.affine[c], target - cuts.own[c][j] + hair) for c in mine]
    best, least, in_time = None, np.inf, True
    for acting in product((False, True), repeat=len(one.space.links)):
        point, proven = program(one, demands, acting, 60.0)
        in_time &= proven
        if point is not None and (price := float(one.cost(point[None])[0])) < least:
            best, least = point, price
    return best, in_time


def worst_alone(
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
    overshoot: float,
    unit: str,
    options: dict[str, Any],
) -> Hardened:
    """Everybody's own overshoot: doubled until the certificate holds, then bisected."""

    def made(asked: Array) -> Recourse:
        return find_recourse(model, folk, target=target, overshoot=asked, **options)

    first = find_recourse(model, people, target=target, overshoot=overshoot, **options)
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
    given = given.renamed(first.people.index[given.people.index.to_numpy()])
    return Hardened(given, certified, proven, method_name, rounds)


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
    promises = judged(model, given, target, "harden", needed=False)
    fine = promises.counts.copy()
    if not fine.any():
        return fine
    plan = search(model, promises, target, survive, unit=unit)
    refits = Refits(model, promises.kept_points)
    for after in refits.without([rows for rows in plan.sets[1:] if rows.size]):
        fine[promises.kept[broken(after, target)]] = False
    return fine

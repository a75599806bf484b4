r"""Two published ways of making recourse robust, for linear scores, as baselines.

*ROAR* (Upadhyay, Joshi and Lakkaraju, 2021) asks for recourse that holds for every weight vector
within a ball around the fitted one. For a linear score and the ball ``‖u‖_∞ ≤ ρ`` in the
coordinates scaled by their typical deviations, the worst case is
``f(x̌) − ρ · unit · (1 + Σ_j |x̌_j| / spread_j)``, maximised here by the authors' alternation: take
the worst weights at the present point, find the cheapest recourse for them, repeat.

*Deletion-aware recourse* (Krishna, Ma and Lakkaraju, 2023) alternates likewise, with the worst
weights being those after deleting the ``k`` rows that influence the present point's score most, to
first order.

Neither proves anything; both are measured like everything else. Reimplemented from the papers'
ideas for the setting of this package.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions
from holdfast.audits.hardening.comparison import Comparison
from holdfast.audits.hardening.cuts import Cuts
from holdfast.audits.hardening.margin import cheapest_point, worst_alone
from holdfast.errors import UnsupportedModelError
from holdfast.recourse import posed
from holdfast.recourse.actionable import program
from holdfast.recourse.problem import Affine, Problem

#: alternations between the worst weights and the cheapest recourse for them
TURNS = 10


def _linear(case: Comparison) -> tuple[Problem, Positions]:
    if case.cost != "l1":
        raise UnsupportedModelError("the published baselines are worked out for the l1 cost")
    problem, known, _ = posed(
        case.model, case.people, case.target, case.actionability, case.overshoot, case.cost
    )
    if problem.affine is None:
        raise UnsupportedModelError(
            "the published baselines are written for scores that are linear in the columns"
        )
    problem = problem.take(np.flatnonzero(known == ""))
    return problem, np.arange(len(problem))


def worst_case_ball(case: Comparison, radius: float) -> pd.DataFrame:
    """ROAR: recourse that holds for every weight vector within ``radius`` deviations."""
    problem, able = _linear(case)
    assert problem.affine is not None
    space = problem.space
    scale = radius * problem.unit / np.where(space.spread > 0, space.spread, 1.0)
    middle = np.median(problem.factual, axis=0)
    out: list[Array] = []
    kept: list[int] = []
    own = problem.scores(problem.factual)
    for j in able.tolist():
        one, z = problem.take(np.array([j])), problem.factual[j]
        found = None
        for _ in range(TURNS):
            # the worst weights of the ball at the present point, around the middle of the people
            tilt = np.where(space.number, -scale * np.sign(z - middle), 0.0)
            affine = Affine(problem.affine.slopes + tilt, problem.affine.values)
            start = own[j] + tilt @ np.where(space.number, problem.factual[j] - middle, 0.0)
            gap = float(one.goal[0]) - start + radius * problem.unit
            point, _ = program(one, [(affine, gap)], (False,) * len(space.links), 10.0)
            if point is None:
                break
            if found is not None and np.allclose(point, found):
                break
            found = z = point
        if found is not None:
            out.append(found)
            kept.append(j)
    return _table(problem, out, kept)


def deletion_aware(case: Comparison) -> pd.DataFrame:
    """Recourse against the ``k`` most influential rows of the present point, alternating."""
    problem, able = _linear(case)
    cuts = Cuts(case.model, problem)
    out: list[Array] = []
    kept: list[int] = []
    given = {j: cheapest_point(problem, j, cuts, [], case.target)[0] for j in able.tolist()}
    Z = problem.factual.copy()
    for j, point in given.items():
        if point is not None:
            Z[j] = point
    for _ in range(TURNS // 2):
        for j in able.tolist():
            rows = worst_alone(case.model, problem, Z, np.array([j]), case.survive)[0]
            cut = cuts.add(rows)
            point = None if cut is None else cheapest_point(problem, j, cuts, [cut], case.target)[0]
            if point is not None:
                Z[j] = point
    for j in able.tolist():
        if given[j] is not None:
            out.append(Z[j])
            kept.append(j)
    return _table(problem, out, kept)


def _table(problem: Problem, points: list[Array], people: list[int]) -> pd.DataFrame:
    if not points:
        return problem.people.iloc[:0]
    return problem.take(np.array(people)).table(np.array(points))

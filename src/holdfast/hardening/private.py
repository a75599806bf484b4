r"""Differentially private training, to test the paper's conjecture that it helps.

Output perturbation (Chaudhuri, Monteleoni and Sarwate, 2011) for linear and logistic models. Rows,
with a constant among their features in place of an intercept, are scaled into the unit ball, labels
of a regression into [−1, 1]; the strongly convex problem

.. math:: \min_w \frac1n Σ ℓ(w; x_i, y_i) + \frac{λ}{2} ‖w‖²

is solved, and noise ``b`` is added to all of its solution, with a density proportional to
``exp(−ε ‖b‖ / s)``, ``s = 2L/(nλ)``. ``L`` is the loss's Lipschitz constant: 1 for logistic loss,
and ``1 + 1/√λ`` for squared loss, whose solution has norm at most ``1/√λ``. The released weights
are ε-differentially private (pure, replacing one row), **provided that what scales rows and labels
is public**: the preprocessing, the radius and the range of the labels. Here these are taken from
the training part, so that the figures flatter privacy a little.

When somebody is erased the model is fitted again. The noise can be the same (a seed kept secret) or
fresh. With the same noise, only the ridge can help; with fresh noise, recourses break because of
the noise itself. Both are measured: the first by the attack, the second by refits with nobody
erased.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures

from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.hardening.case import Case, Mitigation
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.linear import LinearCore
from holdfast.models.logistic import LogisticCore
from holdfast.models.rows import Array
from holdfast.recourse import posed
from holdfast.recourse.actionable import program
from holdfast.recourse.problem import Affine

#: privacy budgets, from weak to strong
EPSILONS = (100.0, 10.0, 1.0)
#: draws of the noise at each
DRAWS = 3
#: the strength of the ridge, for loss averaged over rows
LAMBDA = 0.01


def private(
    case: Case, epsilons: Sequence[float] = EPSILONS, draws: int = DRAWS
) -> list[Mitigation]:
    """ε-differentially private training on a path of ε, several draws of the noise each."""
    if not all(np.isfinite(e) and e > 0 for e in epsilons) or draws < 1:
        raise HoldfastError(f"epsilons must be above 0 and draws at least 1, got {epsilons!r}")
    base = case.model
    if not isinstance(base.core, LinearCore | LogisticCore):
        raise UnsupportedModelError(
            "differentially private training is offered for linear and logistic models only; a "
            "network trained privately elsewhere can be audited like any other model"
        )
    if base.sample_weight is not None or case.unit != "row" or case.cost != "l1":
        raise UnsupportedModelError(
            "private training is accounted for by single rows of equal weight, and priced in l1"
        )
    Z = base.last_step.features(base.last_step.X)
    radius = float(np.sqrt(1.0 + (Z**2).sum(axis=1).max()))
    model, unit, middle = _ridged(base, Z, radius)
    n, d = Z.shape[0], Z.shape[1] + 1
    rng = np.random.default_rng(case.random_state)
    made = []
    for epsilon in epsilons:
        for draw in range(draws):
            noise = _noise(rng, epsilon, n, d, isinstance(base.core, LogisticCore)) * unit / radius
            made.append(_at(case, model, noise, middle, epsilon, draw, rng, n, d, unit / radius))
    return made


def _ridged(base: ErasableModel, Z: Array, radius: float) -> tuple[ErasableModel, float, float]:
    """The same kind of model with the ridge the accounting needs, a penalised constant in place of
    its intercept and labels around 0; half the range of the labels, and its middle.
    """
    n = len(Z)
    strength = LAMBDA * n * radius**2  # weights of scaled rows are radius times these
    last: Any
    if isinstance(base.core, LogisticCore):
        last = LogisticRegression(C=1.0 / strength, tol=1e-8, max_iter=10_000, fit_intercept=False)
        y, unit, middle = base.y, 1.0, 0.0
    else:
        labels = np.asarray(base.y, dtype=float)
        middle = float((labels.max() + labels.min()) / 2)
        y, unit = labels - middle, float((labels.max() - labels.min()) / 2) or 1.0
        last = Ridge(alpha=strength, fit_intercept=False)
    steps = clone(base.estimator).steps[:-1] if base._preprocessing is not None else []
    estimator = Pipeline([*steps, ("constant", PolynomialFeatures(1)), ("private", last)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(base._queries(base.X, "X"), y)
        model = erasable(fitted, base.X, y, base.rows.subjects, None, base.favourable)
    return model, unit, base._sign * middle


def _noise(rng: Any, epsilon: float, n: int, d: int, logistic: bool) -> Array:
    """A random direction, with a length from a gamma distribution."""
    lipschitz = 1.0 if logistic else 1.0 + 1.0 / np.sqrt(LAMBDA)
    scale = 2.0 * lipschitz / (n * LAMBDA * epsilon)
    direction = rng.normal(size=d)
    noise: Array = direction / np.linalg.norm(direction) * rng.gamma(d, scale)
    return noise


def _at(
    case: Case,
    model: ErasableModel,
    noise: Array,
    middle: float,
    epsilon: float,
    draw: int,
    rng: Any,
    n: int,
    d: int,
    unit: float,
) -> Mitigation:
    """Recourse by the noisy model, for the same people."""

    def offset(points: Any) -> Array:
        found: Array = model.features(points) @ noise + middle
        return found

    problem, known, _ = posed(model, case.people, np.inf, case.actionability, 0.0, "l1")
    missing = [str(k).endswith("is missing") or "does not know" in str(k) for k in known]
    problem = problem.take(np.flatnonzero(~np.array(missing, dtype=bool)))
    made = Mitigation("private", f"ε={epsilon:g}, draw {draw + 1}", model, case.people.iloc[:0])
    made.offset = offset
    if problem.affine is None:
        raise UnsupportedModelError("private training needs a score linear in the columns")
    goal = case.target + case.overshoot * model.score_unit
    affine = _with_noise(problem, problem.affine, offset)
    own = problem.scores(problem.factual) + offset(problem.table(problem.factual))
    points, kept, above = [], [], 0
    for j in range(len(problem)):
        if own[j] >= case.target:
            above += 1
            continue
        one = problem.take(np.array([j]))
        gap = goal - own[j] + 1e-7 * model.score_unit
        point, _ = program(one, [(affine, gap)], (False,) * len(problem.space.links), 10.0)
        if point is not None:
            points.append(point)
            kept.append(j)
    if points:
        table = problem.take(np.array(kept)).table(np.array(points))
        made.points = table[model.scores(table) + offset(table) >= case.target]
    made.served = (above + len(made.points)) / max(len(case.people), 1)
    logistic = isinstance(model.core, LogisticCore)
    shares = []
    for _ in range(5):  # fresh noise, nobody erased
        fresh = _noise(rng, epsilon, n, d, logistic) * unit
        if len(made.points):
            after = model.scores(made.points) + model.features(made.points) @ fresh + middle
            shares.append(float(np.mean(after < case.target)))
    again = np.mean(shares) if shares else float("nan")
    made.note = (
        f"ε-differentially private weights (ε = {epsilon:g}, output perturbation, λ = {LAMBDA:g}), "
        "taking preprocessing, radius and label range as public; the same noise kept on "
        f"refitting. Fresh noise alone breaks {again:.0%}"
    )
    return made


def _with_noise(problem: Any, affine: Affine, offset: Any) -> Affine:
    """The linear score plus the noise, as a function of the coordinates."""
    from holdfast.hardening.margin import _probes

    base = problem.take(np.zeros(1, dtype=np.intp))
    table, steps = _probes(base)
    moved = offset(table)
    moved = moved[1:] - moved[0]
    slopes, values, at = affine.slopes.copy(), {}, 0
    for k, step in steps:
        if step is not None:
            slopes[k] += moved[at] / step
            at += 1
        else:
            count = len(affine.values[k])
            values[k] = affine.values[k] + moved[at : at + count]
            at += count
    return Affine(slopes, values)

r"""Differentially private training, to test the paper's conjecture that it helps.

Output perturbation (Chaudhuri, Monteleoni and Sarwate, 2011) for linear and logistic models: rows
are clipped to norm 1 (in features scaled by a constant), labels of a regression to a range of width
2, the strongly convex problem

.. math:: \min_w \frac1n Σ ℓ(w; x_i, y_i) + \frac{λ}{2} ‖w‖²

is solved, and noise ``b`` is added to its solution, with a density proportional to
``exp(−ε ‖b‖ / s)``, ``s = 2L/(nλ)``. ``L`` is the loss's Lipschitz constant: 1 for logistic loss,
and ``1 + 1/√λ`` for squared loss, whose solution has norm at most ``1/√λ``. The released weights
are ε-differentially private (pure, replacing one row), **provided the scaling constant and the
label range are public**; here they are taken from the training part, as a first look does.

When somebody is erased the model is fitted again. The noise can be the same (a seed kept secret) or
fresh. With the same noise, only the clipping and the ridge can help; with fresh noise, recourses
break because of the noise itself. Both are measured: the first by the attack, the second by refits
with nobody erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.hardening.case import Case, Mitigation
from holdfast.models.erasable import ErasableModel
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
    Z = base.last_step.features(base.last_step.X)
    radius = float(np.linalg.norm(Z, axis=1).max()) or 1.0
    model, unit = _clipped_model(base, Z, radius)
    n, d = Z.shape
    rng = np.random.default_rng(case.random_state)
    made = []
    for epsilon in epsilons:
        for draw in range(draws):
            noise = _noise(rng, epsilon, n, d, isinstance(base.core, LogisticCore)) * unit / radius
            made.append(_at(case, model, noise, epsilon, draw, rng, n, d, unit / radius))
    return made


def _clipped_model(base: ErasableModel, Z: Array, radius: float) -> tuple[ErasableModel, float]:
    """The same kind of model with the ridge the accounting needs, and the unit of its scores."""
    from holdfast.hardening.mitigations import _refitted  # the two modules share one refit

    n = len(Z)
    estimator: Any
    if isinstance(base.core, LogisticCore):
        # scikit-learn minimises C Σ ℓ + ½‖w‖² in unscaled features: ‖w‖ there is ‖w‖ here / radius
        estimator, unit = LogisticRegression(C=1.0 / (LAMBDA * n * radius**2), tol=1e-8), 1.0
        estimator.set_params(max_iter=10_000, fit_intercept=base.core.intercept)
    else:
        y = np.asarray(base.y, dtype=float)
        unit = float((y.max() - y.min()) / 2) or 1.0
        estimator = Ridge(alpha=LAMBDA * n * radius**2, fit_intercept=base.core.intercept)
    steps = base.estimator
    if base._preprocessing is not None:
        from sklearn.base import clone

        steps = clone(base.estimator)
        steps.steps[-1] = (steps.steps[-1][0], estimator)
        estimator = steps
    return _refitted(base, estimator), unit


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
    epsilon: float,
    draw: int,
    rng: Any,
    n: int,
    d: int,
    unit: float,
) -> Mitigation:
    """Recourse by the noisy model, for the same people."""

    def offset(points: Any) -> Array:
        found: Array = model.features(points) @ noise
        return found

    problem, _, _ = posed(model, case.people, np.inf, case.actionability, 0.0, "l1")
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
            after = model.scores(made.points) + model.features(made.points) @ fresh
            shares.append(float(np.mean(after < case.target)))
    again = np.mean(shares) if shares else float("nan")
    made.note = (
        f"ε-differentially private weights (ε = {epsilon:g}, output perturbation, λ = {LAMBDA:g}); "
        f"the same noise kept on refitting. Fresh noise alone breaks {again:.0%}"
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

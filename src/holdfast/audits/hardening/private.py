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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures

from holdfast.algebra.rows import Array
from holdfast.audits.hardening.comparison import Comparison, Mitigation
from holdfast.audits.hardening.cuts import Probes
from holdfast.audits.hardening.private_networks import private_networks
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.solving import scores_or_nan
from holdfast.recourse import posed
from holdfast.recourse.actionable import program
from holdfast.shared_state import quiet

#: privacy budgets, from weak to strong
EPSILONS = (100.0, 10.0, 1.0)
#: draws of the noise at each
DRAWS = 3
#: the strength of the ridge, for loss averaged over rows
LAMBDA = 0.01


def private(
    case: Comparison, epsilons: Sequence[float] = EPSILONS, draws: int = DRAWS, epochs: int = 20
) -> list[Mitigation]:
    """ε-differentially private training on a path of ε, several draws of the noise each."""
    if not all(np.isfinite(e) and e > 0 for e in epsilons) or draws < 1:
        raise HoldfastError(f"epsilons must be above 0 and draws at least 1, got {epsilons!r}")
    base = case.model
    if base.can.form == "network":
        return private_networks(case, epsilons, draws, epochs)
    if base.can.form not in ("linear", "smooth"):
        raise UnsupportedModelError(
            "differentially private training is offered for linear and logistic models and for "
            "networks only"
        )
    if base.sample_weight is not None or case.unit != "row" or case.cost != "l1":
        raise UnsupportedModelError(
            "private training is accounted for by single rows of equal weight, and priced in l1"
        )
    release = Release.of(base)
    rng = np.random.default_rng(case.random_state)
    return [_at(case, release, epsilon, draw, rng) for epsilon in epsilons for draw in range(draws)]


@dataclass(frozen=True)
class Release:
    """A model as it is before noise is added, and what its weights' noise is measured in.

    Attributes
    ----------
    model : ErasableModel
        With the ridge the accounting needs, a penalised constant in place of an intercept, and
        labels around 0.
    middle : float
        What the labels lost by that.
    unit : float
        Half the range of the labels over the radius of the rows.
    """

    model: ErasableModel
    middle: float
    unit: float

    @classmethod
    def of(cls, base: ErasableModel) -> Release:
        """The release of a model of the same kind."""
        Z = base.last_step.features(base.last_step.X)
        radius = float(np.sqrt(1.0 + (Z**2).sum(axis=1).max()))
        strength = LAMBDA * len(Z) * radius**2  # weights of scaled rows are radius times these
        last: Any = Ridge(alpha=strength, fit_intercept=False)
        y, half, middle = base.y, 1.0, 0.0
        if base.classes is not None:
            last = LogisticRegression(C=1.0 / strength, tol=1e-8, max_iter=10_000)
            last.set_params(fit_intercept=False)
        else:
            labels = np.asarray(base.y, dtype=float)
            middle = float((labels.max() + labels.min()) / 2)
            y, half = labels - middle, float((labels.max() - labels.min()) / 2) or 1.0
        steps = clone(base.estimator).steps[:-1] if base.preprocessing is not None else []
        estimator = Pipeline([*steps, ("constant", PolynomialFeatures(1)), ("private", last)])
        with quiet:
            fitted = estimator.fit(base.queries(base.X, "X"), y)
            model = erasable(fitted, base.X, y, base.rows.subjects, None, base.favourable)
        return cls(model, base.sign * middle, half / radius)

    def noise(self, rng: Any, epsilon: float) -> Array:
        """Noise for every weight, in the units of the features."""
        n, d = self.model.rows.n, self.model.last_step.X.shape[1]
        return self.unit * _noise(rng, epsilon, n, d, self.model.classes is not None)

    def offset(self, noise: Array) -> Callable[[Any], Array]:
        """What that noise, and the middle of the labels, add to the model's scores."""
        return lambda points: self.model.features(points) @ noise + self.middle


def _noise(rng: Any, epsilon: float, n: int, d: int, logistic: bool) -> Array:
    """A random direction, with a length from a gamma distribution."""
    lipschitz = 1.0 if logistic else 1.0 + 1.0 / np.sqrt(LAMBDA)
    scale = 2.0 * lipschitz / (n * LAMBDA * epsilon)
    direction = rng.normal(size=d)
    noise: Array = direction / np.linalg.norm(direction) * rng.gamma(d, scale)
    return noise


def _at(case: Comparison, release: Release, epsilon: float, draw: int, rng: Any) -> Mitigation:
    """Recourse by the noisy model, for the same people."""
    model, offset = release.model, release.offset(release.noise(rng, epsilon))
    people = case.people[np.isfinite(scores_or_nan(model, case.people))]
    problem, _, _ = posed(model, people, np.inf, case.actionability, 0.0, "l1")
    if problem.affine is None:
        raise UnsupportedModelError("private training needs a score linear in the columns")
    goal = case.target + case.overshoot * model.score_unit
    probes = Probes(problem)
    affine = probes.affine(model.scores(probes.table) + offset(probes.table))
    own = problem.scores(problem.factual) + offset(problem.table(problem.factual))
    points, kept = [], []
    for j in np.flatnonzero(own < case.target).tolist():
        one = problem.take(np.array([j]))
        gap = goal - own[j] + 1e-7 * model.score_unit
        point, _ = program(one, [(affine, gap)], (False,) * len(problem.space.links), 10.0)
        if point is not None:
            points.append(point)
            kept.append(j)
    table = case.people.iloc[:0]
    if points:
        table = problem.take(np.array(kept)).table(np.array(points))
        table = table[model.scores(table) + offset(table) >= case.target]
    made = Mitigation("private", f"ε={epsilon:g}, draw {draw + 1}", model, table, offset=offset)
    made.served = (int(np.sum(own >= case.target)) + len(table)) / max(len(case.people), 1)
    again = float("nan")
    if len(table):  # fresh noise, nobody erased
        fresh = [release.offset(release.noise(rng, epsilon))(table) for _ in range(5)]
        again = float(np.mean(model.scores(table) + np.array(fresh) < case.target))
    made.alone = again
    made.note = (
        f"ε-differentially private weights (ε = {epsilon:g}, output perturbation, λ = {LAMBDA:g}), "
        "taking preprocessing, radius and label range as public; the same noise kept on "
        f"refitting. Fresh noise alone breaks {again:.0%}"
    )
    return made

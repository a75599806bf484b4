"""From the weights of a fit to the stationary point it was heading for."""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from holdfast.algebra.conjugate import NotPositiveError, solved
from holdfast.algebra.rows import Array
from holdfast.models.networks.problem import TrainingProblem

#: up to this many parameters the Hessian is written down
FULL = 3000
#: share of the rows' gradients not cancelled from which Newton's method is left the rest
NEAR = 0.02
#: … at which a network counts as polished: with the whole Hessian, and by products with it
SETTLED, POLISHED = 1e-12, 1e-8
#: iterations of L-BFGS before Newton's
ITERATIONS = 1000
#: Newton steps of a large network at most, and products with the Hessian in each
STEPS, INNER = 15, 200


def polished(problem: TrainingProblem, theta: Array) -> tuple[Array, float]:
    """The stationary point near ``theta``, and the norm of the gradient there."""
    far = problem.uncancelled(theta)
    if far > NEAR:
        theta = _by_gradients(problem, theta)
    if problem.size <= FULL:
        return damped_newton(problem, theta)
    return _newton_by_products(problem, theta)


def _by_gradients(problem: TrainingProblem, theta: Array) -> Array:
    """L-BFGS, which bears to start far away."""
    found = optimize.minimize(
        problem.both,
        theta,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "maxcor": 30, "ftol": 0.0, "gtol": 1e-7 * len(problem.X)},
    )
    at: Array = found.x
    return at if found.fun <= problem.value(theta) else theta


def damped_newton(problem: TrainingProblem, theta: Array) -> tuple[Array, float]:
    """Damped Newton steps with the whole Hessian.

    With kinks a step across one may not lower the objective: the best point is kept.
    """
    value, damping = problem.value(theta), 0.0
    gradient = problem.gradient(theta)
    small = SETTLED * problem.pulls(theta)
    for _ in range(60):
        if np.linalg.norm(gradient) <= small:
            break
        hessian = problem.hessian(theta)
        scale = float(np.abs(np.diag(hessian)).max())
        while True:
            try:
                factor = linalg.cho_factor(hessian + damping * np.eye(theta.size))
                step = -linalg.cho_solve(factor, gradient)
                candidate = problem.value(theta + step)
                if candidate <= value + 1e-14 * abs(value):
                    break
            except linalg.LinAlgError:
                pass
            damping = max(10.0 * damping, 1e-8 * scale)
            if damping > 1e8 * scale:
                return theta, float(np.linalg.norm(gradient))
        before = problem.scores(theta)
        theta, value = theta + step, candidate
        gradient = problem.gradient(theta)
        damping = damping / 10.0 if damping > 1e-8 * scale else 0.0
        moved = float(np.abs(problem.scores(theta) - before).max())
        if moved < 1e-11 * (1.0 + np.abs(value) / len(problem.y)) and damping == 0.0:
            break
    return theta, float(np.linalg.norm(gradient))


def _newton_by_products(problem: TrainingProblem, theta: Array) -> tuple[Array, float]:
    """Newton steps by conjugate gradients; along the gradient where the Hessian bends down."""
    value, gradient = problem.both(theta)
    pulls = problem.pulls(theta)
    for _ in range(STEPS):
        size = float(np.linalg.norm(gradient))
        if size <= POLISHED * pulls:
            break
        tolerance = min(0.1, max(float(np.sqrt(size / pulls)), 0.1 * POLISHED * pulls / size))
        try:
            right = gradient[:, None]
            step = -solved(problem.products(theta), right, tolerance, INNER)[0][:, 0]
        except NotPositiveError as bent:
            step = -gradient / abs(bent.curvature or 1.0)
        pace = 1.0
        while problem.value(theta + pace * step) > value + 1e-14 * abs(value):
            pace *= 0.5
            if pace < 1e-6:
                return theta, size
        theta = theta + pace * step
        value, gradient = problem.both(theta)
    return theta, float(np.linalg.norm(gradient))

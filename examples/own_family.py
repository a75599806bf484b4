"""A family of models of your own, in forty lines: robust regression.

``HuberRegressor`` has no algebra in Holdfast. With its row weights frozen at the optimum it is a
weighted least-squares fit, whose deletions are known: a guess, which searches screen with and
refits confirm.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import HuberRegressor
from sklearn.preprocessing import scale

import holdfast as hf
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.design import Design
from holdfast.models.core import Capabilities, Core, Family


class HuberCore(Core):
    """Rows beyond epsilon deviations count with a weight that falls with their residual."""

    can = Capabilities(predictions=("frozen-weights",), linear=True, refit="cheap")

    def __init__(self, estimator, data):
        self.rows = data.rows
        self.theta = data.sign * np.append(estimator.intercept_, estimator.coef_)
        phi = np.column_stack([np.ones(len(data.X)), data.X])
        residuals = data.y - phi @ self.theta
        size = np.abs(residuals) / estimator.scale_
        weights = data.weights * np.minimum(1.0, estimator.epsilon / np.maximum(size, 1e-12))
        root = np.sqrt(weights)
        penalty = np.full(phi.shape[1], 2.0 * estimator.alpha * estimator.scale_)
        penalty[0] = 0.0
        self.design, self.residuals = Design(root[:, None] * phi, penalty, True), root * residuals

    def scores(self, X):
        return self.theta[0] + X @ self.theta[1:]

    def score_gradients(self, X):
        return np.tile(self.theta[1:], (len(X), 1))

    def deletions(self, X, of, method):
        queries = self.design.whiten(np.column_stack([np.ones(len(X)), X]))
        return LowRankDeletions(
            queries, self.design.U, self.residuals, self.rows, (len(X),), exact=False
        )


hf.register("family", Family((HuberRegressor,), HuberCore))

X, y = load_diabetes(return_X_y=True)
X = scale(X)
model = hf.erasable(HuberRegressor(max_iter=1000, tol=1e-8).fit(X, y), X, y)
given = hf.find_recourse(model, X, target=150, overshoot=0.05)
plan = hf.search(model, given, target=150, max_deletions=3)
print(model)
print(f"3 rows break {plan.rerun()[3]:.0%} of {len(plan.points)} recourses, confirmed by refitting")

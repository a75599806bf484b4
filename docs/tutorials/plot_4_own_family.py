"""
A model family of your own, in forty lines
==========================================

Holdfast refits any estimator that can be cloned. A family goes further: it says what a deletion does to a
score, by a formula, and searches and audits use it. Here least squares with positive weights is taught to forget.

``LinearRegression(positive=True)`` leaves out the features whose weight would be negative. As long as the same
features stay in, it is least squares on those features, and the effect of deletions is known. That is a guess,
because a deletion may let a feature in or out; so the family says ``refit="cheap"``, searches screen with the guess,
and refits confirm.
"""

# %%
# What a family says
# ------------------
#
# A ``Core`` takes the fitted estimator and its training data (plain numbers, oriented so that a higher label is
# better) and answers three questions: scores, their gradients, their deletions.

import numpy as np
from sklearn.linear_model import LinearRegression

import holdfast as hf
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.design import Design
from holdfast.models.core import Capabilities, Core, Family


class Positive(LinearRegression):
    """Least squares with weights that are not negative."""

    def __init__(self):
        super().__init__(positive=True)


class PositiveCore(Core):
    """Least squares on the features that are in."""

    can = Capabilities(predictions=("same-features",), linear=True, refit="cheap")

    def __init__(self, estimator, data):
        self.rows = data.rows
        self.theta = data.sign * np.append(estimator.intercept_, estimator.coef_)
        self.used = np.append(True, estimator.coef_ > 0)
        root = np.sqrt(data.weights)
        phi = self._features(data.X)
        self.residuals = root * (data.y - phi @ self.theta[self.used])
        self.design = Design(root[:, None] * phi, np.zeros(phi.shape[1]), True)

    def _features(self, X):
        return np.column_stack([np.ones(len(X)), X])[:, self.used]

    def scores(self, X):
        return self.theta[0] + X @ self.theta[1:]

    def score_gradients(self, X):
        return np.tile(self.theta[1:], (len(X), 1))

    def deletions(self, X, of, method):
        queries = self.design.whiten(self._features(X))
        return LowRankDeletions(
            queries, self.design.U, self.residuals, self.rows, (len(X),), exact=False
        )


hf.register("family", Family((Positive,), PositiveCore))
# sphinx_gallery_thumbnail_path = "reproduction/notions.png"

# %%
# It forgets
# ----------
#
# The effect of erasing two rows, by the formula and by refitting.

from sklearn.datasets import load_diabetes

X, y = load_diabetes(return_X_y=True)
model = hf.erasable(Positive().fit(X, y), X, y)
effect = model.deletions(X[:5]).effect([7, 11])
refitted = model.scores(X[:5]) - model.without([7, 11]).scores(X[:5])
print(model)
print("predicted", effect.round(4))
print("refitted ", refitted.round(4))

# %%
# Everything else works
# ---------------------
#
# Recourse, searches, audits ask the model by name for what it can do, never for its class.

given = hf.find_recourse(model, X, target=150, overshoot=0.05)
plan = hf.search(model, given, target=150, max_deletions=3)
print(f"three rows break {plan.rerun()[3]:.0%} of {len(plan.points)} promises, refitted")

# %%
# Recourse methods, searches, losses and mitigations are registered the same way: :func:`holdfast.register`,
# and :doc:`/project/contributing`.

"""Small models of smooth losses with everything that is refitted beside them."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import holdfast as hf

SMOOTH = ["plain", "balanced", "std", "minmax", "poisson", "std and balanced"]


def a_model(rng, kind, subjects=False):
    """One of 60 rows with heavy tails, of some 35 people where there are subjects."""
    n, d = 60, 3
    X = rng.standard_t(3, size=(n, d))
    z = X @ rng.normal(size=d) * 0.5
    y = (z + rng.logistic(size=n) > 0).astype(int)
    logistic = {"tol": 1e-10, "max_iter": 10_000}
    made = {
        "plain": LogisticRegression(C=0.5, **logistic),
        "balanced": LogisticRegression(C=0.5, class_weight="balanced", **logistic),
        "std": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, **logistic)),
        "minmax": make_pipeline(MinMaxScaler(), LogisticRegression(C=0.3, **logistic)),
        "poisson": PoissonRegressor(alpha=0.3, tol=1e-10, max_iter=10_000),
        "std and balanced": make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", **logistic)
        ),
    }[kind]
    if kind == "poisson":
        y = rng.poisson(np.exp(0.3 * z)).astype(float)
    people = rng.integers(0, 45, size=n).astype(str) if subjects else None
    return hf.erasable(made.fit(X, y), X, y, subjects=people)

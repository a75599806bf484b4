"""A small table of numbers, whole numbers, text and one-hot columns, and models fitted on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf

JOBS = ("none", "part", "full")
PLACES = ["lives_city", "lives_town", "lives_land"]


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.choice(JOBS, size=n)
    place = rng.integers(3, size=n)
    frame = pd.DataFrame(
        {
            "income": rng.gamma(4, 500, size=n).round(2),
            "savings": rng.normal(10, 3, size=n),
            "cards": rng.integers(0, 8, size=n),
            "age": rng.integers(18, 80, size=n),
            "job": job,
            **{name: (place == k).astype(float) for k, name in enumerate(PLACES)},
        },
        index=[f"p{i}" for i in range(n)],
    )
    signal = (
        frame["income"] / 1000
        + 0.4 * (frame["savings"] - 10)
        - 0.3 * frame["cards"]
        + 0.02 * frame["age"]
        + np.select([job == "full", job == "part"], [1.0, 0.3], 0.0)
        + 0.5 * frame["lives_city"]
        + 0.3 * np.sin(frame["savings"])
        + rng.normal(size=n) * 0.3
    )
    return frame, signal.to_numpy()


def _front():
    numbers = StandardScaler(), ["income", "savings", "cards", "age"]
    return make_column_transformer(
        numbers, (OneHotEncoder(sparse_output=False), ["job"]), ("passthrough", PLACES)
    )


def models(X, y):
    """One model of every kind, behind the same pipeline: (fitted, labels)."""
    good = (y > np.median(y)).astype(int)
    network = MLPClassifier(
        (6,), activation="tanh", solver="lbfgs", alpha=5.0, max_iter=5000, tol=1e-9, random_state=0
    )
    return {
        "linear": (LinearRegression(), y),
        "logistic": (LogisticRegression(tol=1e-8, max_iter=500), good),
        "ntk": (hf.NTKRegressor(beta=2.0), y),
        "lssvm": (hf.LSSVMClassifier(gamma=0.2), good),
        "network": (network, good),
        "forest": (RandomForestClassifier(40, min_samples_leaf=5, random_state=0), good),
    }


def fitted(kind, X, y):
    estimator, labels = models(X, y)[kind]
    return hf.erasable(make_pipeline(_front(), estimator).fit(X, labels), X, labels)


def plain(seed=0):
    """The same people with every column a number, in typical units."""
    X, y = table(120, seed)
    jobs = pd.DataFrame({f"job_{j}": (X["job"] == j).astype(float) for j in JOBS})
    X = pd.concat([X.drop(columns="job"), jobs], axis=1)
    return X.assign(income=X["income"] / 1000, age=X["age"] / 10), y


RULES = {
    "features": {
        "income": {"direction": "up", "range": [0, 9000], "step": 50},
        "savings": {"range": [0, 30]},
        "cards": {"integer": True, "range": [0, 10]},
        "age": "frozen",
        "job": {"allowed": ["part", "full"]},
    },
    "one_hot": {"lives": PLACES},
    "links": [{"when": "job=full", "then": "income", "by": 100}],
}

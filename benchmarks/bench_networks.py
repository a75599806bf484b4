"""Networks on HELOC: predicted effects against warm refits, and what new seeds alone break.

``python benchmarks/bench_networks.py two`` (two hidden layers, the full Hessian) or ``large``
(97,501 parameters, conjugate gradients). Needs torch, and HOLDFAST_DATA. Times are of one thread.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.models.refits import Refits, shares_broken
from holdfast.shared_state import quiet

torch.set_num_threads(1)


def heloc(n):
    """Training rows and labels, queries, and rows held out; good risk is above the median."""
    data = hf.load_dataset("heloc")
    X = StandardScaler().fit_transform(np.nan_to_num(data.X.to_numpy(float)))
    y = (np.asarray(data.y) > np.median(data.y)).astype(int)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    return X[:n], y[:n], X[8000:8200], (X[8200:], y[8200:])


def module(units, activation, d=22):
    parts, width = [], d
    for wide in units:
        parts += [torch.nn.Linear(width, wide), activation()]
        width = wide
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 1))


def compared(model, deletions, queries, sets):
    """The correlation of predicted and refitted effects, and seconds of each."""
    start = time.perf_counter()
    predicted = np.array([deletions.effect(rows) for rows in sets])
    middle = time.perf_counter()
    before = model.scores(queries)
    true = np.array([before - model.without(rows).scores(queries) for rows in sets])
    end = time.perf_counter()
    r = np.corrcoef(predicted.ravel(), true.ravel())[0, 1]
    return r, (middle - start) / len(sets), (end - middle) / len(sets)


def kinds_of_sets(deletions, n, rng, few):
    """Random rows and sets, and those of the rows the formula says do most."""
    order = np.argsort(-np.abs(deletions.single_effects()).max(axis=0))
    return {
        "single rows": [[i] for i in rng.choice(n, few, replace=False)],
        "sets of 5": [rng.choice(n, 5, replace=False) for _ in range(few)],
        "the rows that do most": [[i] for i in order[: few // 2]],
        "5 of the 50 that do most": [
            rng.choice(order[:50], 5, replace=False) for _ in range(few // 2)
        ],
    }


def shown(name, estimator, n, few, draws):
    train, labels, queries, (held, truth) = heloc(n)
    start = time.perf_counter()
    with quiet:
        estimator.fit(train, labels)
        model = hf.erasable(estimator, train, labels)
    able = model.can.predicts
    took = time.perf_counter() - start
    print(f"\n{name}: {model.core.problem.size:,} parameters, {n:,} rows")
    print(
        f"  fitted and polished in {took:.0f} s, drift {model.drift:.1e}, AUC held out "
        f"{roc_auc_score(truth, model.scores(held)):.3f}; {model.algebra}"
    )
    if not able:
        print(f"  {model.can.why_not}")
        return
    deletions = model.deletions(queries)
    for what, sets in kinds_of_sets(deletions, n, np.random.default_rng(1), few).items():
        r, effect, refit = compared(model, deletions, queries, sets)
        print(f"  {what}: r = {r:.4f}; effect {effect:.2f} s, warm refit {refit:.1f} s", flush=True)
    if draws:
        people = train[model.scores(train) < 0][:50]
        given = hf.find_recourse(model, people, target=0.0, overshoot=0.01, random_state=0)
        fresh = Refits(model, given.points[given.valid]).reseeded(np.random.default_rng(2), draws)
        print(
            f"  new seeds alone break {shares_broken(fresh, 0.0).mean():.0%} ({draws} cold refits)"
        )


def two():
    for activation, l2 in ((torch.nn.Sigmoid, 30.0), (torch.nn.Tanh, 30.0)):
        net = hf.TorchClassifier(module((20, 10), activation), l2=l2, max_iter=3000)
        shown(f"torch, 20 and 10 {activation.__name__} units, l2 = {l2:g}", net, 2000, 6, 3)
    net = MLPClassifier(
        (20, 10), activation="logistic", alpha=30, solver="lbfgs", max_iter=3000, tol=1e-7,
        random_state=0,
    )  # fmt: skip
    shown("scikit-learn, 20 and 10 logistic units, alpha = 30", net, 2000, 6, 3)


def large():
    net = hf.TorchClassifier(module((300, 300), torch.nn.Tanh), l2=20.0)
    shown("torch, 300 and 300 Tanh units, l2 = 20", net, 1000, 4, 0)


if __name__ == "__main__":
    {"two": two, "large": large}[sys.argv[1]]()

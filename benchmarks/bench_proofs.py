"""What certificates cost and how tight they are, beside cruder bounds. Run by `make bench`.

python benchmarks/bench_proofs.py            least squares
python benchmarks/bench_proofs.py logistic   logistic regression, real tables where they are
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import holdfast as hf
from real_tables import split

N, D, Q, MOST = 8_000, 23, 1_000, 14


def data(kind, rng):
    if kind == "skewed":
        rare = (rng.random((N, 8)) < [0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01]).astype(float)
        X = np.c_[rng.exponential(size=(N, D - 8)), rare]
    else:
        X = rng.normal(size=(N, D)) if kind == "gaussian" else rng.standard_t(3, size=(N, D))
    noise = rng.normal(size=N) if kind == "gaussian" else rng.standard_t(3, size=N)
    return X, X @ rng.normal(size=D) + 2.0 * noise


def timed(call, *arguments, **options):
    start = time.perf_counter()
    made = call(*arguments, **options)
    return time.perf_counter() - start, made


def survives(values, margins):
    """The largest k up to which a bound for every k = 1 … M stays within the margin."""
    fine = values <= margins[:, None]
    return np.where(fine.all(axis=1), values.shape[1], np.argmin(fine, axis=1))


def cruder(model, points, margins):
    """Certified k by the leverage bound and by the norm bound (one row), and AMIP's estimate."""
    deletions = model.deletions(points)
    r, h = deletions.residuals, 1.0 - deletions.diagonal
    lengths = np.linalg.norm(deletions.queries, axis=1)
    H, R = (np.cumsum(np.sort(v)[::-1][:MOST]) for v in (h, r**2))
    leverage = lengths[:, None] * np.sqrt(H * R) / (1.0 - H)
    singles = np.linalg.norm(
        model.core.design.T @ (deletions.factor * (r / (1 - h))[:, None]).T, axis=0
    )
    norm = np.linalg.norm(np.c_[np.ones(len(points)), points], axis=1) * singles.max()
    linear = deletions.dense() * r
    amip = np.cumsum(-np.sort(-np.maximum(linear, 0.0), axis=1)[:, :MOST], axis=1)
    return {
        "leverage bound": survives(leverage, margins),
        "paper's norm bound (k = 1)": survives(norm[:, None], margins),
        "AMIP (not a proof)": survives(amip, margins),
    }


def main():
    for kind in ("gaussian", "heavy-tailed", "skewed"):
        rng = np.random.default_rng(0)
        X, y = data(kind, rng)
        model = hf.erasable(LinearRegression(tol=0).fit(X, y), X, y)
        people, target = X[rng.choice(N, 3 * Q)] + 0.1 * rng.normal(size=(3 * Q, D)), 0.0
        target = float(np.median(y))
        for overshoot in (0.01, 0.05):
            below = people[model.scores(people) < target][:Q]
            given = hf.find_recourse(model, below, target=target, overshoot=overshoot, cost="l2")
            points = given.points.to_numpy()
            greedy = {"max_deletions": MOST, "method": "greedy-count", "threads": 1}
            hf.search(model, points, target, **greedy)
            hf.certify(model, points[:50], target, MOST)
            searching, _ = timed(hf.search, model, points, target, **greedy)
            took, proof = timed(hf.certify, model, points, target, MOST)
            ratio = (proof["attacked"] / (proof["certified"] + 1)).dropna().astype(float).mean()
            print(
                f"\n{kind}, overshoot {overshoot}: {took:.2f} s, {took / searching:.0f} times 14 "
                f"greedy steps; tight {proof.tight:.3f}, attacked/(certified + 1) {ratio:.4f}"
            )
            print(f"  certified k, mean: holdfast {proof['certified'].mean():.2f}", end="")
            for name, k in cruder(model, points, (given.score - target).to_numpy()).items():
                over = (
                    f", too much for {np.mean(k > proof['certified']):.1%}"
                    if "AMIP" in name
                    else ""
                )
                print(f" | {name} {k.mean():.2f}{over}", end="")
            print()


def skewed(rng, kind):
    """Classes that depend on features, with or without long tails and rare flags."""
    if kind == "Gaussian":
        X = rng.normal(size=(N, D))
    elif kind == "log-normal":
        X = np.c_[rng.lognormal(size=(N, 5)), rng.normal(size=(N, 15))]
    else:
        rare = rng.random((N, 8)) < [0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01]
        X = np.c_[rng.exponential(size=(N, D - 8)), rare]
    X = StandardScaler().fit_transform(X)
    z = 1.5 * X @ rng.normal(size=X.shape[1]) / np.sqrt(X.shape[1])
    return X, (z + rng.logistic(size=N) > 0).astype(int), X


def real(name):
    """A public table, its label made two classes at the median."""
    X, y, people, _ = split(name)
    X, people, y = np.asarray(X, float), np.asarray(people, float), np.asarray(y, float)
    return X, (y > np.median(y) if np.unique(y).size > 2 else y > 0).astype(int), people


def logistic():
    cases = {kind: lambda rng, kind=kind: skewed(rng, kind) for kind in ("Gaussian", "log-normal")}
    cases["with dummies"] = lambda rng: skewed(rng, "with dummies")
    cases |= {name: lambda rng, name=name: real(name) for name in ("heloc", "admission", "compas")}
    for name, pose in cases.items():
        try:
            X, y, people = pose(np.random.default_rng(0))
        except hf.HoldfastError as refusal:
            print(f"no {name}: {refusal}")
            continue
        model = hf.erasable(LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y), X, y)
        below = people[model.scores(people) < 0.0]
        hf.certify(model, X[model.scores(X) > 0.1][:3], 0.0, 2)  # what is compiled once
        for overshoot in (0.01, 0.05, 0.2):
            for many, most in ((Q, 5), (200, MOST)):
                options = {"target": 0.0, "overshoot": overshoot, "cost": "l2"}
                given = hf.find_recourse(model, below[:many], **options)
                took, proof = timed(hf.certify, model, given, 0.0, most)
                ratio = (proof["attacked"] / (proof["certified"] + 1)).dropna().astype(float)
                print(
                    f"{name}, overshoot {overshoot}, {len(proof)} recourses, k ≤ {most}: "
                    f"{took:.1f} s, tight {proof.tight:.3f}, attacked/(certified + 1) "
                    f"{ratio.mean():.4f} over {ratio.size}",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        logistic() if "logistic" in sys.argv else main()

"""Logistic regression beside least squares: searches and audits, as ratios within one run.

python benchmarks/bench_smooth.py            searches, and audits of HELOC where it is there
python benchmarks/bench_smooth.py pipelines  searches and certificates, preprocessing refitted
                                             beside preprocessing kept
python benchmarks/bench_smooth.py large      an audit of 100,000 rows beside one fit
"""

from __future__ import annotations

import os
import sys
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import holdfast as hf


def timed(work, *arguments, **options):
    start = time.perf_counter()
    found = work(*arguments, **options)
    return time.perf_counter() - start, found


def beside(slow, fast):
    return f"{slow:.2f} s beside {fast:.2f} s: {slow / fast:.2f} x"


def table(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{i}" for i in range(d)])
    z = X.to_numpy() @ rng.normal(size=d) / np.sqrt(d)
    return X, z + rng.normal(size=n), (z + 0.5 * rng.logistic(size=n) > 0).astype(int)


def promises(model, X, wanted):
    scores = model.scores(X)
    target = float(np.median(scores))
    return X[scores > target][:wanted], target


def searches():
    X, numbers, classes = table(8000, 23)
    Q = table(3000, 23, seed=1)[0]
    models = [
        hf.erasable(Ridge(1.0).fit(X, numbers), X, numbers),
        hf.erasable(LogisticRegression(tol=1e-8, max_iter=1000).fit(X, classes), X, classes),
    ]
    for method in ("greedy", "best"):
        times = []
        for model in models:
            points, target = promises(model, Q, 1000)
            hf.search(model, points, target, 2, method)  # what is compiled once
            times.append(timed(hf.search, model, points, target, 14, method)[0])
        print(f"{method}, logistic {beside(times[1], times[0])} ridge", flush=True)


def audits():
    try:
        data = hf.load_dataset("heloc")
    except hf.HoldfastError as refusal:
        print(f"no audits of HELOC: {refusal}")
        return
    X = data.X.fillna(data.X.median())
    good = (np.asarray(data.y) > np.median(data.y)).astype(int)
    times = []
    for final, y, target in (
        (Ridge(1.0), good.astype(float), 0.5),
        (LogisticRegression(tol=1e-8, max_iter=1000), good, 0.0),
    ):
        model = hf.erasable(make_pipeline(StandardScaler(), final).fit(X, y), X, y)
        given = hf.find_recourse(
            model, X[model.scores(X) < target][:1000], target=target, overshoot=0.05
        )
        times.append(timed(hf.audit, model, given, target, 14)[0])
    print(f"audit of HELOC, logistic {beside(times[1], times[0])} ridge")


def pipelines():
    for n in (1000, 5000):
        X, numbers, classes = table(n, 6)
        Q = table(2500, 6, seed=1)[0]
        for scaler in (StandardScaler(), MinMaxScaler(), RobustScaler()):
            for final, y in ((Ridge(1.0), numbers), (LogisticRegression(tol=1e-10), classes)):
                name = f"{n} rows, {type(scaler).__name__}, {type(final).__name__}"
                print(f"{name}: {_whole_beside_kept(make_pipeline(scaler, final), X, y, Q)}")


def _whole_beside_kept(pipeline, X, y, Q):
    pipeline.fit(X, y)
    models = [hf.erasable(pipeline, X, y) for _ in range(5)]  # nothing is remembered between them
    points, target = promises(models[0], Q, 1000)
    hf.search(models[0], points, target, 2)  # what is compiled once
    whole = timed(hf.search, models[1], points, target, 14)[0]
    kept = timed(hf.search, models[2].last_step, models[2].features(points), target, 14)[0]
    slow, proof = timed(hf.certify, models[3], points, target, 5)
    fast, other = timed(hf.certify, models[4], points, target, 5, preprocessing="kept")
    share = proof["certified"].sum() / max(other["certified"].sum(), 1)
    return f"search {beside(whole, kept)}; certify {beside(slow, fast)}, {share:.1%} as many"


def large():
    X, _, classes = table(100_000, 20)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fit = min(timed(pipeline.fit, X, classes)[0] for _ in range(3))
    model = hf.erasable(pipeline, X, classes)
    people = table(3000, 20, seed=1)[0]
    given = hf.find_recourse(model, people[model.scores(people) < 0][:1000], overshoot=0.05)
    print(f"audit of 100,000 rows {beside(timed(hf.audit, model, given)[0], fit)} one fit")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = {"pipelines": [pipelines], "large": [large]}.get(
        sys.argv[1] if len(sys.argv) > 1 else "", [searches, audits]
    )
    for part in chosen:
        part()

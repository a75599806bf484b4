"""Shards of linear models by their own algebra beside refits: a table of docs/sharded.md.

python benchmarks/bench_linear_shards.py

100 shards on HELOC's easier label, medians and scales inside; processor time, both sides in one
run: all single effects on 300 people, refits of the shards that 40 rows are in with what they then
say, and the largest difference from honest refits of the whole model.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf


def timed(run):
    """What it gives, and the processor time it takes."""
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def main() -> None:
    data = hf.load_dataset("heloc", "classification")
    train, test = data.split(random_state=0)
    X, y, asked = data.X.iloc[train], data.y[train], data.X.iloc[test][:300]
    rows = np.random.default_rng(0).choice(len(X), 40, replace=False)
    for last in (LogisticRegression(), Ridge(1.0), LinearRegression()):
        inside = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), last)
        if isinstance(last, LogisticRegression):
            fitted, good = hf.ShardedClassifier(inside, 100).fit(X, y), 1
        else:
            fitted, good = hf.ShardedRegressor(inside, 100, low=0, high=1).fit(X, y), "high"
        model = hf.erasable(fitted, X, y, favourable=good)
        _, theirs = timed(lambda fits=fitted: fits.parts(asked))
        before, ours = timed(lambda of=model: of.scores(asked))
        effects, all_of_them = timed(lambda of=model: of.deletions(asked).single_effects())
        _, refits = timed(
            lambda fits=fitted: [
                fits.part_says(fits.part_without(np.array([row]), X, y), asked) for row in rows
            ]
        )
        off = max(
            np.abs(before - model.without([row]).scores(asked) - effects[:, row]).max()
            for row in rows[:10]
        )
        each = refits / len(rows)
        print(
            f"{type(last).__name__}: a refit and its predictions {1000 * each:.1f} ms, all "
            f"{len(X)} effects {all_of_them:.2f} s, refits = {each * len(X) / all_of_them:.0f} x, "
            f"off by {off:.1e}; scores {1000 * theirs:.0f} ms by scikit-learn, {1000 * ours:.1f} "
            "ms by algebra",
            flush=True,
        )


if __name__ == "__main__":
    main()

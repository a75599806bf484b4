"""What one erasure does to boosting on HELOC under each policy, and what searches find per refit.

    HOLDFAST_DATA=… python benchmarks/boosting_as_it_is.py [effects] [searches]

One core, a quarter of an hour for both. Shares are of 200 recourses (growing spheres, target: even
odds).
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from xgboost import XGBClassifier

import holdfast as hf

RANDOM_ROWS = 12


def promised(estimator):
    """A model of 7,885 rows, and points promised to people among the others."""
    data = hf.load_dataset("heloc", task="classification")
    order = np.random.default_rng(0).permutation(len(data.X))
    train = np.sort(order[1975:])
    X, y = data.X.iloc[train], np.asarray(data.y)[train]
    fitted = estimator.fit(X, y)
    model = hf.erasable(fitted, X, y, favourable=data.favourable)
    people = data.X.iloc[order[:600]]
    given = hf.find_recourse(
        model, people, target=0.0, method="growing-spheres", actionability=data.actionability
    )
    return model, given.points[given.valid].iloc[:200]


def effects(name, estimator):
    """How far one random deletion moves scores, and whether leaves tell of refits."""
    model, points = promised(estimator)
    rows = np.random.default_rng(1).choice(model.rows.n, RANDOM_ROWS, replace=False)
    found = {}
    for update in ("refit", "bins", "leaves"):
        try:
            own = hf.erasable(model.estimator, model.X, model.y, favourable=1, update=update)
        except hf.UnsupportedModelError:
            continue
        scores = own.scores(points)
        drops = np.array([scores - own.without([row]).scores(points) for row in rows])
        found[update] = drops / own.score_unit
        moved, broken = np.abs(found[update]).mean(), np.mean(scores - drops < 0)
        print(f"{name:10} {update:7} moves {moved:.4f} deviations, breaks {broken:.1%}", flush=True)
    for update in ("bins", "leaves"):
        if update in found:
            r = np.corrcoef(found[update].ravel(), found["refit"].ravel())[0, 1]
            print(f"{name:10} {update:7} correlation with refits {r:+.2f}", flush=True)


def searches():
    """The share 14 erasures break, by the budget of refits and what ranks the candidates."""
    model, points = promised(LGBMClassifier(verbose=-1, n_jobs=1, random_state=0))
    for most in (14, 28, 56):
        for order, seeds in (("leaves", 1), ("kernel", 1), ("random", 3)):
            spent = {"surrogate": order, "max_refits": most}
            plans = [
                hf.search(model, points, 0.0, 14, "refit", random_state=seed, **spent)
                for seed in range(seeds)
            ]
            shares = [plan.predicted[-1] for plan in plans]
            print(f"{most:3} refits, {order:7} {np.round(shares, 3)}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asked = sys.argv[1:] or ["effects", "searches"]
    if "effects" in asked:
        effects("LightGBM", LGBMClassifier(verbose=-1, n_jobs=1))
        effects("XGBoost", XGBClassifier(n_jobs=1, max_depth=4))
        effects("histograms", HistGradientBoostingClassifier(random_state=0))
    if "searches" in asked:
        searches()

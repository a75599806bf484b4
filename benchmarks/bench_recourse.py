"""How long recourse takes, on one core, and beside dice-ml on the same model and people.

Ratios within one run mean something; seconds depend on the machine.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.recourse import METHODS

N, D, Q = 8_000, 20, 1_000


def data(rng):
    X = pd.DataFrame(rng.normal(size=(N, D)), columns=[f"x{k}" for k in range(D)])
    signal = X.to_numpy() @ rng.normal(size=D)
    y = signal + np.tanh(2 * X["x0"] * X["x1"]).to_numpy() + 0.5 * rng.normal(size=N)
    return X, y


def timed(call, *arguments, **options):
    start = time.perf_counter()
    made = call(*arguments, **options)
    return time.perf_counter() - start, made


def ours(X, y, people):
    good = (y > 0).astype(int)
    fitted = {
        "linear": (LinearRegression(tol=0), y),
        "logistic": (LogisticRegression(tol=1e-8), good),
        "ntk": (hf.NTKRegressor(beta=5.0), y),
    }
    print(f"\n{Q} people × {D} features, n = {N}, one core, set-up of the model not counted")
    print(
        f"{'model':10}{'method':18}{'seconds':>9}{'success':>9}{'mean cost':>11}{'overshoot':>11}"
    )
    for name, (estimator, labels) in fitted.items():
        model = hf.erasable(estimator.fit(X, labels), X, labels)
        below = people[model.scores(people) < 0][:Q]
        for method in METHODS:
            if method == "actionable" and name == "ntk":
                continue
            hf.find_recourse(model, below[:2], method, target=0.0)  # first calls load things
            took, found = timed(hf.find_recourse, model, below, method, target=0.0)
            print(
                f"{name:10}{method:18}{took:9.3f}{found.success:9.3f}{found.cost.mean():11.3f}"
                f"{found.overshoot_reached.median():11.4f}"
            )


def beside_dice_ml(X, y, people, q=15):
    """The same logistic regression, the same people, one recourse each."""
    try:
        import dice_ml
    except ImportError:
        print("\ndice-ml is not installed (make bench installs it): comparison skipped")
        return
    good = (y > 0).astype(int)
    estimator = LogisticRegression(tol=1e-8).fit(X, good)
    model = hf.erasable(estimator, X, good)
    below = people[model.scores(people) < 0][:q]
    hf.find_recourse(model, below[:2], overshoot=0.0)
    took, found = timed(hf.find_recourse, model, below, overshoot=0.0)
    table = dice_ml.Data(
        dataframe=X.assign(y=good), continuous_features=list(X.columns), outcome_name="y"
    )
    print(f"\nbeside dice-ml, logistic regression, {q} people, cost = ℓ1 weighted by 1/MAD")
    print(f"holdfast scfe     {took:9.4f} s   mean cost {found.cost.mean():7.3f}")
    for method in ("random", "genetic"):
        explainer = dice_ml.Dice(table, dice_ml.Model(model=estimator, backend="sklearn"), method)
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            theirs, answer = timed(
                explainer.generate_counterfactuals,
                below,
                total_CFs=1,
                desired_class=1,
                **({"random_seed": 0} if method == "random" else {}),
            )
        points = [one.final_cfs_df for one in answer.cf_examples_list]
        rows = [i for i, frame in enumerate(points) if frame is not None and len(frame)]
        reached = pd.concat([points[i].iloc[[0]] for i in rows])[list(X.columns)].astype(float)
        change = (reached.to_numpy() - below.iloc[rows].to_numpy()) * found.space.weight
        valid = model.scores(reached) >= 0
        cost = np.abs(change).sum(axis=1)[valid].mean()
        times, dearer = theirs / took, cost / found.cost.mean()
        print(f"dice-ml {method:9} {theirs:9.4f} s   mean cost {cost:7.3f}   ", end="")
        print(f"valid {int(valid.sum())}/{q}: {times:.0f}× our time, {dearer:.1f}× our cost")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = data(rng)
    people = pd.DataFrame(rng.normal(size=(4 * Q, D)), columns=X.columns)
    with threadpool_limits(1):
        ours(X, y, people)
        beside_dice_ml(X, y, people)

"""What hardening costs: certified margins against uniform overshoots, and the other mitigations.

    HOLDFAST_DATA=folder python benchmarks/bench_harden.py [margin | all | private] [data sets …]

``margin``: HELOC and Admission, linear, survive 3, and the time beside one certification of the
same people. ``all``: every mitigation on 300 people. ``private``: logistic regression on every data
set that can be had, the conjecture that differentially private training helps.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import holdfast as hf
from holdfast.audits.hardening.margin import margins
from real_tables import NAMES, split

pd.set_option("display.width", 200, "display.max_columns", 20, "display.max_colwidth", 30)


def margin(name: str, survive: int = 3) -> None:
    X, y, T, _ = split(name)
    target = float(np.median(y))

    def fresh():
        return hf.erasable(LinearRegression().fit(X, y), X, y)

    base = hf.find_recourse(fresh(), T, target=target, overshoot=0.0)
    print(f"\n{name}: {len(X)} rows, {X.shape[1]} features, {len(base)} people, survive {survive}")
    for overshoot in (0.05, 0.2):
        given = hf.find_recourse(fresh(), T, target=target, overshoot=overshoot)
        model = fresh()
        start = time.perf_counter()
        proof = hf.certify(model, given, target, survive)
        once = time.perf_counter() - start
        extra = (given.cost / base.cost - 1).median()
        share = (proof["certified"] >= survive).mean()
        print(f"  uniform {overshoot:4}: {share:6.1%} certified, {extra:6.1%} extra (median)")
    model = fresh()
    start = time.perf_counter()
    found = margins(model, T, target, survive)
    took = time.perf_counter() - start
    proof = hf.certify(fresh(), found.given, target, survive)
    share = (proof["certified"] >= survive).mean()
    extra = (found.given.cost / base.cost - 1).median()
    plan = hf.search(fresh(), found.given, target, survive)
    print(f"  margin      : {share:6.1%} certified, {extra:6.1%} extra (median)")
    print(f"  broken by the best attack of {survive}, refitted: {plan.rerun()[survive]:.1%}")
    print(f"  {took:.1f} s, one certification {once:.1f} s: {took / once:.1f} times")


def every(name: str) -> None:
    X, y, T, z = split(name)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    found = hf.harden(model, T[:300], float(np.median(y)), 3, holdout=(T, z), max_deletions=5)
    print(f"\n{name}, linear\n{found.table.drop(columns=['note', 'people']).round(3)}")
    print(found.recommendation)


def private(name: str) -> None:
    X, y, T, z = split(name)
    if len(np.unique(y)) > 2:
        y, z = (labels > np.median(y) for labels in (y, z))
    y, z = y.astype(int), z.astype(int)
    fitted = LogisticRegression(tol=1e-8, max_iter=10_000).fit(X, y)
    model = hf.erasable(fitted, X, y)
    few = np.mean(model.scores(T) < 0) < 0.3  # a stronger penalty would leave nobody below
    target = float(np.median(model.training_scores)) if few else 0.0
    wanted = ["honour", "regularise", "private"]
    found = hf.harden(
        model, T[:400], target, 3, holdout=(T, z), mitigations=wanted, max_deletions=5
    )
    print(f"\n{name}, logistic, target {target:.2f}")
    print(found.table.drop(columns=["note", "people", "proven"]).round(3))
    for each in found.made:
        if each.name == "private":
            print("  ", each.setting, each.note.split(". ")[-1])


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "margin"
    run, names = {
        "margin": (margin, ["heloc", "admission"]),
        "all": (every, ["heloc", "admission"]),
        "private": (private, list(NAMES)),
    }[what]
    for name in sys.argv[2:] or names:
        try:
            run(name)
        except (hf.HoldfastError, ImportError) as failure:
            print(f"{name}: left out, {failure}")

"""A default audit of German-credit-like data, against one fit of the same pipeline.

Ratios within one run: the audit's time over one fit's; default settings over the best of one and
two BLAS threads set by hand, on an idle machine and beside processes that keep every core busy; and
how often scikit-learn's solver is called. Each audit runs in a process of its own, once to warm up
and then measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

LEVELS = (4, 5, 10, 5, 5, 4, 3, 4, 3, 3, 4, 2, 2)


def table(n=1000, seed=0):
    """20 features, 13 of them text, and a label."""
    rng = np.random.default_rng(seed)
    columns, merit = {}, np.zeros(n)
    for j, levels in enumerate(LEVELS):
        codes = rng.choice(levels, n, p=rng.dirichlet(np.full(levels, 2.0)))
        merit += rng.normal(0, 0.6, levels)[codes]
        columns[f"c{j}"] = [f"A{j}{code}" for code in codes]
    columns |= {
        "duration": np.round(rng.gamma(3, 7, n) + 4),
        "amount": np.round(rng.lognormal(7.8, 0.8, n)),
        "rate": rng.integers(1, 5, n),
        "residence": rng.integers(1, 5, n),
        "age": np.round(rng.gamma(8, 3, n) + 18),
        "credits": rng.integers(1, 5, n),
        "dependents": rng.integers(1, 3, n),
    }
    merit += -0.03 * columns["duration"] - 0.0001 * columns["amount"] + 0.02 * columns["age"]
    good = merit + rng.logistic(size=n) > np.quantile(merit, 0.3)
    frame = pd.DataFrame(columns)
    frame.insert(0, "customer", [f"G-{i:04d}" for i in range(n)])
    return frame.assign(good=good.astype(int))


def measured(path):
    """Seconds of an audit and of one fit, and scikit-learn's fits during the audit."""
    from sklearn.linear_model import LogisticRegression

    from holdfast.cases.fitting import fit_kind, labels_for
    from holdfast.cases.loading import load_case
    from holdfast.cases.running import audit_case
    from holdfast.cases.settings import made

    settings = made({"train": path, "label": "good", "id": "customer", "model": "logistic"}, None)
    fits, original = 0, LogisticRegression.fit

    def counted(self, *arguments, **options):
        nonlocal fits
        fits += 1
        return original(self, *arguments, **options)

    LogisticRegression.fit = counted
    audit_case(settings, load_case(settings))  # compiled loops are loaded
    fits, start = 0, time.perf_counter()
    result = audit_case(settings, load_case(settings))
    seconds, during = time.perf_counter() - start, fits
    data = pd.read_csv(path)[:800]
    X, labels = data.drop(columns=["customer", "good"]), labels_for("logistic", data["good"], None)
    each = []
    for _ in range(15):
        start = time.perf_counter()
        fit_kind("logistic", X, labels)
        each.append(time.perf_counter() - start)
    return {
        "audit": seconds,
        "fit": float(np.median(each)),
        "fits": during,
        "solved": result.refits["solver"],
    }


def in_a_process(path, threads=None):
    """The same in a process of its own, with so many BLAS threads or as it comes."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if threads is not None:
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [sys.executable, __file__, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def rounds(path, many=3):
    """Default and by hand, several times in turn; the fastest of each counts."""
    found = {None: [], 1: [], 2: []}
    for _ in range(many):
        for threads in found:
            found[threads].append(in_a_process(path, threads))
    return {threads: min(runs, key=lambda run: run["audit"]) for threads, runs in found.items()}


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "german.csv"
        table().to_csv(path, index=False)
        for kind in ("idle machine", "every core kept busy by another process"):
            spin = [sys.executable, "-c", "while True: pass"]
            busy = [subprocess.Popen(spin) for _ in range(os.cpu_count() or 1)]
            if kind.startswith("idle"):
                for process in busy:
                    process.kill()
            try:
                runs = rounds(path)
            finally:
                for process in busy:
                    process.kill()
            default, by_hand = runs[None], min(runs[1]["audit"], runs[2]["audit"])
            print(f"{kind}:")
            print(f"  audit {default['audit']:.1f} s, one fit {default['fit'] * 1e3:.0f} ms")
            print(f"  audit over one fit: {default['audit'] / default['fit']:.0f} (at most 200)")
            print(
                f"  default over the best by hand: {default['audit'] / by_hand:.2f} (at most 1.3)"
            )
            print(
                f"  fits by scikit-learn: {default['fits']} (at most 60); by our own solver, "
                f"searches not counted: {default['solved']}"
            )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(Path(sys.argv[1]))))
    else:
        main()

"""For how many people recourse is found, with no constraints: the paper's data and models.

Where fewer than 100 held-out people score below the natural target (0.5), the median training
score is the target instead, marked *.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import holdfast as hf
from holdfast.paper.settings import REGRESSIONS
from holdfast.paper.setups import estimator
from real_tables import NAMES, split

METHODS = ("scfe", "dice", "cem", "growing-spheres", "dice-random")


def models(name, X, y):
    """Every model of the paper that fits the data set's task, its labels and its target."""
    regression = name in REGRESSIONS
    good = (y >= np.median(y)).astype(int) if regression else y
    for kind in ("linear", "ntk") if regression else ():
        yield kind, estimator(kind, name), y, float(np.median(y))
    for kind in ("logistic", "ls-svm", "ann"):
        yield kind, estimator(kind, name), good, 0.0


def main(wanted):
    print(f"{'data':11}{'model':10}{'people':>7}  " + "".join(f"{m:>24}" for m in METHODS))
    for name in wanted or NAMES:
        try:
            X, y, people, _ = split(name)
        except hf.HoldfastError as missing:
            print(f"{name:11}skipped: {missing}")
            continue
        for kind, fresh, labels, target in models(name, X, y):
            model = hf.erasable(fresh.fit(X, labels), X, labels)
            few = int(np.sum(model.scores(people) < target)) < 100
            at = float(np.median(model.training_scores)) if few else target
            cells = []
            for method in METHODS:
                start = time.perf_counter()
                found = hf.find_recourse(model, people, method, target=at)
                took = time.perf_counter() - start
                cells.append(f"{found.success:.3f} cost {found.cost.mean():5.1f} {took:5.1f}s")
            mark = "*" if few else " "
            print(
                f"{name:11}{kind:10}{len(found):7}{mark} " + "".join(f"{c:>24}" for c in cells),
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])

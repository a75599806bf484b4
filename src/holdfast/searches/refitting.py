"""Estimators without the algebra: candidates screened by a surrogate, leaders refitted.

The surrogate is kernel ridge regression on the same rows and labels, its scores matched to the
model's own; what it says of a deletion orders the candidates. Each step then refits the model
without each of the leaders in turn and keeps the worst. A boosting model also moves when nothing is
deleted but the seed or the order of the rows changes; :func:`restlessness` measures that, and a
broken recourse means little where it is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from holdfast.algebra.rows import Array, take
from holdfast.algebra.units import Units
from holdfast.arguments import positive_number
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.pipelines import refitted
from holdfast.searches.attack import Attack


def surrogate_attack(
    model: ErasableModel, points: Any, target: float, units: Units, kind: str = "kernel"
) -> Attack:
    """An attack on a linear or kernel stand-in for the model, margins in the model's own scores."""
    text = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (text, make_column_selector(dtype_exclude="number")),
    )
    # beyond a few thousand rows the kernel matrix costs more than the refits it saves
    use_kernel = kind == "kernel" and model.rows.n <= 6_000
    last = KernelRidge(kernel="rbf", alpha=1.0) if use_kernel else Ridge(1.0)
    X = pd.DataFrame(model.X)
    X.columns = X.columns.astype(str)
    labels = np.asarray(model.y, dtype=float) if model.rows.classes is None else model.rows.classes
    labels = model.core.sign * (labels - np.mean(labels))
    weights = model.sample_weight
    pipeline = make_pipeline(columns, last)
    step = pipeline.steps[-1][0]
    pipeline.fit(X, labels, **({} if weights is None else {f"{step}__sample_weight": weights}))
    stand_in = ErasableModel(pipeline, X, labels, sample_weight=weights)
    ours, theirs = model.scores(model.X), stand_in.scores(X)
    slope = float(np.cov(ours, theirs)[0, 1] / (np.var(theirs) or 1.0))
    slope = slope if slope > 0 else 1.0
    frame = pd.DataFrame(points)
    frame.columns = X.columns
    margins = (model.scores(points) - target) / slope
    return Attack(stand_in, frame, margins, units)


def refit_search(
    model: ErasableModel,
    points: Any,
    target: float,
    units: Units,
    budget: int,
    leaders: int = 4,
    surrogate: str = "kernel",
) -> tuple[list[list[int]], list[float]]:
    """Nested sets and the share each breaks, confirmed by ``budget × leaders`` refits."""
    positive_number("leaders", leaders)
    if surrogate not in ("kernel", "linear"):
        raise HoldfastError(f"surrogate must be 'kernel' or 'linear', got {surrogate!r}")
    attack = surrogate_attack(model, points, target, units, surrogate)
    chosen: list[int] = []
    sets, shares = [chosen], [0.0]
    for _ in range(budget):
        sweep = attack.sweep(chosen)
        tried = []
        for candidate in sweep.ranked(int(leaders)):
            rest = [*chosen, int(candidate)]
            scores = model.without(units.rows(rest)).scores(points)
            margin_left = float(np.maximum(scores - target, 0).sum())
            tried.append((float(np.mean(scores < target)), -margin_left, rest))
        if not tried:
            break
        share, _, chosen = max(tried, key=lambda t: t[:2])
        better = share >= shares[-1]
        sets.append(chosen if better else sets[-1])
        shares.append(share if better else shares[-1])
    return sets, shares


def restlessness(
    model: ErasableModel, points: Any, target: float, rng: Any, draws: int = 3
) -> Array:
    """Share broken when nothing is deleted but the seed and the order of the rows change."""
    shares = []
    for _ in range(draws):
        order = rng.permutation(model.rows.n)
        fresh = clone(model.estimator)
        seeds = [name for name in fresh.get_params() if name.split("__")[-1] == "random_state"]
        fresh.set_params(**{name: int(rng.integers(2**31)) for name in seeds})
        weights = None if model.sample_weight is None else model.sample_weight[order]
        X, y = take(model.X, order), model.y[order]
        fitted = refitted(fresh, model._queries(X, "X"), y, weights, refit_preprocessing=True)
        refit = ErasableModel(fitted, X, y, None, weights, model.favourable)
        shares.append(float(np.mean(refit.scores(points) < target)))
    return np.array(shares)

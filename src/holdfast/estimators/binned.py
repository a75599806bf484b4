"""Boosting fitted again in the bins of its first fit.

LightGBM and XGBoost sort every column into bins before they grow trees. Both let a new data set
take its borders from another one (``Dataset(reference=…)``, ``QuantileDMatrix(ref=…)``), so a fit
without some rows differs by what the rows did to the trees, not by borders that moved. The borders
are those of all rows: they still remember the erased ones a little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.utils import compute_sample_weight

from holdfast.errors import UnsupportedModelError
from holdfast.estimators.boosted import Array, library_of
from holdfast.estimators.steady import STEADY

#: ``(Z, y, weights, seed)`` → what scores features: log-odds of the second class, or predictions
Bins = Callable[[Any, Array, Array | None, int | None], Callable[[Any], Array]]

_WHY_NOT = {
    "stagewise": "it looks at every value and has no bins",
    "sklearn": "scikit-learn finds its bins inside fit, and has no public way to hand them in",
    "catboost": (
        "CatBoost takes borders only from a file on disk, and borders are values of training rows"
    ),
}


def binned(fitted: Any, Z: Any, y: Array, weights: Array | None) -> Bins:
    """The bins of a fitted boosting model, found again from its training rows.

    Raises
    ------
    UnsupportedModelError
        If the library does not let them be kept; the message says why.
    """
    library = library_of(fitted)
    if type(fitted) in (GradientBoostingClassifier, GradientBoostingRegressor):
        library = "stagewise"
    make = {"lightgbm": _lightgbm, "xgboost": _xgboost}.get(str(library))
    if make is None:
        why = _WHY_NOT.get(str(library), "it has none that are known here")
        raise UnsupportedModelError(
            f"the bins of a {type(fitted).__name__} cannot be kept: {why}. What works: refits "
            "(update='refit'); bins of LightGBM's and XGBoost's estimators"
        )
    return make(fitted, Z, y, weights)


def _weighted(fitted: Any, y: Array, weights: Array | None) -> Array | None:
    """Row weights, those of the classes included."""
    if getattr(fitted, "class_weight", None) is None:
        return weights
    by_class: Array = compute_sample_weight(fitted.class_weight, y)
    return by_class if weights is None else by_class * weights


def _lightgbm(fitted: Any, Z: Any, y: Array, weights: Array | None) -> Bins:
    import lightgbm

    rounds = fitted.best_iteration_ or fitted.n_estimators_
    told = {**fitted.booster_.params, **STEADY["lightgbm"], "num_threads": 1}
    for alias in ("n_jobs", "verbose"):
        told.pop(alias, None)
    told["verbosity"] = -1
    reference = lightgbm.Dataset(
        Z, y, weight=_weighted(fitted, y, weights), params=told, free_raw_data=True
    ).construct()

    def fit(Z: Any, y: Array, weights: Array | None, seed: int | None) -> Any:
        own = dict(told)
        if seed is not None:
            own = {name: value for name, value in own.items() if name != "random_state"}
            own["seed"] = seed
        data = lightgbm.Dataset(
            Z, y, weight=_weighted(fitted, y, weights), params=own, reference=reference
        )
        booster = lightgbm.train(own, data, num_boost_round=rounds)
        return lambda Q: np.asarray(booster.predict(Q, raw_score=True), dtype=float)

    return fit


def _xgboost(fitted: Any, Z: Any, y: Array, weights: Array | None) -> Bins:
    import xgboost

    method = fitted.get_params().get("tree_method")
    if method not in (None, "auto", "hist"):
        raise UnsupportedModelError(
            f"tree_method={method!r} keeps no bins from one tree to the next: only 'hist' does"
        )
    told = {**fitted.get_xgb_params(), **STEADY["xgboost"]}
    bins = told.get("max_bin") or 256
    best = fitted.get_booster().attr("best_iteration")
    rounds = fitted.get_num_boosting_rounds() if best is None else int(best) + 1
    reference = xgboost.QuantileDMatrix(Z, y, weight=weights, max_bin=bins, nthread=1)

    def fit(Z: Any, y: Array, weights: Array | None, seed: int | None) -> Any:
        own = told if seed is None else {**told, "random_state": seed}
        data = xgboost.QuantileDMatrix(Z, y, weight=weights, max_bin=bins, ref=reference, nthread=1)
        booster = xgboost.train(own, data, num_boost_round=rounds)
        return lambda Q: booster.predict(xgboost.DMatrix(Q, nthread=1), output_margin=True).astype(
            float
        )

    return fit

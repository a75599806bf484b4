"""Boosting libraries told to measure the deletion and not the machine.

With several threads, and where the library picks its own way through the rows by trying both, the
same rows give sums that differ in their last digits, and near ties the trees that follow. A refit
is made on one thread, in one fixed way. None of this is a choice of the model: with nobody erased
the scores are the same to rounding.
"""

from __future__ import annotations

from typing import Any

from holdfast.estimators.boosted import library_of

#: what a refit is told beyond the estimator's own parameters, by library
STEADY: dict[str, dict[str, Any]] = {
    "lightgbm": {"n_jobs": 1, "deterministic": True, "force_row_wise": True, "verbose": -1},
    "xgboost": {"n_jobs": 1},
    "catboost": {"thread_count": 1, "allow_writing_files": False, "verbose": False},
}

#: parameters by which somebody said already how much is to be shown
_TOLD = ("verbose", "verbosity", "silent", "logging_level", "verbose_eval")


def steadied(estimator: Any, fitted: Any = None) -> Any:
    """An unfitted estimator, on one thread and in one fixed way where its library has several.

    ``fitted``: the fit it is a clone of. Where that was stopped early by rows which are not
    training rows, and so are not here, its number of trees is kept.

    Examples
    --------
    >>> from holdfast.estimators.steady import steadied
    >>> from xgboost import XGBClassifier
    >>> steadied(XGBClassifier(n_jobs=8)).n_jobs
    1
    """
    library = str(library_of(estimator))
    told = dict(STEADY.get(library, {}))
    own = {name: value for name, value in estimator.get_params().items() if value is not None}
    if own.get("force_col_wise"):
        told.pop("force_row_wise")
    if any(name in own for name in _TOLD):
        told.pop("verbose", None)
    told |= _trees_kept(library, fitted)
    return estimator.set_params(**told) if told else estimator


def _trees_kept(library: str, fitted: Any) -> dict[str, Any]:
    """How many trees an early stop has left, as parameters."""
    if library == "lightgbm" and (getattr(fitted, "_best_iteration", 0) or 0) > 0:
        return {"n_estimators": fitted.best_iteration_}
    if library == "xgboost" and fitted is not None and fitted.__sklearn_is_fitted__():
        best = fitted.get_booster().attr("best_iteration")
        if best is not None:
            return {"n_estimators": int(best) + 1, "early_stopping_rounds": None}
    return {}

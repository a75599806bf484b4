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
    "lightgbm": {"n_jobs": 1, "deterministic": True, "force_row_wise": True},
    "xgboost": {"n_jobs": 1},
    "catboost": {"thread_count": 1, "allow_writing_files": False, "verbose": False},
}


def steadied(estimator: Any) -> Any:
    """An unfitted estimator, on one thread and in one fixed way where its library has several.

    Examples
    --------
    >>> from holdfast.estimators.steady import steadied
    >>> from lightgbm import LGBMClassifier
    >>> steadied(LGBMClassifier(n_jobs=8)).n_jobs
    1
    """
    told = dict(STEADY.get(str(library_of(estimator)), {}))
    own = estimator.get_params()
    if own.get("force_col_wise"):
        told.pop("force_row_wise", None)
    if not set(own).isdisjoint(("verbose", "silent", "logging_level", "verbose_eval")) and not (
        own.get("verbose") is None and "verbose" in own
    ):
        told.pop("verbose", None)  # it is told already how much to say
    return estimator.set_params(**told) if told else estimator

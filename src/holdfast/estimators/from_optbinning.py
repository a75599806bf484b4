"""optbinning's scorecards as pipelines: bins, weights of evidence, and the estimator behind them.

A scorecard is linear in its bins. ``hf.erasable(scorecard, X, y)`` takes it apart; refits bin anew,
by optbinning itself, which is needed for that only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline


class Binned(TransformerMixin, BaseEstimator):
    """A binning process that scikit-learn can tell is fitted.

    Parameters
    ----------
    process : optbinning.BinningProcess
    """

    def __init__(self, process: Any):
        self.process = process

    def fit(self, X: Any, y: Any) -> Any:
        """Bin anew."""
        self.process_ = clone(self.process).fit(X, y)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Weights of evidence, or whatever metric the process has."""
        return np.asarray(self.process_.transform(X), dtype=float)


def is_scorecard(fitted: Any) -> bool:
    """Whether something is a fitted scorecard."""
    ours = type(fitted).__module__.startswith("optbinning.")
    return ours and hasattr(fitted, "binning_process_") and hasattr(fitted, "estimator_")


def of_scorecard(scorecard: Any) -> Pipeline:
    """A fitted scorecard as a pipeline."""
    binned = Binned(scorecard.binning_process)
    binned.process_ = scorecard.binning_process_
    binned.n_features_in_ = len(scorecard.binning_process_.variable_names)
    binned.feature_names_in_ = np.asarray(scorecard.binning_process_.variable_names, dtype=object)
    return Pipeline([("binning", binned), ("estimator", scorecard.estimator_)])

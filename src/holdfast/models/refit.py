"""Any other estimator that can be cloned and refitted: scores and honest refits, no algebra."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, TrainingRows
from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.estimators.policies import trees_of
from holdfast.models.core import Capabilities, Core
from holdfast.models.pipelines import seeds_of

#: probabilities are kept this far from 0 and 1, so that log-odds stay finite (±13.8)
CLIP = 1e-6


class RefitCore(Core):
    """Gradient boosting, forests, calibrated classifiers: whatever has ``fit`` and ``predict``.

    The score is the clipped log-odds of the favourable class where there are probabilities, the
    decision value where there is only that, the prediction for regressors.
    """

    def __init__(self, estimator: Any, rows: TrainingRows, sign: int, reason: str | None = None):
        self.estimator, self.rows, self.sign = estimator, rows, sign
        self._reason = reason or "what a deletion does to it is only known by refitting"

    @property
    def can(self) -> Capabilities:
        return Capabilities(
            why_not=self._reason,
            gradients=False,
            refit="training",
            draws=bool(seeds_of(self.estimator)),
            leaves=self._trees is not None,
            keeps=getattr(self.estimator, "keeps", ""),
        )

    def scores(self, X: Any) -> Array:
        """Scores of raw rows, as the estimator itself takes them."""
        try:
            scores = self._scores(X)
        except HoldfastError:
            raise
        except Exception as refusal:  # whatever the estimator does
            raise HoldfastError(
                f"{type(self.estimator).__name__} does not accept these rows: {refusal}"
            ) from refusal
        if scores.ndim != 1:
            raise UnsupportedModelError(
                f"{type(self.estimator).__name__} predicts {scores.shape[1]} targets; one is "
                "supported"
            )
        return scores

    @cached_property
    def _trees(self) -> Any:
        """The trees and what they are shown, where it is known how their leaf values came about."""
        try:
            return trees_of(self.estimator)
        except UnsupportedModelError:
            return None

    def leaf_pulls(self, Q: Any, X: Any, y: Array, weights: Array) -> Array:
        """How far each training row alone lifts each point's score by shared leaves, (q, n)."""
        trees, shown = self._trees
        y = np.asarray(y if self.rows.classes is None else self.rows.classes, dtype=float)
        lifts: Array = trees.pulls(trees.leaves(shown(X)), y, weights, trees.leaves(shown(Q)))
        return self.sign * lifts

    def _scores(self, X: Any) -> Array:
        if self.rows.classes is None:
            return self.sign * _flat(np.asarray(self.estimator.predict(X), dtype=float))
        if hasattr(self.estimator, "predict_proba"):
            column = 1 if self.sign > 0 else 0
            p = np.asarray(self.estimator.predict_proba(X), dtype=float)[:, column]
            p = np.clip(p, CLIP, 1.0 - CLIP)
            return np.log(p) - np.log1p(-p)
        if hasattr(self.estimator, "decision_function"):
            return self.sign * np.asarray(self.estimator.decision_function(X), dtype=float)
        raise UnsupportedModelError(
            f"{type(self.estimator).__name__} gives neither probabilities nor decision values "
            "(a VotingClassifier does with voting='soft')"
        )


def _flat(predictions: Array) -> Array:
    """(q, 1) as (q,): some regressors answer a column where the labels were one."""
    return predictions[:, 0] if predictions.ndim == 2 and predictions.shape[1] == 1 else predictions

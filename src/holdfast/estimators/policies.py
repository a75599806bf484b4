"""Updates that keep a part of a boosting model: its trees' structure, or the borders of its bins.

They are estimators like any other, with one difference: a clone keeps what the policy keeps. What
comes before the model in a pipeline belongs to that, since thresholds and borders are in its units.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.pipeline import Pipeline

from holdfast.errors import HoldfastError, UnsupportedModelError
from holdfast.estimators.binned import binned
from holdfast.estimators.boosted import Array, Boosted, boosted, library_scores

#: policies by name
UPDATES = ("refit", "leaves", "bins")

#: how far recomputed scores may be from the fitted ones, in their deviations: 32 bits are less
SAME = 1e-5


def under_policy(fitted: Any, X: Any, y: Any, sample_weight: Any, update: str) -> Any:
    """A fitted estimator whose refits keep what the policy keeps.

    Raises
    ------
    HoldfastError
        For an unknown policy, or one that this estimator cannot follow; the message says why.
    """
    if update not in UPDATES:
        raise HoldfastError(
            f"update must be one of {', '.join(map(repr, UPDATES))}, got {update!r}"
        )
    if update == "refit":
        return fitted
    last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    if update == "leaves":
        made: Any = KeptLeavesClassifier if is_classifier(last) else KeptLeavesRegressor
        kept = made(fitted)
        kept.trees_ = boosted(last)
        kept.fit(X, y, sample_weight)
        _refuse_others(kept, X, last)
        return kept
    made = KeptBinsClassifier if is_classifier(last) else KeptBinsRegressor
    kept = made(fitted)
    kept.bins_ = binned(last, _before(fitted, X), kept._coded(y), sample_weight)
    _refuse_others(kept.fit(X, y, sample_weight), X, last)
    return kept


def trees_of(estimator: Any) -> tuple[Boosted, Any]:
    """The trees behind a boosting model, a pipeline or a policy, and what they are shown of X.

    Raises
    ------
    UnsupportedModelError
        If there are none whose leaf values are known; the message says why.
    """
    whole = estimator.estimator if isinstance(estimator, _Policy) else estimator
    last = whole.steps[-1][1] if isinstance(whole, Pipeline) else whole
    return boosted(last), lambda X: _before(whole, X)


def _before(fitted: Any, X: Any) -> Any:
    """What the last step sees."""
    if isinstance(fitted, Pipeline) and len(fitted.steps) > 1:
        return fitted[:-1].transform(X)
    return X


def _refuse_others(kept: Any, X: Any, last: Any) -> None:
    """Refuse a model whose fitted scores do not come out again with nobody erased."""
    fitted, again = kept.first_values(X), kept.decision_values(X)
    far = float(np.abs(again - fitted).max())
    unit = float(np.std(fitted)) or 1.0
    if not far <= SAME * unit:
        raise UnsupportedModelError(
            f"a {type(last).__name__} cannot follow {kept.policy}: with nobody erased, that gives "
            f"scores up to {far / unit:.2g} deviations from the fitted ones. Either X, y and the "
            "weights are not those of the fit, or an option of it does what is not known here. "
            "What works: refits (update='refit')"
        )


class _Policy(BaseEstimator):
    """An estimator around a fitted one, which its clones share."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @property
    def _last(self) -> Any:
        return (
            self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator
        )

    @property
    def n_features_in_(self) -> int:
        """How many columns it takes."""
        return int(self.estimator.n_features_in_)

    def __getattr__(self, name: str) -> Any:
        # the columns' names and the classes are those of the first fit, where it has them
        if name in ("feature_names_in_", "classes_") and "estimator" in self.__dict__:
            return getattr(self.estimator, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Its own parameters: those inside belong to the first fit, and are never set."""
        found: dict[str, Any] = super().get_params(deep=False)
        return found

    def first_values(self, X: Any) -> Array:
        """What :meth:`decision_values` was at the first fit, by the library itself (n,)."""
        return library_scores(self._last, _before(self.estimator, X))

    @property
    def inside(self) -> Any:
        """The boosting model itself."""
        return self._last

    def decision_values(self, X: Any) -> Array:
        """Log-odds of the second class, or the prediction (n,)."""
        raise NotImplementedError

    def _coded(self, y: Any) -> Any:
        """Labels as numbers."""
        if not is_classifier(self._last):
            return np.asarray(y, dtype=float)
        return (np.asarray(y) == np.asarray(self._last.classes_)[1]).astype(float)


class _Classifies(ClassifierMixin):
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of both classes (n, 2)."""
        p = expit(self.decision_values(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> Any:
        """The likelier class (n,)."""
        return np.asarray(self.classes_)[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]


class _Predicts(RegressorMixin):
    def predict(self, X: Any) -> Array:
        """Predictions (n,)."""
        found: Array = self.decision_values(X)
        return found


class _KeptLeaves(_Policy):
    """Fitting computes the leaf values again, tree by tree; the trees stay as they are."""

    policy = "update='leaves'"
    keeps = (
        "the trees' structure is kept and still remembers the erased row: only leaf values are "
        "computed again (update='leaves')"
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Leaf values for these rows."""
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        leaves = self._trees.leaves(_before(self.estimator, X))
        self.start_, self.values_ = self._trees.values_for(leaves, self._coded(y), weights)
        return self

    @property
    def _trees(self) -> Boosted:
        if "trees_" not in self.__dict__:  # restored from a file
            self.trees_ = boosted(self._last)
        return self.trees_

    def __sklearn_clone__(self) -> Any:
        made = type(self)(self.estimator)
        made.trees_ = self._trees
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "trees_"}

    def decision_values(self, X: Any) -> Array:
        leaves = self._trees.leaves(_before(self.estimator, X))
        return self._trees.scored(leaves, self.start_, self.values_)


class KeptLeavesClassifier(_Classifies, _KeptLeaves):
    """A boosting classifier that is updated by its leaf values alone."""


class KeptLeavesRegressor(_Predicts, _KeptLeaves):
    """A boosting regressor that is updated by its leaf values alone."""


class _KeptBins(_Policy):
    """Fitting grows new trees, in the bins of the first fit."""

    policy = "update='bins'"
    keeps = (
        "the bins are those of the first fit, and their borders still remember the erased row a "
        "little (update='bins')"
    )

    def __init__(self, estimator: Any, random_state: int | None = None):
        super().__init__(estimator)
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """New trees for these rows."""
        Z = _before(self.estimator, X)
        self.raw_ = self.bins_(Z, self._coded(y), sample_weight, self.random_state)
        return self

    def __getstate__(self) -> dict[str, Any]:
        raise HoldfastError(
            "a model updated in the bins of its first fit cannot be saved: they belong to rows "
            "that were erased. Refit it (update='refit') and save that"
        )

    def __sklearn_clone__(self) -> Any:
        made = type(self)(self.estimator, self.random_state)
        made.bins_ = self.bins_
        return made

    def decision_values(self, X: Any) -> Array:
        found: Array = self.raw_(_before(self.estimator, X))
        return found


class KeptBinsClassifier(_Classifies, _KeptBins):
    """A boosting classifier refitted in the bins of its first fit."""


class KeptBinsRegressor(_Predicts, _KeptBins):
    """A boosting regressor refitted in the bins of its first fit."""

"""An ensemble that forgets: every person is in one shard, and each shard knows nobody else."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from holdfast.algebra.rows import Array, Positions, TrainingRows, as_text, take
from holdfast.algebra.threads import one_thread
from holdfast.arguments import finite_number, whole_number
from holdfast.errors import HoldfastError
from holdfast.estimators.keyed import key_states, keys_of
from holdfast.estimators.largest_fall import largest_fall
from holdfast.estimators.steady import steadied
from holdfast.estimators.unchecked import unchecked

#: what an empty shard of a classifier answers
_NOBODY = 0.5


class _Sharded(MetaEstimatorMixin, BaseEstimator, ABC):
    """What both have in common: who is in which shard, and a fit for each.

    A subclass says what one shard answers.
    """

    estimator: Any
    shards: int
    random_state: Any
    n_jobs: int | None

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> Self:
        n = len(X)
        if _num_samples(y) != n:
            raise HoldfastError(f"X has {n} rows and y has {_num_samples(y)} labels")
        whole_number("shards", self.shards)
        keys = keys_of(X, groups, n)
        people = len(pd.unique(keys))
        if people < self.shards:
            raise HoldfastError(
                f"{people} people or rows (n_samples={n}) cannot fill {self.shards} "
                "shards: ask for fewer shards"
            )
        drawn_here = not isinstance(self.random_state, int | np.integer)
        seed = check_random_state(self.random_state).randint(2**31) if drawn_here else None
        self.seed_ = int(self.random_state if seed is None else seed)
        states = key_states(keys, self.seed_)
        self.shard_of_ = (states % np.uint64(self.shards)).astype(np.intp)
        self.inside_ = clone(self.estimator)
        self.fitted_with_ = {"shards": self.shards, **self._range()}
        self.estimators_ = [0.0] * int(self.shards)
        self.prints_ = [""] * int(self.shards)
        weights = sample_weight
        if weights is not None:
            weights = _check_sample_weight(weights, X, ensure_non_negative=True)
        return self._fit_shards(X, y, weights, range(int(self.shards)))

    def _fit_shards(self, X: Any, y: Any, weights: Any, some: Sequence[int]) -> Self:
        """Fit some shards on their rows and keep the others."""
        y = self._labels(y)

        def fitted(shard: int) -> Any:
            return self._fit_rows(shard, np.flatnonzero(self.shard_of_ == shard), X, y, weights)

        with one_thread:  # a shard is small: threads cost more than they save
            found = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(fitted)(shard) for shard in some
            )
        self.estimators_, self.prints_ = [*self.estimators_], [*self.prints_]
        for shard, fit in zip(some, found, strict=True):
            self.estimators_[shard] = fit
            self.prints_[shard] = self._print(shard, X, y, weights)
        return self

    def _print(self, shard: int, X: Any, y: Any, weights: Any) -> str:
        """A digest of what a shard was fitted on, the same for numbers and texts however held."""
        rows = np.flatnonzero(self.shard_of_ == shard)
        digest = blake2b(digest_size=8)
        table = pd.DataFrame(take(X, rows))
        for name in table.columns:
            column = table[name]
            if pd.api.types.is_numeric_dtype(column.dtype):
                digest.update(column.to_numpy(dtype=float, na_value=np.nan).tobytes())
            else:
                words = [
                    "" if missing else str(v)
                    for v, missing in zip(column, column.isna(), strict=True)
                ]
                digest.update("\0".join(words).encode("utf-8", "surrogatepass"))
        digest.update("\0".join(as_text(label) for label in y[rows].tolist()).encode())
        own = np.ones(0) if weights is None else np.asarray(weights, dtype=float)[rows]
        if np.any(own != 1.0):
            digest.update(own.tobytes())
        return digest.hexdigest()

    def _fit_rows(self, shard: int, rows: Positions, X: Any, y: Any, weights: Any) -> Any:
        """One shard fitted on some rows of a table."""
        some = None if weights is None else weights[rows]
        if some is not None and not some.any():
            rows, some = rows[:0], None  # nobody who counts
        try:
            return self._fit_one(shard, take(X, rows), y[rows], some)
        except HoldfastError:
            raise
        except ValueError as failure:
            raise HoldfastError(
                f"shard {shard} cannot be fitted on its {len(rows)} rows: {failure}. Fewer shards, "
                "or an estimator that bears small tables, would do"
            ) from failure

    def _fit_one(self, shard: int, X: Any, y: Any, weights: Any) -> Any:
        """The estimator fitted on one shard; a number where the shard has nothing to tell apart."""
        constant = self._constant(y)
        if constant is not None:
            return constant
        fresh = clone(self.inside_)
        name, last = fresh.steps[-1] if isinstance(fresh, Pipeline) else ("", fresh)
        steadied(last)
        # a seed that nobody gave is the shard's own, so that the same fit comes out again
        free = [
            name
            for name, value in fresh.get_params().items()
            if name.split("__")[-1] == "random_state" and value is None
        ]
        if free:
            own = int(key_states([("shard", shard)], self.seed_)[0] % np.uint64(2**31))
            fresh.set_params(**dict.fromkeys(free, own))
        if weights is None:
            return fresh.fit(X, y)
        if not has_fit_parameter(last, "sample_weight"):
            raise HoldfastError(f"{type(last).__name__} takes no sample weights")
        return fresh.fit(X, y, **{f"{name}__sample_weight".removeprefix("__"): weights})

    def _labels(self, y: Any) -> Any:
        """Labels as shards are fitted on them."""
        return np.asarray(y)

    def _range(self) -> dict[str, Any]:
        """Parameters that say what a shard can answer."""
        return {}

    def _check_fitted(self) -> None:
        """Fitted, and as it is set now."""
        check_is_fitted(self, "estimators_")
        for name, was in self.fitted_with_.items():
            if getattr(self, name) != was:
                raise HoldfastError(
                    f"{name} was {was!r} when the shards were fitted and is "
                    f"{getattr(self, name)!r} now: fit them again"
                )

    @abstractmethod
    def _constant(self, y: Any) -> float | None:
        """What a shard with these labels answers whoever asks; ``None``: it is to be fitted."""

    @abstractmethod
    def _outputs(self, fit: Any, X: Any) -> Array:
        """What one shard's fit says of every row."""

    def _table(self, X: Any, reset: bool = False) -> Any:
        """Rows as the estimator takes them: frames as they are, anything else as an array."""
        if isinstance(X, pd.DataFrame) and len(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)

    def _mean(self, X: Any) -> Array:
        check_is_fitted(self, "estimators_")
        found: Array = self.parts(self._table(X)).mean(axis=1)
        return found

    # what a model that can forget asks -----------------------------------------------------

    @property
    def n_parts_(self) -> int:
        """How many models are averaged."""
        return len(self.estimators_)

    @property
    def membership_(self) -> npt.NDArray[np.intp]:
        """The parts every training row is in, (n, 1)."""
        return self.shard_of_[:, None]

    def parts(self, X: Any, some: Any = None) -> Array:
        """What every shard says of every row, (q, shards), or some of them."""
        self._check_fitted()
        chosen = range(self.n_parts_) if some is None else [int(t) for t in some]
        out = np.empty((_num_samples(X), len(chosen)))
        with unchecked([self.estimators_[shard] for shard in chosen], X) as (fits, table):
            for place, fit in enumerate(fits):
                out[:, place] = self.part_says(fit, table)
        return out

    def largest_fall(self, X: Any, k: int = 1, up: bool = True) -> Array:
        """By how much the mean can fall at most if ``k`` people's rows are deleted, *or changed*.

        Whoever they are and whatever their features, labels and weights become, as long as their
        keys stay: ``k`` shards may then say anything. Somebody who gets another key leaves one
        shard for another and counts twice.

        Parameters
        ----------
        X : table of shape (q, d)
        k : int
        up : bool
            Whether a larger mean is better; if not, by how much it can rise.

        Returns
        -------
        ndarray of shape (q,)

        Examples
        --------
        >>> import holdfast as hf
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> fitted = hf.ShardedClassifier(GaussianNB(), shards=10).fit(X, y)
        >>> bool((fitted.largest_fall(X, 2) <= 0.2).all())
        True
        """
        return largest_fall(self.parts(self._table(X)), k, self.part_range_, up)

    def part_says(self, fit: Any, X: Any) -> Array:
        """What one shard's fit says of every row, (q,)."""
        return np.full(_num_samples(X), fit) if isinstance(fit, float) else self._outputs(fit, X)

    def part_without(self, gone: Positions, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """The fit of the shard that some rows share, without them."""
        shard = int(self.shard_of_[gone[0]])
        rows = np.setdiff1d(np.flatnonzero(self.shard_of_ == shard), gone)
        with one_thread:
            return self._fit_rows(shard, rows, X, self._labels(y), sample_weight)

    def without(self, rows: Any, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """The same fit without some rows: only the shards that had them are fitted again.

        Parameters
        ----------
        rows : positions of training rows
        X, y, sample_weight
            What it was fitted on, in the same order.
        """
        self._check_fitted()
        gone = TrainingRows(len(self.shard_of_)).positions(rows)
        X = self._table(X)
        for name, given in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            if given is not None and len(given) != len(self.shard_of_):
                raise HoldfastError(
                    f"{name} has {len(given)} rows, and the shards were fitted on "
                    f"{len(self.shard_of_)}"
                )
        keep = np.delete(np.arange(len(X)), gone)
        weights = None if sample_weight is None else np.asarray(sample_weight)[keep]
        return self.refitted_on(keep, take(X, keep), np.asarray(y)[keep], weights)

    def refitted_on(
        self, rows: Positions, X: Any, y: Any, sample_weight: Any = None, unchanged: bool = True
    ) -> Self:
        """The same fit on some of its rows, everybody in the shard they were in.

        Parameters
        ----------
        rows : positions of training rows, each as often as it counts
        X, y, sample_weight
            Of those rows.
        unchanged : bool
            Whether the features are those of the fit: then shards that have all their rows, in
            order, stay as they are.
        """
        self._check_fitted()
        fresh = copy.copy(self)
        fresh.shard_of_ = self.shard_of_[rows]
        shards = range(self.n_parts_)
        order, before = (np.argsort(of, kind="stable") for of in (fresh.shard_of_, self.shard_of_))
        ends = np.searchsorted(fresh.shard_of_[order], [*shards, self.n_parts_])
        first = np.searchsorted(self.shard_of_[before], [*shards, self.n_parts_])
        moved = [
            t
            for t in shards
            if not unchanged
            or not np.array_equal(
                rows[order[ends[t] : ends[t + 1]]], before[first[t] : first[t + 1]]
            )
        ]
        return fresh._fit_shards(X, y, sample_weight, moved)

    def unlike(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How far a table is from the one it was fitted on: 0 if it is that, 1 if it is not.

        In between where the smallest shard, fitted again, says something else: it draws.
        """
        y = self._labels(y)
        if any(self._print(t, X, y, sample_weight) != p for t, p in enumerate(self.prints_)):
            return 1.0
        told = [t for t in range(self.n_parts_) if not isinstance(self.estimators_[t], float)]
        if not told:
            return 0.0
        counts = np.bincount(self.shard_of_, minlength=self.n_parts_)
        shard = min(told, key=lambda t: int(counts[t]))
        rows = np.flatnonzero(self.shard_of_ == shard)
        with one_thread:
            again = self._fit_rows(shard, rows, X, y, sample_weight)
        some, (low, high) = take(X, rows), self.part_range_
        before = self.part_says(self.estimators_[shard], some)
        return float(np.abs(before - self.part_says(again, some)).max() / (high - low))

    @property
    @abstractmethod
    def part_range_(self) -> tuple[float, float]:
        """What a shard can say at least and at most."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags = copy.copy(inner.input_tags)
        tags.input_tags.sparse = False
        return tags


def _refuse_no_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise HoldfastError(
            f"estimator must be an unfitted estimator like LogisticRegression(), got {estimator!r}"
        )


def _has_probabilities(self: ShardedClassifier) -> bool:
    if not hasattr(self.estimator, "predict_proba"):
        raise AttributeError(f"{type(self.estimator).__name__} gives no probabilities")
    return True


class ShardedClassifier(ClassifierMixin, _Sharded):
    """The mean of classifiers, each fitted on the people of one shard.

    Everybody is hashed to one shard, whoever else is there, and one person's erasure refits one
    shard: ``k`` erasures can move at most ``k`` of the averaged probabilities, whatever the
    estimator is and whatever preprocessing it brings. That is a certificate for any learner
    (:func:`holdfast.certify`). Put the preprocessing *inside* the estimator: fitted outside, every
    row is in every shard by way of the scaler.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Or a pipeline ending in one. Fitted on each shard; a ``random_state`` left open is drawn
        once for each shard, and boosting libraries run on one thread in one fixed way.
    shards : int, default=100
        More: less that one person can do, and less to learn from in each.
    random_state : int, default=0
        Seed of the hash.
    n_jobs : int, optional
        Shards fitted at a time, in threads.

    Attributes
    ----------
    estimators_ : list
        A fitted estimator for each shard; a number where it has one class (0 or 1) or nobody (½),
        which depends on nothing outside it.
    shard_of_ : ndarray of shape (n,)
        The shard of every training row. Keys are ``groups`` in ``fit`` where given, else the
        frame's index, else the position.
    classes_ : ndarray of shape (2,)

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> inside = make_pipeline(StandardScaler(), LogisticRegression())
    >>> fitted = hf.ShardedClassifier(inside, shards=10).fit(X, y)
    >>> round(fitted.score(X, y), 2)
    0.97
    >>> model = hf.erasable(fitted, X, y)
    >>> people = X[model.scores(X) > 1.0]
    >>> hf.certify(model, people, target=0.0, max_deletions=3)["certified"].median()
    np.float64(3.0)
    """

    def __init__(
        self, estimator: Any, shards: int = 100, random_state: Any = 0, n_jobs: int | None = None
    ):
        self.estimator = estimator
        self.shards = shards
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Hash everybody to a shard and fit the estimator on each.

        Parameters
        ----------
        X : frame or array
            As the estimator takes it.
        y : array-like of shape (n,)
        groups : array-like of shape (n,), optional
            Whose row each is: all rows of a person are in one shard.
        sample_weight : array-like of shape (n,), optional
        """
        _refuse_no_estimator(self.estimator)
        if not is_classifier(self.estimator) or not hasattr(self.estimator, "predict_proba"):
            raise HoldfastError(
                f"{type(self.estimator).__name__} gives no probabilities (predict_proba), and "
                "shards are averaged by them. hf.ShardedRegressor is for regressors"
            )
        X, y = self._table(X, reset=True), _check_y(y, estimator=self)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: {len(self.classes_)} classes."
            )
        if len(self.classes_) < 2:
            raise HoldfastError(
                f"y has one class only ({self.classes_.tolist()[0]!r}): there is nothing to learn"
            )
        return self._fit(X, y, groups, sample_weight)

    def _constant(self, y: Any) -> float | None:
        if len(y) == 0:
            return _NOBODY
        one = y == self.classes_[1]
        return float(one[0]) if one.all() or not one.any() else None

    def _outputs(self, fit: Any, X: Any) -> Array:
        found: Array = np.asarray(fit.predict_proba(X), dtype=float)[:, 1]
        return found

    @property
    def part_range_(self) -> tuple[float, float]:
        """What a shard can say: probabilities."""
        return 0.0, 1.0

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The mean of the shards' probabilities."""
        p = self._mean(X)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> Any:
        """The class of the larger probability."""
        check_is_fitted(self, "estimators_")
        return self.classes_[(self._mean(X) > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class ShardedRegressor(RegressorMixin, _Sharded):
    """The mean of regressors, each fitted on the people of one shard and clipped to a range.

    See :class:`ShardedClassifier`. Without a range one shard could say anything, and nothing
    could be proven.

    Parameters
    ----------
    estimator : regressor
    shards : int, default=100
    low, high : float
        Predictions of shards are clipped to this range; an empty shard answers its middle. Take it
        from what labels can be, not from the training labels: those are somebody's.
    random_state : int, default=0
    n_jobs : int, optional

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> inside = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5)
    >>> fitted = hf.ShardedRegressor(inside, shards=5, low=0, high=350).fit(X, y)
    >>> fewer = fitted.without([7], X, y)          # one of five is fitted again
    >>> sum(a is b for a, b in zip(fitted.estimators_, fewer.estimators_))
    4
    """

    def __init__(
        self,
        estimator: Any,
        shards: int = 100,
        low: float | None = None,
        high: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ):
        self.estimator = estimator
        self.shards = shards
        self.low = low
        self.high = high
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Hash everybody to a shard and fit the estimator on each."""
        _refuse_no_estimator(self.estimator)
        if not is_regressor(self.estimator):
            raise HoldfastError(
                f"{type(self.estimator).__name__} is no regressor: hf.ShardedClassifier is for "
                "classifiers"
            )
        if self.low is not None and self.high is not None:
            finite_number("low", self.low)
            finite_number("high", self.high)
        if self.low is None or self.high is None or not self.low < self.high:
            raise HoldfastError(
                f"say which range labels can have: low and high, with low < high, got "
                f"low={self.low!r}, high={self.high!r}. Without it one shard could say anything"
            )
        X, y = self._table(X, reset=True), _check_y(y, estimator=self)
        return self._fit(X, y, groups, sample_weight)

    def _labels(self, y: Any) -> Any:
        return np.asarray(y, dtype=float)

    def _range(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}

    def _constant(self, y: Any) -> float | None:
        low, high = self.part_range_
        return 0.5 * (low + high) if len(y) == 0 else None

    def _outputs(self, fit: Any, X: Any) -> Array:
        found: Array = np.clip(np.asarray(fit.predict(X), dtype=float).ravel(), *self.part_range_)
        return found

    @property
    def part_range_(self) -> tuple[float, float]:
        """What a shard can say."""
        assert self.low is not None
        assert self.high is not None
        return float(self.low), float(self.high)

    def predict(self, X: Any) -> Array:
        """The mean of the shards' predictions."""
        return self._mean(X)

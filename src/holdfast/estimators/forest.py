"""Forests that forget: deleting a row changes only the trees it was in, and only where it must."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from holdfast.algebra.rows import Array
from holdfast.algebra.threads import cores
from holdfast.arguments import finite_number, whole_number
from holdfast.errors import HoldfastError, SingularDeletionError
from holdfast.estimators import forest_loops
from holdfast.estimators.keyed import key_states, keys_of, some_of
from holdfast.estimators.largest_fall import largest_fall

Whole = npt.NDArray[np.int64]

#: labels of a regression are whole numbers of this share of ``high − low``
_RESOLUTION = 2.0**-32
#: entries of the table of trees' outputs that a prediction holds at once
_AT_ONCE = 1 << 22
#: work below this many (query, tree) pairs is not worth a second thread
_WORTH_A_THREAD = 1 << 15
#: what a node is made of, as attributes of a fitted forest
_NODES = ("split_feature_", "split_threshold_", "subtree_size_", "node_count_", "node_total_")


class _ForgettingForest(BaseEstimator, ABC):
    """What the classifier and the regressor share; labels are whole numbers here."""

    def __init__(
        self,
        n_estimators: int = 500,
        trees_per_row: int = 20,
        max_features: Any = "sqrt",
        min_samples_leaf: int = 1,
        random_state: int = 0,
    ):
        self.n_estimators = n_estimators
        self.trees_per_row = trees_per_row
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    @abstractmethod
    def _scale(self) -> Array:
        """Origin and step of a label, its range, and what an empty tree says."""

    def _fit(self, X: Any, X_checked: Array, labels: Whole, groups: Any) -> Self:
        """Grow every tree; ``X`` as it was given, for its index."""
        n, d = X_checked.shape
        self._check_parameters(d)
        keys = keys_of(X, groups, n)
        key_bits = key_states(keys, self.random_state)
        self._check_size(n, keys)
        self.X_fit_ = np.ascontiguousarray(X_checked)
        self.labels_ = labels
        self.fitted_with_ = self.get_params(deep=False)
        self.keys_ = keys
        self.grouped_ = groups is not None
        self.membership_ = forest_loops.trees_of(key_bits, self.n_estimators, self.trees_per_row)
        pieces = _in_threads(
            lambda trees: self._grown(trees, np.zeros(n, np.int64), again=False),
            _blocks(self.n_estimators, cores()),
        )
        sizes = np.concatenate([piece[0] for piece in pieces])
        self.tree_start_ = np.concatenate([[0], np.cumsum(sizes)])
        for k, name in enumerate(_NODES):
            setattr(self, name, np.concatenate([piece[k + 1] for piece in pieces]))
        return self

    def _check_parameters(self, d: int) -> None:
        for name in ("n_estimators", "trees_per_row", "min_samples_leaf"):
            if getattr(self, name) is None:
                raise HoldfastError(f"{name} must be a whole number from 1, got None")
            whole_number(name, getattr(self, name))
        if self.trees_per_row > self.n_estimators:
            raise HoldfastError(
                f"trees_per_row must be at most n_estimators: {self.trees_per_row} of "
                f"{self.n_estimators} trees cannot hold a row"
            )
        seed = self.random_state
        if not isinstance(seed, Integral) or isinstance(seed, bool):
            raise HoldfastError(
                f"random_state must be a whole number, got {seed!r}: draws are made from the seed "
                "itself, so that the forest without somebody is known"
            )
        self._candidates(d)

    def _candidates(self, d: int) -> int:
        """How many features compete for a split."""
        wanted = self.max_features
        if wanted is None:
            return d
        if isinstance(wanted, str) and wanted == "sqrt":
            return max(1, int(np.sqrt(d)))
        if isinstance(wanted, int | np.integer) and not isinstance(wanted, bool) and wanted >= 1:
            return min(int(wanted), d)
        if isinstance(wanted, float | np.floating) and 0 < wanted <= 1:
            return max(1, int(wanted * d))
        raise HoldfastError(
            'max_features must be "sqrt", a whole number from 1, a share above 0 and up to 1.0, '
            f"or None for all, got {wanted!r}"
        )

    def _check_size(self, n: int, keys: npt.NDArray[Any]) -> None:
        """Trees of less than two people on average say nothing."""
        wanted = -(-2 * self.n_estimators // self.trees_per_row)
        if len(pd.unique(keys[: 4 * wanted])) >= wanted:  # most tables are large enough
            return
        people = len(pd.unique(keys))
        if people < wanted:
            rows = f"{n} sample{'' if n == 1 else 's'}"
            whose = rows if people == n else f"{rows} of {people} people (by key)"
            raise HoldfastError(
                f"{whose} in {self.trees_per_row} of {self.n_estimators} trees each leave less "
                "than two for a tree: raise trees_per_row or lower n_estimators"
            )

    def _grown(self, trees: Whole, gone: Whole, again: bool) -> tuple[Any, ...]:
        """The trees named without the rows marked ``gone``, from what there is if ``again``."""
        starts, rows = forest_loops.rows_by_tree(self.membership_, trees, self.n_estimators)
        if again:
            tree_start, nodes = self.tree_start_, self._nodes()
        else:
            tree_start, nodes = np.zeros(1, np.int64), _no_nodes()
        grown: tuple[Any, ...] = forest_loops.grow_trees(
            trees, self.X_fit_, self.labels_, gone, 1, starts, rows, self._tree_states(),
            self._candidates(self.X_fit_.shape[1]), self.min_samples_leaf, again, tree_start, nodes,
        )  # fmt: skip
        return grown

    def _tree_states(self) -> npt.NDArray[np.uint64]:
        start = key_states(["tree"], self.random_state)[0]
        return forest_loops.roots(start, self.n_estimators)

    def _nodes(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _NODES)

    @property
    def n_parts_(self) -> int:
        """The number of trees whose mean is the forest's output."""
        return len(self.tree_start_) - 1

    @property
    def part_range_(self) -> tuple[float, float]:
        """The smallest and the largest output any tree can have."""
        _, _, low, high, _ = self._scale()
        return float(low), float(high)

    def parts(self, X: Any, some: Any = None) -> Array:
        """What every tree says of every query, or ``some`` of them.

        Returns
        -------
        ndarray of shape (q, T)
            For a classifier the share of ``classes_[1]``, for a regressor the prediction; the
            forest's own is their mean.
        """
        said = self._parts(self._queries(X))
        return said if some is None else said[:, some]

    def refitted_on(
        self, rows: Any, X: Any, y: Any, sample_weight: Any = None, unchanged: bool = True
    ) -> Self:
        """The same forest on some of its rows, each as often as named, everybody in their trees.

        Parameters
        ----------
        rows : positions of training rows
        X, y : of those rows
        sample_weight : must be None
        unchanged : bool
            Whether the features are those of the fit: then it forgets the other rows.
        """
        self._check_fitted()
        if sample_weight is not None:
            raise HoldfastError("a forest that forgets takes no sample weights")
        rows = np.asarray(rows, dtype=np.intp)
        if unchanged and rows.size and np.all(np.diff(rows) > 0):
            return self.without(np.setdiff1d(np.arange(len(self.X_fit_)), rows))
        fresh = type(self)(**self.get_params(deep=False))
        return fresh.fit(X, y, groups=self.keys_[rows])

    def unlike(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """1 if a table is not the one it was fitted on, else 0."""
        if sample_weight is not None:
            return 1.0
        fresh = self._queries(X)
        same = np.array_equal(fresh, self.X_fit_) and np.array_equal(self._coded(y), self.labels_)
        return 0.0 if same else 1.0

    @abstractmethod
    def _coded(self, y: Any) -> Whole:
        """Labels as whole numbers."""

    def _check_fitted(self) -> None:
        """Fitted, and as it is set now: other settings would be another forest's."""
        check_is_fitted(self)
        now = self.get_params(deep=False)
        for name, was in self.fitted_with_.items():
            if now[name] != was:
                raise HoldfastError(
                    f"{name} was {was!r} when the forest was fitted and is {now[name]!r} now: "
                    "fit it again"
                )

    def _queries(self, X: Any) -> Array:
        self._check_fitted()
        return np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float64))

    def _parts(self, Q: Array) -> Array:
        out = np.empty((len(Q), self.n_parts_))
        nodes, scale = self._nodes(), self._scale()
        _in_threads(
            lambda j: forest_loops.parts(
                Q[j[0] : j[-1] + 1], nodes, self.tree_start_, scale, out[j[0] : j[-1] + 1]
            ),
            _blocks(len(Q), cores() if out.size > _WORTH_A_THREAD else 1),
        )
        return out

    def _mean(self, X: Any) -> Array:
        """The mean over trees, (q,); a block of queries at a time."""
        Q = self._queries(X)
        step = max(1, _AT_ONCE // self.n_parts_)
        means = [self._parts(Q[j : j + step]).mean(axis=1) for j in range(0, len(Q), step)]
        return np.concatenate(means)

    def without(self, rows: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """The forest fitted without these training rows, bit for bit; this one stays as it is.

        Only trees that had one of the rows are touched, and of these only the way from the root to
        where the rows were; a branch is grown again where its best split is another one now.

        Parameters
        ----------
        rows : whole numbers
            Positions of training rows, from 0. Whoever has several rows is gone when all are named.
        X, y, sample_weight
            Not looked at: the forest holds its training rows.
        """
        self._check_fitted()
        gone = self._positions(rows)
        kept = gone == 0
        gone_rows = np.flatnonzero(gone)
        if gone_rows.size:
            self._refuse_if_too_little_is_left(gone_rows, kept)
        rest = type(self)(**self.get_params(deep=False))
        rest.fitted_with_ = dict(self.fitted_with_)
        for name in ("classes_", "n_features_in_", "feature_names_in_", "grouped_"):
            if hasattr(self, name):
                setattr(rest, name, getattr(self, name))
        touched = np.zeros(self.n_parts_, np.bool_)
        touched[self.membership_[gone_rows]] = True
        trees = np.flatnonzero(touched)
        sizes, *grown = self._grown(trees, gone, again=True)
        rest._splice(self, trees, sizes, grown)
        rest.X_fit_ = forest_loops.kept_rows(self.X_fit_, gone)
        rest.membership_ = forest_loops.kept_rows(self.membership_, gone)
        rest.labels_ = self.labels_[kept]
        rest.keys_ = some_of(self.keys_, kept)
        return rest

    def _splice(self, old: Self, trees: Whole, sizes: Whole, grown: list[Any]) -> None:
        """Take the trees named from ``grown``, one after another, and all others from ``old``."""
        lengths = np.diff(old.tree_start_)
        lengths[trees] = sizes
        self.tree_start_ = np.concatenate([[0], np.cumsum(lengths)])
        ends = np.concatenate([[0], np.cumsum(sizes)])
        for name, new in zip(_NODES, grown, strict=True):
            before = getattr(old, name)
            pieces, copied = [], 0
            for k, t in enumerate(trees):
                pieces += [before[copied : old.tree_start_[t]], new[ends[k] : ends[k + 1]]]
                copied = old.tree_start_[t + 1]
            setattr(self, name, np.concatenate([*pieces, before[copied:]]))

    def _positions(self, rows: Any) -> Whole:
        """1 where a training row is named, else 0."""
        n = len(self.X_fit_)
        named = np.atleast_1d(np.asarray(rows))
        if named.size and (named.dtype.kind not in "iu" or named.ndim != 1):
            raise HoldfastError(
                f"rows are positions of training rows, whole numbers from 0, got {rows!r}"
            )
        wrong = named[(named < 0) | (named >= n)]
        if wrong.size:
            raise HoldfastError(f"there is no training row {wrong[0]}: rows are 0 to {n - 1}")
        marked = np.zeros(n, np.int64)
        marked[named.astype(np.intp)] = 1
        return marked

    def _refuse_if_too_little_is_left(self, gone: Any, kept: Any) -> None:
        """Nothing is no forest."""
        if not kept.any():
            raise SingularDeletionError("without these rows, there is nothing", gone)

    def single_effects(self, X: Any, rows: Iterable[int] | None = None) -> Array:
        """How much the mean over trees falls at every query if one training row is deleted.

        Exact, for every row by itself; where ``groups`` were given, deleting a row means deleting
        all rows of its person.

        Parameters
        ----------
        X : table of shape (q, d)
        rows : whole numbers, optional
            For these training rows only, in this order: the result has eight bytes per query and
            row, so many of both are better asked for in blocks.

        Returns
        -------
        ndarray of shape (q, n)
        """
        return self._single(self._queries(X), rows, bounds=False)[0]

    def single_falls(
        self, X: Any, rows: Iterable[int] | None = None, up: bool = True
    ) -> tuple[Array, Array, Array]:
        """The same, and what bounds several rows together.

        ``up`` says whether a larger output is better; if not, everything is about its rise.

        Returns
        -------
        single_effects : (q, n)
        most : (q, T)
            By how much each tree falls at most without any one of these rows.
        shared : (q, n)
            Like ``single_effects``, with the larger of a tree's fall and half of all it says above
            its least in every tree that has the row.
        """
        Q = self._queries(X)
        singles, most, beyond = self._single(Q, rows, bounds=True, up=up)
        low, high = self.part_range_
        said = self._parts(Q)
        above = (said - low if up else high - said) / (2.0 * self.n_parts_)
        wanted = np.arange(len(self.X_fit_)) if rows is None else np.asarray(rows, dtype=np.intp)
        for place, row in enumerate(wanted.tolist()):
            beyond[:, place] += above[:, self._trees_of(row)].sum(axis=1)
        return singles if up else -singles, most, beyond

    def largest_fall(self, X: Any, k: int = 1, up: bool = True) -> Array:
        """By how much the mean can fall at most if ``k`` people's rows are deleted, *or changed*.

        Whoever they are and whatever their features and labels become, as long as their keys stay:
        then ``k`` times ``trees_per_row`` trees may say anything, and no other.

        Parameters
        ----------
        X : table of shape (q, d)
        k : int
        up : bool
            Whether a larger mean is better; if not, by how much it can rise.

        Returns
        -------
        ndarray of shape (q,)
        """
        whole_number("k", k)
        return largest_fall(self.parts(X), k * self.trees_per_row, self.part_range_, up)

    def _trees_of(self, row: int) -> Any:
        """The trees of a row, or of all rows of its person."""
        mine = np.flatnonzero(self.keys_ == self.keys_[row]) if self.grouped_ else [row]
        return np.unique(self.membership_[mine])

    def _single(
        self, Q: Array, rows: Iterable[int] | None, bounds: bool, up: bool = True
    ) -> tuple[Array, Array, Array]:
        n = len(self.X_fit_)
        if rows is None:
            wanted = np.arange(n)
        else:
            self._positions(rows)
            wanted = np.atleast_1d(np.asarray(rows, dtype=np.intp))
        # units wanted come first, in the order of rows, so that threads have blocks of them
        whose = pd.factorize(self.keys_)[0] if self.grouped_ else np.arange(n)
        asked, columns = np.unique(whose[wanted], return_inverse=True)
        numbers = np.full(n, -1, np.int64)
        numbers[asked] = np.arange(len(asked))
        unit = numbers[whose]
        unit[unit < 0] = len(asked)
        trees = np.arange(self.n_estimators)
        starts, tree_rows = forest_loops.rows_by_tree(self.membership_, trees, self.n_estimators)
        states, nodes = self._tree_states(), self._nodes()
        scale = np.append(self._scale(), 1.0 if up else -1.0)
        drops = np.zeros((len(asked), len(Q)))
        beyond = np.zeros((len(asked) * bounds, len(Q)))
        candidates = self._candidates(self.X_fit_.shape[1])

        def work(units: Whole) -> Array:
            first, last = units[0], units[-1] + 1
            most = np.zeros((self.n_parts_ * bounds, len(Q)))
            forest_loops.effects(
                first, last, self.X_fit_, self.labels_, unit, starts, tree_rows, states,
                candidates, self.min_samples_leaf, self.tree_start_, nodes, Q, scale,
                drops[first:last], most, beyond[first:last],
            )  # fmt: skip
            return most

        found = _in_threads(work, _blocks(len(asked), cores()))
        most = np.max(found, axis=0) if found else np.zeros((self.n_parts_ * bounds, len(Q)))
        identical = len(asked) == len(columns) and (columns == np.arange(len(columns))).all()
        if not identical:
            drops, beyond = drops[columns], beyond[columns] if bounds else beyond
        return drops.T, most.T, beyond.T


def _no_nodes() -> tuple[Any, ...]:
    return (
        np.empty(0, np.int32), np.empty(0), np.empty(0, np.int32),
        np.empty(0, np.int64), np.empty(0, np.int64),
    )  # fmt: skip


def _blocks(n: int, wanted: int) -> list[Whole]:
    """The numbers 0 … n − 1 in up to ``wanted`` runs, none of them empty."""
    return [run for run in np.array_split(np.arange(n), wanted) if run.size]


def _in_threads(work: Callable[[Whole], Any], blocks: list[Whole]) -> list[Any]:
    """The results of ``work`` on every block; compiled code lets other threads run."""
    if len(blocks) < 2:
        return [work(block) for block in blocks]
    with ThreadPoolExecutor(len(blocks)) as threads:
        return list(threads.map(work, blocks))


class ForgettingForestClassifier(ClassifierMixin, _ForgettingForest):
    """A random forest that can forget training rows exactly, and says by how much it can move.

    Every row is in exactly ``trees_per_row`` of the ``n_estimators`` trees, chosen by a hash of
    ``random_state`` and the row's key; candidate features are drawn from (seed, tree, way from
    the root), and thresholds lie between neighbouring values of the tree's own rows. So deleting a
    row changes the trees it was in, below the first node whose best split is another one without
    it, and nothing else: ``without(rows)`` is, bit for bit, the forest fitted without them. Each
    tree says a share between 0 and 1, so ``k`` deletions lower the mean over trees by at most
    the sum of the ``k · trees_per_row`` largest shares, divided by ``n_estimators``.

    **What the forest keeps is personal data**: the training rows (``X_fit_``, ``labels_``), the
    keys, and at every node a threshold made of two rows' values and how many rows of which class
    there are. A saved forest must be kept like the table it was fitted on. ``without`` returns a
    forest in which nothing of the deleted rows is left; delete the old one and its copies.

    Parameters
    ----------
    n_estimators : int, default=500
        The number of trees.
    trees_per_row : int, default=20
        In how many trees each row is. Fewer give a stronger guarantee and smaller trees.
    max_features : "sqrt", int, float or None, default="sqrt"
        How many features compete for a split: a number, a share, or all (None).
    min_samples_leaf : int, default=1
        The smallest number of a tree's rows on either side of a split.
    random_state : int, default=0
        The seed of all draws; a whole number.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    fitted_with_ : dict
        The parameters at the time of the fit.
    keys_ : ndarray of shape (n,)
        Whose row each is: ``groups``, else the frame's index, else the position.
    membership_ : ndarray of shape (n, trees_per_row)
        The trees each training row is in.
    X_fit_, labels_ : ndarrays of shape (n, d) and (n,)
        The training rows; 1 for ``classes_[1]``.
    n_parts_ : int
    part_range_ : tuple of float
        The number of trees, and the range of what one says: (0, 1).

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = hf.ForgettingForestClassifier(n_estimators=100, trees_per_row=10).fit(X, y)
    >>> round(forest.score(X, y), 1)
    1.0
    >>> rest = forest.without([3, 17])
    >>> fresh = hf.ForgettingForestClassifier(n_estimators=100, trees_per_row=10)
    >>> fresh = fresh.fit(X.drop(index=[3, 17]), y.drop(index=[3, 17]))
    >>> bool((rest.predict_proba(X) == fresh.predict_proba(X)).all())
    True
    """

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : table of shape (n, d)
            Numbers. Rows that share a value of a frame's index are in the same trees.
        y : array of shape (n,)
            Two classes.
        groups : array of shape (n,), optional
            Whose row each is: a person's rows are in the same trees.
        """
        checked, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: {len(classes)} classes."
            )
        if len(classes) < 2:
            raise ValueError(
                f"ForgettingForestClassifier needs samples of two classes, got 1 class: "
                f"every label is {classes.tolist()[0]!r}"
            )
        self.classes_ = classes
        return self._fit(X, checked, codes.astype(np.int64), groups)

    def _coded(self, y: Any) -> Whole:
        return (np.asarray(y) == self.classes_[1]).astype(np.int64)

    def _scale(self) -> Array:
        return np.array([0.0, 1.0, 0.0, 1.0, 0.5])

    def _refuse_if_too_little_is_left(self, gone: Any, kept: Any) -> None:
        left = self.labels_[kept]
        if left.size == 0 or left.min() == left.max():
            what = f"class {self.classes_.tolist()[left[0]]!r} only" if left.size else "nothing"
            raise SingularDeletionError(f"without these rows, there is {what}", gone)
        super()._refuse_if_too_little_is_left(gone, kept)

    def predict_proba(self, X: Any) -> Array:
        """The mean over trees of the share of each class, (q, 2)."""
        up = self._mean(X)
        return np.column_stack([1.0 - up, up])

    def predict(self, X: Any) -> Any:
        """The class of the larger share."""
        up = self._mean(X)
        return self.classes_[(up > 0.5).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class ForgettingForestRegressor(RegressorMixin, _ForgettingForest):
    """A regression forest that can forget training rows exactly, and says by how much it can move.

    As :class:`ForgettingForestClassifier`; a tree says the mean label of a leaf, and an empty tree
    the middle of ``low`` and ``high``. These two are given and not taken from the labels: a range
    made from the labels would change with the row that has the largest. For sums to be exact,
    labels are rounded to a 2³²-th of the range.

    **What the forest keeps is personal data**, as there.

    Parameters
    ----------
    low, high : float
        What labels, and so predictions, lie between. A label outside is refused.
    n_estimators : int, default=500
    trees_per_row : int, default=20
    max_features : "sqrt", int, float or None, default="sqrt"
    min_samples_leaf : int, default=1
    random_state : int, default=0
        As there.

    Attributes
    ----------
    keys_, membership_, X_fit_, n_parts_
        As there.
    labels_ : ndarray of int of shape (n,)
        Labels as whole 2³²-ths of the range, counted from its middle.
    part_range_ : tuple of float
        ``(low, high)``.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = hf.ForgettingForestRegressor(0, 400, n_estimators=100, trees_per_row=20).fit(X, y)
    >>> drops = forest.single_effects(X[:5])
    >>> drops.shape
    (5, 442)
    >>> before, after = forest.predict(X[:5]), forest.without([7]).predict(X[:5])
    >>> bool(abs(before - after - drops[:, 7]).max() < 1e-9)
    True
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        n_estimators: int = 500,
        trees_per_row: int = 20,
        max_features: Any = "sqrt",
        min_samples_leaf: int = 1,
        random_state: int = 0,
    ):
        super().__init__(n_estimators, trees_per_row, max_features, min_samples_leaf, random_state)
        self.low = low
        self.high = high

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : table of shape (n, d)
            Numbers. Rows that share a value of a frame's index are in the same trees.
        y : array of shape (n,)
            Numbers from ``low`` to ``high``.
        groups : array of shape (n,), optional
            Whose row each is: a person's rows are in the same trees.
        """
        checked, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        _, _, low, high, _ = self._scale()
        outside = np.flatnonzero((y < low) | (y > high))
        if outside.size:
            raise HoldfastError(
                f"{outside.size} labels lie outside low = {low:g} to high = {high:g}, the first "
                f"{y[outside[0]]:g} in row {outside[0]}: give a range that all labels can have"
            )
        return self._fit(X, checked, self._coded(y), groups)

    def _coded(self, y: Any) -> Whole:
        origin, step, *_ = self._scale()
        return np.rint((np.asarray(y, dtype=np.float64) - origin) / step).astype(np.int64)

    def _scale(self) -> Array:
        if self.low is None or self.high is None:
            raise HoldfastError(
                "ForgettingForestRegressor needs low and high, what labels lie between: taken from "
                "the labels they would change when the row with the largest is deleted"
            )
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        if not low < high or not np.isfinite(high - low):
            raise HoldfastError(f"low must be below high, got low = {low:g} and high = {high:g}")
        middle = 0.5 * low + 0.5 * high
        return np.array([middle, (high - low) * _RESOLUTION, low, high, middle])

    def predict(self, X: Any) -> Array:
        """The mean over trees."""
        return self._mean(X)

"""What a fitted boosting model is made of, read once: which leaf every row falls into, and how leaf
values came about.

Every library here builds its score the same way. With leaves ``ℓ_t(i)`` of row i in tree t,

    F₀ = start,    F_t(i) = F_{t−1}(i) + η v_t[ℓ_t(i)],    v_t[ℓ] = −Σ_{i∈ℓ} g_i / (Σ_{i∈ℓ} h_i + λ)

where g and h are the loss's first and second derivatives at ``F_{t−1}``, weights included. They
differ in λ, in where they start, and in which numbers are kept in 32 bits; :class:`Boosted` says
that, and :meth:`Boosted.values_for` is the recursion. What a library does beyond it (leaves by
quantiles, rows drawn for each tree, categories turned into statistics of other rows) is refused by
name, or because the recursion does not give the fitted scores back.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils import compute_sample_weight

from holdfast.errors import UnsupportedModelError

Array = npt.NDArray[np.float64]
Leaves = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Boosted:
    """A fitted boosting model as a sum of trees.

    Attributes
    ----------
    leaves : callable
        ``X`` → the number of each row's leaf in each tree (n, T).
    sizes : ndarray of shape (T,)
        How many numbers of leaves each tree has.
    logistic : bool
        Log-loss of two classes; else squared error.
    rate : float
        η.
    penalty : callable
        Row weights → λ.
    start : callable
        ``(y, weights)`` → F₀.
    class_weight : dict, "balanced" or None
    lightest : float
        Leaves of less ``Σ h`` get the value 0.
    derivatives, scores : dtype
        In how many bits the library keeps them.
    """

    leaves: Callable[[Any], Leaves]
    sizes: npt.NDArray[np.intp]
    logistic: bool
    rate: float
    penalty: Callable[[Array], float]
    start: Callable[[Array, Array], float]
    class_weight: Any = None
    lightest: float = 0.0
    derivatives: Any = np.float32
    scores: Any = np.float64

    def values_for(
        self, leaves: Leaves, y: Array, weights: Array
    ) -> tuple[float, list[npt.NDArray[Any]]]:
        """Where the scores start, and each tree's leaf values, for rows in these leaves.

        A leaf without rows gets the value 0.
        """
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, y)
        start, penalty = float(self.start(y, weights)), self.penalty(weights)
        F: Any = np.full(len(y), start, dtype=self.scores)
        found: list[npt.NDArray[Any]] = []
        for tree, size in enumerate(self.sizes):
            p = expit(F) if self.logistic else F
            g: Any = ((p - y) * weights).astype(self.derivatives)
            h = weights * p * (1.0 - p) if self.logistic else weights
            G = np.bincount(leaves[:, tree], g, size)
            H = np.bincount(leaves[:, tree], h.astype(self.derivatives), size)
            counts = (H > 0) & (self.lightest <= H)
            steps = np.divide(-G, H + penalty, out=np.zeros(size), where=counts)
            values = (self.rate * steps).astype(self.scores)
            F += values[leaves[:, tree]]
            found.append(values)
        return start, found

    def pulls(self, leaves: Leaves, y: Array, weights: Array, others: Leaves) -> Array:
        """How far each row alone lifts the score of each other point, (others, n).

        Through the leaves they share, everything else as it is: with ``D = Σ h + λ``, tree t loses
        ``η (g_i + v h_i) / (D − h_i)`` of ``−v`` in row i's leaf when i goes. What that does to the
        derivatives of later trees is left out.
        """
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, y)
        penalty = self.penalty(weights)
        F = np.full(len(y), self.start(y, weights))
        found: npt.NDArray[Any] = np.zeros((len(others), len(y)), dtype=np.float32)
        for tree, size in enumerate(self.sizes):
            at = leaves[:, tree]
            p = expit(F) if self.logistic else F
            g, h = (p - y) * weights, weights * (p * (1.0 - p) if self.logistic else 1.0)
            G, D = np.bincount(at, g, size), np.bincount(at, h, size) + penalty
            v = np.divide(-G, D, out=np.zeros(size), where=D > 0)
            left = D[at] - h
            alone = left <= 1e-9 * D[at]  # without it the leaf is empty, and gives nothing
            lift = np.where(alone, v[at], -(g + v[at] * h) / np.where(alone, 1.0, left))
            for leaf in np.unique(others[:, tree]):
                rows = np.flatnonzero(at == leaf)
                found[np.ix_(np.flatnonzero(others[:, tree] == leaf), rows)] += (
                    self.rate * lift[rows]
                )
            F = F + self.rate * v[at]
        return found

    def scored(self, leaves: Leaves, start: float, values: list[npt.NDArray[Any]]) -> Array:
        """The scores of rows in these leaves (n,)."""
        F: Any = np.full(len(leaves), start, dtype=self.scores)
        for tree, its in enumerate(values):
            F += its[leaves[:, tree]]
        found: Array = F.astype(np.float64)
        return found


def library_of(estimator: Any) -> str | None:
    """The library whose boosting model an estimator is; ``None`` for any other."""
    kind = type(estimator)
    if kind in _SKLEARN:
        return "sklearn"
    home = kind.__module__.partition(".")[0]
    return home if (home, kind.__name__) in _NAMES else None


def boosted(estimator: Any) -> Boosted:
    """A fitted boosting model as a sum of trees.

    Raises
    ------
    UnsupportedModelError
        If it is none, or its leaf values come about in another way; the message says which.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from holdfast.estimators.boosted import boosted
    >>> fitted = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    >>> trees = boosted(fitted)
    >>> start, values = trees.values_for(trees.leaves(X), y, np.ones(len(y)))
    >>> again = trees.scored(trees.leaves(X), start, values)
    >>> bool(abs(again - fitted.decision_function(X)).max() < 1e-12)
    True
    """
    library = library_of(estimator)
    if library is None:
        raise UnsupportedModelError(
            f"a {type(estimator).__name__} is none of the boosting models whose trees are known: "
            + ", ".join([kind.__name__ for kind in _SKLEARN] + [name for _, name in _NAMES])
        )
    if library == "sklearn":
        return _SKLEARN[type(estimator)](estimator)
    return _READ[library](estimator)


def library_scores(fitted: Any, X: Any) -> Array:
    """The library's own score (n,): log-odds of the second class, or the prediction."""
    library, logistic = library_of(fitted), _is_classifier(fitted)
    if library == "lightgbm":
        scores = fitted.predict(X, raw_score=True)
    elif library == "xgboost":
        scores = fitted.predict(X, output_margin=True)
    elif library == "catboost":
        scores = fitted.predict(X, prediction_type="RawFormulaVal")
    else:
        scores = fitted.decision_function(X) if logistic else fitted.predict(X)
    return np.asarray(scores, dtype=float)


def _refuse(estimator: Any, why: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the leaf values of this {type(estimator).__name__} cannot be computed again: {why}. What "
        "works: refits (update='refit')"
    )


def _is_classifier(estimator: Any) -> bool:
    return hasattr(estimator, "predict_proba")


def _mean(y: Array, weights: Array) -> float:
    return float(np.average(y, weights=weights))


def _log_odds(y: Array, weights: Array) -> float:
    return float(logit(_mean(y, weights)))


def _stated(number: float) -> Callable[[Array], float]:
    return lambda weights: number


# scikit-learn -----------------------------------------------------------------------------------


def _histograms(fitted: Any) -> Boosted:
    logistic = _is_classifier(fitted)
    if not logistic and fitted.loss != "squared_error":
        raise _refuse(fitted, f"loss={fitted.loss!r} is not squared error")
    if fitted.do_early_stopping_:
        raise _refuse(
            fitted, "early stopping kept a random part of the rows out of the trees, unrecorded"
        )
    if fitted.monotonic_cst is not None:
        raise _refuse(fitted, "monotonic_cst bounds them by their neighbours' values")
    trees = [tree for (tree,) in fitted._predictors]
    categories = fitted._bin_mapper.make_known_categories_bitsets()
    numbered = []
    for tree in trees:  # a tree whose value is the number of the leaf
        twin = copy.copy(tree)
        twin.nodes = tree.nodes.copy()
        twin.nodes["value"] = np.arange(len(twin.nodes))
        numbered.append(twin)

    def leaves(X: Any) -> Leaves:
        Z = np.ascontiguousarray(fitted._preprocess_X(X, reset=False), dtype=np.float64)
        return np.column_stack([twin.predict(Z, *categories, 1) for twin in numbered]).astype(
            np.intp
        )

    return Boosted(
        leaves=leaves,
        sizes=np.array([len(tree.nodes) for tree in trees]),
        logistic=logistic,
        rate=fitted.learning_rate,
        penalty=_stated(fitted.l2_regularization),
        start=_log_odds if logistic else _mean,
        class_weight=getattr(fitted, "class_weight", None),
    )


def _stagewise(fitted: Any) -> Boosted:
    logistic = _is_classifier(fitted)
    if fitted.loss not in ("log_loss", "squared_error"):
        raise _refuse(fitted, f"loss={fitted.loss!r} is neither log-loss nor squared error")
    if fitted.subsample < 1.0:
        raise _refuse(
            fitted, f"each tree saw its own draw of the rows (subsample={fitted.subsample})"
        )
    if fitted.n_iter_no_change is not None:
        raise _refuse(
            fitted, "early stopping kept a random part of the rows out of the trees, unrecorded"
        )
    if fitted.init not in (None, "zero"):
        raise _refuse(fitted, "it starts from another model (init=…)")
    trees = [tree.tree_ for tree in fitted.estimators_[:, 0]]
    start = _log_odds if logistic else _mean
    return Boosted(
        # its trees were fitted on arrays, and complain of frames
        leaves=lambda X: fitted.apply(np.asarray(X, float)).reshape(len(X), -1).astype(np.intp),
        sizes=np.array([tree.node_count for tree in trees]),
        logistic=logistic,
        rate=fitted.learning_rate,
        penalty=_stated(0.0),
        start=start if fitted.init is None else lambda y, weights: 0.0,
        derivatives=np.float64,
    )


# LightGBM ---------------------------------------------------------------------------------------

#: options under which LightGBM's leaves are other than the recursion's, and what is plain
_LIGHTGBM_PLAIN: dict[str, tuple[Any, str]] = {
    "boosting": ("gbdt", "trees are not simply added up"),
    "data_sample_strategy": ("bagging", "each tree saw its own draw of the rows"),
    "lambda_l1": (0, "an absolute penalty cuts them off"),
    "max_delta_step": (0, "they are cut off"),
    "path_smooth": (0, "they are smoothed towards their parents'"),
    "linear_tree": (False, "leaves hold linear models"),
    "use_quantized_grad": (False, "derivatives are rounded at random"),
    "monotone_constraints": ("", "they are bounded by their neighbours' values"),
    "is_unbalance": (False, "rows are weighted by the count of their class"),
    "scale_pos_weight": (1, "rows are weighted by class"),
    "sigmoid": (1, "the sigmoid is scaled"),
    "reg_sqrt": (False, "it is fitted to the roots of the labels"),
}


def _lightgbm(fitted: Any) -> Boosted:
    import lightgbm

    booster = fitted.booster_
    # as the booster writes them itself: aliases resolved, defaults filled in
    told = lightgbm.Booster(model_str=booster.model_to_string()).params
    objective = str(told["objective"]).partition(" ")[0]
    if objective not in ("binary", "regression"):
        raise _refuse(fitted, f"objective {objective!r} is neither binary nor regression")
    for name, (plain, why) in _LIGHTGBM_PLAIN.items():
        if (value := told.get(name, plain)) != plain:
            raise _refuse(fitted, f"{why} ({name}={value})")
    if told["bagging_fraction"] < 1 and told["bagging_freq"] > 0:
        raise _refuse(fitted, "each tree saw its own draw of the rows (bagging)")
    logistic = objective == "binary"
    shapes = booster.dump_model()["tree_info"]
    used = fitted.best_iteration_ or len(shapes)
    start = _log_odds if logistic else _mean
    return Boosted(
        leaves=lambda X: np.reshape(fitted.predict(X, pred_leaf=True), (len(X), -1)).astype(
            np.intp
        ),
        sizes=np.array([tree["num_leaves"] for tree in shapes[:used]]),
        logistic=logistic,
        rate=told["learning_rate"],
        penalty=_stated(told["lambda_l2"]),
        start=start if told["boost_from_average"] else lambda y, weights: 0.0,
        class_weight=getattr(fitted, "class_weight", None),
    )


# XGBoost ----------------------------------------------------------------------------------------


def _xgboost(fitted: Any) -> Boosted:
    booster = fitted.get_booster()
    objective = fitted.objective
    if objective not in ("binary:logistic", "reg:squarederror"):
        raise _refuse(
            fitted, f"objective {objective!r} is neither binary:logistic nor reg:squarederror"
        )
    told = {name: value for name, value in fitted.get_params().items() if value is not None}
    kind = told.get("booster", "gbtree")
    if kind != "gbtree":
        raise _refuse(fitted, f"booster {kind!r} does not simply add up trees")
    plain = {"num_parallel_tree": 1, "subsample": 1, "reg_alpha": 0, "max_delta_step": 0}
    for name, value in {**plain, "scale_pos_weight": 1}.items():
        if told.get(name, value) != value:
            raise _refuse(fitted, f"{name}={told[name]}, and is known for {name}={value} only")
    if told.get("monotone_constraints"):
        raise _refuse(fitted, "they are bounded by their neighbours' values (monotone_constraints)")
    logistic = objective == "binary:logistic"
    start = _log_odds if logistic else _mean
    if "base_score" in told:
        first = float(logit(told["base_score"])) if logistic else float(told["base_score"])
        start = lambda y, weights: first  # noqa: E731 (said once, for all rows)
    best, nodes = booster.attr("best_iteration"), _xgboost_nodes(booster)
    used = len(nodes) if best is None else int(best) + 1
    return Boosted(
        leaves=lambda X: np.reshape(fitted.apply(X), (len(X), -1)).astype(np.intp),
        sizes=nodes[:used],
        logistic=logistic,
        rate=float(np.float32(told.get("learning_rate", 0.3))),
        penalty=_stated(told.get("reg_lambda", 1.0)),
        start=start,
        lightest=told.get("min_child_weight", 1.0),
        scores=np.float32,
    )


def _xgboost_nodes(booster: Any) -> npt.NDArray[np.intp]:
    """How many nodes each tree has: leaves are numbered among them."""
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    return np.array([int(tree["tree_param"]["num_nodes"]) for tree in model["trees"]])


# CatBoost ---------------------------------------------------------------------------------------


def _catboost(fitted: Any) -> Boosted:
    told = fitted.get_all_params()
    loss = told["loss_function"]
    if loss not in ("Logloss", "RMSE"):
        raise _refuse(fitted, f"loss {loss!r} is neither Logloss nor RMSE")
    if fitted.get_cat_feature_indices():
        raise _refuse(
            fitted,
            "categories are turned into statistics of the rows before each one in a random order",
        )
    iterations = told.get("leaf_estimation_iterations", 1)
    if told.get("leaf_estimation_method", "Newton") != "Newton" or iterations != 1:
        raise _refuse(
            fitted,
            f"leaf_estimation_method={told['leaf_estimation_method']} with {iterations} steps is "
            "not one Newton step",
        )
    if told.get("auto_class_weights", "None") != "None" or told.get("class_weights"):
        raise _refuse(fitted, "rows are weighted by class")
    if told.get("model_shrink_rate", 0) != 0:
        raise _refuse(fitted, "the model shrinks while it grows (model_shrink_rate)")
    if told.get("monotone_constraints"):
        raise _refuse(fitted, "they are bounded by their neighbours' values (monotone_constraints)")
    logistic = loss == "Logloss"
    start = _log_odds if logistic else _mean
    return Boosted(
        leaves=lambda X: np.reshape(fitted.calc_leaf_indexes(X), (len(X), -1)).astype(np.intp),
        sizes=np.asarray(fitted.get_tree_leaf_counts(), dtype=np.intp),
        logistic=logistic,
        rate=told["learning_rate"],
        penalty=lambda weights: float(told["l2_leaf_reg"] * np.mean(weights)),
        start=start if told.get("boost_from_average") else lambda y, weights: 0.0,
        derivatives=np.float64,
    )


_SKLEARN: dict[type, Callable[[Any], Boosted]] = {
    HistGradientBoostingClassifier: _histograms,
    HistGradientBoostingRegressor: _histograms,
    GradientBoostingClassifier: _stagewise,
    GradientBoostingRegressor: _stagewise,
}

#: estimators of the other libraries, which are not imported to know them
_NAMES = (
    *(("lightgbm", "LGBMClassifier"), ("lightgbm", "LGBMRegressor")),
    *(("xgboost", "XGBClassifier"), ("xgboost", "XGBRegressor")),
    *(("catboost", "CatBoostClassifier"), ("catboost", "CatBoostRegressor")),
)

_READ: dict[str, Callable[[Any], Boosted]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}

"""XGBoost's documents, as JSON or in its binary form: trees as columns of numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.cases.native import damaged, refuse_unknown, ubj
from holdfast.errors import HoldfastError, UnsupportedModelError

MOST_FEATURES = 1_000_000

_WHOLE = ("left_children", "right_children", "parents", "split_indices")
_COLUMNS = ("base_weights", "default_left", "loss_changes", "split_conditions", "sum_hessian")


def estimator(content: bytes, parameters: dict[str, Any], what: str) -> Any:
    """XGBoost's own estimator around the booster of a file."""
    import xgboost

    document = checked(read(content, what), what)
    learner = document["learner"]
    objective = learner["objective"]["name"]
    trees = learner["gradient_booster"]["model"]["trees"]
    taken: dict[str, Any] = {"n_estimators": len(trees), "objective": objective, **_grown(trees)}
    weight = learner["objective"].get("reg_loss_param", {}).get("scale_pos_weight", "1")
    if float(weight) != 1.0:
        taken["scale_pos_weight"] = float(weight)
    classifies = objective == "binary:logistic"
    if not classifies and not objective.startswith(("reg:", "count:poisson")):
        raise UnsupportedModelError(
            f"{what} has the objective {objective[:40]!r}: binary:logistic and regression are "
            "supported"
        )
    made = (xgboost.XGBClassifier if classifies else xgboost.XGBRegressor)()
    refuse_unknown(parameters, TAKEN, "XGBoost")
    made.set_params(**{**taken, **parameters})
    made.load_model(bytearray(json.dumps(document).encode()))
    estimated = str(learner["learner_model_param"].get("boost_from_average", "1")) == "1"
    if estimated and "base_score" not in parameters:
        made.set_params(base_score=None)  # the mean of the erased rows' labels too: found again
    return made


#: parameters of XGBoost's estimators that are choices of a fit, and reach nothing else
TAKEN = (
    *("n_estimators", "max_depth", "max_leaves", "max_bin", "grow_policy", "learning_rate"),
    *("tree_method", "gamma", "min_child_weight", "max_delta_step", "subsample"),
    *("sampling_method", "colsample_bytree", "colsample_bylevel", "colsample_bynode"),
    *("reg_alpha", "reg_lambda", "scale_pos_weight", "base_score", "missing", "random_state"),
    *("monotone_constraints", "interaction_constraints", "feature_weights"),
)


def read(content: bytes, what: str) -> Any:
    """The document, whichever of its two forms it has."""
    try:
        # binary documents have a length after the brace, texts a quotation mark
        binary = content[:1] == b"{" and content[1:2] in (b"L", b"l", b"I", b"U", b"i")
        return ubj.read(content) if binary else json.loads(content)
    except (ValueError, RecursionError) as failure:
        raise damaged(what, "xgboost", str(failure) or "it is nested too deeply") from None


def checked(document: Any, what: str) -> dict[str, Any]:
    """The document, if every position in its trees lies inside them."""
    try:
        learner = document["learner"]
        _refuse_others(learner, what)
        features = int(learner["learner_model_param"]["num_feature"])
        if not 0 < features <= MOST_FEATURES:
            raise damaged(what, "xgboost", f"{features} features")
        names = learner.get("feature_names", [])
        if len(names) not in (0, features) or not all(isinstance(name, str) for name in names):
            raise damaged(what, "xgboost", f"{len(names)} names of {features} features")
        model = learner["gradient_booster"]["model"]
        trees, count = model["trees"], int(model["gbtree_model_param"]["num_trees"])
        fine = (
            len(trees) == count == len(model["tree_info"])
            and set(model["tree_info"]) <= {0}
            and count > 0
            and list(model.get("iteration_indptr", range(count + 1))) == list(range(count + 1))
        )
        if not fine:
            raise damaged(what, "xgboost", "the trees are not as many as it says")
        best = learner.get("attributes", {}).get("best_iteration")
        if best is not None and not 0 <= int(best) < count:
            raise damaged(what, "xgboost", "the best of its trees is none of them")
        learner["attributes"] = {} if best is None else {"best_iteration": str(int(best))}
        for number, tree in enumerate(trees):
            _tree(tree, features, f"{what}, tree {number}")
    except HoldfastError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as failure:
        raise damaged(what, "xgboost", f"{type(failure).__name__}: {failure}") from None
    return dict(document)


def _refuse_others(learner: Any, what: str) -> None:
    """Refuse boosters of other kinds, by name."""
    booster, shape = learner["gradient_booster"], learner["learner_model_param"]
    if booster["name"] != "gbtree":
        raise UnsupportedModelError(
            f"{what} holds a {str(booster['name'])[:20]!r} booster: gbtree is supported"
        )
    several = int(booster["model"]["gbtree_model_param"].get("num_parallel_tree", "1")) != 1
    if int(shape.get("num_class", "0")) > 1 or int(shape.get("num_target", "1")) != 1 or several:
        raise UnsupportedModelError(
            f"{what} has several trees at a step, for classes, targets or a forest: one is "
            "supported"
        )
    if booster["model"].get("cats", {}).get("enc"):
        raise UnsupportedModelError(
            f"{what} has categorical columns, which a table from a file has not: encode them "
            "before the model, and save both as .skops"
        )


def _tree(tree: Any, features: int, what: str) -> None:
    told = tree["tree_param"]
    n = int(told["num_nodes"])
    if n < 1 or int(told.get("num_deleted", "0")) or int(told.get("size_leaf_vector", "0")) > 1:
        raise damaged(what, "xgboost", "nodes that were deleted, or leaves of several numbers")
    if int(told["num_feature"]) != features:
        raise damaged(what, "xgboost", "another number of features")
    columns = {name: _column(tree, name, n, what) for name in (*_WHOLE, *_COLUMNS)}
    if np.any(_column(tree, "split_type", n, what)) or tree.get("categories"):
        raise UnsupportedModelError(
            f"{what} splits by categories, and only numbers are supported: encode them before the "
            "model"
        )
    left, right, parents = (columns[name] for name in _WHOLE[:3])
    inner, at = left != -1, np.arange(n)
    fine = (
        np.array_equal(inner, right != -1)
        and all(np.all((c[inner] > at[inner]) & (c[inner] < n)) for c in (left, right))
        and np.unique(np.r_[left[inner], right[inner]]).size == 2 * inner.sum() == n - 1
        and np.array_equal(parents[left[inner]], at[inner])
        and np.array_equal(parents[right[inner]], at[inner])
        and np.all((columns["split_indices"] >= 0) & (columns["split_indices"] < features))
    )
    if not fine:
        raise damaged(what, "xgboost", "a split leads outside its tree, back, or to no column")


def _column(tree: Any, name: str, n: int, what: str) -> npt.NDArray[Any]:
    found = np.asarray(tree[name])
    if found.shape != (n,) or found.dtype.kind not in "iubf":
        raise damaged(what, "xgboost", f"{name} is not {n} numbers")
    if name in _WHOLE:
        if found.dtype.kind != "i":
            raise damaged(what, "xgboost", f"{name} has fractions")
        return found.astype(np.int64)
    if not np.isfinite(found.astype(float)).all():
        raise damaged(what, "xgboost", f"{name} has numbers that are not finite")
    return found


def _grown(trees: list[Any]) -> dict[str, Any]:
    """What the trees' own sums say: their depth, the penalty λ, the learning rate η.

    A node's weight is ``w = −G / (H + λ)``, and G and H of a split are the sums of both sides; a
    leaf's is kept times η. So ``w H = Σ w_c H_c + λ (Σ w_c − w)`` over inner children, and with λ
    known the rate follows from splits whose children are leaves. A refit on the table proves it.
    """
    depth, halves, rates = 0, [], []
    for tree in trees:
        left, right = (np.asarray(tree[name], dtype=np.int64) for name in _WHOLE[:2])
        w, H = (np.asarray(tree[name], dtype=float) for name in ("base_weights", "sum_hessian"))
        level = np.zeros(len(left), dtype=int)
        leaf = left == -1
        for node in np.flatnonzero(~leaf):  # parents come before their children
            level[[left[node], right[node]]] = level[node] + 1
        depth = max(depth, int(level.max()))
        for node in np.flatnonzero(~leaf):
            sides = np.array([left[node], right[node]])
            if not leaf[sides].any():
                halves.append((w[sides].sum() - w[node], w[node] * H[node] - w[sides] @ H[sides]))
            elif leaf[sides].all():
                rates.append((w[sides] @ H[sides], w[sides].sum(), w[node], H[node]))
    found: dict[str, Any] = {"max_depth": depth} if depth else {}
    penalty = 1.0
    if halves:
        a, b = np.array(halves).T
        penalty = float(a @ b / (a @ a)) if a @ a > 0 else 1.0
        found["reg_lambda"] = penalty = max(round(penalty, 2 if penalty < 100 else 0), 0.0)
    if rates:
        sums, weights, w, H = np.array(rates).T
        a, b = w * (H + penalty), sums + penalty * weights
        if a @ a > 0:
            found["learning_rate"] = float(f"{a @ b / (a @ a):.4g}")
    return found

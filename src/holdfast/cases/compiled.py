"""Positions inside compiled models: checked once, since the code that follows them does not.

Trees are arrays of positions that scikit-learn follows without looking. A file can make one point
outside its array (memory is read that is not the model's) or at itself (prediction never ends).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import BallTree, KDTree
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from holdfast.errors import HoldfastError

#: models that hand their own rows to their trees without asking again
ENSEMBLES = (BaseForest, BaseGradientBoosting, IsolationForest)

#: 32-bit words of one set of categories in a histogram tree
BITSET_WORDS = 8


def check_compiled(model: Any, what: str) -> None:
    """Refuse a model with a tree whose positions are not its own."""
    for part in _parts(model):
        if not _is_sound(part):
            raise HoldfastError(
                f"{what} is damaged: a {type(part).__name__} in it points outside itself. Save "
                "the model again with skops.io.dump"
            )


def _parts(model: Any) -> Iterator[Any]:
    """Everything a model holds, each object once."""
    seen: set[int] = set()
    open_ = [model]
    while open_:
        part = open_.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | type):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            open_ += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set):
            open_ += list(part)
        elif isinstance(part, np.ndarray):
            open_ += part.ravel().tolist() if part.dtype == object else []
        else:
            open_ += list(getattr(part, "__dict__", {}).values())


def _is_sound(part: Any) -> bool:
    if isinstance(part, Tree):
        return _is_sound_tree(part)
    if isinstance(part, BaseDecisionTree) and hasattr(part, "tree_"):
        return isinstance(part.tree_, Tree) and part.tree_.n_features == part.n_features_in_
    if isinstance(part, ENSEMBLES) and hasattr(part, "estimators_"):
        trees = [tree for tree in _parts(part.estimators_) if isinstance(tree, Tree)]
        return all(tree.n_features == part.n_features_in_ for tree in trees)
    if isinstance(part, BaseHistGradientBoosting) and hasattr(part, "_predictors"):
        trees = [tree for tree in _parts(part._predictors) if isinstance(tree, TreePredictor)]
        return all(_is_sound_predictor(tree, part._n_features) for tree in trees)
    if isinstance(part, KDTree | BallTree):
        return _is_sound_index(part)
    return True


def _is_sound_tree(tree: Tree) -> bool:
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    feature = np.asarray(tree.feature)
    inner = left != -1
    return (
        bool(np.array_equal(inner, right != -1))
        and _point_onwards(left, inner)
        and _point_onwards(right, inner)
        and _within(feature[inner], tree.n_features)
    )


def _is_sound_predictor(tree: TreePredictor, n_features: int) -> bool:
    nodes = tree.nodes
    inner = nodes["is_leaf"] == 0
    sets = [tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets]
    chosen = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
    return (
        _point_onwards(nodes["left"].astype(np.int64), inner)
        and _point_onwards(nodes["right"].astype(np.int64), inner)
        and _within(nodes["feature_idx"][inner].astype(np.int64), n_features)
        and all(s.ndim == 2 and s.shape[1] == BITSET_WORDS for s in sets)
        and _within(chosen.astype(np.int64), min(len(s) for s in sets))
    )


def _is_sound_index(tree: Any) -> bool:
    data, places, nodes, bounds = map(np.asarray, tree.get_arrays())
    n, count = len(data), len(nodes)
    starts, ends = nodes["idx_start"], nodes["idx_end"]
    inner = nodes["is_leaf"] == 0
    return (
        len(places) == n
        and _within(places, n)
        and bool(np.all((starts >= 0) & (starts <= ends) & (ends <= n)))
        and bool(np.all(2 * np.flatnonzero(inner) + 2 < count))
        and bounds.shape[1] == count
        and bounds.shape[2] == data.shape[1]
    )


def _point_onwards(children: Any, inner: Any) -> bool:
    """Whether every child stands behind its parent: inside the array, and never in a circle."""
    chosen = children[inner]
    return bool(np.all(chosen > np.flatnonzero(inner)) and np.all(chosen < len(children)))


def _within(places: Any, most: int) -> bool:
    return bool(np.all((places >= 0) & (places < most)))

"""A model just restored from a file, looked through before it is used.

Names were judged before loading; this is about contents. Some attributes make a model read files or
load pickles when it is fitted again. And trees are arrays of positions that scikit-learn's compiled
code follows without looking: a file can make one point outside its array (memory is read that is
not the model's) or at itself (prediction never ends).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.metrics import DistanceMetric
from sklearn.neighbors import BallTree, KDTree
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor
from sklearn.tree._tree import Tree

from holdfast.cases.native.inside_skops import reaches_out
from holdfast.errors import HoldfastError

#: 32-bit words of one set of categories in a histogram tree
BITSET_WORDS = 8

#: the last place of a Mersenne twister's state, and of Philox's buffer
LAST_PLACES = {"pos": 624, "buffer_pos": 4}

#: the largest degree of a spline anybody fits
MOST_DEGREE = 20


def check_restored(model: Any, what: str) -> None:
    """Refuse a model that would reach out of itself, by what it holds or where it points."""
    for part in _parts(model):
        reach = _reaches_out(part) or reaches_out(part)
        if reach:
            raise HoldfastError(f"{what} {reach}: save it again without")
        try:
            sound = _is_sound(part)
        except Exception:  # an attribute that is not there, or of another kind
            sound = False
        if not sound:
            raise HoldfastError(
                f"{what} is damaged: a {type(part).__name__} in it points outside itself. Save "
                "the model again with skops.io.dump"
            )


def _parts(model: Any) -> Iterator[Any]:
    """Everything a model holds, each object once."""
    seen: dict[int, Any] = {}
    open_ = [model]
    while open_:
        part = open_.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | type):
            continue
        seen[id(part)] = part  # kept, so that no other object gets its identity
        yield part
        if isinstance(part, dict):
            open_ += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            open_ += list(part)
        elif isinstance(part, np.ndarray) and part.dtype == object:
            open_ += part.ravel().tolist()
        elif isinstance(part, partial):
            open_ += [part.func, part.args, part.keywords]
        if not isinstance(part, FunctionType):
            open_ += list(getattr(part, "__dict__", {}).values())


def _reaches_out(part: Any) -> str | None:
    """What makes a part read files, load pickles, or be something else than it says."""
    named = part if isinstance(part, dict) else getattr(part, "__dict__", {})
    for name, value in named.items():
        last = str(name).rpartition("__")[2]
        if last == "memory" and not _is_nothing(value):
            return "caches its steps in a folder (memory=…), from which code could be loaded"
        if last == "input" and "filename" in _words(value) | _words(
            getattr(value, "tolist", int)()
        ):
            return "reads files that its input names (input='filename')"
    if not _is_restored(part):
        return None
    for name in named:
        if name == "_skl_callbacks" and named[name]:
            return "has callbacks, which run while it is fitted"
        if name.startswith("__") or callable(getattr(type(part), name, None)):
            return f"replaces {name!r} of a {type(part).__name__}"
    return None


def _is_restored(part: Any) -> bool:
    """Whether a part was made from attributes out of the file: no array, function or container."""
    home = type(part).__module__.partition(".")[0]
    return home in ("sklearn", "holdfast", "lightgbm", "xgboost", "catboost") and not isinstance(
        part, dict | list | tuple
    )


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(v is None for v in value))


def _words(value: Any) -> set[str]:
    """A text, or texts, whatever holds them."""
    try:
        return {str(v) for v in np.ravel(np.asarray(value, dtype=object))}
    except ValueError:
        return set()


def _is_sound(part: Any) -> bool:
    """Whether every position in a part lies in it."""
    return all(check(part) for kind, check in CHECKS.items() if isinstance(part, kind))


def _tree(tree: Tree) -> bool:
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    feature = np.asarray(tree.feature)
    inner = left != -1
    return (
        tree.node_count >= 1
        and bool(np.array_equal(inner, right != -1))
        and _point_onwards(left, inner)
        and _point_onwards(right, inner)
        and _within(feature[inner], tree.n_features)
    )


def _decision_tree(model: BaseDecisionTree) -> bool:
    if not hasattr(model, "tree_"):
        return True
    return type(model.tree_) is Tree and model.tree_.n_features == model.n_features_in_


def _trees_of(models: Any, n_features: int) -> bool:
    """Trees that are handed rows of so many features without being asked."""
    return all(
        isinstance(tree, BaseDecisionTree)
        and type(tree.tree_) is Tree
        and tree.tree_.n_features == n_features
        for tree in models
    )


def _forest(model: BaseForest) -> bool:
    if not hasattr(model, "estimators_"):
        return True
    return len(model.estimators_) > 0 and _trees_of(model.estimators_, model.n_features_in_)


def _isolation(model: IsolationForest) -> bool:
    if not hasattr(model, "estimators_"):
        return True
    pairs = zip(model.estimators_, model.estimators_features_, strict=True)
    return all(
        _trees_of([tree], len(chosen)) and _within(np.asarray(chosen), model.n_features_in_)
        for tree, chosen in pairs
    )


def _gradient_boosting(model: BaseGradientBoosting) -> bool:
    if not hasattr(model, "estimators_"):
        return True
    trees, classes = model.estimators_, getattr(model, "n_classes_", 2)
    columns = classes if classes > 2 else 1
    return (
        isinstance(trees, np.ndarray)
        and trees.ndim == 2
        and len(trees) > 0
        and trees.shape[1] == columns == model.n_trees_per_iteration_
        and all(type(tree) is DecisionTreeRegressor for tree in trees.flat)
        and _trees_of(trees.flat, model.n_features_in_)
    )


def _histogram_boosting(model: BaseHistGradientBoosting) -> bool:
    if not hasattr(model, "_predictors"):
        return True
    columns = model.n_trees_per_iteration_
    categories = model._bin_mapper.is_categorical_
    return all(
        len(step) == columns
        and all(_predictor(tree, model._n_features, categories) for tree in step)
        for step in model._predictors
    )


def _predictor(tree: Any, n_features: int, categories: Any) -> bool:
    nodes = tree.nodes
    inner = nodes["is_leaf"] == 0
    by_set = inner & (nodes["is_categorical"] != 0)
    sets = [tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets]
    features = nodes["feature_idx"].astype(np.int64)
    known = np.zeros(n_features, bool) if categories is None else np.asarray(categories, bool)
    return (
        type(tree) is TreePredictor
        and len(nodes) > 0
        and _point_onwards(nodes["left"].astype(np.int64), inner)
        and _point_onwards(nodes["right"].astype(np.int64), inner)
        and _within(features[inner], n_features)
        and len(known) == n_features
        and bool(known[features[by_set]].all())
        and all(s.ndim == 2 and s.shape[1] == BITSET_WORDS for s in sets)
        and _within(nodes["bitset_idx"][by_set].astype(np.int64), min(len(s) for s in sets))
    )


def _index(tree: Any) -> bool:
    data, places, nodes, bounds = map(np.asarray, tree.get_arrays())
    n, count = len(data), len(nodes)
    starts, ends = nodes["idx_start"], nodes["idx_end"]
    inner = nodes["is_leaf"] == 0
    metric = [part for part in tree.__getstate__() if isinstance(part, DistanceMetric)]
    return (
        len(metric) == 1
        and len(places) == n
        and _within(places, n)
        and bool(np.all((starts >= 0) & (starts <= ends) & (ends <= n)))
        and bool(np.all(2 * np.flatnonzero(inner) + 2 < count))
        and bounds.shape == (2 if isinstance(tree, KDTree) else 1, count, data.shape[1])
    )


def _support_vectors(model: BaseLibSVM) -> bool:
    if not hasattr(model, "_n_support"):
        return True
    counts, vectors = np.asarray(model._n_support), len(model.support_)
    classes = len(model.classes_) if hasattr(model, "classes_") else 2
    rows = max(classes - 1, 1)
    return (
        bool(np.all(counts >= 0))
        and len(counts) == (classes if hasattr(model, "classes_") else 2)
        and int(counts.sum()) in (vectors, 2 * vectors)
        and model._dual_coef_.shape == (rows, vectors)
        and (callable(model.kernel) or model.support_vectors_.shape[0] == vectors)
        and len(np.ravel(model._intercept_)) == max(classes * (classes - 1) // 2, 1)
        and len(model._probA) in (0, classes * (classes - 1) // 2)
        and len(model._probB) == len(model._probA)
    )


def _spline(spline: BSpline) -> bool:
    k, knots = int(spline.k), np.asarray(spline.t)
    return 0 <= k <= MOST_DEGREE and len(knots) >= len(np.asarray(spline.c)) + k + 1


def _sparse(matrix: Any) -> bool:
    if matrix.format in ("csr", "csc"):
        matrix.check_format(full_check=True)
    return True


def _random_state(source: Any) -> bool:
    state = (
        source.get_state(legacy=False)
        if isinstance(source, np.random.RandomState)
        else source.bit_generator.state
    )
    inner = state["state"] if isinstance(state["state"], dict) else {}
    places = {**inner, **state}
    return all(
        0 <= int(places[name]) <= most for name, most in LAST_PLACES.items() if name in places
    )


#: what is checked of each kind of part
CHECKS: dict[Any, Callable[[Any], bool]] = {
    Tree: _tree,
    BaseDecisionTree: _decision_tree,
    BaseForest: _forest,
    IsolationForest: _isolation,
    BaseGradientBoosting: _gradient_boosting,
    BaseHistGradientBoosting: _histogram_boosting,
    (KDTree, BallTree): _index,
    BaseLibSVM: _support_vectors,
    BSpline: _spline,
    (sparse.spmatrix, sparse.sparray): _sparse,
    (np.random.RandomState, np.random.Generator): _random_state,
}


def _point_onwards(children: Any, inner: Any) -> bool:
    """Whether every child stands behind its parent: inside the array, and never in a circle."""
    chosen = children[inner]
    return bool(np.all(chosen > np.flatnonzero(inner)) and np.all(chosen < len(children)))


def _within(places: Any, most: int) -> bool:
    return bool(np.all((places >= 0) & (places < most)))

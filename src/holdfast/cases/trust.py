"""What a .skops file may name: classes of listed packages, and a short list of functions.

A .skops file is a tree of names with numbers at its leaves. Each name says how it is used (its
*loader*), and loading imports it and calls it, so a name is trusted only for what it *is*: it is
resolved, and a class counts only where its own ``__module__`` lies in a listed package, wherever
the file claims to have found it. A function counts only if it is one of those listed here.
Nothing else is called: no bound methods, no operators, no constructors with arguments.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from holdfast.cases.native import inside_skops as boosters

#: packages whose estimators may be restored by their attributes; nothing of them is called with
#: arguments out of the file
PACKAGES = ("sklearn", "holdfast")

#: modules that are not for models: what is in them does things
NEVER_IMPORTED = frozenset(
    [
        *("tests", "conftest", "externals", "_build_utils", "_testing", "_test_common"),
        *("_mocking", "callback", "datasets", "_plot", "_export"),
    ]
)

#: modules whose classes are small parts of models: losses, links, kernels, ways of splitting
PARTS = (
    *("sklearn._loss.link", "sklearn._loss.loss", "sklearn.gaussian_process.kernels"),
    "sklearn.model_selection._split",
)

#: other parts of models that are no estimators
HELPERS = frozenset(
    [
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.cluster._bisect_k_means._BisectingTree",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._scorer._Scorer",
        "sklearn.metrics._scorer._CurveScorer",
        "sklearn.metrics._scorer._MultimetricScorer",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "scipy.interpolate._bsplines.BSpline",
    ]
)

#: containers beside the built-in ones
CONTAINER_HELPERS = frozenset(
    [
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.impute._iterative._ImputerTriplet",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._encode._nandict",
    ]
)

#: types of boosting libraries, restored from bytes that were looked through and written anew
BOOSTING = boosters.TYPES

#: packages that are looked into where they are imported already, and never made to import more
LOOKED_INTO = ("numpy", "scipy", "builtins", "collections")

#: extension types read memory by what their attributes say, so only those whose content is checked
#: after loading (:mod:`holdfast.cases.restored`), or that hold no positions at all
COMPILED = frozenset(
    [
        "sklearn.tree._tree.Tree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neighbors._ball_tree.BallTree",
    ]
    + [
        f"sklearn.metrics._dist_metrics.{name}Distance{bits}"
        for name in ("Euclidean", "Manhattan", "Chebyshev", "Minkowski", "Canberra", "Hamming")
        for bits in ("", "64", "32")
    ]
)

#: modules whose extension types are losses of one or two numbers
LOSSES = ("sklearn._loss._loss", "sklearn.linear_model._sgd_fast")

#: functions a model may hold, by module; numpy's and scipy's element-wise functions come on top
FUNCTIONS = {
    "numpy": ("clip", "nan_to_num", "round", "mean", "median", "max", "min", "asarray"),
    "sklearn.feature_selection": (
        *("f_classif", "f_regression", "chi2", "r_regression"),
        *("mutual_info_classif", "mutual_info_regression"),
    ),
    "sklearn.metrics.pairwise": (
        *("linear_kernel", "polynomial_kernel", "rbf_kernel", "sigmoid_kernel", "laplacian_kernel"),
        *("cosine_similarity", "chi2_kernel", "additive_chi2_kernel"),
    ),
    "sklearn.metrics": (
        *("accuracy_score", "balanced_accuracy_score", "roc_auc_score", "average_precision_score"),
        *(
            "f1_score",
            "fbeta_score",
            "precision_score",
            "recall_score",
            "log_loss",
            "brier_score_loss",
        ),
        *("matthews_corrcoef", "jaccard_score", "r2_score", "mean_squared_error"),
        *("mean_absolute_error", "root_mean_squared_error", "median_absolute_error"),
        *("mean_poisson_deviance", "mean_gamma_deviance", "max_error", "explained_variance_score"),
    ),
    "sklearn.utils.validation": ("check_array",),
    "scipy._lib.array_api_compat.numpy": ("asarray",),
}

#: what keys and entries may be
SCALARS: tuple[type, ...] = (int, float, str, bool, bytes, complex)

#: what each container may be made as
CONTAINERS: dict[str, type] = {
    "DictNode": dict,
    "DefaultDictNode": dict,
    "ListNode": list,
    "SetNode": set,
    "TupleNode": tuple,
}

#: leaves that hold nothing but values, with what they are made as
VALUES: dict[str, tuple[str, ...]] = {
    "NdArrayNode": ("numpy",),
    "MaskedArrayNode": ("numpy.ma",),
    "DTypeNode": ("numpy",),
    "RandomStateNode": ("numpy.random",),
    "RandomGeneratorNode": ("numpy.random",),
    "SparseMatrixNode": ("scipy.sparse",),
    "BytesNode": ("builtins",),
    "BytearrayNode": ("builtins",),
    "SliceNode": ("builtins",),
    "JsonNode": (),  # JSON, whatever it calls itself
}


class Named(NamedTuple):
    """A name in a file and how it is used."""

    loader: str
    module: str
    name: str
    key: str  #: the attribute it is the value of, or "key_types" for the types of keys

    @property
    def full(self) -> str:
        """The name as ``--trust`` takes it."""
        return f"{self.module}.{self.name}"


def nodes_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Every node of a file's schema: whatever has a loader or an identity."""
    open_ = [schema]
    while open_:
        state = open_.pop()
        if isinstance(state, list):
            open_ += state
        elif isinstance(state, dict):
            if isinstance(state.get("__loader__"), str) or "__id__" in state:
                yield state
            open_ += list(state.values())


def named_in(schema: Any) -> Iterator[Named]:
    """Every name of a file's schema, also those that loading would never come to."""
    open_: list[tuple[Any, str]] = [(schema, "")]
    while open_:
        state, key = open_.pop()
        if isinstance(state, list):
            open_ += [(part, key) for part in state]
        elif isinstance(state, dict):
            if isinstance(state.get("__loader__"), str):
                yield Named(
                    state["__loader__"],
                    str(state.get("__module__")),
                    str(state.get("__class__")),
                    key,
                )
            for name, part in state.items():
                open_.append((part, _key_of(name, key)))


def _key_of(name: str, outer: str) -> str:
    """The attribute a part belongs to; the parts of a container share that of the container."""
    if outer == "key_types" or name in ("content", "__reduce__", "args"):
        return outer
    return name


def refused(schema: Any, trust: Sequence[str] = ()) -> list[str]:
    """Names in a file that are not known to be safe, in order, without those trusted by name."""
    found = [named for named in named_in(schema) if named.full not in trust]
    return list(dict.fromkeys(named.full for named in found if not is_safe(named)))


def is_safe(named: Named) -> bool:
    """Whether a name, used as it is used, does no more than restore a model."""
    loader = named.loader
    if named.key == "key_types" and loader not in ("ListNode", "TypeNode"):
        return False  # what stands there is called with each key
    if loader in CONTAINERS:
        made = _resolved(named)
        return isinstance(made, type) and _is_container(made, CONTAINERS[loader])
    if loader in VALUES:
        return not VALUES[loader] or _is_value(named)
    if loader == "TypeNode":
        made = _resolved(named)
        if named.key in ("dtype_include", "dtype_exclude"):
            return isinstance(made, type) and (made is object or issubclass(made, np.generic))
        if named.key == "default_factory":
            return made is collections.OrderedDict
        return named.key in ("key_types", "dtype") and _is_scalar(made)
    if loader == "PartialNode":  # what it calls is a node of its own, judged as a function
        return named.full == "functools.partial"
    if loader == "FunctionNode":
        return id(_resolved(named)) in _functions()
    if loader == "TreeNode":
        return named.full == "sklearn.tree._tree.Tree"
    if loader == "LossNode":
        made = _resolved(named)
        return isinstance(made, type) and _own_module(made) in LOSSES
    if loader == "ObjectNode":
        return _is_restorable(_resolved(named))
    return False  # methods, operators, constructors: they call something


def _resolved(named: Named) -> Any:
    """What a name stands for, imported only where that does nothing else."""
    module = None
    if _lies_in(named.module, LOOKED_INTO):
        module = sys.modules.get(named.module)
    elif named.full in BOOSTING or (
        _lies_in(named.module, PACKAGES) and not NEVER_IMPORTED & set(named.module.split("."))
    ):
        with contextlib.suppress(Exception):  # it is not there, or cannot be imported here
            module = importlib.import_module(named.module)
    return getattr(module, named.name, None)


def _lies_in(module: str, packages: Sequence[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _own_module(made: type) -> str:
    return str(getattr(made, "__module__", ""))


def _is_container(made: type, kind: type) -> bool:
    if not issubclass(made, kind):
        return False
    module = _own_module(made)
    return module in ("builtins", "collections") or _full(made) in CONTAINER_HELPERS


def _is_value(named: Named) -> bool:
    made = _resolved(named)
    if not isinstance(made, type):
        return False
    if named.loader == "NdArrayNode":
        return made is np.ndarray or _is_scalar(made)
    return _lies_in(_own_module(made), VALUES[named.loader]) and made is not type


def _is_scalar(made: Any) -> bool:
    return isinstance(made, type) and (made in SCALARS or made in np.sctypeDict.values())


def _full(made: type) -> str:
    return f"{_own_module(made)}.{made.__name__}"


def _is_restorable(made: Any) -> bool:
    """Whether an object of a class may be made from attributes that come out of a file."""
    if not isinstance(made, type):
        return False
    module = _own_module(made)
    if NEVER_IMPORTED & set(module.split(".")):
        return False
    if _full(made) in HELPERS | COMPILED | BOOSTING or module in PARTS:
        return True
    return _lies_in(module, PACKAGES) and issubclass(made, BaseEstimator)


@cache
def _functions() -> dict[int, Any]:
    """The functions of the list, by identity: under which name they were reached is no matter."""
    import scipy.special

    found = [
        getattr(importlib.import_module(module), name, None)
        for module, names in FUNCTIONS.items()
        for name in names
    ]
    for home in (np, scipy.special):
        found += [made for made in vars(home).values() if isinstance(made, np.ufunc)]
    return {id(function): function for function in found if callable(function)}

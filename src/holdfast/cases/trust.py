"""What a .skops file may name: classes of listed packages, and a short list of functions.

A .skops file is a tree of names with numbers at its leaves. Each name says how it is used (its
*loader*), and loading imports it and calls it, so a name is trusted only for what it *is*: it is
resolved, and a class counts only where its own ``__module__`` lies in a listed package, wherever
the file claims to have found it. A function counts only if it is one of those listed here.
Nothing else is called: no bound methods, no partial applications, no constructors with arguments.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

#: packages whose classes may be restored by their attributes; nothing of them is called with
#: arguments out of the file
PACKAGES = ("sklearn", "holdfast", "scipy.interpolate")

#: modules that are not for models: importing them does things
NEVER_IMPORTED = frozenset(
    ["tests", "conftest", "externals", "_build_utils", "_testing", "_test_common", "_mocking"]
)

#: packages that are looked into where they are imported already, and never made to import more
LOOKED_INTO = ("numpy", "scipy", "builtins", "collections")

#: extension types read memory by what their attributes say, so only those whose content is checked
#: after loading (:mod:`holdfast.cases.compiled`), or that hold no positions at all
COMPILED = frozenset(
    [
        "sklearn.tree._tree.Tree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neighbors._ball_tree.BallTree",
    ]
    + [
        f"sklearn.metrics._dist_metrics.{name}Distance{bits}"
        for name in ("Euclidean", "Manhattan", "Chebyshev", "Minkowski")
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
        *("f1_score", "precision_score", "recall_score", "log_loss", "brier_score_loss"),
        *("matthews_corrcoef", "jaccard_score", "r2_score", "mean_squared_error"),
        *("mean_absolute_error", "root_mean_squared_error", "median_absolute_error"),
        *("mean_poisson_deviance", "mean_gamma_deviance", "max_error", "explained_variance_score"),
    ),
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
        return named.key in ("key_types", "dtype") and _is_scalar(_resolved(named))
    if loader == "FunctionNode":
        return id(_resolved(named)) in _functions()
    if loader == "TreeNode":
        return named.full == "sklearn.tree._tree.Tree"
    if loader == "LossNode":
        made = _resolved(named)
        return isinstance(made, type) and _own_module(made) in LOSSES
    if loader == "ObjectNode":
        return _is_restorable(_resolved(named))
    return False  # methods, partial applications, operators, constructors: they call something


def _resolved(named: Named) -> Any:
    """What a name stands for, imported only where that does nothing else."""
    module = None
    if _lies_in(named.module, LOOKED_INTO):
        module = sys.modules.get(named.module)
    elif _lies_in(named.module, PACKAGES) and not NEVER_IMPORTED & set(named.module.split(".")):
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
    return module in ("builtins", "collections") or _lies_in(module, ("sklearn", "scipy"))


def _is_value(named: Named) -> bool:
    made = _resolved(named)
    if not isinstance(made, type):
        return False
    if named.loader == "NdArrayNode":
        return made is np.ndarray or _is_scalar(made)
    return _lies_in(_own_module(made), VALUES[named.loader]) and made is not type


def _is_scalar(made: Any) -> bool:
    return isinstance(made, type) and (made in SCALARS or made in np.sctypeDict.values())


def _is_restorable(made: Any) -> bool:
    """Whether an object of a class may be made from attributes that come out of a file."""
    if not isinstance(made, type) or issubclass(made, BaseException):
        return False
    module = _own_module(made)
    if not _lies_in(module, PACKAGES) or NEVER_IMPORTED & set(module.split(".")):
        return False
    if _is_compiled(module):
        return f"{module}.{made.__name__}" in COMPILED
    return not _lies_in(module, ("holdfast",)) or issubclass(made, BaseEstimator)


@cache
def _is_compiled(module: str) -> bool:
    place = str(getattr(importlib.import_module(module), "__file__", ""))
    return not place.endswith(".py")


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

"""Model files as boosting libraries write them: trees and settings, no pickle and no code.

The libraries read these files in compiled code that follows what they say, so a file is looked
through first (positions inside their arrays, nothing that points back) and what is handed on is
written anew from what was looked at. A file holds a booster and not an estimator: what a refit
needs beyond it comes from the file where it says so, and from ``⟦param⟧`` where it does not. That a
refit gives the file's predictions back is checked later, on the training table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.archives import SETTING, in_words, limit
from holdfast.arguments import near_name
from holdfast.errors import HoldfastError

#: bytes a file may have unless HOLDFAST_MAX_UNPACKED says otherwise: read, it takes ten times that
MOST_NATIVE = 200 * 10**6


@dataclass(frozen=True)
class Native:
    """A library's files.

    Attributes
    ----------
    library : str
    module : str
        The module of ours that has ``estimator(content, parameters, what)``.
    missing : str
        What its files do not say, and a refit takes as the library's default unless told.
    """

    library: str
    module: str
    missing: str


_XGBOOST = Native(
    "xgboost",
    "xgboost_document",
    "min_child_weight, gamma, subsample, colsample_bytree, colsample_bylevel, colsample_bynode, "
    "reg_alpha, max_bin, max_leaves, max_delta_step, grow_policy, tree_method, random_state, "
    "sample weights",
)

#: kinds of files by how their names end
NATIVE: dict[str, Native] = {
    ".txt": Native("lightgbm", "lightgbm_text", "class weights, sample weights"),
    ".json": _XGBOOST,
    ".ubj": _XGBOOST,
    ".cbm": Native("catboost", "catboost_binary", "sample weights"),
}


def from_native(file: Path, parameters: Mapping[str, Any]) -> Any:
    """The estimator of a library's own file.

    Raises
    ------
    HoldfastError
        If the library is not installed, or the file is not one it writes; the message says why.
    """
    what, native = f"{str(file)!r}", NATIVE[file.suffix.lower()]
    refuse_large(what, file.stat().st_size)
    try:
        importlib.import_module(native.library)
    except ImportError:
        raise HoldfastError(
            f"{what} is read by {native.library}, which is not installed: pip install "
            f"{native.library}"
        ) from None
    made: Callable[..., Any] = importlib.import_module(f"{__name__}.{native.module}").estimator
    try:
        return made(file.read_bytes(), dict(parameters), what)
    except HoldfastError:
        raise
    except RecursionError:
        raise HoldfastError(f"{what} is nested too deeply to be a model") from None
    except Exception as failure:  # whatever is not where it should be
        raise damaged(what, native.library, f"{type(failure).__name__}: {failure}") from None


def refuse_large(what: str, size: int) -> None:
    """Refuse a file that would take more memory than a model needs."""
    most, told = limit()
    most = most if told else MOST_NATIVE
    if size > most:
        raise HoldfastError(
            f"{what} has {in_words(size)}, and at most {in_words(most)} of a model are read. If "
            f"you trust where it comes from, set {SETTING}={size / 1e9 * 1.1:.1f}GB"
        )


def damaged(what: str, library: str, why: str) -> HoldfastError:
    """What is said of a file that is not as its library writes it."""
    return HoldfastError(
        f"{what} is no model that {library} saves, or is damaged: {why[:200]}. Save it again"
    )


def refuse_unknown(parameters: Mapping[str, Any], known: Any, library: str) -> None:
    """Refuse parameters that a file's estimator does not have."""
    for name in parameters:
        if name not in known:
            raise HoldfastError(
                f"⟦param⟧: {library} has no parameter {name!r} that a refit takes"
                f"{near_name(name, known)}"
            )

"""Many small fits scored on one table: what scikit-learn checks at every call, checked once.

A hundred fits of trees or Gaussians are asked the same rows a hundred times; turning the frame into
an array, comparing its names and looking for infinities takes most of the time.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.pipeline import Pipeline

#: fits of these take an array of the frame's numbers as they take the frame
_PLAIN = tuple(
    f"sklearn.{name}."
    for name in (
        *("tree", "naive_bayes", "linear_model", "neighbors", "svm", "discriminant_analysis"),
        *("neural_network", "preprocessing", "impute", "ensemble._forest"),
    )
)

#: trees look at single precision, which such a number still fits into
_LARGE = 1e30


@contextlib.contextmanager
def unchecked(fits: Sequence[Any], X: Any) -> Iterator[tuple[list[Any], Any]]:
    """The same fits and the same table, as far as it is safe without names and checks.

    That is where the table is a frame of finite double-precision numbers, named as at the fit, and
    every fit is of a kind that sees nothing but the numbers; else both are as they were.
    """
    some = next((fit for fit in fits if not isinstance(fit, float)), None)
    names = None if some is None else getattr(some, "feature_names_in_", None)
    told = isinstance(X, pd.DataFrame) and names is not None and list(X.columns) == list(names)
    if not told or not all(kind == np.float64 for kind in X.dtypes):
        yield list(fits), X
        return
    cells = X.to_numpy()
    bare = [fit if isinstance(fit, float) else _bare(fit) for fit in fits]
    if not np.all(np.abs(cells) < _LARGE) or any(fit is None for fit in bare):
        yield list(fits), X
        return
    with config_context(assume_finite=True, skip_parameter_validation=True):
        yield bare, cells


def _bare(fit: Any) -> Any:
    """A fit that does not know its columns' names; ``None`` where it may need them."""
    if type(fit) is Pipeline:
        steps = [(name, _bare(step)) for name, step in fit.steps]
        if any(step is None for _, step in steps):
            return None
        made = copy.copy(fit)
        made.steps = steps
        return made
    module = f"{type(fit).__module__}."
    if not any(module.startswith(name) for name in _PLAIN):
        return None
    made = copy.copy(fit)
    made.__dict__.pop("feature_names_in_", None)
    return made

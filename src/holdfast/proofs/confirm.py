"""Attacks confirmed by solving again without the rows they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions, take
from holdfast.models.erasable import ErasableModel
from holdfast.models.kernel import KernelCore
from holdfast.models.linear import LinearCore
from holdfast.models.logistic import LogisticCore

#: scores this close to the target, in deviations, are decided by the estimator's own refit
CLOSE = 1e-7


def scores_without(
    model: ErasableModel, points: Any, sets: Sequence[Positions], target: float
) -> Array:
    """The score of every point when its own set of rows is gone, (q,).

    Linear models: least squares on the remaining rows, in whitened coordinates. Kernel models: the
    shortened system's residual is checked to be zero. Logistic regression: Newton's method on the
    remaining rows, from the optimum. Others, and what ends up too close to the target to call:
    the estimator refitted, with its preprocessing frozen.
    """
    if not sets:
        return np.zeros(0)
    core = model.core
    if isinstance(core, LinearCore | KernelCore | LogisticCore):
        scores = core.scores_without(model.features(points), sets)
        open_ = np.flatnonzero(~(np.abs(scores - target) > CLOSE * model.score_unit))
    else:
        scores, open_ = np.full(len(sets), np.nan), np.arange(len(sets))
    by_set: dict[tuple[int, ...], list[int]] = {}
    for j in open_.tolist():
        by_set.setdefault(tuple(sorted(sets[j].tolist())), []).append(j)
    for rows, recourses in by_set.items():
        refit = model.without(list(rows), refit_preprocessing=False)
        scores[recourses] = refit.scores(take(points, recourses))
    return scores

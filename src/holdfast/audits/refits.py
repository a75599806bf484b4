"""Refits: what every number shown as confirmed rests on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from holdfast.algebra.rows import Array, Positions, take
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel

#: called with a stage, how much of it is done, and how much there is
Progress = Callable[[str, int, int], None]


def scores_or_nan(model: ErasableModel, points: Any) -> Array:
    """Scores; NaN for a point the model cannot score, such as one with a category that is gone."""
    try:
        return model.scores(points)
    except HoldfastError:
        scores = np.full(len(points), np.nan)
        for i in range(len(points)):
            with contextlib.suppress(HoldfastError):
                scores[i] = model.scores(take(points, [i]))[0]
        return scores


class Refits:
    """Scores of the recourses by models refitted on other rows.

    Parameters
    ----------
    model : ErasableModel
    points : the recourses
    n_jobs : int
        Refits at a time.
    tell : callable
        Progress.
    """

    def __init__(self, model: ErasableModel, points: Any, n_jobs: int, tell: Progress):
        self.model, self.points, self.n_jobs, self.tell = model, points, n_jobs, tell

    def without(self, sets: Sequence[Positions], stage: str, frozen: bool = False) -> Array:
        """Scores without each set, (sets, q): one refit for each different set.

        ``frozen`` keeps the preprocessing as it was fitted.
        """
        named = [tuple(np.sort(rows).tolist()) for rows in sets]
        different = list(dict.fromkeys(named))
        everything = np.arange(self.model.rows.n)
        keep = [np.setdiff1d(everything, rows) for rows in different]
        scores = self.on(keep, stage, frozen)
        place = {rows: i for i, rows in enumerate(different)}
        return scores[[place[rows] for rows in named]]

    def on(self, samples: Sequence[Positions], stage: str, frozen: bool = False) -> Array:
        """Scores of the model fitted on each sample of rows; NaN where it cannot be fitted."""
        results = []
        self.tell(stage, 0, len(samples))
        with Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator") as parallel:
            for scored in parallel(delayed(self._scores)(rows, frozen) for rows in samples):
                results.append(scored)
                self.tell(stage, len(results), len(samples))
        return np.array(results)

    def again(self) -> Array:
        """Scores by the model refitted on the same rows: the same, unless it draws."""
        return scores_or_nan(self.model.refitted_on(np.arange(self.model.rows.n)), self.points)

    def _scores(self, rows: Positions, frozen: bool) -> Array:
        if np.array_equal(rows, np.arange(self.model.rows.n)):
            return self.model.scores(self.points)
        with threadpool_limits(1 if self.n_jobs != 1 else None, user_api="blas"):
            try:
                refit = self.model.refitted_on(rows, refit_preprocessing=not frozen)
                return scores_or_nan(refit, self.points)
            except HoldfastError:  # a class or a whole category went with the rows
                return np.full(len(self.points), np.nan)

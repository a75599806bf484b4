"""Scores without some rows: one service for everybody who asks.

Two ways lead to them. ``by="estimator"`` fits the estimator itself again, preprocessing and all:
the ground truth that confirms what is printed. ``by="solver"`` finds the same optimum with the
family's own solver, where it has one (``model.can.solves``): the same numbers (a test holds them to
1e-8) at a fraction of the cost; where there is none it is the estimator too.

One rule for what cannot be scored: a point that the refitted pipeline refuses (it has a category
that went with the rows) gets NaN, with the reason; so does every point where there is no refit at
all. NaN never counts as surviving.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed

from holdfast.algebra.rows import Array, Mask, Positions, take
from holdfast.algebra.threads import LARGE, one_blas_thread
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.pipelines import anew, refitted, seeds_of
from holdfast.models.solving import Raw, Solved, can_go, scores_or_nan, whole_scores
from holdfast.shared_state import quiet

#: called with a stage, how much of it is done, and how much there is
Progress = Callable[[str, int, int], None]

By = Literal["estimator", "solver"]
Kept = Literal["refitted", "kept"]

#: scores this close to a target, in deviations, are decided by the estimator's own refit
CLOSE = 1e-7

#: sets solved for at a time
_MANY = 256


def small_matrices(model: ErasableModel) -> bool:
    """Whether BLAS does best with one thread: everywhere but around large kernel matrices."""
    return model.can.refit != "cubic" or model.rows.n < LARGE


def broken(scores: Array, target: float) -> Mask:
    """Which recourses do not reach the target; one without a score does not."""
    found: Mask = ~(scores >= target)
    return found


def shares_broken(scores: Array, target: float) -> Array:
    """The share broken for each refit, (sets,): what has no score is broken."""
    shares: Array = np.mean(broken(scores, target), axis=1)
    return shares


class Refits:
    """Scores of some points by the model without each of many sets of rows.

    Parameters
    ----------
    model : ErasableModel
    points : as the model takes them
    n_jobs : int
        Refits at a time.
    progress : callable, optional
    start : {"fitted", "scratch"}
        Where refits of networks start from.

    Attributes
    ----------
    fits : int
        How often the estimator was fitted.
    solved : int
        How often the family's own solver was used instead.
    skipped : int
        How many refits were not made because time was up.
    """

    def __init__(
        self,
        model: ErasableModel,
        points: Any,
        n_jobs: int = 1,
        progress: Progress | None = None,
        start: str = "fitted",
    ):
        self.model, self.points, self.n_jobs, self._start = model, points, n_jobs, start
        self._raw = Raw(model, points)
        self._tell = progress or (lambda stage, done, total: None)
        self._known: dict[Any, Array] = {}
        self._reasons: dict[Any, dict[int, str]] = {}
        self._unfitted: set[Any] = set()
        self.fits = self.solved = self.skipped = 0
        #: when to stop refitting, by :func:`time.monotonic`: what is left then has no scores
        self.until = math.inf

    def without(
        self,
        sets: Sequence[Positions],
        stage: str = "refits",
        preprocessing: Kept = "refitted",
        by: By = "estimator",
    ) -> Array:
        """Scores without each set, (sets, q); one refit for each different set."""
        if self.model.preprocessing is None:
            preprocessing = "kept"
        named = [tuple(np.sort(rows).tolist()) for rows in sets]
        new = [
            rows for rows in dict.fromkeys(named) if (rows, preprocessing, by) not in self._known
        ]
        gone = [np.array(rows, dtype=np.intp) for rows in new]
        fixed = self.model.cutoff is None
        kept = preprocessing == "kept" and not self.model.can.chooses
        if self.model.in_passes is not None:
            found = self._in_passes(gone, stage, preprocessing, by)
        elif by == "solver" and kept and self.model.can.solves and fixed:
            found = self._solved_without(gone, stage)
        elif by == "solver" and (quick := whole_scores(self.model, self.points)) is not None:
            found = self._quickly_without(gone, stage, quick)
        else:
            everything = np.arange(self.model.rows.n)
            keep = [np.delete(everything, rows) for rows in gone]
            found = self._each(keep, stage, preprocessing, by)
        for rows, scores in zip(new, found, strict=True):
            self._known[rows, preprocessing, by] = scores
        return np.array([self._known[rows, preprocessing, by] for rows in named])

    def on(
        self, samples: Sequence[Positions], stage: str = "refits", by: By = "estimator"
    ) -> Array:
        """Scores of the model fitted on each sample of rows; NaN where it cannot be fitted."""
        return np.array(self._each(samples, stage, "refitted", by))

    def shares(
        self,
        sets: Sequence[Positions],
        target: float,
        stage: str = "refits",
        preprocessing: Kept = "refitted",
        by: By = "estimator",
    ) -> Array:
        """The share broken without each set; NaN where there is no refit to tell by."""
        shares = shares_broken(self.without(sets, stage, preprocessing, by), target)
        shares[~self.tried(sets)] = np.nan
        return shares

    def shares_on(
        self, samples: Sequence[Positions], target: float, stage: str, by: By = "estimator"
    ) -> Array:
        """The share broken by the model fitted on each sample of rows; NaN likewise."""
        shares = shares_broken(self.on(samples, stage, by), target)
        shares[[self._key(rows) in self._unfitted for rows in samples]] = np.nan
        return shares

    def tried(self, sets: Sequence[Positions]) -> Mask:
        """Without which of some sets there was a refit: time was left, and classes were."""
        if not self._unfitted:
            return np.ones(len(sets), dtype=bool)
        everything = np.arange(self.model.rows.n)
        keys = [self._key(np.delete(everything, rows)) for rows in sets]
        return np.array([key not in self._unfitted for key in keys], dtype=bool)

    def _key(self, rows: Positions) -> tuple[int, ...]:
        """A sample of rows, by name."""
        return tuple(np.sort(rows).tolist())

    def why_not(self, rows: Positions) -> dict[int, str]:
        """Why points have no score without some rows, by their place."""
        return self._reasons.get(tuple(np.sort(rows).tolist()), {})

    def again(self) -> Array:
        """Scores by the model refitted on the same rows: others only if it draws without a seed."""
        self.fits += 1
        with one_blas_thread(small_matrices(self.model)):
            refit = self.model.refitted_on(np.arange(self.model.rows.n))
            return scores_or_nan(refit, self.points)

    def reseeded(self, rng: Any, draws: int = 3) -> Array:
        """Scores with nobody erased but another seed and order of the rows, (draws, q)."""
        model, found = self.model, []
        for draw in range(draws):
            self._tell("refits with other seeds", draw, draws)
            order = rng.permutation(model.rows.n)
            fresh = anew(model.estimator)
            fresh.set_params(**{name: int(rng.integers(2**31)) for name in seeds_of(fresh)})
            weights = None if model.sample_weight is None else model.sample_weight[order]
            X, y = take(model.X, order), model.y[order]
            with quiet, one_blas_thread(small_matrices(model)):
                fitted = refitted(fresh, model.queries(X, "X"), y, weights, True)
                again = ErasableModel(fitted, X, y, None, weights, model.favourable)
            self.fits += 1
            found.append(scores_or_nan(again, self.points))
        self._tell("refits with other seeds", draws, draws)
        return np.array(found)

    # inside -----------------------------------------------------------------------------------

    def _each(
        self, samples: Sequence[Positions], stage: str, preprocessing: Kept, by: By
    ) -> list[Array]:
        """One fit per sample, several at a time."""
        results: list[Array] = []
        if not len(samples):
            return results
        self._tell(stage, 0, len(samples))
        pinned = self.n_jobs != 1 or small_matrices(self.model)
        with (
            one_blas_thread(pinned),
            Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator") as parallel,
        ):
            work = (delayed(self._scores)(rows, preprocessing, by) for rows in samples)
            for scored in parallel(work):
                results.append(scored)
                self._tell(stage, len(results), len(samples))
        return results

    def _scores(self, rows: Positions, preprocessing: Kept, by: By) -> Array:
        model = self.model
        if np.array_equal(rows, np.arange(model.rows.n)):
            return model.scores(self.points)
        if time.monotonic() > self.until:
            self.skipped += 1
            self._unfitted.add(self._key(rows))
            return np.full(len(self.points), np.nan)
        reasons: dict[int, str] = {}
        try:
            whole = preprocessing == "refitted" or model.preprocessing is None
            cheap = model.can.solves and model.can.refit == "cheap" and not model.can.chooses
            if by == "solver" and whole and cheap:
                self.solved += 1
                refit: Any = Solved(model, rows, self._raw)
            else:
                self.fits += 1
                refit = model.refitted_on(
                    rows, refit_preprocessing=preprocessing == "refitted", start=self._start
                )
            scores = scores_or_nan(refit, self.points, reasons)
        except HoldfastError as refusal:  # a class or a whole category went with the rows
            scores = np.full(len(self.points), np.nan)
            reasons = dict.fromkeys(range(len(self.points)), str(refusal))
            self._unfitted.add(self._key(rows))
        if reasons:
            gone = np.setdiff1d(np.arange(model.rows.n), rows)
            self._reasons[tuple(gone.tolist())] = reasons
        return scores

    def _in_passes(
        self, sets: list[Positions], stage: str, preprocessing: Kept, by: By
    ) -> list[Array]:
        """From files: all sets together, with a pass where the estimator's word is wanted."""
        if not sets:
            return []
        self._tell(stage, 0, len(sets))
        look = by == "estimator"
        found = list(self.model.in_passes(self.points, sets, preprocessing, look))
        self.fits, self.solved = self.fits + look * len(sets), self.solved + (not look) * len(sets)
        self._tell(stage, len(sets), len(sets))
        return found

    def _quickly_without(self, sets: list[Positions], stage: str, quick: Any) -> list[Array]:
        """The whole pipeline refitted by re-weighting the penalty, where that is all it does."""
        found: list[Array] = []
        for start in range(0, len(sets), _MANY):
            self._tell(stage, len(found), len(sets))
            with one_blas_thread(small_matrices(self.model)):
                found += list(quick(sets[start : start + _MANY]))
        self._tell(stage, len(found), len(sets))
        self.solved += len(sets)
        everything = np.arange(self.model.rows.n)
        for place, scores in enumerate(found):
            if np.isnan(scores).any():  # what it cannot say: fitted, and the reasons found
                keep = np.delete(everything, sets[place])
                found[place] = self._scores(keep, "refitted", "solver")
            elif (lost := np.flatnonzero(np.isinf(scores))).size:
                why = dict.fromkeys(lost.tolist(), "nobody is left of one of its categories")
                self._reasons[tuple(np.sort(sets[place]).tolist())] = why
                found[place] = np.where(np.isinf(scores), np.nan, scores)
        return found

    def _solved_without(self, sets: list[Positions], stage: str) -> list[Array]:
        """The preprocessing kept: the training problem solved again without each set."""
        model, found = self.model, []
        Z = model.features(self.points)
        if sets:
            self._tell(stage, 0, len(sets))
        for start in range(0, len(sets), _MANY):
            some = sets[start : start + _MANY]
            with one_blas_thread(small_matrices(model)):
                found += list(_solved(model, Z, some))
            self._tell(stage, len(found), len(sets))
        self.solved += len(sets)
        for place, scores in enumerate(found):
            if np.isnan(scores).all():  # no unique optimum for the solver: the estimator chooses
                keep = np.delete(np.arange(model.rows.n), sets[place])
                found[place] = self._scores(keep, "kept", "estimator")
        return found


def _solved(model: ErasableModel, Z: Array, sets: Sequence[Positions]) -> Array:
    """Scores without each set by the family's own solver; NaN where there is no optimum."""
    scores, fine = np.full((len(sets), len(Z)), np.nan), can_go(model, sets)
    if fine:
        core: Any = model.core
        try:
            scores[fine] = core.scores_without(Z, [sets[place] for place in fine])
        except (HoldfastError, np.linalg.LinAlgError):  # one of them has none: one by one
            for place in fine:
                try:
                    scores[place] = core.scores_without(Z, [sets[place]])[0]
                except (HoldfastError, np.linalg.LinAlgError):
                    continue
    return scores


def own_scores_without(
    model: ErasableModel,
    points: Any,
    sets: Sequence[Positions],
    target: float,
    preprocessing: Kept = "kept",
) -> Array:
    """The score of every point when its own set of rows is gone, (q,).

    By the family's own solver where it has one; others, and what ends up too close to the target
    to call, by the estimator refitted. NaN where there is no score.
    """
    if not len(sets):
        return np.zeros(0)
    scores = np.full(len(sets), np.nan)
    whole = preprocessing == "refitted" and model.preprocessing is not None
    if model.can.solves and not whole:
        core: Any = model.core
        with one_blas_thread(small_matrices(model)):
            scores = core.own_scores_without(model.features(points), sets)
    open_ = np.flatnonzero(~(np.abs(scores - target) > CLOSE * model.score_unit))
    by_set: dict[tuple[int, ...], list[int]] = {}
    for j in open_.tolist():
        by_set.setdefault(tuple(np.sort(sets[j]).tolist()), []).append(j)
    for rows, places in by_set.items():
        refits = Refits(model, take(points, places))
        gone = [np.array(rows, dtype=np.intp)]
        if whole:
            scores[places] = refits.without(gone, by="solver")[0]
            close = np.abs(scores[places] - target) <= CLOSE * model.score_unit
            if not close.any():
                continue
        scores[places] = refits.without(gone, preprocessing=preprocessing)[0]
    return scores

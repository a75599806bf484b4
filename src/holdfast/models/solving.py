"""A pipeline fitted on other rows without its estimator: refitted in front, solved behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.deletions import Also
from holdfast.algebra.rows import Array, Positions, take
from holdfast.errors import HoldfastError, SingularDeletionError
from holdfast.models.pipelines import fitted_to
from holdfast.models.preprocessing import Preprocessing
from holdfast.models.scales import Scales
from holdfast.shared_state import quiet

#: a penalty that falls below this share of what it was: digits are lost, so all is solved anew
_FALLS = 1e-3


def scores_or_nan(model: Any, points: Any, reasons: dict[int, str] | None = None) -> Array:
    """Scores; NaN for a point the model cannot score, with the reason by the point's place."""
    try:
        found: Array = model.scores(points)
        return found
    except HoldfastError:
        scores = np.full(len(points), np.nan)
        for i in range(len(points)):
            try:
                scores[i] = model.scores(take(points, [i]))[0]
            except HoldfastError as refusal:
                if reasons is not None:
                    reasons[i] = str(refusal)
        return scores


class Raw:
    """Points as a model takes them, looked at once for many refits."""

    def __init__(self, model: Any, points: Any):
        self.points, self._model = points, model

    @cached_property
    def queries(self) -> Any:
        """With their columns in the model's order."""
        return self._model.queries(self.points)

    @cached_property
    def cells(self) -> list[Any] | None:
        """As arrays that fast preprocessing works on; ``None`` where there is none."""
        front = self._model.preprocessing
        fast = None if front is None else front.fast
        return fast.cells(self.queries) if fast and isinstance(self.queries, pd.DataFrame) else None


class Solved:
    """A pipeline fitted on some rows: its preprocessing refitted, its last step solved for.

    ``raw``: points that are scored again and again.
    """

    def __init__(self, model: Any, rows: Positions, raw: Raw | None = None):
        self._model, self._raw = model, raw
        if model.rows.classes is not None and len(np.unique(model.rows.classes[rows])) < 2:
            raise HoldfastError("a class went with the rows")
        self._front, Z = _refitted_front(model, rows)
        core: Any = model.core
        data = model.training(Z, rows)
        self._core = core.solved_on(data)
        self._shift = 0.0
        if model.cutoff is not None:
            self._shift = model.cutoff.moved(self._core.scores(Z), data.y)

    def scores(self, points: Any) -> Array:
        """Scores of raw points."""
        raw = self._raw
        if raw is None or raw.points is not points:
            raw = Raw(self._model, points)
        scores: Array = self._core.scores(self._front(raw)) - self._shift
        return scores


def _refitted_front(model: Any, rows: Positions) -> tuple[Callable[[Raw], Array], Array]:
    """The preprocessing fitted on some rows, and the features of those rows."""
    if model.preprocessing is None:
        return lambda raw: model.features(raw.queries), model.features(take(model.X, rows))
    fast, cells = model.preprocessing.fast, model.training_cells
    fresh = None if fast is None or cells is None else fast.refitted(cells, rows)
    Z = None if fresh is None or cells is None else fresh.features(cells, rows)
    if fresh is None or Z is None:
        slow = _fitted_front(model, rows)
        X = model.queries(take(model.X, rows), "X")
        return lambda raw: slow.transform(raw.queries), slow.transform(X)
    made = fresh

    def front(raw: Raw) -> Array:
        found = None if raw.cells is None else made.features(raw.cells)
        # a value it does not know: scikit-learn says what is wrong with it
        return _fitted_front(model, rows).transform(raw.queries) if found is None else found

    return front, Z


def _fitted_front(model: Any, rows: Positions) -> Preprocessing:
    """The preprocessing fitted afresh by scikit-learn."""
    assert model.preprocessing is not None
    X = model.queries(take(model.X, rows), "X")
    try:
        with quiet:
            return Preprocessing(fitted_to(model.preprocessing.transformer, X, model.y[rows])[1])
    except Exception as failure:  # whatever a transformer does
        raise HoldfastError(
            f"the preprocessing cannot be refitted {model.rows.without(rows)}: {failure}"
        ) from failure


def can_go(model: Any, sets: Sequence[Positions]) -> list[int]:
    """Which of some sets leave rows, and rows of every class."""
    fine = []
    for place, rows in enumerate(sets):
        with contextlib.suppress(SingularDeletionError):
            model.rows.refuse_if_too_much(rows)
            fine.append(place)
    return fine


def whole_scores(
    model: Any, points: Any, nearly: bool = False
) -> Callable[[Sequence[Positions]], Array] | None:
    """Scores without each set, everything refitted, by the model's own algebra; else ``None``.

    That is where refitting the preprocessing re-weights the penalty and does nothing more
    (:mod:`holdfast.models.scales`). NaN where it cannot say, −∞ where there is no score any more.
    ``nearly``: to what a prediction needs, where that is cheaper.
    """
    scales = model.scales
    if scales is None or model.cutoff is not None or not model.can.solves or model.can.chooses:
        return None
    if not scales.covers(model.queries(points)):
        return None
    Z, core = model.features(points), model.core

    def without(sets: Sequence[Positions]) -> Array:
        out = np.full((len(sets), len(Z)), np.nan)
        factors = scales.factors(sets)
        fine = [p for p in can_go(model, sets) if factors[p].min(initial=1.0) > _FALLS]
        try:
            if fine:
                out[fine] = core.scores_without(Z, [sets[p] for p in fine], factors[fine], nearly)
        except (HoldfastError, np.linalg.LinAlgError):
            return out
        for place in fine:
            if len(sets[place]) >= scales.rarest:
                out[place, scales.lost(sets[place], Z)] = -np.inf
        return out

    return without


def rescaled(scales: Scales, form: Any, found: Any, rows: Any = slice(None)) -> Also | None:
    """What a row's part in the scales does to first order; ``None`` where no scale moves.

    ``rows``: those that ``found`` and the closed form are about.
    """
    if not scales.moving.any():
        return None
    first, moving = int(form.intercept), scales.moving
    pull = form.penalty * form.theta + 0.5 * getattr(form, "linear", 0.0)  # |w| goes by the root
    pull = (found.queries @ form.design.T[first:].T) * pull[first:]
    return Also(pull[:, moving], scales.singles[rows][:, moving] - 1.0)


def whole_effect(model: Any, points: Any) -> Callable[[Positions], Array] | None:
    """The drop of every score when rows go and everything is refitted; ∞ where one is gone.

    ``None`` where refitting the preprocessing changes nothing: without a penalty.
    """
    scales = model.scales
    free = scales is not None and not model.form(str(model.can.form)).penalised
    free &= model.cutoff is None and not model.can.chooses
    if free and scales.rarest > scales.n and scales.covers(model.queries(points)):
        return None
    before, quick = model.scores(points), whole_scores(model, points, nearly=True)
    raw = Raw(model, points)

    def effect(rows: Positions) -> Array:
        if rows.size == 0:
            return np.zeros(len(before))
        after = None if quick is None else quick([rows])[0]
        if (after is None or np.isnan(after).any()) and model.in_passes is not None:
            after = model.in_passes(points, [rows], "refitted", False)[0]
        elif after is None or np.isnan(after).any():
            keep = np.delete(np.arange(model.rows.n), rows)
            fresh: Any = (
                Solved(model, keep, raw)
                if model.can.solves and model.can.refit == "cheap" and not model.can.chooses
                else model.refitted_on(keep)
            )
            after = scores_or_nan(fresh, points)
        drop: Array = np.where(np.isnan(after), np.inf, before - after)
        return drop

    return effect

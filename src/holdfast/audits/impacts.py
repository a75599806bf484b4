"""Concrete erasure requests: whose recourse breaks, and what to tell them instead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions, as_text
from holdfast.algebra.threads import one_blas_thread
from holdfast.cards import card
from holdfast.errors import HoldfastError, SingularDeletionError
from holdfast.models.erasable import ErasableModel, refuse_other_models
from holdfast.models.refits import Refits, small_matrices
from holdfast.models.refits import broken as broken_by
from holdfast.models.scanned import ScannedModel
from holdfast.models.solving import scores_or_nan
from holdfast.recourse import find_recourse
from holdfast.recourse.inference import is_category
from holdfast.recourse.promises import judged
from holdfast.recourse.result import Recourse


@dataclass
class Impact:
    """What :func:`holdfast.impact` returns. Personal data, but nothing of those erased.

    Attributes
    ----------
    recourses : frame
        One line per promise that was valid: ``score`` before, ``predicted`` by the algebra,
        ``frozen`` solved again with the preprocessing kept, ``refitted`` with everything fitted
        again, ``breaks`` (by the last), ``shortfall`` below the target. A recourse the updated
        model cannot score (it has a category that is gone) breaks; its score is missing.
    broken : frame
        Those that break: what was ``promised``, what to tell them ``now``, what that changes of
        the promise (``further``), and its ``extra_cost``.
    updated : ErasableModel
        The model without the erased rows.
    erased_rows, requests : int
    promises_of_erased : int
        Promises to people who are themselves erased: they are left out.
    largest_error : float
        The largest difference between a predicted and a refitted score, in standard deviations of
        the scores; NaN where nothing can be predicted.
    preprocessing_matters : bool
        Whether keeping and refitting the preprocessing lead to different broken promises.
    """

    recourses: pd.DataFrame
    broken: pd.DataFrame
    updated: ErasableModel = field(repr=False)
    positions: Positions = field(repr=False)
    requests: int
    promises_of_erased: int
    initially_invalid: int
    target: float
    largest_error: float
    preprocessing_matters: bool
    advice: Recourse | None = field(default=None, repr=False)
    known_by: str = "confirmed by refitting"

    def __repr__(self) -> str:
        return f"<Impact {self.requests} requests, {len(self.broken)} promises break>"

    def _repr_html_(self) -> str:
        facts = {"requests": self.requests, "rows erased": self.erased_rows}
        told = [name for name in ("promised", "now", "extra_cost") if name in self.broken]
        return card("What honouring requests does", facts, self.broken[told], self.headline)

    @property
    def erased_rows(self) -> int:
        """How many training rows go."""
        return len(self.positions)

    @property
    def headline(self) -> str:
        """The finding in words."""
        total, broken = len(self.recourses), len(self.broken)
        requests = "1 request" if self.requests == 1 else f"{self.requests} requests"
        rows = "1 training row" if self.erased_rows == 1 else f"{self.erased_rows} training rows"
        said = (
            f"Honouring {requests} removes {rows} and breaks {broken} of {total} promised "
            f"recourses, {self.known_by}."
        )
        if self.updated.kept:
            said = f"{self.updated.kept} {said.replace('by refitting', 'by that update')}"
        if (cutoff := self.updated.cutoff) is not None:
            move = self.updated.shift
            move = 0.0 if abs(move) < 1e-9 * self.updated.score_unit else move
            way = f"rises by {move:.3g}" if move > 0 else f"falls by {-move:.3g}"
            said += f" The target is {cutoff.words} and {way if move else 'stays'}."
        if broken:
            helped = int(self.broken["extra_cost"].notna().sum())
            said += f" {helped} of them {'has' if helped == 1 else 'have'} an updated recourse"
            extra = self.broken["extra_cost"].median()
            said += f", at a median extra cost of {extra:.3g}." if helped else "."
        return said


def impact(
    model: ErasableModel,
    given: Recourse,
    erase: Any = None,
    target: float | None = None,
    *,
    positions: Any = None,
    method: Any = None,
    overshoot: float | None = None,
    actionability: Any = None,
    start: str = "fitted",
    own: Any = None,
    random_state: Any = 0,
    target_rule: str = "fixed",
    confirm: bool = False,
) -> Impact:
    """What honouring some erasure requests does to the promises given to others.

    Parameters
    ----------
    model : ErasableModel
    given : Recourse
        From :func:`find_recourse` or :func:`issued_recourse`.
    erase : id or sequence of ids
        Subjects where the model has subjects, else rows by the training frame's index; compared as
        text. An unknown id is an error before anything is done.
    target : float, optional
        By default that of ``given``.
    positions : sequence of int
        Rows by position, instead of ``erase``.
    method, overshoot, actionability
        How updated recourses are found; by default as those given were (issued ones: ``"scfe"``,
        or ``"growing-spheres"`` where there are no gradients).
    start : {"fitted", "scratch"}
        Whether networks are refitted from their fitted weights or from scratch.
    own : array of bool, optional
        Which promises were given to the very people who are erased; by default those whose index
        is an erased id, or the id of an erased row. They are left out.
    random_state : int, Generator or None
    target_rule : {"fixed", "quantile", "label-quantile"}
        As for :func:`holdfast.audit`. Where the target moves, scores after the erasure (of
        ``updated`` too) are said relative to how far it has moved.
    confirm : bool
        For a table in files: read them again to refit, rather than trust the sums that are kept.

    Returns
    -------
    Impact

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    >>> given = hf.find_recourse(model, X[:100], target=-140, actionability="infer")
    >>> found = hf.impact(model, given, erase=[169, 434])
    >>> print(found.headline)
    Honouring 2 requests removes 2 training rows and breaks 41 of 45 promised recourses, \
confirmed by refitting. 41 of them have an updated recourse, at a median extra cost of 0.167.
    >>> print(found.broken["now"].iloc[0])
    lower bmi from 32.1 to 32.066; raise s1 from 157 to 188; lower s5 from 4.86 to 4.24
    """
    refuse_other_models(model)
    if not isinstance(given, Recourse):
        raise HoldfastError(
            "impact needs to know what people were told: pass what find_recourse or "
            f"issued_recourse returns, got {type(given).__name__}"
        )
    if (erase is None) == (positions is None):
        raise HoldfastError("say who is to be erased: either erase= (ids) or positions=")
    ids = _listed(erase) if positions is None else []
    rows = model.positions_of(ids) if positions is None else model.positions(positions)
    if rows.size == 0:
        raise HoldfastError("nobody is to be erased: the list of ids is empty")
    target = given.target if target is None else float(target)
    model = model.with_target_rule(target_rule, target)
    own = _own(model, given, rows) if own is None else np.asarray(own, dtype=bool)
    promises = judged(model, given, target, "judge", needed=False)
    scores, keep = promises.scores, np.flatnonzero(promises.counts & ~own)
    points, index = given.points.iloc[keep], given.points.index[keep]

    with one_blas_thread(small_matrices(model)):
        again: Any = {"look": True} if confirm and isinstance(model, ScannedModel) else {}
        updated = model.without(rows, start=start, **again)
        refitted = scores_or_nan(updated, points) if keep.size else np.zeros(0)
        predicted = np.full(keep.size, np.nan)
        if keep.size and model.can.predicts:
            # a category that only they had leaves nothing to predict with
            with contextlib.suppress(SingularDeletionError):
                predicted = scores[keep] - model.deletions(points).effect_at(rows)
                predicted[np.isinf(predicted)] = np.nan  # a score that is gone
        frozen = refitted
        if model.preprocessing is not None and keep.size:
            refits = Refits(model, points, start=start)
            frozen = refits.without([rows], preprocessing="kept", by="solver")[0]
    table = pd.DataFrame(
        {
            "score": scores[keep],
            "predicted": predicted,
            "frozen": frozen,
            "refitted": refitted,
            "breaks": broken_by(refitted, target),
            "shortfall": np.maximum(target - refitted, 0.0),
        },
        index=index,
    )
    fallen = keep[broken_by(refitted, target)]
    advice, broken = _advice(
        model, updated, given, fallen, rows, target, method, overshoot, actionability, random_state
    )
    broken.insert(0, "shortfall", table["shortfall"][table["breaks"]].to_numpy())
    return Impact(
        recourses=table,
        broken=broken,
        updated=updated,
        positions=rows,
        requests=_requests(model, rows),
        promises_of_erased=int(np.sum(own)),
        initially_invalid=int(np.sum(~own)) - int(keep.size),
        target=float(target),
        largest_error=_largest(predicted - refitted) / model.score_unit,
        preprocessing_matters=bool(np.any((refitted >= target) != (frozen >= target))),
        advice=advice,
        known_by=_known_by(model, confirm),
    )


def _known_by(model: ErasableModel, confirm: bool) -> str:
    """What the new scores rest on."""
    if confirm or not isinstance(model, ScannedModel) or not model.exact:
        return "confirmed by refitting"
    return "refitted from the sums that are kept"


def _requests(model: ErasableModel, rows: Positions) -> int:
    """How many people, or rows where people are not known, some rows are."""
    return len(set(model.owners_of(rows)))


def _listed(erase: Any) -> list[Any]:
    if isinstance(erase, str) or not isinstance(erase, Iterable):
        return [erase]
    return list(erase)


def _own(model: ErasableModel, given: Recourse, rows: Positions) -> Any:
    """Which promises were given to people who are themselves erased.

    A name that means something (a frame's own index, a subject's id) is enough. Where the training
    rows are only numbered, the same number may be somebody else: then the features must be the
    same too.
    """
    people, subjects = given.people, model.rows.subjects
    labels = [as_text(name) for name in people.index]
    numbered = _is_numbered(people.index)
    own = np.zeros(len(labels), dtype=bool)
    if isinstance(model, ScannedModel):
        erased = set(model.owners_of(rows)) if model.index is not None and not numbered else set()
        return np.array([label in erased for label in labels], dtype=bool)
    if subjects is not None and not numbered:
        erased = {as_text(subjects[row]) for row in rows}
        own |= np.array([label in erased for label in labels], dtype=bool)
    if not isinstance(model.X, pd.DataFrame):
        return own
    named = not _is_numbered(model.X.index) and not numbered
    where = {model.row_ids[int(row)]: int(row) for row in rows}
    for j, label in enumerate(labels):
        row = where.get(label)
        if row is not None:
            own[j] |= named or _same(model.frame.iloc[row], people.iloc[j])
    return own


def _is_numbered(index: pd.Index) -> bool:
    """Whether an index only counts rows: whole numbers that nobody gave a name."""
    return pd.api.types.is_integer_dtype(index.dtype) and index.name is None


def _same(one: pd.Series, other: pd.Series) -> bool:
    """Whether two people have the same features, gaps included."""
    for a, b in zip(one.tolist(), other[one.index].tolist(), strict=True):
        gaps = bool(pd.isna(a)), bool(pd.isna(b))
        if gaps[0] != gaps[1] or (not gaps[0] and a != b):
            return False
    return True


def _largest(differences: Array) -> float:
    known = differences[np.isfinite(differences)]
    return float(np.abs(known).max()) if known.size else float("nan")


class _OnlyTheirs:
    """Values of erased rows that nobody else has: they are not to be repeated to others.

    Numbers within :data:`SAME` of each other count as the same, however they are written: a value
    does not become another by coming back rounded.
    """

    def __init__(self, model: ErasableModel, rows: Positions):
        of_them, of_others = model.values_of(rows)
        self._words: dict[Any, set[Any]] = {}
        self._numbers: dict[Any, Array] = {}
        for name in model.frame.columns:
            theirs, others = of_them[name].dropna(), of_others[name].dropna()
            if is_category(model.frame[name]):
                self._words[name] = set(theirs) - set(others)
                continue
            gone = theirs.to_numpy(dtype=float)
            known = np.concatenate([[-np.inf], np.sort(others.to_numpy(dtype=float)), [np.inf]])
            place = np.searchsorted(known, gone)
            near = _near(gone, known[place - 1]) | _near(gone, known[place])
            self._numbers[name] = gone[~near]

    def has(self, feature: Any, value: Any) -> bool:
        """Whether a value is only theirs."""
        if feature in self._numbers:
            return bool(_near(self._numbers[feature], float(value)).any())
        return value in self._words.get(feature, ())


#: numbers this close to each other, relatively, are the same to whoever reads them
SAME = 1e-6


def _near(some: Any, others: Any) -> Any:
    return np.abs(some - others) <= SAME * np.abs(some)


def _words(given: Recourse, gone: _OnlyTheirs, own_start: bool) -> list[str]:
    """What people were told, without values that were only an erased person's."""
    said: list[list[str]] = [[] for _ in range(len(given))]
    for place, _, feature, before, after, words in given.lines():
        if gone.has(feature, after) or (not own_start and gone.has(feature, before)):
            words = f"change {feature} (a value that only somebody erased had)"
        said[place].append(words)
    return [
        "; ".join(changes) if valid else f"no recourse: {reason}"
        for changes, valid, reason in zip(said, given.valid, given.reason, strict=True)
    ]


def _advice(
    model: ErasableModel,
    updated: ErasableModel,
    given: Recourse,
    fallen: Positions,
    rows: Positions,
    target: float,
    method: Any,
    overshoot: float | None,
    actionability: Any,
    random_state: Any,
) -> tuple[Recourse | None, pd.DataFrame]:
    """Updated recourse for those whose promise breaks, beside what was promised."""
    people = given.people.iloc[fallen]
    table = pd.DataFrame(
        {"promised": "", "now": "", "further": "", "extra_cost": np.nan}, index=people.index
    ).astype({"promised": object, "now": object, "further": object})
    if fallen.size == 0:
        return None, table
    gone = _OnlyTheirs(model, rows)
    table["promised"] = _words(given.take(fallen), gone, own_start=True)
    if method is None:
        method = "scfe" if updated.can.gradients else "growing-spheres"
        if given.method != "issued":
            method = given.method
    places = people.set_axis(np.arange(fallen.size), axis=0)
    found = find_recourse(
        updated,
        places,
        method,
        target,
        given.actionability if actionability is None else actionability,
        max(given.overshoot, 0.01) if overshoot is None else overshoot,
        random_state,
        cost=given.cost_norm,
    )
    at = found.people.index.to_numpy()
    already = np.setdiff1d(np.arange(fallen.size), at)
    now = table["now"].to_numpy().copy()
    further = table["further"].to_numpy().copy()
    extra = table["extra_cost"].to_numpy().copy()
    now[already], further[already] = "nothing: the new model already says yes", "nothing"
    extra[already] = -given.cost.iloc[fallen[already]].to_numpy()
    now[at] = found.in_words().to_numpy()
    valid = found.valid.to_numpy()
    if valid.any():
        start = given.told.iloc[fallen].set_axis(places.index, axis=0).loc[at]
        more = _words(replace(found, people=start), gone, own_start=False)
        more = [words or "nothing: in round numbers it is the same" for words in more]
        further[at[valid]] = np.array(more, dtype=object)[valid]
        cost = given.space.distance(people.iloc[at[valid]], found.points[valid], given.cost_norm)
        extra[at[valid]] = cost - given.cost.iloc[fallen[at[valid]]].to_numpy()
    table["now"], table["further"], table["extra_cost"] = now, further, extra
    return found, table

"""Promises: what people were told to reach, judged once and handed on to everybody who asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Mask, Positions, take
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel


def points_of(given: Any) -> Any:
    """The points of recourses, or plain points as they are."""
    if isinstance(given, pd.DataFrame | np.ndarray):
        return given
    return getattr(given, "points", given)


@dataclass(frozen=True)
class Promises:
    """Points promised to people, which of them count, and by how much.

    Attributes
    ----------
    points : frame or array of shape (q, d)
        All of them, as the model takes them.
    people : the same for the people themselves, or ``None``
    index : Index of length q
        Whose they are.
    scores : ndarray of shape (q,)
        NaN for those that were invalid beforehand, which may have no score at all.
    counts : ndarray of bool of shape (q,)
        Valid as given, and at the target now.
    reasons : ndarray of str of shape (q,)
        Why a promise does not count; empty where it does.
    target : float
    given : what they were made from
    """

    points: Any = field(repr=False)
    people: Any = field(repr=False)
    index: pd.Index = field(repr=False)
    scores: Array = field(repr=False)
    counts: Mask = field(repr=False)
    reasons: Any = field(repr=False)
    target: float
    given: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def kept(self) -> Positions:
        """The places of those that count."""
        return np.flatnonzero(self.counts)

    @cached_property
    def kept_points(self) -> Any:
        """The points that count."""
        return take(self.points, self.kept)

    @cached_property
    def kept_people(self) -> Any:
        """The people they were promised to, where they are known."""
        return None if self.people is None else take(self.people, self.kept)

    @property
    def kept_scores(self) -> Array:
        """The scores of those that count."""
        return self.scores[self.kept]

    @property
    def margins(self) -> Array:
        """Score minus target, of those that count."""
        return self.kept_scores - self.target

    @property
    def below(self) -> int:
        """How many were valid as given and are below the target now."""
        return int(np.sum(~self.counts & np.isfinite(self.scores)))


def judged(
    model: ErasableModel,
    given: Any,
    target: float,
    verb: str,
    people: Any = None,
    needed: bool = True,
) -> Promises:
    """Promises as a model sees them now.

    Parameters
    ----------
    given : recourses, points of shape (q, d), or promises judged before
    verb : str
        What is wanted with them, for the message where there is nothing to do it with.
    needed : bool
        Whether it is an error if nothing counts.

    Raises
    ------
    HoldfastError
        If the table is empty or nothing in it counts.
    """
    if isinstance(given, Promises) and given.target == target and people is None:
        return given
    if isinstance(given, Promises):
        given = given.given
    plain = points_of(given)
    points = model.queries(plain, "the recourses")
    if len(points) == 0:
        raise HoldfastError(f"no recourse to {verb}: the table of recourses is empty")
    folk = getattr(given, "people", None) if people is None and plain is not given else people
    if folk is not None:
        folk = model.queries(folk, "people")
        if len(folk) != len(points):
            raise HoldfastError(f"there are {len(points)} recourses but {len(folk)} people")
    valid, reasons = _as_given(given, plain, len(points))
    scores = np.full(len(points), np.nan)
    places = np.flatnonzero(valid)
    if places.size:
        scores[places] = model.scores(take(points, places))
        if not np.all(np.isfinite(scores[places])):
            raise HoldfastError("a recourse has no finite score")
    counts = valid & (np.nan_to_num(scores, nan=-np.inf) >= target)
    reasons[valid & ~counts] = "below the target before any deletion"
    if needed and not counts.any():
        raise HoldfastError(
            f"no recourse to {verb}: all {len(points)} are below the target {target:g} or invalid"
        )
    index = plain.index if isinstance(plain, pd.DataFrame) else pd.RangeIndex(len(points))
    return Promises(points, folk, index, scores, counts, reasons, target, given)


def _as_given(given: Any, plain: Any, q: int) -> tuple[Mask, Any]:
    """Which were valid as given, and why the others were not."""
    valid, reasons = np.ones(q, dtype=bool), np.full(q, "", dtype=object)
    if plain is not given and hasattr(given, "valid"):
        valid = np.array(given.valid, dtype=bool)
        said = getattr(given, "reason", None)
        reasons[~valid] = "invalid as given" if said is None else np.asarray(said)[~valid]
    return valid, reasons

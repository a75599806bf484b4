"""The training rows seen from outside: which there are, whose they are, which may go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.errors import HoldfastError, SingularDeletionError

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TrainingRows:
    """Names and guards for ``n`` training rows.

    Parameters
    ----------
    n : int
        Number of rows.
    subjects : ndarray of shape (n,) or None
        Whose row each is; compared as text.
    classes : ndarray of int of shape (n,) or None
        The class code of each row, for classifiers: no class may vanish.
    weights : ndarray of shape (n,) or None
        The sample weights of the fit: a row of weight 0 keeps no class alive.
    memory : dict
        What was worked out about deletions of these rows and serves any query: kept with them.
    standing : int
        How many of the last rows stand for others, which are not here: they cannot go.
    names : ndarray of int of shape (n − standing,) or None
        The number of every row in a larger table, where these are some of its rows.
    sample : positions, or None
        Rows that are a fair sample of that table; ``None``: all are.
    """

    n: int
    subjects: npt.NDArray[Any] | None = field(default=None, repr=False)
    classes: npt.NDArray[np.intp] | None = field(default=None, repr=False)
    weights: Array | None = field(default=None, repr=False)
    memory: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    standing: int = 0
    names: Positions | None = field(default=None, repr=False)
    sample: Positions | None = field(default=None, repr=False)

    @property
    def own(self) -> int:
        """How many rows are here themselves, and can go."""
        return self.n - self.standing

    @cached_property
    def rows_of_subject(self) -> dict[str, Positions]:
        """Positions of every subject's rows, by the subject's id as text."""
        if self.subjects is None:
            raise HoldfastError(
                "this model knows no subjects: pass subjects= (one id per training row) to "
                "erasable(), or delete by row position"
            )
        names = np.asarray(ids_as_text(self.subjects[: self.own], "subjects"))
        order = np.argsort(names, kind="stable")
        found, starts = np.unique(names[order], return_index=True)
        return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))

    def only(self, rows: Positions) -> TrainingRows:
        """Some of the rows, each as often as named."""

        def some(values: Any) -> Any:
            return None if values is None else values[rows]

        own = rows[rows < self.own]
        return TrainingRows(
            len(rows),
            some(self.subjects),
            some(self.classes),
            some(self.weights),
            standing=len(rows) - len(own),
            names=None if self.names is None else self.names[own],
            sample=None if self.sample is None else np.flatnonzero(np.isin(own, self.sample)),
        )

    def here(self, names: Any) -> Positions:
        """Where rows are here, by their numbers in the larger table (or here, if that is all)."""
        rows = np.asarray(names, dtype=np.intp)
        return rows if self.names is None else np.searchsorted(self.names, rows)

    def positions(self, rows: Any = None, subjects: Any = None) -> Positions:
        """The row positions meant by ``rows`` or by ``subjects``, checked.

        Raises
        ------
        HoldfastError
            If a row is out of range or named twice, or a subject is unknown.
        SingularDeletionError
            If nothing would be left, or a class would vanish.
        """
        if (rows is None) == (subjects is None):
            raise HoldfastError("say which rows to delete: either rows= or subjects=, not both")
        found = self._of_subjects(subjects) if rows is None else self._as_positions(rows)
        self.refuse_if_too_much(found)
        return found

    def _of_subjects(self, subjects: Any) -> Positions:
        if isinstance(subjects, str) or not isinstance(subjects, Iterable):
            subjects = [subjects]
        wanted = [as_text(s) for s in subjects]
        unknown = [s for s in wanted if s not in self.rows_of_subject]
        if unknown:
            raise HoldfastError(
                f"unknown subject {unknown[0]!r} ({len(unknown)} of {len(wanted)} unknown); "
                f"{len(self.rows_of_subject)} subjects have rows in the training data"
            )
        if len(set(wanted)) < len(wanted):
            raise HoldfastError("a subject is named twice in subjects=")
        if not wanted:
            return np.empty(0, dtype=np.intp)
        return np.sort(np.concatenate([self.rows_of_subject[s] for s in wanted]))

    def _as_positions(self, rows: Any) -> Positions:
        try:
            given = np.asarray(rows)
        except ValueError:
            raise HoldfastError("rows must be one position or a flat list of them") from None
        if given.ndim > 1:
            raise HoldfastError(f"rows must be one position or a flat list, got {given.ndim}-d")
        given = np.atleast_1d(given)
        if given.size == 0:
            return np.empty(0, dtype=np.intp)
        if given.dtype == bool or not np.issubdtype(given.dtype, np.integer):
            raise HoldfastError(
                f"rows must be integer positions 0 … {self.n - 1}, got {given.dtype} values "
                "(people are named through subjects=)"
            )
        outside = given[(given < 0) | (given >= self.own)]
        if outside.size:
            raise HoldfastError(
                f"row {int(outside[0])} is out of range: positions go from 0 to {self.own - 1}"
            )
        once, counts = np.unique(given, return_counts=True)
        if once.size < given.size:
            raise HoldfastError(f"row {int(once[counts > 1][0])} is named more than once")
        return given.astype(np.intp)

    def refuse_if_too_much(self, rows: Positions) -> None:
        """Raise where nothing, or nothing of a class, would be left."""
        if rows.size >= self.n:
            raise SingularDeletionError(
                f"all {self.n} training rows would be deleted: nothing is left to fit", rows
            )
        left = np.ones(self.n) if self.weights is None else self.weights.copy()
        left[rows] = 0.0
        if not left.any():
            raise SingularDeletionError(
                "every remaining training row has sample weight 0: nothing is left to fit", rows
            )
        if self.classes is not None:
            gone = np.flatnonzero(np.bincount(self.classes, weights=left, minlength=2) == 0)
            if gone.size:
                culprits = rows[self.classes[rows] == gone[0]]
                raise SingularDeletionError(
                    f"deleting rows {listed(culprits)} would leave no training row of one of "
                    "the two classes: there is no classifier without them",
                    culprits,
                )

    def without(self, rows: Positions) -> str:
        """Which rows are not among some, in words."""
        gone = np.setdiff1d(np.arange(self.n), rows)
        return f"without rows {listed(gone)}" if gone.size else f"on {len(rows)} rows"

    def undeletable(self) -> Positions:
        """Rows that cannot go even alone: all there is of a class, or stand for others."""
        stays = np.arange(self.n) >= self.own
        if self.classes is not None:
            alive = np.ones(self.n, dtype=bool) if self.weights is None else self.weights > 0
            counts = np.bincount(self.classes[alive], minlength=2)
            stays |= alive & (counts[self.classes] == 1)
        return np.flatnonzero(stays)


def as_text(name: Any) -> str:
    """An id as text; a whole number reads the same however a table stored it."""
    if isinstance(name, float | np.floating) and float(name).is_integer():
        return str(int(name))
    return str(name)


def ids_as_text(names: Iterable[Any], what: str) -> list[str]:
    """Every id as text, exactly as it is: nothing is trimmed, folded or normalised.

    A number and a text that read the same are refused: they may be two people.
    """
    given = list(names)
    ids = [as_text(name) for name in given]
    if len({isinstance(name, str) for name in given}) > 1:
        words = {name for name, value in zip(ids, given, strict=True) if isinstance(value, str)}
        both = [
            place
            for place, (name, value) in enumerate(zip(ids, given, strict=True))
            if not isinstance(value, str) and name in words
        ]
        if both:
            raise HoldfastError(
                f"{what}: {ids[both[0]]!r} is a number in row {both[0] + 1} and text elsewhere: is "
                "it the same? Write both in one way"
            )
    return ids


def listed(rows: Iterable[Any], most: int = 10) -> str:
    """Row positions for a message, the first few of them."""
    named = [str(int(i)) for i in rows]
    more = f", … ({len(named)} in all)" if len(named) > most else ""
    return "[" + ", ".join(named[:most]) + more + "]"


def take(rows: Any, positions: Any) -> Any:
    """Some rows of a frame or array."""
    return rows.iloc[positions] if isinstance(rows, pd.DataFrame) else rows[positions]

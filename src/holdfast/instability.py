"""The paper's two measures: how far outcomes move, and how far advice moves, when rows go.

Outcome instability (Definition 1) is ``Δ = |f(x̌) − f₋S(x̌)|`` at the promised recourse, or, for a
target, whether the recourse becomes invalid. Action instability (Definition 2) is
``Φ_p = ‖x̌ − x̌₋S‖_p`` between the recourse promised and the one the refitted model would give.
One convention throughout: valid means ``score ≥ target``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits, broken
from holdfast.recourse.promises import points_of


@dataclass(frozen=True)
class Instability:
    """A measure per recourse, and in sum.

    Attributes
    ----------
    values : ndarray of shape (q,)
        Per recourse; NaN for those that were invalid before any deletion.
    initially_invalid : int
        How many those are; they count in nothing else.
    """

    values: Array
    initially_invalid: int = 0

    @property
    def total(self) -> float:
        """The sum over the recourses that were valid."""
        return float(np.nansum(self.values))

    @property
    def mean(self) -> float:
        """The mean over the recourses that were valid."""
        counted = self.values.size - self.initially_invalid
        return self.total / counted if counted else float("nan")


def _scores_after(model: ErasableModel, points: Any, rows: Any, subjects: Any, by: str) -> Array:
    if by == "refit":
        gone = model.rows.positions(rows, subjects)
        found: Array = Refits(model, points).without([gone])[0]
        return found
    if by == "algebra":
        drop = model.deletions(points).effect(rows, subjects=subjects)
        return model.scores(points) - drop
    raise HoldfastError(f"by must be 'refit' or 'algebra', got {by!r}")


def outcome_instability(
    model: ErasableModel,
    given: Any,
    rows: Any = None,
    *,
    subjects: Any = None,
    target: float | None = None,
    kind: str = "continuous",
    by: str = "refit",
) -> Instability:
    """Δ of every recourse when some rows, or subjects, are deleted.

    Parameters
    ----------
    given : recourses, or points of shape (q, d)
    target : float, optional
        Needed for ``kind="binary"``; where given, recourses below it beforehand are left out.
    kind : {"continuous", "binary"}
        ``|f − f₋S|``, or 1 where the recourse becomes invalid.
    by : {"refit", "algebra"}
        The honest refit, or the prediction.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> measured = hf.outcome_instability(model, X[:5], [7])
    >>> predicted = hf.outcome_instability(model, X[:5], [7], by="algebra")
    >>> bool(abs(measured.total - predicted.total) < 1e-9)
    True
    """
    points = points_of(given)
    before = model.scores(points)
    if kind not in ("continuous", "binary"):
        raise HoldfastError(f"kind must be 'continuous' or 'binary', got {kind!r}")
    if kind == "binary" and target is None:
        raise HoldfastError("kind='binary' asks whether a target is missed: pass target=")
    after = _scores_after(model, points, rows, subjects, by)
    invalid = np.zeros(before.size, bool) if target is None else before < target
    if target is None or kind == "continuous":
        values = np.abs(before - after)
    else:
        values = broken(after, target).astype(float)
    return Instability(np.where(invalid, np.nan, values), int(invalid.sum()))


def invalidation_rate(
    model: ErasableModel,
    given: Any,
    target: float,
    rows: Any = None,
    *,
    subjects: Any = None,
    by: str = "refit",
) -> float:
    """Share of the recourses valid before that are invalid after; NaN if none was valid."""
    return outcome_instability(
        model, given, rows, subjects=subjects, target=target, kind="binary", by=by
    ).mean


def action_instability(
    model: ErasableModel,
    people: Any,
    rows: Any = None,
    *,
    target: float,
    subjects: Any = None,
    p: float = 2.0,
    method: str | Callable[[ErasableModel, Any], Any] = "first-order",
) -> Instability:
    """Φ_p of every person: how far the recourse moves, recomputed for the refitted model.

    Parameters
    ----------
    people : factuals of shape (q, d)
    target : float
        The score the recourses aim at.
    p : float
        The norm, ``p ≥ 1``; ``np.inf`` too.
    method : "first-order" or callable
        How recourse is found. ``"first-order"`` is the paper's closed form,
        ``x + (s − f(x)) w / ‖w‖²`` with ``w`` the score's gradient, in the features of the model's
        last step (preprocessing frozen); exact for linear models. A callable takes
        ``(model, people)`` and returns the points, in which distances are then measured.

    Returns
    -------
    Instability
    """
    if not p >= 1:
        raise HoldfastError(f"p must be at least 1, got {p!r}")
    # distances in the features are distances in one and the same space: preprocessing frozen
    refit = model.without(rows, subjects=subjects, refit_preprocessing=callable(method))

    def points(of: ErasableModel) -> Array:
        if callable(method):
            return np.asarray(points_of(method(of, people)), dtype=float)
        if method != "first-order":
            raise HoldfastError(f"method must be 'first-order' or a callable, got {method!r}")
        return first_order_recourse(of, people, target)

    moved = points(model) - points(refit)
    return Instability(np.linalg.norm(moved, ord=p, axis=1))


def first_order_recourse(
    model: ErasableModel, people: Any, target: float, ridge: float = 0.0
) -> Array:
    """The paper's closed-form recourse (Sec. 5.1), in the features of the model's last step."""
    x, last = model.features(people), model.last_step
    slopes = np.asarray(last.score_gradients(x))
    gaps = target - last.scores(x)
    return x + first_order_change(gaps, slopes, ridge)


def first_order_change(gaps: Array, slopes: Array, ridge: float = 0.0) -> Array:
    """``δ = (s − f(x)) / (λ + ‖w‖²) · w``, (q, d)."""
    norms = ridge + np.sum(slopes**2, axis=1)
    if not np.all(norms > 0):
        raise HoldfastError("a person's score has no gradient: there is no first-order recourse")
    return (gaps / norms)[:, None] * slopes

"""The worst-case curve as scikit-learn displays things."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.audits import audit
from holdfast.audits.result import Audit
from holdfast.errors import HoldfastError
from holdfast.models.erasable import erasable
from holdfast.recourse import find_recourse


class InvalidationDisplay:
    """How many promised recourses break, by the number of erasures.

    Made by :meth:`from_estimator` or :meth:`from_audit`, drawn by :meth:`plot`.

    Parameters
    ----------
    deletions : array of shape (k,)
    refitted, random : arrays of shape (k,)
        Shares broken by the strongest attack found and by as many erased at random.
    ceiling : array of shape (k,), optional
        What is proven; NaN where nothing is.
    estimator_name : str, optional

    Attributes
    ----------
    figure_, ax_, line_
        What was drawn, after :meth:`plot`.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> fitted = LinearRegression().fit(X, y)
    >>> shown = hf.InvalidationDisplay.from_estimator(
    ...     fitted, X, y, favourable="low", target=-140, max_deletions=2, draws=2, certify=False
    ... )
    >>> shown.refitted.round(1)
    array([0. , 0.8, 0.9])
    """

    def __init__(
        self,
        deletions: Array,
        refitted: Array,
        random: Array,
        ceiling: Array | None = None,
        estimator_name: str | None = None,
    ):
        self.deletions, self.refitted, self.random = deletions, refitted, random
        self.ceiling, self.estimator_name = ceiling, estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        people: Any = None,
        *,
        favourable: Any = 1,
        target: float | None = None,
        overshoot: float = 0.01,
        actionability: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> InvalidationDisplay:
        """Audit a fitted estimator and draw the curve.

        Parameters
        ----------
        estimator, X, y
            As :func:`holdfast.erasable` takes them.
        people : frame or array, optional
            Who gets recourse; the training rows by default.
        favourable, target, overshoot, actionability
            As for :func:`holdfast.erasable` and :func:`holdfast.find_recourse`.
        ax : matplotlib axes, optional
        **options
            Of :func:`holdfast.audit`.
        """
        model = erasable(estimator, X, y, favourable=favourable)
        given = find_recourse(
            model,
            X if people is None else people,
            target=target,
            overshoot=overshoot,
            actionability=actionability,
        )
        return cls.from_audit(audit(model, given, **options), ax=ax)

    @classmethod
    def from_audit(cls, result: Audit, ax: Any = None) -> InvalidationDisplay:
        """Draw what an audit found."""
        if not isinstance(result, Audit):
            raise HoldfastError(f"from_audit takes what holdfast.audit returns, got {result!r}")
        curve = result.curve
        made = cls(
            curve.index.to_numpy(),
            curve["refitted"].to_numpy(dtype=float),
            curve["random"].to_numpy(dtype=float),
            curve["ceiling"].to_numpy(dtype=float),
            result.model.name,
        )
        return made.plot(ax=ax)

    def plot(self, ax: Any = None, *, name: str | None = None) -> InvalidationDisplay:
        """Draw it, on axes of one's own where they are given."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        name = name or self.estimator_name
        (self.line_,) = ax.plot(self.deletions, 100 * self.refitted, "x-", label=name)
        colour = self.line_.get_color()
        label = "at random" if name is None else f"{name}, at random"
        ax.plot(self.deletions, 100 * self.random, ":", color=colour, label=label)
        if self.ceiling is not None and np.isfinite(self.ceiling[1:]).any():
            ax.plot(
                *(self.deletions, 100 * self.ceiling, "-"),
                **{"color": colour, "alpha": 0.3, "linewidth": 6, "label": "proven ceiling"},
            )
        ax.set(xlabel="erasures", ylabel="recourses broken (%)", ylim=(-3, 103))
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

"""A plan: which rows to delete at every budget, what that is predicted to do, and the check."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, Positions
from holdfast.cards import card
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Kept, Refits, broken


@dataclass
class Plan:
    """What a search found.

    Attributes
    ----------
    method, objective, unit : str
    target : float
    sets : list of ndarray
        ``sets[k]``: positions of the rows deleted at budget ``k``, for ``k = 0 … M``. A smaller
        set than the budget allows means that more deletions helped no further.
    units : list of list
        The same as row positions or subject ids, in the order in which they were chosen.
    predicted : ndarray of shape (M + 1,)
        Share of the valid recourses broken at each budget, by the algebra (for approximate
        families and refitted estimators: by refitting while searching; ``random`` always by the
        algebra where there is one).
    values : ndarray of shape (M + 1,)
        What the search maximised: recourses broken, ΣΔ or ΣΦ₂.
    upper : ndarray of shape (M + 1,) or None
        A proven upper bound on what any deletion of that size can do, where there is one: on the
        share broken, or for other objectives on ``values``.
    initially_invalid : int
        Recourses below the target before any deletion: counted here and left out.
    skipped : list
        Candidates that could not be deleted (singular fit, last of a class).
    draws : list of list of ndarray, or None
        For ``random``: the sets of every draw; ``predicted`` is their mean, ``spread`` their
        standard deviation.
    notes : dict
        Settings and whatever else a method reports.
    """

    model: ErasableModel = field(repr=False)
    points: Any = field(repr=False)
    target: float
    method: str
    objective: str
    unit: str
    sets: list[Positions] = field(repr=False)
    units: list[list[Any]] = field(repr=False)
    predicted: Array
    values: Array = field(repr=False)
    initially_invalid: int = 0
    upper: Array | None = None
    skipped: list[Any] = field(default_factory=list, repr=False)
    draws: list[list[Positions]] | None = field(default=None, repr=False)
    spread: Array | None = field(default=None, repr=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    _rerun: Array | None = field(default=None, repr=False)

    def among_all(self, whole: ErasableModel) -> Plan:
        """The same plan with rows numbered as in the whole table, not as on a list of them."""
        names = self.model.rows.names
        assert names is not None
        draws = None
        if self.draws is not None:
            draws = [[names[rows] for rows in draw] for draw in self.draws]
        return replace(self, model=whole, sets=[names[rows] for rows in self.sets], draws=draws)

    @property
    def rows(self) -> Positions:
        """Positions of the rows deleted at the largest budget."""
        return self.sets[-1]

    @property
    def max_deletions(self) -> int:
        """The largest budget."""
        return len(self.sets) - 1

    def __repr__(self) -> str:
        return (
            f"<Plan {self.method}, up to {self.max_deletions} {self.unit}s, "
            f"{self.predicted[-1]:.0%} of {len(self.points)} recourses broken (predicted)"
            f"{', ' if self.model.kept else ''}{self.model.can.keeps}>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "search": self.method,
            "recourses": len(self.points),
            "target": f"{self.target:.4g}",
            "refitted": "see the last column"
            if self._rerun is not None
            else "not yet: plan.rerun()",
            "update": self.model.can.keeps,
        }
        return card("The strongest erasures found", facts, self.frame().round(4))

    def rerun(self, n_jobs: int = 1, **options: Any) -> Array:
        """The honest check: refit without each set and count again.

        Parameters
        ----------
        n_jobs : int
            Refits at a time.
        **options
            For :meth:`ErasableModel.without`, such as ``refit_preprocessing=False``.

        Returns
        -------
        ndarray of shape (M + 1,)
            Share of the valid recourses whose refitted score is below the target; for
            ``random`` the mean over its draws.
        """
        if self._rerun is None or options:
            lists = self.draws if self.draws is not None else [self.sets]
            kept: Kept = "refitted" if options.get("refit_preprocessing", True) else "kept"
            start = str(options.get("start", "fitted"))
            refits = Refits(self.model, self.points, n_jobs, start=start)
            flat = [rows for draw in lists for rows in draw]
            scores = refits.without(flat, preprocessing=kept)
            shares = broken(scores, self.target).mean(axis=1)
            result: Array = shares.reshape(len(lists), -1).mean(axis=0)
            if options:
                return result
            self._rerun = result
        return self._rerun

    def frame(self) -> pd.DataFrame:
        """One row per budget: what was added, predicted and (once run) refitted shares."""
        table = pd.DataFrame(
            {
                "deletions": np.arange(len(self.sets)),
                "rows": [rows.tolist() for rows in self.sets],
                "predicted": self.predicted,
                "value": self.values,
            }
        )
        if self.unit == "subject":
            table.insert(2, "subjects", self.units)
        if self.spread is not None:
            table["spread"] = self.spread
        if self._rerun is not None:
            table["rerun"] = self._rerun
        if self.upper is not None:
            table["upper"] = self.upper
        return table.set_index("deletions")

    def plot(self, ax: Any = None) -> Any:
        """Prediction and rerun against each other.

        The share broken against the number of deletions, both ways; and, unless one ``ax`` is
        given for that alone, every recourse's score after the largest deletion, predicted
        against refitted. Returns the axes of the first.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            both = self.model.can.predicts
            _, panels = plt.subplots(
                1, 1 + both, figsize=(5.5 * (1 + both), 4), layout="constrained", squeeze=False
            )
            ax = panels[0, 0]
            if both:
                self._plot_scores(panels[0, 1])
        k = np.arange(len(self.sets))
        ax.plot(k, 100 * self.predicted, "o-", label=f"predicted ({self.method})")
        ax.plot(k, 100 * self.rerun(), "x", color="black", label="refitted")
        if self.upper is not None and self.objective == "outcome":
            ax.plot(k, 100 * self.upper, "--", color="grey", label="proven ceiling")
        noun = "people" if self.unit == "subject" else "rows"
        ax.set(xlabel=f"{noun} deleted", ylabel="recourses broken (%)", ylim=(-2, 102))
        ax.legend(frameon=False)
        return ax

    def _plot_scores(self, ax: Any) -> None:
        """Every recourse's score after the largest deletion, predicted against refitted."""
        drop = self.model.deletions(self.points).effect(self.rows)
        predicted = self.model.scores(self.points) - drop
        refitted = Refits(self.model, self.points).without([self.rows])[0]
        ends = [min(predicted.min(), refitted.min()), max(predicted.max(), refitted.max())]
        ax.plot(ends, ends, color="grey", linewidth=0.8)
        ax.plot(predicted, refitted, ".", alpha=0.6)
        for line in (ax.axhline, ax.axvline):
            line(self.target, color="grey", linestyle=":", linewidth=0.8)
        ax.set(
            xlabel=f"score without {len(self.rows)} rows, predicted", ylabel="the same, refitted"
        )

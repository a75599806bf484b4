"""What is proven about each recourse, and what the proof assumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array, take
from holdfast.cards import card
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Kept, Refits

#: what every certificate rests on; returned with it and to be printed beside it
ASSUMPTIONS = (
    "the target stays what it is",
    "the preprocessing is refitted with the model",
    "the model is refitted to the optimum of the same training problem",
    "at most the stated number of rows is removed, and none is added",
)


#: in place of the second, where nothing is proven of a refitted preprocessing
KEPT = "the preprocessing stays as it was fitted (kept)"

#: and where the model chooses a hyperparameter from the data
CHOSEN = "the preprocessing stays as it was fitted, and the penalty as it was chosen (kept)"


class Proof(pd.DataFrame):
    """A frame with one line per recourse, and what goes with it.

    Columns: ``certified`` (no deletion of that many or fewer can invalidate it; −1 if it is invalid
    now), ``attacked`` (the size of a set that does, missing if none is known), ``status``,
    ``slack`` (the part of the margin, in score units, that the proof leaves unused), ``margin``,
    ``witness`` (the rows, or subjects, of that set), ``confirmed`` (whether solving again without
    them confirmed it).

    ``status`` is *tight* (attacked = certified + 1, or certified = max_deletions), *gap*,
    *no bound* (no proof exists for larger deletions), *singular* (a deletion without a unique
    refit touches it) or *invalid*.

    Attributes
    ----------
    max_deletions : int
    limit : int
        The largest number of deletions for which anything could be proven.
    limit_reason : str
        Why not more; "" where the limit is ``max_deletions``.
    unit : {"row", "subject"}
    method : str
        How it was proven.
    target : float
    upper : ndarray of shape (max_deletions + 1,)
        Proven: at most this share of the valid recourses is broken by any ``k`` deletions. No more
        than have ``certified < k``, and fewer where bounds on all of them add up.
    assumptions : tuple of str
    preprocessing : {"refitted", "kept"}
        Whether certificates hold with a pipeline's transformers refitted, as an erasure does, or
        only with them kept as they are.
    """

    _metadata = [  # noqa: RUF012 - pandas' own way of naming what a frame carries along
        *("max_deletions", "limit", "limit_reason", "unit", "method", "target", "upper"),
        *("assumptions", "model", "points", "preprocessing"),
    ]
    max_deletions: int
    limit: int
    limit_reason: str
    unit: str
    method: str
    target: float
    upper: Array
    assumptions: tuple[str, ...]
    model: ErasableModel
    points: Any
    preprocessing: str

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    @property
    def tight(self) -> float:
        """The share of valid recourses whose certificate cannot be improved."""
        valid = self["certified"] >= 0
        return float((self["status"][valid] == "tight").mean())

    def _repr_html_(self) -> str:
        facts = {
            "recourses": f"{len(self):,}",
            "up to": f"{self.max_deletions} {self.unit}s",
            "no better certificate possible": f"{self.tight:.0%}",
            "method": self.method,
        }
        columns = [name for name in ("certified", "attacked", "status") if name in self]
        return card("What is proven", facts, pd.DataFrame(self[columns]), self.summary())

    def after(self, erased: int) -> pd.DataFrame:
        """What still holds once some deletions (any) have happened: ``k − erased`` of each.

        A certificate covers the cumulative set, so nothing is recomputed. It is void once rows are
        added, or the target, the settings or the preprocessing change.
        """
        whole = isinstance(erased, int | np.integer) and not isinstance(erased, bool)
        if not whole or erased < 0:
            raise HoldfastError(f"erased must be a whole number from 0, got {erased!r}")
        left = self["certified"] - int(erased)
        return pd.DataFrame({"certified": left.where(left >= 0, -1), "void": left < 0})

    def curve(self, plan: Any = None) -> pd.DataFrame:
        """For every ``k`` the proven ceiling, and the best attack's share if a plan is given."""
        frame = pd.DataFrame(
            {"ceiling": self.upper}, index=pd.RangeIndex(len(self.upper), name="k")
        )
        if plan is not None:
            best = np.maximum.accumulate(np.asarray(plan.predicted, dtype=float))
            frame["attack"] = pd.Series(best).reindex(frame.index).to_numpy()
        return frame

    def rerun(self) -> pd.Series:
        """Every witness checked by refitting the estimator itself: whether its recourse breaks.

        One refit per distinct set, preprocessing refitted or kept as the certificates say. Missing
        where there is no witness.
        """
        broken = pd.Series(pd.NA, index=np.arange(len(self)), dtype="boolean")
        by_set: dict[tuple[Any, ...], list[int]] = {}
        for j, rows in enumerate(self["witness"]):
            if rows:
                by_set.setdefault(tuple(rows), []).append(j)
        for members, recourses in by_set.items():
            named = {"subjects" if self.unit == "subject" else "rows": list(members)}
            gone = self.model.positions(**named)
            refits = Refits(self.model, take(self.points, recourses))
            kept: Kept = "kept" if self.preprocessing == "kept" else "refitted"
            after = refits.without([gone], preprocessing=kept)[0]
            broken.iloc[recourses] = ~(after >= self.target)
        return broken.set_axis(self.index)

    def summary(self) -> str:
        """One paragraph: what is proven, for whom, and on what assumptions."""
        valid = self["certified"][self["certified"] >= 0]
        noun = "people" if self.unit == "subject" else "rows"
        lines = [
            f"{len(valid)} valid recourses, erasures of up to {self.max_deletions} {noun}.",
            *(
                f"Any {k}: at most {self.upper[k]:.1%} broken, proven."
                for k in sorted({1, min(3, self.max_deletions), self.max_deletions})
                if k <= self.limit
            ),
        ]
        if self.limit_reason:
            lines.append(f"Nothing is proven beyond {self.limit}: {self.limit_reason}.")
        lines.append("Assumes that " + "; ".join(self.assumptions) + ".")
        return " ".join(lines)


def made(frame: pd.DataFrame, upper: Array | Sequence[float], **attributes: Any) -> Proof:
    """A proof from its columns and what goes with them."""
    proof = Proof(frame)
    for name, value in {"upper": np.asarray(upper), **attributes}.items():
        object.__setattr__(proof, name, value)
    held = list(ASSUMPTIONS)
    if proof.preprocessing == "kept":
        held[1] = CHOSEN if proof.model.can.chooses else KEPT
    object.__setattr__(proof, "assumptions", tuple(held))
    return proof

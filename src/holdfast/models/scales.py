r"""What refitting the preprocessing does to a linear model: it re-weights the penalty.

A linear score with a free intercept does not see where a feature is centred, and a change of its
unit only through the penalty: with weights ``w`` per scaled unit, :math:`α Σ_f w_f²` is
:math:`α Σ_f σ_f² w_f²` in the feature's own units. Without the rows ``S`` the scaler is fitted
again, and everything that changes beside the rows themselves is :math:`α ρ_f(S)` in place of ``α``,

.. math:: ρ_f(S) = σ_f(S)² / σ_f² .

So a refit of the whole pipeline is a deletion and a re-weighting of ``d`` penalties, in the
coordinates of the features as they are. That holds for scalers, for one-hot columns of which none
is dropped (a category that vanishes leaves a column of zeros, whose penalised weight is 0), for
constants filled in, and for whatever does not depend on the rows. Without a penalty nothing
changes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import RobustScaler, StandardScaler

from holdfast.algebra.rows import Array, Positions
from holdfast.models.scale_bounds import BOUNDS, deviation_shares, gap_shares, split, variance

#: a variance that falls below this share of what it was is worked out anew: digits are lost
_CANCELS = 1e-3


@dataclass(frozen=True)
class Column:
    """One feature the model sees, as far as refitting the preprocessing can change it.

    Attributes
    ----------
    values : ndarray of shape (n,)
        What the last step that looked at the rows saw of the training rows.
    kind : str
        By what its scale is worked out: ``"fixed"``, ``"deviation"``, ``"range"``, ``"largest"``
        or ``"quantiles"``.
    name : str
        Of the column of the table it comes from.
    centred : bool
        Whether its centre is worked out from the rows too.
    quantiles : pair of float
    """

    values: Any = field(repr=False)
    kind: str = "fixed"
    name: str = ""
    centred: bool = False
    quantiles: tuple[float, float] = (25.0, 75.0)
    #: the place of that column in the table
    source: int = -1
    #: for a one-hot column: whether a point of this category cannot be scored once nobody has it
    strict: bool = False
    #: whether a gap of a point would be filled with something worked out from the rows
    fills: bool = False


#: words for how a row acts through a column's scale
CHANNELS = {
    "deviation": "the scale of {}",
    "range": "the range of {}",
    "largest": "the largest value of {}",
    "quantiles": "the quantiles of {}",
}


def scale_of(column: Column, values: Array) -> float:
    """The scale some values would be given by scikit-learn."""
    known = values[~np.isnan(values)].reshape(-1, 1)
    if column.kind == "fixed" or known.size == 0:
        return 1.0
    if column.kind == "deviation":
        return float(StandardScaler().fit(known).scale_[0])
    if column.kind in ("range", "largest"):
        width = float(np.ptp(known) if column.kind == "range" else np.abs(known).max())
        return width if width >= 10 * np.finfo(float).eps else 1.0  # as scikit-learn has it
    return float(RobustScaler(quantile_range=column.quantiles).fit(known).scale_[0])


class Scales:
    """The scales of all features, and how they change when rows go.

    Parameters
    ----------
    columns : sequence of Column
        One per feature of the model.
    """

    def __init__(self, columns: Sequence[Column]):
        self.columns = list(columns)
        self.n = len(self.columns[0].values) if self.columns else 0
        self.before = np.array([scale_of(c, c.values) for c in self.columns])
        self.moving = np.array([c.kind != "fixed" for c in self.columns], dtype=bool)

    @cached_property
    def _deviations(self) -> tuple[Positions, Array, Array]:
        """Columns scaled by their deviation, centred and in units of it; which are known."""
        some = np.flatnonzero([c.kind == "deviation" for c in self.columns])
        Z = np.column_stack(
            [np.zeros((self.n, 0)), *(self.columns[f].values for f in some.tolist())]
        )
        known = ~np.isnan(Z)
        count = np.maximum(known.sum(axis=0), 1)
        Z = np.where(known, Z, 0.0)
        mean = Z.sum(axis=0) / count
        return some, np.where(known, (Z - mean) / self.before[some], 0.0), known.astype(float)

    @cached_property
    def _by_column(self) -> tuple[Positions, Array, Array]:
        """The same, a column after the other."""
        some, Z, known = self._deviations
        return some, np.ascontiguousarray(Z.T), np.ascontiguousarray(known.T)

    @cached_property
    def _totals(self) -> tuple[Array, Array, Array]:
        """How many are known, their sums and sums of squares."""
        _, Z, known = self._deviations
        return known.sum(axis=0), Z.sum(axis=0), (Z**2).sum(axis=0)

    @cached_property
    def _others(self) -> Positions:
        """Columns whose scale is worked out otherwise."""
        return np.flatnonzero([c.kind not in ("fixed", "deviation") for c in self.columns])

    @cached_property
    def _ends(self) -> dict[int, tuple[float, float]]:
        """Beyond which values a range or a largest value is touched."""
        found = {}
        for f, column in enumerate(self.columns):
            if column.kind == "range":
                found[f] = float(np.nanmin(column.values)), float(np.nanmax(column.values))
            elif column.kind == "largest":
                most = float(np.nanmax(np.abs(column.values)))
                found[f] = -most, most
        return found

    def factors(self, sets: Sequence[Positions]) -> Array:
        """``ρ`` without each set of rows, (sets, features)."""
        out = np.ones((len(sets), len(self.columns)))
        some, Z, known = self._deviations
        total, others = self._totals, self._others
        for place, rows in enumerate(sets):
            if some.size:
                z = Z[rows]
                left = total[0] - known[rows].sum(axis=0)
                ratio = variance(left, total[1] - z.sum(axis=0), total[2] - (z**2).sum(axis=0))
                out[place, some] = ratio
                for k in np.flatnonzero(~(ratio > _CANCELS)).tolist():
                    out[place, some[k]] = self._anew(int(some[k]), rows)
            for f in others.tolist():
                if self.columns[f].kind == "quantiles":
                    out[place, f] = self._quantiles_without(f, rows)
                elif self._touches(f, rows):
                    out[place, f] = self._anew(f, rows)
        return out

    def _quantiles_without(self, f: int, rows: Positions) -> float:
        """From the sorted column: an order statistic of what is left is a little further on."""
        ordered, rank, m = self._ordered(f)
        gone = np.sort(rank[rows][rank[rows] >= 0])
        left = m - gone.size
        if left < 2:
            return self._anew(f, rows)
        ends = []
        for share in self.columns[f].quantiles:
            h = (left - 1) * share / 100.0
            low = int(np.floor(h))
            places = []
            for place in (low, min(low + 1, left - 1)):
                for lost in gone:  # sorted: each that is not beyond moves the rest up
                    if lost <= place:
                        place += 1
                places.append(place)
            a, b = ordered[places]
            ends.append(a + (h - low) * (b - a))
        width = ends[1] - ends[0]
        return float(((width if width >= 10 * np.finfo(float).eps else 1.0) / self.before[f]) ** 2)

    def _ordered(self, f: int) -> tuple[Array, Positions, int]:
        """A column sorted, the rank of every row in it (−1: a gap), and how many are known."""
        if f not in self._sorted_columns:
            values = self.columns[f].values
            order = np.argsort(values, kind="stable")  # gaps are last
            m = int(np.sum(~np.isnan(values)))
            rank = np.full(self.n, -1, dtype=np.intp)
            rank[order[:m]] = np.arange(m)
            self._sorted_columns[f] = values[order[:m]], rank, m
        return self._sorted_columns[f]

    @cached_property
    def _sorted_columns(self) -> dict[int, tuple[Array, Positions, int]]:
        return {}

    def _anew(self, f: int, rows: Positions) -> float:
        column = self.columns[f]
        return float((scale_of(column, np.delete(column.values, rows)) / self.before[f]) ** 2)

    def _touches(self, f: int, rows: Positions) -> bool:
        """Whether some rows can change a range or a largest value."""
        (low, high), values = self._ends[f], self.columns[f].values[rows]
        return bool(np.any((values <= low) | (values >= high)))

    @cached_property
    def singles(self) -> Array:
        """``ρ`` without each row alone, (n, features)."""
        out = np.ones((self.n, len(self.columns)))
        some, Z, known = self._deviations
        if some.size:
            total = self._totals
            ratio = variance(total[0] - known, total[1] - Z, total[2] - Z**2)
            out[:, some] = ratio
            for i, k in np.argwhere(~(ratio > _CANCELS)).tolist():
                out[i, some[k]] = self._anew(int(some[k]), np.array([i]))
        for f, column in enumerate(self.columns):
            if column.kind in ("range", "largest"):
                for i in range(self.n) if self.n < 4 else self._outermost(f).tolist():
                    out[i, f] = self._anew(f, np.array([i]))
            elif column.kind == "quantiles":
                out[:, f] = self._quantiles_without_one(f)
        return out

    def _outermost(self, f: int) -> Positions:
        column = self.columns[f]
        sizes = np.abs(column.values) if column.kind == "largest" else column.values
        ends = [np.nanmax(sizes)]
        if column.kind == "range":
            ends.append(np.nanmin(sizes))
        held = [np.flatnonzero(sizes == end) for end in ends]
        return np.concatenate([rows for rows in held if rows.size == 1] or [np.zeros(0, np.intp)])

    def _quantiles_without_one(self, f: int) -> Array:
        """Removing the value of rank ``r`` moves a quantile to the next order statistics."""
        column = self.columns[f]
        known = np.flatnonzero(~np.isnan(column.values))
        order = known[np.argsort(column.values[known], kind="stable")]
        ordered, m = column.values[order], known.size
        rank = np.arange(m)

        def without(share: float) -> Array:
            h = (m - 2) * share / 100.0
            low = int(np.floor(h))
            high = min(low + 1, m - 2)
            a, b = ordered[low + (rank <= low)], ordered[high + (rank <= high)]
            return np.asarray(a + (h - low) * (b - a))

        found = np.ones(self.n)
        if m > 2:
            width = without(column.quantiles[1]) - without(column.quantiles[0])
            width = np.where(width < 10 * np.finfo(float).eps, 1.0, width)
            found[order] = (width / self.before[f]) ** 2
        return found

    def interval(self, k: int, stay: Positions | None = None) -> tuple[Array, Array]:
        """The least and the most each ``ρ`` can be when any ``k`` rows or fewer go, (features,).

        Parameters
        ----------
        k : int
        stay : positions, optional
            Rows that do not go.
        """
        low, high = np.ones(len(self.columns)), np.ones(len(self.columns))
        stay = np.zeros(0, dtype=np.intp) if stay is None else stay
        for f in np.flatnonzero(self.moving).tolist():
            least, most = self._bounds(f, k, stay)
            low[f], high[f] = (least / self.before[f]) ** 2, (most / self.before[f]) ** 2
        slack = 1e-9
        return np.minimum(low * (1 - slack), 1.0), np.maximum(high * (1 + slack), 1.0)

    def _bounds(self, f: int, k: int, stay: Positions) -> tuple[float, float]:
        """The least and the most a column's scale can be when any ``k`` rows or fewer go."""
        key = (f, stay.tobytes())
        if key not in self._known_bounds or len(self._known_bounds[key][0]) <= k:
            column, kept = self.columns[f], np.zeros(self.n, dtype=bool)
            kept[stay] = True
            values = np.abs(column.values) if column.kind == "largest" else column.values
            several = min(2 * k, self.n)  # those who ask for k go on to ask for k + 1
            bounds = BOUNDS[column.kind](*split(values, kept), max(several, k), column.quantiles)
            self._known_bounds[key] = bounds
        least, most = self._known_bounds[key]
        return float(least[k]), float(most[k])

    @cached_property
    def _known_bounds(self) -> dict[tuple[int, bytes], tuple[Array, Array]]:
        return {}

    def shares(self, k: int, stay: Positions) -> tuple[Array, Array, Any]:
        r"""What each row adds to :math:`δ = ρ − 1` and to :math:`−δ` at most, as one of ``k``.

        Parameters
        ----------
        k : int
        stay : positions of rows that do not go

        Returns
        -------
        up, down : (features, n)
            ``δ_f(S) ≤ Σ_{i∈S} up_fi`` and ``−δ_f(S) ≤ Σ_{i∈S} down_fi`` for all ``|S| ≤ k``.
        known : (features,) bool
            For which features that is so.
        """
        up, down = np.zeros((2, len(self.columns), self.n))
        known = np.ones(len(self.columns), dtype=bool)
        kept = np.zeros(self.n, dtype=bool)
        kept[stay] = True
        some, Z, there = self._by_column
        enough = self._totals[0] > k + 1
        known[some[~enough]] = False
        count = self._totals[0][enough, None]
        every = bool(enough.all())
        Z, there = (Z, there) if every else (Z[enough], there[enough])
        up[some[enough]], down[some[enough]] = deviation_shares(Z, there, count, k)
        for f in self._others.tolist():
            column = self.columns[f]
            if column.kind == "quantiles":
                known[f] = False
                continue
            values = np.abs(column.values) if column.kind == "largest" else column.values
            down[f] = gap_shares(values, kept, column.kind == "range", k) / self.before[f]
        if stay.size:
            up[:, stay] = down[:, stay] = 0.0
        slack = 1e-9
        return up + slack * np.abs(up), down + slack * np.abs(down), known

    def outside_shares(self, k: int) -> tuple[Array, Array]:
        """What a row that is not here adds to each ``ρ − 1``, and to the contrary: all are."""
        return np.zeros(len(self.columns)), np.zeros(len(self.columns))

    def covers(self, queries: Any) -> bool:
        """Whether what is said here holds for some points: no gap of theirs is filled anew."""
        table = queries if isinstance(queries, pd.DataFrame) else pd.DataFrame(queries)
        gaps = {c.source for c in self.columns if c.fills}
        return not any(bool(table.iloc[:, i].isna().any()) for i in gaps)

    def lost(self, rows: Positions, Z: Array) -> Any:
        """Which points, by their features, cannot be scored without some rows, (q,) bool."""
        found = np.zeros(len(Z), dtype=bool)
        for f, column in enumerate(self.columns):
            if column.strict and not np.delete(column.values, rows).any():
                found |= Z[:, f] != 0
        return found

    @cached_property
    def rarest(self) -> int:
        """How many rows the rarest category has without which points cannot be scored."""
        counts = [int(c.values.sum()) for c in self.columns if c.strict]
        return min(counts, default=self.n + 1)

    def words(self, f: int) -> str:
        """How a row acts through a feature's scale."""
        return CHANNELS[self.columns[f].kind].format(f"“{self.columns[f].name}”")

"""How far similar people are: nobody is told to become somebody unlike themselves.

Somebody's similar people are the training rows nearest to them, by what the changes between them
would cost. A number may go where one in twenty of those is or goes further, no further.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from holdfast.algebra.rows import Array, Mask
from holdfast.recourse.inference import all_near
from holdfast.recourse.space import Space

#: the share of the training rows that are somebody's similar people, and their least number
SHARE, FEWEST = 0.05, 50

#: the share of those beyond which nobody is sent
BEYOND = 0.05

#: training rows that are looked at
MOST = 20_000


def similar_ranges(
    space: Space, X: pd.DataFrame, factual: Array, kept: Mask
) -> tuple[Array, Array]:
    """The least and the most of every number among each person's similar people, (q, m) twice.

    ``∓∞`` where a rule does not ask for it. Both are rounded: they are no single row's values.
    """
    low, high = np.full(factual.shape, -np.inf), np.full(factual.shape, np.inf)
    asked = [k for k, c in enumerate(space.coordinates) if c.rule.similar and space.number[k]]
    if not asked or not len(factual):
        return low, high
    step = -(-len(X) // MOST)
    rows, unknown, _ = space.encoded(X.iloc[::step])
    many = min(len(rows), max(FEWEST, int(SHARE * len(rows))))
    number = space.number
    spread = np.where(number, space.spread, 1.0)
    columns = rows[:, asked]
    columns[unknown[:, asked]] = np.nan
    for start in range(0, len(factual), 256):
        some = slice(start, start + 256)
        away = cdist(
            factual[some][:, number] / spread[number], rows[:, number] / spread[number], "cityblock"
        )
        for k in np.flatnonzero(~number).tolist():
            away += factual[some, k][:, None] != rows[:, k]
        nearest = np.argpartition(away, many - 1, axis=1)[:, :many]
        for place, k in enumerate(asked):
            found = columns[nearest, place]
            ends = np.nanquantile(found, [BEYOND, 1.0 - BEYOND], axis=1)
            low[some, k], high[some, k] = ends
    for place, k in enumerate(asked):
        known = columns[np.isfinite(columns[:, place]), place]
        low[:, k], high[:, k] = all_near(low[:, k], known), all_near(high[:, k], known)
    return low, high

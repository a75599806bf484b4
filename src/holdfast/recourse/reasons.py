"""Why somebody is below the target: what counts most against them, beside those at the target.

Notices of adverse action give a few principal reasons. One accepted way to find them: put the
typical value of people who reach the target in the place of the person's own, one thing at a time,
and see which raises the score most. It asks the model itself, so it works for every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast.models.erasable import ErasableModel
from holdfast.models.solving import scores_or_nan
from holdfast.recourse.space import Coordinate, Space

#: reasons a notice gives
MOST = 4


def principal_reasons(
    model: ErasableModel, space: Space, people: pd.DataFrame, target: float, most: int = MOST
) -> list[list[tuple[Any, str]]]:
    """For everybody what counts most against them: names, and "low", "high" or "other".

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from holdfast.recourse.space import Space
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    >>> space = Space(X, hf.Actionability())
    >>> principal_reasons(model, space, X.iloc[:1], target=-140, most=2)
    [[('bmi', 'high'), ('s5', 'high')]]
    """
    frame = model.frame
    fine = np.flatnonzero(model.scores(frame) >= target)
    typical = frame.iloc[fine if fine.size else np.arange(len(frame))]
    own = scores_or_nan(model, people)
    gains = np.zeros((len(space.coordinates), len(people)))
    for place, c in enumerate(space.coordinates):
        changed = people.copy()
        for column, value in _typical(c, typical).items():
            changed[column] = _filled_with(value, people[column])
        gains[place] = np.nan_to_num(scores_or_nan(model, changed) - own, nan=0.0)
    tiny = 1e-9 * model.score_unit
    return [
        [
            (space.coordinates[place].name, _way(space.coordinates[place], people, i, typical))
            for place in np.argsort(-gains[:, i], kind="stable")[:most].tolist()
            if gains[place, i] > tiny
        ]
        for i in range(len(people))
    ]


def _filled_with(value: Any, like: pd.Series) -> pd.Series:
    made = pd.Series([value] * len(like), index=like.index)
    return made.astype(object) if like.dtype == object else made


def _typical(c: Coordinate, table: pd.DataFrame) -> dict[Any, Any]:
    """By column: the median, or the choice most people have made."""
    columns = [table.columns[k] for k in c.columns]
    if c.categories is None:
        return {columns[0]: float(np.nanmedian(table[columns[0]].to_numpy(dtype=float)))}
    rows = table[columns].dropna()
    if len(rows) == 0:
        return {}
    common = rows.value_counts().sort_index().idxmax()
    return dict(zip(columns, common if isinstance(common, tuple) else (common,), strict=True))


def _way(c: Coordinate, people: pd.DataFrame, i: int, typical: pd.DataFrame) -> str:
    if c.categories is not None:
        return "other"
    column = people.columns[c.columns[0]]
    value = people[column].iloc[i]
    if pd.isna(value):
        return "missing"
    return "low" if float(value) < _typical(c, typical)[column] else "high"

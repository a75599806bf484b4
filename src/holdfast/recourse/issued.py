"""Recourses already promised to people, read back, matched by id and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.training import table as checked_table
from holdfast.recourse import below_target, check_settings, checked, people_frame, target_of
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.problem import make_problem
from holdfast.recourse.result import Recourse
from holdfast.recourse.space import Space
from holdfast.tables import read_table


def issued_recourse(
    model: ErasableModel,
    people: pd.DataFrame,
    issued: Any,
    target: float | None = None,
    actionability: Any = None,
    overshoot: float = 0.0,
    *,
    id: str = "id",
    target_probability: float | None = None,
    cost: str = "l1",
    ignore: Sequence[str] = ("issued", "expires", "model"),
) -> Recourse:
    """Recourses already issued, in the form :func:`find_recourse` gives: use it in its place.

    Parameters
    ----------
    model : ErasableModel
    people : frame
        The people's own rows; their ids in the column ``id``, or else in the index.
    issued : path of a CSV or Parquet file, or frame
        One row per person: their id, and the feature values promised. A feature without a column
        and an empty cell mean "as it is".
    target, target_probability, actionability, overshoot, cost
        As for :func:`find_recourse`; here they are only checked. By default a recourse is valid
        at the target itself, whatever it was meant to overshoot.
    id : str
        The column that names people. Ids are compared as text.
    ignore : sequence of str
        Columns of ``issued`` that are no features.

    Returns
    -------
    Recourse
        ``without_recourse`` counts the people below the target for whom nothing was issued.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    >>> import pandas as pd
    >>> promised = pd.DataFrame({"id": [0, 3], "bmi": [21.0, 22.0]})
    >>> given = hf.issued_recourse(model, X.iloc[:5], promised, target=-160)
    >>> given.in_words().tolist()
    ['lower bmi from 32.1 to 21', 'lower bmi from 25.3 to 22']
    """
    model = getattr(model, "of_all", model)
    check_settings(model, overshoot, cost)
    target = target_of(model, target, target_probability)
    if not isinstance(people, pd.DataFrame):
        raise HoldfastError("people must be a frame: recourses are matched to its ids")
    texts = [str(c) for c, kind in people.dtypes.items() if kind.kind == "O"]
    table = issued if isinstance(issued, pd.DataFrame) else read_table(issued, [id, *texts])
    if len(checked_table(table, "the issued recourses")) == 0:
        raise HoldfastError("the table of issued recourses is empty")
    own_ids, people = _ids(people, id, "people")
    people = people_frame(model, people)
    ignored = [ignore] if isinstance(ignore, str) else ignore
    drop = [c for c in ignored if c in table and c not in people]
    their_ids, table = _ids(table.drop(columns=drop), id, "issued")
    table = table.rename(columns={str(c): c for c in people if str(c) not in people})
    promised = _placed(own_ids, their_ids, people, table, model)
    space = Space(model.frame, Actionability.of(actionability, model.frame))
    people = space.tidy(people)
    places = people.set_axis(np.arange(len(people)), axis=0)
    below, above, (Z, kept), wrong = below_target(model, space, places, target)
    has = np.flatnonzero(promised[below.index] >= 0)
    rows = below.index.to_numpy()[has]
    wanted = people.iloc[rows]
    points = space.tidy(filled(wanted, table.iloc[promised[rows]]))
    goal = target + float(overshoot) * model.score_unit
    own = Z[has], kept[has]
    usable = np.flatnonzero([not wrong[i] for i in has])
    problem = make_problem(model, space, wanted, own, float(goal), model.score_unit, cost, usable)
    Z, kept, off = space.encoded(points)
    unknown = kept & ~problem.kept
    for i in range(len(points)):
        if unknown[i].any() and not off[i]:
            off[i] = f"{space.coordinates[int(unknown[i].argmax())].name} has a value unknown here"
    Z = np.where(kept, problem.factual, Z)
    known = [wrong[i] or (o and f"not allowed: {o}") for i, o in zip(has, off, strict=True)]
    return checked(
        problem,
        Z,
        points,
        known,
        target,
        overshoot,
        above,
        "issued",
        unfound="does not reach the target",
        without_recourse=len(below) - len(has),
    )


def _ids(table: pd.DataFrame, id: str, what: str) -> tuple[list[str], pd.DataFrame]:
    """Ids as text, unique, and the table without them."""
    if id in table.columns:
        column, table = table[id], table.drop(columns=id)
    elif what == "people" or table.index.name == id:
        column = table.index.to_series()
    else:
        raise HoldfastError(
            f"the issued recourses have no column {id!r} to match people by"
            f"{near_name(id, table.columns)}: pass id="
        )
    missing = np.flatnonzero(pd.isna(column))
    if missing.size:
        raise HoldfastError(f"{what}: row {missing[0]} has no id ({missing.size} such rows)")
    ids = [as_text(value) for value in column]
    twice = pd.Index(ids)[pd.Index(ids).duplicated()]
    if len(twice):
        raise HoldfastError(f"{what}: the id {twice[0]!r} appears more than once")
    return ids, table


def _placed(
    own: list[str], theirs: list[str], people: pd.DataFrame, table: pd.DataFrame, model: Any
) -> Any:
    """For each person the row of their recourse, −1 for none; strangers are refused."""
    where = {name: place for place, name in enumerate(theirs)}
    strangers = [name for name in theirs if name not in set(own)]
    if strangers:
        raise HoldfastError(
            f"a recourse was issued to {strangers[0]!r}, who is not among the people "
            f"({len(strangers)} such recourses)"
        )
    for column in table.columns:
        if column not in people.columns:
            raise HoldfastError(
                f"the issued recourses have the column {column!r}, which the model was not fitted "
                f"on{near_name(column, people.columns)}: drop it, or name it in ignore="
            )
    return np.array([where.get(name, -1) for name in own])


def filled(people: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The people's rows with the promised cells written in; empty cells leave theirs."""
    table = table.set_axis(people.index, axis=0)
    columns = {}
    for name in people.columns:
        own = people[name]
        if name not in table.columns:
            columns[name] = own
            continue
        cells = table[name]
        if cells.isna().any():
            cells = cells.astype(object).where(cells.notna(), own.astype(object)).infer_objects()
        columns[name] = cells
    return pd.DataFrame(columns, index=people.index)[list(people.columns)]

"""The files of a command taken apart: features, label, ids, subjects."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from holdfast.algebra.rows import as_text, ids_as_text
from holdfast.arguments import near_name
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.cells import amounts
from holdfast.errors import HoldfastError
from holdfast.inert import from_spreadsheet
from holdfast.models.pipelines import fitted_names
from holdfast.recourse.columns import is_id
from holdfast.tables import (
    MARK,
    existing_file,
    is_parquet,
    like,
    read_table,
    refuse_too_large,
    typed,
)


@dataclass
class Table:
    """A file of rows, taken apart."""

    X: pd.DataFrame
    label: pd.Series | None
    subjects: pd.Series | None
    raw: pd.DataFrame
    #: what was found out about the file
    notes: tuple[str, ...] = ()

    def take(self, rows: Any) -> Table:
        """Some of the rows."""
        label, subjects = (None if c is None else c.iloc[rows] for c in (self.label, self.subjects))
        return Table(self.X.iloc[rows], label, subjects, self.raw.iloc[rows])


def training_table(settings: Settings, fitted: Any) -> Table:
    """The table the model was, or is to be, fitted on."""
    notes: list[str] = []
    raw = read(settings, settings.train, notes=notes)
    wanted = None if fitted is None else fitted_names(fitted)
    if wanted is None and settings.id is None:
        raw = _without_names(settings, raw, notes)
    return _taken_apart(settings, raw, str(settings.train), wanted, True, notes)


def _without_names(settings: Settings, raw: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Columns of whole numbers that are all different are names of rows, and no features."""
    said = {settings.label, settings.subject, settings.cohort, *settings.drop, *settings.text}
    for name in [c for c in raw.columns if c not in said and _is_id(c, raw[c])]:
        notes.append(
            f"Column {name!r} has another whole number in every row: it is taken for an id and is "
            "no feature. Name it as the id, or as text to make it one."
        )
        raw = raw.drop(columns=name)
    return raw


def _is_id(name: Any, column: pd.Series) -> bool:
    return pd.api.types.is_integer_dtype(column.dtype) and is_id(name, column)


def read(
    settings: Settings,
    path: Path,
    like_this: pd.DataFrame | None = None,
    notes: list[str] | None = None,
) -> pd.DataFrame:
    """A table as this command's model is to see it; a brought model was fitted by pandas' rules.

    Columns that are text in another table are text here too, whatever their cells look like.
    """
    text = [*_ids_of(settings), *settings.text]
    if like_this is not None:
        words = like_this.select_dtypes(exclude=["number", "bool", "datetime"]).columns
        text += [str(name) for name in words]
    brought = settings.model_file is not None
    return read_table(path, text, settings.delimiter, settings.decimal, brought, notes)


def _ids_of(settings: Settings) -> list[str]:
    return [name for name in (settings.id, settings.subject) if name is not None]


def _taken_apart(
    settings: Settings,
    raw: pd.DataFrame,
    what: str,
    wanted: Sequence[Any] | None,
    training: bool,
    notes: list[str] | None = None,
) -> Table:
    """Ids, subjects and the label apart from the features."""
    named = [settings.label, *_ids_of(settings), *settings.text]
    if settings.people is None and settings.recourses is None:
        named += settings.drop
    if settings.cohort is not None:
        named.append(settings.cohort)
    for name in named if training else _ids_of(settings)[:1] if settings.id else []:
        if name not in raw.columns:
            raise HoldfastError(f"{what} has no column {name!r}{near_name(name, raw.columns)}")
    index: pd.Index = pd.RangeIndex(1, len(raw) + 1)
    if not training:  # so that nobody is taken for the training row of the same number
        index = pd.Index([f"row {i}" for i in index])
    if settings.id is not None:
        index = pd.Index(unique_ids(raw[settings.id], what), name=settings.id)
    subjects = None
    if settings.subject is not None and settings.subject in raw.columns:
        subjects = pd.Series(ids_of(raw[settings.subject], what, "subject"), index=index)
    label = raw[settings.label].set_axis(index) if settings.label in raw.columns else None
    apart = {settings.label, *_ids_of(settings), *settings.drop}
    features = [name for name in raw.columns if name not in apart]
    if wanted is not None:
        for name in wanted:
            if name not in raw.columns:
                raise HoldfastError(
                    f"{what} has no column {str(name)!r}, which the model was fitted on"
                    f"{near_name(name, raw.columns)}"
                    + ("" if training else f"; if it is no feature, pass ⟦drop⟧ {name}")
                )
        features = list(wanted)
    if not features:
        raise HoldfastError(f"{what} has no column besides label and ids: nothing to fit on")
    X = raw[features].set_axis(index, axis=0)
    for name in [*features, *([settings.label] if settings.label in raw.columns else [])]:
        refuse_too_large(raw[name], what)
    if training and wanted is None:
        X = typed(X, what, settings.text, notes)
    return Table(X, label, subjects, raw.set_axis(index, axis=0), tuple(notes or ()))


def ids_of(column: pd.Series, what: str, kind: str = "id") -> list[str]:
    """What people are called: cells as text, exactly as they are.

    White space at the ends, which nobody sees, is refused.
    """
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise HoldfastError(
            f"{what}, row {missing[0] + 1}: the {kind} {column.name!r} is missing "
            f"({missing.size} such rows)"
        )
    if any(isinstance(value, bytes) for value in column):
        raise HoldfastError(f"{what}, column {column.name!r}: ids are bytes, text is wanted")
    ids = ids_as_text(column, f"{what}, column {column.name!r}")
    refuse_blank_ends(ids, what, kind)
    if str(column.name) in ids:  # in a list of ids it would be taken for the column's name
        raise HoldfastError(
            f"{what}, row {ids.index(str(column.name)) + 1}: the {kind} is the name of its column"
        )
    return ids


def refuse_blank_ends(ids: Sequence[str], what: str, kind: str, line: str = "row") -> None:
    """Refuse ids that begin or end with white space, naming where they are."""
    blank = [place for place, name in enumerate(ids) if name != name.strip()]
    if blank:
        rows = ", ".join(str(place + 1) for place in blank[:5])
        more = f" and {len(blank) - 5} more" if len(blank) > 5 else ""
        raise HoldfastError(
            f"{what}, {line} {rows}{more}: the {kind} begins or ends with white space: is it "
            "part of it? Correct the file"
        )


def unique_ids(column: pd.Series, what: str) -> list[str]:
    """Ids as text; one that appears twice is refused."""
    ids = pd.Series(ids_of(column, what))
    twice = np.flatnonzero(ids.duplicated())
    if twice.size:
        first = int(np.flatnonzero(ids == ids[twice[0]])[0])
        raise HoldfastError(
            f"{what}: the id {ids[twice[0]]!r} appears twice, in rows {first + 1} and "
            f"{twice[0] + 1}. If one person may have several rows, name the column with ⟦subject⟧ "
            "instead"
        )
    return ids.tolist()


def label_of(train: Table) -> pd.Series:
    """The label column, as numbers where all of it is."""
    assert train.label is not None
    column = train.label
    if column.dtype == object or str(column.dtype) in ("str", "string"):
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.notna().all():
            column = numbers
        elif (read := amounts(column)) is not None:
            column = read[0]
    return column


def already_erased(settings: Settings, train: Table, remarks: Remarks) -> Any:
    """Rows of people whose erasure was honoured before but who are still in the file."""
    if settings.erased is None:
        return np.empty(0, dtype=np.intp)
    if settings.id is None and settings.subject is None:
        raise HoldfastError("⟦erased⟧ names people by id: say which column with ⟦id⟧ or ⟦subject⟧")
    ids = set(ids_in(settings.erased, settings))
    key = train.subjects if train.subjects is not None else train.X.index.to_series()
    gone = np.flatnonzero([as_text(name) in ids for name in key])
    remarks.add(
        f"{len(ids):,} erasures were honoured before: {gone.size:,} rows still in the table are "
        "left out."
    )
    if gone.size >= len(train.X):
        raise HoldfastError("every row of the training table is erased: nothing is left to fit")
    return gone


def ids_in(path: Any, settings: Settings) -> list[str]:
    """Ids from a file: a table with the id or subject column, or ids and nothing else."""
    column, file = str(settings.subject or settings.id), existing_file(path, "the file of ids")
    what = str(path)
    if is_parquet(file):
        table = read(settings, file)
        if column not in table.columns:
            raise HoldfastError(f"{what!r} has no column {column!r}{near_name(column, table)}")
        return list(dict.fromkeys(ids_of(table[column].dropna(), what)))
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines, delimiter=settings.delimiter) if any(row)]
    except (UnicodeDecodeError, csv.Error):
        raise HoldfastError(f"{what!r} is not a text file of ids (UTF-8)") from None
    except OSError as failure:
        raise HoldfastError(f"cannot read {what!r}: {failure.strerror}") from None
    if rows and column in rows[0]:
        place = rows[0].index(column)
        for number, row in enumerate(rows[1:], 2):
            if len(row) <= place or not row[place]:
                raise HoldfastError(f"{what!r}, entry {number}: {column!r} is missing")
        cells = [row[place] for row in rows[1:]]
        if MARK in rows[0]:
            cells = [from_spreadsheet(cell) for cell in cells]
    elif len(rows) > 1 and max(map(len, rows)) > 1:
        raise HoldfastError(
            f"{what!r} has no column {column!r}{near_name(column, rows[0])}; a list has one id "
            "on each line"
        )
    else:
        cells = [cell for row in rows for cell in row]
    found = [cell for cell in cells if cell]
    refuse_blank_ends(found, what, "id", "entry")
    if not found:
        raise HoldfastError(f"{what!r} names nobody")
    return list(dict.fromkeys(found))


def people_table(settings: Settings, train: Table) -> Table | None:
    """Who needs recourse, where a file says so; ``None`` where nothing does."""
    if settings.people is None:
        return train if settings.recourses is not None else None
    notes: list[str] = []
    raw = read(settings, settings.people, train.X, notes)
    what = str(settings.people)
    table = _taken_apart(settings, raw, what, list(train.X.columns), False, notes)
    X = like(table.X, train.X, what)
    return Table(X, table.label, table.subjects, table.raw, tuple(notes))


def held_out(settings: Settings, train: Table, rows: Any) -> tuple[Any, Any]:
    """Rows to fit on and rows held out; a person's rows stay together."""
    if len(rows) < 5:
        raise HoldfastError(
            f"{len(rows)} rows are too few to hold some out: name people with ⟦people⟧"
        )
    options = {"n_splits": 1, "test_size": settings.holdout, "random_state": settings.seed}
    groups = None if train.subjects is None else train.subjects.iloc[rows].to_numpy()
    split = ShuffleSplit(**options) if groups is None else GroupShuffleSplit(**options)
    try:
        fit, held = next(split.split(np.zeros(len(rows)), groups=groups))
    except ValueError as failure:
        raise HoldfastError(f"no part can be held out: {failure}") from None
    return np.sort(rows[fit]), np.sort(rows[held])


def belongs_to(people: Table, train: Table, rows: Any) -> Any:
    """Which people are those of some training rows: by subject where known, else by id."""
    if train.subjects is not None and people.subjects is not None:
        named = set(train.subjects.iloc[rows])
        return np.array([name in named for name in people.subjects], dtype=bool)
    return people.X.index.isin(list(train.X.index[rows]))

"""From settings to a model that can forget, people, and what they were promised."""

from __future__ import annotations

import csv
import datetime
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from holdfast.cli.modelfile import loaded_model
from holdfast.cli.settings import Settings
from holdfast.errors import (
    DataMismatchError,
    DriftWarning,
    HoldfastError,
    UnsupportedModelError,
)
from holdfast.files import sha256
from holdfast.fitting import Labels, described, fit_kind, labels_for, plain, target_by_default
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.inputs import final_step, fitted_names, near_name
from holdfast.models.network import NetworkCore
from holdfast.models.refit import RefitCore
from holdfast.models.rows import as_text
from holdfast.recourse import METHODS, find_recourse, target_of
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.issued import issued_recourse
from holdfast.recourse.result import Recourse
from holdfast.report.schema import FEWEST
from holdfast.tables import is_parquet, like, read_table, typed

#: remarks that say nothing about few people, by how they begin: these go into the report
SHARED = ("Warning", "What people can change", "the fitted model", "Some of the people", "Effects")

#: columns of a table of promises that are no features
ABOUT_PROMISES = ("issued", "expires", "model")


@dataclass
class Table:
    """A file of rows, taken apart."""

    X: pd.DataFrame
    label: pd.Series | None
    subjects: pd.Series | None
    raw: pd.DataFrame

    def take(self, rows: Any) -> Table:
        """Some of the rows."""
        label, subjects = (None if c is None else c.iloc[rows] for c in (self.label, self.subjects))
        return Table(self.X.iloc[rows], label, subjects, self.raw.iloc[rows])


@dataclass
class Case:
    """Everything a command works on.

    Attributes
    ----------
    table : frame
        The training file's rows, features only, named by id where there is an id column.
    subjects : Series or None
    names : list of str
        What an erasure request calls every row: its subject where there are subjects, else its id.
    training : positions of the rows the model was fitted on
    model : ErasableModel
    people, train : Table
    gone : positions of rows whose erasure was honoured before
    labels : the labels of every row of the file, where the model was fitted here
    given : Recourse
    target : float
    notes : list of str
        What was done to the data, to be shown.
    about : dict
        The same for the report.
    """

    table: pd.DataFrame
    subjects: pd.Series | None
    names: list[str]
    training: Any
    model: ErasableModel
    people: Table
    train: Table
    gone: Any
    labels: Labels | None
    target: float
    given: Recourse
    notes: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)


def load_case(
    settings: Settings, tell: Callable[[str, int, int], None], hold_out: bool = True
) -> Case:
    """Read, fit or load, and find or read back the promises.

    Where no people are given, they are a held-out part of the table, or else its own rows.
    """
    notes: list[str] = []
    about: dict[str, Any] = {
        "table": settings.train.name,
        "shared_notes": [],
        "settings": {},
    }
    fitted = None
    if (settings.model is None) == (settings.model_file is None):
        raise HoldfastError("say which model: either --model KIND, or --model-file FILE")
    if settings.unit == "subject" and settings.subject is None:
        raise HoldfastError("--unit subject needs --subject, the column that names people")
    _check_method(settings)
    if settings.model_file is not None:
        fitted = loaded_model(settings.model_file, settings.allow_pickle, settings.trust, notes)
        about["model_sha256"] = sha256(settings.model_file)
    train = _training_table(settings, fitted)
    about["table_sha256"] = sha256(settings.train)
    gone = _already_erased(settings, train, notes)
    labels = (
        None
        if fitted is not None
        else labels_for(str(settings.model), _label(train), settings.favourable)
    )
    rows = np.setdiff1d(np.arange(len(train.X)), gone)
    people = _people(settings, train)
    if people is None and fitted is None and hold_out:
        rows, held_out = _split(settings, train, rows)
        people = train.take(held_out)
        notes.append(
            f"{len(held_out):,} rows are held out (seed {settings.seed}); the model is fitted on "
            f"the other {len(rows):,}, and those held out below the target get recourse."
        )
    elif people is None:
        people = train.take(rows)
        if settings.recourses is None:
            notes.append(
                "No people were given: recourse is for the training rows below the target."
            )
        notes.append(
            "Some of the people with promises are training rows: an attack may erase them too."
        )
    model = _model(settings, fitted, train, labels, rows, gone, notes)
    model = _with_or_without_algebra(model, notes)
    about["preprocessing"] = described(model.estimator)
    notes += [f"Before the model: {line}." for line in about["preprocessing"]]
    default = target_by_default(final_step(model.estimator), labels)
    asked = settings.target
    if asked is None and settings.target_probability is None:
        asked = default
    target = target_of(model, asked, settings.target_probability)
    given = _given(settings, model, people, train, gone, target, notes, about, tell)
    about["shared_notes"] = [note for note in notes if note.startswith(SHARED)]
    key = train.subjects if train.subjects is not None else train.X.index.to_series()
    return Case(
        table=train.X,
        subjects=train.subjects,
        names=[as_text(name) for name in key],
        training=rows,
        model=model,
        people=people,
        train=train,
        gone=gone,
        labels=labels,
        target=target,
        given=given,
        notes=notes,
        about=about,
    )


def _check_method(settings: Settings) -> None:
    if settings.method is not None and settings.method not in METHODS:
        raise HoldfastError(
            f"--method must be one of {', '.join(METHODS)}, got {settings.method!r}"
            f"{near_name(settings.method, METHODS)}"
        )


def _training_table(settings: Settings, fitted: Any) -> Table:
    raw = _read(settings, settings.train)
    wanted = None if fitted is None else fitted_names(fitted)
    return _taken_apart(settings, raw, str(settings.train), wanted, training=True)


def _read(settings: Settings, path: Path) -> pd.DataFrame:
    """A table as this command's model is to see it; a brought model was fitted by pandas' rules."""
    text = [*_ids_of(settings), *settings.text]
    brought = settings.model_file is not None
    return read_table(path, text, settings.delimiter, settings.decimal, missing_words=brought)


def _ids_of(settings: Settings) -> list[str]:
    return [name for name in (settings.id, settings.subject) if name is not None]


def _taken_apart(
    settings: Settings, raw: pd.DataFrame, what: str, wanted: Sequence[Any] | None, training: bool
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
        index = pd.Index(_ids(raw[settings.id], what), name=settings.id)
    subjects = None
    if settings.subject is not None and settings.subject in raw.columns:
        cells = raw[settings.subject]
        missing = np.flatnonzero(cells.isna())
        if missing.size:
            raise HoldfastError(
                f"{what}, row {missing[0] + 1}: the subject {settings.subject!r} is missing "
                f"({missing.size} such rows)"
            )
        subjects = pd.Series([as_text(s) for s in cells], index=index)
    label = raw[settings.label].set_axis(index) if settings.label in raw.columns else None
    apart = {settings.label, *_ids_of(settings), *settings.drop}
    features = [name for name in raw.columns if name not in apart]
    if wanted is not None:
        for name in wanted:
            if name not in raw.columns:
                raise HoldfastError(
                    f"{what} has no column {str(name)!r}, which the model was fitted on"
                    f"{near_name(name, raw.columns)}"
                    + ("" if training else f"; if it is no feature, pass --drop {name}")
                )
        features = list(wanted)
    if not features:
        raise HoldfastError(f"{what} has no column besides label and ids: nothing to fit on")
    X = raw[features].set_axis(index, axis=0)
    if training and wanted is None:
        X = typed(X, what, settings.text)
    return Table(X, label, subjects, raw.set_axis(index, axis=0))


def _ids(column: pd.Series, what: str) -> list[str]:
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise HoldfastError(
            f"{what}, row {missing[0] + 1}: the id {column.name!r} is missing "
            f"({missing.size} such rows)"
        )
    ids = pd.Series([as_text(value) for value in column])
    twice = np.flatnonzero(ids.duplicated())
    if twice.size:
        first = int(np.flatnonzero(ids == ids[twice[0]])[0])
        raise HoldfastError(
            f"{what}: the id {ids[twice[0]]!r} appears twice, in rows {first + 1} and "
            f"{twice[0] + 1}"
        )
    return ids.tolist()


def _label(train: Table) -> pd.Series:
    assert train.label is not None
    column = train.label
    if column.dtype == object or str(column.dtype) in ("str", "string"):
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.notna().all():
            column = numbers
    return column


def _already_erased(settings: Settings, train: Table, notes: list[str]) -> Any:
    """Rows of people whose erasure was honoured before but who are still in the file."""
    if settings.erased is None:
        return np.empty(0, dtype=np.intp)
    if settings.id is None and settings.subject is None:
        raise HoldfastError("--erased names people by id: say which column with --id or --subject")
    ids = set(ids_in(settings.erased, settings))
    key = train.subjects if train.subjects is not None else train.X.index.to_series()
    gone = np.flatnonzero([as_text(name) in ids for name in key])
    notes.append(
        f"{len(ids):,} erasures were honoured before: {gone.size:,} rows still in the table are "
        "left out."
    )
    if gone.size >= len(train.X):
        raise HoldfastError("every row of the training table is erased: nothing is left to fit")
    return gone


def ids_in(path: Path, settings: Settings) -> list[str]:
    """Ids from a file: a table with the id or subject column, or ids and nothing else."""
    column = settings.subject or settings.id
    if is_parquet(path):
        table = _read(settings, path)
        if column not in table.columns:
            raise HoldfastError(
                f"{str(path)!r} has no column {column!r}{near_name(column, table.columns)}"
            )
        return [as_text(value) for value in table[column].dropna()]
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines, delimiter=settings.delimiter) if any(row)]
    except (UnicodeDecodeError, csv.Error):
        raise HoldfastError(f"{str(path)!r} is not a text file of ids (UTF-8)") from None
    except OSError as failure:
        raise HoldfastError(f"cannot read {str(path)!r}: {failure.strerror}") from None
    if rows and column in rows[0]:
        place = rows[0].index(column)
        cells = [row[place] for row in rows[1:] if len(row) > place]
    elif len(rows) > 1 and max(map(len, rows)) > 1:
        raise HoldfastError(f"{str(path)!r} has no column {column!r}{near_name(column, rows[0])}")
    else:
        cells = [cell for row in rows for cell in row]
    found = [cell.strip() for cell in cells if cell.strip()]
    if not found:
        raise HoldfastError(f"{str(path)!r} names nobody")
    return list(dict.fromkeys(found))


def _people(settings: Settings, train: Table) -> Table | None:
    if settings.people is None:
        return train if settings.recourses is not None else None
    raw = _read(settings, settings.people)
    what = str(settings.people)
    table = _taken_apart(settings, raw, what, list(train.X.columns), training=False)
    return Table(like(table.X, train.X, what), table.label, table.subjects, table.raw)


def _split(settings: Settings, train: Table, rows: Any) -> tuple[Any, Any]:
    """Rows to fit on and rows held out; a person's rows stay together."""
    if len(rows) < 5:
        raise HoldfastError(
            f"{len(rows)} rows are too few to hold some out: name people with --people"
        )
    options = {"n_splits": 1, "test_size": settings.holdout, "random_state": settings.seed}
    groups = None if train.subjects is None else train.subjects.iloc[rows].to_numpy()
    split = ShuffleSplit(**options) if groups is None else GroupShuffleSplit(**options)
    try:
        fit, held = next(split.split(np.zeros(len(rows)), groups=groups))
    except ValueError as failure:
        raise HoldfastError(f"no part can be held out: {failure}") from None
    return np.sort(rows[fit]), np.sort(rows[held])


def _model(
    settings: Settings,
    fitted: Any,
    train: Table,
    labels: Labels | None,
    rows: Any,
    gone: Any,
    notes: list[str],
) -> ErasableModel:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", DriftWarning)
        if labels is not None:
            part = train.take(rows)
            mine = Labels(labels.values[rows], labels.favourable, labels.classes, labels.indicator)
            fitted = fit_kind(str(settings.model), part.X, mine, settings.parameters, settings.seed)
            model = erasable(
                fitted, part.X, mine.values, _values(part.subjects), None, mine.favourable
            )
        else:
            model = _brought(settings, fitted, train, rows, gone)
    notes += [str(w.message) for w in heard if issubclass(w.category, DriftWarning)]
    return model


def _values(column: pd.Series | None) -> Any:
    return None if column is None else column.to_numpy()


def _brought(settings: Settings, fitted: Any, train: Table, rows: Any, gone: Any) -> ErasableModel:
    """A model from a file; those erased before may or may not have been in its training data."""
    y, favourable = _labels_of_model(settings, fitted, _label(train))

    def on(some: Any) -> ErasableModel:
        part = train.take(some)
        return erasable(fitted, part.X, y[some], _values(part.subjects), None, favourable)

    if len(gone) == 0:
        return on(rows)
    try:
        model = on(rows)
    except DataMismatchError:
        return on(np.arange(len(train.X))).without(gone)
    return model.without([]) if isinstance(model.core, RefitCore) else model


def _labels_of_model(settings: Settings, fitted: Any, column: pd.Series) -> tuple[Any, Any]:
    last = final_step(fitted)
    if not is_classifier(last):
        favourable = settings.favourable or "high"
        return typed(column.to_frame(), str(settings.train)).iloc[:, 0].to_numpy(), favourable
    by_text = {plain(c): c for c in np.asarray(last.classes_).tolist()}
    unknown = [value for value in column if plain(value) not in by_text]
    if unknown:
        raise HoldfastError(
            f"the label {settings.label!r} has the value {as_text(unknown[0])!r}, and the model "
            f"knows {', '.join(map(repr, by_text))}"
        )
    good = settings.favourable
    if good is None and set(by_text) == {"0", "1"}:
        good = "1"
    if good is not None and plain(good) not in by_text:
        good = {c.lower(): c for c in by_text}.get(plain(good).lower(), good)
    if good is None or plain(good) not in by_text:
        raise HoldfastError(
            f"name the class that is good for the person with --favourable: "
            f"{' or '.join(map(repr, by_text))}" + ("" if good is None else f", got {good!r}")
        )
    return np.array([by_text[plain(v)] for v in column]), by_text[plain(good)]


def _given(
    settings: Settings,
    model: ErasableModel,
    people: Table,
    train: Table,
    gone: Any,
    target: float,
    notes: list[str],
    about: dict[str, Any],
    tell: Callable[[str, int, int], None],
) -> Recourse:
    rules: Any = None
    if settings.actionability == "infer":
        rules = Actionability.infer(model.frame)
        frozen = [str(n) for n, f in rules.features.items() if f.direction == "frozen"]
        notes.append(
            "What people can change was inferred from the table"
            + (f"; frozen: {', '.join(frozen)}." if frozen else ".")
        )
    elif settings.actionability != "none":
        rules = Actionability.from_toml(settings.actionability)
    folk = people.X[~belongs_to(people, train, gone)]
    if settings.recourses is not None:
        return _issued(settings, model, folk, rules, target, notes, about)
    method = settings.method
    if method is None:
        method = "growing-spheres" if isinstance(model.core, RefitCore) else "scfe"
    about["method"] = method
    given = find_recourse(
        model,
        folk,
        method,
        target,
        rules,
        settings.overshoot,
        settings.seed,
        cost=settings.cost,
        progress=lambda done, total: tell("recourse", done, total),
    )
    if len(given) == 0:
        raise HoldfastError(
            f"nobody needs recourse: all {given.above_target} people score at the target "
            f"{target:g} or above"
        )
    notes.append(
        f"{int(given.valid.sum()):,} of {len(given):,} people below the target have a recourse "
        f"({method}, overshoot {settings.overshoot:g})."
    )
    if not given.valid.any():
        raise HoldfastError(
            f"no recourse was found for any of {len(given)} people; the first: "
            f"{given.reason.iloc[0]}"
        )
    return given


def belongs_to(people: Table, train: Table, rows: Any) -> Any:
    """Which people are those of some training rows: by subject where known, else by id."""
    if train.subjects is not None and people.subjects is not None:
        named = set(train.subjects.iloc[rows])
        return np.array([name in named for name in people.subjects], dtype=bool)
    return people.X.index.isin(list(train.X.index[rows]))


def _with_or_without_algebra(model: ErasableModel, notes: list[str]) -> ErasableModel:
    """A network that is at no optimum has no derivatives to predict with: refits it is."""
    if not isinstance(model.core, NetworkCore):
        return model
    try:
        model.deletions(model.X[:1])
    except UnsupportedModelError as refusal:
        notes.append(f"Effects of erasure are known by refitting only: {refusal}.")
        return model.by_refits_only(str(refusal))
    return model


def _issued(
    settings: Settings,
    model: ErasableModel,
    people: pd.DataFrame,
    rules: Any,
    target: float,
    notes: list[str],
    about: dict[str, Any],
) -> Recourse:
    assert settings.recourses is not None
    if settings.id is None:
        raise HoldfastError("--recourses are matched to people by id: say which column with --id")
    what = str(settings.recourses)
    table = _read(settings, settings.recourses)
    if settings.id not in table.columns:
        raise HoldfastError(
            f"{what} has no column {settings.id!r} to match people by"
            f"{near_name(settings.id, table.columns)}"
        )
    apart = [settings.label, settings.subject, *settings.drop]
    table = table.drop(columns=[c for c in apart if c in table and c not in people.columns])
    features = [c for c in table if c not in (settings.id, *ABOUT_PROMISES)]
    for name in features:
        if name not in people.columns:
            raise HoldfastError(
                f"{what} has the column {name!r}, which the model was not fitted on"
                f"{near_name(name, people.columns)}. If it is no feature, pass --drop {name}"
            )
    if not features:
        raise HoldfastError(f"{what} has no column of the model's features: what was promised?")
    table = _live(table, settings.as_of or datetime.date.today(), what, notes, about)
    _ids(table[settings.id], f"{what} (live promises)")
    theirs = [as_text(name) in set(people.index) for name in table[settings.id]]
    if not any(theirs):
        raise HoldfastError(f"no live promise in {what} was made to anybody among the people")
    cells = table[[c for c in table if c not in ABOUT_PROMISES or c in people.columns]]
    cells = like(cells, people, what)
    given = issued_recourse(model, people, cells, target, rules, id=settings.id, cost=settings.cost)
    about["method"] = "issued"
    short = len(given) - int(given.valid.sum())
    notes.append(
        f"{len(given):,} live promises to people below the target, {short:,} of them not valid "
        "now and left out."
    )
    if not given.valid.any():
        reason = f"; the first: {given.reason.iloc[0]}" if len(given) else ""
        raise HoldfastError(f"no promise in {what} is valid now{reason}")
    return given


def _live(
    table: pd.DataFrame, today: datetime.date, what: str, notes: list[str], about: dict[str, Any]
) -> pd.DataFrame:
    """Promises already made and not yet expired; the others are counted."""
    now = pd.Timestamp(today)
    expired = early = np.zeros(len(table), dtype=bool)
    if "expires" in table:
        expired = (_dates(table["expires"], what) < now).to_numpy()
    if "issued" in table:
        early = (_dates(table["issued"], what) > now).to_numpy() & ~expired
    about["expired"], about["not_yet_issued"] = int(expired.sum()), int(early.sum())
    if expired.any() or early.any():
        notes.append(
            f"Of {len(table):,} promises {int(expired.sum()):,} have expired by {today} and "
            f"{int(early.sum()):,} are not issued yet: they are left out."
        )
    live = table[~expired & ~early]
    if len(live) == 0:
        raise HoldfastError(
            f"{what} has no live promise on {today}: {int(expired.sum())} have expired, "
            f"{int(early.sum())} are not issued yet"
        )
    if "model" in table:
        counts = live["model"].astype(str).value_counts()
        if counts.min() >= FEWEST:  # else one that is hidden follows from the others
            about["issued_under"] = {str(name): int(count) for name, count in counts.items()}
        if len(counts) > 1:
            notes.append(f"The live promises were made under {len(counts)} models.")
    return live


def _dates(column: pd.Series, what: str) -> pd.Series:
    """Days; an empty cell is no day."""
    cells = column.astype(object).where(column.notna(), None)
    words = cells.astype(str).where(cells.notna(), None)
    days = pd.to_datetime(words, errors="coerce", format="ISO8601", utc=True)
    bad = np.flatnonzero((days.isna() & cells.notna()).to_numpy())
    if bad.size:
        raise HoldfastError(
            f"{what}, row {bad[0] + 1}, column {column.name!r}: {str(cells.iloc[bad[0]])!r} is no "
            "date; dates are written 2026-01-31"
        )
    return days.dt.tz_localize(None).dt.normalize()

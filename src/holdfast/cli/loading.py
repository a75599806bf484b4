"""From settings to a model that can forget, people, and what they were promised."""

from __future__ import annotations

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
from holdfast.errors import DataMismatchError, DriftWarning, HoldfastError
from holdfast.files import sha256
from holdfast.fitting import Labels, described, fit_kind, labels_for, target_by_default
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.inputs import final_step, fitted_names, near_name
from holdfast.models.refit import RefitCore
from holdfast.models.rows import as_text
from holdfast.recourse import METHODS, find_recourse, target_of
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.issued import issued_recourse
from holdfast.recourse.result import Recourse
from holdfast.report.schema import FEWEST
from holdfast.tables import like, read_table, typed

#: columns of a table of promises that are no features
ABOUT_PROMISES = ("issued", "expires", "model")


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
    people : frame
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
    people: pd.DataFrame
    target: float
    given: Recourse
    notes: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)


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


def load_case(
    settings: Settings, tell: Callable[[str, int, int], None], hold_out: bool = True
) -> Case:
    """Read, fit or load, and find or read back the promises.

    Where no people are given, they are a held-out part of the table, or else its own rows.
    """
    notes: list[str] = []
    about: dict[str, Any] = {
        "table": settings.train.name,
        "notes": notes,
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
    model = _model(settings, fitted, train, labels, rows, gone, notes)
    about["preprocessing"] = described(model.estimator)
    notes += [f"Before the model: {line}." for line in about["preprocessing"]]
    default = target_by_default(final_step(model.estimator), labels)
    asked = settings.target
    if asked is None and settings.target_probability is None:
        asked = default
    target = target_of(model, asked, settings.target_probability)
    given = _given(settings, model, people, train, gone, target, notes, about, tell)
    key = train.subjects if train.subjects is not None else train.X.index.to_series()
    return Case(
        table=train.X,
        subjects=train.subjects,
        names=[as_text(name) for name in key],
        training=rows,
        model=model,
        people=people.X,
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
    raw = read_table(settings.train, _ids_of(settings), settings.delimiter)
    wanted = None if fitted is None else fitted_names(fitted)
    return _taken_apart(settings, raw, str(settings.train), wanted, training=True)


def _ids_of(settings: Settings) -> list[str]:
    return [name for name in (settings.id, settings.subject) if name is not None]


def _taken_apart(
    settings: Settings, raw: pd.DataFrame, what: str, wanted: Sequence[Any] | None, training: bool
) -> Table:
    """Ids, subjects and the label apart from the features."""
    named = [settings.label, *_ids_of(settings), *settings.drop, *settings.text]
    if settings.cohort is not None:
        named.append(settings.cohort)
    for name in named if training else _ids_of(settings)[:1] if settings.id else []:
        if name not in raw.columns:
            raise HoldfastError(f"{what} has no column {name!r}{near_name(name, raw.columns)}")
    index: pd.Index = pd.RangeIndex(1, len(raw) + 1)
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
            f"{twice[0] + 1}. If people own several rows, name them with --subject"
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
    """Ids from a file: a table with the id or subject column, or one id per line."""
    column = settings.subject or settings.id
    try:
        with path.open(encoding="utf-8-sig") as lines_of:
            first = lines_of.readline(100_000)
    except (OSError, UnicodeDecodeError):
        first = ""
    heading = first.strip().split(settings.delimiter)
    if path.suffix.lower() in (".parquet", ".pq") or (column in heading) or len(heading) > 1:
        table = read_table(path, _ids_of(settings), settings.delimiter)
        if column not in table.columns:
            raise HoldfastError(
                f"{str(path)!r} has no column {column!r}{near_name(column, table.columns)}"
            )
        found = [as_text(value) for value in table[column].dropna()]
    else:
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise HoldfastError(f"{str(path)!r} is not a text file (UTF-8)") from None
        except OSError as failure:
            raise HoldfastError(f"cannot read {str(path)!r}: {failure.strerror}") from None
        found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise HoldfastError(f"{str(path)!r} names nobody")
    return list(dict.fromkeys(found))


def _people(settings: Settings, train: Table) -> Table | None:
    if settings.people is None:
        return train if settings.recourses is not None else None
    raw = read_table(settings.people, _ids_of(settings), settings.delimiter)
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
    by_text = {as_text(c): c for c in np.asarray(last.classes_).tolist()}
    unknown = [value for value in column if as_text(value) not in by_text]
    if unknown:
        raise HoldfastError(
            f"the label {settings.label!r} has the value {as_text(unknown[0])!r}, and the model "
            f"knows {', '.join(map(repr, by_text))}"
        )
    good = settings.favourable
    if good is None and set(by_text) == {"0", "1"}:
        good = "1"
    if good is None or as_text(good) not in by_text:
        raise HoldfastError(
            f"name the class that is good for the person with --favourable: "
            f"{' or '.join(map(repr, by_text))}" + ("" if good is None else f", got {good!r}")
        )
    return np.array([by_text[as_text(v)] for v in column]), by_text[as_text(good)]


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
    folk = people.X
    erased = set(train.X.index[gone]) if settings.id is not None else set()
    if erased:
        folk = folk[~folk.index.isin(list(erased))]
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
    table = read_table(settings.recourses, [settings.id], settings.delimiter)
    if settings.id not in table.columns:
        raise HoldfastError(
            f"{what} has no column {settings.id!r} to match people by"
            f"{near_name(settings.id, table.columns)}"
        )
    _ids(table[settings.id], what)
    apart = [name for name in (settings.label, settings.subject) if name in table.columns]
    table = table.drop(columns=[c for c in apart if c not in people.columns])
    features = [c for c in table if c not in (settings.id, *ABOUT_PROMISES)]
    for name in features:
        if name not in people.columns:
            raise HoldfastError(
                f"{what} has the column {name!r}, which the model was not fitted on"
                f"{near_name(name, people.columns)}"
            )
    if not features:
        raise HoldfastError(f"{what} has no column of the model's features: what was promised?")
    table = _live(table, settings.as_of or datetime.date.today(), what, notes, about)
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
        raise HoldfastError(f"{what} has no live promise on {today}: all {len(table)} are over")
    if "model" in table:
        counts = live["model"].astype(str).value_counts()
        about["issued_under"] = {
            name: (int(count) if count >= FEWEST else None) for name, count in counts.items()
        }
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

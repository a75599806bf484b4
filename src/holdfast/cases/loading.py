"""From settings to a model that can forget, people, and what they were promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from holdfast.algebra.rows import as_text
from holdfast.audits.about import About
from holdfast.cases.blocks import case_by_blocks, reads_by_blocks
from holdfast.cases.files import (
    Table,
    already_erased,
    held_out,
    label_of,
    people_table,
    training_table,
)
from holdfast.cases.fitting import Labels, described, fit_kind, labels_for, plain, target_by_default
from holdfast.cases.modelfile import loaded_model
from holdfast.cases.native import NATIVE
from holdfast.cases.promises import check_method, declared_rules, promised
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.errors import DataMismatchError, HoldfastError
from holdfast.files import sha256
from holdfast.models.erasable import ErasableModel, erasable_and_warning
from holdfast.models.pipelines import final_step, fitted_names
from holdfast.models.refits import Progress
from holdfast.recourse import target_of
from holdfast.recourse.inference import near
from holdfast.recourse.result import Recourse
from holdfast.tables import typed

#: deviations of a score by which a refit may differ from what a library's own file predicts
GIVEN_BACK = 1e-3

#: parameters that are named where a refit is said to give a file's predictions back
REFIT_BY = ("n_estimators", "iterations", "learning_rate", "max_depth", "depth", "reg_lambda")


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
    about : About
        What is known of the files, and what was done to the data.
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
    about: About = field(default_factory=About)


def load_case(
    settings: Settings,
    progress: Progress | None = None,
    remark: Callable[[str], None] | None = None,
    hold_out: bool = True,
    promises: Callable[..., Any] = promised,
) -> Case:
    """Read, fit or load, and find or read back the promises.

    Where no people are given, they are a held-out part of the table, or else its own rows.

    Parameters
    ----------
    settings : Settings
    progress : callable, optional
        Called with ``(stage, done, total)``.
    remark : callable, optional
        Called with every remark about the data, as it is made.
    hold_out : bool
        Whether a part of the table may be held out for recourse where no people are given.
    promises : callable
        What finds the promises, or reads them back.
    """
    remarks = Remarks(remark)
    tell: Progress = progress or (lambda stage, done, total: None)
    about = About(table=settings.train.name, notes=remarks.notes)
    fitted = None
    if (settings.model is None) == (settings.model_file is None):
        raise HoldfastError("say which model: either ⟦model⟧ KIND, or ⟦model_file⟧ FILE")
    if settings.shards is not None and settings.model is None:
        raise HoldfastError("⟦shards⟧ says how ⟦model⟧ is fitted: a model file is fitted already")
    if settings.unit == "subject" and settings.subject is None:
        raise HoldfastError("⟦unit⟧ subject needs ⟦subject⟧, the column that names people")
    if settings.update != "refit" and settings.model not in (None, "boosting"):
        raise HoldfastError(
            f"⟦update⟧ {settings.update} is for boosting models: ⟦model⟧ boosting, or a file of one"
        )
    check_method(settings)
    if reads_by_blocks(settings):
        if settings.shards is not None:
            raise HoldfastError("⟦shards⟧ is for tables that fit into memory")
        made: Case = case_by_blocks(settings, remarks, about, tell, hold_out, Case)
        return made
    rules = declared_rules(settings)
    tell("reading the table", 0, 1)
    if settings.model_file is not None:
        fitted = loaded_model(
            settings.model_file,
            settings.allow_pickle,
            settings.trust,
            remarks,
            settings.parameters,
        )
        about.model_sha256 = sha256(settings.model_file)
        try:
            final_step(fitted)
            fitted_names(fitted)
        except (HoldfastError, NotFittedError):
            raise
        except Exception as failure:
            raise _unusable(settings, failure) from None
    train = training_table(settings, fitted)
    for said in train.notes:
        remarks.add(said, shareable=True)
    about.table_sha256 = sha256(settings.train)
    gone = already_erased(settings, train, remarks)
    tell("reading the table", 1, 1)
    labels = (
        None
        if fitted is not None
        else labels_for(str(settings.model), label_of(train), settings.favourable)
    )
    rows = np.setdiff1d(np.arange(len(train.X)), gone)
    people = people_table(settings, train)
    for said in () if people is None or people is train else people.notes:
        remarks.add(said, shareable=True)
    if people is None and fitted is None and hold_out:
        rows, kept = held_out(settings, train, rows)
        people = train.take(kept)
        remarks.add(
            f"{len(kept):,} rows are held out (seed {settings.seed}); the model is fitted on "
            f"the other {len(rows):,}, and those held out below the target get recourse."
        )
    elif people is None:
        people = train.take(rows)
        if settings.recourses is None:
            remarks.add("No people were given: recourse is for the training rows below the target.")
        remarks.add(
            "Some of the people with promises are training rows: an attack may erase them too.",
            shareable=True,
        )
    tell("fitting the model", 0, 1)
    model = _model(settings, fitted, train, labels, rows, gone, remarks)
    tell("fitting the model", 1, 1)
    if model.kept:
        remarks.add(model.kept, shareable=True)
    if not model.can.predicts and model.can.gradients:  # a family with an algebra, but not here
        said = f"Effects of erasure are known by refitting only: {model.can.why_not}."
        remarks.add(said, shareable=True)
    about.preprocessing = described(model.estimator)
    for line in about.preprocessing:
        remarks.add(f"Before the model: {line}.")
    default = target_by_default(final_step(model.estimator), labels)
    asked = settings.target
    if asked is None and settings.target_probability is None:
        asked = default
        if asked is None and model.rows.classes is None:  # the median label may be somebody's
            asked = near(model.median_label, model.y.astype(float))
    target = target_of(model, asked, settings.target_probability)
    given = promises(settings, model, people, train, gone, target, rules, remarks, about, tell)
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
        about=about,
    )


def _model(
    settings: Settings,
    fitted: Any,
    train: Table,
    labels: Labels | None,
    rows: Any,
    gone: Any,
    remarks: Remarks,
) -> ErasableModel:
    if labels is not None:
        part = train.take(rows)
        mine = Labels(labels.values[rows], labels.favourable, labels.classes, labels.indicator)
        fitted = fit_kind(
            str(settings.model),
            part.X,
            mine,
            settings.parameters,
            settings.seed,
            settings.shards,
            _values(part.subjects),
        )
        model, warning = erasable_and_warning(
            fitted,
            part.X,
            mine.values,
            _values(part.subjects),
            None,
            mine.favourable,
            settings.update,
        )
    else:
        try:
            model, warning = _brought(settings, fitted, train, rows, gone)
            if (proof := given_back(settings, model)) is not None:
                remarks.add(proof, shareable=True)
        except (HoldfastError, NotFittedError):
            raise
        except Exception as failure:  # a damaged model does whatever it does
            raise _unusable(settings, failure) from None
    if warning is not None:
        remarks.add(warning, shareable=True, warning=True)
    return model


def model_on_record(settings: Settings, fitted: Any) -> tuple[Table, ErasableModel]:
    """A fitted model beside the table it was fitted on, both kept since.

    The table is read as it was for the fit: by our own rules where the model was fitted here.
    """
    if settings.model is None:
        train = training_table(settings, fitted)
        return train, _brought(settings, fitted, train, np.arange(len(train.X)), ())[0]
    train = training_table(settings, None)
    labels = labels_for(str(settings.model), label_of(train), settings.favourable)
    made = erasable_and_warning(
        fitted, train.X, labels.values, _values(train.subjects), None, labels.favourable
    )
    return train, made[0]


def _unusable(settings: Settings, failure: Exception) -> HoldfastError:
    said = f"{type(failure).__name__}: {str(failure)[:200]}"
    return HoldfastError(f"the model in {str(settings.model_file)!r} cannot be used: {said}")


def _values(column: pd.Series | None) -> Any:
    return None if column is None else column.to_numpy()


def _brought(
    settings: Settings, fitted: Any, train: Table, rows: Any, gone: Any
) -> tuple[ErasableModel, str | None]:
    """A model from a file; those erased before may or may not have been in its training data."""
    y, favourable = _labels_of_model(settings, fitted, label_of(train))

    def on(some: Any) -> tuple[ErasableModel, str | None]:
        part = train.take(some)
        made = erasable_and_warning(
            fitted, part.X, y[some], _values(part.subjects), None, favourable
        )
        refuse_another_fit(settings, made[0])
        if settings.update == "refit":
            return made
        return erasable_and_warning(
            fitted, part.X, y[some], _values(part.subjects), None, favourable, settings.update
        )

    if len(gone) == 0:
        return on(rows)
    try:
        model, warning = on(rows)
    except DataMismatchError:
        everybody, warning = on(np.arange(len(train.X)))
        return everybody.without(gone), warning
    # a model that cannot tell what it was fitted on is fitted again, to be sure
    return (model if model.can.gradients else model.without([])), warning


def _is_native(settings: Settings) -> bool:
    return settings.model_file is not None and settings.model_file.suffix.lower() in NATIVE


def refuse_another_fit(settings: Settings, model: ErasableModel) -> None:
    """Refuse a library's own file whose predictions a refit on the table does not give back."""
    if not _is_native(settings):
        return
    assert settings.model_file is not None
    far, native = _difference(model), NATIVE[settings.model_file.suffix.lower()]
    if not far <= GIVEN_BACK:
        raise DataMismatchError(
            f"a refit on {str(settings.train)!r} does not give back the predictions of "
            f"{str(settings.model_file)!r}: the scores of training rows differ by up to {far:.2g} "
            "deviations. Either the table is not the one it was fitted on, in the same order, or "
            f"the fit had parameters that {native.library}'s files do not hold ({native.missing}): "
            "give them with ⟦param⟧ NAME=VALUE, or save the estimator itself with skops.io.dump"
        )


def given_back(settings: Settings, model: ErasableModel) -> str | None:
    """How near a refit comes to a library's own file, in words."""
    if not _is_native(settings) or model.kept:
        return None
    assert settings.model_file is not None
    told = {n: v for n, v in model.inside.get_params().items() if n in REFIT_BY and v is not None}
    by = ", ".join(f"{name}={value}" for name, value in told.items())
    return (
        f"{settings.model_file.name} holds trees and not their fit; a refit on the table "
        f"({by}; the library's defaults for what the file does not say) gives its predictions "
        f"back: the scores of training rows differ by at most {_difference(model):.1g} deviations."
    )


def _difference(model: ErasableModel) -> float:
    """How far a refit with nobody erased is from the model, on its training rows, in deviations."""
    again = model.refitted_on(np.arange(model.rows.n))
    return float(np.abs(again.training_scores - model.training_scores).max() / model.score_unit)


def _labels_of_model(settings: Settings, fitted: Any, column: pd.Series) -> tuple[Any, Any]:
    last = final_step(fitted)
    if not is_classifier(last):
        favourable = settings.favourable or "high"
        return typed(column.to_frame(), str(settings.train)).iloc[:, 0].to_numpy(), favourable
    by_text = {plain(c): c for c in np.asarray(last.classes_).tolist()}
    found = np.unique([plain(value) for value in column])
    if _is_native(settings) and set(by_text) == {"0", "1"} != set(found) and len(found) == 2:
        # such a file has numbers for the classes, in the order of their names
        by_text = dict(zip(found.tolist(), np.asarray(last.classes_).tolist(), strict=True))
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
            f"name the class that is good for the person with ⟦favourable⟧: "
            f"{' or '.join(map(repr, by_text))}" + ("" if good is None else f", got {good!r}")
        )
    return np.array([by_text[plain(v)] for v in column]), by_text[plain(good)]

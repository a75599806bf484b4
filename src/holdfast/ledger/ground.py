"""The model in force on its table: what promises are judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.cases.books import rules_of, settings_on
from holdfast.cases.files import Table, ids_of, read
from holdfast.cases.loading import model_on_record
from holdfast.cases.modelfile import loaded_model
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.ledger.places import Places
from holdfast.ledger.records import cells
from holdfast.ledger.tables import Book, ModelVersion
from holdfast.models.erasable import ErasableModel
from holdfast.tables import like


@dataclass
class Ground:
    """A model on record, loaded.

    Attributes
    ----------
    kept : settings of the case, as the books keep them
    settings : Settings
    train : Table
    model : ErasableModel
    target : float
    """

    kept: dict[str, Any]
    settings: Settings
    train: Table
    model: ErasableModel
    target: float

    @cached_property
    def names(self) -> Any:
        """What an erasure request calls every row."""
        key = self.train.subjects
        index = self.train.X.index if key is None else key
        return np.array([as_text(name) for name in index], dtype=object)

    def rows_of(self, names: Iterable[str]) -> Any:
        """The rows of some people."""
        return np.flatnonzero(pd.Index(self.names).isin(list(names)))

    @property
    def unit(self) -> str:
        """What one erasure removes."""
        return "row" if self.train.subjects is None else "subject"

    def frame(self, values: Sequence[Sequence[Any]], index: Any = None) -> pd.DataFrame:
        """Values from the books as the model takes them."""
        table = pd.DataFrame(list(values), columns=self.kept["features"], index=index)
        columns = list(self.train.X.columns)
        return like(table[columns], self.train.X, "the ledger")

    def cells(self, points: pd.DataFrame, factuals: list[list[Any]]) -> list[list[Any]]:
        """Points as the books keep them: what the model does not ask for is as people are."""
        places = [self.kept["features"].index(str(name)) for name in points.columns]
        found = []
        for values, factual in zip(cells(points), factuals, strict=True):
            whole = list(factual)
            for place, value in zip(places, values, strict=True):
                whole[place] = value
            found.append(whole)
        return found

    def rules(self, model: ErasableModel) -> Any:
        """What people can change, by the table of a model."""
        return rules_of(self.kept, model)


def loaded(book: Book, version: ModelVersion, places: Places, trust: Sequence[str] = ()) -> Ground:
    """The model in force; refused where a file is not the one on record."""
    kept = {**book.settings, **version.settings}
    table = places.checked(version.table_path, version.table_sha256, "the table")
    model = places.checked(version.path, version.sha256, "the model")
    settings = settings_on(kept, table, model)
    fitted = loaded_model(model, False, trust, Remarks())
    train, found = model_on_record(settings, fitted)
    if settings.target_rule != "fixed":
        found = found.with_target_rule(settings.target_rule, version.target)
    return Ground(kept, settings, train, found, version.target)


def names_in_table(book: Book, version: ModelVersion, places: Places) -> set[str]:
    """Everybody in the training table, by what erasure requests call them."""
    kept = {**book.settings, **version.settings}
    table = places.checked(version.table_path, version.table_sha256, "the table")
    settings = settings_on(kept, table, Path(str(version.path)))
    column = str(settings.subject or settings.id)
    return set(ids_of(read(settings, table)[column], str(table)))

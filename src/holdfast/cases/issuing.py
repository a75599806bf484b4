"""Promises written down, in the form they are read back in."""

from __future__ import annotations

import pandas as pd

from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, Outputs
from holdfast.recourse.result import Recourse
from holdfast.tables import MARK, to_be_read_back


def check_promises_out(settings: Settings, given: Recourse) -> None:
    """Refuse names that a file of promises needs for itself, before it is written."""
    if settings.out is None:
        return
    names = list(map(str, given.points.columns))
    if settings.id is None and "id" in names:
        raise HoldfastError(
            "the table has a feature named 'id', and ⟦out⟧ needs that name for people: say which "
            "column names them with ⟦id⟧, or leave the feature out with ⟦drop⟧ id"
        )
    if MARK in names:
        raise HoldfastError(f"⟦out⟧ needs the name {MARK!r}, and a feature has it: rename it")


def write_promises(points: pd.DataFrame, settings: Settings, out: Outputs) -> None:
    """A CSV file of promises by id, for its owner only."""
    assert settings.out is not None
    table = points.reset_index(names=settings.id or "id")
    out.text(settings.out, to_be_read_back(table, "recourses", settings.delimiter), PRIVATE)

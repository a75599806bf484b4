"""Diabetes: hospital stays of diabetic patients in 130 US hospitals (Strack et al., 2014).

A random 10,000 of 101,766 stays, as in the paper (whose own draw is not published). Favourable is
*not* readmitted within 30 days. One patient may have several stays: ``patient_nbr`` is the subject.
Left out: the codes of the diagnoses (over 700 each), columns missing in most rows (weight, payer,
specialty), drugs fewer than 1 % take, the codes of admission and discharge.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd

from holdfast.datasets.sources import Source
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.rules import Feature

VERSION = 1
ROWS = 10_000
SOURCE = Source(
    file="diabetic_data.csv",
    sha256="0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
    archive="https://archive.ics.uci.edu/static/public/296/"
    "diabetes+130-us+hospitals+for+years+1999-2008.zip",
    member="diabetic_data.csv",
)
TASKS = {"classification": "not readmitted within 30 days (1)"}
SUBJECT = "patient_nbr"
_DRUGS = (
    *("metformin", "repaglinide", "glimepiride", "glipizide", "glyburide"),
    *("pioglitazone", "rosiglitazone", "insulin"),
)
_COUNTS = (
    *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
    *("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"),
)
_TEXT = ("race", "gender", "age", "max_glu_serum", "A1Cresult", *_DRUGS, "change", "diabetesMed")
_PAST = ("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses")
RULES = Actionability(
    {
        **dict.fromkeys(("race", "gender", "age", *_PAST), Feature("frozen")),
        **{name: Feature("any", low=0, integer=True) for name in _COUNTS if name not in _PAST},
    }
)


def clean(raw: bytes) -> pd.DataFrame:
    """The table from the file's bytes; an unknown race is called so."""
    table = pd.read_csv(io.BytesIO(raw), keep_default_na=False, na_values=["?"], low_memory=False)
    drawn = np.random.default_rng(0).choice(len(table), ROWS, replace=False)
    table = table.iloc[drawn].set_axis(range(ROWS), axis=0)
    kept = table[[*_COUNTS, *_TEXT, SUBJECT, "readmitted"]].fillna({"race": "unknown"})
    return kept.assign(duplicate=table.drop(columns=["encounter_id"]).duplicated())


def posed(table: pd.DataFrame, task: str) -> tuple[pd.DataFrame, Any]:
    """Features and labels."""
    return table[[*_COUNTS, *_TEXT]], (table["readmitted"] != "<30").to_numpy().astype(int)

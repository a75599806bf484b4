"""Law school admission: first-year grades of 21,790 students (LSAC, 1998).

The public file has 21,791 rows; the one whose region is "PO" is left out, as in the paper and
before it in Kusner et al. (2017).
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
SOURCE = Source(
    file="law_data.csv",
    sha256="095fbb4641b0f767feb664388b877a4544ad5a731630623b375e74b5fdbfa715",
    archive="ethik==0.0.2",
    member="ethik/data/law_data.csv",
)
TASKS = {
    "regression": "the first-year average grade, standardised (ZFYA)",
    "classification": "a first-year average grade at or above the median (1)",
}
SUBJECT = None
RULES = Actionability(
    {
        "LSAT": Feature("up", low=10, high=48, step=0.5),
        "UGPA": Feature("up", low=0, high=4.2, step=0.1),
        "race": Feature("frozen"),
        "sex": Feature("frozen"),
    }
)
_SEXES = {1: "female", 2: "male"}


def clean(raw: bytes) -> pd.DataFrame:
    """The table from the file's bytes; nothing imputed, nothing scaled."""
    table = pd.read_csv(io.BytesIO(raw), index_col=0)
    table = table[table["region_first"] != "PO"]
    kept = table[["LSAT", "UGPA", "race", "sex", "ZFYA"]].replace({"sex": _SEXES})
    return kept.assign(duplicate=table.duplicated())


def posed(table: pd.DataFrame, task: str) -> tuple[pd.DataFrame, Any]:
    """Features and labels."""
    y = table["ZFYA"].to_numpy(float)
    X = table[["LSAT", "UGPA", "race", "sex"]]
    return X, y if task == "regression" else (y >= np.median(y)).astype(int)

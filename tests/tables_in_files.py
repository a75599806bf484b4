"""Tables in files for tests, and the same model in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import holdfast as hf
from holdfast.cases.fitting import fit_kind, labels_for


def loans(n: int = 3000, seed: int = 0, kind: str = "ridge", gaps: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        rng.standard_normal((n, 4)) * [1, 2, 50, 0.1] + [0, 1, 400, 5],
        columns=["income", "savings", "wealth", "rate"],
    )
    table["region"] = rng.choice(["north", "south", "west"], n)
    score = table.income + 0.5 * table.savings - 0.01 * (table.wealth - 400)
    if gaps:
        table.loc[rng.random(n) < 0.1, "savings"] = np.nan
        table.loc[rng.random(n) < 0.02, "wealth"] = np.nan
        table.loc[rng.random(n) < 0.05, "region"] = None
    table["paid"] = score + rng.standard_t(3, size=n)
    if kind == "logistic":
        table["paid"] = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
    elif kind in ("poisson", "tweedie"):
        table["paid"] = rng.poisson(np.exp(0.3 * table.income)).astype(float)
    elif kind == "gamma":
        table["paid"] = np.exp(0.3 * table.income) * rng.gamma(2.0, size=n)
    table["customer"] = [f"C{i}" for i in range(n)]
    return table


def written(table: pd.DataFrame, folder: Path, files: int = 2, group: int = 400) -> Path:
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        table.iloc[rows].to_parquet(
            folder / f"part-{number}.parquet", row_group_size=group, index=False
        )
    return folder


def good_of(kind: str) -> str | None:
    return "yes" if kind == "logistic" else None


def scanned(table: pd.DataFrame, folder: Path, kind: str, **options):
    where = written(table, folder)
    found = hf.scan(where, label="paid", favourable=good_of(kind), id="customer")
    return hf.fit(kind, found, **options)


def in_memory(table: pd.DataFrame, kind: str, **parameters):
    X = table.drop(columns=["paid", "customer"]).set_axis(table["customer"], axis=0)
    labels = labels_for(kind, table["paid"], good_of(kind))
    fitted = fit_kind(kind, X, labels, parameters)
    return hf.erasable(fitted, X, labels.values, favourable=labels.favourable)

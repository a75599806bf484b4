"""A lender's files: loans with numbers, text and gaps, customers, promises."""

from __future__ import annotations

import numpy as np
import pandas as pd


def loans(n=240, seed=1):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "customer": [f"C-{i:04d}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "income": rng.normal(3000, 800, n).round(),
            "savings": rng.exponential(2000, n).round(),
            "job": rng.choice(["none", "part", "full"], n),
            "region": rng.choice(list("NSEW"), n),
        }
    )
    merit = table["income"] / 1000 + table["savings"] / 2000 + (table["job"] == "full") * 1.5
    merit = merit + rng.normal(0, 1, n)
    table["repaid"] = np.where(merit > merit.median(), "yes", "no")
    table["merit"] = merit.round(3)
    table.loc[::17, "income"] = np.nan
    return table


def write_loans(folder, **options):
    """``loans.csv`` for classification and ``merit.csv`` for regression."""
    table = loans(**options)
    table.drop(columns="merit").to_csv(folder / "loans.csv", index=False)
    table.drop(columns="repaid").to_csv(folder / "merit.csv", index=False)
    return table


#: options that fit a small regression on merit.csv
MERIT = ["--train", "merit.csv", "--label", "merit", "--id", "customer", "--model", "ridge"]
#: options that fit a small classifier on loans.csv
LOANS = [
    *("--train", "loans.csv", "--label", "repaid", "--favourable", "yes"),
    *("--id", "customer", "--model", "logistic"),
]

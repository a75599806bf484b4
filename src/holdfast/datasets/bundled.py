"""Data sets that come with scikit-learn: no download, so that everything works offline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets as sklearn_datasets

from holdfast.datasets.dataset import Dataset
from holdfast.recourse.actionability import Actionability


@dataclass(frozen=True)
class Bundled:
    """A data set of scikit-learn's, its tasks, and how labels and rules are made."""

    read: Callable[[], Any]
    tasks: dict[str, str]
    rules: Callable[[pd.DataFrame], Actionability]


def _breast_cancer_rules(X: pd.DataFrame) -> Actionability:
    """No person can change a tumour; within the range seen, a laboratory may measure otherwise."""
    return Actionability.infer(X)


def _progression_rules(X: pd.DataFrame) -> Actionability:
    lower = {"direction": "down"}
    return Actionability.infer(
        X,
        bmi={**lower, "low": 18.5, "step": 0.1},
        bp={**lower, "low": 70},
        s1={**lower, "low": 90},
        s2={**lower, "low": 40},
        s3={"direction": "up", "high": 100},
        s6={**lower, "low": 55},
    )


TABLES = {
    "breast-cancer": Bundled(
        lambda: sklearn_datasets.load_breast_cancer(as_frame=True),
        {"classification": "a benign tumour (1)"},
        _breast_cancer_rules,
    ),
    "diabetes-progression": Bundled(
        lambda: sklearn_datasets.load_diabetes(as_frame=True, scaled=False),
        {
            "regression": "how little the disease went on in a year (minus scikit-learn's target)",
            "classification": "a disease that went on no further than the median (1)",
        },
        _progression_rules,
    ),
}


def load(name: str, task: str) -> Dataset:
    """One of them."""
    bundled = TABLES[name]
    found = bundled.read()
    X: pd.DataFrame = found.data
    y = found.target.to_numpy()
    if name == "diabetes-progression":
        y = -y if task == "regression" else (y <= np.median(y)).astype(int)
    return Dataset(
        name=name,
        task=task,
        X=X.set_axis(X.index.astype(str), axis=0),
        y=y,
        actionability=bundled.rules(X),
        favourable="high" if task == "regression" else 1,
        about={
            "predicted": bundled.tasks[task],
            "from": "scikit-learn",
            "rows before duplicates were dropped": len(X),
        },
    )

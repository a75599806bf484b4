"""A filled ledger to try the desk on: the demo's people, promises and a few requests."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from holdfast.cases.issuing import write_promises
from holdfast.cases.loading import load_case
from holdfast.cases.settings import made
from holdfast.errors import HoldfastError
from holdfast.files import Outputs
from holdfast.ledger import Ledger

RULES = """
[features.bmi]
direction = "down"
low = 18.5
step = 0.1

[features.bp]
direction = "down"
low = 70.0
"""

LABELS = """
[features.bmi]
label = "your body mass index"

[features.bp]
label = "your blood pressure"
unit = "mmHg"
"""


def filled(folder: Path) -> str:
    """A ledger in a folder of its own, made once; its address.

    442 people with diabetes: 350 of them train a ridge regression that predicts how far the
    disease goes, the others were told what would bring their prediction to the median. Four asked
    to be erased, and the first of them was.
    """
    address = folder / "holdfast.db"
    if address.exists():
        return str(address)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise HoldfastError(
            f"{str(folder)!r} is there, and is no demo of the desk: remove it, or go elsewhere"
        ) from None
    try:
        _fill(folder, address)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # half a demo is none
        raise
    return str(address)


def _fill(folder: Path, address: Path) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    table = X.assign(progression=y)
    table.insert(0, "patient", [f"P-{i:04d}" for i in range(len(table))])
    table[:350].to_csv(folder / "train.csv", index=False)
    table.drop(columns="progression")[350:].to_csv(folder / "people.csv", index=False)
    (folder / "rules.toml").write_text(RULES, encoding="utf-8")
    (folder / "labels.toml").write_text(LABELS, encoding="utf-8")
    told = {
        "train": folder / "train.csv",
        "label": "progression",
        "favourable": "low",
        "id": "patient",
        "model": "ridge",
        "people": folder / "people.csv",
        "actionability": str(folder / "rules.toml"),
        "labels": folder / "labels.toml",
    }
    settings = made(told, None)
    case = load_case(settings, hold_out=False)
    issued = settings.model_copy(update={"out": folder / "issued.csv"})
    with Outputs() as out:
        write_promises(case.given.told, issued, out)
    books = Ledger(address, by="demo")
    books.create(certify=3, sender="Example Clinic")
    books.import_case(settings.model_copy(update={"recourses": folder / "issued.csv"}))
    drops = np.asarray(case.model.deletions(case.given.points).single_effects())
    margins = case.model.scores(case.given.points) - case.target
    broken = (drops > margins[:, None]).sum(axis=0)  # by each of the 350 alone
    asking = np.argsort(-broken, kind="stable")[[20, 45, 10, 120]]
    received = books.receive([f"P-{i:04d}" for i in asking.tolist()])
    books.honour([received[0].id])
    books.close()

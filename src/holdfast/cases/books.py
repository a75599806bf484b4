"""What the books take of a case: promises as they were given, and settings that outlive a run."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.audits.about import About
from holdfast.cases.files import Table, belongs_to
from holdfast.cases.promises import ABOUT_PROMISES, dates, issued_table, promised
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Progress
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.issued import filled
from holdfast.recourse.wording import Wording
from holdfast.tables import like, read_toml

#: settings that say how the table is read and how advice is found
KEPT = (
    *("label", "favourable", "id", "subject", "delimiter", "decimal", "text", "drop"),
    *("model", "parameters", "shards", "method", "overshoot", "cost", "target_rule"),
    *("max_changed", "seed"),
)


@dataclass(frozen=True)
class Written:
    """Promises as they were given.

    Attributes
    ----------
    references : what each is called in the file it came from
    names : what an erasure request would call its holder
    people, points : frames
        Their values, and what they were told to reach.
    issued, expires : days, or ``None``
    """

    references: list[str]
    names: list[str]
    people: pd.DataFrame
    points: pd.DataFrame
    issued: list[datetime.date | None]
    expires: list[datetime.date | None]

    def __len__(self) -> int:
        return len(self.names)


def written(
    settings: Settings,
    model: ErasableModel,
    people: Table,
    train: Table,
    gone: Any,
    target: float,
    rules: Any,
    remarks: Remarks,
    about: About,
    tell: Progress,
) -> Written:
    """Every promise there is: read back, whatever became of it, or found now."""
    if settings.id is None:
        raise HoldfastError("people in a ledger are named by id: say which column with ⟦id⟧")
    if settings.recourses is None:
        rest: tuple[Any, ...] = (model, people, train, gone, target, rules, remarks, about, tell)
        given = promised(settings, *rest)
        fine = np.flatnonzero(given.valid.to_numpy())
        folk, points = given.people.iloc[fine], given.told.iloc[fine]
        days: list[datetime.date | None] = [None] * len(folk)
        names = _names(folk.index, people, train)
        return Written(list(map(str, folk.index)), names, folk, points, days, days)
    return _read_back(settings, people, train, gone, remarks)


def _read_back(
    settings: Settings, people: Table, train: Table, gone: Any, remarks: Remarks
) -> Written:
    """Promises of a file, those that have expired or do not hold among them."""
    folk = people.X[~belongs_to(people, train, gone)]
    today = settings.as_of or datetime.date.today()
    table, what = issued_table(settings, folk)
    ids = [as_text(name) for name in table[settings.id]]
    known = set(folk.index)
    strangers = [name for name in ids if name not in known]
    if strangers:
        raise HoldfastError(
            f"{what} has a promise to {strangers[0]!r}, who is not among the people "
            f"({len(strangers)} of {len(ids)} such promises): who they are is not known, and no "
            "promise is left out of the books. Name the file that has them with ⟦people⟧"
        )
    twice = pd.Index(ids)[pd.Index(ids).duplicated()]
    if len(twice):
        raise HoldfastError(
            f"{what} has more than one promise to {twice[0]!r} ({len(twice)} such promises): the "
            "last one given is the one that holds; remove the others"
        )
    about = [c for c in (settings.id, *ABOUT_PROMISES) if c in table and c not in folk]
    cells = table.drop(columns=about)
    theirs = folk.loc[ids]
    cells = like(cells.set_axis(theirs.index, axis=0), folk, what)
    remarks.add(f"{len(ids):,} promises are read from {what}.")
    issued, expires = _days(table, "issued", what), _days(table, "expires", what)
    for name, given, end in zip(ids, issued, expires, strict=True):
        if given is not None and (given > today or (end is not None and end < given)):
            wrong = "in the future" if given > today else f"after it expires ({end})"
            raise HoldfastError(f"{what}: the promise to {name!r} is issued {given}, {wrong}")
    return Written(
        ids,
        _names(theirs.index, people, train),
        theirs,
        like(filled(theirs, cells), folk, what),
        issued,
        expires,
    )


def _days(table: pd.DataFrame, name: str, what: str) -> list[datetime.date | None]:
    if name not in table:
        return [None] * len(table)
    return [None if pd.isna(day) else day.date() for day in dates(table[name], what)]


def _names(index: pd.Index, people: Table, train: Table) -> list[str]:
    """What erasure requests call people: their subject where it is known, else their id."""
    subjects = train.subjects
    if subjects is None:
        return [as_text(name) for name in index]
    known = dict(zip(map(as_text, train.X.index), subjects, strict=True))
    if people.subjects is not None:
        known.update(zip(map(as_text, people.X.index), people.subjects, strict=True))
    inside = set(map(as_text, subjects))
    for name in map(as_text, index):
        if name not in known and name in inside:
            raise HoldfastError(
                f"{name!r} is the id of somebody with a promise and the name of another person in "
                "the training table: an erasure could not tell them apart. Nothing was imported"
            )
    return [as_text(known.get(as_text(name), as_text(name))) for name in index]


def kept_settings(settings: Settings) -> dict[str, Any]:
    """What is needed to read the table and to find advice again, and nothing else."""
    case = {name: getattr(settings, name) for name in KEPT}
    rules: Any = settings.actionability
    if rules not in ("infer", "none"):
        Actionability.from_toml(rules)  # refused before it is kept
        rules = read_toml(rules, "the actionability file")
    labels = None
    if settings.labels is not None:
        Wording.of(settings.labels)
        labels = read_toml(settings.labels, "the file of labels").get("features", {})
    return {"case": case, "rules": rules, "labels": labels}


def settings_on(kept: dict[str, Any], table: Path, model: Path) -> Settings:
    """The settings again, on a table and a model on record."""
    case = dict(kept["case"])
    case["text"] = list(dict.fromkeys([*case["text"], *kept.get("words", ())]))
    if case.get("model") is None:
        case["model_file"] = model
    return Settings(train=table, **case)


def rules_of(kept: dict[str, Any], model: ErasableModel) -> Any:
    """What people can change: declared, or inferred from the table as it is now."""
    rules = kept["rules"]
    if rules == "infer":
        return Actionability.infer(model.frame)
    return Actionability() if rules == "none" else Actionability.of(rules, model.frame)

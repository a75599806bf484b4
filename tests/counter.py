"""A lender's desk: its files, its settings, its books."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd

import holdfast as hf
from holdfast.cases.settings import Settings
from lender import loans

#: somebody in training who holds a promise, somebody in training without one is found by a test
LABELS = """
[features.income]
label = "your monthly income"
unit = "€"

[features.savings]
label = "your savings"
unit = "€"

[features.job]
label = "your job"
values = { none = "no job", part = "a part-time job", full = "a full-time job" }
"""


def files_of_a_lender(folder: Path, n: int = 160) -> None:
    """Training rows, people who applied later and were never in it, promises to both."""
    table = loans(n=n + 40).drop(columns="repaid")
    table["merit"] = table["merit"].round(2)
    table["income"] = table["income"].fillna(table["income"].median())
    train, later = table.iloc[:n], table.iloc[n:].drop(columns="merit")
    later = later.assign(customer=[f"X-{i:03d}" for i in range(len(later))])
    train.to_csv(folder / "train.csv", index=False)
    people = pd.concat([train.drop(columns="merit"), later])
    people.to_csv(folder / "people.csv", index=False)
    (folder / "labels.toml").write_text(LABELS)
    model = settings_for(folder, recourses=None)
    from holdfast.cases.issuing import write_promises
    from holdfast.cases.loading import load_case
    from holdfast.files import Outputs

    case = load_case(model, hold_out=False)
    with Outputs() as out:
        write_promises(
            case.given.told, model.model_copy(update={"out": folder / "issued.csv"}), out
        )


def settings_for(folder: Path, **other: object) -> Settings:
    """Settings of the lender's case."""
    given: dict[str, object] = {
        "train": folder / "train.csv",
        "label": "merit",
        "id": "customer",
        "model": "ridge",
        "people": folder / "people.csv",
        "recourses": folder / "issued.csv",
        "labels": folder / "labels.toml",
        "overshoot": 0.02,
    }
    return Settings(**{**given, **other})


class Desk:
    """Books, and the folder they were filled from; the clock can be set."""

    def __init__(self, folder: Path, address: object):
        self.folder, self.address = folder, address
        self.later = datetime.timedelta()
        self.books = self.another("desk 1")

    def another(self, by: str, wait: float = 30.0) -> hf.Ledger:
        """The same books, opened by somebody else."""

        def clock() -> datetime.datetime:
            return datetime.datetime.now(datetime.UTC) + self.later

        return hf.Ledger(self.address, by=by, clock=clock, wait=wait)

    def pass_days(self, days: float) -> None:
        """Let time go by."""
        self.later += datetime.timedelta(days=days)

    def table(self) -> pd.DataFrame:
        """The training table the books have now."""
        with self.books.database.reading() as session:
            places = self.books._places(session)
        name = self.books.status().model["table"]
        return pd.read_csv(places.path(name))

    def promises(self) -> pd.DataFrame:
        """All promises, as the books have them."""
        import sqlalchemy

        from holdfast.ledger.tables import Person, Promise

        asked = sqlalchemy.select(
            *(Promise.id, Person.name, Promise.reference, Promise.state, Promise.certified),
            *(Promise.point, Promise.mends, Promise.margin, Promise.expires),
        ).outerjoin(Person, Promise.person_id == Person.id)
        with self.books.database.reading() as session:
            lines = session.execute(asked.order_by(Promise.id)).all()
        return pd.DataFrame(lines).set_index("id")

    def holder(self, inside: bool, place: int = 0) -> str:
        """Somebody with a live promise, in training or never in it."""
        found = self.promises().query("state == 'live'")["name"]
        return str(found[found.str.startswith("X-") != inside].iloc[place])

    def breaker(self) -> str:
        """Somebody in training, without a promise, whose erasure breaks promises of others."""
        import numpy as np

        from holdfast.ledger.ground import loaded
        from holdfast.ledger.judging import promises_held
        from holdfast.ledger.records import book_of, model_in_force

        with self.books.database.reading() as session:
            version = model_in_force(session)
            ground = loaded(book_of(session), version, self.books._places(session))
            held = promises_held(session, ground, set(), self.books.today())
        drops = ground.model.deletions(held.points).single_effects()
        margins = ground.model.scores(held.points) - ground.target
        counts = (np.asarray(drops) > margins[:, None]).sum(axis=0)
        holders = set(self.promises()["name"])
        for row in np.argsort(-counts).tolist():
            if ground.names[row] not in holders:
                return str(ground.names[row])
        raise AssertionError("nobody breaks anything")

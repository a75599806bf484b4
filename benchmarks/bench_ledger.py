"""Books with 100,000 promises and 10,000 requests: how long a look and a change take.

Seconds are of this machine; beside each stands its ratio to one fit of the model on the table, so
that runs can be compared. ``python bench_ledger.py [promises] [requests] [address]``; the address
is a new SQLite file unless one is given (``postgresql+psycopg://…``, an empty database).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import holdfast as hf
from holdfast.cases.settings import Settings

ROWS, FEATURES = 10_000, 20


def table(n, seed, prefix):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, FEATURES)), columns=[f"f{j}" for j in range(FEATURES)])
    X["f0"] = np.exp(X["f0"])
    merit = X.to_numpy() @ np.linspace(1.0, 0.05, FEATURES) + rng.normal(size=n)
    frame = X.round(4)
    frame.insert(0, "customer", [f"{prefix}-{i:06d}" for i in range(n)])
    return frame.assign(merit=merit.round(3))


def files(folder, promises):
    """A training table, people who were never in it, and what they were promised."""
    train = table(ROWS, 0, "T")
    train.to_csv(folder / "train.csv", index=False)
    people = table(3 * promises, 1, "P")
    settings = Settings(train=folder / "train.csv", label="merit", id="customer", model="ridge")
    from holdfast.cases.loading import load_case

    people.drop(columns="merit").to_csv(folder / "people.csv", index=False)
    settings = settings.model_copy(update={"people": folder / "people.csv"})
    model = load_case(
        settings.model_copy(update={"people": None, "method": "scfe"}), hold_out=False
    )
    X = people.drop(columns=["merit", "customer"])
    scores, target = model.model.scores(X), model.target
    below = np.flatnonzero(scores < target)[:promises]
    gradient = model.model.score_gradients(X.iloc[:1]).to_numpy()[0]
    unit = model.model.score_unit
    rng = np.random.default_rng(2)
    over = rng.choice([0.0001, 0.01, 0.05, 0.2], below.size, p=[0.02, 0.38, 0.4, 0.2]) * unit
    short = target + over - scores[below]
    step = np.zeros((below.size, FEATURES))
    step[:, 0] = short / gradient[0]
    promised = X.iloc[below] + step
    promised.insert(0, "customer", people["customer"].to_numpy()[below])
    promised.to_csv(folder / "issued.csv", index=False)
    people.iloc[below].drop(columns="merit").to_csv(folder / "people.csv", index=False)
    return settings.model_copy(update={"recourses": folder / "issued.csv"})


def main(promises=100_000, requests=10_000, address=None):
    folder = Path(tempfile.mkdtemp())
    settings = files(folder, promises)
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train = pd.read_csv(folder / "train.csv")
    X, y = train.drop(columns=["customer", "merit"]), train["merit"]
    fits = []
    for _ in range(5):
        start = time.perf_counter()
        make_pipeline(StandardScaler(), Ridge()).fit(X, y)
        fits.append(time.perf_counter() - start)
    fit = min(fits)
    books = hf.Ledger(address or folder / "books.db")
    books.create(folder / "held", certify=3)

    def measured(what, act, repeats=3):
        took = []
        for _ in range(repeats):
            start = time.perf_counter()
            found = act()
            took.append(time.perf_counter() - start)
        middle = sorted(took)[len(took) // 2]
        print(f"{what:<44}{middle:>9.3f} s{middle / fit:>10,.0f} x one fit", flush=True)
        return found

    print(f"{promises:,} promises, {requests:,} requests, {ROWS:,} x {FEATURES}; {books!r}")
    measured("import, certificates to 3 included", lambda: books.import_case(settings), 1)
    names = list(train["customer"][: requests // 2])
    names += list(pd.read_csv(folder / "issued.csv", usecols=["customer"])["customer"])
    names = names[:requests]
    measured("receive all requests", lambda: books.receive(names), 1)
    measured("status", books.status)
    measured("list of open requests", lambda: books.requests(open_only=True))
    found = measured("preview of one request", lambda: books.preview([1]))
    print(f"  {int(found.outcome.breaks.sum()):,} promises would break")
    found = measured("preview of 10 requests", lambda: books.preview(list(range(1, 11))))
    print(f"  {int(found.outcome.breaks.sum()):,} promises would break")
    measured("honour one request", lambda: books.honour([1]), 1)
    measured("honour 10 requests", lambda: books.honour(list(range(2, 12))), 1)
    measured("verify", books.verify, 1)
    measured("export", lambda: books.export(folder / "backup.zip"), 1)
    size = sum(path.stat().st_size for path in folder.glob("books.db*")) / 1e6
    if size:
        print(f"the database has {size:,.0f} MB")
    books.close()


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
import mixed


@pytest.fixture(scope="module")
def world():
    X, y = mixed.table()
    return X, mixed.fitted("linear", X, y)


@pytest.fixture
def issued(world):
    X, model = world
    found = hf.find_recourse(model, X, target=3.0, actionability=mixed.RULES, overshoot=0.05)
    return found, found.points.rename_axis("id").reset_index()


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_generated_recourses_read_back(world, issued, tmp_path, kind):
    X, model = world
    found, table = issued
    table = table.assign(expires="2027-01-01").sample(frac=1, random_state=0)
    if kind == "csv":
        table.to_csv(tmp_path / "r.csv", index=False)
        table = tmp_path / "r.csv"
    elif kind == "parquet":
        table.to_parquet(tmp_path / "r.parquet")
        table = tmp_path / "r.parquet"
    back = hf.issued_recourse(model, X, table, target=3.0, actionability=mixed.RULES)
    assert back.above_target + back.without_recourse + len(back) == len(X)
    assert back.points.index.equals(found.points.index)
    assert np.allclose(back.score, found.score)
    assert (back.valid == found.valid).all()
    assert back.method == "issued"
    plan = hf.search(model, back, target=3.0, max_deletions=2)
    assert len(plan.points) == back.valid.sum()


def test_empty_cells_mean_as_it_is(world):
    X, model = world
    low = X.index[model.scores(X) < 3.0][:2]
    table = pd.DataFrame({"id": low, "income": [9000.0, np.nan], "savings": [np.nan, 11.0]})
    back = hf.issued_recourse(model, X, table, target=3.0)
    assert back.points.loc[low[0], "income"] == 9000
    assert back.points.loc[low[0], "savings"] == X.loc[low[0], "savings"]
    assert back.points.loc[low[1], "income"] == X.loc[low[1], "income"]
    assert back.points.loc[low[0], "job"] == X.loc[low[0], "job"]
    assert back.without_recourse == int((model.scores(X) < 3.0).sum()) - 2


def test_broken_promises_are_marked(world):
    X, model = world
    low = X.index[model.scores(X) < 3.0][:3]
    table = pd.DataFrame({"id": low, "age": [90, 90, 90], "income": [9e4, 9e4, 100.0]})
    rules = {"features": {"age": "frozen"}}
    back = hf.issued_recourse(model, X, table, target=3.0, actionability=rules)
    assert not back.valid.any()
    assert (back.reason == "not allowed: age is frozen but changed").all()
    free = hf.issued_recourse(model, X, table, target=3.0)
    assert free.valid.iloc[:2].all()
    strange = hf.issued_recourse(
        model, X, pd.DataFrame({"id": low[:1], "job": ["astronaut"]}), target=3.0
    )
    assert not strange.valid.any()


def test_ids_are_compared_as_text(rng):
    X, y = mixed.table()
    model = mixed.fitted("linear", X, y)
    people = X.reset_index(drop=True).rename_axis("id").reset_index()
    low = people["id"][model.scores(X) < 3.0].iloc[:2]
    table = pd.DataFrame({"id": low.astype(str).to_numpy(), "income": [9e3, 9e3]})
    back = hf.issued_recourse(model, people, table, target=3.0)
    assert len(back) == 2


def test_bad_tables(world, tmp_path):
    X, model = world
    good = pd.DataFrame({"id": ["p0", "p1"], "income": [1.0, 2.0]})

    def refused(table, message, **more):
        with pytest.raises(hf.HoldfastError, match=message):
            hf.issued_recourse(model, X, table, target=3.0, **more)

    refused(good.rename(columns={"id": "ID"}), "no column 'id'")
    refused(good.assign(id=["p0", "p0"]), "'p0' appears more than once")
    refused(good.assign(id=["p0", "stranger"]), "'stranger', who is not among the people")
    refused(good.rename(columns={"income": "incme"}), "did you mean 'income'")
    refused(good.assign(income=["much", "more"]), "'much' is not a number")
    refused(good[:0], "is empty")
    refused(good.assign(id=["p0", None]), "row 1 has no id")
    refused(tmp_path / "none.csv", "is not there")
    refused(tmp_path, "a directory")
    (tmp_path / "empty.csv").write_text("")
    refused(tmp_path / "empty.csv", "is empty")
    (tmp_path / "r.parquet").write_text("no parquet")
    refused(tmp_path / "r.parquet", "is not a Parquet file")
    with pytest.raises(hf.HoldfastError, match="people must be a frame"):
        hf.issued_recourse(model, X.to_numpy(), good, target=3.0)

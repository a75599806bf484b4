"""Tables as people have them: truth values, categories, nullable types, codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import holdfast as hf


def encoded(X, y, text, unknown="ignore"):
    front = make_column_transformer(
        (OneHotEncoder(handle_unknown=unknown), text), remainder="passthrough"
    )
    return hf.erasable(make_pipeline(front, LinearRegression()).fit(X, y), X, y)


def jobs(rng, unknown="ignore"):
    X = pd.DataFrame(
        {"job": pd.Categorical(rng.choice(["part", "full", "none"], 80)), "s": rng.normal(size=80)}
    )
    y = X["job"].map({"part": 0.0, "full": 3.0, "none": -2.0}).astype(float) + 0.1 * X["s"]
    return encoded(X, y, ["job"], unknown)


@pytest.mark.parametrize("dtype", [bool, "boolean", "category", object])
def test_truth_values_can_be_switched(rng, dtype):
    X = pd.DataFrame({"owner": [True, False, False, False] * 10, "s": rng.normal(size=40)})
    y = 3.0 * X["owner"] + X["s"]
    X["owner"] = X["owner"].astype(dtype)
    text = ["owner"] if dtype in ("category", object) else []
    model = encoded(X, y, text) if text else hf.erasable(LinearRegression().fit(X, y), X, y)
    person = pd.DataFrame({"owner": [False], "s": [0.0]}).astype({"owner": dtype})
    rules = {"features": {"s": "frozen", "owner": {"allowed": [False, True]}}}
    for method in ("scfe", "actionable", "growing-spheres"):
        found = hf.find_recourse(model, person, method, target=2.0, actionability=rules)
        assert found.in_words().tolist() == ["switch owner from False to True"]


def test_people_with_fewer_categories_than_the_training_table(rng):
    person = pd.DataFrame({"job": pd.Categorical(["none", "none"]), "s": [0.0, 0.0]})
    for unknown in ("ignore", "error"):
        found = hf.find_recourse(
            jobs(rng, unknown), person, target=2.0, actionability={"features": {"s": "frozen"}}
        )
        assert found.points["job"].tolist() == ["full", "full"]


def test_an_unknown_category_the_model_refuses_is_one_persons_problem(rng):
    people = pd.DataFrame({"job": ["part", "alien"], "s": [0.0, 0.0]})
    found = hf.find_recourse(jobs(rng, "error"), people, target=2.0)
    assert found.valid.tolist() == [True, False]
    assert found.reason[1] == "job has a category the model does not know"


def test_codes_that_look_like_numbers_are_categories(rng):
    X = pd.DataFrame({"zip": rng.choice(["1", "2", "3"], 80), "s": rng.normal(size=80)})
    y = X["zip"].map({"1": 0.0, "2": 1.0, "3": 3.0}).astype(float) + X["s"]
    found = hf.find_recourse(
        encoded(X, y, ["zip"]), X, target=2.0, actionability={"features": {"s": "frozen"}}
    )
    assert found.points["zip"].isin(["1", "2", "3"]).all()
    assert found.valid.any()


def test_inferred_rules_do_not_punish_people_beyond_the_range(rng):
    X = pd.DataFrame({"age": rng.integers(20, 60, 80), "sav": rng.normal(100, 20, 80)})
    model = hf.erasable(LinearRegression().fit(X, X["sav"]), X, X["sav"])
    old = pd.DataFrame({"age": [65], "sav": [80.0]})
    assert hf.find_recourse(model, old, target=110.0, actionability="infer").valid.all()
    X["inc"] = rng.normal(100, 10, 80)
    y = X["sav"] + X["inc"]
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rich = pd.DataFrame({"age": [40], "sav": [20.0], "inc": [160.0]})
    found = hf.find_recourse(model, rich, target=200.0, actionability="infer")
    assert "lower" not in found.in_words()[0]


def test_dummies_of_pandas_are_groups(rng):
    X = pd.get_dummies(pd.DataFrame({"g": rng.choice(list("abc"), 80), "s": rng.normal(size=80)}))
    y = X["s"] + 2.0 * X["g_a"]
    rules = hf.Actionability.infer(X)
    assert rules.one_hot == {"g": ("g_a", "g_b", "g_c")}
    model = hf.erasable(LinearRegression(tol=0).fit(X, y), X, y)
    found = hf.find_recourse(model, X, target=1.0, actionability=rules.updated(s="frozen"))
    assert (found.points[["g_a", "g_b", "g_c"]].sum(axis=1) == 1).all()
    assert found.valid.any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "Int64", "float32"])
def test_small_integers_do_not_overflow(dtype):
    X = pd.DataFrame({"a": np.arange(40), "b": np.arange(40) % 7})
    y = X["a"] + X["b"]
    X = X.astype({"a": dtype})
    model = hf.erasable(LinearRegression(tol=0).fit(X, y), X, y)
    rules = {"features": {"a": {"integer": True}, "b": "frozen"}}
    for target in (200.0, -200.0):
        sign = "high" if target > 0 else "low"
        found = hf.find_recourse(model, X[:3], target=200.0, actionability=rules)
        assert found.valid.all(), sign
        assert (found.points["a"] > 150).all()
    assert found.in_words().str.startswith("raise a from").all()


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "string", object])
def test_numbers_in_odd_types(rng, dtype):
    X = pd.DataFrame({"a": rng.integers(0, 9, 60), "b": rng.normal(size=60)})
    y = X["a"] + X["b"]
    pipeline = make_pipeline(SimpleImputer(), LinearRegression()).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    text = dtype is object
    people = X[:10].astype({"a": str if text else dtype}).astype({"a": dtype})
    people.loc[3, "a"] = None if text else pd.NA
    found = hf.find_recourse(model, people, target=20.0)
    assert found.valid.all()
    assert found.in_words().str.contains("raise").all()
    assert np.isnan(found.points.loc[3, "a"])


def test_whole_and_in_steps_contradict_for_somebody():
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0) % 5})
    model = hf.erasable(LinearRegression().fit(X, X["a"] + X["b"]), X, X["a"] + X["b"])
    rules = {"features": {"a": {"step": 1, "integer": True}, "b": "frozen"}}
    people = pd.DataFrame({"a": [2.5, 2.0], "b": [0.0, 0.0]})
    found = hf.find_recourse(model, people, target=5.0, actionability=rules)
    assert found.valid.tolist() == [False, True]


def test_one_ulp_does_not_decide(rng):
    X = pd.DataFrame(
        {"a": rng.normal(size=80), "b": rng.normal(size=80), "c": rng.choice(["u", "v", "w"], 80)}
    )
    y = X["a"] + X["b"] + X["c"].map({"u": 0.0, "v": 1.0, "w": 2.0}).astype(float)
    model = encoded(X, y, ["c"])
    rules = {"features": {"a": {"integer": True}}}
    found = hf.find_recourse(model, X, "actionable", target=4.0, actionability=rules)
    assert found.valid.all()


def test_costs_in_any_unit_give_the_same_answer(rng):
    X = pd.DataFrame(rng.integers(0, 9, size=(60, 4)).astype(float), columns=list("abcd"))
    y = X @ [1.0, 2.0, 0.5, 1.5]
    model = hf.erasable(LinearRegression().fit(X, y), X, y)

    def cheapest(unit):
        features = {c: {"integer": True, "cost": unit * (1.0 + k)} for k, c in enumerate("abcd")}
        found = hf.find_recourse(
            model, X, "actionable", target=40.0, actionability={"features": features}
        )
        return found.cost.to_numpy() / unit

    assert np.allclose(cheapest(1.0), cheapest(1e-7))


def test_links_that_pull_opposite_ways(rng):
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    y = 2 * X["a"] + X["b"]
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rules = {
        "links": [{"when": "a", "then": "c", "by": 1.0}, {"when": "b", "then": "c", "by": -1.0}],
        "features": {"a": {"high": 2.5}, "b": {"high": 6.0}},
    }
    best = hf.find_recourse(model, X, "actionable", target=4.0, actionability=rules)
    other = hf.find_recourse(model, X, "growing-spheres", target=4.0, actionability=rules)
    assert best.valid.sum() >= other.valid.sum() > 0.5 * best.valid.sum()


def test_words_keep_the_rules_and_reach_the_goal():
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0) % 5})
    y = X["a"] + X["b"]
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rules = {"features": {"a": {"high": 0.70711}, "b": {"step": 25.05}}}
    people = pd.DataFrame({"a": [0.0], "b": [100.123]})
    found = hf.find_recourse(model, people, target=125.5, actionability=rules)
    assert "0.708" not in found.in_words()[0]
    near = pd.DataFrame({"a": [12345678.12], "b": [0.0]})
    target = float(model.scores(near)[0]) + 1e-3
    words = hf.find_recourse(model, near, target=target, overshoot=0.0).in_words()[0]
    assert words.split(" from ")[1].split(" to ")[0] != words.split(" to ")[1]


def test_time_out_is_said(rng):
    X = pd.DataFrame(rng.normal(size=(80, 12)))
    y = X @ rng.normal(size=12)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rules = {"features": {k: {"step": 0.37 + 0.01 * k} for k in range(12)}}
    found = hf.find_recourse(
        model, X, "actionable", target=9.0, actionability=rules, time_limit=0.0
    )
    assert (found.remark.str.contains("out of time") | found.valid).all()


def test_names_that_are_numbers_survive_a_file(rng, tmp_path):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 0.0]
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rules = hf.Actionability({0: "frozen", 1: {"range": [-9, 9]}})
    (tmp_path / "r.toml").write_text(rules.to_toml(), encoding="utf-8")
    found = hf.find_recourse(model, X, target=2.0, actionability=tmp_path / "r.toml")
    assert (found.points[0] == found.people[0]).all()
    found.points.rename_axis("id").reset_index().to_csv(tmp_path / "r.csv", index=False)
    back = hf.issued_recourse(model, pd.DataFrame(X), tmp_path / "r.csv", target=2.0)
    assert len(back) == len(found)
    odd = hf.Actionability({"Grüße 😀 q": "frozen"})
    (tmp_path / "o.toml").write_text(odd.to_toml(), encoding="utf-8")
    assert hf.Actionability.from_toml(tmp_path / "o.toml") == odd


def test_promises_named_none_and_features_named_model(rng, tmp_path):
    X = pd.DataFrame({"model": rng.choice(["None", "NA", "x"], 60), "s": rng.normal(size=60)})
    y = X["s"] + 3.0 * (X["model"] == "None")
    model = encoded(X, y, ["model"])
    found = hf.find_recourse(
        model, X, "actionable", target=2.0, actionability={"features": {"s": "frozen"}}
    )
    found.points.rename_axis("id").reset_index().to_csv(tmp_path / "r.csv", index=False)
    back = hf.issued_recourse(model, X, tmp_path / "r.csv", target=2.0)
    assert back.valid.sum() == found.valid.sum() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"actionability": pd.DataFrame({"a": [1]})}, "actionability must be"),
        ({"actionability": {"features": {"a": {"low": 10**400}}}}, "low must be a number"),
        ({"actionability": {"features": {"a": {"low": np.inf}}}}, "the range is empty"),
        ({"actionability": {"features": {"a": {"range": [0, 1], "low": 5}}}}, "not both"),
        ({"actionability": {"one_hot": {"g": ["a", ["b"]]}}}, "no column name"),
        ({"actionability": {"links": [{"when": ["a"], "then": "b"}]}}, "names features"),
        ({"target": 10**400}, "target must be"),
        ({"progress": 5}, "progress must be callable"),
        ({"method": lambda problem, rng: "text"}, "must return a frame"),
        ({"method": lambda problem, rng: problem.people[:1]}, "must return a frame"),
        ({"method": "dice", "k": 0}, "k must be a whole number"),
        ({"method": "dice", "k": 1.5}, "k must be a whole number"),
        ({"method": "growing-spheres", "samples": "x"}, "samples must be a whole number"),
        ({"method": "growing-spheres", "growth": 0.5}, "growth must be above 1"),
        ({"method": "cem", "gamma": float("inf")}, "gamma must be a finite number"),
        ({"method": "cem", "explained": "x"}, "explained must be a finite number"),
        ({"method": "actionable", "time_limit": -1.0}, "must not be negative"),
    ],
)
def test_more_bad_input(rng, call, message):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    model = hf.erasable(LinearRegression().fit(X, X["a"]), X, X["a"])
    with pytest.raises(hf.HoldfastError, match=message):
        hf.find_recourse(model, X, **{"target": 1.0, **call})


def test_yet_more_bad_input(rng):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    model = hf.erasable(LinearRegression().fit(X, X["a"]), X, X["a"])
    with pytest.raises(hf.HoldfastError, match="hf.erasable"):
        hf.find_recourse(LinearRegression(), X)
    with pytest.raises(hf.HoldfastError, match="no feature 'aa'"):
        hf.Actionability.infer(X, aa="up")
    with pytest.raises(hf.HoldfastError, match="must be a table"):
        hf.Actionability.infer(None)
    with pytest.raises(hf.HoldfastError, match="the path of a file"):
        hf.issued_recourse(model, X, 5, target=1.0)
    with pytest.raises(hf.HoldfastError, match="no features"):
        hf.find_recourse(model, X.astype({"a": complex}), target=1.0)
    few = hf.find_recourse(model, X, "dice-random", target=1.0, k=3, samples=2)
    assert len(few)

"""The integer program against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import holdfast as hf

JOBS = ("full", "none", "part")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    n = 120
    X = pd.DataFrame(
        {
            "a": rng.integers(0, 6, size=n),
            "b": rng.integers(-3, 4, size=n).astype(float),
            "c": rng.normal(size=n).round(1),
            "job": rng.choice(JOBS, size=n),
        }
    )
    y = 0.7 * X["a"] - 0.4 * X["b"] + 0.2 * X["c"] + 0.9 * (X["job"] == "full")
    y = y + 0.1 * rng.normal(size=n)
    front = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["job"]), remainder="passthrough"
    )
    return X, hf.erasable(make_pipeline(front, LinearRegression()).fit(X, y), X, y)


def brute_force(model, person, rules, weights, goal):
    """Every allowed combination on the grid, scored by the model: the least cost, or ∞."""
    own = person.iloc[0]
    values = {}
    for name in ("a", "b", "c"):
        rule = rules["features"][name]
        low, high = rule["range"]
        h = rule.get("step", 1)
        start = own[name] if "step" in rule else 0
        first, last = np.ceil((low - start) / h - 1e-9), np.floor((high - start) / h + 1e-9)
        grid = start + h * np.arange(first, last + 1)
        if rule["direction"] in ("up", "frozen"):
            grid = grid[grid >= own[name] - 1e-9]
        if rule["direction"] in ("down", "frozen"):
            grid = grid[grid <= own[name] + 1e-9]
        values[name] = grid
    jobs = JOBS if rules["features"]["job"] == "any" else (own["job"],)
    rows = list(product(values["a"], values["b"], values["c"], jobs))
    if not rows:
        return np.inf
    tried = pd.DataFrame(rows, columns=["a", "b", "c", "job"])
    fine = model.scores(tried) >= goal
    for link in rules.get("links", ()):
        column, _, category = link["when"].partition("=")
        if category:
            rise = ((tried[column] == category) & (own[column] != category)).astype(float)
        else:
            rise = (tried[column] - own[column]).clip(lower=0)
        moved = (tried[link["then"]] - own[link["then"]]) * np.sign(link["by"])
        fine &= ((rise <= 1e-9) | (moved >= abs(link["by"]) * rise - 1e-9)).to_numpy()
    cost = sum(weights[k] * (tried[k] - own[k]).abs() for k in "abc")
    cost = cost + weights["job"] * (tried["job"] != own["job"])
    return float(cost[fine].min()) if fine.any() else np.inf


number = st.fixed_dictionaries(
    {
        "direction": st.sampled_from(["any", "up", "down", "frozen"]),
        "range": st.tuples(st.integers(-4, 1), st.integers(2, 6)).map(list),
    }
)
rules = st.fixed_dictionaries(
    {
        "features": st.fixed_dictionaries(
            {
                "a": number.map(lambda r: {**r, "integer": True}),
                "b": st.one_of(
                    number.map(lambda r: {**r, "integer": True}),
                    number.map(lambda r: {**r, "step": 1.5}),
                ),
                "c": number.map(lambda r: {**r, "step": 0.5}),
                "job": st.sampled_from(["any", "frozen"]),
            }
        ),
        "links": st.lists(
            st.sampled_from(
                [
                    {"when": "a", "then": "c", "by": 0.5},
                    {"when": "job=full", "then": "b", "by": 1.5},
                    {"when": "c", "then": "b", "by": -1.0},
                ]
            ),
            max_size=2,
            unique_by=str,
        ),
    }
)


@settings(max_examples=60, deadline=None)
@given(rules=rules, who=st.integers(0, 119), target=st.floats(1.0, 4.5), beyond=st.booleans())
def test_it_is_cheapest_and_infeasible_means_infeasible(problem, rules, who, target, beyond):
    X, model = problem
    person = X.iloc[[who]].copy()
    if beyond:  # off the whole numbers and out of most ranges
        person = person.assign(a=person["a"] + 0.5, b=person["b"] * 2.5)
    found = hf.find_recourse(
        model, person, "actionable", target=target, actionability=rules, overshoot=0.01
    )
    if found.above_target:
        return
    weights = {c.name: c.weight for c in found.space.coordinates}
    best = brute_force(model, person, rules, weights, found.goal)
    if np.isinf(best):
        assert not found.valid.iloc[0]
        assert found.reason.iloc[0].startswith("infeasible")
    else:
        assert found.valid.iloc[0], found.reason.iloc[0]
        assert found.cost.iloc[0] == pytest.approx(best, rel=1e-7, abs=1e-9)


def test_other_methods_are_never_cheaper(problem):
    X, model = problem
    rules = {"features": {"a": {"integer": True, "range": [0, 8]}, "b": {"step": 1.0}}}
    best = hf.find_recourse(model, X, "actionable", target=3.0, actionability=rules)
    assert best.success == 1
    for method in ("scfe", "growing-spheres", "dice", "dice-random", "cem"):
        other = hf.find_recourse(model, X, method, target=3.0, actionability=rules)
        assert (other.cost >= best.cost * (1 - 1e-6)).all()


def test_continuous_features_have_the_closed_form(rng):
    X = rng.normal(size=(200, 6))
    y = (X @ rng.normal(size=6) > 0).astype(int)
    model = hf.erasable(LogisticRegression(tol=1e-8).fit(X, y), X, y)
    rules = {"features": {k: {"range": [-2.0, 2.0]} for k in range(6)}}
    a = hf.find_recourse(model, X, "actionable", target=1.0, actionability=rules)
    b = hf.find_recourse(model, X, "scfe", target=1.0, actionability=rules)
    assert np.allclose(a.cost, b.cost, atol=1e-6)


def test_links_that_cannot_be_followed(problem):
    X, model = problem
    rules = {
        "features": {"a": {"integer": True}, "b": "frozen", "c": "frozen", "job": "frozen"},
        "links": [{"when": "a", "then": "b", "by": 1.0}],
    }
    for method in ("actionable", "scfe", "growing-spheres"):
        found = hf.find_recourse(model, X, method, target=3.0, actionability=rules)
        assert not found.valid.any()


def test_it_is_for_linear_scores_and_l1(problem, rng):
    X, model = problem
    with pytest.raises(hf.HoldfastError, match="cost='l1'"):
        hf.find_recourse(model, X, "actionable", target=3.0, cost="l2")
    numbers = X[["a", "b", "c"]].astype(float)
    curved = make_pipeline(PolynomialFeatures(2), LinearRegression()).fit(numbers, X["a"] ** 2)
    other = hf.erasable(curved, numbers, X["a"] ** 2)
    with pytest.raises(hf.UnsupportedModelError, match="linear in the columns"):
        hf.find_recourse(other, numbers, "actionable", target=100.0)

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf
import mixed

TOML = """
weights = "unit"

[features.age]
frozen = true

[features.savings]
direction = "up"
range = [0, 20]
step = 0.5
cost = 2

[features.job]
allowed = ["part", "full"]

[one_hot]
lives = ["lives_city", "lives_town", "lives_land"]

[[links]]
when = "job=full"
then = "income"
by = 100
"""


def test_toml_says_what_python_says(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(TOML)
    read = hf.Actionability.from_toml(path)
    declared = hf.Actionability(
        {
            "age": "frozen",
            "savings": hf.Feature("up", 0, 20, step=0.5, cost=2),
            "job": {"allowed": ["part", "full"]},
        },
        one_hot={"lives": mixed.PLACES},
        links=[hf.Link("job=full", "income", 100)],
        weights="unit",
    )
    assert read == declared
    path.write_text(read.to_toml())
    assert hf.Actionability.from_toml(path) == read


def test_inferred_defaults_are_shown(tmp_path):
    X, _ = mixed.table()
    X["constant"] = 1.0
    rules = hf.Actionability.infer(X, savings="up")
    assert rules.features["age"].direction == "frozen"
    assert rules.features["cards"].integer
    assert rules.features["constant"].direction == "frozen"
    assert rules.one_hot == {"lives": tuple(mixed.PLACES)}
    income = rules.features["income"]  # around what was seen, and nobody's value
    assert income.low < X["income"].min() < X["income"].max() < income.high
    assert income.high < 1.1 * X["income"].max()
    assert rules.features["savings"] == hf.Feature("up")
    shown = rules.describe()
    assert shown.loc["age", "why"] == "nobody can change it"
    assert set(shown.index) == {"income", "savings", "cards", "age", "job", "lives", "constant"}
    path = tmp_path / "rules.toml"
    path.write_text(rules.to_toml())
    assert hf.Actionability.from_toml(path) == rules
    again = rules.updated(age="any")
    assert again.features["age"].direction == "any"
    assert rules.features["age"].direction == "frozen"


@pytest.mark.parametrize(
    ("name", "frozen"),
    [
        ("age", True),
        ("MonthsSinceAge", False),
        ("person_sex", True),
        ("race_white", True),
        ("average", False),
        ("RevolvingUsage", False),
        ("mileage", False),
        ("dosage", False),
    ],
)
def test_names_of_what_nobody_can_change(name, frozen):
    table = pd.DataFrame({name: [1.5, 2.5, 3.5]})
    direction = hf.Actionability.infer(table).features[name].direction
    assert (direction == "frozen") == frozen


def test_default_costs_are_inverse_deviations():
    from holdfast.recourse.space import Space

    X = pd.DataFrame(
        {"a": [0.0, 1.0, 2.0, 3.0, 100.0], "rare": [0, 0, 0, 0, 1.0], "constant": [5.0] * 5}
    )
    space = Space(X, hf.Actionability({"constant": {"cost": 3}}))
    assert space.weight[0] == 1.0  # the median deviation is 1, whatever the 100
    assert space.weight[1] == pytest.approx(5)  # the median deviation is 0: the mean one
    assert space.weight[2] == 3
    assert (Space(X, hf.Actionability(weights="unit")).weight == 1).all()


def test_a_group_with_a_dropped_category():
    X, y = mixed.table()
    X = X.drop(columns=["job", "lives_land"])
    from sklearn.linear_model import LinearRegression

    model = hf.erasable(LinearRegression(tol=0).fit(X, y), X, y)
    rules = {
        "one_hot": {"lives": ["lives_city", "lives_town"]},
        "features": dict.fromkeys(["income", "savings", "cards", "age"], "frozen"),
    }
    found = hf.find_recourse(model, X, target=float(np.quantile(y, 0.55)), actionability=rules)
    moved = found.points[found.valid]
    assert len(moved)
    assert (moved[["lives_city", "lives_town"]].sum(axis=1) <= 1).all()
    assert found.in_words()[found.valid].str.contains("switch lives from").all()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"features": {"a": {"low": 3, "high": 1}}}, "feature 'a': the range is empty"),
        ({"features": {"a": {"range": [1]}}}, "range must be"),
        ({"features": {"a": {"stepp": 1}}}, "did you mean 'step'"),
        ({"features": {"a": {"step": -1}}}, "step must be a number above 0"),
        ({"features": {"a": {"cost": 0}}}, "cost must be a number above 0"),
        ({"features": {"a": {"integer": True, "step": 0.5}}}, "contradict"),
        ({"features": {"a": {"integer": True, "range": [1.2, 1.8]}}}, "no whole number between"),
        ({"features": {"a": {"frozen": True, "direction": "up"}}}, "contradict each other"),
        ({"features": {"a": 3}}, "must be a direction or a table"),
        ({"features": {"a": {"low": "x"}}}, "low must be a number"),
        ({"one_hot": {"g": ["a"]}}, "at least two columns"),
        ({"one_hot": {"g": ["a", "b"], "h": ["b", "c"]}}, "again in 'h'"),
        ({"links": [{"when": "a", "then": "a"}]}, "linked to itself"),
        ({"links": [{"when": "a", "then": "b"}, {"when": "b", "then": "a"}]}, "a circle"),
        ({"links": [{"when": "a"}]}, "has no 'then'"),
        ({"links": [{"when": "a", "then": "b", "by": 0}]}, "not 0"),
        ({"weights": "mda"}, "weights must be"),
    ],
)
def test_contradictions_are_refused(rules, message):
    with pytest.raises(hf.HoldfastError, match=message):
        hf.Actionability(**rules)


def test_bad_files(tmp_path):
    with pytest.raises(hf.HoldfastError, match="the actionability file .* is not there"):
        hf.Actionability.from_toml(tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("[features")
    with pytest.raises(hf.HoldfastError, match="is not valid TOML"):
        hf.Actionability.from_toml(path)
    path.write_text("[fetures.a]\nfrozen = true\n")
    with pytest.raises(hf.HoldfastError, match="did you mean 'features'"):
        hf.Actionability.from_toml(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hf.HoldfastError, match="not a text file"):
        hf.Actionability.from_toml(path)


def test_ends_of_ranges_are_shared_or_on_a_grid():
    from holdfast.recourse.inference import range_of

    rng = np.random.default_rng(0)
    for _ in range(2000):
        n = int(rng.integers(2, 200))
        scale = 10.0 ** rng.integers(-6, 7)
        values = [
            rng.normal(size=n) * scale,
            rng.poisson(rng.uniform(0.02, 3), n).astype(float),
            rng.integers(-500, 9000, n).astype(float),
            np.round(rng.uniform(0, 100, n)),
        ][int(rng.integers(4))]
        if np.ptp(values) == 0:
            continue
        whole = bool((values % 1 == 0).all())
        low, high = range_of(values, whole)
        assert low < high
        if set(values) <= {0.0, 1.0}:
            continue
        for end in (low, high):
            near = int(np.sum(np.abs(values - end) <= 1e-9 * scale))
            assert near != 1 or end in (0.0, 1.0, 100.0), (values, low, high)


GERMAN = {
    "personal_status": "frozen",
    "foreign": "frozen",
    "credit_history": "frozen",
    "late_payments": "frozen",
    "NumInqLast6M": "frozen",
    "priors_count": "frozen",
    "months_at_address": "up",
    "present_residence_since": "up",
    "MSinceOldestTradeOpen": "up",
    "zip_code": "frozen",
    "customer_id": "frozen",
    "opened_date": "frozen",
    "number_of_dependents": "frozen",
    "is_female": "frozen",
    "black": "frozen",
    "num_child": "frozen",
    "yob": "frozen",
    "plz": "frozen",
    "charge_offs": "frozen",
    "earliest_cr_line": "frozen",
    "yrs_at_job": "up",
    "acct_age_months": "up",
    "AverageMInFile": "up",
    "household_income": "any",
    "foreign_exchange_balance": "any",
    "previous_balance": "any",
    "length_of_loan": "any",
    "years_of_repayment": "any",
    "savings": "any",
    "loan_amount": "any",
    "payment_per_month": "any",
    "income": "any",
    "utilisation": "any",
}


@pytest.mark.parametrize(("name", "direction"), GERMAN.items())
def test_what_nobody_should_be_told_to_change_is_not_free(name, direction):
    values = np.random.default_rng(0).integers(1, 60, 300) / 2.0
    rules = hf.Actionability.infer(pd.DataFrame({name: values, "other": values + 1.0}))
    assert rules.features[name].direction == direction
    assert direction == "any" or rules.reasons[name]


def test_categories_ids_and_dates_are_recognised_by_their_cells():
    n = 240
    table = pd.DataFrame(
        {
            "status": np.resize(["male : single", "female : divorced"], n),
            "mf": np.resize(["M", "F"], n),
            "since": np.resize(["A71", "A72"], n),
            "when": np.resize(["2024-01-31", "2025-12-01"], n),
            "nr": np.arange(n) + 10_000,
            "purpose": np.resize(["car", "radio"], n),
        }
    )
    rules = hf.Actionability.infer(table)
    found = {name: rule.direction for name, rule in rules.features.items()}
    assert found == {**dict.fromkeys(table.columns, "frozen"), "purpose": "any"}
    assert "taken for an id" in rules.reasons["nr"]
    again = hf.Actionability.of(tomllib.loads(rules.to_toml()), table)
    assert again.features == rules.features
    assert "# dates" in rules.to_toml()


def test_nobody_is_sent_further_than_similar_people_are():
    rng = np.random.default_rng(0)
    n = 600
    group = rng.integers(0, 2, n)
    X = pd.DataFrame({"group": np.where(group == 1, "big", "small"), "loan": rng.normal(size=n)})
    X["loan"] = np.where(group == 1, 10_000.0, 1_000.0) * np.exp(0.2 * X["loan"])
    y = (-X["loan"] / 5_000 + rng.normal(size=n) > -1.0).astype(int)
    fit = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["group"]), remainder=StandardScaler()),
        LogisticRegression(),
    ).fit(X, y)
    model = hf.erasable(fit, X, y)
    people = X[(group == 1).astype(bool)][:40]
    rules = hf.Actionability.infer(X, group="frozen")
    assert rules.features["loan"].similar
    given = hf.find_recourse(model, people, target=1.0, actionability=rules)
    free = hf.find_recourse(model, people, target=1.0, actionability=rules.updated(loan="any"))
    assert free.valid.all()
    assert free.points["loan"].max() < 5_000  # a tenth of what they asked for
    assert not given.valid.any()
    assert given.reason.str.contains("infeasible").all()


def test_amounts_that_are_all_different_are_no_ids():
    rng = np.random.default_rng(0)
    n = 400
    income = np.unique(np.exp(rng.normal(10.5, 0.5, 3 * n)).astype(int))
    income = rng.permutation(income)[:n]
    account = rng.permutation(np.unique(rng.integers(10**9, 9 * 10**9, 2 * n)))[:n]
    rules = hf.Actionability.infer(pd.DataFrame({"income": income, "account": account}))
    assert rules.features["income"].direction == "any"
    assert "taken for an id" in rules.reasons["account"]


def test_durations_before_today_may_only_fall_and_joint_accounts_change():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "DAYS_EMPLOYED": -rng.integers(1, 5000, 300).astype(float) / 2,
            "account_kind": rng.choice(["single", "joint"], 300),
            "employer": [f"firm {i}" for i in range(300)],
        }
    )
    found = {n: f.direction for n, f in hf.Actionability.infer(table).features.items()}
    assert found == {"DAYS_EMPLOYED": "down", "account_kind": "any", "employer": "frozen"}

"""Several ways, few changes, exact programs, words."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast.recourse.figures import in_figures, rounded_away
from holdfast.recourse.wording import Wording

RULES = {
    "features": {
        "b": {"direction": "up", "integer": True, "range": [0, 7]},
        "c": {"range": [-3, 3], "step": 0.5},
        "a": {"range": [-2, 2], "step": 0.5},
    }
}


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": np.clip(np.round(2 * rng.normal(size=n)) / 2, -2, 2),
            "b": rng.integers(0, 8, n),
            "c": np.clip(np.round(2 * rng.normal(size=n)) / 2, -3, 3),
            "k": rng.choice(["x", "y", "z"], n),
        }
    )
    y = (X.a + 0.3 * (X.b - 4) + X.c * (X.k == "x") + 0.5 * rng.normal(size=n) > 0.3).astype(int)
    return X, y


def front():
    return make_column_transformer((OneHotEncoder(), ["k"]), remainder=StandardScaler())


def every_point(person):
    """All that the rules allow somebody to be."""
    own = np.arange(-2, 2.01, 0.5), np.arange(person["b"], 8), np.arange(-3, 3.01, 0.5)
    rows = list(itertools.product(*own, ["x", "y", "z"]))
    return pd.DataFrame(rows, columns=["a", "b", "c", "k"])


ENSEMBLES = [
    DecisionTreeClassifier(max_depth=4, random_state=0),
    RandomForestClassifier(8, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=15, max_depth=2, random_state=0),
    HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=5),
    RandomForestRegressor(8, max_depth=3, random_state=0),
    GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0),
]


@pytest.mark.parametrize("trees", ENSEMBLES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("favourable", [1, 0])
def test_trees_have_a_provably_cheapest_recourse(trees, favourable):
    X, y = table()
    regression = not hasattr(trees, "predict_proba")
    good = {1: "high", 0: "low"}[favourable] if regression else favourable
    model = hf.erasable(make_pipeline(front(), trees).fit(X, y), X, y, favourable=good)
    target = float(np.quantile(model.scores(X), 0.7))
    people = X[model.scores(X) < target].iloc[:6]
    given = hf.find_recourse(model, people, "actionable", target, RULES)
    for name, person in people.iterrows():
        points = every_point(person)
        fine = model.scores(points) >= given.goal
        if not fine.any():
            assert "proven by the integer program" in given.reason[name]
            continue
        repeated = pd.DataFrame([person] * len(points))
        cost = given.space.distance(repeated, points, "l1")
        assert given.valid[name]
        assert given.cost[name] == pytest.approx(cost[fine].min(), abs=1e-9)
        assert given.remark[name] == ""


def test_trees_that_are_not_read_are_refused():
    X, y = table()
    numbers = X[["a", "b", "c"]]
    odd = make_pipeline(PolynomialFeatures(2), DecisionTreeClassifier(max_depth=3))
    model = hf.erasable(odd.fit(numbers, y), numbers, y)
    with pytest.raises(hf.UnsupportedModelError, match="single columns"):
        hf.find_recourse(model, numbers[:50], "actionable", 0.0)
    many = hf.erasable(RandomForestClassifier(100, random_state=0).fit(numbers, y), numbers, y)
    with pytest.raises(hf.UnsupportedModelError, match="leaves together"):
        hf.find_recourse(many, numbers[:50], "actionable", 0.0)


def linear():
    X, y = table()
    model = hf.erasable(make_pipeline(front(), LogisticRegression()).fit(X, y), X, y)
    return model, X[model.scores(X) < 0].iloc[:25]


def test_scfe_is_exact_where_that_is_affordable_and_says_so():
    model, people = linear()
    given = hf.find_recourse(model, people, "scfe", 0.0, RULES)
    best = hf.find_recourse(model, people, "actionable", 0.0, RULES)
    quick = hf.find_recourse(model, people, "scfe", 0.0, RULES, exact=False)
    assert any("integer program" in said for said in given.said)
    assert quick.said == ()
    np.testing.assert_allclose(given.cost, best.cost)
    assert (quick.cost[quick.valid] >= given.cost[quick.valid] - 1e-9).all()


@pytest.mark.parametrize("method", ["scfe", "actionable", "growing-spheres"])
def test_no_more_than_so_many_things_change(method):
    model, people = linear()
    given = hf.find_recourse(model, people, method, 0.0, RULES, max_changed=1)
    changed = (given.points != given.people).sum(axis=1)
    assert (changed[given.valid] == 1).all()
    assert given.valid.any()
    free = hf.find_recourse(model, people, method, 0.0, RULES)
    assert ((free.points != free.people).sum(axis=1) > 1).any()
    if method == "growing-spheres":
        return
    for name, person in given.people[given.valid].iterrows():  # the cheapest of all that do
        points = every_point(person)
        repeated = pd.DataFrame([person] * len(points)).set_axis(points.index)
        one = (points != repeated.astype(points.dtypes)).sum(axis=1) == 1
        fine = one.to_numpy() & (model.scores(points) >= given.goal)
        cost = given.space.distance(repeated, points, "l1")
        assert given.cost[name] == pytest.approx(cost[fine].min(), abs=1e-9)


def test_three_ways():
    model, people = linear()
    given = hf.find_recourse(model, people, target=0.0, actionability=RULES, ways=3)
    fewest, others = given.ways["fewest changes"], given.ways["different features"]

    def changed(way):
        return (way.points != way.people).to_numpy()

    assert fewest.valid.any()
    assert others.valid.any()
    few = fewest.valid.to_numpy()
    assert (changed(fewest).sum(axis=1) < changed(given).sum(axis=1))[few].all()
    assert not (changed(given) & changed(others))[others.valid.to_numpy()].any()
    for way in (fewest, others):
        assert (model.scores(way.points[way.valid]) >= given.goal).all()
        assert (way.cost[way.valid] >= given.cost[way.valid] - 1e-9).all()
    shown = given.take([0, 1]).in_ways()
    assert set(shown["way"]) <= {"cheapest", "fewest changes", "different features"}
    assert len(given.in_ways()) == given.valid.sum() + few.sum() + others.valid.sum()
    for wrong in (0, 4, 1.5):
        with pytest.raises(hf.HoldfastError, match="ways must be a whole number"):
            hf.find_recourse(model, people, target=0.0, ways=wrong)


def test_what_blocks_people_is_counted():
    model, people = linear()
    rules = hf.Actionability(
        {"a": "frozen", "c": "frozen", "k": "frozen", "b": {"range": [0, 7], "direction": "down"}}
    )
    given = hf.find_recourse(model, people, target=0.0, actionability=rules)
    assert not given.valid.any()
    told = given.blocked().set_index("what")["people"]
    assert told["proven: no allowed change reaches the target"] == len(people)
    for name in ("a", "b"):
        without = rules.updated(**{name: {"range": [-2, 2] if name == "a" else [0, 7]}})
        free = hf.find_recourse(model, people, target=0.0, actionability=without, overshoot=0.01)
        said = told.get(f"blocked by the rule for {name} alone", 0)
        assert abs(said - int(free.valid.sum())) <= (0 if name == "b" else 1)


def test_numbers_are_told_as_people_write_them():
    X, y = table()
    X = X.assign(savings=1000.0 * np.abs(np.random.default_rng(1).normal(size=len(X))))
    fit = make_pipeline(front(), LogisticRegression()).fit(X, y)
    model = hf.erasable(fit, X, y)
    people = X[model.scores(X) < 0].iloc[:25]
    given = hf.find_recourse(model, people, target=0.0)
    scores = model.scores(given.told[given.valid])
    assert (scores >= given.goal).all()  # what is told holds, too
    told = given.space.distance(given.people, given.told, "l1")
    assert (told[given.valid] <= 1.05 * given.cost[given.valid] + 1e-12).all()
    words = given.worded({"b": {"label": "your score", "unit": "%"}}).in_words()
    assert not words.str.contains(r"\d\.\d{5}").any()
    assert words.str.fullmatch(r".*raise your score from \d to [\d.]+%.*").any()
    with pytest.raises(hf.HoldfastError, match="which the table does not have"):
        given.worded({"nothing": "x"})


def test_wording(tmp_path):
    file = tmp_path / "labels.toml"
    file.write_text(
        '[features.savings]\nlabel = "your savings"\nunit = "€"\n'
        '[features.purpose]\nvalues = { A43 = "radio or television" }\n'
    )
    words = Wording.of(file)
    assert words.change("savings", 500.0, 1000.0, True) == "raise your savings from 500 to 1,000 €"
    said = words.change("purpose", "A43", "A46", False)
    assert said == "switch purpose from radio or television to A46"
    assert words.change("x", -0.051474061238800654, 0.25, True) == "raise x from -0.05 to 0.25"
    assert words.change("x", 0.249, 0.25, True) == "raise x from 0.249 to 0.25"
    assert in_figures(1234567.0) == "1,234,567"
    for wrong, said in (
        ("[feature.x]", "unknown setting 'feature'"),
        ("[features.x]\nlable = 'a'", "did you mean 'label'"),
        ("[features.x]\nvalues = 3", "a table of codes"),
        ("[features]\nx = 3", "a label or a table"),
    ):
        file.write_text(wrong)
        with pytest.raises(hf.HoldfastError, match=said):
            Wording.of(file)


def test_rounding_never_asks_for_less():
    rng = np.random.default_rng(0)
    before, after = (10.0 ** rng.uniform(-3, 6, 500) * rng.choice([-1, 1], 500) for _ in range(2))
    for digits, part in ((1, 1), (1, 2), (2, 5), (3, 1)):
        made = rounded_away(before, after, digits, part)
        assert np.all(np.abs(made - before) >= np.abs(after - before) * (1 - 1e-9))
        assert np.all(np.abs(made - after) <= 10.0 ** (1 - digits) * np.abs(after - before))


@pytest.mark.parametrize("trees", [ENSEMBLES[1], ENSEMBLES[3]], ids=lambda e: type(e).__name__)
def test_few_changes_are_exact_for_trees_too(trees):
    X, y = table()
    model = hf.erasable(make_pipeline(front(), trees).fit(X, y), X, y)
    target = float(np.quantile(model.scores(X), 0.7))
    people = X[model.scores(X) < target].iloc[:8]
    given = hf.find_recourse(model, people, "actionable", target, RULES, max_changed=1)
    for name, person in people.iterrows():
        points = every_point(person)
        repeated = pd.DataFrame([person] * len(points)).set_axis(points.index)
        one = ((points != repeated.astype(points.dtypes)).sum(axis=1) == 1).to_numpy()
        fine = one & (model.scores(points) >= given.goal)
        assert given.valid[name] == fine.any()
        if fine.any():
            best = given.space.distance(repeated, points, "l1")[fine].min()
            assert given.cost[name] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("trees", [ENSEMBLES[0], ENSEMBLES[1], ENSEMBLES[3]], ids=repr)
def test_people_with_gaps_are_not_proven_hopeless(trees):
    X, y = table()
    X = X[["a", "b", "c"]].astype(float)
    X.loc[np.random.default_rng(0).random(len(X)) < 0.3, "b"] = np.nan
    model = hf.erasable(trees.fit(X, y), X, y)
    people = X[(model.scores(X) < 0) & X["b"].isna()].iloc[:6]
    given = hf.find_recourse(model, people, "actionable", 0.0)
    spheres = hf.find_recourse(model, people, "growing-spheres", 0.0)
    assert given.valid.all()
    assert (given.cost[spheres.valid] <= spheres.cost[spheres.valid] * (1 + 1e-5)).all()
    assert given.points["b"].isna().all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_cheapest_is_the_cheapest_at_any_scale(scale):
    X, y = table()
    X = X[["a", "c"]] * scale + scale * 0.01 * np.random.default_rng(0).normal(size=(len(X), 2))
    model = hf.erasable(ENSEMBLES[1].fit(X, y), X, y)
    people = X[model.scores(X) < 0].iloc[:8]
    given = hf.find_recourse(model, people, "actionable", 0.0)
    spheres = hf.find_recourse(model, people, "growing-spheres", 0.0)
    both = given.valid & spheres.valid
    assert both.any()
    assert (given.cost[both] <= spheres.cost[both] * (1 + 1e-5)).all()


def test_products_and_models_inside_boosting_are_refused():
    X, y = table()
    numbers = X[["a", "b", "c"]].assign(b=0.0)
    numbers.iloc[50:, 1] = np.arange(len(X) - 50) % 7
    odd = make_pipeline(
        PolynomialFeatures(2, interaction_only=True, include_bias=False),
        GradientBoostingClassifier(n_estimators=10, random_state=0),
    )
    model = hf.erasable(odd.fit(numbers, y), numbers, y)
    with pytest.raises(hf.UnsupportedModelError, match="single columns"):
        hf.find_recourse(model, numbers, "actionable", 0.0)
    inside = GradientBoostingClassifier(n_estimators=5, init=LogisticRegression(), random_state=0)
    model = hf.erasable(inside.fit(numbers, y), numbers, y)
    with pytest.raises(hf.UnsupportedModelError, match="needs a score that is linear"):
        hf.find_recourse(model, numbers, "actionable", 0.0)

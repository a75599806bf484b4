from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
import mixed
from holdfast.recourse import METHODS
from holdfast.recourse.cheapest import cheapest_change

KINDS = ("linear", "logistic", "ntk", "lssvm", "network", "forest")
NEEDS_GRADIENTS = ("scfe", "dice", "cem")


@pytest.fixture(scope="module")
def world():
    X, y = mixed.table()
    return X, {kind: mixed.fitted(kind, X, y) for kind in KINDS}


def works(method, kind):
    if kind == "forest":
        return method not in (*NEEDS_GRADIENTS, "actionable")
    return method != "actionable" or kind in ("linear", "logistic")


PAIRS = [(method, kind) for method in METHODS for kind in KINDS if works(method, kind)]


def assert_allowed(given, rules):
    """The constraints, written down a second time, on the frames that are handed over."""
    old, new = given.people[given.valid], given.points[given.valid]
    for name, rule in rules.get("features", {}).items():
        rule = {"direction": rule} if isinstance(rule, str) else rule
        if name not in old:
            columns = rules["one_hot"][name]
            same = (old[columns] == new[columns]).all(axis=1)
            if rule.get("direction") == "frozen":
                assert same.all()
            if "allowed" in rule:
                assert (same | (new[rule["allowed"]].sum(axis=1) == 1)).all()
            continue
        a, b = old[name], new[name]
        direction = rule.get("direction", "any")
        if direction == "frozen":
            assert (a == b).all()
        if direction == "up":
            assert (b >= a - 1e-9).all()
        if direction == "down":
            assert (b <= a + 1e-9).all()
        if "range" in rule:
            assert b.between(rule["range"][0] - 1e-9, rule["range"][1] + 1e-9).all()
        if "step" in rule:
            places = (b - a) / rule["step"]
            assert np.allclose(places, np.round(places), atol=1e-6)
        if rule.get("integer"):
            assert np.allclose(b, np.round(b))
        if "allowed" in rule:
            assert (b.isin(rule["allowed"]) | (a == b)).all()
    for columns in rules.get("one_hot", {}).values():
        assert new[columns].isin([0.0, 1.0]).all(axis=None)
        assert (new[columns].sum(axis=1) == 1).all()
    for link in rules.get("links", ()):
        column, _, category = link["when"].partition("=")
        if category:
            rise = ((new[column] == category) & (old[column] != category)).astype(float)
        else:
            rise = (new[column] - old[column]).clip(lower=0)
        moved = (new[link["then"]] - old[link["then"]]) * np.sign(link["by"])
        assert (moved[rise > 1e-9] >= abs(link["by"]) * rise[rise > 1e-9] - 1e-6).all()


#: a search without gradients, and networks and kernels, take long: in the slow suite
LONG = ("lssvm", "ntk", "network", "forest")
MARKED = [
    pytest.param(*pair, marks=pytest.mark.slow)
    if pair[0] in ("cem", "growing-spheres", "dice") and pair[1] in LONG
    else pair
    for pair in PAIRS
]


@pytest.mark.parametrize(("method", "kind"), MARKED)
def test_every_method_keeps_every_rule(world, method, kind):
    X, models = world
    found = hf.find_recourse(
        models[kind], X, method=method, actionability=mixed.RULES, overshoot=0.05
    )
    assert found.above_target + len(found) == len(X)
    assert found.success > 0.7, found.reason[~found.valid].tolist()
    assert_allowed(found, mixed.RULES)
    scores = models[kind].scores(found.points[found.valid])
    assert (scores >= found.goal).all()
    assert np.array_equal(scores, found.score[found.valid])
    assert (found.reason[found.valid] == "").all()
    assert (found.reason[~found.valid] != "").all()


@pytest.fixture(scope="module")
def plain():
    """Models on numbers and one-hot columns, no pipeline in front: quick to score."""
    X, y = mixed.plain()
    made = mixed.models(X, y)
    return X, {kind: hf.erasable(e.fit(X, labels), X, labels) for kind, (e, labels) in made.items()}


JOBS = ["job_none", "job_part", "job_full"]
numbers = st.fixed_dictionaries(
    {"direction": st.sampled_from(["any", "up", "down", "frozen"])},
    optional={
        "range": st.tuples(st.floats(-5, 5), st.floats(8, 40)).map(list),
        "cost": st.floats(0.01, 100),
    },
)
rules = st.fixed_dictionaries(
    {
        "features": st.fixed_dictionaries(
            {},
            optional={
                "income": st.one_of(
                    numbers, numbers.map(lambda rule: {**rule, "step": 0.25}), st.just("up")
                ),
                "savings": numbers,
                "cards": st.sampled_from(["frozen", {"integer": True, "low": 0}]),
                "age": st.sampled_from(["frozen", "up", {"step": 0.1, "direction": "up"}]),
                "job": st.sampled_from(["frozen", "any", {"allowed": ["job_full"]}]),
                "lives": st.sampled_from(["frozen", "any"]),
            },
        ),
        "one_hot": st.just({"lives": mixed.PLACES, "job": JOBS}),
        "links": st.lists(
            st.sampled_from(
                [
                    {"when": "job_full", "then": "age", "by": 0.1},
                    {"when": "income", "then": "savings", "by": 1.0},
                    {"when": "savings", "then": "cards", "by": -0.5},
                ]
            ),
            unique_by=str,
        ),
        "weights": st.sampled_from(["mad", "unit"]),
    }
)


@pytest.mark.parametrize(("method", "kind"), MARKED)
@settings(max_examples=10, deadline=None)
@given(rules=rules, seed=st.integers(0, 3), overshoot=st.sampled_from([0.0, 0.01, 0.5]))
def test_rules_hold_whatever_they_are(plain, method, kind, rules, seed, overshoot):
    X, models = plain
    some = X.sample(20, random_state=seed)
    options = {"samples": 15} if method in ("growing-spheres", "dice-random") else {}
    options |= {"iterations": 15} if method in ("dice", "cem") else {}
    found = hf.find_recourse(
        models[kind], some, method, actionability=rules, overshoot=overshoot, **options
    )
    assert_allowed(found, rules)
    if found.valid.any():
        again = models[kind].scores(found.points[found.valid])
        assert (again >= found.target + overshoot * models[kind].score_unit).all()


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        pytest.param(*p, marks=pytest.mark.slow) if p[0] == "cem" else p
        for p in PAIRS
        if p[1] in ("logistic", "forest")
    ],
)
def test_a_seed_gives_the_same_result(world, method, kind):
    X, models = world
    found = [
        hf.find_recourse(
            models[kind], X[:40], method, actionability=mixed.RULES, random_state=7
        ).points
        for _ in range(2)
    ]
    pd.testing.assert_frame_equal(*found)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is watched
    hf.find_recourse(models[kind], X[:10], method, random_state=1)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


# closed forms -----------------------------------------------------------------------------------


def test_linear_l2_is_the_papers_closed_form(rng):
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    found = hf.find_recourse(
        model, X, target=1.0, actionability=hf.Actionability(weights="unit"), cost="l2"
    )
    w = model.score_gradients(X[:1])[0]
    people = found.people.to_numpy()
    gaps = found.goal - model.scores(people)
    expected = people + (gaps / (w @ w))[:, None] * w
    assert np.allclose(found.points, expected, atol=1e-7)
    assert np.allclose(found.cost, np.linalg.norm(expected - people, axis=1), atol=1e-7)


def test_trade_off_is_the_papers_lambda(rng):
    g, gap = rng.normal(size=(1, 4)), np.array([1.7])
    free = np.full((1, 4), np.inf)
    change = cheapest_change(gap, g, -free, free, np.ones(4), "l2", trade_off=0.3)
    assert np.allclose(change, gap / (0.3 + np.sum(g**2)) * g)


boxes = st.lists(
    st.tuples(st.floats(-3, 3), st.floats(-2, 1), st.floats(0, 3), st.floats(0.1, 5)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(boxes=boxes, gap=st.floats(0.01, 5), norm=st.sampled_from(["l1", "l2"]))
def test_cheapest_change_is_cheapest(boxes, gap, norm):
    from scipy.optimize import linprog, minimize

    g, low, size, weight = (np.array(part) for part in zip(*boxes, strict=True))
    g = np.where(np.abs(g) < 0.05, 0.0, g)
    high = low + size
    reachable = np.maximum(g * low, g * high).sum()
    assume(abs(reachable - gap) > 1e-6)
    change = cheapest_change(np.array([gap]), g[None], low[None], high[None], weight, norm)[0]
    assert np.all(change >= low - 1e-12)
    assert np.all(change <= high + 1e-12)
    if reachable < gap:
        assert g @ change <= gap
        return
    assert g @ change >= gap - 1e-9
    m = g.size
    if norm == "l1":
        best = linprog(
            np.concatenate([weight, weight]),
            A_ub=[
                -np.concatenate([g, -g]),
                *np.hstack([np.eye(m), -np.eye(m)]),
                *np.hstack([-np.eye(m), np.eye(m)]),
            ],
            b_ub=[-gap, *high, *-low],
        ).fun
        # the solver may leave each bound by 1e-7, and at that much lower a cost
        assert weight @ np.abs(change) <= best + 1e-6 * (1 + best + weight.sum())
    else:
        cost = np.sum((weight * change) ** 2)
        tried = minimize(
            lambda d: np.sum((weight * d) ** 2),
            np.clip(change + 0.1, low, high),
            jac=lambda d: 2 * weight**2 * d,
            bounds=list(zip(low, high, strict=True)),
            constraints={"type": "ineq", "fun": lambda d: g @ d - gap, "jac": lambda d: g},
            method="SLSQP",
        )
        if tried.success and g @ tried.x >= gap - 1e-9:
            assert cost <= tried.fun + 1e-5 * (1 + tried.fun)


def test_first_step_on_a_kernel_model_is_first_order(rng):
    """Near the target the paper's first-order recourse is what scfe finds."""
    X = rng.normal(size=(150, 4))
    y = np.tanh(X[:, 0]) + 0.5 * X[:, 1]
    model = hf.erasable(hf.NTKRegressor(beta=2.0).fit(X, y), X, y)
    scores = model.scores(X)
    target = float(np.median(scores))
    near = X[(scores < target) & (scores > target - 0.02)]
    found = hf.find_recourse(
        model,
        near,
        target=target,
        overshoot=0.001,
        cost="l2",
        actionability=hf.Actionability(weights="unit"),
    )
    slopes = model.score_gradients(near)
    gaps = found.goal - model.scores(near)
    first = near + (gaps / np.sum(slopes**2, axis=1))[:, None] * slopes
    moved = np.linalg.norm(first - near, axis=1)
    assert np.all(np.linalg.norm(found.points.to_numpy() - first, axis=1) < 0.1 * moved + 1e-6)


def test_scfe_is_a_local_optimum_on_a_network(world):
    """No other allowed change of the same cost scores higher, near the point found."""
    X, models = world
    model = models["network"]
    frozen = {"features": {"job": "frozen", "lives": "frozen"}, "one_hot": {"lives": mixed.PLACES}}
    found = hf.find_recourse(model, X, actionability=frozen, cost="l2", overshoot=0.01)
    weights = found.space.weight[found.space.number]
    columns = ["income", "savings", "cards", "age"]
    slopes = model.score_gradients(found.points)[columns].to_numpy() / weights
    change = (found.points[columns] - found.people[columns]).to_numpy() * weights
    cosine = np.sum(slopes * change, axis=1) / (
        np.linalg.norm(slopes, axis=1) * np.linalg.norm(change, axis=1)
    )
    assert np.median(cosine) > 0.98  # at an optimum the change points along the gradient


# each method's own ------------------------------------------------------------------------------


def test_overshoot_is_reached_and_reported(world):
    X, models = world
    for overshoot in (0.001, 0.2):
        found = hf.find_recourse(models["ntk"], X, overshoot=overshoot)
        reached = found.overshoot_reached[found.valid]
        assert (reached >= overshoot).all()
        assert reached.median() < overshoot * 1.001 + 1e-6


def test_dice_counterfactuals_differ(world):
    X, models = world
    picks = [
        hf.find_recourse(models["logistic"], X[:60], "dice", random_state=seed).points
        for seed in range(6)
    ]
    apart = np.mean(
        [
            (picks[0][["income", "savings"]] - p[["income", "savings"]]).abs().sum().sum()
            for p in picks[1:]
        ]
    )
    assert apart > 0
    pairwise = hf.find_recourse(models["logistic"], X[:60], "dice", diversity="pairwise", k=3)
    assert pairwise.success == 1


def test_diversity_slope_is_the_derivative(rng):
    from holdfast.recourse.dice import _diversity_slope

    U = rng.normal(size=(2, 3, 4))

    def value(U, kind):
        distance = np.abs(U[:, :, None] - U[:, None]).mean(axis=3)
        if kind == "pairwise":
            return distance.sum() / 6
        return np.linalg.det(1 / (1 + distance) + 1e-4 * np.eye(3)).sum()

    for kind in ("determinant", "pairwise"):
        slope = _diversity_slope(U, kind)
        for place in [(0, 0, 0), (1, 2, 3), (0, 1, 2)]:
            step = np.zeros_like(U)
            step[place] = 1e-6
            numeric = (value(U + step, kind) - value(U - step, kind)) / 2e-6
            assert slope[place] == pytest.approx(numeric, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("manifold", ["subspace", "autoencoder"])
def test_cem_keeps_recourse_near_the_data(rng, manifold):
    z = rng.normal(size=(400, 2))
    X = np.c_[z[:, 0], z[:, 0] + 0.05 * rng.normal(size=400), z[:, 1]]
    y = X @ [1.0, 0.0, 0.5] + 0.1 * rng.normal(size=400)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    near = hf.find_recourse(model, X, "cem", target=1.0, manifold=manifold, gamma=5.0)
    far = hf.find_recourse(model, X, "cem", target=1.0, manifold=manifold, gamma=0.0)

    def off(found):  # the first two columns go together in the data
        return np.mean(np.abs(found.points[0] - found.points[1]))

    assert near.success == far.success == 1
    assert off(near) < 0.5 * off(far)


def test_reconstruction_slopes_are_derivatives(rng):
    from holdfast.recourse.cem import _autoencoder, _subspace

    rows = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 3))
    z = rng.normal(size=(1, 3))
    axes = np.linalg.svd(rows, full_matrices=False)[2][:2]
    for left_over in (_autoencoder(rows, 2, rng), _subspace(rows.mean(axis=0), axes)):
        for step in 1e-6 * np.eye(3):
            far, near = (np.sum(left_over(p)[0] ** 2) for p in (z + step, z - step))
            slope = left_over(z)[1][0] @ step / 1e-6
            assert slope == pytest.approx((far - near) / 2e-6, rel=1e-5)


def test_boosting_needs_only_scores(rng):
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    model = hf.erasable(GradientBoostingClassifier(random_state=0).fit(X, y), X, y)
    found = hf.find_recourse(model, X, "growing-spheres", actionability={"features": {2: "frozen"}})
    assert found.success > 0.95
    assert (found.points[2] == found.people[2]).all()
    with pytest.raises(hf.UnsupportedModelError, match="growing-spheres"):
        hf.find_recourse(model, X, "scfe")


def test_a_callable_is_a_method(world):
    X, models = world

    def leap(problem, rng, far=2.0):
        return np.where(problem.space.number, problem.factual + far, problem.factual)

    found = hf.find_recourse(
        models["linear"], X, leap, actionability={"features": {"age": "frozen"}}, far=1.0
    )
    assert found.method == "leap"
    assert not found.valid.any()
    assert found.reason.str.contains("age is frozen but changed").all()

    def rich(problem, rng):
        return problem.people.assign(income=1e5)

    assert hf.find_recourse(models["linear"], X, rich).success == 1
    with pytest.raises(hf.HoldfastError, match="must return a frame like people"):
        hf.find_recourse(models["linear"], X, lambda problem, rng: np.zeros(3))


# the result -------------------------------------------------------------------------------------


def test_words_are_in_original_units_and_enough(world):
    X, models = world
    model = models["logistic"]
    found = hf.find_recourse(model, X, actionability=mixed.RULES, overshoot=0.05)
    words = found.in_words()
    assert words.index.equals(found.people.index)
    changes = found.changes()
    assert set(changes.columns) == {"person", "feature", "from", "to", "in_words"}
    one = changes.iloc[0]
    assert found.people.loc[one["person"], one["feature"]] == one["from"]
    told = found.people.copy().astype({"cards": float})
    for _, change in changes.iterrows():  # acting on the words alone reaches the target
        value = change["in_words"].rsplit(" to ", 1)[1]
        told[change["feature"]] = told[change["feature"]].astype(object)
        column = change["feature"]
        told.loc[change["person"], column] = value if column == "job" else float(value)
    told = told.infer_objects()
    assert (model.scores(told[found.valid]) >= found.target).all()


def test_frame_and_repr(world):
    X, models = world
    found = hf.find_recourse(models["linear"], X, target=3.0)
    frame = found.frame()
    assert {"valid", "score", "cost", "reason", "in_words", "overshoot_reached"} <= set(frame)
    assert f"{len(found)} people" in repr(found)


def test_whole_number_columns_stay_whole(world):
    X, models = world
    rules = {"features": {"cards": {"integer": True}, "age": {"integer": True}}}
    found = hf.find_recourse(models["linear"], X, actionability=rules)
    assert found.points["cards"].dtype == X["cards"].dtype


def test_search_attacks_what_is_valid(world):
    X, models = world
    rules = {
        "features": {
            "income": {"high": 2500.0},
            "savings": "frozen",
            "cards": "frozen",
            "age": "frozen",
            "job": "frozen",
            "lives": "frozen",
        },
        "one_hot": {"lives": mixed.PLACES},
    }
    found = hf.find_recourse(models["linear"], X, target=3.0, actionability=rules)
    assert 0 < found.valid.sum() < len(found)
    plan = hf.search(models["linear"], found, target=3.0, max_deletions=2)
    assert len(plan.points) == found.valid.sum()


def test_progress_is_told(world):
    X, models = world
    for method in METHODS:
        told = []
        hf.find_recourse(
            models["logistic"], X[:40], method, progress=lambda a, b, told=told: told.append((a, b))
        )
        assert told[-1][0] == told[-1][1]
        assert all(0 <= done <= total for done, total in told)


def test_probability_and_default_targets(world):
    X, models = world
    at = hf.find_recourse(models["logistic"], X, target_probability=0.8)
    assert at.target == pytest.approx(np.log(4))
    assert hf.find_recourse(models["logistic"], X).target == 0
    y = models["linear"].y
    assert hf.find_recourse(models["linear"], X).target == pytest.approx(np.median(y))


def test_favourable_low_means_going_down(rng):
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=100)
    model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    found = hf.find_recourse(model, X)
    assert found.target == pytest.approx(-np.median(y))
    predicted = model.estimator.predict(found.points.to_numpy())
    assert (predicted <= np.median(y)).all()


# people nobody can help, and bad input ----------------------------------------------------------


def test_missing_values_stay_missing_where_the_model_imputes(rng):
    from sklearn.impute import SimpleImputer

    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = X.to_numpy() @ [1.0, 1.0, 1.0] + 0.1 * rng.normal(size=200)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), LinearRegression()).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    people = X[:20].copy()
    people.iloc[3, 1] = np.nan
    found = hf.find_recourse(model, people, target=5.0, cost="l2")
    assert found.valid.all()
    assert np.isnan(found.points.loc[3, "b"])
    assert found.points["b"].drop(3).notna().all()
    assert "nan" not in found.in_words()[3]


def test_missing_values_without_imputation_are_said(world, rng):
    X, y = mixed.table()
    model = mixed.fitted("linear", X, y)
    people = X[:10].copy()
    people.iloc[2, 1] = np.nan
    people.iloc[4, 0] = np.inf
    found = hf.find_recourse(model, people, target=20.0)
    assert found.reason["p2"] == "savings is missing"
    assert found.reason["p4"] == "income is infinite"
    assert found.valid.drop(["p2", "p4"]).all()


def test_frozen_everything_is_infeasible(world):
    X, models = world
    rules = {
        "features": dict.fromkeys(["income", "savings", "cards", "age", "job", "lives"], "frozen"),
        "one_hot": {"lives": mixed.PLACES},
    }
    for kind in ("linear", "forest"):
        method = "scfe" if kind == "linear" else "growing-spheres"
        found = hf.find_recourse(models[kind], X, method, actionability=rules)
        assert not found.valid.any()
        assert found.reason.str.startswith("infeasible: nothing").all()
        assert found.points.equals(found.people[found.points.columns])


def test_contradictions_are_said_per_person(world):
    X, models = world
    rules = {"features": {"age": {"direction": "down", "low": 50}}}
    found = hf.find_recourse(models["linear"], X, actionability=rules)
    young = found.people["age"] < 50
    assert (found.valid == ~young).all()
    assert found.reason[young].str.contains("may only fall, but must lie in").all()


def test_unreachable_target(world):
    X, models = world
    bounded = hf.Actionability.infer(X)
    found = hf.find_recourse(models["linear"], X, target=1e6, actionability=bounded)
    assert not found.valid.any()
    assert found.reason.str.contains("even the best allowed change").all()
    forest = hf.find_recourse(models["forest"], X, "growing-spheres", target=13.9, samples=5)
    assert not forest.valid.any()
    assert forest.reason.str.contains("no valid point found").all()


def test_people_above_the_target_are_left_out(world):
    X, models = world
    found = hf.find_recourse(models["linear"], X, target=-100.0)
    assert len(found) == 0
    assert found.above_target == len(X)
    assert len(found.in_words()) == 0
    assert np.isnan(found.success)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"method": "scef"}, "method must be one of 'scfe'"),
        ({"target": "high"}, "target must be one finite score"),
        ({"target": float("nan")}, "target must be one finite score"),
        ({"overshoot": -1}, "overshoot must be a number from 0"),
        ({"cost": "l3"}, "cost must be 'l1' or 'l2'"),
        ({"actionability": 3}, "actionability must be an Actionability"),
        ({"actionability": {"features": {"incme": "up"}}}, "did you mean 'income'"),
        ({"actionability": {"one_hot": {"lives": ["lives_cty", "lives_town"]}}}, "lives_city"),
        ({"actionability": {"features": {"job": "up"}}}, "'job' is a choice of categories"),
        ({"actionability": {"features": {"age": {"allowed": ["a"]}}}}, "'age' is a number"),
        ({"actionability": {"features": {"job": {"allowed": ["fulll"]}}}}, "did you mean 'full'"),
        ({"actionability": {"links": [{"when": "job", "then": "age"}]}}, "say which category"),
        ({"actionability": {"links": [{"when": "age", "then": "job"}]}}, "must be a number"),
        ({"random_state": "x"}, "random_state must be"),
        ({"max_itr": 3}, "has no option 'max_itr'"),
        ({"target": 1.0, "target_probability": 0.5}, "not both"),
        ({"target_probability": 0.5}, "gives no probabilities"),
    ],
)
def test_bad_input_is_named(world, call, message):
    X, models = world
    with pytest.raises(hf.HoldfastError, match=message):
        hf.find_recourse(models["linear"], X, **call)


def test_bad_people(world):
    X, models = world
    with pytest.raises(hf.HoldfastError, match="column 'income' is missing from people"):
        hf.find_recourse(models["linear"], X.drop(columns="income"))
    with pytest.raises(hf.HoldfastError, match="has no rows"):
        hf.find_recourse(models["linear"], X[:0])
    with pytest.raises(hf.HoldfastError, match="'much' is not a number"):
        hf.find_recourse(models["linear"], X.assign(income=["much"] * len(X)))
    half = X[:3].copy()
    half["lives_city"] = 0.5
    found = hf.find_recourse(models["linear"], half, target=50.0, actionability=mixed.RULES)
    assert (found.reason == "lives is not one-hot").all()


def test_unknown_categories_stay_as_they_are(rng):
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    X = pd.DataFrame({"a": rng.normal(size=80), "c": rng.choice(["x", "y"], size=80)})
    y = X["a"] + (X["c"] == "x")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    front = make_column_transformer((encoder, ["c"]), remainder="passthrough")
    model = hf.erasable(make_pipeline(front, LinearRegression()).fit(X, y), X, y)
    people = pd.DataFrame({"a": [0.0, -1.0], "c": ["z", "x"]})
    found = hf.find_recourse(model, people, target=3.0)
    assert found.valid.all()
    assert found.points.loc[0, "c"] == "z"


@pytest.mark.slow
def test_real_data_success(heloc):
    X, score = heloc
    train, people = X[:2000], X[2000:2600]
    good = (score[:2000] >= np.median(score)).astype(int)
    models = {
        "linear": hf.erasable(
            LinearRegression(tol=0).fit(train, score[:2000]), train, score[:2000]
        ),
        "logistic": hf.erasable(
            LogisticRegression(tol=1e-8, max_iter=2000).fit(train, good), train, good
        ),
        "lssvm": hf.erasable(hf.LSSVMClassifier().fit(train, good), train, good),
    }
    for model in models.values():
        for method in ("scfe", "dice", "cem", "growing-spheres"):
            assert hf.find_recourse(model, people, method).success >= 0.95


def test_diabetes_example_in_original_units():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = hf.erasable(
        make_pipeline(StandardScaler(), LinearRegression()).fit(X, y), X, y, favourable="low"
    )
    found = hf.find_recourse(model, X[:50], actionability="infer")
    assert (found.points["sex"] == found.people["sex"]).all()
    assert (found.points["age"] == found.people["age"]).all()
    assert found.valid.any()


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("slope", [0.0, 2e-311, 1e-300, 1e-155])
def test_slopes_too_small_to_divide_by_lead_nowhere(norm, slope):
    """Far from every training row a Gaussian kernel's gradient is smaller than any number."""
    change = cheapest_change(
        np.array([0.4]), np.full((1, 3), slope), -np.ones((1, 3)), np.ones((1, 3)), np.ones(3), norm
    )
    assert np.isfinite(change).all()
    assert np.abs(change).max() <= 1.0

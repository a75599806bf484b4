"""Where published implementations stop: their loops again, one person at a time."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import holdfast as hf
from holdfast.recourse import published

FREE = hf.Actionability(weights="unit")


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(size=(200, 4)), columns=list("abcd"))
    y = X.to_numpy() @ [1.0, -0.5, 2.0, 0.1] + 0.3 * rng.normal(size=200)
    linear = hf.erasable(LinearRegression().fit(X, y), X, y)
    grade = (y > np.median(y)).astype(int)
    logistic = hf.erasable(LogisticRegression(tol=1e-8).fit(X, grade), X, grade)
    ntk = hf.erasable(hf.NTKRegressor(beta=2.0).fit(X, y), X, y)
    return X, {"linear": linear, "logistic": logistic, "ntk": ntk}


def as_is(model, X, method, target, **options):
    people = X[model.scores(X) < target][:25]
    given = hf.find_recourse(
        *(model, people, method),
        target=target,
        actionability=FREE,
        overshoot="as-is",
        random_state=0,
        **options,
    )
    return people, given


@pytest.mark.parametrize("kind", ["linear", "logistic", "ntk"])
@pytest.mark.parametrize("method", list(published.PUBLISHED))
def test_points_are_valid_and_say_how_far_they_go(world, method, kind):
    X, models = world
    model = models[kind]
    target = float(np.median(model.training_scores))
    people, given = as_is(model, X, method, target)
    assert given.valid.any()
    assert (model.scores(given.points[given.valid]) >= target).all()
    past = (model.scores(given.points) - target) / model.score_unit
    np.testing.assert_allclose(given.overshoot_reached[given.valid], past[given.valid], atol=1e-9)
    assert given.overshoot == pytest.approx(float(np.median(past[given.valid])))
    assert list(given.people.index) == list(people.index)


@pytest.mark.parametrize("kind", ["linear", "logistic", "ntk"])
def test_scfe_is_adam_up_to_the_first_valid_point(world, kind):
    X, models = world
    model, target = models[kind], float(np.median(models[kind].training_scores))
    people, given = as_is(model, X, "scfe", target)
    spans = np.ptp(X.to_numpy(), axis=0)
    unit = model.score_unit
    for name in people.index[:8]:
        x = people.loc[name].to_numpy()
        u = np.zeros(4)
        m, v, top = np.zeros(4), np.zeros(4), np.zeros(4)
        for t in range(1, 1001):
            z = (x + u * spans)[None]
            if model.scores(z)[0] >= target:
                break
            f, slopes = model.scores(z)[0], model.score_gradients(z)[0] * spans
            # of −log p, or of the squared distance to the target
            g = (
                -slopes / (1 + np.exp(f))
                if kind == "logistic"
                else 2 * (f - target) * slopes / unit**2
            )
            g = g + 0.01 * np.sign(u)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            top = np.maximum(top, v)
            u = u - 0.01 / (1 - 0.9**t) * m / (np.sqrt(top / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(given.points.loc[name], z[0], atol=1e-8)


def test_scfe_leaves_columns_of_zeros_and_ones_alone():
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.uniform(size=200), "b": rng.integers(0, 2, 200).astype(float)})
    y = X["a"] + 2.0 * X["b"] + 0.2 * rng.normal(size=200)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    people, given = as_is(model, X, "scfe", float(np.median(y)))
    assert (given.points["b"] == people["b"]).all()
    assert (given.points["a"] != people["a"]).any()


@pytest.mark.parametrize("target", [0.0, -1.0])
def test_cem_is_sure_in_probability_where_there_is_one(world, target):
    X, models = world
    model = models["logistic"]
    _, given = as_is(model, X, "cem", target)

    def probability(score):
        return 1 / (1 + np.exp(-score))

    sure = probability(model.scores(given.points[given.valid]))
    assert given.valid.any()
    assert (sure >= probability(target) + 0.1 - 1e-9).all()


def test_cem_keeps_the_least_point_that_is_valid_by_its_confidence(world):
    X, models = world
    model, target = models["linear"], float(np.median(models["linear"].training_scores))
    people, given = as_is(model, X, "cem", target)
    spans, unit = np.ptp(X.to_numpy(), axis=0), model.score_unit
    assert (given.overshoot_reached[given.valid] >= 0.1 - 1e-9).all()
    for name in people.index[:4]:
        x, c, low, high = people.loc[name].to_numpy(), 10.0, 0.0, np.inf
        best, least = None, np.inf
        for _ in range(9):
            u, v, found = np.zeros(4), np.zeros(4), False
            for t in range(100):
                z = (x + v * spans)[None]
                short = model.scores(z)[0] < target + 0.1 * unit
                g = 2 * v - c * short * model.score_gradients(z)[0] * spans / unit
                w = v - 0.01 * np.sqrt(1 - t / 100) * g
                w = np.sign(w) * np.maximum(np.abs(w) - 0.9, 0)
                v, u = w + t / (t + 3) * (w - u), w
                z = (x + u * spans)[None]
                far = u @ u + 0.9 * np.abs(u).sum()
                if model.scores(z)[0] >= target + 0.1 * unit:
                    found = True
                    if far < least:
                        best, least = z[0], far
            low, high = (low, min(high, c)) if found else (max(low, c), high)
            c = 0.5 * (low + high) if np.isfinite(high) else 10 * c
        if best is None:
            assert not given.valid[name]
        else:
            np.testing.assert_allclose(given.points.loc[name], best, atol=1e-8)


def test_growing_spheres_stops_in_the_first_shell_with_a_valid_point(world):
    X, models = world
    model, target = models["linear"], float(np.median(models["linear"].training_scores))
    people, given = as_is(model, X, "growing-spheres", target)
    spans = np.ptp(X.to_numpy(), axis=0)
    away = np.linalg.norm((given.points - people) / spans, axis=1)
    slope = np.linalg.norm(model.score_gradients(people) * spans, axis=1)
    nearest = (target - model.scores(people)) / slope  # of all valid points, along the gradient
    assert (away >= nearest - 1e-9).all()
    # a thousand draws miss a shell only where next to nothing of it is valid
    assert (np.floor(away / 0.2) <= np.floor(nearest / 0.2) + 1).all()


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("actionable", {}, "is for methods with a published implementation"),
        ("scfe", {"max_changed": 2}, "max_changed and ways are not known"),
        ("scfe", {"ways": 2}, "max_changed and ways are not known"),
        ("scfe", {"exact": True}, "exact"),
    ],
)
def test_what_published_implementations_do_not_know(world, method, options, words):
    X, models = world
    with pytest.raises(hf.HoldfastError, match=words):
        as_is(models["linear"], X, method, 1.0, **options)

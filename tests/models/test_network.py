"""Networks: derivatives against finite differences, the jackknife against refits."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

import holdfast as hf
from holdfast.estimators.from_torch import torch_network
from holdfast.models.erasable import ErasableModel

ACTIVATIONS = ["logistic", "tanh", "relu", "identity"]


def problem(rng, n=200, d=4):
    X = rng.normal(size=(n, d))
    y = np.tanh(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, y, rng.normal(size=(15, d))


def fitted(kind, X, y, activation="logistic", hidden=6, alpha=1.0, **weights):
    net = kind(
        hidden_layer_sizes=np.atleast_1d(hidden).tolist(),
        activation=activation,
        solver="lbfgs",
        alpha=alpha,
        max_iter=20_000,
        tol=1e-9,
        random_state=0,
    )
    return net.fit(X, y, **weights)


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("weighted", "hidden"), [(False, 6), (True, 6), (True, (3, 4, 2))])
def test_derivatives_against_finite_differences(kind, activation, weighted, hidden, rng):
    X, y, Q = problem(rng, n=60)
    y = (y > 0).astype(int) if kind is MLPClassifier else y
    weights = rng.uniform(0.5, 2.0, size=60) if weighted else None
    net = fitted(kind, X, y, activation, hidden, sample_weight=weights)
    core = ErasableModel(net, X, y, sample_weight=weights).core
    theta = core.theta + 0.05 * rng.normal(size=core.theta.size)
    eye, step = np.eye(theta.size), 1e-6

    def numeric(function):
        return np.stack(
            [(function(theta + step * e) - function(theta - step * e)) for e in eye]
        ) / (2 * step)

    np.testing.assert_allclose(core.problem.gradient(theta), numeric(core.problem.value), atol=1e-5)
    np.testing.assert_allclose(
        core.hessian(theta), numeric(core.problem.gradient), atol=2e-5, rtol=1e-5
    )
    np.testing.assert_allclose(
        core.network.parameter_gradients(theta, Q),
        numeric(lambda at: core.network.scores(at, Q)).T,
        atol=1e-6,
    )
    V = rng.normal(size=(theta.size, 2))
    H = core.hessian(theta)
    np.testing.assert_allclose(core.problem.products(theta)(V), H @ V, atol=1e-8)
    np.testing.assert_allclose(
        core.network.along(theta, Q, V[:, 0]),
        core.network.parameter_gradients(theta, Q) @ V[:, 0],
        atol=1e-10,
    )
    np.testing.assert_allclose(
        core.network.input_jacobian(theta, Q).reshape(*Q.shape, -1),
        np.moveaxis(numeric(lambda at: core.network.input_gradients(at, Q)), 0, 2),
        atol=1e-6,
    )


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
@pytest.mark.parametrize("activation", ["logistic", "tanh", "relu"])
def test_input_gradients_against_finite_differences(kind, activation, rng):
    X, y, Q = problem(rng)
    y = (y > 0).astype(int) if kind is MLPClassifier else y
    model = ErasableModel(fitted(kind, X, y, activation), X, y)
    steps = 1e-6 * np.eye(4)
    numeric = [(model.scores(Q + e) - model.scores(Q - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(model.score_gradients(Q), np.column_stack(numeric), atol=1e-6)


def test_objective_is_scikit_learns(rng):
    """The loss scikit-learn reports, times n: sums, not means, and biases not penalised."""
    X, y, _ = problem(rng)
    for kind, labels in ((MLPRegressor, y), (MLPClassifier, (y > 0).astype(int))):
        net = fitted(kind, X, labels, alpha=0.7)
        core = ErasableModel(net, X, labels).core
        assert core.drift < 1e-2
        np.testing.assert_allclose(core.problem.value(core.theta), net.loss_ * len(X), rtol=1e-6)


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
@pytest.mark.parametrize("of", ["scores", "gradients"])
def test_jackknife_is_the_derivative_of_honest_refits(kind, of, rng):
    """Down-weight one row a little, refit to the optimum: the slope is the jackknife's column."""
    X, y, Q = problem(rng)
    y = (y > 0).astype(int) if kind is MLPClassifier else y
    model = hf.erasable(fitted(kind, X, y), X, y)
    step, row = 1e-4, 17
    read = ErasableModel.scores if of == "scores" else ErasableModel.score_gradients

    def at(weight):
        weights = np.ones(len(X))
        weights[row] = weight
        return read(ErasableModel(model.core.polished(), X, y, sample_weight=weights), Q)

    slope = (at(1 + step) - at(1 - step)) / (2 * step)
    columns = model.deletions(Q, of=of).columns(np.array([row])).reshape(slope.shape)
    np.testing.assert_allclose(columns, slope, atol=1e-5 * np.abs(slope).max())


def test_effect_is_read_off_at_the_moved_weights(rng):
    X, y, Q = problem(rng)
    model = hf.erasable(fitted(MLPRegressor, X, y), X, y)
    rows = np.array([3, 4, 5])
    core = model.core
    moved = core.theta + np.linalg.solve(
        core.hessian(core.theta), core.problem.row_gradients(core.theta)[rows].sum(axis=0)
    )
    there = core.network.scores(moved, Q)
    np.testing.assert_allclose(
        model.deletions(Q).effect(rows), model.scores(Q) - there, rtol=1e-6, atol=1e-10
    )


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_jackknife_correlates_with_refits(kind, rng):
    X, y, Q = problem(rng, n=600)
    labels = (y > 0).astype(int) if kind is MLPClassifier else y
    model = hf.erasable(fitted(kind, X, labels, alpha=10.0, hidden=10), X, labels)
    predicted = model.deletions(Q).single_effects()
    rows = np.argsort(-np.abs(predicted).max(axis=0))[:10]
    true = np.column_stack([model.scores(Q) - model.without(i).scores(Q) for i in rows])
    assert np.corrcoef(predicted[:, rows].ravel(), true.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_two_hidden_layers_correlate_with_refits(kind, rng):
    X, y, Q = problem(rng, n=400)
    labels = (y > 0).astype(int) if kind is MLPClassifier else y
    model = hf.erasable(fitted(kind, X, labels, "tanh", (6, 4), alpha=10.0), X, labels)
    deletions = model.deletions(Q)
    assert deletions.how == f"jackknife with the full Hessian of {model.core.theta.size} parameters"
    for size in (1, 5):
        sets = [rng.choice(400, size, replace=False) for _ in range(6)]
        predicted = np.array([deletions.effect(rows) for rows in sets])
        true = np.array([model.scores(Q) - model.without(rows).scores(Q) for rows in sets])
        assert np.corrcoef(predicted.ravel(), true.ravel())[0, 1] > 0.99


def test_large_perceptrons_go_by_conjugate_gradients(rng, monkeypatch):
    X, y, Q = problem(rng)
    net = fitted(MLPRegressor, X, y, "tanh", (5, 4), alpha=5.0)
    small = hf.erasable(net, X, y)
    monkeypatch.setattr("holdfast.models.networks.optimum.FULL", 5)
    monkeypatch.setattr("holdfast.models.networks.core.FULL", 5)
    large = hf.erasable(net, X, y)
    assert large.algebra == "jackknife by conjugate gradients"
    for of in ("scores", "gradients"):
        wanted = small.deletions(Q, of=of).effect([3, 4])
        found = large.deletions(Q, of=of).effect([3, 4])
        np.testing.assert_allclose(found, wanted, atol=1e-3 * np.abs(wanted).max())
    plan = hf.search(large, Q[:5], target=float(np.median(large.scores(Q))), max_deletions=2,
                     method="greedy")  # fmt: skip
    assert len(plan.rows) == 2


def test_new_seeds_are_shown_in_the_audit(rng):
    """With nobody erased, a cold refit ends at another optimum: what that breaks is said."""
    X, y, _ = problem(rng, n=50)
    model = ErasableModel(fitted(MLPRegressor, X, y, "tanh", (4, 3), alpha=0.3), X, y)
    people = X[model.scores(X) < 0.3][:4]
    given = hf.find_recourse(model, people, target=0.3, overshoot=0.0, random_state=0)
    result = hf.audit(model, given, target=0.3, max_deletions=1, search="greedy", draws=2,
                      certify=False, random_state=0)  # fmt: skip
    assert result.seeds.draws == 3
    assert result.seeds.mean > 0
    assert f"other seeds alone break {result.seeds.mean:.0%}".replace("%", " %") in result.headline


def test_certificates_name_shards(rng):
    X, y, Q = problem(rng, n=60)
    model = hf.erasable(fitted(MLPRegressor, X, y), X, y)
    proof = hf.certify(model, Q[:3], target=float(model.scores(Q[:3]).min()), max_deletions=1)
    assert proof.limit == 0
    assert "hf.ShardedClassifier" in proof.limit_reason


def test_module_options_are_for_modules(rng):
    X, y, _ = problem(rng, n=60)
    with pytest.raises(hf.HoldfastError, match="MLPRegressor has its own: leave them out"):
        hf.erasable(fitted(MLPRegressor, X, y), X, y, loss="squared")


def test_without_torch_it_is_said_what_to_install(rng, monkeypatch):
    X, y, _ = problem(rng, n=60)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "holdfast.estimators.torch_network", raising=False)
    with pytest.raises(hf.HoldfastError, match=r"torch.nn.Module, got object"):
        hf.TorchRegressor(object()).fit(X, y)
    with pytest.raises(hf.HoldfastError, match=r"pip install 'holdfast\[torch\]'"):
        torch_network()


def test_refits_start_from_the_polished_weights_or_from_scratch(rng):
    X, y, Q = problem(rng, n=100)
    model = hf.erasable(fitted(MLPRegressor, X, y, alpha=0.05, hidden=8), X, y)
    near = np.abs(model.scores(Q) - model.without(3).scores(Q)).max()
    assert near < 0.5
    own = fitted(MLPRegressor, np.delete(X, 3, 0), np.delete(y, 3), alpha=0.05, hidden=8)
    fresh = model.without(3, start="scratch")
    np.testing.assert_allclose(fresh.estimator.predict(Q), own.predict(Q))
    assert model.without(3).estimator.warm_start is False


def test_directions_the_loss_does_not_see_are_left_out(rng):
    """Without a penalty a linear network has many parametrisations of the same least squares."""
    X, y, Q = problem(rng, n=60)
    model = ErasableModel(fitted(MLPRegressor, X, y, "identity", hidden=2, alpha=0.0), X, y)
    linear = hf.erasable(LinearRegression().fit(X, y), X, y)
    np.testing.assert_allclose(model.scores(Q), linear.scores(Q), atol=1e-6)
    np.testing.assert_allclose(
        model.deletions(Q).single_effects(),
        linear.deletions(Q, method="jackknife").single_effects(),
        atol=1e-6,
    )


def test_no_strict_minimum_is_said(rng, monkeypatch):
    X, y, Q = problem(rng, n=60)
    model = hf.erasable(fitted(MLPRegressor, X, y), X, y)
    bent = model.core.hessian(model.core.theta) - 50.0 * np.eye(model.core.theta.size)
    monkeypatch.setattr(model.core, "hessian", lambda theta: bent)
    with pytest.raises(hf.UnsupportedModelError, match="not positive definite.*alpha"):
        model.deletions(Q)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "poisson"}, "poisson"),
        ({"early_stopping": True, "solver": "adam"}, "early_stopping"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_variants_are_refused(options, message, rng):
    X, y, Q = problem(rng)
    y = np.abs(y) + 0.5
    settings = {"hidden_layer_sizes": (5,), "solver": "lbfgs", "max_iter": 50, **options}
    model = hf.erasable(MLPRegressor(**settings, random_state=0).fit(X, y), X, y)
    assert model.without([0]).scores(Q).shape == (15,)
    with pytest.raises(hf.UnsupportedModelError, match=message):
        model.deletions(Q)


def test_relu_on_a_kink_is_refused_rather_than_guessed(rng):
    X = rng.normal(size=(1000, 8))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=1000) > 0).astype(int)
    model = ErasableModel(fitted(MLPClassifier, X, y, "relu", hidden=10), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="kink"):
        model.deletions(X[:5])


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::holdfast.DriftWarning")
def test_heloc(heloc, rng):
    """30 sigmoid units, α = 10: the paper's network."""
    X, score = heloc
    y = (score > np.median(score)).astype(int)
    train, labels, Q = X[:2000], y[:2000], X[8000:8300]
    net = MLPClassifier(
        (30,), activation="logistic", alpha=10, solver="lbfgs", max_iter=2000, random_state=0
    ).fit(train, labels)
    model = hf.erasable(net, train, labels)
    deletions = model.deletions(Q)
    singles = deletions.single_effects()
    rows = np.r_[np.argsort(-np.abs(singles).max(axis=0))[:4], rng.choice(2000, 4)]
    true = np.array([model.scores(Q) - model.without(i).scores(Q) for i in rows])
    predicted = np.array([deletions.effect(i) for i in rows])
    assert np.corrcoef(predicted.ravel(), true.ravel())[0, 1] > 0.99


@pytest.mark.slow
@pytest.mark.real_data
def test_heloc_with_two_hidden_layers(heloc, rng):
    """Effects of random rows and sets of five against warm refits."""
    X, score = heloc
    y = (score > np.median(score)).astype(int)
    train, labels, Q = X[:2000], y[:2000], X[8000:8200]
    net = MLPClassifier(
        (20, 10), activation="logistic", alpha=30, solver="lbfgs", max_iter=3000, tol=1e-7,
        random_state=0,
    ).fit(train, labels)  # fmt: skip
    model = hf.erasable(net, train, labels)
    deletions = model.deletions(Q)
    for size in (1, 5):
        sets = [rng.choice(2000, size, replace=False) for _ in range(6)]
        true = np.array([model.scores(Q) - model.without(rows).scores(Q) for rows in sets])
        predicted = np.array([deletions.effect(rows) for rows in sets])
        assert np.corrcoef(predicted.ravel(), true.ravel())[0, 1] > 0.99

"""The wide ReLU network: its limit, its derivatives, its refusal."""

import numpy as np
import pytest

import holdfast as hf
from holdfast.estimators.wide import _merged


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 3))
    return X, np.abs(X[:, 0]) + 0.1 * rng.normal(size=60)


def wide(X, y, units=400, **options):
    return hf.WideReLURegressor(units, beta=2.0, **options).fit(X, y)


def test_gradient_of_the_objective(problem, rng):
    X, y = problem
    net = wide(X, y, units=10)
    W = net.weights_ + 0.1 * rng.normal(size=net.weights_.shape)
    weights = rng.uniform(0.5, 2.0, size=60)
    _, gradient = net.objective(W, X, y, weights)
    direction = rng.normal(size=W.shape)
    step = 1e-7
    up, down = (net.objective(W + s * direction, X, y, weights)[0] for s in (step, -step))
    np.testing.assert_allclose((up - down) / (2 * step), np.vdot(gradient, direction), rtol=1e-5)


def test_score_gradients(problem, rng):
    X, y = problem
    model = hf.erasable(wide(X, y), X, y, favourable="low")
    Q = rng.normal(size=(5, 3))
    steps = 1e-7 * np.eye(3)
    numeric = [(model.scores(Q + e) - model.scores(Q - e)) / 2e-7 for e in steps]
    np.testing.assert_allclose(model.score_gradients(Q), np.column_stack(numeric), atol=1e-4)


def test_wider_is_closer_to_the_ntk(problem, rng):
    X, y = problem
    Q = rng.normal(size=(30, 3))
    limit = hf.NTKRegressor(2.0).fit(X, y).predict(Q)
    gaps = [np.abs(wide(X, y, units=k).predict(Q) - limit).mean() for k in (40, 4000)]
    assert gaps[1] < 0.25 * gaps[0]


def test_refit_and_refusal(problem):
    X, y = problem
    model = hf.erasable(wide(X, y, units=200), X, y)
    rest = model.without([0, 1, 2])
    assert rest.rows.n == 57
    assert np.abs(rest.scores(X) - model.scores(X)).max() > 0
    for use in (model.deletions, model.reweighted):
        argument = X if use == model.deletions else np.ones(60)
        with pytest.raises(hf.UnsupportedModelError, match="600 trained weights its Hessian"):
            use(argument)


def test_other_data_are_refused(problem, rng):
    X, y = problem
    with pytest.raises(hf.DataMismatchError, match="before training"):
        hf.erasable(wide(X, y), X, rng.permutation(y))


def test_rows_that_repeat_are_worked_with_once(rng):
    """Equal rows as one, weights added and labels averaged: the same problem but for a constant."""
    X = rng.normal(size=(12, 3))[rng.integers(0, 12, size=50)]
    y, weights = rng.normal(size=50), rng.uniform(0.5, 2.0, size=50)
    net = hf.WideReLURegressor(n_units=40, beta=1.0).fit(X, y, weights)
    points, means, totals = _merged(X, y, weights)
    assert len(points) == len(np.unique(X, axis=0))
    differences = []
    for _ in range(3):
        W = net.start_ + rng.normal(size=net.start_.shape)
        value, gradient = net.objective(W, X, y, weights)
        merged, same = net.objective(W, points, means, totals)
        np.testing.assert_allclose(gradient, same, atol=1e-10)
        differences.append(value - merged)
    np.testing.assert_allclose(differences, differences[0])

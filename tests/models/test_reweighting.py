"""The fit as a function of real-valued row weights, against honest weighted fits."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.models.erasable import ErasableModel

EXACT = [
    LinearRegression(),
    Ridge(2.0, fit_intercept=False),
    KernelRidge(kernel="rbf", alpha=0.5),
    hf.NTKRegressor(1.0),
    hf.LSSVMClassifier(0.3, 0.7),
    LogisticRegression(tol=1e-12, max_iter=10_000),
]
NETWORK = MLPRegressor(
    hidden_layer_sizes=(4,),
    activation="tanh",
    solver="lbfgs",
    alpha=3.0,
    tol=1e-9,
    max_iter=9999,
    random_state=0,
)


def problem(estimator, rng, n=40):
    X, Q = rng.normal(size=(n, 3)), rng.normal(size=(6, 3))
    y = X[:, 0] + rng.normal(size=n)
    return X, (y > 0).astype(int) if is_classifier(estimator) else y, Q


@pytest.mark.parametrize("estimator", EXACT, ids=str)
@pytest.mark.parametrize("base", [False, True], ids=["", "on top of sample weights"])
def test_scores_are_those_of_the_weighted_fit(estimator, base, rng):
    X, y, Q = problem(estimator, rng)
    weights = rng.uniform(0.5, 2.0, size=40) if base else None
    omega = rng.uniform(0.0, 1.5, size=40)
    omega[:3] = 0.0
    model = hf.erasable(
        clone(estimator).fit(X, y, sample_weight=weights), X, y, sample_weight=weights
    )
    total = omega if weights is None else omega * weights
    refit = clone(estimator).fit(X, y, sample_weight=total)
    honest = ErasableModel(refit, X, y, sample_weight=total)
    np.testing.assert_allclose(
        model.reweighted(omega).scores(Q), honest.scores(Q), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(model.reweighted(np.ones(40)).scores(Q), model.scores(Q), rtol=1e-8)


@pytest.mark.parametrize("estimator", [*EXACT, NETWORK], ids=str)
def test_derivatives_against_finite_differences(estimator, rng):
    X, y, Q = problem(estimator, rng)
    model = hf.erasable(clone(estimator).fit(X, y), X, y)
    omega = rng.uniform(0.2, 1.5, size=40)
    derivatives = model.reweighted(omega).derivatives(Q)
    for i in (0, 13, 39):
        e = 1e-5 * np.eye(40)[i]
        up, down = model.reweighted(omega + e).scores(Q), model.reweighted(omega - e).scores(Q)
        np.testing.assert_allclose(
            derivatives[:, i], (up - down) / 2e-5, atol=1e-6 * np.abs(derivatives).max()
        )
    v = rng.normal(size=6)
    np.testing.assert_allclose(model.reweighted(omega).pullback(Q, v), v @ derivatives, atol=1e-10)


@pytest.mark.parametrize("estimator", EXACT, ids=str)
def test_derivatives_at_weight_zero(estimator, rng):
    """One-sided: a row of weight 0 is about to come back."""
    X, y, Q = problem(estimator, rng)
    model = hf.erasable(clone(estimator).fit(X, y), X, y)
    omega = np.ones(40)
    omega[5] = 0.0
    derivative = model.reweighted(omega).derivatives(Q)[:, 5]
    step = 1e-6
    up = model.reweighted(omega + step * np.eye(40)[5]).scores(Q)
    numeric = (up - model.reweighted(omega).scores(Q)) / step
    np.testing.assert_allclose(derivative, numeric, rtol=1e-3, atol=1e-6)


def test_weight_zero_is_a_deletion(rng):
    X, y, Q = problem(LinearRegression(), rng)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    omega = np.ones(40)
    omega[[4, 9]] = 0.0
    np.testing.assert_allclose(
        model.scores(Q) - model.reweighted(omega).scores(Q),
        model.deletions(Q).effect([4, 9]),
        rtol=1e-8,
    )


def test_a_network_follows_the_jackknife_to_second_order(rng):
    X, y, Q = problem(NETWORK, rng)
    model = hf.erasable(clone(NETWORK).fit(X, y), X, y)
    omega = np.ones(40)
    omega[3] = 0.99
    moved = model.reweighted(omega)
    assert not moved.exact
    honest = ErasableModel(model.core.polished(), X, y, sample_weight=omega)
    gap = np.abs(moved.scores(Q) - honest.scores(Q)).max()
    assert gap < 0.05 * np.abs(honest.scores(Q) - model.scores(Q)).max()


def test_weights_that_leave_no_fit_are_refused(rng):
    X, y, _ = problem(LinearRegression(), rng)
    X[:, 2] = 0.0
    X[5, 2] = 1.0
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    omega = np.ones(40)
    omega[5] = 0.0
    with pytest.raises(hf.SingularDeletionError):
        model.reweighted(omega)
    labels = (np.arange(40) == 3).astype(int)
    classifier = hf.erasable(hf.LSSVMClassifier(0.1).fit(X, labels), X, labels)
    with pytest.raises(hf.SingularDeletionError, match="one of the two classes"):
        classifier.reweighted(1.0 - labels)


@pytest.mark.parametrize("v", [np.ones(3), np.full(6, np.nan)])
def test_bad_directions(v, rng):
    X, y, Q = problem(LinearRegression(), rng)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    with pytest.raises(hf.HoldfastError, match="one finite number for each of 6 queries"):
        model.reweighted(np.ones(40)).pullback(Q, v)


def test_queries_pass_through_the_pipeline(rng):
    X, y, Q = problem(LinearRegression(), rng)
    model = hf.erasable(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X, y)
    np.testing.assert_allclose(model.reweighted(np.ones(40)).scores(Q), model.scores(Q))


@pytest.mark.parametrize(
    ("omega", "message"),
    [
        (np.ones(3), "one number for each of 40 rows"),
        (-np.ones(40), "not negative"),
        (np.zeros(40), "nothing is left"),
        (None, "omega is missing"),
    ],
)
def test_bad_weights(omega, message, rng):
    X, y, _ = problem(LinearRegression(), rng)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    with pytest.raises(hf.HoldfastError, match=message):
        model.reweighted(omega)

"""Logistic regression: Newton step and jackknife against refitting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import holdfast as hf
from conftest import relative_error


def problem(rng, n=300, d=5):
    X = rng.normal(size=(n, d))
    y = (rng.random(n) < expit(X @ rng.normal(size=d) + 0.3)).astype(int)
    return X, y, rng.normal(size=(20, d))


def tight(**options):
    return LogisticRegression(tol=1e-10, max_iter=10_000, **options)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_scores_are_those_of_the_optimum(solver, C, intercept, rng):
    X, y, Q = problem(rng)
    fitted = LogisticRegression(
        C=C, solver=solver, fit_intercept=intercept, tol=1e-10, max_iter=10_000
    ).fit(X, y)
    model = hf.erasable(fitted, X, y)
    assert model.drift < 1e-4
    np.testing.assert_allclose(model.scores(Q), fitted.decision_function(Q), atol=1e-4)
    # stationary: the gradient of the penalised likelihood vanishes
    theta = model.core.theta
    phi = np.column_stack([np.ones(len(X)), X]) if intercept else X
    penalty = np.r_[0.0, theta[1:]] / C if intercept else theta / C
    assert np.abs(phi.T @ (y - expit(phi @ theta)) - penalty).max() < 1e-10


@pytest.mark.parametrize("weighted", [False, True])
def test_newton_is_close_and_closer_than_the_jackknife(weighted, rng):
    X, y, Q = problem(rng)
    weights = rng.uniform(0.2, 2.0, size=len(X)) if weighted else None
    model = hf.erasable(tight().fit(X, y, sample_weight=weights), X, y, sample_weight=weights)
    newton, jackknife = model.deletions(Q), model.deletions(Q, method="jackknife")
    errors = []
    for row in np.argsort(-np.abs(newton.single_effects()).max(axis=0))[:10]:
        true = model.scores(Q) - model.without(row).scores(Q)
        errors.append(
            [relative_error(newton.effect(row), true), relative_error(jackknife.effect(row), true)]
        )
    newton_error, jackknife_error = np.max(errors, axis=0)
    assert newton_error < 0.02
    assert newton_error < jackknife_error / 5


def test_one_newton_step_is_what_the_formula_says(rng):
    """C P⁻¹ r is the Newton step of the remaining rows, done by hand."""
    X, y, Q = problem(rng, n=80)
    model = hf.erasable(tight(C=0.5).fit(X, y), X, y)
    rows = np.array([3, 30, 61])
    deletions = model.deletions(Q)
    formula = deletions.columns(rows) @ deletions.solve(rows)
    theta, keep = model.core.theta, np.delete(np.arange(80), rows)
    phi = np.column_stack([np.ones(80), X])
    R = np.diag(np.r_[0.0, np.full(5, 2.0)])
    p = expit(phi @ theta)[keep]
    gradient = phi[keep].T @ (y[keep] - p) - R @ theta
    hessian = (phi[keep].T * (p * (1 - p))) @ phi[keep] + R
    by_hand = np.column_stack([np.ones(len(Q)), Q]) @ np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(formula, -by_hand, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), C=st.sampled_from([0.1, 1.0, 10.0]), size=st.integers(1, 5))
def test_law_effect_approaches_refit(seed, C, size):
    rng = np.random.default_rng(seed)
    X, y, Q = problem(rng, n=200, d=3)
    model = hf.erasable(tight(C=C).fit(X, y), X, y)
    rows = rng.choice(200, size, replace=False)
    true = model.scores(Q) - model.without(rows).scores(Q)
    assert relative_error(model.deletions(Q).effect(rows), true) < 0.05


def test_gradients_of_deletions(rng):
    X, y, Q = problem(rng)
    model = hf.erasable(tight().fit(X, y), X, y)
    true = model.score_gradients(Q) - model.without([5, 6]).score_gradients(Q)
    assert relative_error(model.deletions(Q, of="gradients").effect([5, 6]), true) < 0.02


def test_tiny_curvature_does_no_harm(rng):
    """Rows so far on the right side that v = p(1 − p) is 1e-20: effect 0, not NaN."""
    X, y, Q = problem(rng)
    X = np.vstack([X, np.full((1, 5), 0.0)])
    X[-1] = 300.0 * np.sign(LogisticRegression().fit(X[:-1], y).coef_[0])
    y = np.append(y, 1)
    model = hf.erasable(tight().fit(X, y), X, y)
    effect = model.deletions(Q).effect(len(X) - 1)
    assert np.isfinite(effect).all()
    assert np.abs(effect).max() < 1e-6


def test_early_stop_is_measured_and_said(rng):
    X, y, _ = problem(rng, n=500, d=8)
    loose = LogisticRegression(tol=0.003).fit(X, y)
    with pytest.warns(hf.DriftWarning, match=r"stopped after \d+ iterations"):
        model = hf.erasable(loose, X, y)
    largest = np.abs(model.scores(X) - loose.decision_function(X)).max()
    np.testing.assert_allclose(model.drift, largest / model.scores(X).std(), rtol=1e-6)


def test_favourable_orients_text_labels(rng):
    X, codes, Q = problem(rng)
    y = np.where(codes == 1, "good", "bad")
    fitted = tight().fit(X, y)
    good, bad = (hf.erasable(fitted, X, y, favourable=label) for label in ("good", "bad"))
    np.testing.assert_allclose(good.scores(Q), fitted.decision_function(Q), atol=1e-5)
    np.testing.assert_allclose(bad.scores(Q), -good.scores(Q))
    np.testing.assert_allclose(
        bad.deletions(Q).effect([1, 9]), -good.deletions(Q).effect([1, 9]), rtol=1e-8
    )
    np.testing.assert_allclose(bad.without(3).scores(Q), -good.without(3).scores(Q), rtol=1e-8)


def test_class_weights(rng):
    X, y, Q = problem(rng)
    weights = {0: 3.0, 1: 0.5}
    by_class = hf.erasable(tight(class_weight=weights).fit(X, y), X, y)
    by_row = np.where(y == 1, 0.5, 3.0)
    by_weight = hf.erasable(tight().fit(X, y, sample_weight=by_row), X, y, sample_weight=by_row)
    np.testing.assert_allclose(by_class.scores(Q), by_weight.scores(Q), rtol=1e-8)
    np.testing.assert_allclose(
        by_class.deletions(Q).effect(4), by_weight.deletions(Q).effect(4), rtol=1e-6
    )


def test_balanced_class_weights_are_those_of_the_rows_left(rng):
    X, y, Q = problem(rng)
    balanced = hf.erasable(tight(class_weight="balanced").fit(X, y), X, y)
    before = balanced.scores(Q)
    for rows in ([3], [3, 7, 11], np.flatnonzero(y == 1)[:20]):
        own = tight(class_weight="balanced").fit(np.delete(X, rows, 0), np.delete(y, rows))
        true = before - own.decision_function(Q)
        np.testing.assert_allclose(
            balanced.scores(Q) - balanced.without(rows).scores(Q), true, atol=1e-5
        )
        effect = balanced.deletions(Q).effect(rows)
        assert np.abs(effect - true).max() <= 0.002 * np.abs(true).max() + 1e-6
        np.testing.assert_allclose(
            balanced.core.scores_without(Q, [np.array(rows)])[0], before - true, atol=1e-5
        )


def test_separable_classes_without_a_penalty_have_no_optimum(rng):
    X = rng.normal(size=(50, 2))
    y = (X[:, 0] > 0).astype(int)
    fitted = LogisticRegression(C=np.inf).fit(X, y)
    with pytest.raises(hf.HoldfastError, match="no optimum"):
        hf.erasable(fitted, X, y)


def test_a_weak_penalty_has_an_optimum_however_far(rng):
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] > 0).astype(int)
    options = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}
    model = hf.erasable(LogisticRegression(C=1e5, **options).fit(X, y), X, y)
    assert np.abs(model.scores(X)).max() > 500


def test_no_penalty_with_an_optimum(rng):
    X, y, Q = problem(rng)
    model = hf.erasable(tight(C=np.inf).fit(X, y), X, y)
    true = model.scores(Q) - model.without(8).scores(Q)
    assert relative_error(model.deletions(Q).effect(8), true) < 0.02


def test_one_hot_beside_an_intercept_without_a_penalty(rng):
    level = rng.integers(0, 3, size=300)
    X = np.column_stack([np.eye(3)[level], rng.normal(size=300)])
    y = (rng.random(300) < expit(X[:, 3] + level - 1)).astype(int)
    model = hf.erasable(tight(C=1e6).fit(X, y), X, y)
    true = model.scores(X[:9]) - model.without(8).scores(X[:9])
    assert relative_error(model.deletions(X[:9]).effect(8), true) < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "liblinear", "l1_ratio": 1.0}, "penalty on the intercept"),
    ],
)
def test_variants_without_the_algebra_are_refused(options, message, rng):
    X, y, Q = problem(rng)
    model = hf.erasable(LogisticRegression(**options).fit(X, y), X, y)
    assert model.without([0]).scores(Q).shape == (20,)
    with pytest.raises(
        hf.UnsupportedModelError, match=f"{message}.*What works: scores and without"
    ):
        model.deletions(Q)


def test_reweighted_is_the_weighted_optimum(rng):
    X, y, Q = problem(rng, n=60, d=3)
    omega = rng.uniform(0.0, 1.0, size=60)
    model = hf.erasable(tight().fit(X, y), X, y)
    phi, signs = np.column_stack([np.ones(60), X]), 2 * y - 1

    def objective(theta):
        return omega @ np.logaddexp(0, -signs * (phi @ theta)) + 0.5 * theta[1:] @ theta[1:]

    theta = optimize.minimize(objective, np.zeros(4), tol=1e-12).x
    slow = np.column_stack([np.ones(len(Q)), Q]) @ theta
    np.testing.assert_allclose(model.reweighted(omega).scores(Q), slow, atol=1e-5)


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::holdfast.DriftWarning")
def test_heloc(heloc, rng):
    """Single deletions on real data: Newton within 2 %, clearly closer than the jackknife."""
    X, score = heloc
    y = (score > np.median(score)).astype(int)
    train, Q = X[:8000], X[8000:8500]
    model = hf.erasable(LogisticRegression(max_iter=1000).fit(train, y[:8000]), train, y[:8000])
    assert 0.005 < model.drift < 0.1  # lbfgs stops short of the optimum
    newton, jackknife = model.deletions(Q), model.deletions(Q, method="jackknife")
    worst = np.argsort(-np.abs(newton.single_effects()).max(axis=0))[:10]
    for row in np.r_[worst, rng.choice(8000, 10, replace=False)]:
        true = model.scores(Q) - model.without(row).scores(Q)
        error = relative_error(newton.effect(row), true)
        assert error < 0.02
        assert error < relative_error(jackknife.effect(row), true)

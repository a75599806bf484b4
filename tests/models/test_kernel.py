"""Kernel models against refitting, and their kernels against the definition."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.estimator_checks import parametrize_with_checks

import holdfast as hf
from conftest import EXACT, relative_error
from holdfast.algebra import dual
from holdfast.algebra import kernel_functions as kernels

REGRESSORS = [
    hf.NTKRegressor(beta=2.0),
    KernelRidge(kernel="linear", alpha=0.5),
    KernelRidge(kernel="rbf", alpha=0.3, gamma=0.2),
    KernelRidge(kernel="rbf", alpha=0.3),
    KernelRidge(kernel="poly", degree=2, alpha=1.0),
    KernelRidge(kernel="polynomial", degree=3, coef0=2.0, gamma=0.1),
    KernelRidge(kernel="laplacian", alpha=0.7),
]
CLASSIFIERS = [hf.LSSVMClassifier(gamma=0.3, beta=1.0)]


@parametrize_with_checks([hf.NTKRegressor(), hf.LSSVMClassifier()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def labels(estimator, X, rng):
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X))
    return (y > 0).astype(int) if estimator in CLASSIFIERS else y


@pytest.mark.parametrize("estimator", REGRESSORS + CLASSIFIERS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_effect_equals_refit(estimator, weighted, rng):
    X, Q = rng.normal(size=(60, 4)), rng.normal(size=(7, 4))
    y = labels(estimator, X, rng)
    weights = np.r_[0.0, rng.uniform(0.1, 3.0, size=59)] if weighted else None
    fitted = clone(estimator).fit(X, y, sample_weight=weights)
    model = hf.erasable(fitted, X, y, sample_weight=weights)
    own = fitted.decision_function(Q) if estimator in CLASSIFIERS else fitted.predict(Q)
    np.testing.assert_allclose(model.scores(Q), own, rtol=1e-8)
    for size in (1, 2, 10):
        rows = rng.choice(60, size, replace=False)
        refit = model.without(rows)
        true = model.scores(Q) - refit.scores(Q)
        assert relative_error(model.deletions(Q).effect(rows), true) < EXACT
        slopes = model.score_gradients(Q) - refit.score_gradients(Q)
        assert relative_error(model.deletions(Q, of="gradients").effect(rows), slopes) < EXACT


@pytest.mark.parametrize("estimator", REGRESSORS + CLASSIFIERS, ids=str)
def test_dense_columns_diagonal_and_coupling_agree(estimator, rng):
    X, Q = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    y = labels(estimator, X, rng)
    deletions = hf.erasable(clone(estimator).fit(X, y), X, y).deletions(Q)
    some, everyone = np.array([3, 8, 21]), np.arange(30)
    np.testing.assert_allclose(deletions.dense()[:, some], deletions.columns(some), atol=1e-12)
    P = deletions.block(everyone)
    np.testing.assert_allclose(deletions.diagonal, np.diag(P), rtol=1e-10)
    np.testing.assert_allclose(deletions.coupling(some), P[:, some], atol=1e-12)
    one_by_one = np.column_stack([deletions.effect(i) for i in range(30)])
    np.testing.assert_allclose(deletions.single_effects(), one_by_one, atol=1e-12)


@pytest.mark.parametrize("estimator", REGRESSORS + CLASSIFIERS, ids=str)
def test_gradient_against_finite_differences(estimator, rng):
    X, Q = rng.normal(size=(40, 4)), rng.normal(size=(5, 4))
    y = labels(estimator, X, rng)
    model = hf.erasable(clone(estimator).fit(X, y), X, y)
    step = 1e-6 * np.eye(4)
    numeric = [(model.scores(Q + e) - model.scores(Q - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(model.score_gradients(Q), np.column_stack(numeric), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(REGRESSORS + CLASSIFIERS),
    n=st.integers(12, 40),
    size=st.integers(1, 6),
)
def test_law_effect_equals_refit(seed, kind, n, size):
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(n, 3)), rng.normal(size=(4, 3))
    y = rng.integers(0, 2, size=n) if kind in CLASSIFIERS else rng.normal(size=n)
    if len(np.unique(y)) < 2:
        return
    model = hf.erasable(clone(kind).fit(X, y), X, y)
    rows = rng.choice(n, size, replace=False)
    try:
        predicted = model.deletions(Q).effect(rows)
    except hf.SingularDeletionError:
        assert len(np.unique(np.delete(y, rows))) < 2
        return
    assert relative_error(predicted, model.scores(Q) - model.without(rows).scores(Q)) < EXACT


@pytest.mark.parametrize("estimator", [REGRESSORS[0], *REGRESSORS[2:], *CLASSIFIERS], ids=str)
def test_rows_that_repeat_change_nothing_but_the_time(estimator, rng):
    distinct, Q = rng.normal(size=(25, 4)), rng.normal(size=(7, 4))
    X = distinct[rng.integers(0, 25, size=90)]
    y = labels(estimator, X, rng)
    y = np.where(rng.random(90) < 0.1, 1 - y, y) if estimator in CLASSIFIERS else y
    fitted = clone(estimator).fit(X, y)
    model = hf.erasable(fitted, X, y)
    assert isinstance(model.core.inverse, dual.RepeatedInverse)
    jittered = X + 1e-13 * rng.normal(size=X.shape)  # no two rows are equal any more
    plain = hf.erasable(clone(estimator).fit(jittered, y), jittered, y)
    assert not isinstance(plain.core.inverse, dual.RepeatedInverse)
    np.testing.assert_allclose(model.scores(Q), plain.scores(Q), rtol=1e-7)
    np.testing.assert_allclose(model.score_gradients(Q), plain.score_gradients(Q), rtol=1e-6)
    ours, theirs = model.deletions(Q), plain.deletions(Q)
    np.testing.assert_allclose(ours.dense(), theirs.dense(), atol=1e-7)
    np.testing.assert_allclose(ours.diagonal, theirs.diagonal, rtol=1e-7)
    for rows in ([3], [1, 2, 5, 40], rng.choice(90, 15, replace=False)):
        rows = np.asarray(rows)
        np.testing.assert_allclose(ours.block(rows), theirs.block(rows), atol=1e-7)
        np.testing.assert_allclose(ours.coupling(rows), theirs.coupling(rows), atol=1e-7)
        true = model.scores(Q) - model.without(rows).scores(Q)
        assert relative_error(ours.effect(rows), true) < EXACT
        after = model.core.own_scores_without(Q, [rows] * 7)
        np.testing.assert_allclose(after, model.without(rows).scores(Q), rtol=1e-8)


def test_ntk_is_the_expectation_it_stands_for():
    """K∞(x, x') = E[x·x' 1{w·x ≥ 0} 1{w·x' ≥ 0}] over Gaussian w."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    W = rng.normal(size=(400_000, 3))
    both = ((A @ W.T >= 0).astype(float) @ (B @ W.T >= 0).astype(float).T) / len(W)
    np.testing.assert_allclose(kernels.ntk(A, B), (A @ B.T) * both, atol=0.02)


def test_ntk_details_that_bite():
    X = np.array([[3.0, 4.0], [6.0, 8.0], [-3.0, -4.0], [0.0, 0.0]])
    K = kernels.ntk.gram(X)
    np.testing.assert_array_equal(np.diag(K), [12.5, 50.0, 12.5, 0.0])  # ‖x‖²/2
    assert K[0, 1] == 25.0  # parallel
    assert K[0, 2] == 0.0  # opposite
    assert not K[3].any()
    assert np.isfinite(kernels.ntk.gradient(X, X, np.ones(4))).all()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (kernels.linear, {"metric": "linear"}),
        (kernels.gaussian(0.3), {"metric": "rbf", "gamma": 0.3}),
        (kernels.laplacian(0.3), {"metric": "laplacian", "gamma": 0.3}),
        (
            kernels.polynomial(0.3, 3, 1.5),
            {"metric": "poly", "gamma": 0.3, "degree": 3, "coef0": 1.5},
        ),
    ],
)
def test_kernels_equal_scikit_learns(ours, theirs, rng):
    A, B = rng.normal(size=(300, 5)), rng.normal(size=(20, 5))  # more than one block
    np.testing.assert_allclose(ours(A, B), pairwise_kernels(A, B, **theirs), rtol=1e-10)
    np.testing.assert_allclose(ours.gram(A), pairwise_kernels(A, **theirs), rtol=1e-10, atol=1e-12)


def test_gram_is_symmetric_and_equals_the_blocks(rng):
    A = rng.normal(size=(600, 3))
    K = kernels.ntk.gram(A)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, kernels.ntk(A, A), atol=1e-13)


@pytest.mark.parametrize("estimator", [*REGRESSORS[:3], *CLASSIFIERS], ids=str)
def test_leave_one_out_scores(estimator, rng):
    X = rng.normal(size=(25, 4))
    y = labels(estimator, X, rng)
    weights = np.r_[0.0, rng.uniform(0.5, 2.0, size=24)]
    fitted = clone(estimator).fit(X, y, sample_weight=weights)
    model = hf.erasable(fitted, X, y, sample_weight=weights)
    honest = [model.without(i).scores(X[[i]])[0] for i in range(25)]
    np.testing.assert_allclose(model.leave_one_out_scores(), honest, rtol=1e-7)


def test_the_two_theorems_of_the_paper(rng):
    """Leave-one-out weights of the NTK model (Zhang and Zhang), with β in the corner entry."""
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    beta = 2.0
    G = np.linalg.inv(kernels.ntk(X, X) + beta * np.eye(20))
    i = 7
    shortened = (G - np.outer(G[:, i], G[i]) / G[i, i]) @ y
    refit = hf.NTKRegressor(beta).fit(np.delete(X, i, 0), np.delete(y, i))
    np.testing.assert_allclose(np.delete(shortened, i), refit.dual_coef_, rtol=1e-9)
    assert abs(shortened[i]) < 1e-12


def test_integer_weights_are_repetitions(rng):
    X, y, Q = rng.normal(size=(15, 3)), rng.normal(size=15), rng.normal(size=(4, 3))
    counts = rng.integers(0, 4, size=15)
    weighted = hf.NTKRegressor(1.0).fit(X, y, sample_weight=counts)
    repeated = hf.NTKRegressor(1.0).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(Q), repeated.predict(Q), rtol=1e-9)


def test_other_kernels(rng):
    X, y = rng.normal(size=(10, 10)), rng.normal(size=10)
    fitted = KernelRidge(kernel="precomputed", alpha=10.0).fit(X @ X.T, y)
    with pytest.raises(hf.UnsupportedModelError, match="precomputed.*Supported kernels: linear"):
        hf.erasable(fitted, X @ X.T, y)
    model = hf.erasable(KernelRidge(kernel="sigmoid", alpha=10.0, gamma=0.01).fit(X, y), X, y)
    assert model.without([1]).scores(X).shape == (10,)
    with pytest.raises(hf.UnsupportedModelError, match="only the kernels linear, rbf"):
        model.deletions(X)


def test_linear_kernel_is_solved_in_the_primal(rng):
    """Badly scaled columns, condition 1e12 in the dual."""
    X = rng.normal(size=(80, 4)) * [1.0, 1e2, 1e4, 1e6]
    y = X @ [1.0, 1e-2, 1e-4, 1e-6] + rng.normal(size=80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = KernelRidge(alpha=1.0).fit(X, y)
        model = hf.erasable(fitted, X, y)
    true = model.scores(X) - model.without([3, 4, 5]).scores(X)
    assert relative_error(model.deletions(X).effect([3, 4, 5]), true) < EXACT


def test_lost_digits_are_said(rng):
    X, y = 1e3 * rng.normal(size=(50, 3)), rng.normal(size=50)
    with pytest.warns(hf.DriftWarning, match="badly conditioned.*larger ridge"):
        hf.erasable(hf.NTKRegressor(1e-3).fit(X, y), X, y)


def test_models_can_be_pickled(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = hf.erasable(hf.LSSVMClassifier().fit(X, y), X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).scores(X), model.scores(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [KernelRidge(), KernelRidge(alpha=0.01, kernel="rbf")])
def test_single_precision(dtype, estimator, rng):
    X = rng.normal(size=(100, 3)).astype(dtype)
    y = (X[:, 0] + rng.normal(size=100)).astype(dtype)
    model = hf.erasable(clone(estimator).fit(X, y), X, y)
    assert (
        relative_error(
            model.deletions(X).effect([1, 2]), model.scores(X) - model.without([1, 2]).scores(X)
        )
        < EXACT
    )


@pytest.mark.real_data
def test_ntk_on_heloc(heloc, rng):
    X, y = heloc
    X, y, Q = X[:1500], y[:1500], X[1500:1600]
    model = hf.erasable(hf.NTKRegressor(5.0).fit(X, y), X, y)
    rows = rng.choice(1500, 10, replace=False)
    true = model.scores(Q) - model.without(rows).scores(Q)
    assert relative_error(model.deletions(Q).effect(rows), true) < EXACT


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20, 23])
def test_blocked_cholesky(n, rng, monkeypatch):
    monkeypatch.setattr(dual, "_BLOCK", 8)
    A = rng.normal(size=(n, n + 3))
    matrix = A @ A.T
    expected = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(dual.cholesky_in_place(matrix), expected, atol=1e-10)
    inverse = dual.DualInverse(A @ A.T)
    columns = inverse.columns(np.arange(n))
    monkeypatch.setattr(dual, "_BLOCK", 100)
    inverse.form()
    np.testing.assert_allclose(inverse.columns(np.arange(n)), columns, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(inverse.times(A.T), A.T @ np.linalg.inv(A @ A.T), atol=1e-6)


def test_a_ridge_too_small_is_said(rng):
    X = np.repeat(rng.normal(size=(5, 2)), 4, axis=0)
    with pytest.raises(hf.HoldfastError, match="larger ridge"):
        hf.NTKRegressor(1e-18).fit(X, np.arange(20.0))

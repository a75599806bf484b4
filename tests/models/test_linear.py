"""Least squares and ridge against refitting."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

import holdfast as hf
from conftest import EXACT, relative_error

ESTIMATORS = [
    LinearRegression(),
    LinearRegression(fit_intercept=False),
    Ridge(alpha=2.0),
    Ridge(alpha=0.1, fit_intercept=False),
    Ridge(alpha=1.0, solver="svd"),
]


def honest_drop(model, queries, rows, **kwargs):
    return model.scores(queries) - model.without(rows, **kwargs).scores(queries)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_effect_equals_refit(estimator, weighted, rng):
    X, Q = rng.normal(size=(60, 5)), rng.normal(size=(7, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=60)
    weights = rng.uniform(0.1, 3.0, size=60) if weighted else None
    model = hf.erasable(
        clone(estimator).fit(X, y, sample_weight=weights), X, y, sample_weight=weights
    )
    for size in (1, 2, 5, 10):
        rows = rng.choice(60, size, replace=False)
        assert relative_error(model.deletions(Q).effect(rows), honest_drop(model, Q, rows)) < EXACT


def test_without_is_scikit_learns_own_refit(rng):
    X, Q = rng.normal(size=(50, 4)), rng.normal(size=(6, 4))
    y = X[:, 0] + rng.normal(size=50)
    model = hf.erasable(Ridge(1.5).fit(X, y), X, y)
    rows = [3, 14, 15]
    kept = np.delete(np.arange(50), rows)
    own = Ridge(1.5).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.without(rows).scores(Q), own.predict(Q), rtol=1e-10)
    np.testing.assert_allclose(model.without(rows).estimator.coef_, own.coef_)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(12, 50),
    d=st.integers(1, 6),
    size=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 1e-3, 1.0, 50.0]),
    intercept=st.booleans(),
)
def test_law_effect_equals_refit(seed, n, d, size, alpha, intercept):
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(n, d)), rng.normal(size=(4, d))
    y = rng.normal(size=n)
    fitted = (
        Ridge(alpha, fit_intercept=intercept)
        if alpha
        else LinearRegression(fit_intercept=intercept)
    ).fit(X, y)
    model = hf.erasable(fitted, X, y)
    rows = rng.choice(n, size, replace=False)
    try:
        predicted = model.deletions(Q).effect(rows)
    except hf.SingularDeletionError:
        assert not alpha
        return
    true = honest_drop(model, Q, rows)
    # a remaining design close to singular loses digits in the refit as well as in the formula
    smallest = np.linalg.eigvalsh(model.deletions(Q).block(rows)).min()
    assert relative_error(predicted, true) < EXACT / min(1.0, smallest)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6))
def test_law_order_does_not_matter_and_steps_add_up(seed, size):
    """Deleting S at once equals deleting its rows one after the other."""
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(40, 3)), rng.normal(size=(3, 3))
    y = rng.normal(size=40)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rows = rng.choice(40, size, replace=False)
    at_once = model.deletions(Q).effect(rows)
    np.testing.assert_allclose(model.deletions(Q).effect(rows[::-1]), at_once, rtol=1e-9)
    stepwise, current, left = np.zeros(3), model, list(range(40))
    for row in rows:
        position = left.index(row)
        stepwise += current.deletions(Q).effect(position)
        current = current.without(position)
        left.pop(position)
    np.testing.assert_allclose(stepwise, at_once, atol=1e-9)


@pytest.mark.parametrize(
    "estimator", [LinearRegression(tol=0.0), Ridge(1e-3, solver="svd")], ids=str
)
def test_badly_scaled_columns(estimator, rng):
    """Columns spanning nine orders of magnitude: condition about 1e9."""
    X = rng.normal(size=(300, 7)) * 10.0 ** np.linspace(0, 9, 7)
    w = rng.normal(size=7) / 10.0 ** np.linspace(0, 9, 7)
    y = X @ w + rng.normal(size=300)
    Q = X[:20] * rng.uniform(0.5, 2.0, size=(20, 7))
    model = hf.erasable(estimator.fit(X, y), X, y)
    rows = rng.choice(300, 10, replace=False)
    assert relative_error(model.deletions(Q).effect(rows), honest_drop(model, Q, rows)) < EXACT


def test_collinear_columns_against_fifty_digits(rng):
    """Condition 1e7 that no scaling removes, against exact arithmetic."""
    base = rng.normal(size=(40, 3))
    X = np.column_stack([base, base @ [1.0, -2.0, 0.5] + 1e-7 * rng.normal(size=40)])
    y = base @ [1.0, 2.0, 3.0] + rng.normal(size=40)
    model = hf.erasable(LinearRegression(tol=0.0).fit(X, y), X, y)
    rows, Q = [4, 9, 17], X[:5]

    def exact_scores(keep):
        with mpmath.workdps(50):
            A = mpmath.matrix(np.column_stack([np.ones(len(keep)), X[keep]]).tolist())
            theta = mpmath.lu_solve(A.T * A, A.T * mpmath.matrix(y[keep].tolist()))
            B = mpmath.matrix(np.column_stack([np.ones(len(Q)), Q]).tolist())
            return B * theta

    everyone, rest = np.arange(40), np.delete(np.arange(40), rows)
    with mpmath.workdps(50):
        true = np.array([float(v) for v in exact_scores(everyone) - exact_scores(rest)])
    assert relative_error(model.deletions(Q).effect(rows), true) < EXACT


def test_truncating_solver_is_polished_and_said(rng):
    """LinearRegression's default tol cuts off columns that are merely in small units."""
    X = rng.normal(size=(200, 5)) * 10.0 ** np.array([0, 0, 3, 6, 9])
    y = X @ (1.0 / 10.0 ** np.array([0, 0, 3, 6, 9])) + rng.normal(size=200)
    fitted = LinearRegression(tol=1e-6).fit(X, y)
    with pytest.warns(hf.DriftWarning, match="scale the features"):
        model = hf.erasable(fitted, X, y)
    assert model.drift > 0.1
    rows = rng.choice(200, 10, replace=False)
    true = honest_drop(model, X[:9], rows)
    assert relative_error(model.deletions(X[:9]).effect(rows), true) < EXACT


@pytest.mark.parametrize("intercept", [True, False])
def test_rank_deficient_design(intercept, rng):
    """All levels one-hot beside an intercept, a constant column and a repeated one."""
    level = rng.integers(0, 4, size=80)
    x = rng.normal(size=(80, 2))
    X = np.column_stack([np.eye(4)[level], x, x[:, 0], np.ones(80)])
    y = level + x @ [1.0, -1.0] + rng.normal(size=80)
    Q = np.column_stack([rng.normal(size=(6, 8))])  # off the row space too
    model = hf.erasable(LinearRegression(fit_intercept=intercept).fit(X, y), X, y)
    np.testing.assert_allclose(model.scores(Q), model.estimator.predict(Q), atol=1e-10)
    rows = rng.choice(80, 10, replace=False)
    own = LinearRegression(fit_intercept=intercept).fit(np.delete(X, rows, 0), np.delete(y, rows))
    true = model.estimator.predict(Q) - own.predict(Q)
    assert relative_error(model.deletions(Q).effect(rows), true) < EXACT


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_columns_far_from_zero(offset, rng):
    """A year, an account number: the intercept is fitted around the mean, not around 0."""
    X = rng.normal(size=(100, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=100)
    X[:, 0] += offset
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rows = rng.choice(100, 5, replace=False)
    assert relative_error(model.deletions(X).effect(rows), honest_drop(model, X, rows)) < EXACT


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_the_caller_owns_is_left_alone(dtype, rng):
    X = rng.normal(size=(50, 3)).astype(dtype)
    y = (X[:, :1] + rng.normal(size=(50, 1))).astype(dtype)  # a column of labels
    fitted = LinearRegression(copy_X=False).fit(X.copy(), y)
    given_X, given_y = X.copy(order="F"), y.copy()
    model = hf.erasable(fitted, given_X, given_y)
    np.testing.assert_array_equal(given_X, X)
    before = model.without([0]).scores(X)
    given_X[:] = given_y[:] = 0
    np.testing.assert_array_equal(model.without([0]).scores(X), before)


def test_positive_coefficients_are_only_refitted(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = hf.erasable(LinearRegression(positive=True).fit(X, y), X, y)
    assert model.without([0]).scores(X).shape == (40,)
    with pytest.raises(hf.UnsupportedModelError, match="constrained"):
        model.deletions(X)


def test_several_targets_are_refused(rng):
    X, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    with pytest.raises(hf.HoldfastError, match="2 targets|one label per row"):
        hf.erasable(Ridge().fit(X, y), X, y[:, 0])


def test_constant_labels(rng):
    X = rng.normal(size=(40, 3))
    assert hf.erasable(Ridge().fit(X, np.ones(40)), X, np.ones(40)).drift < 1e-6


def test_more_features_than_rows(rng):
    X, y = rng.normal(size=(8, 12)), rng.normal(size=8)
    model = hf.erasable(Ridge(0.5).fit(X, y), X, y)
    true = honest_drop(model, X, [2, 5])
    assert relative_error(model.deletions(X).effect([2, 5]), true) < EXACT


def test_single_effects_equal_effect_one_by_one(rng):
    X, Q, y = rng.normal(size=(30, 4)), rng.normal(size=(5, 4)), rng.normal(size=30)
    deletions = hf.erasable(LinearRegression().fit(X, y), X, y).deletions(Q)
    one_by_one = np.column_stack([deletions.effect(i) for i in range(30)])
    np.testing.assert_allclose(deletions.single_effects(), one_by_one, rtol=1e-10)


def test_coupling_is_the_column_of_p(rng):
    X, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    deletions = hf.erasable(Ridge(1.0).fit(X, y), X, y).deletions(X[:2])
    everyone = np.arange(25)
    P = deletions.block(everyone)
    np.testing.assert_allclose(deletions.coupling(np.array([4, 7])), P[:, [4, 7]], atol=1e-14)
    np.testing.assert_allclose(deletions.diagonal, np.diag(P), atol=1e-14)


def test_a_row_that_spans_a_direction_cannot_go(rng):
    X = np.column_stack([rng.normal(size=30), np.zeros(30)])
    X[17, 1] = 1.0
    y = rng.normal(size=30)
    deletions = hf.erasable(LinearRegression().fit(X, y), X, y).deletions(X[:3])
    with pytest.raises(hf.SingularDeletionError, match=r"rows \[17\] cannot be deleted") as caught:
        deletions.effect([2, 17, 20])
    assert caught.value.rows == (17,)
    singles = deletions.single_effects()
    assert np.isnan(singles[:, 17]).all()
    assert np.isfinite(np.delete(singles, 17, axis=1)).all()


def test_near_singular_is_refused_rather_than_divided_by(rng):
    X = np.column_stack([rng.normal(size=30), 1e-12 * rng.normal(size=30)])
    X[5, 1] = 1.0
    y = rng.normal(size=30)
    deletions = hf.erasable(LinearRegression(tol=0.0).fit(X, y), X, y).deletions(X[:3])
    with pytest.raises(hf.SingularDeletionError, match=r"\[5\]"):
        deletions.effect(5)


def test_jackknife_is_the_derivative_in_the_weight(rng):
    X, Q = rng.normal(size=(40, 3)), rng.normal(size=(4, 3))
    y = rng.normal(size=40)
    model = hf.erasable(Ridge(1.0).fit(X, y), X, y)
    jackknife = model.deletions(Q, method="jackknife").single_effects()
    np.testing.assert_allclose(jackknife, model.reweighted(np.ones(40)).derivatives(Q), rtol=1e-9)


def test_leave_one_out_scores(rng):
    X, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    weights = rng.uniform(0.5, 2.0, size=25)
    model = hf.erasable(
        LinearRegression().fit(X, y, sample_weight=weights), X, y, sample_weight=weights
    )
    honest = [model.without(i).scores(X[[i]])[0] for i in range(25)]
    np.testing.assert_allclose(model.leave_one_out_scores(), honest, rtol=1e-9)


def test_favourable_low_turns_the_scores_round(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    fitted = Ridge(1.0).fit(X, y)
    up, down = hf.erasable(fitted, X, y), hf.erasable(fitted, X, y, favourable="low")
    np.testing.assert_allclose(down.scores(X), -up.scores(X))
    np.testing.assert_allclose(down.score_gradients(X), -up.score_gradients(X))
    np.testing.assert_allclose(down.deletions(X).effect([1, 2]), -up.deletions(X).effect([1, 2]))
    np.testing.assert_allclose(down.without([1]).scores(X), -up.without([1]).scores(X))


@pytest.mark.real_data
@pytest.mark.parametrize("size", [1, 3, 10])
def test_heloc(heloc, size, rng):
    X, y = heloc
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    rows = rng.choice(len(X), size, replace=False)
    true = honest_drop(model, X[:200], rows)
    assert relative_error(model.deletions(X[:200]).effect(rows), true) < EXACT


@pytest.mark.real_data
def test_admission_has_rank_eleven_of_twelve(admission, rng):
    X, y = admission
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    assert (X.shape[1], model.core.design.rank) == (12, 11)
    rows = rng.choice(len(X), 10, replace=False)
    true = honest_drop(model, X[:200], rows)
    assert relative_error(model.deletions(X[:200]).effect(rows), true) < EXACT

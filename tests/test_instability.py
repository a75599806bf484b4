"""The measures of the paper, and its propositions against what they bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import holdfast as hf
from conftest import relative_error
from holdfast import propositions as bounds
from holdfast.instability import first_order_recourse


def problem(rng, n=40, d=4, intercept=True, offset=1.0):
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + rng.normal(size=n) + offset * intercept
    model = hf.erasable(LinearRegression(fit_intercept=intercept).fit(X, y), X, y)
    return model, rng.normal(size=(9, d))


@pytest.mark.parametrize("by", ["refit", "algebra"])
def test_outcome_instability(by, rng):
    model, Q = problem(rng)
    after = model.without([3, 4]).scores(Q)
    before = model.scores(Q)
    target = float(np.median(before))
    plain = hf.outcome_instability(model, Q, [3, 4], by=by)
    np.testing.assert_allclose(plain.values, np.abs(before - after), atol=1e-9)
    assert plain.initially_invalid == 0
    counted = hf.outcome_instability(model, Q, [3, 4], target=target, by=by)
    valid = before >= target
    assert counted.initially_invalid == int((~valid).sum())
    assert counted.total == pytest.approx(np.abs(before - after)[valid].sum())
    binary = hf.outcome_instability(model, Q, [3, 4], target=target, kind="binary", by=by)
    assert binary.total == np.sum(after[valid] < target)
    rate = hf.invalidation_rate(model, Q, target, [3, 4], by=by)
    assert rate == pytest.approx(binary.total / valid.sum())


def test_no_valid_recourse(rng):
    model, Q = problem(rng)
    assert np.isnan(hf.invalidation_rate(model, Q, 1e9, [3]))


@pytest.mark.parametrize("p", [1, 2, 3.5, np.inf])
def test_action_instability_recomputes_recourse(p, rng):
    model, people = problem(rng)
    target = 2.0
    refit = model.without([5])

    def by_hand(m):
        w, f = m.score_gradients(people), m.scores(people)
        return people + ((target - f) / np.sum(w**2, axis=1))[:, None] * w

    expected = np.linalg.norm(by_hand(model) - by_hand(refit), ord=p, axis=1)
    measured = hf.action_instability(model, people, [5], target=target, p=p)
    np.testing.assert_allclose(measured.values, expected)
    own = hf.action_instability(
        model, people, [5], target=target, p=p, method=lambda m, x: by_hand(m)
    )
    np.testing.assert_allclose(own.values, expected)


def test_first_order_recourse_reaches_the_target(rng):
    model, people = problem(rng)
    np.testing.assert_allclose(model.scores(first_order_recourse(model, people, 3.0)), 3.0)


def test_bad_arguments(rng):
    model, Q = problem(rng)
    with pytest.raises(hf.HoldfastError, match="p must be at least 1"):
        hf.action_instability(model, Q, [1], target=0.0, p=0.5)
    with pytest.raises(hf.HoldfastError, match="pass target="):
        hf.outcome_instability(model, Q, [1], kind="binary")
    with pytest.raises(hf.HoldfastError, match="by must be"):
        hf.outcome_instability(model, Q, [1], by="guess")
    with pytest.raises(hf.HoldfastError, match="kind must be"):
        hf.outcome_instability(model, Q, [1], kind="ternary")
    with pytest.raises(hf.HoldfastError, match="method must be"):
        hf.action_instability(model, Q, [1], target=0.0, method="magic")


def worst_outcome(model, Q):
    return np.max(
        [np.abs(model.scores(Q) - model.without(i).scores(Q)) for i in range(model.rows.n)], axis=0
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_proposition_1(intercept, rng):
    model, Q = problem(rng, intercept=intercept)
    found = bounds.outcome_linear(model, Q)
    np.testing.assert_allclose(found.measured, worst_outcome(model, Q), rtol=1e-8)
    assert np.all(found.ratio >= 1)
    if not intercept:  # exactly the paper's formula
        X, y = model.X, model.y
        A = np.linalg.inv(X.T @ X)
        w = A @ X.T @ y
        h = np.einsum("ij,jk,ik->i", X, A, X)
        d = (X @ A) * ((y - X @ w) / (1 - h))[:, None]
        expected = np.linalg.norm(Q, axis=1) * np.linalg.norm(d, axis=1).max()
        np.testing.assert_allclose(found.bound, expected)


def test_proposition_3(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = hf.erasable(hf.NTKRegressor(2.0).fit(X, y), X, y)
    Q = rng.normal(size=(6, 3))
    found = bounds.outcome_kernel(model, Q)
    np.testing.assert_allclose(found.measured, worst_outcome(model, Q), rtol=1e-8)
    assert np.all(found.ratio >= 1)
    from holdfast.algebra.kernel_functions import ntk

    G = np.linalg.inv(ntk(X, X) + 2.0 * np.eye(30))
    d = G * (G @ y) / np.diag(G)
    expected = np.linalg.norm(ntk(Q, X), axis=1) * np.linalg.norm(d, axis=0).max()
    np.testing.assert_allclose(found.bound, expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.floats(-5, 5),
    intercept=st.booleans(),
    size=st.integers(1, 4),
)
def test_law_the_general_corollary_is_a_bound(seed, target, intercept, size):
    rng = np.random.default_rng(seed)
    model, people = problem(rng, n=15, d=3, intercept=intercept, offset=3.0)
    rows = rng.choice(15, size, replace=False)
    try:
        found = bounds.action_linear(model, people, target, rows=rows)
    except hf.SingularDeletionError:
        return
    honest = hf.action_instability(model, people, rows, target=target).values
    np.testing.assert_allclose(found.measured, honest, rtol=1e-6, atol=1e-9)
    assert np.all(found.bound >= honest * (1 - 1e-9))


def test_the_general_corollary_over_all_single_rows(rng):
    model, people = problem(rng, n=25)
    found = bounds.action_linear(model, people, 1.5)
    honest = [hf.action_instability(model, people, [i], target=1.5).values for i in range(25)]
    np.testing.assert_allclose(found.measured, np.max(honest, axis=0), rtol=1e-7)
    assert np.all(found.ratio >= 1)


def test_the_papers_corollary_where_it_holds_and_refused_elsewhere(rng):
    X = rng.normal(size=(200, 4)) + 1.0
    y = X @ [1.0, 2.0, 0.5, -1.0] + 0.1 * rng.normal(size=200)
    people = rng.normal(size=(8, 4))
    model = hf.erasable(LinearRegression(fit_intercept=False).fit(X, y), X, y)
    found = bounds.action_linear_paper(model, people, 0.0)
    general = bounds.action_linear(model, people, 0.0)
    assert np.all(found.ratio >= 1)
    np.testing.assert_allclose(found.measured, general.measured)
    assert np.all(general.bound <= found.bound)  # about six times tighter
    with pytest.raises(hf.UnsupportedModelError, match="target 0 and no intercept"):
        bounds.action_linear_paper(model, people, 1.0)
    intercept = hf.erasable(LinearRegression().fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="there is an intercept"):
        bounds.action_linear_paper(intercept, people, 0.0)


def test_a_deletion_that_turns_the_weights_around_is_refused():
    X = np.array([[1.0], [1.0], [10.0]])
    y = np.array([1.0, 1.0, -10.0])
    model = hf.erasable(LinearRegression(fit_intercept=False).fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="turns the weights around"):
        bounds.action_linear_paper(model, X, 0.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_proposition_2_by_quadrature(intercept, rng):
    model, people = problem(rng, intercept=intercept)
    for row in (0, 7, 20):
        found = bounds.action_path(model, people, 1.0, row)
        honest = hf.action_instability(model, people, [row], target=1.0).values
        assert relative_error(found.measured, honest) < 1e-6
        assert np.all(found.bound >= honest)


def test_proposition_2_near_and_through_zero():
    X = np.array([[1.0], [1.0], [1.0], [-10.0]])
    y = np.array([1.0, 1.0, 1.0, 0.2966101694915254])
    people = np.array([[0.5]])
    model = hf.erasable(LinearRegression(fit_intercept=False).fit(X, y), X, y)
    found = bounds.action_path(model, people, 1.0, 3)
    assert np.all(found.ratio >= 1)
    y[3] = 3.0  # the weight changes its sign
    model = hf.erasable(LinearRegression(fit_intercept=False).fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="passes through 0"):
        bounds.action_path(model, people, 1.0, 3)


def test_the_jacobian_of_recourse(rng):
    """Its norm at both ends of the path, against finite differences in the weights."""
    model, people = problem(rng)
    path = bounds._linear_path(model, people, np.array([3, 8]))
    ends = {1.0: model, 0.0: model.without([3, 8])}
    for share, at in ends.items():
        w, b = at.estimator.coef_, at.estimator.intercept_

        def change(theta):
            gaps = 1.2 - theta[-1] - people @ theta[:-1]
            return (gaps / (theta[:-1] @ theta[:-1]))[:, None] * theta[:-1]

        numeric = differences(change, np.append(w, b))
        norms = np.linalg.norm(numeric, ord=2, axis=(1, 2))
        np.testing.assert_allclose(path.norms(share, 1.2), norms, rtol=1e-6)


def differences(change, theta):
    steps = 1e-6 * np.eye(theta.size)
    return np.stack([(change(theta + e) - change(theta - e)) / 2e-6 for e in steps], axis=2)


def test_the_jacobian_of_a_kernel_models_recourse(rng):
    X, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    model = hf.erasable(hf.NTKRegressor(beta=1.0).fit(X, y), X, y)
    people, rows = rng.normal(size=(4, 3)), np.array([2, 11])
    core = model.form("kernel")
    duals, moved = core.duals_with_and_without(rows)
    refitted = np.zeros(25)
    refitted[np.setdiff1d(np.arange(25), rows)] = model.without(rows).estimator.dual_coef_
    np.testing.assert_allclose(duals - moved, refitted, atol=1e-10)
    K = core.kernel(people, core.X)
    J = np.stack([core.kernel.jacobian(x[None], core.X).reshape(3, -1) for x in people])
    path = bounds._kernel_path(model, people, rows)
    for share in (0.0, 0.4, 1.0):

        def change(theta):
            slopes = J @ theta
            return ((0.7 - K @ theta) / np.sum(slopes**2, axis=1))[:, None] * slopes

        numeric = differences(change, share * duals + (1 - share) * refitted)
        norms = np.linalg.norm(numeric, ord=2, axis=(1, 2))
        np.testing.assert_allclose(path.norms(share, 0.7), norms, rtol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "logistic", "ntk"])
@pytest.mark.parametrize("rows", [[4], [1, 5, 9], list(range(8))])
def test_proposition_2_for_sets_and_other_models(kind, rows, rng):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -0.5, 2.0] + rng.normal(size=60)
    estimators = {
        "linear": LinearRegression(),
        "logistic": LogisticRegression(C=1.0, tol=1e-10, max_iter=5000),
        "ntk": hf.NTKRegressor(beta=1.0),
    }
    labels = (y > 0).astype(int) if kind == "logistic" else y
    model = hf.erasable(estimators[kind].fit(X, labels), X, labels)
    people = rng.normal(size=(6, 3))
    found = bounds.action_path(model, people, 1.0, rows)
    honest = hf.action_instability(model, people, rows, target=1.0).values
    assert relative_error(found.measured, honest) < 1e-6
    assert np.all(found.bound >= honest)
    words = "one deletion" if len(rows) == 1 else f"one set of {len(rows)} deletions"
    assert words in found.assumptions


def test_proposition_2_is_refused_with_a_kernel_models_bias(rng):
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    model = hf.erasable(hf.LSSVMClassifier().fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="without a bias"):
        bounds.action_path(model, X[:3], 0.0, [1])


def test_bounds_refuse_other_models(rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    model = hf.erasable(LogisticRegression(tol=1e-8).fit(X, y), X, y)
    for refused in (
        lambda: bounds.outcome_linear(model, X),
        lambda: bounds.action_linear(model, X, 0.0),
        lambda: bounds.outcome_kernel(model, X),
    ):
        with pytest.raises(hf.UnsupportedModelError, match="LogisticRegression"):
            refused()
    ridge = hf.erasable(Ridge(1.0).fit(X, X[:, 0]), X, X[:, 0])
    assert np.all(bounds.outcome_linear(ridge, X[:4]).ratio >= 1)

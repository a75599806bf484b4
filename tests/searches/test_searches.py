"""Searches against brute force, refits, and each other."""

import importlib
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from families import WITH_CHEAP_ALGEBRA as FAMILIES
from holdfast.algebra import running
from holdfast.algebra.boxes import boxes
from holdfast.algebra.units import Units
from holdfast.instability import first_order_change, first_order_recourse
from holdfast.recourse.promises import judged
from holdfast.searches import METHODS
from holdfast.searches.attack import attack_on
from holdfast.searches.optimal import _branch_and_bound, _enumerated

gates = importlib.import_module("holdfast.searches.gates")

EXACT_METHODS = ["greedy-count", "greedy", "greedy-soft", "influence", "gates", "best"]


def posed(model, points, target, objective="outcome", people=None, **options):
    """The attack the model allows on the recourses that reach the target."""
    promises = judged(model, points, target, "attack", people)
    return attack_on(model, promises, Units(model.rows, "row"), objective, **options)


def small(estimator, rng, n=20, q=15, classes=False, subjects=None):
    """A small model and points that sit a little above its target."""
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -0.5, 0.3] + rng.normal(size=n)
    labels = (y > 0).astype(int) if classes else y
    model = hf.erasable(estimator.fit(X, labels), X, labels, subjects=subjects)
    Q = rng.normal(size=(200, 3))
    scores = model.scores(Q)
    target = float(np.median(scores))
    order = np.argsort(np.abs(scores - target - 0.15 * scores.std()))
    return model, Q[order[:q]], target


def share_broken(model, points, target, rows):
    valid = model.scores(points) >= target
    return np.mean(model.without(list(rows)).scores(points[valid]) < target)


def brute_force(model, points, target, k):
    """The largest share any set of at most k rows breaks, by refitting."""
    best = 0.0
    for size in range(1, k + 1):
        for rows in itertools.combinations(range(model.rows.n), size):
            try:
                best = max(best, share_broken(model, points, target, rows))
            except hf.SingularDeletionError:
                continue
    return best


@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_is_optimal(family, rng):
    estimator, classes = FAMILIES[family]
    n, k = (12, 2) if family == "logistic" else (16, 3)
    model, points, target = small(estimator, rng, n=n, q=10, classes=classes)
    plan = hf.search(model, points, target, max_deletions=k, method="optimal")
    for budget in range(1, k + 1):
        truth = brute_force(model, points, target, budget)
        assert plan.predicted[budget] == pytest.approx(truth)
        assert plan.upper[budget] == pytest.approx(truth)
    np.testing.assert_allclose(plan.rerun(), plan.predicted)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_is_optimal_at_twenty_rows(family, rng):
    estimator, classes = FAMILIES[family]
    model, points, target = small(estimator, rng, n=20, q=12, classes=classes)
    plan = hf.search(model, points, target, max_deletions=3, method="optimal", time_limit=600)
    truth = [brute_force(model, points, target, k) for k in (1, 2, 3)]
    np.testing.assert_allclose(plan.predicted[1:], truth)
    np.testing.assert_allclose(plan.upper[1:], truth)


@pytest.mark.slow
def test_optimal_is_optimal_for_networks(rng):
    net = MLPClassifier((2,), "tanh", solver="lbfgs", alpha=2.0, max_iter=5000, random_state=0)
    model, points, target = small(net, rng, n=14, q=8, classes=True)
    plan = hf.search(model, points, target, max_deletions=2, method="optimal", time_limit=600)
    assert plan.predicted[2] == pytest.approx(brute_force(model, points, target, 2))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3), ridge=st.sampled_from([0.1, 1.0]))
def test_law_the_box_contains_every_solution(seed, k, ridge):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(15, 2)), rng.normal(size=15)
    deletions = hf.erasable(Ridge(ridge).fit(X, y), X, y).deletions(X[:1])
    found = boxes(deletions, k)
    if found.limit < k:
        return
    bounds = found.low[k], found.high[k]
    for size in range(1, k + 1):
        for rows in itertools.combinations(range(15), size):
            u = deletions.solve(np.array(rows))
            assert np.all(u >= bounds[0][list(rows)])
            assert np.all(u <= bounds[1][list(rows)])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 4))
def test_law_branch_and_bound_equals_enumeration(seed, k):
    """The two ways of being optimal agree, and neither claims less than is possible."""
    rng = np.random.default_rng(seed)
    model, points, target = small(Ridge(3.0), rng, n=18, q=12)
    attack = posed(model, points, target)
    forever = float("inf")
    _, enumerated = _enumerated(attack, k, [], forever)
    bounds = boxes(attack.sweeps.deletions, k)
    if bounds.limit >= k:
        found, proven = _branch_and_bound(attack, k, [], forever, bounds)
        assert proven == enumerated == attack.value(found)[0]


@pytest.mark.parametrize("family", ["linear", "ntk", "lssvm"])
@pytest.mark.parametrize("method", EXACT_METHODS)
def test_prediction_equals_rerun(family, method, rng):
    estimator, classes = FAMILIES[family]
    model, points, target = small(estimator, rng, n=40, q=30, classes=classes)
    plan = hf.search(model, points, target, max_deletions=5, method=method)
    assert [len(s) for s in plan.sets[:2]] == [0, 1]
    assert all(len(rows) <= k for k, rows in enumerate(plan.sets))
    assert plan.rows is plan.sets[-1]
    np.testing.assert_allclose(plan.rerun(), plan.predicted)
    np.testing.assert_allclose(
        plan.predicted, [share_broken(model, points, target, rows) for rows in plan.sets]
    )


@pytest.mark.parametrize("family", ["linear", "rbf", "lssvm"])
def test_greedy_count_picks_what_refitting_every_candidate_picks(family, rng):
    """The paper's Algorithm 1 done the slow way, ties to the lowest index."""
    estimator, classes = FAMILIES[family]
    model, points, target = small(estimator, rng, n=25, q=20, classes=classes)
    plan = hf.search(model, points, target, max_deletions=4, method="greedy-count")
    gone = []
    for _ in range(4):
        left = [i for i in range(25) if i not in gone]
        counts = [share_broken(model, points, target, [*gone, i]) for i in left]
        gone.append(left[int(np.argmax(counts))])
    assert plan.rows.tolist() == gone


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("objective", ["outcome", "delta"])
def test_optimal_where_the_first_rows_matter_most(seed, objective):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 3))
    y = X @ [1.0, -0.5, 0.3] + rng.normal(size=9)
    X[:2] *= 3
    y[:2] += 3
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    Q = rng.normal(size=(25, 3))
    target = float(np.median(model.scores(Q))) - 0.3
    points = Q[model.scores(Q) >= target]
    plan = hf.search(model, points, target, max_deletions=4, method="optimal", objective=objective)
    deletions = model.deletions(points)
    margins = model.scores(points) - target
    worst = 0.0
    for k in range(1, 5):
        for rows in itertools.combinations(range(9), k):
            try:
                drop = deletions.effect(list(rows))
            except hf.SingularDeletionError:
                continue
            value = np.sum(drop > margins) if objective == "outcome" else np.abs(drop).sum()
            worst = max(worst, float(value))
        assert plan.values[k] == pytest.approx(worst)
        scale = len(points) if objective == "outcome" else 1
        assert plan.upper[k] * scale == pytest.approx(worst)


@pytest.mark.parametrize("method", [*METHODS, "random"])
def test_sets_that_cannot_go_together_are_avoided(method, rng):
    """Categories of two rows each, and a class of three."""
    X = np.column_stack([rng.normal(size=(20, 2)), np.zeros((20, 3))])
    for j in range(3):
        X[[2 * j, 2 * j + 1], 2 + j] = 1.0
    y = X[:, 0] + rng.normal(size=20)
    y[:6] += 5 * rng.normal(size=6)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    target = float(np.median(model.scores(X)))
    plan = hf.search(model, X, target, max_deletions=5, method=method)
    for rows in plan.sets:
        assert not any({2 * j, 2 * j + 1} <= set(rows.tolist()) for j in range(3))
    labels = np.zeros(30, dtype=int)
    labels[[3, 8, 20]] = 1
    Z = rng.normal(size=(30, 2))
    for estimator in (hf.LSSVMClassifier(0.1), LogisticRegression(tol=1e-10)):
        if method == "optimal" and isinstance(estimator, LogisticRegression):
            continue  # thousands of refits
        classifier = hf.erasable(estimator.fit(Z, labels), Z, labels)
        lowest = float(np.min(classifier.scores(Z)))
        plan = hf.search(classifier, Z, lowest, max_deletions=4, method=method)
        assert not {3, 8, 20} <= set(plan.rows.tolist())


def test_best_is_at_least_every_member_and_grows(rng):
    model, points, target = small(LinearRegression(), rng, n=60, q=60)
    plans = {
        name: hf.search(model, points, target, max_deletions=8, method=name)
        for name in ["greedy-count", "greedy", "greedy-soft", "influence", "best"]
    }
    for plan in plans.values():
        assert np.all(plans["best"].predicted >= plan.predicted)
    assert np.all(np.diff(plans["best"].predicted) >= 0)


@pytest.fixture(scope="module")
def diabetes():
    """scikit-learn's diabetes data, recourses 0.3 to 0.6 score deviations past the target."""
    X, y = load_diabetes(return_X_y=True)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    scores, target = model.scores(X), float(np.median(y))
    below = X[scores < target]
    w = model.score_gradients(X[:1])[0]
    rng = np.random.default_rng(0)
    goal = target + rng.uniform(0.3, 0.6, size=len(below)) * scores.std()
    points = below + ((goal - model.scores(below)) / (w @ w))[:, None] * w
    return model, points, target


def test_quality_on_diabetes(diabetes):
    plans = {
        name: hf.search(*diabetes, max_deletions=14, method=name)
        for name in [*EXACT_METHODS, "random"]
    }
    assert plans["greedy-count"].predicted[14] == 0.0  # it stalls: no single row breaks anybody
    assert plans["best"].predicted[14] >= 0.99
    assert plans["gates"].predicted[14] > plans["random"].predicted[14] + 0.5
    for name in ("greedy", "greedy-soft", "influence", "best"):
        assert plans[name].predicted[14] > plans["random"].predicted[14] + 0.8
        assert np.all(plans[name].predicted >= plans["greedy-count"].predicted)
    np.testing.assert_allclose(plans["best"].rerun(), plans["best"].predicted)


def test_best_equals_the_proven_optimum_on_diabetes(diabetes):
    optimal = hf.search(*diabetes, max_deletions=5, method="optimal", time_limit=300)
    best = hf.search(*diabetes, max_deletions=5, method="best")
    np.testing.assert_allclose(optimal.upper, optimal.predicted)
    np.testing.assert_allclose(best.predicted, optimal.predicted)


def test_anytime_bounds_are_bounds(diabetes):
    hurried = hf.search(*diabetes, max_deletions=6, method="optimal", time_limit=0.0)
    best = hf.search(*diabetes, max_deletions=6, method="best")
    assert np.all(hurried.upper >= best.predicted)


# states, tiles, threads ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["linear", "ntk", "lssvm"])
@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_sweeps_agree_with_single_sets(family, copied, threads, rng, monkeypatch):
    """Any T, in any order, by the running copy or by tiles: the same values."""
    if not copied:
        monkeypatch.setattr(running, "RUNNING_COPY", 0)
    monkeypatch.setattr(running, "_TILE", 200)
    estimator, classes = FAMILIES[family]
    model, points, target = small(estimator, rng, n=30, q=20, classes=classes)
    for objective in ("outcome", "delta"):
        attack = posed(model, points, target, objective, threads=threads)
        orders = ([], [4], [4, 9], [4, 9, 2], [9, 2], [9, 2, 4], [], [7], [9], [7, 9], [], [4])
        for gone in (*orders, [9], [4, 9], [4, 9, 2], [1, 2], [4, 9, 2, 1]):
            sweep = attack.sweep(gone)
            for i in range(30):
                if i in gone:
                    assert not sweep.possible[i]
                elif sweep.possible[i]:
                    value, tie = attack.value([*gone, i])
                    assert sweep.value[i] == pytest.approx(value, abs=1e-9)
                    assert sweep.tie[i] == pytest.approx(tie, abs=1e-9)


@pytest.mark.parametrize("family", ["linear", "ntk"])
def test_action_objective_equals_recourse_recomputed(family, rng):
    estimator, _ = FAMILIES[family]
    model, points, target = small(estimator, rng, n=30, q=12)
    people = points - 0.3
    plan = hf.search(
        model, points, target, max_deletions=3, method="greedy", objective="action", people=people
    )
    valid = model.scores(points) >= target
    for k in range(1, 4):
        honest = hf.action_instability(model, people[valid], plan.sets[k], target=target)
        assert plan.values[k] == pytest.approx(honest.total)
    best = hf.search(
        model, points, target, max_deletions=3, method="best", objective="action", people=people
    )
    assert np.all(best.values >= plan.values - 1e-12)
    alone = [
        hf.action_instability(model, people[valid], [i], target=target).total for i in range(30)
    ]
    assert plan.rows[0] == int(np.argmax(alone))


@pytest.mark.parametrize("objective", ["outcome", "delta", "action"])
@pytest.mark.parametrize("family", ["ridge", "ntk", "lssvm"])
def test_gradient_of_the_gates_loss(objective, family, rng):
    """Through w(ω), against finite differences; and validity is what descends (slip 1)."""
    estimator, classes = FAMILIES[family]
    if classes and objective == "action":
        pytest.skip("closed-form recourse of a classifier is not what the paper studies")
    model, points, target = small(estimator, rng, n=30, q=12, classes=classes)
    points = points[model.scores(points) >= target]
    people = points - 0.3
    attack = posed(model, points, target, objective, people)
    omega = rng.uniform(0.0, 1.0, size=30)
    omega[[3, 4]] = 0.0
    omega[[10, 11]] = 1.0
    then = first_order_recourse(model, people, target)

    def value(weights):
        fit = model.reweighted(weights)
        if objective == "outcome":
            return expit((fit.scores(points) - target) / 0.1).mean()
        if objective == "delta":
            return -np.abs(fit.scores(points) - model.scores(points)).mean()
        step = 1e-5 * np.eye(3)
        slopes = np.stack(
            [(fit.scores(people + e) - fit.scores(people - e)) / 2e-5 for e in step], axis=1
        )
        now = people + first_order_change(target - fit.scores(people), slopes)
        return -np.linalg.norm(now - then, axis=1).mean()

    loss = gates._ActionLoss(attack) if objective == "action" else gates._OutcomeLoss(attack, 0.1)
    gradient = loss.deletions.fit_by_weight(np.arange(30)).gradient(loss.slopes, omega)
    for i in range(0, 30, 3):
        e = 1e-5 * np.eye(30)[i]
        down = omega - e if omega[i] > 0 else omega
        numeric = (value(omega + e) - value(down)) / (1e-5 + (omega - down).sum())
        assert gradient[i] == pytest.approx(numeric, rel=2e-3, abs=1e-6)


@pytest.mark.parametrize("objective", ["delta", "action"])
@pytest.mark.parametrize("family", ["linear", "ntk"])
def test_gates_serve_every_objective(objective, family, rng):
    estimator, _ = FAMILIES[family]
    model, points, target = small(estimator, rng, n=60, q=30)
    options = {"max_deletions": 5, "objective": objective, "people": points - 0.3}
    gates = hf.search(model, points, target, method="gates", **options)
    random = np.mean(
        [
            hf.search(
                model,
                points,
                target,
                method=lambda attack, budget, rng: [list(range(k)) for k in range(budget + 1)],
                **options,
            ).values[5]
        ]
    )
    best = hf.search(model, points, target, method="best", **options)
    assert gates.values[5] > random
    assert gates.values[5] > 0.6 * best.values[5]


def test_a_person_without_a_gradient(rng):
    X = rng.normal(size=(20, 2))
    model = hf.erasable(KernelRidge(kernel="rbf", gamma=5.0).fit(X, X[:, 0]), X, X[:, 0])
    far = np.full((2, 2), 1e3)
    options = {"max_deletions": 2, "objective": "action", "people": far}
    with pytest.raises(hf.HoldfastError, match="no gradient"):
        hf.search(model, far, -1.0, **options)
    with pytest.raises(hf.HoldfastError, match="no gradient"):
        hf.action_instability(model, far, [1], target=1.0)


def test_delta_objective_sums_absolute_changes(rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    plan = hf.search(model, points, target, max_deletions=3, method="greedy", objective="delta")
    measured = hf.outcome_instability(model, points, plan.rows, target=target)
    assert plan.values[3] == pytest.approx(measured.total)


# subjects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["linear", "ntk", "lssvm", "logistic"])
def test_subjects_go_with_all_their_rows(family, rng):
    estimator, classes = FAMILIES[family]
    subjects = np.array([f"p{i}" for i in rng.integers(0, 12, size=30)])
    model, points, target = small(estimator, rng, n=30, classes=classes, subjects=subjects)
    plan = hf.search(model, points, target, max_deletions=3, method="greedy", unit="subject")
    for k in range(4):
        assert len(plan.units[k]) == k
        expected = np.flatnonzero(np.isin(subjects, plan.units[k]))
        assert sorted(plan.sets[k]) == expected.tolist()
    np.testing.assert_allclose(plan.rerun(), plan.predicted)
    assert "subjects" in plan.frame()


def test_greedy_by_subject_picks_what_refitting_picks(rng):
    subjects = rng.integers(0, 10, size=30)
    model, points, target = small(LinearRegression(), rng, n=30, subjects=subjects)
    plan = hf.search(model, points, target, max_deletions=1, method="greedy-count", unit="subject")
    names = list(model.rows.rows_of_subject)
    counts = [
        share_broken(model, points, target, model.rows.rows_of_subject[name]) for name in names
    ]
    assert plan.units[1] == [names[int(np.argmax(counts))]]


def test_subjects_with_one_row_each_are_rows(rng):
    model, points, target = small(LinearRegression(), rng, n=30, subjects=np.arange(30) + 100)
    by_row = hf.search(model, points, target, max_deletions=4)
    by_subject = hf.search(model, points, target, max_deletions=4, unit="subject")
    np.testing.assert_allclose(by_row.predicted, by_subject.predicted)


# approximate families and estimators without the algebra ------------------------------------


@pytest.mark.parametrize("method", ["greedy-count", "greedy", "influence", "gates", "best"])
def test_logistic_is_refitted_while_searching(method, rng):
    X = rng.normal(size=(150, 4))
    y = (rng.random(150) < expit(X @ [1.0, -1.0, 0.5, 0.0])).astype(int)
    model = hf.erasable(LogisticRegression(tol=1e-10).fit(X, y), X, y)
    points = X[(model.scores(X) > 0) & (model.scores(X) < 0.3)]
    plan = hf.search(model, points, 0.0, max_deletions=4, method=method)
    np.testing.assert_allclose(plan.rerun(), plan.predicted)
    random = hf.search(model, points, 0.0, max_deletions=4, method="random")
    assert plan.predicted[4] >= random.predicted[4]


def test_a_network_is_searched(rng):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)
    net = MLPClassifier((4,), "tanh", solver="lbfgs", alpha=3.0, max_iter=5000, random_state=0)
    model = hf.erasable(net.fit(X, y), X, y)
    scores = model.scores(X)
    points = X[(scores > 0) & (scores < 0.4)]
    plan = hf.search(model, points, 0.0, max_deletions=3, method="greedy")
    np.testing.assert_allclose(plan.rerun(), plan.predicted)


@pytest.mark.parametrize("method", ["best", "refit"])
def test_boosting_is_attacked_by_refitting(method, rng):
    X = pd.DataFrame(rng.normal(size=(150, 3)), columns=["a", "b", "c"])
    X["kind"] = rng.choice(["x", "y"], size=150)
    y = (X["a"] + 0.5 * (X["kind"] == "x") + 0.3 * rng.normal(size=150) > 0).astype(int)
    X["kind"] = X["kind"].astype("category")
    boosting = HistGradientBoostingClassifier(max_iter=15, random_state=0)
    model = hf.erasable(boosting.fit(X, y), X, y)
    scores = model.scores(X)
    points = X[(scores > 0) & (scores < 1.0)]
    plan = hf.search(model, points, 0.0, max_deletions=2, method=method, leaders=3)
    np.testing.assert_allclose(plan.rerun(), plan.predicted)
    alone = plan.notes["broken by a new seed and row order alone"]
    assert alone.shape == (3,)
    assert np.all((alone >= 0) & (alone <= 1))


def test_weights_of_a_pipeline_without_the_algebra(rng):
    X = rng.normal(size=(60, 2))
    weights = rng.uniform(0.5, 2.0, size=60)
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0))
    pipeline.fit(X, X[:, 0], randomforestregressor__sample_weight=weights)
    model = hf.erasable(pipeline, X, X[:, 0], sample_weight=weights)
    plan = hf.search(model, X, 0.0, max_deletions=3, leaders=2)
    assert np.all(np.diff(plan.predicted) >= 0)


def test_a_forest_has_refit_and_random_only(rng):
    X = rng.normal(size=(60, 2))
    model = hf.erasable(RandomForestRegressor(5, random_state=0).fit(X, X[:, 0]), X, X[:, 0])
    with pytest.raises(hf.UnsupportedModelError, match="'refit' .* 'random'"):
        hf.search(model, X, 0.0, max_deletions=2, method="greedy")
    plan = hf.search(model, X, 0.0, max_deletions=2, method="random", draws=2)
    np.testing.assert_allclose(plan.rerun(), plan.predicted)


# plans --------------------------------------------------------------------------------------


def test_random_reports_mean_and_spread(rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    plan = hf.search(model, points, target, max_deletions=6, method="random", draws=10)
    assert len(plan.draws) == 10
    assert plan.spread.shape == (7,)
    np.testing.assert_allclose(plan.rerun(), plan.predicted)
    again = hf.search(model, points, target, max_deletions=6, method="random", draws=10)
    np.testing.assert_array_equal(plan.predicted, again.predicted)


@pytest.mark.parametrize("method", ["gates", "best", "random"])
def test_seeds_give_the_same_plan(method, rng):
    model, points, target = small(LinearRegression(), rng, n=40)
    plans = [
        hf.search(model, points, target, max_deletions=4, method=method, random_state=7)
        for _ in range(2)
    ]
    assert plans[0].rows.tolist() == plans[1].rows.tolist()


def test_frame_and_plot(rng):
    import matplotlib as mpl

    mpl.use("Agg")
    model, points, target = small(LinearRegression(), rng, n=30)
    plan = hf.search(model, points, target, max_deletions=3, method="optimal")
    assert list(plan.frame().columns) == ["rows", "predicted", "value", "upper"]
    ax = plan.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["predicted (optimal)", "refitted", "proven ceiling"]
    assert "rerun" in plan.frame()
    panels = ax.figure.axes
    assert [panel.get_xlabel() for panel in panels] == [
        "rows deleted",
        f"score without {len(plan.rows)} rows, predicted",
    ]
    _, own = mpl.pyplot.subplots()
    assert plan.plot(own) is own
    mpl.pyplot.close("all")


def test_parallel_rerun(rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    plan = hf.search(model, points, target, max_deletions=4)
    np.testing.assert_allclose(plan.rerun(n_jobs=2), plan.predicted)


def test_pipelines_predict_with_frozen_preprocessing(rng):
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 100.0]
    y = X @ [1.0, 0.1, 0.01] + rng.normal(size=60)
    model = hf.erasable(make_pipeline(StandardScaler(), Ridge(5.0)).fit(X, y), X, y)
    points = X[model.scores(X) > 0]
    plan = hf.search(model, points, 0.0, max_deletions=3)
    np.testing.assert_allclose(plan.rerun(refit_preprocessing=False), plan.predicted)


def test_a_search_of_ones_own(rng):
    def last_rows(attack, budget, rng, skip=0):
        n = len(attack.units)
        return [[n - 1 - skip - i for i in range(k)] for k in range(budget + 1)]

    model, points, target = small(LinearRegression(), rng, n=30)
    plan = hf.search(model, points, target, max_deletions=2, method=last_rows, skip=3)
    assert plan.rows.tolist() == [26, 25]
    assert plan.method == "last_rows"


def test_a_feature_called_points(rng):
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["points", "people"])
    y = X["points"] + rng.normal(size=30)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    assert hf.search(model, X, 0.0, max_deletions=2).max_deletions == 2
    assert hf.outcome_instability(model, X, [1]).values.shape == (30,)


def test_recourse_objects_bring_their_people(rng):
    class Given:
        pass

    model, points, target = small(LinearRegression(), rng, n=30)
    given = Given()
    given.points, given.people = points, points - 0.5
    plan = hf.search(model, given, target, max_deletions=2, method="greedy", objective="action")
    assert plan.values[2] > 0


# bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_deletions": 30}, "from 1 to 29"),
        ({"max_deletions": 0}, "from 1 to 29"),
        ({"max_deletions": 2.5}, "whole number"),
        ({"target": np.nan}, "one finite score"),
        ({"target": "high"}, "one finite score"),
        ({"target": None}, "one finite score"),
        ({"threads": -1}, "threads must be"),
        ({"random_state": "x"}, "random_state must be"),
        ({"method": ["best"]}, "method must be one of"),
        ({"polished": True}, "no option 'polished'; it has polish"),
        ({"method": "greedy-soft", "temperature": 0}, "temperature must be a number above 0"),
        ({"method": "gates", "sigma": 0}, "sigma must be a number above 0"),
        ({"method": "optimal", "time_limit": "a"}, "time_limit must be"),
        ({"method": "random", "draws": 0}, "draws must be a number above 0"),
        ({"method": "random", "objective": "harm"}, "objective must be one of"),
        ({"method": lambda attack, budget, rng: None}, "must return the units"),
        ({"method": lambda attack, budget, rng: [[], [99]]}, "must return the units"),
        ({"method": lambda attack, budget, rng: [[], [1, 1]]}, "must return the units"),
        ({"target": 1e9}, "all 15 are below the target"),
        ({"method": "best-of"}, "method must be one of"),
        ({"objective": "harm"}, "objective must be one of"),
        ({"unit": "household"}, "unit must be"),
        ({"unit": "subject"}, "knows no subjects"),
        ({"objective": "action"}, "pass people="),
        ({"objective": "action", "people": np.ones((3, 3))}, "15 recourses but 3 people"),
        ({"given": np.empty((0, 3))}, "table of recourses is empty"),
        ({"given": np.full((4, 3), np.nan)}, "missing"),
        ({"given": np.ones((4, 2))}, "2 columns"),
    ],
)
def test_bad_input(changes, message, rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    arguments = {"model": model, "given": points, "target": target, "max_deletions": 3, **changes}
    with pytest.raises(hf.HoldfastError, match=message):
        hf.search(**arguments)


def test_one_recourse(rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    valid = points[model.scores(points) >= target]
    plan = hf.search(model, valid[:1], target, max_deletions=3)
    assert set(plan.predicted) <= {0.0, 1.0}


def test_initially_invalid_recourses_are_counted_and_left_out(rng):
    model, points, target = small(LinearRegression(), rng, n=30)
    invalid = int(np.sum(model.scores(points) < target))
    both = np.vstack([points, points - 10 * model.score_gradients(points)])
    plan = hf.search(model, both, target, max_deletions=2)
    assert plan.initially_invalid == invalid + len(points)
    assert plan.predicted[0] == 0.0


def test_rows_that_cannot_go_are_skipped_and_named(rng):
    X = np.column_stack([rng.normal(size=30), np.zeros(30)])
    X[17, 1] = 1.0
    y = X[:, 0] + rng.normal(size=30)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    points = X[model.scores(X) > 0]
    for method in METHODS:
        plan = hf.search(model, points, 0.0, max_deletions=3, method=method)
        assert plan.skipped == [17]
        assert all(17 not in rows for rows in plan.sets)


def test_no_class_is_emptied(rng):
    X = rng.normal(size=(20, 2))
    y = np.zeros(20, dtype=int)
    y[[3, 8]] = 1
    model = hf.erasable(hf.LSSVMClassifier(0.1).fit(X, y), X, y)
    scores = model.scores(X)
    plan = hf.search(model, X, float(np.min(scores)), max_deletions=5, method="greedy")
    assert not {3, 8} <= set(plan.rows.tolist())


@pytest.mark.real_data
def test_heloc_tells_the_papers_story(heloc, rng):
    """Recourses barely past the target: two deletions break most, random ones hardly any."""
    X, y = heloc
    order = rng.permutation(len(X))
    train, rest = order[:7888], order[7888:]
    target = float(np.median(y[train]))
    fitted = LinearRegression().fit(X.iloc[train], y[train])
    model = hf.erasable(fitted, X.iloc[train], y[train])
    people = X.iloc[rest][model.scores(X.iloc[rest]) < target]
    w = model.score_gradients(people.iloc[:1]).to_numpy()[0]
    gap = target + 0.001 * model.scores(X.iloc[train]).std() - model.scores(people)
    points = people + np.outer(gap / (w @ w), w)
    plans = {
        name: hf.search(model, points, target, method=name)
        for name in ("greedy-count", "greedy", "gates", "random")
    }
    assert plans["greedy"].predicted[2] > 0.85
    assert plans["greedy"].predicted[5] > 0.9
    assert plans["random"].predicted[5] < 0.3
    assert plans["gates"].predicted[5] > 0.85
    np.testing.assert_allclose(plans["greedy"].rerun(), plans["greedy"].predicted)


def test_a_search_by_the_jackknife_alone_is_the_papers(rng):
    """Algorithm 1 with w(ω) by the jackknife, written out: effects of rows just add up."""
    model, points, target = small(LogisticRegression(), rng, n=40, classes=True)
    alone = model.deletions(points, method="jackknife").single_effects()
    margins = model.scores(points) - target
    plan = hf.search(model, points, target, 5, method="greedy-count", approximation="jackknife")
    chosen, drop = [], np.zeros(len(margins))
    for k in range(1, 6):
        broken = [
            -1 if i in chosen else int(np.sum(margins < drop + alone[:, i]))
            for i in range(model.rows.n)
        ]
        chosen.append(int(np.argmax(broken)))
        drop += alone[:, chosen[-1]]
        assert plan.sets[k].tolist() == chosen
        assert plan.predicted[k] == max(broken) / len(margins)
    newton = hf.search(model, points, target, 3, approximation="newton")
    refits = [np.mean(model.without(s).scores(points) < target) for s in newton.sets]
    np.testing.assert_allclose(newton.predicted, refits, atol=0.1)


def test_an_approximation_a_model_has_not(rng):
    model, points, target = small(LinearRegression(), rng)
    with pytest.raises(hf.HoldfastError, match="'exact'"):
        hf.search(model, points, target, 2, approximation="magic")
    with pytest.raises(hf.HoldfastError, match="has no use for approximation="):
        hf.search(model, points, target, 2, method="random", approximation="exact")

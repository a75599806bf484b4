"""Every estimator of the family against refits, and the table of what is supported."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import holdfast as hf
from holdfast.algebra.units import Units
from holdfast.models.families import FAMILIES
from holdfast.searches import acting
from holdfast.searches.attack import AlgebraAttack
from holdfast.shared_state import quiet
from supported import ELSEWHERE, EXAMPLES, PAGE, measured, problem

CLOSE = {"tol": 1e-10, "max_iter": 100_000}

#: kernels take a while, networks have tests of their own
SMOOTH = [n for n in EXAMPLES if "network" not in n and n not in ("ntk", "ls-svm", "kernel ridge")]


@pytest.mark.parametrize("name", SMOOTH)
def test_errors_are_within_bounds(name):
    """Largest error over largest effect: 2 % for a row, 5 % for ten, 0.2 % for ``effect``."""
    found = measured(name, n=1200)
    bounds = (1e-8, 1e-8, 1e-8) if found.exact else (0.02, 0.05, 0.002)
    assert found.effect <= bounds[2]
    if not found.sparse:  # features come and go: that is what effect checks
        assert found.single <= bounds[0]
        assert found.ten <= bounds[1]


def test_every_estimator_of_the_registry_has_a_row():
    page = PAGE.read_text(encoding="utf-8")
    named = {type(example.estimator) for example in EXAMPLES.values()}
    for family in FAMILIES:
        for kind in family.estimators:
            if not kind.__module__.startswith(("sklearn", "holdfast")):
                continue  # somebody's own, registered by another test
            known = kind in named or kind.__module__.endswith(ELSEWHERE)
            assert known, f"benchmarks/supported.py has no example of {kind.__name__}"
            assert f"`{kind.__name__}`" in page, kind.__name__


@pytest.mark.parametrize("favourable", ["high", "low"])
def test_log_links_are_scores_of_log_means(favourable):
    X, y = problem("counts", 300)
    fit = PoissonRegressor(alpha=0.1, **CLOSE).fit(X, y)
    model = hf.erasable(fit, X, y, favourable=favourable)
    sign = 1.0 if favourable == "high" else -1.0
    np.testing.assert_allclose(model.scores(X), sign * np.log(fit.predict(X)), atol=1e-6)
    drop = model.scores(X[:5]) - model.without([3, 4]).scores(X[:5])
    np.testing.assert_allclose(model.deletions(X[:5]).effect([3, 4]), drop, rtol=2e-3, atol=1e-9)
    assert model.median_label == pytest.approx(sign * np.log(np.median(y)))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(C=0.5, class_weight="balanced", **CLOSE),
        PoissonRegressor(alpha=0.5, **CLOSE),
        RidgeClassifier(3.0, class_weight="balanced"),
        ElasticNet(0.02, **CLOSE),
    ],
    ids=lambda e: type(e).__name__,
)
def test_sweeps_and_weights_know_what_changes_with_the_rows(estimator):
    """Every candidate's value in a sweep is that of its formula; derivatives are right."""
    X, y = problem("counts" if isinstance(estimator, PoissonRegressor) else "classes", 120)
    if isinstance(estimator, ElasticNet):
        y = X[:, 0] - X[:, 1] + 0.3 * y
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, 120)
    fit = clone(estimator).fit(X, y, sample_weight=weights)
    model = hf.erasable(fit, X, y, sample_weight=weights)
    Q = rng.normal(size=(7, X.shape[1]))
    deletions = model.deletions(Q)
    assert deletions.also is not None
    singles = deletions.single_effects()
    for row in (3, 50):
        true = model.scores(Q) - model.without([row]).scores(Q)
        assert np.abs(singles[:, row] - true).max() <= 0.1 * np.abs(true).max()
    margins = np.full(7, np.abs(singles).max() / 2)
    attack = AlgebraAttack(replace(deletions, move=None), margins, Units(model.rows, "row"))
    for gone in ([], [4], [4, 9]):
        swept = attack.sweep(gone)
        for candidate in (0, 17, 80):
            value = attack.value([*gone, candidate])
            assert swept.value[candidate] == value[0]
            assert swept.tie[candidate] == pytest.approx(value[1], rel=1e-6)
    omega = rng.uniform(0.5, 1.0, 120)
    again, h = model.reweighted(omega), 1e-5
    derivatives = again.derivatives(Q)
    np.testing.assert_allclose(
        again.pullback(Q, np.arange(7.0)), np.arange(7.0) @ derivatives, atol=1e-10
    )
    for row in (2, 77):
        moved = omega.copy()
        moved[row] += h
        up = model.reweighted(moved).scores(Q)
        moved[row] -= 2 * h
        numeric = (up - model.reweighted(moved).scores(Q)) / (2 * h)
        scale = np.abs(derivatives).max()
        np.testing.assert_allclose(derivatives[:, row], numeric, atol=2e-5 * scale)


def test_a_feature_that_comes_in_is_seen():
    """Where the active set changes, the effect is that of solving again."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6))
    y = X[:, 0] + 0.2 * X[:, 1] + rng.normal(0, 0.6, 60)
    fit = Lasso(0.12, **CLOSE).fit(X, y)
    model = hf.erasable(fit, X, y)
    changes = 0
    for row in range(60):
        fresh = clone(fit).fit(np.delete(X, row, 0), np.delete(y, row))
        changes += bool(np.any((fresh.coef_ != 0) != (fit.coef_ != 0)))
        true = fit.predict(X[:9]) - fresh.predict(X[:9])
        np.testing.assert_allclose(model.deletions(X[:9]).effect([row]), true, atol=1e-6)
    assert changes > 0


def test_a_penalty_that_is_chosen_again():
    """Predicted and refitted both choose; who changes the choice is found; proofs keep it."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + rng.normal(0, 1.5, 40)
    X[7], y[7] = 4.0, 9.0
    fit = RidgeCV((0.1, 3.0, 100.0)).fit(X, y)
    model = hf.erasable(fit, X, y)
    effects = model.deletions(X).effect([7])
    fresh = clone(fit).fit(np.delete(X, 7, 0), np.delete(y, 7))
    np.testing.assert_allclose(effects, fit.predict(X) - fresh.predict(X), atol=1e-9)
    kept = model.deletions(X, preprocessing="kept").effect([7])
    assert fresh.alpha_ != fit.alpha_
    assert np.abs(kept - effects).max() > 0.05
    points = X[model.scores(X) > 0.1]
    plan = hf.search(model, points, 0.0, 2)
    np.testing.assert_allclose(plan.predicted, plan.rerun(), atol=1e-9)
    best = max(
        np.mean(clone(fit).fit(np.delete(X, i, 0), np.delete(y, i)).predict(points) < 0)
        for i in range(40)
    )
    assert plan.predicted[1] >= best - 1.01 / len(points)
    proof = hf.certify(model, points, 0.0, 2)
    assert proof.preprocessing == "kept"
    assert "as it was chosen" in " ".join(proof.assumptions)
    result = hf.audit(model, points, 0.0, 2, draws=2)
    assert result.curve.loc[1, "ceiling"] >= best - 1e-9  # every row was tried, choosing again


def test_logistic_cv_keeps_its_choice():
    X, y = problem("classes", 200)
    fit = clone(EXAMPLES["logistic, chosen"].estimator).fit(X, y)
    model = hf.erasable(fit, X, y)
    same = LogisticRegression(C=float(np.ravel(fit.C_)[0]), **CLOSE).fit(X, y)
    plain = hf.erasable(same, X, y)
    np.testing.assert_allclose(
        model.deletions(X[:5]).effect([1, 2]), plain.deletions(X[:5]).effect([1, 2]), rtol=1e-6
    )
    assert model.can.chooses == "dearly"


def test_behind_a_scaler():
    """The whole pipeline, where the loss is an average and where classes are balanced."""
    X, y = problem("classes", 150)
    X = X * [1.0, 30.0, 0.1, 1.0, 5.0] + 10.0
    X[3, 1] = 3000.0
    for final, labels in (
        (LogisticRegression(class_weight="balanced", **CLOSE), y),
        (PoissonRegressor(alpha=0.3, **CLOSE), 1.0 + y),
        (ElasticNet(0.02, **CLOSE), X[:, 0] + y),
        (LinearSVC(C=0.3, **CLOSE), y),
    ):
        fit = make_pipeline(StandardScaler(), final).fit(X, labels)
        model = hf.erasable(fit, X, labels)
        before = model.scores(X[:9])
        for rows in ([3], [3, 60], [11, 12]):
            fresh = model.without(rows)
            np.testing.assert_allclose(
                model.deletions(X[:9]).effect(rows), before - fresh.scores(X[:9]), atol=1e-7
            )


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (LinearSVC(loss="hinge", max_iter=100_000), "not smooth"),
        (SGDClassifier(loss="hinge", random_state=0), "not smooth"),
        (SGDClassifier(loss="log_loss", penalty="l1", random_state=0), "not smooth"),
        (SGDClassifier(loss="log_loss", average=True, random_state=0), "mean of iterates"),
        (ElasticNet(positive=True), "constrained"),
        (TweedieRegressor(power=3.0, max_iter=1000), "not convex"),
    ],
    ids=lambda e: type(e).__name__ if not isinstance(e, str) else e,
)
def test_what_has_no_algebra_says_why_and_is_refitted(estimator, why):
    X, y = problem("classes", 150)
    y = y + 1.0 if isinstance(estimator, TweedieRegressor | ElasticNet) else y
    model = hf.erasable(estimator.fit(X, y), X, y)
    assert not model.can.predicts
    assert why in model.can.why_not
    assert np.isfinite(model.without([1]).scores(X[:3])).all()


def test_data_of_another_fit_are_refused():
    X, y = problem("counts", 200)
    fit = PoissonRegressor(alpha=0.1, **CLOSE).fit(X, y)
    with pytest.raises(hf.DataMismatchError, match="PoissonRegressor"):
        hf.erasable(fit, X, y[::-1].copy())


def test_classes_that_go():
    X, y = problem("classes", 100)
    y[:] = 0
    y[:2] = 1
    fit = LogisticRegression(class_weight="balanced", **CLOSE).fit(X, y)
    model = hf.erasable(fit, X, y)
    with pytest.raises(hf.SingularDeletionError):
        model.deletions(X[:3]).effect([0, 1])


# statsmodels -------------------------------------------------------------------------------------


def results():
    import statsmodels.api as sm

    X, _ = problem("classes", 300)
    exog = sm.add_constant(X)
    classes, counts, amounts, numbers = (
        problem(kind, 300)[1] for kind in ("classes", "counts", "amounts", "numbers")
    )
    log = sm.families.Gamma(sm.families.links.Log())
    return {
        "OLS": (sm.OLS(numbers, exog).fit(), exog, numbers),
        "Logit": (sm.Logit(classes, exog).fit(disp=0, tol=1e-12), exog, classes),
        "Binomial": (sm.GLM(classes, exog, sm.families.Binomial()).fit(), exog, classes),
        "Poisson": (sm.GLM(counts, exog, sm.families.Poisson()).fit(), exog, counts),
        "Gamma": (sm.GLM(amounts, exog, log).fit(), exog, amounts),
    }


@pytest.mark.parametrize("name", ["OLS", "Logit", "Binomial", "Poisson", "Gamma"])
def test_results_of_statsmodels(name):
    import statsmodels.api as sm

    result, exog, y = results()[name]
    model = hf.erasable(result, exog, y)
    z = exog @ result.params
    np.testing.assert_allclose(model.scores(exog), z, atol=1e-6)
    rows = [3, 17, 40]
    keep = np.delete(np.arange(300), rows)
    if name in ("OLS", "Logit"):
        fresh = getattr(sm, name)(y[keep], exog[keep])
        params = fresh.fit().params if name == "OLS" else fresh.fit(disp=0, tol=1e-12).params
    else:
        params = sm.GLM(y[keep], exog[keep], result.model.family).fit(tol=1e-12).params
    true = z - exog @ params
    effect = model.deletions(exog).effect(rows)
    assert np.abs(effect - true).max() <= 0.002 * np.abs(true).max()
    np.testing.assert_allclose(z - model.without(rows).scores(exog), true, atol=1e-6)
    points = exog[z > np.median(z)]
    found = hf.audit(model, points, float(np.median(z)), 2, draws=2)
    assert found.curve["refitted"].iloc[2] > 0


def test_results_that_are_not_supported():
    import statsmodels.api as sm

    _, exog, y = results()["Poisson"]
    probit = sm.Probit((y > 1).astype(int), exog).fit(disp=0)
    with pytest.raises(hf.UnsupportedModelError, match="Probit of statsmodels"):
        hf.erasable(probit, exog, (y > 1).astype(int))
    shifted = sm.GLM(y, exog, sm.families.Poisson(), offset=np.ones(300)).fit()
    with pytest.raises(hf.UnsupportedModelError, match="offset"):
        hf.erasable(shifted, exog, y)


@pytest.mark.slow
def test_a_scorecard_is_linear_in_its_bins():
    optbinning = pytest.importorskip("optbinning")
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = ((X["a"] - X["b"] + rng.logistic(size=300)) > 0).astype(int)
    scorecard = optbinning.Scorecard(
        binning_process=optbinning.BinningProcess(["a", "b"]),
        estimator=LogisticRegression(**CLOSE),
        scaling_method="min_max",
        scaling_method_params={"min": 300, "max": 850},
    ).fit(X, y)
    model = hf.erasable(scorecard, X, y)
    np.testing.assert_allclose(model.scores(X), scorecard.decision_function(X), atol=1e-6)
    fresh = clone(scorecard).fit(X.drop(index=[3, 9]), y.drop(index=[3, 9]))
    true = scorecard.decision_function(X[:9]) - fresh.decision_function(X[:9])
    np.testing.assert_allclose(model.deletions(X[:9]).effect([3, 9]), true, atol=1e-6)


# what somebody found -----------------------------------------------------------------------------


def test_an_l1_penalty_behind_a_scaler():
    """It has no ridge, but its scaler matters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = 2 * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=60)
    X[7, 0], y[7] = 25.0, 50.0
    fit = make_pipeline(StandardScaler(), Lasso(0.3, **CLOSE)).fit(X, y)
    model = hf.erasable(fit, X, y)
    points = X[model.scores(X) > 0]
    fresh = clone(fit).fit(np.delete(X, 7, 0), np.delete(y, 7))
    true = fit.predict(points) - fresh.predict(points)
    np.testing.assert_allclose(model.deletions(points).effect([7]), true, atol=1e-7)
    curve = hf.audit(model, points, 0.0, 1, draws=2).curve
    assert curve.loc[1, "predicted"] == curve.loc[1, "refitted"]


def test_processes_that_take_the_mean_again_prove_nothing_of_it():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    y = X @ [0.7, -0.7] + rng.normal(0, 0.7, 30)
    kernel = RBF(0.3) + WhiteKernel(0.3)
    fit = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    model = hf.erasable(fit, X, y)
    proof = hf.certify(model, X[:5], float(model.scores(X[:5]).min()) - 0.1, 1)
    assert proof.preprocessing == "kept"
    other = GaussianProcessRegressor(Matern(1.5), alpha=0.1, optimizer=None).fit(X, y)
    assert not hf.erasable(other, X, y).can.predicts


@pytest.mark.parametrize(
    "estimator",
    [Lasso(50.0), HuberRegressor(alpha=0.0, max_iter=10_000), SGDRegressor(penalty=None)],
    ids=lambda e: type(e).__name__,
)
def test_large_scores_of_regressors_are_no_separation(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = 1e4 * (X[:, 0] + rng.normal(size=300)) + 5e4
    with quiet:
        fit = clone(estimator).fit(X, y)
        model = hf.erasable(fit, X, y)
    assert np.abs(model.scores(X) - fit.predict(X)).max() < 0.2 * np.std(y)
    if isinstance(estimator, SGDRegressor):
        plain = LinearRegression().fit(X, y)
        np.testing.assert_allclose(model.scores(X), plain.predict(X), rtol=1e-6)


def test_a_chosen_penalty_is_kept_where_features_come_in():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 8))
    y = X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + rng.normal(0, 0.7, 60)
    fit = LassoCV(**CLOSE).fit(X, y)
    deletions = hf.erasable(fit, X, y).deletions(X[:9], preprocessing="kept")
    for row in range(0, 60, 4):
        fresh = Lasso(fit.alpha_, **CLOSE).fit(np.delete(X, row, 0), np.delete(y, row))
        true = fit.predict(X[:9]) - fresh.predict(X[:9])
        np.testing.assert_allclose(deletions.effect([row]), true, atol=1e-5)


def test_a_huber_scale_follows_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X @ [0.7, -0.7, 0.35, 0.14] + rng.standard_t(2, size=400)
    fit = HuberRegressor(epsilon=1.1, tol=1e-9, max_iter=10_000).fit(X, y)
    model = hf.erasable(fit, X, y)
    Q, singles = X[:9], model.deletions(X[:9]).single_effects()
    rows = np.argsort(-np.abs(singles).max(axis=0))[:5]
    true = np.column_stack([model.scores(Q) - model.without([r]).scores(Q) for r in rows])
    assert np.abs(singles[:, rows] - true).max() <= 0.05 * np.abs(true).max()
    omega, h = rng.uniform(0.5, 1.0, 400), 1e-6
    derivatives = model.reweighted(omega).derivatives(Q)
    scale = np.abs(derivatives).max()
    for row in rows[:2]:
        moved = omega.copy()
        moved[row] += h
        up = model.reweighted(moved).scores(Q)
        moved[row] -= 2 * h
        numeric = (up - model.reweighted(moved).scores(Q)) / (2 * h)
        np.testing.assert_allclose(derivatives[:, row], numeric, atol=0.01 * scale)


def test_what_a_feature_left_out_says_about_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = rng.normal(size=200)
    fit = Lasso(10.0).fit(X, y)
    assert hf.erasable(fit, X, y).can.predicts
    with pytest.raises(hf.DataMismatchError):
        hf.erasable(fit, X, y + 1000 * (X[:, 0] - X[:, 0].mean()))


def test_when_nothing_is_left_to_count():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.zeros(60)
    y[:2] = 3.0
    model = hf.erasable(PoissonRegressor(alpha=0.1, **CLOSE).fit(X, y), X, y)
    with pytest.raises(hf.HoldfastError, match="no optimum|cannot be refitted"):
        model.without([0, 1])
    target = float(model.scores(X[:5]).min()) - 0.1
    result = hf.audit(model, X[:5], target, 2, draws=2)
    assert np.isfinite(result.curve["predicted"]).all()


def test_weights_of_zero_in_a_balance():
    X, y = problem("classes", 300)
    fit = LogisticRegression(class_weight="balanced", **CLOSE).fit(X, y)
    model = hf.erasable(fit, X, y)
    rng = np.random.default_rng(0)
    omega = rng.uniform(0.2, 1.0, 300)
    omega[y == 1] *= 0.3
    omega[2] = 0.0
    more = omega.copy()
    more[2] = 1e-5
    numeric = (model.reweighted(more).scores(X[:9]) - model.reweighted(omega).scores(X[:9])) / 1e-5
    found = model.reweighted(omega).derivatives(X[:9])[:, 2]
    np.testing.assert_allclose(found, numeric, atol=1e-3 * np.abs(numeric).max())


@pytest.mark.parametrize(("kind", "seed"), [("lasso", 4), ("logit", 8), ("logit", 11)])
def test_rows_that_change_a_dear_choice_are_among_the_candidates(kind, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    z = X @ rng.normal(size=4) * 0.5
    if kind == "logit":
        y = (z + rng.logistic(size=60) > 0).astype(int)
        chosen = clone(EXAMPLES["logistic, chosen"].estimator).set_params(Cs=4, tol=1e-6)
        fitted = chosen.fit(X, y)
    else:
        y = z + rng.normal(size=60)
        fitted = LassoCV(cv=3, alphas=20).fit(X, y)
    model = hf.erasable(fitted, X, y)
    scores = model.scores(X)
    points, target = X[scores > np.quantile(scores, 0.6)], np.quantile(scores, 0.6) - 1e-3
    plan = hf.search(model, points, target, 2)
    assert "the choice of the penalty" in plan.notes["acting"].values()
    monkeypatch.setattr(acting, "TRIED_DEARLY", 0)
    kept = hf.search(model, points, target, 2)
    assert plan.rerun()[2] > kept.rerun()[2] + 0.1


def test_counts_that_all_go_leave_no_score():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.zeros(40)
    y[[3, 7]] = 2.0
    model = hf.erasable(PoissonRegressor(alpha=1.0, **CLOSE).fit(X, y), X, y)
    found = model.deletions(X[:3])
    assert np.all(np.isfinite(found.effect([3])))
    with pytest.raises(hf.HoldfastError, match="every label of this PoissonRegressor is 0"):
        found.effect([3, 7])
    assert np.all(found.effect_at(np.array([3, 7])) == np.inf)

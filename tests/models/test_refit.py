"""Estimators without the algebra: scores and honest refits."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import RidgeCV
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import holdfast as hf

CLASSIFIERS = [
    HistGradientBoostingClassifier(max_iter=10),
    RandomForestClassifier(10, random_state=0),
    DecisionTreeClassifier(random_state=0),
    CalibratedClassifierCV(LinearSVC(), cv=3),
    LGBMClassifier(n_estimators=5, verbose=-1),
    XGBClassifier(n_estimators=5),
]


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(120, 4))
    return X, (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_scores_and_refits(estimator, problem):
    X, y = problem
    model = hf.erasable(estimator.fit(X, y), X, y)
    scores = model.scores(X)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores > 0, estimator.predict(X) == 1)
    unfavourable = hf.erasable(estimator, X, y, favourable=0)
    np.testing.assert_allclose(unfavourable.scores(X), -scores, atol=1e-4)
    assert model.without([0, 5]).rows.n == 118
    assert not model.exact
    assert np.isnan(model.drift)


def test_probabilities_of_zero_and_one_give_finite_scores(problem):
    X, y = problem
    model = hf.erasable(DecisionTreeClassifier(random_state=0).fit(X, y), X, y)
    assert set(np.abs(model.scores(X)).round(1)) == {13.8}


def test_refit_is_the_estimators_own(problem, rng):
    X, y = problem
    weights = rng.uniform(0.5, 2.0, size=120)
    boosting = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    model = hf.erasable(boosting.fit(X, y, sample_weight=weights), X, y, sample_weight=weights)
    own = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    own.fit(np.delete(X, [3], 0), np.delete(y, [3]), sample_weight=np.delete(weights, [3]))
    np.testing.assert_allclose(
        1 / (1 + np.exp(-model.without(3).scores(X))), own.predict_proba(X)[:, 1], atol=1e-6
    )


def test_missing_values_are_the_estimators_business(problem):
    X, y = problem
    X[::7, 1] = np.nan
    model = hf.erasable(HistGradientBoostingClassifier(max_iter=5).fit(X, y), X, y)
    assert np.isfinite(model.scores(X)).all()


def test_regressors_score_their_prediction(problem):
    X, _ = problem
    y = X[:, 0]
    boosting = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y)
    low = hf.erasable(boosting, X, y, favourable="low")
    np.testing.assert_allclose(low.scores(X), -boosting.predict(X))
    assert hf.erasable(RidgeCV().fit(X, y), X, y).scores(X).shape == (120,)


def test_estimators_without_scores_or_refits(problem):
    X, y = problem
    hard = VotingClassifier([("tree", DecisionTreeClassifier())]).fit(X, y)
    with pytest.raises(hf.UnsupportedModelError, match="voting='soft'"):
        hf.erasable(hard, X, y)
    with pytest.raises(hf.UnsupportedModelError, match="forgets nothing"):
        hf.erasable(FrozenEstimator(hard), X, y)
    two = RandomForestRegressor(3).fit(X, X[:, :2])
    with pytest.raises(hf.UnsupportedModelError, match="2 targets"):
        hf.erasable(two, X, X[:, 0])


def test_rows_and_refits_the_estimator_rejects(problem):
    X, y = problem
    model = hf.erasable(GaussianProcessClassifier().fit(X, y), X, y)
    with pytest.raises(hf.HoldfastError, match="does not accept these rows.*NaN"):
        model.scores(X * np.nan)
    rare = np.r_[np.zeros(115), np.ones(5)].astype(int)
    calibrated = hf.erasable(CalibratedClassifierCV(LinearSVC(), cv=5).fit(X, rare), X, rare)
    with pytest.raises(hf.HoldfastError, match="cannot be refitted without rows \\[119\\]"):
        calibrated.without([119])


def test_what_does_not_work_says_what_does(problem):
    X, y = problem
    model = hf.erasable(RandomForestClassifier(5, random_state=0).fit(X, y), X, y)
    pattern = "RandomForestClassifier has no .*What works: scores and without"
    with pytest.raises(hf.UnsupportedModelError, match=pattern):
        model.deletions(X)
    with pytest.raises(hf.UnsupportedModelError, match=pattern):
        model.score_gradients(X)
    with pytest.raises(hf.UnsupportedModelError, match=pattern):
        model.reweighted(np.ones(120))
    with pytest.raises(hf.UnsupportedModelError, match="no closed-form leave-one-out"):
        model.leave_one_out_scores()

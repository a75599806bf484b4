"""Searches of many rows: few candidates, sums in place of looks at the data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import holdfast as hf
import holdfast.models.expansion as expansion
import holdfast.models.smooth as smooth
import holdfast.searches.screened as screened
from holdfast.algebra.units import Units


def table(n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=d) + rng.logistic(size=n) > 0.3).astype(int)
    return X, y


def promised(model, X, margin):
    scores = model.scores(X)
    return X[(scores > 0) & (scores < margin)]


FITS = [
    LogisticRegression(C=0.1, tol=1e-10),
    LogisticRegression(C=10.0, class_weight="balanced", tol=1e-10),
    LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10),
    make_pipeline(StandardScaler(), LogisticRegression(C=0.01, tol=1e-10)),
    make_pipeline(MinMaxScaler(), LogisticRegression(C=1.0, tol=1e-10)),
]


@pytest.mark.parametrize("fit", FITS)
def test_effects_without_a_look_at_the_rows_are_those_of_refits(fit, monkeypatch):
    X, y = table(3000)
    fit.fit(X, y)
    rng, queries = np.random.default_rng(1), table(20, seed=2)[0]
    sets = [rng.choice(3000, k, replace=False) for k in (1, 3, 10) for _ in range(3)]
    plain = hf.erasable(fit, X, y).deletions(queries)
    slow = [plain.effect(rows) for rows in sets]
    monkeypatch.setattr(smooth, "MANY", 0)
    model = hf.erasable(fit, X, y)
    assert model.form("smooth")._expansion is not None
    found = model.deletions(queries)
    for rows, by_passes in zip(sets, slow, strict=True):
        quick = found.effect(rows)
        assert np.abs(quick - by_passes).max() <= 1e-3 * np.abs(by_passes).max()
        again = model.without(rows).scores(queries)
        truth = model.scores(queries) - again
        assert np.abs(quick - truth).max() <= 2e-3 * np.abs(truth).max()


def test_what_the_sums_leave_out_is_less_than_they_say(monkeypatch):
    monkeypatch.setattr(smooth, "MANY", 0)
    monkeypatch.setattr(smooth, "LEFT_OUT", np.inf)
    monkeypatch.setattr(expansion, "LONGEST", 1)
    rng = np.random.default_rng(3)
    said = []
    for seed in range(6):
        X, y = table(300, 3, seed)
        X[:5] *= 4.0
        model = hf.erasable(LogisticRegression(C=5.0, tol=1e-10).fit(X, y), X, y)
        core = model.form("smooth")
        for k in (1, 4):
            rows = rng.choice(300, k, replace=False)
            near = core._nearly(np.zeros(core.design.rank), rows, core.posed_without(rows))
            truth = core.design.coordinates(core.theta - core.optimum_without(rows))
            missed = np.linalg.norm(near - truth)
            bound = core._expansion.left_out(near) * np.linalg.norm(near)
            remaining = 1.0 - np.linalg.norm(core.design.U[rows], 2) ** 2
            assert missed <= 1.5 * bound / remaining + 1e-9
            said.append(missed / bound)
    assert max(said) > 1e-3  # they do leave something out


def test_the_triple_at_another_optimum_is_that_of_the_model_there(monkeypatch):
    monkeypatch.setattr(smooth, "MANY", 0)
    X, y = table(2500)
    for fit in FITS[:3]:
        core = hf.erasable(fit.fit(X, y), X, y).form("smooth")
        gone, queries = np.array([5, 77, 1300]), table(6, seed=3)[0]
        W = core.deletions(queries, "scores", None).queries
        some = np.array([0, 9, 200, 2400])
        near = core.nearby(W, gone, some)
        there = core.without(gone).deletions(queries, "scores", None)
        left = some - np.searchsorted(gone, some)
        np.testing.assert_allclose(near[2], there.residuals[left], rtol=1e-4)
        np.testing.assert_allclose(near[0] @ near[1].T, there.columns(left), rtol=2e-3, atol=1e-6)
        np.testing.assert_allclose(
            np.sum(near[1] ** 2, axis=1), 1.0 - there.diagonal[left], rtol=1e-3
        )


@pytest.mark.parametrize("unit", ["row", "subject"])
@pytest.mark.parametrize("fit", FITS[:4])
def test_screened_searches_find_what_the_others_find(fit, unit, monkeypatch):
    X, y = table(1500)
    fit.fit(X, y)
    people = np.arange(1500) // 2 if unit == "subject" else None
    budget, found = 5, {}
    for many in (0, 10**9):
        monkeypatch.setattr(screened, "MANY", many)
        monkeypatch.setattr(screened, "KEPT", 300)
        monkeypatch.setattr(smooth, "MANY", many)
        model = hf.erasable(fit, X, y, subjects=people)
        points = promised(model, table(800, seed=5)[0], 0.05)
        found[many] = hf.search(model, points, 0.0, budget, unit=unit)
    quick, slow = found[0], found[10**9]
    assert slow.predicted[budget] > 0.2  # there is something to be found
    assert np.all(quick.predicted >= slow.predicted - 0.03)
    np.testing.assert_allclose(quick.predicted, quick.rerun(), atol=0.02)


def test_rows_that_matter_only_once_others_are_gone_are_found(monkeypatch):
    """Heavy tails: a few rows move scores far, and then other recourses are the close ones."""
    X, y = table(2500, 6)
    X[:, :3] = np.exp(1.2 * X[:, :3])
    fit = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-9, max_iter=1000)).fit(X, y)
    found = {}
    for many in (0, 10**9):
        monkeypatch.setattr(screened, "MANY", many)
        monkeypatch.setattr(screened, "KEPT", 300)
        monkeypatch.setattr(smooth, "MANY", many)
        model = hf.erasable(fit, X, y)
        points = promised(model, X, 0.15)
        found[many] = hf.search(model, points, 0.0, 5)
    assert np.all(found[0].predicted >= found[10**9].predicted - 0.03)
    np.testing.assert_allclose(found[0].predicted, found[0].rerun(), atol=0.02)


def test_losses_of_counts_are_screened_too(monkeypatch):
    monkeypatch.setattr(screened, "MANY", 0)
    monkeypatch.setattr(smooth, "MANY", 0)
    X, _ = table(1200, 3)
    y = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0]))
    model = hf.erasable(PoissonRegressor(alpha=1e-3, tol=1e-10).fit(X, y), X, y)
    scores = model.scores(X)
    points = X[(scores > 0) & (scores < 0.01)]
    plan = hf.search(model, points, 0.0, 4)
    np.testing.assert_allclose(plan.predicted, plan.rerun(), atol=0.02)


def test_some_units_are_the_same_candidates_as_all():
    X, y = table(60)
    model = hf.erasable(LogisticRegression().fit(X, y), X, y, subjects=np.arange(60) // 3)
    for unit in ("row", "subject"):
        units = Units(model.rows, unit)
        some = np.array([7, 2, 11])
        fewer = units.among(some)
        assert len(fewer) == 3
        assert fewer.names == [units.names[u] for u in some]
        for place, u in enumerate(some):
            np.testing.assert_array_equal(fewer.rows([place]), units.rows([u]))
        gone = units.rows([0, 1])
        np.testing.assert_array_equal(fewer.keeps_classes(gone), units.keeps_classes(gone)[some])


@pytest.mark.parametrize(("n", "seed", "weight"), [(20_500, 28, 1e5), (600, 0, 1e3)])
def test_a_row_of_great_weight_is_followed_to_where_it_leads(n, seed, weight):
    """One Hessian does not lead there: chords that do not converge are not believed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    weights = np.ones(n)
    weights[7] = weight
    fit = LogisticRegression(tol=1e-9, max_iter=20000).fit(X, y, sample_weight=weights)
    model = hf.erasable(fit, X, y, sample_weight=weights)
    scores = model.scores(X)
    target = float(np.median(scores))
    Q = X[scores > target][np.argsort(scores[scores > target])[:40]]
    truth = model.scores(Q) - model.without([7]).scores(Q)
    np.testing.assert_allclose(model.deletions(Q).effect([7]), truth, atol=1e-6)
    plan = hf.search(model, Q, target, 2)
    np.testing.assert_allclose(plan.predicted, plan.rerun(), atol=0.02)


def test_many_long_rows_of_counts_are_seen_through():
    rng = np.random.default_rng(0)
    X = np.r_[np.full((1500, 1), 5.0), rng.normal(size=(19_500, 1)) * 0.1]
    y = rng.poisson(np.exp(0.1 * X[:, 0])).astype(float)
    y[0] = 800
    fit = PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-10, max_iter=9999).fit(X, y)
    model = hf.erasable(fit, X, y)
    truth = model.scores(X[:2]) - model.without([0]).scores(X[:2])
    found = model.deletions(X[:2]).effect([0])
    assert np.abs(found - truth).max() <= 1e-3 * np.abs(truth).max()

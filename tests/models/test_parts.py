"""Forests that forget, as models: effects, searches, certificates of a mean of parts."""

import itertools

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.algebra.units import Units
from holdfast.errors import DataMismatchError, HoldfastError


def grown(rng, n=60, favourable=1, groups=None, subjects=None):
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    y = (X["a"] + rng.normal(size=n) > 0).astype(int).to_numpy()
    forest = hf.ForgettingForestClassifier(n_estimators=15, trees_per_row=3)
    model = hf.erasable(
        forest.fit(X, y, groups=groups), X, y, favourable=favourable, subjects=subjects
    )
    scores = model.scores(X)
    return model, X[(scores > 0.2) & (scores < 2.0)]


@pytest.mark.parametrize("favourable", [0, 1])
def test_effects_are_refits_and_singles_are_all_at_once(rng, favourable):
    model, points = grown(rng, favourable=favourable)
    deletions = model.deletions(points)
    for rows in ([3], [3, 8, 41]):
        honest = model.scores(points) - model.without(rows).scores(points)
        assert np.array_equal(deletions.effect(rows), honest)
    singles = deletions.single_effects()
    for row in range(0, 60, 7):
        honest = model.scores(points) - model.without([row]).scores(points)
        assert np.allclose(singles[:, row], honest, atol=1e-12)


@pytest.mark.parametrize("favourable", [0, 1])
@pytest.mark.parametrize("by", ["row", "person"])
def test_what_the_loops_know_is_what_refits_say(rng, favourable, by):
    whose = None if by == "row" else rng.integers(0, 25, 60)
    model, points = grown(rng, 60, favourable, whose, whose)
    units = Units(model.rows, "row" if by == "row" else "subject")
    core, sets = model.form("parts"), [units.rows([u]) for u in range(len(units))]
    assert core.quick(units)
    assert by == "row" or not core.quick(Units(model.rows, "row"))
    quick = core.falls(model.features(points), sets, True)
    slow = core.falls(model.features(points), sets, False)
    assert np.allclose(quick.mean, slow.mean, atol=1e-12)
    assert np.allclose(quick.part, slow.part, atol=1e-12)
    assert np.allclose(quick.shared, slow.shared, atol=1e-12)
    assert slow.part.max() > 0


@pytest.mark.parametrize("favourable", [0, 1])
def test_no_certificate_is_wrong(rng, favourable):
    model, points = grown(rng, 40, favourable)
    core, scores = model.form("parts"), model.scores(points)
    X = model.features(points)
    falls = [np.zeros(len(points))]
    for k in (1, 2):
        sets = [np.array(s) for s in itertools.combinations(range(40), k)]
        after = core.scores_without(X, sets)
        falls.append(np.maximum(falls[-1], (scores - after).max(axis=0)))
    seen = set()
    for k, beyond in itertools.product((1, 2), (1e-7, -1e-7, 1.0)):
        for j in range(0, len(points), 3):
            target = float(scores[j] - falls[k][j] - beyond)
            if not scores[j] >= target:
                continue
            proof = hf.certify(model, points.iloc[[j]], target, 2)
            certified = int(proof["certified"].iloc[0])
            seen.add(certified)
            assert scores[j] - falls[certified][j] >= target
            if k == 1 and beyond == 1e-7:
                assert certified >= 1  # one deletion is exact
    assert seen == {0, 1, 2}


def test_by_subject_where_the_forest_knows_rows_only(rng):
    whose = rng.integers(0, 12, 40)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = (X["a"] > 0).astype(int)
    forest = hf.ForgettingForestClassifier(n_estimators=15, trees_per_row=3).fit(X, y)
    model = hf.erasable(forest, X, y, subjects=whose)
    points = X[model.scores(X) > 1.0]
    proof = hf.certify(model, points, 0.0, 2, unit="subject")
    after = [model.without(subjects=[s]).scores(points) for s in model.rows.rows_of_subject]
    holds = np.min(after, axis=0) >= 0.0
    assert np.array_equal(holds, (proof["certified"] >= 1).to_numpy())


def test_search_audit_and_report(rng, tmp_path):
    model, points = grown(rng, 80)
    plan = hf.search(model, points, 0.0, 3)
    assert np.array_equal(plan.predicted, plan.rerun())
    one = max(np.mean(~(model.without([i]).scores(points) >= 0.0)) for i in range(model.rows.n))
    assert plan.predicted[1] == one  # every row was looked at
    result = hf.audit(model, points, 0.0, 2, draws=2)
    result.to_html(tmp_path / "r.html")
    assert "Proven" in result.headline or "ceiling" in result.headline.lower()
    assert (result.curve["refitted"] <= result.curve["ceiling"].fillna(1.0)).all()


def test_rows_that_cannot_go(rng):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    y = (np.arange(40) == 7).astype(int)
    model = hf.erasable(hf.ForgettingForestClassifier(15, 3).fit(X, y), X, y)
    singles = model.deletions(X[:4]).single_effects()
    assert np.flatnonzero(np.isnan(singles).any(axis=0)).tolist() == [7]
    target = float(np.sort(model.scores(X))[3])
    proof = hf.certify(model, X, target, 3)
    for witness in proof["witness"]:
        assert 7 not in witness


def test_a_target_that_moves(rng):
    model, points = grown(rng, 60)
    target = float(np.quantile(model.scores(points), 0.1))
    moving = model.with_target_rule("quantile", target)
    drop = moving.deletions(points).effect([4, 9])
    assert np.allclose(drop, moving.scores(points) - moving.without([4, 9]).scores(points))
    singles = moving.deletions(points[:3]).single_effects()
    assert np.allclose(singles[:, 4], moving.deletions(points[:3]).effect([4]))
    result = hf.audit(model, points, target, 2, draws=2, target_rule="quantile")
    after = moving.without(result.plan.sets[2]).scores(points)
    kept = model.scores(points) >= target
    assert result.curve["refitted"][2] == pytest.approx(np.mean(~(after[kept] >= target)))


def test_regressors_and_bootstrap_samples(rng):
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.clip(X["a"] + rng.normal(size=60), -4, 4).to_numpy()
    forest = hf.ForgettingForestRegressor(-4, 4, n_estimators=15, trees_per_row=3).fit(X, y)
    for favourable in ("high", "low"):
        model = hf.erasable(forest, X, y, favourable=favourable)
        honest = model.scores(X) - model.without([1, 5]).scores(X)
        assert np.array_equal(model.deletions(X).effect([1, 5]), honest)
        target = float(np.quantile(model.scores(X), 0.4))
        proof = hf.certify(model, X[model.scores(X) > target + 0.1], target, 1)
        after = np.min([model.without([i]).scores(X) for i in range(60)], axis=0)
        left = after[model.scores(X) > target + 0.1]
        assert np.array_equal(left >= target, (proof["certified"] >= 1).to_numpy())
    sample = model.refitted_on(rng.choice(60, 60))
    assert np.all(np.isfinite(sample.scores(X)))


def test_other_data_are_refused(rng):
    model, _ = grown(rng)
    forest, X, y = model.estimator, model.X, model.y
    with pytest.raises(DataMismatchError, match="not those of the fit"):
        hf.erasable(forest, X + 1e-9, y)
    with pytest.raises(DataMismatchError, match="not those of the fit"):
        hf.erasable(forest, X, np.roll(y, 1))
    with pytest.raises(DataMismatchError):
        hf.erasable(forest, X, y, sample_weight=np.arange(1.0, 61.0))
    with pytest.raises(HoldfastError, match="no sample weights"):
        forest.refitted_on(np.arange(60), X, y, np.ones(60))

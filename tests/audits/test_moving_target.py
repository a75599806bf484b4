"""A target that is a quantile of scores or labels moves with every refit, and everybody sees it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.models.cutoffs import Cutoff

SHARP = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}
FINALS = {
    "ridge": make_pipeline(StandardScaler(), Ridge(2.0)),
    "bare ridge": Ridge(2.0),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(**SHARP)),
    "bare logistic": LogisticRegression(**SHARP),
    "kernel": make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.3)),
    "LS-SVM": hf.LSSVMClassifier(gamma=1.0),
}


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    y = X["a"] - 0.5 * X["b"] + rng.normal(0, 1, n)
    return X, y


def fitted(name, n=60):
    X, y = table(n)
    final = FINALS[name]
    if hasattr(final, "decision_function"):
        y = (y > y.median()).astype(int)
    return clone(final).fit(X, y), X, y


def score(fit, X):
    return (fit.decision_function if hasattr(fit, "decision_function") else fit.predict)(X)


def margins_without(fit, X, y, rows, points, target, rule):
    """Score less cutoff by a refit of everything, the slow honest way."""
    keep = np.setdiff1d(np.arange(len(X)), rows)
    fresh = clone(fit).fit(X.iloc[keep], y.iloc[keep])
    before = np.sort(score(fit, X) if rule == "quantile" else y)
    level = np.interp(target, before, np.linspace(0, 1, len(X)))  # no ties here
    after = score(fresh, X.iloc[keep]) if rule == "quantile" else y.iloc[keep]
    return score(fresh, points) - np.quantile(after, level)


@pytest.mark.parametrize("name", FINALS)
@pytest.mark.parametrize("rule", ["quantile", "label-quantile"])
def test_search_and_refits_see_the_cutoff_move(name, rule):
    fit, X, y = fitted(name)
    model = hf.erasable(fit, X, y)
    if rule == "label-quantile" and model.classes is not None:
        with pytest.raises(hf.HoldfastError, match="labels of a classifier"):
            hf.audit(model, X[:5], 0.0, 2, target_rule=rule)
        return
    target = float(np.quantile(model.training_scores, 0.6))
    people = table(40, seed=1)[0]
    points = people[model.scores(people) > target]
    result = hf.audit(
        model, points, target, 2, draws=2, erasures=3, cohorts=np.arange(60) % 2, target_rule=rule
    )
    curve = result.curve
    assert curve["ceiling"].isna().all()  # nothing is proven of it
    assert "moves with every refit" in result.headline
    assert "fixed target" in result.to_html()
    for k in (1, 2):  # predicted and refitted are the truth
        rows = result.plan.sets[k]
        true = margins_without(fit, X, y, rows, points, target, rule)
        assert curve.loc[k, "refitted"] == pytest.approx(np.mean(true < 0), abs=1e-9)
        assert curve.loc[k, "predicted"] == pytest.approx(np.mean(true < 0), abs=1e-9)
    # one row: nothing better was there to be found
    best = max(
        np.mean(margins_without(fit, X, y, [i], points, target, rule) < 0) for i in range(60)
    )
    assert curve.loc[1, "refitted"] >= best - 1.01 / len(points)
    cohort = result.cohorts.set_index("cohort").loc["0", "refitted"]
    true = margins_without(fit, X, y, np.arange(0, 60, 2), points, target, rule)
    assert cohort == pytest.approx(np.mean(true < 0), abs=1e-9)


@pytest.mark.parametrize("rule", ["quantile", "label-quantile"])
def test_impact_judges_by_the_cutoff_as_it_is_then(rule):
    fit, X, y = fitted("ridge")
    model = hf.erasable(fit, X, y)
    given = hf.find_recourse(model, table(40, seed=1)[0], target=0.3, overshoot=0.02)
    gone = np.argsort(-model.training_scores)[:6]
    found = hf.impact(model, given, positions=gone, target_rule=rule)
    points = given.points[given.valid]
    true = margins_without(fit, X, y, gone, points, 0.3, rule)
    np.testing.assert_allclose(found.recourses["refitted"] - 0.3, true, atol=1e-9)
    np.testing.assert_allclose(found.recourses["predicted"] - 0.3, true, atol=1e-9)
    np.testing.assert_array_equal(found.recourses["breaks"], true < 0)
    assert "falls by" in found.headline
    fixed = hf.impact(model, given, positions=gone)
    assert fixed.recourses["breaks"].sum() > found.recourses["breaks"].sum()


def test_a_model_known_by_refits_only():
    X, y = table(50)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    model = hf.erasable(forest, X, y)
    target = float(np.median(model.training_scores))
    people = table(30, seed=1)[0]
    points = people[model.scores(people) > target]
    result = hf.audit(model, points, target, 1, draws=2, target_rule="quantile")
    true = margins_without(forest, X, y, result.plan.sets[1], points, target, "quantile")
    assert result.curve.loc[1, "refitted"] == pytest.approx(np.mean(true < 0))


def test_effects_against_every_pair():
    fit, X, y = fitted("ridge", 14)
    model = hf.erasable(fit, X, y)
    target = float(np.quantile(model.training_scores, 0.3))
    points = table(6, seed=2)[0]
    moving = model.with_target_rule("quantile", target)
    deletions, before = moving.deletions(points), model.scores(points) - target
    for rows in itertools.combinations(range(14), 2):
        true = margins_without(fit, X, y, rows, points, target, "quantile")
        np.testing.assert_allclose(before - deletions.effect(rows), true, atol=1e-9)
    # certificates are about a target that stays
    proof = hf.certify(moving, points[before > 0], target, 1)
    plain = hf.certify(model, points[before > 0], target, 1)
    assert proof["certified"].tolist() == plain["certified"].tolist()
    assert "the target stays what it is" in proof.assumptions


def test_levels_and_refusals():
    scores = np.array([3.0, 1.0, 2.0, 5.0])
    cutoff = Cutoff.at("quantile", 2.5, scores, None)
    assert cutoff.before == pytest.approx(2.5)
    assert cutoff.moved(scores + 1.0, None) == pytest.approx(1.0)
    assert [row for row, _ in cutoff.nearest(scores)] == [2, 0]
    assert Cutoff.at("fixed", 2.5, scores, None) is None
    with pytest.raises(hf.HoldfastError, match="no quantile of the training scores"):
        Cutoff.at("quantile", 9.0, scores, None)
    with pytest.raises(hf.HoldfastError, match="must be one of 'fixed'"):
        Cutoff.at("median", 2.0, scores, None)


def test_ties_stay_ties():
    """Where many have the target for their label, or their score, one erasure moves nothing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=list("ab"))
    y = np.clip(np.round(3 + X["a"] + rng.normal(0, 0.5, 120)), 1, 5)
    model = hf.erasable(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X, y)
    moving = model.with_target_rule("label-quantile", 3.0)
    shifts = [moving.without([i]).shift for i in range(120)]
    assert np.abs(shifts).max() < 1e-9
    groups = pd.DataFrame({"a": np.repeat([0.0, 1.0, 2.0], 40)})
    labels = groups["a"] + rng.normal(0, 0.1, 120)
    plain = hf.erasable(Ridge(1e-3).fit(groups, labels), groups, labels)
    target = float(plain.scores(groups)[60])
    moving = plain.with_target_rule("quantile", target)
    assert moving.cutoff.level == pytest.approx(0.5, abs=0.01)
    at_the_cutoff = groups.iloc[[60]]
    for row in (0, 50, 60, 119):  # whoever is where the cutoff is stays there
        fresh = moving.without([row])
        assert fresh.scores(at_the_cutoff)[0] >= target
        assert fresh.scores(at_the_cutoff)[0] == pytest.approx(target, abs=1e-9)

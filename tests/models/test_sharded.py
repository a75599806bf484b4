"""Sharded models: everybody in one shard, and nobody else's business."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

import holdfast as hf
from holdfast.errors import DataMismatchError, HoldfastError, UnsupportedModelError
from holdfast.proofs.parts import _program, two_sizes

EQUIVALENCE = "who has no index is known by position, so repeated rows are other people"


def table(rng, n=60, d=3):
    X = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{i}" for i in range(d)])
    X.index = [f"P{i}" for i in rng.permutation(n)]
    y = (X["x0"] + rng.normal(size=n) > 0).astype(int).to_numpy().copy()
    return X, y


@pytest.mark.parametrize(
    "estimator",
    [
        hf.ShardedClassifier(LogisticRegression(), shards=2),
        hf.ShardedRegressor(Ridge(), shards=2, low=-1e4, high=1e4),
    ],
    ids=["classifier", "regressor"],
)
def test_scikit_learns_own_checks(estimator):
    expected = {
        name: EQUIVALENCE
        for name in (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        )
    }
    check_estimator(estimator, expected_failed_checks=expected, on_skip=None)


@given(seed=st.integers(0, 10**6), shards=st.integers(1, 7), gone=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_without_is_bit_for_bit_a_fit_without(seed, shards, gone):
    rng = np.random.default_rng(seed)
    X, y = table(rng, 40)
    rows = rng.choice(40, gone, replace=False)
    keep = np.delete(np.arange(40), rows)
    if len(set(y[keep])) < 2:
        return
    estimator = DecisionTreeClassifier(max_features=1, max_depth=3)  # draws, without a seed
    whole = hf.ShardedClassifier(estimator, shards, random_state=seed).fit(X, y)
    fewer = whole.without(rows, X, y)
    fresh = hf.ShardedClassifier(estimator, shards, random_state=seed).fit(X.iloc[keep], y[keep])
    assert np.array_equal(fewer.shard_of_, fresh.shard_of_)
    assert np.array_equal(fewer.predict_proba(X), fresh.predict_proba(X))
    touched = set(whole.shard_of_[rows])
    for shard, (before, after) in enumerate(zip(whole.estimators_, fewer.estimators_, strict=True)):
        assert (before is after) == (shard not in touched)
    again = whole.without(rows[:1], X, y)  # one after another is all at once
    rest = np.delete(np.arange(40), rows[:1])
    left = np.flatnonzero(np.isin(rest, rows))
    assert np.array_equal(
        again.without(left, X.iloc[rest], y[rest]).predict_proba(X), fewer.predict_proba(X)
    )


def test_nobody_is_moved_by_others_and_numbers_are_texts(rng):
    X, y = table(rng)
    whole = hf.ShardedClassifier(GaussianNB(), 5).fit(X, y)
    order = rng.permutation(len(X))[:50]
    some = hf.ShardedClassifier(GaussianNB(), 5).fit(X.iloc[order], y[order])
    assert np.array_equal(some.shard_of_, whole.shard_of_[order])
    whole_numbers = X.set_axis(np.arange(len(X)), axis=0)
    by_number = hf.ShardedClassifier(GaussianNB(), 5).fit(whole_numbers, y)
    by_text = hf.ShardedClassifier(GaussianNB(), 5).fit(X, y, groups=[str(i) for i in range(60)])
    assert np.array_equal(by_number.shard_of_, by_text.shard_of_)
    other = hf.ShardedClassifier(GaussianNB(), 5, random_state=1).fit(X, y)
    assert not np.array_equal(other.shard_of_, whole.shard_of_)


def test_people_with_several_rows_are_in_one_shard(rng):
    X, y = table(rng)
    whose = np.array([f"S{i % 23}" for i in range(60)])
    fitted = hf.ShardedClassifier(GaussianNB(), 4).fit(X, y, groups=whose)
    for person in set(whose):
        assert len(set(fitted.shard_of_[whose == person])) == 1


def test_constant_shards_depend_on_nothing_outside():
    X = pd.DataFrame({"x": np.arange(12.0)}, index=[f"P{i}" for i in range(12)])
    y = np.array([0, 1] * 6)
    fitted = hf.ShardedClassifier(LogisticRegression(), 12).fit(X, y)
    said = {shard: fit for shard, fit in enumerate(fitted.estimators_) if isinstance(fit, float)}
    counts = np.bincount(fitted.shard_of_, minlength=12)
    for shard, value in said.items():
        labels = set(y[fitted.shard_of_ == shard])
        assert value == (0.5 if counts[shard] == 0 else float(labels.pop()))
        assert len(labels) == 0
    assert 0.5 in said.values()
    empty = hf.ShardedRegressor(Ridge(), 12, low=-1.0, high=5.0).fit(X, y.astype(float))
    assert empty.estimators_[int(np.flatnonzero(counts == 0)[0])] == 2.0


@pytest.mark.parametrize("favourable", [0, 1])
def test_effects_are_refits_for_either_outcome(rng, favourable):
    X, y = table(rng)
    fitted = hf.ShardedClassifier(DecisionTreeClassifier(max_depth=2), 6).fit(X, y)
    model = hf.erasable(fitted, X, y, favourable=favourable)
    deletions = model.deletions(X)
    for rows in ([3], [3, 8], [1, 2, 5, 30, 44]):
        honest = model.scores(X) - model.without(rows).scores(X)
        assert np.array_equal(deletions.effect(rows), honest)
    singles = deletions.single_effects()
    for row in (0, 7, 59):
        honest = model.scores(X) - model.without([row]).scores(X)
        assert np.allclose(singles[:, row], honest, atol=1e-9)


def test_a_whole_pipeline_with_text_and_gaps_inside(rng):
    X, y = table(rng)
    X["job"] = rng.choice(["a", "b"], 60)
    X.loc[X.index[::7], "x1"] = np.nan
    inside = HistGradientBoostingClassifier(
        max_iter=5, min_samples_leaf=2, categorical_features=["job"]
    )
    X["job"] = X["job"].astype("category")
    model = hf.erasable(hf.ShardedClassifier(inside, 3).fit(X, y), X, y)
    before = model.scores(X)
    assert np.array_equal(before - model.without([4]).scores(X), model.deletions(X).effect([4]))


def test_subjects_and_weights(rng):
    X, y = table(rng)
    whose, weights = np.arange(60) % 20, rng.uniform(0.0, 2.0, 60)
    weights[::9] = 0.0
    inside = DecisionTreeClassifier(max_depth=2)
    fitted = hf.ShardedClassifier(inside, 5).fit(X, y, groups=whose, sample_weight=weights)
    model = hf.erasable(fitted, X, y, subjects=whose, sample_weight=weights)
    drop = model.deletions(X).effect(subjects=["3"])
    assert np.array_equal(drop, model.scores(X) - model.without(subjects=["3"]).scores(X))
    fresh = hf.ShardedClassifier(inside, 5).fit(
        X[whose != 3], y[whose != 3], groups=whose[whose != 3], sample_weight=weights[whose != 3]
    )
    assert np.array_equal(
        model.without(subjects=["3"]).estimator.predict_proba(X), fresh.predict_proba(X)
    )


@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), classifies=st.booleans())
@settings(max_examples=40, deadline=None)
def test_changed_rows_stay_within_the_plain_bound(seed, k, classifies):
    """Whatever becomes of k people's rows, keys kept: the mean falls by no more, nor rises."""
    rng = np.random.default_rng(seed)
    X, y = table(rng, 40)
    whose = rng.integers(0, 15, 40)
    shards = int(rng.integers(2, 7))
    inside = DecisionTreeClassifier(max_depth=2) if classifies else DecisionTreeRegressor()
    estimator = (
        hf.ShardedClassifier(inside, shards)
        if classifies
        else hf.ShardedRegressor(inside, shards, low=0.0, high=1.0)
    )
    by_person = bool(rng.random() < 0.5)
    groups = whose if by_person else None
    fitted = estimator.fit(X, y, groups=groups)
    up, down = (fitted.largest_fall(X, k, up=good) for good in (True, False))
    before = fitted.parts(X).mean(axis=1)
    keys = whose if by_person else np.arange(40)
    for _ in range(3):
        rows = np.flatnonzero(np.isin(keys, rng.choice(np.unique(keys), k, replace=False)))
        other, labels = X.copy(), np.array(y)
        other.iloc[rows] = 10 * rng.normal(size=(len(rows), 3))
        labels[rows] = rng.integers(0, 2, len(rows))
        if len(set(labels.tolist())) < 2:
            continue
        again = clone(estimator).fit(other, labels, groups=groups)
        assert np.array_equal(again.shard_of_, fitted.shard_of_)
        after = again.parts(X).mean(axis=1)
        assert np.all(before - after <= up + 1e-12)
        assert np.all(after - before <= down + 1e-12)


def test_a_certificate_is_about_deletions_and_a_change_can_do_more():
    """Why the plain bound is another question: lies of one row go further than its absence."""
    X = pd.DataFrame({"x": np.linspace(-1, 1, 40)}, index=[f"P{i}" for i in range(40)])
    y = (X["x"] > 0).astype(int).to_numpy()
    fitted = hf.ShardedClassifier(GaussianNB(), 2).fit(X, y)
    model = hf.erasable(fitted, X, y)
    point = pd.DataFrame({"x": [0.2]}, index=["Q"])
    alone = max(model.deletions(point).single_effects()[0])
    other = X.copy()
    other.loc["P39", "x"] = 50.0
    changed = hf.ShardedClassifier(GaussianNB(), 2).fit(other, y)
    before, after = (fit.predict_proba(point)[0, 1] for fit in (fitted, changed))
    score = np.log(before / (1 - before)) - np.log(after / (1 - after))
    assert score > alone > 0
    assert before - after <= fitted.largest_fall(point, 1)[0]


@pytest.mark.parametrize(
    "inside",
    [
        GaussianNB(),
        DecisionTreeClassifier(max_depth=3),
        LogisticRegression(),
        KNeighborsClassifier(3),
        RandomForestClassifier(5),
        make_pipeline(SimpleImputer(), StandardScaler(), GaussianNB()),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
        make_pipeline(ColumnTransformer([("some", StandardScaler(), ["x1"])]), GaussianNB()),
    ],
    ids=lambda inside: type(inside).__name__,
)
def test_checks_left_out_change_nothing(rng, inside):
    X, y = table(rng)
    fitted = hf.ShardedClassifier(inside, 3).fit(X, y)
    whole = X.astype({"x2": int})
    for asked in (X, X.iloc[:1], whole):
        told = [fit.predict_proba(asked)[:, 1] for fit in fitted.estimators_]
        assert np.array_equal(fitted.parts(asked), np.column_stack(told))
    if isinstance(inside, GaussianNB | LogisticRegression | DecisionTreeClassifier):
        for wrong in (X[["x1", "x0", "x2"]], X.rename(columns={"x0": "z"})):
            with pytest.raises(ValueError, match="names"):
                fitted.parts(wrong)
        for value in (np.inf,) if isinstance(inside, DecisionTreeClassifier) else (np.nan, np.inf):
            with pytest.raises(ValueError, match=r"NaN|infinity|too large"):
                fitted.parts(X.assign(x1=value))


# certificates ---------------------------------------------------------------------------------


def worst(model, points, unit, k):
    """The largest fall of every score by any set of at most k units, by the estimator's refits."""
    n, rows_of = model.rows.n, model.rows.rows_of_subject if unit == "subject" else None
    units = [[i] for i in range(n)] if rows_of is None else [r.tolist() for r in rows_of.values()]
    before, most = model.scores(points), np.zeros(len(points))
    for size in range(1, k + 1):
        for chosen in itertools.combinations(units, size):
            rows = list(itertools.chain(*chosen))
            left = np.delete(np.arange(n), rows)
            if len(left) == 0 or len(set(model.y[left])) < 2:
                continue
            p = model.estimator.without(rows, model.X, model.y).predict_proba(points)
            p = np.clip(p[:, 1 if model.sign > 0 else 0], 1e-6, 1 - 1e-6)
            most = np.maximum(most, before - (np.log(p) - np.log1p(-p)))
    return most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", ["row", "subject"])
def test_no_certificate_is_wrong(seed, unit):
    rng = np.random.default_rng(seed)
    n, shards = 11, int(rng.integers(2, 5))
    X, y = table(rng, n, 2)
    y[:2] = [0, 1]
    whose = rng.integers(0, 6, n)
    by_person = unit == "subject" and seed < 2
    inside = [GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)][seed % 2]
    fitted = hf.ShardedClassifier(inside, shards).fit(X, y, groups=whose if by_person else None)
    model = hf.erasable(fitted, X, y, subjects=whose, favourable=seed % 2)
    scores = model.scores(X)
    falls = [np.zeros(n)] + [worst(model, X, unit, k) for k in (1, 2)]
    tight = 0
    for beyond in (1e-6, 0.2):  # margins that just survive, or just do not
        for k in (1, 2):
            for sign in (1, -1):
                for j in range(0, n, 2):
                    target = float(scores[j] - falls[k][j] - sign * beyond)
                    if abs(target) > 13 or not scores[j] >= target:
                        continue
                    proof = hf.certify(model, X.iloc[[j]], target, 2, unit=unit)
                    certified = int(proof["certified"].iloc[0])
                    assert scores[j] - falls[certified][j] >= target
                    tight += proof["status"].iloc[0] == "tight"
                    attacked = proof["attacked"].iloc[0]
                    if attacked is not pd.NA:
                        assert scores[j] - falls[int(attacked)][j] < target
                        assert attacked > certified
    assert tight > 0


def test_a_joint_ceiling_holds(rng):
    X, y = table(rng, 24, 2)
    model = hf.erasable(hf.ShardedClassifier(GaussianNB(), 6).fit(X, y), X, y)
    points = X[(model.scores(X) > 0.1) & (model.scores(X) < 2.0)]
    proof = hf.certify(model, points, 0.0, 2)
    broken = [0.0, 0.0, 0.0]
    for k in (1, 2):
        for chosen in itertools.combinations(range(24), k):
            after = model.deletions(points).effect(list(chosen))
            share = np.mean(~(model.scores(points) - after >= 0.0))
            broken[k] = max(broken[k], share)
    assert np.all(np.array(broken) <= proof.upper + 1e-12)
    assert broken[1] > 0
    plan = hf.search(model, points, 0.0, 2)
    assert plan.predicted[1] == pytest.approx(broken[1])
    assert np.array_equal(plan.predicted, plan.rerun())


@given(seed=st.integers(0, 10**6), parts=st.integers(1, 6), expense=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_knapsack_is_the_largest_choice(seed, parts, expense):
    rng = np.random.default_rng(seed)
    two = rng.uniform(0, 1, (1, parts))
    one = two * rng.uniform(0, 1, (1, parts))
    best = 0.0
    for choice in itertools.product((0, 1, 2), repeat=parts):
        if sum(choice) <= expense:
            best = max(best, sum((0.0, one[0, t], two[0, t])[c] for t, c in enumerate(choice)))
    assert two_sizes(one, two, expense)[0, -1] == pytest.approx(best)


@given(seed=st.integers(0, 10**6), expense=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_program_bounds_every_choice_of_parts(seed, expense):
    rng = np.random.default_rng(seed)
    two = rng.uniform(0, 1, (9, 5))
    one = two * rng.uniform(0, 1, (9, 5))
    room = rng.uniform(0.05, 2.0, 9)
    most = 0
    for choice in itertools.product((0, 1, 2), repeat=5):
        if sum(choice) <= expense:
            fall = sum((0.0 * one[:, 0], one[:, t], two[:, t])[c] for t, c in enumerate(choice))
            most = max(most, int(np.sum(fall >= room)))
    assert most <= _program(one, two, room, expense)


def test_many_candidates_are_screened_and_the_bound_needs_none(rng, monkeypatch):
    X, y = table(rng, 60)
    fitted = hf.ShardedClassifier(GaussianNB(), 6).fit(X, y)
    points = X[hf.erasable(fitted, X, y).scores(X) > 0.2]
    whole = hf.certify(hf.erasable(fitted, X, y), points, 0.0, 3)
    monkeypatch.setattr("holdfast.searches.parts.LOOKED_AT", 12)
    few = hf.erasable(fitted, X, y)
    some = hf.certify(few, points, 0.0, 3)
    assert (some["certified"] <= whole["certified"]).all()
    assert few.rows.memory  # looked at some
    plan = hf.search(few, points, 0.0, 2)
    assert plan.notes["looked at"] == {"candidates": 60, "one by one": 12}
    none = hf.certify(hf.erasable(fitted, X, y), points, 0.0, 3, time_limit=0.0)
    assert (none["certified"] <= whole["certified"]).all()
    assert none["attacked"].isna().all()


def test_audit_impact_and_margins(rng):
    X, y = table(rng, 80)
    model = hf.erasable(hf.ShardedClassifier(LogisticRegression(), 5).fit(X, y), X, y)
    given_ = hf.find_recourse(model, X[:12], "growing-spheres", target=0.0, overshoot=0.5)
    result = hf.audit(model, given_, max_deletions=2, draws=2, quick=False)
    assert np.array_equal(result.curve["predicted"], result.curve["refitted"])
    assert (result.curve["ceiling"].fillna(1.0) >= result.curve["refitted"]).all()
    found = hf.impact(model, given_, erase=[X.index[33], X.index[39]])
    left = given_.points.drop(index=[X.index[33], X.index[39]], errors="ignore")
    left = left[given_.valid.loc[left.index]]
    honest = left.index[~(model.without([33, 39]).scores(left) >= 0.0)]
    assert set(found.broken.index) == set(honest)


@pytest.mark.slow
def test_margins_of_shards(rng):
    X, y = table(rng, 80)
    model = hf.erasable(hf.ShardedClassifier(LogisticRegression(), 16).fit(X, y), X, y)
    hard = hf.harden(model, X[:4], target=0.0, survive=1, mitigations=["margin"], max_deletions=1)
    points = hard.mitigations["margin"].points
    assert len(points)
    assert (hf.certify(model, points, 0.0, 1)["certified"] >= 1).all()


def test_shards_as_a_mitigation(rng):
    X, y = table(rng, 200)
    fitted = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:150], y[:150])
    model = hf.erasable(fitted, X[:150], y[:150])
    found = hf.harden(
        model,
        X[150:],
        target=0.0,
        survive=1,
        holdout=(X[150:], y[150:]),
        mitigations={"honour": {}, "shard": {"shards": 15}},
        max_deletions=2,
    )
    line = found.table.set_index("setting").loc["15 shards"]
    assert 0 < line["quality"] <= 1
    assert 0 <= line["certified"] <= 1
    points = found.mitigations["shard"].points
    assert found.mitigations["shard"].model.can.certificate == "parts"
    proof = hf.certify(found.mitigations["shard"].model, points, 0.0, 1)
    assert line["certified"] == pytest.approx((proof["certified"] >= 1).mean())
    numbers = hf.erasable(Ridge().fit(X, y), X, y.astype(float))
    refused = hf.harden(numbers, X, target=0.5, survive=1, mitigations=["margin", "shard"])
    assert "range of what it may say" in refused.skipped["shard"]


def test_a_model_file_forgets_too(tmp_path, rng):
    import skops.io

    from holdfast.cases.modelfile import loaded_model
    from holdfast.cases.remarks import Remarks

    X, y = table(rng)
    fitted = hf.ShardedClassifier(LogisticRegression(), 4).fit(X, y)
    skops.io.dump(fitted, tmp_path / "sharded.skops")
    back = loaded_model(tmp_path / "sharded.skops", False, [], Remarks())
    assert np.array_equal(
        back.without([3], X, y).predict_proba(X), fitted.without([3], X, y).predict_proba(X)
    )


# bad input ------------------------------------------------------------------------------------


class NoProbabilities(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda X, y: hf.ShardedClassifier(GaussianNB(), 61).fit(X, y), "fewer shards"),
        (lambda X, y: hf.ShardedClassifier(GaussianNB(), 0).fit(X, y), "from 1, got 0"),
        (lambda X, y: hf.ShardedClassifier(GaussianNB(), 2.5).fit(X, y), "from 1, got 2.5"),
        (lambda X, y: hf.ShardedClassifier(RidgeClassifier(), 3).fit(X, y), "predict_proba"),
        (lambda X, y: hf.ShardedClassifier(NoProbabilities(), 3).fit(X, y), "predict_proba"),
        (lambda X, y: hf.ShardedClassifier(Ridge(), 3).fit(X, y), "predict_proba"),
        (lambda X, y: hf.ShardedClassifier(GaussianNB(), 3).fit(X, 0 * y), "one class only"),
        (
            lambda X, y: hf.ShardedClassifier(GaussianNB(), 3).fit(X, y, groups=[None] * 60),
            "no key for 60 of 60 rows",
        ),
        (
            lambda X, y: hf.ShardedClassifier(GaussianNB(), 3).fit(X, y, groups=[1, 2]),
            "60 rows, got 2",
        ),
        (lambda X, y: hf.ShardedClassifier(GaussianNB(), 3).fit(X, y[:5]), "60 rows and y has 5"),
        (lambda X, y: hf.ShardedClassifier(GaussianNB, 3).fit(X, y), "unfitted estimator"),
        (lambda X, y: hf.ShardedClassifier(None, 3).fit(X, y), "unfitted estimator"),
        (lambda X, y: hf.ShardedRegressor(Ridge(), 3, "0", 1).fit(X, y), "low must be"),
        (lambda X, y: hf.ShardedRegressor(Ridge(), 3).fit(X, y), "low and high"),
        (lambda X, y: hf.ShardedRegressor(Ridge(), 3, low=1, high=0).fit(X, y), "low < high"),
        (lambda X, y: hf.ShardedRegressor(GaussianNB(), 3, 0, 1).fit(X, y), "no regressor"),
    ],
)
def test_bad_input(rng, make, said):
    X, y = table(rng)
    with pytest.raises(HoldfastError, match=said):
        make(X, y)


def test_other_data_are_refused(rng):
    X, y = table(rng)
    fitted = hf.ShardedClassifier(LogisticRegression(), 4).fit(X, y)
    with pytest.raises(DataMismatchError, match="not those of the fit"):
        hf.erasable(fitted, X.iloc[::-1], y[::-1])
    with pytest.raises(DataMismatchError, match="60 rows, and X has 59"):
        hf.erasable(fitted, X.iloc[:59], y[:59])
    elsewhere = fitted.shard_of_ != fitted.shard_of_[0]
    for other in (np.where(elsewhere, 1 - y, y), np.where(np.arange(60) == 59, 1 - y, y)):
        with pytest.raises(DataMismatchError, match="not those of the fit"):
            hf.erasable(fitted, X, other)
    hf.erasable(
        fitted, X.astype(object).astype(float), [int(v) for v in y]
    )  # the same, held otherwise


def test_what_without_refuses(rng):
    X, y = table(rng)
    fitted = hf.ShardedClassifier(LogisticRegression(), 4).fit(X, y)
    for rows, said in (
        ([True] * 60, "integer positions"),
        ([60], "out of range"),
        ([1.9], "integer positions"),
        ([-1], "out of range"),
        ([2, 2], "more than once"),
        (range(60), "all 60 training rows"),
    ):
        with pytest.raises(HoldfastError, match=said):
            fitted.without(rows, X, y)
    with pytest.raises(HoldfastError, match="X has 59 rows"):
        fitted.without([0], X.iloc[:59], y)
    with pytest.raises(HoldfastError, match="y has 59 rows"):
        fitted.without([0], X, y[:59])
    fitted.set_params(shards=3)
    with pytest.raises(HoldfastError, match="shards was 4 when the shards were fitted"):
        fitted.without([0], X, y)
    with pytest.raises(HoldfastError, match="fit them again"):
        fitted.predict(X)


def test_a_shard_that_cannot_be_fitted_is_named(rng):
    X, y = table(rng)
    inside = HistGradientBoostingClassifier(early_stopping=True, min_samples_leaf=2)
    with pytest.raises(HoldfastError, match=r"shard \d+ cannot be fitted on its \d+ rows"):
        hf.ShardedClassifier(inside, 20).fit(X, y)


def test_weights_reach_the_end_of_a_pipeline(rng):
    X, y = table(rng)
    weights = rng.uniform(0.5, 2.0, 60)
    inside = make_pipeline(StandardScaler(), LogisticRegression())
    fitted = hf.ShardedClassifier(inside, 3).fit(X, y, sample_weight=weights)
    model = hf.erasable(fitted, X, y, sample_weight=weights)
    drop = model.scores(X) - model.without([3]).scores(X)
    assert np.allclose(model.deletions(X).effect([3]), drop, atol=1e-9)  # by algebra
    with pytest.raises(HoldfastError, match="takes no sample weights"):
        hf.ShardedClassifier(KNeighborsClassifier(), 3).fit(X, y, sample_weight=weights)


def test_preprocessing_outside_voids_the_certificate(rng):
    X, y = table(rng)
    outside = make_pipeline(StandardScaler(), hf.ShardedClassifier(LogisticRegression(), 4))
    model = hf.erasable(outside.fit(X, y), X, y)
    proof = hf.certify(model, X[model.scores(X) > 0], 0.0, 1)
    assert proof.limit == 0
    assert (proof["certified"] == 0).all()
    assert "put the pipeline inside" in proof.summary()
    with pytest.raises(UnsupportedModelError, match="put the pipeline inside"):
        model.deletions(X)
    gone = model.without([5])
    keep = np.delete(np.arange(60), 5)
    fresh = make_pipeline(StandardScaler(), hf.ShardedClassifier(LogisticRegression(), 4))
    fresh.fit(X.iloc[keep], y[keep])
    probabilities = gone.estimator.predict_proba(gone.queries(X))
    assert probabilities.shape == (60, 2)
    assert np.all(np.isfinite(probabilities))


def test_gates_are_refused_in_words(rng):
    X, y = table(rng)
    model = hf.erasable(hf.ShardedClassifier(GaussianNB(), 4).fit(X, y), X, y)
    with pytest.raises(UnsupportedModelError, match="one formula for all rows"):
        hf.search(model, X[model.scores(X) > 0], 0.0, 2, method="gates")
    with pytest.raises(UnsupportedModelError, match="closed form"):
        model.reweighted(np.ones(60))


def test_regressors_either_way_up(rng):
    X, _ = table(rng, 30)
    y = X["x0"].to_numpy() + rng.normal(size=30)
    inside = DecisionTreeRegressor(max_depth=2, random_state=0)
    fitted = hf.ShardedRegressor(inside, 6, low=-4.0, high=4.0).fit(X, y)
    for favourable in ("high", "low"):
        model = hf.erasable(fitted, X, y, favourable=favourable)
        scores = model.scores(X)
        assert np.allclose(scores, (1 if favourable == "high" else -1) * fitted.predict(X))
        target = float(np.median(scores))
        points = X[scores > target + 0.05]
        proof = hf.certify(model, points, target, 2)
        assert proof.rerun().dropna().all()
        after = np.min([model.without([i]).scores(points) for i in range(30)], axis=0)
        assert np.array_equal(after >= target, proof["certified"] >= 1)

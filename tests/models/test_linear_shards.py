"""Shards by their own algebra: what is said of a deletion is what a refit leads to."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, StandardScaler

import holdfast as hf
from holdfast.errors import DriftWarning, HoldfastError
from holdfast.models.linear_shards import LinearShards
from holdfast.shared_state import quiet

CLOSE = {"tol": 1e-12, "max_iter": 100_000}
LOGISTIC = LogisticRegression(solver="newton-cholesky", **CLOSE)
NUMBERS = ["whole", "far", "gaps"]


def table(rng, n=60):
    """Ties, a column far from 0, gaps, texts of which some are rare, people with several rows."""
    X = pd.DataFrame(
        {
            "whole": rng.integers(0, 4, n).astype(float),
            "far": 2e3 + 5 * rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "word": rng.choice(["a", "b", "c", "rare", None], n, p=[0.4, 0.3, 0.15, 0.05, 0.1]),
        },
        index=[f"P{i}" for i in rng.permutation(n)],
    )
    X["word"] = X["word"].where(X["word"].notna(), np.nan)
    z = 0.8 * (X["whole"] - 1.5) + 0.1 * (X["far"] - 2e3) + (X["word"] == "a")
    return X, z.to_numpy() + rng.normal(size=n)


def pipeline(last, scaler, strategy):
    fill = SimpleImputer(strategy=strategy)
    numbers = make_pipeline(fill, scaler) if scaler is not None else fill
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), encode)
    front = make_column_transformer((numbers, NUMBERS), (words, ["word"]))
    return make_pipeline(front, last)


def sharded(last, inside, shards, labels):
    if isinstance(last, LogisticRegression):
        return hf.ShardedClassifier(inside, shards), (labels > np.median(labels)).astype(int)
    if isinstance(last, PoissonRegressor | GammaRegressor):
        labels = np.exp(labels / 4)
    return hf.ShardedRegressor(inside, shards, low=-1.5, high=2.5), labels


@given(
    seed=st.integers(0, 10**6),
    last=st.sampled_from(
        [
            LOGISTIC,
            LogisticRegression(solver="newton-cholesky", class_weight="balanced", **CLOSE),
            Ridge(0.5),
            PoissonRegressor(solver="newton-cholesky", **CLOSE),
            GammaRegressor(solver="newton-cholesky", **CLOSE),
        ]
    ),
    scaler=st.sampled_from([None, StandardScaler(), MinMaxScaler(), MaxAbsScaler()]),
    strategy=st.sampled_from(["median", "mean"]),
    weighted=st.booleans(),
    favourable=st.sampled_from([0, 1]),
)
@settings(max_examples=25, deadline=None)
def test_effects_are_what_scikit_learns_own_refits_lead_to(
    seed, last, scaler, strategy, weighted, favourable
):
    rng = np.random.default_rng(seed)
    X, labels = table(rng)
    if scaler is None:
        X["far"] -= 2e3  # where nothing scales, solvers of others lose digits
    estimator, y = sharded(last, pipeline(last, scaler, strategy), int(rng.integers(1, 4)), labels)
    weights = rng.integers(0, 3, 60) / 2 + 0.5 * (rng.random(60) < 0.8) if weighted else None
    whose = rng.integers(0, 30, 60)
    fitted = estimator.fit(X, y, sample_weight=weights)
    classifies = isinstance(estimator, hf.ShardedClassifier)
    orient = favourable if classifies else ("low", "high")[favourable]
    model = hf.erasable(fitted, X, y, subjects=whose, sample_weight=weights, favourable=orient)
    assert model.core.linear is not None
    asked = X.iloc[:20]
    singles = model.deletions(asked).single_effects()
    before = model.scores(asked)
    for row in rng.choice(60, 3, replace=False).tolist():
        if np.isnan(singles[:, row]).any():
            continue
        honest = before - model.without([row]).scores(asked)
        assert np.allclose(singles[:, row], honest, atol=1e-8)
        assert np.allclose(model.deletions(asked).effect([row]), honest, atol=1e-8)
        told = fitted.without([row], X, y, weights)
        theirs = told.predict_proba(asked)[:, favourable] if classifies else told.predict(asked)
        ours = before - singles[:, row]
        up = 1 if classifies or favourable else -1
        ours = 1 / (1 + np.exp(-ours)) if classifies else up * ours
        assert np.allclose(
            ours, np.clip(theirs, 1e-6, 1 - 1e-6) if classifies else theirs, atol=1e-6
        )
    person = str(whose[0])
    honest = before - model.without(subjects=[person]).scores(asked)
    assert np.allclose(model.deletions(asked).effect(subjects=[person]), honest, atol=1e-8)
    units = [np.flatnonzero(whose == w) for w in np.unique(whose)[:8]]
    quick = model.core.falls(model.features(asked), units, True)
    slow = model.core.falls(model.features(asked), units, False)
    for name in ("mean", "part", "shared"):
        assert np.allclose(getattr(quick, name), getattr(slow, name), atol=1e-8)
    assert np.array_equal(quick.done, slow.done)


def test_gaps_and_words_nobody_knows_are_scored_as_by_the_fits(rng):
    X, labels = table(rng)
    X["word"] = X["word"].fillna("a")
    estimator, y = sharded(LOGISTIC, pipeline(LOGISTIC, StandardScaler(), "median"), 3, labels)
    fitted = estimator.fit(X, y)
    model = hf.erasable(fitted, X, y)
    assert model.core.linear is not None
    for asked in (X.assign(word=np.nan), X.assign(word="z", gaps=np.nan), X.assign(far=np.nan)):
        p = fitted.predict_proba(asked)[:, 1]
        assert np.allclose(model.scores(asked), np.log(p) - np.log1p(-p), atol=1e-6)


@pytest.mark.parametrize("last", [LinearRegression(), Ridge(1e-3), Ridge(1.0, fit_intercept=False)])
def test_arrays_and_least_squares(rng, last):
    X = rng.normal(size=(90, 4))
    y = X[:, 0] + rng.normal(size=90)
    fitted = hf.ShardedRegressor(last, 4, low=-2, high=2).fit(X, y)
    model = hf.erasable(fitted, X, y, favourable="high")
    assert model.core.linear is not None
    assert np.allclose(model.scores(X), fitted.predict(X), atol=1e-10)
    singles = model.deletions(X).single_effects()
    for row in (0, 41, 89):
        told = fitted.predict(X) - fitted.without([row], X, y).predict(X)
        assert np.allclose(singles[:, row], told, atol=1e-9)


def test_who_leaves_one_class_or_nobody_leaves_a_constant(rng):
    X = pd.DataFrame(rng.normal(size=(24, 2)), columns=["a", "b"])
    y = np.zeros(24, dtype=int)
    fitted = hf.ShardedClassifier(LOGISTIC, 4).fit(X, np.arange(24) % 2)
    for t in range(4):
        y[np.flatnonzero(fitted.shard_of_ == t)[:1]] = 1
    model = hf.erasable(fitted.fit(X, y), X, y)
    singles = model.deletions(X).single_effects()
    for row in np.flatnonzero(y):
        honest = model.scores(X) - model.without([row]).scores(X)
        assert np.allclose(singles[:, row], honest, atol=1e-9)
        assert 0.0 in model.without([row]).estimator.estimators_
    everybody = np.flatnonzero(fitted.shard_of_ == 0)
    honest = model.scores(X) - model.without(everybody).scores(X)
    assert np.allclose(model.deletions(X).effect(everybody), honest, atol=1e-9)


def test_what_is_not_plain_is_refitted(rng):
    X, labels = table(rng)
    y, numbers = (labels > 0).astype(int), X[["whole", "far"]]
    for inside in (
        GaussianNB(),
        make_pipeline(StandardScaler(), PCA(1), LOGISTIC),
        make_pipeline(StandardScaler(), LogisticRegression(C=np.inf)),
        make_pipeline(StandardScaler(), LogisticRegression(l1_ratio=1, solver="liblinear")),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1)),  # far from its optimum
    ):
        with quiet:
            fitted = hf.ShardedClassifier(inside, 2).fit(numbers, y)
            model = hf.erasable(fitted, numbers, y)
        assert model.core.linear is None
        told = fitted.predict_proba(numbers)[:, 1]
        assert np.allclose(1 / (1 + np.exp(-model.scores(numbers))), np.clip(told, 1e-6, 1 - 1e-6))


def test_a_solver_that_stopped_early_is_told():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    fitted = hf.ShardedClassifier(LogisticRegression(tol=0.01), 2).fit(X, y)
    with pytest.warns(DriftWarning, match="stopped short of its optimum"):
        model = hf.erasable(fitted, X, y)
    assert 0.01 < model.drift < 0.05
    assert model.without([3]).drift == model.drift


def test_a_column_that_becomes_constant_is_refitted(rng):
    X = rng.normal(size=(40, 2))
    X[:, 1] = 3.7
    X[7, 1] = 3.8
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    fitted = hf.ShardedClassifier(make_pipeline(StandardScaler(), LOGISTIC), 1).fit(X, y)
    model = hf.erasable(fitted, X, y)
    matrix = model.core.linear.matrix(X)
    assert np.isnan(model.core.linear.without(matrix, 0, [np.array([7])])).all()
    single = model.deletions(X).single_effects()[:, 7]
    assert np.allclose(single, model.scores(X) - model.without([7]).scores(X), atol=1e-10)


def test_points_that_cannot_be_scored_are_refused_by_scikit_learn(rng):
    X, labels = table(rng)
    y = (labels > 0).astype(int)
    front = make_column_transformer((StandardScaler(), ["far"]), (OneHotEncoder(), ["word"]))
    X["word"] = X["word"].where(X["word"].isin(["b", "c"]), "a")
    fitted = hf.ShardedClassifier(make_pipeline(front, LOGISTIC), 2).fit(X, y)
    model = hf.erasable(fitted, X, y)
    assert model.core.linear is not None
    with pytest.raises(HoldfastError, match="unknown categories"):
        model.scores(X.iloc[:2].assign(word="z"))
    with pytest.raises(HoldfastError, match="NaN"):
        model.scores(X.iloc[:2].assign(far=np.nan))
    assert len(model.scores(X.iloc[:2].assign(gaps=np.nan))) == 2  # not looked at


@pytest.mark.parametrize("unit", ["row", "subject"])
@pytest.mark.parametrize("favourable", [0, 1])
def test_no_certificate_is_wrong(rng, unit, favourable):
    n = 10
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = (X["a"].to_numpy() + rng.normal(size=n) > 0).astype(int)
    y[:2] = [0, 1]
    whose = rng.integers(0, 6, n)
    fitted = hf.ShardedClassifier(make_pipeline(StandardScaler(), LOGISTIC), 3)
    by = whose if unit == "subject" else None
    model = hf.erasable(fitted.fit(X, y, groups=by), X, y, subjects=whose, favourable=favourable)
    assert model.core.linear is not None
    units = [[i] for i in range(n)]
    if unit == "subject":
        units = [r.tolist() for r in model.rows.rows_of_subject.values()]
    scores, falls = model.scores(X), [np.zeros(n)]
    for k in (1, 2):
        most = falls[-1].copy()
        for chosen in itertools.combinations(units, k):
            rows = list(itertools.chain(*chosen))
            left = np.delete(y, rows)
            if len(set(left.tolist())) == 2:
                p = model.estimator.without(rows, X, y).predict_proba(X)[:, favourable]
                p = np.clip(p, 1e-6, 1 - 1e-6)
                most = np.maximum(most, scores - np.log(p) + np.log1p(-p))
        falls.append(most)
    tight = 0
    for beyond, k, j in itertools.product((1e-6, -1e-6, 0.2), (1, 2), range(n)):
        target = float(scores[j] - falls[k][j] - beyond)
        if scores[j] >= target:
            proof = hf.certify(model, X.iloc[[j]], target, 2, unit=unit)
            certified = int(proof["certified"].iloc[0])
            assert scores[j] - falls[certified][j] >= target
            if k == 1 and beyond > 0:
                assert certified >= 1  # one deletion is exact
            tight += proof["status"].iloc[0] == "tight"
    assert tight > 0


def test_every_row_is_looked_at(rng, monkeypatch):
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    y = (X["a"] + rng.normal(size=80) > 0).astype(int)
    model = hf.erasable(hf.ShardedClassifier(LOGISTIC, 4).fit(X, y), X, y)
    monkeypatch.setattr("holdfast.searches.parts.LOOKED_AT", 5)
    points = X[(model.scores(X) > 0.1) & (model.scores(X) < 1.0)]
    plan = hf.search(model, points, 0.0, 2)
    assert plan.notes.get("looked at", {"one by one": 80})["one by one"] == 80
    assert np.array_equal(plan.predicted, plan.rerun())
    proof = hf.certify(model, points, 0.0, 1)
    after = np.min([model.without([i]).scores(points) for i in range(80)], axis=0)
    assert np.array_equal(after >= 0.0, (proof["certified"] >= 1).to_numpy())


def test_no_time_looks_at_nobody(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    model = hf.erasable(hf.ShardedClassifier(LOGISTIC, 4).fit(X, y), X, y)
    found = model.core.falls(X, [np.array([i]) for i in range(60)], True, until=0.0)
    assert found.done.size == 0
    assert found.mean.shape == (60, 0)


def test_refits_share_what_is_known_of_untouched_shards(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    model = hf.erasable(hf.ShardedClassifier(LOGISTIC, 4).fit(X, y), X, y)
    fewer = model.without([7])
    touched = model.estimator.shard_of_[7]
    assert isinstance(fewer.core.linear, LinearShards)
    for t in range(4):
        same = model.core.linear._shards[t] is fewer.core.linear._shards[t]
        assert same == (t != touched)


def held_to_scikit_learn(inside, X, y, gone, weights=None, shards=1):
    """Effects of a deletion are those of scikit-learn's own refits; the model."""
    if isinstance(inside[-1], LogisticRegression):
        made = hf.ShardedClassifier(inside, shards)
        model = hf.erasable(made.fit(X, y, sample_weight=weights), X, y, sample_weight=weights)
    else:
        made = hf.ShardedRegressor(inside, shards, low=-3, high=5)
        fitted = made.fit(X, y, sample_weight=weights)
        model = hf.erasable(fitted, X, y, sample_weight=weights, favourable="high")

    def says(fit):
        if not hasattr(fit, "classes_"):
            return fit.predict(X)
        p = np.clip(fit.predict_proba(X)[:, 1], 1e-6, 1 - 1e-6)
        return np.log(p) - np.log1p(-p)

    with quiet:
        honest = says(made) - says(made.without(gone, X, y, weights))
        assert np.allclose(model.deletions(X).effect(gone), honest, atol=1e-7)
        if len(gone) == 1:
            single = model.deletions(X).single_effects()[:, gone[0]]
            assert np.allclose(single, honest, atol=1e-7)
    return model


def plain(rng, n=40):
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    return X, X["a"].to_numpy() + rng.normal(size=n)


def test_a_flag_that_is_1_or_missing_is_scaled_with_its_fill(rng):
    X, y = plain(rng)
    X["flag"] = np.where(rng.random(40) < 0.3, 1.0, np.nan)
    fill = SimpleImputer(strategy="constant", fill_value=0.0)
    for last, labels in ((Ridge(0.1), y), (LOGISTIC, (y > 0).astype(int))):
        model = held_to_scikit_learn(make_pipeline(fill, StandardScaler(), last), X, labels, [3])
        assert model.core.linear is not None


def test_columns_of_gaps_alone_are_dropped(rng):
    X, y = plain(rng)
    numbers = X.assign(c=np.where(np.arange(40) == 5, 2.0, np.nan))
    fill, last = SimpleImputer(strategy="constant", fill_value=1.0), Ridge(fit_intercept=False)
    model = held_to_scikit_learn(make_pipeline(fill, last), numbers, y, [5])
    assert model.core.linear is not None
    X["word"] = np.where(np.arange(40) == 5, "u", None)
    X["word"] = X["word"].where(X["word"].notna(), np.nan)
    X["other"] = rng.choice(["p", "q"], 40)
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), encode)
    front = make_column_transformer((MaxAbsScaler(), ["a", "b"]), (words, ["word", "other"]))
    model = held_to_scikit_learn(make_pipeline(front, last), X, y, [5])
    assert model.core.linear is not None


def test_a_shard_in_which_nobody_who_is_left_counts_says_what_an_empty_one_says(rng):
    X, y = plain(rng)
    last = Ridge(fit_intercept=False)
    shard = hf.ShardedRegressor(last, 2, low=-3, high=5).fit(X, y).shard_of_
    first, second = np.flatnonzero(shard == 0)[:2].tolist()
    weights = np.where(shard == 0, 0.0, 1.0)
    weights[[first, second]] = 1.0
    held_to_scikit_learn(make_pipeline(last), X, y, [first, second], weights, 2)
    labels = np.where(shard == 0, 1, (y > 0).astype(int))
    labels[first] = 0
    held_to_scikit_learn(make_pipeline(LOGISTIC), X, labels, [first, second], weights, 2)
    weights[second] = 0.0
    held_to_scikit_learn(make_pipeline(LOGISTIC), X, labels, [first], weights, 2)


def test_column_transformers_that_do_more_are_refitted(rng):
    X, y = plain(rng)
    labels = (y > 0).astype(int)
    X["word"] = rng.choice(["p", "q"], 40)
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    loose = LogisticRegression(solver="newton-cholesky", C=1e4, **CLOSE)
    parts = [("n", StandardScaler(), ["a", "b"]), ("w", encode, ["word"])]
    for front in (
        ColumnTransformer(parts, transformer_weights={"n": 0.3, "w": 2.0}),
        ColumnTransformer([*parts, ("again", encode, ["word"])]),
        ColumnTransformer(
            [("n", StandardScaler(), lambda t: ["a", "b"][: 1 + (t["a"] > 1).any()])]
        ),
    ):
        model = held_to_scikit_learn(make_pipeline(front, loose), X, labels, [3])
        assert model.core.linear is None


@pytest.mark.parametrize("unknown", ["infrequent_if_exist", "warn"])
def test_unknown_words_are_scored_however_the_encoder_passes_them_over(rng, unknown):
    X, y = plain(rng)
    X["word"] = rng.choice(["p", "q"], 40)
    encode = OneHotEncoder(handle_unknown=unknown, sparse_output=False)
    front = make_column_transformer((StandardScaler(), ["a", "b"]), (encode, ["word"]))
    fitted = hf.ShardedClassifier(make_pipeline(front, LOGISTIC), 2).fit(X, (y > 0).astype(int))
    model = hf.erasable(fitted, X, (y > 0).astype(int))
    asked = X.assign(word="z")
    with quiet:
        p = fitted.predict_proba(asked)[:, 1]
        assert np.allclose(model.scores(asked), np.log(p) - np.log1p(-p), atol=1e-8)


def test_single_precision_is_fitted_in_single_precision(rng):
    X, y = plain(rng)
    X["b"] = np.append(rng.random(39) * 8e-7, 1.0)  # constant to MinMaxScaler without the last
    X = X.astype(np.float32)
    model = held_to_scikit_learn(make_pipeline(MinMaxScaler(), Ridge(0.1)), X, y, [39])
    assert model.core.linear is None

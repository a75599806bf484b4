"""Boosting as it is: leaves recomputed, bins kept, searches within a budget of refits."""

import math

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import DMatrix, XGBClassifier, XGBRegressor
from xgboost import train as train_xgboost

import holdfast as hf
from holdfast.cases.modelfile import loaded_model, save_model
from holdfast.cases.remarks import Remarks
from holdfast.estimators.boosted import boosted, library_scores
from holdfast.estimators.steady import steadied
from holdfast.models.refits import Refits

try:
    import catboost
except ImportError:
    catboost = None

NEEDS_CATBOOST = pytest.mark.skipif(catboost is None, reason="catboost is not installed: 100 MB")

QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
TREES = 12
ESTIMATORS = {
    "lightgbm": LGBMClassifier(n_estimators=TREES, reg_lambda=0.3, n_jobs=1, verbose=-1),
    "lightgbm numbers": LGBMRegressor(n_estimators=TREES, n_jobs=1, verbose=-1),
    "xgboost": XGBClassifier(n_estimators=TREES, max_depth=4, n_jobs=1),
    "xgboost numbers": XGBRegressor(n_estimators=TREES, reg_lambda=2.0, n_jobs=1),
    "histograms": HistGradientBoostingClassifier(max_iter=TREES, l2_regularization=0.2),
    "histograms numbers": HistGradientBoostingRegressor(max_iter=TREES),
    "stagewise": GradientBoostingClassifier(n_estimators=TREES, random_state=0),
    "stagewise numbers": GradientBoostingRegressor(n_estimators=TREES, random_state=0),
}
if catboost is not None:
    ESTIMATORS["catboost"] = catboost.CatBoostClassifier(iterations=TREES, depth=4, **QUIET)
    ESTIMATORS["catboost numbers"] = catboost.CatBoostRegressor(iterations=TREES, depth=4, **QUIET)
#: η, λ and the start that each library is documented to use: not read from its models
WRITTEN = {
    "lightgbm": (0.1, 0.3, "mean"),
    "lightgbm numbers": (0.1, 0.0, "mean"),
    "xgboost": (0.3, 1.0, "mean"),
    "xgboost numbers": (0.3, 2.0, "mean"),
    "histograms": (0.1, 0.2, "mean"),
    "histograms numbers": (0.1, 0.0, "mean"),
    "stagewise": (0.1, 0.0, "mean"),
    "stagewise numbers": (0.1, 0.0, "mean"),
    "catboost": (None, 3.0, "zero"),
    "catboost numbers": (None, 3.0, "mean"),
}


def _problem(n=240, d=4, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signal = X @ np.array([1.0, -0.7, 0.4, 0.0]) + 0.5 * rng.normal(size=n)
    return X, signal


def _fitted(name, weights=None):
    X, signal = _problem()
    y = signal if "numbers" in name else (signal > 0).astype(int)
    estimator = ESTIMATORS[name]
    return estimator.fit(X, y, sample_weight=weights), X, y


def _slowly(name, fitted, X, y, weights, queries):
    """The recursion with one row at a time, in plain floats; leaves by the library's own word."""
    rate, penalty, start = WRITTEN[name]
    if rate is None:
        rate = fitted.get_all_params()["learning_rate"]
        penalty *= sum(weights) / len(weights)  # CatBoost's is in units of the mean weight
    mean = sum(w * v for w, v in zip(weights, y, strict=True)) / sum(weights)
    first = 0.0
    if start == "mean":
        first = mean if "numbers" in name else math.log(mean / (1 - mean))
    leaves, theirs = (boosted(fitted).leaves(Q) for Q in (X, queries))
    F, found = [first] * len(y), [first] * len(queries)
    for tree in range(leaves.shape[1]):
        sums = {}
        for i, leaf in enumerate(leaves[:, tree]):
            p = F[i] if "numbers" in name else 1 / (1 + math.exp(-F[i]))
            h = 1.0 if "numbers" in name else p * (1 - p)
            G, H = sums.get(leaf, (0.0, 0.0))
            sums[leaf] = (G + weights[i] * (p - y[i]), H + weights[i] * h)
        least = 1.0 if name.startswith("xgboost") else 0.0  # its min_child_weight
        step = {
            leaf: -rate * G / (H + penalty) if least <= H else 0.0 for leaf, (G, H) in sums.items()
        }
        F = [f + step[leaf] for f, leaf in zip(F, leaves[:, tree], strict=True)]
        found = [f + step.get(leaf, 0.0) for f, leaf in zip(found, theirs[:, tree], strict=True)]
    return np.array(found)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_with_nobody_erased_the_fitted_scores_come_out_again(name):
    fitted, X, y = _fitted(name)
    model = hf.erasable(fitted, X, y, update="leaves")
    np.testing.assert_allclose(model.scores(X), library_scores(fitted, X), atol=2e-6)
    assert model.name == type(fitted).__name__
    assert not model.can.draws


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_leaves_without_some_rows_are_those_of_the_recursion(name, weighted, rng):
    weights = rng.uniform(0.5, 2.0, 240) if weighted else None
    fitted, X, y = _fitted(name, weights)
    model = hf.erasable(fitted, X, y, sample_weight=weights, update="leaves")
    queries, gone = rng.normal(size=(20, 4)), [3, 50, 51, 170]
    keep = np.delete(np.arange(240), gone)
    w = np.ones(240) if weights is None else weights
    slow = _slowly(name, fitted, X[keep], y[keep].tolist(), w[keep].tolist(), queries)
    np.testing.assert_allclose(model.without(gone).scores(queries), slow, atol=5e-6)
    assert np.abs(model.scores(queries) - slow).max() > 1e-3  # the rows did something


def test_a_leaf_without_rows_gives_nothing():
    X, signal = _problem()
    fitted = GradientBoostingRegressor(n_estimators=1, min_samples_leaf=1, max_depth=8).fit(
        X, signal
    )
    model = hf.erasable(fitted, X, signal, update="leaves")
    leaves = fitted.apply(X)[:, 0]
    alone = int(np.flatnonzero(np.bincount(leaves.astype(int))[leaves.astype(int)] == 1)[0])
    after = model.without([alone])
    np.testing.assert_allclose(after.scores(X[[alone]]), np.delete(signal, alone).mean())


@pytest.mark.filterwarnings("ignore")  # XGBoost warns of its own way to refresh leaves
def test_leaves_are_those_of_xgboosts_own_refresh():
    fitted, X, y = _fitted("xgboost")
    model, keep = hf.erasable(fitted, X, y, update="leaves"), np.delete(np.arange(240), [7, 8, 9])
    booster = fitted.get_booster()
    start = model.without([7, 8, 9]).estimator.start_  # the mean of the labels left
    data = DMatrix(X[keep], y[keep])
    own = {**fitted.get_xgb_params(), "base_score": 1 / (1 + math.exp(-start))}
    changed = bytearray(_with_base_score(booster, own["base_score"]))
    refreshed = train_xgboost(
        {**own, "process_type": "update", "updater": "refresh", "refresh_leaf": True},
        data,
        num_boost_round=TREES,
        xgb_model=changed,
    )
    np.testing.assert_allclose(
        model.without([7, 8, 9]).scores(X),
        refreshed.predict(DMatrix(X), output_margin=True),
        atol=5e-6,
    )


def _with_base_score(booster, score):
    import json

    document = json.loads(booster.save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = f"[{score!r}]"
    return json.dumps(document).encode()


def test_classes_with_names_weights_of_classes_and_pipelines(rng):
    X, signal = _problem()
    y = np.where(signal > 0.5, "good", "bad")
    boosting = HistGradientBoostingClassifier(max_iter=8, class_weight="balanced")
    pipeline = make_pipeline(StandardScaler(), boosting).fit(X, y)
    model = hf.erasable(pipeline, X, y, favourable="bad", update="leaves")
    np.testing.assert_allclose(model.scores(X), -pipeline.decision_function(X), atol=1e-9)
    gone = np.flatnonzero(y == "good")[:20]
    keep = np.setdiff1d(np.arange(240), gone)
    trees, Z = boosted(boosting), pipeline[:-1].transform(X)
    start, values = trees.values_for(trees.leaves(Z[keep]), (y[keep] == "good") * 1.0, np.ones(220))
    after = model.without(gone)
    np.testing.assert_allclose(after.scores(X), -trees.scored(trees.leaves(Z), start, values))
    # balanced weights are those of the rows left: the mean starts at even odds again
    assert start == pytest.approx(0.0, abs=1e-12)


REFUSED = {
    "draws of rows": (GradientBoostingClassifier(n_estimators=3, subsample=0.5), "subsample=0.5"),
    "a loss of quantiles": (GradientBoostingRegressor(loss="huber"), "huber"),
    "rows kept out": (
        HistGradientBoostingClassifier(max_iter=3, early_stopping=True),
        "unrecorded",
    ),
    "other leaves": (
        LGBMClassifier(path_smooth=3.0, n_estimators=3, n_jobs=1, verbose=-1),
        "path_smooth=3",
    ),
    "bagging": (
        LGBMClassifier(n_estimators=3, subsample=0.5, subsample_freq=1, n_jobs=1, verbose=-1),
        "bagging",
    ),
    "absolute penalty": (XGBClassifier(n_estimators=3, reg_alpha=1.0), "reg_alpha"),
    "a forest": (RandomForestClassifier(3), "none of the boosting models"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_computed_again_is_refused_by_name(name):
    estimator, pattern = REFUSED[name]
    X, signal = _problem()
    y = signal if isinstance(estimator, GradientBoostingRegressor) else (signal > 0).astype(int)
    with pytest.raises(hf.UnsupportedModelError, match=pattern):
        hf.erasable(estimator.fit(X, y), X, y, update="leaves")


@NEEDS_CATBOOST
def test_several_steps_of_catboost_are_refused():
    X, signal = _problem()
    y = (signal > 0).astype(int)
    fitted = catboost.CatBoostClassifier(iterations=3, leaf_estimation_iterations=5, **QUIET)
    with pytest.raises(hf.UnsupportedModelError, match="5 steps"):
        hf.erasable(fitted.fit(X, y), X, y, update="leaves")


@NEEDS_CATBOOST
def test_categories_of_catboost_are_refused():
    X, signal = _problem()
    frame = pd.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0, "u", "v")})
    y = (signal > 0).astype(int)
    fitted = catboost.CatBoostClassifier(iterations=3, cat_features=["kind"], **QUIET).fit(frame, y)
    with pytest.raises(hf.UnsupportedModelError, match="random order"):
        hf.erasable(fitted, frame, y, update="leaves")


def test_another_table_is_refused_with_the_measured_difference():
    fitted, X, y = _fitted("lightgbm")
    with pytest.raises(hf.UnsupportedModelError, match=r"up to [\d.]+ deviations"):
        hf.erasable(fitted, X, 1 - y, update="leaves")
    with pytest.raises(hf.HoldfastError, match="update must be one of"):
        hf.erasable(fitted, X, y, update="leafs")


@pytest.mark.parametrize("name", ["lightgbm", "lightgbm numbers", "xgboost", "xgboost numbers"])
def test_kept_bins_split_where_the_first_fit_could(name):
    fitted, X, y = _fitted(name)
    model = hf.erasable(fitted, X, y, update="bins")
    np.testing.assert_allclose(model.scores(X), library_scores(fitted, X), atol=2e-5)
    gone = np.arange(0, 60)
    own, full = model.without(gone), hf.erasable(fitted, X, y).without(gone)
    assert np.abs(own.scores(X) - full.scores(X)).max() > 1e-6  # borders matter
    if name == "xgboost":  # a split is at one of the borders of all rows
        data = _quantiles(X, y)
        raw = own.estimator.raw_
        booster = next(
            c.cell_contents for c in raw.__closure__ if hasattr(c.cell_contents, "get_dump")
        )
        table = booster.trees_to_dataframe()
        for column in range(4):
            splits = table.loc[table["Feature"] == f"f{column}", "Split"].to_numpy(dtype=np.float32)
            assert np.isin(splits, data[column]).all()


def _quantiles(X, y):
    from xgboost import QuantileDMatrix

    places, values = QuantileDMatrix(X, y, max_bin=256).get_quantile_cut()
    return [
        values[a:b] for a, b in zip(places[:-1].astype(int), places[1:].astype(int), strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("histograms", "no public way"),
        ("stagewise", "no bins"),
        pytest.param("catboost", "file", marks=NEEDS_CATBOOST),
    ],
)
def test_bins_that_cannot_be_kept_are_refused_with_the_reason(name, pattern):
    fitted, X, y = _fitted(name)
    with pytest.raises(hf.UnsupportedModelError, match=pattern):
        hf.erasable(fitted, X, y, update="bins")


@pytest.fixture(scope="module")
def promised():
    """A LightGBM model, people it turned down, and a point for each that it accepts."""
    X, signal = _problem(300, seed=5)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"], index=[f"p{i}" for i in range(300)])
    y = (signal > 0).astype(int)
    fitted = LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1).fit(frame, y)
    model = hf.erasable(fitted, frame, y)
    people = frame[model.scores(frame) < 0].iloc[:30]
    return fitted, frame, y, hf.find_recourse(model, people, target=0.0, method="growing-spheres")


def test_what_a_policy_keeps_is_said_with_every_number(promised):
    fitted, X, y, given = promised
    words = "structure is kept and still remembers the erased row"
    model = hf.erasable(fitted, X, y, update="leaves")
    result = hf.audit(model, given, max_deletions=2, max_refits=4, draws=2)
    assert words in result.headline
    assert "confirmed by that update" in result.headline
    assert "given 4 refits and made" in result.headline
    summary = result.summary()
    assert words in summary.headline.sentence
    assert any(words in line for line in summary.limits)
    assert summary.model.name == "LGBMClassifier"
    assert "seeds" not in result.headline  # nothing is drawn
    assert words in repr(model)
    assert words in repr(result.plan)
    found = hf.impact(model, given, erase=["p3", "p4"])
    assert words in found.headline
    assert words in hf.harden(model, given.people, 0.0, 1, mitigations=["honour"]).recommendation
    plain = hf.audit(hf.erasable(fitted, X, y), given, max_deletions=1, max_refits=1, draws=2)
    assert words not in plain.headline


def test_a_search_keeps_to_its_refits_and_says_how_far_it_is(promised):
    fitted, X, y, given = promised
    model, told = hf.erasable(fitted, X, y), []
    plan = hf.search(
        model,
        given,
        0.0,
        max_deletions=4,
        max_refits=9,
        method="refit",
        progress=lambda done, total: told.append((done, total)),
    )
    assert plan.notes["refits made"] <= 9 == plan.notes["max refits"]
    assert plan.notes["candidates ranked by"] == "leaves"
    assert told[-1] == (plan.notes["refits made"], 9)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    np.testing.assert_allclose(plan.predicted, plan.rerun())
    fewer = hf.search(model, given, 0.0, max_deletions=6, max_refits=2, method="refit")
    assert fewer.notes["refits made"] == 2
    assert [len(rows) for rows in fewer.sets][:3] == [0, 0, 0]  # the second half is what was tried


def test_candidates_that_hold_recourses_up_come_first(promised):
    """Without the rows that the leaves name, more breaks than without as many others."""
    fitted, X, y, given = promised
    model = hf.erasable(fitted, X, y)
    shares = {
        order: hf.search(
            model, given, 0.0, 12, "refit", surrogate=order, max_refits=12, random_state=3
        ).predicted[-1]
        for order in ("leaves", "random")
    }
    assert shares["leaves"] > shares["random"]


def test_pulls_are_what_one_tree_loses():
    X, signal = _problem(80)
    fitted = GradientBoostingRegressor(n_estimators=1, max_depth=3, init="zero").fit(X, signal)
    model = hf.erasable(fitted, X, signal, update="leaves")
    pulls = model.leaf_pulls(X[:5])
    for row in (0, 7, 40):
        drop = model.scores(X[:5]) - model.without([row]).scores(X[:5])
        np.testing.assert_allclose(pulls[:, row], drop, atol=1e-6)


def test_budgets_that_make_no_sense(promised):
    fitted, X, y, given = promised
    model = hf.erasable(fitted, X, y)
    with pytest.raises(hf.HoldfastError, match="give one of them"):
        hf.search(model, given, 0.0, 2, "refit", leaders=2, max_refits=4)
    with pytest.raises(hf.HoldfastError, match="surrogate must be one of"):
        hf.search(model, given, 0.0, 2, "refit", surrogate="leaf")
    with pytest.raises(hf.HoldfastError, match="max_refits"):
        hf.search(model, given, 0.0, 2, "refit", max_refits=0)
    from sklearn.linear_model import LinearRegression

    linear = hf.erasable(LinearRegression().fit(X, y), X, y)
    with pytest.raises(hf.HoldfastError, match="has an algebra"):
        hf.audit(linear, given.points, 0.0, 2, max_refits=5)


def test_refits_are_on_one_thread_and_in_one_fixed_way():
    assert steadied(LGBMClassifier(n_jobs=4)).get_params()["force_row_wise"]
    kept = steadied(LGBMClassifier(force_col_wise=True)).get_params()
    assert "force_row_wise" not in kept
    assert kept["deterministic"]
    assert steadied(XGBClassifier(n_jobs=4)).n_jobs == 1
    assert kept["verbose"] == -1
    X, signal = _problem()
    y = (signal > 0).astype(int)
    fitted = LGBMClassifier(n_estimators=20, verbose=-1).fit(X, y)  # threads, and its own way
    again = hf.erasable(fitted, X, y).refitted_on(np.arange(240))
    np.testing.assert_allclose(again.scores(X), hf.erasable(fitted, X, y).scores(X), atol=1e-9)


def test_trees_left_by_an_early_stop_are_kept():
    X, signal = _problem()
    y, (A, B) = (signal > 0).astype(int), (slice(0, 160), slice(160, 240))
    stopped = XGBClassifier(n_estimators=80, early_stopping_rounds=3, n_jobs=1)
    stopped.fit(X[A], y[A], eval_set=[(X[B], y[B])], verbose=False)
    by_callback = LGBMClassifier(n_estimators=80, n_jobs=1, verbose=-1).fit(
        X[A], y[A], eval_set=[(X[B], y[B])], callbacks=[early_stopping(3, verbose=False)]
    )
    assert stopped.best_iteration < 79
    assert by_callback.best_iteration_ < 80
    for fitted in (stopped, by_callback):
        model = hf.erasable(fitted, X[A], y[A])
        again = model.refitted_on(np.arange(160))
        np.testing.assert_allclose(again.scores(X), model.scores(X), atol=1e-6)
        assert np.isfinite(Refits(model, X[:5]).reseeded(np.random.default_rng(0), 1)).all()
        kept = hf.erasable(fitted, X[A], y[A], update="leaves")
        np.testing.assert_allclose(kept.scores(X), model.scores(X), atol=1e-5)


def test_a_model_with_kept_bins_is_not_saved(tmp_path):
    fitted, X, y = _fitted("lightgbm")
    with pytest.raises(hf.HoldfastError, match="cannot be saved"):
        save_model(hf.erasable(fitted, X, y, update="bins").estimator, tmp_path / "m.skops")
    kept = hf.erasable(fitted, X, y, update="leaves").without([3])
    save_model(kept.estimator, tmp_path / "m.skops")
    read = loaded_model(tmp_path / "m.skops", False, [], Remarks())
    again = hf.erasable(read, np.delete(X, 3, 0), np.delete(y, 3))
    np.testing.assert_array_equal(again.scores(X), kept.scores(X))
    assert "structure is kept" in again.kept


@NEEDS_CATBOOST
def test_refits_of_catboost_are_on_one_thread_and_silent():
    own = steadied(catboost.CatBoostClassifier(logging_level="Silent")).get_params()
    assert own["thread_count"] == 1
    assert "verbose" not in own
    assert steadied(catboost.CatBoostClassifier()).get_params()["verbose"] is False


@NEEDS_CATBOOST
def test_catboost_draws_and_other_seeds_are_drawn_for_it():
    fitted, X, y = _fitted("catboost")
    model = hf.erasable(fitted, X, y)
    assert model.can.draws
    scores = Refits(model, X[:10]).reseeded(np.random.default_rng(0), 2)
    assert np.abs(scores[0] - scores[1]).max() > 1e-3

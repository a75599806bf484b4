"""One rule for every family: audited, searched, refitted, and told what a refit alone does."""

import importlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf
from families import FAMILIES, fitted
from holdfast.models.refits import Refits, broken, shares_broken
from lender import loans


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_audited_and_searched(name, rng):
    """Also those without the algebra, by refits, saying so."""
    model, Q = fitted(name, rng)
    target = float(np.quantile(model.scores(Q), 0.2))
    result = hf.audit(model, Q, target, max_deletions=2, draws=2)
    refits = Refits(model, Q[model.scores(Q) >= target])
    honest = shares_broken(refits.without(result.plan.sets), target)
    np.testing.assert_allclose(result.curve["refitted"], honest)
    assert result.summary().model.deletions == model.algebra
    assert (result.seeds is not None) == model.can.draws
    if model.can.draws:
        assert "other seeds alone break" in result.headline
        assert result.summary().headline.seeds.draws == 3
    for method in ("best", "refit"):
        plan = hf.search(model, Q, target, max_deletions=1, method=method)
        assert plan.method == ("refit" if method == "refit" or not model.can.predicts else "best")
    if not model.can.predicts:
        with pytest.raises(hf.UnsupportedModelError, match="'refit' .* and 'random'"):
            hf.search(model, Q, target, max_deletions=1, method="greedy")


def test_gates_honour_the_approximation(rng, monkeypatch):
    model, Q = fitted("logistic", rng)
    asked = []
    honest = type(model).deletions

    def noted(self, Q, of="scores", method=None):
        asked.append(method)
        return honest(self, Q, of, method)

    monkeypatch.setattr(type(model), "deletions", noted)
    target = float(np.quantile(model.scores(Q), 0.2))
    for approximation in ("newton", "jackknife"):
        asked.clear()
        hf.search(model, Q, target, 2, "gates", approximation=approximation, steps=20)
        assert set(asked) == {approximation}


# a promise that the refitted pipeline cannot score ------------------------------------------


def last_of_a_category():
    """One person alone holds a category, and others are told to get there."""
    table = loans()[["age", "savings", "region"]].set_axis(
        [f"C-{i:03d}" for i in range(240)], axis=0
    )
    table.loc["C-000", "region"] = "abroad"
    y = table["age"] / 10 + table["savings"] / 1000 + (table["region"] == "abroad") * 5
    front = make_column_transformer(
        (StandardScaler(), ["age", "savings"]), (OneHotEncoder(sparse_output=False), ["region"])
    )
    model = hf.erasable(make_pipeline(front, Ridge(1.0)).fit(table, y), table, y)
    points = table[1:40].copy()
    points.iloc[:6, points.columns.get_loc("region")] = "abroad"
    target = float(model.scores(points).min()) - 1e-9
    return model, points, target


def test_what_cannot_be_scored_is_broken_with_the_reason():
    model, points, target = last_of_a_category()
    rows = np.array([0])
    refits = Refits(model, points)
    for by in ("estimator", "solver"):
        after = refits.without([rows], by=by)[0]
        assert np.isnan(after[:6]).all()
        assert not np.isnan(after[6:]).any()
        assert broken(after, target)[:6].all()
        assert shares_broken(after[None], target)[0] >= 6 / 39
    assert "abroad" in refits.why_not(rows)[0] or "categor" in refits.why_not(rows)[0]
    plan = hf.search(model, points, target, 1, lambda attack, budget, rng: [[], [0]])
    assert plan.rerun()[1] >= 6 / 39
    assert hf.invalidation_rate(model, points, target, [0]) >= 6 / 39
    result = hf.audit(
        model, points, target, 1, search=lambda attack, budget, rng: [[], [0]], draws=2
    )
    assert result.share_broken(1) >= 6 / 39
    assert (result.recourses["broken_at"].iloc[:6] == 1).all()
    assert result.recourses["without_score"].iloc[:6].str.contains("categor").all()


def test_hardening_counts_it_as_broken_too(monkeypatch):
    margin = importlib.import_module("holdfast.audits.hardening.margin")

    model, points, target = last_of_a_category()
    given = SimpleNamespace(
        points=points,
        valid=pd.Series(True, index=points.index),
        score=pd.Series(model.scores(points), index=points.index),
    )
    attack = SimpleNamespace(sets=[np.array([], dtype=int), np.array([0])])
    monkeypatch.setattr(margin, "search", lambda *a, **o: attack)
    assert not margin._survives(model, given, target, 1, "row")[:6].any()


def test_nan_never_counts_as_surviving():
    scores = np.array([[np.nan, 1.0, -1.0], [np.nan] * 3])
    assert broken(scores, 0.0).tolist() == [[True, False, True], [True] * 3]
    np.testing.assert_allclose(shares_broken(scores, 0.0), [2 / 3, 1.0])


def test_everything_without_a_score_is_everything_broken():
    """A refit that can score none of the promises is a refit; one that cannot be made is none."""
    model, points, _ = last_of_a_category()
    points, rows = points[:3], np.array([0])
    target = float(model.scores(points).min()) - 1e-9
    refits = Refits(model, points)
    for by in ("estimator", "solver"):
        np.testing.assert_array_equal(refits.shares([rows], target, by=by), [1.0])
    erase_her = lambda attack, budget, rng: [[], [0]]  # noqa: E731
    result = hf.audit(model, points, target, 1, search=erase_her, draws=2)
    assert result.share_broken(1) == 1.0
    assert (result.recourses["broken_at"] == 1).all()
    assert "breaks 100 %" in result.headline
    late = Refits(model, points)
    late.until = -np.inf
    assert np.isnan(late.shares([rows], target)).all()
    assert not late.tried([rows])[0]


def test_no_penalty_leaves_the_choice_to_the_estimator():
    """Without one an optimum need not be unique: both ways are the estimator's."""
    table = loans()
    X, y = table[["age", "region"]], (table["repaid"] == "yes").astype(int)
    pair = [int(np.flatnonzero(y == label)[0]) for label in (0, 1)]
    X.loc[pair, "region"] = "abroad"
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    front = make_column_transformer((StandardScaler(), ["age"]), (encode, ["region"]))
    last = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000)
    model = hf.erasable(make_pipeline(front, last).fit(X, y), X, y)
    refits = Refits(model, X[:5])
    rows = [np.array(pair)]
    for kept in ("refitted", "kept"):
        honest = refits.without(rows, preprocessing=kept)
        ours = refits.without(rows, preprocessing=kept, by="solver")
        np.testing.assert_allclose(ours, honest, atol=1e-6)
        assert np.abs(ours).max() < 100


# headline, time, first answers ----------------------------------------------------------------


def test_headline_and_table_agree_where_nothing_is_proven(rng):
    model, Q = fitted("logistic", rng, n=40)
    target = float(model.scores(Q).min()) - 1e-6
    result = hf.audit(model, Q, target, max_deletions=3, draws=2)
    for k in (1, 2, 3):
        ceiling = result.ceiling(k)
        assert ceiling is None or ceiling < 1
    if result.ceiling(result.headline_at) is None:
        assert "No ceiling is proven" in result.headline
        assert "Proven" not in result.headline


def test_a_time_limit_covers_everything_and_says_what_is_missing(rng):
    model, Q = fitted("logistic", rng, n=60)
    target = float(np.quantile(model.scores(Q), 0.2))
    late = hf.audit(model, Q, target, max_deletions=3, draws=2, time_limit=0.0)
    assert "certificates" in late.missing
    assert late.proof is None
    assert np.isfinite(late.curve["refitted"].iloc[-1])  # what is acted on is there
    assert "missing" in late.headline
    assert late.summary().missing == late.missing
    assert "The time limit struck" in late.to_html()
    fine = hf.audit(model, Q, target, max_deletions=3, draws=2, time_limit=600.0)
    assert fine.missing == []
    assert fine.curve["predicted"].equals(hf.audit(model, Q, target, 3, draws=2).curve["predicted"])


@pytest.mark.parametrize("name", ["linear", "logistic", "forest"])
def test_a_first_answer_is_labelled(name, rng):
    model, Q = fitted(name, rng)
    target = float(np.quantile(model.scores(Q), 0.2))
    quick = hf.audit(model, Q, target, max_deletions=2, quick=True)
    assert quick.headline.startswith("A first answer")
    assert quick.summary().headline.quick
    assert quick.proof is None
    assert quick.overshoots is None
    honest = Refits(model, quick.plan.points).without(quick.plan.sets)
    np.testing.assert_allclose(quick.curve["refitted"], shares_broken(honest, target))


def test_most_refits_are_by_our_own_solver(monkeypatch):
    """scikit-learn fits the attack's curve, at which one acts, and nothing else."""
    table = loans()
    X, y = table[["age", "savings", "region"]], (table["repaid"] == "yes").astype(int)
    front = make_column_transformer(
        (StandardScaler(), ["age", "savings"]), (OneHotEncoder(), ["region"])
    )
    model = hf.erasable(make_pipeline(front, LogisticRegression(tol=1e-8)).fit(X, y), X, y)
    given = hf.find_recourse(model, X[:80], actionability="infer")
    fits = []
    honest = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda *a, **o: fits.append(1) or honest(*a, **o)
    )
    result = hf.audit(model, given, max_deletions=5, draws=10, erasures=12)
    # the curve, the worst at 12 erasures, Φ of the closed form, and without whoever moves a scale
    assert len(fits) <= 5 + 3 + 4 + 3
    assert result.refits["estimator"] <= 8
    assert result.refits["solver"] >= 30
    said = result.to_html()
    assert "by the estimator itself" in said
    assert "by our own solver" in said


# impact: erased people and strangers ----------------------------------------------------------


def promised(people, index):
    X, y = (frame.reset_index(drop=True) for frame in _diabetes())
    X = X[:200].set_axis(index, axis=0) if index is not None else X[:200]
    model = hf.erasable(Ridge(1.0).fit(X, y[:200]), X, y[:200], favourable="low")
    return model, hf.find_recourse(model, people, target=-140, overshoot=0.05)


def _diabetes():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True, as_frame=True, scaled=False)


def test_unrelated_people_with_the_same_numbers_are_no_erased_people():
    X, _ = _diabetes()
    strangers = X[200:300].reset_index(drop=True)
    model, given = promised(strangers, None)
    number = int(given.people.index[0])
    found = hf.impact(model, given, erase=[number])
    assert found.promises_of_erased == 0
    assert found.recourses.index.equals(given.people.index[given.valid])
    again = hf.impact(model, given, positions=[number])
    pd.testing.assert_frame_equal(found.recourses, again.recourses)


def test_training_rows_that_are_only_numbered_are_known_by_their_features():
    X, _ = _diabetes()
    model, given = promised(X[:100], None)
    number = int(given.people.index[given.valid.to_numpy()][0])
    for erased in ({"erase": [number]}, {"positions": [number]}):
        assert hf.impact(model, given, **erased).promises_of_erased == 1


def test_named_people_are_known_by_name_whatever_they_look_like_now():
    X, _ = _diabetes()
    names = [f"p{i}" for i in range(200)]
    people = (X[:100] + 1.0).set_axis(names[:100], axis=0)
    model, given = promised(people, names)
    name = given.people.index[given.valid.to_numpy()][0]
    place = names.index(name)
    assert hf.impact(model, given, erase=[name]).promises_of_erased == 1
    assert hf.impact(model, given, positions=[place]).promises_of_erased == 1


def test_numbers_that_were_shuffled_are_still_no_names():
    X, y = _diabetes()
    train = X.sample(frac=0.6, random_state=0)
    labels = y[train.index]
    model = hf.erasable(Ridge(1.0).fit(train, labels), train, labels, favourable="low")
    strangers = (X[X["age"] > 30] + 0.5).reset_index(drop=True)
    strangers = strangers[strangers["bmi"] > 20]
    given = hf.find_recourse(model, strangers, target=-140, overshoot=0.05)
    names = [name for name in given.people.index if name in train.index][:3]
    assert hf.impact(model, given, erase=names).promises_of_erased == 0


def test_people_with_gaps_are_compared_gap_by_gap():
    X, y = _diabetes()
    X = X[:120].assign(age=pd.array([pd.NA, *X["age"][1:120].astype(int)], dtype="Int64"))
    fitted = make_pipeline(SimpleImputer(), Ridge(1.0)).fit(X, y[:120])
    model = hf.erasable(fitted, X, y[:120], favourable="low")
    given = hf.find_recourse(model, X[:40], target=-140, overshoot=0.05)
    assert hf.impact(model, given, erase=[0]).requests == 1


def test_subjects_erase_the_promises_to_their_own_rows():
    X, y = _diabetes()
    X = X[:200].set_axis([f"row-{i}" for i in range(200)], axis=0)
    owners = [f"owner-{i // 4}" for i in range(200)]
    model = hf.erasable(Ridge(1.0).fit(X, y[:200]), X, y[:200], subjects=owners, favourable="low")
    given = hf.find_recourse(model, X[:60], target=-140, overshoot=0.05)
    first = given.people.index[given.valid.to_numpy()][0]
    place = int(first.split("-")[1])
    owner = owners[place]
    mine = [name for name in given.people.index if owners[int(name.split("-")[1])] == owner]
    found = hf.impact(model, given, erase=[owner])
    assert found.promises_of_erased == len(mine)
    rows = [i for i in range(200) if owners[i] == owner]
    again = hf.impact(model, given, positions=rows)
    assert again.promises_of_erased == len(mine)
    assert again.requests == found.requests == 1

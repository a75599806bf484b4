"""Some rows of many in memory: the same effects, the same sets, and certificates that hold."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.algebra.boxes import boxes
from holdfast.models.shortlist import Looked, shortlist
from holdfast.recourse.promises import judged
from holdfast.searches import shortlisting


def model_of(seed: int, n: int = 60, d: int = 3, estimator=None, heavy: bool = True):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n, d)), columns=list("abcdefg")[:d])
    if heavy:
        X.iloc[:4] *= 3.0
    noise = rng.standard_t(3, size=n) if heavy else rng.standard_normal(n)
    y = X.sum(axis=1).to_numpy() + noise
    made = estimator or Ridge(alpha=0.5)
    return hf.erasable(made.fit(X, y), X, y), rng


def points_near(model, rng, target: float, q: int = 12):
    x = pd.DataFrame(rng.standard_normal((400, model.X.shape[1])), columns=model.X.columns)
    over = model.scores(x) - target
    return x[(over > 0) & (over < 1.5)][:q]


def test_a_list_says_of_its_rows_what_the_whole_model_says() -> None:
    model, rng = model_of(0)
    points = points_near(model, rng, 0.0)
    names = np.sort(rng.choice(60, 20, replace=False))
    few = shortlist(model, names)
    assert few.outside.rows == 40
    assert few.many == 60
    np.testing.assert_allclose(few.scores(points), model.scores(points), atol=1e-12)
    for _ in range(5):
        some = np.sort(rng.choice(20, 3, replace=False))
        mine = few.deletions(points).effect_at(some)
        np.testing.assert_allclose(mine, model.deletions(points).effect_at(names[some]), atol=1e-12)
        refit = few.without(some)
        np.testing.assert_allclose(
            refit.scores(points), model.without(names[some]).scores(points), atol=1e-10
        )


@pytest.mark.parametrize("seed", range(6))
def test_what_is_said_of_rows_outside_holds_for_each(seed: int) -> None:
    model, rng = model_of(seed)
    points = points_near(model, rng, 0.0)
    names = np.sort(rng.choice(60, 25, replace=False))
    few = shortlist(model, names)
    others = np.setdiff1d(np.arange(60), names)
    kept = model.deletions(points)
    outside = few.deletions(points).outside
    assert outside is not None
    U, r = kept.factor[others], kept.residuals[others]
    leverage = np.sum(U**2, axis=1)
    assert outside.leverage >= leverage.max()
    assert outside.residual >= np.abs(r).max()
    assert outside.step >= (np.sqrt(leverage) * np.abs(r) / (1 - leverage)).max()
    single = kept.single_effects()[:, others]
    assert np.all(outside.alone(kept.lengths) >= single.max(axis=1))
    gone = names[rng.choice(25, 3, replace=False)]
    after = outside.after(
        kept.lengths,
        kept.factor[gone],
        float(np.linalg.norm(kept.factor[gone].T @ kept.solve(gone))),
    )
    for row in others:
        more = kept.effect_at(np.append(gone, row)) - kept.effect_at(gone)
        assert np.all(more <= after + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_boxes_contain_every_small_deletion_with_rows_outside(seed: int) -> None:
    model, rng = model_of(seed, n=24, heavy=False)
    points = points_near(model, rng, 0.0, 2)
    names = np.sort(rng.choice(24, 12, replace=False))
    few = shortlist(model, names).deletions(points)
    found = boxes(few, 3)
    whole = model.deletions(points)
    place = {int(name): i for i, name in enumerate(names)}
    for size in range(1, found.limit + 1):
        for S in itertools.combinations(range(24), size):
            rows = np.array(S)
            x = whole.solve(rows)
            for i, value in zip(S, x, strict=True):
                if i in place:
                    at = place[i]
                    slack = 1e-9 * (1 + abs(value))
                    assert found.low[size, at] - slack <= value <= found.high[size, at] + slack


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), listed=st.integers(6, 20), scaled=st.booleans())
def test_no_certificate_is_wrong_with_rows_outside(seed: int, listed: int, scaled: bool) -> None:
    estimator = Ridge(alpha=2.0)
    if scaled:
        estimator = make_pipeline(StandardScaler(), Ridge(alpha=2.0))
    model, rng = model_of(seed, n=22, d=2, estimator=estimator)
    points = points_near(model, rng, 0.0, 6)
    if not len(points):
        return
    names = np.sort(rng.choice(22, listed, replace=False))
    proof = hf.certify(shortlist(model, names), points, 0.0, 3, time_limit=5)
    before = model.scores(points)
    whole = model.deletions(points)
    for size in (1, 2, 3):
        for S in itertools.combinations(range(22), size):
            drop = whole.effect_at(np.array(S))
            broken = before - drop < 0
            assert not np.any(broken & (proof["certified"].to_numpy() >= size)), S


@pytest.mark.parametrize("leaders", [2, 200])
def test_a_search_over_a_list_finds_the_sets_of_a_search_over_all(monkeypatch, leaders) -> None:
    model, rng = model_of(3, n=3000, d=6, estimator=LinearRegression())
    points = points_near(model, rng, 0.0, 80)
    for method in ("greedy-count", "greedy", "best"):
        plain = hf.search(model, points, 0.0, 8, method)
        with monkeypatch.context() as patch:
            patch.setattr(shortlisting, "MANY", 500)
            patch.setattr(shortlisting, "ENTRIES", 0)
            patch.setattr(shortlisting, "LEADERS", leaders)
            patch.setattr(shortlisting, "EACH", 4)
            few = hf.search(model, points, 0.0, 8, method)
        assert few.notes["looked at"]["rows"] == 3000
        assert few.notes["looked at"]["one by one"] < 3000
        assert not few.notes["looked at"]["steps at which a row not looked at might do more"]
        for one, other in zip(plain.sets, few.sets, strict=True):
            if method == "best" and leaders == 2:  # ways that only soft counts see are not kept
                break
            assert sorted(one.tolist()) == sorted(other.tolist())
            assert len(one) == len(other)
        np.testing.assert_array_equal(few.predicted, plain.predicted)
        np.testing.assert_allclose(few.rerun(), few.predicted)


def test_certificates_are_as_tight_with_a_list(monkeypatch) -> None:
    model, rng = model_of(5, n=3000, d=6)
    points = points_near(model, rng, 0.0, 60)
    plain = hf.certify(model, points, 0.0, 8)
    monkeypatch.setattr(shortlisting, "MANY", 500)
    monkeypatch.setattr(shortlisting, "ENTRIES", 0)
    monkeypatch.setattr(shortlisting, "LEADERS", 100)
    few = hf.certify(model, points, 0.0, 8)
    assert abs(few.tight - plain.tight) <= 0.005
    assert (few["certified"] == plain["certified"]).all()


def test_an_audit_of_many_rows_says_what_one_of_all_rows_says(monkeypatch) -> None:
    model, rng = model_of(7, n=2500, d=4, estimator=make_pipeline(StandardScaler(), Ridge()))
    people = pd.DataFrame(rng.standard_normal((120, 4)) - 0.5, columns=list("abcd"))
    found = hf.find_recourse(model, people, target=0.5, overshoot=0.02)
    plain = hf.audit(model, found, max_deletions=4, draws=4)
    monkeypatch.setattr(shortlisting, "MANY", 500)
    monkeypatch.setattr(shortlisting, "ENTRIES", 0)
    monkeypatch.setattr(shortlisting, "LEADERS", 100)
    monkeypatch.setattr(shortlisting, "SAMPLED", 300)
    few = hf.audit(model, found, max_deletions=4, draws=4, erasures=3)
    assert few.plan.notes["looked at"]["one by one"] < 2500
    assert few.likelihood is not None
    columns = ["predicted", "refitted", "frozen"]
    pd.testing.assert_frame_equal(few.curve[columns], plain.curve[columns])
    assert few.counts["rows"] == 2500
    assert few.critical["id"].tolist() == plain.critical["id"].tolist()
    assert [s.tolist() for s in few.plan.sets] == [s.tolist() for s in plain.plan.sets]
    assert (few.recourses["certified"] == plain.recourses["certified"]).all()
    np.testing.assert_allclose(few.overshoots["cost"], plain.overshoots["cost"])


def test_points_that_were_not_looked_at_are_bounded_by_their_lengths() -> None:
    model, rng = model_of(2)
    points = points_near(model, rng, 0.0)
    few = shortlist(model, np.arange(20), None, Looked({}))
    outside = few.deletions(points).outside
    assert outside is not None
    assert outside.ceilings is None
    lengths = few.deletions(points).lengths
    np.testing.assert_allclose(outside.alone(lengths), lengths * outside.step)
    known = replace(outside, ceilings=np.full(len(points), 1e9))
    np.testing.assert_allclose(known.alone(lengths), lengths * outside.step)


def test_promises_are_judged_by_the_whole_model(monkeypatch) -> None:
    model, rng = model_of(1, n=800)
    monkeypatch.setattr(shortlisting, "MANY", 100)
    monkeypatch.setattr(shortlisting, "ENTRIES", 0)
    monkeypatch.setattr(shortlisting, "LEADERS", 20)
    monkeypatch.setattr(shortlisting, "SAMPLED", 50)
    points = points_near(model, rng, 0.0)
    few = shortlisting.shortlisted(model, judged(model, points, 0.0, "attack"), "row")
    assert few.rows.own < 800
    assert few.score_unit == model.score_unit
    assert shortlisting.shortlisted(few, judged(model, points, 0.0, "attack"), "row") is few


def test_pipelines_that_do_more_than_scale_are_looked_at_whole(monkeypatch) -> None:
    estimator = make_pipeline(StandardScaler(), PCA(2), Ridge())
    model, rng = model_of(4, n=700, estimator=estimator)
    monkeypatch.setattr(shortlisting, "MANY", 100)
    monkeypatch.setattr(shortlisting, "ENTRIES", 0)
    points = points_near(model, rng, 0.0)
    assert shortlisting.shortlisted(model, judged(model, points, 0.0, "attack"), "row") is model
    assert hf.search(model, points, 0.0, 2).max_deletions == 2

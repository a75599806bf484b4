"""Models fitted from files are those fitted in memory, and forget like them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.models import fitting_blocks as by_blocks
from holdfast.models.looking import Moments, median_of, medians
from holdfast.models.passes import folded
from holdfast.models.recipe import refilled
from holdfast.models.scanned import silent
from holdfast.scale.engines import LocalThreads
from holdfast.searches import shortlisting
from tables_in_files import in_memory, loans, scanned, written

KINDS = ["linear", "ridge", "logistic", "poisson", "gamma", "tweedie"]


def features(table: pd.DataFrame, rows=slice(0, 40)) -> pd.DataFrame:
    return table.drop(columns=["paid", "customer"]).iloc[rows]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_model_and_the_same_refits(tmp_path, kind: str, gaps: bool) -> None:
    table = loans(1500, kind=kind, gaps=gaps)
    model, ours = scanned(table, tmp_path / "t", kind), in_memory(table, kind)
    points = features(table)
    np.testing.assert_allclose(model.scores(points), ours.scores(points), atol=1e-9)
    np.testing.assert_allclose(model.score_unit, ours.score_unit, rtol=1e-9)
    np.testing.assert_allclose(
        np.asarray(model.score_gradients(points)),
        np.asarray(ours.score_gradients(points)),
        atol=1e-9,
    )
    rows = [3, 700, 1499]
    refit = ours.without(rows).scores(points)
    np.testing.assert_allclose(model.without(rows).scores(points), refit, atol=1e-9)
    sets = [np.array(rows), np.array([11]), np.zeros(0, dtype=int)]
    looked = model.scores_without(points, sets, look=True)
    np.testing.assert_allclose(looked[0], refit, atol=1e-9)
    np.testing.assert_allclose(looked[2], ours.scores(points), atol=1e-9)
    drop = model.deletions(points).effect(rows)
    true = ours.scores(points) - refit
    near = 1e-9 if kind in ("linear", "ridge") else 2e-2 * np.abs(true).max()
    np.testing.assert_allclose(drop, true, atol=near)
    again = model.without(rows).without([5])
    np.testing.assert_allclose(
        again.scores(points), ours.without([*rows, 5]).scores(points), atol=1e-9
    )
    assert again.many == 1496
    with pytest.raises(hf.HoldfastError, match="there no more"):
        again.without([5])


@pytest.mark.parametrize("exponent", [2, 5, 8])
def test_refits_are_accurate_for_badly_conditioned_columns(tmp_path, exponent: int) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    a = rng.standard_normal(n)
    table = pd.DataFrame({"a": a, "b": a + 10.0**-exponent * rng.standard_normal(n)})
    table["paid"] = table.a + rng.standard_normal(n)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=300)
    model = hf.fit("linear", hf.scan(tmp_path, label="paid"))
    X = table[["a", "b"]].to_numpy()
    points = pd.DataFrame(X[:20], columns=["a", "b"])
    rows = np.array([1, 50, 1999])
    keep = np.delete(np.arange(n), rows)
    base = np.column_stack([np.ones(n), a, (X[:, 1] - a) * 10.0**exponent])
    theta = np.linalg.lstsq(base[keep], table.paid.to_numpy()[keep], rcond=None)[0]
    truth = base[:20] @ theta
    looked = model.scores_without(points, [rows], look=True)[0]
    summed = model.scores_without(points, [rows])[0]
    limit = 1e-15 * 10.0**exponent * 100 + 1e-11
    np.testing.assert_allclose(looked, truth, atol=limit)
    np.testing.assert_allclose(summed, truth, atol=limit)


def test_rows_left_out_are_not_there(tmp_path) -> None:
    table = loans(1900, gaps=True)
    found = hf.scan(written(table, tmp_path / "t"), label="paid", id="customer")
    gone = np.array([0, 5, 1899])
    model = hf.fit("ridge", found, without=gone)
    ours = in_memory(table.drop(index=gone), "ridge")
    np.testing.assert_allclose(
        model.scores(features(table)), ours.scores(features(table)), atol=1e-10
    )
    assert model.many == 1897
    with pytest.raises(hf.HoldfastError, match="unknown id 'C5'"):
        model.positions_of(["C5"])


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.floats(-1e6, 1e6, width=32), st.just(float("nan")), st.integers(-3, 3)),
        min_size=3,
        max_size=60,
    ),
    seed=st.integers(0, 100),
)
def test_medians_are_exact_and_can_be_moved(tmp_path_factory, values, seed: int) -> None:
    known = [v for v in values if v == v]
    if len(known) < 2 or len(known) == len(values):
        return
    folder = tmp_path_factory.mktemp("m")
    table = pd.DataFrame({"x": np.array(values, dtype=float)})
    table["y"] = np.arange(len(table), dtype=float)
    table.to_parquet(folder / "t.parquet", row_group_size=7)
    found = hf.scan(folder, label="y")
    moments = Moments.of([table.x.to_numpy()])
    nobody = np.zeros(0, dtype=np.intp)
    (near,) = medians(found, ["x"], moments, nobody, LocalThreads(1), silent)
    assert median_of(*near, len(known)) == np.median(known)


def test_a_recipe_without_some_rows_is_that_of_the_rest(tmp_path) -> None:
    table = loans(600, gaps=True)
    model = scanned(table, tmp_path / "t", "ridge")
    rng = np.random.default_rng(0)
    for size in (1, 5, 60):
        gone = np.sort(rng.choice(600, size, replace=False))
        X = table[model.recipe.scan.numbers].to_numpy(dtype=float)
        left = refilled(model.recipe, X[gone], gone, model._anew)
        rest = in_memory(table.drop(index=gone), "ridge").estimator[0]
        fill, scale = (step for _, step in rest.named_transformers_["numbers"].steps)
        np.testing.assert_allclose(left.fills[model.recipe.gaps], fill.statistics_[[1, 2]])
        np.testing.assert_allclose(left.means, scale.mean_, rtol=1e-10)
        np.testing.assert_allclose(left.scales, scale.scale_, rtol=1e-10)


def test_triangles_fold_to_that_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((90, 5))
    parts = [np.linalg.qr(part, mode="r") for part in np.split(rows, [30, 33, 60])]
    found = folded([None, *parts])
    np.testing.assert_allclose(found.T @ found, rows.T @ rows, atol=1e-12)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_an_audit_of_files_is_that_of_the_table_in_memory(tmp_path, monkeypatch, kind) -> None:
    monkeypatch.setattr(shortlisting, "LEADERS", 60)
    monkeypatch.setattr(shortlisting, "EACH", 30)
    monkeypatch.setattr(by_blocks, "SAMPLED", 200)
    table = loans(900, kind=kind)
    model, ours = scanned(table, tmp_path / "t", kind), in_memory(table, kind)
    people = features(table, slice(0, 60))
    target = 0.5
    theirs = hf.find_recourse(ours, people, target=target, overshoot=0.01)
    few = hf.audit(model, theirs, max_deletions=4, draws=3)
    plain = hf.audit(ours, theirs, max_deletions=4, draws=3)
    np.testing.assert_allclose(few.curve["refitted"], plain.curve["refitted"], atol=0.011)
    assert few.curve["predicted"].sub(few.curve["refitted"]).abs().max() <= 0.011
    assert few.plan.notes["looked at"]["rows"] == 900
    assert few.plan.notes["looked at"]["one by one"] < 900
    assert few.critical["id"].str.startswith("C").all()
    assert few.counts["rows"] == 900
    certified = few.recourses["certified"].to_numpy()
    if kind == "ridge":
        np.testing.assert_array_equal(certified, plain.recourses["certified"])
        assert few.critical["id"].tolist() == plain.critical["id"].tolist()
    else:  # less is known of rows outside, so less is proven
        assert (certified <= plain.recourses["certified"].to_numpy() + 1).all()
    rerun = few.plan.rerun()
    np.testing.assert_allclose(rerun, few.curve["refitted"])


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["ridge", "logistic"]))
def test_no_certificate_of_a_table_in_files_is_wrong(tmp_path_factory, seed, kind) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    table = pd.DataFrame(rng.standard_normal((n, 2)), columns=["a", "b"])
    table.iloc[:3] *= 2.5
    score = table.a + table.b + rng.logistic(size=n)
    table["paid"] = score if kind == "ridge" else np.where(score > 0, "yes", "no")
    if len(set(table["paid"])) < 2:
        return
    folder = tmp_path_factory.mktemp("c")
    table.to_parquet(folder / "t.parquet", row_group_size=9)
    found = hf.scan(folder, label="paid", favourable="yes" if kind == "logistic" else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_blocks, "SAMPLED", 6)
        patch.setattr(shortlisting, "LEADERS", 2)
        patch.setattr(shortlisting, "EACH", 2)
        parameters = {"alpha": 3.0} if kind == "ridge" else {"C": 0.3}
        model = hf.fit(kind, found, **parameters)
        x = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
        over = model.scores(x)
        points = x[(over > 0) & (over < 2.0)][:8]
        if not len(points):
            return
        proof = hf.certify(model, points, 0.0, 2, time_limit=5)
    certified = proof["certified"].to_numpy()
    sets = [np.array(S) for size in (1, 2) for S in itertools.combinations(range(n), size)]
    after = model.scores_without(points, sets, look=True)
    for S, scores in zip(sets, after, strict=True):
        assert not np.any((scores < -1e-9) & (certified >= len(S))), S


def test_subjects_own_several_rows(tmp_path) -> None:
    table = loans(1200)
    table["person"] = [f"P{i // 3}" for i in range(1200)]
    where = written(table, tmp_path / "t")
    found = hf.scan(where, label="paid", subject="person", drop=["customer"])
    model = hf.fit("ridge", found)
    assert model.positions_of(["P1"]).tolist() == [3, 4, 5]
    X = table.drop(columns=["paid", "customer", "person"])
    points = X.iloc[:30]
    one = model.deletions(points).effect(subjects=["P1", "P7"])
    other = model.deletions(points).effect([3, 4, 5, 21, 22, 23])
    np.testing.assert_allclose(one, other)
    given_ = hf.find_recourse(model, points, target=1.5)
    plan = hf.search(model, given_, 1.5, 2, unit="subject")
    assert all(len(rows) == 3 * k for k, rows in enumerate(plan.sets))
    np.testing.assert_allclose(plan.rerun(), plan.predicted, atol=1e-12)
    assert model.people == 400
    assert model.without([3, 4, 5]).people == 399


def test_kinds_and_parameters_that_are_not_fitted_by_blocks(tmp_path) -> None:
    found = hf.scan(written(loans(300), tmp_path / "t"), label="paid", id="customer")
    with pytest.raises(hf.HoldfastError, match="not fitted by blocks"):
        hf.fit("boosting", found)
    with pytest.raises(hf.HoldfastError, match="kind must be one of"):
        hf.fit("forest", found)
    with pytest.raises(hf.HoldfastError, match="fit_intercept=True only"):
        hf.fit("ridge", found, fit_intercept=False)
    with pytest.raises(hf.HoldfastError, match="no parameter 'alhpa'"):
        hf.fit("ridge", found, alhpa=1.0)
    with pytest.raises(hf.HoldfastError, match="what hf.scan"):
        hf.fit("ridge", pd.DataFrame())
    with pytest.raises(hf.HoldfastError, match="tells two classes apart"):
        hf.fit("logistic", found)
    assert isinstance(hf.fit("ridge", found), hf.ErasableModel)


def test_rare_and_many_texts_stay_within_memory(tmp_path) -> None:
    table = loans(4000)
    rng = np.random.default_rng(0)
    table["town"] = [f"t{int(v)}" for v in rng.zipf(1.3, 4000) % 3000]
    found = hf.scan(written(table, tmp_path / "t"), label="paid", id="customer")
    model = hf.fit("ridge", found)
    kept = model.recipe.categories[found.texts.index("town")]
    counts = table["town"].value_counts()
    assert set(kept) == set(counts[counts >= 50].index)
    assert model.recipe.rare["town"] == len(counts) - len(kept)
    table["note"] = [f"n{i}" for i in range(4000)]
    again = hf.scan(written(table, tmp_path / "u"), label="paid", id="customer")
    with pytest.raises(hf.HoldfastError, match="free text"):
        hf.fit("ridge", again)


def test_a_request_is_a_look_up_and_not_a_pass(tmp_path) -> None:
    table = loans(2000)
    model = scanned(table, tmp_path / "t", "ridge")
    people = features(table, slice(0, 100))
    given_ = hf.find_recourse(model, people, target=1.5)
    before = model.passes
    found = hf.impact(model, given_, erase=["C7", "C1999"])
    assert model.passes == before
    assert "refitted from the sums that are kept" in found.headline
    ours = in_memory(table, "ridge")
    np.testing.assert_allclose(
        found.recourses["refitted"],
        ours.without([7, 1999]).scores(given_.points.loc[found.recourses.index]),
        atol=1e-10,
    )
    sure = hf.impact(model, given_, erase=["C7", "C1999"], confirm=True)
    assert "confirmed by refitting" in sure.headline
    np.testing.assert_allclose(found.recourses["refitted"], sure.recourses["refitted"], atol=1e-9)
    with pytest.raises(hf.HoldfastError, match="unknown id 'nobody'"):
        hf.impact(model, given_, erase=["nobody"])


def test_a_classifier_of_the_whole_is_not_in_memory(tmp_path) -> None:
    model = scanned(loans(1000, kind="logistic"), tmp_path / "t", "logistic")
    assert "1,000" in repr(model)
    assert "passes over the files" in model._repr_html_()
    assert model.X.shape[0] <= 2048


@pytest.mark.parametrize("kind", ["ridge", "logistic", "linear"])
@pytest.mark.parametrize("value", [5.0, 0.01])
def test_a_flag_that_only_one_person_has(tmp_path, kind: str, value: float) -> None:
    table = loans(1300, kind=kind)
    table["flag"] = 0.0
    table.loc[5, "flag"] = value
    model = scanned(table, tmp_path / "t", kind)
    rest = in_memory(table.drop(index=5), kind)
    points = features(table)
    for look in (False, True):
        found = model.scores_without(points, [np.array([5])], look=look)[0]
        limit = 1e-7 if look or kind != "logistic" else 1e-3
        np.testing.assert_allclose(found, rest.scores(points), atol=limit)


def test_effects_of_rows_in_the_sample_are_those_of_the_rows_asked_about(tmp_path) -> None:
    table = loans(2600, gaps=True)
    model = scanned(table, tmp_path / "t", "ridge", without=np.array([1, 2, 3]))
    points = features(table, slice(10, 50))
    for rows in (model.rows.names[-3:].tolist(), [9], [2599]):
        after = model.scores(points) - model.deletions(points).effect(rows)
        np.testing.assert_allclose(after, model.without(rows).scores(points), atol=1e-9)


def test_the_median_label_is_that_of_the_rows_left(tmp_path) -> None:
    table = loans(1500)
    table["paid"] = table["paid"].abs().round()
    model = scanned(table, tmp_path / "t", "ridge")
    gone = np.flatnonzero(table["paid"] >= table["paid"].median())[:500]
    assert model.median_label == table["paid"].median()
    assert model.without(gone).median_label == table["paid"].drop(index=gone).median()


def test_a_class_that_would_vanish(tmp_path) -> None:
    table = loans(300, kind="logistic")
    table["paid"] = ["yes"] * 2 + ["no"] * 298
    model = scanned(table, tmp_path / "t", "logistic")
    points = features(table)
    with pytest.raises(hf.SingularDeletionError, match="one of the two classes"):
        model.without([0, 1])
    with pytest.raises(hf.SingularDeletionError):
        model.deletions(points).effect([0, 1])
    assert np.isnan(model.scores_without(points, [np.array([0, 1])], look=True)).all()
    people = features(table, slice(2, 60))
    target = float(np.quantile(model.scores(people), 0.6))
    result = hf.audit(
        model, hf.find_recourse(model, people, target=target), max_deletions=2, draws=2
    )
    assert np.isfinite(result.curve["refitted"]).all()


def test_outlying_rows_of_a_smooth_model(tmp_path) -> None:
    table = loans(2400, kind="logistic")
    table.loc[0, "income"], table.loc[1, "savings"] = 40.0, 90.0
    model = scanned(table, tmp_path / "t", "logistic")
    people = features(table, slice(2, 80))
    given_ = hf.find_recourse(model, people, target=0.3)
    result = hf.audit(model, given_, max_deletions=2, draws=2)
    assert result.curve["refitted"].iloc[2] >= 0


def test_rows_left_out_must_be_rows(tmp_path) -> None:
    found = hf.scan(written(loans(300), tmp_path / "t"), label="paid", id="customer")
    for wrong in ([300], [-1]):
        with pytest.raises(hf.HoldfastError, match="out of range"):
            hf.fit("ridge", found, without=np.array(wrong))


def test_a_search_over_files_looks_again_where_it_must(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shortlisting, "LEADERS", 2)
    monkeypatch.setattr(shortlisting, "EACH", 2)
    monkeypatch.setattr(by_blocks, "SAMPLED", 40)
    table = loans(1500)
    model, ours = scanned(table, tmp_path / "t", "ridge"), in_memory(table, "ridge")
    people = features(table, slice(0, 100))
    given_ = hf.find_recourse(ours, people, target=0.5, overshoot=0.002)
    for method in ("greedy", "greedy-count"):
        few = hf.search(model, given_, 0.5, 6, method)
        plain = hf.search(ours, given_, 0.5, 6, method)
        for one, other in zip(few.sets, plain.sets, strict=True):
            assert sorted(one.tolist()) == sorted(other.tolist())
        looked = few.notes["looked at"]
        assert not looked["steps at which a row not looked at might do more"]
        assert looked["one by one"] < 800

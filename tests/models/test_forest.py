"""Forests that forget: bit for bit a fresh fit, exact single effects, nothing left behind."""

import io
import pickle
import struct
import subprocess
import sys
import uuid
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import check_estimator

import holdfast as hf
from holdfast.estimators.keyed import key_states, keys_of

ARRAYS = (
    *("X_fit_", "labels_", "keys_", "membership_", "tree_start_"),
    *("split_feature_", "split_threshold_", "subtree_size_", "node_count_", "node_total_"),
)


def same(one, other):
    """Whether two forests are the same bytes, not only the same numbers."""
    assert vars(one).keys() == vars(other).keys()
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), name
    return True


def forest(kind="class", **options):
    options = {"n_estimators": 12, "trees_per_row": 4, **options}
    if kind == "class":
        return hf.ForgettingForestClassifier(**options)
    return hf.ForgettingForestRegressor(-2.0, 3.0, **options)


def table(rng, n=60, d=4, kind="class"):
    X = np.column_stack([rng.normal(size=(n, d - 1)), rng.integers(0, 3, size=n)])
    z = X[:, 0] + X[:, -1] + 0.3 * rng.normal(size=n)
    return X, (z > np.median(z)).astype(int) if kind == "class" else np.clip(z, -2, 3)


@pytest.mark.parametrize("kind", ["class", "number"])
def test_check_estimator(kind):
    options = {"n_estimators": 20, "trees_per_row": 10}
    estimator = (
        hf.ForgettingForestClassifier(**options)
        if kind == "class"
        else hf.ForgettingForestRegressor(-1e4, 1e4, **options)
    )
    check_estimator(estimator, on_skip=None)


@st.composite
def problems(draw):
    """A small table with ties, duplicates and constant columns, persons, and who goes when."""
    n = draw(st.integers(14, 30))
    d = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["class", "number"]))
    seed = draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    X = rng.integers(0, draw(st.integers(1, 6)), size=(n, d)).astype(float)
    if draw(st.booleans()):
        X[:, 0] = rng.normal(size=n)
    y = rng.integers(0, 2, size=n) if kind == "class" else rng.uniform(-2, 3, size=n).round(1)
    groups = rng.integers(0, n // 2, size=n) if draw(st.booleans()) else np.arange(n)
    options = {
        "min_samples_leaf": draw(st.integers(1, 3)),
        "max_features": draw(st.sampled_from(["sqrt", None, 1])),
        "trees_per_row": draw(st.sampled_from([6, 12])),
        "random_state": seed,
    }
    gone = rng.permutation(n)[: draw(st.integers(0, 7))]
    return X, y, groups, forest(kind, n_estimators=12, **options), gone


@settings(max_examples=40, deadline=None)
@given(problem=problems())
def test_without_is_bit_for_bit_the_fit_without(problem):
    X, y, groups, estimator, gone = problem
    kept = np.delete(np.arange(len(X)), gone)
    try:
        fresh = pickle.loads(pickle.dumps(estimator)).fit(X[kept], y[kept], groups=groups[kept])
        full = estimator.fit(X, y, groups=groups)
    except ValueError:  # too few people, or one class
        return
    assert same(full.without(gone), fresh)
    one_by_one, names = full, np.arange(len(X))
    for row in gone:
        one_by_one = one_by_one.without(np.flatnonzero(names == row))
        names = names[names != row]
    assert same(one_by_one, fresh)
    assert same(full, pickle.loads(pickle.dumps(estimator)).fit(X, y, groups=groups))


@settings(max_examples=25, deadline=None)
@given(problem=problems())
def test_single_effects_are_what_without_does(problem):
    X, y, groups, estimator, _ = problem
    try:
        full = estimator.fit(X, y, groups=groups)
    except ValueError:
        return
    Q = np.vstack([X[:5], X[:5] + 0.5])
    drops = full.single_effects(Q)
    assert drops.shape == (10, len(X))
    for row in range(len(X)):
        try:
            rest = full.without(np.flatnonzero(groups == groups[row]))
        except hf.SingularDeletionError:
            continue
        expected = full.parts(Q).mean(axis=1) - rest.parts(Q).mean(axis=1)
        np.testing.assert_allclose(drops[:, row], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["class", "number"])
def test_larger_tables_forget_too(rng, kind):
    X, y = table(rng, 400, 6, kind)
    full = forest(kind, n_estimators=30, trees_per_row=5).fit(X, y)
    gone = rng.permutation(400)[:9]
    kept = np.delete(np.arange(400), gone)
    fresh = forest(kind, n_estimators=30, trees_per_row=5).fit(X[kept], y[kept], groups=kept)
    fresh.grouped_ = False
    assert same(full.without(gone), fresh)
    Q = rng.normal(size=(40, 6))
    drops = full.single_effects(Q)
    assert np.abs(drops).max() > 0
    for row in gone:
        moved = full.parts(Q) - full.without([row]).parts(Q)
        np.testing.assert_allclose(drops[:, row], moved.mean(axis=1), rtol=0, atol=1e-13)
        assert not moved[:, np.delete(np.arange(30), full.membership_[row])].any()
    some = full.single_effects(Q, rows=gone)
    np.testing.assert_array_equal(some, drops[:, gone])


def test_a_leaf_can_split_once_a_row_is_gone():
    """One row makes a feature vary, no split being allowed; without it the other has its turn."""
    X = np.repeat([[0.0, 0.0], [0.0, 1.0]], 5, axis=0)
    X[0, 0] = 1.0
    y = X[:, 1].astype(int)
    split_later = 0
    for seed in range(8):
        options = {"n_estimators": 1, "trees_per_row": 1, "max_features": 1, "min_samples_leaf": 2}
        full = forest(random_state=seed, **options).fit(X, y)
        rest = full.without([0])
        moved = full.predict_proba(X)[:, 1] - rest.predict_proba(X)[:, 1]
        np.testing.assert_allclose(full.single_effects(X)[:, 0], moved, rtol=0, atol=1e-15)
        split_later += len(full.node_count_) == 1 < len(rest.node_count_)
    assert 0 < split_later < 8


def test_single_effects_with_groups_are_of_the_whole_person(rng):
    X, y = table(rng)
    groups = np.repeat(np.arange(20), 3)
    full = forest().fit(X, y, groups=groups)
    drops = full.single_effects(X[:7], rows=[5, 4, 40])
    np.testing.assert_array_equal(drops[:, 0], drops[:, 1])
    for column, person in ((0, 1), (2, 13)):
        rest = full.without(np.flatnonzero(groups == person))
        moved = full.predict_proba(X[:7])[:, 1] - rest.predict_proba(X[:7])[:, 1]
        np.testing.assert_allclose(drops[:, column], moved, rtol=0, atol=1e-13)


def test_every_row_is_in_as_many_trees_as_said(rng):
    X, y = table(rng, 300)
    full = forest(n_estimators=40, trees_per_row=7).fit(X, y)
    assert full.membership_.shape == (300, 7)
    assert all(len(set(trees)) == 7 for trees in full.membership_.tolist())
    per_tree = np.bincount(full.membership_.ravel(), minlength=40)
    np.testing.assert_array_equal(per_tree, full.node_count_[full.tree_start_[:-1]])
    assert 20 < per_tree.min() <= per_tree.max() < 90  # 52 are expected


def test_nobody_is_moved_by_order_or_by_others(rng):
    X, y = table(rng)
    frame = pd.DataFrame(X, index=[f"person {i}" for i in range(60)])
    full = forest().fit(frame, y)
    shuffled = rng.permutation(60)[:50]
    other = forest().fit(frame.iloc[shuffled], y[shuffled])
    np.testing.assert_array_equal(other.membership_, full.membership_[shuffled])
    again = forest().fit(frame.iloc[::-1], y[::-1])
    np.testing.assert_array_equal(again.split_threshold_, full.split_threshold_)
    np.testing.assert_array_equal(again.node_total_, full.node_total_)
    assert (forest(random_state=1).fit(frame, y).membership_ != full.membership_).any()


def test_persons_are_in_the_trees_as_a_whole(rng):
    X, y = table(rng)
    groups = [("clinic", i % 20) for i in range(60)]
    full = forest().fit(X, y, groups=groups)
    np.testing.assert_array_equal(full.membership_[:20], full.membership_[20:40])
    gone = [0, 20, 40, 7]
    kept = np.delete(np.arange(60), gone)
    fresh = forest().fit(X[kept], y[kept], groups=[groups[i] for i in kept])
    assert same(full.without(gone), fresh)


def test_the_number_of_threads_changes_nothing(rng, monkeypatch):
    X, y = table(rng, 300)
    Q = np.repeat(X, 20, axis=0)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("holdfast.estimators.forest.cores", lambda cores=cores: cores)
        full = forest().fit(X, y)
        found.append((full, full.parts(Q), full.single_effects(X[:9])))
    assert same(found[0][0], found[1][0])
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("longest", ["a-longer-key", 17, "nul\0"])
def test_keys_that_are_left_are_as_a_fit_without_has_them(rng, longest):
    X, y = table(rng)
    keys = [f"k{i}" for i in range(60)]
    keys[5] = longest
    full = forest().fit(X, y, groups=keys)
    kept = np.delete(np.arange(60), 5)
    fresh = forest().fit(X[kept], y[kept], groups=[keys[i] for i in kept])
    assert same(full.without([5]), fresh)


def test_draws_are_the_same_in_every_process_and_on_every_machine():
    keys = ["ann", 5, ("x", 1), pd.Timestamp("2026-01-02"), -7, 2.5]
    code = (
        "import pandas as pd; from holdfast.estimators.keyed import key_states;"
        "keys = ['ann', 5, ('x', 1), pd.Timestamp('2026-01-02'), -7, 2.5];"
        "print(key_states(keys, 3).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == str(key_states(keys, 3).tolist())
    assert key_states(["ann", 5], 0).tolist() == PINNED
    states = key_states([5, 5.0, np.int32(5), "5", True, 1], 0)
    assert states[0] == states[1] == states[2] == states[3]
    assert states[4] != states[5]


PINNED = [17697837607609688756, 12761963107706969681]


def test_keys_are_groups_then_the_index_then_positions():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["b", "a"])
    assert keys_of(frame, [9, 8], 2).tolist() == [9, 8]
    assert keys_of(frame, None, 2).tolist() == ["b", "a"]
    assert keys_of(frame.to_numpy(), None, 2).tolist() == [0, 1]
    assert keys_of(frame, pd.Series(["x", 3]), 2).tolist() == ["x", 3]
    assert keys_of(frame, ["nul\0", "a"], 2).tolist() == ["nul\0", "a"]


def saved(model):
    """Every byte a saved model has, by pickle and by skops."""
    whole = skops.io.dumps(model)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        inside = b"".join(archive.read(name) for name in archive.namelist())
    return pickle.dumps(model) + whole + inside


@pytest.mark.parametrize("kind", ["class", "number"])
def test_nothing_of_a_deleted_row_is_left_in_a_saved_file(rng, kind):
    X, y = table(rng, kind=kind)
    X[:, -1] += rng.normal(size=60)  # no cell is shared
    keys = np.array([f"person-{i:03d}" for i in range(60)])
    keys[11] = "somebody-with-a-long-name"
    if kind == "number":
        y[11] = 0.123456789
    full = forest(kind).fit(pd.DataFrame(X, index=keys, columns=list("abcd")), y)
    traces = [struct.pack("<d", cell) for cell in X[11]]
    traces += [keys[11].encode(), keys[11].encode("utf-32-le")]
    if kind == "number":
        traces.append(struct.pack("<q", full.labels_[11]))
    before, after = saved(full), saved(full.without([11]))
    assert all(trace in before for trace in traces[:4])
    assert any(trace in before for trace in traces[4:6])
    assert not any(trace in after for trace in traces)
    # and thresholds made of its values and a neighbour's are gone as well
    rest = pd.DataFrame(np.delete(X, 11, 0), index=np.delete(keys, 11), columns=list("abcd"))
    assert same(full.without([11]), forest(kind).fit(rest, np.delete(y, 11)))


def test_a_forest_says_shares_and_their_mean(rng):
    X, y = table(rng, 200)
    full = forest(n_estimators=30, trees_per_row=10).fit(X, np.array(["no", "yes"])[y])
    parts = full.parts(X)
    assert parts.shape == (200, full.n_parts_) == (200, 30)
    assert full.part_range_ == (0.0, 1.0)
    assert 0 <= parts.min() <= parts.max() <= 1
    np.testing.assert_array_equal(full.predict_proba(X)[:, 1], parts.mean(axis=1))
    assert (full.predict(X) == np.where(parts.mean(axis=1) > 0.5, "yes", "no")).all()
    assert roc_auc_score(y, parts.mean(axis=1)) > 0.95


def test_a_tree_is_what_it_says_of_its_rows(rng):
    """One tree with every row, all features and pure leaves repeats the labels."""
    X, y = table(rng, 80, kind="number")
    one = forest("number", n_estimators=1, trees_per_row=1, max_features=None).fit(X, y)
    np.testing.assert_allclose(one.predict(X), y, rtol=0, atol=5 * 2.0**-32)
    stump = forest(
        "number", n_estimators=1, trees_per_row=1, max_features=None, min_samples_leaf=30
    )
    stump.fit(X, y)
    sides = [X[:, j] <= t for j in range(4) for t in X[:, j]]
    best = min(
        np.square(y - np.where(side, y[side].mean(), y[~side].mean())).sum()
        for side in sides
        if 30 <= side.sum() <= 50
    )
    assert np.square(stump.predict(X) - y).sum() == pytest.approx(best, rel=1e-6)


def test_empty_and_one_class_trees_say_a_constant(rng):
    X, y = table(rng, 40)
    for kind in ("class", "number"):  # labels 0 and 1; the middle of −2 to 3 is ½ as well
        full = forest(kind, trees_per_row=2).fit(X, y)
        emptied = np.flatnonzero((full.membership_ == 3).any(axis=1))
        assert 0 < emptied.size < 20
        rest = full.without(emptied)
        assert rest.node_count_[rest.tree_start_[3]] == 0
        assert (rest.parts(X)[:, 3] == 0.5).all()
        assert len(np.unique(full.parts(X)[:, 3])) > 1
        ones = emptied[y[emptied] == 1]
        np.testing.assert_allclose(full.without(ones).parts(X)[:, 3], 0, rtol=0, atol=2e-9)


def test_regressions_stay_in_their_range(rng):
    X, y = table(rng, 100, kind="number")
    full = forest("number").fit(X, y)
    assert full.part_range_ == (-2.0, 3.0)
    assert -2 <= full.parts(10 * X).min() <= full.parts(10 * X).max() <= 3
    with pytest.raises(hf.HoldfastError, match="1 labels lie outside low = -2 to high = 3"):
        forest("number").fit(X, np.append(y[1:], 3.5))


def test_no_shift_of_labels_changes_a_split():
    """A range far from zero loses no digits of what labels differ by."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = rng.integers(0, 64, size=50) / 64
    near = hf.ForgettingForestRegressor(0, 1, n_estimators=4, trees_per_row=2).fit(X, y)
    far = hf.ForgettingForestRegressor(4096, 4097, n_estimators=4, trees_per_row=2).fit(X, y + 4096)
    np.testing.assert_array_equal(near.labels_, far.labels_)
    np.testing.assert_array_equal(near.split_threshold_, far.split_threshold_)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trees_per_row": 13}, "13 of 12 trees cannot hold a row"),
        ({"trees_per_row": 0}, "trees_per_row must be a whole number from 1"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number from 1"),
        ({"n_estimators": None}, "n_estimators must be a whole number from 1, got None"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
        ({"max_features": "all"}, "max_features must be"),
        ({"max_features": 1.5}, "max_features must be"),
        ({"random_state": None}, "random_state must be a whole number, got None"),
        ({"n_estimators": 500}, "60 samples in 4 of 500 trees each leave less than two"),
    ],
)
def test_bad_parameters(rng, options, said):
    with pytest.raises(hf.HoldfastError, match=said):
        forest(**options).fit(*table(rng))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (np.arange(59), "one key per training row: there are 60 rows, got 59"),
        (np.zeros((60, 2)), "one key per training row"),
        ("ann", "one key per training row, got 'ann'"),
        ([None] * 3 + list(range(57)), "groups has no key for 3 of 60 rows, the first at pos"),
        ([1.0] * 59 + [np.nan], "no key for 1 of 60 rows, the first at position 59"),
        ([[i] for i in range(60)], "a key must be a number, text, a date"),
        (np.zeros(60, int), "60 samples of 1 people"),
    ],
)
def test_bad_groups(rng, groups, said):
    with pytest.raises(hf.HoldfastError, match=said):
        forest().fit(*table(rng), groups=groups)


def test_bad_tables(rng):
    X, y = table(rng)
    hole = X.copy()
    hole[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        forest().fit(hole, y)
    with pytest.raises(ValueError, match="two classes, got 1 class"):
        forest().fit(X, np.ones(60))
    with pytest.raises(ValueError, match="3 classes"):
        forest().fit(X, np.arange(60) % 3)
    ranges = [
        (None, 3, "needs low and high"),
        (3, 3, "low must be below"),
        (0, np.inf, "high must be"),
    ]
    for low, high, said in ranges:
        with pytest.raises(hf.HoldfastError, match=said):
            hf.ForgettingForestRegressor(low, high, 12, 4).fit(X, y)


def test_bad_deletions(rng):
    X, y = table(rng)
    full = forest().fit(X, y)
    wrong = [
        ([60], "no training row 60"),
        ([-1], "no training row -1"),
        ([0.5], "positions"),
        ("ann", "positions"),
    ]
    for rows, said in wrong:
        with pytest.raises(hf.HoldfastError, match=said):
            full.without(rows)
        with pytest.raises(hf.HoldfastError, match=said):
            full.single_effects(X[:2], rows=rows)
    with pytest.raises(hf.SingularDeletionError, match="there is class 1 only"):
        full.without(np.flatnonzero(y == 0))
    with pytest.raises(hf.SingularDeletionError, match="there is nothing"):
        full.without(np.arange(60))
    few = np.concatenate([np.flatnonzero(y == 0)[2:], np.flatnonzero(y == 1)[2:]])
    assert len(full.without(few).keys_) == 4  # nobody would fit it, but these four are left
    assert same(full.without([]), full)
    full.set_params(min_samples_leaf=3)
    with pytest.raises(hf.HoldfastError, match="min_samples_leaf was 1 .* is 3 now: fit it again"):
        full.without([0])


@given(seed=st.integers(0, 10**6), k=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_changed_rows_stay_within_the_plain_bound(seed, k):
    """Whatever becomes of k rows, keys kept: only their trees can say something else."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(50, 3)), index=[f"P{i}" for i in range(50)])
    X.columns = list("abc")
    y = (X["a"] + rng.normal(size=50) > 0).astype(int).to_numpy()
    trees = hf.ForgettingForestClassifier(n_estimators=20, trees_per_row=3)
    before = trees.fit(X, y).predict_proba(X)[:, 1]
    up, down = (trees.largest_fall(X, k, up=good) for good in (True, False))
    rows = rng.choice(50, k, replace=False)
    other, labels = X.copy(), np.array(y)
    other.iloc[rows] = 10 * rng.normal(size=(k, 3))
    labels[rows] = rng.integers(0, 2, k)
    after = trees.fit(other, labels).predict_proba(X)[:, 1]
    assert np.all(before - after <= up + 1e-12)
    assert np.all(after - before <= down + 1e-12)


@pytest.mark.parametrize("kind", ["uuid", "zoned"])
def test_keys_that_are_written_as_text(rng, kind, tmp_path):
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = (X["a"] > 0).astype(int)
    zoned = pd.date_range("2024-03-01", periods=40, freq="h", tz="Europe/Berlin")
    keys = [uuid.UUID(int=i) for i in range(40)] if kind == "uuid" else list(zoned)
    trees = forest().fit(X, y, groups=keys)
    as_text = [str(k) for k in keys] if kind == "uuid" else list(zoned.tz_convert("UTC"))
    assert np.array_equal(trees.membership_, forest().fit(X, y, groups=as_text).membership_)
    assert np.array_equal(
        trees.membership_, forest().fit(X.set_index(pd.Index(keys)), y).membership_
    )
    skops.io.dump(trees, tmp_path / "f.skops")
    back = skops.io.load(
        tmp_path / "f.skops", trusted=["holdfast.estimators.forest.ForgettingForestClassifier"]
    )
    assert np.array_equal(back.keys_, trees.keys_)
    rest = np.delete(np.arange(40), [3, 8])
    fresh = forest().fit(X.iloc[rest], y.iloc[rest], groups=[keys[i] for i in rest])
    assert np.array_equal(back.without([3, 8]).predict_proba(X), fresh.predict_proba(X))

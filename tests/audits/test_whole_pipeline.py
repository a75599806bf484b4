"""Erasure that acts through the preprocessing: seen by searches, bounded by ceilings, survived."""

import contextlib
import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import holdfast as hf
from holdfast.models.scales import Scales
from holdfast.recourse.promises import judged

SHARP = {"tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}


def loans(n=300, seed=0, income=None, own=False):
    """Loans of which one income is a slip of the keyboard, and one town is one person's."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "income": rng.normal(20, 4, n),
            "debt": rng.normal(10, 3, n),
            "age": rng.normal(40, 10, n),
        }
    )
    merit = 0.3 * X["income"] - 0.2 * X["debt"] + rng.normal(0, 1, n)
    if income is not None:
        X.loc[7, "income"] = income
    if own:
        X["town"] = rng.choice(["north", "south"], n)
        X.loc[11, "town"] = "own"
        merit.loc[11] -= 2
    return X, merit


@pytest.fixture(autouse=True)
def quiet_encoders(recwarn):
    """scikit-learn warns of categories it does not know, which is the point here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def scores(fitted, points):
    """The scores of a fitted estimator; −∞ for what it cannot score."""
    score = fitted.decision_function if hasattr(fitted, "decision_function") else fitted.predict
    try:
        return score(points)
    except ValueError:
        out = np.full(len(points), -np.inf)
        words = points.select_dtypes(exclude="number").apply("|".join, axis=1)
        for word in words.unique():  # a category that is gone is gone for all who have it
            some = (words == word).to_numpy()
            with contextlib.suppress(ValueError):
                out[some] = score(points[some])
        return out


def without(pipeline, X, y, rows):
    keep = np.delete(np.arange(len(X)), list(rows))
    return clone(pipeline).fit(X.iloc[keep], y.iloc[keep])


def brute_force(pipeline, X, y, points, target):
    """The largest share any single row breaks, by refitting everything."""
    return max(
        float(np.mean(~(scores(without(pipeline, X, y, [i]), points) >= target)))
        for i in range(len(X))
    )


CASES = {
    "ridge, deviation": (StandardScaler(), Ridge(1.0), 90_000.0, False),
    "logistic, deviation": (StandardScaler(), LogisticRegression(**SHARP), 90_000.0, False),
    "ridge, range": (MinMaxScaler(), Ridge(1.0), 200.0, False),
    "logistic, range": (MinMaxScaler(), LogisticRegression(**SHARP), 200.0, False),
    "kernel ridge, range": (MinMaxScaler(), KernelRidge(kernel="rbf", gamma=1.0), 200.0, False),
    "LS-SVM, range": (MinMaxScaler(), hf.LSSVMClassifier(gamma=1.0), 200.0, False),
    "ridge, a town of one": (StandardScaler(), Ridge(1.0), None, True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_audit_sees_what_one_row_does(name):
    scaler, final, income, own = CASES[name]
    kernel = isinstance(final, KernelRidge | hf.LSSVMClassifier)
    X, merit = loans(150 if own or kernel else 300, income=income, own=own)
    y = (merit > merit.median()).astype(int) if hasattr(final, "decision_function") else merit
    front = [(scaler, ["income", "debt", "age"])]
    if own:
        front.append((OneHotEncoder(), ["town"]))
    pipeline = make_pipeline(make_column_transformer(*front), final).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    people = loans(150, seed=1, own=own)[0]
    if own:
        people["town"] = people["town"].where(np.arange(150) % 3 > 0, "own")
    rules = {"features": {"town": "frozen"}} if own else "infer"
    given = hf.find_recourse(model, people, overshoot=0.2, actionability=rules)
    points = given.points[given.valid]
    result = hf.audit(model, given, max_deletions=2, draws=2, at=1)
    true = brute_force(pipeline, X, y, points, given.target)
    one = 1.0 / len(points) + 1e-9
    line = result.curve.loc[1]
    assert true > 0.1  # the row matters
    assert abs(line["predicted"] - true) <= one
    assert abs(line["refitted"] - true) <= one
    assert np.isnan(line["ceiling"]) or line["ceiling"] >= true - 1e-9
    assert line["frozen"] < true - 0.05 or own
    assert result.through_preprocessing > 0.05
    assert "points of this act through" in result.headline
    channel = "town" if own else "income"
    assert any(channel in words for words in result.channels)
    row = result.critical[result.critical["id"] == ("11" if own else "7")].iloc[0]
    assert channel in row["acts_through"]
    if result.agreement is not None:  # predicted and refitted speak of the same thing
        agreed = result.agreement.replace([np.inf, -np.inf], np.nan).dropna()
        np.testing.assert_allclose(agreed["predicted"], agreed["refitted"], atol=1e-3)
    summary = json.loads(result.to_json())
    assert summary["headline"]["channels"] == result.channels
    assert "robust scaler" in result.to_html()


def test_ceilings_are_empty_where_nothing_is_proven_of_a_refit():
    X, merit = loans(120)
    X.loc[::9, "debt"] = np.nan
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), Ridge()).fit(X, merit)
    model = hf.erasable(pipeline, X, merit)
    given = hf.find_recourse(model, X[:60], overshoot=0.4)
    result = hf.audit(model, given, max_deletions=3, draws=2)
    assert result.proof.preprocessing == "kept"
    assert "(kept)" in " ".join(result.proof.assumptions)
    ceilings = result.curve["ceiling"].to_numpy()
    # one row at a time can be tried; more is not proven
    assert np.isnan(ceilings[2:]).all()
    true = brute_force(pipeline, X, merit, given.points[given.valid], given.target)
    assert np.isnan(ceilings[1]) or ceilings[1] >= true - 1e-9


@pytest.mark.parametrize("name", ["ridge, deviation", "ridge, range"])
def test_hardened_recourses_survive_every_single_refit(name):
    scaler, final, income, _ = CASES[name]
    X, y = loans(200, income=income)
    pipeline = make_pipeline(scaler, final).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    people = loans(60, seed=1)[0]
    found = hf.harden(model, people, survive=1, mitigations=["margin"], overshoot=0.05)
    made = found.mitigations["margin"]
    assert made.proven
    assert len(made.points) > 10
    target = found.case.target
    for row in range(len(X)):
        assert np.all(scores(without(pipeline, X, y, [row]), made.points) >= target - 1e-9), row
    assert "proven with the preprocessing refitted" in found.recommendation


@pytest.mark.slow
def test_robust_preprocessing_is_measured_like_the_others():
    X, y = loans(200, income=90_000.0, own=True)
    front = make_column_transformer(
        (StandardScaler(), ["income", "debt", "age"]), (OneHotEncoder(), ["town"])
    )
    model = hf.erasable(make_pipeline(front, Ridge()).fit(X, y), X, y)
    people = loans(60, seed=1, own=True)[0].replace({"town": {"own": "north"}})
    found = hf.harden(
        model, people, survive=1, mitigations=["honour", "robust-preprocessing"], overshoot=0.2
    )
    lines = found.table.set_index("mitigation")
    assert "robust scaler" in lines.loc["robust-preprocessing", "setting"]
    assert "merged" in lines.loc["robust-preprocessing", "setting"]
    assert lines.loc["robust-preprocessing", "survive"] > lines.loc["honour", "survive"] + 0.1
    plain = hf.erasable(Ridge().fit(X[["debt"]], y), X[["debt"]], y)
    found = hf.harden(plain, people[["debt"]], 6.0, 1, mitigations=["robust-preprocessing"])
    assert "no scaler" in found.skipped["robust-preprocessing"]


# effects ----------------------------------------------------------------------------------------

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(),
    MinMaxScaler((-1, 3)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(quantile_range=(10, 80), with_centering=False),
]
ENCODERS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(),
    OneHotEncoder(drop="first", handle_unknown="ignore"),
    OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"),
]
IMPUTERS = [
    None,
    SimpleImputer(),
    SimpleImputer(strategy="median"),
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="constant", fill_value=10.0),
    SimpleImputer(add_indicator=True),
]
FINALS = [Ridge(3.0), LinearRegression(), LogisticRegression(C=0.5, **SHARP)]


def planted(n, rng, gaps):
    """A small table with an outlier, a rare category and one that two people share."""
    X = pd.DataFrame(
        {
            "a": rng.normal(20, 5, n),
            "b": rng.exponential(2, n),
            "c": rng.normal(size=n),
            "t": rng.choice(["x", "y", "z"], n),
        }
    )
    X.loc[3, "a"], X.loc[7, "b"] = 900.0, 60.0
    X.loc[5, "t"] = "rare"
    X.loc[[11, 12], "t"] = "two"
    if gaps:
        X.loc[[1, 9, 10], "a"] = np.nan
    merit = X[["b", "c"]].sum(axis=1) + 0.05 * X["a"].fillna(20) + rng.normal(size=n)
    return X, merit


def pipelines():
    for number, (scaler, imputer) in enumerate(itertools.product(SCALERS, IMPUTERS)):
        encoder, final = ENCODERS[number % 4], FINALS[(number // 4) % 3]
        yield scaler, imputer, encoder, final


@pytest.mark.parametrize(("scaler", "imputer", "encoder", "final"), pipelines())
def test_effects_are_those_of_a_refit(scaler, imputer, encoder, final):
    rng = np.random.default_rng(0)
    X, merit = planted(40, rng, gaps=imputer is not None)
    y = (merit > merit.median()).astype(int) if hasattr(final, "decision_function") else merit
    steps = [clone(step) for step in (imputer, scaler) if step is not None]
    front = make_column_transformer(
        (make_pipeline(*steps), ["a", "b", "c"]), (clone(encoder), ["t"])
    )
    pipeline = make_pipeline(front, clone(final)).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    points = X[:15]
    deletions, before = model.deletions(points), scores(pipeline, points)
    for rows in ([3], [7], [5], [11, 12], [3, 7, 5], [30, 31]):
        try:
            effect = deletions.effect(rows)
        except hf.SingularDeletionError:
            continue
        after = scores(without(pipeline, X, y, rows), points)
        gone = np.isinf(after)
        assert np.array_equal(np.isinf(effect), gone)
        np.testing.assert_allclose(effect[~gone], (before - after)[~gone], atol=1e-8)


def test_kept_is_the_other_choice():
    X, y = loans(100, income=500.0)
    model = hf.erasable(make_pipeline(StandardScaler(), Ridge(20.0)).fit(X, y), X, y)
    kept = model.scores(X) - model.without([7], refit_preprocessing=False).scores(X)
    np.testing.assert_allclose(
        model.deletions(X, preprocessing="kept").effect([7]), kept, atol=1e-10
    )
    with pytest.raises(hf.HoldfastError, match="'refitted' or 'kept'"):
        model.deletions(X, preprocessing="frozen")


# scales -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [s for s in SCALERS if getattr(s, "with_std", True)])
def test_scales_without_rows_and_their_range(scaler):
    """Factors against scikit-learn, and intervals against every deletion."""
    rng = np.random.default_rng(1)
    for draw in range(6):
        n = int(rng.integers(5, 11))
        X = rng.normal(size=(n, 2)) * [1.0, 5.0] + rng.normal(size=2) * 20
        if draw % 2:
            X[0, 0] = 500.0
        y = rng.normal(size=n)
        model = hf.erasable(make_pipeline(clone(scaler), Ridge()).fit(X, y), X, y)
        scales = model.scales
        assert isinstance(scales, Scales)
        scale = model.estimator[0].scale_
        if isinstance(scaler, MinMaxScaler):
            scale = 1.0 / scale
        singles = scales.singles
        for k in (1, 2, 3):
            low, high = scales.interval(k)
            kept_low, kept_high = scales.interval(k, np.array([0]))
            reached = [np.ones(2), np.ones(2)]
            for rows in itertools.combinations(range(n), k):
                fresh = clone(scaler).fit(np.delete(X, rows, axis=0)).scale_
                fresh = 1.0 / fresh if isinstance(scaler, MinMaxScaler) else fresh
                factor = (fresh / scale) ** 2
                np.testing.assert_allclose(scales.factors([np.array(rows)])[0], factor, rtol=1e-9)
                if k == 1:
                    np.testing.assert_allclose(singles[rows[0]], factor, rtol=1e-9)
                reached = [np.minimum(reached[0], factor), np.maximum(reached[1], factor)]
                assert np.all(low <= factor)
                assert np.all(factor <= high)
                if 0 not in rows:
                    assert np.all(kept_low <= factor)
                    assert np.all(factor <= kept_high)
            if not isinstance(scaler, RobustScaler):  # order statistics give it exactly
                np.testing.assert_allclose(low, reached[0], rtol=1e-6)
                np.testing.assert_allclose(high, reached[1], rtol=1e-6)


def test_what_has_no_such_form_is_told_apart():
    X, y = loans(80)
    for front in (
        KBinsDiscretizer(4, encode="onehot-dense"),
        make_pipeline(StandardScaler(), MinMaxScaler()),
        MinMaxScaler(clip=True),
    ):
        assert hf.erasable(make_pipeline(front, Ridge()).fit(X, y), X, y).scales is None
    gaps = X.assign(debt=X["debt"].where(np.arange(80) % 7 > 0))
    for table, front in (
        (gaps - gaps.min(), [MinMaxScaler(), SimpleImputer(strategy="constant", fill_value=0.0)]),
        (X, [SimpleImputer(), PolynomialFeatures(2)]),
        (X, [FunctionTransformer(), SimpleImputer()]),
        (X, [SimpleImputer(missing_values=-1.0), StandardScaler()]),
        (X, [StandardScaler(with_std=False), FunctionTransformer(np.square)]),
        (X, [StandardScaler(with_std=False), MaxAbsScaler()]),
    ):
        pipeline = make_pipeline(*front, Ridge()).fit(table, y)
        model = hf.erasable(pipeline, table, y)
        assert model.scales is None, front
        points = table[:8].copy()
        points.iloc[:4, 1] = -1.0 if getattr(front[0], "missing_values", 0) == -1.0 else 3.0
        true = scores(pipeline, points) - scores(without(pipeline, table, y, [3]), points)
        np.testing.assert_allclose(model.deletions(points).effect([3]), true, atol=1e-8)
        assert hf.certify(model, table[:5], -1e9, 1).preprocessing == "kept"
    towns = X.assign(town=np.where(np.arange(80) == 5, "own", "other"))
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]))
    pipeline = make_pipeline(encoder, FunctionTransformer(), Ridge()).fit(towns, y)
    model = hf.erasable(pipeline, towns, y)
    assert np.isinf(model.deletions(towns[5:6]).effect([5])).all()
    twice = X.assign(sum=X.sum(axis=1))  # least squares chooses among weights, by the scales
    pipeline = make_pipeline(StandardScaler(), LinearRegression()).fit(twice, y)
    model = hf.erasable(pipeline, twice, y)
    points = twice[:6] + np.random.default_rng(0).normal(size=(6, 4))
    true = scores(pipeline, points) - scores(without(pipeline, twice, y, [3]), points)
    np.testing.assert_allclose(model.deletions(points).effect([3]), true, atol=1e-8)
    assert hf.certify(model, points, -1e9, 1).preprocessing == "kept"
    sliced = ColumnTransformer([("s", StandardScaler(), slice(None, "debt"))])
    model = hf.erasable(make_pipeline(sliced, Ridge()).fit(X, y), X, y)
    assert len(model.scales.columns) == 2
    plain = make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), Ridge())
    X = X.abs()
    assert hf.erasable(plain.fit(X, y), X, y).scales is not None
    bare = make_pipeline(StandardScaler(), Ridge(fit_intercept=False)).fit(X, y)
    assert hf.erasable(bare, X, y).scales is None  # its centre matters there
    bare = make_pipeline(MaxAbsScaler(), Ridge(fit_intercept=False)).fit(X, y)
    assert hf.erasable(bare, X, y).scales is not None


# certificates against every deletion ------------------------------------------------------------


def against_every_deletion(rng, seconds_of, largest):
    """Certificates of one random pipeline, margins near the worst case: how many, and wrong.

    Those that promise nothing are not counted.
    """
    n = int(rng.integers(9, largest))
    X, _ = planted(max(n, 14), rng, gaps=False)
    X = X[["a", "b", "t"]][:n] if rng.random() < 0.6 else X[["a", "b"]][:n]
    if rng.random() < 0.5:
        X.loc[3, "a"] = rng.choice([20.0, 60.0, 300.0])
    y = 0.1 * X["a"] + 0.5 * X["b"] + rng.normal(0, 0.7, n)
    scaler = clone(SCALERS[int(rng.integers(len(SCALERS)))])
    steps = [scaler]
    if rng.random() < 0.4:  # with gaps where what is filled in does not depend on the rows
        way = str(rng.choice(["mean", "median", "most_frequent", "constant"]))
        steps.insert(0, SimpleImputer(strategy=way, fill_value=15.0))
        if way == "constant":
            X.loc[[1, 5], "a"] = np.nan
            y = y.fillna(2.0)
    front = [(make_pipeline(*steps), ["a", "b"])]
    if "t" in X:
        unknown = str(rng.choice(["ignore", "error"]))
        front.append((OneHotEncoder(handle_unknown=unknown), ["t"]))
    strength = float(rng.choice([0.1, 1.0, 10.0]))
    final = [LinearRegression(), Ridge(strength), LogisticRegression(C=0.3 / strength, **SHARP)]
    final = final[int(rng.choice(3, p=[0.15, 0.5, 0.35]))]
    if hasattr(final, "C"):
        y = (y > y.median()).astype(int)
    pipeline = make_pipeline(make_column_transformer(*front), final).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    q, k = 60, int(rng.integers(1, 3 if n > 12 else 4))
    points = X.iloc[rng.integers(0, n, q)].reset_index(drop=True)
    points["a"] += rng.normal(0, 3, q)
    before = scores(pipeline, points)
    worst = np.zeros((k + 1, q))
    for size in range(1, k + 1):
        worst[size] = worst[size - 1]
        for rows in itertools.combinations(range(n), size):
            if y.nunique() == 2 and y.drop(index=list(rows)).nunique() < 2:
                continue  # nobody can erase a whole class
            after = scores(without(pipeline, X, y, rows), points)
            worst[size] = np.maximum(worst[size], before - after)
    chosen, margins = [], []
    for j, size in itertools.product(range(q), range(1, k + 1)):
        most = worst[size, j] if np.isfinite(worst[size, j]) else 3.0
        margin = most * (1.0 + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-6, -2))
        if margin > 0:
            chosen.append(j)
            margins.append(margin)
    # every recourse gets a target of its own: as if it scored its margin against 0
    asked = judged(model, points.iloc[chosen], -np.inf, "certify")
    asked = replace(asked, scores=np.array(margins), target=0.0)
    proof = hf.certify(model, asked, 0.0, k, time_limit=seconds_of)
    if proof.preprocessing != "refitted":
        return 0, 0
    certified = proof["certified"].to_numpy()
    wrong = worst[certified, chosen] > np.array(margins) * (1 + 1e-9)
    made, wrong = int(np.sum(certified > 0)), int(np.sum(wrong & (certified > 0)))
    return made, wrong


def many(seed, wanted, largest=12):
    rng = np.random.default_rng(seed)
    made = wrong = 0
    while made < wanted:
        more = against_every_deletion(rng, 1.0, largest)
        made, wrong = made + more[0], wrong + more[1]
    return made, wrong


@pytest.mark.parametrize("seed", range(2))
def test_no_certificate_is_wrong(seed):
    assert many(seed, 500)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_certificate_of_twenty_thousand_is_wrong(seed):
    made, wrong = many(seed, 2000, largest=16)
    assert made >= 2000
    assert wrong == 0


def test_certificates_cost_little_where_nobody_stands_out():
    """As many as with the preprocessing kept, but for two in a hundred."""
    X, y = loans(300, seed=3)
    model = hf.erasable(make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, y), X, y)
    given = hf.find_recourse(model, loans(150, seed=4)[0], overshoot=0.2)
    kept, whole = (
        hf.certify(model, given, given.target, 5, preprocessing=p) for p in ("kept", "refitted")
    )
    assert (kept.preprocessing, whole.preprocessing) == ("kept", "refitted")
    valid = kept["certified"] >= 0
    total = kept["certified"][valid].sum()
    assert total > 100
    assert whole["certified"][valid].sum() >= 0.98 * total


# what cannot be refitted, what is drawn at random ------------------------------------------------


class Picky(FunctionTransformer):
    """A transformer that refuses a column without spread."""

    def fit(self, X, y=None):
        if np.nanmax(X) == np.nanmin(X):
            raise ValueError("no spread left")
        return super().fit(X, y)


def test_a_step_that_cannot_be_refitted_is_named_with_the_rows():
    X, y = loans(30)
    X["flag"] = 0.0
    X.loc[4, "flag"] = 1.0
    front = make_column_transformer(
        (StandardScaler(), ["income", "debt"]), (make_pipeline(Picky()), ["flag"])
    )
    pipeline = make_pipeline(front, Ridge()).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    said = (
        r"without rows \[4, 9\]: its step 'columntransformer' \(ColumnTransformer\), in it "
        r"'pipeline' \(Pipeline\), in it 'picky' \(Picky\) fails: no spread left"
    )
    with pytest.raises(hf.HoldfastError, match=said):
        model.without([4, 9])
    points = X[model.scores(X) > 3.0]
    with pytest.raises(hf.HoldfastError, match=said):
        model.deletions(points).effect([4, 9])
    # what has no score is broken, in whatever asks
    from holdfast.models.refits import Refits

    refits = Refits(model, points)
    for by in ("estimator", "solver"):
        assert np.isnan(refits.without([np.array([4, 9])], by=by)).all()
    assert "'picky'" in refits.why_not(np.array([4, 9]))[0]
    plan = hf.search(model, points, 3.0, 1)
    assert plan.predicted[1] == 1.0
    assert plan.sets[1] == [4]


def test_random_erasures_are_those_of_the_whole_pipeline():
    X, y = loans(40, income=90_000.0)
    pipeline = make_pipeline(StandardScaler(), Ridge(5.0)).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    given = hf.find_recourse(model, loans(60, seed=1)[0], overshoot=0.2)
    plan = hf.search(model, given, given.target, 6, "random", draws=12)
    assert any(7 in draw[-1] for draw in plan.draws)
    np.testing.assert_allclose(plan.predicted, plan.rerun(), atol=1e-9)

"""Pipelines: raw frames in, frozen preprocessing in the algebra, refitted in `without`."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import holdfast as hf
from conftest import EXACT, relative_error, shown


@pytest.fixture
def loans(rng):
    """A small raw table: numbers in different units, text, missing values."""
    n = 240
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(10, 0.5, size=n),
            "age": rng.integers(20, 70, size=n).astype(float),
            "purpose": rng.choice(["car", "home", "study"], size=n),
            "debt": rng.normal(5_000, 2_000, size=n),
        },
        index=[f"P{i:03d}" for i in range(n)],
    )
    frame.loc[frame.index[::17], "debt"] = np.nan
    z = (np.log(frame["income"]) - 10) * 2 + (frame["purpose"] == "home") - 0.02 * frame["age"]
    return frame, (rng.random(n) < expit(z + 0.5)).astype(int).to_numpy()


def preprocessing():
    return ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
                ["income", "age", "debt"],
            ),
            ("text", OneHotEncoder(handle_unknown="ignore"), ["purpose"]),
        ]
    )


FINALS = [
    LinearRegression(),
    Ridge(2.0),
    KernelRidge(kernel="rbf"),
    hf.NTKRegressor(2.0),
    hf.LSSVMClassifier(0.2),
    LogisticRegression(tol=1e-10, max_iter=1000),
]


@pytest.mark.parametrize("final", FINALS, ids=str)
def test_frozen_preprocessing_is_what_the_algebra_predicts(final, loans):
    X, y = loans
    model = hf.erasable(make_pipeline(preprocessing(), final).fit(X, y), X, y)
    Q, rows = X.iloc[:12], [4, 40, 100, 17]
    frozen = model.without(rows, refit_preprocessing=False)
    tolerance = EXACT if model.exact else 0.02
    true = model.scores(Q) - frozen.scores(Q)
    kept = {"preprocessing": "kept"}
    assert relative_error(model.deletions(Q, **kept).effect(rows), true) < tolerance
    slopes = model.score_gradients(Q) - frozen.score_gradients(Q)
    predicted = model.deletions(Q, of="gradients", **kept).effect(rows)
    assert predicted.shape == (12, 4)
    assert relative_error(predicted, slopes.to_numpy()) < tolerance
    whole = model.without(rows)
    true = model.scores(Q) - whole.scores(Q)
    assert relative_error(model.deletions(Q).effect(rows), true) < max(1e-6, tolerance)
    slopes = model.score_gradients(Q) - whole.score_gradients(Q)
    assert relative_error(model.deletions(Q, of="gradients").effect(rows), slopes) < 1e-6


def test_without_refits_the_preprocessing_by_default(loans):
    X, y = loans
    pipeline = make_pipeline(preprocessing(), LinearRegression()).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    rows = [int(X["income"].argmax())]
    own = make_pipeline(preprocessing(), LinearRegression())
    own.fit(X.drop(X.index[rows]), np.delete(y, rows))
    refit, frozen = model.without(rows), model.without(rows, refit_preprocessing=False)
    np.testing.assert_allclose(refit.scores(X), own.predict(X), rtol=1e-9)
    mean = lambda m: m.estimator[0].named_transformers_["numbers"][1].mean_[0]  # noqa: E731
    assert mean(frozen) == mean(model) != mean(refit)
    assert mean(model) == pipeline[0].named_transformers_["numbers"][1].mean_[0]  # untouched


def test_gradients_are_in_raw_units_and_zero_for_categories(loans):
    X, y = loans
    model = hf.erasable(
        make_pipeline(preprocessing(), LogisticRegression(tol=1e-10)).fit(X, y), X, y
    )
    Q = X.dropna().iloc[:10]
    gradients = model.score_gradients(Q)
    assert list(gradients.columns) == list(X.columns)
    assert gradients.index.equals(Q.index)
    for column, step in (("income", 10.0), ("age", 0.01), ("debt", 1.0)):
        up, down = Q.copy(), Q.copy()
        up[column] += step
        down[column] -= step
        numeric = (model.scores(up) - model.scores(down)) / (2 * step)
        np.testing.assert_allclose(gradients[column], numeric, rtol=1e-5)
    assert not gradients["purpose"].any()


def test_a_missing_value_has_no_gradient(loans):
    X, y = loans
    model = hf.erasable(make_pipeline(preprocessing(), Ridge()).fit(X, y), X, y)
    gradients = model.score_gradients(X)
    missing = X["debt"].isna()
    assert not gradients.loc[missing, "debt"].any()
    assert gradients.loc[~missing, "debt"].all()


NUMERIC = [
    StandardScaler(),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 2)),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    PCA(2),
    PCA(2, whiten=True),
    TruncatedSVD(2, random_state=0),
    PolynomialFeatures(2),
    PolynomialFeatures(3, interaction_only=True, include_bias=False),
    SelectKBest(f_regression, k=2),
    VarianceThreshold(),
    FunctionTransformer(),
    FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]),
    FeatureUnion([("a", StandardScaler()), ("b", PCA(1))], transformer_weights={"b": 7.0}),
    ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2])],
        transformer_weights={"a": 3.0, "b": 0.1},
    ),
    make_column_transformer((StandardScaler(), [0, 2]), remainder="passthrough"),
    make_column_transformer((MinMaxScaler(), slice(0, 2)), remainder="drop"),
    make_column_transformer((MinMaxScaler(), np.array([True, False, True]))),
    Pipeline([("a", StandardScaler()), ("b", "passthrough"), ("c", PolynomialFeatures(2))]),
]


@pytest.mark.parametrize("transformer", NUMERIC, ids=shown)
def test_gradients_pass_back_through(transformer, rng):
    X = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    y = X[:, 0] - 0.2 * X[:, 1] + rng.normal(size=50)
    model = hf.erasable(make_pipeline(transformer, Ridge()).fit(X, y), X, y)
    Q = X[:6] * 1.01 + 0.003  # off the extremes, where clipping has its kink
    numeric = np.empty((6, 3))
    for k in range(3):
        e = 1e-6 * np.eye(3)[k]
        numeric[:, k] = (model.scores(Q + e) - model.scores(Q - e)) / 2e-6
    np.testing.assert_allclose(model.score_gradients(Q), numeric, atol=1e-6)


def test_behind_other_transformers_scores_and_deletions_still_work(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
    pipeline = make_pipeline(QuantileTransformer(n_quantiles=20), Ridge()).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    with pytest.raises(hf.UnsupportedModelError, match="QuantileTransformer.*pass through: .*PCA"):
        model.score_gradients(X)
    true = model.scores(X) - model.without([1, 2], refit_preprocessing=False).scores(X)
    kept = model.deletions(X, preprocessing="kept")
    assert relative_error(kept.effect([1, 2]), true) < EXACT
    whole = model.scores(X) - model.without([1, 2]).scores(X)
    assert relative_error(model.deletions(X).effect([1, 2]), whole) < EXACT


def test_nan_is_an_error_only_where_the_pipeline_rejects_it(loans):
    X, y = loans
    hf.erasable(make_pipeline(preprocessing(), Ridge()).fit(X, y), X, y).scores(X)
    bare = X[["income", "age"]]
    strict = hf.erasable(make_pipeline(StandardScaler(), Ridge()).fit(bare, y), bare, y)
    with pytest.raises(hf.HoldfastError, match="NaN or infinity"):
        strict.scores(bare.mask(bare["age"] > 60))


def test_ordinal_codes_and_ordered_columns(loans):
    X, y = loans
    pipeline = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["purpose"]), remainder="drop"), Ridge()
    ).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    assert not model.score_gradients(X).to_numpy().any()
    shuffled = X[["debt", "purpose", "age", "income"]]
    np.testing.assert_allclose(model.scores(shuffled), model.scores(X))


def test_unknown_category_is_reported_with_its_reason(loans):
    X, y = loans
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["purpose"])), LogisticRegression(tol=1e-8)
    ).fit(X, y)
    model = hf.erasable(pipeline, X, y)
    with pytest.raises(hf.HoldfastError, match="does not accept these rows.*boat"):
        model.scores(X.assign(purpose="boat"))


def test_weights_reach_the_last_step(loans, rng):
    X, y = loans
    weights = rng.uniform(0.2, 2.0, size=len(X))
    pipeline = make_pipeline(preprocessing(), LinearRegression())
    pipeline.fit(X, y, linearregression__sample_weight=weights)
    model = hf.erasable(pipeline, X, y, sample_weight=weights)
    rows = [3, 9]
    true = model.scores(X) - model.without(rows, refit_preprocessing=False).scores(X)
    assert relative_error(model.deletions(X).effect(rows), true) < EXACT
    with pytest.raises(hf.DataMismatchError):
        hf.erasable(pipeline, X, y)


@pytest.mark.parametrize("final", [LinearRegression(), Ridge()], ids=str)
def test_sparse_features(final, loans):
    """scikit-learn solves these iteratively: the same data must not look like others."""
    X, y = loans
    pipeline = make_pipeline(make_column_transformer((OneHotEncoder(), ["purpose"])), final)
    model = hf.erasable(pipeline.fit(X, y), X, y)
    true = model.scores(X) - model.without([1, 2], refit_preprocessing=False).scores(X)
    assert relative_error(model.deletions(X).effect([1, 2]), true) < EXACT


def test_a_pipeline_in_a_pipeline(loans):
    X, y = loans
    nested = make_pipeline(preprocessing(), make_pipeline(StandardScaler(), Ridge())).fit(X, y)
    model = hf.erasable(nested, X, y)
    assert model.exact
    np.testing.assert_allclose(model.scores(X), nested.predict(X))
    assert model.without([1]).scores(X).shape == (len(X),)


def test_a_transformer_of_the_users_own(loans):
    class Ratio(BaseEstimator, TransformerMixin):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return (X["income"] / (1 + X["age"])).to_numpy()[:, None]

    X, y = loans
    model = hf.erasable(make_pipeline(Ratio(), Ridge()).fit(X, y), X, y)
    true = model.scores(X) - model.without([1, 2]).scores(X)
    assert relative_error(model.deletions(X).effect([1, 2]), true) < EXACT


def test_mixed_columns_passed_through(loans):
    X, y = loans
    X = X.assign(owner=X["age"] > 40, children=X["age"].astype(int) % 3)
    columns = ["purpose", "owner", "children"]
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["purpose"]), remainder="passthrough"
    )
    pipeline = make_pipeline(encoder, Ridge()).fit(X[columns], y)
    model = hf.erasable(pipeline, X[columns], y)
    np.testing.assert_allclose(model.scores(X[columns]), pipeline.predict(X[columns]))


def test_transformers_that_work_in_place_do_not_touch_the_callers_data(rng):
    X = rng.normal(size=(40, 3)) + 5
    y = rng.normal(size=40)
    given = X.copy()
    model = hf.erasable(
        make_pipeline(StandardScaler(copy=False), Ridge()).fit(X.copy(), y), given, y
    )
    queries = X.copy()
    model.scores(queries)
    model.without([1])
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(queries, X)


def test_target_encoding_is_only_refitted(loans):
    X, y = loans
    encoder = make_column_transformer((TargetEncoder(), ["purpose"]))
    model = hf.erasable(make_pipeline(encoder, Ridge()).fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match="TargetEncoder"):
        model.deletions(X)


def test_a_category_that_goes_with_the_row(loans):
    X, y = loans
    X = X.assign(purpose=["boat", *X["purpose"][1:]])
    options = {"solver": "lbfgs", "alpha": 5.0, "tol": 1e-8, "max_iter": 5000, "random_state": 0}
    net = MLPClassifier((4,), "logistic", **options)
    model = hf.erasable(make_pipeline(preprocessing(), net).fit(X, y), X, y)
    assert model.without([0]).scores(X[1:]).shape == (len(X) - 1,)


def test_a_pipeline_ending_in_a_forest_is_refitted_whole(loans):
    X, y = loans
    forest = RandomForestClassifier(20, random_state=0)
    model = hf.erasable(make_pipeline(preprocessing(), forest).fit(X, y), X, y)
    assert model.without([0, 1]).scores(X).shape == (len(X),)


def test_a_network_behind_preprocessing(loans):
    X, y = loans
    net = MLPClassifier(
        (4,), "logistic", solver="lbfgs", alpha=5.0, tol=1e-8, max_iter=5000, random_state=0
    )
    model = hf.erasable(make_pipeline(preprocessing(), net).fit(X, y), X, y)
    frozen = model.without(7, refit_preprocessing=False)
    true = model.scores(X) - frozen.scores(X)
    assert np.corrcoef(model.deletions(X).effect(7), true)[0, 1] > 0.99
    slopes = model.score_gradients(X) - frozen.score_gradients(X)
    predicted = model.deletions(X, of="gradients").effect(7)
    assert np.corrcoef(predicted.ravel(), slopes.to_numpy().ravel())[0, 1] > 0.98
    assert model.without(7).scores(X).shape == (len(X),)

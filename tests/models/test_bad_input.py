"""Nonsense in, one clear sentence out."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import holdfast as hf


@pytest.fixture
def data(rng):
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=["income", "savings", "debt"])
    return X, X["income"].to_numpy() + rng.normal(size=30)


@pytest.fixture
def model(data):
    X, y = data
    return hf.erasable(Ridge().fit(X, y), X, y)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (30, "row 30 is out of range: positions go from 0 to 29"),
        (-1, "row -1 is out of range"),
        ([2, 5, 2], "row 2 is named more than once"),
        ([0.5], "integer positions"),
        (["P1"], "people are named through subjects="),
        ([[1, 2]], "flat list, got 2-d"),
        ([True, False], "integer positions"),
        (range(30), "all 30 training rows would be deleted"),
        (None, "either rows= or subjects="),
    ],
)
def test_rows_to_delete(model, data, rows, message):
    for use in (model.deletions(data[0]).effect, model.without):
        with pytest.raises(hf.HoldfastError, match=message):
            use(rows)


def test_deleting_nobody_changes_nothing(model, data):
    X, _ = data
    assert not model.deletions(X).effect([]).any()
    np.testing.assert_allclose(model.without([]).scores(X), model.scores(X))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LinearRegression, "is a class, not a fitted model"),
        ("linear", "str is not a scikit-learn style estimator.*Supported: LinearRegression"),
        (StandardScaler(), "StandardScaler is not a scikit-learn style estimator"),
        (KMeans(2).fit(np.eye(3)), "neither a regressor nor a classifier"),
    ],
)
def test_unsupported_estimators(estimator, message, data):
    with pytest.raises(hf.UnsupportedModelError, match=message):
        hf.erasable(estimator, *data)


def test_unfitted_estimator(data):
    with pytest.raises(NotFittedError):
        hf.erasable(LinearRegression(), *data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), "X has 30 rows but y has 29 labels"),
        (
            lambda X, y: (pd.concat([X[:4], X[4:5] * np.nan, X[5:]]), y),
            "row 4, column 'income'.*missing",
        ),
        (lambda X, y: (X.replace(X.iloc[2, 1], np.inf), y), "row 2, column 'savings'.*infinite"),
        (lambda X, y: (X, np.where(np.arange(30) == 3, np.nan, y)), "y is missing in row 3"),
        (lambda X, y: (X, np.where(np.arange(30) == 3, np.inf, y)), "y must be finite"),
        (lambda X, y: (X, [f"v{v}" for v in y]), "y must be numbers for a regressor"),
        (lambda X, y: (X, np.column_stack([y, y])), "one label per row"),
        (lambda X, y: (X.drop(columns="debt"), y), "column 'debt' is missing from X"),
        (lambda X, y: (X.assign(age=1), y), "X has the column 'age'"),
        (lambda X, y: (X.iloc[:, 0], y), "got one Series"),
        (lambda X, y: (X.to_numpy().ravel(), y), "got shape"),
        (lambda X, y: (sparse.csr_array(X), y), "must be dense"),
        (lambda X, y: (X.assign(debt="much"), y), "row 0, column 'debt': 'much' is not a number"),
        (lambda X, y: (X[["income", "income", "debt"]], y), "'income' appears twice"),
        (lambda X, y: ([[1, 2, 3], [4, 5]], y), "equally long"),
        (lambda X, y: (X.assign(debt=pd.Timestamp("2020")), y), "dates"),
        (lambda X, y: (X.to_numpy() + 1j, y), "complex"),
    ],
)
def test_training_data(change, message, data):
    X, y = data
    fitted = Ridge().fit(X, y)
    with pytest.raises(hf.HoldfastError, match=message):
        hf.erasable(fitted, *change(X, y))


def test_nearest_column_is_suggested(model, data):
    with pytest.raises(hf.HoldfastError, match="'savings' is missing.*did you mean 'saving'?"):
        model.scores(data[0].rename(columns={"savings": "saving"}))


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        Ridge(),
        KernelRidge(kernel="rbf"),
        hf.NTKRegressor(1.0),
        hf.LSSVMClassifier(0.1),
        LogisticRegression(tol=1e-8),
        MLPClassifier(
            (3,), solver="lbfgs", activation="tanh", alpha=1, max_iter=5000, random_state=0
        ),
    ],
    ids=lambda e: type(e).__name__,
)
def test_other_data_than_the_fit_are_refused(estimator, rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=200)
    y = (
        (y > 0).astype(int)
        if hasattr(estimator, "predict_proba") or estimator.__class__ is hf.LSSVMClassifier
        else y
    )
    fitted = estimator.fit(X, y)
    hf.erasable(fitted, X, y)
    for other_X, other_y in ((X, y[::-1]), (X + rng.normal(size=X.shape), y)):
        with pytest.raises(hf.DataMismatchError, match=r"\d"):
            hf.erasable(fitted, other_X, other_y)
    if not hasattr(fitted, "predict_proba"):  # exact families notice one missing row
        with pytest.raises(hf.DataMismatchError, match=r"fitted on"):
            hf.erasable(fitted, X[1:], y[1:])


def test_one_class_only(rng):
    X = rng.normal(size=(20, 2))
    y = np.arange(20) % 2
    fitted = LogisticRegression().fit(X, y)
    with pytest.raises(hf.HoldfastError, match="only the class .*0.*needs rows of both"):
        hf.erasable(fitted, X[y == 0], y[y == 0])


def test_three_classes(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(hf.UnsupportedModelError, match="3 classes; two are supported"):
        hf.erasable(LogisticRegression().fit(X, y), X, y)


def test_labels_that_are_not_classes(rng):
    X, y = rng.normal(size=(20, 2)), np.where(np.arange(20) % 2, "good", "bad")
    fitted = LogisticRegression(tol=1e-8).fit(X, y)
    with pytest.raises(hf.HoldfastError, match=r"favourable=1 is not a class.*'bad' and .*'good'"):
        hf.erasable(fitted, X, y)
    with pytest.raises(hf.HoldfastError, match="label .*'ugly' in row 0"):
        hf.erasable(fitted, X, np.append("ugly", y[1:]), favourable="good")
    with pytest.raises(hf.HoldfastError, match="'high' or 'low'"):
        hf.erasable(Ridge().fit(X, np.arange(20)), X, np.arange(20), favourable="up")


def test_the_last_row_of_a_class_cannot_go(rng):
    X = rng.normal(size=(20, 2))
    y = np.zeros(20, dtype=int)
    y[[3, 8]] = 1
    model = hf.erasable(LogisticRegression(tol=1e-10).fit(X, y), X, y)
    with pytest.raises(hf.SingularDeletionError, match=r"rows \[3, 8\].*one of the two classes"):
        model.deletions(X).effect([3, 5, 8])
    with pytest.raises(hf.SingularDeletionError):
        model.without([3, 8])
    alone = model.without(8)
    assert np.isnan(alone.deletions(X).single_effects()[:, 3]).all()


def test_subjects(data):
    X, y = data
    subjects = np.repeat(np.arange(10), 3)
    model = hf.erasable(Ridge().fit(X, y), X, y, subjects=subjects)
    deletions = model.deletions(X)
    np.testing.assert_allclose(deletions.effect(subjects="4"), deletions.effect([12, 13, 14]))
    np.testing.assert_allclose(deletions.effect(subjects=[4]), deletions.effect([12, 13, 14]))
    assert model.without(subjects=["4", 0]).rows.n == 24
    assert "4" not in model.without(subjects=4).rows.rows_of_subject
    for ids in (pd.date_range("2020", periods=30), np.arange(30.0)):
        by_id = hf.erasable(Ridge().fit(X, y), X, y, subjects=ids)
        np.testing.assert_allclose(
            by_id.deletions(X).effect(subjects=ids[3]), deletions.effect([3])
        )
    with pytest.raises(hf.HoldfastError, match="unknown subject '77'"):
        deletions.effect(subjects=[4, 77])
    with pytest.raises(hf.HoldfastError, match="named twice"):
        deletions.effect(subjects=[4, "4"])
    with pytest.raises(hf.HoldfastError, match="knows no subjects"):
        hf.erasable(Ridge().fit(X, y), X, y).without(subjects=[4])
    with pytest.raises(hf.HoldfastError, match="owner of each of the 30 rows"):
        hf.erasable(Ridge().fit(X, y), X, y, subjects=[1, 2])
    with pytest.raises(hf.HoldfastError, match="row 0 has no subject"):
        hf.erasable(Ridge().fit(X, y), X, y, subjects=[None, *range(29)])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one number for each of 30 rows"),
        (-np.ones(30), "not negative"),
        (np.full(30, np.nan), "finite"),
        (np.zeros(30), "0 for every row"),
        (["a"] * 30, "must be numbers"),
    ],
)
def test_sample_weight(weights, message, data):
    X, y = data
    with pytest.raises(hf.HoldfastError, match=message):
        hf.erasable(Ridge().fit(X, y), X, y, sample_weight=weights)


def test_options(model, data):
    X, _ = data
    with pytest.raises(hf.HoldfastError, match="method must be one of 'exact', 'jackknife'"):
        model.deletions(X, method="newton")
    with pytest.raises(hf.HoldfastError, match="of must be"):
        model.deletions(X, of="weights")
    with pytest.raises(hf.HoldfastError, match="start must be"):
        model.without(1, start="warm")


def test_no_queries(model, data):
    X, _ = data
    assert model.scores(X[:0]).shape == (0,)
    assert model.score_gradients(X[:0]).shape == (0, 3)
    with pytest.raises(hf.HoldfastError, match="no rows"):
        model.deletions(X[:0])


def test_arrays_for_a_model_fitted_on_a_frame(model, data):
    X, _ = data
    np.testing.assert_allclose(model.scores(X.to_numpy()), model.scores(X))
    assert isinstance(model.score_gradients(X.to_numpy()), np.ndarray)
    with pytest.raises(hf.HoldfastError, match="2 columns, the model was fitted on 3"):
        model.scores(X.to_numpy()[:, :2])


def test_frames_for_a_model_fitted_on_an_array(data):
    X, y = data
    model = hf.erasable(Ridge().fit(X.to_numpy(), y), X, y)
    shuffled = X[["debt", "income", "savings"]]
    np.testing.assert_allclose(model.scores(shuffled), model.scores(X))
    assert list(model.score_gradients(X).columns) == list(X.columns)


@pytest.mark.parametrize(
    "estimator",
    [
        hf.NTKRegressor(0.0),
        hf.NTKRegressor(None),
        hf.LSSVMClassifier(gamma=-1.0),
        hf.LSSVMClassifier(gamma=np.inf),
        hf.WideReLURegressor(n_units=0),
    ],
)
def test_parameters_of_our_estimators(estimator, rng):
    X, y = rng.normal(size=(10, 2)), np.arange(10) % 2
    with pytest.raises(hf.HoldfastError, match="must be a number above 0, got"):
        estimator.fit(X, y)

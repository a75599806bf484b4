"""Kinds of models fitted on a raw table."""

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.cases.fitting import COUNTS, KINDS, described, fit_kind, labels_for, target_by_default
from lender import loans

TABLE = loans(150)
X = TABLE[["age", "income", "savings", "job", "region"]].astype({"job": object, "region": object})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in COUNTS])
def test_every_kind_takes_numbers_text_and_gaps(kind):
    labels = labels_for(kind, TABLE["repaid"], "yes")
    fitted = fit_kind(kind, X, labels)
    model = hf.erasable(fitted, X, labels.values, favourable=labels.favourable)
    target = target_by_default(fitted[-1], labels)
    assert target == (0.5 if KINDS[kind].classifier is None else None)
    good = model.scores(X[TABLE["repaid"] == "yes"]).mean()
    assert good > model.scores(X[TABLE["repaid"] == "no"]).mean() + 0.1
    gone = model.without([3, 5])
    assert gone.rows.n == len(X) - 2
    assert any("one-hot" in line for line in described(fitted))
    assert any("median" in line and "scaled" in line for line in described(fitted))


@pytest.mark.parametrize("kind", COUNTS)
def test_amounts_are_counted_and_classes_are_not(kind):
    with pytest.raises(hf.HoldfastError, match="two classes"):
        labels_for(kind, TABLE["repaid"], "yes")
    column = TABLE["merit"].abs() + 1.0
    labels = labels_for(kind, column, None)
    fitted = fit_kind(kind, X, labels)
    model = hf.erasable(fitted, X, labels.values)
    assert np.corrcoef(model.scores(X), column)[0, 1] > 0.3


@pytest.mark.parametrize("kind", ["linear", "ridge", "ntk", "mlp", "boosting"])
def test_numbers_as_labels(kind):
    labels = labels_for(kind, TABLE["merit"], "low")
    assert labels.favourable == "low"
    assert not labels.classes
    fitted = fit_kind(kind, X, labels)
    assert np.corrcoef(fitted.predict(X), TABLE["merit"])[0, 1] > 0.5


def test_the_imputer_knows_training_rows_only():
    labels = labels_for("linear", TABLE["merit"], None)
    fitted = fit_kind("linear", X[:100], type(labels)(labels.values[:100], "high", False))
    numbers = fitted[0].named_transformers_["numbers"]
    assert numbers[0].statistics_[1] == X["income"][:100].median()


@pytest.mark.parametrize(
    ("kind", "column", "favourable", "message"),
    [
        ("logistic", TABLE["merit"], None, "tells two classes apart"),
        ("logistic", TABLE["repaid"], None, "'no' or 'yes'"),
        ("logistic", TABLE["repaid"], "Yep", "got 'Yep'"),
        ("linear", TABLE["merit"], "yes", "'high' or 'low'"),
        ("boosting", TABLE["region"], "N", "4 different texts"),
        ("linear", pd.Series([1.0, 1.0], name="l"), None, "in every row"),
        ("linear", pd.Series([1.0, None], name="l"), None, "missing in row 2"),
    ],
)
def test_labels_that_do_not_fit(kind, column, favourable, message):
    with pytest.raises(hf.HoldfastError, match=message):
        labels_for(kind, column, favourable)


def test_bad_tables_and_parameters():
    labels = labels_for("ridge", TABLE["merit"], None)
    with pytest.raises(hf.HoldfastError, match="no parameter 'alphaa'; did you mean 'alpha'"):
        fit_kind("ridge", X, labels, {"alphaa": 1})
    with pytest.raises(hf.HoldfastError, match="cannot be fitted"):
        fit_kind("ridge", X, labels, {"alpha": -1})
    with pytest.raises(hf.HoldfastError, match="'empty' is empty"):
        fit_kind("ridge", X.assign(empty=np.nan), labels)
    many = X.assign(name=[f"name {i}" for i in range(len(X))])
    labels = labels_for("ridge", pd.concat([TABLE["merit"]] * 2), None)
    two = pd.concat([many, many.assign(name=many["name"] + "b")], ignore_index=True)
    with pytest.raises(hf.HoldfastError, match="looks like an id"):
        fit_kind("ridge", two, labels)

"""Features by plain arithmetic are scikit-learn's, to the last bit, or are left to it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from holdfast.errors import HoldfastError
from holdfast.models.preprocessing import Preprocessing
from lender import loans

NUMBERS, TEXT = ["age", "income", "savings"], ["job", "region"]


def front(numbers, text=None):
    parts = [("n", numbers, NUMBERS)]
    if text is not None:
        parts.append(("t", text, TEXT))
    return ColumnTransformer(parts)


KNOWN = {
    "standard": front(
        make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
        make_pipeline(
            SimpleImputer(strategy="constant", fill_value="(missing)"),
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        ),
    ),
    "min-max": front(make_pipeline(SimpleImputer(), MinMaxScaler((-1, 1))), OneHotEncoder()),
    "robust": front(make_pipeline(SimpleImputer(), RobustScaler())),
    "max-abs": front(make_pipeline(SimpleImputer(), MaxAbsScaler())),
    "in a pipeline": make_pipeline(
        front(make_pipeline(SimpleImputer(strategy="most_frequent"), StandardScaler()))
    ),
}
OTHER = {
    "binned": front(
        make_pipeline(SimpleImputer(), KBinsDiscretizer(3, encode="ordinal", strategy="uniform"))
    ),
    "dropped": front(SimpleImputer(), OneHotEncoder(drop="first")),
    "merged": front(SimpleImputer(), OneHotEncoder(min_frequency=0.3)),
    "flagged": front(SimpleImputer(add_indicator=True)),
    "the rest": make_column_transformer((SimpleImputer(), NUMBERS[:1]), remainder="drop"),
}


OTHER |= {
    "by position": ColumnTransformer([("n", SimpleImputer(), slice(0, 3))]),
    "one column": ColumnTransformer([("t", CountVectorizer(), "job")]),
    "another gap": front(
        SimpleImputer(),
        make_pipeline(
            SimpleImputer(missing_values="?", strategy="constant", fill_value="full"),
            OneHotEncoder(handle_unknown="ignore"),
        ),
    ),
}


def fitted(transformer):
    table = loans()[[*NUMBERS, *TEXT]]
    made = Preprocessing(transformer.fit(table))
    made.transform(table[:20])
    return made, table


@pytest.mark.parametrize("case", KNOWN)
def test_known_preprocessing_is_followed_to_the_last_bit(case):
    made, table = fitted(KNOWN[case])
    assert made.fast is not None
    out = made.transformer.transform(table)
    honest = out.toarray() if hasattr(out, "toarray") else out
    np.testing.assert_array_equal(made.transform(table), honest)


@pytest.mark.parametrize("case", OTHER)
def test_anything_else_is_left_to_scikit_learn(case):
    made, table = fitted(OTHER[case])
    out = made.transformer.transform(table)
    honest = out.toarray() if hasattr(out, "toarray") else out
    np.testing.assert_array_equal(made.transform(table), honest)


def test_what_scikit_learn_would_complain_of_it_still_does():
    made, table = fitted(KNOWN["min-max"])
    with pytest.raises(HoldfastError, match="unknown categor"):
        made.transform(table[:3].assign(job="astronaut"))
    with pytest.raises(HoldfastError, match="does not accept"):
        made.transform(table[:3].drop(columns="age"))
    wide, table = fitted(KNOWN["standard"])
    strange = table[:3].assign(job=["astronaut", None, "full"], age=np.array([1.5, np.nan, 3]))
    np.testing.assert_array_equal(wide.transform(strange), wide.transformer.transform(strange))
    single = table[:3].assign(age=pd.Series([1.5, 2.5, 3.5], index=table.index[:3], dtype="f4"))
    np.testing.assert_array_equal(wide.transform(single), wide.transformer.transform(single))


@pytest.mark.parametrize("case", KNOWN)
def test_refitted_without_some_rows(case):
    made, table = fitted(KNOWN[case])
    table = table.assign(job=["only her", *table["job"][1:]])
    made = Preprocessing(made.transformer.fit(table))
    made.transform(table)
    rows = np.arange(1, 200)
    fresh = made.fast.refitted(made.fast.cells(table), rows)
    honest = made.transformer.fit(table.iloc[rows]).transform(table.iloc[1:])
    honest = honest.toarray() if hasattr(honest, "toarray") else honest
    np.testing.assert_allclose(fresh(table.iloc[1:]), honest, rtol=1e-12, atol=1e-12)
    if case == "min-max":  # handle_unknown="error": scikit-learn is to say so
        assert fresh(table) is None


def test_odd_cells_are_left_to_scikit_learn():
    """None is no gap, and what cannot be a text is refused as scikit-learn refuses it."""
    fill = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    made, table = fitted(front(SimpleImputer(), fill))
    table = table.astype({"job": object, "region": object})
    for cell in (None, "?", 3, True, ["x"]):
        odd = table[:3].copy()
        odd.at[odd.index[0], "job"] = cell
        try:
            out = made.transformer.transform(odd)
        except Exception:
            with pytest.raises(HoldfastError):
                made.transform(odd)
            continue
        honest = out.toarray() if hasattr(out, "toarray") else out
        np.testing.assert_array_equal(made.transform(odd), honest)

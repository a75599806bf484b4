"""What a column speaks of, read off its name and its cells: things nobody can simply change.

A person can be told to save more, not to be younger, to have paid earlier, to have lived somewhere
for a shorter time. Names are read word by word; what they say is a guess, shown with its reason
before it is used, and a declaration always wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from holdfast.cells import are_dates

#: rows from which whole numbers that are all different are taken for names
MANY = 200


@dataclass(frozen=True)
class Matter:
    """Something columns speak of.

    Attributes
    ----------
    why : str
    words : set of str
        Any of them in a column's name is enough.
    phrases : tuple of str
        Words in a row, likewise.
    numbers, texts : str
        The direction of a change, where the column has numbers and where it has categories.
    """

    why: str
    words: frozenset[str]
    phrases: tuple[str, ...] = ()
    numbers: str = "frozen"
    texts: str = "frozen"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: in the order in which they are looked for
KINDS = (
    Matter(
        "a name, not a property",
        _set("id ids uuid guid ssn iban identifier name surname firstname lastname email phone"),
        (
            *("account number", "customer number", "loan number", "case number", "row number"),
            *("account no", "customer no", "loan no", "case no", "member no", "policy number"),
        ),
    ),
    Matter(
        "time passes one way",
        _set("since tenure seniority oldest residence resident vintage elapsed ago experience")
        | _set("employed"),
        (
            *("years at", "months at", "time at", "years in", "months in", "time in"),
            *("years with", "months with", "length of", "emp length", "employment length"),
            *("job length", "years of", "months of", "account age", "age of account"),
            *("credit age", "present emp", "acct age", "on book", "in file", "yrs at", "job years"),
            *("yrs in", "years employed", "years resident"),
        ),
        numbers="up",
    ),
    Matter(
        "nobody can change it",
        _set("age birth birthdate birthday born dob sex gender race racial ethnic ethnicity")
        | _set("religion nationality national foreign foreigner citizen citizenship immigrant")
        | _set("immigration disability disabled pregnant pregnancy native indigenous origin")
        | _set("female male woman women man men black white hispanic latino asian caucasian")
        | _set("title salutation pronoun veteran language yob birthyear country")
        | _set("alter geschlecht nationalität staatsangehörigkeit herkunft"),
    ),
    Matter(
        "family is nothing to be told to change",
        _set("marital married marriage divorced spouse dependents dependants dependent children")
        | _set("kids household child nchildren familienstand kinder"),
        ("personal status", "family status", "civil status", "people liable"),
    ),
    Matter(
        "where people live is nothing to be told to change",
        _set("zip zipcode postcode postal latitude longitude neighbourhood neighborhood plz")
        | _set("postleitzahl wohnort region county district province"),
        ("home state", "us state", "addr state", "state code"),
    ),
    Matter(
        "what happened cannot be undone",
        _set("past previous prior priors history hist ever late delinq delinquent delinquency")
        | _set("delinquencies delq overdue arrears missed default defaults defaulted bankrupt")
        | _set("bankruptcy bankruptcies derog derogatory chargeoff chargeoffs collections inq")
        | _set("inquiry inquiries enquiries conviction convictions arrest arrests juv lawsuits")
        | _set("judgments judgements liens foreclosure foreclosures repossessions claims accidents")
        | _set("inpatient outpatient emergency admissions diagnoses procedures pubrec recid"),
        (
            *("public record", "public records", "days past", "times 90", "charged off"),
            *("charge off", "charge offs", "collection count", "hard pulls", "hard inquiries"),
        ),
    ),
    Matter("a date", _set("date datetime timestamp weekday dob earliest"), ("issue d",)),
)

#: money somebody has, earns or owes can change, whatever else a name speaks of
_MONEY = _set("income incomes earnings salary wage wages debt debts balance balances savings bill")
_MONEY |= _set("bills spend spending expenses assets exchange")

#: how long a loan is to last is a choice
_CHOSEN = _set("loan repayment instalment installment term mortgage lease contract")

#: values that speak of sex and marriage, whatever the column is called
_PROTECTED_VALUES = _set("male female married divorced widowed nonbinary männlich weiblich")
_PROTECTED_VALUES |= _set("verheiratet geschieden mr mrs ms herr frau")


def words_of(name: Any) -> list[str]:
    """The words of a column's name: snake_case, camelCase, spaces and dots apart.

    Examples
    --------
    >>> words_of("MSinceOldestTradeOpen"), words_of("late_payments.2y")
    (['m', 'since', 'oldest', 'trade', 'open'], ['late', 'payments', 'y'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", str(name))
    return [word for word in re.split(r"[^A-Za-zÀ-ÿ]+", apart.lower()) if word]


def kind_of(name: Any, column: pd.Series, category: bool) -> tuple[str, str]:
    """The direction of a change and why; ("any", "") where nothing speaks against it."""
    words = words_of(name)
    said = f" {' '.join(words)} "
    money = not category and bool(_MONEY.intersection(words))
    for kind in KINDS:
        if money or (kind.numbers == "up" and _CHOSEN.intersection(words)):
            continue
        if kind.words.intersection(words) or any(f" {p} " in said for p in kind.phrases):
            direction = kind.texts if category else kind.numbers
            if direction == "up" and _counted_down(column):
                direction = "down"
            return direction, kind.why
    if category:
        return _by_values(column)
    if is_id(name, column):
        return "frozen", "another whole number in every row: taken for an id"
    return "any", ""


def _counted_down(column: pd.Series) -> bool:
    """Whether a duration is written as days before today: it falls as time passes."""
    values = pd.to_numeric(column, errors="coerce").dropna()
    return bool(len(values)) and bool((values <= 0).mean() > 0.5) and float(values.min()) < 0


def _by_values(column: pd.Series) -> tuple[str, str]:
    values = {str(v).strip().lower() for v in column.dropna().unique()[:1000]}
    if values == {"m", "f"} or any(_PROTECTED_VALUES.intersection(words_of(v)) for v in values):
        return "frozen", "its categories speak of sex or marriage"
    if are_dates(column):
        return "frozen", "dates"
    known = column.dropna()
    if len(known) >= 20 and known.nunique() > 0.5 * len(known):
        return "frozen", "another text in most rows: a name, not a property"
    return "any", ""


def is_id(name: Any, column: pd.Series) -> bool:
    """Whether whole numbers are names: all different, counted through or like account numbers."""
    values = pd.to_numeric(column, errors="coerce")
    if values.isna().any() or len(values) < 20 or not bool((values % 1 == 0).all()):
        return False
    if not values.is_unique:
        return False
    low, high = float(values.min()), float(values.max())
    named = bool(KINDS[0].words.intersection(words_of(name)))
    counted = high - low < 2.0 * len(values)
    return named or counted or (len(values) >= MANY and _drawn_like_numbers(values, low, high))


def _drawn_like_numbers(values: pd.Series, low: float, high: float) -> bool:
    """Whether they are as account numbers are, and no amounts: as long, and spread evenly."""
    if low < 10_000 or len(str(int(low))) != len(str(int(high))):
        return False
    quarters = (values.quantile([0.25, 0.5, 0.75]).to_numpy() - low) / (high - low)
    return bool(abs(quarters - [0.25, 0.5, 0.75]).max() < 0.1)

"""What the cells of a column mean: amounts as people write them, dates, yes and no."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

#: what stands for a missing number; in a column of text these are words like any other
MISSING_WORDS = frozenset(
    ["", "na", "n/a", "nan", "null", "none", "-nan", "#n/a", "<na>", "#na", "?", ".", "-"]
)

#: signs and codes of money, percent, and what stands between thousands besides commas and points
_DECORATION = re.compile(
    r"[$€£¥%\s'\u2019\u00a0\u202f]|\b(?:usd|eur|gbp|chf|jpy|cad|aud|kr|zl)\b", re.IGNORECASE
)
_COMMA_THOUSANDS = re.compile(r"[-+]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?")
_POINT_THOUSANDS = re.compile(r"[-+]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?")

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T]\d{1,2}:.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}( .*)?"
)

#: words for true and false
TRUTHS = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "y", "t"), True),
    **dict.fromkeys(("false", "0", "0.0", "no", "n", "f"), False),
}


def stand_for_missing(cells: pd.Series) -> Any:
    """Which cells stand for a missing number."""
    words = cells.astype(str).str.strip().str.lower()
    return (cells.isna() | words.isin(list(MISSING_WORDS))).to_numpy(dtype=bool)


def amounts(cells: pd.Series) -> tuple[pd.Series, str] | None:
    """A column of amounts as numbers, and the first that needed reading; ``None`` if it is none.

    Every cell must be one: with signs of money or percent, with separators between thousands, or
    with a decimal comma. Commas before exactly three digits everywhere separate thousands.

    Examples
    --------
    >>> import pandas as pd
    >>> amounts(pd.Series(["$1,200", "$950.50"]))[0].tolist()
    [1200.0, 950.5]
    >>> amounts(pd.Series(["1.200,50 €", "95,5"]))[0].tolist()
    [1200.5, 95.5]
    >>> amounts(pd.Series(["1,200", "a"])) is None
    True
    """
    missing = stand_for_missing(cells)
    texts = cells[~missing].astype(str)
    if texts.empty:
        return None
    bare = texts.map(lambda text: _negative(_DECORATION.sub("", text)))
    styles = ((_COMMA_THOUSANDS, ",", "."), (_POINT_THOUSANDS, ".", ","))
    for shape, thousands, decimal in styles:
        if not bare.map(lambda text, s=shape: bool(s.fullmatch(text))).all():
            continue
        plain = bare.str.replace(thousands, "", regex=False).str.replace(decimal, ".", regex=False)
        values = pd.Series(np.nan, index=cells.index, name=cells.name, dtype=float)
        values[~missing] = plain.astype(float)
        odd = texts[texts.str.strip() != plain]
        return values, str(odd.iloc[0]) if len(odd) else ""
    return None


def _negative(text: str) -> str:
    """Accountants' brackets, and a sign behind the number."""
    if text.startswith("(") and text.endswith(")"):
        return f"-{text[1:-1]}"
    return f"-{text[:-1]}" if text.endswith("-") and len(text) > 1 else text


def are_dates(cells: pd.Series, some: int = 200) -> bool:
    """Whether cells are dates: by their type, or text of years, months and days."""
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        return True
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return False
    texts = cells.dropna().astype(str).str.strip()
    if len(texts) == 0:
        return False
    texts = texts.iloc[np.linspace(0, len(texts) - 1, min(some, len(texts))).astype(int)]
    return bool(texts.map(lambda text: bool(_DATE.fullmatch(text))).mean() > 0.9)

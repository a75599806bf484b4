"""The words a lender has for columns, units and codes: ``labels.toml``.

[features.savings]
label = "your savings"
unit = "€"

[features.purpose]
label = "the purpose of the loan"
values = { A43 = "radio or television" }
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.recourse.figures import decimals_of, in_figures
from holdfast.recourse.rules import refuse_unknown
from holdfast.tables import read_toml


@dataclass(frozen=True)
class Term:
    """How one column is spoken of.

    Attributes
    ----------
    label : str
    unit : str
        Written behind a number; before it where it ends in a space or is ``$`` or ``£``.
    decimals : int, optional
        How many are shown at most.
    values : dict
        Words for the codes of a category.
    """

    label: str = ""
    unit: str = ""
    decimals: int | None = None
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """How columns and codes are spoken of; what is not mentioned goes by its own name.

    Examples
    --------
    >>> from holdfast.recourse.wording import Wording
    >>> words = Wording.of({"savings": {"label": "your savings", "unit": "€"}})
    >>> words.change("savings", 500.0, 1000.0, True)
    'raise your savings from 500 to 1,000 €'
    >>> Wording().change("purpose", "A43", "A46", False)
    'switch purpose from A43 to A46'
    """

    terms: Mapping[str, Term] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Wording:
        """From a TOML file's path, a mapping of columns, itself or nothing."""
        if given is None:
            return cls()
        if isinstance(given, Wording):
            return given
        what = "the labels"
        if isinstance(given, str | Path):
            what = str(given)
            told = read_toml(given, "the file of labels")
            refuse_unknown(told, ["features"], repr(what))
            given = told.get("features", {})
        if not isinstance(given, Mapping):
            raise HoldfastError(f"{what}: labels come as a table of columns, got {given!r}")
        return cls({str(name): _term(what, name, about) for name, about in given.items()})

    def refuse_unknown(self, columns: Iterable[Any]) -> None:
        """Refuse labels of columns there are not."""
        known = [str(name) for name in columns]
        for name in self.terms:
            if name not in known:
                raise HoldfastError(
                    f"the labels name {name!r}, which the table does not have"
                    f"{near_name(name, known)}"
                )

    def name(self, column: Any) -> str:
        """What a column is called."""
        return self._of(column).label or str(column)

    def category(self, column: Any, value: Any) -> str:
        """What a code means."""
        if value is None or value != value:
            return "none of them"
        return self._of(column).values.get(str(value), str(value))

    def number(self, column: Any, value: float, decimals: int | None = None) -> str:
        """A number with its unit."""
        term = self._of(column)
        most = term.decimals if decimals is None else decimals
        return _with_unit(in_figures(value, most), term.unit)

    def change(self, column: Any, before: Any, after: Any, number: bool) -> str:
        """What somebody is asked to do."""
        if not number:
            old, new = (self.category(column, v) for v in (before, after))
            return f"switch {self.name(column)} from {old} to {new}"
        verb = "raise" if after > before else "lower"
        old, new = self.numbers(column, float(before), float(after))
        return f"{verb} {self.name(column)} from {old} to {new}"

    def numbers(self, column: Any, before: float, after: float) -> tuple[str, str]:
        """Two numbers that differ, in as many figures as it takes to see that."""
        shown = decimals_of(after)
        while shown < 12 and round(before, shown) == round(after, shown):
            shown += 1
        old = in_figures(before, min(decimals_of(before), max(shown, 2)))
        return old, self.number(column, after, shown)

    def _of(self, column: Any) -> Term:
        return self.terms.get(str(column), Term())


def _with_unit(figures: str, unit: str) -> str:
    if not unit:
        return figures
    before = unit in ("$", "£", "¥") or unit.endswith(" ")
    return f"{unit}{figures}" if before else f"{figures}{'' if unit == '%' else ' '}{unit}"


def _term(what: str, name: Any, about: Any) -> Term:
    if isinstance(about, str):
        about = {"label": about}
    if not isinstance(about, Mapping):
        raise HoldfastError(f"{what}: {name!r} must be a label or a table, got {about!r}")
    refuse_unknown(about, ["label", "unit", "decimals", "values"], f"{what}: {name!r}")
    values, decimals = about.get("values", {}), about.get("decimals")
    for key in ("label", "unit"):
        if not isinstance(about.get(key, ""), str):
            raise HoldfastError(f"{what}: {key} of {name!r} must be text, got {about[key]!r}")
    if not isinstance(values, Mapping) or not all(isinstance(v, str) for v in values.values()):
        raise HoldfastError(f"{what}: values of {name!r} must be a table of codes and words")
    odd = isinstance(decimals, bool) or not isinstance(decimals, int)
    if decimals is not None and (odd or not 0 <= decimals <= 12):
        raise HoldfastError(f"{what}: decimals of {name!r} must be a number from 0 to 12")
    codes = {str(code): words for code, words in values.items()}
    return Term(about.get("label", ""), about.get("unit", ""), decimals, codes)

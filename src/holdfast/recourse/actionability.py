"""What a person can change, and how: declared in Python or TOML, or inferred from the table."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import HoldfastError
from holdfast.models.inputs import near_name
from holdfast.models.inputs import table as checked_table

DIRECTIONS = ("any", "up", "down", "frozen")
#: words in a column's name that make an inferred feature frozen: nobody is told to change these
IMMUTABLE = {
    *("age", "birth", "birthdate", "birthday", "born", "dob", "disability", "ethnic", "ethnicity"),
    *("gender", "nationality", "race", "religion", "sex"),
}


@dataclass(frozen=True)
class Feature:
    """How one feature may change.

    Parameters
    ----------
    direction : {"any", "up", "down", "frozen"}
    low, high : float, optional
        The range a recourse must lie in.
    step : float, optional
        Changes are multiples of it, counted from the person's own value.
    integer : bool
        A recourse has a whole number here.
    allowed : sequence, optional
        For categories: those a recourse may have (a person may always keep their own).
    cost : float, optional
        What a change by 1 costs (a category: what a switch costs); by default the inverse of the
        column's median absolute deviation.
    widen : bool
        Whether somebody beyond the range may stay where they are (ranges that are inferred).
    """

    direction: str = "any"
    low: float | None = None
    high: float | None = None
    step: float | None = None
    integer: bool = False
    allowed: tuple[Any, ...] | None = None
    cost: float | None = None
    widen: bool = False

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise HoldfastError(f"direction must be one of {DIRECTIONS}, got {self.direction!r}")
        for name in ("low", "high", "step", "cost"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _number(name, value))
        if self.low == np.inf or self.high == -np.inf:
            raise HoldfastError("the range is empty: low must be below ∞ and high above −∞")
        if self.step is not None and not 0 < self.step < np.inf:
            raise HoldfastError(f"step must be a number above 0, got {self.step!r}")
        if self.cost is not None and not 0 < self.cost < np.inf:
            raise HoldfastError(
                f"cost must be a number above 0, got {self.cost!r} (a feature nobody can afford "
                "to change is frozen)"
            )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise HoldfastError(f"the range is empty: low={self.low:g} is above high={self.high:g}")
        if not isinstance(self.integer, bool):
            raise HoldfastError(f"integer must be true or false, got {self.integer!r}")
        if self.integer and self.step is not None and not float(self.step).is_integer():
            raise HoldfastError(f"integer and step={self.step:g} contradict each other")
        whole = self.integer and self.low is not None and self.high is not None
        if whole and np.ceil(self.low) > np.floor(self.high):  # type: ignore[arg-type]
            raise HoldfastError(f"there is no whole number between {self.low:g} and {self.high:g}")
        if self.allowed is not None:
            if isinstance(self.allowed, str) or not isinstance(self.allowed, Sequence):
                raise HoldfastError(f"allowed must be a list of categories, got {self.allowed!r}")
            object.__setattr__(self, "allowed", tuple(self.allowed))

    @classmethod
    def of(cls, name: Any, given: Any) -> Feature:
        """A feature from a mapping, a direction, or itself; errors name the feature."""
        if isinstance(given, Feature):
            return given
        if isinstance(given, str):
            given = {"direction": given}
        if not isinstance(given, Mapping):
            raise HoldfastError(
                f"feature {name!r} must be a direction or a table of settings, got {given!r}"
            )
        settings = dict(given)
        if "range" in settings:
            ends = settings.pop("range")
            if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
                raise HoldfastError(f"feature {name!r}: range must be [low, high], got {ends!r}")
            if "low" in settings or "high" in settings:
                raise HoldfastError(f"feature {name!r}: give range, or low and high, not both")
            settings.update(low=ends[0], high=ends[1])
        if "frozen" in settings:
            frozen = settings.pop("frozen")
            if not isinstance(frozen, bool):
                raise HoldfastError(f"feature {name!r}: frozen must be true or false")
            if (settings.get("direction", "frozen") == "frozen") != frozen and (
                frozen or "direction" in settings
            ):
                raise HoldfastError(
                    f"feature {name!r}: frozen and direction={settings['direction']!r} contradict "
                    "each other"
                )
            if frozen:
                settings["direction"] = "frozen"
        known = [f.name for f in fields(cls)]
        _refuse_unknown(settings, [*known, "range", "frozen"], f"feature {name!r}")
        try:
            return cls(**settings)
        except HoldfastError as wrong:
            raise HoldfastError(f"feature {name!r}: {wrong}") from None


@dataclass(frozen=True)
class Link:
    """A one-way implication: raising ``when`` by 1 moves ``then`` by at least ``by``.

    A new degree makes a person older: ``Link(when="degrees", then="age", by=3)``. Nothing follows
    from lowering ``when``, and ``then`` may change on its own. A category is named
    ``"column=category"``: switching to it counts as raising it by 1.
    """

    when: str
    then: str
    by: float = 1.0

    def __post_init__(self) -> None:
        for end in (self.when, self.then):
            if not isinstance(end, Hashable):
                raise HoldfastError(f"a link names features, got {end!r}")
        object.__setattr__(self, "by", _number("a link's by", self.by))
        if not np.isfinite(self.by) or self.by == 0:
            raise HoldfastError(f"a link's by must be finite and not 0, got {self.by!r}")
        if self.when == self.then:
            raise HoldfastError(f"{self.when!r} is linked to itself")

    @classmethod
    def of(cls, given: Any) -> Link:
        """A link from a mapping or itself."""
        if isinstance(given, Link):
            return given
        if not isinstance(given, Mapping):
            raise HoldfastError(f"a link must be a table with when, then and by, got {given!r}")
        _refuse_unknown(given, ["when", "then", "by"], "a link")
        missing = [key for key in ("when", "then") if key not in given]
        if missing:
            raise HoldfastError(f"a link has no {missing[0]!r}: it needs when, then and by")
        return cls(**given)


@dataclass(frozen=True)
class Actionability:
    """What people can change. A feature not mentioned may take any value.

    Parameters
    ----------
    features : mapping
        A :class:`Feature` for each feature that is constrained, or a table of its settings, or
        just a direction.
    one_hot : mapping of group names to lists of columns
        0/1 columns of which exactly one is 1; they change together. Where training rows have
        none of them set (a dropped first category), none is a choice too. Columns of text need
        no declaration: they stay one of the categories of the training table.
    links : sequence of Link
    weights : {"mad", "unit"}
        Default costs: the inverse of each column's median absolute deviation in the training
        table, or 1.

    Examples
    --------
    >>> import holdfast as hf
    >>> rules = hf.Actionability({
    ...     "age": "frozen",
    ...     "savings": {"direction": "up", "step": 100, "range": [0, 20_000]},
    ... })
    >>> rules.features["savings"].high
    20000
    >>> hf.Actionability({"savings": {"direction": "upp"}})
    Traceback (most recent call last):
    ...
    holdfast.errors.HoldfastError: feature 'savings': direction must be one of ('any', 'up', \
'down', 'frozen'), got 'upp'
    """

    features: Mapping[Any, Feature] = field(default_factory=dict)
    one_hot: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    links: Sequence[Link] = ()
    weights: str = "mad"
    reasons: Mapping[Any, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise HoldfastError(f"features must map names to settings, got {self.features!r}")
        made = {name: Feature.of(name, given) for name, given in self.features.items()}
        object.__setattr__(self, "features", made)
        if not isinstance(self.one_hot, Mapping):
            raise HoldfastError("one_hot must map group names to lists of columns")
        groups: dict[str, tuple[Any, ...]] = {}
        owner: dict[Any, str] = {}
        for group, columns in self.one_hot.items():
            if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) < 2:
                raise HoldfastError(f"one_hot group {group!r} must list at least two columns")
            for column in columns:
                if not isinstance(column, Hashable):
                    raise HoldfastError(f"one_hot group {group!r}: {column!r} is no column name")
                if column in owner:
                    raise HoldfastError(
                        f"column {column!r} is in one_hot group {owner[column]!r} and again in "
                        f"{group!r}"
                    )
                owner[column] = group
            groups[group] = tuple(columns)
        object.__setattr__(self, "one_hot", groups)
        if isinstance(self.links, Mapping | str) or not isinstance(self.links, Sequence):
            raise HoldfastError("links must be a list of links, each with when, then and by")
        object.__setattr__(self, "links", tuple(Link.of(link) for link in self.links))
        _refuse_circles(self.links)
        if self.weights not in ("mad", "unit"):
            raise HoldfastError(f"weights must be 'mad' or 'unit', got {self.weights!r}")

    @classmethod
    def of(cls, given: Any, X: Any) -> Actionability:
        """What ``find_recourse(actionability=…)`` means for the training table ``X``."""
        if given is None:
            return cls()
        if isinstance(given, Actionability):
            return given
        if isinstance(given, str) and given == "infer":
            return cls.infer(X)
        if isinstance(given, str | Path):
            return cls.from_toml(given)
        if isinstance(given, Mapping):
            return cls._of_table(given, "actionability")
        raise HoldfastError(
            "actionability must be an Actionability, a TOML file, 'infer' or None, got "
            f"{type(given).__name__}"
        )

    @classmethod
    def _of_table(cls, given: Mapping[str, Any], what: str) -> Actionability:
        _refuse_unknown(given, ["features", "one_hot", "links", "weights"], what)
        return cls(**given)

    @classmethod
    def from_toml(cls, path: str | Path) -> Actionability:
        """Read a TOML file with ``[features.NAME]``, ``[one_hot]``, ``[[links]]``, ``weights``."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as failure:
            raise HoldfastError(
                f"cannot read the actionability file {str(path)!r}: {failure.strerror}"
            ) from None
        except UnicodeDecodeError:
            raise HoldfastError(f"{str(path)!r} is not a text file (UTF-8)") from None
        try:
            return cls._of_table(tomllib.loads(text), "the file")
        except tomllib.TOMLDecodeError as wrong:
            raise HoldfastError(f"{str(path)!r} is not valid TOML: {wrong}") from None
        except HoldfastError as wrong:
            raise HoldfastError(f"{str(path)!r}: {wrong}") from None

    @classmethod
    def infer(cls, X: Any, **changes: Any) -> Actionability:
        """Sensible defaults from a table; :meth:`describe` shows them, with the reasons.

        Whole-number columns stay whole, 0/1 columns that share a prefix and sum to 1 stay
        one-hot, every number stays within the range seen, constant columns and those whose name
        speaks of age, sex, race and the like are frozen.

        Parameters
        ----------
        X : frame or array
            The training table.
        **changes
            Features declared otherwise, as in ``features``.

        Examples
        --------
        >>> import holdfast as hf, pandas as pd
        >>> table = pd.DataFrame({"age": [31, 52, 40], "savings": [10.5, 220.0, 4.25]})
        >>> rules = hf.Actionability.infer(table, savings="up")
        >>> print(rules.describe()[["direction", "why"]].to_string())
                direction                                             why
        age        frozen  the name speaks of something nobody can change
        savings        up                                        declared
        """
        table = checked_table(X, "the table")
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame(table).infer_objects()
        groups = _one_hot_groups(table)
        grouped = {column: group for group, columns in groups.items() for column in columns}
        features, reasons = {}, {}
        for name in table.columns:
            what = grouped.get(name, name)
            if what not in features:
                features[what], reasons[what] = _inferred(what, table[name], name in grouped)
        for name, given in changes.items():
            if name not in features:
                hint = near_name(name, features)
                raise HoldfastError(f"the table has no feature {name!r}{hint}")
            features[name], reasons[name] = Feature.of(name, given), "declared"
        return cls(features, groups, reasons=reasons)

    def for_columns(self, names: Sequence[Any]) -> Actionability:
        """The same with names read from text turned into the columns' own (0 for "0")."""
        own = {str(name): name for name in names if not isinstance(name, str)}
        if not own:
            return self
        return replace(
            self,
            features={own.get(name, name): rule for name, rule in self.features.items()},
            one_hot={g: [own.get(c, c) for c in cs] for g, cs in self.one_hot.items()},
            links=[
                replace(
                    link, when=own.get(link.when, link.when), then=own.get(link.then, link.then)
                )
                for link in self.links
            ],
        )

    def updated(self, **changes: Any) -> Actionability:
        """The same with some features declared otherwise."""
        made = {name: Feature.of(name, given) for name, given in changes.items()}
        reasons = {**self.reasons, **dict.fromkeys(made, "declared")}
        return replace(self, features={**self.features, **made}, reasons=reasons)

    def describe(self) -> pd.DataFrame:
        """One line per feature that is constrained, and why."""
        rows = {}
        for name, feature in self.features.items():
            said = _settings(feature)
            said["whole"] = "yes" if said.pop("integer", False) else None
            if "allowed" in said:
                said["allowed"] = ", ".join(map(str, said["allowed"]))
            if name in self.one_hot:
                said["one of"] = ", ".join(map(str, self.one_hot[name]))
            rows[name] = {**said, "why": self.reasons.get(name, "declared")}
        for name, columns in self.one_hot.items():
            why = "declared"
            rows.setdefault(
                name, {"direction": "any", "one of": ", ".join(map(str, columns)), "why": why}
            )
        order = ["direction", "low", "high", "step", "whole", "allowed", "one of", "cost", "why"]
        frame = pd.DataFrame.from_dict(rows, orient="index")
        shown = [c for c in order if c in frame.columns and frame[c].notna().any()]
        return frame[shown].astype(object).where(frame[shown].notna(), "")

    def to_toml(self) -> str:
        """The same as the text of a TOML file."""
        lines = [f"weights = {json.dumps(self.weights)}"]
        for name, feature in self.features.items():
            lines += ["", f"[features.{_toml(str(name))}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in _settings(feature).items()]
        if self.one_hot:
            lines += ["", "[one_hot]"]
            lines += [f"{_toml(str(g))} = {_toml(c)}" for g, c in self.one_hot.items()]
        for link in self.links:
            lines += ["", "[[links]]", *(f"{k} = {_toml(v)}" for k, v in asdict(link).items())]
        return "\n".join(lines) + "\n"


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and float(value) == value:
            return value if isinstance(value, int) else float(value)
    except OverflowError:
        pass
    raise HoldfastError(f"{name} must be a number, got {value!r}")


def _refuse_unknown(given: Mapping[str, Any], known: list[str], what: str) -> None:
    for key in given:
        if key not in known:
            hint = near_name(key, known) or f"; known are {', '.join(known)}"
            raise HoldfastError(f"{what} has the unknown setting {key!r}{hint}")


def _refuse_circles(links: Sequence[Link]) -> None:
    after: dict[str, list[str]] = {}
    for link in links:
        after.setdefault(link.when, []).append(link.then)
    for start in after:
        reached, frontier = set(), list(after[start])
        while frontier:
            name = frontier.pop()
            if name == start:
                raise HoldfastError(f"the links lead from {start!r} back to {start!r}: a circle")
            if name not in reached:
                reached.add(name)
                frontier += after.get(name, [])


def _settings(feature: Feature) -> dict[str, Any]:
    """What is set of a feature."""
    return {k: v for k, v in asdict(feature).items() if v is not None and v is not False}


def _toml(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, float) and not np.isfinite(value):
        return "inf" if value > 0 else "-inf"
    plain = value if isinstance(value, bool | int | float) else str(value)
    return json.dumps(plain, ensure_ascii=False)


def is_category(column: pd.Series) -> bool:
    """Whether a column holds text, truth values or categories rather than numbers."""
    if pd.api.types.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return False
    return any(isinstance(value, str | bool | np.bool_) for value in column.dropna())


def _is_indicator(column: pd.Series) -> bool:
    values = set(pd.unique(column.dropna()))
    return pd.api.types.is_numeric_dtype(column) and values <= {0, 1} and not column.isna().any()


def _one_hot_groups(table: pd.DataFrame) -> dict[str, list[Any]]:
    """0/1 columns with a prefix in common (up to the last ``_``, ``=``, ``:``) that sum to 1."""
    by_prefix: dict[str, list[Any]] = {}
    for name in table.columns:
        prefix = re.match(r"(.+)[_=:]", str(name))
        if prefix and _is_indicator(table[name]):
            by_prefix.setdefault(prefix[1], []).append(name)
    return {
        prefix: columns
        for prefix, columns in by_prefix.items()
        if len(columns) > 1
        and prefix not in table.columns
        and bool((table[columns].sum(axis=1) == 1).all())
    }


def _inferred(name: Any, column: pd.Series, grouped: bool) -> tuple[Feature, str]:
    immutable = bool(IMMUTABLE.intersection(_words(str(name))))
    direction = "frozen" if immutable else "any"
    why = ["the name speaks of something nobody can change"] if immutable else []
    if grouped:
        return Feature(direction), "; ".join([*why, "0/1 columns that sum to 1"])
    if is_category(column):
        return Feature(direction), "; ".join([*why, "categories"])
    values = pd.to_numeric(column, errors="coerce").dropna()
    if values.nunique() <= 1:
        return Feature("frozen"), "the same for everybody"
    whole = bool((values % 1 == 0).all())
    if immutable:
        return Feature("frozen"), why[0]
    low, high = float(values.min()), float(values.max())
    said = "whole numbers in the range seen" if whole else "the range seen"
    return Feature("any", low, high, integer=whole, widen=True), said


def _words(name: str) -> list[str]:
    """The words of a column's name: snake_case, camelCase, spaces and dots apart."""
    ends = [0, *(m.start() for m in re.finditer(r"(?<=[a-z])(?=[A-Z])", name)), len(name)]
    parts = " ".join(name[a:b] for a, b in pairwise(ends))
    return [word for word in re.split(r"[^A-Za-z]+", parts.lower()) if word]

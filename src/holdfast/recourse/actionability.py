"""What a person can change, and how: declared in Python or TOML, or inferred from the table."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.arguments import near_name
from holdfast.errors import HoldfastError
from holdfast.models.training import table as checked_table
from holdfast.recourse.figures import in_figures
from holdfast.recourse.inference import inferred, one_hot_groups
from holdfast.recourse.rules import Feature, Link, refuse_unknown
from holdfast.tables import read_toml


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
        refuse_unknown(given, ["features", "one_hot", "links", "weights"], what)
        return cls(**given)

    @classmethod
    def from_toml(cls, path: str | Path) -> Actionability:
        """Read a TOML file with ``[features.NAME]``, ``[one_hot]``, ``[[links]]``, ``weights``."""
        told = read_toml(path, "the actionability file")
        try:
            return cls._of_table(told, "the file")
        except HoldfastError as wrong:
            raise HoldfastError(f"{str(path)!r}: {wrong}") from None

    @classmethod
    def infer(cls, X: Any, **changes: Any) -> Actionability:
        """Sensible defaults from a table; :meth:`describe` shows them, with the reasons.

        Whole-number columns stay whole, 0/1 columns that share a prefix and sum to 1 stay
        one-hot, every number stays within the range seen and no further than similar people are.
        Constant columns, ids and dates are frozen, and so is what nobody can change or should be
        told to: age, sex, race, family, where somebody lives, what happened in the past. How long
        something has lasted may only rise (``holdfast.recourse.columns``).

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
                direction                   why
        age        frozen  nobody can change it
        savings        up              declared
        """
        table = checked_table(X, "the table")
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame(table).infer_objects()
        groups = one_hot_groups(table)
        grouped = {column: group for group, columns in groups.items() for column in columns}
        features, reasons = {}, {}
        for name in table.columns:
            what = grouped.get(name, name)
            if what not in features:
                features[what], reasons[what] = inferred(what, table[name], name in grouped)
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
            for key in ("low", "high"):
                if key in said:
                    said[key] = in_figures(said[key])
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
        order = ["direction", "low", "high", "step", "whole", "allowed", "one of", "cost"]
        order.append("why")
        frame = pd.DataFrame.from_dict(rows, orient="index")
        shown = [c for c in order if c in frame.columns and frame[c].notna().any()]
        return frame[shown].astype(object).where(frame[shown].notna(), "")

    def to_toml(self) -> str:
        """The same as the text of a TOML file; what was inferred has its reason as a comment."""
        lines = [f"weights = {json.dumps(self.weights)}"]
        for name, feature in self.features.items():
            why = self.reasons.get(name)
            lines += ["", *([f"# {' '.join(why.split())}"] if why else [])]
            lines += [f"[features.{_toml(str(name))}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in _settings(feature).items()]
        if self.one_hot:
            lines += ["", "[one_hot]"]
            lines += [f"{_toml(str(g))} = {_toml(c)}" for g, c in self.one_hot.items()]
        for link in self.links:
            lines += ["", "[[links]]", *(f"{k} = {_toml(v)}" for k, v in asdict(link).items())]
        return "\n".join(lines) + "\n"


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

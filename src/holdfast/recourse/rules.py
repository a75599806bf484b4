"""How one feature may change, and what follows from a change."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

from holdfast.arguments import near_name
from holdfast.errors import HoldfastError

DIRECTIONS = ("any", "up", "down", "frozen")


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
    similar : bool
        Whether nobody is sent further than similar people of the training table are.
    """

    direction: str = "any"
    low: float | None = None
    high: float | None = None
    step: float | None = None
    integer: bool = False
    allowed: tuple[Any, ...] | None = None
    cost: float | None = None
    widen: bool = False
    similar: bool = False

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
        for name in ("integer", "widen", "similar"):
            if not isinstance(getattr(self, name), bool):
                raise HoldfastError(f"{name} must be true or false, got {getattr(self, name)!r}")
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
        refuse_unknown(settings, [*known, "range", "frozen"], f"feature {name!r}")
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
        refuse_unknown(given, ["when", "then", "by"], "a link")
        missing = [key for key in ("when", "then") if key not in given]
        if missing:
            raise HoldfastError(f"a link has no {missing[0]!r}: it needs when, then and by")
        return cls(**given)


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and float(value) == value:
            return value if isinstance(value, int) else float(value)
    except OverflowError:
        pass
    raise HoldfastError(f"{name} must be a number, got {value!r}")


def refuse_unknown(given: Mapping[str, Any], known: list[str], what: str) -> None:
    """Refuse a setting that is not known, naming the nearest that is."""
    for key in given:
        if key not in known:
            hint = near_name(key, known) or f"; known are {', '.join(known)}"
            raise HoldfastError(f"{what} has the unknown setting {key!r}{hint}")

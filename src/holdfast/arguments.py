"""Arguments that several verbs share, checked the same way."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError


def generator_of(random_state: Any) -> np.random.Generator:
    """A random generator from a seed, a generator or ``None``."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise HoldfastError(
            f"random_state must be a whole number, a Generator or None, got {random_state!r}"
        ) from None


def finite_score(target: Any) -> float:
    """A target, which is one finite number."""
    return finite_number("target", target, "one finite score")


def finite_number(name: str, value: Any, wanted: str = "a finite number") -> float:
    """One finite number, or an error that names it."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value)):
            return float(value)
    except OverflowError:
        pass
    raise HoldfastError(f"{name} must be {wanted}, got {value!r}")


def refuse_unknown_options(method: Callable[..., Any], options: dict[str, Any], name: str) -> None:
    """Refuse options the method does not have."""
    parameters = inspect.signature(method).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    own = [p.name for p in parameters if p.default is not p.empty]
    unknown = [option for option in options if option not in own]
    if unknown:
        raise HoldfastError(
            f"method {name!r} has no option {unknown[0]!r}; it has {', '.join(own) or 'none'}"
        )


def check_option_values(method: Callable[..., Any], options: dict[str, Any]) -> None:
    """Options must be what their defaults are: whole numbers from 1, numbers from 0, or text."""
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name not in options or parameter.default is parameter.empty:
            continue
        value, default = options[parameter.name], parameter.default
        if isinstance(default, bool):
            continue
        if isinstance(default, int):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < 1:
                raise HoldfastError(
                    f"{parameter.name} must be a whole number from 1, got {value!r}"
                )
        elif isinstance(default, float) and finite_number(parameter.name, value) < 0:
            raise HoldfastError(f"{parameter.name} must not be negative, got {value!r}")


def budget_of(max_deletions: Any, n: int, unit: str, name: str = "max_deletions") -> int:
    """The largest number of deletions: at least 1, and something must be left."""
    whole = isinstance(max_deletions, int | np.integer) and not isinstance(max_deletions, bool)
    if not whole or not 1 <= max_deletions < n:
        noun = "subjects" if unit == "subject" else "training rows"
        raise HoldfastError(
            f"⟦{name}⟧ must be a whole number from 1 to {n - 1} (there are {n} {noun}), "
            f"got {max_deletions!r}"
        )
    return int(max_deletions)


def positive_number(name: str, value: Any) -> None:
    """Refuse what is not a finite number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise HoldfastError(f"{name} must be a number above 0, got {value!r}")


def whole_number(name: str, value: Any, most: int | None = None) -> None:
    """Refuse what is neither nothing nor a whole number from 1 (to ``most``)."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is None or (whole and value >= 1 and (most is None or value <= most)):
        return
    said = "from 1" if most is None else f"from 1 to {most}"
    raise HoldfastError(f"{name} must be a whole number {said}, got {value!r}")


def near_name(name: Any, known: Iterable[Any]) -> str:
    """What a misspelt name may have meant, as the end of a message."""
    near = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""

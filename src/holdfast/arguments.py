"""Arguments that several verbs share, checked the same way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real
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
    number = isinstance(target, Real) and not isinstance(target, bool)
    if not number or not np.isfinite(float(target)):
        raise HoldfastError(f"target must be one finite score, got {target!r}")
    return float(target)


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

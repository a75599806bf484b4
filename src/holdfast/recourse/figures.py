"""Numbers as people write them."""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array


def in_figures(value: float, decimals: int | None = None) -> str:
    """A number with separators between thousands; all its digits, or some decimals.

    Examples
    --------
    >>> in_figures(12500.0), in_figures(0.25), in_figures(-0.051474061238800654, 3)
    ('12,500', '0.25', '-0.051')
    """
    value = float(value)
    if not np.isfinite(value):
        return str(value)
    if decimals is not None:
        value = round(value, decimals)
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e15:
        return f"{value:,.{decimals_of(value)}f}"
    return repr(value)


def decimals_of(value: float) -> int:
    """How many decimals the shortest way of writing a number has."""
    text = np.format_float_positional(value, trim="-")
    return len(text.partition(".")[2])


def rounded_away(before: Array, after: Array, digits: int = 3, part: int = 1) -> Array:
    """New values at some digits of the change, never less of a change than asked.

    ``part`` of 2 or 5: multiples of a half or a fifth of the last digit's unit.
    """
    change = after - before
    size = np.where(change == 0, 1.0, np.abs(change))
    places = np.clip(digits - 1 - np.floor(np.log10(size)), -15, 12)
    scale = 10.0**places * part
    scaled = after * scale
    near = np.round(scaled)
    whole = np.where(change > 0, np.ceil(scaled), np.floor(scaled))
    whole = np.where(np.abs(scaled - near) <= 1e-9 * np.maximum(1.0, np.abs(scaled)), near, whole)
    made = np.round(whole / scale, 12) if np.all(places <= 12) else whole / scale
    return np.where((change == 0) | (places == 12), after, made)

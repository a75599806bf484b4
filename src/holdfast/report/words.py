"""Numbers in words."""

from __future__ import annotations


def percent(share: float | None, digits: int = 0) -> str:
    """A share in per cent; never 100 % or 0 % for what is only nearly so."""
    if share is None or share != share:
        return "not known"
    value = 100 * share
    shown = f"{value:.{digits}f}"
    if 0 < share < 1 and float(shown) in (0.0, 100.0):
        small = 10.0**-digits
        return f"< {small:g} %" if share < 0.5 else f"> {100 - small:g} %"
    return f"{shown} %"


def people(count: int, unit: str) -> str:
    """Some erasures, by what they remove."""
    noun = {"row": ("row", "rows"), "subject": ("person", "people")}[unit]
    return f"{count} {noun[count != 1]}"

"""A page on which a slider moves the overshoot of every figure; no network, no library."""

from __future__ import annotations

from collections.abc import Iterable


def slider(names: Iterable[str]) -> str:
    """The page: placeholder until drawn names are grouped."""
    return "".join(names)

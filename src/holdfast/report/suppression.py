"""Small groups kept out of what is shared, so that nothing else gives them away.

A count hidden by itself is often no secret: it is what is missing from a total. So neighbours are
merged until every group is large enough, parts of a total are hidden together, and proven shares
are given in steps of :data:`FEWEST` people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

#: groups of fewer people or rows are not shown
FEWEST = 10

Name = TypeVar("Name")


def enough(count: int) -> int | None:
    """A count that is part of no total, or null where it is too small; nobody can be told."""
    return None if 0 < count < FEWEST else int(count)


def hidden_together(parts: Mapping[Name, int], fewest: int = FEWEST) -> set[Name]:
    """Which parts of a known total to hide so that none that is too small can be worked out.

    Those that are too small, and the next larger ones until at least two are hidden that together
    make up ``fewest`` and one for each. All of them where there are not enough: then hide the total
    too.

    Examples
    --------
    >>> from holdfast.report.suppression import hidden_together
    >>> sorted(hidden_together({"a": 3, "b": 120, "c": 45}))
    ['a', 'c']
    >>> hidden_together({"a": 30, "b": 0})
    set()
    """
    order = sorted((count, place, name) for place, (name, count) in enumerate(parts.items()))
    hidden = {name for count, _, name in order if 0 < count < fewest}
    larger = [name for count, _, name in order if count >= fewest]
    while hidden and not (
        len(hidden) > 1 and sum(parts[name] for name in hidden) >= fewest + len(hidden)
    ):
        if not larger:
            return set(parts)
        hidden.add(larger.pop(0))
    return hidden


def merged(counts: Sequence[int], fewest: int = FEWEST) -> list[tuple[int, int, int]]:
    """Neighbouring bins put together until each holds enough: first bin, last bin, count.

    Examples
    --------
    >>> from holdfast.report.suppression import merged
    >>> merged([3, 9, 40, 2])
    [(0, 1, 12), (2, 3, 42)]
    """
    found: list[tuple[int, int, int]] = []
    start = held = 0
    for place, count in enumerate(counts):
        held += int(count)
        if held >= fewest:
            found.append((start, place, held))
            start, held = place + 1, 0
    if start < len(counts) and found:  # too few at the end: with those before
        first, _, before = found.pop()
        found.append((first, len(counts) - 1, before + held))
    return found


def at_most(share: float, count: int) -> float:
    """A proven upper bound on a share of ``count``, in steps of :data:`FEWEST` of them.

    Examples
    --------
    >>> from holdfast.report.suppression import at_most
    >>> at_most(3 / 200, 200), at_most(0.0, 200), at_most(1.0, 200)
    (0.05, 0.0, 1.0)
    """
    steps = math.ceil(round(share * count, 6) / FEWEST)
    return min(1.0, steps * FEWEST / max(count, 1))


def at_least(share: float, count: int) -> float:
    """A proven lower bound on a share of ``count``, in the same steps."""
    return 1.0 - at_most(1.0 - share, count)

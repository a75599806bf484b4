"""Numbers in words."""

from __future__ import annotations

import math


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


def at_most(share: float | None, digits: int = 0) -> str:
    """A proven ceiling in per cent, never rounded down."""
    if share is None or share != share:
        return "not known"
    scale = 10**digits
    return f"{math.ceil(100 * share * scale - 1e-9) / scale:.{digits}f} %"


def people(count: int, unit: str) -> str:
    """Some erasures, by what they remove."""
    noun = {"row": ("row", "rows"), "subject": ("person", "people")}[unit]
    return f"{count} {noun[count != 1]}"


#: parts of how something was proven, and what they mean
_PLAINLY = {
    "the few parts that know them": "the score is a mean of parts, and few of them know anybody: a "
    "few erasures move few parts",
    "exact, part by part": "worked out exactly, by fitting the few parts again that knew who goes",
    "rows": "for every choice of rows",
    "subjects (block form, weaker than rows)": "for every choice of people, all their rows at once",
    "subjects": "for every choice of people, all their rows at once",
    "Newton steps and remainders": "one step towards the refitted model is worked out exactly, and "
    "what lies beyond it is bounded",
    "preprocessing refitted": "with the preprocessing fitted again",
    "attack only": "nothing is proven, only searched",
    "newton/jackknife": "predicted by one step towards the refitted model, then refitted",
    "jackknife by conjugate gradients": "predicted to first order, candidates compared by the "
    "network's last layer, then refitted",
    "jackknife": "predicted to first order, then refitted",
    "refit only": "known by refitting only",
    "exact": "worked out exactly",
}


def plainly(method: str) -> str:
    """How something was proven, without terms of the trade."""
    parts, said = method, []
    for term, words in _PLAINLY.items():
        if term in parts:
            parts = parts.replace(term, "", 1)
            said.append(words)
    left = parts.strip(" ,")
    return "; ".join([*said, *([left] if left else [])])

"""The names people choose from; nothing is imported to know them."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "linear",
    "ridge",
    "logistic",
    "poisson",
    "gamma",
    "tweedie",
    "ntk",
    "nystroem-ntk",
    "lssvm",
    "mlp",
    "boosting",
]
Finder = Literal["scfe", "dice", "dice-random", "cem", "growing-spheres", "actionable"]
Searcher = Literal[
    "best", "greedy", "greedy-count", "greedy-soft", "influence", "gates", "optimal", "refit"
]

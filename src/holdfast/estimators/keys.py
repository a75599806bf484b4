"""Who a training row belongs to, and numbers that depend on nobody else."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.algebra.rows import as_text, ids_as_text
from holdfast.errors import HoldfastError


def keys_of(X: Any, groups: Any) -> list[str]:
    """The key of every row: ``groups`` where given, else the frame's index, else the position."""
    n = len(X)
    if groups is None:
        if not isinstance(X, pd.DataFrame):
            return [str(place) for place in range(n)]
        return ids_as_text(X.index, "the index of X")
    given = np.empty(len(groups), dtype=object)
    given[:] = list(groups)
    if len(given) != n:
        raise HoldfastError(f"groups must name the owner of each of the {n} rows, got {len(given)}")
    missing = np.flatnonzero(pd.isna(given))
    if missing.size:
        raise HoldfastError(
            f"row {missing[0]} has no group ({missing.size} such rows): name whose every row is"
        )
    return ids_as_text(given, "groups")


def hashed(seed: int, *words: Any) -> int:
    """A number below 2⁶⁴ drawn from a seed and some words: the same everywhere, for ever."""
    text = "\0".join(as_text(word) for word in (seed, *words))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def drawn(keys: list[str], seed: int, count: int) -> npt.NDArray[np.intp]:
    """One of ``count`` places for every key, by its own hash: deleting others moves nobody."""
    place = {key: hashed(seed, key) % count for key in dict.fromkeys(keys)}
    return np.array([place[key] for key in keys], dtype=np.intp)

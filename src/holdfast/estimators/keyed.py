"""Whose row is whose, and draws that depend on nothing but a seed and that person's key.

A stream of random numbers gives everybody behind a deleted row another draw. Here a draw is a hash
of the seed and the key, so deleting others never moves anybody: in another process, on another
machine, in another order of rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.errors import HoldfastError

Keys = npt.NDArray[Any]


def keys_of(X: Any, groups: Any, n: int) -> Keys:
    """The key of each of the ``n`` rows: ``groups``, else the frame's index, else its position.

    Examples
    --------
    >>> import pandas as pd
    >>> from holdfast.estimators.keyed import keys_of
    >>> keys_of(pd.DataFrame({"age": [31, 45]}, index=["ann", "bob"]), None, 2)
    array(['ann', 'bob'], dtype='<U3')
    """
    if groups is None:
        index = X.index if isinstance(X, pd.DataFrame) else None
        keys, what = (np.arange(n) if index is None else index.to_numpy()), "the frame's index"
    else:
        what = "groups"
        if isinstance(groups, str | bytes) or not np.iterable(groups):
            raise HoldfastError(f"groups must be one key per training row, got {groups!r}")
        if hasattr(groups, "to_numpy"):
            keys = groups.to_numpy()
        else:
            keys = groups if isinstance(groups, np.ndarray) else _one_dimension(list(groups))
        if keys.ndim != 1 or len(keys) != n:
            seen = len(keys) if keys.ndim == 1 else f"a table of shape {keys.shape}"
            raise HoldfastError(
                f"groups must be one key per training row: there are {n} rows, got {seen}"
            )
    missing = np.flatnonzero(pd.isna(keys))
    if missing.size:
        raise HoldfastError(
            f"{what} has no key for {missing.size} of {n} rows, the first at position "
            f"{missing[0]}: whose row it is must be known for every row"
        )
    return plain(keys)


def _one_dimension(keys: list[Any]) -> Keys:
    """Keys as they are: tuples stay tuples, and numbers beside text stay numbers."""
    held = np.empty(len(keys), dtype=object)
    for i, key in enumerate(keys):
        held[i] = key
    return held


def plain(keys: Keys) -> Keys:
    """Keys as whole numbers or text where all are, as short as they can be; else as they came."""
    if keys.dtype.kind in "iu":
        return keys.astype(np.int64) if keys.dtype != np.uint64 else keys
    kinds = {type(key) for key in keys} if keys.dtype.kind in "OTU" else set()
    if any(issubclass(kind, UUID | datetime.datetime) for kind in kinds):
        keys = _one_dimension([_written(key) for key in keys])
        kinds = {type(key) for key in keys}
    if kinds and kinds <= {str, np.str_}:
        if any(key.endswith("\0") for key in keys):  # numpy's fixed width would drop it
            return keys.astype(object)
        return np.array([str(key) for key in keys])
    if kinds and all(issubclass(k, Integral) and not issubclass(k, bool) for k in kinds):
        try:
            return np.array([int(key) for key in keys], dtype=np.int64)
        except OverflowError:
            return keys
    return keys


def _written(key: Any) -> Any:
    """A UUID, or a moment in a time zone, as text: what a saved model can be read back with."""
    if isinstance(key, UUID):
        return str(key)
    if isinstance(key, datetime.datetime) and key.tzinfo is not None and not pd.isna(key):
        return pd.Timestamp(key).tz_convert("UTC").isoformat()  # the same moment anywhere
    return key


def some_of(keys: Keys, kept: Any) -> Keys:
    """The keys kept, as ``plain`` has them: shorter, or all text, where others are gone."""
    rest = keys[kept]
    if kept.all() or keys.dtype.kind in "iu":
        return rest
    if keys.dtype.kind == "U":
        longest = int(np.strings.str_len(rest).max(initial=1))
        return rest.astype(f"U{longest}", copy=False)
    return plain(rest)


def key_states(keys: Iterable[Any], seed: int) -> npt.NDArray[np.uint64]:
    """64 bits for every key, drawn from the seed and the key's text alone.

    Examples
    --------
    >>> from holdfast.estimators.keyed import key_states
    >>> key_states(["ann", "bob"], seed=0)[1] == key_states(["bob"], seed=0)[0]
    np.True_
    """
    started = blake2b(digest_size=8, key=str(seed).encode()[:64])
    states = bytearray()
    values = keys.tolist() if isinstance(keys, np.ndarray) and keys.dtype.kind in "iuU" else keys
    for key in values:
        drawn = started.copy()
        drawn.update(_text(key).encode("utf-8", "surrogatepass"))
        states += drawn.digest()
    return np.frombuffer(bytes(states), dtype="<u8").astype(np.uint64)


def _text(key: Any) -> str:
    """A key in words that are the same everywhere; 5, 5.0 and "5" are one person, as ids are."""
    if isinstance(key, str):
        return f"t{key}"
    if isinstance(key, bool | np.bool_):
        return f"b{bool(key)}"
    if isinstance(key, Integral | Real):
        return f"t{as_text(key)}"
    if isinstance(key, UUID):
        return f"t{key}"
    if isinstance(key, np.datetime64 | datetime.datetime):
        return f"d{pd.Timestamp(key).isoformat()}"
    if isinstance(key, datetime.date):
        return f"d{key.isoformat()}"
    if isinstance(key, bytes):
        return f"x{key.hex()}"
    if isinstance(key, tuple):
        words = [_text(part) for part in key]
        return "(" + "".join(f"{len(word)}:{word}" for word in words) + ")"
    raise HoldfastError(
        f"a key must be a number, text, a date, a UUID or a tuple of these, got {key!r} "
        f"({type(key).__name__})"
    )

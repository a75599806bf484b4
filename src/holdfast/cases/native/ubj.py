"""Universal Binary JSON, as far as XGBoost writes it: read within the bytes there are."""

from __future__ import annotations

from typing import Any

import numpy as np

#: how deep a model may be nested
MOST_DEPTH = 40

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_WORDS = {"Z": None, "T": True, "F": False}


def read(content: bytes) -> Any:
    """The document in some bytes, arrays of numbers as lists.

    Raises
    ------
    ValueError
        If they are no such document, or end before it does.

    Examples
    --------
    >>> from holdfast.cases.native.ubj import read
    >>> read(b"{U" + bytes([5]) + b"trees[$U#U" + bytes([2, 7, 9]) + b"}")
    {'trees': [7, 9]}
    """
    found, end = _value(content, 0, 0)
    if content[end:].strip(b"N"):
        raise ValueError("there is more after its end")
    return found


def _marker(content: bytes, at: int) -> tuple[str, int]:
    while content[at : at + 1] == b"N":  # padding
        at += 1
    if at >= len(content):
        raise ValueError("it ends too early")
    return chr(content[at]), at + 1


def _value(content: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind, at = _marker(content, at)
    return _of_kind(kind, content, at, depth)


def _of_kind(kind: str, content: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    if kind in _WORDS:
        return _WORDS[kind], at
    if kind in _NUMBERS:
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(_bytes(content, at, dtype.itemsize), dtype)[0].item(), (
            at + dtype.itemsize
        )
    if kind == "C":
        return _bytes(content, at, 1).decode("ascii"), at + 1
    if kind in "SH":
        return _text(content, at)
    if kind == "[":
        return _array(content, at, depth)
    if kind == "{":
        return _object(content, at, depth)
    raise ValueError(f"it has a {kind!r} where a value should begin")


def _bytes(content: bytes, at: int, length: int) -> bytes:
    if length < 0 or at + length > len(content):
        raise ValueError("it ends too early")
    return content[at : at + length]


def _length(content: bytes, at: int) -> tuple[int, int]:
    found, at = _value(content, at, 0)
    if type(found) is not int or found < 0:
        raise ValueError("a length that is none")
    return found, at


def _text(content: bytes, at: int) -> tuple[str, int]:
    length, at = _length(content, at)
    return _bytes(content, at, length).decode("utf-8"), at + length


def _array(content: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    kind = ""
    if content[at : at + 1] == b"$":
        kind, at = _marker(content, at + 1)
        if content[at : at + 1] != b"#":
            raise ValueError("a kind without a count")
    if content[at : at + 1] == b"#":
        count, at = _length(content, at + 1)
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            end = at + count * dtype.itemsize
            return np.frombuffer(_bytes(content, at, end - at), dtype).tolist(), end
        if count > len(content) - at:  # every entry has a byte at least
            raise ValueError("it ends too early")
        found = []
        for _ in range(count):
            value, at = (
                _of_kind(kind, content, at, depth + 1) if kind else _value(content, at, depth + 1)
            )
            found.append(value)
        return found, at
    found = []
    while True:
        mark, after = _marker(content, at)
        if mark == "]":
            return found, after
        value, at = _of_kind(mark, content, after, depth + 1)
        found.append(value)


def _object(content: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
    if content[at : at + 1] in (b"$", b"#"):
        raise ValueError("an object of a kind XGBoost does not write")
    found: dict[str, Any] = {}
    while True:
        mark, after = _marker(content, at)
        if mark == "}":
            return found, after
        name, at = _text(content, at)
        found[name], at = _value(content, at, depth + 1)

"""Requests and their states as other systems write and read them (OpenDSR, JSON).

Identities are looked up and forgotten: they are in no message, no log and no answer.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger.tables import Request
from holdfast.tables import existing_file

VERSION = "3.0"

#: the kind of identity that is an id of ours
OURS = "controller_customer_id"

#: how an identity may be written
FORMATS: dict[str, Callable[[str], str]] = {
    "raw": lambda name: name,
    "sha256": lambda name: hashlib.sha256(name.encode()).hexdigest(),
    "sha1": lambda name: hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(),
    "md5": lambda name: hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(),
}

#: bytes of a file of requests
MOST = 64 * 10**6


@dataclass(frozen=True)
class Incoming:
    """A request from outside: its own id, who it is about, when it was made, and what to repeat."""

    reference: str
    value: str
    form: str
    submitted: datetime.date | None
    told: dict[str, Any]


def read_requests(path: Path) -> list[Incoming]:
    """The erasure requests of a file: one, or a list of them."""
    file = existing_file(path, "the file of requests")
    if file.stat().st_size > MOST:
        raise HoldfastError(f"{str(path)!r} is larger than {MOST // 10**6} MB: split it")
    try:
        read = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        raise HoldfastError(f"{str(path)!r} is no JSON: requests come as OpenDSR wants") from None
    except OSError as failure:
        raise HoldfastError(f"cannot read {str(path)!r}: {failure.strerror}") from None
    some = read if isinstance(read, list) else [read]
    if not some:
        raise HoldfastError(f"{str(path)!r} holds no request")
    return [_asked(each, f"{str(path)!r}, request {k}") for k, each in enumerate(some, 1)]


def _asked(read: Any, what: str) -> Incoming:
    if not isinstance(read, dict):
        raise HoldfastError(f"{what}: a request is a JSON object")
    kind = read.get("subject_request_type")
    if kind != "erasure":
        raise HoldfastError(
            f"{what}: subject_request_type is {str(kind)[:40]!r}, and only 'erasure' is done here"
        )
    try:
        reference = str(uuid.UUID(str(read.get("subject_request_id"))))
    except ValueError:
        raise HoldfastError(f"{what}: subject_request_id must be a UUID") from None
    identities = read.get("subject_identities")
    if not isinstance(identities, list) or not all(isinstance(i, dict) for i in identities):
        raise HoldfastError(f"{what}: subject_identities must be a list of identities")
    ours = [i for i in identities if i.get("identity_type") == OURS]
    if len(ours) != 1 or not isinstance(ours[0].get("identity_value"), str):
        raise HoldfastError(
            f"{what}: one identity of the type {OURS!r} is wanted, there are {len(ours)}: people "
            "are known by their id only"
        )
    form = str(ours[0].get("identity_format", "raw"))
    if form not in FORMATS:
        raise HoldfastError(
            f"{what}: identity_format must be one of {', '.join(FORMATS)}, got {form[:40]!r}"
        )
    told: dict[str, Any] = {
        name: str(read[name])[:500]
        for name in ("regulation", "api_version", "controller_id")
        if name in read
    }
    urls = read.get("status_callback_urls", [])
    told["status_callback_urls"] = [str(u)[:500] for u in urls] if isinstance(urls, list) else []
    return Incoming(reference, ours[0]["identity_value"], form, _day(read, what), told)


def _day(read: dict[str, Any], what: str) -> datetime.date | None:
    text = read.get("submitted_time")
    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(str(text)).date()
    except ValueError:
        raise HoldfastError(
            f"{what}: submitted_time must be a moment like 2026-01-31T09:00:00Z"
        ) from None


class Lookup:
    """Which of some people a request is about; hashes of everybody are made once."""

    def __init__(self, names: Iterable[str]):
        self._names = list(names)
        self._known: dict[str, dict[str, str]] = {}

    def __call__(self, asked: Incoming) -> str | None:
        """The name, or ``None`` for nobody's."""
        if asked.form not in self._known:
            form = FORMATS[asked.form]
            self._known[asked.form] = {form(name): name for name in self._names}
        value = asked.value if asked.form == "raw" else asked.value.lower()
        return self._known[asked.form].get(value)


def status(request: Request) -> dict[str, Any]:
    """What is reported back about a request: its state, and nothing about anybody."""
    return {
        "api_version": request.told.get("api_version", VERSION),
        "controller_id": request.told.get("controller_id", ""),
        "expected_completion_time": f"{request.due.isoformat()}T00:00:00Z",
        "received_time": f"{request.received.isoformat()}T00:00:00Z",
        "request_status": request.state,
        "status_callback_urls": request.told.get("status_callback_urls", []),
        "subject_request_id": request.reference,
    }

"""The log: every line has the hash of the one before it in its own.

``hash = sha256(canonical [number, at, by, event, body, before])``. Nobody's id is ever in it:
people go by a token, the hash of their id and a salt that only their line of the books has, and
values by the same kind of hash. When a person is erased their salt goes, and the chain stays.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from holdfast.errors import HoldfastError
from holdfast.ledger.tables import Entry

#: what stands before the first line
BEGINNING = "0" * 64

#: seconds two desks' clocks may differ by
SKEW = 120.0


def canonical(value: Any) -> str:
    """One way of writing a value as JSON.

    Examples
    --------
    >>> canonical({"b": 1, "a": [None, "é"]})
    '{"a":[null,"é"],"b":1}'
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """The hash of a value, however deep."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def salted(salt: str, value: Any) -> str:
    """A hash that says nothing to whoever has no salt."""
    return digest([salt, value])


def fresh_salt() -> str:
    """Random, and long enough that nobody guesses it."""
    return secrets.token_hex(32)


def now() -> datetime.datetime:
    """This moment, in UTC."""
    return datetime.datetime.now(datetime.UTC)


def moment(at: datetime.datetime) -> str:
    """A moment as the books have it."""
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Log:
    """Lines to be added within one transaction.

    Parameters
    ----------
    session : of somebody who writes
    by : str
        Who does what follows.
    at : moment, optional
        When it is done; now by default.
    """

    def __init__(self, session: Session, by: str, at: datetime.datetime | None = None):
        last = session.execute(select(Entry).order_by(Entry.id.desc()).limit(1)).scalar()
        self._session, self._by = session, by
        self._number, self._before = (0, BEGINNING) if last is None else (last.id, last.hash)
        self._lines: list[dict[str, Any]] = []
        at = at or now()
        self.at = moment(at)
        if last is not None and self.at < last.at:
            then = datetime.datetime.fromisoformat(last.at)
            if (then - at).total_seconds() > SKEW:
                raise HoldfastError(
                    f"the clock goes backwards: it says {self.at[:19]} (UTC), and the log's last "
                    f"line is of {last.at[:19]}. Set the clock; nothing was written"
                )
            self.at = last.at  # two desks' clocks differ a little

    @property
    def day(self) -> datetime.date:
        """The day of what is done, in UTC."""
        return datetime.date.fromisoformat(self.at[:10])

    def add(self, event: str, **body: Any) -> None:
        """One more line."""
        self._number += 1
        content = canonical(body)
        line = [self._number, self.at, self._by, event, content, self._before]
        names = ("id", "at", "by", "event", "body", "before")
        self._before = digest(line)
        self._lines.append({**dict(zip(names, line, strict=True)), "hash": self._before})

    def write(self) -> None:
        """Put the lines into the books."""
        if self._lines:
            self._session.execute(insert(Entry), self._lines)
            self._lines = []


def broken_at(entries: Iterable[Entry]) -> tuple[int | None, int, str]:
    """The first line that does not follow from those before; how many there are; the last hash."""
    before, number = BEGINNING, 0
    for entry in entries:
        number += 1
        line = [entry.id, entry.at, entry.by, entry.event, entry.body, entry.before]
        if entry.id != number or entry.before != before or digest(line) != entry.hash:
            return number, number, before
        before = entry.hash
    return None, number, before


def lines(session: Session) -> Iterator[Entry]:
    """The log from its beginning."""
    yield from session.execute(
        select(Entry).order_by(Entry.id).execution_options(yield_per=5000)
    ).scalars()

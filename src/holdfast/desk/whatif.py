"""What if these people were erased: answered by the algebra, at once; nothing is written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from holdfast.desk.sources import Dossier, Source, Stamp
from holdfast.errors import HoldfastError
from holdfast.models.refits import broken

#: people a question may be about
MOST = 200
#: erasures the slider reaches, and the worst case is worked out for
REACH = 14
#: broken promises an answer names, and bars of the picture of margins
NAMED, BARS = 50, 24


class WhatIf(BaseModel):
    """Who would be erased, and how much more room promises would have.

    ``room`` is in deviations of the training scores: what if every promise went that much further?
    """

    pick: Literal["worst", "random", "people"] = "worst"
    people: list[str] = Field(default_factory=list, max_length=MOST)
    k: int = Field(default=1, ge=1, le=MOST)
    seed: int = Field(default=0, ge=0, le=2**31)
    room: float = Field(default=0.0, ge=0.0, le=5.0)
    source: str | None = None


class Broken(BaseModel):
    """A promise that would break."""

    promise: int
    margin: float = Field(description="before, in deviations of the training scores")
    after: float | None = Field(description="the margin left; below 0; null: no score any more")


class Bar(BaseModel):
    """Promises whose margin lies between two values, before and after."""

    low: float
    high: float
    before: int
    after: int


class Answer(BaseModel):
    """What would break. ``predicted`` by the algebra; ``confirmed`` once a refit is done."""

    source: str
    unit: str
    people: int
    rows: int
    promises: int
    exact: bool = Field(description="whether the algebra is exact for this model")
    predicted: int | None
    confirmed: int | None = None
    confirming: Literal["not asked", "running", "done", "lost", "changed"] = "not asked"
    broken: list[Broken] = Field(description="worst first, the first 50")
    bars: list[Bar]
    median_before: float
    median_after: float | None
    waiting: bool = Field(default=False, description="the worst case is still being worked out")
    ceiling: float | None = Field(
        default=None, description="proven for so many erasures, with no room"
    )


class Shelf:
    """The sources, each loaded once for as long as nothing changes."""

    def __init__(self, sources: dict[str, Source]):
        self.sources = sources
        self._held: dict[str, tuple[Stamp, Dossier]] = {}
        self._locks = {name: threading.Lock() for name in sources}

    def source(self, name: str | None) -> Source:
        """A source by name; the first one where none is named."""
        if not self.sources:
            raise HoldfastError("the desk was started without a ledger or a case")
        if name is None:
            return next(iter(self.sources.values()))
        if name not in self.sources:
            raise HoldfastError(f"there is no {name!r} here: {', '.join(self.sources)}")
        return self.sources[name]

    def at_hand(self, name: str | None) -> tuple[Source, Stamp, Dossier]:
        """A source with what it holds now; read again where it has changed."""
        source = self.source(name)
        stamp = source.stamp()
        held = self._held.get(source.name)
        if held is None or held[0] != stamp:
            with self._locks[source.name]:
                held = self._held.get(source.name)
                if held is None or held[0] != stamp:
                    dossier = source.load()
                    _ = dossier.scores, dossier.deletions, dossier.people
                    held = self._held[source.name] = (stamp, dossier)
        return source, stamp, held[1]


def people_picked(dossier: Dossier, question: WhatIf, sets: list[Any] | None) -> tuple[Any, int]:
    """The rows of those who are asked about, and how many people they are.

    ``sets`` are the worst rows for every number of erasures; ``None`` while nobody knows them.
    """
    if question.pick == "people":
        names = list(dict.fromkeys(question.people))
        rows = dossier.rows_of(names)
        count = len(names)
    elif question.pick == "random":
        rng = np.random.default_rng(question.seed)
        count = min(question.k, len(dossier.people) - 1)
        chosen = rng.choice(len(dossier.people), size=count, replace=False)
        rows = dossier.rows_of([dossier.people[place] for place in chosen.tolist()])
    else:
        if sets is None:
            return np.zeros(0, dtype=int), 0
        rows = np.asarray(sets[min(question.k, len(sets) - 1)], dtype=int)
        count = len({str(dossier.names[row]) for row in rows.tolist()})
    if len(rows) >= len(dossier.names):
        raise HoldfastError("without them the training table is empty")
    return rows, count


def answered(source: Source, dossier: Dossier, question: WhatIf, rows: Any, count: int) -> Answer:
    """What the algebra says."""
    unit = dossier.model.score_unit
    margins = (dossier.scores - dossier.target) / unit + question.room
    after = None
    if dossier.deletions is not None:
        drops = dossier.deletions.effect(rows) if len(rows) else np.zeros(len(margins))
        after = margins - drops / unit
    elif not len(rows):
        after = margins
    fallen = None if after is None else broken(after, 0.0)
    return Answer(
        source=source.name,
        unit=dossier.unit,
        people=count,
        rows=len(rows),
        promises=len(margins),
        exact=dossier.model.exact or dossier.model.can.form == "parts",
        predicted=None if fallen is None else int(fallen.sum()),
        broken=[] if fallen is None else named(dossier, margins, after, fallen),
        bars=bars(margins, after),
        median_before=float(np.median(margins)),
        median_after=None if after is None else _finite(np.nanmedian(after)),
    )


def named(dossier: Dossier, margins: Any, after: Any, fallen: Any) -> list[Broken]:
    """The promises that fall deepest."""
    places = np.flatnonzero(fallen)
    depth = np.where(np.isfinite(after[places]), after[places], -np.inf)
    return [
        Broken(
            promise=dossier.numbers[place],
            margin=float(margins[place]),
            after=_finite(after[place]),
        )
        for place in places[np.argsort(depth, kind="stable")][:NAMED].tolist()
    ]


def bars(margins: Any, after: Any) -> list[Bar]:
    """How margins lie before and after, in bars of equal width around what most have."""
    both = margins if after is None else np.concatenate([margins, after])
    known = both[np.isfinite(both)]
    low, high = (float(v) for v in np.quantile(known, [0.01, 0.99]))
    low, high = min(low, -0.02), max(high, 0.02)
    edges = np.linspace(low, high, BARS + 1)
    edges -= edges[np.argmin(np.abs(edges))]  # one edge lies at the target itself
    counted = [
        np.histogram(np.clip(np.nan_to_num(v, nan=edges[0]), edges[0], edges[-1]), edges)[0]
        for v in (margins, margins if after is None else after)
    ]
    return [
        Bar(low=float(a), high=float(b), before=int(n), after=int(m))
        for a, b, n, m in zip(edges[:-1], edges[1:], *counted, strict=True)
    ]


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


class Remembered:
    """The last few of something that took long to find, by what it is about."""

    def __init__(self, most: int):
        self._most, self._held = most, OrderedDict[Any, Any]()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        """What is remembered; ``None`` where nothing is."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: Any, value: Any) -> Any:
        """Remember something, and forget what was not asked for longest."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return value

    def drop(self, key: Any) -> None:
        """Forget something."""
        with self._lock:
            self._held.pop(key, None)

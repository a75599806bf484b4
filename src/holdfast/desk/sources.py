"""What the desk asks about: the promises of a ledger, or those of a case, with their model."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.audits import audit
from holdfast.audits.about import About
from holdfast.audits.result import Audit
from holdfast.cases.loading import load_case
from holdfast.cases.running import audit_case, unit_of
from holdfast.cases.settings import PATHS, Settings, made
from holdfast.errors import HoldfastError
from holdfast.ledger import Ledger
from holdfast.ledger.ground import Ground, loaded
from holdfast.ledger.judging import promises_held
from holdfast.ledger.records import book_of, model_in_force
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Progress, broken
from holdfast.models.solving import scores_or_nan

#: what tells one state of a source from another
Stamp = tuple[Any, ...]


@dataclass
class Dossier:
    """Promises that hold, and the model they were made under, in memory.

    Attributes
    ----------
    model : ErasableModel
    points : frame of shape (q, d)
    target : float
    numbers : list of int
        What each promise is called: its number in the ledger, or its place in the case's file.
    names : ndarray of shape (n,)
        What an erasure request calls every training row.
    unit : {"row", "subject"}
    ground : of a ledger; ``None`` for a case
    """

    model: ErasableModel
    points: Any = field(repr=False)
    target: float
    numbers: list[int] = field(repr=False)
    names: Any = field(repr=False)
    unit: str
    ground: Ground | None = field(default=None, repr=False)

    @cached_property
    def scores(self) -> Any:
        """What the promised points score now."""
        return scores_or_nan(self.model, self.points)

    @cached_property
    def deletions(self) -> Any:
        """What deletions do to those scores; ``None`` where only a refit tells."""
        return self.model.deletions(self.points) if self.model.can.predicts else None

    @cached_property
    def rows_by_name(self) -> dict[str, list[int]]:
        """The training rows of everybody in the table."""
        found: dict[str, list[int]] = {}
        for row, name in enumerate(self.names):
            found.setdefault(str(name), []).append(row)
        return found

    @cached_property
    def people(self) -> list[str]:
        """Everybody in the training table, sorted."""
        return sorted(self.rows_by_name)

    def rows_of(self, names: list[str]) -> Any:
        """The rows of some people; refused where one is not in the table."""
        for name in names:
            if name not in self.rows_by_name:
                raise HoldfastError(f"{name!r} is not in the training table: check the id")
        return np.array(sorted(r for n in set(names) for r in self.rows_by_name[n]), dtype=int)


def _holding(dossier: Dossier) -> Dossier:
    """Only promises that hold now."""
    fine = ~broken(dossier.scores, dossier.target)
    if not fine.any():
        raise HoldfastError("no promise holds under the model in force: there is nothing to break")
    if fine.all():
        return dossier
    return Dossier(
        dossier.model,
        dossier.points[fine],
        dossier.target,
        [n for n, ok in zip(dossier.numbers, fine, strict=True) if ok],
        dossier.names,
        dossier.unit,
        dossier.ground,
    )


@lru_cache(maxsize=4)
def _books(address: str) -> Ledger:
    """A ledger to read in, opened once: connections last no longer than a look."""
    return Ledger(address)


@dataclass(frozen=True)
class LedgerSource:
    """The live promises of a ledger, under the model in force."""

    address: str
    name: str = "ledger"

    def stamp(self) -> Stamp:
        """What changes when the books do, or when the day does."""
        books = _books(self.address)
        return (*books.last_change(), books.today().isoformat())

    def load(self) -> Dossier:
        """The model and the promises."""
        books = _books(self.address)
        with books.database.reading() as session:
            version = model_in_force(session)
            ground = loaded(book_of(session), version, books._places(session))
            held = promises_held(session, ground, set(), books.today())
        live = np.flatnonzero(~held.broken_before)
        numbers = [held.lines[place].id for place in live.tolist()]
        if not numbers:
            raise HoldfastError("the ledger has no live promise: there is nothing to break")
        points = held.points.iloc[live].reset_index(drop=True)
        return _holding(
            Dossier(ground.model, points, ground.target, numbers, ground.names, ground.unit, ground)
        )

    def audit(self, asked: dict[str, Any], progress: Progress | None = None) -> Audit:
        """An audit of the promises in force."""
        dossier = self.load()
        about = About(table="the ledger's table", method="as promised")
        return audit(
            dossier.model,
            dossier.points,
            dossier.target,
            min(int(asked.get("max_deletions", 14)), len(dossier.people) - 1),
            bool(asked.get("certify", True)),
            int(asked.get("seed", 0)),
            unit=dossier.unit,
            target_rule=_rule(dossier),
            progress=progress,
            about=about,
        )


def _rule(dossier: Dossier) -> str:
    return "fixed" if dossier.ground is None else str(dossier.ground.settings.target_rule)


@dataclass(frozen=True)
class CaseSource:
    """The promises of a case: an ``audit.toml`` and the files it names."""

    path: str
    name: str = "case"

    def settings(self) -> Settings:
        """What the file says now."""
        return made({}, Path(self.path))

    def stamp(self) -> Stamp:
        """What changes when one of the files does, or when the day does: promises expire."""
        settings = self.settings()
        files = [Path(self.path)]
        for name in PATHS:
            value = getattr(settings, name, None)
            if name not in ("html", "json_file"):
                several = value if isinstance(value, list) else [value]
                files += [Path(v) for v in several if isinstance(v, str | Path)]
        told = []
        for file in filter(Path.is_file, files):
            seen = os.stat(file)
            told.append((str(file), seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_size))
        return (*told, datetime.date.today().isoformat())

    def load(self) -> Dossier:
        """The model and the promises."""
        settings = self.settings()
        case = load_case(settings)
        if case.model.in_passes is not None:
            raise HoldfastError(
                "this table is read by blocks, and the desk asks what if of tables that fit into "
                "memory: use holdfast impact"
            )
        points = case.given.points[case.given.valid.to_numpy()]
        places = np.flatnonzero(case.given.valid.to_numpy()) + 1
        if len(points) == 0:
            raise HoldfastError("the case has no valid promise: there is nothing to break")
        names = np.array([case.names[row] for row in case.training], dtype=object)
        model = case.model.with_target_rule(settings.target_rule, case.target)
        return _holding(
            Dossier(
                model,
                points.reset_index(drop=True),
                case.target,
                places.tolist(),
                names,
                unit_of(settings),
            )
        )

    def audit(self, asked: dict[str, Any], progress: Progress | None = None) -> Audit:
        """The audit the case asks for."""
        names = ("max_deletions", "seed", "certify")
        settings = self.settings().model_copy(update={n: asked[n] for n in names if n in asked})
        return audit_case(settings, load_case(settings, progress), progress)


Source = LedgerSource | CaseSource

"""Books opened, filled from a case, and given another model."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pandas.api.types import is_object_dtype
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from holdfast.algebra.rows import as_text
from holdfast.cases.blocks import reads_by_blocks
from holdfast.cases.books import Written, kept_settings, settings_on, written
from holdfast.cases.files import Table, read
from holdfast.cases.loading import Case, load_case, model_on_record
from holdfast.cases.modelfile import loaded_model, save_model
from holdfast.cases.remaining import write_without
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.files import sha256
from holdfast.ledger.chain import Log, digest, moment, now
from holdfast.ledger.erasing import (
    issued,
    leave_chores,
    put_in_force,
    recorded,
    settle,
)
from holdfast.ledger.ground import Ground, loaded
from holdfast.ledger.judging import (
    HeldPromises,
    Outcome,
    judged_again,
    promises_held,
    proven,
    scores_of,
)
from holdfast.ledger.places import Places
from holdfast.ledger.records import (
    SOURCE,
    book_of,
    cells,
    certified_left,
    expire,
    model_in_force,
    move,
    next_id,
    people_for,
)
from holdfast.ledger.sources import know, know_case, refuse_outdated
from holdfast.ledger.tables import (
    BROKEN,
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Book,
    ModelVersion,
    Promise,
)
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Progress
from holdfast.models.solving import scores_or_nan
from holdfast.recourse import target_of
from holdfast.tables import is_parquet

#: deviations of the score that two fits of one model may differ by: solvers stop early
_SAME = 1e-3

#: how the desk works unless it is told otherwise
DESK = {"due_days": 30, "extension_days": 60, "certify": 5, "language": "en", "sender": ""}


@dataclass(frozen=True)
class Filled:
    """What an import wrote: promises by state, and how many were there before."""

    states: dict[str, int]
    same: int
    replaced: int


def opened(
    session: Session, files: str, desk: dict[str, Any], by: str, at: datetime.datetime | None = None
) -> bool:
    """The first line of the books; whether there was none. Settings that are given are taken."""
    found = session.execute(select(Book)).scalar_one_or_none()
    given = {name: value for name, value in desk.items() if value is not None}
    if found is None:
        session.add(Book(id=1, opened=moment(at or now()), files=files, settings={**DESK, **given}))
    elif given and any(found.settings.get(name) != value for name, value in given.items()):
        log = Log(session, by, at)
        _set(found, log, **given)
        log.write()
    session.flush()
    return found is None


def _set(book: Book, log: Log, **given: Any) -> None:
    """Settings changed, and in the log."""
    book.settings = {**book.settings, **given}
    log.add("settings", names=sorted(given), settings=digest(book.settings))


def case_to_fill(settings: Settings, tell: Progress | None, remark: Any) -> Case:
    """A case as the books take it: with every promise there is."""
    if reads_by_blocks(settings):
        raise HoldfastError(
            "a ledger keeps a table of its own, which one file holds: tables that are read by "
            "blocks (folders, patterns, files above ⟦blocks_above⟧) cannot be imported"
        )
    return load_case(settings, tell, remark, hold_out=False, promises=written)


def filled(
    session: Session, places: Places, settings: Settings, case: Case, by: str, at: Any = None
) -> Filled:
    """A case in the books: the table and the model with the first, its promises every time."""
    log = Log(session, by, at)
    book = book_of(session)
    first = session.execute(select(ModelVersion.id).limit(1)).scalar() is None
    refuse_outdated(session, settings)
    if first:
        _first_model(session, places, settings, case, book, log)
        version = model_in_force(session)
        kept = {**book.settings, **version.settings}
        own = settings_on(kept, settings.train, Path())
        ground = Ground(kept, own, case.train, case.model, version.target)
    else:
        version = model_in_force(session)
        ground = loaded(book, version, places)
        _refuse_other_case(ground, settings, case, version, places)
        if settings.labels is not None:  # a lender's words may change
            _set(book, log, labels=kept_settings(settings)["labels"])
    know_case(session, log, settings)
    expire(session, log)
    promises: Any = case.given
    found = _promises(session, log, ground, version, promises)
    log.write()
    return found


def _first_model(
    session: Session, places: Places, settings: Settings, case: Case, book: Book, log: Log
) -> None:
    """Copies of the table and the model that are the books' own from now on."""
    kept = {**kept_settings(settings), "features": [str(c) for c in case.train.X.columns]}
    book.settings = {**book.settings, **kept}
    log.add("opened", settings=digest(book.settings))
    table, table_hash = _table_of(places, settings, case.gone, 1)
    estimator = case.model.estimator
    path, model_hash = places.write("model-1", ".skops", lambda place: save_model(estimator, place))
    made = ModelVersion(
        id=1,
        sha256=model_hash,
        kind=str(settings.model or type(estimator).__name__),
        settings={"words": _words(case.train)},
        target=case.target,
        rows=len(case.train.X) - len(case.gone),
        lineage=1,
        erased=0,
        registered=log.at,
        reason="first",
        path=path,
        table_path=table,
        table_sha256=table_hash,
    )
    put_in_force(session, log, made, None)


def _words(table: Table) -> list[str]:
    """Columns of words: they stay so even when only words that look like numbers are left."""
    return [str(name) for name, kind in table.X.dtypes.items() if is_object_dtype(kind)]


def _table_of(places: Places, settings: Settings, gone: Any, number: int) -> tuple[str, str]:
    """The training table copied, its cells as they were, without those erased before."""
    plain = settings.train.suffix.lower() in (".csv", ".txt", ".tsv")
    suffix = ".csv" if plain else ".parquet"

    def fill(place: Path) -> None:
        if plain or is_parquet(settings.train):
            write_without(settings, gone, place)
        else:
            table = read(settings, settings.train)
            keep = np.setdiff1d(np.arange(len(table)), gone)
            table.iloc[keep].to_parquet(place, index=False)

    try:
        return places.write(f"table-{number}", suffix, fill)
    except UnicodeDecodeError:
        raise HoldfastError(
            f"{str(settings.train)!r} is not UTF-8: save it as UTF-8 first, so that the ledger can "
            "keep its cells as they are"
        ) from None


def _refuse_other_case(
    ground: Ground, settings: Settings, case: Case, version: ModelVersion, places: Places
) -> None:
    """More promises come with the same table and model, or not at all."""
    kept = ground.kept
    for name in ("label", "id", "subject"):
        if kept["case"][name] != getattr(settings, name):
            raise HoldfastError(
                f"⟦{name}⟧ is {getattr(settings, name)!r} here and {kept['case'][name]!r} in the "
                "ledger: a ledger is about one table. Nothing was imported"
            )
    table = ground.names.tolist()
    here = [as_text(name) for name in case.names]
    if sorted(table) != sorted(here):
        raise HoldfastError(
            f"{str(settings.train)!r} is not the table on record: {len(set(here) - set(table))} "
            f"people are new and {len(set(table) - set(here))} are missing. Erased people do not "
            f"come back: import with the table in the ledger's folder "
            f"({str(places.path(str(version.table_path)))!r}), or register another model. Nothing "
            "was imported"
        )
    if abs(case.target - version.target) > 1e-5 * max(1.0, abs(version.target)):
        raise HoldfastError(
            f"the target is {case.target:g} here and {version.target:g} in the ledger: register "
            "the model with its new cutoff first. Nothing was imported"
        )
    far = np.abs(case.model.scores(ground.train.X) - ground.model.scores(ground.train.X)).max()
    if not ground.model.can.draws and far > _SAME * ground.model.score_unit:
        raise HoldfastError(
            f"the model here is not the one in force (version {version.id}): scores differ by up "
            f"to {far / ground.model.score_unit:.2g} deviations. Name the model in the ledger's "
            f"folder ({str(places.path(str(version.path)))!r}), or register this one first. "
            "Nothing was imported"
        )


def _promises(
    session: Session, log: Log, ground: Ground, version: ModelVersion, given: Written
) -> Filled:
    """Promises written down; the same again is no news, another one takes its place."""
    people = people_for(session, given.names)
    numbers = [people[name].id for name in given.names]
    standing, ever = _standing(session)
    points, factuals = cells(given.points), cells(given.people)
    margins = scores_or_nan(ground.model, given.points) - version.target
    today, number = log.day, next_id(session, Promise)
    lines: list[dict[str, Any]] = []
    replaced: list[tuple[int, str]] = []
    same = 0
    for i, person in enumerate(numbers):
        before = standing.get((person, given.references[i]))
        if _key(points[i], given.expires[i]) in ever.get((person, given.references[i]), ()):
            same += 1  # in force, or settled long since: no news either way
            continue
        state, reason = _state(float(margins[i]), given.expires[i], today)
        if before is not None and state != EXPIRED:
            replaced.append(before)
        lines.append(
            {
                "id": number,
                "person_id": person,
                "reference": given.references[i],
                "factual": factuals[i],
                "point": points[i],
                "model_id": version.id,
                "target": version.target,
                "margin": None if margins[i] != margins[i] else float(margins[i]),
                "certified": None,
                "certified_under": None,
                "issued": given.issued[i] or today,
                "expires": given.expires[i],
                "state": state,
                "since": log.at,
                "reason": reason,
                "mends": None,
                "_place": i,
            }
        )
        number += 1
    live = [line for line in lines if line["state"] == LIVE]
    looks = int(ground.kept["certify"])
    rows = given.points.iloc[[line["_place"] for line in live]]
    for line, k in zip(
        live, proven(ground.model, rows, version.target, looks, ground), strict=True
    ):
        line["certified"], line["certified_under"] = k, None if k is None else version.id
    settle(session, log, [number for number, _ in replaced])
    move(session, log, replaced, WITHDRAWN, "another promise was given")
    named = {person.id: person for person in people.values()}
    for line in lines:
        del line["_place"]
        holder = named[line["person_id"]]
        issued(log, line, holder.token, holder.salt)
    if lines:
        session.execute(insert(Promise), lines)
    states = Counter(line["state"] for line in lines)
    broken = {line["id"] for line in lines if line["state"] == BROKEN}
    if broken:
        _mend_at_once(session, log, ground, version, broken)
    return Filled(dict(states), same, len(replaced))


def _mend_at_once(
    session: Session, log: Log, ground: Ground, version: ModelVersion, numbers: set[int]
) -> None:
    """Promises that do not hold when they come: their holders are told what does."""
    held = promises_held(session, ground, set(), log.day)
    some = [place for place, line in enumerate(held.lines) if line.id in numbers]
    held = HeldPromises([held.lines[place] for place in some], held.points.iloc[some])
    before = scores_of(ground.model, held)
    ahead = int(ground.kept["certify"])
    outcome = judged_again(session, ground, held, ground.model, before, ahead)
    recorded(session, log, version, outcome, "below the target when it was imported")


Holder = tuple[int, str]


def _standing(
    session: Session,
) -> tuple[dict[Holder, tuple[int, str]], dict[Holder, set[str]]]:
    """By whose they are: the promise in force or broken, and hashes of all there have been."""
    asked = select(
        *(Promise.person_id, Promise.reference, Promise.id, Promise.state, Promise.point),
        Promise.expires,
    ).where(Promise.person_id.is_not(None))
    standing: dict[Holder, tuple[int, str]] = {}
    ever: dict[Holder, set[str]] = {}
    for person, reference, number, state, point, expires in session.execute(asked):
        holder = (int(str(person)), str(reference))
        ever.setdefault(holder, set()).add(_key(point, expires))
        if state in (LIVE, BROKEN):
            standing[holder] = (number, state)
    return standing, ever


def _key(point: Any, expires: datetime.date | None) -> str:
    """What makes a promise another one: what is to be reached, and until when."""
    return digest([point, None if expires is None else expires.isoformat()])


def _state(margin: float, expires: datetime.date | None, today: datetime.date) -> tuple[str, str]:
    if expires is not None and expires < today:
        return EXPIRED, "its day had passed when it was imported"
    if not margin >= 0:
        return BROKEN, "below the target when it was imported"
    return LIVE, ""


@dataclass
class Replaced:
    """What another model did: what broke, and how many certificates are void."""

    version: int
    outcome: Outcome
    void: int
    certified_again: int


def replaced(
    session: Session,
    places: Places,
    by: str,
    reason: str,
    *,
    model_file: Path | None = None,
    train: Path | None = None,
    target: float | None = None,
    target_probability: float | None = None,
    trust: Sequence[str] = (),
    allow_pickle: bool = False,
    at: datetime.datetime | None = None,
) -> Replaced:
    """A model that is new for another reason than erasure: rows, corrections, a cutoff."""
    book, old = book_of(session), model_in_force(session)
    log = Log(session, by, at)
    expire(session, log)
    before = loaded(book, old, places, trust)
    kept = before.kept
    settings = before.settings
    if train is not None:
        settings = settings.model_copy(update={"train": train, "text": kept["case"]["text"]})
    if model_file is not None:
        fitted = loaded_model(model_file, allow_pickle, trust, Remarks())
        settings = settings.model_copy(update={"model": None, "model_file": model_file})
    elif train is not None:
        raise HoldfastError("another table comes with the model fitted on it: name that too")
    else:
        fitted = before.model.estimator
    table, model = model_on_record(settings, fitted)
    missing = [c for c in map(str, table.X.columns) if c not in kept["features"]]
    if missing:
        raise HoldfastError(
            f"the new model wants {missing[0]!r}, which is not on record for the people with "
            f"promises ({len(missing)} such columns): their promises could not be judged. Nothing "
            "was done"
        )
    asked = target
    if target is None and target_probability is None:
        asked = old.target
    cutoff = target_of(model, asked, target_probability)
    if settings.target_rule != "fixed":
        model = model.with_target_rule(settings.target_rule, cutoff)
    changed = {"model": None if model_file is not None else kept["case"]["model"]}
    case = {**kept["case"], **changed}
    ground = replace(before, train=table, target=cutoff, settings=settings)
    scores = scores_of(before.model, promises_held(session, before, set(), log.day))
    held = promises_held(session, ground, set(), log.day)
    outcome = judged_again(session, ground, held, model, scores, int(kept["certify"]))
    void = len(certified_left(session, old))
    number = old.id + 1
    table_name, table_hash = _table_of(places, settings, np.empty(0, dtype=int), number)
    path, model_hash = places.write(
        f"model-{number}", ".skops", lambda place: save_model(fitted, place)
    )
    made = ModelVersion(
        id=number,
        sha256=model_hash,
        kind=str(case["model"] or type(fitted).__name__),
        settings={"case": case, "words": _words(table)},
        target=cutoff,
        rows=len(table.X),
        lineage=old.lineage + 1,
        erased=0,
        registered=log.at,
        reason=reason,
        path=path,
        table_path=table_name,
        table_sha256=table_hash,
    )
    put_in_force(session, log, made, old)
    recorded(session, log, made, outcome, reason)
    stay = np.flatnonzero(~outcome.breaks & ~held.broken_before)
    again = _certify(session, log, ground, model, held, stay, made)
    for path_known in (model_file, train):
        if path_known is not None:
            know(session, SOURCE, path_known, log.at, sha256(path_known))
    leave_chores(session)
    log.write()
    return Replaced(number, outcome, void, again)


def certified_again(
    session: Session, places: Places, by: str, at: datetime.datetime | None = None
) -> int:
    """New certificates, from the model in force, for every live promise; how many there are."""
    log, book, version = Log(session, by, at), book_of(session), model_in_force(session)
    expire(session, log)
    ground = loaded(book, version, places)
    held = promises_held(session, ground, set(), log.day)
    stay = np.flatnonzero(~held.broken_before)
    found = _certify(session, log, ground, ground.model, held, stay, version)
    log.write()
    return found


def _certify(
    session: Session,
    log: Log,
    ground: Ground,
    model: ErasableModel,
    held: HeldPromises,
    stay: Any,
    version: ModelVersion,
) -> int:
    """New certificates for the promises at some places; how many could be given."""
    ahead = int(ground.kept["certify"])
    found = proven(model, held.points.iloc[stay], version.target, ahead, ground)
    lines = []
    for place, k in zip(stay.tolist(), found, strict=True):
        number = held.lines[place].id
        under = None if k is None else version.id
        lines.append({"id": number, "certified": k, "certified_under": under})
        log.add("certified", promise=number, model=version.id, certified=k)
    if lines:
        session.execute(update(Promise), lines)
    return sum(k is not None for k in found)

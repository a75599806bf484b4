"""Promises: found for people, or read back, only those alive."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.arguments import near_name
from holdfast.audits.about import About
from holdfast.cases.files import Table, belongs_to, read, unique_ids
from holdfast.cases.remarks import Remarks
from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.models.erasable import ErasableModel
from holdfast.recourse import METHODS, find_recourse
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.issued import issued_recourse
from holdfast.recourse.result import PROVEN, Recourse
from holdfast.recourse.wording import Wording
from holdfast.report.suppression import FEWEST
from holdfast.tables import like

#: columns of a table of promises that are no features
ABOUT_PROMISES = ("issued", "expires", "model")


def check_method(settings: Settings) -> None:
    """Refuse a method there is not, before any work is done."""
    if settings.method is not None and settings.method not in METHODS:
        raise HoldfastError(
            f"⟦method⟧ must be one of {', '.join(METHODS)}, got {settings.method!r}"
            f"{near_name(settings.method, METHODS)}"
        )


def declared_rules(settings: Settings) -> Any:
    """What people can change where a file says so, read before any work is done."""
    if settings.actionability in ("infer", "none"):
        return None
    return Actionability.from_toml(settings.actionability)


def promised(settings: Settings, *rest: Any) -> Recourse:
    """What people were told, in the words there are for it."""
    wording = Wording.of(settings.labels)
    given = _promised(settings, *rest)
    return given.worded(wording) if wording.terms else given


def _promised(
    settings: Settings,
    model: ErasableModel,
    people: Table,
    train: Table,
    gone: Any,
    target: float,
    rules: Any,
    remarks: Remarks,
    about: About,
    tell: Callable[[str, int, int], None],
) -> Recourse:
    """What people were told: recourses found now, or issued before and alive."""
    if settings.actionability == "infer":
        rules = Actionability.infer(model.frame)
        _say_what_was_inferred(rules, remarks)
    folk = people.X[~belongs_to(people, train, gone)]
    if settings.recourses is not None:
        return _issued(settings, model, folk, rules, target, remarks, about)
    method = settings.method
    if method is None:
        method = "scfe" if model.can.gradients else "growing-spheres"
    about.method = method
    given = find_recourse(
        model,
        folk,
        method,
        target,
        rules,
        settings.overshoot,
        settings.seed,
        cost=settings.cost,
        max_changed=settings.max_changed,
        ways=settings.ways,
        progress=lambda done, total: tell("recourse", done, total),
    )
    if len(given) == 0:
        raise HoldfastError(
            f"nobody needs recourse: all {given.above_target} people score at the target "
            f"{target:g} or above"
        )
    remarks.add(
        f"{int(given.valid.sum()):,} of {len(given):,} people below the target have a recourse "
        f"({', '.join([method, *given.said])}, overshoot {settings.overshoot:g})."
    )
    _say_who_is_blocked(given, remarks)
    if not given.valid.any():
        raise HoldfastError(
            f"no recourse was found for any of {len(given)} people; the first: "
            f"{given.reason.iloc[0]}"
        )
    return given


def _say_who_is_blocked(given: Recourse, remarks: Remarks) -> None:
    """How many can be promised nothing, and what stands in their way."""
    proven = int(given.reason.str.startswith(PROVEN).sum())
    if not proven:
        return
    rules = [f"{given.wording.name(name)} ({many:,})" for name, many in given.blocking.items()]
    remarks.add(
        f"{proven:,} of {len(given):,} people can be promised nothing: it is proven that no change "
        "the rules allow reaches the target"
        + (
            f". Rules that stand in the way by themselves: {', '.join(rules[:5])}."
            if rules
            else "."
        )
    )


def _say_what_was_inferred(rules: Actionability, remarks: Remarks) -> None:
    """By direction and reason, which features; nothing that is anybody's value."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, rule in rules.features.items():
        why = rules.reasons.get(name, "").split(";")[0]
        said = {"frozen": "stays", "up": "may only rise", "down": "may only fall"}
        key = (said.get(rule.direction, "may change"), why if rule.direction != "any" else "")
        groups.setdefault(key, []).append(str(name))
    width = max(map(len, (direction for direction, _ in groups)), default=0)
    lines = [
        f"  {direction:<{width}}  {', '.join(names)}{f' ({why})' if why else ''}"
        for (direction, why), names in sorted(groups.items())
    ]
    head = "What people can change, as inferred (the command rules writes it down for editing):"
    remarks.add("\n".join([head, *lines]), shareable=True)


def issued_table(settings: Settings, people: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The table of promises made before, its columns checked, and what it is called."""
    assert settings.recourses is not None
    if settings.id is None:
        raise HoldfastError("⟦recourses⟧ are matched to people by id: say which column with ⟦id⟧")
    what = str(settings.recourses)
    table = read(settings, settings.recourses, people)
    if settings.id not in table.columns:
        raise HoldfastError(
            f"{what} has no column {settings.id!r} to match people by"
            f"{near_name(settings.id, table.columns)}"
        )
    apart = {settings.label, settings.subject, *settings.drop} - {settings.id}
    table = table.drop(columns=[c for c in apart if c in table and c not in people.columns])
    features = [c for c in table if c not in (settings.id, *ABOUT_PROMISES)]
    for name in features:
        if name not in people.columns:
            raise HoldfastError(
                f"{what} has the column {name!r}, which the model was not fitted on"
                f"{near_name(name, people.columns)}. If it is no feature, pass ⟦drop⟧ {name}"
            )
    if not features:
        raise HoldfastError(f"{what} has no column of the model's features: what was promised?")
    return table, what


def _issued(
    settings: Settings,
    model: ErasableModel,
    people: pd.DataFrame,
    rules: Any,
    target: float,
    remarks: Remarks,
    about: About,
) -> Recourse:
    table, what = issued_table(settings, people)
    assert settings.id is not None
    table = _live(table, settings.as_of or datetime.date.today(), what, remarks, about)
    unique_ids(table[settings.id], f"{what} (live promises)")
    theirs = [as_text(name) in set(people.index) for name in table[settings.id]]
    about.left_out += [
        (as_text(name), "nobody among the people has this id")
        for name, known in zip(table[settings.id], theirs, strict=True)
        if not known
    ]
    if any(theirs) and not all(theirs):
        remarks.add(
            f"{len(theirs) - sum(theirs):,} promises are for nobody among the people and are left "
            "out (the case file names them)."
        )
    if not any(theirs):
        raise HoldfastError(f"no live promise in {what} was made to anybody among the people")
    cells = table[[c for c in table if c not in ABOUT_PROMISES or c in people.columns]]
    cells = like(cells, people, what)
    given = issued_recourse(model, people, cells, target, rules, id=settings.id, cost=settings.cost)
    about.method = "issued"
    bad = given.reason[~given.valid]
    about.left_out += [(as_text(name), str(reason)) for name, reason in bad.items()]
    short = len(given) - int(given.valid.sum())
    remarks.add(
        f"{len(given):,} live promises to people below the target, {short:,} of them not valid "
        "now and left out."
    )
    if not given.valid.any():
        reason = f"; the first: {given.reason.iloc[0]}" if len(given) else ""
        raise HoldfastError(f"no promise in {what} is valid now{reason}")
    return given


def _live(
    table: pd.DataFrame, today: datetime.date, what: str, remarks: Remarks, about: About
) -> pd.DataFrame:
    """Promises already made and not yet expired; the others are counted."""
    now = pd.Timestamp(today)
    expired = early = np.zeros(len(table), dtype=bool)
    if "expires" in table:
        expired = (dates(table["expires"], what) < now).to_numpy()
    if "issued" in table:
        early = (dates(table["issued"], what) > now).to_numpy() & ~expired
    about.expired, about.not_yet_issued = int(expired.sum()), int(early.sum())
    if expired.any() or early.any():
        remarks.add(
            f"Of {len(table):,} promises {int(expired.sum()):,} have expired by {today} and "
            f"{int(early.sum()):,} are not issued yet: they are left out."
        )
    live = table[~expired & ~early]
    if len(live) == 0:
        raise HoldfastError(
            f"{what} has no live promise on {today}: {int(expired.sum())} have expired, "
            f"{int(early.sum())} are not issued yet"
        )
    if "model" in table:
        counts = live["model"].astype(str).value_counts()
        if counts.min() >= FEWEST:  # else one that is hidden follows from the others
            about.issued_under = {str(name): int(count) for name, count in counts.items()}
        if len(counts) > 1:
            remarks.add(f"The live promises were made under {len(counts)} models.")
    return live


def dates(column: pd.Series, what: str) -> pd.Series:
    """Days; an empty cell is no day."""
    cells = column.astype(object).where(column.notna(), None)
    words = cells.astype(str).where(cells.notna(), None)
    days = pd.to_datetime(words, errors="coerce", format="ISO8601", utc=True)
    bad = np.flatnonzero((days.isna() & cells.notna()).to_numpy())
    if bad.size:
        raise HoldfastError(
            f"{what}, row {bad[0] + 1}, column {column.name!r}: {str(cells.iloc[bad[0]])!r} is no "
            "date; dates are written 2026-01-31"
        )
    return days.dt.tz_localize(None).dt.normalize()

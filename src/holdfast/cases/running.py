"""What users ask of a case: audited, hardened, or without some people. No options, no screens."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.arguments import near_name
from holdfast.audits import audit
from holdfast.audits.about import Note
from holdfast.audits.hardening import harden, refuse_unknown_mitigation
from holdfast.audits.hardening.result import Hardening
from holdfast.audits.impacts import Impact, impact
from holdfast.audits.likelihood import erasures_in
from holdfast.audits.result import Audit
from holdfast.cases.blocks import honoured
from holdfast.cases.files import belongs_to, ids_in, refuse_blank_ends
from holdfast.cases.loading import Case
from holdfast.cases.settings import Settings, threshold
from holdfast.errors import HoldfastError
from holdfast.models.refits import Progress
from holdfast.models.scanned import ScannedModel
from holdfast.recourse.actionability import Actionability


def check_audit(settings: Settings) -> None:
    """Refuse what an audit cannot do, before any work is done."""
    for name in ("fail_above", "fail_unproven"):
        threshold(getattr(settings, name), name, settings.max_deletions)
    if (settings.rate is None) != (settings.horizon is None):
        raise HoldfastError("⟦rate⟧ and ⟦horizon⟧ go together: 40/week for 26w")
    if settings.rate is not None:
        erasures_in(settings.rate, str(settings.horizon))


def check_harden(settings: Settings) -> None:
    """Refuse what hardening cannot do, before any work is done."""
    for name in settings.mitigation:
        refuse_unknown_mitigation(name)
    if settings.out is not None and settings.mitigation and "margin" not in settings.mitigation:
        raise HoldfastError(
            "⟦out⟧ writes the recourses of the mitigation 'margin': add ⟦mitigation⟧ margin"
        )


def audit_case(settings: Settings, case: Case, progress: Progress | None = None) -> Audit:
    """The audit the settings ask for, hardening included where it is asked for."""
    deadline = math.inf
    if settings.time_limit is not None:
        deadline = time.monotonic() + settings.time_limit
    above, unproven = (
        threshold(getattr(settings, name), name, settings.max_deletions)
        for name in ("fail_above", "fail_unproven")
    )
    erasures = None
    if settings.rate is not None:
        erasures = erasures_in(settings.rate, str(settings.horizon))
    case.about.rate, case.about.horizon = settings.rate, settings.horizon
    case.about.settings = {"overshoot": settings.overshoot, "jobs": settings.jobs}
    result = audit(
        case.model,
        case.given,
        case.target,
        settings.max_deletions,
        settings.certify,
        settings.seed,
        search=settings.search,
        unit=unit_of(settings),
        draws=settings.draws,
        erasures=erasures,
        cohorts=_cohorts(settings, case),
        at=(above or unproven or (0, None))[1],
        time_limit=settings.time_limit,
        quick=settings.quick,
        n_jobs=settings.jobs,
        progress=progress,
        about=case.about,
        target_rule=settings.target_rule,
        groups=_groups(settings, case),
        max_refits=settings.max_refits,
    )
    _say_who_was_looked_at(case, result)
    if settings.survive is not None:
        if time.monotonic() < deadline:
            result.hardening = harden_case(settings, case, progress)
        else:
            result.missing.append("what would make recourses survive")
    return result


def _say_who_was_looked_at(case: Case, result: Audit) -> None:
    """Of very many rows: how many were looked at one by one, and what is known of the others."""
    looked = result.plan.notes.get("looked at")
    if looked is None:
        return
    if "candidates" in looked:
        if looked["one by one"] < looked["candidates"]:
            said = (
                f"The search looked at {looked['one by one']:,} of {looked['candidates']:,} "
                "candidates, those that do most in a stand-in for the model: none of the others "
                "was tried."
            )
            said += " Certificates are about all of them." if result.proof is not None else ""
            case.about.notes.append(Note(said, shareable=True))
        return
    doubts = looked["steps at which a row not looked at might do more"]
    others = "it is proven at every step that none of the others does more"
    if doubts is None:
        others = "that none of the others does more is not proven"
    elif doubts:
        others = f"whether one of the others does more is open at {len(doubts)} steps"
    said = (
        f"The search looked at {looked['rows']:,} rows ({looked['passes']} passes) and at "
        f"{looked['one by one']:,} of them one by one: {others}. Certificates are about all rows."
    )
    case.about.notes.append(Note(said, shareable=True))


def harden_case(
    settings: Settings, case: Case, progress: Progress | None = None, of_the_audit: bool = True
) -> Hardening:
    """Every mitigation measured on the same people; the baseline is what was audited."""
    return harden(
        case.model,
        case.given.people,
        case.target,
        settings.survive or 3,
        _labelled(case),
        mitigations=settings.mitigation or None,
        actionability=case.given.actionability,
        overshoot=settings.overshoot,
        method=settings.method,
        cost=settings.cost,
        unit=unit_of(settings),
        max_deletions=settings.max_deletions,
        given=case.given if of_the_audit else None,
        random_state=settings.seed,
        n_jobs=settings.jobs,
        progress=progress,
    )


def unit_of(settings: Settings) -> str:
    """What one erasure removes: people where they are known, else rows."""
    return settings.unit or ("subject" if settings.subject else "row")


def _groups(settings: Settings, case: Case) -> Any:
    """The group of everybody with a promise."""
    if settings.group is None:
        return None
    raw = case.people.raw
    if settings.group not in raw.columns:
        raise HoldfastError(
            f"⟦group⟧: the people's table has no column {settings.group!r}"
            f"{near_name(settings.group, raw.columns)}"
        )
    column = raw[settings.group]
    column = column[~column.index.duplicated()]
    return column.reindex(case.given.people.index).to_numpy()


def _cohorts(settings: Settings, case: Case) -> Any:
    if settings.cohort is None:
        return None
    return case.train.raw[settings.cohort].iloc[case.training].to_numpy()


def _labelled(case: Case) -> tuple[Any, Any] | None:
    """People whose outcome is known and who were not trained on: models are judged by them."""
    people, trained = case.people, set(case.train.X.index[case.training])
    if people.label is None or case.labels is None or people.X.index.isin(list(trained)).any():
        return None
    known = people.X.index.isin(case.train.X.index) & people.label.notna().to_numpy()
    if not known.any():
        return None
    rows = case.train.X.index.get_indexer(people.X.index[known])
    return people.X[known], case.labels.values[rows]


def requested(settings: Settings) -> Requests:
    """Whom to erase, by ids and by files of ids."""
    if settings.id is None and settings.subject is None:
        raise HoldfastError("people are erased by id: say which column with ⟦id⟧ or ⟦subject⟧")
    if not (settings.erase or settings.erase_id or settings.erase_file):
        raise HoldfastError("nobody is to be erased: name ids, or files of ids, with ⟦erase⟧")
    refuse_blank_ends([*settings.erase, *settings.erase_id], "⟦erase⟧", "id", "entry")
    ids, files = list(settings.erase_id), list(settings.erase_file)
    either: dict[str, str] = {}
    for word in settings.erase:
        file = os.path.join(settings.erase_folder, word)
        try:
            is_path = os.path.lexists(file)
        except ValueError:
            is_path = False
        if is_path:
            either[file] = word
        (files if is_path else ids).append(file if is_path else word)
    for file in files:
        try:
            ids += ids_in(file, settings)
        except HoldfastError as wrong:
            hint = f". If it is an id, say ⟦erase_id⟧ {either[file]}" if file in either else ""
            raise HoldfastError(f"{wrong.args[0]}{hint}") from None
    return Requests(list(dict.fromkeys(ids)), frozenset(either.values()), settings.delimiter)


@dataclass(frozen=True)
class Requests:
    """Who asks to be erased: ids, and the words that name a file but might be somebody's id."""

    ids: list[str]
    either: frozenset[str] = frozenset()
    delimiter: str = ","


def erase_from_case(
    settings: Settings, case: Case, requests: Requests, progress: Progress | None = None
) -> tuple[Impact, Any]:
    """What honouring some requests does, and the rows of the file that go."""
    tell: Progress = progress or (lambda stage, done, total: None)
    tell("refits without them", 0, 1)
    if isinstance(case.model, ScannedModel):
        inside, rows = requests.ids, honoured(case.model, requests.ids)
        own = case.given.people.index.isin(case.model.owners_of(rows))
    else:
        inside, rows = _inside(case, requests)
        own = _of_the_erased(case, rows)
    found = impact(
        case.model,
        case.given,
        inside,
        case.target,
        own=own,
        overshoot=max(settings.overshoot, case.given.overshoot),
        actionability=_rules_without(settings, case, inside),
        start="scratch" if settings.from_scratch else "fitted",
        confirm=settings.confirm,
        random_state=settings.seed,
        target_rule=settings.target_rule,
    )
    tell("refits without them", 1, 1)
    return found, np.union1d(rows, case.gone)


def _inside(case: Case, requests: Requests) -> tuple[list[str], Any]:
    """The ids with training rows, and the file's rows of everybody named; strangers are refused."""
    known, ids = set(case.names), requests.ids
    for word in requests.either & known:
        raise HoldfastError(
            f"⟦erase⟧ {word!r} is somebody's id and a file: say ⟦erase_id⟧ {word} for the person, "
            f"⟦erase_file⟧ {word} for those the file names. Nothing was done"
        )
    meant = set(ids)
    for name in known - meant:
        if requests.delimiter in name and meant.issuperset(name.split(requests.delimiter)):
            raise HoldfastError(
                f"{name!r} is one id, and its parts are ids too: who is meant? Name them with "
                "⟦erase_id⟧ one by one. Nothing was done"
            )
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise HoldfastError(
            f"unknown id {unknown[0]!r} ({len(unknown)} of {len(ids)} unknown; no file of that "
            "name is there either): nothing was done"
        )
    wanted = set(ids)
    rows = np.flatnonzero([name in wanted for name in case.names])
    fitted = {case.names[row] for row in case.training}
    inside = [name for name in ids if name in fitted]
    if not inside:
        raise HoldfastError("all of them were erased before: there is nothing left to erase")
    return inside, rows


def _of_the_erased(case: Case, rows: Any) -> Any:
    """Which promises were given to those who are erased."""
    gone = case.people.X.index[belongs_to(case.people, case.train, rows)]
    return case.given.people.index.isin(list(gone))


def _rules_without(settings: Settings, case: Case, inside: list[str]) -> Any:
    """Inferred rules are inferred again, so that no bound is an erased person's value."""
    if settings.actionability != "infer":
        return None
    model = case.model
    if isinstance(model, ScannedModel):
        gone = model.positions_of(inside)
        assert model.rows.names is not None
        return Actionability.infer(model.frame[~np.isin(model.rows.names, gone)])
    keep = np.setdiff1d(np.arange(model.rows.n), model.positions_of(inside))
    return Actionability.infer(model.frame.iloc[keep])

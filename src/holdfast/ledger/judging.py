"""What another model does to the promises there are, and what can be promised instead."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from holdfast.ledger.ground import Ground
from holdfast.ledger.records import MANY, pairs
from holdfast.ledger.tables import BROKEN, LIVE, Person, Promise
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import broken as broken_by
from holdfast.models.solving import scores_or_nan
from holdfast.proofs import certify
from holdfast.recourse import find_recourse
from holdfast.recourse.reasons import principal_reasons
from holdfast.recourse.result import changed_cells
from holdfast.recourse.space import Space
from holdfast.recourse.wording import Wording
from holdfast.tables import like

#: why promises of people whom the new model accepts as they are need no advice
ALREADY = "the model says yes as things are"

#: what is told of every broken promise
BROKEN_COLUMNS = ["promise", "id", "new", "short_by", "promised", "now", "certified"]


@dataclass(frozen=True)
class HeldPromises:
    """Promises in force, or broken and not told yet.

    Attributes
    ----------
    lines : of the books, each with the token and the salt of its holder
    points : frame
        What was promised, as the model takes it.
    """

    lines: Sequence[Any]
    points: pd.DataFrame

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def broken_before(self) -> Any:
        """Which were broken already."""
        return np.array([line.state == BROKEN for line in self.lines], dtype=bool)


@dataclass(frozen=True)
class Mend:
    """What somebody with a broken promise can be told.

    ``point`` is what they are to reach now; ``None`` where nothing can be promised, and ``reason``
    says why. ``content`` is what their letter says.
    """

    factual: list[Any]
    point: list[Any] | None
    margin: float | None
    reason: str
    content: dict[str, Any]
    certified: int | None = None


@dataclass
class Outcome:
    """What a model does to promises.

    Attributes
    ----------
    model : ErasableModel
        The new one.
    target : float
        Of its own scores.
    held : HeldPromises
    before, after : ndarray
        Scores of what was promised.
    breaks : ndarray of bool
        Live promises that do not reach the target any more.
    recovers : ndarray of bool
        Broken promises that reach it again.
    mends : dict
        By place, for every promise that is broken now.
    left_over : what could not be tidied up yet
    wording : Wording
        The lender's words.
    """

    model: ErasableModel
    target: float
    held: HeldPromises
    before: Any
    after: Any
    breaks: Any
    recovers: Any
    wording: Wording
    mends: dict[int, Mend] = field(default_factory=dict)
    left_over: list[str] = field(default_factory=list)

    def broken(self) -> pd.DataFrame:
        """Promises that are broken now, worst first, with what their holders are told."""
        lines = []
        for place, mend in self.mends.items():
            promise, short = self.held.lines[place], self.target - float(self.after[place])
            told = {"none": f"nothing can be promised: {mend.reason}", "already": ALREADY}
            lines.append(
                {
                    "promise": promise.id,
                    "id": str(promise.reference),
                    "new": bool(self.breaks[place]),
                    "short_by": None if short != short else short,
                    "promised": self._words(mend.content["was"]),
                    "now": told.get(mend.content["advice"], self._words(mend.content["now"])),
                    "certified": mend.certified,
                }
            )
        table = pd.DataFrame(lines, columns=BROKEN_COLUMNS)
        return table.sort_values("short_by", ascending=False, na_position="first", kind="stable")

    def _words(self, changes: list[dict[str, Any]]) -> str:
        return in_words(self.wording, changes)


def in_words(wording: Wording, changes: list[dict[str, Any]]) -> str:
    """What somebody is to change, in the lender's words."""
    said = [
        f"have {wording.name(c['what'])} at {c['to']}"
        if c["number"] and (c["from"] is None or c["to"] is None)
        else wording.change(c["what"], c["from"], c["to"], c["number"])
        for c in changes
    ]
    return "; ".join(said) or "nothing"


def advice_in_words(ground: Ground, factual: list[Any], point: list[Any]) -> str:
    """What somebody was told to change, in the lender's words."""
    space = Space(ground.model.frame, ground.rules(ground.model))
    (changes,) = changes_between(space, ground.frame([factual]), ground.frame([point]))
    return in_words(Wording.of(ground.kept["labels"]), changes)


def promises_held(
    session: Session, ground: Ground, without: set[int], day: datetime.date
) -> HeldPromises:
    """Promises in force or broken on a day, of everybody but some people."""
    asked = (
        select(
            *(Promise.id, Promise.person_id, Promise.reference, Promise.state, Promise.expires),
            *(Promise.point, Person.token, Person.salt),
        )
        .join(Person, Promise.person_id == Person.id)
        .where(
            Promise.state.in_((LIVE, BROKEN)),
            or_(Promise.expires.is_(None), Promise.expires >= day),
        )
        .order_by(Promise.id)
    )
    lines = [line for line in session.execute(asked) if line.person_id not in without]
    return HeldPromises(lines, ground.frame([line.point for line in lines]))


def judged_again(
    session: Session,
    ground: Ground,
    held: HeldPromises,
    updated: ErasableModel,
    before: Any,
    ahead: int,
) -> Outcome:
    """Every promise under another model; advice for those that are broken then.

    Parameters
    ----------
    before : ndarray
        Scores of what was promised until now.
    ahead : int
        How many erasures certificates of new promises look ahead; 0 for none.
    """
    target = ground.target
    after = scores_of(updated, held)
    short = broken_by(after, target)
    breaks, recovers = short & ~held.broken_before, ~short & held.broken_before
    wording = Wording.of(ground.kept["labels"])
    found = Outcome(updated, target, held, before, after, breaks, recovers, wording)
    wanting = np.flatnonzero(short)
    if wanting.size:
        _mend(ground, found, wanting, _factuals(session, held, wanting), ahead)
    return found


def scores_of(model: ErasableModel, held: HeldPromises) -> Any:
    """Scores of what was promised."""
    return scores_or_nan(model, held.points) if len(held) else np.zeros(0)


def _factuals(session: Session, held: HeldPromises, places: Any) -> list[list[Any]]:
    """What people were like when they got the promises at some places."""
    numbers = [held.lines[place].id for place in places.tolist()]
    known: dict[int, Any] = {}
    for start in range(0, len(numbers), MANY):
        some = Promise.id.in_(numbers[start : start + MANY])
        asked = select(Promise.id, Promise.factual).where(some)
        known.update(pairs(session, asked))
    return [known[number] for number in numbers]


def _mend(
    ground: Ground, outcome: Outcome, wanting: Any, factuals: list[list[Any]], ahead: int
) -> None:
    """Advice under the new model for the promises at some places."""
    model, settings, held = outcome.model, ground.settings, outcome.held
    people = ground.frame(factuals)
    promised = held.points.iloc[wanting].set_axis(people.index, axis=0)
    rules = ground.rules(model)
    given = find_recourse(
        model,
        people,
        settings.method or ("scfe" if model.can.gradients else "growing-spheres"),
        outcome.target,
        rules,
        settings.overshoot,
        settings.seed,
        cost=settings.cost,
        max_changed=settings.max_changed,
    )
    space = Space(model.frame, rules)
    points, why = people.copy(), [ALREADY] * len(people)
    fine = np.ones(len(people), dtype=bool)
    for place, row in enumerate(given.people.index):
        fine[row] = bool(given.valid.iloc[place])
        why[row] = "" if fine[row] else str(given.reason.iloc[place])
    at = given.people.index[given.valid.to_numpy()]
    if len(at):
        rest = people.drop(at)
        points = pd.concat([given.told.loc[at], rest] if len(rest) else [given.told.loc[at]])
        points = like(points.loc[people.index], ground.train.X, "advice")
    good = np.flatnonzero(fine)
    margins = np.full(len(people), np.nan)
    if good.size:
        margins[good] = scores_or_nan(model, points.iloc[good]) - outcome.target
    certified = _certified(ground, model, points, good, outcome.target, ahead)
    reasons = principal_reasons(model, space, people, outcome.target)
    was, now = (changes_between(space, people, other) for other in (promised, points))
    new = ground.cells(points, factuals)
    for row, place in enumerate(wanting.tolist()):
        content = {
            "was": was[row],
            "now": now[row] if fine[row] else [],
            "reasons": [[str(name), way] for name, way in reasons[row]],
            "advice": "none" if not fine[row] else "already" if why[row] == ALREADY else "new",
        }
        outcome.mends[place] = Mend(
            factuals[row],
            new[row] if fine[row] else None,
            float(margins[row]) if fine[row] else None,
            why[row],
            content,
            certified.get(row),
        )


def _certified(
    ground: Ground, model: ErasableModel, points: Any, rows: Any, target: float, ahead: int
) -> dict[int, int]:
    """How many erasures new promises provably survive, where that is asked and known."""
    if not rows.size:
        return {}
    return dict(
        zip(
            rows.tolist(),
            proven(model, points.iloc[rows], target, ahead, ground),
            strict=True,
        )
    )


def proven(
    model: ErasableModel, points: pd.DataFrame, target: float, ahead: int, ground: Ground
) -> list[Any]:
    """For every point how many erasures it provably survives; ``None`` where nothing is proven."""
    nothing: list[Any] = [None] * len(points)
    moving = ground.settings.target_rule != "fixed"
    if ahead == 0 or len(points) == 0 or moving or not model.can.certificate:
        return nothing
    proof = certify(model, points, target, ahead, ground.unit)
    if proof.preprocessing == "kept":  # an erasure refits it
        return nothing
    bound = (proof["status"] != "no bound") | (proof["certified"] > 0)
    numbers = proof["certified"].astype(int)
    return [int(n) if ok and n >= 0 else None for n, ok in zip(numbers, bound, strict=True)]


def changes_between(
    space: Space, before: pd.DataFrame, after: pd.DataFrame
) -> list[list[dict[str, Any]]]:
    """For every row what differs, as letters say it in any language."""
    found: list[list[dict[str, Any]]] = [[] for _ in range(len(before))]
    for row, c, old, new in changed_cells(space, before, after):
        found[row].append(
            {
                "what": str(c.name),
                "from": _plain(old),
                "to": _plain(new),
                "number": c.categories is None,
            }
        )
    return found


def _plain(value: Any) -> Any:
    """A cell as JSON has it."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value.item() if isinstance(value, np.generic) else value

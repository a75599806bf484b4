"""Letters: what people are told when advice they were given does not hold any more.

A template per language has all the words; here numbers, units and codes are put into the lender's
own. A letter speaks of its reader only: never of whoever was erased.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader, PackageLoader, StrictUndefined, TemplateError
from jinja2.exceptions import TemplateNotFound
from jinja2.sandbox import SandboxedEnvironment

from holdfast.errors import HoldfastError
from holdfast.recourse.wording import Wording

#: what a template of somebody's own can come to
FAILURES = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)

#: lines of advice from which a page is set smaller
MANY = 20

#: languages with a template of ours
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class LetterText:
    """What one letter says.

    Attributes
    ----------
    number : int
    to : str
        The reader's own reference.
    advice : {"new", "already", "none"}
    was, now : changes, each with ``what``, ``from``, ``to``, ``number``
        What the reader was told to change, and is told now.
    reasons : name and "low", "high", "other" or "missing"
    """

    number: int
    to: str
    advice: str
    was: list[dict[str, Any]]
    now: list[dict[str, Any]]
    reasons: list[list[str]]

    @property
    def further(self) -> list[dict[str, Any]]:
        """What is left to do for somebody who has done what they were told before."""
        before = {change["what"]: change for change in self.was}
        after = {change["what"]: change for change in self.now}
        left = []
        for name, change in {**before, **after}.items():
            start = before[name]["to"] if name in before else change["from"]
            goal = after[name]["to"] if name in after else change["from"]
            if start != goal:
                left.append({**change, "from": start, "to": goal})
        return left


def letter_page(
    letter: LetterText,
    wording: Wording,
    language: str,
    sender: str,
    day: datetime.date,
    templates: Path | None = None,
) -> str:
    """A letter as one page."""
    words = _Words(wording)
    return _filled(
        f"{language}.html",
        templates,
        number=letter.number,
        to=letter.to,
        advice=letter.advice,
        was=[words.change(each) for each in letter.was],
        now=[words.change(each) for each in letter.now],
        further=[words.change(each) for each in letter.further],
        reasons=[{"name": wording.name(name), "way": way} for name, way in letter.reasons],
        sender=sender,
        day=day,
        many=len(letter.was) + len(letter.now) + len(letter.further) > MANY,
    )


def summary_page(letters: list[LetterText], day: datetime.date) -> str:
    """Which letters there are, for the team that sends them."""
    counts = {kind: sum(each.advice == kind for each in letters) for kind in KINDS}
    return _filled(
        "summary.html", None, letters=letters, counts=counts, kinds=KINDS, day=day, many=False
    )


#: what a letter brings, for the team
KINDS = {
    "new": "new advice",
    "already": "nothing to do: the decision would be favourable as things are",
    "none": "no advice can be given",
}


class _Words:
    """Changes in the lender's words, figures as English has them; templates turn those round."""

    def __init__(self, wording: Wording):
        self._wording = wording

    def change(self, change: dict[str, Any]) -> dict[str, str]:
        name, old, new = change["what"], change["from"], change["to"]
        if not change["number"]:
            said = ["" if v is None else self._wording.category(name, v) for v in (old, new)]
            return {
                "way": "switch",
                "name": self._wording.name(name),
                "old": said[0],
                "new": said[1],
            }
        if old is None or new is None:
            shown = "" if new is None else self._wording.number(name, float(new))
            return {"way": "set", "name": self._wording.name(name), "old": "", "new": shown}
        before, after = self._wording.numbers(name, float(old), float(new))
        way = "raise" if new > old else "lower"
        return {"way": way, "name": self._wording.name(name), "old": before, "new": after}


def _continental(text: str) -> str:
    """12,500.5 as 12.500,5; what follows the number stays."""
    turned = str.maketrans(",.", ".,")
    return re.sub(r"\d([\d.,]*\d)?", lambda found: found[0].translate(turned), text, count=1)


def _filled(name: str, templates: Path | None, **content: Any) -> str:
    """A template filled in: what comes from people is escaped, and a template runs no code."""
    ours = PackageLoader("holdfast.report", "templates/letters")
    own = [] if templates is None else [FileSystemLoader(templates)]
    environment = SandboxedEnvironment(
        loader=ChoiceLoader([*own, ours]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["continental"] = _continental
    try:
        return environment.get_template(name).render(**content)
    except TemplateNotFound as missing:
        raise HoldfastError(
            f"there is no letter template {str(missing)!r}: ⟦language⟧ is one of "
            f"{', '.join(LANGUAGES)}, or one you bring in ⟦templates⟧"
        ) from None
    except (TemplateError, *FAILURES) as wrong:
        raise HoldfastError(f"the letter template {name!r} cannot be filled in: {wrong}") from None

"""Recourses: the points, whether they hold, and what they ask of each person in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import Array
from holdfast.cards import card
from holdfast.recourse.actionability import Actionability
from holdfast.recourse.space import Coordinate, Space
from holdfast.recourse.wording import Wording

#: how the reason begins of those who provably have no recourse
PROVEN = "infeasible"


@dataclass(frozen=True)
class Recourse:
    """What :func:`holdfast.find_recourse` and :func:`holdfast.issued_recourse` return.

    Everything has one entry per person who was below the target, with the index of ``people``.

    Attributes
    ----------
    points, people : frame
        The recourses x̌ and the factuals x. Without a recourse a person's point is their own row.
    valid : Series of bool
        Whether the model itself scores the point at ``goal`` or above and no constraint is broken.
    reason : Series of str
        Why a recourse is not valid; "" for those that are.
    remark : Series of str
        What else a method had to say ("not proven cheapest: out of time"); "" mostly.
    score, cost : Series of float
        The model's score of the point, and the weighted length of the change.
    overshoot_reached : Series of float
        How far past the target each point is, in standard deviations of the training scores.
    target, overshoot, unit, goal : float
        ``goal = target + overshoot * unit``, with ``unit`` that standard deviation.
    above_target : int
        People left out because they score at the target or above already.
    without_recourse : int
        People below the target for whom nothing was issued (issued recourses only).
    method : str
    cost_norm : {"l1", "l2"}
    actionability : Actionability
        What was respected.
    blocking : dict
        By feature, how many of those who provably have no recourse would have one without that
        rule.
    said : tuple of str
        How it was found, where there was a choice.
    ways : dict of Recourse
        Other ways for the same people, by what they are ("fewest changes", "different features");
        not valid where there is none, or none that differs.
    """

    points: pd.DataFrame
    people: pd.DataFrame
    valid: pd.Series
    reason: pd.Series
    remark: pd.Series
    score: pd.Series
    cost: pd.Series
    target: float
    overshoot: float
    unit: float
    above_target: int
    method: str
    cost_norm: str
    space: Space = field(repr=False)
    told: pd.DataFrame = field(repr=False)
    without_recourse: int = 0
    wording: Wording = field(default_factory=Wording, repr=False)
    said: tuple[str, ...] = ()
    blocking: Mapping[Any, int] = field(default_factory=dict, repr=False)
    ways: Mapping[str, Recourse] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def goal(self) -> float:
        """The score every valid recourse reaches."""
        return self.target + self.overshoot * self.unit

    @property
    def actionability(self) -> Actionability:
        """What was respected."""
        return self.space.rules

    @property
    def overshoot_reached(self) -> pd.Series:
        """How far past the target each point is, in standard deviations of the scores."""
        return ((self.score - self.target) / self.unit).rename("overshoot_reached")

    @property
    def success(self) -> float:
        """The share of people with a valid recourse; NaN if there is nobody."""
        return float(self.valid.mean()) if len(self) else float("nan")

    def __repr__(self) -> str:
        return (
            f"<Recourse {self.method}, {len(self)} people, {int(self.valid.sum())} valid, "
            f"target {self.target:.4g} + {self.overshoot:g} deviations>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "people below the target": f"{len(self):,}",
            "with a valid recourse": f"{int(self.valid.sum()):,}",
            "target": f"{self.target:.4g}",
            "overshoot": f"{self.overshoot:g} deviations",
            "found by": ", ".join([self.method, *self.said]),
        }
        some = self.in_words().head(5).to_frame("what to do")
        some["cost"] = self.cost.head(5).round(3)
        return card("Recourse", facts, some)

    def take(self, rows: Any) -> Recourse:
        """The same for some people, by position."""
        per_person = ("points", "people", "valid", "reason", "remark", "score", "cost", "told")
        ways = {name: way.take(rows) for name, way in self.ways.items()}
        some = {name: getattr(self, name).iloc[rows] for name in per_person}
        return replace(self, ways=ways, **some)

    def worded(self, labels: Any) -> Recourse:
        """The same in other words: a file of labels, or a mapping (``Wording``)."""
        wording = Wording.of(labels)
        wording.refuse_unknown(c.name for c in self.space.coordinates)
        ways = {name: way.worded(wording) for name, way in self.ways.items()}
        return replace(self, wording=wording, ways=ways)

    def renamed(self, index: pd.Index) -> Recourse:
        """The same with other names for the people."""
        per_person = ("points", "people", "valid", "reason", "remark", "score", "cost", "told")
        ways = {name: way.renamed(index) for name, way in self.ways.items()}
        named = {name: getattr(self, name).set_axis(index, axis=0) for name in per_person}
        return replace(self, ways=ways, **named)

    def with_rows(self, rows: Any, other: Recourse) -> Recourse:
        """The same with the recourses of some people, by position, taken from another."""
        order = np.arange(len(self))
        order[rows] = len(self) + np.arange(len(other))
        joined = {
            name: pd.concat([getattr(self, name), getattr(other, name)]).iloc[order]
            for name in ("points", "valid", "reason", "remark", "score", "cost", "told")
        }
        index = self.people.index
        return replace(self, **{n: part.set_axis(index, axis=0) for n, part in joined.items()})

    def changes(self) -> pd.DataFrame:
        """One line per change of a valid recourse: who, what, from, to, and in words."""
        columns = ["person", "feature", "from", "to", "in_words"]
        return pd.DataFrame([line[1:] for line in self.lines()], columns=columns)

    def in_words(self) -> pd.Series:
        """What each person must change, as one sentence; or why there is no recourse.

        Numbers are rounded away from the person's own value as far as that costs little, and the
        rounded point is checked like the point itself; where it would not do, the numbers are
        shown in full. ``told`` has the values in the words, :meth:`worded` takes a lender's own
        words for columns and codes.
        """
        said: list[list[str]] = [[] for _ in range(len(self))]
        for line in self.lines():
            said[line[0]].append(line[-1])
        words = [
            "; ".join(changes) if fine else f"no recourse: {reason}"
            for changes, fine, reason in zip(said, self.valid, self.reason, strict=True)
        ]
        return series(words, "in_words", self.people.index).astype(object)

    def in_ways(self) -> pd.DataFrame:
        """Every way of everybody who has one: person, way, in words, and what it costs."""
        lines = []
        for name, way in {"cheapest": self, **self.ways}.items():
            words, valid = way.in_words(), way.valid.to_numpy()
            for i in np.flatnonzero(valid).tolist():
                lines.append(
                    (i, self.people.index[i], name, words.iloc[i], float(way.cost.iloc[i]))
                )
        lines.sort(key=lambda line: line[0])
        columns = ["person", "way", "in_words", "cost"]
        return pd.DataFrame([line[1:] for line in lines], columns=columns)

    def blocked(self) -> pd.DataFrame:
        """How many people can be promised nothing, proven and not; and which rules block them.

        A line per rule: without that one rule, so many of them would reach the target. Linear
        scores only; others have the first two lines.
        """
        bad = self.reason[~self.valid]
        proven = int(bad.str.startswith(PROVEN).sum())
        lines = [("proven: no allowed change reaches the target", proven)]
        lines.append(("none was found", len(bad) - proven))
        lines += [
            (f"blocked by the rule for {self.wording.name(name)} alone", many)
            for name, many in self.blocking.items()
        ]
        return pd.DataFrame(lines, columns=["what", "people"])

    def lines(self) -> list[tuple[int, Any, Any, Any, Any, str]]:
        """Every change: position, person, feature, from, to, words; person by person."""
        lines = []
        for i, c, before, after in changed_cells(self.space, self.people, self.told):
            if self.valid.iloc[i]:
                words = self.wording.change(c.name, before, after, c.categories is None)
                lines.append((i, self.people.index[i], c.name, before, after, words))
        return lines

    def frame(self) -> pd.DataFrame:
        """Everything per person in one table: the points' columns, then what is known of them."""
        extra = [self.valid, self.score, self.overshoot_reached, self.cost, self.reason]
        known = pd.concat([*extra, self.in_words()], axis=1)
        taken = {name: f"recourse_{name}" for name in known if name in self.points}
        return pd.concat([self.points, known.rename(columns=taken)], axis=1)


def series(values: Array | list[Any], name: str, index: pd.Index) -> pd.Series:
    """A named column for the people of ``index``."""
    return pd.Series(values, index=index, name=name)


def changed_cells(
    space: Space, before: pd.DataFrame, after: pd.DataFrame
) -> list[tuple[int, Coordinate, Any, Any]]:
    """What differs between two tables of the same people: place, what, from, to."""
    found = []
    for c in space.coordinates:
        old, new = c.cells(before), c.cells(after)
        changed = (old != new) & ~(pd.isna(old) & pd.isna(new))
        found += [(i, c, old[i], new[i]) for i in np.flatnonzero(changed).tolist()]
    return sorted(found, key=lambda change: change[0])

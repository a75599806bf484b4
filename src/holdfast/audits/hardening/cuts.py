"""Scores after a deletion as linear functions of what people can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import SingularDeletionError
from holdfast.models.erasable import ErasableModel
from holdfast.models.refits import Refits
from holdfast.recourse.problem import Affine, Problem


class Probes:
    """One person, and that person with one coordinate changed at a time: a linear score is known
    by its values there.
    """

    def __init__(self, problem: Problem):
        base = problem.take(np.zeros(1, dtype=np.intp))
        rows, self._steps = [base.factual[0]], []
        for k, c in enumerate(base.space.coordinates):
            codes = None if c.categories is None else np.arange(len(c.categories))
            step = float(c.spread) or 1.0
            self._steps.append((k, step if codes is None else codes.size, codes is None))
            for value in [base.factual[0, k] + step] if codes is None else codes:
                moved = base.factual[0].copy()
                moved[k] = value
                rows.append(moved)
        many = base.take(np.zeros(len(rows), dtype=np.intp))
        many.kept[:] = False
        self.table = many.table(np.array(rows))

    def affine(self, scores: Array) -> Affine:
        """The linear score that has these values at the probes."""
        moved, at = scores[1:] - scores[0], 0
        slopes, values = np.zeros(len(self._steps)), {}
        for k, size, number in self._steps:
            if number:
                slopes[k] = moved[at] / size
                at += 1
            else:
                values[k] = moved[at : at + int(size)]
                at += int(size)
        return Affine(slopes, values)


@dataclass
class Cuts:
    """Scores without some rows, as linear functions of the coordinates.

    ``rows[c]`` is a deletion, ``affine[c]`` the score without it, ``own[c]`` that score of every
    person as they are (q,).
    """

    model: ErasableModel
    problem: Problem
    rows: list[Positions] = field(default_factory=list)
    affine: list[Affine] = field(default_factory=list)
    own: list[Array] = field(default_factory=list)
    seen: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        people = self.problem.table(self.problem.factual)
        self._probes = Probes(self.problem)
        self.scores_now = self.problem.scores(self.problem.factual)
        if self.model.exact:
            self._at_probes = self.model.deletions(self._probes.table)
            self._probed = self.model.scores(self._probes.table)
            self._at_people = self.model.deletions(people)
        else:  # its own solver, to the last digits; cuts and certificates must agree
            self._solved = [Refits(self.model, table) for table in (self._probes.table, people)]

    def add(self, rows: Positions) -> int | None:
        """The number of a cut; ``None`` where the deletion has no unique refit."""
        key = tuple(sorted(rows.tolist()))
        if key not in self.seen:
            gone = np.array(key, dtype=np.intp)
            try:
                probed, own = self._scores_without(gone)
            except SingularDeletionError:
                return None
            if not (np.isfinite(probed).all() and np.isfinite(own).all()):  # a category is gone
                return None
            return self._keep(key, gone, probed, own)
        return self.seen[key]

    def _scores_without(self, gone: Positions) -> tuple[Array, Array]:
        """Scores of the probes and of everybody as they are, without some rows."""
        if not self.model.exact:
            probed, own = (refits.without([gone], by="solver")[0] for refits in self._solved)
            return probed, own
        probed = self._probed - self._at_probes.effect_at(gone)
        return probed, self.scores_now - self._at_people.effect_at(gone)

    def add_refit(self, rows: Positions) -> None:
        """A cut by the model refitted with its preprocessing, which proofs keep as it is."""
        key = ("refit", *sorted(rows.tolist()))
        if key in self.seen:
            return
        people = self.problem.table(self.problem.factual)
        probe, own = (
            Refits(self.model, table).without([rows])[0] for table in (self._probes.table, people)
        )
        if np.isfinite(probe).all() and np.isfinite(own).all():  # a category may be gone
            self._keep(key, rows, probe, own)

    def _keep(self, key: Any, rows: Positions, probed: Array, own: Array) -> int:
        self.seen[key] = len(self.rows)
        self.rows.append(rows)
        self.affine.append(self._probes.affine(probed))
        self.own.append(own)
        return self.seen[key]

    def scores(self, Z: Array, people: Positions) -> Array:
        """Scores without each deletion, (people, cuts)."""
        start = self.problem.factual[people]
        change = np.where(self.problem.space.number, Z - start, 0.0)
        slopes = np.array([a.slopes for a in self.affine])
        found = np.array(self.own)[:, people].T + change @ slopes.T
        for k in self.problem.allowed:
            values = np.array([a.values[k] for a in self.affine])
            was, now = (column[:, k].astype(np.intp) for column in (start, Z))
            switched = ~self.problem.kept[people, k]
            found += np.where(switched[:, None], (values[:, now] - values[:, was]).T, 0.0)
        scores: Array = found
        return scores

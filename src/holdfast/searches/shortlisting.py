"""Which rows of very many are looked at: those that do most, found in one pass over all.

For every recourse the rows that lower its score most; the rows that break most alone, or take most
from margins; those that lower sums of recourses most, with the weights soft counts give them; those
that move the parameters most; and a fair sample. What no row outside can do is known with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import linalg

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array, Positions
from holdfast.models.erasable import ErasableModel
from holdfast.models.passes import Linearised, RowSource
from holdfast.models.screening import Screening, Several
from holdfast.models.shortlist import MANY, SAMPLED, Looked, Shortlist, in_memory, shortlist
from holdfast.recourse.promises import Promises
from holdfast.searches.greedy import soft_weights

#: rows kept for every recourse, and for all together, at most; and by every other way
EACH, TOGETHER, LEADERS = 256, 8_000, 1024

#: rows times recourses up to which all rows are looked at: a joint ceiling can be proven there
ENTRIES = 4_000_000

#: rows taken onto the list for a step at which one outside does more
AGAIN = 64

#: how often a search is made again with more rows
ROUNDS = 4


def shortlisted(
    model: ErasableModel,
    promises: Promises,
    unit: str,
    tell: Callable[[str, int, int], None] | None = None,
    beside: Positions | None = None,
) -> ErasableModel:
    """A model whose rows are few enough to look at all pairs of; itself where they are already.

    Only least squares, and models fitted by blocks, are seen so: there the rows outside are
    bounded. ``beside``: rows that are to be on the list, whatever they do alone.
    """
    if isinstance(model, Shortlist) and not model.is_whole:
        return model
    if not isinstance(model, Shortlist):
        plain = model.can.form == "linear" and not model.can.chooses and model.cutoff is None
        plain &= model.preprocessing is None or model.scales is not None
        few = model.rows.n <= MANY or model.rows.n * promises.kept.size <= ENTRIES
        if not plain or unit != "row" or few or _weighs_classes(model):
            return model
    Z, rows = model.features(promises.kept_points), Rows.of(model, tell)
    work = rows.screening(promises.margins, promises.margins, Z, EACH)
    found = work.over(rows.source, "looking for the rows that do most")
    names = found.names if beside is None else np.union1d(found.names, beside)
    lines = np.ascontiguousarray(Z)
    ceilings = [(row.tobytes(), c) for row, c in zip(lines, found.ceilings.tolist(), strict=True)]
    looked = Looked(dict(ceilings), found.sums)
    if isinstance(model, Shortlist):
        return model.listed(names, looked, tell)
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(model.rows.n, min(SAMPLED, model.rows.n), replace=False))
    return shortlist(model, np.union1d(names, sample), sample, looked)


@dataclass(frozen=True)
class Rows:
    """All rows of a model, and how what they do is worked out.

    Attributes
    ----------
    model : ErasableModel
    source : RowSource
    linearised : Linearised
    """

    model: ErasableModel
    source: RowSource
    linearised: Linearised

    @classmethod
    def of(cls, model: Any, tell: Callable[[str, int, int], None] | None = None) -> Rows:
        """Those of a table in files, or in memory."""
        if isinstance(model, Shortlist):
            return cls(model, model.source(tell), model.linearised)
        return cls(model, in_memory(model), Linearised())

    def screening(self, margins: Array, slack: Array, Z: Array, each: int) -> Screening:
        """The work of finding those that do most to points with features ``Z``."""
        core: Any = self.model.form(str(self.model.can.form))
        queries = core.deletions(Z, "scores", None).queries
        weights = soft_weights(margins, slack)
        return Screening(
            self.linearised,
            core.theta,
            core.design.T,
            queries,
            slack,
            weights,
            each,
            TOGETHER,
            LEADERS,
        )


def doubtful(
    few: Shortlist, promises: Promises, sets: Sequence[Positions], by_count: bool
) -> list[int]:
    """The budgets at which a row outside might do more than the set that was found.

    That is, added to the set of the budget before: it cannot where, after those went, it breaks
    fewer than the set did, or (not ``by_count`` alone) as many and takes less from margins.
    """
    kept = cast(LowRankDeletions, few.deletions(promises.kept_points, preprocessing="kept"))
    whole = few.deletions(promises.kept_points)
    outside, margins, lengths = kept.outside, promises.margins, kept.lengths
    if outside is None:
        return []
    total = float(np.linalg.norm(kept.queries.sum(axis=0)))
    drops = [whole.effect_at(rows) if rows.size else np.zeros(margins.size) for rows in sets]
    open_steps = []
    for k in range(1, len(sets)):
        before, reached = margins - drops[k - 1], margins - drops[k]
        U = kept.factor[sets[k - 1]]
        moved = float(np.linalg.norm(U.T @ kept.solve(sets[k - 1])))
        most = outside.after(lengths, U, moved) + _through_scales(few, kept, k)
        left = before >= 0
        breaks = int(np.sum(~left)) + int(np.sum(left & (most > before)))
        done = int(np.sum(~(reached >= 0)))
        takes = float(np.minimum(most, before)[left].sum())
        if left.all() and few.looked.sums.size:  # all margins together are one more sum
            longer = outside.after(np.array([total]), U, moved)[0] - outside.step * total
            alone = float(few.looked.sums[-1]) * np.sqrt(margins.size)
            takes = min(takes, max(alone, 0.0) * (1.0 + 1e-6) + longer)
        taken = float(np.maximum(before, 0.0).sum() - np.maximum(reached, 0.0).sum())
        if not (done > breaks or (done == breaks and taken >= takes and not by_count)):
            open_steps.append(k)
    return open_steps


def _through_scales(few: Shortlist, kept: LowRankDeletions, k: int) -> Array:
    """What a row outside does to each recourse by its part in the scales, as one of ``k``.

    To first order, and once more for what is beyond it.
    """
    scales, form = few.scales, few.form(str(few.can.form))
    if scales is None or not form.penalised:
        return np.zeros(len(kept.queries))
    if any(column.kind == "quantiles" for column in scales.columns):
        return np.full(len(kept.queries), np.inf)
    first = int(form.intercept)
    pull = (form.penalty * form.theta)[first:]
    slopes = np.abs((kept.queries @ form.design.T[first:].T) * pull)
    found: Array = 2.0 * (slopes @ np.maximum(*scales.outside_shares(k)))
    return found


def overlooked(
    few: Shortlist,
    promises: Promises,
    sets: Sequence[Positions],
    steps: Sequence[int],
    by_count: bool,
) -> Positions:
    """Rows outside that do more than any on the list after some of the sets: one pass."""
    rows = Rows.of(few.whole)
    core: Any = few.form(str(few.can.form))
    assert few.rows.names is not None
    Z, margins = few.features(promises.kept_points), promises.margins
    kept = cast(LowRankDeletions, few.deletions(promises.kept_points, preprocessing="kept"))
    whole = few.deletions(promises.kept_points)
    works = []
    for k in steps:
        gone = sets[k - 1]
        U = kept.factor[gone]
        change = U.T @ kept.solve(gone) if gone.size else np.zeros(U.shape[1])
        root = linalg.cholesky(linalg.inv(np.eye(U.shape[1]) - U.T @ U), lower=True)
        slack = margins - (whole.effect_at(gone) if gone.size else 0.0)
        plain = rows.screening(margins, slack, Z, 1)
        works.append(
            replace(
                plain,
                theta=core.theta - core.design.parameters(change),
                whitening=core.design.T @ root,
                queries=kept.queries @ root,
                leaders=AGAIN,
                gone=few.rows.names[gone],
            )
        )
    parts = list(zip(*rows.source.each(Several(works), "looking again"), strict=True))
    found = [work.folded(part) for work, part in zip(works, parts, strict=True)]
    new = [each.names for each in found if not np.isin(each.first[by_count], few.rows.names)]
    return np.setdiff1d(np.concatenate([*new, np.zeros(0, dtype=np.intp)]), few.rows.names)


def _weighs_classes(model: ErasableModel) -> bool:
    form: Any = model.form(str(model.can.form))
    return getattr(form, "_class_weights", None) is not None

"""Which rows of very many are looked at: those that do most, found in one pass over all.

For every recourse the rows that lower its score most; the rows that break most alone, or take most
from margins; those that lower sums of recourses most, with the weights soft counts give them; those
that move the parameters most; and a fair sample. What no row outside can do is known with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.models.erasable import ErasableModel
from holdfast.models.passes import Linearised, Screening
from holdfast.models.shortlist import MANY, SAMPLED, Looked, Shortlist, in_memory, shortlist
from holdfast.recourse.promises import Promises
from holdfast.searches.greedy import TEMPERATURES, median_margin

#: rows kept for every recourse, and by every other way; and at most by recourses together
EACH, LEADERS, TOGETHER = 48, 1024, 10_000


def shortlisted(
    model: ErasableModel,
    promises: Promises,
    unit: str,
    tell: Callable[[str, int, int], None] | None = None,
) -> ErasableModel:
    """A model whose rows are few enough to look at all pairs of; itself where they are already.

    Only least squares, and models fitted by blocks, are seen so: there the rows outside are
    bounded.
    """
    if isinstance(model, Shortlist) and not getattr(model, "is_whole", False):
        return model
    scanned = getattr(model, "is_whole", False)
    if not scanned:
        plain = model.can.form == "linear" and not model.can.chooses and model.cutoff is None
        if not plain or unit != "row" or model.rows.n <= MANY or _weighs_classes(model):
            return model
    core: Any = model.core
    points, q = promises.kept_points, promises.kept.size
    source = model.source(tell) if scanned else in_memory(model)  # type: ignore[attr-defined]
    linearised = model.linearised if scanned else Linearised()  # type: ignore[attr-defined]
    Z = model.features(points)
    queries = core.deletions(Z, "scores", None).queries
    screening = Screening(
        linearised,
        core.theta,
        core.design.T,
        queries,
        promises.margins,
        soft_weights(promises.margins, promises.margins),
        max(2, min(EACH, TOGETHER // q)),
        LEADERS,
    )
    found = screening.over(source, "looking for the rows that do most")
    ceilings = {row.tobytes(): c for row, c in zip(np.ascontiguousarray(Z), found.ceilings.tolist(), strict=True)}
    if scanned:
        made: ErasableModel = model.listed(found.names, Looked(ceilings), tell)  # type: ignore[attr-defined]
        return made
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(model.rows.n, min(SAMPLED, model.rows.n), replace=False))
    return shortlist(model, np.union1d(found.names, sample), sample, Looked(ceilings))


def soft_weights(margins: Array, slack: Array) -> Array:
    """How much each recourse matters to soft counts with these margins left, (q, ways)."""
    heat = median_margin(margins) * np.array([*TEMPERATURES, np.inf])
    weights = np.cosh(np.clip(slack[:, None] / (2.0 * heat), -300.0, 300.0)) ** -2.0
    found: Array = weights / np.maximum(np.linalg.norm(weights, axis=0), 1e-300)
    return found


def _weighs_classes(model: ErasableModel) -> bool:
    return getattr(model.core, "_class_weights", None) is not None

"""Findings in words a manager understands and a statistician accepts."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.report.words import at_most, people, percent


def by_seeds_alone(share: float | None, refits: int) -> str:
    """What a model that draws breaks with nobody erased: the rest is to be held against that.

    Examples
    --------
    >>> from holdfast.audits.words import by_seeds_alone
    >>> by_seeds_alone(0.12, 3)
    'With nobody erased, other seeds alone break 12 % (3 refits).'
    """
    return f"With nobody erased, other seeds alone break {percent(share)} ({refits} refits)."


def headline(audit: Any, ceiling: float | None) -> str:
    """The finding: how many, what share, what is proven, what chance does, the overshoot."""
    k = audit.headline_at
    q = len(audit.plan.points)
    line = audit.curve.loc[k]
    confirmed = audit.share_broken(k)
    said = [
        f"The strongest attack found erases {people(k, audit.unit)} of "
        f"{audit.counts['units']:,} and breaks {percent(confirmed)} of {q:,} promised recourses, "
        f"confirmed by {'that update' if audit.model.kept else 'refitting'}."
    ]
    if not np.isfinite(confirmed):
        said = [
            f"Without {people(k, audit.unit)} of {audit.counts['units']:,} the model could not be "
            f"refitted: nothing is confirmed about {q:,} promised recourses."
        ]
    if audit.through_preprocessing > 0.005:
        through = ", ".join(audit.channels) or "what refitting the preprocessing changes"
        said.append(
            f"{100 * audit.through_preprocessing:.0f} points of this act through {through}."
        )
    cutoff = audit.model.cutoff
    if cutoff is not None:
        said.append(f"The target is {cutoff.words} and moves with every refit.")
    if audit.model.kept:
        said.insert(0, audit.model.kept)
    if audit.quick:
        said.insert(0, "A first answer: a quick search, nothing proven.")
    if audit.seeds is not None and audit.seeds.draws:
        said.append(by_seeds_alone(audit.seeds.mean, audit.seeds.draws))
    made, most = (audit.plan.notes.get(name) for name in ("refits made", "max refits"))
    if most is not None:
        said.append(f"The search was given {most:,} refits and made {made:,}.")
    if audit.refit_noise:
        said.append(
            f"But refitting with nobody erased breaks {percent(audit.refit_noise)} by itself: the "
            "model is not reproducible, so fix its random_state."
        )
    if ceiling is not None:
        any_ = people(k, audit.unit) if k > 1 else f"single {people(1, audit.unit)[2:]}"
        said.append(f"Proven: no {any_} can break more than {at_most(ceiling)}.")
    elif audit.proof is not None:
        whole = ", preprocessing refitted" if audit.proof.preprocessing == "kept" else ""
        whole = ": certificates are about a fixed target" if cutoff is not None else whole
        said.append(f"No ceiling is proven for {people(k, audit.unit)}{whole}.")
    if np.isfinite(line["random"]):
        said.append(
            f"As many at random break {percent(line['random'])} on average "
            f"(90 % band {percent(line['random_low'])} to {percent(line['random_high'])})."
        )
    said.append(
        f"The recourses overshoot their target by {audit.overshoot:.2g} standard deviations of the "
        "scores (median)."
    )
    if audit.missing:
        said.append(f"Out of time; missing: {', '.join(audit.missing)}.")
    return " ".join(said)

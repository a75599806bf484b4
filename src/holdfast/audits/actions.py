"""What to do now: the findings of an audit turned into things somebody can do."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.report.suppression import FEWEST
from holdfast.report.words import people, percent

#: the share broken below which an overshoot is called enough
ENOUGH = 0.05


def actions(audit: Any) -> list[str]:
    """Sentences, the most useful first; nothing in them is about fewer than ten recourses."""
    told = [_overshoot(audit), _scales(audit), _first_to_expire(audit), _seeds(audit)]
    told += [_blocked(audit), _always(audit)]
    return [sentence for sentence in told if sentence]


def _overshoot(audit: Any) -> str:
    """The smallest overshoot with which few promises break, and what it costs people."""
    table, k = audit.overshoots, audit.headline_at
    if table is None or not len(table):
        return ""
    lines = table[table["deletions"] == k].sort_values("overshoot")
    now = lines[lines["overshoot"] <= audit.overshoot * (1 + 1e-3)].tail(1)
    if not len(now) or float(now["refitted"].iloc[0]) <= ENOUGH:
        return ""
    now = now.iloc[0]
    later = lines[lines["overshoot"] > now["overshoot"]]
    fine = later[later["refitted"] <= ENOUGH]
    chosen = (fine if len(fine) else later.sort_values("refitted")).head(1)
    if not len(chosen) or chosen["refitted"].iloc[0] >= now["refitted"] - 0.01:
        return ""
    chosen = chosen.iloc[0]
    dearer = 100.0 * (chosen["cost"] / now["cost"] - 1.0) if now["cost"] > 0 else 0.0
    return (
        f"Ask people to go further: with an overshoot of {chosen['overshoot']:g} instead of "
        f"{now['overshoot']:g}, {percent(1.0 - chosen['refitted'])} of new promises survive a "
        f"quick attack with {people(k, audit.unit)} (with {now['overshoot']:g} it leaves "
        f"{percent(1.0 - now['refitted'])}), refitted, and a promise costs people "
        f"{max(dearer, 0.0):.0f} % more (median)."
    )


def _scales(audit: Any) -> str:
    if not audit.through_preprocessing > 0.005 or not audit.channels:
        return ""
    return (
        f"Erased rows act through {', '.join(audit.channels)}: clip such columns, use a robust "
        "scaler, or merge rare categories."
    )


def _first_to_expire(audit: Any) -> str:
    """The promises that nothing is proven for, or that break first."""
    if audit.proof is None:
        return ""
    certified = audit.proof["certified"].to_numpy()
    certified = certified[certified >= 0]
    fragile = int(np.sum(certified == 0))
    if not FEWEST <= fragile <= certified.size - FEWEST and fragile != certified.size:
        return ""
    if fragile == certified.size:
        return (
            "No promise is proven to survive even one erasure: check all of them after every refit."
        )
    return (
        f"{fragile:,} of {certified.size:,} promises are not proven to survive even one erasure: "
        "check those first after every refit (the case file names them)."
    )


def _blocked(audit: Any) -> str:
    """Who can be promised nothing; not where that would say something of fewer than ten."""
    if audit.blocked is None:
        return ""
    many = audit.blocked["people"].tolist()
    proven, unfound = many[0], many[1]
    if proven < FEWEST or 0 < unfound < FEWEST:
        return ""
    names = [
        f"{what.removeprefix('blocked by the rule for ').removesuffix(' alone')}"
        for what, count in zip(audit.blocked["what"][2:], many[2:], strict=True)
        if count >= FEWEST
    ]
    rules = f" Rules that stand in the way by themselves: {', '.join(names[:5])}." if names else ""
    return (
        f"{proven:,} people can be promised nothing: it is proven that no change the rules allow "
        f"reaches the target.{rules}"
    )


def _seeds(audit: Any) -> str:
    if audit.seeds is None or not (audit.seeds.mean or 0.0) > ENOUGH:
        return ""
    return (
        "Fix the model's random seed, or average several fits: other seeds alone break "
        f"{percent(audit.seeds.mean)} of the promises, with nobody erased."
    )


def _always(audit: Any) -> str:
    return (
        "Before a request is honoured, the command impact says whose promise breaks and what to "
        "tell them now. A finding here is no ground to refuse or delay an erasure."
    )

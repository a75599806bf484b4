"""What the paper leaves open: the choice made here, and what another would have changed.

The page is made from the results, so that its numbers are those of the run beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from holdfast.paper.judges import BEST, GREEDY, percent
from holdfast.paper.names import NAMES
from holdfast.paper.settings import PRINTED

#: stop and deletions of the points that are quoted
QUOTED = (("0.001", 1), ("0.001", 5), ("0.01", 5), ("0.05", 5))
_DATA = ("admission", "heloc")


def as_markdown(results: pd.DataFrame) -> str:
    """The page."""
    lines = [
        "# What the paper leaves open",
        "",
        "The choice behind the main curves, and what changes with another. Shares are of recourses "
        "invalidated by the paper's greedy search, SCFE, unless it says otherwise. All numbers are "
        "of this run; a dash was not part of it.",
        "",
        "| open | here | otherwise |",
        "|---|---|---|",
    ]
    for open_, ours, otherwise in (*_measured(results), *_UNMEASURED):
        lines.append(f"| {open_} | {ours} | {otherwise} |")
    lines += ["", "## How the regression is written down", "", *_encodings(results)]
    return "\n".join(lines).rstrip() + "\n"


#: choices of which no alternative was measured
_UNMEASURED = (
    (
        "HELOC's regression target",
        "ExternalRiskEstimate; RiskPerformance is dropped",
        "not measured: the text does not name it, the first author's later work uses this one",
    ),
    (
        "the fourth recourse method (four are counted, three named)",
        "Growing Spheres",
        "its own column in every figure: leave it out to have the three",
    ),
    (
        "preprocessing when rows are deleted",
        "kept: fitted once on the training part",
        "not measured here; `holdfast audit` refits it",
    ),
    (
        "the target of regressions",
        "the median training label (the text says median score)",
        "not measured",
    ),
    (
        "scaling, split",
        "numbers to [0, 1] by the training part, 80 / 20",
        "four more splits for Figure 2: the bands",
    ),
    (
        "ANN: α = 10",
        "scikit-learn's `alpha`, which it divides by the number of rows; a seed that ends on a "
        "saddle is passed over",
        "another seed, nobody deleted: *another seed, cold* in the results",
    ),
    (
        "LS-SVM's γ = 1",
        "the kernel's width; 1 is added to its diagonal",
        "not measured",
    ),
    (
        "ties in the greedy search once nothing more breaks",
        "the lowest row, as printed; where rows are to be removed (onion, wide network) the soft "
        "count or the margins left rank them",
        "not measured: arbitrary rows would say nothing",
    ),
)


def _measured(results: pd.DataFrame) -> Iterable[tuple[str, str, str]]:
    """Each choice with the numbers that other choices give."""
    yield (
        "intercept, labels, missing-value flags",
        "as printed: f = wᵀx without an intercept (the NTK has none either), labels relative to "
        "the median, which is the target, and a column for each feature with missing values",
        "the table below",
    )
    yield (
        "how far recourse goes past the target (λ → 0, an early stop)",
        "a grid fixed beforehand; every figure has a page for each",
        _each(
            results,
            lambda data: " → ".join(
                f"{_share(results, data, stop, 5)} at {stop}"
                for stop in ("0.001", "0.01", "0.05", "0.2")
            ),
            "five deletions",
        ),
    )
    yield (
        "where published implementations stop",
        "a column of its own, *as published*: the loops that CARLA ships, not settled (SCFE: "
        "squared errors of the score for regressions; DICE is its random sampling there, and by "
        "gradients where it is settled; CEM's confidence is 0.1 of a deviation for regressions)",
        _each(results, lambda data: _stops(results, data), "five deletions"),
    )
    yield (
        "how many people",
        "everybody below the target",
        _each(
            results,
            lambda data: (
                f"{_share(results, data, '0.001', 5)} of all, "
                f"{_share(results, data, '0.001', 5, people='searched')} of a hundred of them"
            ),
            "0.001, five deletions",
        ),
    )
    yield (
        "people the search has not seen",
        "searched on and judged by the same people, as in the paper",
        _each(
            results,
            lambda data: (
                f"{_mean(results, data, 'searched')} of those searched on, "
                f"{_mean(results, data, 'held out')} of others"
            ),
            "0.001, five deletions, mean over splits",
        ),
    )
    yield (
        "the search",
        "the paper's greedy in the figures that bear its name; ours apart",
        _each(
            results,
            lambda data: (
                f"{_share(results, data, '0.01', 5)} greedy, "
                f"{_share(results, data, '0.01', 5, series=BEST)} best"
            ),
            "0.01, five deletions",
        ),
    )
    yield (
        "what people may change",
        "anything, by any fraction",
        _each(
            results,
            lambda data: (
                f"{_share(results, data, '0.001', 5)} without rules, "
                f"{_ruled(results, data, 'ℓ1')} with them (ℓ1), {_ruled(results, data, 'ℓ2')} (ℓ2)"
            ),
            "0.001, five deletions, linear",
        ),
    )
    yield (
        "the cost recourse is found by when Φ is measured",
        "ℓ1, the paper's; the closed form's ℓ2 beside it",
        _each(
            results,
            lambda data: (
                f"gates move recourse {_times(results, data, 'l1')} as far as random "
                f"(ℓ1), {_times(results, data, 'l2')} (ℓ2)"
            ),
            "0.001, five deletions, linear",
        ),
    )
    yield (
        "refits of networks",
        "warm, from the fitted weights",
        _wide(results),
    )
    few = results[results["target"] == "median score"][["data", "model"]].drop_duplicates()
    named = sorted(f"{NAMES[d]} ({NAMES[m]})" for d, m in few.itertuples(index=False))
    yield (
        "fewer than 100 people below even odds",
        "the median training score is the target there",
        ", ".join(named) or "–",
    )


def _each(results: pd.DataFrame, said: Any, what: str) -> str:
    there = [d for d in _DATA if ((results["data"] == d) & (results["figure"] == "outcome")).any()]
    words = "; ".join(f"{NAMES[data]} {said(data)}" for data in there)
    return f"{what}: {words}" if words else "–"


def _found(results: pd.DataFrame, **where: Any) -> pd.DataFrame:
    found = results[results["by"] != "predicted"]
    for column, value in where.items():
        found = found[found[column] == value]
    return found


def _told(found: pd.DataFrame) -> str:
    return percent(found["value"].iloc[0]) if len(found) else "–"


def _share(
    results: pd.DataFrame,
    data: str,
    stop: str,
    deletions: int,
    *,
    model: str = "linear",
    series: str = GREEDY,
    encoding: str = PRINTED.name,
    people: str = "all",
) -> str:
    """The share broken at one point of a curve."""
    return _told(
        _found(
            results,
            figure="outcome" if encoding == PRINTED.name else "encodings",
            measure="invalidated",
            data=data,
            stop=stop,
            deletions=deletions,
            model=model,
            method="scfe",
            series=series,
            encoding=encoding,
            people=people,
            split=0,
        )
    )


def _mean(results: pd.DataFrame, data: str, people: str) -> str:
    found = _found(
        results,
        figure="outcome",
        measure="invalidated",
        data=data,
        stop="0.001",
        deletions=5,
        model="linear",
        series=BEST,
        people=people,
    )
    return percent(found["value"].mean()) if len(found) else "–"


def _stops(results: pd.DataFrame, data: str) -> str:
    where = {"figure": "outcome", "data": data, "model": "linear", "method": "scfe"}
    past = _found(
        results, **where, stop="as published", measure="overshoot reached", series="median"
    )
    median = f"{past['value'].iloc[0]:.3f}" if len(past) else "–"
    share = _share(results, data, "as published", 5)
    return f"SCFE ends {median} past the target (median): {share}"


def _ruled(results: pd.DataFrame, data: str, cost: str) -> str:
    return _told(
        _found(
            results,
            figure="rules",
            data=data,
            model="linear",
            stop="0.001",
            deletions=5,
            series=f"{GREEDY}, rules, {cost}",
        )
    )


def _times(results: pd.DataFrame, data: str, cost: str) -> str:
    found = _found(
        results,
        figure="action",
        data=data,
        model="linear",
        stop="0.001",
        deletions=5,
        measure=f"phi2, {cost} cost",
    ).set_index("series")["value"]
    if not {"gates", "random"} <= set(found.index):
        return "–"
    return f"{found['gates'] / found['random']:.1f} ×"


def _wide(results: pd.DataFrame) -> str:
    found = _found(results, figure="wide", measure="invalidated")
    said = [
        f"{stop}: another seed, nobody deleted, breaks {_told(here)}"
        for stop, here in found[found["series"] == "another seed, cold"].groupby("stop")
    ]
    return "the wide network, " + "; ".join(said) if said else "–"


def _encodings(results: pd.DataFrame) -> list[str]:
    """Shares of linear models and the NTK in every encoding, one line each."""
    known = results[results["figure"] == "encodings"]
    lines = [
        "| data | model | written down | " + " | ".join(f"{s}, k = {k}" for s, k in QUOTED) + " |",
        "|---|---|---|" + "---|" * len(QUOTED),
    ]
    for data in _DATA:
        for model in ("linear", "ntk"):
            here = known[(known["data"] == data) & (known["model"] == model)]
            for encoding in (PRINTED.name, *sorted(here["encoding"].unique())):
                cells = [
                    _share(results, data, stop, k, model=model, encoding=encoding)
                    for stop, k in QUOTED
                ]
                name = f"**{encoding}** (the main curves)" if encoding == PRINTED.name else encoding
                lines.append(
                    f"| {NAMES[data]} | {NAMES[model]} | {name} | " + " | ".join(cells) + " |"
                )
    return lines

"""What the results say about a claim at one stop and in one encoding.

A judge is given the results measured at one overshoot (or where methods stop by themselves), in one
encoding, and says what was measured, of how many people and cells, and whether the claim holds by
the rule written beside it. Points that no refit confirmed count for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast.paper.names import NAMES

#: 95 % to the nearest whole percent
REACHED = 0.945
GREEDY, BEST = "greedy-count", "best"


@dataclass(frozen=True)
class Finding:
    """What was measured: in words, on how much, and whether the claim holds."""

    measured: str
    holds: bool
    basis: str = ""


Judge = Callable[[pd.DataFrame], Finding | None]


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def basis(found: pd.DataFrame) -> str:
    """How many cells and people a finding rests on."""
    cells = len(found[["figure", "data", "model", "method"]].drop_duplicates())
    people = found["count"].dropna()
    said = f"{cells} cell{'s' if cells != 1 else ''}"
    if people.empty:
        return said
    low, high = int(people.min()), int(people.max())
    return f"{said}, {low:,}{f' to {high:,}' if high > low else ''} people"


def cell(row: Any) -> str:
    """Data set, model, method and people of a row."""
    names = [NAMES[row["data"]], NAMES[row["model"]], NAMES[row["method"]]]
    people = "" if pd.isna(row["count"]) else f", {int(row['count']):,} people"
    return ", ".join(names) + people


def _most(found: pd.DataFrame, column: str) -> Any:
    """The row with the largest value of a column."""
    return found.iloc[int(found[column].to_numpy().argmax())]


def shares(
    results: pd.DataFrame, figures: tuple[str, ...], series: str, people: str = "all"
) -> pd.DataFrame:
    """Shares invalidated, as far as they were confirmed; on the first split where it matters."""
    return results[
        results["figure"].isin(figures)
        & (results["measure"] == "invalidated")
        & (results["people"] == people)
        & (results["series"] == series)
        & (results["by"] != "predicted")
    ]


def most_broken(
    deletions: int, figures: tuple[str, ...], series: str, models: tuple[str, ...] | None = None
) -> Judge:
    """The largest share that many deletions break."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = shares(results, figures, series)
        found = found[found["deletions"] == deletions]
        if models is not None:
            found = found[found["model"].isin(models)]
        if found.empty:
            return None
        top = _most(found, "value")
        said = f"{percent(top['value'])} ({cell(top)})"
        holds = bool(top["value"] >= REACHED)
        others = found[found["data"] != top["data"]]
        if top["data"] == "compas" and len(others):  # few people, and one data set that others lack
            next_ = _most(others, "value")
            said += f"; without COMPAS {percent(next_['value'])} ({cell(next_)})"
        return Finding(said, holds, basis(found))

    return judge


def ntk_needs_more(results: pd.DataFrame) -> Finding | None:
    """By SCFE and the greedy search: where linear models and the NTK first reach 95 %."""
    found = shares(results, ("outcome",), GREEDY)
    found = found[found["method"] == "scfe"]
    if not {"linear", "ntk"} <= set(found["model"]):
        return None
    said, holds = [], []
    for data, here in found.groupby("data"):
        at = {}
        for model, curve in here[here["value"] >= REACHED].groupby("model"):
            at[model] = int(curve["deletions"].min())
        words = {m: f"at {at[m]}" if m in at else "not within 14" for m in ("linear", "ntk")}
        said.append(f"{NAMES[str(data)]}: linear {words['linear']}, NTK {words['ntk']}")
        holds.append("ntk" in at and 7 <= at["ntk"] <= 11 and at.get("linear", 99) < at["ntk"])
    return Finding("; ".join(said), all(holds), basis(found))


def linear_beside_ntk(series: str, deletions: int, linear_above: bool) -> Judge:
    """The mean difference over data sets, with what splits and draws change in its error."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = shares(results, ("outcome",), series, "searched")
        found = found[(found["deletions"] == deletions) & (found["method"] == "scfe")]
        table = found.pivot_table(index=["split", "data"], columns="model", values="value")
        if not {"linear", "ntk"} <= set(table.columns):
            return None
        apart = (table["linear"] - table["ntk"]).dropna().groupby("split").mean()
        if len(apart) < 2:
            return None
        error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
        mean = float(apart.mean())
        said = (
            f"linear {100 * table['linear'].mean():.1f} %, NTK {100 * table['ntk'].mean():.1f} %; "
            f"difference {100 * mean:+.1f} ± {100 * error:.1f} points over {len(apart)} splits"
        )
        holds = (mean if linear_above else -mean) > 2 * error
        return Finding(said, bool(holds and error > 0), basis(found))

    return judge


def similar_methods(results: pd.DataFrame) -> Finding | None:
    """How far apart methods are for the same data and model, at five deletions."""
    found = shares(results, ("outcome",), GREEDY)
    found = found[(found["deletions"] == 5) & (found["model"] == "linear")]
    spans = found.groupby("data")["value"].agg(["min", "max", "count"])
    spans = spans[spans["count"] > 1]
    if spans.empty:
        return None
    said = "; ".join(
        f"{NAMES[str(data)]} {percent(row['min'])} to {percent(row['max'])}"
        for data, row in spans.iterrows()
    )
    return Finding(said, bool(((spans["max"] - spans["min"]) <= 0.1).all()), basis(found))


def _beside_random(results: pd.DataFrame, figures: tuple[str, ...], series: str) -> pd.DataFrame:
    keys = ["figure", "data", "model", "method", "deletions"]
    ours = shares(results, figures, series).set_index(keys)[["value", "count"]]
    random = shares(results, figures, "random").set_index(keys)["value"]
    both = ours.join(random.rename("random"), how="inner").dropna(subset=["value", "random"])
    return both.assign(points=both["value"] - both["random"]).reset_index()


def always_above_random(series: str) -> Judge:
    """Ahead of random at nearly all points, and clearly somewhere on nearly all curves."""

    def judge(results: pd.DataFrame) -> Finding | None:
        both = _beside_random(results, ("outcome", "classification"), series)
        if both.empty:
            return None
        over = both.groupby(["figure", "data", "model", "method"])["points"].max()
        clear, above = float((over >= 0.1).mean()), float((both["points"] > 0).mean())
        said = (
            f"ahead at {percent(above)} of {len(both)} points; by 10 points somewhere in "
            f"{percent(clear)} of {len(over)} curves"
        )
        return Finding(said, above >= 0.95 and clear >= 0.95, basis(both))

    return judge


def points_over_random(figure: str, series: str, needed: float) -> Judge:
    """The most a curve is above random."""

    def judge(results: pd.DataFrame) -> Finding | None:
        both = _beside_random(results, (figure,), series)
        if both.empty:
            return None
        top = _most(both, "points")
        where = f"{cell(top)}, {top['deletions']:.0f} deleted"
        said = f"up to {100 * top['points']:.0f} points ({where})"
        if figure == "wide":
            said += _noise_of_wide(results)
        return Finding(said, bool(100 * top["points"] >= needed), basis(both))

    return judge


def _noise_of_wide(results: pd.DataFrame) -> str:
    cold = results[(results["figure"] == "wide") & (results["by"] == "refit, cold")]
    told = {row["series"]: row["value"] for _, row in cold.iterrows()}
    if "another seed, cold" not in told:
        return ""
    warm = shares(results, ("wide",), "greedy on the NTK")
    five = warm[warm["deletions"] == 5]["value"]
    said = f"; another seed alone, nobody deleted, breaks {percent(told['another seed, cold'])}"
    if "the same seed, cold" in told and len(five):
        said += (
            f"; five deletions {percent(five.iloc[0])} by warm refits, "
            f"{percent(told['the same seed, cold'])} by cold ones"
        )
    return said


def gates_beat_random(cost: str) -> Judge:
    """How many times as far gates move recourse as random deletions do."""

    def judge(results: pd.DataFrame) -> Finding | None:
        names = [f"phi2, {cost} cost"] + (["phi2, as published cost"] if cost == "l1" else [])
        found = results[(results["figure"] == "action") & results["measure"].isin(names)]
        table = found.pivot_table(
            index=["data", "model", "deletions"], columns="series", values="value"
        )
        if not {"gates", "random"} <= set(table.columns):
            return None
        ratio = (table["gates"] / table["random"]).dropna()
        if ratio.empty:
            return None
        least: Any = ratio.idxmin()
        where = f"{NAMES[least[0]]}, {NAMES[least[1]]}, {least[2]} deleted"
        said = f"{ratio.min():.2f} ({where}) to {ratio.max():.0f} times random"
        return Finding(said, bool(ratio.min() >= 2.0), basis(found))

    return judge


def critical_rows(results: pd.DataFrame) -> Finding | None:
    """Whether the greedy search's rows are unusual by label or by leverage."""
    found = results[(results["figure"] == "bounds") & (results["measure"] == "rank among all rows")]
    if found.empty:
        return None
    ranks = found.groupby("series")["value"].median()

    def said(name: str) -> str:
        return f"percentile {100 * ranks[f'critical rows: {name}']:.0f}"

    words = f"label errors: {said('error of the label')}; leverage: {said('leverage')}"
    return Finding(words, bool(ranks["critical rows: either"] >= 0.9), basis(found))


def factor_of_action(results: pd.DataFrame) -> Finding | None:
    """How well ‖d‖‖x‖/‖w‖ ranks Φ₂, beside its parts, and what explains the rest."""
    found = results[(results["figure"] == "bounds") & (results["measure"] == "rank correlation")]
    if found.empty:
        return None
    table = found.pivot_table(index="data", columns="series", values="value")
    whole, parts = "‖d‖‖x‖/‖w‖", ("‖d‖ alone", "‖x‖ alone")
    said, holds = [], []
    for data, row in table.iterrows():
        others = max(row[part] for part in parts)
        said.append(
            f"{NAMES[str(data)]} {row[whole]:.2f} [{row[f'{whole}, low']:.2f}, "
            f"{min(1.0, row[f'{whole}, high']):.2f}] (‖d‖ alone {row['‖d‖ alone']:.2f}, ‖x‖ alone "
            f"{row['‖x‖ alone']:.2f}; w's turn × distance {row['turn of w × distance']:.2f}, with "
            f"the change of distance {row['both, added in squares']:.3f})"
        )
        holds.append(row[f"{whole}, low"] > 0 and row[whole] > others)
    return Finding("; ".join(said), all(holds), basis(found))


def onion(series: str) -> Judge:
    """How much lower curves are once the 15 most critical rows are gone."""

    def judge(results: pd.DataFrame) -> Finding | None:
        lower, found = _lower(results, series)
        if lower.empty:
            return None
        said = f"between {lower.max():.0f} points lower and {max(0.0, -lower.min()):.0f} higher"
        mean = f"{abs(lower.mean()):.1f} {'lower' if lower.mean() >= 0 else 'higher'} on average"
        holds = bool(lower.max() >= 5.5 and lower.mean() > 0)
        return Finding(f"{said}, {mean}", holds, basis(found))

    return judge


def _lower(results: pd.DataFrame, series: str) -> tuple[Any, pd.DataFrame]:
    keys = ["data", "model", "deletions"]
    before = shares(results, ("onion",), f"{series}, before")
    after = shares(results, ("onion",), f"{series}, after").set_index(keys)["value"]
    return (100 * (before.set_index(keys)["value"] - after)).dropna(), before


def minimised(results: pd.DataFrame) -> Finding | None:
    """What is left to break once the critical rows were minimised out, and what it costs."""
    keys = ["data", "model"]
    before = shares(results, ("onion",), f"{BEST}, before")
    after = shares(results, ("onion",), f"{BEST}, after")
    five = [x[x["deletions"] == 5].set_index(keys)["value"] for x in (before, after)]
    both = pd.concat(five, axis=1, keys=["before", "after"]).dropna()
    both = both[both["before"] > 0]
    told = results[(results["figure"] == "onion") & (results["measure"] == "quality")]
    quality = told.pivot_table(index=keys, columns="series", values="value")
    if both.empty or quality.empty:
        return None
    left = float((both["after"] / both["before"]).mean())
    fall = float((quality["before"] - quality["after"]).max())
    said = (
        f"five deletions still break {percent(left)} as many on average ("
        f"{percent(both['before'].mean())} → {percent(both['after'].mean())}); R² changes by at "
        f"most {fall:.3f}"
    )
    return Finding(said, left <= 0.5 and fall <= 0.01, basis(before))


def success(exception: bool) -> Judge:
    """For how many recourse is found; Admission with the NTK apart."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = results[results["measure"].eq("success") & results["figure"].ne("wide")]
        found = found[found["count"] > 0]
        special = found["figure"].eq("outcome") & found["data"].eq("admission")
        special &= found["model"] == "ntk"
        found = found[special if exception else ~special]
        if found.empty:
            return None
        low = found.sort_values("value").iloc[0]
        said = f"at least {100 * low['value']:.1f} % ({cell(low)})"
        fine = found["value"].between(0.5, 0.7).all() if exception else low["value"] > 0.95
        return Finding(said, bool(fine), basis(found))

    return judge


def turns_down(results: pd.DataFrame) -> Finding | None:
    """Whether the gates' curves fall beyond five deletions, and more so with a weak weight."""
    keys = ["data", "model", "method"]
    falls, found = {}, results
    for series in ("gates", "gates, weak ℓ0"):
        found = shares(results, ("gates",), series)
        if found.empty:
            return None
        curves = found.pivot_table(index=keys, columns="deletions", values="value")
        highest = np.maximum.accumulate(curves.to_numpy(), axis=1)
        falls[series] = 100 * np.nanmax((highest - curves.to_numpy())[:, 5:], axis=1)
    weak, strong = falls["gates, weak ℓ0"], falls["gates"]
    said = (
        f"weak: {int(np.sum(weak >= 1))} of {len(weak)} curves fall by a point or more (up to "
        f"{weak.max():.0f}); default: {int(np.sum(strong >= 1))} (up to {strong.max():.0f})"
    )
    return Finding(said, bool(np.sum(weak >= 1) > np.sum(strong >= 1)), basis(found))


def jackknife(model: str) -> Judge:
    """How well the jackknife foretells what refits say."""

    def judge(results: pd.DataFrame) -> Finding | None:
        here = results[(results["figure"] == "classification") & (results["model"] == model)]
        ranks = here[here["measure"] == "jackknife, rank correlation"]
        ratio = here[here["measure"] == "jackknife, predicted / refitted"]
        told = shares(here, ("classification",), GREEDY)
        off = 100 * (told["value"] - told["predicted"]).abs().dropna()
        ranks = ranks[ranks["series"] == GREEDY]
        ratio = ratio[ratio["series"] == GREEDY]
        if ranks.empty or off.empty:
            return None
        said = (
            f"rank correlation of drops {ranks['value'].min():.2f} to {ranks['value'].max():.2f}, "
            f"predicted over refitted {ratio['value'].min():.2f} to {ratio['value'].max():.2f}; "
            f"shares off by {off.median():.1f} points (median), at most {off.max():.0f}"
        )
        return Finding(said, bool(ranks["value"].median() >= 0.95 and off.max() <= 5), basis(ranks))

    return judge


def privacy(results: pd.DataFrame) -> Finding | None:
    """Whether private training saves promises, and what it costs."""
    here = results[results["figure"] == "privacy"]
    five = here[(here["measure"] == "invalidated") & (here["deletions"] == 5)]
    if five.empty:
        return None
    told = {
        "broken": five,
        "quality": here[here["measure"] == "quality"],
        "noise": here[here["measure"] == "broken by fresh noise"],
    }
    mean = {name: some.groupby("series")["value"].mean().to_dict() for name, some in told.items()}
    said = [f"as it is {percent(mean['broken']['as it is'])} broken by 5"]
    keys = ["data", "model"]
    fine = []
    for series in ("ε = 100", "ε = 10", "ε = 1"):
        if series not in mean["broken"]:
            continue
        said.append(
            f"{series}: {percent(mean['broken'][series])}, fresh noise alone "
            f"{percent(mean['noise'].get(series, float('nan')))}, quality "
            f"{mean['quality'][series]:.2f} instead of {mean['quality']['as it is']:.2f}"
        )
        pairs = [x[x["series"].isin([series, "as it is"])] for x in (five, told["quality"])]
        broken, good = (x.pivot_table(index=keys, columns="series", values="value") for x in pairs)
        noise = told["noise"][told["noise"]["series"] == series]["value"]
        fine.append(
            bool(
                (broken[series] <= 0.5 * broken["as it is"]).all()
                and (good[series] >= good["as it is"] - 0.05).all()
                and (noise <= 0.05).all()
            )
        )
    return Finding("; ".join(said), any(fine), basis(five))


def bounds_hold(results: pd.DataFrame) -> Finding | None:
    """Whether every bound lies above what it bounds, and how far."""
    here = results[results["figure"] == "bounds"]
    least = here[here["measure"] == "least bound / measured"]
    loose = here[here["measure"] == "bound / measured"]
    if least.empty:
        return None
    said = []
    for name in sorted(loose["series"].unique()):
        values = loose[loose["series"] == name]["value"]
        low, high = values.min(), values.max()
        said.append(f"{name} {low:,.0f}{f' to {high:,.0f}' if round(high) > round(low) else ''} ×")
    return Finding("; ".join(said), bool((least["value"] >= 1 - 1e-9).all()), basis(least))

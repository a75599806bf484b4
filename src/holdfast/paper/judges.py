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
from scipy.stats import t as student

from holdfast.paper.names import NAMES

#: 95 % to the nearest whole percent
REACHED = 0.945
GREEDY, BEST = "greedy-count", "best"
#: what the target is where too few score below the paper's
SUBSTITUTE = "median score"
#: more deletions than are ever tried
NEVER = 99
#: a share below which nothing can be said about a part of it, and people that make a sample
SOMEBODY, ENOUGH = 0.05, 100


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
    model = "wide" if row["figure"] == "wide" else row["model"]
    names = [NAMES[row["data"]], NAMES[model], NAMES[row["method"]]]
    people = "" if pd.isna(row["count"]) else f", {int(row['count']):,} people"
    return ", ".join(names) + people


def _most(found: pd.DataFrame, column: str) -> Any:
    """The row with the largest value of a column."""
    return found.iloc[int(found[column].to_numpy().argmax())]


def shares(
    results: pd.DataFrame, figures: tuple[str, ...], series: str, people: str = "all"
) -> pd.DataFrame:
    """Shares invalidated, as far as they were confirmed."""
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
    """The largest share that many deletions break, of recourses with the paper's own target."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = shares(results, figures, series)
        found = found[found["deletions"] == deletions]
        if models is not None:
            found = found[found["model"].isin(models)]
        own = found[found["target"] != SUBSTITUTE]
        if own.empty:
            return None
        top = _most(own, "value")
        said = f"{percent(top['value'])} ({cell(top)})"
        holds = bool(top["value"] >= REACHED)
        others = own[own["data"] != top["data"]]
        if top["data"] == "compas" and len(others):  # few people, and one data set that others lack
            next_ = _most(others, "value")
            said += f"; without COMPAS {percent(next_['value'])} ({cell(next_)})"
        rest = found[found["target"] == SUBSTITUTE]
        if len(rest) and rest["value"].max() > top["value"]:
            next_ = _most(rest, "value")
            said += f"; with a substituted target {percent(next_['value'])} ({cell(next_)})"
        return Finding(said, holds, basis(own))

    return judge


def ntk_first_reaches(later: bool) -> Judge:
    """By SCFE and the greedy search: where linear models and the NTK first reach 95 %.

    Whether the NTK needs more deletions than the linear model on each data set, or about nine.
    """

    def judge(results: pd.DataFrame) -> Finding | None:
        found = shares(results, ("outcome",), GREEDY)
        found = found[(found["method"] == "scfe") & found["model"].isin(["linear", "ntk"])]
        said, holds = [], []
        for data, here in found.groupby("data"):
            if here["model"].nunique() < 2:
                return None
            at = {"linear": NEVER, "ntk": NEVER}
            for model, curve in here[here["value"] >= REACHED].groupby("model"):
                at[str(model)] = int(curve["deletions"].min())
            words = {m: f"at {k}" if k < NEVER else "not within 14" for m, k in at.items()}
            said.append(f"{NAMES[str(data)]}: linear {words['linear']}, NTK {words['ntk']}")
            holds.append(at["linear"] < at["ntk"] if later else 7 <= at["ntk"] <= 11)
        return Finding("; ".join(said), all(holds), basis(found)) if said else None

    return judge


def linear_beside_ntk(series: str, deletions: int, linear_above: bool) -> Judge:
    """The difference on each data set, with what splits and draws change in its interval.

    Where neither model loses anybody there is nothing to compare.
    """

    def judge(results: pd.DataFrame) -> Finding | None:
        found = shares(results, ("outcome",), series, "searched")
        found = found[(found["deletions"] == deletions) & (found["method"] == "scfe")]
        said, holds = [], []
        for data, here in found.groupby("data"):
            table = here.pivot_table(index="split", columns="model", values="value").dropna()
            if not {"linear", "ntk"} <= set(table.columns) or len(table) < 2:
                continue
            apart = table["linear"] - table["ntk"]
            if table.max(axis=None) == 0:
                continue
            error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
            wide = float(student.ppf(0.975, len(apart) - 1)) * error
            mean = float(apart.mean())
            said.append(
                f"{NAMES[str(data)]} linear {100 * table['linear'].mean():.1f} %, NTK "
                f"{100 * table['ntk'].mean():.1f} %, difference {100 * mean:+.1f} "
                f"± {100 * wide:.1f} points"
            )
            holds.append((mean if linear_above else -mean) > wide)
        if not said:
            return None
        splits = found["split"].nunique()
        return Finding("; ".join(said), all(holds), f"{splits} splits, {basis(found)}")

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
        both = _beside_random(results, ("outcome",), series)
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


def classifiers_over_random(series: str) -> Judge:
    """The most each classifier's curves are above random, with the paper's own target."""

    def judge(results: pd.DataFrame) -> Finding | None:
        keep = results["target"] != SUBSTITUTE
        both = _beside_random(results[keep], ("classification",), series)
        if both.empty:
            return None
        tops = [_most(here, "points") for _, here in both.groupby("model")]
        said = [
            f"{100 * top['points']:.0f} points ({cell(top)}, {top['deletions']:.0f} deleted)"
            for top in tops
        ]
        holds = len(tops) == 3 and all(100 * top["points"] >= 74.5 for top in tops)
        return Finding("; ".join(said), bool(holds), basis(both))

    return judge


def wide_network(results: pd.DataFrame) -> Finding | None:
    """The wide network without the NTK's critical rows: beside random ones, and its own noise."""
    here = results[results["figure"] == "wide"]
    both = _beside_random(here, ("wide",), "greedy on the NTK")
    cold = here[here["by"] == "refit, cold"].set_index("series")["value"]
    if both.empty or not {"another seed, cold", "the same seed, cold"} <= set(cold.index):
        return None
    top = _most(both, "points")
    noise, again = cold["another seed, cold"], cold["the same seed, cold"]
    said = (
        f"warm, up to {100 * top['points']:.0f} points over random ({cell(top)}, "
        f"{top['deletions']:.0f} deleted); trained from the start without five rows "
        f"{percent(again)}, with another seed and nobody deleted {percent(noise)}"
    )
    holds = 100 * top["points"] >= 29.5 and 100 * (again - noise) >= 29.5
    return Finding(said, bool(holds), basis(both))


def gates_beat_random(cost: str) -> Judge:
    """How much farther gates move recourse than random deletions do."""

    def judge(results: pd.DataFrame) -> Finding | None:
        names = [f"phi2, {cost} cost"] + (["phi2, as published cost"] if cost == "l1" else [])
        found = results[(results["figure"] == "action") & results["measure"].isin(names)]
        keys = ["data", "model", "deletions"]
        gates, random = (
            found[found["series"] == series].set_index(keys)[["value", "error", "spread"]]
            for series in ("gates", "random")
        )
        both = gates.join(random.add_suffix("_random"), how="inner")
        both = both[both["value_random"] > 0]
        if both.empty:
            return None
        ratio = both["value"] / both["value_random"]
        draws = both["spread_random"].fillna(0.0) / np.sqrt(5)
        error = np.sqrt(both["error"] ** 2 + both["error_random"] ** 2 + draws**2)
        clear = (both["value"] - both["value_random"]) > 2 * error
        least: Any = ratio.idxmin()
        where = f"{NAMES[least[0]]}, {NAMES[least[1]]}, {least[2]} deleted"
        said = (
            f"{ratio.min():.2f} ({where}) to {ratio.max():.0f} times random; farther by two "
            f"standard errors at {int(clear.sum())} of {len(clear)} points"
        )
        return Finding(said, bool(clear.all()), basis(found))

    return judge


def critical_rows(results: pd.DataFrame) -> Finding | None:
    """Whether the greedy search's rows are unusual by label or by leverage, in every cell."""
    found = results[(results["figure"] == "bounds") & (results["measure"] == "rank among all rows")]
    table = found.pivot_table(index=["data", "model"], columns="series", values="value")
    if table.empty:
        return None
    rows = found.groupby(["data", "model"])["deletions"].first()
    either = table["critical rows: either"]
    said = "; ".join(
        f"{NAMES[data]}, {NAMES[model]} {100 * either[data, model]:.0f} ({rows[data, model]} rows)"
        for data, model in table.index
    )
    words = f"median row's percentile, by the higher of the two: {said}"
    return Finding(words, bool((either >= 0.9).all()), basis(found))


def factor_of_action(factor: str, beside: str | None = None) -> Judge:
    """How well a factor ranks the Φ₂ of single deletions, beside another and what explains it all.

    Without another it is to lie above ½; with one, its interval is to lie above the other's value.
    """

    def judge(results: pd.DataFrame) -> Finding | None:
        found = results[
            (results["figure"] == "bounds") & (results["measure"] == "rank correlation")
        ]
        if found.empty:
            return None
        table = found.pivot_table(index="data", columns="series", values="value")
        said, holds = [], []
        for data, row in table.iterrows():
            low, high = row[f"{factor}, low"], min(1.0, row[f"{factor}, high"])
            words = f"{NAMES[str(data)]} {row[factor]:.2f} [{low:.2f}, {high:.2f}]"
            if beside is not None:
                words += (
                    f", {beside} {row[beside]:.2f}, ‖x‖ alone {row['‖x‖ alone']:.2f}; w's turn × "
                    f"distance {row['turn of w × distance']:.2f}, with the change of distance "
                    f"{row['both, added in squares']:.3f}"
                )
            said.append(words)
            holds.append(low > (0.5 if beside is None else row[beside]))
        return Finding("; ".join(said), all(holds), basis(found))

    return judge


def onion(series: str) -> Judge:
    """How much lower curves are once the 15 most critical rows are gone."""

    def judge(results: pd.DataFrame) -> Finding | None:
        lower, found = _lower(results, series)
        if lower.empty or found["value"].max() < SOMEBODY:
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
    told = results[(results["figure"] == "onion") & (results["measure"] == "quality")]
    quality = told.pivot_table(index=keys, columns="series", values="value")
    if both.empty or quality.empty or both["before"].max() < SOMEBODY:
        return None
    left = float(both["after"].sum() / both["before"].sum())
    fall = float((quality["before"] - quality["after"]).max())
    said = (
        f"five deletions still break {percent(left)} as many on average ("
        f"{percent(both['before'].mean())} → {percent(both['after'].mean())}); R² changes by at "
        f"most {fall:.3f}"
    )
    return Finding(said, left <= 0.5 and fall <= 0.01, basis(before))


def success(exception: bool) -> Judge:
    """For how many recourse is found; Admission with the NTK apart. Small samples judge nothing."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = results[results["measure"].eq("success") & results["figure"].ne("wide")]
        found = found[(found["count"] > 0) & (found["people"] == "all")]
        special = found["figure"].eq("outcome") & found["data"].eq("admission")
        special &= found["model"] == "ntk"
        found = found[special if exception else ~special]
        many = found[found["count"] >= ENOUGH]
        if many.empty:
            return None
        low = many.sort_values("value").iloc[0]
        said = f"at least {percent(low['value'])} ({cell(low)})"
        few = found[found["count"] < ENOUGH].sort_values("value")
        if len(few):
            said += f"; of {len(few)} samples below {ENOUGH} people at least "
            said += f"{percent(few.iloc[0]['value'])} ({cell(few.iloc[0])}), which judge nothing"
        fine = many["value"].between(0.5, 0.7).all() if exception else low["value"] >= REACHED
        return Finding(said, bool(fine), basis(many))

    return judge


def turns_down(mended: bool) -> Judge:
    """Whether the gates' curves fall beyond five deletions; whether a stronger weight mends it."""

    def judge(results: pd.DataFrame) -> Finding | None:
        return _turns_down(results, mended)

    return judge


def _turns_down(results: pd.DataFrame, mended: bool) -> Finding | None:
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
    fall, fewer = np.sum(weak >= 1), np.sum(weak >= 1) > np.sum(strong >= 1)
    return Finding(said, bool(fewer if mended else fall + np.sum(strong >= 1) > 0), basis(found))


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
    """Whether private training saves promises, case by case, and what it costs."""
    here = results[results["figure"] == "privacy"]
    keys = ["data", "model"]
    five = here[(here["measure"] == "invalidated") & (here["deletions"] == 5)]
    broken = _wide_table(five[five["count"] >= 20], keys)
    quality = _wide_table(here[here["measure"] == "quality"], keys)
    noise = _wide_table(here[here["measure"] == "broken by fresh noise"], keys)
    series = [name for name in ("ε = 100", "ε = 10", "ε = 1") if name in broken]
    if "as it is" not in broken or not series:
        return None
    said, fine = [], []
    for name in series:
        pairs = broken[["as it is", name]].dropna()
        fell = (quality["as it is"] - quality[name]).reindex(pairs.index)
        alone = noise[name].reindex(pairs.index)
        half = pairs[name] <= 0.5 * pairs["as it is"]
        told = ", ".join(
            f"{NAMES[data]} {NAMES[model]} {percent(before)} → {percent(after)}"
            for (data, model), before, after in zip(
                pairs.index.tolist(), pairs["as it is"], pairs[name], strict=True
            )
        )
        said.append(
            f"{name}: {told}; fresh noise alone breaks {percent(alone.min())} to "
            f"{percent(alone.max())}, R² or AUC falls by {fell.min():.2f} to {fell.max():.2f}"
        )
        fine.append(bool((half & (fell <= 0.05) & (alone <= 0.05)).all()))
    return Finding("; ".join(said), any(fine), basis(five[five["count"] >= 20]))


def _wide_table(some: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """A row for each case, a column for each series."""
    return some.pivot_table(index=keys, columns="series", values="value")


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

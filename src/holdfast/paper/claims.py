"""The paper's sentences beside what was measured.

The figures of the paper are not part of its public source, so its sentences are all there is to
compare with. A claim is judged at every overshoot; it *holds* if it does at all of them, *does not
hold* if at none, and *depends* otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast.paper.drawing import NAMES
from holdfast.paper.settings import OVERSHOOTS


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim at one overshoot: in words, and whether the claim holds."""

    measured: str
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A sentence, the number it gives, and how it is judged."""

    sentence: str
    where: str
    number: str
    judged: str
    judge: Callable[[pd.DataFrame], Finding | None]


@dataclass(frozen=True)
class Verdict:
    """A claim judged at every overshoot.

    Attributes
    ----------
    sentence, where, number : str
        The claim, where the paper makes it, and its number.
    judged : str
        What would make it hold.
    measured : dict
        What was measured, by overshoot.
    verdict : {"holds", "does not hold", "depends", "not measured"}
    why : str
    """

    sentence: str
    where: str
    number: str
    judged: str
    measured: dict[str, str]
    verdict: str
    why: str


def verdicts(results: pd.DataFrame, overshoots: tuple[float, ...]) -> list[Verdict]:
    """Every claim, judged by the results there are."""
    return [_verdict(claim, results, overshoots) for claim in CLAIMS]


def _verdict(claim: Claim, results: pd.DataFrame, overshoots: tuple[float, ...]) -> Verdict:
    found = {}
    for overshoot in sorted(overshoots):
        at = claim.judge(results[results["overshoot"] == overshoot])
        if at is not None:
            found[f"{overshoot:g}"] = at
    measured = {overshoot: at.measured for overshoot, at in found.items()}
    fine = [overshoot for overshoot, at in found.items() if at.holds]
    if not found:
        verdict, why = "not measured", "the figures it needs were not part of this run"
    elif len(fine) == len(found):
        every = "at every overshoot" if len(found) == len(overshoots) else "wherever measured"
        verdict, why = "holds", f"{every}: {claim.judged}"
    elif not fine:
        verdict, why = "does not hold", f"at no overshoot: {claim.judged}"
    else:
        verdict = "depends"
        others = [overshoot for overshoot in found if overshoot not in fine]
        why = f"at {_listed(fine)}, not at {_listed(others)}: {claim.judged}"
    own = {k: v for k, v in asdict(claim).items() if k != "judge"}
    return Verdict(**own, measured=measured, verdict=verdict, why=why)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# what the results say --------------------------------------------------------------------------


def _shares(results: pd.DataFrame, figures: tuple[str, ...], series: str) -> pd.DataFrame:
    """Shares invalidated under the paper's protocol, as far as they were confirmed."""
    return results[
        results["figure"].isin(figures)
        & (results["measure"] == "invalidated")
        & (results["people"] == "all")
        & (results["series"] == series)
        & (results["by"] != "predicted")
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cell(row: Any, method: bool = True) -> str:
    names = [NAMES[row["data"]], NAMES[row["model"]], *([NAMES[row["method"]]] if method else [])]
    return ", ".join(names)


def _most_broken(
    deletions: int, figures: tuple[str, ...], models: tuple[str, ...] | None = None
) -> Callable[[pd.DataFrame], Finding | None]:
    """The largest share that many deletions break; 95 % to the nearest whole percent holds."""

    def judge(results: pd.DataFrame) -> Finding | None:
        said, reached = [], False
        for series in ("greedy-count", "best"):
            found = _shares(results, figures, series)
            found = found[found["deletions"] == deletions]
            if models is not None:
                found = found[found["model"].isin(models)]
            if found.empty:
                return None
            top = found.iloc[int(found["value"].argmax())]
            name = "greedy" if series == "greedy-count" else "best"
            said.append(f"{name} {_percent(top['value'])} ({_cell(top)})")
            reached |= top["value"] >= 0.945
        return Finding("; ".join(said), bool(reached))

    return judge


def _reached_at(results: pd.DataFrame, model: str) -> int | None:
    """The fewest deletions at which some cell of a model reaches 95 %."""
    found = _shares(results, ("outcome",), "greedy-count")
    found = found[(found["model"] == model) & (found["value"] >= 0.945)]
    return None if found.empty else int(found["deletions"].min())


def _ntk_needs_more(results: pd.DataFrame) -> Finding | None:
    found = _shares(results, ("outcome",), "greedy-count")
    if not {"linear", "ntk"} <= set(found["model"]):
        return None
    linear, ntk = _reached_at(results, "linear"), _reached_at(results, "ntk")

    def said(at: int | None) -> str:
        return f"at {at}" if at else "not within 14"

    holds = ntk is not None and linear is not None and linear < ntk and 7 <= ntk <= 11
    return Finding(f"95 % reached: linear {said(linear)}, NTK {said(ntk)}", holds)


def _linear_beside_ntk(
    series: str, deletions: int, linear_above: bool
) -> Callable[[pd.DataFrame], Finding | None]:
    """Mean share over data and methods of the two models; a difference beyond its error holds."""

    def judge(results: pd.DataFrame) -> Finding | None:
        found = _shares(results, ("outcome",), series)
        found = found[found["deletions"] == deletions]
        if not {"linear", "ntk"} <= set(found["model"]):
            return None
        means = found.groupby("model")["value"].mean()
        errors = found.groupby("model")["error"].apply(
            lambda errors: float(np.sqrt(np.nansum(errors**2))) / len(errors)
        )
        apart = float(means["linear"] - means["ntk"]) * (1 if linear_above else -1)
        said = f"linear {100 * means['linear']:.1f} %, NTK {100 * means['ntk']:.1f} %"
        return Finding(said, apart > 2 * float(np.hypot(errors["linear"], errors["ntk"])))

    return judge


def _above_random(results: pd.DataFrame, figures: tuple[str, ...]) -> pd.DataFrame:
    """Greedy and random beside each other, at every number of deletions random was refitted at."""
    keys = ["figure", "data", "model", "method", "deletions"]
    greedy = _shares(results, figures, "greedy-count").set_index(keys)["value"]
    random = _shares(results, figures, "random").set_index(keys)["value"]
    both = pd.DataFrame({"greedy": greedy, "random": random}).dropna().reset_index()
    return both.assign(points=both["greedy"] - both["random"])


def _always_above_random(results: pd.DataFrame) -> Finding | None:
    both = _above_random(results, ("outcome", "classification"))
    if both.empty:
        return None
    over = both.groupby(["figure", "data", "model", "method"])["points"].max()
    clear = float((over >= 0.1).mean())
    above = float((both["points"] > 0).mean())
    said = (
        f"ahead at {_percent(above)} of all points; by 10 points somewhere in "
        f"{_percent(clear)} of {len(over)} curves"
    )
    return Finding(said, above >= 0.95 and clear >= 0.95)


def _points_over_random(
    figure: str, series: str, needed: float
) -> Callable[[pd.DataFrame], Finding | None]:
    def judge(results: pd.DataFrame) -> Finding | None:
        keys = ["data", "model", "method", "deletions"]
        ours = _shares(results, (figure,), series).set_index(keys)["value"]
        random = _shares(results, (figure,), "random").set_index(keys)["value"]
        ahead = (ours - random).dropna()
        if ahead.empty:
            return None
        data, model, method, k = ahead.index[int(ahead.argmax())]
        where = ", ".join((NAMES[data], NAMES[model], NAMES[method]))
        points = 100 * float(ahead.max())
        said = f"up to {points:.0f} points ({where}, {k} deletions)"
        return Finding(said, points >= needed)

    return judge


def _gates_beat_random(results: pd.DataFrame) -> Finding | None:
    found = results[(results["figure"] == "action") & (results["measure"] == "phi2, l2 cost")]
    table = found.pivot_table(
        index=["data", "model", "deletions"], columns="series", values="value"
    )
    if not {"gates", "random"} <= set(table.columns):
        return None
    ratio = (table["gates"] / table["random"]).dropna()
    if ratio.empty:
        return None
    said = f"{ratio.min():.1f} to {ratio.max():.0f} times random"
    return Finding(said, bool(ratio.min() >= 2.0))


def _critical_rows(results: pd.DataFrame) -> Finding | None:
    found = results[(results["figure"] == "bounds") & (results["measure"] == "rank among all rows")]
    if found.empty:
        return None
    ranks = found.groupby("series")["value"].median()

    def said(name: str) -> str:
        return f"percentile {100 * ranks[f'critical rows: {name}']:.0f}"

    words = f"label errors: {said('error of the label')}; leverage: {said('leverage')}"
    return Finding(words, bool(ranks["critical rows: either"] >= 0.9))


def _factor_of_action(results: pd.DataFrame) -> Finding | None:
    found = results[(results["figure"] == "bounds") & (results["measure"] == "rank correlation")]
    if found.empty:
        return None
    low, high = float(found["value"].min()), float(found["value"].max())
    return Finding(f"rank correlation {low:.2f} to {high:.2f}", low >= 0.8)


def _onion(results: pd.DataFrame) -> Finding | None:
    keys = ["data", "model", "deletions"]
    before = _shares(results, ("onion",), "greedy-count, before").set_index(keys)["value"]
    after = _shares(results, ("onion",), "greedy-count, after").set_index(keys)["value"]
    lower = (100 * (before - after)).dropna()
    if lower.empty:
        return None
    said = f"between {lower.max():.0f} points lower and {max(0.0, -lower.min()):.0f} higher"
    mean = f"{abs(lower.mean()):.1f} {'lower' if lower.mean() >= 0 else 'higher'} on average"
    return Finding(f"{said}, {mean}", bool(lower.max() >= 5.5 and lower.mean() > 0))


def _success(results: pd.DataFrame, exception: bool) -> Finding | None:
    found = results[results["measure"].eq("success") & results["figure"].ne("wide")]
    found = found[found["count"] > 0]
    special = (found["figure"] == "outcome") & (found["data"] == "admission")
    special &= found["model"] == "ntk"
    found = found[special if exception else ~special]
    if found.empty:
        return None
    low = found.iloc[int(found["value"].argmin())]
    said = f"at least {100 * low['value']:.1f} % ({_cell(low)})"
    if exception:
        return Finding(said, bool(found["value"].between(0.5, 0.7).all()))
    return Finding(said, bool(low["value"] > 0.95))


def _turns_down(results: pd.DataFrame) -> Finding | None:
    keys = ["data", "model", "method"]
    falls = {}
    for series in ("gates", "gates, weak ℓ0"):
        found = _shares(results, ("gates",), series)
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
    return Finding(said, bool(np.sum(weak >= 1) > np.sum(strong >= 1)))


CLAIMS = (
    Claim(
        "Removing 5 training points invalidates up to 95 % of all recourses of a linear model.",
        "Sec. 6",
        "95 % at 5",
        "some linear curve reaches 95 % at 5 deletions",
        _most_broken(5, ("outcome",), ("linear",)),
    ),
    Claim(
        "The removal of as little as 2 data instances can invalidate up to 95 % of all recourses.",
        "abstract",
        "95 % at 2",
        "some curve of any model reaches 95 % at 2 deletions",
        _most_broken(2, ("outcome", "classification")),
    ),
    Claim(
        "The removal of even one point can invalidate up to 95 % of all recourses.",
        "Sec. 1",
        "95 % at 1",
        "some curve of any model reaches 95 % at 1 deletion",
        _most_broken(1, ("outcome", "classification")),
    ),
    Claim(
        "For the NTK a larger number of deletions (roughly 9) reaches similar invalidation rates.",
        "Sec. 6",
        "about 9",
        "the greedy search first reaches 95 % on an NTK between 7 and 11 deletions, and later "
        "than on a linear model",
        _ntk_needs_more,
    ),
    Claim(
        "Linear models are more susceptible to invalidation in the worst case.",
        "Sec. 6",
        "",
        "greedy at 5 deletions, mean over data and methods: linear above NTK by two errors",
        _linear_beside_ntk("greedy-count", 5, linear_above=True),
    ),
    Claim(
        "Linear models are slightly more robust when it comes to random removals.",
        "Sec. 6",
        "",
        "14 random deletions, mean over data and methods: linear below NTK by two errors",
        _linear_beside_ntk("random", 14, linear_above=False),
    ),
    Claim(
        "The approach is always much more effective at deleting instances than the random "
        "baseline.",
        "Sec. 6",
        "",
        "greedy ahead at 95 % of all points, and by 10 points somewhere in 95 % of all curves",
        _always_above_random,
    ),
    Claim(
        "For recourse action instability the (SGD) optimisation significantly outperforms random.",
        "Sec. 6",
        "",
        "gates move recourse at least twice as far as random deletions do, everywhere",
        _gates_beat_random,
    ),
    Claim(
        "What hurts is rows with influential labels or atypical features.",
        "Sec. 4, 6",
        "",
        "half of the greedy search's rows are in the top tenth by label error or by leverage",
        _critical_rows,
    ),
    Claim(
        "Action instability is driven by ‖d‖‖x‖/‖w‖.",
        "Sec. 4",
        "",
        "it ranks Φ₂ of single deletions with a rank correlation of 0.8 or more",
        _factor_of_action,
    ),
    Claim(
        "In classification the removal algorithms outperform random guessing by up to 75 "
        "percentage points.",
        "Sec. 6",
        "75 points",
        "some curve is 75 points above random",
        _points_over_random("classification", "greedy-count", 74.5),
    ),
    Claim(
        "Removing the 15 most critical points first lowers invalidation by up to 6 points.",
        "Sec. 6, App. B",
        "6 points",
        "some curve is 6 points lower after the removal (greedy), and curves are lower on average",
        _onion,
    ),
    Claim(
        "The NTK's critical points hurt a wide network by up to 30 points over random.",
        "App. B",
        "30 points",
        "the wide network's recourses break 30 points more often than by random deletions",
        _points_over_random("wide", "greedy on the NTK", 29.5),
    ),
    Claim(
        "Recourse is found for more than 95 % of people.",
        "App. C.2",
        "> 95 %",
        "every method, model and data set but Admission with NTK succeeds for more than 95 %",
        lambda results: _success(results, exception=False),
    ),
    Claim(
        "The only exception is Admission with the NTK, where the success rate lies at 60 %.",
        "App. C.2",
        "60 %",
        "every method succeeds for 50 to 70 % there",
        lambda results: _success(results, exception=True),
    ),
    Claim(
        "SGD curves can turn down for k > 5 when the ℓ0 weight is weak.",
        "App. B",
        "",
        "more curves fall by a point or more beyond 5 deletions with the weak weight than without",
        _turns_down,
    ),
)


def as_markdown(found: list[Verdict], overshoots: tuple[float, ...], basis: str) -> str:
    """The table of claims as a page; ``basis``: in a sentence, what was measured."""
    names = [f"{overshoot:g}" for overshoot in sorted(overshoots)]
    grid = "a grid that was fixed beforehand" if overshoots == OVERSHOOTS else "these overshoots"
    lines = [
        "# The paper's claims, and what was measured",
        "",
        "The figures of the paper are not part of its public source: these are its sentences. How "
        "far a recourse overshoots the target decides nearly everything, so each is judged at "
        f"every overshoot of {grid} ({', '.join(names)} standard deviations of the training "
        "scores). Points that no refit confirmed count for nothing here.",
        "",
        basis,
        "",
        "| claim | the paper | "
        + " | ".join(f"at {name}" for name in names)
        + " | verdict | why |",
        "|" + "---|" * (4 + len(names)),
    ]
    for one in found:
        cells = [one.sentence, f"{one.number} ({one.where})" if one.number else one.where]
        cells += [one.measured.get(name, "not measured") for name in names]
        cells += [f"**{one.verdict}**", one.why]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"

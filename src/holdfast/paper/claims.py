"""The paper's sentences, the rule each is judged by, and the page that sets them side by side.

The figures of the paper are not part of its public source, so its sentences are all there is to
compare with. A claim is judged at every overshoot, where methods stop by themselves and, if it is
about regressions, in every encoding a reader could choose. It *holds* if it does everywhere, *does
not hold* if it does nowhere, and *depends* otherwise. The paper's search and ours are judged apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pandas as pd

from holdfast.paper import judges
from holdfast.paper.judges import BEST, GREEDY, Finding, Judge
from holdfast.paper.settings import OVERSHOOTS, PRINTED

#: the searches claims are judged by, and what they are called
BY = {GREEDY: "greedy (the paper's)", BEST: "best (ours)"}


@dataclass(frozen=True)
class Claim:
    """A sentence, the number it gives, and how it is judged.

    Attributes
    ----------
    sentence, where, number : str
        What the paper says, where, and its number.
    rule : str
        What makes it hold, written down before anything was measured.
    judge : callable
    by : str
        Which search, cost or model it is judged by, where there are several.
    encodings : bool
        Whether it is judged in every encoding.
    """

    sentence: str
    where: str
    number: str
    rule: str
    judge: Judge
    by: str = ""
    encodings: bool = False


@dataclass(frozen=True)
class Verdict:
    """A claim judged at every stop, and in every encoding.

    Attributes
    ----------
    sentence, where, number, rule, by : str
        The claim.
    measured, basis : dict
        In words and on what, by stop, in the main encoding.
    elsewhere : dict
        By the other encodings: what was measured, by stop.
    verdict : {"holds", "does not hold", "depends", "not measured"}
    why : str
        Where it holds and where it does not.
    """

    sentence: str
    where: str
    number: str
    rule: str
    by: str
    measured: dict[str, str]
    basis: dict[str, str]
    elsewhere: dict[str, dict[str, str]]
    verdict: str
    why: str


def verdicts(results: pd.DataFrame, overshoots: Iterable[float]) -> list[Verdict]:
    """Every claim, judged by the results there are."""
    stops = [f"{overshoot:g}" for overshoot in sorted(overshoots)] + ["as published"]
    return [_verdict(claim, results, stops) for claim in CLAIMS]


def _verdict(claim: Claim, results: pd.DataFrame, stops: list[str]) -> Verdict:
    main = results[results["encoding"] == PRINTED.name]
    found = {PRINTED.name: _by_stop(claim.judge, main, stops)}
    if claim.encodings:
        for name in sorted(set(results["encoding"]) - {PRINTED.name}):
            found[name] = _by_stop(claim.judge, _written_as(results, name), stops)
    every = {(e, s): f.holds for e, at in found.items() for s, f in at.items()}
    verdict, why = _judged(every, stops)
    own = {k: v for k, v in asdict(claim).items() if k not in ("judge", "encodings")}
    return Verdict(
        **own,
        measured={stop: f.measured for stop, f in found[PRINTED.name].items()},
        basis={stop: f.basis for stop, f in found[PRINTED.name].items()},
        elsewhere={
            name: {stop: f.measured for stop, f in at.items()}
            for name, at in found.items()
            if name != PRINTED.name and at
        },
        verdict=verdict,
        why=why,
    )


def _written_as(results: pd.DataFrame, encoding: str) -> pd.DataFrame:
    """The results with the regressions written down in one way, as far as that means anything.

    Admission has no missing values and the NTK no intercept: what a data set or model does not know
    of an encoding is left out of it. Classification has one encoding.
    """
    wanted = set(encoding.split(", "))
    measured = results[results["figure"].isin(["outcome", "encodings"])]
    parts = []
    for _, some in measured.groupby(["data", "model"]):
        known = {str(name): set(str(name).split(", ")) for name in some["encoding"].unique()}
        fits = [name for name, its in known.items() if its <= wanted]
        best = max(fits, key=lambda name: len(known[name]), default=PRINTED.name)
        own = some[(some["encoding"] == best) & (some["people"] == "all")]
        parts.append(own.assign(figure="outcome"))
    others = results[results["figure"] == "classification"]
    return pd.concat([*parts, others], ignore_index=True)


def _by_stop(judge: Judge, results: pd.DataFrame, stops: list[str]) -> dict[str, Finding]:
    made = {stop: judge(results[results["stop"] == stop]) for stop in stops}
    return {stop: found for stop, found in made.items() if found is not None}


def _judged(every: dict[tuple[str, str], bool], stops: list[str]) -> tuple[str, str]:
    """The verdict, and where the claim holds: by stop, with the encodings where they differ."""
    if not every:
        return "not measured", "the figures it needs were not part of this run"
    encodings = list(dict.fromkeys(encoding for encoding, _ in every))
    of = f" in {len(encodings)} encodings" if len(encodings) > 1 else ""
    settings = f"{len(every)} setting{'s' if len(every) != 1 else ''}{of}"
    if all(every.values()):
        return "holds", f"wherever measured ({settings})"
    if not any(every.values()):
        return "does not hold", f"nowhere ({settings})"
    said = []
    for stop in stops:
        here = {encoding: fine for (encoding, s), fine in every.items() if s == stop}
        fine = [encoding for encoding, holds in here.items() if holds]
        if not fine:
            continue
        if len(here) == 1 or len(fine) == len(here):
            said.append(stop)
        else:
            said.append(f"{stop} ({'; '.join(fine)})")
    count = sum(every.values())
    return "depends", f"holds at {', '.join(said)}: {count} of {settings}"


def _both(
    sentence: str, where: str, number: str, rule: str, make: object, encodings: bool = False
) -> tuple[Claim, Claim]:
    """A claim by the paper's search, and the same by ours."""
    assert callable(make)
    return (
        Claim(sentence, where, number, rule, make(GREEDY), BY[GREEDY], encodings),
        Claim(sentence, where, number, rule, make(BEST), BY[BEST], encodings),
    )


_ANY = ("outcome", "classification")

CLAIMS: tuple[Claim, ...] = (
    *_both(
        "Removing 5 training points invalidates up to 95 % of all recourses of a linear model.",
        "Sec. 6",
        "95 % at 5",
        "some linear curve reaches 95 % at 5 deletions",
        lambda series: judges.most_broken(5, ("outcome",), series, ("linear",)),
        encodings=True,
    ),
    *_both(
        "The removal of as little as 2 data instances can invalidate up to 95 % of all recourses.",
        "abstract",
        "95 % at 2",
        "some curve of any model reaches 95 % at 2 deletions",
        lambda series: judges.most_broken(2, _ANY, series),
        encodings=True,
    ),
    *_both(
        "The removal of even one point can invalidate up to 95 % of all recourses.",
        "Sec. 1",
        "95 % at 1",
        "some curve of any model reaches 95 % at 1 deletion",
        lambda series: judges.most_broken(1, _ANY, series),
        encodings=True,
    ),
    Claim(
        "A similar trend is observed across all recourse methods.",
        "Sec. 6",
        "",
        "linear models, greedy, 5 deletions: methods at most 10 points apart on each data set",
        judges.similar_methods,
        BY[GREEDY],
        encodings=True,
    ),
    Claim(
        "For the NTK a larger number of deletions reaches similar invalidation rates …",
        "Sec. 6",
        "",
        "SCFE, on each data set: the NTK first reaches 95 % later than the linear model",
        judges.ntk_first_reaches(later=True),
        BY[GREEDY],
        encodings=True,
    ),
    Claim(
        "… namely roughly 9.",
        "Sec. 6",
        "about 9",
        "SCFE, on each data set: the NTK first reaches 95 % at 7 to 11 deletions",
        judges.ntk_first_reaches(later=False),
        BY[GREEDY],
        encodings=True,
    ),
    *_both(
        "Linear models are more susceptible to invalidation in the worst case.",
        "Sec. 6",
        "",
        "SCFE, 5 deletions, on each data set: linear above NTK beyond the 95 % interval over "
        "splits",
        lambda series: judges.linear_beside_ntk(series, 5, linear_above=True),
    ),
    Claim(
        "Linear models are slightly more robust when it comes to random removals.",
        "Sec. 6",
        "",
        "SCFE, 14 random deletions, on each data set: linear below NTK beyond the 95 % interval "
        "over splits and draws; where nobody is broken nothing is compared",
        judges.linear_beside_ntk("random", 14, linear_above=False),
    ),
    *_both(
        "The approach is always much more effective at deleting instances than the random "
        "baseline.",
        "Sec. 6",
        "",
        "regressions: ahead at 95 % of all points, and by 10 points somewhere in 95 % of curves",
        judges.always_above_random,
        encodings=True,
    ),
    Claim(
        "For recourse action instability the (SGD) optimisation significantly outperforms random.",
        "Sec. 6",
        "",
        "gates move recourse farther than random deletions by two standard errors (of people and "
        "draws; the NTK has one draw) at every number of deletions",
        judges.gates_beat_random("l1"),
        "ℓ1, the paper's cost",
    ),
    Claim(
        "For recourse action instability the (SGD) optimisation significantly outperforms random.",
        "Sec. 6",
        "",
        "gates move recourse farther than random deletions by two standard errors (of people and "
        "draws; the NTK has one draw) at every number of deletions",
        judges.gates_beat_random("l2"),
        "ℓ2, the closed forms' cost",
    ),
    Claim(
        "What hurts is rows with influential labels or atypical features.",
        "Sec. 4, 6",
        "",
        "in every cell half of the greedy search's rows are in the top tenth by label error or by "
        "leverage (of all rows 19 % are in one of the two)",
        judges.critical_rows,
    ),
    Claim(
        "Action instability is mainly determined by the sensitivity of the parameters, ‖d‖ …",
        "Sec. 4",
        "",
        "on each data set ‖d‖ alone ranks Φ₂ of single deletions with a correlation whose interval "
        "lies above ½",
        judges.factor_of_action("‖d‖ alone"),
    ),
    Claim(
        "… scaled by the ratio ‖x‖/‖w‖.",
        "Sec. 4",
        "",
        "on each data set ‖d‖‖x‖/‖w‖ ranks it better than ‖d‖ alone does: its interval lies above",
        judges.factor_of_action("‖d‖‖x‖/‖w‖", "‖d‖ alone"),
    ),
    Claim(
        "The propositions' bounds hold (Propositions 1 to 3 and the corollary).",
        "Sec. 4",
        "",
        "no person's bound is below what was measured (in front: bound over measured, median)",
        judges.bounds_hold,
    ),
    *_both(
        "Across all these models (classifiers) the removal algorithms outperform random guessing; "
        "often by up to 75 percentage points.",
        "Sec. 6",
        "75 points",
        "for each of the three classifiers some curve, with the paper's target, is 75 points above "
        "random",
        judges.classifiers_over_random,
    ),
    *_both(
        "Removing the 15 most critical points first lowers invalidation by up to 6 points.",
        "Sec. 6, App. B",
        "6 points",
        "some curve is 6 points lower or more after the removal, and curves are lower on average; "
        "not judged where less than 5 % break to begin with",
        judges.onion,
    ),
    Claim(
        "Data points that contribute to recourse instability could be minimised out.",
        "Sec. 1, data minimisation",
        "",
        "without the 15 most critical rows five deletions break at most half as many in all, and "
        "R² falls by at most 0.01",
        judges.minimised,
        BY[BEST],
    ),
    Claim(
        "The NTK's critical points hurt a wide network by up to 30 points over random.",
        "App. B",
        "30 points",
        "the wide network's recourses break 30 points more often than by random deletions; and, "
        "trained from the start, 30 points more often than with another seed and nobody deleted",
        judges.wide_network,
    ),
    Claim(
        "Recourse is found for more than 95 % of people.",
        "App. C.2",
        "> 95 %",
        "every method, model and data set but Admission with NTK succeeds for 95 %, judged on "
        "samples of 100 people or more",
        judges.success(exception=False),
    ),
    Claim(
        "The only exception is Admission with the NTK, where the success rate lies at 60 %.",
        "App. C.2",
        "60 %",
        "every method succeeds for 50 to 70 % there",
        judges.success(exception=True),
    ),
    Claim(
        "SGD curves can turn down for k > 5 …",
        "App. B",
        "",
        "some curve falls by a point or more beyond 5 deletions",
        judges.turns_down(mended=False),
    ),
    Claim(
        "… when the ℓ0 weight is not strong enough.",
        "App. B",
        "",
        "more curves do with the weak weight than with the default",
        judges.turns_down(mended=True),
    ),
    Claim(
        "The infinitesimal jackknife stands in for refits (the paper never shows how well).",
        "App. C.4",
        "",
        "median rank correlation of drops at least 0.95, and no share off by more than 5 points at "
        "any number of deletions",
        judges.jackknife("logistic"),
        "logistic",
    ),
    Claim(
        "The infinitesimal jackknife stands in for refits (the paper never shows how well).",
        "App. C.4",
        "",
        "median rank correlation of drops at least 0.95, and no share off by more than 5 points at "
        "any number of deletions",
        judges.jackknife("ann"),
        "ANN",
    ),
    Claim(
        "Differential privacy might make recourse robust (conjecture).",
        "Sec. 7",
        "",
        "at some ε, in every case with 20 people or more: five deletions break at most half as "
        "many, R² or AUC falls by at most 0.05, and fresh noise alone breaks at most 5 %",
        judges.privacy,
    ),
)


def as_markdown(found: list[Verdict], overshoots: tuple[float, ...], basis: str) -> str:
    """The claims as a page: a table of verdicts, then each claim with what was measured."""
    grid = "a grid that was fixed beforehand" if overshoots == OVERSHOOTS else "these overshoots"
    names = ", ".join(f"{overshoot:g}" for overshoot in sorted(overshoots))
    lines = [
        "# The paper's claims, and what was measured",
        "",
        "The figures of the paper are not part of its public source: these are its sentences. "
        f"Each is judged at every overshoot of {grid} ({names} standard deviations of the training "
        "scores) and, as far as it was measured there, where published implementations stop by "
        "themselves; claims about the shares of Figure 2 also in every way a reader could write "
        "the regressions down; by the paper's search and by ours apart. The rules come before the "
        "numbers. Shares are rounded to whole points before they are compared; points that no "
        "refit confirmed count for nothing; a setting that can say nothing is left out.",
        "",
        basis,
        "",
        "| claim | the paper | judged by | verdict | where |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        number = f"{one.number} ({one.where})" if one.number else one.where
        cells = [one.sentence, number, one.by, f"**{one.verdict}**", one.why]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    lines += ["", "## What was measured", ""]
    for one in found:
        lines += [f"### {one.sentence}{f' ({one.by})' if one.by else ''}", ""]
        lines += [f"*Holds if* {one.rule}. **{one.verdict}**: {one.why}.", ""]
        if not one.measured:
            continue
        lines += ["| stop | measured | on |", "|---|---|---|"]
        lines += [
            f"| {stop} | {_cell(said)} | {one.basis.get(stop, '')} |"
            for stop, said in one.measured.items()
        ]
        lines.append("")
        if one.elsewhere:
            lines += ["| encoding | " + " | ".join(one.measured) + " |"]
            lines += ["|---|" + "---|" * len(one.measured)]
            lines += [
                f"| {name} | "
                + " | ".join(_cell(at.get(stop, "not measured")) for stop in one.measured)
                + " |"
                for name, at in one.elsewhere.items()
            ]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cell(said: str) -> str:
    return said.replace("|", "\\|")

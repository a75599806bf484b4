"""The figures: inline SVG whose colours follow the page, with text that can be read out."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.report.schema import AuditSummary, HardeningPart
from holdfast.report.words import percent

#: drawn in these colours, which become the page's own; the notebook keeps the second column
COLOURS = {
    "#010203": ("currentColor", "#1f2328"),
    "#040506": ("var(--muted)", "#6e7781"),
    "#0a0b01": ("var(--attack)", "#c2410c"),
    "#0a0b02": ("var(--random)", "#2563a8"),
    "#0a0b03": ("var(--proof)", "#4d7c0f"),
}
INK, MUTED, ATTACK, RANDOM, PROOF = COLOURS


@dataclass(frozen=True)
class Figure:
    """A figure: its SVG, and what it shows in words."""

    svg: str
    description: str


def draw_curve(ax: Any, summary: AuditSummary, plain: bool = True) -> None:
    """The worst case by number of deletions on any matplotlib axes."""
    ink, _, attack, random, proof = (
        [fixed for _, fixed in COLOURS.values()] if plain else list(COLOURS)
    )
    points = summary.curve
    k = [p.deletions for p in points]

    def per_cent(name: str) -> list[float]:
        values = [getattr(point, name) for point in points]
        return [np.nan if value is None else 100 * value for value in values]

    if np.isfinite(per_cent("random")).any():
        low, high = per_cent("random_low"), per_cent("random_high")
        ax.fill_between(k, low, high, color=random, alpha=0.2, linewidth=0)
        ax.plot(k, per_cent("random"), ":", color=random, label="as many at random (90 %)")
    ceiling = per_cent("ceiling")
    if np.isfinite(ceiling[1:]).any():  # wide and behind, so that an attack on it is seen
        ax.plot(k, ceiling, "-", color=proof, alpha=0.35, linewidth=7, label="proven ceiling")
    ax.plot(k, per_cent("predicted"), "-", color=attack, label="worst found, predicted")
    ax.plot(k, per_cent("refitted"), "x", color=ink, label="worst found, refitted")
    ax.xaxis.get_major_locator().set_params(integer=True)
    noun = "people" if summary.headline.unit == "subject" else "rows"
    ax.set(xlabel=f"{noun} erased", ylabel="recourses broken (%)", ylim=(-3, 103))
    ax.legend(frameon=False, fontsize="small", labelcolor=ink)


def curve(summary: AuditSummary) -> Figure | None:
    """The worst-case curve."""
    if not summary.curve:
        return None
    h = summary.headline
    last = summary.curve[-1]
    words = (
        f"Share of recourses broken against the number of erasures. The worst found reaches "
        f"{percent(h.refitted)} at {h.deletions} and {percent(last.refitted)} at "
        f"{last.deletions}; random erasures {percent(last.random)} there."
    )
    return _figure(lambda ax: draw_curve(ax, summary, plain=False), words, "curve")


def likelihood(summary: AuditSummary) -> Figure | None:
    """Chance, the yardstick and the worst case at the expected number of erasures."""
    found = summary.likelihood
    if found is None:
        return None

    def draw(ax: Any) -> None:
        lines = [("at random", found.random, RANDOM), ("bootstrap refit", found.bootstrap, MUTED)]
        for place, (_, band, colour) in enumerate(lines):
            if band.mean is not None:
                ax.plot(
                    [100 * (band.low or 0), 100 * (band.high or 0)],
                    [place, place],
                    color=colour,
                    linewidth=4,
                    alpha=0.5,
                )
                ax.plot([100 * band.mean], [place], "o", color=colour)
        names = [name for name, _, _ in lines]
        if found.worst is not None:
            ax.plot([100 * found.worst], [2], "x", color=ATTACK, markersize=9)
            names.append("worst found")
        ax.set(
            yticks=range(len(names)),
            yticklabels=names,
            xlim=(-3, 103),
            xlabel="recourses broken (%)",
        )
        ax.set_ylim(len(names) - 0.5, -0.5)

    words = (
        f"{found.erasures} erasures at random break {percent(found.random.mean)} on average, "
        f"90 per cent band {percent(found.random.low)} to {percent(found.random.high)}; refitting "
        f"on a bootstrap sample breaks {percent(found.bootstrap.mean)}; the worst found "
        f"{percent(found.worst)}."
    )
    return _figure(draw, words, "likelihood", height=2.3)


def overshoots(summary: AuditSummary) -> Figure | None:
    """The share broken against the overshoot recourses are made with."""
    found = summary.overshoots
    if not found:
        return None
    budgets = sorted({p.deletions for p in found})

    def draw(ax: Any) -> None:
        for budget, style in zip(budgets, ("o:", "s--", "x-"), strict=False):
            some = [p for p in found if p.deletions == budget]
            ax.plot(
                [p.overshoot for p in some],
                [100 * p.refitted for p in some],
                style,
                color=ATTACK,
                label=f"{budget} erased",
            )
        ax.set(
            xscale="log",
            ylim=(-3, 103),
            xlabel="overshoot (deviations of the score)",
            ylabel="recourses broken (%)",
        )
        ticks = sorted({p.overshoot for p in found})
        ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize="small", labelcolor=INK)

    first = [p for p in found if p.deletions == budgets[-1]]
    words = (
        "Refitted share broken by "
        + f"{budgets[-1]} erasures: "
        + ", ".join(f"{percent(p.refitted)} at an overshoot of {p.overshoot:g}" for p in first)
    )
    return _figure(draw, words, "overshoot")


def margins(summary: AuditSummary) -> Figure | None:
    """How far beyond the target the promises are."""
    bins = summary.margins
    if len(bins) < 2:  # one bar says nothing
        return None
    narrowest = min(b.high - b.low for b in bins) or 1.0

    def draw(ax: Any) -> None:
        for b in bins:  # areas are counts: wide bins were put together
            width = (b.high - b.low) or 1.0
            height = b.count * narrowest / width
            ax.bar(b.low, height, width * 0.97, align="edge", color=RANDOM)
        ax.set(xlabel="overshoot reached (deviations of the score)", ylabel="recourses")

    words = "How far beyond the target the recourses are; wide bars spread what they hold."
    return _figure(draw, words, "margins")


def critical(summary: AuditSummary) -> Figure | None:
    """Harm by fifths of leverage and residual."""
    found = summary.critical
    if found is None:
        return None
    table = np.full((5, 5), np.nan)
    for cell in found.cells:
        if cell.harm is not None:
            table[cell.residual - 1, cell.leverage - 1] = cell.harm
    if not np.isfinite(table).any():
        return None
    top = float(np.nanmax(table)) or 1.0

    def draw(ax: Any) -> None:
        for i, k in np.ndindex(5, 5):
            value = table[i, k]
            if np.isfinite(value):
                share = float(value) / top
                ax.add_patch(_square(k, i, ATTACK, 0.08 + 0.82 * share))
                ax.text(k, i, f"{value:.2g}", ha="center", va="center", fontsize=8, color=INK)
            else:
                ax.text(k, i, "< 10", ha="center", va="center", fontsize=7, color=MUTED)
        names = ["lowest", "", "middle", "", "highest"]
        ax.set(
            xlim=(-0.5, 4.5),
            ylim=(-0.5, 4.5),
            xlabel="leverage: how atypical the row is, by fifths",
            ylabel="size of its residual, by fifths",
        )
        ax.set_xticks(range(5), names)
        ax.set_yticks(range(5), names, rotation=90, va="center")

    corner = table[4, 4]
    words = (
        "Mean harm of a training row by fifths of leverage and residual; 1 is all the room that "
        "half of the promises have. Rows "
        f"high in both: {corner:.2g}."
        if np.isfinite(corner)
        else "Harm by leverage and residual."
    )
    return _figure(draw, words, "critical", height=3.4)


def _square(x: float, y: float, colour: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=colour, alpha=alpha, linewidth=0)


def agreement(summary: AuditSummary) -> Figure | None:
    """Prediction against refit, by tenths of the recourses."""
    found = summary.agreement
    if not found:
        return None

    def draw(ax: Any) -> None:
        x, y = [p.predicted for p in found], [p.refitted for p in found]
        ends = [min(*x, *y, 0.0), max(*x, *y)]
        ax.plot(ends, ends, color=MUTED, linewidth=0.8)
        ax.plot(x, y, "o", color=ATTACK)
        ax.set(xlabel="drop of the score, predicted", ylabel="the same, refitted")

    gap = max(abs(p.predicted - p.refitted) for p in found)
    words = (
        "Predicted against refitted score drops, tenths of the recourses. The largest difference "
        f"is {gap:.1e} deviations of the score."
    )
    return _figure(draw, words, "agreement", height=3.2)


def certificates(summary: AuditSummary) -> Figure | None:
    """How many erasures recourses provably survive."""
    found = summary.certificates
    if found is None or len(found.survive) < 2:
        return None

    def draw(ax: Any) -> None:
        bars = range(len(found.survive))
        ax.bar(bars, [b.count for b in found.survive], 0.85, color=PROOF)
        names = [
            f"{b.low:.0f}" if b.low == b.high else f"{b.low:.0f}–{b.high:.0f}"
            for b in found.survive
        ]
        ax.set(xlabel="erasures provably survived", ylabel="recourses")
        ax.set_xticks(bars, names)

    words = "Number of recourses by how many erasures each provably survives."
    return _figure(draw, words, "certificates")


def hardening(summary: AuditSummary) -> Figure | None:
    """Extra cost against survival, a line per mitigation."""
    return None if summary.hardening is None else trade_off(summary.hardening)


def trade_off(found: HardeningPart) -> Figure | None:
    """Extra cost against survival, a line per mitigation; proven ones are starred."""
    lines = [p for p in found.lines if p.extra_cost is not None and p.survive is not None]
    if not lines:
        return None
    styles = {
        "honour": ("o", MUTED),
        "uniform": ("o:", RANDOM),
        "margin": ("-", PROOF),
        "drop-critical": ("s--", ATTACK),
        "regularise": ("^--", RANDOM),
        "private": ("x", MUTED),
        "robust-recourse": ("d", ATTACK),
        "robust-preprocessing": ("P", PROOF),
    }

    def draw(ax: Any) -> None:
        for name in dict.fromkeys(p.mitigation for p in lines):
            some = [p for p in lines if p.mitigation == name]
            some.sort(key=lambda p: p.extra_cost or 0.0)
            style, colour = styles.get(name, ("o", INK))
            x = [100 * min(p.extra_cost or 0.0, 3.0) for p in some]
            y = [100 * (p.survive or 0.0) for p in some]
            ax.plot(x, y, style, color=colour, label=name, markersize=4)
            proven = [(a, b) for a, b, p in zip(x, y, some, strict=True) if p.proven]
            if proven:
                ax.plot(*zip(*proven, strict=True), "*", color=PROOF, markersize=13)
        ax.set(
            xlabel="extra cost to people (%, median; at most 300 shown)",
            ylabel=f"survive {found.survive} erasures (%)",
            ylim=(-3, 106),
        )
        ax.legend(frameon=False, fontsize="x-small", labelcolor=INK)

    words = "Extra cost against the share of recourses that survives, by mitigation. "
    words += found.recommendation or ""
    return _figure(draw, words, "hardening", height=3.4)


FIGURES: dict[str, Callable[[AuditSummary], Figure | None]] = {
    "curve": curve,
    "likelihood": likelihood,
    "overshoots": overshoots,
    "margins": margins,
    "critical": critical,
    "agreement": agreement,
    "certificates": certificates,
    "hardening": hardening,
}


def _figure(draw: Callable[[Any], None], words: str, name: str, height: float = 2.9) -> Figure:
    """Draw in placeholder colours, then hand the colours over to the page's style sheet."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "holdfast",
        "font.size": 10,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.color": MUTED,
    }
    with mpl.rc_context(style):
        canvas = Canvas(figsize=(4.6, height), layout="constrained")
        draw(canvas.subplots())
        file = io.StringIO()
        canvas.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return Figure(_inline(file.getvalue(), name, words), words)


def _inline(svg: str, name: str, words: str) -> str:
    """An SVG document as an element of a page: own ids, the page's colours, a title."""
    from markupsafe import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    for drawn, (shown, _) in COLOURS.items():
        svg = svg.replace(drawn, shown)
    opening = re.match(r"<svg[^>]*>", svg)
    assert opening is not None
    box = re.search(r'viewBox="[^"]+"', opening.group())
    assert box is not None
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box.group()} role="img" aria-label="{escape(words)}"><title>{escape(words)}</title>'
    )
    return start + svg[opening.end() :]

"""The two pictures of the what-if page, as SVG without a style of their own."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from holdfast.desk.whatif import Answer, Bar

#: the picture's size, and what its axes take
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 240, 44, 34, 12


def curve(points: list[dict[str, Any]] | None, answer: Answer | None) -> Markup:
    """Worst case, ceiling and chance by number of erasures, and the question's own answer."""
    known = points or []
    most = max([14, *(int(p["k"]) for p in known), *([answer.people] if answer else [])])

    def x(k: float) -> float:
        return LEFT + (WIDTH - LEFT - 12) * k / most

    parts = _frame([0.0, 0.25, 0.5, 0.75, 1.0])
    for k in sorted({0, most // 2, most}):
        parts.append(_text(x(k), HEIGHT - 14, str(k), "middle"))
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 1, "people erased", "middle"))
    ceiling = [(x(p["k"]), _y(p["ceiling"])) for p in known if p["ceiling"] is not None]
    if ceiling:
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in ceiling)
        ends = f"{ceiling[-1][0]:.1f},{_y(0):.1f} {ceiling[0][0]:.1f},{_y(0):.1f}"
        parts.append(f'<polygon class="ceiling" points="{line} {ends}"/>')
    for name, style in (("random", "chance"), ("refitted", "worst")):
        line = " ".join(f"{x(p['k']):.1f},{_y(p[name]):.1f}" for p in known if p[name] is not None)
        parts.append(f'<polyline class="{style}" points="{line}"/>')
    for p in known:
        if p["refitted"] is not None:
            parts.append(_cross(x(p["k"]), _y(p["refitted"])))
    if answer is not None and answer.predicted is not None:
        share = answer.predicted / answer.promises
        parts.append(
            f'<circle class="asked" cx="{x(answer.people):.1f}" cy="{_y(share):.1f}" r="6"/>'
        )
    words = "share of promises broken by number of people erased"
    return _svg(parts, words)


def margins(bars: list[Bar]) -> Markup:
    """How far beyond the target promises lie, before and after."""
    most = max([1, *(max(bar.before, bar.after) for bar in bars)])
    low, high = bars[0].low, bars[-1].high

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - 12) * (value - low) / (high - low)

    parts = _frame([])
    parts += [_text(LEFT - 6, _y(share) + 4, f"{most * share:.0f}", "end") for share in (0.0, 1.0)]
    for bar in bars:
        wide = max(x(bar.high) - x(bar.low) - 1.5, 1.0)
        for count, style in ((bar.before, "before"), (bar.after, "after")):
            if count:
                top = _y(count / most)
                fallen = " fallen" if bar.high <= 0 else ""
                parts.append(
                    f'<rect class="{style}{fallen}" x="{x(bar.low):.1f}" y="{top:.1f}" '
                    f'width="{wide:.1f}" height="{_y(0) - top:.1f}"/>'
                )
    zero = f"{x(0):.1f}"
    parts.append(f'<line class="target" x1="{zero}" x2="{zero}" y1="{TOP}" y2="{_y(0):.1f}"/>')
    parts.append(_text(x(0), HEIGHT - 16, "target", "middle"))
    parts.append(_text(LEFT, HEIGHT - 2, f"{low:.2g}", "start"))
    parts.append(_text(WIDTH - 12, HEIGHT - 2, f"{high:.2g} deviations beyond", "end"))
    return _svg(parts, "margins of the promises before and after the erasure")


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _frame(shares: list[float]) -> list[str]:
    base = f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 12}" y1="{_y(0):.1f}" y2="{_y(0):.1f}"/>'
    parts = [base]
    for share in shares:
        height = f"{_y(share):.1f}"
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 12}" y1="{height}" y2="{height}"/>'
        )
        parts.append(_text(LEFT - 6, _y(share) + 4, f"{100 * share:.0f} %", "end"))
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _cross(x: float, y: float) -> str:
    return f'<path class="worst" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'


def _svg(parts: list[str], words: str) -> Markup:
    """Numbers and words of our own only, so nothing in it needs to be escaped."""
    body = "".join(parts)
    return Markup(  # noqa: S704
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">{body}</svg>'
    )

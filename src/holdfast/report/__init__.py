"""The report: a summary, and nothing but it, as one page that needs nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.report.figures import FIGURES, Figure, curve, trade_off
from holdfast.report.schema import AuditSummary, HardeningPart
from holdfast.report.words import at_most, people, percent, plainly


def page(summary: AuditSummary) -> str:
    """The whole report as HTML."""
    figures = {name: draw(summary) for name, draw in FIGURES.items()}
    shown = {name: _drawn(figure) for name, figure in figures.items()}
    return rendered("report.html", s=summary, figures=shown)


def hardening_page(part: HardeningPart) -> str:
    """What hardening found, as a page of its own."""
    return rendered("hardening_page.html", hardening=part, figure=_drawn(trade_off(part)))


def fragment(summary: AuditSummary) -> str:
    """The headline and the curve, for a notebook."""
    return rendered("fragment.html", s=summary, curve=_drawn(curve(summary)))


def _drawn(figure: Figure | None) -> Markup | None:
    """A figure as it stands in a page: matplotlib has escaped every text in it."""
    return None if figure is None else Markup(figure.svg)  # noqa: S704


def rendered(template: str, **content: Any) -> str:
    """A template filled in; whatever comes from users is escaped."""
    return _environment().get_template(template).render(**content)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("holdfast.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    made.filters["at_most"] = at_most
    made.filters["short"] = lambda value: "–" if value is None else f"{value:.3g}"
    made.filters["count"] = lambda value: "(not shown)" if value is None else f"{value:,}"
    made.filters["plainly"] = plainly
    made.globals["people"] = people
    return made

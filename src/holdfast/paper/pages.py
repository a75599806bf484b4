"""A page on which the figures can be leafed through, with the stop chosen by a slider.

It refers to the pictures beside it and to nothing else: no network, no library. Without JavaScript
every picture is there, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import Environment, PackageLoader, select_autoescape

from holdfast.paper.drawing import stop_name

#: what each family of pictures shows, in the order of the page
TITLES = {
    "outcome": "Figure 2: invalidated recourses, regression, the paper's greedy search",
    "outcome-best": "Figure 2 with the strongest attack found",
    "classification": "Appendix: classification, the paper's greedy search",
    "classification-best": "Classification with the strongest attack found",
    "gates": "Appendix: gates (Algorithm 2) beside greedy (Algorithm 1)",
    "onion": "Appendix: the 15 most critical rows removed first, greedy",
    "onion-best": "The same with the strongest attack found",
    "bounds": "The propositions: bounds and what they bound",
}


def slider(names: Iterable[str], stops: list[str]) -> str:
    """The page, for the pictures there are."""
    drawn = set(names)
    families = []
    for family, title in TITLES.items():
        at = {stop: f"{family}-{stop_name(stop)}" for stop in stops}
        if drawn & set(at.values()):
            pictures = [(stop, name if name in drawn else "") for stop, name in at.items()]
            families.append((title, pictures))
    loader = PackageLoader("holdfast.paper", "")
    environment = Environment(loader=loader, autoescape=select_autoescape(default=True))
    return environment.get_template("figures.html").render(stops=stops, families=families) + "\n"

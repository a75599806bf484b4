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
#: pictures that show all stops at once, or need none
WHOLE = {
    "notions": "Figure 1: the two notions of instability",
    "overshoot-greedy": "What decides: the overshoot itself, the paper's greedy search",
    "overshoot": "The same with the strongest attack found",
    "action-l1": "Figure 3: how far recourse moves, ℓ1 cost",
    "action-l2": "Figure 3 with the ℓ2 cost of the closed forms",
    "wide": "Appendix: the NTK's critical rows and a wide ReLU network",
    "encodings-linear": "What a reader chooses: OLS",
    "encodings-ntk": "What a reader chooses: the NTK",
    "held-out": "People the search has not seen",
    "rules": "Advice that people could follow",
    "rules-best": "The same with the strongest attack found",
    "privacy": "Differentially private training",
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
    page = environment.get_template("figures.html")
    others = [(title, name) for name, title in WHOLE.items() if name in drawn]
    return page.render(stops=stops, families=families, others=others) + "\n"

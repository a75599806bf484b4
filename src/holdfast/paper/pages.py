"""A page on which the figures can be leafed through, with the stop chosen by a slider.

It refers to the pictures beside it and to nothing else: no network, no library. Without JavaScript
every picture is there, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import Environment, select_autoescape

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

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's figures by overshoot</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem;
       color: #1f2328; background: #fff; }
.stop { position: sticky; top: 0; background: #fff; padding: .6rem 0; border-bottom: 1px solid #ccc; }
input { width: min(24rem, 100%); vertical-align: middle; }
img { max-width: 100%; height: auto; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
.js .other { display: none; } .missing { color: #6e7781; } html:not(.js) .stop { display: none; }
</style></head><body>
<h1>The paper's figures, by where recourses stop</h1>
<p>How far a promise overshoots its target decides nearly everything. Move the slider: every figure
below follows. Dotted is random, bands are two standard errors.</p>
<div class="stop"><label>stop: <output id="told"></output><br>
<input id="stop" type="range" min="0" max="{{ stops|length - 1 }}" value="0" step="1"
 aria-label="where recourses stop" list="stops"></label>
<datalist id="stops">{% for stop in stops %}<option value="{{ loop.index0 }}">{% endfor %}</datalist>
</div>
{% for title, pictures in families %}<figure><figcaption>{{ title }}</figcaption>
{% for stop, name in pictures %}{% if name %}<img data-stop="{{ stop }}" src="{{ name }}.svg"
 alt="{{ title }}, {{ stop }}" loading="lazy">
{% else %}<p class="missing" data-stop="{{ stop }}">not measured at {{ stop }}</p>
{% endif %}{% endfor %}</figure>
{% endfor %}<script>
const stops = {{ stops|tojson }}, slider = document.getElementById("stop");
document.documentElement.classList.add("js");
function show() {
  const stop = stops[slider.value];
  document.getElementById("told").textContent =
    stop === "as published" ? "as published implementations do" : stop + " deviations past the target";
  for (const e of document.querySelectorAll("[data-stop]"))
    e.classList.toggle("other", e.dataset.stop !== stop);
}
slider.addEventListener("input", show); show();
</script></body></html>
"""


def slider(names: Iterable[str], stops: list[str]) -> str:
    """The page, for the pictures there are."""
    drawn = set(names)
    families = []
    for family, title in TITLES.items():
        at = {stop: f"{family}-{stop_name(stop)}" for stop in stops}
        if drawn & set(at.values()):
            pictures = [(stop, name if name in drawn else "") for stop, name in at.items()]
            families.append((title, pictures))
    made = Environment(autoescape=select_autoescape(default=True)).from_string(_PAGE)
    return made.render(stops=stops, families=families) + "\n"

"""What hardening found: one table, one figure, one recommendation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from holdfast.audits.hardening.comparison import Comparison, Mitigation
from holdfast.files import Outputs
from holdfast.report.schema import HardeningLine, HardeningPart
from holdfast.report.suppression import FEWEST, at_least
from holdfast.report.words import percent

COLUMNS = [
    *("mitigation", "setting", "survive", "certified", "proven", "broken_most"),
    *("extra_cost", "cost", "served", "quality", "people", "note"),
]


@dataclass
class Hardening:
    """What :func:`holdfast.harden` returns.

    Attributes
    ----------
    table : frame
        One line per way of doing it: the share of the recourses that is left standing by the
        strongest attack found on all of them together (``survive``, refitted), the ``certified``
        share, whether survival of each is ``proven``, the share broken by the most deletions
        looked at, the median cost and how much more that is (``extra_cost``), the share of people
        ``served``, and the model's ``quality`` on held-out rows (R², or the area under the ROC
        curve).
    mitigations : dict
        The strongest way of each, with ``points`` and ``model``.
    skipped : dict
        Mitigations the model does not support, and why.
    recommendation : str
    """

    case: Comparison = field(repr=False)
    made: list[Mitigation] = field(repr=False)
    skipped: dict[str, str]

    @property
    def table(self) -> pd.DataFrame:
        """One line per way of doing it."""
        return pd.DataFrame([m.measured for m in self.made], columns=COLUMNS)

    @property
    def mitigations(self) -> dict[str, Mitigation]:
        """The last and strongest way of each."""
        return {m.name: m for m in self.made}

    @property
    def curves(self) -> pd.DataFrame:
        """The share broken at every number of deletions, by way of doing it."""
        names = [f"{m.name} {m.setting}".strip() for m in self.made]
        table = pd.DataFrame({n: m.broken for n, m in zip(names, self.made, strict=True)})
        return table.rename_axis("deletions")

    @property
    def recommendation(self) -> str:
        """What to do, in words: the cheapest that is proven, else the best that was found."""
        return self._said(self._recommended(self.table, shared=False))

    def _said(self, recommendation: str) -> str:
        """What the models keep goes first."""
        return f"{self.case.model.kept} {recommendation}".strip()

    def _recommended(self, lines: pd.DataFrame, shared: bool) -> str:
        k = self.case.survive
        noun = "person erased" if self.case.unit == "subject" else "deletion"
        any_k = f"any {k} " + (noun if k == 1 else noun.replace("person", "people") + "s")
        any_k = any_k.replace("eraseds", "erased")
        sure = lines[lines["proven"].astype(bool) & (lines["survive"] == 1.0)]
        if len(sure):
            return self._proven(sure.sort_values("extra_cost").iloc[0], any_k, shared)
        usable = ~lines["mitigation"].isin(["honour", "drop-critical"]) & (lines["survive"] > 0)
        usable &= ~lines["note"].str.startswith("quality falls")
        tried = lines[usable]
        if len(tried) == 0:
            return (
                f"Nothing that was tried makes recourses survive {any_k}: keep the promises you "
                "make, or make none."
            )
        best = tried.sort_values(["survive", "extra_cost"], ascending=[False, True]).iloc[0]
        return (
            f"Nothing is proven for all of them. The most that was found: {best['mitigation']} "
            f"({best['setting']}) lets {percent(best['survive'])} stand against the strongest "
            f"attack found, {_asked(best['extra_cost'])}."
        )

    def _proven(self, line: Any, any_k: str, shared: bool) -> str:
        count = f"{len(self.mitigations[line['mitigation']].points):,} "
        count = "all " if shared else count
        whole = ""
        if self.case.model.preprocessing is not None:
            whole = " with the preprocessing refitted"
        served = ""
        if line["served"] < 1:
            most = "At most " if shared else ""
            served = f" {most}{percent(1 - line['served'])} of the people have no such recourse."
        asked = f"Asking people for {_more(line['extra_cost'])} more (median) makes"
        if line["extra_cost"] < 0.0005:
            asked = "At no extra cost (median), another choice of changes makes"
        return f"{asked} 100 % of {count}recourses survive {any_k}, proven{whole}.{served}"

    def part(self) -> HardeningPart:
        """What may be shared of it."""
        few = len(self.case.people) < FEWEST
        table = pd.DataFrame([_shared(made) for made in self.made], columns=COLUMNS)
        lines = []
        for row in [] if few else table.to_dict(orient="records"):
            known = {k: _known(v) for k, v in row.items() if k not in ("people", "note")}
            lines.append(HardeningLine.model_validate({**known, "proven": bool(row["proven"])}))
        quality = "area under the ROC curve" if self.case.model.classes is not None else "R²"
        return HardeningPart(
            survive=self.case.survive,
            recommendation=None if few else self._said(self._recommended(table, shared=True)),
            lines=lines,
            skipped=self.skipped,
            quality=None if self.case.holdout is None else quality,
        )

    def to_json(self, path: Any = None) -> str:
        """What may be shared as JSON; written to a file if a path is given."""
        text = self.part().as_json()
        if path is not None:
            with Outputs() as out:
                out.text(path, text)
        return text

    def __repr__(self) -> str:
        return f"<Hardening survive={self.case.survive}, {len(self.made)} ways measured>"

    def plot(self, ax: Any = None) -> Any:
        """Extra cost against the share that survives, a line per mitigation."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")[1]
        lines = self.table
        for name in dict.fromkeys(lines["mitigation"]):
            some = lines[lines["mitigation"] == name].sort_values("extra_cost")
            ax.plot(100 * some["extra_cost"], 100 * some["survive"], "o-", label=name)
            proven = some[some["proven"].astype(bool)]
            ax.plot(100 * proven["extra_cost"], 100 * proven["survive"], "k*", markersize=12)
        ax.set(
            xlabel="extra cost to people (%, median)",
            ylabel=f"recourses that survive {self.case.survive} deletions (%)",
            ylim=(-3, 103),
        )
        ax.legend(frameon=False, fontsize="small", title="star: proven", title_fontsize="small")
        return ax


def _shared(made: Mitigation) -> dict[str, Any]:
    """A line with what concerns fewer than 10 people left out, and shares of so few unreadable."""
    line, count = dict(made.measured), len(made.points)
    line["served"] = at_least(line["served"], line["people"])
    if count < FEWEST:
        about_few = ("survive", "certified", "broken_most", "extra_cost", "cost", "served")
        return line | dict.fromkeys(about_few, np.nan) | {"proven": False}
    if np.isfinite(line["certified"]):
        line["certified"] = at_least(line["certified"], count)
    return line


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _asked(extra: float) -> str:
    return f"for {_more(extra)} more" if extra >= 0.0005 else "at no extra cost"


def _more(extra: float) -> str:
    return f"{100 * extra:.2g} %" if extra < 1 else f"{100 * extra:,.0f} %"

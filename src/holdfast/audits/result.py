"""What an audit found: frames, a headline, and the ways out of Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from holdfast.audits.about import About
from holdfast.audits.explanation import ActionShift, Critical
from holdfast.audits.likelihood import DrawnBand, Likelihood
from holdfast.audits.tables import OWN
from holdfast.errors import HoldfastError
from holdfast.files import Outputs
from holdfast.models.erasable import ErasableModel
from holdfast.proofs.result import Proof
from holdfast.searches.plan import Plan


@dataclass
class Audit:
    """What :func:`holdfast.audit` returns.

    Attributes
    ----------
    curve : frame
        For every number of deletions: the share of recourses broken by the strongest attack found,
        ``predicted`` by the algebra and ``refitted`` (preprocessing refitted too; ``frozen`` with
        it kept, where there is any); ``random``, ``random_low``, ``random_high`` for as many at
        random (a 90 % band); ``ceiling``, proven, where there is a proof.
    critical : frame
        The rows, or subjects, of the attack, by id. Personal data.
    recourses : frame
        One line per recourse: score, margin, ``broken_at`` (the fewest deletions of the attack
        after which a refit breaks it), what is certified, and the change in words. Personal data.
    bounds : frame
        The paper's propositions that apply, beside what was measured.
    proof : Proof or None
    plan : Plan
    likelihood : Likelihood or None
    cohorts, overshoots, groups : frame or None
        What erasing whole groups does; other overshoots; whose promises break, by group.
    blocked : frame or None
        How many people can be promised nothing, and which rules stand in their way.
    refit_noise : float
        The share that breaks when an estimator that draws is refitted on the very same rows: what
        a missing ``random_state`` does. 0 for all others.
    seeds : DrawnBand or None
        The share that breaks with nobody erased but other seeds and another order of the rows, for
        estimators that draw.
    quick : bool
        Whether this is a first answer only.
    missing : list of str
        What the time limit left out.
    refits : dict
        How often the ``estimator`` was fitted again, and how often its optimum was found by our
        own ``solver``.
    hardening : Hardening or None
        What :func:`holdfast.harden` returned, if it is to be a section of the report.
    headline : str
        The finding in words.
    """

    model: ErasableModel = field(repr=False)
    plan: Plan = field(repr=False)
    curve: pd.DataFrame
    critical: pd.DataFrame = field(repr=False)
    recourses: pd.DataFrame = field(repr=False)
    bounds: pd.DataFrame = field(repr=False)
    agreement: pd.DataFrame | None = field(repr=False)
    explained: Critical | None = field(repr=False)
    action: ActionShift | None = field(repr=False)
    proof: Proof | None = field(repr=False)
    likelihood: Likelihood | None = field(repr=False)
    cohorts: pd.DataFrame | None = field(repr=False)
    overshoots: pd.DataFrame | None = field(repr=False)
    headline_at: int
    random_refits: int
    target: float
    unit: str
    overshoot: float
    refit_noise: float
    seeds: DrawnBand | None = field(repr=False)
    quick: bool
    missing: list[str] = field(repr=False)
    refits: dict[str, int] = field(repr=False)
    counts: dict[str, int] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    about: About = field(default_factory=About, repr=False)
    hardening: Any = field(default=None, repr=False)
    groups: pd.DataFrame | None = field(default=None, repr=False)
    blocked: pd.DataFrame | None = field(default=None, repr=False)

    @property
    def preprocessed(self) -> bool:
        """Whether refits fit some preprocessing again."""
        return bool(self.curve["frozen"].notna().any())

    @property
    def through_preprocessing(self) -> float:
        """How much of the headline's share is due to refitting the preprocessing."""
        share, kept = (self.curve[name].iloc[self.headline_at] for name in ("refitted", "frozen"))
        more = float(share) - float(kept)
        return more if np.isfinite(more) else 0.0

    @property
    def channels(self) -> list[str]:
        """What of the preprocessing the attack's sets act through, in words."""
        found = self.critical.loc[self.critical["first_at"] <= self.headline_at, "acts_through"]
        return [words for words in dict.fromkeys(found) if words != OWN]

    @property
    def headline(self) -> str:
        """How many erasures, what they break, what is proven, what chance does; in words."""
        from holdfast.audits.words import headline

        return headline(self, self.ceiling(self.headline_at))

    def share_broken(self, deletions: int) -> float:
        """The refit-confirmed share the strongest attack found breaks with so many or fewer."""
        self._known(deletions)
        shares = self.curve["refitted"].to_numpy()[1 : deletions + 1]
        known = shares[np.isfinite(shares)]
        if deletions and known.size == 0:
            return float("nan")  # no refit to tell by
        return float(known.max(initial=0.0))

    def ceiling(self, deletions: int) -> float | None:
        """The proven ceiling for any so many deletions; ``None`` where nothing is proven."""
        self._known(deletions)
        ceiling = float(self.curve["ceiling"].iloc[deletions])
        return None if np.isnan(ceiling) else ceiling

    def _known(self, deletions: int) -> None:
        most = len(self.curve) - 1
        if not 0 <= deletions <= most:
            raise HoldfastError(
                f"the audit goes up to {most} deletions, not {deletions}: raise max_deletions"
            )

    def summary(self) -> Any:
        """Everything that may be shared, as one validated object of a versioned schema."""
        from holdfast.audits.summary import summarised

        return summarised(self)

    def to_json(self, path: Any = None) -> str:
        """The summary as JSON; written to a file if a path is given. Holds no personal data."""
        text: str = self.summary().as_json()
        if path is not None:
            with Outputs() as out:
                out.text(path, text)
        return text

    def to_html(self, path: Any = None) -> str:
        """The report as one page that needs nothing else; written to a file if a path is given.

        It is made from :meth:`summary` alone, so it holds no personal data either.
        """
        from holdfast.report import page

        text = page(self.summary())
        if path is not None:
            with Outputs() as out:
                out.text(path, text)
        return text

    def to_csv(self, folder: Any) -> None:
        """The summary's tables as CSV files in a folder. They hold no personal data."""
        from holdfast.report.tables import write_tables

        with Outputs() as out:
            write_tables(self.summary(), folder, out)

    def case_file(self, path: Any) -> None:
        """Critical people, witnesses and every recourse by id: **personal data**, mode 0600.

        An HTML page if the path ends in ``.html``, else a folder of CSV files.
        """
        from holdfast.report.case_file import write_case_file

        with Outputs() as out:
            write_case_file(self, path, out)

    def plot(self, ax: Any = None) -> Any:
        """The worst-case curve: predicted, refitted, random, and the proven ceiling."""
        from holdfast.report.figures import draw_curve

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6.5, 4), layout="constrained")[1]
        draw_curve(ax, self.summary())
        return ax

    def __repr__(self) -> str:
        k, q = self.headline_at, len(self.plan.points)
        share = f"{self.share_broken(k):.0%}"
        return f"<Audit {self.model.name}, {k} {self.unit}s erased break {share} of {q} recourses>"

    def _repr_html_(self) -> str:
        from holdfast.report import fragment

        return fragment(self.summary())

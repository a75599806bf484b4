"""What of an audit may be shared: one versioned schema, aggregates only.

The report and the JSON are made from this and nothing else. It has no field for an id, a label, a
residual or a feature value of a person. Groups of fewer than ten are suppressed so that they
cannot be worked out from the rest, and there is nothing in it against which whoever has the rest
of the table could try a guess: no hash of a file, no number at full precision.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from holdfast.report.suppression import FEWEST as FEWEST

#: a number worked out from data, to four digits: the rest would let a guess at the data be checked
Rounded = Annotated[float, AfterValidator(lambda value: float(f"{value:.4g}"))]

CAUTION = "This is the worst choice of people, not a forecast."


class Part(BaseModel):
    """A part of the summary: nothing beyond what is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def as_json(self) -> str:
        """The part as it is printed and written."""
        return json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False) + "\n"


class DataPart(Part):
    """The training table, as counts."""

    rows: int
    units: int = Field(description="what can be erased: rows, or subjects")
    features: list[str] = Field(description="names of the columns the model takes")
    name: str | None = None


class ModelPart(Part):
    """The model."""

    name: str
    deletions: str = Field(description="exact, exact part by part, newton/jackknife, or refit only")
    parameters: dict[str, str]
    preprocessing: list[str]
    drift: Rounded | None = Field(
        None, description="how far the fitted scores were from the optimum's, in deviations"
    )


class RecoursePart(Part):
    """The promised recourses, as counts.

    ``people = above_target + without_recourse + count`` and ``count = valid + not_valid``. A count
    is null where it is fewer than 10, or where one that is could be worked out from it.
    """

    people: int | None
    above_target: int | None = None
    without_recourse: int | None = None
    count: int | None
    valid: int | None = Field(description="at or above the target now: these were audited")
    not_valid: int | None
    method: str | None = None
    expired: int | None = None
    not_yet_issued: int | None = None
    target: Rounded
    score_unit: Rounded = Field(description="standard deviation of the training scores")
    overshoot_median: Rounded | None = Field(
        description="beyond the target, in those deviations; null for fewer than 10 recourses"
    )
    issued_under: dict[str, int | None] | None = None


class Band(Part):
    """A share over several refits, with a 90 % band."""

    mean: float | None
    low: float | None
    high: float | None
    draws: int


class HeadlinePart(Part):
    """The finding."""

    deletions: int
    unit: Literal["row", "subject"]
    refitted: float | None = Field(description="null where fewer than 10 recourses were audited")
    predicted: float | None
    random: float | None
    random_low: float | None
    random_high: float | None
    random_refits: int = Field(description="how many of the random draws were refitted")
    ceiling: float | None = Field(description="proven, in steps of 10 recourses")
    through_preprocessing: float | None = Field(
        description="how much of it is due to refitting the preprocessing"
    )
    channels: list[str] = Field(description="what of the preprocessing the attack acts through")
    refit_noise: float | None = Field(
        description="share a refit breaks with nobody erased; 0 mostly"
    )
    seeds: Band | None = Field(
        None, description="share broken by other seeds with nobody erased, for models that draw"
    )
    quick: bool = Field(False, description="a first answer: a greedy search, nothing proven")
    sentence: str
    caution: str = CAUTION


class CurvePoint(Part):
    """Shares of recourses broken by so many deletions."""

    deletions: int
    predicted: float
    refitted: float | None = Field(description="preprocessing refitted too")
    frozen: float | None = Field(description="refitted, preprocessing kept; null without any")
    random: float | None
    random_low: float | None
    random_high: float | None
    ceiling: float | None = Field(description="proven, in steps of 10 recourses")


class LikelihoodPart(Part):
    """What so many erasures by chance break, confirmed by refits."""

    erasures: int
    random: Band
    worst: float | None
    bootstrap: Band
    rate: str | None = None
    horizon: str | None = None


class GroupPart(Part):
    """Promises to one group of people; groups too small are put together, their share is null."""

    group: str
    recourses: int | None
    broken: float | None = Field(description="by the strongest attack at the headline, refitted")


class CohortPart(Part):
    """One group erased; those too small are put together, and what erasing them does is null."""

    cohort: str
    rows: int
    refitted: float | None
    predicted: float | None


class OvershootPart(Part):
    """Recourses made again with another overshoot."""

    overshoot: float
    cost: Rounded
    deletions: int
    predicted: float = Field(description="to the nearest twentieth")
    refitted: float = Field(description="to the nearest twentieth")


class Bin(Part):
    """Some neighbouring bins of a histogram: as many as it takes to hold 10."""

    low: Rounded
    high: Rounded
    count: int


class CellPart(Part):
    """Rows in one fifth of leverage and one of residual."""

    leverage: int
    residual: int
    harm: Rounded | None = Field(description="null where there are fewer than 10 rows")


class CriticalPart(Part):
    """Where the harmful rows lie; a fifth would be chance."""

    cells: list[CellPart]
    top: int
    high_leverage: float | None = Field(description="to the nearest tenth")
    high_residual: float | None = Field(description="to the nearest tenth")


class ActionPart(Part):
    """How far advice itself moves: Φ₂, in the features the model sees."""

    deletions: int
    median: Rounded
    high: Rounded
    random_median: Rounded
    random_high: Rounded


class BoundPart(Part):
    """A proposition of the paper beside the worst single deletion; medians over recourses."""

    name: str
    about: str
    bound: Rounded
    measured: Rounded
    ratio: Rounded | None
    assumptions: list[str]


class AgreementPart(Part):
    """A tenth of the recourses by predicted drop: both drops, in deviations of the scores."""

    recourses: int
    predicted: Rounded
    refitted: Rounded


class CertificatePart(Part):
    """How many erasures recourses provably survive."""

    limit: int
    limit_reason: str
    method: str
    tight: float = Field(
        description="share whose certificate cannot be improved, in steps of 10 recourses"
    )
    survive: list[Bin] = Field(description="recourses by the number they provably survive")
    assumptions: list[str]


class HardeningLine(Part):
    """One way of making recourse survive, measured on the same people."""

    mitigation: str
    setting: str
    survive: float | None = Field(description="share that survives the attack, refitted")
    certified: float | None = Field(description="in steps of 10 recourses")
    proven: bool = Field(description="whether survival of all of them is proven")
    broken_most: float | None
    extra_cost: Rounded | None = Field(description="median over people, relative")
    cost: Rounded | None
    served: float | None = Field(description="in steps of 10 people")
    quality: Rounded | None


class HardeningPart(Part):
    """What it would take for recourses to survive so many deletions."""

    survive: int
    recommendation: str | None = Field(description="null where fewer than 10 people are concerned")
    lines: list[HardeningLine]
    skipped: dict[str, str]
    quality: str | None = Field(description="what quality is: R² or the area under the ROC curve")


class AuditSummary(Part):
    """An audit as it may be shared."""

    schema_version: Literal["2.1"] = "2.1"
    kind: Literal["audit"] = "audit"
    created: str
    reference: str = Field(
        description="by chance; the same in the case file, which has the hashes of the files"
    )
    data: DataPart
    model: ModelPart
    recourses: RecoursePart
    headline: HeadlinePart
    curve: list[CurvePoint]
    likelihood: LikelihoodPart | None
    cohorts: list[CohortPart] | None
    overshoots: list[OvershootPart] | None
    margins: list[Bin]
    critical: CriticalPart | None
    action: ActionPart | None
    bounds: list[BoundPart]
    agreement: list[AgreementPart] | None
    certificates: CertificatePart | None
    hardening: HardeningPart | None = None
    groups: list[GroupPart] | None = Field(default=None, description="new in 2.1")
    actions: list[str] = Field(default_factory=list, description="what to do now; new in 2.1")
    warnings: list[str] = Field(default_factory=list, description="new in 2.1")
    settings: dict[str, str | int | float | bool | None]
    notes: list[str]
    missing: list[str] = Field(default_factory=list, description="what the time limit left out")
    refits: dict[str, int] = Field(
        default_factory=dict, description="fits by the estimator, and by our own solver"
    )
    limits: list[str]
    versions: dict[str, str]


class BrokenPart(Part):
    """A promise that breaks. Personal data."""

    id: str
    score: float
    predicted: float | None
    frozen: float | None
    refitted: float | None = Field(description="null where the updated model cannot score it")
    shortfall: float | None
    promised: str
    now: str
    further: str
    extra_cost: float | None


class ImpactSummary(Part):
    """What honouring some requests does. Personal data, but nothing of those erased."""

    schema_version: Literal["1.0"] = "1.0"
    kind: Literal["impact"] = "impact"
    personal_data: Literal[True] = True
    requests: int
    erased_rows: int
    recourses: int
    broken: list[BrokenPart]
    frozen_broken: int
    promises_of_erased: int
    target: float
    largest_error: float | None
    headline: str
    version: str

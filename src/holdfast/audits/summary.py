"""What of an audit may be shared: one versioned schema, aggregates only.

The report and the JSON are made from this and nothing else. It has no field for an id, a label, a
residual or a feature value of a person, and groups of fewer than :data:`FEWEST` are suppressed.
"""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from holdfast import __version__
from holdfast.audits.explanation import FIFTHS
from holdfast.audits.likelihood import Band as DrawnBand
from holdfast.audits.words import CAUTION
from holdfast.models.inputs import final_step

SCHEMA_VERSION = "1.0"

#: groups of fewer people or rows are not shown
FEWEST = 10

LIMITS = (
    "The worst case is the strongest attack found: another choice of the same size may break more, "
    "but never more than the proven ceiling where one is given.",
    "It is a worst choice of people. Who asks for erasure is not chosen to do harm; what chance "
    "does is shown beside it.",
    "Shares are of the promised recourses that were valid when the audit was made.",
    "A ceiling holds for this training table, this target and this preprocessing, and only while "
    "no rows are added.",
    "A recourse that breaks is one the refitted model no longer scores at the target; whether the "
    "promise is kept nevertheless is for the institution to decide.",
)


class Part(BaseModel):
    """A part of the summary: nothing beyond what is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataPart(Part):
    """The training table, as counts and hashes."""

    rows: int
    units: int = Field(description="what can be erased: rows, or subjects")
    features: list[str] = Field(description="names of the columns the model takes")
    table_sha256: str | None = None
    name: str | None = None


class ModelPart(Part):
    """The model."""

    name: str
    deletions: str = Field(description="exact, newton/jackknife, or refit only")
    parameters: dict[str, str]
    preprocessing: list[str]
    model_sha256: str | None = None
    drift: float | None = Field(
        None, description="how far the fitted scores were from the optimum's, in deviations"
    )


class RecoursePart(Part):
    """The promised recourses, as counts."""

    count: int
    valid: int = Field(description="at or above the target now: these were audited")
    method: str | None = None
    expired: int | None = None
    not_yet_issued: int | None = None
    above_target: int | None = None
    without_recourse: int | None = None
    target: float
    score_unit: float = Field(description="standard deviation of the training scores")
    overshoot_median: float = Field(description="beyond the target, in those deviations")
    issued_under: dict[str, int | None] | None = None


class HeadlinePart(Part):
    """The finding."""

    deletions: int
    unit: Literal["row", "subject"]
    refitted: float
    predicted: float
    random: float
    random_low: float
    random_high: float
    random_refits: int = Field(description="how many of the random draws were refitted")
    ceiling: float | None
    sentence: str
    caution: str = CAUTION


class CurvePoint(Part):
    """Shares of recourses broken by so many deletions."""

    deletions: int
    predicted: float
    refitted: float | None = Field(description="preprocessing refitted too")
    frozen: float | None = Field(description="refitted, preprocessing kept; null without any")
    random: float
    random_low: float
    random_high: float
    ceiling: float | None


class Band(Part):
    """A share over several refits, with a 90 % band."""

    mean: float | None
    low: float | None
    high: float | None
    draws: int


class LikelihoodPart(Part):
    """What so many erasures by chance break, confirmed by refits."""

    erasures: int
    random: Band
    worst: float | None
    bootstrap: Band
    rate: str | None = None
    horizon: str | None = None


class CohortPart(Part):
    """One group erased; null where the group is too small to be shown."""

    cohort: str
    rows: int | None
    refitted: float | None
    predicted: float | None


class OvershootPart(Part):
    """Recourses made again with another overshoot."""

    overshoot: float
    recourses: int
    cost: float
    deletions: int
    predicted: float
    refitted: float


class Bin(Part):
    """A bin of a histogram; count is null where it holds too few."""

    low: float
    high: float
    count: int | None


class CellPart(Part):
    """Rows in one fifth of leverage and one of residual."""

    leverage: int
    residual: int
    rows: int | None
    harm: float | None


class CriticalPart(Part):
    """Where the harmful rows lie; a fifth would be chance."""

    cells: list[CellPart]
    top: int
    high_leverage: float | None
    high_residual: float | None


class ActionPart(Part):
    """How far advice itself moves: Φ₂, in the features the model sees."""

    deletions: int
    median: float
    high: float
    random_median: float
    random_high: float


class BoundPart(Part):
    """A proposition of the paper beside the worst single deletion; medians over recourses."""

    name: str
    about: str
    bound: float
    measured: float
    ratio: float | None
    assumptions: list[str]


class AgreementPart(Part):
    """A tenth of the recourses by predicted drop: both drops, in deviations of the scores."""

    recourses: int
    predicted: float
    refitted: float


class CertificatePart(Part):
    """How many erasures recourses provably survive."""

    limit: int
    limit_reason: str
    method: str
    tight: float = Field(description="share whose certificate cannot be improved")
    survive: list[Bin] = Field(description="recourses by the number they provably survive")
    assumptions: list[str]


class AuditSummary(Part):
    """An audit as it may be shared."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    kind: Literal["audit"] = "audit"
    created: str
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
    settings: dict[str, str | int | float | bool | None]
    notes: list[str]
    limits: list[str]
    versions: dict[str, str]


def number(value: Any) -> float | None:
    """A float, or null where there is none."""
    return None if value is None or not np.isfinite(value) else float(value)


def enough(count: int) -> int | None:
    """A count, or null where it is too small to be shown; nobody at all can be told."""
    return None if 0 < count < FEWEST else int(count)


def summarised(audit: Any) -> AuditSummary:
    """The summary of an audit."""
    model, about = audit.model, audit.about
    k = audit.headline_at
    line = audit.curve.loc[k]
    estimator = final_step(model.estimator)
    kind = "exact" if model.exact else "/".join(model.core.approximations) or "refit only"
    return AuditSummary(
        created=datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        data=DataPart(
            rows=audit.counts["rows"],
            units=audit.counts["units"],
            features=[str(name) for name in model.frame.columns],
            table_sha256=about.get("table_sha256"),
            name=about.get("table"),
        ),
        model=ModelPart(
            name=type(estimator).__name__,
            deletions=kind,
            parameters=_parameters(estimator),
            preprocessing=about.get("preprocessing", []),
            model_sha256=about.get("model_sha256"),
            drift=number(model.drift),
        ),
        recourses=RecoursePart(
            count=audit.counts["recourses"],
            valid=audit.counts["valid"],
            method=about.get("method"),
            expired=about.get("expired"),
            not_yet_issued=about.get("not_yet_issued"),
            above_target=audit.counts.get("above_target"),
            without_recourse=audit.counts.get("without_recourse"),
            target=audit.target,
            score_unit=model.score_unit,
            overshoot_median=audit.overshoot,
            issued_under=about.get("issued_under"),
        ),
        headline=HeadlinePart(
            deletions=k,
            unit=audit.unit,
            refitted=audit.share_broken(k),
            predicted=float(line["predicted"]),
            random=float(line["random"]),
            random_low=float(line["random_low"]),
            random_high=float(line["random_high"]),
            random_refits=audit.random_refits,
            ceiling=audit.ceiling(k),
            sentence=audit.headline,
        ),
        curve=[
            CurvePoint(deletions=int(k), **{name: number(v) for name, v in row.items()})
            for k, row in audit.curve.iterrows()
        ],
        likelihood=_likelihood(audit),
        cohorts=_cohorts(audit.cohorts),
        overshoots=_overshoots(audit.overshoots),
        margins=_histogram(audit.recourses["overshoot"].to_numpy()),
        critical=_critical(audit.explained),
        action=None if audit.action is None else ActionPart(**vars(audit.action)),
        bounds=[
            BoundPart(**{**row, "ratio": number(row["ratio"])})
            for row in audit.bounds.to_dict(orient="records")
        ],
        agreement=_agreement(audit.agreement),
        certificates=_certificates(audit),
        settings={**audit.settings, **about.get("settings", {})},
        notes=list(about.get("notes", [])),
        limits=list(LIMITS),
        versions=_versions(),
    )


def _parameters(estimator: Any) -> dict[str, str]:
    """Parameters that are not the class's defaults, shortened."""
    default = type(estimator)().get_params(deep=False) if _plain(estimator) else {}
    own = estimator.get_params(deep=False)
    changed = {name: value for name, value in own.items() if repr(default.get(name)) != repr(value)}
    return {name: repr(value)[:60] for name, value in sorted(changed.items())}


def _plain(estimator: Any) -> bool:
    try:
        type(estimator)()
    except TypeError:
        return False
    return True


def _versions() -> dict[str, str]:
    wanted = ("numpy", "scipy", "scikit-learn", "pandas", "numba")
    found = {name: metadata.version(name) for name in wanted}
    return {"holdfast": __version__, "python": platform.python_version(), **found}


def _band(band: DrawnBand) -> Band:
    return Band(
        mean=number(band.mean), low=number(band.low), high=number(band.high), draws=band.draws
    )


def _likelihood(audit: Any) -> LikelihoodPart | None:
    found = audit.likelihood
    if found is None:
        return None
    return LikelihoodPart(
        erasures=found.erasures,
        random=_band(found.random),
        worst=found.worst,
        bootstrap=_band(found.bootstrap),
        rate=audit.about.get("rate"),
        horizon=audit.about.get("horizon"),
    )


def _cohorts(table: pd.DataFrame | None) -> list[CohortPart] | None:
    """Groups by size; those too small lose their numbers and their names."""
    if table is None:
        return None
    parts = []
    for row in table.to_dict(orient="records"):
        small = enough(row["rows"]) is None
        parts.append(
            CohortPart(
                cohort=f"(a group under {FEWEST})" if small else str(row["cohort"]),
                rows=enough(row["rows"]),
                refitted=None if small else number(row["refitted"]),
                predicted=None if small else number(row["predicted"]),
            )
        )
    return parts


def _overshoots(table: pd.DataFrame | None) -> list[OvershootPart] | None:
    if table is None:
        return None
    return [OvershootPart(**row) for row in table.to_dict(orient="records")]


def _histogram(values: Any, bins: int = 20) -> list[Bin]:
    """Counts in bins of equal width, up to the value 99 % stay below; the last takes the rest."""
    top = float(np.quantile(values, 0.99)) if len(values) else 0.0
    if not top > 0:
        return [Bin(low=0.0, high=0.0, count=enough(len(values)))]
    edges = np.linspace(0.0, top * (1 + 1e-9), bins + 1)
    counts = np.histogram(np.minimum(values, top), edges)[0]
    return [
        Bin(low=float(a), high=float(b), count=enough(int(c)))
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _critical(found: Any) -> CriticalPart | None:
    if found is None:
        return None
    cells = []
    for row in found.cells.to_dict(orient="records"):
        rows = enough(int(row["rows"]))
        harm = None if rows is None else float(row["harm"])
        cells.append(CellPart(**{**row, "rows": rows, "harm": harm}))
    small = found.top < FEWEST
    return CriticalPart(
        cells=cells,
        top=found.top,
        high_leverage=None if small else found.high_leverage,
        high_residual=None if small else found.high_residual,
    )


def _agreement(table: pd.DataFrame | None) -> list[AgreementPart] | None:
    if table is None:
        return None
    rows = [row for row in table.to_dict(orient="records") if row["recourses"] >= FEWEST]
    return [AgreementPart(**row) for row in rows if np.isfinite(row["refitted"])]


def _certificates(audit: Any) -> CertificatePart | None:
    proof = audit.proof
    if proof is None:
        return None
    certified = audit.recourses["certified"].to_numpy()
    counts = np.bincount(certified, minlength=proof.max_deletions + 1)
    return CertificatePart(
        limit=proof.limit,
        limit_reason=proof.limit_reason,
        method=proof.method,
        tight=proof.tight,
        survive=[
            Bin(low=float(k), high=float(k), count=enough(int(c))) for k, c in enumerate(counts)
        ],
        assumptions=list(proof.assumptions),
    )


__all__ = ["FEWEST", "FIFTHS", "SCHEMA_VERSION", "AuditSummary", "summarised"]

"""An audit as it may be shared: aggregates, small groups suppressed."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd

from holdfast.audits.likelihood import DrawnBand
from holdfast.models.pipelines import final_step
from holdfast.report.schema import (
    FEWEST,
    ActionPart,
    AgreementPart,
    AuditSummary,
    Band,
    Bin,
    BoundPart,
    CellPart,
    CertificatePart,
    CohortPart,
    CriticalPart,
    CurvePoint,
    DataPart,
    HeadlinePart,
    LikelihoodPart,
    ModelPart,
    OvershootPart,
    RecoursePart,
)

#: said in place of the headline where too few recourses were audited
WITHHELD = (
    f"Fewer than {FEWEST} recourses were audited: what can be shared says nothing about so few."
)

SHARES = ("predicted", "random", "random_low", "random_high")

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
    few = audit.counts["valid"] < FEWEST
    estimator = final_step(model.estimator)
    return AuditSummary(
        created=datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        data=DataPart(
            rows=audit.counts["rows"],
            units=audit.counts["units"],
            features=[str(name) for name in model.frame.columns],
            table_sha256=about.table_sha256,
            name=about.table,
        ),
        model=ModelPart(
            name=type(estimator).__name__,
            deletions=model.algebra,
            parameters=_parameters(estimator),
            preprocessing=about.preprocessing,
            model_sha256=about.model_sha256,
            drift=number(model.drift),
        ),
        recourses=RecoursePart(
            count=enough(audit.counts["recourses"]),
            valid=enough(audit.counts["valid"]),
            method=about.method,
            expired=enough(about.expired),
            not_yet_issued=enough(about.not_yet_issued),
            above_target=enough(audit.counts.get("above_target", 0)),
            without_recourse=enough(audit.counts.get("without_recourse", 0)),
            target=audit.target,
            score_unit=model.score_unit,
            overshoot_median=audit.overshoot,
            issued_under=about.issued_under,
        ),
        headline=HeadlinePart(
            deletions=k,
            unit=audit.unit,
            refitted=None if few else audit.share_broken(k),
            **{n: None if few else number(line[n]) for n in SHARES},  # type: ignore[arg-type]
            random_refits=audit.random_refits,
            ceiling=None if few else audit.ceiling(k),
            frozen=audit.preprocessed,
            refit_noise=0.0 if few else audit.refit_noise,
            seeds=None if few or audit.seeds is None else _band(audit.seeds),
            quick=audit.quick,
            sentence=WITHHELD if few else audit.headline,
        ),
        curve=[]
        if few
        else [
            CurvePoint.model_validate({"deletions": k, **{n: number(v) for n, v in row.items()}})
            for k, row in audit.curve.iterrows()
        ],
        likelihood=None if few else _likelihood(audit),
        cohorts=None if few else _cohorts(audit.cohorts),
        overshoots=None if few else _overshoots(audit.overshoots),
        margins=_histogram(audit.recourses["overshoot"].to_numpy()),
        critical=_critical(audit.explained),
        action=None if few or audit.action is None else ActionPart(**vars(audit.action)),
        bounds=[
            BoundPart(**{**row, "ratio": number(row["ratio"])})
            for row in audit.bounds.to_dict(orient="records")
        ],
        agreement=None if few else _agreement(audit.agreement),
        certificates=None if few else _certificates(audit),
        hardening=None if audit.hardening is None else audit.hardening.part(),
        settings={**audit.settings, **about.settings},
        notes=about.shared_notes,
        missing=list(audit.missing),
        refits=audit.refits,
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
    wanted = ("holdfast", "numpy", "scipy", "scikit-learn", "pandas", "numba")
    return {"python": platform.python_version(), **{n: metadata.version(n) for n in wanted}}


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
        rate=audit.about.rate,
        horizon=audit.about.horizon,
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
    return [OvershootPart.model_validate(row) for row in table.to_dict(orient="records")]


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
    return [AgreementPart.model_validate(row) for row in rows if np.isfinite(row["refitted"])]


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

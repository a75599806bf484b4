"""An audit as it may be shared: aggregates, small groups suppressed."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd

from holdfast.audits.actions import actions
from holdfast.audits.likelihood import DrawnBand
from holdfast.audits.words import headline
from holdfast.report.schema import (
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
    GroupPart,
    HeadlinePart,
    LikelihoodPart,
    ModelPart,
    OvershootPart,
    RecoursePart,
)
from holdfast.report.suppression import (
    FEWEST,
    at_least,
    at_most,
    enough,
    hidden_together,
    merged,
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
    "A ceiling holds for this training table, this target and these steps of preprocessing, "
    "refitted, and only while no rows are added.",
    "A recourse that breaks is one the refitted model no longer scores at the target; whether the "
    "promise is kept nevertheless is for the institution to decide.",
)

#: said too where the target moves
MOVING = (
    "The target of this audit moves with every refit. What is certified is certified for a fixed "
    "target, so no ceiling follows from it."
)


def number(value: Any) -> float | None:
    """A float, or null where there is none."""
    return None if value is None or not np.isfinite(value) else float(value)


def summarised(audit: Any) -> AuditSummary:
    """The summary of an audit."""
    model, files = audit.model, audit.about
    k, q = audit.headline_at, audit.counts["valid"]
    line = audit.curve.loc[k]
    few = q < FEWEST
    ceilings = [None if few or c != c else at_most(c, q) for c in audit.curve["ceiling"]]
    estimator = model.inside
    return AuditSummary(
        created=datetime.datetime.now(datetime.UTC).replace(microsecond=0).isoformat(),
        reference=files.reference,
        data=DataPart(
            rows=audit.counts["rows"],
            units=audit.counts["units"],
            features=[str(name) for name in model.frame.columns],
            name=files.table,
        ),
        model=ModelPart(
            name=model.name,
            deletions=model.algebra,
            parameters=_parameters(estimator),
            preprocessing=files.preprocessing,
            drift=number(model.drift),
        ),
        recourses=_recourses(audit, few),
        headline=HeadlinePart(
            deletions=k,
            unit=audit.unit,
            refitted=None if few else audit.share_broken(k),
            **{n: None if few else number(line[n]) for n in SHARES},  # type: ignore[arg-type]
            random_refits=audit.random_refits,
            ceiling=ceilings[k],
            through_preprocessing=None if few else round(audit.through_preprocessing, 4),
            channels=[] if few else audit.channels,
            refit_noise=None if few else audit.refit_noise,
            seeds=None if few or audit.seeds is None else _band(audit.seeds),
            quick=audit.quick,
            sentence=WITHHELD if few else headline(audit, ceilings[k]),
        ),
        curve=[]
        if few
        else [
            CurvePoint.model_validate(
                {
                    "deletions": k,
                    **{n: number(v) for n, v in row.items()},
                    "ceiling": ceilings[k],
                }
            )
            for k, row in audit.curve.iterrows()
        ],
        likelihood=None if few else _likelihood(audit),
        cohorts=None if few else _cohorts(audit.cohorts),
        overshoots=None if few else _overshoots(audit.overshoots),
        margins=_histogram(audit.recourses["overshoot"].to_numpy()),
        critical=None if few else _critical(audit.explained),
        action=None if few or audit.action is None else ActionPart(**vars(audit.action)),
        bounds=[
            BoundPart(**{**row, "ratio": number(row["ratio"])})
            for row in ([] if few else audit.bounds.to_dict(orient="records"))
        ],
        agreement=None if few else _agreement(audit.agreement),
        certificates=None if few else _certificates(audit),
        hardening=None if audit.hardening is None else audit.hardening.part(),
        settings={**audit.settings, **files.settings},
        groups=None if few else _groups(audit.groups),
        actions=[] if few else actions(audit),
        warnings=files.warnings,
        notes=files.shared_notes,
        missing=list(audit.missing),
        refits=audit.refits,
        limits=[
            *([model.kept] if model.kept else []),
            *LIMITS,
            *([] if model.cutoff is None else [MOVING]),
        ],
        versions=_versions(),
    )


def _groups(table: pd.DataFrame | None) -> list[GroupPart] | None:
    """Shares by group; those of fewer than ten promises together, and without a share."""
    if table is None:
        return None
    shown = table[table["recourses"] >= FEWEST]
    rest = table[table["recourses"] < FEWEST]
    if len(rest) > 0 and int(rest["recourses"].sum()) < FEWEST:
        smallest = shown.sort_values("recourses").head(1)  # else the rest follows from the whole
        rest, shown = pd.concat([rest, smallest]), shown.drop(index=smallest.index)
    parts = [
        GroupPart(group=str(r["group"]), recourses=int(r["recourses"]), broken=number(r["broken"]))
        for _, r in shown.iterrows()
    ]
    if len(rest):
        together = "all others" if len(rest) > 1 else "one other"
        many = int(rest["recourses"].sum())
        shown_count = many if many >= FEWEST else None
        parts.append(GroupPart(group=together, recourses=shown_count, broken=None))
    return parts


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


def _recourses(audit: Any, few: bool) -> RecoursePart:
    """Counts that add up; what is hidden cannot be worked out from the others."""
    files, counts = audit.about, audit.counts
    shown: dict[str, int | None] = {
        name: counts[name]
        for name in ("people", "above_target", "without_recourse", "recourses", "valid")
    }
    shown["not_valid"] = counts["not_valid"]
    parts = {name: counts[name] for name in ("above_target", "without_recourse", "not_valid")}
    hidden = hidden_together(parts)
    if few:
        hidden = set(shown)
    elif hidden == set(parts):
        hidden |= {"people"}
    if "not_valid" in hidden:
        hidden |= {"recourses"}
    shown = {name: None if name in hidden else count for name, count in shown.items()}
    return RecoursePart(
        count=shown.pop("recourses"),
        **shown,
        method=files.method,
        expired=enough(files.expired),
        not_yet_issued=enough(files.not_yet_issued),
        target=audit.target,
        score_unit=audit.model.score_unit,
        overshoot_median=None if few else audit.overshoot,
        issued_under=None if "recourses" in hidden else files.issued_under,
    )


def _cohorts(table: pd.DataFrame | None) -> list[CohortPart] | None:
    """Groups by size; those too small are put together, without names, and nothing said of them."""
    if table is None:
        return None
    sizes = dict(enumerate(table["rows"].astype(int)))
    hidden = hidden_together(sizes)
    parts = [
        CohortPart(
            cohort=str(row["cohort"]),
            rows=int(row["rows"]),
            refitted=number(row["refitted"]),
            predicted=number(row["predicted"]),
        )
        for place, row in enumerate(table.to_dict(orient="records"))
        if place not in hidden
    ]
    rows = sum(sizes[h] for h in hidden)
    if rows >= FEWEST + len(hidden):  # else all of them are, and nothing can be said
        together = f"({len(hidden)} groups together)"
        parts.append(CohortPart(cohort=together, rows=rows, refitted=None, predicted=None))
    return parts


def _overshoots(table: pd.DataFrame | None) -> list[OvershootPart] | None:
    if table is None:
        return None
    rows = [row for row in table.to_dict(orient="records") if row["recourses"] >= FEWEST]
    parts = []
    for row in rows:
        shares = {name: round(20 * row[name]) / 20 for name in ("predicted", "refitted")}
        known = {name: row[name] for name in ("overshoot", "cost", "deletions")}
        parts.append(OvershootPart(**known, **shares))
    return parts


def _histogram(values: Any, bins: int = 20) -> list[Bin]:
    """Counts in bins of equal width, up to the value 99 % stay below; the last takes the rest."""
    if len(values) < FEWEST:
        return []
    top = float(np.quantile(values, 0.99))
    if not top > 0:
        return [Bin(low=0.0, high=0.0, count=len(values))]
    top = float(f"{1.05 * top:.1e}")  # nobody's value
    edges = np.linspace(0.0, top, bins + 1)
    counts = np.histogram(np.clip(values, 0.0, top), edges)[0]
    return [Bin(low=edges[i], high=edges[j + 1], count=c) for i, j, c in merged(counts.tolist())]


def _critical(found: Any) -> CriticalPart | None:
    if found is None:
        return None
    cells = []
    for row in found.cells.to_dict(orient="records"):
        harm = float(row["harm"]) if row["rows"] >= FEWEST else None
        cells.append(CellPart(leverage=row["leverage"], residual=row["residual"], harm=harm))
    small = found.top < FEWEST
    return CriticalPart(
        cells=cells,
        top=found.top,
        high_leverage=None if small else round(found.high_leverage, 1),
        high_residual=None if small else round(found.high_residual, 1),
    )


def _agreement(table: pd.DataFrame | None) -> list[AgreementPart] | None:
    if table is None:
        return None
    rows = [row for row in table.to_dict(orient="records") if row["recourses"] >= FEWEST]
    known = [row for row in rows if np.isfinite([row["predicted"], row["refitted"]]).all()]
    return [AgreementPart.model_validate(row) for row in known]


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
        tight=at_least(proof.tight, len(certified)),
        survive=[Bin(low=i, high=j, count=c) for i, j, c in merged(counts.tolist())],
        assumptions=list(proof.assumptions),
    )

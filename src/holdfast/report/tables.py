"""The summary's tables as CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.files import Outputs
from holdfast.report.schema import AuditSummary
from holdfast.tables import safe_csv

#: names of all of them
TABLES = (
    *("headline", "curve", "cohorts", "overshoots", "margins", "critical", "bounds", "agreement"),
    *("certificates", "likelihood"),
)


def tables(summary: AuditSummary) -> dict[str, pd.DataFrame]:
    """Every table of the summary by the name of its file."""
    parts: dict[str, Any] = {
        "headline": [summary.headline],
        "curve": summary.curve,
        "cohorts": summary.cohorts,
        "overshoots": summary.overshoots,
        "margins": summary.margins,
        "critical": summary.critical and summary.critical.cells,
        "bounds": summary.bounds,
        "agreement": summary.agreement,
        "certificates": summary.certificates and summary.certificates.survive,
    }
    found = {
        name: pd.DataFrame([row.model_dump() for row in rows])
        for name, rows in parts.items()
        if rows
    }
    if summary.likelihood is not None:
        found["likelihood"] = pd.json_normalize(summary.likelihood.model_dump(), sep="_")
    return found


def write_tables(summary: AuditSummary, folder: Any, out: Outputs) -> None:
    """Write every table into a folder, which is made if it is missing."""
    place = out.folder(folder)
    for name, table in tables(summary).items():
        out.text(Path(place, f"{name}.csv"), safe_csv(table))

"""Audits beside the model they are about: what MLflow keeps of one (extra ``mlflow``)."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from holdfast.audits.result import Audit
from holdfast.errors import HoldfastError


def log_audit(result: Audit, prefix: str = "holdfast", run_id: str | None = None) -> None:
    """Log an audit to the active MLflow run, or to a run by its id.

    Metrics: the share broken at every number of erasures as steps, the share at the headline, the
    ceiling where one is proven, the overshoot. Artifacts: the report and the JSON, which hold no
    personal data. Tags: the headline in words.

    Parameters
    ----------
    result : Audit
    prefix : str
        Of metrics and tags, and the folder of the artifacts.
    run_id : str, optional
    """
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise HoldfastError("log_audit needs MLflow: pip install 'holdfast[mlflow]'") from None
    if not isinstance(result, Audit):
        raise HoldfastError(f"log_audit takes what holdfast.audit returns, got {result!r}")
    client = MlflowClient()
    run = run_id or _active_run()
    summary = result.summary()
    for point in summary.curve:
        for name in ("refitted", "random", "ceiling"):
            value = getattr(point, name)
            if name == "ceiling" and point.deletions == 0:
                continue  # what is proven of no erasure says nothing
            if value is not None and math.isfinite(value):
                client.log_metric(run, f"{prefix}.broken.{name}", value, step=point.deletions)
    head = summary.headline
    known = {"headline": head.refitted, "headline_ceiling": head.ceiling}
    known["overshoot"] = summary.recourses.overshoot_median
    for name, value in known.items():
        if value is not None:
            client.log_metric(run, f"{prefix}.{name}", float(value))
    client.set_tag(run, f"{prefix}.headline", head.sentence)
    client.set_tag(run, f"{prefix}.schema_version", summary.schema_version)
    with tempfile.TemporaryDirectory() as folder:
        result.to_html(Path(folder, "report.html"))
        result.to_json(Path(folder, "audit.json"))
        client.log_artifacts(run, folder, prefix)


def _active_run() -> str:
    import mlflow

    active: Any = mlflow.active_run()
    if active is None:
        raise HoldfastError("there is no active MLflow run: start one, or pass run_id=")
    return str(active.info.run_id)

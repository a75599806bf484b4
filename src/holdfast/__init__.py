"""Does the advice you gave people still hold when somebody else asks to be forgotten?

The public names are listed in ``__all__``; each is imported when it is first used, so that
``import holdfast`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.audits import audit
    from holdfast.audits.hardening import harden
    from holdfast.audits.hardening.result import Hardening
    from holdfast.audits.impacts import Impact, impact
    from holdfast.audits.result import Audit
    from holdfast.cases.scanning import fit
    from holdfast.datasets import load_dataset
    from holdfast.datasets.dataset import Dataset
    from holdfast.errors import (
        DataMismatchError,
        DriftWarning,
        HoldfastError,
        SingularDeletionError,
        UnsupportedModelError,
    )
    from holdfast.estimators.forest import (
        ForgettingForestClassifier,
        ForgettingForestRegressor,
    )
    from holdfast.estimators.from_torch import TorchClassifier, TorchRegressor
    from holdfast.estimators.lssvm import LSSVMClassifier
    from holdfast.estimators.ntk import NTKRegressor
    from holdfast.estimators.nystroem import NystroemNTK
    from holdfast.estimators.sharded import ShardedClassifier, ShardedRegressor
    from holdfast.estimators.wide import WideReLURegressor
    from holdfast.instability import (
        Instability,
        action_instability,
        invalidation_rate,
        outcome_instability,
    )
    from holdfast.models.erasable import ErasableModel, erasable
    from holdfast.models.hold import held, hold
    from holdfast.models.scanned import ScannedModel
    from holdfast.proofs import certify
    from holdfast.proofs.result import Proof
    from holdfast.recourse import find_recourse
    from holdfast.recourse.actionability import Actionability
    from holdfast.recourse.issued import issued_recourse
    from holdfast.recourse.result import Recourse
    from holdfast.recourse.rules import Feature, Link
    from holdfast.registry import register
    from holdfast.scale.scan import Scan, scan
    from holdfast.searches import search
    from holdfast.searches.plan import Plan

__version__ = "0.2.0"

_HOME = {
    "Audit": "holdfast.audits.result",
    "audit": "holdfast.audits",
    "Dataset": "holdfast.datasets.dataset",
    "load_dataset": "holdfast.datasets",
    "DataMismatchError": "holdfast.errors",
    "DriftWarning": "holdfast.errors",
    "HoldfastError": "holdfast.errors",
    "SingularDeletionError": "holdfast.errors",
    "UnsupportedModelError": "holdfast.errors",
    "ErasableModel": "holdfast.models.erasable",
    "erasable": "holdfast.models.erasable",
    "Hardening": "holdfast.audits.hardening.result",
    "harden": "holdfast.audits.hardening",
    "Impact": "holdfast.audits.impacts",
    "impact": "holdfast.audits.impacts",
    "Instability": "holdfast.instability",
    "action_instability": "holdfast.instability",
    "invalidation_rate": "holdfast.instability",
    "outcome_instability": "holdfast.instability",
    "ForgettingForestClassifier": "holdfast.estimators.forest",
    "ForgettingForestRegressor": "holdfast.estimators.forest",
    "LSSVMClassifier": "holdfast.estimators.lssvm",
    "NTKRegressor": "holdfast.estimators.ntk",
    "ShardedClassifier": "holdfast.estimators.sharded",
    "ShardedRegressor": "holdfast.estimators.sharded",
    "NystroemNTK": "holdfast.estimators.nystroem",
    "InvalidationDisplay": "holdfast.audits.display",
    "Plan": "holdfast.searches.plan",
    "TorchClassifier": "holdfast.estimators.from_torch",
    "TorchRegressor": "holdfast.estimators.from_torch",
    "WideReLURegressor": "holdfast.estimators.wide",
    "Ledger": "holdfast.ledger",
    "register": "holdfast.registry",
    "search": "holdfast.searches",
    "Actionability": "holdfast.recourse.actionability",
    "Feature": "holdfast.recourse.rules",
    "Link": "holdfast.recourse.rules",
    "Recourse": "holdfast.recourse.result",
    "find_recourse": "holdfast.recourse",
    "Proof": "holdfast.proofs.result",
    "certify": "holdfast.proofs",
    "issued_recourse": "holdfast.recourse.issued",
    "Scan": "holdfast.scale.scan",
    "scan": "holdfast.scale.scan",
    "ScannedModel": "holdfast.models.scanned",
    "fit": "holdfast.cases.scanning",
    "held": "holdfast.models.hold",
    "hold": "holdfast.models.hold",
}

__all__ = [
    "Actionability",
    "Audit",
    "DataMismatchError",
    "Dataset",
    "DriftWarning",
    "ErasableModel",
    "Feature",
    "ForgettingForestClassifier",
    "ForgettingForestRegressor",
    "Hardening",
    "HoldfastError",
    "Impact",
    "Instability",
    "InvalidationDisplay",
    "LSSVMClassifier",
    "Ledger",
    "Link",
    "NTKRegressor",
    "NystroemNTK",
    "Plan",
    "Proof",
    "Recourse",
    "Scan",
    "ScannedModel",
    "ShardedClassifier",
    "ShardedRegressor",
    "SingularDeletionError",
    "TorchClassifier",
    "TorchRegressor",
    "UnsupportedModelError",
    "WideReLURegressor",
    "__version__",
    "action_instability",
    "audit",
    "certify",
    "erasable",
    "find_recourse",
    "fit",
    "harden",
    "held",
    "hold",
    "impact",
    "invalidation_rate",
    "issued_recourse",
    "load_dataset",
    "outcome_instability",
    "register",
    "scan",
    "search",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""The names users import are a contract."""

import subprocess
import sys

import holdfast as hf

NAMES = [
    "Actionability",
    "Audit",
    "Feature",
    "ForgettingForestClassifier",
    "ForgettingForestRegressor",
    "Hardening",
    "Impact",
    "Link",
    "Recourse",
    "Proof",
    "certify",
    "find_recourse",
    "issued_recourse",
    "load_dataset",
    "DataMismatchError",
    "Dataset",
    "DriftWarning",
    "ErasableModel",
    "HoldfastError",
    "Instability",
    "InvalidationDisplay",
    "LSSVMClassifier",
    "Ledger",
    "NTKRegressor",
    "NystroemNTK",
    "Scan",
    "ScannedModel",
    "ShardedClassifier",
    "ShardedRegressor",
    "fit",
    "held",
    "hold",
    "scan",
    "Plan",
    "SingularDeletionError",
    "TorchClassifier",
    "TorchRegressor",
    "UnsupportedModelError",
    "WideReLURegressor",
    "__version__",
    "action_instability",
    "audit",
    "harden",
    "impact",
    "erasable",
    "invalidation_rate",
    "outcome_instability",
    "register",
    "search",
]


def test_exported_names():
    assert sorted(hf.__all__) == sorted(NAMES)
    assert dir(hf) == sorted(NAMES)
    for name in NAMES:
        assert getattr(hf, name) is not None
    assert not hasattr(hf, "nonsense")


def test_importing_costs_nothing_and_configures_nothing():
    code = (
        "import sys, logging, warnings; before = list(warnings.filters); import holdfast;"
        "assert 'numpy' not in sys.modules; assert not logging.root.handlers;"
        "assert warnings.filters == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

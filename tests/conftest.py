"""Fixtures shared by the tests: small random problems, and real data where it can be had."""

from __future__ import annotations

import os
import re

# one BLAS thread per worker: pytest-xdist gives every core a worker of its own
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
import pandas as pd
import pytest

import holdfast as hf

pytest_plugins = ["books_at_hand"]

#: the share of the largest true effect a prediction may be off by, for exact families
EXACT = 1e-8


def relative_error(predicted, true):
    """Largest difference over the largest true value."""
    return np.max(np.abs(predicted - true)) / np.max(np.abs(true))


def shown(value):
    """An object as a test's id: the same in every run and every worker."""
    return re.sub(r"function (\w+) at 0x[0-9a-f]+", r"\1", " ".join(str(value).split()))


def pytest_terminal_summary(terminalreporter):
    """How many tests ran on real data."""
    count = {
        how: sum(
            "real_data" in getattr(report, "keywords", ())
            for report in terminalreporter.getreports(how)
        )
        for how in ("passed", "failed", "skipped")
    }
    terminalreporter.write_line(
        f"on real data: {count['passed'] + count['failed']} tests ran, {count['skipped']} skipped"
    )


def pytest_collection_modifyitems(items):
    """Whoever asks for real data says so."""
    for item in items:
        if {"heloc", "admission"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("real_data")


@pytest.fixture
def rng():
    return np.random.default_rng(20230501)


def _real(name):
    """A public data set, where it can be had without fetching."""
    try:
        if "HOLDFAST_DATA" not in os.environ:
            raise hf.HoldfastError("HOLDFAST_DATA is not set")
        return hf.load_dataset(name)
    except hf.HoldfastError as failure:
        pytest.skip(f"real data not available: {failure}")


@pytest.fixture(scope="session")
def heloc():
    """Min-max scaled HELOC features with missing-value indicators, and the external risk score."""
    data = _real("heloc")
    return data.encoder().fit_transform(data.X).reset_index(drop=True), data.y


@pytest.fixture(scope="session")
def admission():
    """Admission with every one-hot column kept: a rank-deficient design beside an intercept."""
    data = _real("admission")
    X = pd.get_dummies(data.X, dtype=float).reset_index(drop=True)
    return X, data.y

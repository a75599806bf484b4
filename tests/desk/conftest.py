"""Desks for tests."""

import shutil

import pytest

pytest.importorskip("fastapi")
from desk_at_hand import Office

from counter import Desk as Counter


@pytest.fixture
def counter(template, tmp_path):
    """A lender's folder with its books."""
    shutil.copytree(template, tmp_path / "lender")
    made = Counter(tmp_path / "lender", tmp_path / "lender" / "books.db")
    yield made
    made.books.close()


@pytest.fixture
def office(counter, tmp_path):
    """A desk on those books."""
    made = Office(tmp_path, counter.address)
    made.counter = counter
    yield made
    made.close()

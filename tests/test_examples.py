"""The examples run."""

import runpy
from pathlib import Path

import pytest

from holdfast.models.families import FAMILIES

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.fixture
def families():
    """What an example registers stays in it."""
    known = list(FAMILIES)
    yield
    FAMILIES[:] = known


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys, families):
    runpy.run_path(str(path))
    assert "confirmed by refitting" in capsys.readouterr().out


def test_there_are_five():
    assert len(EXAMPLES) == 5

"""The examples run."""

import runpy
from pathlib import Path

import pytest

import holdfast as hf
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
    if path.stem == "torch_module":
        pytest.importorskip("torch", reason="torch is not installed: make test-torch runs it")
    runpy.run_path(str(path))
    assert "confirmed by refitting" in capsys.readouterr().out


def test_there_are_six():
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("name", ["heloc", "compas", "admission", "diabetes"])
def test_rule_files_are_those_of_the_data_sets(name):
    from holdfast.datasets import FETCHED

    file = Path(__file__).parent.parent / "examples" / "rules" / f"{name}.toml"
    assert hf.Actionability.from_toml(file).features == FETCHED[name].RULES.features

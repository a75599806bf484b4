"""``--shards``: one model for every shard, from the command line."""

import json
from pathlib import Path

import pytest

from holdfast.cli import run
from holdfast.report.schema import AuditSummary
from lender import LOANS, MERIT, write_loans

QUICK = ["--max-deletions", "2", "--draws", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_loans(tmp_path)


@pytest.mark.parametrize("model", ["logistic", "boosting"])
def test_an_audit_of_shards(folder, capsys, model):
    asked = [*LOANS, "--model", model, "--shards", "6", *QUICK]
    assert run(["audit", *asked, "--json", "--quick"]) == 0
    summary = AuditSummary.model_validate(json.loads(capsys.readouterr().out))
    assert summary.model.deletions == "exact, part by part"
    assert all(point.predicted == point.refitted for point in summary.curve)
    lines = " ".join(summary.model.preprocessing)
    assert "in every shard by itself" in lines
    notes = " ".join(str(note) for note in summary.model_dump().values())
    # shards with an algebra of their own are asked about everybody
    assert ("those that do most in a stand-in" in notes) == (model == "boosting")
    assert "Certificates are about all of them" not in notes  # a quick audit has none


def test_honouring_a_request_touches_one_shard(folder, capsys):
    more = ["--erase", "C-0003", "--save-model", "after.skops", "--method", "growing-spheres"]
    assert run(["impact", *LOANS, "--shards", "6", *more]) == 0
    assert "Honouring 1 request removes" in capsys.readouterr().out
    assert Path("after.skops").is_file()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*MERIT, "--shards", "4"], "parameters low and high"),
        ([*LOANS, "--shards", "999"], "ask for fewer shards"),
        ([*LOANS, "--shards", "0"], "--shards"),
        ([*LOANS, "--model", "lssvm", "--shards", "4"], "gives no probabilities"),
        (
            [
                "--train",
                "loans.csv",
                "--label",
                "repaid",
                "--model-file",
                "m.skops",
                "--shards",
                "4",
            ],
            "a model file is fitted already",
        ),
    ],
)
def test_what_shards_cannot_be_of(folder, capsys, options, said):
    assert run(["audit", *options, *QUICK]) == 2
    told = capsys.readouterr()
    assert said in " ".join(told.err.split())
    assert "Traceback" not in told.err

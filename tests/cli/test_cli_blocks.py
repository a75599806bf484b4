"""Commands on tables that are read by blocks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.cli import run as command
from tables_in_files import loans, written

COMMON = ("--label", "paid", "--id", "customer", "--favourable", "high")


@dataclass
class Ended:
    exit_code: int
    output: str
    stderr: str


@pytest.fixture
def run(capsys):
    def ended(*arguments) -> Ended:
        code = command([str(a) for a in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return ended


@pytest.fixture
def table(tmp_path) -> Path:
    return written(loans(1500), tmp_path / "loans")


def test_audit_of_a_pattern_of_files(run, table, tmp_path) -> None:
    found = run(
        *("audit", "--train", f"{table}/*.parquet", *COMMON, "--model", "ridge"),
        *("--max-deletions", "2", "--draws", "2", "--html", tmp_path / "r.html"),
        *("--json-file", tmp_path / "r.json", "--case-file", tmp_path / "case.html"),
    )
    assert found.exit_code == 0, found.output
    assert "1,500 rows in 2 files" in found.stderr + found.output
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["data"]["rows"] == 1200
    page = (tmp_path / "r.html").read_text()
    assert "never in memory whole" in page
    assert "The search looked at 1,200 rows" in page
    assert "C" in (tmp_path / "case.html").read_text()


def test_one_file_is_read_by_blocks_above_a_size(run, table, tmp_path) -> None:
    one = table / "part-0.parquet"
    args = ["recourse", "--train", one, *COMMON, "--model", "ridge", "--people", one]
    plain = run(*args)
    assert plain.exit_code == 0, plain.output
    assert "read by blocks" not in plain.output + plain.stderr
    blocks = run(*args, "--blocks-above", "0.001")
    assert "read by blocks" in blocks.output + blocks.stderr


def test_promises_are_issued_and_audited_again(run, table, tmp_path) -> None:
    people = table / "part-1.parquet"
    found = run(
        *("recourse", "--train", table, *COMMON, "--model", "ridge", "--people", people),
        *("--out", tmp_path / "issued.csv", "-q"),
    )
    assert found.exit_code == 0, found.output
    issued = pd.read_csv(tmp_path / "issued.csv", dtype={"customer": str})
    assert len(issued) > 100
    again = run(
        *("audit", "--train", table, *COMMON, "--model", "ridge", "-q", "--max-deletions", "2"),
        *("--recourses", tmp_path / "issued.csv", "--draws", "2"),
    )
    assert again.exit_code == 0, again.output
    assert "rows of 1,500" in again.output


def test_sums_are_kept_used_and_replaced(run, table, tmp_path) -> None:
    hold, people = tmp_path / "loans.hold", table / "part-1.parquet"
    args = ["--train", table, *COMMON, "--model", "ridge", "--hold", hold, "--people", people]
    first = run("impact", *args, "--erase", "C3", "-q")
    assert first.exit_code == 0, first.output
    assert hold.stat().st_mode & 0o777 == 0o600
    before = hold.read_bytes()
    second = run("impact", *args, "--erase", "C3")
    assert "read from 'loans.hold'" in second.output + second.stderr
    assert hold.read_bytes() == before  # nobody was erased yet
    done = run(
        *("impact", *args, "--erase", "C3", "-q", "--emit", tmp_path / "rest.parquet"),
        *("--save-model", tmp_path / "m.skops", "--confirm"),
    )
    assert done.exit_code == 0, done.output
    assert "confirmed by refitting" in done.output
    rest = pd.read_parquet(tmp_path / "rest.parquet")
    assert len(rest) == 1499
    assert "C3" not in set(rest["customer"])
    assert hold.read_bytes() != before
    model = hf.held(hold)
    assert model.many == 1499
    with pytest.raises(hf.HoldfastError, match="unknown id"):
        model.positions_of(["C3"])
    third = run("impact", *args, "--erase", "C3", "-q")
    assert third.exit_code == 2
    assert "nothing was done" in third.output + third.stderr


def test_rows_held_out_are_still_in_what_is_emitted(run, table, tmp_path) -> None:
    hold = tmp_path / "loans.hold"
    args = ["--train", table, *COMMON, "--model", "ridge", "--hold", hold]
    audit = run("audit", *args, "-q", "--max-deletions", "1", "--draws", "2")
    assert audit.exit_code == 0, audit.output
    assert hf.held(hold).many == 1200
    model = hf.held(hold)
    inside = np.setdiff1d(np.arange(1500), model.recipe.gone)[0]
    found = run(
        *("impact", *args, "--people", table / "part-1.parquet", "--erase", f"C{inside}", "-q"),
        *("--emit", tmp_path / "rest.parquet"),
    )
    assert found.exit_code == 0, found.output
    assert len(pd.read_parquet(tmp_path / "rest.parquet")) == 1499


def test_erasures_honoured_before_are_left_out(run, table, tmp_path) -> None:
    (tmp_path / "gone.txt").write_text("C1\nC2\nelsewhere\n")
    found = run(
        *("audit", "--train", table, *COMMON, "--model", "ridge", "--max-deletions", "1"),
        *("--draws", "2", "--erased", tmp_path / "gone.txt", "--people", table / "part-1.parquet"),
    )
    assert found.exit_code == 0, found.output
    assert "2 rows still in the table are left out" in found.output + found.stderr
    assert "of 1,498" in found.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "boosting"], "not fitted by blocks"),
        (["--model-file", "m.skops"], "instead of --model-file"),
        (["--model", "ridge", "--cohort", "region"], "--cohort is for tables that fit"),
        (["--model", "ridge", "--rate", "4/week", "--horizon", "4w"], "--rate is for tables"),
        (["--model", "ridge", "--target-rule", "quantile"], "--target-rule must be fixed"),
        (["--model", "ridge", "--engine", "threads", "--scheduler", "tcp://x:1"], "not threads"),
        pytest.param(
            ["--model", "ridge", "--scheduler", "tcp://127.0.0.1:9"],
            "no Dask scheduler answers",
            marks=pytest.mark.slow,  # it is waited for
        ),
        (["--model", "logistic"], "tells two classes apart"),
        (["--model", "ridge", "--label", "nothing"], "has no column 'nothing'"),
    ],
)
def test_nonsense_is_refused_in_words(run, table, tmp_path, arguments, said) -> None:
    args = [*COMMON, *arguments] if "--label" not in arguments else ["--id", "customer", *arguments]
    found = run("audit", "--train", table, *args, "--html", tmp_path / "r.html")
    assert found.exit_code == 2, found.output
    assert said in found.stderr.replace("\n", " ") + found.output
    assert not (tmp_path / "r.html").exists()


def test_a_broken_row_group_leaves_nothing_behind(run, table, tmp_path) -> None:
    file = table / "part-1.parquet"
    data = bytearray(file.read_bytes())
    data[2000:6000] = b"\xff" * 4000
    file.write_bytes(data)
    found = run(
        *("audit", "--train", table, *COMMON, "--model", "ridge"),
        *("--html", tmp_path / "r.html", "--hold", tmp_path / "m.hold"),
    )
    assert found.exit_code == 2
    assert "part-1.parquet', row group" in found.stderr + found.output
    assert "Traceback" not in found.output
    assert sorted(os.listdir(tmp_path)) == ["loans"]


def test_hardening_by_blocks_measures_what_it_can(run, table) -> None:
    found = run(
        *("harden", "--train", table, *COMMON, "--model", "ridge", "-q", "--survive", "1"),
        *("--mitigation", "uniform", "--mitigation", "regularise", "--holdout", "0.02"),
    )
    assert found.exit_code == 0, found.output
    assert "regularise was left out: it is for tables that fit into memory" in found.output


def test_csv_files_without_somebody_are_csv_again(run, tmp_path) -> None:
    (tmp_path / "c").mkdir()
    table = loans(400)
    table["note"] = ['a "b", c'] * 200 + ["NA"] * 200
    for number in range(2):
        part = table.iloc[200 * number : 200 * (number + 1)]
        part.to_csv(tmp_path / "c" / f"{number}.csv", index=False)
    out = tmp_path / "rest.csv"
    found = run(
        *("impact", "--train", tmp_path / "c", *COMMON, "--model", "ridge", "-q", "--drop", "note"),
        *("--people", tmp_path / "c" / "1.csv", "--erase", "C3", "--emit", out),
    )
    assert found.exit_code == 0, found.stderr
    before = (tmp_path / "c" / "0.csv").read_text() + (tmp_path / "c" / "1.csv").read_text()
    rest = pd.read_csv(out, dtype=str, keep_default_na=False)
    whole = pd.concat(
        [pd.read_csv(tmp_path / "c" / f"{n}.csv", dtype=str, keep_default_na=False) for n in (0, 1)]
    )
    expected = whole[whole["customer"] != "C3"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, expected)
    assert "C3," in before or ",C3" in before

"""What a curious reader, a crash or a hostile file must not get out of a command."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import holdfast as hf
from holdfast.audits.impacts import _OnlyTheirs
from holdfast.cli import run
from lender import LOANS, MERIT, loans, write_loans

MAIN = "from holdfast.cli import main; main()"
QUICK = ["--max-deletions", "1", "--draws", "2", "--quick"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_loans(tmp_path)
    return tmp_path


def holdfast(*arguments, **options):
    """A command as a process of its own."""
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        capture_output="stdout" not in options,
        env=environment,
        timeout=120,
        **options,
    )


def refused(arguments, capsys, *words):
    """Exit 2, one message, nothing on stdout, nothing written."""
    before = set(os.listdir())
    assert run([*map(str, arguments), "-q"]) == 2
    said = capsys.readouterr()
    messages = [line for line in said.err.splitlines() if not line.startswith("…")]
    assert len(messages) == 1, said.err
    assert messages[0].startswith("holdfast: ")
    assert "Traceback" not in said.err
    assert said.out == ""
    assert set(os.listdir()) == before
    for word in words:
        assert word in messages[0]
    return messages[0]


# 1: an erased person's value does not come back ---------------------------------------------

SECRET = 0.0123456789


def numbers_in(text):
    found = re.findall(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text)
    return np.array([float(number) for number in found])


def shows(text, value):
    """Whether a number that is, or is shown as, some value stands in a text."""
    near = np.abs(numbers_in(text) - value) <= 1e-6 * abs(value)
    return bool(near.any()) or f"{value:.4g}" in text or f"{value:.6g}" in text


@pytest.mark.parametrize("sign", [1, -1])
def test_the_lowest_and_highest_value_are_nobodys(folder, capsys, sign):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "customer": [f"C-{i:03d}" for i in range(80)],
            "debt": rng.uniform(3, 9, 80).round(2),
            "rent": rng.uniform(3, 9, 80).round(2),
        }
    )
    table["score"] = -sign * (table["debt"] + 0.01 * table["rent"]) + rng.normal(0, 0.05, 80)
    secret = SECRET if sign > 0 else 9.9876543219
    table.loc[7, "debt"] = secret
    table.to_csv("t.csv", index=False)
    command = ["--train", "t.csv", "--label", "score", "--id", "customer", "--model", "linear"]
    target = ["--target", str(-sign * 2.5 if sign > 0 else 9.4), "--overshoot", "0"]
    assert run(["recourse", *command, *target, "--out", "r.csv", "-q"]) == 0
    said = capsys.readouterr().out
    advice = said + Path("r.csv").read_text().replace(f"C-007,{secret}", "")
    assert not shows(advice, secret)
    outputs = ["--case-file", "case.html", "--json-file", "i.json", "--emit", "left.csv"]
    run(["impact", *command, *target, "--erase", "C-007", *outputs])
    said = capsys.readouterr()
    written = [Path(name).read_text() for name in ("case.html", "i.json", "left.csv")]
    for text in (said.out, said.err, *written):
        assert not shows(text, secret)


def test_a_value_that_comes_back_rounded_is_still_theirs(folder, capsys):
    """Promises made before ranges were rounded, with the erased person's value in them."""
    table = loans(120)[["customer", "income", "savings", "merit"]].dropna()
    table.loc[5, ["savings", "merit"]] = [SECRET, 30.0]
    table.to_csv("t.csv", index=False)
    people = table[40:90].drop(columns="merit")
    people.to_csv("people.csv", index=False)
    fitted = LinearRegression().fit(table[["income", "savings"]], table["merit"])
    promised = people.assign(savings=0.012345678900000046)
    score = fitted.predict(promised[["income", "savings"]])
    promised["income"] += (9.0001 - score) / fitted.coef_[0]  # just enough
    promised.to_csv("issued.csv", index=False)
    command = ["--train", "t.csv", "--label", "merit", "--id", "customer", "--model", "linear"]
    promises = ["--people", "people.csv", "--recourses", "issued.csv", "--target", "9"]
    promises += ["--actionability", "none"]
    assert run(["impact", *command, *promises, "--erase", "C-0005", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["broken"]  # else nothing is repeated to anybody
    assert not shows(json.dumps(said["broken"]), SECRET)
    X = table[["income", "savings"]]
    model = hf.erasable(fitted, X, table["merit"])
    gone = _OnlyTheirs(model, np.array([X.index.get_loc(5)]))
    assert gone.has("savings", 0.012345678900000046)
    assert not gone.has("savings", 0.0124)
    assert not gone.has("savings", X["savings"].iloc[8])


# 2: nobody else is erased --------------------------------------------------------------------


def with_ids(ids):
    table = loans(60).drop(columns="repaid")
    table["customer"] = [ids.get(i, name) for i, name in enumerate(table["customer"])]
    table.to_csv("t.csv", index=False)
    return ["impact", "--train", "t.csv", *MERIT[2:]]


def test_white_space_at_the_ends_of_ids_is_refused(folder, capsys):
    command = with_ids({3: "7", 4: " 7", 9: "C-5 "})
    said = refused([*command, "--erase", "7"], capsys, "row 5, 10", "white space")
    assert "C-5" not in said  # nobody's id in a message that need not have it
    command = with_ids({3: "7"})
    Path("ask.txt").write_text(" 7\n")
    refused([*command, "--erase", "ask.txt"], capsys, "ask.txt", "white space")
    refused([*command, "--erase", "7 "], capsys, "white space")
    refused([*command, "--erase", "C-0001", "--erased", "ask.txt"], capsys, "white space")
    Path("ask.txt").write_text("7\r\n\r\n")
    assert run([*command, "--erase", "ask.txt", "--emit", "left.csv"]) == 0
    left = pd.read_csv("left.csv", dtype=str)["customer"]
    assert "7" not in set(left)
    assert len(left) == 59


def test_unicode_is_as_it_is(folder, capsys):
    composed, decomposed = "\u00e9", "e\u0301"
    command = with_ids({3: composed, 4: decomposed})
    assert run([*command, "--erase", decomposed, "--emit", "left.csv"]) == 0
    left = set(pd.read_csv("left.csv", dtype=str)["customer"])
    assert composed in left
    assert decomposed not in left
    capsys.readouterr()
    refused([*with_ids({3: "\u212a-1"}), "--erase", "K-1"], capsys, "unknown id")  # Kelvin


def test_a_file_and_an_id_of_one_name(folder, capsys):
    command = with_ids({3: "7"})
    Path("7").write_text("C-0010\n")
    words = ("'7'", "--erase-id 7", "--erase-file 7")
    refused([*command, "--erase", "7"], capsys, *words)
    for option, gone in (("--erase-id", "7"), ("--erase-file", "C-0010")):
        assert run([*command, option, "7", "--emit", "left.csv"]) == 0
        left = set(pd.read_csv("left.csv", dtype=str)["customer"])
        assert gone not in left
        assert len(left) == 59
    capsys.readouterr()
    os.mkdir("C-0011")
    refused([*command, "--erase", "C-0011"], capsys, "directory", "--erase-id C-0011")


def test_an_id_that_is_a_number_and_a_text(folder, capsys):
    table = loans(60).drop(columns="repaid")
    table["customer"] = table["customer"].astype(object)
    table.loc[3, "customer"] = "7"
    table.to_csv("t.csv", index=False)
    table["owner"] = [7 if i == 5 else name for i, name in enumerate(table["customer"])]
    from holdfast.algebra.rows import ids_as_text
    from holdfast.errors import HoldfastError

    with pytest.raises(HoldfastError, match="'7' is a number in row 6 and text elsewhere"):
        ids_as_text(table["owner"], "owner")


def test_lists_of_ids_say_who_is_meant(folder, capsys):
    command = with_ids({3: "A,B", 4: "A", 5: "B"})
    Path("ask.csv").write_text("A,B\n")
    refused([*command, "--erase", "ask.csv"], capsys, "'A,B' is one id")
    Path("ask.csv").write_text('"A,B"\n')
    assert run([*command, "--erase", "ask.csv", "--emit", "left.csv"]) == 0
    assert {"A", "B"} <= set(pd.read_csv("left.csv", dtype=str)["customer"])
    capsys.readouterr()
    Path("ask.csv").write_text("name,customer\nfoo,A\nbar\n")
    refused([*command, "--erase", "ask.csv"], capsys, "entry 3", "'customer' is missing")
    refused([*with_ids({3: "customer"}), "--erase", "A"], capsys, "row 4", "name of its column")


def test_files_of_ids_in_settings_are_relative_to_them(folder, capsys):
    os.mkdir("desk")
    for place, name in (("desk/ask.txt", "C-0001"), ("ask.txt", "C-0050")):
        Path(place).write_text(name + "\n")
    table = loans(60).drop(columns="repaid")
    table.to_csv("desk/t.csv", index=False)
    base = 'train = "t.csv"\nlabel = "merit"\nid = "customer"\nmodel = "ridge"\n'
    for line in ('erase = ["ask.txt"]', 'erase_file = ["ask.txt"]', 'erase = "ask.txt"'):
        Path("desk/a.toml").write_text(base + line + "\n")
        assert run(["impact", "desk/a.toml", "--emit", "left.csv"]) == 0
        left = set(pd.read_csv("left.csv")["customer"])
        assert "C-0001" not in left
        assert "C-0050" in left
    assert run(["impact", "desk/a.toml", "--erase", "ask.txt", "--emit", "left.csv"]) == 0
    assert "C-0050" not in set(pd.read_csv("left.csv")["customer"])


def test_ids_keep_their_zeros(folder, capsys):
    table = loans(60).drop(columns="repaid")
    table["customer"] = [f"{i:04d}" for i in range(60)]
    table["region"] = ["01" if i % 2 else "A" for i in range(60)]
    table.to_csv("t.csv", index=False)
    base = ["--train", "t.csv", *MERIT[2:]]
    assert run(["impact", *base, "--erase", "0007", "--emit", "left.parquet"]) == 0
    left = pd.read_parquet("left.parquet")
    assert left["customer"].tolist() == [f"{i:04d}" for i in range(60) if i != 7]
    people = table[table["region"] == "01"].drop(columns="merit")
    people.to_csv("people.csv", index=False)  # a column of digits, but text where it was fitted
    assert run(["recourse", *base, "--people", "people.csv", "--out", "r.csv"]) == 0
    assert set(pd.read_csv("r.csv", dtype=str)["region"]) <= {"01", "A"}


def test_the_target_is_nobodys_label(folder, capsys):
    table = loans(61).drop(columns="repaid")
    table["merit"] = table["merit"] + 0.0001234
    table.to_csv("t.csv", index=False)
    label = float(table["merit"].median())
    who = table["customer"][(table["merit"] - label).abs().idxmin()]
    assert run(["impact", "--train", "t.csv", *MERIT[2:], "--erase", who, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert abs(said["target"] - label) > 1e-6 * abs(label)
    assert abs(said["target"] - label) < 0.1


# 6: exit 1 is a finding, and nothing else ----------------------------------------------------


def test_a_feature_named_id(folder, capsys):
    loans(80).drop(columns="repaid").rename(columns={"age": "id"}).to_csv("t.csv", index=False)
    command = ["--train", "t.csv", "--label", "merit", "--drop", "customer", "--model", "ridge"]
    refused(["recourse", *command, "--out", "r.csv"], capsys, "feature named 'id'", "--id")
    refused(["harden", *command, "--out", "r.csv"], capsys, "feature named 'id'")
    assert run(["recourse", *command]) == 0


def test_a_parquet_column_named_nul(folder, capsys):
    table = loans(60).drop(columns="repaid")
    table.rename(columns={"age": "a\0e"}).to_parquet("t.parquet")
    refused(["audit", "--train", "t.parquet", *MERIT[2:]], capsys, "NUL", "column 2")


DEEP, LONG = "[" * 20_000, "9" * 5_000


def test_numbers_and_brackets_without_end(folder, capsys):
    for value in (DEEP, LONG):
        refused(["audit", *MERIT, "--param", f"alpha={value}"], capsys, "--param alpha")
        Path("a.toml").write_text(f"train = {value}\n")
        refused(["audit", "a.toml"], capsys, "a.toml")
        refused(["audit", *MERIT, "--actionability", "a.toml"], capsys, "a.toml")


@pytest.mark.parametrize("option", ["--html", "--json-file", "--case-file", "--csv"])
def test_outputs_that_cannot_be(folder, capsys, option):
    os.symlink("loop.html", "loop.html")
    os.symlink("loop", "loop")
    name = "loop" if option == "--csv" else "loop.html"
    refused(["audit", *MERIT, option, name], capsys, "cannot write", "loop")
    long = "n" * 300 + (".html" if option != "--csv" else "")
    refused(["audit", *MERIT, option, long], capsys, "cannot write")


def test_names_that_stdout_has_no_bytes_for(folder):
    table = loans(80).drop(columns="repaid").rename(columns={"income": "Einkünfte€"})
    table["customer"] = table["customer"] + "é"
    table.to_csv("t.csv", index=False)
    command = ["recourse", "--train", "t.csv", *MERIT[2:], "--out", "r.csv"]
    ended = holdfast(*command, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert ended.returncode == 0
    assert b"\\xe9: raise" in ended.stdout
    assert Path("r.csv").exists()


def test_a_full_disk_for_compiled_code(folder):
    """The cache of compiled code is a file system of its own that takes nothing."""
    full = folder / "cache"
    full.mkdir()
    code = (
        "import numba.core.caching as c\n"
        "def full(self, *a): raise OSError(28, 'No space left on device')\n"
        "c.IndexDataCacheFile._save_data = full\n"
    ) + MAIN
    ended = subprocess.run(
        [sys.executable, "-c", code, "audit", *MERIT, *QUICK, "--html", "r.html", "-q"],
        capture_output=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(full)},
        timeout=120,
    )
    assert ended.returncode == 2
    assert ended.stderr.decode().splitlines() == [
        "holdfast: cannot keep compiled code: No space left on device. Set NUMBA_CACHE_DIR to a "
        "folder with room"
    ]
    assert not Path("r.html").exists()


@pytest.mark.parametrize("megabytes", [400, 900])
def test_too_little_memory_for_the_libraries(folder, megabytes):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2)

    ended = holdfast("audit", *MERIT, "--html", "r.html", preexec_fn=limited)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"holdfast: not enough memory: the address space is limited")
    assert ended.stderr.count(b"\n") == 1
    assert not Path("r.html").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["version"],
        ["schema"],
        ["audit", *MERIT, *QUICK, "-q", "--html", "r.html"],
        ["audit", *MERIT, *QUICK, "--json", "--html", "r.html"],
        ["recourse", *MERIT, "-q", "--out", "r.html"],
        ["impact", *MERIT, "-q", "--erase", "C-0001", "--emit", "r.html"],
    ],
)
def test_a_full_disk_as_stdout(folder, command):
    with open("/dev/full", "w") as full:
        ended = holdfast(*command, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 2
    assert ended.stderr.decode().splitlines()[-1].startswith("holdfast: cannot write")
    assert b"Traceback" not in ended.stderr
    assert not Path("r.html").exists()


def test_a_reader_who_has_seen_enough_does_not_stop_the_files(folder):
    command = [sys.executable, "-c", MAIN, "recourse", *MERIT, "-q", "--out", "r.csv"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.close()
    assert running.wait(60) == 0
    assert running.stderr.read() == b""
    running.stderr.close()
    assert Path("r.csv").exists()


def test_a_fault_of_our_own(folder, capsys, monkeypatch):
    """What nobody foresaw is one message and a report that has nobody's data in it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))

    def fails(*arguments, **options):
        raise KeyError("C-0042 earns 3117")

    monkeypatch.setattr("holdfast.cli.commands.audit_case", fails)
    before = {"loans.csv", "merit.csv"}
    assert run(["audit", *MERIT, "--html", "r.html", "--seed=3117"]) == 2
    said = capsys.readouterr()
    assert "C-0042" not in said.err
    assert "Traceback" not in said.err
    place = re.search(r"report without personal data is in '([^']+)'", said.err)[1]
    assert set(os.listdir()) == before | {"state"}
    assert os.stat(place).st_mode & 0o777 == 0o600
    report = Path(place).read_text()
    assert "KeyError" in report
    assert "fails" in report
    assert "--html" in report
    assert "command: audit" in report
    for personal in ("C-0042", "3117", "merit.csv", "customer", str(folder)):
        assert personal not in report


def test_folders_do_not_overwrite_what_is_read(folder, capsys):
    assert run(["recourse", *MERIT, "--out", "recourses.csv", "-q"]) == 0
    capsys.readouterr()
    before = Path("recourses.csv").read_bytes()
    command = ["audit", *MERIT, *QUICK, "--recourses", "recourses.csv", "--case-file", "."]
    refused(command, capsys, "is read from")
    assert Path("recourses.csv").read_bytes() == before
    os.mkdir("t")
    os.rename("merit.csv", "t/margins.csv")
    base = ["audit", "--train", "t/margins.csv", *MERIT[2:], *QUICK]
    refused([*base, "--csv", "t"], capsys, "is read from")
    refused([*base, "--csv", "t", "--html", "t/curve.csv"], capsys)


def test_closed_streams_lead_nowhere(folder):
    command = [sys.executable, "-c", MAIN, "audit", *MERIT, *QUICK, "--json"]
    more = "--html r.html --fail-above 0@1"
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        line = " ".join(f"'{word}'" for word in command) + f" {more} {closed}"
        ended = subprocess.run(["sh", "-c", line], capture_output=True, timeout=120)
        assert ended.returncode == 1, (closed, ended.stderr)
        assert Path("r.html").exists()
        os.unlink("r.html")
        if closed == "2>&-":
            assert json.loads(ended.stdout)["kind"] == "audit"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_what_is_said_after_the_files_stand_cannot_fail_the_run(folder):
    with open("/dev/full", "w") as full:
        command = ["audit", *MERIT, *QUICK, "-q", "--html", "r.html", "--fail-above", "0@1"]
        ended = holdfast(*command, stdout=subprocess.PIPE, stderr=full)
    assert ended.returncode == 1
    assert Path("r.html").exists()


def test_an_id_that_is_the_subject_too(folder, capsys):
    assert run(["recourse", *MERIT, "--out", "r.csv", "-q"]) == 0
    command = ["impact", *MERIT, "--subject", "customer", "--recourses", "r.csv"]
    assert run([*command, "--erase", "C-0003", "-q"]) == 0


def test_more_jobs_than_a_machine_has(folder, capsys):
    refused(["audit", *MERIT, "--jobs", "100000"], capsys, "--jobs")


# 7: stops ------------------------------------------------------------------------------------


def test_resume_is_not_put_off_by_a_leftover(tmp_path):
    from holdfast.paper.store import Store

    cells = tmp_path / "out" / "cells"
    cells.mkdir(parents=True)
    (cells / ".holdfast-0123456789abcdef.json").write_text("{")  # killed before its settings
    Store(tmp_path / "out", {"a": 1}).open(resume=True)
    assert sorted(p.name for p in cells.iterdir()) == ["settings.json"]


def test_no_empty_folder_is_left(folder, capsys):
    assert run(["reproduce", "--out", "a/b", "--overshoot", "-1"]) == 2
    assert run(["audit", *MERIT, "--csv", "tables", "--label", "none"]) == 2
    assert sorted(os.listdir()) == ["loans.csv", "merit.csv"]


# 8: nothing is waited for --------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["--erase", "--erase-file", "--erased", "--actionability", "--train", "--people"]
)
def test_pipes_and_devices_are_refused(folder, capsys, option):
    os.mkfifo("pipe")
    os.symlink("/dev/zero", "zero")
    base = ["impact", *LOANS, *([] if option.startswith("--erase-") else ["--erase", "C-0001"])]
    for name in ("pipe", "zero"):
        refused([*base, option, name], capsys, "no regular file")
        refused(["audit", name], capsys, "no regular file")


# 9: terminals and spreadsheets ---------------------------------------------------------------

HOSTILE = "\x1b[2J\x1b]0;x\x07\x9b31m\u202e"


def test_no_escape_reaches_a_terminal(folder, capsys):
    table = loans(120).drop(columns="repaid").rename(columns={"savings": f"sav{HOSTILE}ings"})
    table["customer"] = table["customer"] + HOSTILE
    table["region"] = table["region"] + HOSTILE
    table.to_csv("t.csv", index=False)
    base = ["--train", "t.csv", *MERIT[2:]]
    outcomes = {
        0: [
            ["audit", *base, *QUICK, "--cohort", "region"],
            ["recourse", *base],
            ["impact", *base, "--erase", f"C-0003{HOSTILE}"],
        ],
        2: [
            ["impact", *base, "--erase", f"x{HOSTILE}"],
            ["audit", *base, "--label", f"x{HOSTILE}"],
            ["audit", *base, f"--x{HOSTILE}"],
            ["audit", *base, "--html", f"none{HOSTILE}/r.html"],
            [f"x{HOSTILE}"],
        ],
    }
    for code, commands in outcomes.items():
        for command in commands:
            assert run(command) == code, command
            said = capsys.readouterr()
            for text in (said.out, said.err):
                assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), command
            if code == 0:
                assert r"\x1b[2J" in said.out + said.err


def test_a_carriage_return_ends_no_cell(folder, capsys):
    table = loans(160).drop(columns="repaid")
    table["region"] = "a\r=1+" + table["region"]
    table["customer"] = "C\r" + table["customer"]
    table.to_parquet("t.parquet")
    base = ["--train", "t.parquet", *MERIT[2:]]
    assert run(["audit", *base, *QUICK, "--csv", "tables", "--cohort", "region"]) == 0
    assert run(["recourse", *base, "--out", "issued.csv"]) == 0
    capsys.readouterr()
    groups = pd.read_csv("tables/cohorts.csv")["cohort"]
    assert all("\r" in name for name in groups)
    assert (
        run(["impact", *base, "--recourses", "issued.csv", "--erase", "C\rC-0003", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["recourses"] >= 10


def test_no_spreadsheet_runs_a_cell(folder, capsys):
    table = loans(160).drop(columns="repaid")
    table["region"] = "=cmd|" + table["region"]
    table["customer"] = ["@" + name for name in table["customer"]]
    table.to_csv("t.csv", index=False)
    base = ["--train", "t.csv", *MERIT[2:], "--actionability", "none"]
    outputs = ["--csv", "tables", "--case-file", "case", "--cohort", "region"]
    assert run(["audit", *base, *QUICK, *outputs]) == 0
    assert run(["recourse", *base, "--out", "issued.csv"]) == 0
    assert run(["harden", *base, "--mitigation", "margin", "--survive", "1", "--out", "h.csv"]) == 0
    assert "read back with --recourses" in capsys.readouterr().out
    files = [*Path("tables").iterdir(), *Path("case").glob("*.csv"), "issued.csv", "h.csv"]
    for file in files:
        cells = pd.read_csv(file, dtype=str, keep_default_na=False)
        for column in (cells.columns, *(cells[c] for c in cells)):
            for cell in column:
                number = re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell)
                assert number or not cell.startswith(("=", "+", "-", "@")), file
    for issued in ("issued.csv", "h.csv"):
        assert run(["impact", *base, "--recourses", issued, "--erase", "@C-0003", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["recourses"] >= 10


# 10: what else -------------------------------------------------------------------------------


def test_notes_beside_a_parquet_table_do_not_travel(folder, capsys):
    import pyarrow.parquet as pq

    table = loans(80).drop(columns="repaid").set_index("customer")
    table.index.name = "customer"
    table.attrs = {"note": "C-0003 is the mayor"}
    numbered = table.reset_index().rename_axis("Mayor's row")
    numbered.to_parquet("n.parquet")
    assert (
        run(
            [
                "impact",
                "--train",
                "n.parquet",
                *MERIT[2:],
                "--erase",
                "C-0003",
                "--emit",
                "left.parquet",
            ]
        )
        == 0
    )
    assert b"ayor" not in Path("left.parquet").read_bytes()
    table.columns.name = "Mayor's table"
    table.to_parquet("t.parquet")
    base = ["--train", "t.parquet", *MERIT[2:]]
    for name in ("left.parquet", "left.csv"):
        assert run(["impact", *base, "--erase", "C-0003", "--emit", name]) == 0
        assert b"ayor" not in Path(name).read_bytes()
        assert b"C-0003" not in Path(name).read_bytes()
    assert "ayor" not in str(pq.read_schema("left.parquet").metadata)
    assert len(pd.read_parquet("left.parquet")) == 79


def test_a_cell_too_large_is_named(folder, capsys):
    table = loans(60).drop(columns="repaid")
    table.loc[30, "savings"] = 1e300
    table.to_csv("t.csv", index=False)
    for kind in ("ridge", "linear", "ntk", "boosting"):
        command = ["audit", "--train", "t.csv", *MERIT[2:-1], kind]
        refused(command, capsys, "row 31", "'savings'", "1e+300")
    table.loc[30, ["savings", "merit"]] = [10.0, -1e300]
    table.to_csv("t.csv", index=False)
    refused(["audit", "--train", "t.csv", *MERIT[2:]], capsys, "row 31", "'merit'", "-1e+300")


def test_out_without_margin_is_refused_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(
        "holdfast.cli.commands.load_case", lambda *a, **k: pytest.fail("the work has begun")
    )
    command = ["harden", *MERIT, "--mitigation", "uniform", "--out", "h.csv"]
    refused(command, capsys, "--out", "'margin'")
    refused(["harden", *MERIT, "--mitigation", "margn"], capsys, "did you mean 'margin'")

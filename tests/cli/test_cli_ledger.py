"""The ledger's commands: what a desk types and reads."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from counter import Desk
from holdfast.cli import run

CASE = [
    *("--train", "train.csv", "--label", "merit", "--id", "customer", "--model", "ridge"),
    *("--people", "people.csv", "--recourses", "issued.csv", "--labels", "labels.toml"),
]


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("HOLDFAST_LEDGER", "books.db")
    return tmp_path / "desk"


def said(capsys, *arguments, code=0):
    """What a command prints; its exit code is as it should be, and nothing is a traceback."""
    assert run([*map(str, arguments)]) == code
    found = capsys.readouterr()
    assert "Traceback" not in found.err
    assert code != 2 or (found.out == "" and found.err.count("holdfast: ") == 1)
    return found.err if code == 2 else found.out


def test_a_fortnight(folder, capsys):
    desk = Desk(folder, folder / "books.db")
    one, other = desk.breaker(), desk.holder(inside=False)
    assert "request 1 received, due" in said(capsys, "request", "add", one)
    before = said(capsys, "ledger", "verify")
    shown = said(capsys, "request", "preview", 1)
    assert "Honouring 1 request (1): 1 training row of 1 person erased" in shown
    broken = int(re.search(r"(\d+) of \d+ live promises would break", shown)[1])
    assert broken > 0
    assert "your monthly income" in shown
    told = json.loads(said(capsys, "request", "preview", 1, "--json"))
    assert told["breaks"] == broken == len(told["broken"])
    assert said(capsys, "ledger", "verify") == before
    shown = said(capsys, "request", "honour", 1, "--by", "A. Officer")
    assert f"{broken} of 104 live promises broke" in shown
    assert "not the ledger's to change" in shown
    assert "was honoured on" in said(capsys, "request", "honour", 1)
    log = said(capsys, "ledger", "log", "--last", 3)
    assert "A. Officer" in log
    assert "erasure" in log
    assert one not in log
    lines = json.loads(said(capsys, "ledger", "log", "--json", "--last", 2))
    assert lines[1]["before"] == lines[0]["hash"]
    shown = said(capsys, "letters", "--out", "letters")
    assert f"{broken} letters in letters" in shown
    assert f"{broken} people told" in said(capsys, "letters", "--told")
    assert "no letter is due" in said(capsys, "letters", "--out", "letters")
    (folder / "ids.txt").write_text(f"{other}\n")
    said(capsys, "request", "add", "--file", "ids.txt")
    assert "the model stays as it is" in said(capsys, "request", "honour", "--all")
    shown = said(capsys, "ledger", "status")
    assert re.search(rf"told +{broken}\n", shown)
    assert re.search(r"withdrawn +1\n", shown)
    assert re.search(r"completed +2\n", shown)
    status = json.loads(said(capsys, "ledger", "status", "--json"))
    assert status["requests"] == {"completed": 2}
    assert "follow from each other" in said(capsys, "ledger", "verify")
    assert desk.another("x").verify().faults == []


def test_from_nothing(folder, capsys):
    for name in ("books.db", "books.db.files"):
        shutil.rmtree(folder / name) if name.endswith("files") else os.remove(folder / name)
    assert "there is no ledger at 'books.db'" in said(capsys, "ledger", "status", code=2)
    assert "a new ledger stands at books.db" in said(capsys, "ledger", "init", "--certify", 0)
    assert "up to date" in said(capsys, "ledger", "init", "--due-days", 20)
    assert "The ledger is empty" in said(capsys, "ledger", "status")
    assert "the ledger is empty" in said(capsys, "request", "add", "C-0001", code=2)
    assert "104 promises written down: 104 live" in said(capsys, "ledger", "import", *CASE, "-q")
    assert "104 promises there already" in said(capsys, "ledger", "import", *CASE, "-q")
    hash_ = said(capsys, "ledger", "export", "backup.zip").split()[-1]
    said(capsys, "ledger", "init", "--ledger", "other.db")
    read = said(capsys, "ledger", "import", "backup.zip", "--ledger", "other.db")
    assert read.split()[-1] == hash_
    assert "backup.zip" in said(capsys, "ledger", "forget")


def test_requests_listed_extended_refused(folder, capsys):
    said(capsys, "request", "add", "C-0001", "C-0002", "--received", "2026-01-05")
    assert "is due 2026-04-05" in said(capsys, "request", "extend", 1, "--reason", "many")
    said(capsys, "request", "refuse", 2, "--reason", "identity not checked")
    shown = said(capsys, "request", "list")
    assert "in_progress" in shown
    assert "identity not checked" in shown
    assert "late" in shown
    listed = json.loads(said(capsys, "request", "list", "--open", "--json"))
    assert [each["state"] for each in listed] == ["in_progress"]
    assert "2 status callbacks in out" in said(capsys, "request", "list", "--callbacks", "out")
    states = [json.loads(path.read_text())["request_status"] for path in folder.glob("out/*")]
    assert sorted(states) == ["cancelled", "in_progress"]
    assert "C-0001" not in "".join(path.read_text() for path in folder.glob("out/*"))


def test_marks_models_certificates(folder, capsys):
    name = Desk(folder, folder / "books.db").holder(inside=True)
    assert "1 promise kept" in said(capsys, "ledger", "mark", "kept", name, "--reason", "granted")
    assert "103 certificates given" in said(capsys, "ledger", "certify")
    shown = said(capsys, "ledger", "model", "--target", 4.5, "--reason", "stricter")
    assert "model 2 is in force" in shown
    assert "103 certificates void" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["request", "add"], "nobody asks to be erased"),
        (["request", "add", "C-0001 "], "neither in the training table"),
        (["request", "add", "C-0001", "--received", "soon"], "is no day"),
        (["request", "add", "--file", "nothing.txt"], "nothing.txt"),
        (["request", "add", "--opendsr", "train.csv"], "is no JSON"),
        (["request", "preview"], "which requests?"),
        (["request", "honour", "--all"], "no request is open"),
        (["request", "honour", "7"], "there is no request 7"),
        (["request", "refuse", "7", "--reason", "x"], "there is no request 7"),
        (["letters"], "say where letters go"),
        (["letters", "--told", "--letter", "5"], "letter 5 is not written"),
        (["ledger", "model", "--reason", "x"], "nothing is new"),
        (["ledger", "model", "--target", "4"], "say why the model is new"),
        (["ledger", "model", "train.csv", "--reason", "x"], "models come as .skops"),
        (["ledger", "mark", "kept", "C-9999"], "holds no live promise"),
        (["ledger", "forget", "C-9999"], "knows nobody"),
        (["ledger", "export", "missing/backup.zip"], "does not exist"),
        (["ledger", "init", "--due-days", "0"], "--due-days must be from 1"),
        (["ledger", "import", "labels.toml"], "labels.toml"),
        (["ledger", "status", "--ledger", "mysql://a:secret-word@b/c"], "not on 'mysql'"),
    ],
)
def test_nonsense(folder, capsys, arguments, words):
    before = sorted(os.listdir()), (folder / "books.db").read_bytes()
    message = said(capsys, *arguments, code=2)
    assert words in message
    assert "secret-word" not in message
    assert (sorted(os.listdir()), (folder / "books.db").read_bytes()) == before


def test_books_somebody_changed_are_a_finding(folder, capsys):
    import sqlite3

    with sqlite3.connect(folder / "books.db") as connection:
        connection.execute("UPDATE promises SET state = 'kept' WHERE id = 1")
    assert run(["ledger", "verify"]) == 1
    assert "promise 1 is 'kept', and the log says 'live'" in capsys.readouterr().err
    assert run(["ledger", "verify", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["faults"]


def test_without_sqlalchemy(folder):
    """A missing extra answers with the line that installs it."""
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from holdfast.cli import main; main(['ledger', 'status'])"
    )
    end = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert end.returncode == 2
    assert "pip install 'holdfast[ledger]'" in end.stderr
    assert "Traceback" not in end.stderr

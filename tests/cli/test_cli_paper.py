"""``holdfast data`` and ``holdfast reproduce`` on the command line."""

import os
import signal
import subprocess
import sys
import time

import pytest

from holdfast.cli import run, screen

MAIN = "from holdfast.cli import main; main()"


def test_data_list_and_show(capsys):
    assert run(["data", "list"]) == 0
    said = capsys.readouterr().out
    for words in ("admission", "explainx==2.407", "scikit-learn", "HOLDFAST_DATA", "repayment"):
        assert words in said
    assert run(["data", "show", "diabetes-progression"]) == 0
    said = capsys.readouterr().out
    assert "442 rows" in said
    assert "frozen" in said
    assert run(["data", "fetch", "breast-cancer"]) == 0
    assert "569 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "show", "hello"], "did you mean 'heloc'"),
        (["data", "fetch", "hello"], "there is no data set 'hello'"),
        (["data", "show", "heloc", "--path", "nowhere"], "there is no heloc_dataset.csv"),
        (["data", "show", "heloc", "--task", "grade"], "task must be one of"),
        (["reproduce", "outcom"], "did you mean 'outcome'"),
        (["reproduce", "--overshoot", "-1"], "overshoots must be"),
        (["reproduce", "--overshoot", "nan"], "overshoots must be"),
        (["reproduce", "--jobs", "0"], "jobs must be"),
        (["reproduce", "--data", "nowhere"], "there is no folder 'nowhere'"),
        (["reproduce", "--out", "file"], "'file' is a file, a folder is wanted"),
        (["reproduce", "--out", "file/in"], "'file' is a file, a folder is wanted"),
    ],
)
def test_bad_input(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert words in said.err.replace("\n", " ")
    assert said.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
@pytest.mark.real_data
def test_workers_end_with_whoever_started_them(tmp_path, heloc, admission):
    out = tmp_path / "out"
    command = ["reproduce", "onion", "--quick", "--jobs", "2", "--out", str(out)]
    started = subprocess.Popen([sys.executable, "-c", MAIN, *command])
    cells = out / "cells"
    while started.poll() is None and len(list(cells.glob("onion*.json"))) < 1:
        time.sleep(0.05)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    time.sleep(1.0)
    finished = len(list(cells.glob("onion*.json")))
    time.sleep(4.0)
    assert len(list(cells.glob("onion*.json"))) == finished < 16
    again = [*command, "--resume", "--quiet"]
    made = subprocess.run(
        [sys.executable, "-c", MAIN, *again], capture_output=True, text=True, check=True
    )
    assert "Removing the 15 most critical points" in made.stdout
    assert made.stderr == ""
    assert len(list(cells.glob("onion*.json"))) == 16
    assert not list(cells.glob(".holdfast*"))


@pytest.mark.real_data
def test_interrupted(tmp_path, admission):
    out = tmp_path / "out"
    command = ["reproduce", "bounds", "--quick", "--jobs", "2", "--out", str(out)]
    started = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command], stderr=subprocess.PIPE, text=True
    )
    while started.poll() is None and not (out / "cells" / "settings.json").exists():
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "go on with --resume" in said
    assert "Traceback" not in said


def test_a_long_stage_is_heard_of_where_there_is_no_terminal(monkeypatch, capsys):
    clock = iter([0.0, 10.0, 31.0, 45.0, 7200.0])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    with screen.showing(quiet=False) as (tell, _):
        for done in (0, 5, 10, 20, 2000):
            tell("cells", done, 2000)
    assert capsys.readouterr().err.splitlines() == [
        "… cells (2,000)",
        "… cells: 10 of 2,000 after 0:00:31",
        "… cells: 2,000 of 2,000 after 2:00:00",
    ]

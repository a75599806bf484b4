"""The attack, kept: thousands of fuzzed calls, processes of their own, and kills at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from test_cli_fuzz import QUIETLY, attempt, commands, tables

from holdfast.files import UNFINISHED, sweep
from lender import LOANS, MERIT, write_loans

pytestmark = pytest.mark.slow

MAIN = "from holdfast.cli import main; main()"

#: parts of a suite, so that several workers share it
FUZZED, PARTS, ALONE = 10_000, 8, 300


@pytest.mark.parametrize("part", range(PARTS))
def test_fuzzed_calls_in_one_process(part):
    @settings(max_examples=FUZZED // PARTS, deadline=None, suppress_health_check=QUIETLY)
    @given(tables(), commands())
    def many(table, command):
        attempt(table, command)

    many()


def as_a_process(command):
    try:
        ended = subprocess.run(
            [sys.executable, "-c", MAIN, *command], capture_output=True, timeout=300
        )
    except ValueError:  # a NUL: no process can be given that
        return 2, "", "not an argument"
    said = (stream.decode("utf-8", "backslashreplace") for stream in (ended.stdout, ended.stderr))
    return ended.returncode, *said


@pytest.mark.parametrize("part", range(PARTS))
def test_fuzzed_processes(part):
    @settings(max_examples=-(-ALONE // PARTS), deadline=None, suppress_health_check=QUIETLY)
    @given(tables(), commands())
    def some(table, command):
        attempt(table, command, as_a_process)

    some()


QUICK = ["--max-deletions", "2", "--draws", "2", "-q"]
#: what is asked for, and what is to be written
COMMANDS = {
    "audit": (
        ["audit", *LOANS, *QUICK],
        {"--html": "r.html", "--json-file": "r.json", "--csv": "tables", "--case-file": "case"},
    ),
    "impact": (
        ["impact", *MERIT, "-q", "--erase", "C-0003"],
        {
            "--emit": "left.csv",
            "--save-model": "new.skops",
            "--case-file": "case.html",
            "--json-file": "i.json",
        },
    ),
    "recourse": (["recourse", *MERIT, "-q"], {"--out": "issued.csv"}),
    "harden": (
        ["harden", *MERIT, "-q", "--survive", "1", "--mitigation", "margin"],
        {"--html": "h.html", "--out": "h.csv"},
    ),
    "demo": (["demo", "-q"], {"--html": "demo.html"}),
}
KILLS = int(os.environ.get("HOLDFAST_KILLS", "100"))


def started(command):
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_kills_at_any_moment(name, tmp_path, monkeypatch):
    """All outputs or none, whole; what a killed run leaves, the next takes away."""
    monkeypatch.chdir(tmp_path)
    write_loans(tmp_path)
    asked, places = COMMANDS[name]
    command = [*asked, *(word for pair in places.items() for word in pair)]
    outputs = list(places.values())
    inputs = set(os.listdir())
    for _ in range(2):  # the first compiles
        start = time.monotonic()
        assert as_a_process(command)[0] == 0
        duration = time.monotonic() - start
    sizes = {place: whole(Path(place)) for place in outputs}
    rng, ended = random.Random(0), {"early": 0, "late": 0}
    for turn in range(KILLS):
        for place in outputs:
            remove(Path(place))
        stop = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[turn % 3]
        before = set(os.listdir())  # the last one's, if it was killed
        running = started(command)
        time.sleep(rng.uniform(0, duration))
        running.send_signal(stop)
        out, err = running.communicate()
        there = [place for place in outputs if os.path.lexists(place)]
        assert there in ([], outputs), there
        for place in there:
            assert abs(whole(Path(place)) - sizes[place]) <= 0.05 * sizes[place] + 50
        for place in outputs:  # what is said to be there is there
            assert f": {place}\n" not in out or there
        left = [n for n in os.listdir() if n not in inputs and n not in outputs]
        assert all(UNFINISHED.fullmatch(n) for n in left), left
        if stop is not signal.SIGKILL:
            assert set(left) <= before or running.returncode == -stop  # it had not begun
            assert running.returncode in (0, 128 + stop, -stop)
            assert "Traceback" not in err or running.returncode == -stop
            if "nothing was written" in err:
                assert not there
        ended["late" if there else "early"] += 1
    assert ended["early"] > KILLS // 3
    assert as_a_process(command)[0] == 0
    assert set(os.listdir()) == inputs | set(outputs)  # the next run swept


def whole(place):
    """A size; a table must be readable to its end."""
    if place.is_dir():
        return sum(whole(each) for each in place.iterdir())
    if place.suffix == ".html":
        assert place.read_text().rstrip().endswith("</html>")
    if place.suffix == ".csv":
        pd.read_csv(place)
    return place.stat().st_size


def remove(place):
    if place.is_dir():
        for each in place.iterdir():
            each.unlink()
        place.rmdir()
    else:
        place.unlink(missing_ok=True)


def test_a_run_of_the_paper_is_killed_and_gone_on_with(tmp_path, monkeypatch):
    """Leftovers never put off --resume."""
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "bounds", "--quick", "--jobs", "1", "--out", "o", "--resume", "-q"]
    rng = random.Random(1)
    for _ in range(12):
        running = started(command)
        time.sleep(rng.uniform(0, 12))
        running.kill()
        _, err = running.communicate()
        assert "holdfast:" not in err, err
    for folder in (Path("o"), Path("o", "cells")):  # as the next run does
        sweep(folder)
    assert not list(Path("o").rglob(".holdfast-*"))

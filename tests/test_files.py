"""Files together or not at all, whoever stops, fails or looks on."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.files import Outputs, sweep, when_safe, writable, writable_folder


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_if_one_cannot_be_put_in_place_none_is(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("before")
    os.chmod(tmp_path / "a.txt", 0o640)
    real = os.replace

    def fails(old, new):
        if Path(new).name == "b.txt":
            raise PermissionError(13, "Permission denied")
        real(old, new)

    monkeypatch.setattr(os, "replace", fails)

    def write():
        with Outputs() as out:
            for name in ("b.txt", "a.txt", "c.txt"):
                out.text(tmp_path / name, "after")
            out.text(out.folder(tmp_path / "new") / "d.txt", "after")

    with pytest.raises(HoldfastError, match=r"b\.txt.*Permission denied; nothing was written"):
        write()
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "before"
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_new_folder_appears_with_its_files(tmp_path):
    with Outputs() as out:
        place = out.folder(tmp_path / "case", 0o700)
        out.text(place / "a.csv", "x", 0o600)
        out.text(place / "b.csv", "x", 0o600)
        assert not (tmp_path / "case").exists()
    assert names(tmp_path) == ["case"]
    assert names(tmp_path / "case") == ["a.csv", "b.csv"]
    assert (tmp_path / "case").stat().st_mode & 0o777 == 0o700

    def fails():
        with Outputs() as out:
            out.text(out.folder(tmp_path / "other") / "a.csv", "x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert names(tmp_path) == ["case"]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from holdfast.files import Outputs
    with Outputs() as out:
        out.text(Path("a.txt"), "somebody's")
        out.text(out.folder("new") / "b.txt", "somebody's")
        print("ready", flush=True)
        {then}
"""


def writing(folder, then):
    code = textwrap.dedent(KILLED.format(then=then))
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "ready\n"
    return running


def test_what_a_killed_run_left_is_swept_by_the_next(tmp_path):
    running = writing(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    running.communicate()
    assert len([n for n in names(tmp_path) if n.startswith(".holdfast-")]) == 2
    (tmp_path / ".holdfast-notes").write_text("somebody's own file")
    with Outputs() as out:
        out.text(tmp_path / "c.txt", "x")
    assert names(tmp_path) == [".holdfast-notes", "c.txt"]


def test_what_another_run_is_writing_is_left_alone(tmp_path):
    running = writing(tmp_path, "import time; time.sleep(60)")
    try:
        before = names(tmp_path)
        assert len(before) == 2
        with Outputs() as out:
            out.text(tmp_path / "c.txt", "x")
        sweep(tmp_path)
        assert names(tmp_path) == sorted([*before, "c.txt"])
    finally:
        running.kill()
        running.communicate()
    sweep(tmp_path)
    assert names(tmp_path) == ["c.txt"]


def test_what_stood_there_before_is_not_swept(tmp_path, monkeypatch):
    """Another run sweeps while files are put in place, and then one cannot be."""
    (tmp_path / "precious.txt").write_text("precious")
    real = os.replace

    def fails(old, new):
        sweep(tmp_path)
        if Path(new).name == "other.txt" and not Path(old).name == "other.txt":
            raise OSError(28, "No space left on device")
        real(old, new)

    monkeypatch.setattr(os, "replace", fails)

    def write():
        with Outputs() as out:
            out.text(tmp_path / "other.txt", "new")
            out.text(tmp_path / "precious.txt", "new")

    with pytest.raises(HoldfastError, match="nothing was written"):
        write()
    assert names(tmp_path) == ["precious.txt"]
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_many_writers_and_sweepers_at_once(tmp_path):
    failed = []

    def write(number):
        try:
            for turn in range(20):
                with Outputs() as out:
                    out.text(tmp_path / f"{number}-{turn}.txt", "whole")
                    out.text(out.folder(tmp_path / f"f{number}-{turn}") / "a.txt", "whole")
        except BaseException as failure:
            failed.append(failure)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(names(tmp_path)) == 320


def test_nobody_ends_the_process_while_files_are_put_in_place(tmp_path, monkeypatch):
    """A signal between two renames is heard after the second."""
    heard, real = [], os.replace

    def interrupted(old, new):
        real(old, new)
        when_safe(lambda: heard.append(names(tmp_path)))

    monkeypatch.setattr(os, "replace", interrupted)
    with Outputs() as out:
        out.text(tmp_path / "a.txt", "x")
        out.text(tmp_path / "b.txt", "x")
        assert heard == []
    assert heard == [["a.txt", "b.txt"]] * 2
    when_safe(lambda: heard.append("now"))
    assert heard[-1] == "now"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_clean_up(tmp_path, stop):
    code = """
        import sys, time
        from pathlib import Path
        from holdfast.cli.stops import STOP
        from holdfast.files import Outputs
        STOP.begin()
        STOP.listen()
        with Outputs() as out:
            out.text(Path("a.txt"), "somebody's")
            out.text(out.folder("new") / "b.txt", "somebody's")
            print("ready", flush=True)
            time.sleep(60)
    """
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "ready\n"
    assert len(names(tmp_path)) == 2
    running.send_signal(stop)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 128 + stop
    assert said == "holdfast: interrupted: nothing was written\n"
    assert names(tmp_path) == []


def test_places_nothing_can_be_written_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink("loop", "loop")
    os.symlink("there", "here")
    os.mkfifo("pipe")
    for check in (writable, writable_folder):
        for bad in ("loop", "n" * 300, "a\0b", f"{'d' * 300}/x"):
            with pytest.raises(HoldfastError, match="cannot write"):
                check(bad)
    with pytest.raises(HoldfastError, match="no regular file"):
        writable("pipe")
    assert writable("here").name == "there"  # a link to a file that is not there yet
    assert names(tmp_path) == ["here", "loop", "pipe"]


def test_a_name_that_is_no_text_can_be_written_about(tmp_path):
    with Outputs() as out:
        out.text(tmp_path / "a.txt", os.fsdecode(b"loans-\xff.csv"))
    assert (tmp_path / "a.txt").read_text() == "loans-\\udcff.csv"

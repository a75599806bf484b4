"""State of the whole process: nobody changes it alone, and it is as it was when all are done."""

import os
import threading
import warnings
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from holdfast.algebra.threads import one_blas_thread
from holdfast.files import Outputs
from holdfast.shared_state import quiet


def in_threads(work, many=16):
    failures = []

    def guarded(i):
        try:
            work(i)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_warnings_and_blas_are_given_back(monkeypatch):
    before = list(warnings.filters)
    limits = [each["num_threads"] for each in threadpool_info()]

    def work(i):
        for _ in range(50):
            with quiet, one_blas_thread():
                warnings.warn("nobody is to hear this", stacklevel=1)

    assert in_threads(work) == []
    assert warnings.filters == before
    assert [each["num_threads"] for each in threadpool_info()] == limits
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("this is heard", stacklevel=1)


def test_one_failing_writer_leaves_the_others_alone(tmp_path):
    started = threading.Barrier(8)

    def work(i):
        with Outputs() as out:
            out.text(tmp_path / f"{i}.txt", f"whole {i}")
            started.wait()
            if i % 2:
                raise RuntimeError("this one fails")

    assert len(in_threads(work, 8)) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.txt", "2.txt", "4.txt", "6.txt"]
    assert (tmp_path / "4.txt").read_text() == "whole 4"


def test_modes_without_touching_the_umask(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask is the process's"))
    with Outputs() as out:
        out.text(tmp_path / "new.txt", "x")
        out.text(tmp_path / "own.txt", "x", mode=0o600)
    plain = tmp_path / "plain.txt"
    plain.write_text("x")
    assert (tmp_path / "new.txt").stat().st_mode == plain.stat().st_mode
    assert (tmp_path / "own.txt").stat().st_mode & 0o777 == 0o600
    os.chmod(plain, 0o640)
    with Outputs() as out:
        out.text(plain, "y")
    assert plain.stat().st_mode & 0o777 == 0o640


def test_an_interrupted_process_leaves_nothing(tmp_path):
    from holdfast.files import remove_unfinished

    out = Outputs()
    out.__enter__()
    out.text(tmp_path / "a.txt", "x")
    assert len(list(Path(tmp_path).iterdir())) == 1
    remove_unfinished()
    assert list(Path(tmp_path).iterdir()) == []

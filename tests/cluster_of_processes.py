"""A Dask scheduler and workers as processes of their own, on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


class Cluster:
    def __init__(self, folder: Path):
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = self._said("scheduler", r"tcp://127\.0\.0\.1:\d+")

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen:
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        with (self.folder / f"{kind}-{len(self.processes)}.log").open("w") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + kind, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": paths},
            )
        self.processes.append(started)
        return started

    def _said(self, kind: str, pattern: str) -> str:
        for _ in range(300):
            for log in self.folder.glob(f"{kind}-*.log"):
                if found := re.search(pattern, log.read_text()):
                    return found[0]
            time.sleep(0.1)
        raise AssertionError(f"no {kind} came up")

    def add_worker(self) -> subprocess.Popen:
        return self._start(
            "worker",
            self.address,
            *("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1"),
            *("--local-directory", str(self.folder)),
        )

    def kill(self, process: subprocess.Popen) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 1) -> Iterator[Cluster]:
    found = Cluster(folder)
    try:
        for _ in range(workers):
            found.add_worker()
        yield found
    finally:
        for process in found.processes:
            process.kill()
            process.wait()


class Slowly:
    """A work that takes its time, so that somebody can be lost in the middle."""

    def __call__(self, part):
        time.sleep(0.15)
        return part.first, part.rows

"""Ending early: Ctrl-C, a signal, a reader who has seen enough."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

#: signals that end a command early, as Ctrl-C does
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stop:
    """What is said to whoever stops a command, and what is tidied up then."""

    def __init__(self) -> None:
        self.kept: str | None = None
        self._before = 0

    def begin(self) -> None:
        """A command begins: nothing is written yet, and nothing is kept unless it says so."""
        self.kept, self._before = None, _in_place()

    def __str__(self) -> str:
        written = "nothing was written"
        if _in_place() > self._before:
            written = "the files asked for are written, and whole"
        return f"interrupted: {self.kept or written}"

    def listen(self) -> None:
        """Stop at these signals from now on."""
        for name in STOPS:
            with contextlib.suppress(ValueError, AttributeError):  # another thread, another system
                signal.signal(getattr(signal, name), self._now)

    def _now(self, number: int, frame: Any) -> None:
        """End at once, whatever library is at work: an exception there may be swallowed."""
        files = sys.modules.get("holdfast.files")

        def end() -> None:
            _end_workers()
            if files is not None:
                files.remove_unfinished()
            with contextlib.suppress(OSError, ValueError, AttributeError):
                shown_again = "\x1b[?25h\r" if sys.stderr.isatty() else ""  # the cursor
                os.write(2, f"{shown_again}holdfast: {self}\n".encode())
            os._exit(128 + number)

        if files is None:
            end()
        else:
            files.when_safe(end)


STOP = Stop()


def _end_workers() -> None:
    """Let processes of ours end before us: one that is just starting would complain aloud."""
    if "multiprocessing" not in sys.modules:
        return
    for place in Path("/proc").glob("[0-9]*"):  # where there is one
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid() and b"spawn_main" in (place / "cmdline").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def _in_place() -> int:
    files = sys.modules.get("holdfast.files")
    return 0 if files is None else files.in_place()


def open_what_is_closed() -> None:
    """Let stdin, stdout and stderr lead somewhere, if only nowhere.

    Else the next file that is opened takes the place of one that is closed, and gets its output.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def keep_libraries_quiet() -> None:
    """What libraries log, or print on stdout, goes nowhere; what we print still arrives.

    Characters that stdout has no bytes for are spelled out. What users must know we say in words:
    Dask, for one, logs tracebacks when it loses a scheduler.
    """
    logging.disable(logging.CRITICAL)
    try:
        encoding = sys.stdout.encoding or "utf-8"
        ours = os.fdopen(os.dup(1), "w", encoding=encoding, errors="backslashreplace")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.stdout = ours
    except (OSError, ValueError, AttributeError):  # no stdout at all
        return


def leave_stdout() -> None:
    """Let what is still to be printed go nowhere: there is nobody, or no room, to take it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

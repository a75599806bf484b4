"""Failures nobody's input is to blame for: too little of the machine, or a fault of our own."""

from __future__ import annotations

import datetime
import errno
import os
import platform
import secrets
import sys
import traceback
from importlib import metadata
from pathlib import Path

LIBRARIES = ("holdfast", "numpy", "scipy", "scikit-learn", "pandas", "numba", "pyarrow", "skops")


#: commands that do more than print
AT_WORK = ("audit", "impact", "recourse", "harden", "demo", "reproduce")

#: bytes of address space the libraries alone take, and each core's threads beside them
LIBRARIES_TAKE, EACH_CORE = 1_150_000_000, 20_000_000

#: what a library that cannot be loaded says where memory is short
_SHORT = ("cannot allocate memory", "failed to map segment", "could not find/load shared object")


def refuse_little_memory(arguments: list[str]) -> None:
    """Refuse to begin where compiled libraries would end the process in the middle of loading."""
    if arguments[:1] == [] or arguments[0] not in AT_WORK or set(arguments) & {"-h", "--help"}:
        return
    try:
        import resource
    except ImportError:  # no such limits here
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = LIBRARIES_TAKE + EACH_CORE * (os.cpu_count() or 1)
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise MemoryError(
            f"not enough memory: the address space is limited to {limit / 1e9:.1f} GB, and the "
            f"libraries alone need {needed / 1e9:.1f} GB (ulimit -v)"
        )


def of_the_machine(failure: BaseException) -> str | None:
    """What to tell where memory, a disk or a file system is to blame; ``None`` where none is."""
    short = any(words in str(failure).lower() for words in _SHORT)
    if isinstance(failure, MemoryError) or (isinstance(failure, ImportError | OSError) and short):
        own = str(failure) if str(failure).startswith("not enough memory") else ""
        return own or "not enough memory: use fewer rows or people, or a larger machine"
    if not isinstance(failure, OSError):
        return None
    said = failure.strerror or type(failure).__name__
    frames = traceback.extract_tb(failure.__traceback__)
    if any("numba" in frame.filename and "caching" in frame.filename for frame in frames):
        return f"cannot keep compiled code: {said}. Set NUMBA_CACHE_DIR to a folder with room"
    named = "" if failure.filename is None else f" {failure.filename!r}"
    hint = "" if named or failure.errno != errno.ENOSPC else " (where does stdout go?)"
    return f"cannot write or read{named}: {said}{hint}"


def reported(failure: BaseException, arguments: list[str]) -> str:
    """Write a report of a fault to a file of the user's; what to tell them.

    The report says where the code was and in which versions: never a message, an option's value
    or a line of data, which may be somebody's.
    """
    said = f"this should not have happened ({type(failure).__name__}): a fault of Holdfast's"
    text = "\n".join([*_circumstances(arguments), "", *_places(failure), ""])
    try:
        place = _folder() / f"fault-{datetime.date.today()}-{secrets.token_hex(4)}.txt"
        handle = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as unwritten:
        return f"{said}; its report could not be written ({unwritten.strerror})"
    return f"{said}. A report without personal data is in {str(place)!r}: please send it to us"


def _folder() -> Path:
    import platformdirs

    folder = Path(platformdirs.user_state_dir("holdfast", appauthor=False))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _circumstances(arguments: list[str]) -> list[str]:
    """The command and the names of its options, and what it ran on."""
    from holdfast.cli import app

    commands = {str(c.name or getattr(c.callback, "__name__", "")) for c in app.registered_commands}
    known = [word.split("=")[0] for word in arguments if word.startswith("--")]
    return [
        f"command: {next((a for a in arguments[:1] if a in commands), 'another')}",
        f"options: {' '.join(word for word in known if word[2:].replace('-', '').isalpha())}",
        f"python {platform.python_version()} on {platform.system()} {platform.machine()}",
        *(f"{name} {_version(name)}" for name in LIBRARIES),
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _places(failure: BaseException) -> list[str]:
    """The kinds of what was raised, and the functions it went through."""
    lines, seen = [], failure
    while seen is not None:
        lines.append(f"{type(seen).__module__}.{type(seen).__qualname__}")
        for frame in traceback.extract_tb(seen.__traceback__):
            lines.append(f"  {_within_packages(frame.filename)}:{frame.lineno} {frame.name}")
        seen = seen.__cause__ or seen.__context__  # type: ignore[assignment]
    return lines


def _within_packages(filename: str) -> str:
    """A file's name from the folder of packages on: the way there may name somebody."""
    for folder in sorted(sys.path, key=len, reverse=True):
        if folder and filename.startswith(folder + os.sep):
            return filename[len(folder) + 1 :]
    return Path(filename).name

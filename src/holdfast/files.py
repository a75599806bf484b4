"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.errors import HoldfastError

#: for files with personal data: their owner only
PRIVATE = 0o600


#: outputs being written; whoever ends the process early abandons them
_OPEN: weakref.WeakSet[Outputs] = weakref.WeakSet()


def remove_unfinished() -> None:
    """Take away whatever is not written to its end: for somebody who ends the whole process."""
    for outputs in list(_OPEN):
        outputs.abandon()


class Outputs:
    """Several files that appear together, or not at all.

    Each is written under a temporary name beside its place; leaving the ``with`` block without an
    error renames them all, leaving it with one removes them all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from holdfast.files import Outputs
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with Outputs() as out:
    ...     out.text(folder / "a.txt", "whole")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, Path]] = []
        self._folders: list[Path] = []

    def __enter__(self) -> Outputs:
        _OPEN.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _OPEN.discard(self)
        if kind is not None:
            self.abandon()
            return
        for temporary, path in self._waiting:
            os.replace(temporary, path)

    def abandon(self) -> None:
        """Remove what was written so far, and nobody else's."""
        while self._waiting:
            self._waiting.pop()[0].unlink(missing_ok=True)
        for folder in reversed(self._folders):
            with contextlib.suppress(OSError):  # somebody else put something there
                folder.rmdir()

    def folder(self, path: Any, mode: int = 0o777) -> Path:
        """A folder for some of the files; made if it is missing, and taken away on an error."""
        target = writable_folder(path)
        if not target.exists():
            target.mkdir(mode)
            self._folders.append(target)
        return target

    def file(self, path: Any, write: Callable[[Path], None], mode: int | None = None) -> None:
        """Let ``write`` fill a file that will stand at ``path``."""
        target = writable(path)
        temporary, usual = _temporary_beside(target)
        self._waiting.append((temporary, target))
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else usual
        try:
            write(temporary)
        except OSError as failure:
            raise HoldfastError(f"cannot write {str(path)!r}: {failure.strerror}") from None
        os.chmod(temporary, mode)

    def text(self, path: Any, content: str, mode: int | None = None) -> None:
        """Let a text stand at ``path``."""
        self.file(path, lambda place: _write_text(place, content), mode)


def _write_text(place: Path, content: str) -> None:
    place.write_text(content, encoding="utf-8", newline="\n")


def _temporary_beside(target: Path) -> tuple[Path, int]:
    """An empty file for its owner only, and the mode the user's umask would have given it.

    The umask belongs to the whole process and can only be read by changing it, so it is read off
    a new file instead.
    """
    while True:
        name = f".holdfast-{secrets.token_hex(8)}{target.suffix}"
        try:
            handle = os.open(target.parent / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
            break
        except FileExistsError:
            continue
    usual = os.fstat(handle).st_mode & 0o777
    os.close(handle)
    os.chmod(target.parent / name, PRIVATE)
    return target.parent / name, usual


def writable(path: Any) -> Path:
    """A path a file can be written to; said before any work is done if it cannot."""
    target = Path(path)
    if target.is_symlink():  # what it points at is written, not the link
        target = target.resolve()
    if target.is_dir():
        raise HoldfastError(f"cannot write {str(path)!r}: it is a directory, a file is wanted")
    if target.exists() and not target.is_file():
        raise HoldfastError(f"cannot write {str(path)!r}: it is no regular file")
    if not target.parent.is_dir():
        raise HoldfastError(
            f"cannot write {str(path)!r}: the folder {str(target.parent)!r} does not exist"
        )
    if not os.access(target.parent, os.W_OK) or (
        target.exists() and not os.access(target, os.W_OK)
    ):
        raise HoldfastError(f"cannot write {str(path)!r}: no permission")
    return target


def writable_folder(path: Any) -> Path:
    """A folder files can be written into; it, but not its parent, may be missing yet."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise HoldfastError(f"cannot write into {str(path)!r}: it is a file, a folder is wanted")
    nearest = target if target.is_dir() else target.parent
    if not nearest.is_dir():
        raise HoldfastError(
            f"cannot write into {str(path)!r}: the folder {str(nearest)!r} does not exist"
        )
    if not os.access(nearest, os.W_OK):
        raise HoldfastError(f"cannot write into {str(path)!r}: no permission")
    return target


def sha256(path: Any) -> str:
    """The hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Files written whole or not at all, several of them together."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.errors import HoldfastError

try:
    import fcntl
except ImportError:  # no locks on files here: what is old is taken for abandoned
    fcntl = None  # type: ignore[assignment]

#: for files with personal data: their owner only
PRIVATE = 0o600

#: names of what is not finished yet
UNFINISHED = re.compile(r"\.holdfast-[0-9a-f]{16}(\.[^/]*)?")

#: seconds after which something unfinished is taken for abandoned where files have no locks
OLD = 24 * 3600.0

#: outputs being written; whoever ends the process early abandons them
_OPEN: weakref.WeakSet[Outputs] = weakref.WeakSet()

#: held while files are put in their places, and what waits until they are
_PLACING = threading.Lock()
_WAITING: list[Callable[[], None]] = []

#: how often files were put in their places
_TIMES: list[int] = [0]


class Outputs:
    """Several files that appear together, or not at all.

    Each is written under a temporary name beside its place, locked for as long as whoever writes
    it is alive. Leaving the ``with`` block without an error puts them all in place, and if one
    cannot be, none is; leaving it with an error removes them all. What killed runs left in a
    folder is removed by the next that writes there.

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
        self._made: list[_Unfinished] = []
        self._swept: set[Path] = set()

    def __enter__(self) -> Outputs:
        _OPEN.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._put_in_place()
        finally:
            self.abandon()  # what is in place is not unfinished any more
            _OPEN.discard(self)

    def _put_in_place(self) -> None:
        with _placing():
            placed: list[_Unfinished] = []
            try:
                for each in reversed(self._made):  # the files of a new folder before the folder
                    placed.append(each)
                    each.put_in_place()
            except OSError as failure:
                for each in reversed(placed):
                    each.take_back()
                said = f"{str(placed[-1].path)!r}: {failure.strerror}"
                raise HoldfastError(f"cannot write {said}; nothing was written") from None
            for each in self._made:
                each.settle()
            _TIMES[0] += bool(self._made)
            self._made.clear()

    def abandon(self) -> None:
        """Remove what is unfinished, and nobody else's."""
        while self._made:
            self._made.pop().remove()

    def folder(self, path: Any, mode: int = 0o777) -> Path:
        """Where to write the files of a folder; one that is missing appears with them."""
        target = writable_folder(path)
        if target.exists():
            return target
        made = self._unfinished(target)
        made.create_folder()
        made.mode &= mode
        return made.temporary

    def file(self, path: Any, write: Callable[[Path], None], mode: int | None = None) -> None:
        """Let ``write`` fill a file that will stand at ``path``."""
        target = writable(path)
        made = self._unfinished(target)
        made.create()
        if mode is None and target.exists():
            mode = target.stat().st_mode & 0o777
        made.mode = made.mode if mode is None else mode
        try:
            write(made.temporary)
        except OSError as failure:
            raise HoldfastError(f"cannot write {str(path)!r}: {failure.strerror}") from None

    def text(self, path: Any, content: str, mode: int | None = None) -> None:
        """Let a text stand at ``path``."""
        self.file(path, lambda place: _write_text(place, content), mode)

    def _unfinished(self, target: Path) -> _Unfinished:
        if target.parent not in self._swept:
            self._swept.add(target.parent)
            sweep(target.parent)
        made = _Unfinished(target)
        self._made.append(made)
        return made


@dataclass
class _Unfinished:
    """A file or folder under a temporary name, and what stood in its place before."""

    path: Path
    temporary: Path = Path()
    mode: int = PRIVATE
    handle: int | None = None
    before: Path | None = None
    guard: int | None = None
    placed: bool = False

    def __post_init__(self) -> None:
        self.temporary = _beside(self.path)

    def create(self) -> None:
        """An empty file for its owner only; ``mode`` becomes what the umask would have given.

        The umask belongs to the whole process and can only be read by changing it, so it is read
        off a new file instead.
        """
        while True:
            try:
                handle = os.open(self.temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
            except OSError as failure:
                raise HoldfastError(
                    f"cannot write {str(self.path)!r}: {failure.strerror}"
                ) from None
            self.mode = os.fstat(handle).st_mode & 0o777
            os.fchmod(handle, PRIVATE)
            self.handle = handle
            if _locked(handle, self.temporary):
                return
            self.release()  # somebody who sweeps was faster: begin again
            self.temporary = _beside(self.path)

    def create_folder(self) -> None:
        """The same for a folder, into which its files go."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # swept: begin again
                os.mkdir(self.temporary, 0o777)
                self.handle = os.open(self.temporary, os.O_RDONLY)
                if _locked(self.handle, self.temporary):
                    self.mode = os.fstat(self.handle).st_mode & 0o777
                    os.chmod(self.temporary, 0o700)
                    return
            self.release()
            self.temporary = _beside(self.path)

    def put_in_place(self) -> None:
        """Rename; what stood there before is kept until everything is in place."""
        os.chmod(self.temporary, self.mode)
        if self.path.is_file():
            self._keep_before()
        os.replace(self.temporary, self.path)
        self.placed = True

    def _keep_before(self) -> None:
        """A second name for what stands there, locked like everything that is not finished."""
        while True:
            self.before = _beside(self.path)
            try:
                os.link(self.path, self.before)
            except OSError:  # no links here
                shutil.copy2(self.path, self.before)
            with contextlib.suppress(FileNotFoundError):
                self.guard = os.open(self.before, os.O_RDONLY)
                if _locked(self.guard, self.before):
                    return
                os.close(self.guard)
                self.guard = None

    def take_back(self) -> None:
        """As it was before."""
        with contextlib.suppress(OSError):
            if self.placed:
                os.replace(self.path, self.temporary)
            if self.before is not None and self.placed:
                os.replace(self.before, self.path)
            elif self.before is not None:
                self.before.unlink()

    def settle(self) -> None:
        """Everything is in place: forget what was before."""
        if self.before is not None:
            with contextlib.suppress(OSError):
                self.before.unlink(missing_ok=True)
        self.release()

    def remove(self) -> None:
        """Take it away, if it is there."""
        _remove(self.temporary)
        self.release()

    def release(self) -> None:
        """Let the locks go."""
        for handle in (self.handle, self.guard):
            if handle is not None:
                os.close(handle)
        self.handle = self.guard = None


def _locked(handle: int, path: Path) -> bool:
    """Whether the lock is ours now, and what is locked is still there."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # a file system without locks
        return True


def _beside(target: Path) -> Path:
    suffix = target.suffix if len(target.suffix) < 20 else ""
    return target.parent / f".holdfast-{secrets.token_hex(8)}{suffix}"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _write_text(place: Path, content: str) -> None:
    # names of files may hold bytes that are no text: shown as such
    with place.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(content)


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder; what is being written is locked."""
    try:
        left = [path for path in folder.iterdir() if UNFINISHED.fullmatch(path.name)]
    except OSError:
        return
    for path in left:
        if fcntl is None:
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > OLD:
                    _remove(path)
            continue
        with contextlib.suppress(OSError):  # being written, or not ours
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(handle)


@contextlib.contextmanager
def _placing() -> Iterator[None]:
    """While files are put in place nobody ends the process; whoever wanted to does so after."""
    try:
        with _PLACING:
            yield
    finally:
        _end_now()


def when_safe(end: Callable[[], None]) -> None:
    """Call something that ends the process: now, or once files are in their places."""
    _WAITING.append(end)
    _end_now()


def _end_now() -> None:
    while _WAITING and _PLACING.acquire(blocking=False):
        try:
            _WAITING.pop()()
        finally:
            _PLACING.release()


def in_place() -> int:
    """How often this process has put files in their places."""
    return _TIMES[0]


def remove_unfinished() -> None:
    """Take away whatever is not written to its end: for somebody who ends the whole process."""
    for outputs in list(_OPEN):
        outputs.abandon()


def writable(path: Any) -> Path:
    """A path a file can be written to; said before any work is done if it cannot."""
    target = _followed(path)
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
    target = _followed(path)
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


def _followed(path: Any) -> Path:
    """Where a link leads: what it points at is written, not the link."""
    target = Path(path)
    try:
        os.lstat(target)
        return target.resolve(strict=True) if target.is_symlink() else target
    except FileNotFoundError:  # not there yet
        return target.resolve() if target.is_symlink() else target
    except (OSError, RuntimeError, ValueError) as failure:  # too long, links in a circle, NUL
        said = getattr(failure, "strerror", None) or "no file can have this name"
        said = "its links lead in a circle" if isinstance(failure, RuntimeError) else said
        raise HoldfastError(f"cannot write {str(path)!r}: {said}") from None


def sha256(path: Any) -> str:
    """The hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

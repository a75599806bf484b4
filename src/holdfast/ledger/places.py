"""The folder beside the books: the table and the model in force, and nothing that is not.

A file is written under a name of its own, to the disk, before the books speak of it; the books
decide. What they do not name is swept away, and what they no longer name is a chore until it is
gone: whoever comes next does it if somebody was killed in between.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.files import PRIVATE, sha256

#: says whose folder it is
MARK = "ledger.txt"

_OURS = re.compile(r"(table|model)-\d+-[0-9a-f]{8}\.[a-z]+")


class Places:
    """Files the books own.

    Parameters
    ----------
    folder : Path
    owner : str
        The address of the books.
    """

    def __init__(self, folder: Path, owner: str):
        self.folder, self.owner = folder, owner

    def create(self) -> None:
        """The folder, for its owner only, with a mark that says whose it is."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._mark.exists() or not self._mark.stat().st_size:
                place = self.folder / f"{MARK}.new"
                place.write_text(self.owner + "\n", encoding="utf-8")
                place.chmod(PRIVATE)
                place.replace(self._mark)
        except OSError as failure:
            raise HoldfastError(
                f"cannot make the folder {str(self.folder)!r}: {failure.strerror}"
            ) from None

    @property
    def _mark(self) -> Path:
        return self.folder / MARK

    def adopt(self) -> None:
        """The folder is these books' own from now on."""
        self._mark.unlink(missing_ok=True)
        self.create()

    def refuse_others(self) -> None:
        """Refuse a folder of other books: what these do not name would be swept away."""
        try:
            owner = self._mark.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return
        if owner and owner != self.owner:
            raise HoldfastError(
                f"the folder {str(self.folder)!r} belongs to the ledger at {owner!r}. For books of "
                "their own name another folder with ⟦files⟧ when they are made; if that ledger was "
                "moved here, run ledger init with ⟦files⟧ and this folder. Nothing was done"
            )

    def path(self, name: str) -> Path:
        """Where one of them stands."""
        return self.folder / name

    def write(self, stem: str, suffix: str, fill: Callable[[Path], None]) -> tuple[str, str]:
        """A new file, written to the disk: its name and its hash."""
        self.create()
        name = f"{stem}-{secrets.token_hex(4)}{suffix}"
        place = self.path(name)
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
            fill(place)
            _to_the_disk(place)
            _to_the_disk(self.folder)
        except OSError as failure:
            self.remove([name])
            raise HoldfastError(
                f"cannot write {str(place)!r}: {failure.strerror}; nothing was done"
            ) from None
        except BaseException:
            self.remove([name])
            raise
        return name, sha256(place)

    def put(self, name: str, data: bytes) -> None:
        """A file read back from an export."""
        self.create()
        try:
            self.path(name).write_bytes(data)
            self.path(name).chmod(PRIVATE)
            _to_the_disk(self.path(name))
        except OSError as failure:
            self.remove([name])
            raise HoldfastError(
                f"cannot write {str(self.path(name))!r}: {failure.strerror}; nothing was done"
            ) from None

    def checked(self, name: str | None, wanted: str | None, what: str) -> Path:
        """Where a file stands that is still the one the books speak of."""
        if name is None or not self.path(name).is_file():
            raise HoldfastError(
                f"{what} on record is not at {str(self.path(str(name)))!r}: put it back (an export "
                "has it). Nothing was done"
            )
        if sha256(self.path(name)) != wanted:
            raise HoldfastError(
                f"{what} at {str(self.path(name))!r} is not the one on record: it has changed "
                "since. Put the right one back, or register it as a new model. Nothing was done"
            )
        return self.path(name)

    def remove(self, names: Iterable[str]) -> None:
        """Take files away, those that are there."""
        for name in names:
            with contextlib.suppress(OSError):
                self.path(name).unlink()

    def sweep(self, known: Iterable[str]) -> None:
        """Take away what somebody who was killed left: nothing the books speak of."""
        if self.folder.is_dir():
            kept = set(known)
            self.remove(
                each.name
                for each in self.folder.iterdir()
                if _OURS.fullmatch(each.name) and each.name not in kept
            )


def _to_the_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

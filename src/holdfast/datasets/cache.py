"""Cleaned tables in the user's cache: written whole, checked when read, made again if damaged."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pandas as pd
import platformdirs

from holdfast.datasets.sources import Source
from holdfast.errors import HoldfastError
from holdfast.files import Outputs, sha256


def folder() -> Path:
    """Where cleaned tables are kept."""
    return Path(platformdirs.user_cache_dir("holdfast", appauthor=False)) / "datasets"


def read(name: str, source: Source, version: int) -> pd.DataFrame | None:
    """The cleaned table kept, if it is there and as it was written; else ``None``."""
    table, note = _places(name)
    try:
        said = json.loads(note.read_text(encoding="utf-8"))
        if said != _note(source, version, sha256(table)):
            return None
        read: pd.DataFrame = pd.read_csv(table, index_col=0, keep_default_na=False, na_values=[""])
    except (OSError, ValueError):
        return None
    return read


def write(name: str, source: Source, version: int, table: pd.DataFrame) -> None:
    """Keep a cleaned table; a cache that cannot be written to is done without."""
    place, note = _places(name)
    with contextlib.suppress(OSError, HoldfastError):
        os.makedirs(place.parent, exist_ok=True)
        with Outputs() as out:
            out.file(place, lambda path: table.to_csv(path))
        with Outputs() as out:
            said = _note(source, version, sha256(place))
            out.text(note, json.dumps(said, indent=1) + "\n")


def _places(name: str) -> tuple[Path, Path]:
    return folder() / f"{name}.csv", folder() / f"{name}.json"


def _note(source: Source, version: int, table: str) -> dict[str, object]:
    """What must be so for a kept table to be used."""
    return {"file": source.file, "sha256": source.sha256, "cleaned": version, "table": table}

"""Finished cells on disk: each written whole, so that a run can be killed and gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.files import Outputs
from holdfast.paper.settings import Cell


class Store:
    """The folder of a run: ``settings.json``, and ``cells/`` with one file for each cell.

    Parameters
    ----------
    folder : path
    settings : mapping
        What must be the same for results to belong together.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder, self.settings = folder, settings

    def open(self, resume: bool) -> None:
        """Make the folder ready; refuse one with other results, or with results not asked for."""
        cells, note = self.folder / "cells", self.folder / "cells" / "settings.json"
        os.makedirs(cells, exist_ok=True)
        if note.exists():
            if not resume:
                raise HoldfastError(
                    f"{str(self.folder)!r} holds results already: pass --resume to go on with "
                    "them, or another --out"
                )
            try:
                known = json.loads(note.read_text(encoding="utf-8"))
            except ValueError:
                raise HoldfastError(f"{str(note)!r} is damaged: use another --out") from None
            for name in {**known, **self.settings}:
                if known.get(name) != self.settings.get(name):
                    raise HoldfastError(
                        f"{str(self.folder)!r} holds results for {name} = {known.get(name)}, not "
                        f"{self.settings.get(name)}: use another --out"
                    )
            for unfinished in cells.glob(".holdfast-*"):  # of a run that was killed
                unfinished.unlink(missing_ok=True)
            return
        with Outputs() as out:
            out.text(note, json.dumps(self.settings, indent=1, sort_keys=True) + "\n")

    def path(self, cell: Cell) -> Path:
        """Where a cell's file is."""
        return self.folder / "cells" / f"{cell.key}.json"

    def done(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those that are finished."""
        return [cell for cell in cells if self.path(cell).exists()]

    def write(self, cell: Cell, records: list[dict[str, Any]], seconds: float) -> None:
        """Keep a finished cell."""
        content = {"seconds": round(seconds, 3), "records": [_plain(r) for r in records]}
        with Outputs() as out:
            out.text(self.path(cell), json.dumps(content, sort_keys=True) + "\n")

    def read(self, cell: Cell) -> tuple[list[dict[str, Any]], float]:
        """A finished cell's records, and how long it took."""
        try:
            content = json.loads(self.path(cell).read_text(encoding="utf-8"))
            return content["records"], float(content["seconds"])
        except (ValueError, KeyError):
            raise HoldfastError(
                f"{str(self.path(cell))!r} is damaged: delete it and go on with --resume"
            ) from None


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON knows them; what is not a number is left out."""
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in record.items()}
    return {k: v for k, v in plain.items() if not (isinstance(v, float) and not np.isfinite(v))}

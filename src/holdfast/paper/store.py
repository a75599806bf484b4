"""Finished cells on disk: each written whole, so that a run can be killed and gone on with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.files import UNFINISHED, Outputs, sweep
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
        self._known: dict[Cell, dict[str, Any]] = {}

    def open(self, resume: bool) -> None:
        """Make the folder ready; refuse one with other results, or with results not asked for."""
        cells, note = self.folder / "cells", self.folder / "cells" / "settings.json"
        try:
            os.makedirs(cells, exist_ok=True)
        except OSError as failure:
            raise HoldfastError(f"cannot make {str(cells)!r}: {failure.strerror}") from None
        for place in (self.folder, cells):  # what a killed run left is nobody's result
            sweep(place)
        results = [path for path in cells.glob("*-*.json") if not UNFINISHED.fullmatch(path.name)]
        if not note.exists() and results:
            raise HoldfastError(f"{str(note)!r} is missing: use another ⟦out⟧")
        if note.exists():
            if not resume:
                raise HoldfastError(
                    f"{str(self.folder)!r} holds results already: pass ⟦resume⟧ to go on with "
                    "them, or another ⟦out⟧"
                )
            try:
                known = json.loads(note.read_text(encoding="utf-8"))
            except ValueError:
                known = None
            if not isinstance(known, dict):
                raise HoldfastError(f"{str(note)!r} is damaged: use another ⟦out⟧")
            for name in {**known, **self.settings}:
                if known.get(name) != self.settings.get(name):
                    raise HoldfastError(
                        f"{str(self.folder)!r} holds results for {name} = {known.get(name)}, not "
                        f"{self.settings.get(name)}: use another ⟦out⟧"
                    )
            return
        with Outputs() as out:
            out.text(note, json.dumps(self.settings, indent=1, sort_keys=True) + "\n")

    def read_only(self) -> None:
        """Take what is there, with the settings it was measured by."""
        try:
            known = json.loads((self.folder / "cells" / "settings.json").read_text("utf-8"))
        except (OSError, ValueError):
            known = None
        if not isinstance(known, dict):
            raise HoldfastError(f"there are no results in {str(self.folder)!r} to draw")
        self.settings = known

    @contextmanager
    def timed(self, how: dict[str, Any]) -> Iterator[Callable[[int], None]]:
        """Note a run and its true duration, as far as it comes: killed runs count as well."""
        before, start, last = self.runs(), time.time(), [-1]
        path = self.folder / "cells" / "runs.json"

        def keep(done: int) -> None:
            if done == last[0]:
                return
            last[0] = done
            run = {**how, "cells finished": done, "wall seconds": round(time.time() - start, 1)}
            with Outputs() as out:
                out.text(path, json.dumps([*before, run], indent=1) + "\n")

        try:
            yield keep
        finally:
            done, last[0] = last[0], -2
            keep(max(done, 0))

    def runs(self) -> list[dict[str, Any]]:
        """Every run that measured something here, the last one last."""
        try:
            known = json.loads((self.folder / "cells" / "runs.json").read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return known if isinstance(known, list) else []

    def path(self, cell: Cell) -> Path:
        """Where a cell's file is."""
        return self.folder / "cells" / f"{cell.key}.json"

    def done(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those that are finished; a damaged file is none."""
        return [cell for cell in cells if self._content(cell) is not None]

    def write(
        self,
        cell: Cell,
        records: list[dict[str, Any]],
        seconds: float,
        core_seconds: float = 0.0,
        facts: dict[str, Any] | None = None,
    ) -> None:
        """Keep a finished cell: what was measured, how long it took, and of which case."""
        content = {
            "seconds": round(seconds, 3),
            "core seconds": round(core_seconds, 3),
            "case": facts or {},
            "records": [_plain(r) for r in records],
        }
        with Outputs() as out:
            out.text(self.path(cell), json.dumps(content, sort_keys=True) + "\n")

    def read(self, cell: Cell) -> dict[str, Any]:
        """A finished cell: ``records``, ``seconds``, ``core seconds`` and its ``case``."""
        content = self._content(cell)
        if content is None:
            raise HoldfastError(f"{str(self.path(cell))!r} went missing: go on with ⟦resume⟧")
        return content

    def _content(self, cell: Cell) -> dict[str, Any] | None:
        """What a cell's file says, if it is there and as it was written."""
        if cell not in self._known:
            try:
                content = json.loads(self.path(cell).read_text(encoding="utf-8"))
                records = content["records"]
                content["seconds"] = float(content["seconds"])
                fine = isinstance(records, list) and all(
                    isinstance(record, dict) and record.get("figure") == cell.figure
                    for record in records
                )
            except (OSError, ValueError, KeyError, TypeError):
                return None
            if not fine:
                return None
            self._known[cell] = content
        return self._known[cell]


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON knows them; what is not a number is left out."""
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in record.items()}
    return {k: v for k, v in plain.items() if not (isinstance(v, float) and not np.isfinite(v))}

"""The page with a slider refers to pictures beside it: they go with it to the site."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", _copied)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _copied(app: Any, failure: Exception | None) -> None:
    here, there = Path(app.srcdir) / "reproduction", Path(app.outdir) / "reproduction"
    if failure is None and app.builder.format == "html":
        there.mkdir(exist_ok=True)
        for path in (here / "figures.html", *here.glob("*.svg")):
            shutil.copy(path, there)

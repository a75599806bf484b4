"""What a reviewer wants to know of a run: which sources, which machine, which settings."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from holdfast.recourse import METHODS, published

_PACKAGE = Path(__file__).parents[1]
#: what only shows results, or has no part in measuring them
_SHOWING = ("cli", "desk", "ledger", "report", "mlflow.py", "pytest_plugin.py")
_DRAWING = (
    *("choices.py", "claims.py", "drawing.py", "judges.py", "names.py", "notions.py", "pages.py"),
    "provenance.py",
)

#: how the searches are run, beside their defaults
SEARCHES_TOLD = {
    "greedy-count": "the paper's Algorithm 1; ties: the lowest row; by the jackknife for logistic "
    "models and networks, by exact algebra else",
    "best": "one round of exchanges, one temperature (0.3); one Newton step for logistic models",
    "gates": "ℓ0 weight 0.5; weak: 0.01",
    "random": "uniformly without replacement, nested",
}


def measuring_source() -> str:
    """A hash of all sources that have a part in measuring: the same hash, the same numbers."""
    total = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_PACKAGE).parts
        drawn = parts[0] == "paper" and (parts[-1] in _DRAWING or parts[-1] == "__init__.py")
        if parts[0] not in _SHOWING and not drawn:
            total.update("/".join(parts).encode())
            total.update(path.read_bytes())
    return f"sha256 {total.hexdigest()[:16]} of holdfast {metadata.version('holdfast')}"


def commit() -> str | None:
    """The commit of a checkout, and whether anything beside it was changed; None elsewhere."""

    def asked(*words: str) -> str | None:
        try:
            found = subprocess.run(  # noqa: S603 (fixed words)
                ["git", "-C", str(_PACKAGE), *words],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return found.stdout.strip()

    top, known = asked("rev-parse", "--show-toplevel"), asked("rev-parse", "HEAD")
    if top is None or known is None or not _PACKAGE.is_relative_to(Path(top) / "src"):
        return None
    changed = asked("status", "--porcelain", "--", str(_PACKAGE))
    return known if changed == "" else f"{known}, with changes"


def machine() -> dict[str, Any]:
    """What it ran on, without a name."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = None
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor,
        "cores": os.cpu_count(),
        "memory in GiB": None if memory is None else round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def methods_told() -> dict[str, dict[str, Any]]:
    """The settings of every recourse method, ours and its published implementation's."""

    def settings(method: Any) -> dict[str, Any]:
        found = inspect.signature(method).parameters.values()
        return {p.name: p.default for p in found if p.default is not inspect.Parameter.empty}

    return {
        name: {"settled": settings(METHODS[name]), "as published": settings(method)}
        for name, method in published.PUBLISHED.items()
    }

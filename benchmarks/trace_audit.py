"""The walk of one audit: which rooms are entered from which, how often, and in what order.

Prints Markdown. ``docs/architecture.md`` has its output for the tree before the rooms were cut and
after.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

#: where modules of the tree before the rooms were cut would stand now
MOVED = {
    **dict.fromkeys(
        ["models.rows", "models.deletions", "models.dual", "models.design", "models.reweighting"],
        "algebra",
    ),
    **dict.fromkeys(
        ["models.kernels", "searches.kernels", "searches.box", "searches.box_loops"], "algebra"
    ),
    **dict.fromkeys(["searches.clusters", "searches.units", "searches.problem"], "algebra"),
    **dict.fromkeys(["impacts", "hardening"], "audits"),
    **dict.fromkeys(["cli.loading", "cli.files", "cli.promises", "cli.settings"], "cases"),
    "fitting": "cases",
    "bounds": "propositions",
}
#: where everybody may go: errors, arguments, tables
COMMON = ("errors", "arguments", "tables", "files", "archives", "shared_state", "data", "__init__")


def room_of(file, source):
    parts = Path(file).relative_to(source).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    return MOVED.get(name, MOVED.get(parts[0], parts[0]))


def walked(command):
    """Entries into rooms from other rooms, and the order of the first ones."""
    import holdfast
    from holdfast.cli import run

    source = Path(holdfast.__file__).parent
    prefix, rooms, entries, order = str(source), {}, Counter(), []

    def look(frame, event, argument):
        if event != "call" or not frame.f_code.co_filename.startswith(prefix):
            return
        file = frame.f_code.co_filename
        room = rooms.setdefault(file, room_of(file, source))
        back = frame.f_back
        while back is not None and not back.f_code.co_filename.startswith(prefix):
            back = back.f_back
        if back is None:
            return
        caller = rooms.setdefault(back.f_code.co_filename, room_of(back.f_code.co_filename, source))
        if room != caller and room not in COMMON and caller not in COMMON:
            entries[caller, room] += 1
            if caller in ("cli", "cases", "audits") and (not order or order[-1] != room):
                order.append(room)

    run(command)  # imports and compiled loops first
    sys.setprofile(look)
    try:
        run(command)
    finally:
        sys.setprofile(None)
    return entries, order


def main():
    rng = np.random.default_rng(0)
    n = 300
    table = pd.DataFrame(
        {
            "customer": [f"C-{i}" for i in range(n)],
            "income": rng.gamma(4, 500, n).round(),
            "savings": rng.exponential(2000, n).round(),
            "job": rng.choice(["none", "part", "full"], n),
        }
    )
    merit = table["income"] / 1000 + table["savings"] / 2000 + (table["job"] == "full")
    table["repaid"] = (merit + rng.logistic(size=n) > merit.median()).astype(int)
    path = Path(sys.argv[1]) / "trace.csv"
    table.to_csv(path, index=False)
    command = ["audit", "--train", str(path), "--label", "repaid", "--id", "customer"]
    entries, order = walked([*command, "--model", "logistic", "-q"])
    callers = sorted({caller for caller, _ in entries})
    called = sorted({room for _, room in entries})
    print("| from \\ into | " + " | ".join(called) + " |")
    print("|---|" + "---:|" * len(called))
    for caller in callers:
        cells = [f"{entries[caller, room]:,}" if entries[caller, room] else "" for room in called]
        print(f"| {caller} | " + " | ".join(cells) + " |")
    print(f"\n{sum(entries.values()):,} entries. From the top, rooms change {len(order)} times.")


if __name__ == "__main__":
    main()

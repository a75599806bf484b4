"""An audit with certificates against the number of rows, by stage; and one pass that only sums.

python benchmarks/bench_scale.py [rows ...] [--features 20 50] [--promises 1000] [--keep FOLDER]
python benchmarks/bench_scale.py --workers 1 2 4 [rows]     the same passes on a local cluster
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

GROUP = 100_000


def write(file: Path, n: int, d: int) -> None:
    """A table of loans: features of normal spread, labels with heavy tails."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    weights = rng.standard_normal(d)
    names = [f"x{i}" for i in range(d)]
    writer: Any = None
    for first in range(0, n, GROUP):
        rows = min(GROUP, n - first)
        X = rng.standard_normal((rows, d))
        y = X @ weights + rng.standard_t(4, size=rows)
        columns = {name: X[:, i] for i, name in enumerate(names)}
        table = pa.table({**columns, "y": y, "id": np.arange(first, first + rows)})
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table, row_group_size=rows)
    writer.close()
    people = pd.DataFrame(rng.standard_normal((4000, d)), columns=names)
    people["id"] = [f"P{i}" for i in range(len(people))]
    people.to_parquet(file.with_suffix(".people.parquet"))


class Clock:
    """Seconds by stage, told apart by the progress that is reported."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "start", time.perf_counter()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        # what follows the end of a stage is the next one's
        self._stage, self._since = stage if done < total else f"after {stage}", now


def audit_once(file: str, promises: int, engine: str | None, workers: int) -> None:
    """One audit in a process of its own, as `holdfast audit` makes it."""
    from holdfast.cases.loading import load_case
    from holdfast.cases.running import audit_case
    from holdfast.cases.settings import Settings
    from holdfast.scale.engines import LocalThreads, engine_of

    start, clock = time.perf_counter(), Clock()
    runs: Any = LocalThreads(workers)
    if engine == "dask":
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        runs = engine_of(Client(cluster))
    people = Path(file).with_suffix(".people.parquet")
    told = {"train": file, "label": "y", "favourable": "high", "id": "id", "model": "ridge"}
    settings = Settings(**told, people=people, target=1.0, engine="threads")
    from holdfast.cases import blocks

    blocks.engine_of = lambda *_: runs
    case = load_case(settings, clock)
    case.given = case.given.take(np.flatnonzero(case.given.valid)[:promises])
    loaded = time.perf_counter() - start
    result = audit_case(settings, case, clock)
    clock("end", 0, 1)
    whole = time.perf_counter() - start
    model: Any = case.model
    began = time.perf_counter()
    total = sum(runs.map(Summing(model.recipe.scan), model.recipe.scan.parts))
    one_pass = time.perf_counter() - began
    print(
        json.dumps(
            {
                "rows": model.recipe.scan.rows,
                "features": len(model.recipe.scan.features),
                "promises": int(case.given.valid.sum()),
                "seconds": whole,
                "fitting and recourse": loaded,
                "stages": {k: round(v, 2) for k, v in clock.seconds.items() if v > 0.05},
                "passes": model.passes + 2,  # the columns and the ids are looked at first
                "one pass": one_pass,
                "GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
                "tight": float((result.proof["status"] == "tight").mean()),
                "listed": result.plan.notes["looked at"]["one by one"],
                "sum": total,
            }
        )
    )


class Summing:
    """What the machine can do: read every number once and add it up."""

    def __init__(self, scan: Any):
        self.scan = scan

    def __call__(self, part: Any) -> float:
        table = self.scan.read(part, self.scan.numbers)
        return float(sum(np.nansum(column.to_numpy()) for column in table.columns))


def run(file: Path, promises: int, engine: str | None = None, workers: int = 2) -> dict[str, Any]:
    child = [sys.executable, __file__, "--child", str(file), "--promises", str(promises)]
    child += ["--workers", str(workers), *(["--engine", engine] if engine else [])]
    found = subprocess.run(child, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(found.stderr[-2000:])
    parsed: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return parsed


def stages(found: dict[str, Any]) -> tuple[float, ...]:
    """Screening and gathering, search, refits, certificates and what is explained."""
    of = found["stages"]

    def taken(*words: str) -> float:
        return sum(v for k, v in of.items() if any(w in k for w in words))

    listed = taken("looking for the rows", "gathering")
    search = taken("search for the worst")
    refits = taken("refits")
    proofs = taken("certificates")
    return listed, search, refits, proofs, found["seconds"] - found["fitting and recourse"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=float, default=[1e4, 1e5, 1e6])
    parser.add_argument("--features", nargs="*", type=int, default=[20, 50])
    parser.add_argument("--promises", type=int, default=1000)
    parser.add_argument("--workers", nargs="*", type=int, default=[2])
    parser.add_argument("--engine")
    parser.add_argument("--child")
    parser.add_argument("--keep", type=Path)
    told = parser.parse_args()
    if told.child:
        audit_once(told.child, told.promises, told.engine, told.workers[0])
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = told.keep or Path(temporary)
        print(
            "| rows | features | workers | seconds | fit | list | search | refits | proofs "
            "| passes | one pass | GB | tight |"
        )
        print("|---:" * 13 + "|")
        for d in told.features:
            for n in map(int, told.rows):
                file = folder / f"loans-{n}-{d}.parquet"
                if not file.exists():
                    write(file, n, d)
                for workers in told.workers:
                    found = run(file, told.promises, told.engine, workers)
                    listed, search, refits, proofs, _ = stages(found)
                    print(
                        f"| {n:,} | {d} | {workers} | {found['seconds']:.1f} "
                        f"| {found['fitting and recourse']:.1f} | {listed:.1f} | {search:.1f} "
                        f"| {refits:.1f} | {proofs:.1f} | {found['passes']} "
                        f"| {found['one pass']:.2f} | {found['GB']:.1f} | {found['tight']:.0%} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

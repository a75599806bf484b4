"""Working off cells: cases in parallel, the cells of a case one after another."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any

from threadpoolctl import threadpool_limits

from holdfast.datasets import path_with
from holdfast.errors import HoldfastError
from holdfast.paper import (
    action,
    encodings,
    gates,
    limits,
    onion,
    outcome,
    overshoot,
    privacy,
    rules,
    wide,
)
from holdfast.paper.settings import Cell, Scale
from holdfast.paper.setups import Setup, set_up
from holdfast.paper.store import Store
from holdfast.shared_state import quiet

#: each figure's cells, and what is measured in one
FIGURES: dict[str, tuple[Callable[..., list[Cell]], Callable[[Setup, Cell], Any]]] = {
    "outcome": (outcome.cells, outcome.measure),
    "action": (action.cells, action.measure),
    "classification": (outcome.classification_cells, outcome.measure),
    "gates": (gates.cells, gates.measure),
    "onion": (onion.cells, onion.measure),
    "wide": (wide.cells, wide.measure),
    "bounds": (limits.cells, limits.measure),
    "overshoot": (overshoot.cells, overshoot.measure),
    "encodings": (encodings.cells, encodings.measure),
    "rules": (rules.cells, rules.measure),
    "privacy": (privacy.cells, privacy.measure),
}


def run(
    store: Store,
    cells: Sequence[Cell],
    scale: Scale,
    jobs: int,
    path: Any,
    tell: Callable[[str, int, int], None],
) -> None:
    """Measure every cell that is not finished, ``jobs`` cases at a time.

    A case that fails does not take the others with it: they are finished first.
    """
    finished = set(store.done(cells))
    waiting: dict[tuple[str, str, int, str], list[Cell]] = {}
    for cell in cells:
        if cell not in finished:
            waiting.setdefault(cell.case, []).append(cell)
    # the cases that take longest first, so that no core is left with one at the end
    groups = sorted(waiting.values(), key=_weight, reverse=True)
    threads = max(1, (os.cpu_count() or 1) // jobs)

    def report() -> None:
        tell("cells", len(store.done(cells)), len(cells))

    report()
    if jobs == 1:
        for group in groups:
            work_off(store, group, scale, threads, path, report)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        running = {pool.submit(work_off, store, g, scale, threads, path) for g in groups}
        failures: list[Exception] = []
        try:
            while running:
                ended, running = wait(running, timeout=2.0, return_when=FIRST_COMPLETED)
                for task in ended:
                    try:
                        task.result()
                    except BrokenProcessPool:
                        raise
                    except Exception as failure:
                        failures.append(failure)
                report()
        except BrokenProcessPool:
            raise HoldfastError(
                "a worker was ended from outside, perhaps for want of memory: go on with fewer "
                "⟦jobs⟧ and ⟦resume⟧ (a script of your own must start the run under "
                "`if __name__ == '__main__'`, or with jobs=1)"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failures:
        raise failures[0]


def _end_with_parent() -> None:
    """Let a worker end at once when whoever started it is gone, killed or interrupted."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def work_off(
    store: Store,
    cells: Sequence[Cell],
    scale: Scale,
    threads: int,
    path: Any,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Set a case up and measure its cells."""
    with threadpool_limits(threads), quiet:
        start, core = time.perf_counter(), time.process_time()
        case = set_up(*cells[0].case, scale, threads, path_with(cells[0].data, path))
        for cell in cells:
            records = FIGURES[cell.figure][1](case, cell)
            now, used = time.perf_counter(), time.process_time()
            labelled = [{**record, "target": case.target_is} for record in records]
            store.write(cell, labelled, now - start, used - core, case.facts)
            start, core = now, used
            report()


def _weight(cells: Sequence[Cell]) -> float:
    """About how long a case takes, in no unit; further splits come last."""
    each = {"ntk": 6.0, "ls-svm": 4.0, "ann": 3.0}.get(cells[0].model, 2.0)
    return each * len(cells) if cells[0].split == 0 else 0.01 * each * len(cells)

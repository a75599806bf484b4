"""Refits and the worst case, worked out in processes of their own: the desk stays answering."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from holdfast.desk.sources import Dossier, Source, Stamp
from holdfast.desk.whatif import REACH, Remembered
from holdfast.errors import HoldfastError

#: refits and surveys that are remembered
REFITS, SURVEYS = 256, 4

#: in a worker: the source it has loaded
_AT_HAND: dict[Source, tuple[Stamp, Dossier]] = {}

LOST = "the process that worked on this was lost; it has been started again: ask once more"


class Workers:
    """One process that refits, one that looks for the worst case; both start when first asked."""

    def __init__(self) -> None:
        self._pools: dict[str, ProcessPoolExecutor] = {}
        self._refits, self._surveys = Remembered(REFITS), Remembered(SURVEYS)
        self._lock = threading.Lock()

    def refit(self, source: Source, stamp: Stamp, rows: Any) -> Future[Any]:
        """Scores of the promises without some rows, by refitting."""
        key = (source, stamp, tuple(int(row) for row in rows))
        return self._asked("refits", self._refits, key, _refit, source, stamp, key[2])

    def survey(self, source: Source, stamp: Stamp, reach: int = REACH) -> Future[Any]:
        """The worst case for every number of erasures, what is likely, what is proven."""
        return self._asked("survey", self._surveys, (source, stamp), _survey, source, stamp, reach)

    def _asked(
        self, pool: str, held: Remembered, key: Any, work: Any, *arguments: Any
    ) -> Future[Any]:
        with self._lock:
            found: Future[Any] | None = held.get(key)
            if found is None:
                found = held.put(key, self._submit(pool, work, *arguments))
                found.add_done_callback(lambda done: _forget_failure(held, key, done))
            return found

    def _submit(self, name: str, work: Any, *arguments: Any) -> Future[Any]:
        for fresh in (False, True):
            pool = self._pools.get(name)
            if pool is None or fresh:
                pool = self._pools[name] = ProcessPoolExecutor(
                    1,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_end_with,
                    initargs=(os.getpid(),),
                )
            try:
                return pool.submit(work, *arguments)
            except BrokenProcessPool:
                continue
        raise HoldfastError(LOST)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for pool in self._pools.values():
            processes = list((getattr(pool, "_processes", None) or {}).values())
            for process in processes:
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = {}


def _forget_failure(held: Remembered, key: Any, done: Future[Any]) -> None:
    if done.cancelled() or done.exception() is not None:
        held.drop(key)


def result_of(future: Future[Any], seconds: float | None = 0.0) -> Any:
    """What was found; ``None`` while it is being worked out."""
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        return None
    except BrokenProcessPool:
        raise HoldfastError(LOST) from None


# in the workers


def _end_with(parent: int) -> None:
    """End when the desk does, however it ended; one thread for BLAS beside the desk's own."""
    import logging

    from threadpoolctl import threadpool_limits

    logging.disable(logging.CRITICAL)
    threadpool_limits(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _loaded(source: Source, stamp: Stamp) -> Dossier | None:
    """What a source holds; ``None`` where it is not any more what was asked about."""
    held = _AT_HAND.get(source)
    if held is None or held[0] != stamp:
        if source.stamp() != stamp:
            return None
        dossier = source.load()
        if source.stamp() != stamp:
            return None
        held = _AT_HAND[source] = (stamp, dossier)
    return held[1]


def _refit(source: Source, stamp: Stamp, rows: tuple[int, ...]) -> Any:
    from holdfast.models.solving import scores_or_nan

    dossier = _loaded(source, stamp)
    if dossier is None:
        return "changed"
    if not rows:
        return dossier.scores
    import numpy as np

    return scores_or_nan(dossier.model.without(np.array(rows)), dossier.points)


def _survey(source: Source, stamp: Stamp, reach: int) -> Any:
    """An audit, reduced to what the desk shows."""
    if source.stamp() != stamp:
        return "changed"
    result = source.audit({"max_deletions": reach})
    curve = result.curve.reset_index()
    columns = [*("k", "predicted", "refitted", "random", "random_low", "random_high"), "ceiling"]
    return {
        "curve": [
            {name: _number(value) for name, value in line.items()}
            for line in curve.reindex(columns=columns).to_dict(orient="records")
        ],
        "sets": [[int(row) for row in rows] for rows in result.plan.sets],
        "shareable": result.summary().model_dump(mode="json"),
    }


def _number(value: Any) -> float | None:
    number = float(value)
    return number if number == number else None

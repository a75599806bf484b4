"""Where blocks are worked on: threads of this process, or a Dask cluster.

Results come back in the order of the blocks, whoever finished first, and every block is worked on
with one BLAS thread: what is folded from them is the same to the last bit on one worker or many.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from holdfast.algebra.threads import cores, one_blas_thread
from holdfast.errors import HoldfastError

#: blocks in work or waiting to be folded, per worker
AHEAD = 2

#: how often a block that was lost with its worker is given to another
RETRIES = 5

#: what is told of a pass: how many blocks are done, and how many there are
Told = Callable[[int, int], None]


class Engine(Protocol):
    """Something that works on blocks and gives back their results in order."""

    #: in a word, for reports
    name: str

    @property
    def workers(self) -> int:
        """How many blocks are worked on at a time."""
        ...

    def map(self, work: Callable[[Any], Any], blocks: Sequence[Any]) -> Iterator[Any]:
        """The result of every block, in order; few of them are held at a time."""


class LocalThreads:
    """Threads of this process."""

    name = "threads"

    def __init__(self, workers: int | None = None):
        self._workers = workers or cores()

    @property
    def workers(self) -> int:
        """How many threads."""
        return self._workers

    def map(self, work: Callable[[Any], Any], blocks: Sequence[Any]) -> Iterator[Any]:
        with one_blas_thread(), ThreadPoolExecutor(self.workers) as pool:
            yield from _in_order(
                lambda block: pool.submit(work, block),
                lambda future: future.result(),
                lambda future: future.cancel(),
                blocks,
                AHEAD * self.workers,
            )


class DaskCluster:
    """The workers of a Dask scheduler, as futures over blocks.

    Parameters
    ----------
    client : distributed.Client
    """

    name = "dask"

    def __init__(self, client: Any):
        self.client = client

    @property
    def workers(self) -> int:
        """How many threads the workers have now; others may join."""
        return max(1, sum(self.client.nthreads().values()))

    def map(self, work: Callable[[Any], Any], blocks: Sequence[Any]) -> Iterator[Any]:
        client, dask = self.client, _distributed()
        lost = (dask.CancelledError, dask.comm.CommClosedError, TimeoutError, OSError)
        try:
            # the work goes with every block: a copy on a worker would be lost with it
            yield from _in_order(
                lambda block: client.submit(_alone, work, block, pure=False, retries=RETRIES),
                lambda future: future.result(),
                lambda future: future.cancel(),
                blocks,
                AHEAD * self.workers,
            )
        except dask.KilledWorker:
            raise HoldfastError(
                "a block was lost with every worker it was given to: they may have too little "
                "memory. Give them more, or write smaller row groups"
            ) from None
        except lost as failure:
            raise HoldfastError(
                f"the Dask scheduler was lost ({type(failure).__name__}): nothing was "
                "written. Is it still running, and reachable from here?"
            ) from None


def _alone(work: Callable[[Any], Any], block: Any) -> Any:
    """One block on a worker."""
    with one_blas_thread():
        return work(block)


def _in_order(
    start: Callable[[Any], Any],
    result: Callable[[Any], Any],
    stop: Callable[[Any], Any],
    blocks: Sequence[Any],
    ahead: int,
) -> Iterator[Any]:
    """Results in the order of the blocks, so many begun ahead of the one that is waited for."""
    begun: deque[Any] = deque()
    rest = iter(blocks)
    try:
        for block in rest:
            begun.append(start(block))
            if len(begun) >= ahead:
                yield result(begun.popleft())
        while begun:
            yield result(begun.popleft())
    finally:
        for future in begun:
            stop(future)


def engine_of(engine: Any = None, scheduler: str | None = None) -> Engine:
    """The engine meant by a word, a scheduler's address, or a client.

    Parameters
    ----------
    engine : {"threads", "dask"}, address, distributed.Client or Engine
        ``None`` is threads. ``"dask"`` without an address starts workers on this machine.
    scheduler : str, optional
        The address of a scheduler, ``tcp://…`` or ``tls://…``.
    """
    if scheduler is not None or (isinstance(engine, str) and "://" in engine):
        if engine == "threads":
            raise HoldfastError("⟦scheduler⟧ is for ⟦engine⟧ dask, not threads")
        return _dask(str(scheduler or engine))
    if engine in (None, "threads"):
        return LocalThreads()
    if engine == "dask":
        return _dask(None)
    if hasattr(engine, "scheduler_info") and hasattr(engine, "submit"):
        return DaskCluster(engine)
    if hasattr(engine, "map") and hasattr(engine, "workers"):
        found: Engine = engine
        return found
    raise HoldfastError(
        f"engine must be 'threads', 'dask', a scheduler's address or a Client, got {engine!r}"
    )


def _distributed() -> Any:
    """Dask's own module, where it is installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise HoldfastError("the engine 'dask' needs Dask: pip install 'holdfast[dask]'") from None


#: the client of workers on this machine, once there are any
_LOCAL: list[Any] = []


def _dask(address: str | None) -> DaskCluster:
    dask = _distributed()
    if address is None:  # the workers of this machine are started once
        if not _LOCAL or _LOCAL[0].status != "running":
            cluster = dask.LocalCluster(
                n_workers=cores(), threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            )
            _LOCAL[:] = [dask.Client(cluster)]
        return DaskCluster(_LOCAL[0])
    try:
        return DaskCluster(dask.Client(address, timeout=10))
    except (OSError, TimeoutError, ValueError) as failure:
        raise HoldfastError(
            f"no Dask scheduler answers at {address!r} ({type(failure).__name__}): is it running, "
            "and is the address right?"
        ) from None

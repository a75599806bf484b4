"""Where the chunks of a sweep run: here, or on several threads. They return what they found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Protocol, TypeVar

from holdfast.algebra.threads import one_blas_thread

Chunk = TypeVar("Chunk")
Found = TypeVar("Found")


class Executor(Protocol):
    """Something that can work on chunks and give back their results in order."""

    #: how many chunks are worked on at a time
    threads: int

    def map(self, work: Callable[[Chunk], Found], chunks: Sequence[Chunk]) -> list[Found]:
        """The result of every chunk, in order."""


class Threads:
    """Threads of this process; BLAS gets one thread inside each.

    The first use of a compiled loop, ``work.loop``, is in one thread: numba compiles it there.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._compiled: set[Any] = set()

    def map(self, work: Callable[[Chunk], Found], chunks: Sequence[Chunk]) -> list[Found]:
        """The result of every chunk, in order."""
        with one_blas_thread():
            loop = getattr(work, "loop", None)
            if self.threads == 1 or len(chunks) == 1:
                return [work(chunk) for chunk in chunks]
            first = []
            if loop not in self._compiled:
                self._compiled.add(loop)
                first, chunks = [work(chunks[0])], chunks[1:]
            return [*first, *self._pool.map(work, chunks)]

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

"""State of the whole process, changed by nobody alone.

BLAS's number of threads and Python's warning filters belong to the process: two threads that each
change and restore them leave them changed for good. So whoever needs another state holds it
together with everybody else who does: the first to come sets it, the last to go gives back what was
there before.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any


class Held:
    """A context of the process that is entered once, however many hold it.

    Parameters
    ----------
    make : callable
        Makes the context; entering and leaving it must be able to happen in different threads.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]):
        self._make, self._lock = make, threading.Lock()
        self._holders = 0
        self._context: AbstractContextManager[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._context = self._make()
                self._context.__enter__()
            self._holders += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._context is not None:
                self._context.__exit__(None, None, None)
                self._context = None


class _Quiet(warnings.catch_warnings):
    def __enter__(self) -> Any:
        found = super().__enter__()
        warnings.simplefilter("ignore")
        return found


#: refits say nothing: what a solver complains of was heard at the first fit
quiet = Held(_Quiet)

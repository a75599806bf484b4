"""How many threads BLAS may use, decided in one place.

Our matrices are mostly small, and our own loops use the cores already: BLAS threads beside them
fight for the same cores (a default audit took ten times as long). So the verbs run with one BLAS
thread, except where a large kernel matrix is factored. Nobody ever gets more threads than the user
allowed.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from holdfast.shared_state import Held

#: rows from which a kernel matrix is worth more than one BLAS thread
LARGE = 1_500


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; looked for once, which takes longer than a sweep."""
    return ThreadpoolController()


_pinned = Held(lambda: _controller().limit(limits=1, user_api="blas"))


def one_blas_thread(wanted: bool = True) -> AbstractContextManager[Any]:
    """BLAS with one thread while anybody is inside; nothing at all if not ``wanted``."""
    return _pinned if wanted else contextlib.nullcontext()


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


#: many small fits: no library has more than one thread while anybody is inside
one_thread = Held(lambda: ThreadpoolController().limit(limits=1))

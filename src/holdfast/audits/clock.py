"""How long a verb may take, and what it left out because of that."""

from __future__ import annotations

import math
import time

from holdfast.arguments import finite_number
from holdfast.errors import HoldfastError


class Clock:
    """A limit on the whole of a verb; what is not begun in time is named.

    Parameters
    ----------
    limit : float or None
        Seconds; ``None`` for no limit.
    """

    def __init__(self, limit: float | None):
        if limit is not None and finite_number("time_limit", limit) < 0:
            raise HoldfastError(f"time_limit must not be negative, got {limit!r}")
        self.end = math.inf if limit is None else time.monotonic() + float(limit)
        self.missing: list[str] = []

    @property
    def left(self) -> float:
        """Seconds left; infinite without a limit."""
        return max(self.end - time.monotonic(), 0.0)

    def allows(self, stage: str) -> bool:
        """Whether there is time to begin something; if not, it is noted as missing."""
        if self.left > 0:
            return True
        self.missing.append(stage)
        return False

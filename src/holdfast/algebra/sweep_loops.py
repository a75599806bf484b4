"""The inner loops of a sweep over candidates, compiled: a tile of effects in, values out.

A tile holds ``C`` for a few training rows (b, q). Candidates are runs of consecutive rows (one row,
or all rows of a subject); deleting a candidate lowers score ``j`` by the sum of its rows' entries
times their ``steps``. Each function reduces that to a ``value`` per candidate, and some to a
tie-break; what it needs to know of the recourses comes last.

A tile may lag behind the last deletion: then ``lag`` (b, k) and ``gone`` (k, q) say what is still
to be taken off, ``tile −= lag @ gone``, and each row is brought up to date in place just before it
is used, while it is in the cache. One read and one write of ``C`` per sweep is all the memory sees.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from holdfast.algebra.rows import Array

_compiled: Any = nb.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)


@_compiled
def _drops(
    tile: Array, lag: Array, gone: Array, steps: Array, first: int, last: int, out: Array
) -> None:
    """The drop of every functional when rows ``first … last − 1`` of the tile go together."""
    for i in range(first, last):
        for k in range(gone.shape[0]):
            weight = lag[i, k]
            for j in range(out.size):
                tile[i, j] -= weight * gone[k, j]
        step = steps[i]
        if i == first:
            for j in range(out.size):
                out[j] = tile[i, j] * step
        else:
            for j in range(out.size):
                out[j] += tile[i, j] * step


@_compiled
def count_and_hinge(
    tile: Array,
    lag: Array,
    gone: Array,
    steps: Array,
    starts: Any,
    value: Array,
    tie: Array,
    slack: Array,
) -> None:
    """How many scores fall below the target; then, negated, what margin the others keep."""
    drop = np.empty(slack.size)
    for c in range(starts.size - 1):
        first, last = starts[c] - starts[0], starts[c + 1] - starts[0]
        broken = 0.0
        left = 0.0
        if last == first + 1 and gone.shape[0] <= 1:
            # the common case in a single pass
            step = steps[first]
            if gone.shape[0] == 1:
                weight = lag[first, 0]
                for j in range(slack.size):
                    c_ij = tile[first, j] - weight * gone[0, j]
                    tile[first, j] = c_ij
                    margin = slack[j] - c_ij * step
                    broken += 1.0 if margin < 0.0 else 0.0
                    left += margin if margin > 0.0 else 0.0
            else:
                for j in range(slack.size):
                    margin = slack[j] - tile[first, j] * step
                    broken += 1.0 if margin < 0.0 else 0.0
                    left += margin if margin > 0.0 else 0.0
        else:
            _drops(tile, lag, gone, steps, first, last, drop)
            for j in range(slack.size):
                margin = slack[j] - drop[j]
                broken += 1.0 if margin < 0.0 else 0.0
                left += margin if margin > 0.0 else 0.0
        value[c] = broken
        tie[c] = -left


@_compiled
def sigmoid(
    tile: Array,
    lag: Array,
    gone: Array,
    steps: Array,
    starts: Any,
    value: Array,
    tie: Array,
    slack: Array,
    temperature: float,
) -> None:
    """A count with soft edges: the sum of sigmoids of how far each score falls below."""
    drop = np.empty(slack.size)
    for c in range(starts.size - 1):
        first, last = starts[c] - starts[0], starts[c + 1] - starts[0]
        _drops(tile, lag, gone, steps, first, last, drop)
        total = 0.0
        for j in range(slack.size):
            z = (slack[j] - drop[j]) / temperature
            total += 1.0 / (1.0 + np.exp(min(z, 700.0)))
        value[c] = total


@_compiled
def absolute(
    tile: Array,
    lag: Array,
    gone: Array,
    steps: Array,
    starts: Any,
    value: Array,
    tie: Array,
    before: Array,
) -> None:
    """The sum of absolute changes of the scores, the earlier deletions' (``before``) included."""
    drop = np.empty(before.size)
    for c in range(starts.size - 1):
        first, last = starts[c] - starts[0], starts[c + 1] - starts[0]
        _drops(tile, lag, gone, steps, first, last, drop)
        total = 0.0
        for j in range(before.size):
            total += abs(before[j] + drop[j])
        value[c] = total


@_compiled
def action(
    tile: Array,
    lag: Array,
    gone: Array,
    steps: Array,
    starts: Any,
    value: Array,
    tie: Array,
    gaps: Array,
    slopes: Array,
    gaps_then: Array,
    slopes_then: Array,
) -> None:
    """The sum of distances between first-order recourses before and after.

    The tile's columns are the q factual scores, then the (q, d) input gradients, or once (d) where
    all factuals share them. ``gaps`` are target minus score, ``slopes`` the gradients; ``_then``
    marks the values before any deletion.
    """
    q, shared = gaps.size, slopes.shape[0] == 1
    d = slopes.shape[1]
    drop = np.empty(tile.shape[1])
    for c in range(starts.size - 1):
        first, last = starts[c] - starts[0], starts[c + 1] - starts[0]
        _drops(tile, lag, gone, steps, first, last, drop)
        total = 0.0
        for j in range(q):
            row = 0 if shared else j
            gap = gaps[j] + drop[j]
            norm = 0.0
            norm_then = 0.0
            for k in range(d):
                slope = slopes[row, k] - drop[q + row * d + k]
                norm += slope * slope
                norm_then += slopes_then[row, k] * slopes_then[row, k]
            distance = 0.0
            for k in range(d):
                slope = slopes[row, k] - drop[q + row * d + k]
                moved = gap / norm * slope - gaps_then[j] / norm_then * slopes_then[row, k]
                distance += moved * moved
            total += np.sqrt(distance)
        value[c] = total

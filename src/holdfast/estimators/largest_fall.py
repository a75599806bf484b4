"""What a mean of parts can fall by at most when a few of the parts may say anything."""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.arguments import whole_number


def largest_fall(said: Array, k: int, said_range: tuple[float, float], up: bool = True) -> Array:
    """The most by which the mean falls if ``k`` of the parts go to the end of their range, (q,).

    Parameters
    ----------
    said : ndarray of shape (q, parts)
        What every part says.
    k : int
    said_range : (low, high)
    up : bool
        Whether a larger mean is better; if not, the most by which it rises.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.estimators.largest_fall import largest_fall
    >>> largest_fall(np.array([[0.2, 0.9, 0.4, 0.5]]), 2, (0.0, 1.0))
    array([0.35])
    """
    whole_number("k", k)
    low, high = said_range
    above = said - low if up else high - said
    found: Array = -np.sort(-above, axis=1)[:, :k].sum(axis=1) / said.shape[1]
    return found

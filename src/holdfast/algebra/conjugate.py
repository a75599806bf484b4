"""Positive definite systems too large to be written down: conjugate gradients.

Several right-hand sides go together. A direction along which the matrix is not positive is met by
the way, and is an error by name. There is no preconditioner: a randomised sketch of the matrix
(Nyström) was tried, costs more than it saves where the penalty is not tiny, and made such systems
slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array

#: (p, k) → (p, k)
Products = Callable[[Array], Array]

#: how small a residual is to become beside the right-hand side
TOLERANCE = 1e-5
#: iterations at most
MOST = 2000


class NotPositiveError(ArithmeticError):
    """The matrix bends downwards along a direction that was met."""

    def __init__(self, curvature: float):
        super().__init__(f"a direction of curvature {curvature:.2e}")
        self.curvature = curvature


def solved(
    products: Products, right: Array, tolerance: float = TOLERANCE, most: int = MOST
) -> tuple[Array, float]:
    """Solutions (p, k) for several right-hand sides, and the largest relative residual left.

    Raises
    ------
    NotPositiveError
        Where the matrix turns out not to be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.algebra.conjugate import solved
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> found, left = solved(lambda vectors: A @ vectors, np.ones((3, 1)))
    >>> found[:, 0].round(4)
    array([1.  , 0.5 , 0.25])
    """
    found, residuals, steps = np.zeros_like(right), right.copy(), right.copy()
    sizes = np.linalg.norm(right, axis=0)
    lengths = _dots(right, right)
    open_ = np.flatnonzero(sizes > 0)
    for _ in range(most):
        if open_.size == 0:
            break
        ahead = products(steps[:, open_])
        bent = _dots(steps[:, open_], ahead)
        if np.any(bent <= 0):
            scale = _dots(steps[:, open_], steps[:, open_])
            raise NotPositiveError(float((bent / scale).min()))
        pace = lengths[open_] / bent
        found[:, open_] += pace * steps[:, open_]
        residuals[:, open_] -= pace * ahead
        now = _dots(residuals[:, open_], residuals[:, open_])
        steps[:, open_] = residuals[:, open_] + (now / lengths[open_]) * steps[:, open_]
        lengths[open_] = now
        open_ = open_[np.sqrt(lengths[open_]) > tolerance * sizes[open_]]
    left = np.sqrt(lengths) / np.where(sizes > 0, sizes, 1.0)
    return found, float(left.max(initial=0.0))


def _dots(left: Array, right: Array) -> Any:
    return np.einsum("ij,ij->j", left, right)

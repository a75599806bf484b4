"""Dual weights of a kernel model, and scores made of them."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from holdfast.algebra import kernel_functions
from holdfast.algebra.dual import RepeatedInverse, Repeats, cholesky_in_place
from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number
from holdfast.errors import HoldfastError
from holdfast.tables import available_memory

#: matrices of all pairs of rows that a fit and its deletions hold at a time
MATRICES = 2

#: queries scored at a time, so that K(X̌, X) never holds more than these rows
_QUERIES = 1024


def expansion(kernel: kernel_functions.Kernel, Q: Array, X: Array, alpha: Array) -> Array:
    """``K(Q, X) α`` in blocks of queries."""
    scores = [
        kernel(Q[start : start + _QUERIES], X) @ alpha for start in range(0, len(Q), _QUERIES)
    ]
    return np.concatenate(scores) if scores else np.zeros(0)


def refuse_if_memory_is_short(n: int) -> None:
    """Refuse a matrix of all pairs of rows that does not fit, with the arithmetic."""
    needed, free = MATRICES * 8 * n**2, available_memory()
    if free is not None and needed > free:
        raise HoldfastError(
            f"a kernel model of {n:,} rows needs {needed / 1e9:,.0f} GB ({MATRICES} matrices of "
            f"{n:,} × {n:,} numbers), and {free / 1e9:,.0f} GB are free. For more rows there is "
            "'nystroem-ntk', a linear model in kernel features, and NystroemNTK before a Ridge"
        )


def dual_fit(
    kernel: kernel_functions.Kernel,
    X: Array,
    y: Array,
    weights: Array | None,
    beta: float,
    bias: bool,
) -> tuple[Array, float]:
    """Dual weights and bias of the weighted problem, by one Cholesky factorisation in place."""
    positive_number("beta", beta)
    repeats = Repeats.worth_using(X, weights)
    if repeats is not None:
        matrix = repeats.matrix(kernel.gram(repeats.points), beta)
        inverse = RepeatedInverse(matrix, repeats, beta, ones=np.ones(len(X)) if bias else None)
        return inverse.solve(y), float(inverse.bias_weights @ y)
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    refuse_if_memory_is_short(len(X))
    matrix = kernel.gram(X)
    if weights is not None:
        matrix *= root[:, None]
        matrix *= root
    matrix[np.diag_indices_from(matrix)] += beta
    factor = cholesky_in_place(matrix)
    right = np.column_stack([root * y, root]) if bias else (root * y)[:, None]
    half = linalg.solve_triangular(factor, right, lower=True, check_finite=False)
    both = linalg.solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
    b = float((root @ both[:, 0]) / (root @ both[:, 1])) if bias else 0.0
    return root * (both[:, 0] - b * both[:, -1]), b

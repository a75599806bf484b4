"""The inverse of a kernel matrix, as one triangular factor in the memory of the matrix itself."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from holdfast.errors import HoldfastError
from holdfast.models.rows import Array, Positions

#: the largest matrix handed to LAPACK's Cholesky whole
_BLOCK = 8192


def cholesky_in_place(matrix: Array) -> Array:
    """``L`` with ``L Lᵀ`` the given C-ordered matrix, in its memory, zeros above the diagonal.

    A matrix of more than :data:`_BLOCK` rows is worked off in block columns, because the
    multi-threaded Cholesky of the OpenBLAS inside numpy and scipy crashes the process from about
    16,000 rows on.
    """
    n = len(matrix)
    width = -(-n // -(-n // _BLOCK))  # equal blocks
    for start in range(0, n, width):
        stop = min(start + width, n)
        corner, below = matrix[start:stop, start:stop], matrix[stop:, start:stop]
        for part in (corner, below):
            if start and len(part):
                first = start if part is corner else stop
                part -= matrix[first : first + len(part), :start] @ matrix[start:stop, :start].T
        # what lies in memory row by row is, to LAPACK, the transpose: L is its upper triangle
        upper, info = linalg.lapack.dpotrf(corner.T, lower=0, overwrite_a=1, clean=1)
        if info != 0:
            raise _not_positive_definite()
        corner[:] = upper.T
        if len(below):
            below[:] = linalg.blas.dtrsm(1.0, upper, below.T, trans_a=1).T
        matrix[start:stop, stop:] = 0.0
    return matrix


def _not_positive_definite() -> HoldfastError:
    return HoldfastError(
        "the kernel matrix plus its ridge is not positive definite to working precision: use a "
        "larger ridge (beta, or alpha of KernelRidge)"
    )


class DualInverse:
    r"""``P = G − o oᵀ/t`` with ``G = (K + βI)⁻¹``; without a bias, ``P = G``.

    Made in place from the kernel matrix: Cholesky ``L Lᵀ``, then ``M = L⁻¹`` in the same
    memory. ``G = Mᵀ M`` is never formed: its diagonal is the squared column norms of ``M``.
    With a bias, ``o = G 1`` and ``t = 1ᵀ o`` (the bordered system of the LS-SVM).

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        ``K + βI``, symmetric; it is overwritten.
    ones : ndarray of shape (n,), optional
        The column that borders the system (the square roots of the sample weights, or ones);
        ``None`` without a bias.
    """

    def __init__(self, matrix: Array, ones: Array | None = None):
        upper, info = linalg.lapack.dtrtri(cholesky_in_place(matrix).T, lower=0, overwrite_c=1)
        if info != 0:
            raise _not_positive_definite()
        self.factor: Array = upper.T
        self.formed: Array | None = None
        n = len(matrix)
        self.border = np.zeros(n)
        self.bias_weights = np.zeros(n)
        self.total = 0.0
        if ones is not None:
            o = self.factor.T @ (self.factor @ ones)
            self.total = float(ones @ o)
            self.border = o / np.sqrt(self.total)
            self.bias_weights = o / self.total

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of ``P``."""
        squares: Array = np.einsum("ij,ij->j", self.factor, self.factor) - self.border**2
        return squares

    def form(self) -> None:
        """Work out all of ``G``, so that its columns cost nothing: for searches, which ask often.

        Costs as much again as the Cholesky factorisation, and a second n×n matrix. Not done above
        :data:`_BLOCK` rows, where a column keeps costing one pass over the factor.
        """
        n = len(self.factor)
        if self.formed is None and n <= _BLOCK:
            upper, _ = linalg.lapack.dlauum(self.factor.T, lower=0)
            formed: Array = upper.T
            for start in range(0, n, 256):  # mirrored in place
                stop = min(start + 256, n)
                corner = np.tril(formed[start:stop, start:stop])
                formed[start:stop, start:stop] = corner + np.tril(corner, -1).T
                formed[start:stop, stop:] = formed[stop:, start:stop].T
            self.formed = formed

    def columns(self, rows: Positions) -> Array:
        """``P[:, rows]``."""
        g: Array = (
            self.factor.T @ self.factor[:, rows] if self.formed is None else self.formed[rows].T
        )
        return g - np.outer(self.border, self.border[rows])

    def block(self, rows: Positions) -> Array:
        """``P[rows, rows]``."""
        m = self.factor[:, rows]
        return m.T @ m - np.outer(self.border[rows], self.border[rows])

    def times(self, left: Array) -> Array:
        """``left P`` for a (m, n) matrix: two triangular products."""
        # the factor's transpose is what lies in memory column by column, as BLAS wants it
        product = linalg.blas.dtrmm(1.0, self.factor.T, left.T, trans_a=1)
        product = linalg.blas.dtrmm(1.0, self.factor.T, product, overwrite_b=1)
        result: Array = product.T
        if self.border.any():
            result -= np.outer(left @ self.border, self.border)
        return result

    def solve(self, right: Array) -> Array:
        """``P right`` for a vector (n,)."""
        solution: Array = self.factor.T @ (self.factor @ right)
        return solution - self.border * (self.border @ right)

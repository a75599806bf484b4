"""The inverse of a kernel matrix, as one triangular factor in the memory of the matrix itself."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError

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
        self._set_border(len(matrix), ones)

    def _set_border(self, n: int, ones: Array | None) -> None:
        self.border = np.zeros(n)
        self.bias_weights = np.zeros(n)
        self.total = 0.0
        if ones is not None:
            o = self._solve(ones)
            self.total = float(ones @ o)
            self.border = o / np.sqrt(self.total)
            self.bias_weights = o / self.total

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of ``P``."""
        return self._diagonal() - self.border**2

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
        return self._columns(rows) - np.outer(self.border, self.border[rows])

    def block(self, rows: Positions) -> Array:
        """``P[rows, rows]``."""
        return self._block(rows) - np.outer(self.border[rows], self.border[rows])

    def times(self, left: Array) -> Array:
        """``left P`` for a (m, n) matrix."""
        result = self._times(left)
        if self.border.any():
            result -= np.outer(left @ self.border, self.border)
        return result

    def solve(self, right: Array) -> Array:
        """``P right`` for a vector (n,)."""
        return self._solve(right) - self.border * (self.border @ right)

    # the same of G, which has no border -----------------------------------------------------

    def _diagonal(self) -> Array:
        squares: Array = np.einsum("ij,ij->j", self.factor, self.factor)
        return squares

    def _columns(self, rows: Positions) -> Array:
        if self.formed is None:
            return self.factor.T @ self.factor[:, rows]
        return self.formed[rows].T

    def _block(self, rows: Positions) -> Array:
        if self.formed is not None:
            return self.formed[np.ix_(rows, rows)]
        m = self.factor[:, rows]
        return m.T @ m

    def _times(self, left: Array) -> Array:
        # the factor's transpose is what lies in memory column by column, as BLAS wants it
        product = linalg.blas.dtrmm(1.0, self.factor.T, left.T, trans_a=1)
        product = linalg.blas.dtrmm(1.0, self.factor.T, product, overwrite_b=1)
        result: Array = product.T
        return result

    def _solve(self, right: Array) -> Array:
        solution: Array = self.factor.T @ (self.factor @ right)
        return solution


class Repeats:
    """Rows that occur more than once: the distinct ones, and which of them each row is.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    """

    def __init__(self, X: Array):
        self.points, of, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
        self.of = of.ravel()  # numpy 2.0 gives it two dimensions
        self.root = np.sqrt(counts)

    @classmethod
    def worth_using(cls, X: Array, weights: Array | None) -> Repeats | None:
        """The repeats where they make the matrix a good deal smaller, and weights do not matter."""
        if weights is not None and not np.all(weights == 1.0):
            return None
        found = cls(X)
        return found if len(found.points) <= min(0.8 * len(X), _BLOCK) else None

    def gathered(self, values: Array) -> Array:
        """Summed over equal rows: (n, ...) becomes (m, ...)."""
        n, m = len(self.of), len(self.points)
        which = sparse.csr_array((np.ones(n), (self.of, np.arange(n))), shape=(m, n))
        summed: Array = which @ values
        return summed

    def matrix(self, gram: Array, beta: float) -> Array:
        """``A = N^½ K_D N^½ + βI`` from the kernel matrix of the distinct rows, in its memory."""
        gram *= self.root[:, None]
        gram *= self.root
        if beta < 1e-13 * gram.diagonal().max():  # all digits would cancel
            raise _not_positive_definite()
        gram[np.diag_indices_from(gram)] += beta
        return gram


class RepeatedInverse(DualInverse):
    r"""The same where rows repeat, from a matrix of the distinct rows only.

    With ``E`` the 0/1 matrix of which row is which distinct one, ``N = EᵀE`` the counts and
    ``K = E K_D Eᵀ``, the Woodbury identity gives

    .. math:: G = (I − E S Eᵀ)/β, \quad S = N^{-½}(I − β A^{-1})N^{-½}, \quad
              A = N^{½} K_D N^{½} + βI.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        ``A``; it is overwritten.
    """

    def __init__(self, matrix: Array, repeats: Repeats, beta: float, ones: Array | None = None):
        distinct = DualInverse(matrix)
        distinct.form()
        assert distinct.formed is not None
        S = distinct.formed
        S *= -beta
        S[np.diag_indices_from(S)] += 1.0
        S /= repeats.root[:, None]
        S /= repeats.root
        self._shared, self._repeats, self._beta = S, repeats, beta
        self._set_border(len(repeats.of), ones)

    def form(self) -> None:
        """Columns cost nothing already."""

    def _diagonal(self) -> Array:
        of = self._repeats.of
        return (1.0 - self._shared[of, of]) / self._beta

    def _columns(self, rows: Positions) -> Array:
        of = self._repeats.of
        columns = -self._shared[:, of[rows]][of]
        columns[rows, np.arange(len(rows))] += 1.0
        columns /= self._beta
        return columns

    def _block(self, rows: Positions) -> Array:
        of = self._repeats.of[rows]
        return (np.eye(len(rows)) - self._shared[np.ix_(of, of)]) / self._beta

    def _times(self, left: Array) -> Array:
        shared = self._repeats.gathered(left.T).T @ self._shared
        result: Array = shared[:, self._repeats.of]
        np.subtract(left, result, out=result)
        result /= self._beta
        return result

    def _solve(self, right: Array) -> Array:
        shared = self._shared @ self._repeats.gathered(right)
        return (right - shared[self._repeats.of]) / self._beta

r"""Kernels and their derivatives in the query.

The derivative of every kernel here but one has the form
:math:`∂K(x, x_i)/∂x = a_i x_i + b_i x` with scalars :math:`a_i, b_i`, so that gradients of
kernel expansions are matrix products. The Laplacian kernel is the exception: it acts per feature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import blas

from holdfast.algebra.rows import Array

#: rows of a kernel block worked on at a time: small enough to stay in the cache
_BLOCK = 256


@dataclass(frozen=True)
class Kernel:
    """A kernel made from inner products or distances, worked out block by block.

    Parameters
    ----------
    values : callable
        ``(A, B, A Bᵀ) → K(A, B)``; may overwrite the inner products.
    slopes : callable or None
        ``(A, B) → (a, b)`` with ``∂K(x, x_i)/∂x = a x_i + b x``; ``None``: the Laplacian's rule.
    parameter : float
        The width of the Laplacian kernel; unused elsewhere.
    """

    values: Callable[[Array, Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]] | None
    parameter: float = 0.0

    def __call__(self, A: Array, B: Array) -> Array:
        """``K(A, B)`` of shape (len(A), len(B))."""
        out: Array = A @ B.T
        for start in range(0, len(A), _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] = self.values(A[rows], B, out[rows])
        return out

    def gram(self, X: Array) -> Array:
        """``K(X, X)``, only its lower triangle worked out, then mirrored."""
        n = len(X)
        out: Array = np.zeros((n, n))
        blas.dsyrk(1.0, X.T, trans=1, lower=0, c=out.T, overwrite_c=1)
        for start in range(0, n, _BLOCK):
            stop = min(start + _BLOCK, n)
            rows = slice(start, stop)
            out[rows, :stop] = self.values(X[rows], X[:stop], out[rows, :stop])
            corner = out[rows, rows]
            out[rows, rows] = np.tril(corner) + np.tril(corner, -1).T
            out[:start, rows] = out[rows, :start].T
        return out

    def gradient(self, Q: Array, X: Array, alpha: Array) -> Array:
        """``Σ_i α_i ∂K(x, x_i)/∂x`` for every query, (q, d)."""
        out: Array = np.empty(Q.shape)
        for start in range(0, len(Q), _BLOCK):
            rows = slice(start, start + _BLOCK)
            if self.slopes is None:
                weights = self(Q[rows], X) * alpha
                for k in range(Q.shape[1]):
                    signs = np.sign(Q[rows, k, None] - X[:, k])
                    out[rows, k] = -self.parameter * np.einsum("qi,qi->q", weights, signs)
            else:
                a, b = self.slopes(Q[rows], X)
                out[rows] = (a * alpha) @ X + (b @ alpha)[:, None] * Q[rows]
        return out

    def jacobian(self, Q: Array, X: Array) -> Array:
        """``∂K(x, x_i)/∂x`` of shape (q, d, n)."""
        if self.slopes is None:
            signs = np.sign(Q[:, :, None] - X.T)
            return -self.parameter * self(Q, X)[:, None, :] * signs
        a, b = self.slopes(Q, X)
        return a[:, None, :] * X.T + b[:, None, :] * Q[:, :, None]


def _linear_values(A: Array, B: Array, inner: Array) -> Array:
    return inner


def _linear_slopes(A: Array, B: Array) -> tuple[Array, Array]:
    shape = (len(A), len(B))
    return np.ones(shape), np.zeros(shape)


linear = Kernel(_linear_values, _linear_slopes)


def gaussian(gamma: float) -> Kernel:
    r""":math:`K = \exp(−γ ‖x − x'‖²)`, scikit-learn's convention."""
    return Kernel(partial(_gaussian_values, gamma), partial(_gaussian_slopes, gamma))


def _gaussian_values(gamma: float, A: Array, B: Array, inner: Array) -> Array:
    inner *= -2.0
    inner += np.einsum("ij,ij->i", A, A)[:, None]
    inner += np.einsum("ij,ij->i", B, B)
    np.maximum(inner, 0.0, out=inner)
    inner *= -gamma
    return np.exp(inner, out=inner)


def _gaussian_slopes(gamma: float, A: Array, B: Array) -> tuple[Array, Array]:
    k = 2.0 * gamma * _gaussian_values(gamma, A, B, A @ B.T)
    return k, -k


def polynomial(gamma: float, degree: float, coef0: float) -> Kernel:
    r""":math:`K = (γ x·x' + c)^{degree}`."""
    return Kernel(
        partial(_polynomial_values, gamma, degree, coef0),
        partial(_polynomial_slopes, gamma, degree, coef0),
    )


def _polynomial_values(
    gamma: float, degree: float, coef0: float, A: Array, B: Array, inner: Array
) -> Array:
    return (gamma * inner + coef0) ** degree


def _polynomial_slopes(
    gamma: float, degree: float, coef0: float, A: Array, B: Array
) -> tuple[Array, Array]:
    a = degree * gamma * (gamma * (A @ B.T) + coef0) ** (degree - 1)
    return a, np.zeros_like(a)


def laplacian(gamma: float) -> Kernel:
    r""":math:`K = \exp(−γ ‖x − x'‖_1)`; its derivative at a kink is taken as 0."""
    return Kernel(partial(_laplacian_values, gamma), None, gamma)


def _laplacian_values(gamma: float, A: Array, B: Array, inner: Array) -> Array:
    inner[:] = 0.0
    for k in range(A.shape[1]):
        inner += np.abs(A[:, k, None] - B[:, k])
    inner *= -gamma
    return np.exp(inner, out=inner)


def _angles(A: Array, B: Array, inner: Array) -> tuple[Array, Array, Array]:
    """Cosines clipped to [−1, 1] and angles between rows, and the norms of B's rows.

    Rows parallel up to rounding get the angle 0 exactly: the arc cosine would turn a rounding
    error of 1e-16 into an angle of 1e-8.
    """
    norms_a, norms_b = np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1)
    scale_a = np.divide(1.0, norms_a, out=np.zeros_like(norms_a), where=norms_a > 0)
    scale_b = np.divide(1.0, norms_b, out=np.zeros_like(norms_b), where=norms_b > 0)
    cosine = inner * scale_a[:, None]
    cosine *= scale_b
    snap = 8 * max(A.shape[1], 1) * np.finfo(float).eps
    cosine[cosine > 1.0 - snap] = 1.0
    cosine[cosine < snap - 1.0] = -1.0
    return cosine, np.arccos(cosine), norms_b


def _ntk_values(A: Array, B: Array, inner: Array) -> Array:
    _, theta, _ = _angles(A, B, inner)
    np.subtract(np.pi, theta, out=theta)
    theta *= inner
    theta *= 1.0 / (2.0 * np.pi)
    return theta


def _ntk_slopes(A: Array, B: Array) -> tuple[Array, Array]:
    cosine, theta, norms_b = _angles(A, B, A @ B.T)
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    # where a query is parallel to a row the kernel has a kink: its singular part counts as 0
    singular = np.divide(cosine, sine, out=np.zeros_like(sine), where=np.abs(cosine) < 1.0)
    singular /= 2.0 * np.pi
    a = (np.pi - theta) / (2.0 * np.pi) + singular
    norms_a = np.linalg.norm(A, axis=1)
    inverse = np.divide(1.0, norms_a, out=np.zeros_like(norms_a), where=norms_a > 0)
    return a, -singular * cosine * norms_b * inverse[:, None]


#: The neural tangent kernel of the two-layer ReLU network (Sec. 4 and App. A.5 of the paper),
#: ``K = x·x' (π − arccos(x·x'/(‖x‖‖x'‖))) / 2π``; a zero row has kernel 0.
ntk = Kernel(_ntk_values, _ntk_slopes)


def of_kernel_ridge(estimator: Any, d: int) -> Kernel | None:
    """The kernel of a scikit-learn ``KernelRidge``, or ``None`` if it is not one of ours."""
    gamma = 1.0 / d if estimator.gamma is None else float(estimator.gamma)
    known = {
        "rbf": lambda: gaussian(gamma),
        "laplacian": lambda: laplacian(gamma),
        "poly": lambda: polynomial(gamma, estimator.degree, estimator.coef0),
        "polynomial": lambda: polynomial(gamma, estimator.degree, estimator.coef0),
    }
    made = known.get(estimator.kernel) if isinstance(estimator.kernel, str) else None
    return None if made is None else made()

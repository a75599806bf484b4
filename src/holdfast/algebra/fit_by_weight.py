"""A fit as a function of row weights, in closed form: what a relaxed search descends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from holdfast.algebra.rows import Array

#: the drop of every functional → the derivative of a loss in every functional
Slopes = Callable[[Array], Array]


class FitByWeight(Protocol):
    """A fit as a function of row weights: what a relaxed search descends on."""

    def gradient(self, slopes: Slopes, omega: Array, lean: Array | float = 0.0) -> Array:
        """``Σ_j ∂loss/∂f_j · ∂f_j/∂ω`` (rows,) at weights ``ω``; ``slopes`` takes drops of f."""


@dataclass(frozen=True)
class LowRankFit:
    """The fit as a function of all row weights, in the whitened coordinates of a low-rank model."""

    queries: Array
    factor: Array
    residuals: Array
    coupled: bool

    def gradient(self, slopes: Slopes, omega: Array, lean: Array | float = 0.0) -> Array:
        """``Σ_j ∂loss/∂f_j · ∂f_j/∂ω`` (n,) at row weights ``ω``, in closed form."""
        W, U, r = self.queries, self.factor, self.residuals
        gone = 1.0 - omega
        if not self.coupled:
            return r * (U @ (slopes(W @ (U.T @ (gone * r)) + lean) @ W))
        away = U[gone > 0] * np.sqrt(gone[gone > 0])[:, None]
        curvature = np.eye(U.shape[1]) - away.T @ away  # numpy makes half of it and mirrors
        factor = linalg.cho_factor(curvature + 1e-12 * np.eye(len(curvature)))
        shift = linalg.cho_solve(factor, U.T @ (gone * r))
        back = linalg.cho_solve(factor, slopes(W @ shift + lean) @ W)
        return (r + U @ shift) * (U @ back)


@dataclass(frozen=True)
class DualFit:
    """The fit as a function of some rows' weights, all others staying 1, for a kernel model."""

    columns: Array
    block: Array
    residuals: Array
    beta: float

    def gradient(self, slopes: Slopes, omega: Array, lean: Array | float = 0.0) -> Array:
        """As for :class:`LowRankFit`, for the rows in question."""
        gone = 1.0 - omega
        root = np.sqrt(gone)
        inner = root[:, None] * self.block * root
        inner[np.diag_indices_from(inner)] += (1.0 - gone) / self.beta
        factor = linalg.cho_factor(inner)

        def solved(right: Array) -> Array:
            return root * linalg.cho_solve(factor, root * right)

        dual = solved(self.residuals)
        back_from = slopes(self.columns @ dual + lean) @ self.columns
        back = solved(back_from)
        # N/g, from (G + D) N = 1 where g is small: there is no division by it
        small = gone < 0.5
        scale = np.where(small, self.beta / np.where(small, 1.0 - gone, 1.0), 0.0)
        inverse = np.where(small, 0.0, 1.0 / np.where(small, 1.0, gone))
        dual_over = scale * (self.residuals - self.block @ dual) + inverse * dual
        back_over = scale * (back_from - self.block @ back) + inverse * back
        return dual_over * back_over / self.beta

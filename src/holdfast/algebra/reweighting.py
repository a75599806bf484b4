"""The fit as a function of real-valued row weights: what a relaxed search differentiates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.algebra.rows import Array


@dataclass(frozen=True)
class Reweighted:
    """``w(ω)``: the model fitted with row weights ``ω``, and its derivatives in ``ω``.

    Attributes
    ----------
    scores : callable
        Queries (q, d) → scores (q,).
    pullback : callable
        Queries (q, d) and v (q,) → ``Σ_j v_j ∂f_j/∂ω`` (n,), without the (q, n) matrix.
    derivatives : callable
        Queries (q, d) → ``∂f/∂ω`` (q, n).
    exact : bool
        Whether these are the scores of the reweighted fit, or of the jackknife's guess at it.
    """

    scores: Callable[[Array], Array]
    pullback: Callable[[Array, Array], Array]
    derivatives: Callable[[Array], Array]
    exact: bool = True

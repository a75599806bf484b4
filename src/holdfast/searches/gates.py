r"""The paper's gradient search (Algorithm 2): stochastic gates on the row weights.

Every row has a gate :math:`ω_i = \mathrm{clip}(μ_i + ε_i, 0, 1)` with Gaussian noise; the locations
``μ`` start at 1 and descend on

.. math:: \frac{1}{Kq} Σ_{k,j} \mathrm{sigmoid}\Big(\frac{f_{ω_k}(x̌_j) − s}{τ}\Big)
          + η Σ_i Φ\Big(\frac{1 − μ_i}{σ}\Big),

the share of recourses still valid, softly, plus the expected number of rows not fully kept. (The
paper's listing *adds* the gradient of the first term, which would protect the recourses, and adds
its regulariser with the same sign; both are corrected here.) At the end the rows with the smallest
``μ`` are deleted; of those whose gate closed, the first to close goes first.

The gradient is analytic. In the whitened coordinates of :class:`LowRankDeletions`

.. math:: f_1 − f_ω = W M^{-1} Uᵀ(1 − ω)r, \quad M = I − Uᵀ\mathrm{diag}(1 − ω)U, \quad
          \frac{∂f_ω}{∂ω_i} = (W M^{-1} u_i)\, r_i(ω), \quad r(ω) = r + U M^{-1} Uᵀ(1 − ω) r

(``M = I`` for the jackknife). A kernel model would need a factorisation of its whole matrix in
every step; there only the most influential candidates get gates, and for their rows ``S``, with
``g = 1 − ω``, the same is exact and small:

.. math:: f_1 − f_ω = C_S N α_S, \quad N = [G_{SS} + \mathrm{diag}((1 − g)/(g β))]^{-1}.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number
from holdfast.errors import HoldfastError
from holdfast.searches.attack import ActionAttack, ByAlgebra
from holdfast.searches.greedy import in_turn, median_margin


def gates(
    attack: ByAlgebra,
    budget: int,
    rng: Any,
    steps: int = 1000,
    samples: int = 1,
    sigma: float = 0.1,
    temperature: float = 0.25,
    l0_weight: float = 0.5,
    learning_rate: float = 0.05,
    candidates: int = 500,
) -> list[list[int]]:
    """Nested sets: at budget ``k`` the ``k`` units with the smallest gate location.

    Parameters
    ----------
    steps : int
        Descent steps.
    samples : int
        ``K``, noise draws averaged in every step.
    sigma : float
        ``σ``, standard deviation of the gates' noise.
    temperature : float
        ``τ`` in units of the median margin.
    l0_weight : float
        ``η``, such that 1 makes the regulariser at ``μ = 1`` as strong as the pull on the row that
        ranks ``budget``-th at the start. Too weak, and gates beyond the first few become noisy.
    learning_rate : float
        How far the row with the strongest pull moves in the first step.
    candidates : int
        For kernel models, how many units get a gate: those that are worst alone.
    """
    settings = {
        "steps": steps,
        "samples": samples,
        "sigma": sigma,
        "temperature": temperature,
        "learning_rate": learning_rate,
        "candidates": candidates,
    }
    for name, setting in settings.items():
        positive_number(name, setting)
    loss: _OutcomeLoss | _ActionLoss
    if attack.objective == "action":
        loss = _ActionLoss(cast(ActionAttack, attack))
    else:
        loss = _OutcomeLoss(attack, temperature * median_margin(attack.margins))
    units = attack.units
    # sums of distances have a kink where nothing has changed: lean to the worst single deletion
    lean: Array | float = 0.0
    if attack.objective != "outcome":
        lean = 0.1 * loss.deletions.effect_at(units.rows([attack.singles().best])).ravel()
    gated = np.arange(len(units))
    if loss.deletions.most_weighted is not None:
        soft = median_margin(attack.margins) if attack.objective == "outcome" else None
        gated = attack.singles(soft).ranked(int(candidates))
    fit = loss.deletions.fit_by_weight(units.rows(gated.tolist()))
    owner = np.repeat(np.arange(gated.size), units.sizes[gated])
    mu = np.ones(gated.size)

    def pull(omega: Array) -> Array:
        """Derivative of the loss in every gated unit's weight."""
        rows = fit.gradient(loss.slopes, omega[owner], lean)
        by_unit: Array = np.bincount(owner, weights=rows, minlength=gated.size).astype(np.float64)
        return by_unit

    start = pull(np.ones(gated.size))
    strongest = np.sort(np.maximum(start, 0.0))[::-1]
    if strongest[0] == 0.0:
        raise HoldfastError("gates found nothing to pull on: no deletion lowers any score")
    rate = learning_rate / strongest[0]
    eta = l0_weight * strongest[min(budget, gated.size) - 1] * sigma / norm.pdf(0.0)
    closed_at = np.full(mu.size, np.inf)
    for step in range(int(steps)):
        gradient = -eta * norm.pdf((1.0 - mu) / sigma) / sigma
        for _ in range(int(samples)):
            noisy = mu + sigma * rng.standard_normal(mu.size)
            inside = (noisy > 0.0) & (noisy < 1.0)
            gradient += pull(np.clip(noisy, 0.0, 1.0)) * inside / samples
        mu -= rate * gradient
        np.clip(mu, -3.0 * sigma, 1.0 + 3.0 * sigma, out=mu)
        closed_at[(mu <= 0.0) & np.isinf(closed_at)] = step
    mu[~attack.singles().possible[gated]] = np.inf
    # gates that closed tie at the bottom: the ones that closed first were pulled most
    order = np.lexsort((closed_at, np.maximum(mu, 0.0)))
    return in_turn(attack, gated[order], budget)


class _OutcomeLoss:
    """Mean sigmoid of the scores' distance to the target; for ``delta``, minus the mean change."""

    def __init__(self, attack: ByAlgebra, temperature: float):
        self.deletions = attack.outcome
        self.margins, self.temperature = attack.margins, temperature
        self.delta = attack.objective == "delta"

    def slopes(self, drop: Array) -> Array:
        """Derivative of the loss in every score."""
        if self.delta:
            return np.where(drop >= 0, 1.0, -1.0) / drop.size
        p = expit((self.margins - drop) / self.temperature)
        return p * (1.0 - p) / (self.temperature * drop.size)


class _ActionLoss:
    """Minus the mean distance between first-order recourses before and after."""

    def __init__(self, attack: ActionAttack):
        self.deletions = attack.sweeps.deletions
        self.gaps, self.start = attack.gaps, attack.slopes
        self.q, self.shared = self.gaps.size, len(self.start) == 1

    def slopes(self, drop: Array) -> Array:
        """Derivative of the loss in every functional: the q scores, then the gradients."""
        q, shape = self.q, self.start.shape
        gaps, slopes = self.gaps + drop[:q], self.start - drop[q:].reshape(shape)
        norms = np.sum(slopes**2, axis=1)
        then = (self.gaps / np.sum(self.start**2, axis=1))[:, None] * self.start
        moved = (gaps / norms)[:, None] * slopes - then
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        unit = np.divide(moved, length, out=np.zeros_like(moved), where=length > 0)
        along = np.sum(unit * slopes, axis=1)
        by_score = along / norms
        by_slope = (gaps / norms)[:, None] * unit - (2.0 * gaps * along / norms**2)[
            :, None
        ] * slopes
        if self.shared:
            by_slope = by_slope.sum(axis=0, keepdims=True)
        # a higher score means a smaller gap; the loss is minus the distance
        return np.concatenate([by_score, -by_slope.ravel()]) / q

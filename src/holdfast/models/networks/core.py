r"""Any differentiable network: the infinitesimal jackknife at a polished optimum.

For a network ``f_θ`` (:mod:`holdfast.models.networks.contract`) fitted by minimising
:math:`Σ ω_i ℓ(y_i, f_θ(x_i)) + \frac12 Σ λ θ²`, deleting ``S`` moves the parameters to first order
by :math:`H^{-1} Σ_S ω_i ∇ℓ_i`, so with the per-row gradients ``g``

.. math:: C = −∇_θ f(X̌)\, H^{-1} gᵀ, \quad P = I, \quad r = 1.

The Hessian is exact (not Gauss–Newton) and includes the regulariser. It means something only at
a stationary point, so the fitted network is polished first
(:mod:`holdfast.models.networks.optimum`); where the Hessian there is not positive definite,
deletions are refused. What a set of rows does is read off the network at the moved parameters, not
off its linear part.

Up to :data:`~holdfast.models.networks.optimum.FULL` parameters the Hessian is written down, and
the triple is all of the above. Beyond, the effect of a given set is the same by conjugate
gradients, and candidates are compared by the last layer's features alone
(:mod:`holdfast.models.networks.last_layer`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import UnsupportedModelError
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.drift import drift_between, judge
from holdfast.models.networks.contract import Network
from holdfast.models.networks.curvature import STATIONARY, ByProducts, Curvature, Whitened
from holdfast.models.networks.last_layer import LastLayer
from holdfast.models.networks.optimum import FULL, polished
from holdfast.models.networks.problem import TrainingProblem

#: how predicted deletions are called: with the Hessian written down, and by products with it
WRITTEN, BY_PRODUCTS = "jackknife", "jackknife by conjugate gradients"
#: why nothing is proven of a network
UNCERTIFIED = (
    "networks have no bound: nothing limits how far a refit moves. Certificates for a network come "
    "through shards (hf.ShardedClassifier, hf.ShardedRegressor around it), where a row can change "
    "one of many"
)


class NetworkCore(Core):
    """A differentiable network and its loss, as a model that can forget.

    Parameters
    ----------
    network : Network
    loss : Loss
    labels : ndarray of shape (n,)
        As the loss takes them.
    data : Training
    remade : callable
        Parameters → a copy of the estimator with them.
    draws : bool
        Whether a training can be started anew with another seed.
    noise : float
        How many times as far from the optimum as others this fit may have stopped.
    caveat : str
        What every user of it must know.
    """

    def __init__(
        self,
        network: Network,
        loss: Any,
        labels: Array,
        data: Training,
        remade: Callable[[Array], Any],
        draws: bool = True,
        noise: float = 1.0,
        caveat: str = "",
    ):
        self.network, self.rows, self._sign = network, data.rows, data.sign
        self.problem = TrainingProblem(network, loss, data.X, labels, data.weights)
        self._remade, self._draws = remade, draws
        self._noise, self._caveat = noise, caveat
        self.theta, self.gradient_norm = polished(self.problem, network.fitted)
        self.drift = drift_between(
            self.problem.scores(network.fitted), self.problem.scores(self.theta), data.y
        )
        self.gradient_share = self.problem.uncancelled(network.fitted)

    @property
    def large(self) -> bool:
        """Whether the Hessian is too large to be written down."""
        return self.problem.size > FULL

    @cached_property
    def can(self) -> Capabilities:
        """Deletions where there is a strict minimum to take derivatives at; refits everywhere."""
        common: dict[str, Any] = {
            "refit": "training",
            "draws": self._draws,
            "form": "network",
            "uncertified": UNCERTIFIED,
        }
        try:
            self.curvature  # noqa: B018 (worked out once, or refused)
        except UnsupportedModelError as refusal:
            return Capabilities(why_not=str(refusal), **common)
        return Capabilities(predictions=(BY_PRODUCTS if self.large else WRITTEN,), **common)

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The drift to the stationary point tells whether these are the data of the fit."""
        network = self.network
        found = judge(self.drift, self.gradient_share, network.name, network.advice, self._noise)
        return " ".join(said for said in (found, self._caveat) if said) or None

    def polished(self) -> Any:
        """A copy of the estimator with the polished weights: where a refit starts."""
        return self._remade(self.theta)

    def hessian(self, theta: Array) -> Array:
        """Of the training problem, (p, p)."""
        return self.problem.hessian(theta)

    # what a model that can forget says ----------------------------------------------------

    def scores(self, X: Array) -> Array:
        """The output before the link: log-odds, or the prediction."""
        return self._sign * self.network.scores(self.theta, X)

    def score_gradients(self, X: Array) -> Array:
        """``∂f/∂x``."""
        return self._sign * self.network.input_gradients(self.theta, X)

    @cached_property
    def curvature(self) -> Curvature:
        """``H⁻¹``, refused where the polished weights are no strict minimum."""
        if self.problem.uncancelled(self.theta) > STATIONARY:
            raise UnsupportedModelError(
                f"no stationary point was found near the fitted weights (gradient norm "
                f"{self.gradient_norm:.1e} after polishing; with relu and other activations that "
                "have a kink the optimum can sit on one), and derivatives predict nothing "
                "elsewhere. Smooth activations (logistic or tanh; in torch Tanh, GELU, SiLU or "
                "Softplus) and a larger penalty (alpha, l2) help; without(rows) works as it is"
            )
        if self.large:
            return ByProducts(self.problem, self.theta)
        gradients = self.problem.row_gradients(self.theta)
        return Whitened(self.hessian(self.theta), gradients, self.gradient_norm)

    def deletions(
        self, X: Array, of: str = "scores", method: str | None = None
    ) -> LowRankDeletions:
        """The jackknife's triple; its :meth:`effect` evaluates the network at the moved weights."""
        curvature = self.curvature
        shape = (len(X),) if of == "scores" else X.shape
        value = self.network.scores if of == "scores" else self.network.input_gradients
        before = value(self.theta, X)

        def change(step: Array) -> Array:
            return self._sign * (before - value(self.theta + step, X))

        if not isinstance(curvature, Whitened):
            return self._screening(X, of, shape, change)
        T = curvature.T
        return LowRankDeletions(
            queries=self._sign * self._functionals(X, of) @ T,
            factor=-self.problem.row_gradients(self.theta) @ T,
            residuals=np.ones(self.rows.n),
            rows=self.rows,
            shape=shape,
            coupled=False,
            exact=False,
            move=lambda whitened, rows: change(-(T @ whitened)),
            how=f"jackknife with the full Hessian of {self.problem.size:,} parameters",
        )

    def _functionals(self, X: Array, of: str, part: slice = slice(None)) -> Array:
        """What the parameters do to scores, or to their input gradients."""
        if of == "scores":
            return self.network.parameter_gradients(self.theta, X, part)
        return self.network.input_jacobian(self.theta, X, part)

    def _screening(
        self, X: Array, of: str, shape: tuple[int, ...], change: Callable[[Array], Array]
    ) -> LowRankDeletions:
        """The last layer's triple to compare rows by, and conjugate gradients for given sets."""
        layer = self._last_layer

        def move(whitened: Array, rows: Positions) -> Array:
            pull = self.problem.pull_of(self.theta, rows)
            return change(self.curvature.solve(pull[:, None])[:, 0])

        return LowRankDeletions(
            queries=self._sign * self._functionals(X, of, self.network.last) @ layer.T,
            factor=layer.factor,
            residuals=layer.residuals,
            rows=self.rows,
            shape=shape,
            coupled=layer.coupled,
            exact=False,
            move=move,
            how=(
                f"jackknife by conjugate gradients for given sets ({self.problem.size:,} "
                "parameters); rows are compared by the last layer's features, the rest frozen"
            ),
        )

    @cached_property
    def _last_layer(self) -> LastLayer:
        return LastLayer(self.problem, self.theta)

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The jackknife's ``θ(ω) = θ + H⁻¹ Σ (1 − ω_i) g_i`` and the scores there."""
        curvature, network, problem = self.curvature, self.network, self.problem
        pull = problem.pull_of(self.theta, slice(None), 1.0 - omega)
        theta = self.theta + curvature.solve(pull[:, None])[:, 0]
        slopes, _ = problem.derivatives(self.theta)

        def rows_along(direction: Array) -> Array:
            return -self._sign * slopes * network.along(self.theta, problem.X, direction)

        def pullback(X: Array, v: Array) -> Array:
            back = network.pullback(theta, X, v)
            return rows_along(curvature.solve(back[:, None])[:, 0])

        def derivatives(X: Array) -> Array:
            back = curvature.solve(network.parameter_gradients(theta, X).T)
            return np.array([rows_along(direction) for direction in back.T])

        return Reweighted(
            scores=lambda X: self._sign * network.scores(theta, X),
            pullback=pullback,
            derivatives=derivatives,
            exact=False,
        )

r"""A linear score under a smooth loss: one Newton step, or the infinitesimal jackknife.

The score is :math:`z = φᵀθ`: for logistic regression the log-odds. At the optimum of
:math:`Σ ω_i ℓ(z_i, y_i) + ½ θᵀ R θ` the gradient vanishes, so without the rows ``S`` it is
:math:`−Σ_S ω_i ℓ'_i φ_i`, and one Newton step with the *remaining* rows' Hessian lowers a score by
:math:`C_{:S} P_{SS}^{-1} r_S` with :math:`v = ω ℓ''`, :math:`H = ΦᵀVΦ + R`,

.. math:: C = Φ̌ H^{-1} Φᵀ V^{1/2}, \quad P = I − V^{1/2} Φ H^{-1} Φᵀ V^{1/2},
          \quad r = −ω ℓ' / \sqrt{v};

for logistic regression :math:`v = ω p (1 − p)` and :math:`r = ω (y − p)/\sqrt{v}`.

Keeping the full Hessian instead (:math:`P = I`) is the infinitesimal jackknife. Both assume an
optimum, so the fitted parameters are polished by Newton's method first. The effect of one given
deletion is read off after a second step from there, which costs one pass over the data.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.class_weight import compute_class_weight

from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.design import Design, LinearScores, centre_of, features, functional_features
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.drift import drift_between, gradient_share, judge
from holdfast.models.losses import LOSSES, Loss

#: an optimum is found when a step moves no score by more than this share of the largest
_STANDSTILL = 1e-11

#: steps with one and the same Hessian, at most
_CHORDS = 30


class SmoothLinearCore(LinearScores, Core):
    """A linear score under a smooth loss and an L2 penalty.

    Parameters
    ----------
    loss : Loss
    data : Training
        Its ``weights`` are those of the loss, class weights included.
    penalty : float
        The strength of the penalty; the intercept is not penalised.
    intercept : bool
    start : ndarray of shape (p,), optional
        Where to look for the optimum from, in the centred coordinates of ``centre``.
    """

    def __init__(
        self,
        loss: Loss,
        data: Training,
        penalty: float,
        intercept: bool,
        centre: Array | None = None,
        start: Array | None = None,
    ):
        self.loss, self.rows, self.intercept = loss, data.rows, intercept
        self.centre = centre_of(data.X, data.weights, intercept) if centre is None else centre
        self._phi, self._y, self._weights = features(data.X, self.centre), data.y, data.weights
        self.strength = penalty
        self.penalty = np.full(self._phi.shape[1], penalty)
        if intercept:
            self.penalty[0] = 0.0
        if start is None:
            start = np.zeros(self._phi.shape[1])
        self.theta = self._optimum(start, self._weights)

    #: the loss's own rounding: the optimum is known to about this
    _rounding = 1e-9

    @property
    def can(self) -> Capabilities:
        return Capabilities(
            predictions=("newton", "jackknife"),
            # without a penalty an optimum need not be unique: the estimator chooses one
            solves=self.strength > 0,
            certificate="newton",
            refit="cheap",
            form="smooth",
            linear=True,
            rounding=self._rounding,
        )

    def _optimum(self, theta: Array, weights: Array, penalty: Array | None = None) -> Array:
        """Newton's method with halved steps, until the scores stand still."""
        phi, y, loss = self._phi, self._y, self.loss
        penalty = self.penalty if penalty is None else penalty

        def objective(at: Array) -> float:
            return float(weights @ loss.values(phi @ at, y) + 0.5 * (penalty * at) @ at)

        value = objective(theta)
        for _ in range(200):
            z = phi @ theta
            gradient = -phi.T @ (weights * loss.slopes(z, y)) - penalty * theta
            step = _scaled_solve(self._hessian(z, weights, penalty), gradient)
            if np.max(np.abs(phi @ step)) <= _STANDSTILL * (1.0 + np.max(np.abs(z))):
                return theta + step
            length, rounding = 1.0, 1e-12 * abs(value)
            while (candidate := objective(theta + length * step)) > value + rounding:
                length /= 2.0
            theta, value = theta + length * step, candidate
            if self.strength == 0.0 and float(np.max(np.abs(phi @ theta))) > 1e3:
                break
        raise HoldfastError(
            "no optimum of this logistic regression was found: without a penalty, classes that "
            "can be separated perfectly have none. Fit it with a smaller C"
        )

    def _hessian(self, z: Array, weights: Array, penalty: Array) -> Array:
        """``ΦᵀVΦ + R`` at scores ``z``; as a square, of which BLAS makes half and mirrors it."""
        root = np.sqrt(weights * self.loss.curvatures(z, self._y))[:, None] * self._phi
        hessian: Array = root.T @ root
        hessian[np.diag_indices_from(hessian)] += penalty
        return hessian

    def _linearised(self, theta: Array, weights: Array) -> tuple[Design, Array]:
        """The whitened design at ``theta``, and ``r``, written so that tiny ``v`` do no harm."""
        root, residuals = self.loss.whitened(self._phi @ theta, self._y)
        outer = np.sqrt(weights)
        weighted = (outer * root)[:, None] * self._phi
        return Design(weighted, self.penalty, self.intercept), outer * residuals

    @cached_property
    def _at_optimum(self) -> tuple[Design, Array]:
        return self._linearised(self.theta, self._weights)

    @property
    def design(self) -> Design:
        """The whitened design at the optimum."""
        return self._at_optimum[0]

    @property
    def residuals(self) -> Array:
        """``r``."""
        return self._at_optimum[1]

    @property
    def curvatures(self) -> Array:
        """``v = ω ℓ''`` of every row at the optimum."""
        return self._weights * self.loss.curvatures(self._phi @ self.theta, self._y)

    @property
    def curvature_slopes(self) -> Array:
        """``v'/v`` of every row at the optimum."""
        return self.loss.skews(self._phi @ self.theta, self._y)

    @property
    def training_features(self) -> Array:
        """``Φ``, the rows of the fit."""
        return self._phi

    def deletions(self, X: Array, of: str, method: str | None) -> LowRankDeletions:
        """The triple of one Newton step, or (``method="jackknife"``) of the jackknife."""
        phi, shape = functional_features(X, of, self.centre)
        queries = self.design.whiten(phi)

        def closer(change: Array, rows: Positions) -> Array:
            return queries @ self._closer(change, rows)

        return LowRankDeletions(
            queries=queries,
            factor=self.design.U,
            residuals=self.residuals,
            rows=self.rows,
            shape=shape,
            coupled=method != "jackknife",
            exact=False,
            move=None if method == "jackknife" else closer,
        )

    def _closer(self, change: Array, rows: Positions) -> Array:
        """Three more steps from where the first one led, in whitened coordinates.

        Each costs one look at the data; together they are as good as one step with the Hessian
        worked out again.
        """
        return list(itertools.islice(self._chords(change, rows), 3))[-1]

    def _chords(
        self, change: Array, rows: Positions, penalty: Array | None = None
    ) -> Iterator[Array]:
        """Steps towards the optimum without some rows, in whitened coordinates.

        Newton's method with one Hessian for all steps: that of the remaining rows at the old
        optimum, ``I − U_SᵀU_S``, whose inverse costs next to nothing.
        """
        weights = self._weights.copy()
        weights[rows] = 0.0
        penalty = self.penalty if penalty is None else penalty
        solve = self._remaining(rows, penalty)
        while True:
            theta = self.theta - self.design.parameters(change)
            slopes = weights * self.loss.slopes(self._phi @ theta, self._y)
            change = change + solve(self.design.T.T @ (self._phi.T @ slopes + penalty * theta))
            yield change

    def _remaining(self, rows: Positions, penalty: Array) -> Callable[[Array], Array]:
        """The inverse Hessian of the remaining rows at the old optimum, whitened."""
        U, T = self.design.U[rows], self.design.T
        if penalty is self.penalty:
            block = np.eye(len(rows)) - U @ U.T
            return lambda g: np.asarray(g + U.T @ np.linalg.solve(block, U @ g))
        more = (T.T * (penalty - self.penalty)) @ T
        factor = linalg.cho_factor(np.eye(self.design.rank) - U.T @ U + more)
        return lambda g: np.asarray(linalg.cho_solve(factor, g))

    # the same problem without some rows, or on other data -------------------------------------

    def optimum_without(self, rows: Positions, factors: Array | None = None) -> Array:
        """The parameters of the fit without some rows, found from those with them.

        By steps with one Hessian while each is a good deal smaller than the last (few rows of many
        hardly change it), else by Newton's method. ``factors`` re-weight the penalties.
        """
        penalty = self.penalty
        if factors is not None and np.any(factors != 1.0):
            penalty = self.penalty.copy()
            penalty[int(self.intercept) :] *= factors
        try:
            start = np.zeros(self.design.rank)
            if penalty is self.penalty:
                U = self.design.U[rows]
                start = U.T @ np.linalg.solve(np.eye(len(rows)) - U @ U.T, self.residuals[rows])
            before, moved = start, np.inf
            for change in itertools.islice(self._chords(start, rows, penalty), _CHORDS):
                step = self._phi @ self.design.parameters(change - before)
                largest = float(np.max(np.abs(step)))
                if largest <= _STANDSTILL * (1.0 + self._largest_score):
                    optimum: Array = self.theta - self.design.parameters(change)
                    return optimum
                if not largest < 0.3 * moved:
                    break
                before, moved = change, largest
        except np.linalg.LinAlgError:  # without these rows nothing is determined at first order
            pass
        weights = self._weights.copy()
        weights[rows] = 0.0
        return self._optimum(self.theta, weights, penalty)

    @cached_property
    def _largest_score(self) -> float:
        return float(np.max(np.abs(self._phi @ self.theta)))

    def scores_at(self, theta: Array, X: Array) -> Array:
        """The scores of ``X`` by the parameters ``theta``."""
        scores: Array = features(X, self.centre) @ theta
        return scores

    def scores_without(
        self, X: Array, sets: Sequence[Positions], factors: Array | None = None
    ) -> Array:
        each = [None] * len(sets) if factors is None else list(factors)
        optima = [self.optimum_without(r, f) for r, f in zip(sets, each, strict=True)]
        return np.stack([self.scores_at(theta, X) for theta in optima])

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        phi = features(X, self.centre)
        known: dict[tuple[int, ...], Array] = {}
        out = np.empty(len(sets))
        for j, gone in enumerate(sets):
            key = tuple(sorted(gone.tolist()))
            if key not in known:
                known[key] = self.optimum_without(gone)
            out[j] = phi[j] @ known[key]
        return out

    def without(self, rows: Positions) -> SmoothLinearCore:
        fresh = copy.copy(self)
        for known in ("_at_optimum", "_largest_score"):
            fresh.__dict__.pop(known, None)
        keep = np.delete(np.arange(self.rows.n), rows)
        fresh.rows = self.rows.only(keep)
        fresh._phi, fresh._y, fresh._weights = self._phi[keep], self._y[keep], self._weights[keep]
        fresh.theta = self.optimum_without(rows)
        return fresh

    def solved_on(self, data: Training) -> SmoothLinearCore:
        return SmoothLinearCore(self.loss, data, self.strength, self.intercept)

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The optimum for other weights: ``∂f/∂ω_i = −φ̌ H(ω)⁻¹ φ_i ℓ'_i``."""
        weights = self._weights * omega
        theta = self._optimum(self.theta, weights)
        design, _ = self._linearised(theta, weights)
        residuals = -self._weights * self.loss.slopes(self._phi @ theta, self._y)
        train = design.whiten(self._phi)

        def whiten(X: Array) -> Array:
            return design.whiten(features(X, self.centre))

        return Reweighted(
            scores=lambda X: features(X, self.centre) @ theta,
            pullback=lambda X, v: residuals * (train @ (whiten(X).T @ v)),
            derivatives=lambda X: (whiten(X) @ train.T) * residuals,
        )


class LogisticCore(SmoothLinearCore):
    """scikit-learn's ``LogisticRegression`` with an L2 penalty as a model that can forget."""

    def __init__(self, estimator: Any, data: Training):
        sign, X, y = data.sign, data.X, data.y
        intercept = bool(estimator.fit_intercept)
        self._balanced = estimator.class_weight == "balanced"
        self._class_weight, self._classes = estimator.class_weight, estimator.classes_
        self._sign = sign
        weights = data.weights * self._by_class(y, data.weights)
        centre = centre_of(X, data.weights, intercept)
        coefficients = np.ravel(estimator.coef_).astype(np.float64)
        if centre is not None:
            shifted = estimator.intercept_ + coefficients @ centre
            coefficients = np.concatenate([shifted, coefficients])
        fitted = sign * coefficients
        weighted = replace(data, weights=weights)
        super().__init__(LOSSES["logistic"], weighted, 1.0 / estimator.C, intercept, centre, fitted)
        self.drift = drift_between(self._phi @ fitted, self._phi @ self.theta, y)
        errors = -self._weights * self.loss.slopes(self._phi @ fitted, y)
        self.gradient_share = gradient_share(
            self._phi.T @ errors - self.penalty * fitted,
            np.abs(errors) * np.linalg.norm(self._phi, axis=1),
        )
        self._advice = (
            f"LogisticRegression(solver={estimator.solver!r}, tol={estimator.tol:g}, "
            f"max_iter={estimator.max_iter}) stopped after {int(np.max(estimator.n_iter_))} "
            "iterations; scale the features, lower tol or raise max_iter"
        )

    @property
    def can(self) -> Capabilities:
        if not self._balanced:
            return super().can
        return Capabilities(
            why_not=(
                "class_weight='balanced' makes every row's weight depend on who is in the data, "
                "so deletions have no closed form; fit with sample_weight or a dict of class "
                "weights, which stay fixed, to have one"
            ),
            refit="cheap",
            linear=True,
            rounding=self._rounding,
        )

    def _by_class(self, y: Array, weights: Array) -> Array:
        """What ``class_weight`` multiplies every row's weight by."""
        if self._class_weight is None:
            return np.ones(len(y))
        codes = (y > 0).astype(int) if self._sign > 0 else (y == 0).astype(int)
        by_class = compute_class_weight(
            self._class_weight, classes=self._classes, y=self._classes[codes], sample_weight=weights
        )
        found: Array = by_class[codes]
        return found

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The drift to the optimum tells whether these are the data of the fit."""
        return judge(self.drift, self.gradient_share, "LogisticRegression", self._advice)

    def solved_on(self, data: Training) -> SmoothLinearCore:
        weights = data.weights * self._by_class(data.y, data.weights)
        return super().solved_on(replace(data, weights=weights))


def _scaled_solve(matrix: Array, right: Array) -> Array:
    """Solve with a symmetric matrix scaled to unit diagonal; least squares where it is singular."""
    scale = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    scaled = matrix / np.outer(scale, scale)
    try:
        factor = linalg.cho_factor(scaled)
        if np.min(np.abs(np.diag(factor[0]))) < 1e-7:
            raise linalg.LinAlgError
        solution: Array = linalg.cho_solve(factor, right / scale)
    except linalg.LinAlgError:
        solution = linalg.lstsq(scaled, right / scale, cond=1e-13)[0]
    return solution / scale


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if estimator.solver == "liblinear":
        return "solver='liblinear' penalises the intercept too (lbfgs and newton solvers do not)"
    penalty = getattr(estimator, "penalty", "deprecated")
    if penalty in ("l1", "elasticnet") or (penalty == "deprecated" and estimator.l1_ratio):
        return "an L1 or elastic-net penalty is not smooth (L2 is)"
    if penalty is None:
        return "penalty=None is not read here; C=np.inf means the same"
    return None

r"""Least squares and ridge: the algebra is exact.

With :math:`A = ΦᵀΩΦ + R` (Φ with a column of ones for the intercept, which is not penalised) and
residuals :math:`r = Ω^{1/2}(y − Φθ)`, removing the rows ``S`` changes ``A`` by
:math:`−Φ_Sᵀ Ω_S Φ_S`. The Woodbury identity gives

.. math:: θ − θ_{−S} = A^{-1} Φ_Sᵀ Ω_S^{1/2} (I − Ω^{1/2}Φ_S A^{-1} Φ_Sᵀ Ω^{1/2})^{-1} r_S,

which is :math:`C_{:S} P_{SS}^{-1} r_S` with :math:`C = Φ̌ A^{-1} Φᵀ Ω^{1/2}` and
:math:`P = I − Ω^{1/2} Φ A^{-1} Φᵀ Ω^{1/2}`; for one row it is Miller's leave-one-out formula.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.linear_model import BayesianRidge, RidgeClassifierCV, RidgeCV

from holdfast.algebra.deletions import FLOOR, LowRankDeletions
from holdfast.algebra.design import Design, LinearScores, centre_of, features, functional_features
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import DataMismatchError, SingularDeletionError
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.drift import spread_of, warning_of
from holdfast.models.losses import Squared

#: estimators that choose a penalty from the data
CHOOSING = (BayesianRidge, RidgeCV, RidgeClassifierCV)


class LinearCore(LinearScores, Core):
    """scikit-learn's least squares as models that can forget: exact.

    ``LinearRegression``, ``Ridge`` and ``RidgeClassifier``; ``RidgeCV``, ``RidgeClassifierCV`` and
    ``BayesianRidge`` with the strength of the penalty that they chose, which the algebra keeps.
    Also ``KernelRidge`` with the linear kernel, which is ridge regression without an intercept.
    """

    needs_refit = True

    @property
    def penalised(self) -> bool:
        """Whether the units of features matter: there is a penalty."""
        return self.strength > 0

    @property
    def can(self) -> Capabilities:
        return Capabilities(
            predictions=("exact", "jackknife"),
            solves=True,
            certificate="exact",
            refit="cheap",
            chooses="cheaply" if self._chooses else "",
            form="linear",
            linear=True,
        )

    def __init__(self, estimator: Any, data: Training):
        self.intercept = bool(getattr(estimator, "fit_intercept", False))
        self.strength = _strength(estimator)
        self._name, self._chooses = type(estimator).__name__, isinstance(estimator, CHOOSING)
        given = getattr(estimator, "class_weight", None)
        self._class_weights = None
        if isinstance(given, dict):
            self._class_weights = np.array([given.get(c, 1.0) for c in estimator.classes_])
        # sag and saga shuffle: a refit need not give quite the same model
        self._tolerance = 1e-2 if getattr(estimator, "solver", "") in ("sag", "saga") else 1e-6
        self._solve(data)

    def _solve(self, data: Training) -> None:
        """The fit, and what its deletions are made of."""
        X, y, weights = data.X, data.y, data.weights
        self.rows, self._given = data.rows, data
        if data.rows.classes is not None:
            y = 2.0 * y - 1.0
            if self._class_weights is not None:
                weights = weights * self._class_weights[data.rows.classes]
        phi, y = self._posed(X, y, weights)
        self.penalty = np.full(phi.shape[1], self.strength)
        if self.intercept:
            self.penalty[0] = 0.0
        self._X, self._y, self._weights = X, y, weights
        root = np.sqrt(weights)
        self.design = Design(root[:, None] * phi, self.penalty, self.intercept)
        self._weighted = root * y
        t = self._whitened = self.design.U.T @ self._weighted
        self.theta = self.design.parameters(t)
        self.residuals = root * y - self.design.U @ t
        self._fitted, self._raw_residuals = phi @ self.theta, y - phi @ self.theta
        self._spread = spread_of(self._fitted, y)
        self.drift = float("nan")

    #: the loss, as linear scores under other losses have it
    kind = Squared()

    @property
    def labels(self) -> Array:
        """Labels as the loss takes them."""
        return self._y

    def posed_without(self, rows: Positions) -> tuple[Array, Array]:
        """Weights and penalties of the problem without some rows."""
        weights = self._weights.copy()
        weights[rows] = 0.0
        return weights, self.penalty

    def _posed(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        """The rows of the problem, and where they should lead."""
        self.centre = centre_of(X, weights, self.intercept)
        return features(X, self.centre), y

    def verify(self, fitted: Array, again: Array) -> str | None:
        """Other scores of the same estimator refitted on these data mean other data."""
        worst = float(np.max(np.abs(fitted - again)))
        if worst > self._tolerance * self._spread:
            raise DataMismatchError(
                f"X and y are not the data this {self._name} was fitted on: refitted on them, its "
                f"score of a training row differs by up to {worst:.3g} "
                f"({worst / self._spread:.2g} standard deviations of the scores). Pass the "
                "training data themselves, in the same row order, with the sample_weight of the "
                "fit if any"
            )
        self.drift = float(np.max(np.abs(fitted - self._fitted))) / self._spread
        return warning_of(
            self.drift,
            f"{self._name}'s solver stopped early, or cut off directions of the data that are "
            "small in their units but not zero; scale the features, or lower its tol (0 for "
            "LinearRegression)",
        )

    def deletions(self, X: Array, of: str, method: str | None) -> LowRankDeletions:
        """The exact triple, or (``method="jackknife"``) its first-order part."""
        phi, shape = functional_features(X, of, self.centre)
        return LowRankDeletions(
            queries=self.design.whiten(phi),
            factor=self.design.U,
            residuals=self.residuals,
            rows=self.rows,
            shape=shape,
            coupled=method != "jackknife",
            exact=method != "jackknife",
        )

    def first_order(self, X: Array) -> tuple[LowRankDeletions, Array]:
        """Scores of ``X`` and the one gradient they share, as functionals; and the gradient."""
        scores = self.deletions(X, "scores", None)
        slopes = self.deletions(X[:1], "gradients", None)
        queries = np.concatenate([scores.queries, slopes.queries])
        return replace(scores, queries=queries, shape=(len(queries),)), self.score_gradients(X[:1])

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The fit for other weights: ``∂f/∂ω_i = φ̌ A(ω)⁻¹ φ_i (y_i − φ_i θ(ω))``.

        In whitened coordinates ``A(ω)`` is ``I − Uᵀ diag(1 − ω) U``: small and well scaled.
        """
        U, root = self.design.U, np.sqrt(self._weights)
        curvature = np.eye(self.design.rank) - (U.T * (1.0 - omega)) @ U
        try:
            factor = linalg.cho_factor(curvature)
            if np.min(np.diag(factor[0])) ** 2 < FLOOR:
                raise linalg.LinAlgError
        except linalg.LinAlgError:
            gone = np.flatnonzero(omega == 0)
            raise SingularDeletionError("these row weights leave a singular fit", gone) from None
        t = linalg.cho_solve(factor, U.T @ (omega * root * self._y))
        residuals = root * self._y - U @ t

        def whiten(X: Array) -> Array:
            return self.design.whiten(features(X, self.centre))

        def pullback(X: Array, v: Array) -> Array:
            return residuals * (U @ linalg.cho_solve(factor, v @ whiten(X)))

        return Reweighted(
            scores=lambda X: whiten(X) @ t,
            pullback=pullback,
            derivatives=lambda X: (linalg.cho_solve(factor, whiten(X).T).T @ U.T) * residuals,
        )

    def scores_without(
        self,
        X: Array,
        sets: Sequence[Positions],
        factors: Array | None = None,
        nearly: bool = False,
    ) -> Array:
        """All scores without each set, (sets, q); ``factors`` as in :class:`Solver`."""
        queries = self.design.whiten(features(X, self.centre))
        out = np.empty((len(sets), len(X)))
        for start in range(0, len(sets), 512):
            some = slice(start, start + 512)
            mine = None if factors is None else factors[some]
            out[some] = self._solutions(sets[some], mine) @ queries.T
        return out

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        """The score of each row of ``X`` by the fit without its own set of rows."""
        queries = self.design.whiten(features(X, self.centre))
        out = np.empty(len(sets))
        for start in range(0, len(sets), 512):
            some = slice(start, start + 512)
            out[some] = np.einsum("jp,jp->j", queries[some], self._solutions(sets[some]))
        return out

    def _solutions(self, sets: Sequence[Positions], factors: Array | None = None) -> Array:
        """Whitened parameters without each set, (sets, p).

        The normal equations of the remaining rows, in coordinates in which all rows' are the
        identity: ``(I − U_SᵀU_S) t = Uᵀy − U_Sᵀy_S``, solved directly. Penalties re-weighted by
        ``ρ`` add ``Tᵀ R (ρ − 1) T``.
        """
        U, y, everything = self.design.U, self._weighted, self._whitened
        gram = np.stack([np.eye(self.design.rank) - U[rows].T @ U[rows] for rows in sets])
        if factors is not None and self.strength > 0:
            first = int(self.intercept)
            T, more = self.design.T[first:], self.penalty[first:] * (factors - 1.0)
            gram += (T.T * more[:, None, :]) @ T
        right = np.stack([everything - U[rows].T @ y[rows] for rows in sets])
        singular = np.linalg.eigvalsh(gram)[:, 0] <= FLOOR
        gram[singular] = np.eye(self.design.rank)
        found = np.linalg.solve(gram, right[:, :, None])[:, :, 0].astype(np.float64)
        found[singular] = np.nan
        return found

    def without(self, rows: Positions) -> LinearCore:
        keep, given = np.delete(np.arange(self.rows.n), rows), self._given
        kept = Training(
            given.X[keep], given.y[keep], given.weights[keep], given.rows.only(keep), given.sign
        )
        return self.solved_on(kept)

    def solved_on(self, data: Training) -> LinearCore:
        fresh = copy.copy(self)
        fresh._solve(data)
        return fresh

    def leave_one_out(self) -> Array:
        """Every training row's score by the model fitted without it."""
        diagonal = 1.0 - np.einsum("ij,ij->i", self.design.U, self.design.U)
        return self._y - self._raw_residuals / np.where(diagonal > FLOOR, diagonal, np.nan)


def _strength(estimator: Any) -> float:
    """The penalty, as chosen by the estimator where it chooses one."""
    if isinstance(estimator, BayesianRidge):
        return float(estimator.lambda_ / estimator.alpha_)
    chosen = getattr(estimator, "alpha_", None) if isinstance(estimator, CHOOSING) else None
    return float(np.ravel(getattr(estimator, "alpha", 0.0) if chosen is None else chosen)[0])


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if getattr(estimator, "positive", False):
        return "positive=True makes it constrained least squares, which has no closed form"
    if getattr(estimator, "class_weight", None) == "balanced" and "CV" in type(estimator).__name__:
        return "balanced class weights and a chosen penalty change together"
    if getattr(estimator, "alpha_per_target", False):
        return "alpha_per_target=True chooses a penalty for each of several targets"
    return None

r"""Kernel ridge, the neural tangent kernel and the least-squares SVM: the algebra is exact.

Dual weights solve :math:`(K + βI) α = y`. Removing row ``i`` from the system and eliminating it
from the inverse :math:`G = (K + βI)^{-1}` are the same step (the Schur complement), so

.. math:: α − α_{−S} = G_{:S}\, G_{SS}^{-1}\, α_S \quad (α_{−S} \text{ is 0 on } S),

and with :math:`C = K(X̌, X) G`, :math:`P = G`, :math:`r = α` any score falls by
:math:`C_{:S} P_{SS}^{-1} r_S`. For one row this is the theorem of Zhang and Zhang; with the
bordered system of the LS-SVM (bias), :math:`P = G − ooᵀ/t`, it is that of Cawley and Talbot.

Rows that occur more than once are worked with once (:class:`~holdfast.algebra.dual.Repeats`).
Sample weights enter symmetrically, :math:`Ω^{1/2} K Ω^{1/2} + βI`, which allows a weight of 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product, Sum, WhiteKernel
from sklearn.kernel_ridge import KernelRidge

from holdfast.algebra import kernel_functions
from holdfast.algebra.deletions import KernelDeletions
from holdfast.algebra.dual import DualInverse, RepeatedInverse, Repeats
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import DataMismatchError
from holdfast.estimators.dual_fit import expansion
from holdfast.estimators.lssvm import LSSVMClassifier
from holdfast.estimators.ntk import NTKRegressor
from holdfast.models.core import Capabilities, Core, Training


class KernelCore(Core):
    """Kernel models that can forget, from one triangular inverse of ``K + βI``."""

    drift = 0.0

    def __init__(self, estimator: Any, data: Training):
        self._estimator = estimator
        matrix = self._pose(data)
        dual = self._dual(data.sign)
        self._check_dual(matrix, dual, data.sign * float(getattr(estimator, "intercept_", 0.0)))
        self._solve(matrix)

    def _pose(self, data: Training) -> Array:
        """The training problem, and the kernel matrix of its distinct rows."""
        self.rows, self.X, self._weights = data.rows, data.X, data.weights
        self._y = data.y if data.rows.classes is None else 2.0 * data.y - 1.0
        self._width = data.X.shape[1]
        self.kernel, self.beta, self._bias = self._problem()
        self._repeats = Repeats.worth_using(data.X, data.weights)
        # what scores are made of: the rows, equal ones as one with their weights added up
        self._points = data.X if self._repeats is None else self._repeats.points
        return self.kernel.gram(self._points)

    def _problem(self) -> tuple[kernel_functions.Kernel, float, bool]:
        """Kernel, ridge, and whether there is a bias."""
        return _kernel_of(self._estimator, self._width)

    def _dual(self, sign: int) -> Array:
        """The fitted dual weights."""
        return np.asarray(sign * np.ravel(self._estimator.dual_coef_))

    def _solve(self, matrix: Array) -> None:
        """The fit, and what its deletions are made of; the kernel matrix is overwritten."""
        root = self._root = np.sqrt(self._weights)
        border = root if self._bias else None
        if self._repeats is None:
            if not np.all(self._weights == 1.0):
                matrix *= root[:, None]
                matrix *= root
            matrix[np.diag_indices_from(matrix)] += self.beta
        else:
            matrix = self._repeats.matrix(matrix, self.beta)
        self.condition = _condition(matrix, self.beta)
        self._warning = _ill_conditioned(self.condition)
        self.inverse = (
            DualInverse(matrix, border)
            if self._repeats is None
            else RepeatedInverse(matrix, self._repeats, self.beta, border)
        )
        self.residuals = self.inverse.solve(root * self._y)
        self.alpha = root * self.residuals
        self.intercept = float(self.inverse.bias_weights @ (root * self._y))
        self._sums = self.summed(self.alpha)

    @property
    def can(self) -> Capabilities:
        return Capabilities(
            predictions=("exact",),
            solves=True,
            certificate="exact",
            refit="cubic",
            form="kernel",
            rounding=max(1e-11, 1e-15 * self.condition),
        )

    @property
    def has_bias(self) -> bool:
        """Whether a constant is fitted beside the expansion."""
        return self._bias

    @property
    def weights(self) -> Array:
        """The sample weights."""
        return self._weights

    def _against_rows(self, values: Callable[[Array], Array]) -> Array:
        """``values`` of every training row along the last axis, worked out for distinct ones."""
        if self._repeats is None:
            return values(self.X)
        return values(self._repeats.points)[..., self._repeats.of]

    def _check_dual(self, matrix: Array, dual: Array, intercept: float) -> None:
        """Refuse data whose dual residual ``ω(y − Kα − b) − βα`` is not that of a solution."""
        name = type(self._estimator).__name__
        if dual.shape != self._y.shape:
            raise DataMismatchError(
                f"this {name} was fitted on {dual.size} rows, but X has {self._y.size}"
            )
        if self._repeats is None:
            fitted = matrix @ dual
        else:
            fitted = (matrix @ self._repeats.gathered(dual))[self._repeats.of]
        residual = self._weights * (self._y - fitted - intercept) - self.beta * dual
        worst = float(np.max(np.abs(residual)))
        scale = float(np.max(np.abs(self._y))) or 1.0
        # no entry of K is larger than its largest diagonal one: rounding in K α is no mismatch
        rounding = (
            np.finfo(float).eps * len(dual) * float(matrix.diagonal().max() * np.abs(dual).max())
        )
        single = getattr(self._estimator, "dual_coef_", dual).dtype == np.float32
        if worst > (1e-3 if single else 1e-6) * scale + 100 * rounding:
            raise DataMismatchError(
                f"X and y are not the data this {name} was fitted on: its dual weights leave a "
                f"residual of up to {worst:.3g} on them (labels up to {scale:.3g}). Pass the "
                "training data themselves, in the same row order, with the sample_weight of the "
                "fit if any"
            )

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The dual residual was checked when the model was made; say where digits are lost."""
        return self._warning

    def scores(self, X: Array) -> Array:
        """``K(X̌, X) α + b``."""
        return expansion(self.kernel, X, self._points, self._sums) + self.intercept

    def training_scores(self) -> Array:
        """The scores of the training rows, from the dual weights: ``y − βα/ω``."""
        root = np.where(self._root > 0, self._root, 1.0)
        scores = self._y - self.beta * self.residuals / root
        ignored = self._root == 0
        if ignored.any():
            scores[ignored] = self.scores(self.X[ignored])
        return scores

    def score_gradients(self, X: Array) -> Array:
        """``Σ_i α_i ∂K(x̌, x_i)/∂x̌``."""
        return self.kernel.gradient(X, self._points, self._sums)

    def deletions(self, X: Array, of: str, method: str | None) -> KernelDeletions:
        """The exact triple."""
        if of == "scores":
            queries, shape = self._against_rows(lambda rows: self.kernel(X, rows)), (len(X),)
        else:
            jacobian = self._against_rows(lambda rows: self.kernel.jacobian(X, rows))
            queries, shape = jacobian.reshape(-1, len(self.X)), X.shape
        queries *= self._root
        return KernelDeletions(
            queries=queries,
            inverse=self.inverse,
            residuals=self.residuals,
            rows=self.rows,
            shape=shape,
            ridge=self.beta,
            offset=1.0 if of == "scores" else 0.0,
        )

    def first_order(self, X: Array) -> tuple[KernelDeletions, Array]:
        """Scores of ``X`` and their gradients, as functionals; and the gradients."""
        scores, slopes = self.deletions(X, "scores", None), self.deletions(X, "gradients", None)
        queries = np.concatenate([scores.queries, slopes.queries])
        offset = np.repeat([1.0, 0.0], [len(scores.queries), len(slopes.queries)])
        both = replace(scores, queries=queries, shape=(len(queries),), offset=offset)
        return both, self.score_gradients(X)

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The fit for other weights: ``∂f/∂ω_i = cov(x̌, x_i) (y_i − f(x_i)) / β``.

        ``cov = K(x̌, x_i) − K(x̌, X) G(ω) K(X, x_i)`` (bordered by the bias) is the posterior
        covariance of the Gaussian process with the same kernel; it stays finite at ``ω = 0``.
        """
        weights = self._weights * omega
        root = np.sqrt(weights)
        gram = self.kernel.gram(self.X)
        matrix = root[:, None] * gram * root
        matrix[np.diag_indices_from(matrix)] += self.beta
        inverse = DualInverse(matrix, ones=root if self._bias else None)
        alpha = root * inverse.solve(root * self._y)
        intercept = float(inverse.bias_weights @ (root * self._y))
        residuals = self._weights * (self._y - gram @ alpha - intercept) / self.beta

        def covariances(kernel_rows: Array, constants: Array) -> Array:
            """Posterior covariance with every row, of ``kernel_rows · f + constants · bias``."""
            scaled = kernel_rows * root
            explained = (scaled @ inverse.factor.T) @ inverse.factor
            covariance = kernel_rows - (explained * root) @ gram
            if self._bias:
                left = constants - scaled @ (inverse.bias_weights * inverse.total)
                right = 1.0 - gram @ (root * inverse.bias_weights * inverse.total)
                covariance += np.outer(left, right) / inverse.total
            return covariance

        def derivatives(X: Array) -> Array:
            return covariances(self.kernel(X, self.X), np.ones(len(X))) * residuals

        def pullback(X: Array, v: Array) -> Array:
            pulled = covariances((v @ self.kernel(X, self.X))[None], np.array([v.sum()]))
            return pulled[0] * residuals

        return Reweighted(
            scores=lambda X: expansion(self.kernel, X, self.X, alpha) + intercept,
            pullback=pullback,
            derivatives=derivatives,
        )

    def scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        """All scores without each set; NaN where the check of :meth:`fits_without` fails."""
        return self.scores_of(X, *self.fits_without(sets))

    def without(self, rows: Positions) -> KernelCore:
        """The same without some rows: its scores and gradients only."""
        sums, biases = self.fits_without([rows])
        return self.with_fit(sums[:, 0], float(biases[0]))

    def solved_on(self, data: Training) -> KernelCore:
        fresh = copy.copy(self)
        fresh._solve(fresh._pose(data))
        return fresh

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        """The score of each row of ``X`` by the fit without its own set of rows.

        NaN where the check of :meth:`fits_without` fails.
        """
        distinct = {tuple(sorted(rows.tolist())) for rows in sets}
        place = {rows: c for c, rows in enumerate(sorted(distinct))}
        sums, biases = self.fits_without([np.array(rows, dtype=np.intp) for rows in place])
        mine = np.array([place[tuple(sorted(rows.tolist()))] for rows in sets])
        scores = np.empty(len(sets))
        for start in range(0, len(sets), 256):
            some = slice(start, start + 256)
            scores[some] = np.einsum(
                "jn,nj->j", self.kernel(X[some], self._points), sums[:, mine[some]]
            )
        return scores + biases[mine]

    def fits_without(self, sets: Sequence[Positions]) -> tuple[Array, Array]:
        """What scores are made of without each set of rows: weights (m, sets), biases (sets,).

        The shortened fits' dual weights are checked: what they leave of the remaining rows'
        equations must be rounding, which costs one product with the kernel matrix. The bias is
        NaN where it is more.
        """
        duals = np.empty((len(self._y), len(sets)))
        biases = np.zeros(len(sets))
        for c, gone in enumerate(sets):
            steps = np.linalg.solve(self.inverse.block(gone), self.residuals[gone])
            duals[:, c] = self.residuals - self.inverse.columns(gone) @ steps
            duals[gone, c] = 0.0
            biases[c] = self.intercept - self.inverse.bias_weights[gone] @ steps
        weighted = self._root[:, None] * duals
        sums = self.summed(weighted)
        worst = np.zeros(len(sets))
        for start in range(0, len(self._y), 1024):
            some = slice(start, start + 1024)
            fitted = self.kernel(self.X[some], self._points) @ sums + biases
            left = self._root[some, None] * (self._y[some, None] - fitted) - self.beta * duals[some]
            left[duals[some] == 0.0] = 0.0
            worst = np.maximum(worst, np.abs(left).max(axis=0))
        limit = 1e-6 * (np.abs(self._y).max() + np.abs(duals).max(axis=0) * self.beta)
        biases[worst > limit] = np.nan
        return sums, biases

    def duals_with_and_without(self, gone: Positions) -> tuple[Array, Array]:
        """The dual weights ``α`` of all rows (n,), and by how much they fall without some rows."""
        steps = np.linalg.solve(self.inverse.block(gone), self.residuals[gone])
        fall = self._root * (self.inverse.columns(gone) @ steps)
        return self._root * self.residuals, fall

    def summed(self, dual: Array) -> Array:
        """Weights of all rows as weights of the distinct ones."""
        return dual if self._repeats is None else self._repeats.gathered(dual)

    def scores_of(self, X: Array, sums: Array, biases: Array) -> Array:
        """The scores of ``X`` by each of the fits of :meth:`fits_without` (sets, q)."""
        return (expansion(self.kernel, X, self._points, sums) + biases).T

    def with_fit(self, sums: Array, bias: float) -> KernelCore:
        """The same with the scores and gradients of one of those fits, and nothing else of it."""
        made = copy.copy(self)
        made._sums, made.intercept = sums, bias
        return made

    def leave_one_out(self) -> Array:
        """Every training row's score by the model fitted without it."""
        root = np.where(self._root > 0, self._root, np.nan)
        without = self._y - self.residuals / (root * self.inverse.diagonal)
        ignored = self._root == 0
        without[ignored] = self.scores(self.X[ignored])
        return without


class GaussianProcessCore(KernelCore):
    """scikit-learn's ``GaussianProcessRegressor`` with its fitted kernel and ``y``'s mean kept.

    ``(a K + β) α = y`` is ``(K + β/a) aα = y``: kernel ridge, on features in units of their length
    scales.
    """

    def __init__(self, estimator: Any, data: Training):
        self._amplitude, lengths, noise = _gaussian_parts(estimator.kernel_)
        self._units: Array = np.ones(data.X.shape[1]) / lengths
        self._noise = float(np.ravel(estimator.alpha)[0]) + noise
        mean, self._spread = (
            float(np.ravel(getattr(estimator, name))[0])
            for name in ("_y_train_mean", "_y_train_std")
        )
        self._mean = data.sign * mean
        optimised = estimator.optimizer is not None and estimator.kernel_.n_dims > 0
        self._chooses = optimised or bool(estimator.normalize_y)  # y's mean is taken again too
        super().__init__(estimator, data)

    @property
    def can(self) -> Capabilities:
        return replace(super().can, chooses="dearly" if self._chooses else "")

    def _pose(self, data: Training) -> Array:
        return super()._pose(replace(data, X=data.X * self._units, y=data.y - self._mean))

    def _problem(self) -> tuple[kernel_functions.Kernel, float, bool]:
        return kernel_functions.gaussian(0.5), self._noise / self._amplitude, False

    def _dual(self, sign: int) -> Array:
        dual: Array = sign * np.ravel(self._estimator.alpha_) * self._amplitude * self._spread
        return dual

    def scores(self, X: Array) -> Array:
        return super().scores(X * self._units) + self._mean

    def training_scores(self) -> Array:
        return super().training_scores() + self._mean

    def score_gradients(self, X: Array) -> Array:
        return super().score_gradients(X * self._units) * self._units

    def deletions(self, X: Array, of: str, method: str | None) -> KernelDeletions:
        found = super().deletions(X * self._units, of, method)
        if of == "gradients":
            found = replace(found, queries=found.queries * np.tile(self._units, len(X))[:, None])
        return found

    def reweighted(self, omega: Array) -> Reweighted:
        inner = super().reweighted(omega)
        return Reweighted(
            scores=lambda X: inner.scores(X * self._units) + self._mean,
            pullback=lambda X, v: inner.pullback(X * self._units, v),
            derivatives=lambda X: inner.derivatives(X * self._units),
        )

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        return super().own_scores_without(X * self._units, sets) + self._mean

    def scores_of(self, X: Array, sums: Array, biases: Array) -> Array:
        return super().scores_of(X * self._units, sums, biases) + self._mean

    def leave_one_out(self) -> Array:
        return super().leave_one_out() + self._mean


def _gaussian_parts(kernel: Any) -> tuple[float, Any, float]:
    """Amplitude, length scales and noise of a fitted kernel: a Gaussian one, scaled, plus white."""
    if type(kernel) is RBF:  # others derive from it
        return 1.0, np.asarray(kernel.length_scale, dtype=float), 0.0
    if isinstance(kernel, WhiteKernel):
        return 0.0, 1.0, float(kernel.noise_level)
    if isinstance(kernel, ConstantKernel):
        return float(kernel.constant_value), None, 0.0
    if not isinstance(kernel, Product | Sum):
        raise ValueError("not Gaussian")
    one, other = _gaussian_parts(kernel.k1), _gaussian_parts(kernel.k2)
    if isinstance(kernel, Product):
        if one[2] or other[2] or (one[1] is not None and other[1] is not None):
            raise ValueError("not Gaussian")
        lengths = other[1] if one[1] is None else one[1]
        return one[0] * other[0], lengths, 0.0
    if one[1] is None or other[1] is None or (one[0] and other[0]):
        raise ValueError("not Gaussian")
    amplitude, lengths = (one[0], one[1]) if one[0] else (other[0], other[1])
    return amplitude, lengths, one[2] + other[2]


def _condition(matrix: Array, beta: float) -> float:
    """About the condition of the kernel matrix plus its ridge."""
    v = np.ones(len(matrix))
    for _ in range(3):
        v = matrix @ (v / np.linalg.norm(v))
    return float(np.linalg.norm(v)) / beta


def _ill_conditioned(condition: float) -> str | None:
    """What to warn of where the ridge is so small that a solution loses half its digits."""
    if condition < 1e7:
        return None
    return (
        f"the kernel matrix is badly conditioned (about {condition:.0e}): predicted and refitted "
        f"scores agree only to about {condition * 1e-15:.0e} of the scores. Scale the features or "
        "use a larger ridge"
    )


def _kernel_of(estimator: Any, d: int) -> tuple[kernel_functions.Kernel, float, bool]:
    """Kernel, ridge, and whether there is a bias."""
    if isinstance(estimator, NTKRegressor):
        return kernel_functions.ntk, float(estimator.beta), False
    if isinstance(estimator, LSSVMClassifier):
        return kernel_functions.gaussian(float(estimator.gamma)), float(estimator.beta), True
    found = kernel_functions.of_kernel_ridge(estimator, d)
    assert found is not None
    return found, float(np.ravel(estimator.alpha)[0]), False


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if isinstance(estimator, GaussianProcessRegressor):
        return _no_process(estimator)
    if not isinstance(estimator, KernelRidge):
        return None
    if kernel_functions.of_kernel_ridge(estimator, 1) is None and estimator.kernel != "linear":
        return "only the kernels linear, rbf, poly (polynomial) and laplacian are supported"
    if not float(np.ravel(estimator.alpha)[0]) > 0:
        return "it has no ridge (alpha must be above 0)"
    return None


def _no_process(estimator: Any) -> str | None:
    if np.ndim(estimator.alpha) > 0:
        return "alpha differs from row to row"
    try:
        amplitude, lengths, _ = _gaussian_parts(estimator.kernel_)
    except ValueError:
        amplitude, lengths = 0.0, None
    if not amplitude or lengths is None:
        return "its kernel is no RBF kernel, scaled by a constant, with or without white noise"
    return None

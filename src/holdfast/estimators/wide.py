r"""The wide ReLU network of the paper, trained by L-BFGS.

:math:`f(x) = k^{-1/2} Σ_j a_j \mathrm{relu}(w_jᵀ x)` with fixed signs :math:`a_j = ±1` and a
Gaussian start :math:`W_0`; trained are the :math:`w_j`, on
:math:`½ Σ ω_i (y_i − f(x_i))² + \frac{β}{2} ‖W − W_0‖²`. Units come in pairs with the same start
and opposite signs, so that :math:`f = 0` before training and the infinitely wide limit is exactly
:class:`~holdfast.NTKRegressor` with the same ``beta``.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy import optimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from holdfast.algebra.dual import Repeats
from holdfast.algebra.rows import Array
from holdfast.arguments import positive_number

#: hidden units worked on at a time
_UNITS = 1000


class WideReLURegressor(RegressorMixin, BaseEstimator):
    """A two-layer ReLU network of a given width, regularised towards its start.

    Parameters
    ----------
    n_units : int, default=10_000
        Width; rounded up to an even number.
    beta : float, default=5.0
        Weight of the distance to the start: the ridge of the corresponding NTK.
    max_iter : int, default=500
        L-BFGS iterations at most.
    tol : float, default=1e-9
        Stop when an iteration lowers the objective by less than this share of it. (At an optimum
        some units sit on the kinks of the loss, so its gradient need not become small.)
    warm_start : bool, default=False
        Go on from the fitted weights instead of from the random start.
    random_state : int, RandomState instance or None, default=0

    Attributes
    ----------
    weights_ : ndarray of shape (n_units, d)
    start_ : ndarray of shape (n_units, d)
    signs_ : ndarray of shape (n_units,)
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np, holdfast as hf
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> y = np.abs(X[:, 0])
    >>> wide = hf.WideReLURegressor(n_units=2000, beta=0.5).fit(X, y)
    >>> ntk = hf.NTKRegressor(beta=0.5).fit(X, y)
    >>> bool(np.max(np.abs(wide.predict(X) - ntk.predict(X))) < 0.1)
    True
    """

    def __init__(
        self,
        n_units: int = 10_000,
        beta: float = 5.0,
        max_iter: int = 500,
        tol: float = 1e-9,
        warm_start: bool = False,
        random_state: Any = 0,
    ):
        self.n_units = n_units
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the first layer by L-BFGS on all rows."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        positive_number("beta", self.beta)
        positive_number("n_units", self.n_units)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (self.warm_start and hasattr(self, "weights_")):
            half = (self.n_units + 1) // 2
            drawn = check_random_state(self.random_state).standard_normal((half, X.shape[1]))
            self.start_: Array = np.concatenate([drawn, drawn])
            self.signs_: Array = np.repeat([1.0, -1.0], half)
            self.weights_: Array = self.start_.copy()
        X, y, weights = _merged(X, y.astype(np.float64), weights)
        found = optimize.minimize(
            lambda flat: _flat(self.objective(flat.reshape(self.start_.shape), X, y, weights)),
            self.weights_.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "ftol": self.tol, "gtol": 0.0},
        )
        if found.nit >= self.max_iter:
            warnings.warn(
                f"WideReLURegressor stopped after max_iter={self.max_iter} iterations before "
                "reaching tol; raise max_iter",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.weights_ = found.x.reshape(self.start_.shape)
        self.n_iter_ = int(found.nit)
        return self

    def predict(self, X: Any) -> Array:
        """The network's output."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.output(self.weights_, X)

    def output(self, W: Array, X: Array) -> Array:
        out = np.zeros(len(X))
        for part in unit_slices(len(W)):
            out += np.maximum(X @ W[part].T, 0.0) @ self.signs_[part]
        return out / np.sqrt(len(W))

    def objective(self, W: Array, X: Array, y: Array, weights: Array) -> tuple[float, Array]:
        """The objective and its gradient; what is computed for the one serves the other."""
        out, active = np.zeros(len(X)), []
        for part in unit_slices(len(W)):
            inner = X @ W[part].T
            active.append(inner > 0)
            np.maximum(inner, 0.0, out=inner)
            out += inner @ self.signs_[part]
        error = out / np.sqrt(len(W)) - y
        moved = W - self.start_
        gradient = self.beta * moved
        pull = (weights * error / np.sqrt(len(W)))[:, None] * X
        for part, on in zip(unit_slices(len(W)), active, strict=True):
            gradient[part] += self.signs_[part, None] * (on.T.astype(float) @ pull)
        value = 0.5 * float(weights @ error**2) + 0.5 * self.beta * float(np.vdot(moved, moved))
        return value, gradient


def _merged(X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Equal rows as one, with their weights added up and the mean of their labels.

    That changes the objective by a constant only.
    """
    repeats = Repeats(X)
    total = repeats.gathered(weights)
    mean = repeats.gathered(weights * y) / np.where(total > 0, total, 1.0)
    return repeats.points, mean, total


def unit_slices(k: int) -> list[slice]:
    """The hidden units, some at a time."""
    return [slice(start, start + _UNITS) for start in range(0, k, _UNITS)]


def _flat(value_and_gradient: tuple[float, Array]) -> tuple[float, Array]:
    return value_and_gradient[0], value_and_gradient[1].ravel()

r"""torch modules as estimators of scikit-learn's kind; torch itself is imported when one is fitted.

They minimise, in float64 and over all rows at once,

.. math:: Σ_i ω_i ℓ(y_i, f_θ(x_i)) + \frac{l2}{2} ‖θ‖²,

``θ`` being *every* trainable parameter of the module, biases too (frozen ones and buffers stay as
they are). A training with the *mean* of the losses and ``weight_decay=λ`` in torch's sense is that
with ``l2 = n λ``.
"""

from __future__ import annotations

import copy
import sys
import warnings
from typing import Any, Self

import numpy as np
from scipy import optimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError

#: losses by name
NAMED = ("logistic", "squared")


def is_module(fitted: Any) -> bool:
    """Whether something is a torch module; torch is looked up, never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(fitted, torch.nn.Module)


def torch_network() -> Any:
    """What works on modules, which needs torch."""
    try:
        from holdfast.estimators import torch_network as found
    except ImportError as missing:
        raise HoldfastError("this needs PyTorch: pip install 'holdfast[torch]'") from missing
    return found


class _TorchEstimator(BaseEstimator):
    """What classifiers and regressors share."""

    module: Any
    loss: Any
    l2: float
    max_iter: int
    tol: float
    warm_start: bool
    random_state: Any

    def _labels(self, y: Any) -> Array:
        labels: Array = np.asarray(y, dtype=np.float64)
        return labels

    def _checked(self) -> Any:
        """The parameters that a fit needs, refused where they make none."""
        if not is_module(self.module):
            raise HoldfastError(
                f"module must be a torch.nn.Module, got {type(self.module).__name__}"
            )
        if not (callable(self.loss) or self.loss in NAMED):
            raise HoldfastError(
                "loss must be 'logistic', 'squared' or a function of scores and labels (float64 "
                f"tensors) that gives one loss per row, got {self.loss!r}"
            )
        number = isinstance(self.l2, int | float | np.number) and not isinstance(self.l2, bool)
        if not number or not np.isfinite(self.l2) or self.l2 < 0:
            raise HoldfastError(f"l2 must be a finite number from 0, got {self.l2!r}")
        return torch_network()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train by L-BFGS on all rows, from new parameters or (``warm_start``) the fitted ones."""
        torch_side = self._checked()
        X, y = validate_data(self, X, y, dtype=np.float64)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        labels = self._labels(y)
        if not (self.warm_start and hasattr(self, "module_")):
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.module_ = torch_side.started_anew(self.module, seed)
        network = self.network(X)
        loss = self.loss if callable(self.loss) else torch_side.LOSSES[self.loss]
        torch_side.refuse_strange_losses(loss, network.scores(network.fitted, X), labels)
        objective = network.objective(loss, X, labels, weights)
        network.refuse_strange_gradients(objective(network.fitted)[1])
        found = optimize.minimize(
            objective,
            network.fitted,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iter,
                "maxfun": 2 * self.max_iter,
                "ftol": 0.0,
                "gtol": self.tol * float(weights.sum()),
                "maxcor": 30,
            },
        )
        if found.nit >= self.max_iter:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before "
                "reaching tol; raise max_iter or l2",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.module_ = network.module(found.x)
        self.n_iter_ = int(found.nit)
        return self

    def network(self, X: Array) -> Any:
        """The fitted module as a differentiable network, tried on some rows."""
        advice = (
            "Train it on with the same loss summed over rows and l2/2 times the squares of all "
            "parameters added (weight_decay = l2/n beside a mean), until the gradient vanishes"
        )
        if hasattr(self, "n_iter_"):
            advice = (
                f"{type(self).__name__} stopped after {self.n_iter_} iterations; raise max_iter"
            )
        return torch_network().TorchNetwork(
            self.module_, self.l2, X, type(self.module_).__name__, advice
        )

    def with_module(self, module: Any, n_features: int) -> Self:
        """A fitted copy that holds this module as it is."""
        made = copy.copy(self)
        made.module_, made.n_features_in_ = module, n_features
        return made

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        network = self.network(X)
        return network.scores(network.fitted, X)


class TorchRegressor(RegressorMixin, _TorchEstimator):
    """A torch module fitted to numbers, or under a loss of your own, by L-BFGS.

    Parameters
    ----------
    module : torch.nn.Module
        Maps (n, d) to (n,) or (n, 1). It is the pattern of the network and is never changed: a fit
        starts from a copy whose parts have drawn new parameters (``reset_parameters``).
    loss : {"squared"} or callable
        ``½ (f − y)²``, or a function of scores and labels (float64 tensors of shape (n,)) that
        gives one loss per row, twice differentiable in the score.
    l2 : float, default=0.0
        ``l2/2`` times the squares of all trainable parameters is added to the sum of losses.
    max_iter : int, default=2000
        L-BFGS iterations at most.
    tol : float, default=1e-7
        Stop where no entry of the gradient is above this share of the rows' weights.
    warm_start : bool, default=False
        Go on from the fitted parameters instead of from new ones.
    random_state : int, RandomState instance or None, default=0
        What new parameters are drawn by.

    Attributes
    ----------
    module_ : torch.nn.Module
        The fitted copy, in float64.
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np, torch, holdfast as hf
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    >>> model = hf.erasable(hf.TorchRegressor(net, l2=1.0).fit(X, X[:, 0]), X, X[:, 0])
    >>> predicted = model.deletions(X[:4]).effect([7])
    >>> refitted = model.scores(X[:4]) - model.without([7]).scores(X[:4])
    >>> bool(np.corrcoef(predicted, refitted)[0, 1] > 0.99)
    True
    """

    def __init__(
        self,
        module: Any,
        loss: Any = "squared",
        l2: float = 0.0,
        max_iter: int = 2000,
        tol: float = 1e-7,
        warm_start: bool = False,
        random_state: Any = 0,
    ):
        self.module = module
        self.loss = loss
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    def predict(self, X: Any) -> Array:
        """The module's output."""
        return self._scores(X)


class TorchClassifier(ClassifierMixin, _TorchEstimator):
    """A torch module whose output is the log-odds of the second class, fitted by L-BFGS.

    Parameters
    ----------
    module, l2, max_iter, tol, warm_start, random_state
        As for :class:`TorchRegressor`; the loss is logistic.

    Attributes
    ----------
    module_ : torch.nn.Module
        The fitted copy, in float64.
    classes_ : ndarray of shape (2,)
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np, torch, holdfast as hf
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    >>> fitted = hf.TorchClassifier(net, l2=1.0).fit(X, y)
    >>> bool(fitted.score(X, y) > 0.9)
    True
    >>> hf.erasable(fitted, X, y)
    <ErasableModel TorchClassifier, n=50, jackknife>
    """

    loss = "logistic"

    def __init__(
        self,
        module: Any,
        l2: float = 0.0,
        max_iter: int = 2000,
        tol: float = 1e-7,
        warm_start: bool = False,
        random_state: Any = 0,
    ):
        self.module = module
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    def _labels(self, y: Any) -> Array:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise HoldfastError(
                f"{type(self).__name__} tells two classes apart, y has {len(self.classes_)}"
            )
        return codes.astype(np.float64)

    def decision_function(self, X: Any) -> Array:
        """The module's output: log-odds of ``classes_[1]``."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of both classes, (n, 2)."""
        p = expit(self._scores(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> Any:
        """The likelier class of every row."""
        return self.classes_[(self._scores(X) > 0).astype(int)]


def estimator_of(
    module: Any, X: Any, y: Any, loss: Any, l2: float | None, preprocessing: Any
) -> Any:
    """A module as the user fitted it, as an estimator, behind its preprocessing if there is one.

    A preprocessing that is fitted stays as it is: the module was trained behind it. One that is
    not is fitted on ``X``.
    """
    torch_network().refuse_unusable(module)
    module = copy.deepcopy(module)  # what the caller does with it later is no news to us
    made = _estimator(module, loss, 0.0 if l2 is None else l2)
    made._checked()
    front = None if preprocessing is None else _fitted_front(preprocessing, X, y)
    width = np.shape(X)[1] if front is None else front.transform(X[:1]).shape[1]
    made = made.with_module(module, int(width))
    if isinstance(made, TorchClassifier):
        _refuse_other_labels(y)
        made.classes_ = np.array([0, 1])
    return made if front is None else Pipeline([("preprocessing", front), ("network", made)])


def _estimator(module: Any, loss: Any, l2: float) -> Any:
    if loss is None:
        raise HoldfastError(
            "loss is missing: 'logistic' for labels 0 and 1 (the module gives log-odds), 'squared' "
            "for numbers, or a function of scores and labels that gives one loss per row"
        )
    if isinstance(loss, str) and loss == "logistic":
        return TorchClassifier(module, l2)
    return TorchRegressor(module, loss, l2)


def _refuse_other_labels(y: Any) -> None:
    labels = np.asarray(y).ravel()
    other = [label for label in labels.tolist() if label not in (0, 1)]
    if other:
        raise HoldfastError(
            f"loss='logistic' takes labels 0 and 1 (numbers or booleans), y has {other[0]!r} "
            f"({len(other)} of {labels.size} labels are neither): pass (y == the class the module "
            "gives log-odds of).astype(int)"
        )


def _fitted_front(preprocessing: Any, X: Any, y: Any) -> Any:
    if not hasattr(preprocessing, "transform") or not hasattr(preprocessing, "fit"):
        raise HoldfastError(
            "preprocessing must be a scikit-learn transformer (fit, transform), got "
            f"{type(preprocessing).__name__}"
        )
    try:
        check_is_fitted(preprocessing)
    except NotFittedError:
        try:
            return clone(preprocessing).fit(X, y)
        except (ValueError, TypeError) as refusal:
            raise HoldfastError(
                f"the preprocessing ({type(preprocessing).__name__}) cannot be fitted on X: "
                f"{refusal}"
            ) from refusal
    return preprocessing

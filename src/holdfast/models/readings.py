"""What estimators with a linear score minimise, read off their parameters.

One function per kind of estimator gives a :class:`Reading`: the loss, the penalty, what depends on
how many rows there are, and where the fit stopped.
:class:`~holdfast.models.smooth.SmoothLinearCore` does the rest for all of them. To add one, write
such a function and a line in :data:`READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.class_weight import compute_class_weight

from holdfast.algebra.rows import Array
from holdfast.estimators.from_statsmodels import (
    LOGARITHMIC,
    StatsmodelsClassifier,
    StatsmodelsRegressor,
)
from holdfast.models.core import Training
from holdfast.models.losses import (
    LOSSES,
    Gamma,
    Huber,
    Loss,
    ModifiedHuber,
    SquaredEpsilon,
    SquaredHinge,
    Tweedie,
)

#: parameters that an estimator without a choice takes otherwise
ALSO_CHOSEN = ("C", "alpha", "penalty", "precompute")


@dataclass(frozen=True)
class Reading:
    """The training problem of a linear score: ``Σ ω_i ℓ(z_i, y_i) + ½ ridge ‖w‖² + lasso ‖w‖₁``.

    Attributes
    ----------
    estimator : the fitted estimator
    loss : Loss
    coefficients, constant
        Where the fit stopped, in the estimator's own orientation.
    intercept : bool
    scale : float
        What multiplies every row's weight.
    ridge, lasso : float
    intercept_penalty : float
    average : {"", "weights", "rows"}
        Whether the loss is an average, over weights or over rows: then the penalties above are per
        unit of them, and change when rows go.
    balanced : {"", "weights", "rows"}
        Whether class weights are worked out from the weights, or the rows, that there are.
    class_weight : dict or None
        Class weights that stay.
    signed : bool
        Whether labels of a classifier are −1 and 1 to the loss.
    link : callable
        A label as a score.
    draws : bool
    kinks : str
        Where the loss is not twice differentiable.
    """

    estimator: Any = field(repr=False)
    loss: Loss
    coefficients: Array = field(repr=False)
    constant: float
    intercept: bool
    scale: float = 1.0
    ridge: float = 0.0
    lasso: float = 0.0
    intercept_penalty: float = 0.0
    average: Literal["", "weights", "rows"] = ""
    balanced: Literal["", "weights", "rows"] = ""
    class_weight: dict[Any, float] | None = None
    signed: bool = False
    link: Callable[[float], float] = float
    draws: bool = False
    kinks: str = ""
    #: scores beyond this, without a penalty, mean that there is no optimum
    endless: float = np.inf

    @classmethod
    def of(cls, estimator: Any) -> Reading:
        """The reading of a fitted estimator."""
        return READINGS[type(estimator)](estimator)

    @property
    def name(self) -> str:
        """The estimator's class."""
        return type(self.estimator).__name__

    @property
    def advice(self) -> str:
        """What to do about a fit that stopped early."""
        told = self.estimator.get_params()
        said = ", ".join(f"{k}={told[k]!r}" for k in ("solver", "tol", "max_iter") if k in told)
        rounds = getattr(self.estimator, "n_iter_", None)
        after = "" if rounds is None else f" after {int(np.max(rounds))} iterations"
        return (
            f"{self.name}({said}) stopped{after}; scale the features, lower tol or raise max_iter"
        )

    @property
    def certified(self) -> bool:
        """Whether what lies beyond one Newton step can be bounded."""
        return self.loss.bounded and not self.lasso and not self.draws

    @property
    def uncertified(self) -> str:
        """Why there is no certificate."""
        if self.certified:
            return ""
        if self.lasso:
            return "an L1 penalty chooses its features anew"
        if self.draws:
            return "its fit is drawn at random"
        return "its loss has kinks, at which curvatures jump: nothing bounds how they change"

    @property
    def kept(self) -> Any:
        """An estimator with the penalty as it was chosen, not fitted."""
        told, kinds = self.estimator.get_params(), {LassoCV: Lasso, ElasticNetCV: ElasticNet}
        kinds[LogisticRegressionCV] = LogisticRegression
        kind = kinds.get(type(self.estimator))
        if kind is None:
            return clone(self.estimator)
        made = kind()
        shared = {k: v for k, v in told.items() if k in made.get_params() and k != "l1_ratio"}
        made.set_params(**{k: v for k, v in shared.items() if k not in ALSO_CHOSEN})
        if kind is LogisticRegression:
            ratio = self.lasso / max(self.lasso + self.ridge, 1e-300)
            return made.set_params(C=1.0 / (self.lasso + self.ridge), l1_ratio=ratio)
        made.set_params(alpha=self.lasso + self.ridge)
        if kind is ElasticNet:
            made.set_params(l1_ratio=self.lasso / max(self.lasso + self.ridge, 1e-300))
        return made

    @property
    def chooses(self) -> Literal["", "dearly"]:
        """Whether a refit chooses a penalty again, by cross-validation."""
        return "dearly" if self.name.endswith("CV") else ""

    def active(self, sign: int) -> Any:
        """Which features have a part: all, or with an L1 penalty those not 0."""
        some = np.asarray(self.coefficients != 0.0)
        return some if self.lasso else np.ones(some.size, dtype=bool)

    def labels(self, data: Training) -> Array:
        """The labels as the loss takes them."""
        if data.rows.classes is not None:
            return 2.0 * data.y - 1.0 if self.signed else data.y
        return data.sign * data.y if self.loss.one_sided else data.y

    def labels_back(self, data: Training) -> Any:
        """The labels as the estimator takes them."""
        if data.rows.classes is not None:
            return np.asarray(self.estimator.classes_)[data.rows.classes]
        return data.sign * data.y

    def by_class(self, data: Training) -> Array:
        """What class weights that stay multiply every row's weight by."""
        if self.class_weight is None or data.rows.classes is None:
            return np.ones(len(data.y))
        by = compute_class_weight(
            self.class_weight, classes=self.estimator.classes_, y=self.labels_back(data)
        )
        found: Array = by[data.rows.classes]
        return found

    def on(self, features: int) -> Reading:
        """The same for a table with another number of features."""
        if features == self.coefficients.size:
            return self
        return replace(self, coefficients=np.zeros(features))


def balanced(classes: Any, weights: Array) -> Array:
    """Weights that make two classes count the same, as scikit-learn balances them."""
    sizes = np.array([weights[classes == c].sum() for c in (0, 1)])
    found: Array = weights.sum() / (2.0 * np.maximum(sizes, 1e-300))[classes]
    return found


def _ends(estimator: Any) -> dict[str, Any]:
    """Where a fit stopped."""
    return {
        "estimator": estimator,
        "coefficients": np.ravel(estimator.coef_).astype(np.float64),
        "constant": float(np.ravel(getattr(estimator, "intercept_", 0.0))[0]),
        "intercept": bool(estimator.fit_intercept),
    }


def _classes(estimator: Any, counted: str = "weights") -> dict[str, Any]:
    given = estimator.class_weight
    return {
        "balanced": counted if given == "balanced" else "",
        "class_weight": given if isinstance(given, dict) else None,
    }


def _logistic(estimator: Any) -> Reading:
    chosen = np.ravel(getattr(estimator, "C_", estimator.C if hasattr(estimator, "C") else 1.0))
    strength = 1.0 / float(chosen[0])
    l1_ratio = _l1_ratio(estimator)
    scaling = float(getattr(estimator, "intercept_scaling", 1.0))
    liblinear = estimator.solver == "liblinear"
    return Reading(
        **_ends(estimator),
        **_classes(estimator),
        loss=LOSSES["logistic"],
        endless=1e3,
        ridge=strength * (1.0 - l1_ratio),
        lasso=strength * l1_ratio,
        intercept_penalty=strength / scaling**2 if liblinear and estimator.fit_intercept else 0.0,
    )


def _l1_ratio(estimator: Any) -> float:
    penalty = getattr(estimator, "penalty", "deprecated")
    if penalty == "l1":
        return 1.0
    if penalty == "l2":
        return 0.0
    ratio = getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", 0.0))
    ratio = np.ravel(np.array(ratio, dtype=object))[0]
    return 0.0 if ratio is None else float(ratio)


def _svc(estimator: Any) -> Reading:
    strength = 1.0 / float(estimator.C)
    return Reading(
        **_ends(estimator),
        **_classes(estimator),
        loss=SquaredHinge(),
        signed=True,
        ridge=strength,
        intercept_penalty=strength / float(estimator.intercept_scaling) ** 2,
        kinks="the curvature jumps at a margin of 1",
    )


def _svr(estimator: Any) -> Reading:
    strength = 1.0 / float(estimator.C)
    return Reading(
        **_ends(estimator),
        loss=SquaredEpsilon(float(estimator.epsilon)),
        ridge=strength,
        intercept_penalty=strength / float(estimator.intercept_scaling) ** 2,
        kinks="the curvature jumps at an error of epsilon",
    )


def _ridge_classifier(estimator: Any) -> Reading:
    return Reading(
        **_ends(estimator),
        **_classes(estimator, "rows"),
        loss=LOSSES["squared"],
        signed=True,
        ridge=float(estimator.alpha),
    )


def _glm(estimator: Any) -> Reading:
    power = {PoissonRegressor: 1.0, GammaRegressor: 2.0}.get(type(estimator))
    power = float(estimator.power) if power is None else power
    known: dict[float, Loss] = {0.0: LOSSES["squared"], 1.0: LOSSES["poisson"], 2.0: Gamma()}
    loss = known.get(power) or Tweedie(power)
    return Reading(
        **_ends(estimator),
        loss=loss,
        ridge=float(estimator.alpha),
        average="weights",
        link=float if power == 0.0 else _log,
        endless=500.0 if power > 0 else np.inf,
    )


def _log(label: float) -> float:
    return float(np.log(max(label, 1e-300)))


def _huber(estimator: Any) -> Reading:
    return Reading(
        **_ends(estimator),
        loss=Huber(float(estimator.epsilon), float(estimator.scale_)),
        ridge=2.0 * float(estimator.alpha),
        kinks="the curvature jumps at an error of epsilon scales",
    )


def _elastic(estimator: Any) -> Reading:
    chosen = isinstance(estimator, ElasticNetCV | LassoCV)
    alpha = float(estimator.alpha_ if chosen else estimator.alpha)
    ratio = 1.0
    if isinstance(estimator, ElasticNetCV):
        ratio = float(estimator.l1_ratio_)
    elif type(estimator) is ElasticNet:  # a Lasso is one too
        ratio = float(estimator.l1_ratio)
    return Reading(
        **_ends(estimator),
        loss=LOSSES["squared"],
        ridge=alpha * (1.0 - ratio),
        lasso=alpha * ratio,
        average="weights",
        kinks="features come and go: effects are those of the features there are, checked",
    )


def _sgd(estimator: Any) -> Reading:
    losses: dict[str, tuple[Loss, float, bool, str]] = {
        "log_loss": (LOSSES["logistic"], 1.0, False, ""),
        "squared_hinge": (SquaredHinge(), 1.0, True, "the curvature jumps at a margin of 1"),
        "modified_huber": (
            ModifiedHuber(),
            1.0,
            True,
            "the curvature jumps at margins of −1 and 1",
        ),
        "squared_error": (LOSSES["squared"], 1.0, True, ""),
        "huber": (
            Huber(float(estimator.epsilon), 1.0, fixed=True),
            0.5,
            True,
            "the curvature jumps at an error of epsilon",
        ),
        "squared_epsilon_insensitive": (
            SquaredEpsilon(float(estimator.epsilon)),
            1.0,
            True,
            "the curvature jumps at an error of epsilon",
        ),
    }
    loss, scale, signed, kinks = losses[estimator.loss]
    more = _classes(estimator, "rows") if hasattr(estimator, "class_weight") else {}
    return Reading(
        **_ends(estimator),
        **more,
        loss=loss,
        scale=scale,
        signed=signed,
        ridge=0.0 if estimator.penalty is None else float(estimator.alpha),
        endless=1e3 if hasattr(estimator, "classes_") else np.inf,
        average="rows",
        draws=True,
        kinks=kinks,
    )


def _statsmodels(estimator: Any) -> Reading:
    losses: dict[str, Loss] = {
        "logit": LOSSES["logistic"],
        "poisson": LOSSES["poisson"],
        "gamma": Gamma(),
        "ols": LOSSES["squared"],
    }
    return Reading(
        **_ends(estimator),
        loss=losses[estimator.kind],
        endless=np.inf if estimator.kind == "ols" else 1e3,
        link=_log if estimator.kind in LOGARITHMIC else float,
    )


#: what a fitted estimator minimises
READINGS: dict[type, Callable[[Any], Reading]] = {
    LogisticRegression: _logistic,
    LogisticRegressionCV: _logistic,
    LinearSVC: _svc,
    LinearSVR: _svr,
    RidgeClassifier: _ridge_classifier,
    PoissonRegressor: _glm,
    GammaRegressor: _glm,
    TweedieRegressor: _glm,
    HuberRegressor: _huber,
    ElasticNet: _elastic,
    ElasticNetCV: _elastic,
    Lasso: _elastic,
    LassoCV: _elastic,
    SGDClassifier: _sgd,
    SGDRegressor: _sgd,
    StatsmodelsClassifier: _statsmodels,
    StatsmodelsRegressor: _statsmodels,
}


def unsupported(estimator: Any) -> str | None:
    """Why an estimator of this family has no algebra, if so."""
    if getattr(estimator, "positive", False):
        return "positive=True makes it a constrained problem, which has no closed form"
    rules: list[tuple[tuple[type, ...], Callable[[Any], str | None]]] = [
        ((LogisticRegression, LogisticRegressionCV), _no_logistic),
        ((LinearSVC, LinearSVR), _no_svm),
        ((TweedieRegressor,), _no_tweedie),
        ((SGDClassifier, SGDRegressor), _no_sgd),
    ]
    for kinds, reason in rules:
        if type(estimator) in kinds:
            return reason(estimator)
    return None


def _no_logistic(estimator: Any) -> str | None:
    if estimator.solver == "liblinear" and _l1_ratio(estimator) > 0 and estimator.fit_intercept:
        return "solver='liblinear' has an L1 penalty on the intercept too (saga has not)"
    if getattr(estimator, "penalty", "deprecated") is None:
        return "penalty=None is not read here; C=np.inf means the same"
    if isinstance(estimator, LogisticRegressionCV) and not estimator.refit:
        return "refit=False averages the coefficients of several fits"
    return None


def _no_svm(estimator: Any) -> str | None:
    if getattr(estimator, "multi_class", "ovr") != "ovr":
        return "multi_class='crammer_singer' has a loss of its own"
    squared = ("squared_hinge", "squared_epsilon_insensitive")
    if estimator.loss not in squared or getattr(estimator, "penalty", "l2") != "l2":
        return f"loss={estimator.loss!r} is not smooth ({squared[0]}, {squared[1]} with L2 are)"
    return None


def _no_tweedie(estimator: Any) -> str | None:
    power, link = float(estimator.power), estimator.link
    if power == 0.0 and link in ("auto", "identity"):
        return None
    if not 1.0 <= power <= 2.0 or link == "identity":
        return f"power={power:g} with link={link!r} is not convex in the score (1 to 2, log, is)"
    return None


def _no_sgd(estimator: Any) -> str | None:
    smooth = (
        *("log_loss", "squared_hinge", "modified_huber", "squared_error"),
        *("huber", "squared_epsilon_insensitive"),
    )
    if estimator.loss not in smooth:
        return f"loss={estimator.loss!r} is not smooth ({', '.join(smooth)} are)"
    if estimator.penalty not in ("l2", None):
        return f"penalty={estimator.penalty!r} is not smooth (l2 is)"
    if estimator.average:
        return "average=True gives a mean of iterates, which is no optimum"
    return None

"""statsmodels' results as estimators: fitted, scored and refitted by statsmodels itself.

``hf.erasable(result, X, y)`` takes the result of an ``OLS``, ``Logit`` or ``GLM`` fit; ``X`` is its
``exog``, the constant included where there is one. The package is needed to refit only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from holdfast.errors import HoldfastError, UnsupportedModelError

#: kinds whose score is the logarithm of what they predict
LOGARITHMIC = ("poisson", "gamma")


class _Results(BaseEstimator):
    """What regressors and classifiers share."""

    kind: str
    #: the constant is a column of ``exog``, if it is there
    fit_intercept = False
    intercept_ = 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit by statsmodels."""
        exog, endog = np.asarray(X, dtype=float), self._endog(np.asarray(y))
        result = _fitted(self.kind, endog, exog, sample_weight)
        self.coef_ = np.asarray(result.params, dtype=float)
        self.n_features_in_ = exog.shape[1]
        return self

    def _endog(self, y: Any) -> Any:
        return y

    def _linear(self, X: Any) -> Any:
        check_is_fitted(self, "coef_")
        return np.asarray(X, dtype=float) @ self.coef_


class StatsmodelsRegressor(RegressorMixin, _Results):
    """Least squares, or a generalised linear model with a log link, fitted by statsmodels.

    Parameters
    ----------
    kind : {"ols", "poisson", "gamma"}
    """

    def __init__(self, kind: str = "ols"):
        self.kind = kind

    def predict(self, X: Any) -> Any:
        """The mean."""
        z = self._linear(X)
        return np.exp(z) if self.kind in LOGARITHMIC else z


class StatsmodelsClassifier(ClassifierMixin, _Results):
    """Logistic regression without a penalty, fitted by statsmodels.

    Parameters
    ----------
    kind : {"logit"}
    """

    def __init__(self, kind: str = "logit"):
        self.kind = kind

    def _endog(self, y: Any) -> Any:
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"two classes are needed, got {len(self.classes_)}")
        return codes

    def decision_function(self, X: Any) -> Any:
        """The log-odds of the second class."""
        return self._linear(X)

    def predict(self, X: Any) -> Any:
        """The likelier class."""
        return self.classes_[(self._linear(X) > 0).astype(int)]


def _fitted(kind: str, endog: Any, exog: Any, weights: Any) -> Any:
    import statsmodels.api as sm

    if kind == "ols":
        weights = np.ones(len(endog)) if weights is None else weights
        return sm.WLS(endog, exog, weights=weights).fit()
    families = {
        "logit": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    model = sm.GLM(endog, exog, family=families[kind], var_weights=weights)
    return model.fit(maxiter=200, tol=1e-12)


def is_result(fitted: Any) -> bool:
    """Whether something is a result of statsmodels."""
    return type(fitted).__module__.startswith("statsmodels.")


def of_result(result: Any, y: Any, weighted: bool) -> Any:
    """A result of statsmodels as a fitted estimator; ``weighted``: its weights are known.

    Raises
    ------
    UnsupportedModelError
        If it is of another kind than those above.
    """
    model = getattr(result, "model", None)
    if model is None and hasattr(result, "fit"):
        raise UnsupportedModelError("this model of statsmodels is not fitted: pass model.fit()")
    said = type(getattr(result, "_results", result)).__name__
    if "Regularized" in said or said.startswith("L1"):
        raise UnsupportedModelError("penalised results of statsmodels are not supported")
    kind = _kind(model)
    if kind is None:
        name = type(model if model is not None else result).__name__
        raise UnsupportedModelError(
            f"{name} of statsmodels is not supported: OLS, Logit, and GLM with a Binomial (logit), "
            "Poisson (log), Gamma (log) or Gaussian (identity) family are"
        )
    for what in ("offset", "exposure"):
        given = getattr(model, what, None)
        if given is not None and np.any(np.asarray(given) != 0):
            raise UnsupportedModelError(f"a model with an {what} is not supported")
    name = type(model).__name__
    for what in ("freq_weights", "var_weights") if name == "GLM" else ("weights",):
        given = getattr(model, what, None)
        if not weighted and given is not None and np.any(np.asarray(given) != 1):
            raise HoldfastError(f"this {name} was fitted with {what}: pass them as sample_weight=")
    made: Any = StatsmodelsClassifier() if kind == "logit" else StatsmodelsRegressor(kind)
    made.coef_ = np.asarray(result.params, dtype=float)
    made.n_features_in_ = made.coef_.size
    if kind == "logit":
        made.classes_ = np.unique(np.asarray(y))
    return made


def _kind(model: Any) -> str | None:
    name = type(model).__name__
    if name in ("OLS", "WLS"):
        return "ols"
    if name == "Logit":
        return "logit"
    if name == "Poisson":
        return "poisson"
    if name != "GLM":
        return None
    link = type(model.family.link).__name__.lower()
    known = {
        ("Binomial", "logit"): "logit",
        ("Poisson", "log"): "poisson",
        ("Gamma", "log"): "gamma",
        ("Gaussian", "identity"): "ols",
    }
    return known.get((type(model.family).__name__, link))

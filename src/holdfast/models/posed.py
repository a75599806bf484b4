"""What a model fitted by blocks minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.models.losses import Squared


@dataclass(frozen=True)
class Posed:
    """What is minimised: the loss of a linear score and a penalty.

    Attributes
    ----------
    estimator : scikit-learn estimator with the parameters of the fit
    loss : Loss
    strength : float
        Of the penalty, on everything but the intercept.
    classes : bool
    average : bool
        Whether the strength is in proportion to the rows there are.
    """

    estimator: Any
    loss: Any
    strength: float
    classes: bool
    average: bool = False

    @property
    def squared(self) -> bool:
        """Whether sums say all there is to say."""
        return isinstance(self.loss, Squared)

    def penalty(self, width: int, rows: int = 1) -> Array:
        """The diagonal of the penalty."""
        found = np.full(width, self.strength * (rows if self.average else 1.0))
        found[0] = 0.0
        return found


def as_if_fitted(estimator: Any, classes: bool) -> Any:
    """The estimator with parameters of no meaning, so that it can be read."""
    made = type(estimator)(**estimator.get_params())
    made.coef_, made.intercept_, made.n_features_in_ = np.zeros(1), 0.0, 1
    if classes:
        made.coef_, made.intercept_ = np.zeros((1, 1)), np.zeros(1)
        made.classes_, made.n_iter_ = np.array([0, 1]), np.array([1], dtype=np.int32)
    return made

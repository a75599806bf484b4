"""Cores of which some rows stand for many others, which are not in memory.

Those that stand for others come last. For squared loss they say of the others all there is to say;
for other losses what they are to second order around the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.algebra.design import features
from holdfast.algebra.rows import Array, Positions
from holdfast.models.core import Capabilities, Training
from holdfast.models.linear import LinearCore
from holdfast.models.losses import Loss
from holdfast.models.readings import Reading
from holdfast.models.smooth import SmoothLinearCore


@dataclass(frozen=True)
class Standing:
    """Rows ``a`` (s, p) and ``b`` (s,) of a least squares problem that stand for others.

    ``labels`` (s,) are of the classes those others have; ``None``: there are none.
    """

    a: Array
    b: Array
    labels: Array | None = None

    @classmethod
    def of(cls, triangle: Array, width: int, labels: Array | None = None) -> Standing:
        """From the triangle of ``[a, …, b]``: its first ``width`` columns, and its last."""
        return cls(triangle[:, :width], triangle[:, -1], labels)

    def __len__(self) -> int:
        return len(self.b)

    def beside(self, data: Training) -> Training:
        """Data with as many rows more at the end, whose features do not matter."""
        more, old = len(self), data.rows
        labels = np.zeros(more) if self.labels is None else self.labels
        weights = old.weights
        if old.classes is not None or weights is not None:  # nobody keeps a class alive for nobody
            there = np.ones(more) if self.labels is not None else np.zeros(more)
            weights = np.append(np.ones(old.n) if weights is None else weights, there)
        rows = replace(
            old,
            n=old.n + more,
            subjects=None if old.subjects is None else np.append(old.subjects, [None] * more),
            classes=None if old.classes is None else np.append(old.classes, labels.astype(np.intp)),
            weights=weights,
            standing=more,
        )
        return Training(
            np.vstack([data.X, np.zeros((more, data.X.shape[1]))]),
            np.append(data.y, labels),
            np.append(data.weights, np.ones(more)),
            rows,
            data.sign,
        )


class AnchoredLinear(LinearCore):
    """Least squares on some rows and on those that stand for the rest."""

    def __init__(self, estimator: Any, data: Training, standing: Standing, centre: Array | None):
        self._standing, self.centre = standing, centre
        super().__init__(estimator, standing.beside(data))

    def _posed(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        phi = features(X, self.centre).copy()
        phi[-len(self._standing) :] = self._standing.a
        return phi, np.append(y[: -len(self._standing)], self._standing.b)


class Mixed:
    """A loss of some rows, and squared loss of the last ones."""

    one_sided = False
    bounded = False

    def __init__(self, loss: Loss, standing: int):
        self.loss, self._standing, self.name = loss, standing, loss.name

    def adapted(self, z: Array, y: Array, weights: Array) -> Loss:
        return self

    def _both(self, own: Any, of_others: Any, z: Array, y: Array) -> Array:
        cut = len(z) - self._standing
        return np.concatenate([own(z[:cut], y[:cut]), of_others(z[cut:], y[cut:])])

    def values(self, z: Array, y: Array) -> Array:
        return self._both(self.loss.values, lambda z, y: 0.5 * (z - y) ** 2, z, y)

    def slopes(self, z: Array, y: Array) -> Array:
        return self._both(self.loss.slopes, lambda z, y: z - y, z, y)

    def curvatures(self, z: Array, y: Array) -> Array:
        return self._both(self.loss.curvatures, lambda z, y: np.ones(len(z)), z, y)

    def skews(self, z: Array, y: Array) -> Array:
        return self._both(self.loss.skews, lambda z, y: np.zeros(len(z)), z, y)

    def secants(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        """What stands for others is known at the optimum only."""
        return np.zeros_like(z), np.full_like(z, np.inf)

    def bends(self, z: Array, y: Array, moves: Array) -> tuple[Array, Array]:
        return np.full_like(z, -np.inf), np.full_like(z, np.inf)

    def whitened(self, z: Array, y: Array) -> tuple[Array, Array]:
        cut = len(z) - self._standing
        root, r = self.loss.whitened(z[:cut], y[:cut])
        ones = np.ones(self._standing)
        return np.concatenate([root, ones]), np.concatenate([r, y[cut:] - z[cut:]])


class AnchoredSmooth(SmoothLinearCore):
    """A smooth loss of some rows, and what it is to second order of the rest.

    Parameters
    ----------
    reading : Reading
        Where the fit on all rows stopped: its optimum.
    data : Training
        The rows that are looked at.
    standing : Standing
    averaged : int
        Of how many rows the loss is an average, to which the penalty is in proportion; 0: it is
        a sum.
    """

    def __init__(self, reading: Reading, data: Training, standing: Standing, averaged: int = 0):
        self._standing, self._averaged = standing, averaged
        if averaged:
            reading = replace(reading, average="", ridge=reading.ridge * averaged)
        super().__init__(reading, standing.beside(data))

    def posed_without(
        self, rows: Positions, factors: Array | None = None
    ) -> tuple[Array, Array, Array]:
        weights, penalty, linear = super().posed_without(rows, factors)
        if self._averaged and len(rows):
            penalty = penalty * (1.0 - len(rows) / self._averaged)
        return weights, penalty, linear

    def _beside(
        self, theta: Array, weights: Array, omega: Array | None = None
    ) -> tuple[Array, Array] | None:
        if not self._averaged:
            return None
        shares = np.full((self.rows.n, 1), -1.0 / self._averaged)
        shares[self.rows.own :] = 0.0
        return (self.penalty * theta)[:, None], shares

    def _pose(self, reading: Reading, data: Training) -> None:
        super()._pose(reading, data)
        more = len(self._standing)
        self.centre = np.zeros(data.X.shape[1]) if self.intercept else None
        self._phi = features(data.X, self.centre).copy()
        self._phi[-more:] = self._standing.a
        self._y = np.append(self._y[:-more], self._standing.b)
        self._base = self._weights = np.append(self._weights[:-more], np.ones(more))
        self._kind = Mixed(self._kind, more)

    def _on(self, data: Training, keep_centre: bool = True) -> SmoothLinearCore:
        return super()._on(data, keep_centre=False)  # it is 0

    @property
    def can(self) -> Capabilities:
        reading = self.reading
        plain = not (self._averaged or reading.balanced or reading.intercept_penalty)
        if reading.loss.name == "logistic" and plain and reading.certified:
            return replace(super().can, draws=False)
        why = "of tables read by blocks only plain logistic regression is certified beside ridge"
        why = reading.uncertified or why
        return replace(super().can, draws=False, certificate=None, uncertified=why)

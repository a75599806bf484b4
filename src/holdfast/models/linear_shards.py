r"""Shards whose scores are linear: all of them one matrix, and each one's refits many at a time.

A shard's fit is the optimum of a small problem. Without some of its rows it is another one, which
is solved outright, from the optimum with all rows, for many sets at once: no formula is
approximated. Preprocessing in front of it is fitted on the rows left as well
(:mod:`holdfast.models.plain_cells`). So what is said here of a deletion is what a refit leads to,
up to rounding, and what a shard says itself is worked out in the same way: *at its optimum*, as of
every linear model here, though scikit-learn's solver may have stopped a little before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.pipeline import Pipeline

from holdfast.algebra.rows import Array, Positions, TrainingRows
from holdfast.errors import HoldfastError
from holdfast.models.core import Training
from holdfast.models.drift import TOO_FAR, spread_of, warning_of
from holdfast.models.pipelines import flattened
from holdfast.models.plain_cells import Cells, Layout
from holdfast.shared_state import quiet

#: what a shard says, from its score
SAYS: dict[type, Callable[[Array], Array]] = {
    LogisticRegression: expit,
    LinearRegression: lambda score: score,
    Ridge: lambda score: score,
    PoissonRegressor: np.exp,
    GammaRegressor: np.exp,
}
#: numbers in the features of the sets that are solved at a time
AT_A_TIME = 1 << 22
#: training rows by which it is told how far fits are from their optima
_LOOKED_AT = 500
#: an optimum is found when a step moves no score by more than this share of the largest
_STANDSTILL = 1e-11
#: a step with an old Hessian is to be so much smaller than the one before
_SHRINKS = 0.6
#: steps with one Hessian, at most
_CHORDS = 60
#: a share of all rows, or less, that differ between problems
_FEW = 0.2
#: a direction less determined than this, beside the others, is scikit-learn's to choose
_OPEN = 1e-7
#: steps of Newton's method, at most
_STEPS = 100
#: the relative error that rounding leaves in what is found
ROUNDING = 1e-9

Maker = Callable[[Any, Any], tuple[Any, str | None]]


class LinearShards:
    """The shards of a fitted model, by their own algebra.

    Attributes
    ----------
    drift : float
        How far the fits' scores are from those at the optima, at most, in deviations.
    warning : str or None
        What to say of it.
    """

    @classmethod
    def of(cls, mean: Any, data: Training, core_of: Maker) -> LinearShards | None:
        """Those of a sharded model; ``None`` where refits have to say what deletions do."""
        try:
            with quiet:
                made = cls(mean, data, core_of)
                usable = bool(made._shards) and made._drifts() <= TOO_FAR
        except (HoldfastError, np.linalg.LinAlgError):
            return None
        return made if usable else None

    def __init__(self, mean: Any, data: Training, core_of: Maker, like: LinearShards | None = None):
        self.mean, self._data = mean, data
        self._core_of = core_of
        fits = [flattened(fit) for fit in mean.estimators_]
        told = [t for t, fit in enumerate(fits) if not isinstance(fit, float)]
        kinds = {type(_last(fits[t])) for t in told}
        if any(isinstance(fits[t], Pipeline) and type(fits[t]) is not Pipeline for t in told):
            raise HoldfastError("a pipeline of its own kind may say anything")
        if len(kinds) != 1 or not kinds <= SAYS.keys():
            raise HoldfastError("its shards have no algebra of their own")
        self._link = SAYS[kinds.pop()]
        table = data.X
        kinds_of = table.dtypes if isinstance(table, pd.DataFrame) else [table.dtype]
        if any(getattr(kind, "kind", "") == "f" and kind.itemsize < 8 for kind in kinds_of):
            raise HoldfastError("scikit-learn fits single precision in single precision")
        columns = list(table.columns) if isinstance(table, pd.DataFrame) else None
        if columns is not None and len(set(columns)) < len(columns):
            raise HoldfastError("columns of the same name")
        columns = list(range(table.shape[1])) if columns is None else columns
        layout = Layout.of([_before(fits[t]) for t in told], columns) if like is None else None
        layout = layout if like is None else like._layout
        cells = None if layout is None else layout.cells(table)
        if layout is None or cells is None:
            raise HoldfastError("its preprocessing is not plain")
        self._layout: Layout = layout
        self._cells: Cells = cells
        self._shards: dict[int, _Shard] = {}
        width = cells.matrix.shape[1]
        self._parameters = np.full((len(fits), width), np.nan)
        for t in told:
            known = None
            if like is not None and like.mean.estimators_[t] is mean.estimators_[t]:
                known = like._shards.get(t)
            rows = np.flatnonzero(mean.shard_of_ == t)
            found = self._shard(fits[t], rows) if known is None else known
            if found is not None:
                self._shards[t], self._parameters[t] = found, found.parameters

    def after(self, mean: Any, data: Training) -> LinearShards | None:
        """The same for a refit on some of the rows, whose shards are mostly those of this one."""
        try:
            with quiet:
                made = LinearShards(mean, data, self._core_of, like=self)
        except (HoldfastError, np.linalg.LinAlgError):
            return None
        made.drift, made.warning = self.drift, self.warning
        return made

    def _shard(self, fit: Any, rows: Positions) -> _Shard | None:
        """The problem of a shard with these rows; ``None`` where its own fit has to say."""
        fit = flattened(fit)
        y, weights = self._labels[rows], self._data.weights[rows]
        codes = (y == 1.0).astype(np.intp) if is_classifier(self.mean) else None
        bare = copy.copy(_last(fit))
        bare.__dict__.pop("feature_names_in_", None)
        core_of, _ = self._core_of(bare, None)
        cells = self._cells.of(rows)
        fitted = self._layout.fitted(cells, [np.zeros(0, dtype=np.intp)])
        live = np.flatnonzero(cells.texts.any(axis=0))
        Z = np.where(np.isnan(cells.values), fitted.fill, cells.values) * fitted.slope
        Z = np.hstack([Z, cells.texts[:, live]])
        if core_of is None or not np.isfinite(Z).all():
            return None
        own = TrainingRows(len(rows), None, codes, weights)
        try:
            core = core_of(_widened(bare, Z.shape[1]), Training(Z, y, weights, own, 1))
        except (HoldfastError, np.linalg.LinAlgError):
            return None
        if not core.can.solves or core.can.chooses or core.can.draws:
            return None
        if fitted.centred and not (core.intercept and not core.penalty[0]):
            return None  # nothing absorbs where columns are centred
        shard = _Shard(self._layout, cells, live, core)
        return shard if np.isfinite(shard.parameters[-1]) else None

    @cached_property
    def _labels(self) -> Array:
        """Labels as numbers, ``classes_[1]`` up."""
        labels = self._data.y
        if is_classifier(self.mean):
            return np.asarray(np.asarray(labels) == self.mean.classes_[1], dtype=float)
        return np.asarray(labels, dtype=float)

    def _drifts(self) -> float:
        """How far the mean's scores are from those of the fits as they came."""
        some = np.linspace(0, self.mean.membership_.shape[0] - 1, _LOOKED_AT).astype(np.intp)
        some = np.unique(some)
        X = (
            self._data.X.iloc[some]
            if isinstance(self._data.X, pd.DataFrame)
            else self._data.X[some]
        )
        found = self.outputs(X)
        if found is None:
            raise HoldfastError("its preprocessing is not plain")
        as_they_came = self.mean.parts(X)
        now, before = found.mean(axis=1), as_they_came.mean(axis=1)
        self.drift = float(np.abs(now - before).max()) / spread_of(now, self._labels)
        self.warning = warning_of(
            self.drift, "Scale the features inside the shards, lower tol or raise max_iter"
        )
        return self.drift

    # what shards say ----------------------------------------------------------------------------

    def matrix(self, X: Any) -> Array | None:
        """A table's cells; ``None`` where scikit-learn has to say what is wrong with it."""
        cells = self._layout.cells(X)
        return None if cells is None else cells.matrix

    def outputs(self, X: Any, some: Any = None) -> Array | None:
        """What shards say of every row, (q, parts); ``None`` as for :meth:`matrix`."""
        matrix = self.matrix(X)
        if matrix is None:
            return None
        chosen = np.arange(len(self.mean.estimators_)) if some is None else np.asarray(some)
        out = self._said(matrix, self._parameters[chosen])
        for place, t in enumerate(chosen.tolist()):
            if t not in self._shards:
                out[:, place] = self.mean.part_says(self.mean.estimators_[t], X)
        return None if np.isnan(out).any() else out

    def _said(self, matrix: Array, parameters: Array) -> Array:
        """What fits say, (q, fits), NaN where they cannot."""
        fine = np.isfinite(parameters)
        scores = matrix @ np.where(fine, parameters, 0.0).T
        odd = ~fine.all(axis=1)
        if odd.any():  # a gap nobody fills, a text nobody knows: only for who has them
            scores[:, odd] += np.where((matrix != 0) @ (~fine[odd]).T, np.nan, 0.0)
        with np.errstate(over="ignore"):
            said = self._link(scores)
        found: Array = np.clip(said, *self.mean.part_range_)
        return found

    def without(self, matrix: Array, t: int, sets: Sequence[Positions]) -> Array:
        """What a shard says without each set of its rows, (sets, q), NaN where a refit has to say.

        Parameters
        ----------
        matrix : what :meth:`matrix` makes of the points
        t : the shard
        sets : positions of training rows, all in that shard
        """
        out = np.full((len(sets), len(matrix)), np.nan)
        shard = self._shards.get(t)
        rows = np.flatnonzero(self.mean.shard_of_ == t)
        labels, solved = np.asarray(self._data.y)[rows], []
        counts = self._data.weights[rows] != 0
        places = [np.searchsorted(rows, np.asarray(gone)) for gone in sets]
        for place, gone in enumerate(places):
            left = np.delete(labels, gone)
            left = left if np.delete(counts, gone).any() else left[:0]  # nobody who counts
            constant = self.mean._constant(left)
            if constant is not None:
                out[place] = constant
            elif shard is not None:
                solved.append(place)
        if shard is not None and solved:
            with quiet:
                found = shard.without([places[place] for place in solved])
            out[solved] = self._said(matrix, found).T
        return out

    def refitted(self, fit: Any, rows: Positions, X: Any) -> Array:
        """What a fit on some rows of a shard says, as it is said of the others, (q,)."""
        matrix = self.matrix(X)
        shard = None if isinstance(fit, float) or matrix is None else self._shard(fit, rows)
        if shard is not None and matrix is not None:
            said = self._said(matrix, shard.parameters[None])[:, 0]
            if not np.isnan(said).any():
                return said
        found: Array = self.mean.part_says(fit, X)
        return found


def _last(fit: Any) -> Any:
    return fit.steps[-1][1] if isinstance(fit, Pipeline) else fit


def _before(fit: Any) -> Any:
    return fit[:-1] if isinstance(fit, Pipeline) and len(fit.steps) > 1 else None


def _widened(estimator: Any, width: int) -> Any:
    """A fit as one of so many features: what it minimises is asked of it, not what it found."""
    estimator.n_features_in_ = width
    if is_classifier(estimator):
        estimator.coef_, estimator.intercept_ = np.zeros((1, width)), np.zeros(1)
    else:
        estimator.coef_, estimator.intercept_ = np.zeros(width), 0.0
    return estimator


class _Shard:
    r"""The problem of one shard, in units of its own that no deletion changes.

    With ``x`` in these units the score is ``wᵀx + b``, and what a deletion changes beside the row
    that goes is what gaps are filled with, and the scaler's slopes ``a``: a penalty on the weights
    behind it is one of :math:`R w^2 / a^2` here.

    Parameters
    ----------
    layout, cells : what its table is to its pipeline
    live : positions of the texts that some row has
    core : what it minimises, of a linear score in the features
    """

    def __init__(self, layout: Layout, cells: Cells, live: Positions, core: Any):
        self._layout, self._cells, self._live, self._core = layout, cells, live, core
        values, self._first = cells.values, int(core.intercept)
        self._gaps = np.isnan(values)
        nobody = [np.zeros(0, dtype=np.intp)]
        self._fill = np.nan_to_num(layout.fitted(cells, nobody).fill[0])
        filled = np.where(self._gaps, self._fill, values)
        free = core.intercept and not core.penalty[0]
        self._centre = filled.mean(axis=0) * free
        deviation = filled.std(axis=0)
        self._unit = np.where(deviation > 0, deviation, 1.0)
        n, k = values.shape
        ones, texts = np.ones((n, self._first)), cells.texts[:, live]
        self._phi = np.hstack([ones, (filled - self._centre) / self._unit, texts])
        self._numbers = slice(self._first, self._first + k)
        self._start = np.zeros(self._phi.shape[1])
        self.parameters, self._start = (found[0] for found in self._solved(nobody))

    def without(self, sets: Sequence[Positions]) -> Array:
        """Weights of cells without each set of rows, (sets, cells), NaN where it cannot say."""
        step = max(1, AT_A_TIME // self._phi.size)
        runs = [sets[k : k + step] for k in range(0, len(sets), step)]
        return np.concatenate([self._solved(run)[0] for run in runs])

    def _solved(self, sets: Sequence[Positions]) -> tuple[Array, Array]:
        """The same of a few sets, and the parameters that lead to them."""
        core, (n, p) = self._core, self._phi.shape
        weights, penalty = np.zeros((len(sets), n)), np.ones((len(sets), p))
        fine = np.ones(len(sets), dtype=bool)
        for place, gone in enumerate(sets):
            try:
                weights[place], penalty[place] = core.posed_without(gone)[:2]
            except HoldfastError:  # there is no optimum without them
                fine[place] = False
        fitted = self._layout.fitted(self._cells, sets)
        fine &= np.isfinite(fitted.slope).all(axis=1) & fitted.told
        unfilled = np.isnan(fitted.fill)
        fine &= ~(unfilled & self._gaps.any(axis=0)).any(axis=1)
        slope = np.where(np.isfinite(fitted.slope), fitted.slope, 1.0) * self._unit
        penalty[:, self._numbers] /= slope**2
        fill = np.where(unfilled, self._fill, fitted.fill)
        moved = np.zeros((len(sets), p))
        moved[:, self._numbers] = (fill - self._fill) / self._unit
        gaps = np.zeros((n, p))
        gaps[:, self._numbers] = self._gaps
        problems = Problems(self._phi, gaps, moved, core.labels, weights, penalty, core.kind, sets)
        theta = problems.optima(self._start)
        theta[~fine] = np.nan
        numbers = theta[:, self._numbers] / self._unit
        constant = theta[:, : self._first].sum(axis=1) - numbers @ self._centre
        texts = np.where(fitted.knows, 0.0, np.nan)
        texts[:, self._live] += theta[:, self._numbers.stop :]
        # a number without a weight may be missing; else a gap that is not filled has no score
        missing = np.where(unfilled, np.nan, numbers * fill)
        return np.hstack([numbers, missing, texts, constant[:, None]]), theta


@dataclass(frozen=True)
class Problems:
    r"""Problems that differ little: ``Σ_i ω_i ℓ(φ_iθ, y_i) + ½ Σ_j R_j θ_j²`` each.

    Attributes
    ----------
    phi : ndarray of shape (n, p)
        Features of all of them,
    gaps, moved : ndarrays of shape (n, p) and (sets, p)
        to which a problem adds what it has moved by, where there are gaps.
    y : ndarray of shape (n,)
    weights, penalty : ndarrays of shape (sets, n) and (sets, p)
    loss : Loss
    gone : sequence of positions
        The rows that each is without.
    """

    phi: Array
    gaps: Array
    moved: Array
    y: Array
    weights: Array
    penalty: Array
    loss: Any
    gone: Sequence[Positions]

    def optima(self, start: Array) -> Array:
        """Their optima, (sets, p), NaN where a problem leaves a direction open.

        By steps with one Hessian each while they shrink fast, all at once; else by Newton's method.
        """
        found = self._chords(start)
        for k in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
            phi = self.phi + self.gaps * self.moved[k]
            found[k] = optimum(phi, self.y, self.weights[k], self.penalty[k], self.loss, start)
        return found

    def _chords(self, start: Array) -> Array:
        """Those that one Hessian leads to, gaps taken for unmoved in it."""
        phi, y, loss, weights, penalty = self.phi, self.y, self.loss, self.weights, self.penalty
        moved, has_gaps = self.moved, self.gaps.any() and self.moved.any()
        found, left = np.full(penalty.shape, np.nan), np.arange(len(penalty))
        theta, before = np.tile(start, (len(penalty), 1)), np.full(len(penalty), np.inf)
        inverse = self._inverses(phi @ start)
        for _ in range(_CHORDS):
            z = theta @ phi.T
            if has_gaps:
                z += (theta * moved) @ self.gaps.T
            slopes = weights * loss.slopes(z, y)
            gradient = slopes @ phi + penalty * theta
            if has_gaps:
                gradient += moved * (slopes @ self.gaps)
            step = -(inverse @ gradient[:, :, None])[:, :, 0]
            largest = np.abs(step @ phi.T).max(axis=1)
            still = largest <= _STANDSTILL * (1.0 + np.abs(z).max(axis=1))
            found[left[still]] = theta[still] + step[still]
            going = ~still & (largest <= _SHRINKS * before)  # NaN is neither
            if not going.any():
                break
            theta = theta + step
            if not going.all():
                left, theta, weights, penalty, moved, inverse = (
                    each[going] for each in (left, theta, weights, penalty, moved, inverse)
                )
            before = largest[going]
        return found

    def _inverses(self, z: Array) -> Array:
        """The inverse Hessians at these scores, NaN where a direction is open."""
        phi, curvatures = self.phi, self.weights * self.loss.curvatures(z, self.y)
        most = curvatures.max(axis=0)
        hessian = np.tile((phi.T * most) @ phi, (len(curvatures), 1, 1))
        less = most - curvatures
        if np.count_nonzero(less) <= _FEW * less.size:
            for place, rows in enumerate(self.gone):
                hessian[place] -= (phi[rows].T * less[place, rows]) @ phi[rows]
        else:
            hessian -= (phi.T * less[:, None, :]) @ phi
        np.einsum("spp->sp", hessian)[...] += self.penalty
        return inverses(hessian)


def inverses(hessians: Array) -> Array:
    """The inverses of symmetric matrices, NaN where a direction is open; written over."""
    diagonal = np.einsum("spp->sp", hessians).copy()
    unit = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    hessians *= unit[:, :, None] * unit[:, None, :]
    broken = ~np.isfinite(hessians).all(axis=(1, 2))
    hessians[broken] = np.eye(hessians.shape[1])
    try:
        found = np.linalg.inv(hessians)
    except np.linalg.LinAlgError:
        open_ = np.linalg.eigvalsh(hessians)[:, 0] <= _OPEN
        broken |= open_
        hessians[open_] = np.eye(hessians.shape[1])
        found = np.linalg.inv(hessians)
    # no eigenvalue is smaller than one over this norm
    broken |= ~(np.sqrt(np.einsum("spq,spq->s", found, found)) < 1.0 / _OPEN)
    found[broken] = np.nan
    scaled: Array = found * unit[:, :, None] * unit[:, None, :]
    return scaled


def optimum(phi: Array, y: Array, weights: Array, penalty: Array, loss: Any, start: Array) -> Array:
    """The optimum of one problem by Newton's method with halved steps, (p,)."""

    def objective(at: Array, scores: Array) -> float:
        with np.errstate(all="ignore"):
            return float(weights @ loss.values(scores, y) + 0.5 * (penalty * at) @ at)

    theta, z = start, phi @ start
    for _ in range(_STEPS):
        gradient = phi.T @ (weights * loss.slopes(z, y)) + penalty * theta
        root = np.sqrt(weights * loss.curvatures(z, y))[:, None] * phi
        step = -inverses((root.T @ root + np.diag(penalty))[None])[0] @ gradient
        along = phi @ step
        if np.abs(along).max() <= _STANDSTILL * (1.0 + np.abs(z).max()):
            found: Array = theta + step
            return found
        length, value = 1.0, objective(theta, z)
        while not objective(theta + length * step, z + length * along) <= value + 1e-12 * abs(
            value
        ):
            length /= 2.0
            if length < 1e-12:
                return np.full(len(start), np.nan)
        theta, z = theta + length * step, z + length * along
    return np.full(len(start), np.nan)

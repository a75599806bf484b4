r"""A linear score under a smooth loss: one Newton step, or the infinitesimal jackknife.

The score is :math:`z = φᵀθ`: for logistic regression the log-odds. At the optimum of
:math:`Σ ω_i ℓ(z_i, y_i) + ½ θᵀ R θ + λᵀθ` the gradient vanishes, so without the rows ``S`` it is
:math:`−Σ_S ω_i ℓ'_i φ_i`, and one Newton step with the *remaining* rows' Hessian lowers a score by
:math:`C_{:S} P_{SS}^{-1} r_S` with :math:`v = ω ℓ''`, :math:`H = ΦᵀVΦ + R`,

.. math:: C = Φ̌ H^{-1} Φᵀ V^{1/2}, \quad P = I − V^{1/2} Φ H^{-1} Φᵀ V^{1/2},
          \quad r = −ω ℓ' / \sqrt{v};

for logistic regression :math:`v = ω p (1 − p)` and :math:`r = ω (y − p)/\sqrt{v}`. ``λ`` is an L1
penalty on the active set, its signs kept: inactive features have no part in ``Φ``.

Some problems change with the number of rows left: a loss that is an average has a penalty in
proportion to it, :math:`(1 − ω_S/ω)(R, λ)`; balanced class weights re-weight every row of a class.
To first order that adds :math:`−\tfrac{ω_i}{ω} x̌H^{-1}(Rθ + λ)`, or
:math:`Σ_c Δ_c(i)\, x̌H^{-1} g_c` with :math:`g_c` the gradient of a class, for every row that goes
(``Deletions.also``).

Keeping the full Hessian instead (:math:`P = I`) is the infinitesimal jackknife. Both assume an
optimum, so the fitted parameters are polished by Newton's method first. The effect of one given
deletion is read off after a second step from there, which costs one pass over the data.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from holdfast.algebra.deletions import Also, LowRankDeletions
from holdfast.algebra.design import Design, LinearScores, centre_of, features, functional_features
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions
from holdfast.errors import HoldfastError
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.drift import drift_between, gradient_share, judge
from holdfast.models.expansion import FEW, LEFT_OUT, LITTLE, MANY, Expansion
from holdfast.models.losses import Loss, Turned
from holdfast.models.readings import Reading, balanced
from holdfast.shared_state import quiet

#: an optimum is found when a step moves no score by more than this share of the largest
_STANDSTILL = 1e-11

#: steps with one and the same Hessian, at most
_CHORDS = 30

#: how many times as far from its optimum a fit by random rows may stop
NOISE = 20.0

#: steps after the first by which an effect is read off
_CLOSER = 15

#: and how small the last of them is, beside all of them
_CLOSE = 1e-5


#: a last step larger than this share of all of them says that they do not converge
_FAR_OFF = 2e-4

#: looks at all rows that are worth their time where sums alone do not do
_LOOKS = 4


class SmoothLinearCore(LinearScores, Core):
    """A linear score under a smooth loss and a penalty.

    Parameters
    ----------
    reading : Reading
        What the estimator minimises, and where it stopped.
    data : Training
    """

    def __init__(self, reading: Reading, data: Training):
        self.reading = reading
        self._pose(reading, data)
        fitted = self._fitted(reading, data)
        self.loss = self._kind.adapted(self._phi @ fitted, self._y, self._weights)
        self.theta = self._optimum(fitted, self._weights)
        z = self._phi @ self.theta
        self.drift = drift_between(self._phi @ fitted, z, self._y)
        errors = -self._weights * self.loss.slopes(self._phi @ fitted, self._y)
        self.gradient_share = gradient_share(
            self._phi.T @ errors - self.penalty * fitted - self.linear,
            np.abs(errors) * np.linalg.norm(self._phi, axis=1),
        )

        if reading.lasso and self._leaves_the_active_set(
            np.zeros(self.design.rank), (self._weights, self.penalty, self.linear), slack=0.05
        ):  # a feature left out wants to come in: no optimum of these data
            self.drift, self.gradient_share = max(self.drift, 1.0), 1.0

    def _pose(self, reading: Reading, data: Training) -> None:
        """The training problem: features, labels, weights, penalties."""
        self.rows, self.intercept = data.rows, reading.intercept
        self._X, self._given = data.X, data
        self.centre = centre_of(data.X, data.weights, reading.intercept)
        if reading.intercept and reading.intercept_penalty:  # it must stay where it is penalised
            self.centre = np.zeros(data.X.shape[1])
        first = int(self.intercept)
        phi = features(data.X, self.centre)
        self.active = np.ones(phi.shape[1], dtype=bool)
        self.active[first:] = reading.active(data.sign)
        self._phi = phi if self.active.all() else phi * self.active
        turned = reading.loss.one_sided and data.sign < 0
        self._kind: Loss = Turned(reading.loss) if turned else reading.loss
        self._y = reading.labels(data)
        self._base = reading.scale * data.weights * reading.by_class(data)
        self._weights = self._base
        if reading.balanced:
            self._weights = self._base * balanced(self.classes, self.counted(reading.balanced))
        total = self._total(np.zeros(0, dtype=np.intp))
        self.strength = reading.ridge * (total if reading.average else 1.0)
        self.penalty = np.full(phi.shape[1], self.strength)
        self.linear = np.zeros(phi.shape[1])
        self.linear[first:] = data.sign * np.sign(reading.coefficients) * reading.lasso
        self._lasso = reading.lasso
        if reading.average:
            self.linear *= total
            self._lasso *= total
        if self.intercept:
            self.penalty[0] = reading.intercept_penalty
        self.penalty[~self.active] = 1.0  # nothing moves there

    def _fitted(self, reading: Reading, data: Training) -> Array:
        fitted = data.sign * reading.coefficients
        if self.centre is None:
            return fitted
        shifted = data.sign * reading.constant + fitted @ self.centre
        return np.concatenate([[shifted], fitted])

    #: the longest whitened row of all, where some are not here
    longest: float = np.inf

    #: the loss's own rounding: the optimum is known to about this
    _rounding = 1e-9

    @property
    def can(self) -> Capabilities:
        reading = self.reading
        return Capabilities(
            predictions=("newton", "jackknife"),
            # without a penalty an optimum need not be unique: the estimator chooses one
            solves=self.strength > 0 and not reading.lasso and not reading.draws,
            certificate="newton" if reading.certified else None,
            uncertified=reading.uncertified,
            refit="cheap",
            draws=reading.draws,
            chooses=reading.chooses,
            form="smooth",
            linear=True,
            rounding=self._rounding,
        )

    @property
    def penalised(self) -> bool:
        """Whether the units of features matter: there is a penalty."""
        return self.strength > 0 or bool(np.any(self.linear))

    def label_score(self, label: float) -> float:
        return self.reading.link(label)

    @property
    def classes(self) -> Any:
        """Which class each row is of."""
        return (self._given.y > 0).astype(int)

    def _total(self, gone: Positions) -> float:
        """What an average divides by, without some rows."""
        counts = self.counted(self.reading.average)
        return float(counts.sum() - counts[gone].sum())

    def posed_without(
        self, rows: Positions, factors: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Weights and penalties of the problem without some rows, scales re-weighted."""
        self._refuse_without_counts(rows)
        weights, penalty, linear = self._weights.copy(), self.penalty, self.linear
        if self.reading.balanced:
            left = self.counted(self.reading.balanced).copy()
            left[rows] = 0.0
            weights = self._base * balanced(self.classes, left)
        weights[rows] = 0.0
        if self.reading.average:
            share = self._total(rows) / self._total(rows[:0])
            penalty, linear = penalty * share, linear * share
            if self.intercept:
                penalty[0] = self.penalty[0]
        if factors is not None and np.any(factors != 1.0):
            penalty = penalty.copy()
            penalty[int(self.intercept) :] *= factors
        return weights, penalty, linear

    @property
    def kind(self) -> Loss:
        """The loss, before it is adapted to any errors."""
        return self._kind

    @property
    def labels(self) -> Array:
        """Labels as the loss takes them."""
        return self._y

    def _refuse_without_counts(self, rows: Positions) -> None:
        """A log-mean falls without end once all that is left to count is 0."""
        if self.reading.loss.name not in ("poisson", "tweedie"):
            return
        if not np.any(self._counting[rows]) or np.sum(self._counting[rows]) < self._counting.sum():
            return
        raise HoldfastError(
            f"without {len(rows)} rows every label of this {self.reading.name} is 0: there is no "
            "optimum, its scores fall without end"
        )

    @cached_property
    def _counting(self) -> Any:
        """Rows whose labels keep a log-mean up."""
        return (self._given.y != 0) & (self._weights > 0)

    def _optimum(
        self,
        theta: Array,
        weights: Array,
        penalty: Array | None = None,
        linear: Array | None = None,
    ) -> Array:
        """Newton's method with halved steps, until the scores stand still."""
        with np.errstate(all="ignore"):  # exponentials may overflow on the way
            return self._descended(theta, weights, penalty, linear)

    def _descended(
        self, theta: Array, weights: Array, penalty: Array | None, linear: Array | None
    ) -> Array:
        phi, y = self._phi, self._y
        penalty = self.penalty if penalty is None else penalty
        linear = self.linear if linear is None else linear

        def objective(at: Array, scores: Array) -> float:
            values = loss.values(scores, y)
            return float(weights @ values + 0.5 * (penalty * at) @ at + linear @ at)

        z = phi @ theta
        for _ in range(200):
            loss = self._kind.adapted(z, y, weights)
            value = objective(theta, z)
            gradient = -phi.T @ (weights * loss.slopes(z, y)) - penalty * theta - linear
            hessian = self._hessian(loss, z, weights, penalty)
            if not np.all(np.isfinite(hessian)) or not np.all(np.isfinite(gradient)):
                break
            step = _scaled_solve(hessian, gradient)
            along = phi @ step
            if np.max(np.abs(along)) <= _STANDSTILL * (1.0 + np.max(np.abs(z))):
                return theta + step
            length, rounding = 1.0, 1e-12 * abs(value)
            while not (objective(theta + length * step, z + length * along) <= value + rounding):
                length /= 2.0
                if length < 1e-12:
                    return theta
            theta, z = theta + length * step, z + length * along
            if not self.penalised and float(np.max(np.abs(z))) > self.reading.endless:
                break
        why = "its scores grow without bound; fit it with a penalty"
        if self._given.rows.classes is not None:
            why = (
                "without a penalty, classes that can be separated perfectly have none. Fit it with "
                "a smaller C"
            )
        raise HoldfastError(f"no optimum of this {self.reading.name} was found: {why}")

    def _hessian(self, loss: Any, z: Array, weights: Array, penalty: Array) -> Array:
        """``ΦᵀVΦ + R`` at scores ``z``; as a square, of which BLAS makes half and mirrors it."""
        root = np.sqrt(weights * loss.curvatures(z, self._y))[:, None] * self._phi
        hessian: Array = root.T @ root
        hessian[np.diag_indices_from(hessian)] += penalty
        return hessian

    def _linearised(
        self, theta: Array, weights: Array, penalty: Array | None = None
    ) -> tuple[Design, Array]:
        """The whitened design at ``theta``, and ``r``, written so that tiny ``v`` do no harm."""
        z = self._phi @ theta
        loss = self._kind.adapted(z, self._y, weights)
        root, residuals = loss.whitened(z, self._y)
        penalty = self.penalty if penalty is None else penalty
        outer = np.sqrt(weights)
        weighted = (outer * root)[:, None] * self._phi
        return Design(weighted, penalty, self.intercept), outer * residuals

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
            also=self._also(queries),
        )

    def _also(self, queries: Array) -> Also | None:
        """What a row that goes changes beside its own term: averages, balanced classes."""
        parts = self._beside(self.theta, self._weights)
        if parts is None:
            return None
        return Also(queries @ (self.design.T.T @ parts[0]), parts[1])

    def _beside(
        self, theta: Array, weights: Array, omega: Array | None = None
    ) -> tuple[Array, Array] | None:
        """Directions (p, m) and shares (n, m) of what changes in the gradient when a row goes.

        With ``omega``, when a little of it goes at these weights.
        """
        reading, directions, shares = self.reading, [], []
        if reading.average:
            pull = self.penalty * theta + self.linear
            pull[: int(self.intercept)] = 0.0
            pull[~self.active] = 0.0
            each = self.counted(reading.average)
            directions.append(pull[:, None])
            shares.append(-each[:, None] / each.sum())
        if reading.balanced:
            each = self.counted(reading.balanced)
            slopes = weights * self._kind.slopes(self._phi @ theta, self._y)
            members = np.stack([self.classes == c for c in (0, 1)], axis=1).astype(float)
            own = each[:, None] * members
            sizes = (each if omega is None else each * omega) @ members
            directions.append((self._phi * slopes[:, None]).T @ members)
            # a class's weight is in proportion to all there are over its own
            fewer, all_ = each[:, None] / sizes.sum(), own / sizes
            if omega is None:
                changes = (1.0 + own / np.maximum(sizes - own, 1e-300)) * (1.0 - fewer) - 1.0
            else:
                changes = all_ - fewer
            shares.append(changes)
        if self._kind.name == "huber" and (found := self._scale_moves(theta, weights)) is not None:
            directions.append(found[0])
            shares.append(found[1])
        return (np.hstack(directions), np.hstack(shares)) if shares else None

    def _scale_moves(self, theta: Array, weights: Array) -> tuple[Array, Array] | None:
        """How an estimated scale follows a row that goes, and the weights follow the scale.

        The scale is one more parameter: the Newton step for both, by its Schur complement.
        """
        z = self._phi @ theta
        loss: Any = self._kind.adapted(z, self._y, weights)
        if loss.fixed:
            return None
        u = (z - self._y) / loss.scale
        near = np.abs(u) <= loss.epsilon
        bent = self._phi.T @ (weights * np.where(near, -2.0 * u / loss.scale, 0.0))
        design, _ = self._linearised(theta, weights)
        along = design.T.T @ bent
        own = float(weights @ np.where(near, 2.0 * u**2 / loss.scale, 0.0)) - float(along @ along)
        each = self._weights
        by_weights = (design.whiten(self._phi) @ along) * each * loss.slopes(z, self._y)
        moves = (each * (1.0 - np.minimum(u**2, loss.epsilon**2)) - by_weights) / max(own, 1e-300)
        return bent[:, None], moves[:, None]

    def counted(self, what: str) -> Array:
        """What an average, or a balance, counts of every row."""
        return np.ones(len(self._y)) if what == "rows" else self._given.weights

    def _closer(self, change: Array, rows: Positions) -> Array:
        """Three more steps from where the first one led, in whitened coordinates.

        Each costs one look at the data; together they are as good as one step with the Hessian
        worked out again.
        """
        posed = self.posed_without(rows)
        if (near := self._nearly(change, rows, posed)) is not None:
            return near
        found, moved = change, np.inf
        for closer in itertools.islice(self._chords(change, rows, posed), _CLOSER):
            moved, found = float(np.linalg.norm(closer - found)), closer
            if moved <= _CLOSE * float(np.linalg.norm(found)):
                break
        if not moved <= _FAR_OFF * float(np.linalg.norm(found)):  # too far for one Hessian
            found = self.design.coordinates(self.theta - self._optimum(self.theta, *posed))
        if self.reading.lasso and self._leaves_the_active_set(found, posed):
            estimator = self._estimator_without(rows)
            reading = type(self.reading).of(estimator)
            theta = self._fitted(reading, self._given)
            return self.design.coordinates(self.theta - theta)
        return found

    def _estimator_without(self, rows: Positions) -> Any:
        """The estimator itself, fitted closely without some rows."""
        keep = np.delete(np.arange(self.rows.n), rows)
        fresh = self.reading.kept
        exact = {"tol": min(1e-8, float(fresh.get_params().get("tol", 1e-8))), "max_iter": 100_000}
        fresh.set_params(**exact)
        weights = self._given.weights[keep]
        extra = {} if np.all(weights == 1.0) else {"sample_weight": weights}
        with quiet:
            return fresh.fit(self._X[keep], self.reading.labels_back(self._given)[keep], **extra)

    def _leaves_the_active_set(
        self, change: Array, posed: tuple[Array, Array, Array], slack: float = 1e-9
    ) -> bool:
        """Whether an active weight changes its sign there, or an inactive one wants to move."""
        weights, _, linear = posed
        theta = self.theta - self.design.parameters(change)
        moved = np.sign(theta) != np.sign(self.theta)
        first = int(self.intercept)
        if np.any(moved[first:] & self.active[first:]):
            return True
        phi = features(self._X, self.centre)
        slopes = weights * self.loss.slopes(phi @ (theta * self.active), self._y)
        pull = np.abs(phi.T @ slopes)[first:]
        left = float(np.abs(linear).sum() / (np.abs(self.linear).sum() or 1.0)) or 1.0
        bound = self._lasso * left
        return bool(np.any(pull[~self.active[first:]] > bound * (1.0 + slack)))

    def _chords(
        self, change: Array, rows: Positions, posed: tuple[Array, Array, Array]
    ) -> Iterator[Array]:
        """Steps towards the optimum without some rows, in whitened coordinates.

        Newton's method with one Hessian for all steps: that of the remaining rows at the old
        optimum, ``I − U_SᵀU_S``, whose inverse costs next to nothing.
        """
        weights, penalty, linear = posed
        solve = self._remaining(rows, penalty)
        while True:
            theta = self.theta - self.design.parameters(change)
            z = self._phi @ theta
            loss = self._kind.adapted(z, self._y, weights)
            with np.errstate(all="ignore"):
                slopes = self._phi.T @ (weights * loss.slopes(z, self._y))
            change = change + solve(self.design.T.T @ (slopes + penalty * theta + linear))
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

    @cached_property
    def _expansion(self) -> Expansion | None:
        """Sums by which a few rows of many can go without a look at the others."""
        reading = self.reading
        if self.rows.n <= MANY or self.design.rank > FEW or reading.kinks or reading.lasso:
            return None
        rows, z = self.design.whiten(self._phi), self._phi @ self.theta
        groups = self.classes if reading.balanced else np.zeros(len(z), dtype=np.intp)
        return Expansion(rows, z, self._y, self._weights, self.loss, groups)

    def _nearly(
        self, change: Array, rows: Positions, posed: tuple[Array, Array, Array]
    ) -> Array | None:
        """The optimum without a few rows of many, in whitened coordinates; else ``None``.

        By steps with one Hessian as in :meth:`_chords`, each from sums made once.
        """
        expansion = self._expansion
        if expansion is None:
            return None
        _, penalty, linear = posed
        factors, solve = self._class_factors(rows, posed), self._remaining(rows, penalty)
        for _ in range(_CHORDS):
            if expansion.left_out(change) > LEFT_OUT:
                return None
            theta = self.theta - self.design.parameters(change)
            slopes = expansion.gradient(change, factors, rows)
            step = solve(slopes + self.design.T.T @ (penalty * theta + linear))
            change = change + step
            if np.linalg.norm(step) <= _CLOSE**2 * np.linalg.norm(change) + _STANDSTILL:
                return self._seen_through(change, rows, posed)
        return None

    def _seen_through(
        self, change: Array, rows: Positions, posed: tuple[Array, Array, Array]
    ) -> Array | None:
        """What sums say, where they may leave out too much checked with a look at all rows."""
        assert self._expansion is not None
        if self._expansion.left_out(change) <= LITTLE:
            return change
        for closer in itertools.islice(self._chords(change, rows, posed), _LOOKS):
            moved, change = float(np.linalg.norm(closer - change)), closer
            if moved <= _FAR_OFF * float(np.linalg.norm(change)):
                return change
        return None

    def _class_factors(self, rows: Positions, posed: tuple[Array, Array, Array]) -> Array:
        """What the weights of either class are multiplied by when some rows go."""
        if not self.reading.balanced:
            return np.ones(1)
        stays = self._weights > 0
        stays[rows] = False
        some = [int(np.argmax(stays & (self.classes == c))) for c in (0, 1)]
        return np.asarray(posed[0][some] / self._weights[some])

    def nearby(
        self, queries: Array, rows: Positions, some: Positions, factors: Array | None = None
    ) -> tuple[Array, Array, Array] | None:
        """``W``, ``U`` and ``r`` of some rows at the optimum without others; else ``None``.

        Parameters
        ----------
        queries : ndarray of shape (q, p)
            ``W`` of the problem with all rows.
        rows : those that are gone
        some : those that are asked about
        factors : what the penalty of each feature is multiplied by
        """
        posed = self.posed_without(rows, factors)
        change = self._nearly(np.zeros(self.design.rank), rows, posed)
        if change is None or self._expansion is None:
            return None
        by_class, T = self._class_factors(rows, posed), self.design.T
        hessian = self._expansion.hessian(change, by_class, rows) + (T.T * posed[1]) @ T
        root = linalg.cholesky(hessian, lower=True)
        U, residuals = self._expansion.whitened(change, by_class, some)
        W, U = (linalg.solve_triangular(root, part.T, lower=True).T for part in (queries, U))
        return W, U, residuals

    # the same problem without some rows, or on other data -------------------------------------

    def optimum_without(self, rows: Positions, factors: Array | None = None) -> Array:
        """The parameters of the fit without some rows, found from those with them.

        By steps with one Hessian while each is a good deal smaller than the last (few rows of many
        hardly change it), else by Newton's method. ``factors`` re-weight the penalties.
        """
        posed = self.posed_without(rows, factors)
        try:
            start = np.zeros(self.design.rank)
            if posed[1] is self.penalty:
                U = self.design.U[rows]
                start = U.T @ np.linalg.solve(np.eye(len(rows)) - U @ U.T, self.residuals[rows])
            if (near := self._nearly(start, rows, posed)) is not None:
                start = near
            before, moved = start, np.inf
            for change in itertools.islice(self._chords(start, rows, posed), _CHORDS):
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
        return self._optimum(self.theta, *posed)

    @cached_property
    def _largest_score(self) -> float:
        return float(np.max(np.abs(self._phi @ self.theta)))

    def scores_at(self, theta: Array, X: Array) -> Array:
        """The scores of ``X`` by the parameters ``theta``."""
        scores: Array = features(X, self.centre) @ theta
        return scores

    def scores_without(
        self,
        X: Array,
        sets: Sequence[Positions],
        factors: Array | None = None,
        nearly: bool = False,
    ) -> Array:
        each = [None] * len(sets) if factors is None else list(factors)
        find = self._near_optimum if nearly else self.optimum_without
        optima = [find(r, f) for r, f in zip(sets, each, strict=True)]
        return np.stack([self.scores_at(theta, X) for theta in optima])

    def _near_optimum(self, rows: Positions, factors: Array | None = None) -> Array:
        """:meth:`optimum_without`, of many rows to within what :class:`Expansion` leaves out."""
        start = np.zeros(self.design.rank)
        near = self._nearly(start, rows, self.posed_without(rows, factors))
        if near is None:
            return self.optimum_without(rows, factors)
        optimum: Array = self.theta - self.design.parameters(near)
        return optimum

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        phi = features(X, self.centre)
        known: dict[tuple[int, ...], Array] = {}
        out = np.empty(len(sets))
        for j, gone in enumerate(sets):
            key = tuple(sorted(gone.tolist()))
            if key not in known:
                try:
                    known[key] = self.optimum_without(gone)
                except HoldfastError:  # there is none: the estimator itself may say more
                    known[key] = np.full(phi.shape[1], np.nan)
            out[j] = phi[j] @ known[key]
        return out

    def without(self, rows: Positions) -> SmoothLinearCore:
        keep = np.delete(np.arange(self.rows.n), rows)
        fresh = self._on(self._only(keep))
        fresh.theta = self.optimum_without(rows)
        fresh.loss = self._kind.adapted(fresh._phi @ fresh.theta, fresh._y, fresh._weights)
        return fresh

    def solved_on(self, data: Training) -> SmoothLinearCore:
        fresh = self._on(data, keep_centre=False)
        first = int(self.intercept)
        start = np.zeros(fresh._phi.shape[1])
        if len(start) == len(self.theta):  # much the same problem, in much the same units
            start[first:] = self.theta[first:]
        fresh.theta = fresh._optimum(start, fresh._weights)
        fresh.loss = self._kind.adapted(fresh._phi @ fresh.theta, fresh._y, fresh._weights)
        return fresh

    def _only(self, keep: Positions) -> Training:
        given = self._given
        return Training(
            given.X[keep], given.y[keep], given.weights[keep], given.rows.only(keep), given.sign
        )

    def _on(self, data: Training, keep_centre: bool = True) -> SmoothLinearCore:
        """The same problem on other data, not solved yet."""
        fresh = copy.copy(self)
        for known in ("_at_optimum", "_largest_score", "_expansion", "_counting"):
            fresh.__dict__.pop(known, None)
        fresh._pose(self.reading.on(data.X.shape[1]), data)
        if keep_centre and self.centre is not None:  # parameters are those of this centre
            fresh.centre = self.centre
            phi = features(data.X, self.centre)
            fresh._phi = phi if fresh.active.all() else phi * fresh.active
        return fresh

    def verify(self, fitted: Array, again: Array) -> str | None:
        """The drift to the optimum tells whether these are the data of the fit."""
        reading, noise = self.reading, NOISE if self.reading.draws else 1.0
        return judge(self.drift, self.gradient_share, reading.name, reading.advice, noise)

    def reweighted(self, omega: Array) -> Reweighted:
        r"""The optimum for other weights: ``∂f/∂ω_i = −φ̌ H(ω)⁻¹ φ_i ℓ'_i``."""
        reading = self.reading
        each, penalty, linear = self._weights, self.penalty, self.linear
        if reading.balanced:
            counted = self.counted(reading.balanced) * omega
            each = self._base * balanced(self.classes, counted)
        weights = each * omega
        if reading.average:
            counts = self.counted(reading.average)
            share = float(counts @ omega / counts.sum())
            penalty, linear = penalty * share, linear * share
        theta = self._optimum(self.theta, weights, penalty, linear)
        design, _ = self._linearised(theta, weights, penalty)
        z = self._phi @ theta
        residuals = -each * self._kind.adapted(z, self._y, weights).slopes(z, self._y)
        train = design.whiten(self._phi)
        more = np.zeros((len(omega), 0)), np.zeros((0, design.rank))  # beside a row's own term
        if (parts := self._beside(theta, weights, omega)) is not None:
            more = parts[1], (design.T.T @ parts[0]).T

        def whiten(X: Array) -> Array:
            return design.whiten(features(X, self.centre))

        def pullback(X: Array, v: Array) -> Array:
            along = whiten(X).T @ v
            return np.asarray(residuals * (train @ along) + more[0] @ (more[1] @ along))

        return Reweighted(
            scores=lambda X: features(X, self.centre) @ theta,
            pullback=pullback,
            derivatives=lambda X: (
                (whiten(X) @ train.T) * residuals + (whiten(X) @ more[1].T) @ more[0].T
            ),
        )


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

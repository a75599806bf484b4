r"""Provably cheapest recourse for trees, forests and boosting, by integer programming.

What a number does to an ensemble of trees changes only at the thresholds of its nodes, so a number
is one choice among the intervals between them, each with a nearest allowed value and what that
costs; a category is a choice anyhow. With one leaf of every tree, reached only through intervals
and categories that lead there,

.. math:: \min Σ_k Σ_i c_{ki} s_{ki} \quad \text{s.t.} \quad Σ_i s_{ki} = 1, \;
          Σ_ℓ l_{tℓ} = 1, \; l_{tℓ} ≤ Σ_{i ∈ I_{kℓ}} s_{ki}, \; Σ v_{tℓ} l_{tℓ} ≥ \text{goal},

is solved by HiGHS to optimality, or shown to have no solution: then there is no recourse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import expit
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from holdfast.algebra.rows import Array
from holdfast.errors import UnsupportedModelError
from holdfast.models.pipelines import final_step
from holdfast.recourse.problem import Problem

#: leaves of all trees together, at most
MOST_LEAVES = 4000

#: for every feature: more than this, at most that, and whether it may be missing
Box = dict[int, tuple[float, float, bool]]


@dataclass(frozen=True)
class Ensemble:
    """Trees whose leaves' values add up.

    Attributes
    ----------
    trees : of each tree its leaves: value, and the box that leads there
    needed : the sum that a score takes
    single : whether features are looked at in single precision
    """

    trees: list[list[tuple[float, Box]]]
    needed: Callable[[float], float]
    single: bool = True


def ensemble_of(estimator: Any, sign: int) -> Ensemble | None:
    """The trees of an estimator; ``None`` where it has none that are read."""
    forests = (RandomForestClassifier, ExtraTreesClassifier)
    if isinstance(estimator, DecisionTreeClassifier | DecisionTreeRegressor):
        return _forest([estimator], isinstance(estimator, DecisionTreeClassifier), sign)
    if isinstance(estimator, (*forests, RandomForestRegressor, ExtraTreesRegressor)):
        return _forest(list(estimator.estimators_), isinstance(estimator, forests), sign)
    if isinstance(estimator, GradientBoostingClassifier | GradientBoostingRegressor):
        rate = float(estimator.learning_rate)
        trees = [_leaves(one.tree_, rate * sign) for one in estimator.estimators_.ravel()]
        some = np.random.default_rng(0).normal(size=(4, estimator.n_features_in_)) * 100.0
        start = np.ravel(estimator._raw_predict_init(some.astype(np.float32)))
        if np.ptp(start) > 0:
            return None  # it starts from a model of its own
        first = float(start[0])
        return Ensemble(trees, lambda score: score - sign * first)
    if isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        if getattr(estimator, "_preprocessor", None) is not None:
            return None  # categories of its own
        trees = [_histogram_leaves(one[0].nodes, sign) for one in estimator._predictors]
        first = float(np.ravel(estimator._baseline_prediction)[0])
        return Ensemble(trees, lambda score: score - sign * first, single=False)
    return None


def _forest(trees: list[Any], classes: bool, sign: int) -> Ensemble:
    many, column = len(trees), 1 if sign > 0 else 0
    if not classes:
        leaves = [_leaves(one.tree_, sign / many) for one in trees]
        return Ensemble(leaves, lambda score: score)
    leaves = [_leaves(one.tree_, 1.0 / many, column) for one in trees]
    return Ensemble(leaves, lambda score: float(expit(score)))


def _leaves(tree: Any, scale: float, column: int | None = None) -> list[tuple[float, Box]]:
    values = tree.value[:, 0, :]
    if column is not None:
        values = values / values.sum(axis=1, keepdims=True)
    found: list[tuple[float, Box]] = []
    left: list[tuple[int, Box]] = [(0, {})]
    while left:
        node, box = left.pop()
        if tree.children_left[node] < 0:
            found.append((scale * float(values[node, column or 0]), box))
            continue
        split = int(tree.feature[node]), float(tree.threshold[node])
        boxes = _halves(box, *split, bool(tree.missing_go_to_left[node]))
        children = int(tree.children_left[node]), int(tree.children_right[node])
        left.extend(zip(children, boxes, strict=True))
    return found


def _halves(box: Box, f: int, t: float, missing_left: bool) -> tuple[Box, Box]:
    """What leads to the left and to the right of a node."""
    low, high, missing = box.get(f, (-np.inf, np.inf, True))
    return (
        {**box, f: (low, min(high, t), missing and missing_left)},
        {**box, f: (max(low, t), high, missing and not missing_left)},
    )


def _histogram_leaves(nodes: Any, sign: int) -> list[tuple[float, Box]]:
    found: list[tuple[float, Box]] = []
    left: list[tuple[int, Box]] = [(0, {})]
    while left:
        place, box = left.pop()
        node = nodes[place]
        if node["is_leaf"]:
            found.append((sign * float(node["value"]), box))
            continue
        split = int(node["feature_idx"]), float(node["num_threshold"])
        boxes = _halves(box, *split, bool(node["missing_go_to_left"]))
        left.extend(zip((int(node["left"]), int(node["right"])), boxes, strict=True))
    return found


class TreeProgram:
    """The programs of people with one model; refused where features are not read off columns."""

    def __init__(self, problem: Problem):
        model = problem.model
        ensemble = ensemble_of(final_step(model.estimator), model.sign)
        if ensemble is None:
            raise UnsupportedModelError(
                "method='actionable' needs a score that is linear in the columns, or trees of "
                "scikit-learn (forests, boosting without categories of its own). For this model "
                "use 'scfe' or 'growing-spheres'"
            )
        leaves = sum(map(len, ensemble.trees))
        if leaves > MOST_LEAVES:
            raise UnsupportedModelError(
                f"method='actionable' takes trees of up to {MOST_LEAVES:,} leaves together, and "
                f"this model has {leaves:,}. Use 'growing-spheres'"
            )
        if problem.space.links:
            raise UnsupportedModelError("method='actionable' takes no links for trees")
        self.ensemble = ensemble
        front = model.estimator[:-1] if isinstance(model.estimator, Pipeline) else None
        self._front = None if front is None or not len(front.steps) else front
        self._read_off(problem)

    def _features(self, table: pd.DataFrame, problem: Problem) -> Array:
        queries = problem.model.queries(table)
        made = queries if self._front is None else self._front.transform(queries)
        made = made.toarray() if hasattr(made, "toarray") else made
        return np.asarray(made, dtype=float)

    def _read_off(self, problem: Problem) -> None:
        """Which coordinate every feature comes from, and how: found out by trying."""
        one, space = problem.take(np.zeros(1, dtype=np.intp)), problem.space
        #: feature → coordinate, slope, offset; or the coordinate of its categories
        self.numbers: dict[int, tuple[int, float, float]] = {}
        self.choices: dict[int, int] = {}
        rng = np.random.default_rng(0)
        for k, c in enumerate(space.coordinates):
            many = 5 if c.categories is None else len(c.categories)
            tried = one.take(np.zeros(many, dtype=np.intp))
            tried.kept[:, k] = False
            Z = np.repeat(one.factual, many, axis=0)
            if c.categories is None:
                Z[:, k] = c.spread * rng.normal(size=many) * 3.0 + one.factual[0, k]
            else:
                Z[:, k] = np.arange(many)
            F = self._features(tried.table(Z), problem)
            for j in np.flatnonzero(np.ptp(F, axis=0) > 0).tolist():
                if j in self.numbers or j in self.choices:
                    raise self._refused()
                if c.categories is not None:
                    self.choices[j] = k
                    continue
                slope, offset = np.polyfit(Z[:, k], F[:, j], 1)
                away = np.abs(slope * Z[:, k] + offset - F[:, j])
                if away.max() > 1e-6 * (1.0 + np.abs(F[:, j]).max()):
                    raise self._refused()
                self.numbers[j] = k, float(slope), float(offset)
        self._try(problem, rng)

    def _try(self, problem: Problem, rng: np.random.Generator) -> None:
        """Whether features come from one column each when several change at once."""
        space, q = problem.space, len(problem)
        some = problem.take(rng.integers(q, size=32))
        moved = np.where(space.number, 3.0 * space.spread * rng.normal(size=some.factual.shape), 0)
        Z = np.where(some.kept, some.factual, some.factual + moved)
        for k, c in enumerate(space.coordinates):
            if c.categories is not None:
                codes = rng.integers(len(c.categories), size=len(Z))
                Z[:, k] = np.where(some.kept[:, k], some.factual[:, k], codes)
        before, after = (self._features(some.table(at), problem) for at in (some.factual, Z))
        used = {j for tree in self.ensemble.trees for _, box in tree for j in box}
        for j in used:
            said = before[:, j]
            if j in self.numbers:
                k, slope, offset = self.numbers[j]
                said = np.where(some.kept[:, k], said, slope * Z[:, k] + offset)
            elif j in self.choices:
                k = self.choices[j]
                one = some.factual.copy()
                one[:, k] = Z[:, k]
                said = self._features(some.table(one), problem)[:, j]
            size = 1.0 + np.abs(np.nan_to_num(after[:, j]))
            same = np.isnan(said) & np.isnan(after[:, j])
            if not np.all(same | (np.abs(said - after[:, j]) <= 1e-6 * size)):
                raise self._refused()

    def _refused(self) -> UnsupportedModelError:
        return UnsupportedModelError(
            "method='actionable' reads trees whose features are single columns, scaled or one-hot; "
            "this pipeline makes others. Use 'growing-spheres'"
        )

    def cheapest(self, one: Problem, time_limit: float) -> tuple[Array, str]:
        """The cheapest point of one person, or their own; and what is to be said of it."""
        space, x = one.space, one.factual[0]
        values = [self._values(one, k) for k in range(len(space.coordinates))]
        prices = [_prices(one, k, points) for k, points in enumerate(values)]
        starts = np.concatenate([[0], np.cumsum([len(points) for points in values])])
        width = int(starts[-1])
        rows = self._constraints(one, values, starts)
        matrix, least, most = rows.matrix(), np.array(rows.least), np.array(rows.most)
        total = matrix.shape[1]
        price = np.concatenate(prices)
        cost, upper = np.zeros(total), np.ones(total)
        paid = price[np.isfinite(price) & (price > 0)]
        unit = float(np.median(paid)) if paid.size else 1.0  # costs near 1, whatever their unit
        cost[:width] = np.where(np.isfinite(price), price / unit, 0.0)
        upper[:width] = np.isfinite(price)
        solved = milp(
            cost,
            integrality=np.arange(total) < width,
            bounds=Bounds(np.zeros(total), upper),
            constraints=LinearConstraint(matrix, least, most),
            options={"mip_rel_gap": 0.0, "time_limit": time_limit},
        )
        late = solved.status == 1
        if solved.x is None:
            if late:
                return x, "undecided: out of time (time_limit)"
            return x, "infeasible: proven by the integer program, no allowed change reaches it"
        Z = x.copy()
        for k, points in enumerate(values):
            Z[k] = points[int(np.argmax(solved.x[starts[k] : starts[k + 1]]))]
        return Z, "not proven cheapest: out of time" if late else ""

    @cached_property
    def _cuts(self) -> dict[int, Array]:
        """Of every number the values on either side of where some tree changes its mind."""
        found: dict[int, set[float]] = {}
        for tree in self.ensemble.trees:
            for _, box in tree:
                for j, ends in box.items():
                    if j in self.numbers:
                        k, slope, offset = self.numbers[j]
                        beside = found.setdefault(k, set())
                        for end in ends[:2]:
                            if np.isfinite(end):
                                beside.update((f - offset) / slope for f in self._beside(end))
        return {k: np.array(sorted(beside)) for k, beside in found.items()}

    def _beside(self, threshold: float) -> tuple[float, float]:
        """A feature's values next to a threshold, on either side for certain."""
        if not self.ensemble.single:
            step = 4.0 * float(np.spacing(max(abs(threshold), 1e-300)))
            return threshold - step, threshold + step
        near = np.float32(threshold)
        step = 2.0 * float(np.spacing(np.float32(max(abs(near), np.float32(1e-30)))))
        return float(near) - step, float(near) + step

    def _values(self, one: Problem, k: int) -> Array:
        """What a person may have here that matters: their own, and the nearest beyond each cut."""
        own, step = float(one.factual[0, k]), float(one.space.step[k])
        categories = one.space.coordinates[k].categories
        if categories is not None:
            return np.arange(len(categories), dtype=float)
        if one.kept[0, k]:
            return np.array([own])
        low, high, cuts = one.low[0, k], one.high[0, k], self._cuts.get(k, np.zeros(0))
        found = np.concatenate([cuts, [own]])
        if step > 0:
            at = float(one.anchor[0, k])
            places = np.floor((cuts - at) / step)
            found = np.concatenate([*(at + step * (places + i) for i in (-1, 0, 1, 2)), [own]])
        if low > own or high < own:  # where they are they may not stay
            found = np.append(found, np.clip(own, low, high))
        return np.unique(found[(found >= low) & (found <= high)])

    def _constraints(self, one: Problem, values: list[Array], starts: Any) -> _Rows:
        """One value of everything, one leaf of every tree, the goal, and few changes."""
        rows, width = _Rows(), int(starts[-1])
        features = self._features_of(one, values)
        for k, points in enumerate(values):
            rows.add(range(starts[k], starts[k + 1]), [1.0] * len(points), 1.0, 1.0)
        goal: tuple[list[int], list[float]] = ([], [])
        place = width
        for tree in self.ensemble.trees:
            mine = []
            for value, box in tree:
                allowed = self._allowed(box, features)
                if allowed is None:
                    continue
                for k, which in allowed.items():
                    inside = (starts[k] + np.flatnonzero(which)).tolist()
                    rows.add([place, *inside], [1.0, *([-1.0] * len(inside))], -np.inf, 0.0)
                mine.append(place)
                goal[0].append(place)
                goal[1].append(value)
                place += 1
            rows.add(mine, [1.0] * len(mine), 1.0, 1.0)
        needed = self.ensemble.needed(float(one.goal[0]))
        rows.add(*goal, needed + 1e-9 * (1.0 + abs(needed)), np.inf)
        if one.most is not None:
            own = one.factual[0]
            stay = [
                int(starts[k]) + i
                for k, points in enumerate(values)
                for i in np.flatnonzero(points == own[k]).tolist()
            ]
            rows.add(stay, [1.0] * len(stay), float(len(values) - one.most), np.inf)
        rows.width = place
        return rows

    def _features_of(self, one: Problem, values: list[Array]) -> list[Array]:
        """The features of everything a person may have, one thing changed at a time."""
        sizes = [len(points) for points in values]
        many = one.take(np.zeros(sum(sizes), dtype=np.intp))
        Z = np.repeat(one.factual, sum(sizes), axis=0)
        Z[np.arange(len(Z)), np.repeat(np.arange(len(values)), sizes)] = np.concatenate(values)
        made = self._features(many.table(Z), one)
        if self.ensemble.single:
            made = made.astype(np.float32).astype(float)
        return np.split(made, np.cumsum(sizes)[:-1])

    def _allowed(self, box: Box, features: list[Array]) -> dict[int, Any] | None:
        """By coordinate, which of its values lead to a leaf; ``None`` where nothing does."""
        found: dict[int, Any] = {}
        for j, (low, high, missing) in box.items():
            k = self.numbers[j][0] if j in self.numbers else self.choices.get(j, -1)
            at = features[max(k, 0)][:, j]
            fine = np.where(np.isnan(at), missing, (at > low) & (at <= high))
            if k < 0:  # nothing changes it
                if not fine[0]:
                    return None
                continue
            found[k] = fine if k not in found else found[k] & fine
            if not found[k].any():
                return None
        return found


class _Rows:
    """The rows of a sparse matrix of constraints."""

    def __init__(self) -> None:
        self.least: list[float] = []
        self.most: list[float] = []
        self.width = 0
        self._data: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []

    def add(self, columns: Any, weights: list[float], low: float, high: float) -> None:
        """One more."""
        self._row.extend([len(self.least)] * len(columns))
        self._column.extend(columns)
        self._data.extend(weights)
        self.least.append(low)
        self.most.append(high)

    def matrix(self) -> Any:
        """All of them."""
        shape = (len(self.least), self.width)
        return sparse.csr_matrix((self._data, (self._row, self._column)), shape=shape)


def _prices(one: Problem, k: int, points: Array) -> Array:
    """What each value costs; ∞ for a category that is not allowed."""
    own, weight = one.factual[0, k], one.space.weight[k]
    if one.space.coordinates[k].categories is None:
        return np.abs(points - own) * weight
    return np.where(one.allowed[k][0], np.where(points == own, 0.0, weight), np.inf)

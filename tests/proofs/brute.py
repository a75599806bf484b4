"""All small deletions of small problems, solved for in one go by code of its own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import holdfast as hf
from holdfast.algebra.units import Units
from holdfast.proofs import _by_algebra, _by_newton
from holdfast.proofs.candidates import Asked

SCALERS = {"std": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}


@dataclass
class Problem:
    """A model, queries, and the largest drop of every score by 0, 1, … units, (k + 1, q)."""

    model: hf.ErasableModel
    unit: str
    Q: np.ndarray
    drops: np.ndarray

    def certified(self, margins, whole=None):
        """What is certified of every query, at margins of its own."""
        model, most = self.model, len(self.drops) - 1
        errors = model.can.rounding * (np.abs(margins) + model.score_unit)
        asked = Asked(model, self.Q, margins, errors, Units(model.rows, self.unit), most)
        judge = _by_newton if model.can.certificate == "newton" else _by_algebra
        return judge(model.preprocessing is not None if whole is None else whole, np.inf, asked)


def table(rng):
    """Few features: heavy tails, a flag, few of a class, nearly separable, or none of it."""
    n, d = int(rng.integers(12, 26)), int(rng.integers(1, 4))
    X = rng.standard_t(2, size=(n, d)) if rng.random() < 0.4 else rng.normal(size=(n, d))
    if rng.random() < 0.3:
        X[:, 0] = X[:, 0] > 0.6
    z = X @ rng.normal(size=d) * rng.choice([0.5, 1.0, 4.0]) + rng.choice([0.0, 0.0, 1.5])
    y = (z + rng.choice([0.1, 1.0]) * rng.logistic(size=n) > 0).astype(int)
    return X, y, z


def logistic_drops(X, y, Q, C, sets, weights=None, balanced=False, scaler=None):
    """What each set takes off the scores, by Newton's method for all sets at once."""
    n, keep = len(X), np.ones((len(sets) + 1, len(X)))
    for place, rows in enumerate(sets, start=1):
        keep[place, rows] = 0.0
    features, queries = np.empty((len(keep), n, X.shape[1])), []
    for place, left in enumerate(keep > 0):
        front = None if scaler is None else scaler().fit(X[left])
        features[place] = X if front is None else front.transform(X)
        queries.append(Q if front is None else front.transform(Q))
    omega = keep * (1.0 if weights is None else weights)
    if balanced:
        for c in (0, 1):
            size = omega[:, y == c].sum(axis=1, keepdims=True)
            omega[:, y == c] *= keep.sum(axis=1, keepdims=True) / (2.0 * size)
    phi = np.concatenate([np.ones((len(keep), n, 1)), features], axis=2)
    theta = solved(phi, y, omega, C)
    scores = theta[:, :1] + np.einsum("sqd,sd->sq", np.array(queries), theta[:, 1:])
    return scores[0] - scores[1:]


def solved(phi, y, omega, C):
    """Optima of many logistic problems, intercepts free."""
    penalty = np.full(phi.shape[2], 1.0 / C)
    penalty[0] = 0.0
    signs = 2.0 * y - 1.0

    def values(theta):
        z = np.einsum("snp,sp->sn", phi, theta)
        return np.sum(omega * np.logaddexp(0.0, -signs * z), axis=1) + 0.5 * theta**2 @ penalty

    theta = np.zeros((len(phi), phi.shape[2]))
    for _ in range(200):
        z = np.einsum("snp,sp->sn", phi, theta)
        p = expit(z)
        slopes = np.einsum("snp,sn->sp", phi, omega * (p - y)) + penalty * theta
        curved = np.einsum("snp,sn,snr->spr", phi, omega * p * (1.0 - p), phi) + np.diag(penalty)
        steps = np.linalg.solve(curved, slopes[:, :, None])[:, :, 0]
        size, before = np.ones(len(theta)), values(theta)
        for _ in range(40):
            worse = values(theta - size[:, None] * steps) > before + 1e-13 * np.abs(before)
            if not worse.any():
                break
            size[worse] /= 2.0
        theta = theta - size[:, None] * steps
        if np.max(np.abs(steps)) < 1e-12 * (1.0 + np.max(np.abs(theta))):
            break
    return theta


def units_of(n, subjects):
    if subjects is None:
        return [[i] for i in range(n)]
    return [np.flatnonzero(subjects == name).tolist() for name in dict.fromkeys(subjects)]


def small_sets(rows_of, y, most):
    """All sets of at most so many units that leave both classes, by size, as positions of rows."""
    found = [[] for _ in range(most + 1)]
    for k in range(1, most + 1):
        for chosen in itertools.combinations(rows_of, k):
            rows = sorted(itertools.chain.from_iterable(chosen))
            left = np.delete(y, rows)
            if left.size and (left.dtype.kind == "f" or len(np.unique(left)) == 2):
                found[k].append(np.array(rows))
    return found


def worst(by_size, drops_of, q):
    """The largest drop of every query by 0, 1, … units."""
    flat = [rows for sets in by_size for rows in sets]
    drops, at = drops_of(flat), 0
    found = [np.zeros(q)]
    for sets in by_size[1:]:
        here = drops[at : at + len(sets)]
        found.append(np.maximum(found[-1], here.max(axis=0, initial=-np.inf)))
        at += len(sets)
    return np.array(found)


def logistic_problem(rng, kind, q=24, most=3):
    """Plain, weighted, balanced, or behind a scaler, by row or by subject; ``None``: none."""
    X, y, _ = table(rng)
    if min(y.sum(), len(y) - y.sum()) < 4:
        return None
    C = 10.0 ** rng.uniform(-3, 4)
    name, _, unit = kind.partition("/")
    balanced, weights = name == "balanced", None
    if name == "weighted":
        weights = rng.choice([0.5, 1.0, 3.0], size=len(y))
    last = LogisticRegression(
        C=C, tol=1e-10, max_iter=20_000, class_weight="balanced" if balanced else None
    )
    scaler = SCALERS.get(name)
    estimator = last if scaler is None else make_pipeline(scaler(), last)
    subjects = None
    if unit == "subject":
        subjects = rng.integers(0, max(len(y) // 2, 7), size=len(y)).astype(str)
    extra = {} if weights is None else {"sample_weight": weights}
    model = hf.erasable(estimator.fit(X, y, **extra), X, y, subjects=subjects, **extra)
    Q = rng.normal(size=(q, X.shape[1])) * rng.choice([1.0, 2.0])
    by_size = small_sets(units_of(len(y), subjects), y, most)
    drops = worst(
        by_size, lambda sets: logistic_drops(X, y, Q, C, sets, weights, balanced, scaler), q
    )
    return Problem(model, unit or "row", Q, drops)


def least_squares_problem(rng, kind, q=24, most=3):
    """Ridge regression by row or by subject."""
    X, _, z = table(rng)
    y = z + rng.normal(size=len(z))
    alpha = 10.0 ** rng.uniform(-2, 2)
    unit = kind.partition("/")[2] or "row"
    subjects = None
    if unit == "subject":
        subjects = rng.integers(0, max(len(y) // 2, 7), size=len(y)).astype(str)
    model = hf.erasable(Ridge(alpha).fit(X, y), X, y, subjects=subjects)
    Q = rng.normal(size=(q, X.shape[1]))
    by_size = small_sets(units_of(len(y), subjects), y, most)

    def drops_of(sets):
        before = model.scores(Q)
        out = np.empty((len(sets), q))
        for place, rows in enumerate(sets):
            keep = np.delete(np.arange(len(y)), rows)
            centre, mean = X[keep].mean(axis=0), y[keep].mean()
            F = X[keep] - centre
            w = np.linalg.solve(F.T @ F + alpha * np.eye(F.shape[1]), F.T @ (y[keep] - mean))
            out[place] = before - ((Q - centre) @ w + mean)
        return out

    return Problem(model, unit, Q, worst(by_size, drops_of, q))


def margins_near(rng, drops, near):
    """Margins just above or below what some number of deletions does at worst."""
    places = np.arange(drops.shape[1])
    level = rng.integers(1, len(drops), size=places.size)
    return drops[level, places] * (1.0 + near * rng.choice([-1.0, 1.0], size=places.size))


def checked(problem, margins):
    """No certificate is wrong, no attack is none; how many were made, and how many are the best."""
    fine = np.flatnonzero((margins > 1e-6) & np.isfinite(margins))
    part = Problem(problem.model, problem.unit, problem.Q[fine], problem.drops[:, fine])
    margins, drops = margins[fine], part.drops
    if not fine.size:
        return 0, 0, 0
    found = part.certified(margins)
    places = np.arange(fine.size)
    broken = drops[found.certified, places] > margins * (1.0 + 1e-8) + 1e-9
    assert not broken.any(), (found.certified[broken], margins[broken], drops[:, broken])
    hit = np.flatnonzero(found.attacked)
    assert np.all(drops[found.attacked[hit], hit] >= margins[hit] * (1.0 - 1e-7) - 1e-9)
    truly = np.sum(drops <= margins * (1.0 + 1e-9), axis=0) - 1
    breakable = truly < len(drops) - 1
    seen = breakable & (found.attacked == truly + 1)
    return fine.size, int(np.sum(found.certified == truly)), (int(seen.sum()), int(breakable.sum()))

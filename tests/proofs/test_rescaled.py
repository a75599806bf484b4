"""What refitting scalers adds to a deletion is bounded, row by row and for everybody."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import holdfast as hf
from holdfast.algebra.boxes import boxes
from holdfast.algebra.units import Units
from holdfast.proofs.candidates import Asked
from holdfast.proofs.logistic import missed_by_newton
from holdfast.proofs.rescaled import Rescaled

SCALERS = [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()]
LOGISTIC = LogisticRegression(C=0.3, tol=1e-12, max_iter=10_000, solver="newton-cholesky")


def table(rng, n, d=3):
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 5.0, d) + rng.normal(size=d) * 3
    X[:, 0] = np.exp(X[:, 0] / 4)  # a long tail
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize("scaler", SCALERS)
def test_each_row_pays_for_its_part_of_a_scale(scaler):
    """δ(S) and −δ(S) are at most the sums of the rows' parts, for every S."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        X, y = table(rng, 9, 2)
        X[rng.random(X.shape) < 0.2] = 1.0  # ties
        model = hf.erasable(make_pipeline(clone(scaler), Ridge()).fit(X, y), X, y)
        for k, stay in itertools.product((1, 2, 3), (np.zeros(0, dtype=int), np.array([4]))):
            up, down, known = model.scales.shares(k, stay)
            assert known.all() or isinstance(scaler, RobustScaler)
            for size in range(1, k + 1):
                for rows in itertools.combinations(np.setdiff1d(np.arange(9), stay), size):
                    delta = model.scales.factors([np.array(rows)])[0] - 1.0
                    least = X[np.setdiff1d(np.arange(9), rows)].std(axis=0) > 0
                    fine = known & least  # a constant has no weight, whatever its scale
                    assert np.all((delta <= up[:, rows].sum(axis=1) + 1e-12)[fine])
                    assert np.all((-delta <= down[:, rows].sum(axis=1) + 1e-12)[fine])
                    low, high = model.scales.interval(k, stay)
                    assert np.all((low - 1.0 <= delta + 1e-9)[least])
                    assert np.all((delta <= high - 1.0 + 1e-9)[least])


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("final", [Ridge(3.0), LOGISTIC])
def test_what_is_charged_covers_every_refit(scaler, final):
    rng = np.random.default_rng(4)
    n, tightest, held = 60 if isinstance(final, Ridge) else 250, 0.0, 0
    for _ in range(4):
        X, y = table(rng, n)
        if hasattr(final, "C"):
            y = (y > np.median(y)).astype(int)
        model = hf.erasable(make_pipeline(clone(scaler), clone(final)).fit(X, y), X, y)
        Q = X[:6] + rng.normal(size=(6, 3))
        kept, units = model.deletions(Q, preprocessing="kept"), Units(model.rows, "row")
        zero = np.zeros(6)
        rescaled, missed, paths = Rescaled(Asked(model, Q, zero, zero, units, 3)), None, None
        if hasattr(final, "C"):
            missed, paths = missed_by_newton(model.core, kept, boxes(kept, 3))
        more = rescaled.by_row(missed, paths)
        # the rows that move a scale most are the ones that matter
        moved = np.abs(model.scales.singles - 1.0).max(axis=1)
        some = np.argsort(-moved)[:10]
        whole = model.deletions(Q)
        for k in range(1, more.limit + 1):
            for rows in itertools.combinations(some, k):
                rows = np.array(sorted(rows))
                newton = kept.columns(rows) @ kept.solve(rows)
                truth = whole.effect(rows) - newton
                first = more.of(k, slice(None), rows)
                room = more.hidden[:, k] + (first.sum(axis=1) if len(first) else 0.0)
                if paths is None:
                    assert np.all(truth <= rescaled.off_margins()[:, k] + 1e-10)
                assert np.all(truth <= room + 1e-10)
                tightest = max(tightest, float(np.max(truth / (np.abs(room) + 1e-9))))
                held += 1
    assert held > 40
    assert tightest > 0.1  # a bound, not a fantasy


def test_quantiles_that_meet_are_a_scale_of_one():
    """Erasing one row makes the interquartile range 0, for which scikit-learn takes 1."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n = 402
        X, short = rng.normal(size=(n, 2)), np.zeros(n)
        k = n - 1 - int(np.floor((n - 1) * 0.75))
        short[:k], short[k : k + 3] = 0.05, -0.2
        X[:, 1] = short
        y = (X[:, 0] + 20 * short + rng.normal(size=n) > 0).astype(int)
        fit = make_pipeline(RobustScaler(), LogisticRegression(C=10.0, tol=1e-10, max_iter=10000))
        model = hf.erasable(fit.fit(X, y), X, y)
        assert model.scales.interval(1)[1][1] >= model.scales.factors([np.array([0])])[0, 1]
        Q = np.c_[rng.normal(size=(200, 1)), np.full(200, 0.05)]
        scores = model.scores(Q)
        target = float(np.quantile(scores, 0.1))
        Q = Q[scores > target]
        certified = np.asarray(hf.certify(model, Q, target, 2, time_limit=5)["certified"])
        broken = model.without([0]).scores(Q) < target
        assert not np.any(broken & (certified >= 1))


def test_where_nobody_may_go_nothing_is_hidden():
    for seed in (1, 6, 11):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(10, 2))
        y = X[:, 0] + rng.normal(size=10)
        X[0] *= 15
        people = rng.integers(0, 4, size=10)
        fit = make_pipeline(StandardScaler(), Ridge(alpha=100.0)).fit(X, y)
        model = hf.erasable(fit, X, y, subjects=people)
        scores = model.scores(X)
        target = float(np.quantile(scores, 0.15))
        most = len(set(people)) - 1
        hf.certify(model, X[scores > target], target, most, unit="subject", time_limit=1)

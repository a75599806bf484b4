"""Recourses on their edge: every inequality by refits, and certificates by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute import checked, logistic_problem, margins_near
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from smooth_models import SMOOTH, a_model

import holdfast as hf
from holdfast.algebra.pair_loops import at_corners, branch_pairs, paid
from holdfast.algebra.units import Units
from holdfast.models.optima import Optima
from holdfast.proofs import edges, grown, levels, looks, points, tree
from holdfast.proofs.edges import Blend, Terms, covered, strongest
from holdfast.proofs.levels import Edge

SEEDS = st.integers(0, 2**32 - 1)


class Case:
    """A recourse of a small problem on its edge, and what deletions do there."""

    def __init__(self, rng, kind, subjects=False):
        self.model = a_model(rng, kind, subjects)
        core = self.model.form("smooth")
        self.optima = Optima(core, self.model.scales if self.model.preprocessing else None)
        self.units = Units(self.model.rows, "subject" if subjects else "row")
        self.query = self.optima.queries(self.model.features(rng.normal(size=(1, 3))))[0]
        count = len(self.units)
        self.gone = tuple(int(i) for i in rng.choice(count, int(rng.integers(0, 3)), replace=False))
        before = -self.query @ self.optima.change(self.rows(self.gone))
        self.drop = float(before + 10.0 ** rng.uniform(-2, 0.3))
        self.edge = self.edge_without(self.gone)
        self.able = np.setdiff1d(np.arange(count), self.gone)

    def rows(self, units):
        return np.sort(self.units.rows(tuple(units)))

    def edge_without(self, gone):
        at = self.optima.at_drop(self.rows(gone), self.query, self.drop)
        return Edge(at, self.query, self.units.order, self.units.starts)

    def pushed(self, chosen):
        """How hard a set pushes, and how far rows move, by solving on the hyperplane."""
        at, other = self.edge.at, self.edge_without((*self.gone, *chosen)).at
        score, theirs = at.whiten(self.query), other.whiten(self.query)
        multiplier = (other.slopes @ theirs) / (theirs @ theirs)
        way = np.linalg.solve(at._inverse.T, other.change - at.change)
        return multiplier * np.linalg.norm(score) + self.edge.margin, at.A @ way


def a_case(seed, kind, subjects=False):
    rng = np.random.default_rng(seed)
    try:
        return rng, Case(rng, kind, subjects)
    except (ArithmeticError, hf.HoldfastError):  # no optimum, or none with so low a score
        return rng, None


def form(single, pairs, chosen):
    """A quadratic form over a set."""
    both = pairs[np.ix_(chosen, chosen)]
    return float(single[chosen].sum() + 0.5 * (both.sum() - np.trace(both)))


@pytest.mark.parametrize("subjects", [False, True], ids=["rows", "subjects"])
@pytest.mark.parametrize("kind", SMOOTH)
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS, k=st.integers(1, 4), far=st.sampled_from([0.2, 2.0]))
def test_law_levels_bound_moves_and_pushes(kind, subjects, seed, k, far):
    """At every level that covers a set: what moves, what pulls, and how hard it pushes."""
    rng, case = a_case(seed, kind, subjects)
    if case is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "_FAR", far)
        edge, able = case.edge, case.able
        sets = [
            rng.choice(able.size, int(rng.integers(1, k + 1)), replace=False) for _ in range(12)
        ]
        for number in (0, 4, 9, 14, 20):
            level = edge.level(number, k)
            if level is None:
                continue
            terms, everybody = Terms(edge, level, able, k), np.arange(able.size)
            pushes = terms.push_pairs(everybody, everybody)
            pulls = terms.pull_pairs(everybody, everybody)
            values, order = Blend(terms, terms, 0.5).values(np.inf)
            ranked = np.empty(order.size)
            ranked[order] = values
            moved = np.sqrt(np.einsum("ij,ij->i", edge.across @ level.metric, edge.across))
            for chosen in sets:
                pull = form(terms.pulls, pulls, chosen)
                bound = form(terms.alone, pushes, chosen) + level.hidden
                alone = bound + 0.5 * pull - level.hidden
                assert alone <= ranked[chosen].sum() + 1e-9 * (1.0 + abs(bound))
                assert pull <= terms.lengths[chosen].sum() ** 2 * (1 + 1e-9)
                if pull > level.covers:
                    continue
                try:
                    pushed, moves = case.pushed(able[chosen])
                except ArithmeticError:
                    continue
                assert pushed <= bound + 1e-7 * (1.0 + abs(bound))
                reach = levels._FIRST * levels._RATIO**number
                assert np.all(np.abs(moves) <= moved * reach * (1 + 1e-7) + 1e-8)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, k=st.integers(1, 4), rest=st.sampled_from([0.0, 0.3]))
def test_law_trees_of_pairs_are_right(seed, k, rest):
    """What a tree says of every set, by enumeration."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 8))
    alone = np.sort(rng.normal(size=m))[::-1].copy()
    pairs = rng.normal(size=(m, m)) * rng.choice([0.2, 1.0])
    pairs = pairs + pairs.T
    np.fill_diagonal(pairs, 0.0)
    sets = [c for size in range(k + 1) for c in itertools.combinations(range(m), size)]
    most = max(form(alone, pairs, list(c)) + rest * (k - len(c)) for c in sets)
    for room in (most + 1e-9, most * 0.9 - 0.01, most + 0.5, most - 1.0):
        found = np.zeros(k, dtype=np.int64)
        verdict, size = branch_pairs(alone, pairs, k, room, rest, 10_000, found)
        if verdict == 0:
            assert most <= room
        elif verdict == 1:
            assert form(alone, pairs, found[:size]) > room
        if rest == 0.0 and room > 0:
            assert verdict == (0 if most <= room else 1)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_law_forms_are_largest_at_corners(seed):
    rng = np.random.default_rng(seed)
    m, t = 4, 5
    V, Y = rng.normal(size=(2, m, t))
    low, slopes, beside = rng.normal(size=(3, m))
    others_low, others_slopes, others_beside = rng.normal(size=(3, t))
    high, others_high = low + rng.random(m), others_low + rng.random(t)
    found = V.copy()
    mine, theirs = (low, high, slopes, beside), (others_low, others_high, others_slopes)
    at_corners(found, Y, *mine, *theirs, others_beside)
    for _ in range(20):
        x = low + rng.random(m) * (high - low)
        y = others_low + rng.random(t) * (others_high - others_low)
        value = V * np.outer(x, y) + Y * (np.outer(slopes, y) + np.outer(x, others_slopes))
        assert np.all(value + np.outer(beside, others_beside) <= found + 1e-12)


def test_payments_are_sums_of_the_largest():
    pairs = np.array([[9.0, 1.0, 5.0, -2.0], [3.0, 4.0, -1.0, 8.0]])
    out = np.empty(2)
    paid(pairs, np.array([3, 2]), 2, np.array([0.0, 3.5]), out)
    assert out.tolist() == [14.0, 7.5]
    paid(pairs, np.array([4, 4]), 0, np.zeros(2), out)
    assert out.tolist() == [0.0, 0.0]


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, k=st.integers(1, 3), core=st.sampled_from([3, 8, 256]))
def test_law_covers_are_covers(seed, k, core):
    """No set pulls more than what is said to be the most, whoever is looked at by pairs."""
    _, case = a_case(seed, "plain")
    if case is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "_WIDE", core)
        patch.setattr(edges, "_CORE", core)
        level = case.edge.level(6, k)
        if level is None:
            return
        able = case.able[:16]
        terms, everybody = Terms(case.edge, level, able, k), np.arange(able.size)
        pulls = terms.pull_pairs(everybody, everybody)
        sets = itertools.combinations(range(able.size), k)
        most = max(form(terms.pulls, pulls, list(c)) for c in sets)
        for share in (0.5, 0.99, 1.01, 1.5):
            if covered(terms, most * share):
                assert share > 1
        if core == 256:
            assert covered(terms, most * 1.01)


EDGE_KINDS = ["plain", "weighted", "balanced", "std", "minmax", "plain/subject", "std/subject"]


def nothing_from_afar(node, some, units):
    return dict.fromkeys(some.tolist(), units), np.ones(units.size), False


@pytest.mark.parametrize("kind", EDGE_KINDS)
def test_no_certificate_from_edges_alone_is_wrong(kind, monkeypatch):
    """By refits of all pairs and triples, where nothing else proves anything."""
    monkeypatch.setattr(looks.Node, "from_afar", nothing_from_afar)
    monkeypatch.setattr(looks.Node, "closer", lambda self, j, units: (units, np.ones(units.size)))
    monkeypatch.setattr(tree, "ENUMERATED", 0)
    rng, made, held = np.random.default_rng(11), 0, 0
    while made < 60:
        problem = logistic_problem(rng, kind, most=3 if made < 30 else 2)
        if problem is None:
            continue
        for near in (1e-6, 1e-3, 1e-1):
            margins = margins_near(rng, problem.drops, near)
            count, exact, _ = checked(problem, margins)
            made, held = made + count, held + exact
    assert held > 0.2 * made


def test_edges_certify_what_looks_from_optima_leave_open(rng, monkeypatch):
    """Log-normal features, seven deletions; what is certified is confirmed to be so from below."""
    monkeypatch.setattr(grown, "MOST", 0)
    n = 500
    X = np.c_[rng.lognormal(size=(n, 3)), rng.normal(size=(n, 4))]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (X @ rng.normal(size=7) + rng.logistic(size=n) > 0).astype(int)
    model = hf.erasable(LogisticRegression(tol=1e-10, max_iter=5_000).fit(X, y), X, y)
    Q = X[np.argsort(np.abs(model.scores(X) - 0.5))[:5]]
    with_edges = hf.certify(model, Q, 0.0, 7)
    monkeypatch.setattr(points.SmoothPoints, "edge", lambda *_: None)
    without = hf.certify(model, Q, 0.0, 7)
    assert np.all(with_edges["certified"] >= without["certified"])
    assert with_edges["certified"].sum() > without["certified"].sum()
    for place, line in enumerate(with_edges.itertuples()):
        if line.witness:
            refitted = model.without(list(line.witness))
            assert refitted.scores(Q[[place]])[0] < 0.0 <= line.attacked - line.certified - 1


def test_attacks_are_exchanged_until_nothing_helps(rng):
    """What is found is at least as strong as the strongest rows by themselves."""
    case = Case(np.random.default_rng(4), "plain")
    chosen = strongest(case.edge, case.able, 4)
    alone = case.able[np.argsort(-(case.edge.along * case.edge.at.errors)[case.able])[:4]]
    assert len(set(chosen)) == 4
    assert case.pushed(np.array(chosen))[0] >= case.pushed(alone)[0] - 1e-9

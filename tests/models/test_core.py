"""The protocol of a family: what it says it can do, it can."""

import numpy as np
import pytest

import holdfast as hf
from families import FAMILIES, fitted
from holdfast.models.core import Capabilities, Core, Family
from holdfast.models.losses import (
    LOSSES,
    Gamma,
    Huber,
    ModifiedHuber,
    SquaredEpsilon,
    SquaredHinge,
    Turned,
    Tweedie,
)
from holdfast.models.refits import Refits, own_scores_without
from holdfast.registry import register


@pytest.mark.parametrize("name", FAMILIES)
def test_capabilities_are_what_can_be_done(name, rng):
    model, Q = fitted(name, rng)
    can = model.can
    assert Core in type(model.core).__mro__
    assert isinstance(can, Capabilities)
    assert can.predicts == FAMILIES[name].predicts
    rows = [3, 17]
    if can.predicts:
        for method in can.predictions:
            assert model.deletions(Q, method=method).effect(rows).shape == (15,)
        assert can.why_not is None
    else:
        assert can.why_not
        with pytest.raises(hf.UnsupportedModelError, match="What works: scores"):
            model.deletions(Q)
        with pytest.raises(hf.UnsupportedModelError):
            model.reweighted(np.ones(60))
    if can.gradients:
        step = 1e-6 * np.eye(3)[0]
        numeric = (model.scores(Q + step) - model.scores(Q - step)) / 2e-6
        np.testing.assert_allclose(model.score_gradients(Q)[:, 0], numeric, atol=1e-4)
    else:
        with pytest.raises(hf.UnsupportedModelError):
            model.score_gradients(Q)
    if can.exact:
        drop = model.scores(Q) - model.without(rows).scores(Q)
        np.testing.assert_allclose(model.deletions(Q).effect(rows), drop, atol=1e-9)
    for form in ("linear", "smooth", "kernel"):
        if form == can.form:
            assert model.form(form) is model.core
        else:
            with pytest.raises(hf.UnsupportedModelError, match=f"{form} models"):
                model.form(form)


@pytest.mark.parametrize("name", [n for n, c in FAMILIES.items() if c.predicts])
def test_own_solvers_find_what_the_estimator_finds(name, rng):
    """Held to 1e-8 of scikit-learn's optimum, for one set, many sets, and other data."""
    model, Q = fitted(name, rng)
    if not model.can.solves:
        return
    sets = [np.array(rows) for rows in ([5], [1, 2, 3], [0, 9, 17, 40], [])]
    refits = Refits(model, Q)
    honest = refits.without(sets)
    scale = np.abs(honest).max()
    assert refits.fits == 3
    if model.can.chooses:  # only a refit chooses its penalty again
        return
    np.testing.assert_allclose(refits.without(sets, by="solver"), honest, atol=1e-8 * scale)
    assert refits.fits == 3
    np.testing.assert_allclose(model.core.without(sets[1]).scores(Q), honest[1], atol=1e-8 * scale)
    paired = own_scores_without(model, Q[:3], sets[:3], 0.0)
    np.testing.assert_allclose(paired, [honest[j, j] for j in range(3)], atol=1e-8 * scale)
    sample = rng.integers(0, 60, 60)
    both = [refits.on([sample], by=by)[0] for by in ("estimator", "solver")]
    np.testing.assert_allclose(both[0], both[1], atol=1e-7 * scale)


SHAPES = {
    **LOSSES,
    "gamma": Gamma(),
    "tweedie": Tweedie(1.3),
    "squared hinge": SquaredHinge(),
    "modified huber": ModifiedHuber(),
    "squared epsilon": SquaredEpsilon(0.3),
    "huber": Huber(1.35, 0.7, fixed=True),
    "turned": Turned(LOSSES["poisson"]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_losses_against_finite_differences(name, rng):
    loss = SHAPES[name]
    z = rng.normal(size=50) * 2
    y = rng.integers(0, 2, 50).astype(float)
    if name in ("squared hinge", "modified huber"):
        y = 2.0 * y - 1.0
    if name in ("gamma", "tweedie"):
        y = y + 0.5
    h = 1e-5
    slope = (loss.values(z + h, y) - loss.values(z - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.slopes(z, y), slope, rtol=1e-6, atol=1e-7)
    bend = (loss.slopes(z + h, y) - loss.slopes(z - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.curvatures(z, y), bend, rtol=1e-6, atol=1e-7)
    twist = (loss.curvatures(z + h, y) - loss.curvatures(z - h, y)) / (2 * h)
    np.testing.assert_allclose(
        loss.skews(z, y) * loss.curvatures(z, y), twist, rtol=1e-5, atol=1e-7
    )
    root, residual = loss.whitened(z, y)
    np.testing.assert_allclose(root**2, loss.curvatures(z, y), rtol=1e-12, atol=2e-10)
    np.testing.assert_allclose(root * residual, -loss.slopes(z, y), rtol=1e-9, atol=1e-12)


def test_what_is_registered_is_found(rng):
    from sklearn.dummy import DummyRegressor

    from holdfast.models.families import FAMILIES as KNOWN

    class MeanCore(Core):
        can = Capabilities(refit="cheap", gradients=False, why_not="the mean has no features")

        def __init__(self, estimator, data):
            self.rows, self._mean = data.rows, float(np.mean(data.y))

        def scores(self, X):
            return np.full(len(X), self._mean)

    before = list(KNOWN)
    try:
        register("family", Family((DummyRegressor,), MeanCore))
        X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
        model = hf.erasable(DummyRegressor().fit(X, y), X, y)
        assert isinstance(model.core, MeanCore)
        assert model.without([0]).scores(X)[0] == pytest.approx(y[1:].mean())
    finally:
        KNOWN[:] = before
    for kind, thing, message in [
        ("model", None, "kind must be"),
        ("family", MeanCore, "core.Family"),
        ("family", Family(DummyRegressor, MeanCore), "tuple of classes"),
        ("family", Family((DummyRegressor,), None), "callable"),
        ("search", 3, "callable"),
        ("loss", object(), "needs a name"),
    ]:
        with pytest.raises(hf.HoldfastError, match=message):
            register(kind, thing)

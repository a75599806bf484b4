"""torch modules: derivatives, the jackknife against refits, and what is refused in words."""

import copy
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.models.erasable import ErasableModel
from holdfast.models.networks import optimum
from holdfast.shared_state import quiet

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch installs it")
nn = torch.nn


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def module(d=3, units=(5, 4), activation=nn.Tanh, seed=0):
    torch.manual_seed(seed)
    parts, width = [], d
    for wide in units:
        parts += [nn.Linear(width, wide), activation()]
        width = wide
    return nn.Sequential(*parts, nn.Linear(width, 1))


def problem(rng, n=120, classes=True):
    X = rng.normal(size=(n, 3))
    y = np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, (y > 0).astype(int) if classes else y, rng.normal(size=(10, 3))


def trained(X, y, l2=2.0, **options):
    """A module as a user has it: trained, float64, not ours to touch."""
    kind = hf.TorchClassifier if set(np.unique(y)) == {0, 1} else hf.TorchRegressor
    return kind(module(**options), l2=l2).fit(X, y).module_


@pytest.fixture
def fitted(rng):
    X, y, Q = problem(rng)
    return hf.erasable(trained(X, y), X, y, loss="logistic", l2=2.0), X, y, Q


def held(net, X, l2=1.0):
    """A module as it is, as an estimator."""
    found = hf.TorchClassifier(net, l2).with_module(net, X.shape[1])
    found.classes_ = np.array([0, 1])
    return found


def numeric(function, at, step=1e-6):
    eye = np.eye(at.size)
    return np.stack([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in eye])


class Odd(nn.Module):
    """A module that does one thing wrong."""

    def __init__(self, forward, d=3):
        super().__init__()
        self.linear, self._forward = nn.Linear(d, 1), forward

    def forward(self, x):
        return self._forward(self.linear(x), x)


# derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU, nn.Softplus])
def test_derivatives_against_finite_differences(activation, rng):
    X, y, Q = problem(rng, n=40)
    net = module(activation=activation)
    core = ErasableModel(held(net, X, 1.0), X, y).core
    theta = core.theta + 0.05 * rng.normal(size=core.theta.size)
    net, train = core.network, core.problem
    np.testing.assert_allclose(train.gradient(theta), numeric(train.value, theta), atol=1e-5)
    H = train.hessian(theta)
    np.testing.assert_allclose(H, numeric(train.gradient, theta), atol=1e-4, rtol=1e-5)
    V = rng.normal(size=(theta.size, 3))
    np.testing.assert_allclose(train.products(theta)(V), H @ V, atol=1e-8)
    np.testing.assert_allclose(train.products(theta)(V[:, :1]), H @ V[:, :1], atol=1e-8)
    slopes = numeric(lambda at: net.scores(at, Q), theta).T
    np.testing.assert_allclose(net.parameter_gradients(theta, Q), slopes, atol=1e-6)
    np.testing.assert_allclose(net.along(theta, Q, V[:, 0]), slopes @ V[:, 0], atol=1e-5)
    np.testing.assert_allclose(
        net.parameter_gradients(theta, Q, net.last), slopes[:, net.last], atol=1e-6
    )
    bent = numeric(lambda at: net.input_gradients(at, Q), theta)
    np.testing.assert_allclose(
        net.input_jacobian(theta, Q).reshape(len(Q), 3, -1), np.moveaxis(bent, 0, 2), atol=1e-5
    )


def test_the_same_network_as_scikit_learns(rng):
    """One perceptron by numpy and by torch: scores, Hessian, effects agree."""
    X, y, Q = problem(rng, classes=False)
    theirs = MLPRegressor(
        hidden_layer_sizes=(5, 4), activation="tanh", solver="lbfgs", max_iter=9, random_state=0
    )
    with pytest.warns(Warning, match="max_iter|reached"):
        theirs.fit(X, y)
    ours = module()
    for layer, W, b in zip(ours[::2], theirs.coefs_, theirs.intercepts_, strict=True):
        layer.weight = nn.Parameter(torch.tensor(W.T))
        layer.bias = nn.Parameter(torch.tensor(b))
    numpy_side = ErasableModel(theirs, X, y).core
    torch_side = ErasableModel(hf.TorchRegressor(ours).with_module(ours, 3), X, y).core
    a, b = numpy_side.network, torch_side.network
    np.testing.assert_allclose(a.scores(a.fitted, Q), b.scores(b.fitted, Q), atol=1e-12)
    np.testing.assert_allclose(
        a.input_gradients(a.fitted, Q), b.input_gradients(b.fitted, Q), atol=1e-12
    )
    v = rng.normal(size=len(X))
    np.testing.assert_allclose(
        np.sort(np.abs(a.pullback(a.fitted, X, v))), np.sort(np.abs(b.pullback(b.fitted, X, v)))
    )
    values = [
        np.linalg.eigvalsh(core.network.hessian(core.network.fitted, X, v, v**2))
        for core in (numpy_side, torch_side)
    ]
    np.testing.assert_allclose(values[0], values[1], atol=1e-9)


# deletions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("of", ["scores", "gradients"])
def test_jackknife_is_the_derivative_of_honest_refits(classes, of, rng):
    X, y, Q = problem(rng, classes=classes)
    loss = "logistic" if classes else "squared"
    model = hf.erasable(trained(X, y), X, y, loss=loss, l2=2.0)
    step, row = 1e-4, 17
    read = ErasableModel.scores if of == "scores" else ErasableModel.score_gradients

    def at(weight):
        weights = np.ones(len(X))
        weights[row] = weight
        return read(ErasableModel(model.core.polished(), X, y, sample_weight=weights), Q)

    slope = (at(1 + step) - at(1 - step)) / (2 * step)
    columns = model.deletions(Q, of=of).columns(np.array([row])).reshape(slope.shape)
    np.testing.assert_allclose(columns, slope, atol=1e-5 * np.abs(slope).max())


def test_effects_correlate_with_warm_refits(rng):
    X, y, Q = problem(rng, n=300)
    model = hf.erasable(trained(X, y, l2=10.0), X, y, loss="logistic", l2=10.0)
    deletions = model.deletions(Q)
    for size in (1, 5):
        sets = [rng.choice(300, size, replace=False) for _ in range(5)]
        predicted = np.array([deletions.effect(rows) for rows in sets])
        true = np.array([model.scores(Q) - model.without(rows).scores(Q) for rows in sets])
        assert np.corrcoef(predicted.ravel(), true.ravel())[0, 1] > 0.99


def test_large_networks_go_by_conjugate_gradients(fitted, monkeypatch):
    """The same network, taken for a large one: the same effects, another way."""
    small, X, y, Q = fitted
    wanted = small.deletions(Q)
    monkeypatch.setattr(optimum, "FULL", 5)
    monkeypatch.setattr("holdfast.models.networks.core.FULL", 5)
    large = hf.erasable(small.estimator, X, y)
    assert (small.algebra, large.algebra) == ("jackknife", "jackknife by conjugate gradients")
    found = large.deletions(Q)
    assert "full Hessian" in wanted.how
    assert "last layer" in found.how
    scale = np.abs(wanted.effect([3, 4])).max()
    np.testing.assert_allclose(found.effect([3, 4]), wanted.effect([3, 4]), atol=1e-3 * scale)
    omega = np.ones(len(X))
    omega[[3, 4]] = [0.2, 0.5]
    f, g = large.reweighted(omega), small.reweighted(omega)
    np.testing.assert_allclose(f.scores(Q), g.scores(Q), atol=1e-4)
    np.testing.assert_allclose(f.derivatives(Q), g.derivatives(Q), atol=1e-4)
    np.testing.assert_allclose(
        f.pullback(Q, np.ones(len(Q))), f.derivatives(Q).sum(axis=0), atol=1e-4
    )


def test_the_last_layer_alone_is_exact_under_squared_loss(rng, monkeypatch):
    """With the rest frozen the screening's formula is ridge regression on the features."""
    X, y, Q = problem(rng, classes=False)
    net = trained(X, y)
    monkeypatch.setattr(optimum, "FULL", 5)
    monkeypatch.setattr("holdfast.models.networks.core.FULL", 5)
    model = hf.erasable(net, X, y, loss="squared", l2=2.0)
    core, rows = model.core, np.array([3, 4, 5])
    last = core.network.last

    def scores(keep):
        features = core.network.parameter_gradients(core.theta, X[keep], last)
        rest = core.network.scores(core.theta, X[keep]) - features @ core.theta[last]
        A = features.T @ features + 2.0 * np.eye(features.shape[1])
        weights = np.linalg.solve(A, features.T @ (y[keep] - rest))
        ahead = core.network.parameter_gradients(core.theta, Q, last)
        return ahead @ (weights - core.theta[last])

    everything = np.arange(len(X))
    triple = model.deletions(Q)
    formula = triple.columns(rows) @ triple.solve(rows)
    honest = scores(everything) - scores(np.delete(everything, rows))
    np.testing.assert_allclose(formula, honest, atol=1e-7)


def test_a_loss_of_ones_own(rng):
    """Logistic loss written down by hand: the same model, row for row."""
    X, y, Q = problem(rng)
    net = trained(X, y)
    named = hf.erasable(net, X, y, loss="logistic", l2=2.0)
    own = hf.erasable(net, X, y, loss=lambda z, t: nn.functional.softplus(z) - t * z, l2=2.0)
    np.testing.assert_allclose(own.scores(Q), named.scores(Q), atol=1e-6)
    np.testing.assert_allclose(
        own.deletions(Q).effect([3]), named.deletions(Q).effect([3]), atol=1e-6
    )


def test_weights_and_the_other_outcome(rng):
    X, y, Q = problem(rng)
    net = trained(X, y)
    weights = np.ones(len(X))
    weights[7] = 0.0
    heavy = ErasableModel(held(net, X, 2.0), X, y, sample_weight=weights)
    gone = hf.erasable(net, X, y, loss="logistic", l2=2.0).without([7])
    np.testing.assert_allclose(heavy.scores(Q), gone.scores(Q), atol=1e-6)
    turned = hf.erasable(net, X, y, loss="logistic", l2=2.0, favourable=0)
    straight = hf.erasable(net, X, y, loss="logistic", l2=2.0)
    np.testing.assert_allclose(turned.scores(Q), -straight.scores(Q), atol=1e-9)
    np.testing.assert_allclose(
        turned.deletions(Q).effect([3]), -straight.deletions(Q).effect([3]), atol=1e-9
    )
    np.testing.assert_allclose(turned.score_gradients(Q), -straight.score_gradients(Q), atol=1e-9)


def test_frozen_parameters_stay(rng):
    X, y, Q = problem(rng)
    net = module()
    net[0].requires_grad_(False)
    model = hf.erasable(hf.TorchClassifier(net, l2=1.0).fit(X, y), X, y)
    before = model.estimator.module_[0].weight.detach().numpy()
    after = model.without([3]).estimator.module_[0].weight.detach().numpy()
    np.testing.assert_array_equal(before, after)
    assert model.core.problem.size == sum(p.numel() for p in net[1:].parameters())
    assert model.deletions(Q).effect([3]).shape == (10,)


# what belongs to the user ----------------------------------------------------------------------


def test_the_users_module_is_never_changed(rng):
    X, y, Q = problem(rng)
    net = trained(X, y).float()
    net.train()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    model = hf.erasable(net, X, y, loss="logistic", l2=2.0)
    model.deletions(Q).effect([3])
    model.without([3], start="scratch")
    model.score_gradients(Q)
    assert net.training
    assert all(p.dtype == torch.float32 and p.requires_grad for p in net.parameters())
    assert all(p.grad is None for p in net.parameters())
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert torch.equal(torch.get_rng_state(), state)
    first = model.scores(Q)
    with torch.no_grad():
        net[0].weight += 1.0
    np.testing.assert_array_equal(model.scores(Q), first)
    np.testing.assert_allclose(model.without([]).scores(Q), first, atol=1e-6)


def test_frames_subjects_and_ids(rng):
    X, y, _ = problem(rng)
    frame = pd.DataFrame(10 + 5 * X, columns=["a", "b", "c"], index=[f"r{i}" for i in range(120)])
    pipeline = make_pipeline(StandardScaler(), hf.TorchClassifier(module(), l2=2.0)).fit(frame, y)
    scaler, net = pipeline[0], pipeline[-1].module_
    whole = hf.erasable(pipeline, frame, y)
    for given in (scaler, StandardScaler()):
        model = hf.erasable(
            net, frame, y, np.arange(120) // 2, loss="logistic", l2=2.0, preprocessing=given
        )
        np.testing.assert_allclose(model.scores(frame[:5]), whole.scores(frame[:5]), atol=1e-9)
    gradients = model.score_gradients(frame[:5])
    assert list(gradients.columns) == ["a", "b", "c"]
    step = frame[:5].copy()
    step["a"] += 1e-4
    np.testing.assert_allclose(
        (model.scores(step) - model.scores(frame[:5])) / 1e-4, gradients["a"], atol=1e-4
    )
    assert model.positions_of([0]).tolist() == [0, 1]
    assert whole.positions_of(["r7"]).tolist() == [7]
    kept = model.deletions(frame[:5], preprocessing="kept").effect(subjects=[0])
    refit = model.without(subjects=[0], refit_preprocessing=False)
    true = model.scores(frame[:5]) - refit.scores(frame[:5])
    assert np.corrcoef(kept, true)[0, 1] > 0.99
    honest = model.scores(frame[:5]) - model.without(subjects=[0]).scores(frame[:5])
    np.testing.assert_allclose(model.deletions(frame[:5]).effect(subjects=[0]), honest, atol=1e-9)


def test_cold_refits_draw_anew_and_warm_ones_do_not(fitted):
    model, X, y, Q = fitted
    again = model.without([], start="fitted").scores(Q)
    np.testing.assert_allclose(again, model.scores(Q), atol=1e-6)
    with quiet:  # stopped long before the optimum, which both would find
        one, same, other = (
            hf.TorchClassifier(module(seed=net), 2.0, max_iter=3, random_state=seed).fit(X, y)
            for net, seed in ((0, 1), (5, 1), (0, 2))
        )
    np.testing.assert_array_equal(one.decision_function(Q), same.decision_function(Q))
    assert np.abs(one.decision_function(Q) - other.decision_function(Q)).max() > 1e-3


def test_the_core_never_imports_torch():
    code = (
        "import sys, numpy as np, holdfast as hf; from sklearn.neural_network import MLPRegressor;"
        "X = np.random.default_rng(0).normal(size=(40, 2));"
        "net = MLPRegressor("
        "hidden_layer_sizes=(2, 2), activation='tanh', alpha=1.0, solver='lbfgs', max_iter=5000);"
        "m = hf.erasable(net.fit(X, X[:, 0]), X, X[:, 0]); m.deletions(X[:2]).effect([0]);"
        "assert 'torch' not in sys.modules and 'opacus' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# downstream -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["scfe", "dice", "cem"])
def test_recourse_by_gradients(method, fitted):
    model, X, _, _ = fitted
    people = X[model.scores(X) < 0][:3]
    given = hf.find_recourse(model, people, method=method, target=0.0, random_state=0)
    assert given.valid.all()
    assert (model.scores(given.points) >= 0).all()


def test_search_audit_and_impact(rng):
    X, y, _ = problem(rng, n=60)
    model = hf.erasable(trained(X, y, units=(3,)), X, y, loss="logistic", l2=2.0)
    people = X[model.scores(X) < 0][:4]
    given = hf.find_recourse(model, people, target=0.0, overshoot=0.05, random_state=0)
    plan = hf.search(model, given, target=0.0, max_deletions=2, method="greedy")
    assert plan.predicted[-1] >= 0
    result = hf.audit(
        model,
        given,
        target=0.0,
        max_deletions=1,
        search="greedy",
        certify=True,
        draws=2,
        random_state=0,
    )
    assert result.seeds.draws == 3
    assert "other seeds alone break" in result.headline
    found = hf.impact(model, given, positions=[0, 1], target=0.0)
    assert len(found.broken) <= len(given)
    proof = hf.certify(model, given, target=0.0, max_deletions=1)
    assert proof.limit == 0
    assert "hf.ShardedClassifier" in proof.limit_reason


def test_what_cannot_be_drawn_anew_says_so(rng):
    X, y, _ = problem(rng)

    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x * self.scale).sum(dim=1)

    with pytest.raises(hf.HoldfastError, match="'Shift' has parameters but no reset_parameters"):
        hf.TorchClassifier(Shift(), l2=1.0).fit(X, y)
    own = ErasableModel(held(Shift(), X), X, y)
    assert not own.can.draws
    with pytest.raises(hf.HoldfastError, match="reset_parameters"):
        own.without([0], start="scratch")


# bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (lambda: module().to("meta"), r"is on 'meta'.*module.cpu\(\)"),
        (lambda: module().half(), r"is float16; float32 or float64 is wanted.*module.float\(\)"),
        (lambda: module(d=4), "cannot be called with 7 rows of 3 features in float64"),
        (lambda: nn.Linear(3, 2), r"gives \(7, 2\) for 7 rows; one score per row.*\(7, 1\)"),
        (lambda: Odd(lambda f, x: f.mean()), r"gives \(\) for 7 rows"),
        (lambda: Odd(lambda f, x: (f, x)), "gives tuple for 7 rows"),
        (lambda: Odd(lambda f, x: f.float()), "scores are float32 though"),
        (lambda: Odd(lambda f, x: f * float("nan")), "gives nan for row 0"),
        (lambda: Odd(lambda f, x: f - f.mean()), "depends on the rows beside it"),
        (lambda: Odd(lambda f, x: f + torch.randn_like(f)), "other scores when it is called again"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)), "dropout is left"
         r" on in the module's '1'.*module.eval\(\)"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
         r"'1' \(BatchNorm1d\) is in training mode.*module.eval\(\) first, or use LayerNorm"),
        (lambda: nn.LazyLinear(1), "has no shape yet"),
        (lambda: module().requires_grad_(False), "no trainable parameter"),
        (lambda: Odd(lambda f, x: f + torch.sqrt(f * 0.0)), "gradient of the loss in the module's "
         "parameter 'linear.weight' is nan"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_modules_are_refused_in_words(net, message, rng):
    X, y, _ = problem(rng)
    with pytest.raises(hf.HoldfastError, match=message):
        hf.erasable(net(), X, y, loss="logistic", l2=1.0)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (None, "loss is missing"),
        ("hinge", "loss must be 'logistic', 'squared' or a function.*got 'hinge'"),
        (lambda z, y: ((z - y) ** 2).mean(), r"gives \(\) for 120 rows.*reduction='none'"),
        (lambda z, y: (z - y) ** 2 / y, "the loss of row .* is inf"),
        (lambda z, y: (z - z.mean() - y) ** 2, "changes with the rows beside it"),
        (lambda z, y: (z.detach() - y) ** 2, "no derivative in the scores"),
        (lambda z, y: 3.0, "gives float for 120 rows"),
        (lambda z: z, "the loss cannot be called"),
    ],
)
def test_losses_are_refused_in_words(loss, message, rng):
    X, y, _ = problem(rng)
    with pytest.raises(hf.HoldfastError, match=message):
        hf.erasable(module(), X, y, loss=loss, l2=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": "minus"}, "takes labels 0 and 1 .*y has -1"),
        ({"l2": -1.0}, "l2 must be a finite number from 0, got -1.0"),
        ({"l2": float("nan")}, "l2 must be a finite number"),
        ({"preprocessing": "scale"}, "preprocessing must be a scikit-learn transformer"),
    ],
)
def test_other_bad_input(options, message, rng):
    X, y, _ = problem(rng)
    if options.pop("y", None):
        y = 2 * y - 1
    with pytest.raises(hf.HoldfastError, match=message):
        hf.erasable(module(), X, y, **{"loss": "logistic", "l2": 1.0, **options})


def test_text_before_a_preprocessing_for_numbers(rng):
    X, y, _ = problem(rng)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(c="text")
    with pytest.raises(hf.HoldfastError, match="StandardScaler.*cannot be fitted on X"):
        hf.erasable(module(), frame, y, loss="logistic", preprocessing=StandardScaler())


def test_batch_norm_at_rest_is_allowed_and_said(rng):
    X, y, Q = problem(rng)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).eval()
    with pytest.warns(hf.DriftWarning, match="running means and variances of '1'.*erased ones"):
        model = hf.erasable(hf.TorchClassifier(net, l2=2.0).fit(X, y), X, y)
    assert model.deletions(Q).effect([3]).shape == (10,)


def test_other_data_are_refused(rng):
    X, y, _ = problem(rng)
    net = trained(X, y, l2=0.1)
    with pytest.raises(hf.DataMismatchError, match="not the data"):
        hf.erasable(net, X, 1 - y, loss="logistic", l2=0.1)


def test_kinks_are_refused_rather_than_guessed(rng):
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=200) > 0).astype(int)
    net = hf.TorchClassifier(module(4, (8,), nn.ReLU), l2=1.0, max_iter=100)
    with quiet:
        model = ErasableModel(net.fit(X, y), X, y)
    with pytest.raises(hf.UnsupportedModelError, match=r"kink.*GELU.*without\(rows\) works"):
        model.deletions(X[:5])
    assert model.scores(X[:5]).shape == (5,)


def test_no_minimum_is_said_by_conjugate_gradients(fitted, monkeypatch):
    small, X, y, Q = fitted
    monkeypatch.setattr("holdfast.models.networks.core.FULL", 5)
    large = hf.erasable(small.estimator, X, y)
    inner = large.core.problem.products
    monkeypatch.setattr(
        large.core.problem, "products", lambda at: lambda v: inner(at)(v) - 50.0 * v
    )
    with pytest.raises(hf.UnsupportedModelError, match="not positive definite.*curvature"):
        large.deletions(Q)


# private training -----------------------------------------------------------------------------


def test_private_training_states_its_account(rng):
    pytest.importorskip("opacus", reason="opacus is not installed: make test-torch installs it")
    X, y, _ = problem(rng, n=100)
    model = hf.erasable(trained(X, y, units=(3,)), X, y, loss="logistic", l2=2.0)
    people = X[model.scores(X) < -0.2][:3]
    found = hf.harden(
        model, people, target=0.0, survive=1, max_deletions=1, holdout=(X, y),
        mitigations={"private": {"epsilons": [20.0, 2.0], "draws": 1, "epochs": 2}},
    )  # fmt: skip
    table = found.table
    assert table["setting"].tolist() == ["ε=20, draw 1", "ε=2, draw 1"]
    assert table["quality"].between(0, 1).all()
    for note, epsilon in zip(table["note"], (20.0, 2.0), strict=True):
        assert "Rényi accounting" in note
        assert "Fresh noise alone breaks" in note
        spent = float(note.split("(ε = ")[1].split(",")[0])
        assert 0.5 * epsilon < spent <= epsilon


def test_private_networks_keep_their_noise_and_no_more(rng):
    pytest.importorskip("opacus", reason="opacus is not installed: make test-torch installs it")
    from holdfast.estimators.private_networks import PrivateNetworkRegressor

    X, y, Q = problem(rng, classes=False)
    one, again, other = (
        PrivateNetworkRegressor(module(), 5.0, epochs=2, random_state=s).fit(X, y).predict(Q)
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3
    model = hf.erasable(PrivateNetworkRegressor(module(), 5.0, epochs=2).fit(X, y), X, y)
    np.testing.assert_allclose(model.scores(Q), one, atol=1e-9)
    steps = 1e-5 * np.eye(3)
    slopes = [(model.scores(Q + e) - model.scores(Q - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(model.score_gradients(Q), np.column_stack(slopes), atol=1e-5)
    assert not model.can.predicts
    assert model.can.draws


def test_networks_of_scikit_learn_are_trained_privately_too(rng):
    from sklearn.neural_network import MLPClassifier

    pytest.importorskip("opacus", reason="opacus is not installed: make test-torch installs it")
    X, y, _ = problem(rng)
    net = MLPClassifier(
        (3,), activation="logistic", solver="lbfgs", alpha=1.0, max_iter=5000, random_state=0
    ).fit(X, y)
    model = ErasableModel(net, X, y)
    people = X[model.scores(X) < -0.1][:4]
    found = hf.harden(
        model, people, target=0.0, survive=1, max_deletions=1,
        mitigations={"private": {"epsilons": [8.0], "draws": 1, "epochs": 2}},
    )  # fmt: skip
    assert found.skipped == {}
    assert found.table["mitigation"].tolist() == ["private"]


def test_one_row_is_scored_by_itself_and_shards_promise(rng):
    X, y, _ = problem(rng, 60)
    fitted = hf.TorchClassifier(module(), l2=1.0).fit(X, y)
    assert np.allclose(fitted.predict_proba(X[:1]), fitted.predict_proba(X)[:1])
    shards = hf.ShardedClassifier(hf.TorchClassifier(module(), l2=1.0), 3).fit(X, y)
    model = hf.erasable(shards, X, y)
    assert np.allclose(model.scores(X[:1]), model.scores(X)[:1])
    honest = model.scores(X) - model.without([4]).scores(X)
    assert np.array_equal(model.deletions(X).effect([4]), honest)


def test_what_is_frozen_stays_on_every_start(rng):
    X, y, _ = problem(rng, 60)
    net = module()
    for parameter in net[0].parameters():
        parameter.requires_grad = False
    with torch.no_grad():
        net[0].bias.fill_(0.7)
    fitted = hf.TorchClassifier(net, l2=1.0, random_state=5).fit(X, y)
    assert torch.equal(fitted.module_[0].bias, net[0].bias.double())
    assert torch.equal(fitted.module_[0].weight, net[0].weight.double())
    assert not torch.equal(fitted.module_[2].weight, net[2].weight.double())
    model = hf.erasable(fitted.module_, X, y, loss="logistic", l2=1.0)
    cold = model.without([3], start="scratch").estimator.module_
    assert torch.equal(cold[0].weight, net[0].weight.double())


def test_a_loss_that_hides_its_curvature_is_refused(rng, fitted):
    model, X, y, _ = fitted

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z, labels):
            ctx.save_for_backward(z, labels)
            return nn.functional.binary_cross_entropy_with_logits(z, labels, reduction="none")

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            z, labels = ctx.saved_tensors
            return g * (torch.sigmoid(z) - labels), None

    net = model.estimator.module_
    with pytest.raises(hf.HoldfastError, match="cannot be differentiated twice"):
        hf.erasable(net, X, y, loss=Hidden.apply, l2=2.0)
    weights = torch.rand(len(y), dtype=torch.float64)
    bce = nn.functional.binary_cross_entropy_with_logits
    with pytest.raises(hf.HoldfastError, match="sample_weight="):
        hf.erasable(net, X, y, l2=2.0, loss=lambda z, t: bce(z, t, weights, reduction="none"))

    def pairs(z, t):
        return bce(z, t, reduction="none") + (z - z.view(-1, 2).flip(1).reshape(-1)) ** 2

    with pytest.raises(hf.HoldfastError, match="one row's score|rows beside it"):
        hf.erasable(net, X, y, loss=pairs, l2=2.0)


def test_a_model_around_a_module_can_be_copied(fitted):
    import pickle

    model, _, _, Q = fitted
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(other.scores(Q), model.scores(Q))
        assert np.array_equal(other.deletions(Q).effect([2]), model.deletions(Q).effect([2]))


def test_a_feature_without_a_derivative_is_named(rng):
    X, y, _ = problem(rng, 60)
    root = Odd(lambda out, x: out + torch.sqrt(x[:, 2:] ** 2))
    model = hf.erasable(trained_odd(root, X, y), X, y, loss="logistic", l2=1.0)
    X[0, 2] = 0.0
    with pytest.raises(hf.HoldfastError, match="no finite derivative in feature 2 at row 0"):
        model.score_gradients(X[:2])


def trained_odd(net, X, y):
    return hf.TorchClassifier(net, l2=1.0).fit(X, y).module_


def test_refusing_a_random_module_leaves_the_generator_as_it_was(rng):
    X, y, _ = problem(rng, 60)
    dropping = Odd(lambda out, x: nn.functional.dropout(out, 0.5, True))
    before = torch.get_rng_state()
    with pytest.raises(hf.HoldfastError):
        hf.erasable(dropping, X, y, loss="logistic", l2=1.0)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "a"])
def test_private_training_ends(rng, epochs):
    pytest.importorskip("opacus", reason="opacus is not installed: make test-torch installs it")
    from holdfast.estimators.private_networks import PrivateNetworkClassifier

    X, y, _ = problem(rng, 60)
    with pytest.raises(hf.HoldfastError, match="epochs must be"):
        PrivateNetworkClassifier(module(), epsilon=5.0, epochs=epochs).fit(X, y)

"""hf.harden: margins that are proven and no dearer than they must be; the rest, measured."""

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.audits.hardening import MITIGATIONS
from holdfast.audits.hardening.margin import margins
from holdfast.audits.hardening.private import LAMBDA, _noise
from holdfast.cli import run
from lender import LOANS, MERIT, loans, write_loans


def small(rng, n=14, d=2):
    X = pd.DataFrame(rng.normal(size=(n, d)), columns=[f"x{i}" for i in range(d)])
    y = X.to_numpy() @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    people = pd.DataFrame(rng.normal(size=(6, d)), columns=X.columns)
    return hf.erasable(LinearRegression().fit(X, y), X, y), people, float(np.median(y))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("survive", [1, 2])
def test_margins_are_the_cheapest_that_survive_everything(seed, survive):
    """Against one linear program with a constraint for every deletion there is."""
    model, people, target = small(np.random.default_rng(seed))
    found = margins(model, people, target, survive, overshoot=0.0)
    given = found.given
    assert len(given)
    assert found.method == "cutting planes"
    sets = [s for k in range(survive + 1) for s in itertools.combinations(range(14), k)]
    probe = pd.DataFrame(np.vstack([np.zeros(2), np.eye(2)]), columns=people.columns)
    refits = [model.without(list(s)).scores(probe) if s else model.scores(probe) for s in sets]
    constants = np.array([f[0] for f in refits])
    slopes = np.array([f[1:] - f[0] for f in refits])
    weight = given.space.weight
    for j in range(len(given)):
        x = given.people.iloc[j].to_numpy(float)
        gap = target - constants - slopes @ x
        best = linprog(
            np.concatenate([weight, weight]), -np.hstack([slopes, -slopes]), -gap, method="highs"
        )
        if best.x is None:
            assert not given.valid.iloc[j]
            assert "infeasible" in given.reason.iloc[j]
            continue
        assert given.valid.iloc[j]
        assert given.cost.iloc[j] == pytest.approx(best.fun, rel=1e-4, abs=1e-6)
        at = given.points.iloc[[j]]
        after = [model.without(list(s)).scores(at)[0] for s in sets if s]
        assert min(after) >= target


def lender(estimator=None, n=200):
    table = loans(n)
    X = table[["age", "savings"]].assign(full=(table["job"] == "full") * 1.0)
    X.index = table["customer"]
    y = table["merit"].to_numpy()
    if estimator is None:
        estimator = make_pipeline(StandardScaler(), Ridge())
    fitted = estimator.fit(X[:150], y[:150])
    return hf.erasable(fitted, X[:150], y[:150]), X[150:], (X[150:], y[150:])


def test_margins_keep_the_rules_and_are_certified():
    table = loans(200)
    X = table[["age", "savings", "job"]].astype({"job": object})
    from holdfast.cases.fitting import fit_kind, labels_for

    labels = labels_for("ridge", table["merit"], None)
    model = hf.erasable(fit_kind("ridge", X, labels), X, labels.values)
    rules = hf.Actionability.infer(X, savings={"direction": "up", "step": 50})
    found = margins(model, X[:60], model.median_label, 2, rules)
    given = found.given
    valid = given.valid.to_numpy()
    assert valid.any()
    assert (given.points["age"] == given.people["age"]).all()
    raised = (given.points["savings"] - given.people["savings"])[valid]
    assert (raised >= 0).all()
    assert np.allclose(raised % 50, 0)
    assert set(given.points["job"]) <= {"none", "part", "full"}
    proof = hf.certify(model, given, model.median_label, 2)
    assert (proof["certified"][valid] >= 2).all()
    assert found.certified.all()


def test_larger_overshoots_where_scores_are_not_linear():
    model, people, _ = lender(make_pipeline(StandardScaler(), hf.NTKRegressor(beta=5.0)))
    target = model.median_label
    found = margins(model, people, target, 1)
    given = found.given
    assert found.method == "overshoot"
    assert not found.proven  # certificates keep the scaler, which a refit does not
    fine = given.valid.to_numpy() & found.certified
    assert fine.mean() > 0.8
    for row in range(0, 150, 7):
        after = model.without([row]).scores(given.points[fine])
        assert np.mean(after < target) < 0.05
    base = hf.find_recourse(model, people, target=target)
    assert given.cost[fine].median() >= base.cost[fine].median()


def test_without_certificates_it_is_said():
    model, people, _ = lender(RandomForestRegressor(5, random_state=0))
    found = margins(model, people[:15], model.median_label, 1, method="growing-spheres")
    assert not found.proven
    assert "not certified" in found.method


def test_everything_is_measured_on_the_same_people():
    model, people, holdout = lender()
    found = hf.harden(model, people, survive=2, holdout=holdout, max_deletions=4)
    table = found.table
    assert set(table["mitigation"]) == set(MITIGATIONS) - {"shard"}  # it has certificates
    assert (table["people"] == len(found.case.people)).all()
    margin = table[table["mitigation"] == "margin"].iloc[0]
    assert margin["proven"]
    assert margin["certified"] == 1.0
    assert margin["survive"] == 1.0
    points = found.mitigations["margin"].points
    plan = hf.search(model, points, found.case.target, 2)
    assert plan.rerun()[2] == 0.0
    wide = table[table["setting"] == "overshoot=0.2"].iloc[0]
    if wide["certified"] > 0.9:
        assert margin["extra_cost"] < wide["extra_cost"]
    honour = table[table["mitigation"] == "honour"].iloc[0]
    assert honour["extra_cost"] == 0.0
    assert "granted against" in honour["note"]
    assert (table["served"] <= 1).all()
    assert found.curves.shape == (5, len(table))
    assert "proven" in found.recommendation


def test_broken_shares_are_refits():
    model, people, _ = lender()
    found = hf.harden(model, people, survive=2, mitigations=["uniform"], max_deletions=2)
    made = found.made[0]
    plan = hf.search(model, made.points, found.case.target, 2)
    for k in (1, 2):
        after = model.without(plan.sets[k]).scores(made.points)
        assert made.broken[k] == pytest.approx(np.mean(after < found.case.target))


def test_dropping_critical_rows_drops_those_of_the_attack():
    model, people, _ = lender()
    found = hf.harden(model, people, survive=1, mitigations=["drop-critical"], max_deletions=2)
    assert [m.model.rows.n for m in found.made] == [135, 120]
    assert "not a policy" in found.made[0].note
    options = {"drop-critical": {"m": 4, "rounds": 3}, "private": {"epsilons": [5.0], "draws": 2}}
    found = hf.harden(model, people, survive=1, mitigations=options, max_deletions=1)
    assert [m.model.rows.n for m in found.made[:3]] == [146, 142, 138]
    assert len(found.made) == 5
    with pytest.raises(hf.HoldfastError, match="no option 'n'"):
        hf.harden(model, people, survive=1, mitigations={"drop-critical": {"n": 4}})


def test_noise_has_the_size_the_accounting_asks_for():
    rng = np.random.default_rng(0)
    n, d, epsilon = 1000, 7, 2.0
    lengths = [np.linalg.norm(_noise(rng, epsilon, n, d, True)) for _ in range(4000)]
    scale = 2.0 / (n * LAMBDA * epsilon)
    assert np.mean(lengths) == pytest.approx(d * scale, rel=0.03)  # a gamma distribution's mean
    wide = [np.linalg.norm(_noise(rng, epsilon, n, d, False)) for _ in range(4000)]
    assert np.mean(wide) == pytest.approx(11.0 * d * scale, rel=0.03)


def test_sensitivity_is_never_exceeded():
    """Replacing one clipped row moves the solution by at most 2L/(nλ), as the noise assumes."""
    rng = np.random.default_rng(1)
    n, d = 60, 3
    for _ in range(10):
        Z = rng.normal(size=(n, d))
        Z /= np.maximum(1.0, np.linalg.norm(Z, axis=1))[:, None]
        other = Z.copy()
        other[0] = -Z[0]
        labels = rng.integers(0, 2, n)
        changed = labels.copy()
        changed[0] = 1 - labels[0]
        C = 1.0 / (LAMBDA * n)
        weights = [
            LogisticRegression(C=C, fit_intercept=False, tol=1e-10).fit(a, b).coef_[0]
            for a, b in ((Z, labels), (other, changed))
        ]
        assert np.linalg.norm(weights[0] - weights[1]) <= 2.0 / (n * LAMBDA)
        y = np.clip(rng.normal(size=n), -1, 1)
        z = y.copy()
        z[0] = -np.sign(y[0])
        weights = [
            Ridge(alpha=LAMBDA * n, fit_intercept=False).fit(a, b).coef_
            for a, b in ((Z, y), (other, z))
        ]
        bound = 2.0 * (1.0 + 1.0 / np.sqrt(LAMBDA)) / (n * LAMBDA)
        assert np.linalg.norm(weights[0] - weights[1]) <= bound


def test_private_weights_hide_the_intercept_too():
    """The constant is penalised and noised like every other weight, labels lie within [-1, 1]."""
    model, people, holdout = lender()
    found = hf.harden(
        model, people, survive=1, holdout=holdout, mitigations=["private"], max_deletions=1
    )
    at_zero = []
    for made in found.made:
        ones = made.model.features(people)[:, 0]
        assert (ones == 1.0).all()
        last = made.model.estimator[-1]
        assert not last.fit_intercept
        radius = np.sqrt((made.model.features(made.model.X) ** 2).sum(axis=1).max())
        assert last.alpha == pytest.approx(LAMBDA * 150 * radius**2)
        unit = np.abs(made.model.y).max()
        assert radius * np.linalg.norm(last.coef_) / unit <= 1.0 / np.sqrt(LAMBDA)
        at_zero.append(made.offset(people[:1])[0])
    assert len(set(at_zero)) == len(at_zero)  # every draw is another
    weighted = hf.erasable(
        Ridge().fit(*holdout, sample_weight=np.ones(50)), *holdout, sample_weight=np.ones(50)
    )
    skipped = hf.harden(weighted, people, survive=1, mitigations=["private", "honour"]).skipped
    assert "equal weight" in skipped["private"]


def test_what_is_proven_is_confirmed_with_the_preprocessing_refitted():
    """A pipeline whose preprocessing matters: the attack with full refits breaks nobody."""
    from holdfast.cases.fitting import fit_kind, labels_for

    table = loans(200)
    X = table[["age", "income", "savings", "job"]].astype({"job": object})
    labels = labels_for("ridge", table["merit"], None)
    for table, proven in ((X.fillna({"income": 3000.0}), True), (X, False)):  # gaps: filled anew
        model = hf.erasable(fit_kind("ridge", table, labels), table, labels.values)
        options = {"mitigations": ["margin"], "actionability": "infer"}
        found = hf.harden(model, table[:60], survive=2, **options)
        line = found.table.iloc[0]
        assert line["proven"] == proven
        assert ("proven with the preprocessing refitted" in found.recommendation) == proven
        assert (line["certified"] == 1.0) == proven
        assert line["survive"] >= (1.0 if proven else 0.95)


def test_nobody_is_promised_what_is_not_proven():
    """Where margins cannot reach, people have no recourse, and it is said."""
    model, people, _ = lender()
    rules = {"features": {"savings": {"range": [0, 9000]}, "age": "frozen", "full": "frozen"}}
    found = margins(model, people, model.median_label, 30, rules)
    proof = hf.certify(model, found.given.points, model.median_label, 30)
    valid = found.given.valid.to_numpy()
    assert (proof["certified"].to_numpy()[valid] >= 30).all()
    assert (found.given.reason[~found.given.valid] != "").all()
    pd.testing.assert_frame_equal(found.given.told, found.given.points)


def test_odd_people_and_models():
    model, people, holdout = lender()
    twice = people.set_axis(np.arange(len(people)) // 2, axis=0)
    found = hf.harden(model, twice, survive=1, mitigations=["margin", "uniform"], max_deletions=1)
    assert found.table["extra_cost"].notna().all()
    gap = people.copy()
    gap.iloc[0, 0] = np.nan
    plain = lender(LinearRegression())[0]
    for name in ("margin", "private", "robust-recourse"):
        found = hf.harden(plain, gap, survive=1, mitigations=[name], max_deletions=1)
        assert len(found.made)
    trees = GradientBoostingRegressor(n_estimators=3).fit(*holdout)
    model = hf.erasable(trees, *holdout)
    found = hf.harden(model, people[:10], survive=1, mitigations=["regularise", "honour"])
    assert "GradientBoosting" in found.skipped["regularise"]
    few = hf.erasable(
        LinearRegression().fit(people[:9], holdout[1][:9]), people[:9], holdout[1][:9]
    )
    found = hf.harden(few, people, survive=1, mitigations=["honour"])
    assert found.case.max_deletions == 8


def test_given_promises_are_the_baseline():
    model, people, _ = lender()
    given = hf.find_recourse(model, people, overshoot=0.5)
    found = hf.harden(model, people, survive=1, mitigations=["honour", "margin"], given=given)
    assert len(found.mitigations["honour"].points) == given.valid.sum()
    assert found.table["extra_cost"].iloc[1] < 0  # a promise with less room is enough


def test_a_network_or_forest_gets_what_applies():
    model, people, holdout = lender(RandomForestRegressor(5, random_state=0))
    found = hf.harden(
        model,
        people[:15],
        survive=1,
        holdout=holdout,
        max_deletions=1,
        mitigations=["honour", "regularise", "private", "robust-recourse"],
    )
    assert set(found.skipped) == {"regularise", "private", "robust-recourse"}
    assert "linear and logistic" in found.skipped["private"]
    assert "Nothing that was tried" in found.recommendation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"survive": 0}, "survive must be a whole number from 1 to"),
        ({"survive": 500}, "survive must be a whole number from 1 to"),
        ({"mitigations": []}, "name some mitigations"),
        ({"mitigations": "margins"}, "did you mean 'margin'"),
        ({"holdout": (1, 2, 3)}, "a pair"),
        ({"holdout": ([[1.0, 2.0, 0.0]], [1.0, 2.0])}, "1 rows and 2 labels"),
        ({"mitigations": ["margins"]}, "did you mean 'margin'"),
        ({"target": 1e9, "actionability": "infer"}, "nobody has a recourse"),
        ({"overshoot": -1}, "overshoot"),
    ],
)
def test_bad_arguments(options, message):
    model, people, _ = lender()
    with pytest.raises(hf.HoldfastError, match=message):
        hf.harden(model, people, **options)


def test_nobody_can_survive_what_rules_forbid():
    """No room to move: said for each person."""
    model, people, _ = lender()
    rules = {"features": {"savings": {"range": [0, 2500]}, "age": "frozen", "full": "frozen"}}
    found = margins(model, people, model.median_label, 3, rules)
    short = ~found.given.valid
    assert short.any()
    assert found.given.reason[short].str.contains("infeasible|range|lie in").all()


def test_plot_and_json():
    from matplotlib.figure import Figure

    model, people, _ = lender()
    found = hf.harden(model, people, survive=1, mitigations=["uniform", "margin"], max_deletions=1)
    ax = Figure().subplots()
    assert found.plot(ax) is ax
    said = json.loads(found.to_json())
    assert said["survive"] == 1
    assert [line["mitigation"] for line in said["lines"]] == ["uniform", "uniform", "margin"]


@pytest.mark.slow
def test_the_command_and_the_section(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = write_loans(tmp_path).fillna({"income": 3000.0})
    table.drop(columns="repaid").to_csv("merit.csv", index=False)
    base = [*MERIT, "--survive", "1", "--mitigation", "margin", "--mitigation", "uniform"]
    quick = ["--max-deletions", "2", "--draws", "2"]
    assert run(["harden", *base, "--html", "h.html", "--out", "hard.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["quality"] == "R²"
    assert said["lines"][0]["proven"]
    assert "<svg" in Path("h.html").read_text()
    promised = pd.read_csv("hard.csv")
    assert len(promised)
    assert Path("hard.csv").stat().st_mode & 0o777 == 0o600
    assert run(["audit", *base, *quick, "--html", "r.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hardening"]["survive"] == 1
    page = Path("r.html").read_text()
    assert 'id="hardening"' in page
    assert "C-0" not in page
    assert run(["harden", *base[:-2]]) == 0
    assert "proven" in capsys.readouterr().out
    assert run(["harden", *LOANS, "--survive", "1", "--mitigation", "magic"]) == 2
    assert "no mitigation 'magic'" in capsys.readouterr().err


def test_people_the_cuts_leave_open_get_an_overshoot(monkeypatch):
    """What no deletion could be named against, nor proven of, is tried again by overshoot."""
    from sklearn.datasets import load_diabetes

    module = importlib.import_module("holdfast.audits.hardening.margin")

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = hf.erasable(LinearRegression().fit(X, y), X, y)
    run = module.CuttingPlanes.run

    def some_open(self):
        rounds = run(self)
        self.sure[:2] = False
        return rounds

    monkeypatch.setattr(module.CuttingPlanes, "run", some_open)
    found = module.margins(model, X[:30], 150.0, 1)
    assert "overshoot" in found.method
    assert found.certified.all()
    assert module._certified(model, found.given, 150.0, 1, "row").all()

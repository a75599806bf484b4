"""The reproduction: a cell of every figure against fits of its own; resuming; the claims."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import holdfast as hf
from holdfast import datasets, paper
from holdfast.datasets.dataset import Dataset
from holdfast.paper import choices, claims, notions, pages, provenance, runner
from holdfast.paper import setups as cases
from holdfast.paper.settings import AS_IS, OVERSHOOTS, Cell, Scale
from holdfast.paper.store import Store

TINY = Scale(
    train=150,
    people=40,
    methods=("scfe",),
    splits=2,
    split_people=20,
    draws=3,
    network_draws=1,
    action_people=10,
    bound_people=8,
    gate_steps=30,
    width=60,
)


@pytest.fixture(autouse=True)
def bundled_instead(monkeypatch):
    """Data that come with scikit-learn in the place of those that must be fetched."""
    real = datasets.load_dataset

    def bundled(name, task=None, **options):
        if task == "classification" and name in ("heloc", "compas", "diabetes"):
            return real("breast-cancer")
        return real("diabetes-progression", task)

    monkeypatch.setattr(cases, "load_dataset", bundled)
    monkeypatch.setattr(notions, "load_dataset", students)


def students(name, **options):
    """Made-up ones."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"LSAT": rng.normal(36, 5, 120), "UGPA": rng.normal(3.2, 0.4, 120)})
    y = 0.1 * X["LSAT"] + X["UGPA"] + rng.normal(0, 1, 120)
    return Dataset(name, "regression", X, y.to_numpy(), hf.Actionability(), "high")


def measured(figure, data, model, overshoot=0.05, split=0, scale=TINY):
    cell = Cell(figure, data, model, "scfe", overshoot, split)
    case = cases.set_up(*cell.case, scale, 1, None)
    return case, cell, pd.DataFrame(runner.FIGURES[figure][1](case, cell))


def curve(found, series, people="all", measure="invalidated"):
    some = found[(found["series"] == series) & (found["people"] == people)]
    return some[some["measure"] == measure].set_index("deletions")


def refitted(case, estimator, points, rows, scores):
    keep = np.setdiff1d(np.arange(len(case.model.y)), rows)
    fitted = estimator.fit(case.model.X.iloc[keep], case.model.y[keep])
    return float(np.mean(getattr(fitted, scores)(points) < case.target))


@pytest.mark.parametrize(
    ("figure", "model", "estimator", "scores", "by"),
    [
        ("outcome", "linear", LinearRegression(fit_intercept=False), "predict", {"refit"}),
        ("outcome", "ntk", hf.NTKRegressor(beta=2.0), "predict", {"refit", "residual"}),
        (
            "classification",
            "logistic",
            LogisticRegression(tol=1e-10, max_iter=10_000),
            "decision_function",
            {"refit"},
        ),
        (
            "classification",
            "ls-svm",
            hf.LSSVMClassifier(),
            "decision_function",
            {"refit", "residual"},
        ),
    ],
)
def test_every_point_is_what_a_fit_of_ones_own_says(figure, model, estimator, scores, by):
    case, cell, found = measured(figure, "admission", model)
    points = case.points(cell.method, cell.overshoot)
    for series in ("greedy-count", "best"):
        plan = case.plan(cell.method, cell.overshoot, series)
        line = curve(found, series)
        assert list(line.index) == list(range(1, 15))
        assert set(line["by"]) == by
        for k in (1, 2, 5, 9, 14):
            own = refitted(case, estimator, points, plan.sets[k], scores)
            assert line.loc[k, "value"] == pytest.approx(own, abs=1e-9)
    if "residual" in by:
        assert set(line[line["by"] == "refit"].index) == {5}
    line = curve(found, "random")
    own = [refitted(case, estimator, points, draw[4], scores) for draw in case.random_sets()]
    assert line.loc[5, "value"] == pytest.approx(np.mean(own), abs=1e-9)
    success = found[found["measure"] == "success"].iloc[0]
    assert success["value"] == case.recourse(cell.method, cell.overshoot).success


def test_networks_are_refitted_at_some_points_and_predicted_elsewhere():
    # with 150 rows the paper's penalty leaves nothing of the network
    case, _, found = measured("classification", "heloc", "ann", scale=replace(TINY, train=400))
    line = curve(found, "greedy-count")
    assert set(line[line["by"] == "refit, warm"].index) == {1, 2, 5, 14}
    assert set(line["by"]) == {"refit, warm", "predicted"}
    assert set(curve(found, "random").index) == {1, 2, 5, 14}
    best = curve(found, "best")
    assert set(best[best["by"] == "refit, warm"].index) == {2, 5}
    plan = case.plan("scfe", 0.05, "greedy-count")
    after = case.model.without(plan.sets[5]).scores(case.points("scfe", 0.05))
    assert line.loc[5, "value"] == pytest.approx(np.mean(after < case.target), abs=1e-9)


def test_a_network_that_ends_on_a_saddle_is_drawn_again(monkeypatch):
    real = cases.erasable

    def saddles(fitted, X, y):
        saddle = SimpleNamespace(can=SimpleNamespace(predictions=(), why_not="a saddle"))
        return saddle if fitted.random_state < on_a_saddle else real(fitted, X, y)

    monkeypatch.setattr(cases, "erasable", saddles)
    case = ("heloc", "ann", 0, "as printed", replace(TINY, train=400), 1, None)
    on_a_saddle = 1
    assert cases.set_up(*case).facts["model"]["random_state"] == 1
    on_a_saddle = 9
    with pytest.raises(hf.HoldfastError, match="with 3 seeds: a saddle"):
        cases.set_up(*case)


def test_people_held_out_are_not_searched_on():
    case, cell, found = measured("outcome", "heloc", "linear", split=1)
    assert set(found["people"]) == {"searched", "held out"}
    points = case.points(cell.method, cell.overshoot)
    order = np.random.default_rng([11, 1]).permutation(len(points))[:20]
    assert len(case.people) <= 20
    plan = case.search(points.iloc[order[: len(order) // 2]], "best")
    held_out = points.iloc[order[len(order) // 2 :]]
    own = refitted(case, LinearRegression(fit_intercept=False), held_out, plan.sets[5], "predict")
    assert curve(found, "best", "held out").loc[5, "value"] == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("model", ["linear", "ntk"])
def test_action_is_the_distance_to_recourse_found_again(model):
    case, cell, found = measured("action", "admission", model)
    assert set(found["series"]) == {"gates", "best", "random"}
    assert set(found["measure"]) == {"phi2, l2 cost", "phi2, l1 cost"}
    goal = case.target + cell.overshoot * case.model.score_unit
    people = case.people.iloc[: TINY.action_people]
    first = hf.find_recourse(case.model, people, "scfe", goal, cases.FREE, overshoot=0.0, cost="l2")
    sets = case.search_action(
        first.points, people.loc[first.points.index], goal, "gates", {"steps": 30}
    )
    refit = case.model.without(sets[5])
    again = hf.find_recourse(refit, people, "scfe", goal, cases.FREE, overshoot=0.0, cost="l2")
    assert len(first.points) == len(people)
    # who needs nothing any more stays where they are
    moved_to = people.astype(float)
    moved_to.loc[again.points.index] = again.points
    own = np.linalg.norm(first.points - moved_to.loc[first.points.index], axis=1)
    line = curve(found, "gates", measure="phi2, l2 cost")
    assert line.loc[5, "value"] == pytest.approx(own.mean(), rel=1e-6)
    by = {"refit"} if model == "linear" else {"refit", "residual"}
    assert set(line["by"]) == by


@pytest.mark.parametrize(("model", "data"), [("linear", "heloc"), ("ntk", "admission")])
@pytest.mark.parametrize("figure", ["gates", "onion", "bounds", "overshoot"])
def test_the_other_figures(figure, model, data):
    case, _, found = measured(figure, data, model)
    assert len(found)
    if figure == "gates":
        assert {"greedy-count", "gates", "gates, weak ℓ0", "random"} == set(found["series"])
    if figure == "onion":
        critical = case.search(case.points("scfe", 0.05), "greedy-soft", max_deletions=15).rows
        assert len(set(critical)) == 15
        reduced = case.without(critical)
        assert reduced.model.rows.n == case.model.rows.n - 15
        plan = reduced.search(reduced.points("scfe", 0.05), "greedy-count")
        expected = plan.rerun()[5]
        assert curve(found, "greedy-count, after").loc[5, "value"] == pytest.approx(expected)
    if figure == "bounds":
        least = found[found["measure"] == "least bound / measured"]
        path = ["Proposition 2", "Proposition 2, 5 rows", "Proposition 2, 14 rows"]
        alone = ["Proposition 3"] if model == "ntk" else ["Proposition 1", "Corollary (general)"]
        assert {*path, *alone} <= set(least["series"])
        assert (least["value"] >= 1 - 1e-9).all()


@pytest.mark.parametrize("encoding", ["intercept", "raw labels", "intercept, no flags"])
def test_the_regression_written_down_otherwise(encoding):
    cell = Cell("encodings", "heloc", "linear", "scfe", 0.01, 0, encoding)
    case = cases.set_up(*cell.case, TINY, 1, None)
    assert case.model.estimator.fit_intercept is ("intercept" in encoding)
    assert (case.target == 0.0) is ("raw" not in encoding)
    found = pd.DataFrame(runner.FIGURES["encodings"][1](case, cell))
    assert set(found["encoding"]) == {encoding}
    own = LinearRegression(fit_intercept="intercept" in encoding)
    points, plan = case.points("scfe", 0.01), case.plan("scfe", 0.01, "greedy-count")
    line = curve(found, "greedy-count")
    for k in (1, 5, 14):
        expected = refitted(case, own, points, plan.sets[k], "predict")
        assert line.loc[k, "value"] == pytest.approx(expected, abs=1e-9)


def test_where_published_methods_stop_is_a_column_of_its_own():
    case, cell, found = measured("outcome", "admission", "linear", AS_IS)
    assert set(found["stop"]) == {"as published"}
    points = case.points("scfe", AS_IS)
    past = (case.model.scores(points) - case.target) / case.model.score_unit
    reached = found[found["measure"] == "overshoot reached"].set_index("series")["value"]
    assert reached["median"] == pytest.approx(np.median(past))
    assert reached["median"] > 0.01  # it is not settled onto the target
    assert cell.key == "outcome-admission-linear-scfe--1.0-0"


def test_advice_people_could_follow():
    case, _, found = measured("rules", "heloc", "linear")
    told = found[found["measure"] == "success under rules"]
    assert list(told["series"]) == ["rules, ℓ1", "rules, ℓ2", "free, ℓ2"]
    frozen = [n for n, rule in case.rules.features.items() if rule.direction == "frozen"]
    given = hf.find_recourse(
        *(case.model, case.people, "scfe"), target=case.target, actionability=case.rules
    )
    assert frozen
    assert (given.points[frozen] == given.people[frozen]).all(axis=None)
    line = curve(found, "greedy-count, rules, ℓ1")
    plan = case.search(
        hf.find_recourse(
            *(case.model, case.people, "scfe"),
            target=case.target,
            actionability=case.rules,
            overshoot=0.05,
            cost="l1",
        ).points,
        "greedy-count",
    )
    assert line.loc[5, "value"] == pytest.approx(plan.rerun()[5])


@pytest.mark.slow
def test_private_training_beside_none():
    _, _, found = measured("privacy", "heloc", "linear")
    assert set(found["series"]) == {"as it is", "ε = 100", "ε = 10", "ε = 1"}
    shares = found[found["measure"] == "invalidated"]["value"].dropna()
    assert len(shares)
    assert shares.between(0, 1).all()
    assert set(found["measure"]) == {"invalidated", "quality", "broken by fresh noise"}


def test_wide_networks_are_refitted():
    case, _, found = measured("wide", "admission", "ntk")
    line = curve(found, "greedy on the NTK")
    assert list(line.index) == [1, 5, 14]
    assert set(line["by"]) == {"refit, warm"}
    wide = case.memory["wide"]
    points = hf.find_recourse(wide, case.people, "scfe", case.target, cases.FREE, 0.05)
    rows = case.plan("scfe", 0.05, "greedy").sets[5]
    after = wide.without(rows).scores(points.points[points.valid])
    assert line.loc[5, "value"] == pytest.approx(np.mean(after < case.target))


def test_a_cell_is_the_same_every_time():
    _, _, first = measured("outcome", "admission", "ntk")
    _, _, again = measured("outcome", "admission", "ntk")
    pd.testing.assert_frame_equal(first, again)


@pytest.fixture
def tiny(monkeypatch):
    """A whole reproduction in seconds."""
    monkeypatch.setattr(paper, "QUICK", TINY)
    monkeypatch.setattr(paper, "load_dataset", lambda name, **options: None)
    figures = {name: runner.FIGURES[name] for name in ("onion", "bounds", "wide")}
    monkeypatch.setattr(paper, "FIGURES", figures)


def manifest_says(out, words):
    return words in json.loads((out / "manifest.json").read_text())["runs"][-1]["command"]


@pytest.mark.slow
def test_everything_is_written_and_nothing_is_done_twice(tiny, tmp_path, monkeypatch):
    out = tmp_path / "made"
    settings = {"quick": True, "jobs": 1, "overshoots": [0.01, 0.1]}
    told = []
    made = paper.reproduce(["onion"], out, progress=lambda *said: told.append(said), **settings)
    assert told[-1] == ("cells", 12, 12)
    names = {path.name for path in out.iterdir()}
    assert {"results.csv", "results.json", "claims.md", "claims.json", "manifest.json"} <= names
    assert {"onion-0.01.svg", "onion-0.1.png", "onion-best-as-published.svg"} <= names
    assert {"notions.svg", "notions.png", "figures.html"} <= names
    assert not [name for name in names if name.startswith(".")]
    ElementTree.parse(out / "onion-0.01.svg")
    again = pd.read_csv(out / "results.csv")
    assert (
        len(again)
        == len(made.results)
        == sum(len(one["deletions"]) for one in json.loads((out / "results.json").read_text()))
    )
    assert manifest_says(out, "holdfast reproduce onion --quick --overshoot 0.01")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["overshoots"] == [0.01, 0.1]
    assert set(manifest["settings"]["data"]) <= set(datasets.NAMES)
    assert str(tmp_path) not in (out / "manifest.json").read_text()
    judged = {claim.sentence[:12]: claim.verdict for claim in made.claims}
    assert judged["Removing the"] != "not measured"
    assert judged["Recourse is "] == "not measured"
    # another figure into the same folder: what is there stays, and is in the tables still
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("onion*")}
    with pytest.raises(hf.HoldfastError, match="resume"):
        paper.reproduce(["bounds"], out, **settings)
    with pytest.raises(hf.HoldfastError, match="overshoots"):
        paper.reproduce(["bounds"], out, resume=True, **{**settings, "overshoots": [0.5]})
    both = paper.reproduce(["onion", "bounds"], out, resume=True, **settings)
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").glob("onion*")} == before
    assert set(both.results["figure"]) == {"onion", "bounds"}
    drawn = (out / "onion-0.01.svg").read_bytes()
    paper.reproduce(["onion"], out, resume=True, **settings)
    assert (out / "onion-0.01.svg").read_bytes() == drawn
    # cells that were damaged are measured again, and no others
    damaged = sorted((out / "cells").glob("onion*"))[:4]
    for path, content in zip(damaged, ("{", "[]", "null", '{"records": 5}'), strict=True):
        path.write_text(content)
    paper.reproduce(["onion"], out, resume=True, **settings)
    assert (out / "onion-0.01.svg").read_bytes() == drawn
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path for path in before if after[path] != before[path]} == set(damaged)
    # overshoots a figure has only in part are not judged
    next((out / "cells").glob("onion-*-0.01-0.json")).unlink()
    partly = paper.reproduce(["bounds"], out, resume=True, **settings)
    onion = partly.results[partly.results["figure"] == "onion"]
    assert set(onion["stop"]) == {"0.1", "as published"}
    assert set(partly.results["overshoot"].dropna()) == {0.01, 0.1}
    page = (out / "claims.md").read_text()
    assert "A quick run" in page
    assert "fixed beforehand" not in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"figures": ["outcom"]}, "did you mean 'outcome'"),
        ({"overshoots": [-1.0]}, "overshoots must be"),
        ({"overshoots": []}, "overshoots must be"),
        ({"jobs": 0}, "jobs must be"),
        ({"figures": 3}, "there is no figure 3"),
        ({"overshoots": 0.1}, "overshoots must be"),
        ({"overshoots": ["x"]}, "overshoots must be"),
        ({"out": 3}, "out must be a folder"),
        ({"data": 3}, "data must be a folder"),
        ({"data": "nowhere"}, "there is no folder 'nowhere'"),
    ],
)
def test_bad_input(options, words, tmp_path):
    with pytest.raises(hf.HoldfastError, match=words):
        paper.reproduce(**{"figures": ["onion"], "out": tmp_path / "out", **options})
    assert not (tmp_path / "out" / "cells").exists()


def test_data_that_cannot_be_had_is_left_out(tiny, tmp_path, monkeypatch):
    def some(name, **options):
        if name == "heloc":
            raise hf.HoldfastError("no heloc today")

    monkeypatch.setattr(paper, "load_dataset", some)
    said = []
    settings = {"quick": True, "jobs": 1, "overshoots": [0.01]}
    made = paper.reproduce(["bounds"], tmp_path / "out", note=said.append, **settings)
    assert set(made.results["data"]) == {"admission"}
    assert made.missing == {"heloc": "no heloc today"}
    assert said[0] == "left out: no heloc today"
    assert "a quick run: 150 training rows" in said[1]


KILLED = """
import sys
sys.path.insert(0, {tests!r})
import test_paper
from holdfast import datasets, paper
from holdfast.paper import setups as cases, notions, runner
real = datasets.load_dataset
notions.load_dataset = test_paper.students
cases.load_dataset = lambda name, task=None, **options: real("diabetes-progression", task)
paper.load_dataset = lambda name, **options: None
paper.QUICK = test_paper.TINY
paper.FIGURES = {{"onion": runner.FIGURES["onion"]}}
paper.reproduce(["onion"], {out!r}, quick=True, jobs=1, resume={resume})
"""


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    out = tmp_path / "out"
    tests = os.path.dirname(__file__)

    def command(resume):
        program = KILLED.format(tests=tests, out=str(out), resume=resume)
        return [sys.executable, "-c", program]

    run = subprocess.Popen(command(False))
    cells = out / "cells"
    while run.poll() is None and len(list(cells.glob("onion*.json"))) < 2:
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    finished = {path: path.stat().st_mtime_ns for path in cells.glob("onion*.json")}
    assert 2 <= len(finished) < 16
    for path in finished:
        json.loads(path.read_text())
    assert not (out / "results.csv").exists()
    subprocess.run(command(True), check=True)
    assert len(list(cells.glob("onion*.json"))) == 16
    for path, when in finished.items():
        assert path.stat().st_mtime_ns == when
    assert (out / "results.csv").exists()


@pytest.mark.slow
@pytest.mark.real_data
def test_a_case_that_fails_does_not_take_the_others_with_it(tmp_path, admission):
    store = Store(tmp_path, {})
    store.open(False)
    wrong = Cell("outcome", "nowhere", "ntk", "scfe", 0.01)  # the heavier, so it is begun first
    right = [Cell("outcome", "admission", "linear", "scfe", at) for at in (0.01, 0.05)]
    with pytest.raises(KeyError, match="nowhere"):
        runner.run(store, [wrong, *right], TINY, 2, None, lambda *said: None)
    assert store.done([wrong, *right]) == right


# the table of claims -------------------------------------------------------------------------


def row(value, **changes):
    made = {
        "figure": "outcome",
        "data": "heloc",
        "model": "linear",
        "method": "scfe",
        "overshoot": 0.01,
        "split": 0,
        "people": "all",
        "measure": "invalidated",
        "series": "greedy-count",
        "deletions": 5,
        "value": value,
        "error": 0.0,
        "by": "refit",
        "count": 100,
        "encoding": "as printed",
        "target": "median label",
        "spread": float("nan"),
        **changes,
    }
    return {"stop": f"{made['overshoot']:g}", "predicted": made["value"], **made}


DATA = ("admission", "heloc")


def verdict_of(start, rows):
    found = claims.verdicts(pd.DataFrame(rows), (0.01, 0.2))
    return next(one for one in found if one.sentence.startswith(start))


def both_searches(value, **changes):
    return [row(value, series=series, **changes) for series in ("greedy-count", "best")]


@pytest.mark.parametrize(
    ("near", "far", "verdict"),
    [(0.96, 0.95, "holds"), (0.96, 0.3, "depends"), (0.5, 0.3, "does not hold")],
)
def test_claims_are_judged_at_every_overshoot(near, far, verdict):
    rows = both_searches(near) + both_searches(far, overshoot=0.2)
    found = verdict_of("Removing 5", rows)
    assert found.verdict == verdict
    assert f"{100 * near:.0f} %" in found.measured["0.01"]
    assert f"{100 * far:.0f} %" in found.measured["0.2"]


def test_a_claim_is_not_judged_by_other_models_or_splits():
    rows = both_searches(0.4)
    rows += both_searches(0.99, model="ntk") + both_searches(0.99, people="searched")
    assert verdict_of("Removing 5", rows).verdict == "does not hold"
    assert verdict_of("Removing the 15", rows).verdict == "not measured"


def test_ntk_needs_about_nine():
    def rows(linear, ntk):
        return [
            row(0.96 if k >= at else 0.5, model=model, deletions=k)
            for model, at in (("linear", linear), ("ntk", ntk))
            for k in range(1, 15)
        ]

    for linear, ntk, later, nine in ((4, 9, "holds", "holds"), (4, 5, "holds", "does not hold")):
        assert verdict_of("For the NTK", rows(linear, ntk)).verdict == later
        assert verdict_of("… namely", rows(linear, ntk)).verdict == nine
    assert verdict_of("For the NTK", rows(10, 9)).verdict == "does not hold"
    assert verdict_of("For the NTK", rows(3, 99)).verdict == "holds"
    alone = [one for one in rows(4, 9) if one["model"] == "linear"]
    assert verdict_of("For the NTK", alone).verdict == "not measured"


def test_curves_that_turn_down():
    def rows(weak):
        strong = [
            row(min(0.1 * k, 0.6), figure="gates", series="gates", deletions=k)
            for k in range(1, 15)
        ]
        return strong + [
            row(v, figure="gates", series="gates, weak ℓ0", deletions=k)
            for k, v in enumerate(weak, start=1)
        ]

    rising = [0.05 * k for k in range(1, 15)]
    falling = [*rising[:10], 0.3, 0.3, 0.3, 0.3]
    for start in ("SGD curves", "… when the ℓ0"):
        assert verdict_of(start, rows(rising)).verdict == "does not hold"
        assert verdict_of(start, rows(falling)).verdict == "holds"
    steady = [{**one, "value": 0.5} for one in rows(falling) if "weak" in one["series"]]
    steady += [one for one in rows(rising) if "weak" not in one["series"]]
    strong = [
        {**one, "value": falling[one["deletions"] - 1]} if "weak" not in one["series"] else one
        for one in steady
    ]
    assert verdict_of("SGD curves", strong).verdict == "holds"
    assert verdict_of("… when the ℓ0", strong).verdict == "does not hold"


def test_the_page_has_a_line_for_every_claim():
    found = claims.verdicts(pd.DataFrame([row(0.9)]), OVERSHOOTS)
    page = claims.as_markdown(found, OVERSHOOTS, "Made up.")
    assert "fixed beforehand" in page
    summary = page.split("## What was measured")[0]
    table = [line for line in summary.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(claims.CLAIMS)
    assert len({line.count(" | ") for line in table if "---" not in line}) == 1


def test_what_no_refit_confirmed_is_no_evidence():
    rows = both_searches(0.97, deletions=2, model="ann", figure="classification", by="predicted")
    assert verdict_of("The removal of as little", rows).verdict == "not measured"
    rows += both_searches(0.3, deletions=2)
    assert verdict_of("The removal of as little", rows).verdict == "does not hold"


def test_verdicts_are_not_fooled():
    def splits(apart):
        at = {"series": "random", "deletions": 14, "people": "searched"}
        return [
            row(0.01 + (d if model == "ntk" else 0.0), model=model, split=split, **at)
            for split, d in enumerate(apart)
            for model in ("linear", "ntk")
        ]

    slightly = "Linear models are slightly"
    assert verdict_of(slightly, splits([0.004, -0.003, 0.001])).verdict == "does not hold"
    assert verdict_of(slightly, splits([0.004, 0.005, 0.0045])).verdict == "holds"
    assert verdict_of(slightly, splits([0.004])).verdict == "not measured"
    success = {"measure": "success", "series": "recourse", "deletions": 0, "count": 100}
    exception = {"data": "admission", "model": "ntk", **success}
    for share, verdict in ((0.02, "does not hold"), (0.6, "holds"), (1.0, "does not hold")):
        assert verdict_of("The only exception", [row(share, **exception)]).verdict == verdict
    onion = [
        row(value, figure="onion", series=f"greedy-count, {when}", deletions=k)
        for k in range(1, 15)
        for when, value in (("before", 0.6), ("after", 0.0 if k == 1 else 1.0))
    ]
    assert verdict_of("Removing the 15", onion).verdict == "does not hold"
    few = [row(0.3, **{**success, "count": 40}), row(0.97, **success)]
    assert verdict_of("Recourse is found", few).verdict == "holds"
    substituted = both_searches(0.99, target="median score") + both_searches(0.5, data="admission")
    found = verdict_of("Removing 5", substituted)
    assert found.verdict == "does not hold"
    assert "with a substituted target 99 %" in found.measured["0.01"]
    only = verdict_of("Removing 5", both_searches(0.96))
    assert only.why.startswith("wherever measured")


def test_what_an_encoding_does_not_touch_stays_in_it():
    main = [row(0.5, data=data, model=model) for data in DATA for model in ("linear", "ntk")]
    coded = {"figure": "encodings", "data": "heloc", "encoding": "intercept, no flags"}
    flags = {**coded, "encoding": "no flags", "model": "ntk"}
    results = pd.DataFrame([*main, row(0.9, **coded), row(0.8, **flags), row(0.7, data="compas")])
    results.loc[results["data"] == "compas", "figure"] = "classification"
    found = claims._written_as(results, "intercept, no flags")
    values = found.set_index(["figure", "data", "model"])["value"]
    assert values["outcome", "heloc", "linear"] == 0.9
    assert values["outcome", "heloc", "ntk"] == 0.8
    assert values["outcome", "admission", "linear"] == 0.5
    assert values["classification", "compas", "linear"] == 0.7
    assert len(values) == 5


def test_choices_are_quoted_from_the_results():
    rows = [
        row(share, overshoot=0.001, deletions=k, method="scfe", split=0)
        for k, share in ((1, 0.61), (5, 0.93))
    ]
    rows += [
        row(0.42, overshoot=0.001, deletions=1, figure="encodings", encoding="intercept", split=0)
    ]
    page = choices.as_markdown(pd.DataFrame(rows))
    lines = {line.split(" | ")[2]: line for line in page.splitlines() if "| HELOC | linear" in line}
    assert "| 61 % | 93 % | – | – |" in lines["**as printed** (the main curves)"]
    assert "| 42 % | – | – | – |" in lines["intercept"]
    assert len({line.count(" | ") for line in page.splitlines() if "| HELOC | l" in line}) == 1


def test_pictures_are_leafed_through_by_stop():
    page = pages.slider(["outcome-0.01", "outcome-as-published", "gates-0.01"], ["0.01", "x<y"])
    assert 'src="outcome-0.01.svg"' in page
    assert "not measured at x&lt;y" in page
    assert "onion" not in page
    assert "held-out" not in page
    assert "http" not in page


def test_a_run_says_what_measured_it():
    assert provenance.measuring_source().startswith("sha256 ")
    found = provenance.commit()
    assert found is None or len(found.split(",")[0]) == 40
    told = provenance.methods_told()
    assert told["scfe"]["as published"]["rate"] == 0.01
    assert {"processor", "cores", "python"} <= set(provenance.machine())


def test_two_kinds_of_fits_are_not_taken_for_each_other():
    case, cell, _ = measured("bounds", "admission", "ntk")
    points = case.points(cell.method, cell.overshoot)
    rows = np.array([3, 7, 9, 20])
    sets = [rows[:1]] * 4 + [rows, *([np.append(rows, 0)] * 9)]
    scores, how = case.after(points, sets)
    assert how[4] == "refit"
    np.testing.assert_allclose(scores[5], case.model.without([0, *rows]).scores(points), rtol=1e-8)


def test_a_mean_is_the_mean_whatever_the_folds():
    values = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert cases.over_folds(values)[0] == pytest.approx(2 / 7)
    five = np.repeat([0.0, 0.1, 0.2, 0.3, 0.4], 4)
    assert cases.over_folds(five)[1] == pytest.approx(
        np.std([0, 0.1, 0.2, 0.3, 0.4], ddof=1) / 5**0.5
    )


def test_a_store_keeps_its_settings(tmp_path):
    store = Store(tmp_path, {"a": 1})
    store.open(False)
    Store(tmp_path, {"a": 1}).open(True)
    with pytest.raises(hf.HoldfastError, match="holds results for a = 1, not 2"):
        Store(tmp_path, {"a": 2}).open(True)
    note = tmp_path / "cells" / "settings.json"
    for content in ("[]", "null", "{"):
        note.write_text(content)
        with pytest.raises(hf.HoldfastError, match="is damaged: use another"):
            Store(tmp_path, {"a": 1}).open(True)
    (tmp_path / "file").write_text("")
    with pytest.raises(hf.HoldfastError, match="cannot make"):
        Store(tmp_path / "file", {}).open(False)
    assert Cell("outcome", "heloc", "ntk", "scfe", 0.1234567).key != (
        Cell("outcome", "heloc", "ntk", "scfe", 0.1234568).key
    )

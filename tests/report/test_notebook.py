"""What notebooks, tests and MLflow show of an audit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import holdfast as hf


@pytest.fixture(scope="module")
def audited():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.rename(columns={"s6": "<b>s6</b>"})
    model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    given = hf.find_recourse(model, X[:150], target=-140)
    groups = np.where(X[:150]["sex"].loc[given.people.index] > 1.5, "a", "b")
    groups[:3] = "few"
    result = hf.audit(model, given, max_deletions=2, draws=3, groups=groups)
    return model, given, result


def test_cards_are_short_and_escaped(audited):
    model, given, result = audited
    plan, proof = result.plan, result.proof
    erased = hf.impact(model, given, positions=plan.rows.tolist())
    for shown in (model, given, plan, proof, result, erased):
        html = shown._repr_html_()
        assert html.lstrip().startswith("<div")
        assert "<b>s6</b>" not in html
        assert len(repr(shown)) < 300 or isinstance(shown, pd.DataFrame)
    assert "recourses broken" in repr(plan)
    assert "promises break" in repr(erased)
    assert "raise" in given._repr_html_() or "lower" in given._repr_html_()


def test_the_display_follows_scikit_learn(audited):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    shown = hf.InvalidationDisplay.from_audit(audited[2], ax=ax)
    assert shown.ax_ is ax
    assert shown.figure_ is ax.figure
    np.testing.assert_allclose(shown.line_.get_ydata(), 100 * audited[2].curve["refitted"])
    again = shown.plot(ax=Figure().subplots(), name="mine")
    assert "mine" in [text.get_text() for text in again.ax_.get_legend().get_texts()]
    with pytest.raises(hf.HoldfastError, match="from_audit takes"):
        hf.InvalidationDisplay.from_audit("nothing")


def test_groups_of_few_are_not_shown(audited):
    result = audited[2]
    table = result.groups.set_index("group")
    after = result.recourses["broken_at"] <= result.headline_at
    assert table["recourses"].sum() == len(after)
    assert (table["recourses"] * table["broken"]).sum() == pytest.approx(after.sum(), abs=1)
    shown = result.summary().groups
    assert "few" not in [part.group for part in shown]
    assert all(part.recourses is None or part.recourses >= 10 for part in shown)
    hidden = [part for part in shown if part.broken is None]
    assert len(hidden) == 1
    from holdfast.audits.summary import _groups

    two = pd.DataFrame({"group": ["x", "y"], "recourses": [78, 4], "broken": [0.5, 0.25]})
    assert [part.broken for part in _groups(two)] == [None]  # else the four follow from the whole
    with pytest.raises(hf.HoldfastError, match="groups must name the group of each"):
        hf.audit(audited[0], audited[1], max_deletions=1, groups=["a"])


def test_what_to_do_now_is_said(audited):
    summary = audited[2].summary()
    said = " ".join(summary.actions)
    assert "Ask people to go further" in said
    assert "to survive even one erasure" in said
    table = audited[2].overshoots
    at = table[table["deletions"] == audited[2].headline_at].set_index("overshoot")["refitted"]
    named = [o for o in at.index if f"an overshoot of {o:g} instead of" in said]
    assert len(named) == 1
    assert at[named[0]] < at[0.01]
    page = audited[2].to_html()
    for words in ("What to do now", "worst case", "Whose promises break"):
        assert words in page
    for jargon in ("Φ₂", "median margins", "Newton"):
        assert jargon not in page


def test_the_fixture_fails_where_promises_break(tmp_path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import holdfast as hf
            from sklearn.datasets import load_diabetes
            from sklearn.linear_model import LinearRegression

            X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
            model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")

            def promised(overshoot):
                return hf.find_recourse(model, X[:60], target=-140, overshoot=overshoot)

            def test_fragile(survives_erasures):
                survives_erasures(model, promised(0.01), 1, 0.2, draws=2, certify=False)

            def test_firm(survives_erasures):
                survives_erasures(model, promised(2.0), 1, 0.2, proven=True, draws=2)
            """
        )
    )
    known = {point.value for point in entry_points(group="pytest11")}
    by_hand = [] if "holdfast.pytest_plugin" in known else ["-p", "holdfast.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *by_hand, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "at most 20.0% allowed. The strongest attack found" in done.stdout


def test_mlflow_keeps_the_audit(audited, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    from holdfast.mlflow import log_audit

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("audits")
    with pytest.raises(hf.HoldfastError, match="no active MLflow run"):
        log_audit(audited[2])
    with mlflow.start_run() as active:
        log_audit(audited[2])
    client = mlflow.tracking.MlflowClient()
    run = client.get_run(active.info.run_id)
    summary = audited[2].summary()
    assert run.data.metrics["holdfast.headline"] == pytest.approx(summary.headline.refitted)
    steps = client.get_metric_history(active.info.run_id, "holdfast.broken.refitted")
    assert [m.step for m in steps] == [0, 1, 2]
    ceilings = client.get_metric_history(active.info.run_id, "holdfast.broken.ceiling")
    assert 0 not in [m.step for m in ceilings]
    files = {f.path for f in client.list_artifacts(active.info.run_id, "holdfast")}
    assert files == {"holdfast/report.html", "holdfast/audit.json"}


def test_who_can_be_promised_nothing_is_a_finding():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = hf.erasable(LinearRegression().fit(X, y), X, y, favourable="low")
    rules = hf.Actionability.infer(X, s5="frozen", s1="frozen")
    given = hf.find_recourse(model, X[:250], target=-140, actionability=rules)
    none = int(given.reason.str.startswith("infeasible").sum())
    assert none >= 10  # else there is nothing to say
    said = " ".join(hf.audit(model, given, max_deletions=1, draws=2).summary().actions)
    assert f"{none} people can be promised nothing" in said
    assert "s5" in said
    few = hf.audit(model, given.take(np.flatnonzero(given.valid)), max_deletions=1, draws=2)
    assert "promised nothing" not in " ".join(few.summary().actions)

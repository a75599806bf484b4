"""hf.impact and `holdfast impact`: refits, updated advice, and nothing left of those erased."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from skops import io as skops

import holdfast as hf
from holdfast.cli import run
from lender import LOANS, MERIT, loans, write_loans

TABLE = loans(200).set_index("customer")
X = TABLE[["age", "savings"]].assign(full=(TABLE["job"] == "full") * 1.0)
Y = TABLE["merit"]


def made(estimator=None, overshoot=0.0, subjects=None, method="scfe"):
    fitted = (estimator or make_pipeline(MinMaxScaler(), Ridge(3.0))).fit(X, Y)
    model = hf.erasable(fitted, X, Y, subjects=subjects)
    return model, hf.find_recourse(
        model, X[:80], method, overshoot=overshoot, actionability={"features": {"age": "frozen"}}
    )


def worst_ids(model, given, k=2):
    plan = hf.search(model, given, given.target, k)
    return [X.index[row] for row in plan.rows]


def test_scores_are_refits():
    model, given = made()
    ids = worst_ids(model, given)
    found = hf.impact(model, given, ids)
    rows = [list(X.index).index(i) for i in ids]
    points = given.points.loc[found.recourses.index]
    for column, refit in (("refitted", True), ("frozen", False)):
        honest = model.without(rows, refit_preprocessing=refit).scores(points)
        np.testing.assert_allclose(found.recourses[column], honest, rtol=1e-9)
    np.testing.assert_allclose(found.recourses["predicted"], found.recourses["frozen"], rtol=1e-8)
    assert found.largest_error < 1e-8
    assert found.recourses["breaks"].sum() == len(found.broken) > 0
    assert set(ids).isdisjoint(found.recourses.index)
    assert found.promises_of_erased == sum(i in given.people.index for i in ids)


def test_updated_advice_holds_under_the_updated_model():
    model, given = made()
    found = hf.impact(model, given, worst_ids(model, given))
    points = found.advice.points[found.advice.valid]
    assert (found.updated.scores(points) >= found.advice.goal - 1e-12).all()
    extra = found.broken["extra_cost"]
    people = given.people.loc[found.broken.index]
    new = found.advice.points.set_axis(people.index, axis=0)
    cost = given.space.distance(people, new, "l1")
    np.testing.assert_allclose(extra, cost - given.cost.loc[found.broken.index])
    assert found.broken["now"].str.contains("raise|lower").all()
    assert (found.broken["further"] != "").all()


def test_by_subject_by_position_and_unknown():
    owners = [f"P{i // 2}" for i in range(len(X))]
    model, given = made(subjects=owners)
    found = hf.impact(model, given, "P90")
    assert found.erased_rows == 2
    assert found.requests == 1
    same = hf.impact(model, given, positions=[180, 181])
    np.testing.assert_array_equal(found.recourses["refitted"], same.recourses["refitted"])
    with pytest.raises(hf.HoldfastError, match="unknown subject 'C-0001'"):
        hf.impact(model, given, ["C-0001"])
    model, given = made()
    with pytest.raises(hf.HoldfastError, match="unknown id 'P90'"):
        hf.impact(model, given, ["C-0001", "P90"])
    with pytest.raises(hf.HoldfastError, match="named twice"):
        hf.impact(model, given, ["C-0001", "C-0001"])
    with pytest.raises(hf.HoldfastError, match="either erase="):
        hf.impact(model, given)
    with pytest.raises(hf.HoldfastError, match="nobody"):
        hf.impact(model, given, [])
    with pytest.raises(hf.HoldfastError, match="find_recourse"):
        hf.impact(model, X, ["C-0001"])


def test_numbers_are_ids_as_text():
    frame = X.reset_index(drop=True)
    model = hf.erasable(LinearRegression().fit(frame, Y), frame, Y.to_numpy())
    given = hf.find_recourse(model, frame[:50])
    assert hf.impact(model, given, ["7", 150.0]).positions.tolist() == [7, 150]
    bare = hf.erasable(LinearRegression().fit(frame.to_numpy(), Y), frame.to_numpy(), Y)
    given = hf.find_recourse(bare, frame[:50].to_numpy())
    with pytest.raises(hf.HoldfastError, match="have no ids"):
        hf.impact(bare, given, ["7"])
    assert hf.impact(bare, given, positions=[7]).erased_rows == 1


def test_a_boosting_model():
    model, given = made(
        HistGradientBoostingRegressor(max_iter=10, random_state=0), method="growing-spheres"
    )
    found = hf.impact(model, given, ["C-0100", "C-0101", "C-0102"])
    assert np.isnan(found.largest_error)
    assert found.recourses["predicted"].isna().all()


# the command -------------------------------------------------------------------------------

SECRET = {"age": 61, "income": 7654321.25, "savings": 9123457.75, "job": "zookeeper"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A lender's folder in which one customer's values cannot be overlooked."""
    monkeypatch.chdir(tmp_path)
    table = loans(240)
    table.loc[100, list(SECRET)] = list(SECRET.values())
    table.drop(columns="merit").to_csv("loans.csv", index=False)
    table.drop(columns="repaid").to_csv("merit.csv", index=False)
    return tmp_path


def contents(path):
    """Everything in a file, archives unpacked, as bytes."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(archive.read(name) for name in archive.namelist())
    return path.read_bytes()


def leaks(data):
    """Which of the secret values are in some bytes, as text or as numbers."""
    found = [w for w in (b"7654321", b"9123457", b"zookeeper") if w in data]
    for value in (SECRET["income"], SECRET["savings"]):
        for kind in ("<f8", "<f4", "<i8"):
            if np.array([value], dtype=kind).tobytes() in data:
                found.append(kind)
    return found


@pytest.mark.parametrize("kind", ["ridge", "linear", "ntk", "mlp", "boosting"])
def test_nothing_of_the_erased_is_written(folder, capsys, kind):
    command = ["impact", *MERIT[:-1], kind, "--erase", "C-0100"]
    outputs = ["--emit", "left.csv", "--save-model", "new.skops", "--case-file", "case.html"]
    before = set(folder.iterdir())
    assert leaks(contents(folder / "merit.csv"))  # the scan finds what is there
    assert run([*command, *outputs, "--json-file", "impact.json"]) == 0
    said = capsys.readouterr()
    written = set(folder.iterdir()) - before
    assert {p.name for p in written} == {"left.csv", "new.skops", "case.html", "impact.json"}
    for path in written:
        assert not leaks(contents(path)), path
        assert b"C-0100" not in contents(path), path
    assert not leaks(said.out.encode())
    assert not leaks(said.err.encode())
    left = pd.read_csv("left.csv", dtype=str, keep_default_na=False)
    whole = pd.read_csv("merit.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(left, whole.drop(index=100).reset_index(drop=True))
    assert (folder / "impact.json").stat().st_mode & 0o777 == 0o600


def test_the_scan_would_see_a_frozen_scaler(folder):
    """The saved model is the refitted one: the old one's scaler and encoder would give it away."""
    table = pd.read_csv("merit.csv")
    scaler = MinMaxScaler().fit(table[["income"]])
    buffer = io.BytesIO(skops.dumps(scaler))
    with zipfile.ZipFile(buffer) as archive:
        data = b"".join(archive.read(name) for name in archive.namelist())
    assert leaks(data)


def test_saved_model_scores_as_the_updated_one(folder, capsys):
    assert run(["impact", *LOANS, "--erase", "C-0100", "--save-model", "new.skops", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["kind"] == "impact"
    assert said["personal_data"] is True
    assert said["requests"] == 1
    assert said["erased_rows"] == 1
    names = skops.get_untrusted_types(file="new.skops")
    fitted = skops.load("new.skops", trusted=names)
    people = pd.read_csv("loans.csv").drop(columns=["customer", "repaid"])
    assert np.isfinite(fitted.decision_function(people)).all()
    assert "zookeeper" not in str(fitted[0].transformers_)


def test_ids_from_files_and_options(folder, capsys):
    (folder / "ask.txt").write_text("C-0100\n\nC-0101\n")
    (folder / "ask.csv").write_text("customer,when\nC-0102,today\n")
    command = ["impact", *MERIT, "--json"]
    erase = ["--erase", "ask.txt", "--erase", "ask.csv", "--erase", "C-0103", "--erase", "C-0103"]
    assert run([*command, *erase]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 4


def test_unknown_id_writes_nothing(folder, capsys):
    before = sorted(p.name for p in folder.iterdir())
    outputs = ["--emit", "left.csv", "--save-model", "new.skops", "--case-file", "case"]
    assert run(["impact", *MERIT, "--erase", "C-0100", "--erase", "C-9999", *outputs]) == 2
    said = capsys.readouterr()
    assert "unknown id 'C-9999'" in said.err
    assert "Traceback" not in said.err
    assert sorted(p.name for p in folder.iterdir()) == before


def test_subjects_are_erased_whole(folder, capsys):
    table = pd.read_csv("merit.csv").drop(columns="customer")
    table.insert(0, "owner", [f"P{i // 3}" for i in range(len(table))])
    table.to_csv("owned.csv", index=False)
    command = ["impact", "--train", "owned.csv", "--label", "merit", "--subject", "owner"]
    command += ["--model", "ridge", "--json", "--emit", "left.csv"]
    assert run([*command, "--erase", "P10"]) == 0
    assert json.loads(capsys.readouterr().out)["erased_rows"] == 3
    assert len(pd.read_csv("left.csv")) == len(table) - 3
    assert "P10" not in set(pd.read_csv("left.csv")["owner"])


def test_issued_promises(folder, capsys):
    write_loans(folder)
    table = pd.read_csv("merit.csv")
    table[:60].to_csv("people.csv", index=False)
    base = [*MERIT, "--people", "people.csv"]
    assert run(["recourse", *base, "--out", "issued.csv", "-q"]) == 0
    assert (folder / "issued.csv").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    command = ["impact", *base, "--recourses", "issued.csv", "--json"]
    assert run([*command, "--erase", "C-0200", "--erase", "C-0111"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["recourses"] > 20
    for line in said["broken"]:
        assert line["refitted"] < said["target"] <= line["score"]
        assert line["now"]
        assert line["promised"]

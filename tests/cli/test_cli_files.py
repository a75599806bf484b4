"""Files as people really have them: odd cells, odd models, promises that overlap, special files."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skops import io as skops

import holdfast as hf
from holdfast.cases.fitting import fit_kind, labels_for
from holdfast.cli import run
from holdfast.report.words import at_most, percent
from holdfast.tables import read_table, typed
from lender import LOANS, MERIT, loans, write_loans

QUICK = ["--max-deletions", "2", "--draws", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_loans(tmp_path)
    return tmp_path


def said(capsys):
    return json.loads(capsys.readouterr().out)


def with_gaps():
    table = loans()
    table["region"] = table["region"].astype(object).mask(table.index % 7 == 0)
    return table


def test_missing_text_is_one_category_however_it_is_read(folder, capsys):
    table = with_gaps()
    table.drop(columns="merit").to_csv("loans.csv", index=False)
    X = typed(read_table("loans.csv")[["age", "savings", "region"]], "t")
    fitted = fit_kind("logistic", X, labels_for("logistic", table["repaid"], "yes"))
    assert "(missing)" in fitted[0].named_transformers_["text"][-1].categories_[0]
    plain = pd.read_csv("loans.csv")[["age", "savings", "region"]]
    assert np.array_equal(fitted.decision_function(X), fitted.decision_function(plain))
    people = table[:60].drop(columns=["merit", "repaid"])
    people.to_csv("people.csv", index=False)
    base = [*LOANS, "--people", "people.csv"]
    assert run(["recourse", *base, "--out", "issued.csv", "-q"]) == 0
    count = len(pd.read_csv("issued.csv"))
    capsys.readouterr()
    assert run(["audit", *base, "--recourses", "issued.csv", *QUICK, "--json"]) == 0
    assert said(capsys)["recourses"]["valid"] == count  # what was promised a minute ago holds


def test_recourse_audit_and_impact_speak_of_one_model(folder, capsys):
    """The same settings give the same model, so promises just made are valid."""
    assert run(["recourse", *LOANS, "--out", "issued.csv", "-q"]) == 0
    count = len(pd.read_csv("issued.csv"))
    capsys.readouterr()
    assert run(["audit", *LOANS, "--recourses", "issued.csv", *QUICK, "--json"]) == 0
    assert said(capsys)["recourses"]["valid"] == count
    command = ["impact", *LOANS, "--recourses", "issued.csv", "--json", "--erase", "C-0007"]
    assert run(command) == 0
    found = said(capsys)
    assert found["recourses"] + found["promises_of_erased"] == count


def encoded_model(table, names=("age", "savings"), text=("region",), **encoder):
    encode = OneHotEncoder(**{"handle_unknown": "ignore", **encoder})
    parts = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(names)), (encode, list(text))
    )
    return make_pipeline(parts, LogisticRegression(tol=1e-8)).fit(
        table[[*names, *text]], table["repaid"]
    )


def test_models_with_encoders_and_saved_models_come_back(folder, capsys):
    table = pd.read_csv("loans.csv")
    skops.dump(encoded_model(table), "m.skops")
    base = ["--train", "loans.csv", "--label", "repaid", "--favourable", "yes", "--id", "customer"]
    assert run(["audit", *base, "--model-file", "m.skops", *QUICK, "--json"]) == 0
    first = said(capsys)
    save = ["--erase", "C-0007", "--save-model", "new.skops", "--emit", "left.csv", "-q"]
    assert run(["impact", *base, "--model-file", "m.skops", *save]) == 0
    capsys.readouterr()
    base[1] = "left.csv"
    assert run(["audit", *base, "--model-file", "new.skops", *QUICK, "--json"]) == 0
    assert said(capsys)["data"]["rows"] == first["data"]["rows"] - 1


def test_a_model_fitted_by_pandas_rules(folder, capsys):
    """`NA` in a file is missing to pandas, hence to the model that was fitted on it."""
    text = Path("loans.csv").read_text().replace(",full,", ",NA,").replace(",N,", ",NA,")
    Path("loans.csv").write_text(text)
    table = pd.read_csv("loans.csv")
    skops.dump(encoded_model(table, text=("region", "job")), "m.skops")
    base = ["--train", "loans.csv", "--label", "repaid", "--favourable", "yes", "--id", "customer"]
    assert run(["audit", *base, "--model-file", "m.skops", *QUICK, "--json"]) == 0


def test_numbers_with_a_decimal_comma(folder, capsys):
    table = pd.read_csv("merit.csv")
    table.to_csv("de.csv", index=False, sep=";", decimal=",")
    base = ["audit", "--train", "de.csv", *MERIT[2:], *QUICK, "--delimiter", ";"]
    assert run(base) == 0  # read as they are meant, and said
    assert "are read as numbers" in capsys.readouterr().err
    assert run([*base, "--decimal", ",", "--json"]) == 0
    assert "one-hot" in said(capsys)["model"]["preprocessing"][1]


def test_text_columns_keep_their_zeros(folder, capsys):
    table = pd.read_csv("merit.csv")
    table["postcode"] = np.where(table.index % 2, "01067", "1067")
    table.to_csv("merit.csv", index=False)
    command = ["audit", *MERIT, *QUICK, "--text", "postcode", "--json"]
    assert run(command) == 0
    assert "9 one-hot" in said(capsys)["model"]["preprocessing"][1]  # 3 jobs, 4 regions, 2 codes


def test_truth_values_of_a_brought_model(folder, capsys):
    table = loans()[["customer", "age", "savings", "merit"]].assign(
        employed=lambda t: t["age"] > 40
    )
    table.to_csv("b.csv", index=False)
    X = table[["age", "savings", "employed"]]
    skops.dump(RandomForestRegressor(5, random_state=0).fit(X, table["merit"]), "m.skops")
    table[:40].to_csv("people.csv", index=False)
    base = ["recourse", "--train", "b.csv", "--label", "merit", "--id", "customer", "-q"]
    base += ["--model-file", "m.skops", "--people", "people.csv", "--actionability", "none"]
    assert run(base) == 0
    words = capsys.readouterr().out
    assert "0.0 to True" not in words
    assert "1.0 to False" not in words


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_without_derivatives_is_refitted(folder, capsys):
    table = loans(120)[["customer", "age", "savings", "merit"]]
    table.to_csv("n.csv", index=False)
    network = MLPRegressor(
        hidden_layer_sizes=(3,), solver="lbfgs", alpha=0.1, max_iter=5000, random_state=0
    )
    skops.dump(
        make_pipeline(StandardScaler(), network).fit(table[["age", "savings"]], table["merit"]),
        "m.skops",
    )
    base = ["audit", "--train", "n.csv", "--label", "merit", "--id", "customer"]
    assert run([*base, "--model-file", "m.skops", "--max-deletions", "1", "--draws", "2"]) == 0
    assert "known by refitting only" in capsys.readouterr().out


def test_a_model_that_draws_is_found_out():
    table = loans(150)
    X, y = table[["age", "savings"]], table["merit"]
    model = hf.erasable(RandomForestRegressor(5).fit(X, y), X, y)
    given = hf.find_recourse(model, X[:60], method="growing-spheres", overshoot=0.0)
    result = hf.audit(model, given, max_deletions=1, draws=2, certify=False)
    assert result.refit_noise > 0
    assert "nobody erased breaks" in result.headline


def subject_files():
    table = pd.read_csv("merit.csv")
    table.insert(1, "owner", [f"P{i // 2}" for i in range(len(table))])
    table.to_csv("owned.csv", index=False)
    table[100:160].to_csv("people.csv", index=False)
    table[100:160].drop(columns="customer").to_csv("nameless.csv", index=False)
    base = ["--train", "owned.csv", "--label", "merit", "--subject", "owner", "--model", "ridge"]
    return table, base


def test_whose_promise_it_is_is_told_by_subject(folder, capsys):
    named, nameless = ["--id", "customer"], ["--drop", "customer"]
    _, base = subject_files()
    for people, more in (("people.csv", named), ("nameless.csv", nameless)):
        command = ["impact", *base, *more, "--people", people, "--json", "--target", "5"]
        assert run([*command, "--erase", "P60"]) == 0  # two people of the file
        assert said(capsys)["promises_of_erased"] == 2
        assert run([*command, "--erase", "P5"]) == 0  # nobody of the file, whatever its row number
        assert said(capsys)["promises_of_erased"] == 0


def test_people_erased_before_get_no_recourse(folder, capsys):
    _, base = subject_files()
    Path("gone.txt").write_text("P60\n")
    command = ["audit", *base, "--id", "customer", "--people", "people.csv", "--target", "5"]
    assert run([*command, "--erased", "gone.txt", *QUICK, "--case-file", "case", "-q"]) == 0
    ids = set(pd.read_csv("case/recourses.csv")["id"])
    assert ids
    assert not ids & {"C-0120", "C-0121"}


def test_what_is_emitted(folder, capsys):
    table = pd.read_csv("merit.csv", dtype={"region": "category"})
    table["region"] = table["region"].cat.add_categories("Helgoland")
    table.loc[7, "region"] = "Helgoland"
    table.set_index("customer").to_parquet("merit.parquet")
    os.chmod("merit.parquet", 0o600)
    Path("old.txt").write_text("C-0005\n")
    command = ["impact", "--train", "merit.parquet", *MERIT[2:], "--erase", "C-0007", "-q"]
    command += ["--erased", "old.txt", "--save-model", "new.skops"]
    for name in ("left.parquet", "left.csv"):
        assert run([*command, "--emit", name]) == 0
        assert b"Helgoland" not in Path(name).read_bytes()
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        left = pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name)
        assert set(table["customer"]) - set(left["customer"]) == {"C-0005", "C-0007"}
    assert stat.S_IMODE(Path("new.skops").stat().st_mode) == 0o600
    command[2] = "merit.csv"
    assert run([*command, "--emit", "typed.parquet"]) == 0
    assert pd.read_parquet("typed.parquet")["savings"].dtype == float


def test_a_category_only_the_erased_had(folder, capsys):
    """A strict encoder cannot score promises with it any more: they break, the rest goes on."""
    table = pd.read_csv("loans.csv")
    table.loc[7, "region"] = "Helgoland"
    table.to_csv("loans.csv", index=False)
    fitted = encoded_model(table, handle_unknown="error")
    skops.dump(fitted, "m.skops")
    people = table[100:160].drop(columns="repaid")
    people.to_csv("people.csv", index=False)
    issued = people[["customer", "region", "savings"]].assign(savings=30000.0)
    issued.loc[100:104, "region"] = "Helgoland"
    issued.to_csv("issued.csv", index=False)
    base = ["impact", "--train", "loans.csv", "--label", "repaid", "--favourable", "yes"]
    base += ["--id", "customer", "--model-file", "m.skops", "--people", "people.csv"]
    base += ["--actionability", "none", "--recourses", "issued.csv", "--erase", "C-0007"]
    assert run([*base, "--json-file", "i.json", "-q"]) == 0
    found = json.loads(Path("i.json").read_text())
    assert 0 < len(found["broken"]) <= 5
    assert all(line["refitted"] is None for line in found["broken"])
    output = capsys.readouterr()
    assert "Helgoland" not in output.out + output.err + Path("i.json").read_text()


def test_small_groups_stay_out_of_what_is_shared(folder, capsys):
    table = pd.read_csv("merit.csv")
    table.sort_values("merit")[:5].to_csv("people.csv", index=False)
    options = ["--people", "people.csv", "--html", "r.html", "--csv", "t", "--json"]
    assert run(["audit", *MERIT, *QUICK, *options]) == 0
    found = said(capsys)
    assert found["recourses"]["valid"] is None
    assert found["headline"]["refitted"] is None
    assert found["curve"] == []
    assert "Fewer than 10 recourses" in Path("r.html").read_text()
    assert run(["audit", *MERIT, *QUICK, "--people", "people.csv"]) == 0
    assert "breaks" in capsys.readouterr().out  # the terminal is the analyst's own
    table["branch"] = np.where(table.index < 3, "Meier", "Main Street")
    table.to_csv("merit.csv", index=False)
    assert run(["audit", *MERIT, *QUICK, "--cohort", "branch", "--drop", "branch"]) == 0
    assert "Meier" not in capsys.readouterr().out


def test_promises_that_overlap_and_extra_columns(folder, capsys):
    pd.read_csv("merit.csv")[:80].to_csv("people.csv", index=False)
    base = [*MERIT, "--people", "people.csv"]
    assert run(["recourse", *base, "--out", "issued.csv", "-q"]) == 0
    live = pd.read_csv("issued.csv").assign(expires="2030-01-01", note="by phone")
    over = live[:3].assign(expires="2020-01-01")
    pd.concat([over, live]).to_csv("issued.csv", index=False)
    capsys.readouterr()
    command = ["audit", *base, "--recourses", "issued.csv", *QUICK, "--as-of", "2026-06-01"]
    assert run(command) == 2
    assert "--drop note" in capsys.readouterr().err
    assert run([*command, "--drop", "note", "--json"]) == 0
    assert said(capsys)["recourses"]["count"] == len(live)
    assert run([*command[:-2], "--drop", "note", "--as-of", "2035-01-01"]) == 2
    assert "have expired" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("C-0001\nC-0002\n", 2),
        ('"customer"\n"C-0001"\n', 1),
        ("customer,why\nC-0001,x\nC-0002,y\n", 2),
        ("C-0001,C-0002,C-0003\n", 3),
        ("\ufeffC-0001\r\n\r\nC-0001\r\n", 1),
    ],
)
def test_files_of_ids(folder, capsys, text, count):
    Path("ids.txt").write_text(text, newline="")
    assert run(["impact", *MERIT, "--erase", "ids.txt", "--json"]) == 0
    assert said(capsys)["requests"] == count


@pytest.mark.parametrize(
    ("values", "favourable"),
    [((True, False), "true"), ((1.0, 0.0), "1.0"), ((" yes", "no "), "yes")],
)
def test_favourable_in_other_spellings(folder, capsys, values, favourable):
    table = loans().drop(columns="merit")
    table["repaid"] = np.where(table["repaid"] == "yes", *values)
    table.to_csv("l.csv", index=False)
    base = ["audit", "--train", "l.csv", *LOANS[2:], *QUICK, "--favourable", favourable]
    assert run([*base, "--json"]) == 0
    assert said(capsys)["recourses"]["valid"] > 10


def test_inputs_and_special_files_are_never_replaced(folder, capsys):
    Path("a.toml").write_text('train = "merit.csv"\nlabel = "merit"\nmodel = "ridge"\n')
    before = Path("a.toml").read_text()
    assert run(["audit", "a.toml", "--html", "a.toml"]) == 2
    assert Path("a.toml").read_text() == before
    os.mkfifo("pipe")
    assert run(["audit", *MERIT, *QUICK, "--html", "pipe"]) == 2
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert run(["audit", *MERIT, *QUICK, "--html", os.devnull]) == 2
    Path("real.html").write_text("old")
    Path("link.html").symlink_to("real.html")
    assert run(["audit", *MERIT, *QUICK, "--html", "link.html"]) == 0
    assert Path("link.html").is_symlink()
    assert "<svg" in Path("real.html").read_text()


def test_names_are_shown_as_they_are(folder, capsys):
    table = pd.read_csv("merit.csv").rename(columns={"savings": "loan:house:ratio"})
    table["customer"] = "A:key:" + table["customer"]
    table.to_csv("merit.csv", index=False)
    assert run(["recourse", *MERIT, "-q"]) == 0
    words = capsys.readouterr().out
    assert "A:key:C-" in words
    assert "🔑" not in words
    assert max(map(len, words.splitlines())) > 80 or "raise" in words


def test_rounding_keeps_promises_and_proofs():
    assert at_most(0.994) == "100 %"
    assert at_most(0.204) == "21 %"
    assert at_most(0.2) == "20 %"
    assert at_most(0.0) == "0 %"
    assert percent(0.999) == "> 99 %"
    assert percent(0.001) == "< 1 %"


def test_what_changes_of_a_promise_is_about_what_was_said():
    table = loans(200).set_index("customer")
    X = table[["age", "savings"]]
    model = hf.erasable(Ridge().fit(X, table["merit"]), X, table["merit"])
    given = hf.find_recourse(model, X[:80], overshoot=0.0)
    worst = hf.search(model, given, given.target, 3).rows
    found = hf.impact(model, given, [X.index[i] for i in worst])
    for line in found.broken.itertuples():
        said_before = line.promised.rsplit(" ", 1)[-1]
        if line.further.startswith("nothing: in round numbers"):
            assert line.now.rsplit(" ", 1)[-1] == said_before
            continue
        assert f"from {said_before} to" in line.further
    assert found.broken["further"].str.contains(" to ").any()

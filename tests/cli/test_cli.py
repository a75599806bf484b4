"""The command line: exit codes, one message for bad input, nothing half-written."""

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops import io as skops

import holdfast as hf
from holdfast.cases.settings import COMMAND_LINE_ONLY, TEMPLATE, Settings
from holdfast.cli import run
from holdfast.report.schema import AuditSummary
from lender import LOANS, MERIT, loans, write_loans

MAIN = "from holdfast.cli import main; main()"
QUICK = ["--max-deletions", "2", "--draws", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_loans(tmp_path)
    return tmp_path


def audit(*options, base=MERIT):
    return run(["audit", *base, *QUICK, *options])


def test_an_audit_end_to_end(folder, capsys):
    outputs = ["--html", "r.html", "--json-file", "r.json", "--csv", "t", "--case-file", "c.html"]
    more = ["--rate", "5/week", "--horizon", "2w", "--cohort", "region"]
    assert audit(*outputs, *more) == 0
    said = capsys.readouterr().out
    assert "The strongest attack found erases" in said
    assert "This is the worst choice of people, not a forecast." in said
    assert "10 erasures at random" in said
    assert "Erasing one group of 4" in said
    assert "missing values become the median" in said
    assert "one-hot" in said
    assert "report: r.html" in said
    summary = AuditSummary.model_validate(json.loads(Path("r.json").read_text()))
    assert summary.likelihood.erasures == 10
    assert len(summary.cohorts) == 4
    digest = hashlib.sha256(Path("merit.csv").read_bytes()).hexdigest()
    assert digest in Path("c.html").read_text()
    for shared in ("r.html", "r.json"):  # whoever has the other rows could try guesses against it
        text = Path(shared).read_text()
        assert digest[:12] not in text
        assert summary.reference in text
    assert summary.reference in Path("c.html").read_text()
    page = Path("r.html").read_text()
    assert "C-0" not in page
    assert {p.name for p in Path("t").iterdir()} >= {"curve.csv", "cohorts.csv", "likelihood.csv"}
    assert not list(folder.glob(".holdfast*"))


def test_json_is_all_there_is_on_stdout(folder, capsys):
    assert audit("--json", base=LOANS) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["kind"] == "audit"
    assert said.err == ""
    assert audit("--json", "r.json", "--quiet") == 0
    assert json.loads(Path("r.json").read_text())["kind"] == "audit"
    assert "strongest attack" in capsys.readouterr().out


def test_the_command_says_what_the_library_says(folder, capsys):
    """One audit twice: through files and options, and in Python."""
    table = pd.read_csv("merit.csv")
    numbers = table[["customer", "age", "savings", "merit"]].dropna()
    numbers.to_csv("numbers.csv", index=False)
    X, y = numbers.set_index("customer")[["age", "savings"]], numbers["merit"].to_numpy()
    X[:60].reset_index().to_csv("people.csv", index=False)
    fitted = make_pipeline(StandardScaler(), Ridge()).fit(X, y)
    skops.dump(fitted, "model.skops")
    files = ["--train", "numbers.csv", "--label", "merit", "--id", "customer"]
    files += ["--model-file", "model.skops", "--people", "people.csv", "--target", "4"]
    assert run(["audit", *files, *QUICK, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    model = hf.erasable(fitted, X, y)
    given = hf.find_recourse(model, X[:60], target=4, actionability="infer")
    result = hf.audit(model, given, max_deletions=2, draws=2)
    for point, (_, line) in zip(said["curve"], result.curve.iterrows(), strict=True):
        for name in ("predicted", "refitted", "random", "ceiling"):
            value = float("nan") if point[name] is None else point[name]
            assert value == pytest.approx(line[name], abs=1e-9, nan_ok=True)


def test_settings_from_a_file(folder, tmp_path_factory, capsys, monkeypatch):
    lines = ['train = "merit.csv"', 'label = "merit"', 'id = "customer"', 'model = "ridge"']
    lines += ["max_deletions = 2", "draws = 2", 'html = "out.html"', "[parameters]", "alpha = 3.0"]
    (folder / "audit.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert run(["audit", str(folder / "audit.toml"), "--json", "--seed", "5"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (folder / "out.html").exists()  # relative to the file
    assert said["model"]["parameters"]["alpha"] == "3.0"
    assert said["settings"]["seed"] == 5  # an option wins


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_deletion = 3", "unknown key 'max_deletion'.*did you mean 'max_deletions'"),
        ('max_deletions = "x"', "--max-deletions.*integer"),
        ("max_deletions = 0", "greater than or equal to 1"),
        ('model = "forest"', "--model.*'linear'"),
        ("train = ", "not valid TOML"),
        ("holdout = 1.5", "less than 1"),
        ('unit = "family"', "--unit"),
        ("jobs = 0", "--jobs.*one per core"),
        ("overshoot = nan", "finite"),
        ("as_of = 3.7", "--as-of"),
    ],
)
def test_settings_that_are_wrong(folder, capsys, text, message):
    import re

    (folder / "audit.toml").write_text('train = "merit.csv"\nlabel = "merit"\n' + text)
    assert run(["audit", "audit.toml"]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said, re.DOTALL), said
    assert said.count("holdfast:") == 1  # one message; other lines are stages


def test_the_template_is_complete_and_valid(folder, capsys):
    import tomllib

    assert run(["audit", "--init"]) == 0
    text = (folder / "audit.toml").read_text()
    assert text == TEMPLATE
    uncommented = "\n".join(
        line[2:] if line.startswith("# ") and " = " in line.split("#")[1] else line
        for line in text.splitlines()
    )
    keys = set(tomllib.loads(uncommented))
    own = {name.rstrip("_") for name in Settings.model_fields}
    impact_only = {"erase", "erase_id", "erase_file", "erase_folder", "emit", "save_model"}
    impact_only |= {"from_scratch", "out", "quiet", "json", "confirm"}
    assert keys == own - impact_only - set(COMMAND_LINE_ONLY)
    assert run(["audit", "--init"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_thresholds_decide_the_exit_code(folder, capsys):
    assert audit("--overshoot", "0", "--fail-above", "0@2") == 1
    assert "above 0.0%" in capsys.readouterr().err
    assert audit("--fail-above", "1@2") == 0
    assert audit("--fail-unproven", "1@1") == 0
    assert audit("--overshoot", "0", "--fail-unproven", "0@2") == 1
    assert audit("--no-certify", "--fail-unproven", "0.99@1") == 1  # nothing proven is not enough
    assert "nothing is proven" in capsys.readouterr().err
    for wrong in ("20%@3", "0.2", "0.2@0", "0.2@9", "2@1", "@", "nan@1"):
        assert audit("--fail-above", wrong) == 2


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "kind",
    ["linear", pytest.param("ntk", marks=SLOW), pytest.param("mlp", marks=SLOW), "boosting"],
)
def test_every_kind_of_model(folder, capsys, kind):
    options = [*MERIT[:-1], kind, "--json"]
    if kind == "boosting":
        options += ["--param", "max_iter=5"]
    assert run(["audit", *options, *QUICK]) == 0
    assert json.loads(capsys.readouterr().out)["headline"]["refitted"] >= 0


@pytest.mark.parametrize("kind", ["logistic", pytest.param("lssvm", marks=SLOW), "linear"])
def test_every_kind_of_classifier(folder, capsys, kind):
    assert run(["audit", *LOANS[:-1], kind, "--json", *QUICK]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["recourses"]["target"] == (0.5 if kind == "linear" else 0.0)


def test_model_files(folder, capsys):
    table = loans()[["age", "savings", "repaid", "customer"]]
    table.to_csv("plain.csv", index=False)
    X, y = table[["age", "savings"]], table["repaid"]
    fitted = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(X, y)
    skops.dump(fitted, "m.skops")
    Path("m.pkl").write_bytes(pickle.dumps(fitted))
    base = ["--train", "plain.csv", "--label", "repaid", "--id", "customer"]
    assert run(["audit", *base, "--favourable", "yes", "--model-file", "m.skops", *QUICK]) == 0
    assert run(["audit", *base, "--model-file", "m.skops"]) == 2
    assert "'no' or 'yes'" in capsys.readouterr().err
    base += ["--favourable", "yes"]
    assert run(["audit", *base, "--model-file", "m.pkl"]) == 2
    assert "--allow-pickle" in capsys.readouterr().err
    assert run(["audit", *base, "--model-file", "m.pkl", "--allow-pickle", *QUICK]) == 0
    assert "runs the code it holds" in capsys.readouterr().out
    Path("m.bin").write_bytes(b"x")
    assert run(["audit", *base, "--model-file", "m.bin"]) == 2
    Path("bad.skops").write_bytes(b"x")
    assert run(["audit", *base, "--model-file", "bad.skops"]) == 2
    other = table.assign(savings=table["savings"].iloc[::-1].to_numpy())
    other.to_csv("plain.csv", index=False)
    assert run(["audit", *base, "--model-file", "m.skops"]) == 2
    assert "fitted" in capsys.readouterr().err
    table.rename(columns={"savings": "saving"}).to_csv("plain.csv", index=False)
    assert run(["audit", *base, "--model-file", "m.skops"]) == 2
    assert "no column 'savings'" in capsys.readouterr().err


class Sneaky(Ridge):
    """A type that no .skops file may bring along unasked."""


def test_unknown_types_in_a_skops_file(folder, capsys):
    table = loans()[["age", "savings", "merit"]]
    table.to_csv("plain.csv", index=False)
    skops.dump(Sneaky().fit(table[["age", "savings"]], table["merit"]), "m.skops")
    base = ["audit", "--train", "plain.csv", "--label", "merit", "--model-file", "m.skops"]
    assert run(base) == 2
    said = capsys.readouterr().err
    assert "test_cli.Sneaky" in said
    assert run([*base, "--trust", "test_cli.Sneaky", *QUICK]) == 0


def test_promises_live_and_expired(folder, capsys):
    people = pd.read_csv("merit.csv")[:80]
    people.to_csv("people.csv", index=False)
    base = [*MERIT, "--people", "people.csv"]
    assert run(["recourse", *base, "--out", "issued.csv", "-q"]) == 0
    issued = pd.read_csv("issued.csv")
    issued["issued"], issued["model"] = "2026-01-15", "v1"
    issued["expires"] = "2026-12-31"
    issued.loc[:2, "expires"] = "2026-02-01"
    issued.loc[3, "issued"] = "2026-09-01"
    issued.loc[4, "expires"] = None
    issued.to_csv("issued.csv", index=False)
    capsys.readouterr()
    command = [*base, "--recourses", "issued.csv", "--as-of", "2026-06-01", *QUICK]
    assert run(["audit", *command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["recourses"]
    assert (said["expired"], said["not_yet_issued"]) == (None, None)  # fewer than ten
    assert said["count"] == len(issued) - 4
    assert said["issued_under"] == {"v1": len(issued) - 4}
    assert said["without_recourse"] is None
    assert run(["audit", *command[:-6], "--as-of", "2030-01-01", *QUICK]) == 0  # one has no end
    assert run(["audit", *command[:-6], "--as-of", "never"]) == 2


def test_erasures_honoured_before(folder, capsys):
    (folder / "gone.txt").write_text("C-0003\nC-0007\nsomebody long gone\n")
    assert audit("--erased", "gone.txt", "--json") == 0
    assert json.loads(capsys.readouterr().out)["data"]["rows"] == round(238 * 0.8)
    table = loans()[["customer", "age", "savings", "merit"]]
    table.to_csv("plain.csv", index=False)
    X, y = table[["age", "savings"]], table["merit"]
    base = ["--train", "plain.csv", "--label", "merit", "--id", "customer", "--json", *QUICK]
    curves = []
    for rows in (table.index, table.index.drop([3, 7])):  # refitted before, or not yet
        skops.dump(Ridge().fit(X.loc[rows], y.loc[rows]), "m.skops")
        assert run(["audit", *base, "--model-file", "m.skops", "--erased", "gone.txt"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["data"]["rows"] == 238
        curves.append([p["predicted"] for p in said["curve"]])
    assert curves[0] == pytest.approx(curves[1])


@pytest.mark.slow
def test_subjects_are_what_an_erasure_removes(folder, capsys):
    table = pd.read_csv("merit.csv").drop(columns="customer")
    table.insert(0, "owner", [f"P{i // 2}" for i in range(len(table))])
    table.to_csv("owned.csv", index=False)
    base = ["audit", "--train", "owned.csv", "--label", "merit", "--subject", "owner"]
    base += ["--model", "ridge", "--json", *QUICK]
    assert run(base) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["headline"]["unit"] == "subject"
    assert said["data"]["units"] * 2 == said["data"]["rows"]  # nobody is split by the hold-out
    assert run([*base, "--unit", "row"]) == 0
    assert json.loads(capsys.readouterr().out)["headline"]["unit"] == "row"
    assert audit("--unit", "subject") == 2


BAD = [
    (["--train", "none.csv"], "not there"),
    (["--train", "."], "its columns are not those of"),
    (["--label", "merits"], "no column 'merits'; did you mean 'merit'"),
    (["--id", "custom"], "did you mean 'customer'"),
    (["--drop", "ages"], "did you mean 'age'"),
    (["--cohort", "regions"], "did you mean 'region'"),
    (["--cohort", "savings"], "different values"),
    (["--model", "ridge", "--model-file", "x.skops"], "either --model"),
    (["--param", "alpha"], "NAME=VALUE"),
    (["--param", "alpa=1"], "did you mean 'alpha'"),
    (["--favourable", "yes"], "'high' or 'low'"),
    (["--html", "no/such/folder.html"], "does not exist"),
    (["--html", "."], "a directory"),
    (["--csv", "merit.csv"], "a folder is wanted"),
    (["--html", "merit.csv"], "is read from"),
    (["--csv", "both", "--case-file", "both"], "use two folders"),
    (["--case-file", "c.csv"], "an .html file or a folder"),
    (["--html", "a.html", "--case-file", "a.html"], "the same file"),
    (["--people", "none.csv"], "not there"),
    (["--actionability", "none.toml"], "is not there"),
    (["--target", "1e9"], "no recourse was found"),
    (["--target", "-1e9"], "nobody needs recourse"),
    (["--target-probability", "0.5"], "no probabilities"),
    (["--max-deletions", "500"], "--max-deletions must be"),
    (["--rate", "3/week"], "go together"),
    (["--rate", "often", "--horizon", "3w"], "rate must be"),
    (["--rate", "999/day", "--horizon", "3y"], "cannot be drawn"),
    (["--recourses", "merit.csv", "--people", "merit.csv"], "no promise"),
    (["--delimiter", ";"], "delimited by ','"),
    (["--erased", "none.txt"], "is not there"),
    (["--method", "magic"], "magic"),
    (["--holdout", "x"], "number"),
    (["--nonsense"], "No such option"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=lambda v: " ".join(v)[:40])
def test_bad_input(folder, capsys, options, message):
    before = sorted(p.name for p in folder.rglob("*"))
    assert audit(*options) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(p.name for p in folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign(income=t["income"].astype(object).mask(t.index == 6, "much")), "row 7"),
        (lambda t: t.assign(customer="C"), "appears twice, in rows 1 and 2"),
        (lambda t: t.assign(customer=t["customer"].mask(t.index == 4)), "row 5: the id"),
        (lambda t: t.assign(merit=t["merit"].mask(t.index == 4)), "missing in row 5"),
        (lambda t: t.assign(merit=1), "in every row"),
        (lambda t: t[:3], "too few"),
        (lambda t: t[:0], "no rows"),
        (lambda t: t[["customer", "merit"]], "nothing to fit on"),
        (lambda t: t.assign(notes=[f"note {i}" for i in t.index]), "looks like an id"),
    ],
)
def test_bad_tables(folder, capsys, change, message):
    change(pd.read_csv("merit.csv")).to_csv("merit.csv", index=False)
    assert audit() == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("holdfast:") == 1  # one message; other lines are stages


def test_help_and_version(capsys):
    for command in (
        [],
        ["audit"],
        ["impact"],
        ["harden"],
        ["recourse"],
        ["demo"],
        ["schema"],
        ["version"],
        ["reproduce"],
        ["data", "list"],
        ["data", "fetch"],
        ["data", "show"],
    ):
        assert run([*command, "--help"]) == 0
        said = capsys.readouterr().out
        assert "holdfast" in said
        if command:
            assert "Example" in said
    assert run(["--version"]) == 0
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"{hf.__version__}\n" * 2
    assert run([]) == 2


def test_options_offer_what_there_is():
    from typing import get_args

    from holdfast.cases.fitting import KINDS
    from holdfast.cli import options
    from holdfast.recourse import METHODS
    from holdfast.searches import METHODS as SEARCHES

    assert set(get_args(options.Kind)) == set(KINDS)
    assert set(get_args(options.Finder)) == set(METHODS)
    assert set(get_args(options.Searcher)) == set(SEARCHES) - {"random"}  # shown beside any other


def test_schema(capsys):
    for of in ("audit", "impact", "harden"):
        assert run(["schema", of]) == 0
        schema = json.loads(capsys.readouterr().out)
        assert of == "harden" or "schema_version" in schema["properties"]
        assert schema["additionalProperties"] is False


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['holdfast', 'audit', '--help'];"
        "from holdfast.cli import run; run(sys.argv[1:]);"
        "heavy = {'numpy', 'pandas', 'sklearn', 'matplotlib', 'numba', 'scipy'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_demo(folder, capsys):
    assert run(["demo", "--html", "demo.html"]) == 0
    assert "strongest attack" in capsys.readouterr().out
    assert "<svg" in Path("demo.html").read_text()


def test_completion_knows_the_commands():
    environment = {
        **os.environ,
        "_HOLDFAST_COMPLETE": "complete_bash",
        "COMP_WORDS": "holdfast au",
        "COMP_CWORD": "1",
    }
    code = "from holdfast.cli import main; import sys; sys.argv = ['holdfast']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "audit" in done.stdout


def test_colours_are_not_forced(folder):
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": ""}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "audit", *MERIT, *QUICK],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b[" not in done.stdout + done.stderr


def test_interrupted(folder):
    """Ctrl-C ends with 130, one line, and no file."""
    command = ["audit", *MERIT, "--html", "r.html", "--case-file", "case", "--draws", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(6)  # by now it works on something
    for _ in range(60):  # an import may swallow one
        process.send_signal(signal.SIGINT)
        try:
            process.wait(2)
            break
        except subprocess.TimeoutExpired:
            continue
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert {p.name for p in folder.iterdir()} == {"loans.csv", "merit.csv"}


def test_a_large_file_and_little_memory(folder):
    """Two gigabytes, and an address space that cannot hold them."""
    resource = pytest.importorskip("resource")
    with Path("big.csv").open("wb") as file:
        file.write(Path("merit.csv").read_bytes())
        file.truncate(2 * 10**9)

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from holdfast.cli import main; main()",
            "audit",
            "--train",
            "big.csv",
            "--blocks-above",
            "1e6",
            *MERIT[2:],
        ],
        preexec_fn=little,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 2
    assert "not enough memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_hostile_names_are_inert_text(folder, capsys):
    table = pd.read_csv("merit.csv")
    table = table.rename(
        columns={"age": "<script>alert(1)</script>", "savings": "[red]x[/red] $y$"}
    )
    table["customer"] = [f"<img src=x onerror=alert({i})>" for i in range(len(table))]
    table["job"] = table["job"].replace("none", "{{ 7*7 }}</script>")
    table.to_csv("merit.csv", index=False)
    assert audit("--html", "r.html", "--case-file", "c.html", "--cohort", "job") == 0
    report, case = Path("r.html").read_text(), Path("c.html").read_text()
    assert "<script>alert" not in report + case
    assert "<img" not in report + case
    assert "&lt;script&gt;alert" in report
    assert "{{ 7*7 }}&lt;/script&gt;" in report
    assert "[red]x[/red]" in report
    capsys.readouterr()


def test_numbers_do_not_change_with_jobs(folder, capsys):
    found = []
    for jobs in ("1", "2"):
        assert audit("--json", "--jobs", jobs) == 0
        said = json.loads(capsys.readouterr().out)
        found.append([[p[k] for k in ("predicted", "refitted", "random")] for p in said["curve"]])
    assert np.allclose(found[0], found[1])

"""Nonsense in, one message out: random tables and settings never end in a traceback.

The ordinary suite tries some hundreds; ``test_attack.py`` goes on from here.
"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.cli import run
from lender import loans

TABLE = loans(60)
NAMES = ["customer", "age", "income", "savings", "job", "region", "repaid", "merit"]
ODD_CELLS = [
    "\x1b[2J",
    "\u202e",
    "'=1",
    "1e300",
    "C-0001",
    "",
    "NA",
    "x",
    "1e400",
    "-inf",
    "nan",
    "0",
    '"',
    "'",
    "\x00",
    "é",
    "=1+1",
    "1;2",
    " ",
]
ODD_NAMES = [
    "\x1b]0;x\x07",
    "=1+1",
    "holdfast_file",
    "",
    "age",
    "a,b",
    "<script>",
    "id",
    "0",
    "customer",
    "\n",
    "é" * 40,
]
ODD_CELLS += ["\x1b[2J", "\u202e", "'=1", "1e300", "C-0001"]
ODD_NAMES += ["\x1b]0;x\x07", "=1+1", "holdfast_file"]
KINDS = ["linear", "ridge", "logistic", "lssvm", "ntk", "boosting", "mlp", "forest", ""]

words = st.one_of(st.sampled_from(ODD_CELLS), st.text(max_size=6))
numbers = st.one_of(
    st.integers(-3, 20).map(str),
    st.floats(width=32).map(str),
    st.sampled_from(["1e300", "-0.0", "", "x", "0.2@1", "nan"]),
)


@st.composite
def tables(draw):
    """A lender's table with some damage done, as text."""
    n = draw(st.sampled_from([0, 1, 2, 5, 12, 40, 60]))
    table = TABLE[:n].astype(object)
    for _ in range(draw(st.integers(0, 3))):
        if n and draw(st.booleans()):
            row = draw(st.integers(0, n - 1))
            table.iloc[row, draw(st.integers(0, len(NAMES) - 1))] = draw(words)
    if draw(st.integers(0, 9)) == 0:
        table = table.rename(
            columns={draw(st.sampled_from(NAMES)): draw(st.sampled_from(ODD_NAMES))}
        )
    if draw(st.integers(0, 9)) == 0 and n:
        table[draw(st.sampled_from(NAMES))] = draw(words)
    text = table.to_csv(index=False, sep=draw(st.sampled_from([",", ",", ",", ";", "\t"])))
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(words) + text[place:]
    return text.encode("utf-8", "surrogatepass")


ODD_PLACES = ["loop", "pipe", "n" * 300, "dir", "none/x", "t.csv", "a\nb", "\x1b[2J.html"]

LONG = ["max_iter=1", "alpha=" + "9" * 5000, "alpha=" + "[" * 20000]

OPTIONS = {
    "--html": st.sampled_from(["o.html", *ODD_PLACES]),
    "--json-file": st.sampled_from(["o.json", *ODD_PLACES]),
    "--case-file": st.sampled_from(["case.html", "case", *ODD_PLACES]),
    "--csv": st.sampled_from(["tables", "dir", *ODD_PLACES]),
    "--out": st.sampled_from(["o.csv", *ODD_PLACES]),
    "--erase-id": st.sampled_from(["C-0001", "C-0005", "ids.txt", " C-0001", "C-0001 "]),
    "--erase-file": st.sampled_from(["ids.txt", "C-0005", "pipe", "dir", "t.csv"]),
    "--favourable": st.one_of(st.sampled_from(["yes", "no", "high", "low"]), words),
    "--id": st.sampled_from([*NAMES, "custom", ""]),
    "--subject": st.sampled_from([*NAMES, "none"]),
    "--drop": st.sampled_from(NAMES),
    "--text": st.sampled_from(NAMES),
    "--delimiter": st.sampled_from([",", ";", "", "ab", '"']),
    "--param": st.sampled_from(
        [
            "alpha=" + "9" * 5000,
            "alpha=" + "[" * 20000,
            "alpha=1",
            "C=0",
            "C=-1",
            "x",
            "alpha=",
            "beta=nan",
            "max_iter=1",
        ]
    ),
    "--people": st.sampled_from(["people.csv", "none.csv", "."]),
    "--recourses": st.sampled_from(["people.csv", "none.csv", "t.csv"]),
    "--as-of": st.sampled_from(["2026-01-31", "now", ""]),
    "--method": st.sampled_from(["scfe", "growing-spheres", "actionable", "dice-random", "magic"]),
    "--overshoot": numbers,
    "--holdout": numbers,
    "--target": numbers,
    "--target-probability": numbers,
    "--actionability": st.sampled_from(["infer", "none", "rules.toml", "t.csv", "pipe"]),
    "--erased": st.sampled_from(["ids.txt", "t.csv", "none", "pipe"]),
    "--unit": st.sampled_from(["row", "subject", "x"]),
    "--search": st.sampled_from(["best", "greedy", "influence", "x"]),
    "--rate": st.sampled_from(["1/week", "3/day", "x", "1e9/day"]),
    "--horizon": st.sampled_from(["1w", "2 days", "x"]),
    "--cohort": st.sampled_from([*NAMES, "x"]),
    "--seed": numbers,
    "--jobs": st.sampled_from(["1", "2", "0", "-1", "x"]),
    "--fail-above": numbers,
    "--fail-unproven": numbers,
    "--max-deletions": st.sampled_from(["1", "2", "0", "-1", "999", "x"]),
}


@st.composite
def commands(draw):
    """A command with some options, sensible and not."""
    name = draw(st.sampled_from(["audit", "audit", "impact", "recourse", "harden"]))
    label = draw(st.sampled_from(["merit", "merit", "repaid", "repaid", "age", "none"]))
    kind = draw(st.sampled_from(KINDS[:2] + KINDS))
    chosen = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True))
    options = [word for option in chosen for word in (option, draw(OPTIONS[option]))]
    base = ["--train", "t.csv", "--label", label, "--model", kind]
    if draw(st.integers(0, 4)):
        base += ["--id", "customer"]
    if label == "repaid":
        base += ["--favourable", "yes"]
    if name == "audit":
        base += ["--max-deletions", "2", "--draws", "2", "--html", "out.html"]
    if name == "impact":
        whom = ["C-0001", "C-0002", "x", "ids.txt", ".", "C-0005", "pipe", "C-0001 "]
        base += ["--erase", draw(st.sampled_from(whom))]
        base += ["--emit", "out.csv", "--save-model", "out.skops"]
    if name == "harden":
        some = draw(st.sampled_from(["margin", "honour", "uniform", "x"]))
        base += ["--mitigation", some, "--survive", draw(st.sampled_from(["1", "0", "9"]))]
    return [name, *base, *options]


def prepared(table):
    """A lender's files in the current folder, and some nobody should have."""
    Path("t.csv").write_bytes(table)
    TABLE[:20].drop(columns=["repaid", "merit"]).to_csv("people.csv", index=False)
    Path("ids.txt").write_text("C-0003\nC-0004\n")
    Path("C-0005").write_text("C-0006\n")  # a file, and somebody's id
    Path("rules.toml").write_text('[features.age]\ndirection = "frozen"\n')
    os.mkfifo("pipe")
    os.mkdir("dir")
    os.symlink("loop", "loop")
    return everything()


def everything():
    return {str(path) for path in Path().rglob("*")}


def in_process(command):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command)
    return code, out.getvalue(), err.getvalue()


#: what a terminal acts on
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def attempt(table, command, call=in_process):
    """Run a command in a folder of its own; check how it ended."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            before = prepared(table)
            code, out, err = call(command)
            written = everything() - before
        finally:
            os.chdir(here)
    assert code in (0, 1, 2), code
    assert "Traceback" not in err
    assert "fault of Holdfast's" not in err, err
    for text in (out, err):
        assert not ACTIVE.search(text)
    if code == 2:
        assert err.strip()
        assert out == ""
        assert not written, written
    if code == 1:
        assert "--fail-" in err
    if code == 0 and command[0] == "audit" and "--html" not in command[10:]:
        assert "out.html" in written
    assert not [name for name in written if ".holdfast" in name]


QUIETLY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=100, deadline=None, suppress_health_check=QUIETLY, derandomize=True)
@given(tables(), commands())
def test_nonsense_is_answered_in_words(table, command):
    attempt(table, command)


CONFIG_KEYS = ["train", "label", "model", "max_deletions", "seed", "html", "parameters", "x", "id"]
values = st.one_of(
    st.text(max_size=8).map(lambda t: '"' + t.replace("\\", "").replace('"', "") + '"'),
    st.integers(-5, 50).map(str),
    st.sampled_from(["true", "[1, 2]", "{ a = 1 }", "nan", '"t.csv"', '"merit"', '"ridge"', ""]),
)


@settings(max_examples=80, deadline=None, suppress_health_check=QUIETLY, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(CONFIG_KEYS), values), max_size=6), st.booleans())
def test_nonsense_in_settings_files(pairs, sensible):
    lines = [f"{key} = {value}" for key, value in pairs]
    if sensible:
        lines = ['train = "t.csv"', 'label = "merit"', *lines]
    with tempfile.TemporaryDirectory() as folder:
        here = Path.cwd()
        try:
            os.chdir(folder)
            Path("t.csv").write_text(TABLE[:12].to_csv(index=False))
            text = "\n".join(lines).replace("\x00", "")
            Path("a.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                code = run(["audit", "a.toml"])
        finally:
            os.chdir(here)
    assert code in (0, 2)
    if code == 2:
        assert err.getvalue().startswith("holdfast: ")

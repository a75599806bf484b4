"""How the house is cut: which room may know what."""

import re
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent
BELOW = ("models", "estimators", "algebra")


def lines(*rooms):
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0]
        if room not in rooms:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"


def test_nobody_outside_asks_which_family_a_model_is_of():
    probe = re.compile(
        r"isinstance\([^)]*(Core|LowRankDeletions|KernelDeletions)|\._final\b"
        r"|(?<!models)(?<!xgboost)(?<!catboost)\.core\b"  # those are modules of libraries
    )
    found = [line for line in lines(*BELOW) if probe.search(line) and "import" not in line]
    assert found == []


def test_messages_below_the_command_line_name_no_options():
    option = re.compile(r"""["'][^"']*(?<![\w-])--[a-z]{2,}""")
    allowed = (
        "errors.py",
        "cases/trust.py",
        "cases/settings.py",
        "datasets/sources.py",
        "paper/__init__.py",
        "paper/provenance.py",  # options of git
        "report/figures.py",
        "ledger/letters.py",  # options of a browser
    )
    found = [line for line in lines("cli") if option.search(line) and not line.startswith(allowed)]
    assert found == []


def test_no_state_of_the_process_is_changed_by_anybody_alone():
    state = re.compile(r"os\.umask\(|simplefilter\(|np\.seterr\(|random\.seed\(|catch_warnings\(")
    found = [line for line in lines() if state.search(line)]
    assert [line for line in found if not line.startswith("shared_state.py")] == []


def test_no_name_is_used_for_two_things():
    names = {}
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            if not name.startswith("_"):
                names.setdefault(name, []).append(path.name)
    assert {name: where for name, where in names.items() if len(where) > 1} == {}
    modules = [path.stem for path in SOURCE.rglob("*.py")]
    assert modules.count("kernel") <= 1
    assert "kernels" not in modules
    assert not (SOURCE / "models" / "inputs.py").exists()

"""What is built, and what whoever installs it gets. ``make package`` runs all of it."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import holdfast as hf

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
#: a wheel larger than this has something in it that was not meant to be
LARGEST = 2_000_000


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert {project, cited[1], newest[1]} == {hf.__version__}


def built(folder, *what):
    """``python -m build`` into a folder."""
    pytest.importorskip("build", reason="make package installs it")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), *what, str(ROOT)], check=True
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Both, the wheel made from the source distribution; HOLDFAST_DIST keeps them."""
    kept = os.environ.get("HOLDFAST_DIST")
    folder = ROOT / kept if kept else tmp_path_factory.mktemp("dist")
    built(folder)
    (wheel,) = folder.glob(f"holdfast-{hf.__version__}-*.whl")
    (source,) = folder.glob(f"holdfast-{hf.__version__}.tar.gz")
    return wheel, source


def files_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(dist):
    wheel, _ = dist
    held = files_of(wheel)
    wanted = {
        f"holdfast/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = {name for name in held if ".dist-info/" in name}
    assert set(held) - about == wanted
    assert {name.split("/", 1)[1] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    for name in (  # what no import would miss
        "holdfast/py.typed",
        "holdfast/report/templates/report.html",
        "holdfast/report/templates/letters/de.html",
        "holdfast/desk/static/htmx.min.js",
        "holdfast/desk/static/htmx.LICENSE",
        "holdfast/desk/static/style.css",
        "holdfast/desk/templates/base.html",
        "holdfast/ledger/migrations/env.py",
    ):
        assert name in held
    assert wheel.stat().st_size < LARGEST


@pytest.mark.slow
def test_the_tree_and_the_source_distribution_build_the_same_wheel(dist, tmp_path):
    wheel, _ = dist
    built(tmp_path, "--wheel")
    (other,) = tmp_path.glob("*.whl")
    assert files_of(other) == files_of(wheel)


@pytest.mark.slow
def test_the_source_distribution_has_what_a_packager_needs(dist):
    _, source = dist
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for name in (
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "Dockerfile",
        "Makefile",
        "tests/conftest.py",
        "tests/ledger/books-0001.sql",
        "docs/audit.md",
    ):
        assert name in names
    unwanted = re.compile(r"(^|/)(\.venv|__pycache__|\.git/|dist/)|\.pyc$|\.db$")
    assert [name for name in names if unwanted.search(name)] == []


@pytest.mark.slow
def test_it_installs_into_an_empty_environment_and_runs(dist, tmp_path):
    wheel, _ = dist
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    said = subprocess.run(
        [tmp_path / "env" / "bin" / "holdfast", "version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"{hf.__version__}\n"
    subprocess.run(
        [python, "-W", "error", "-c", "import holdfast; holdfast.load_dataset('breast-cancer')"],
        cwd=tmp_path,
        check=True,
    )

"""The pages hold together: links, the site's navigation, the API's list, commands that exist.

No site is built here: ``make docs`` does that, and finds what only a build can.
"""

import fnmatch
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer.main

import holdfast as hf
from holdfast.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "_templates", "_ext", "_static")  # by the build, or for it
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    if not (path.is_relative_to(DOCS) and path.relative_to(DOCS).parts[0] in MADE)
)
#: pages that the build writes, and what they are written from
WRITTEN = {
    DOCS / "gallery" / "index.rst": DOCS / "tutorials" / "GALLERY_HEADER.rst",
    DOCS / "reference" / "command-line.md": DOCS / "_ext" / "command_line.py",
}
LINK = re.compile(r"(?<!`)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"(?:src|srcset)=\"([^\"]+)\"")


def name_of(path):
    return str(path.relative_to(ROOT))


@cache
def prose(path):
    """The page without its blocks of code."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^(```+)(?!\{).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: code[0] if "](" not in code[0] else "", text)


@cache
def anchors(path):
    """Slugs of the headings, as GitHub and the site make them."""
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(path), flags=re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


def source_of(target):
    """Where a page that the build writes comes from."""
    if target.parent == DOCS / "gallery" and target.name != "index.rst":
        return DOCS / "tutorials" / f"{target.stem}.py"
    return WRITTEN.get(target, target)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_are_there(page):
    text = prose(page)
    for link in [*LINK.findall(text), *PICTURE.findall(text)]:
        if re.match(r"[a-z]+:", link):
            continue  # elsewhere: make links
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        source = source_of(target)
        assert source.exists(), f"{name_of(page)} links to {link}"
        if anchor:
            assert anchor in anchors(source), f"{name_of(page)} links to {link}"


def test_every_page_is_in_the_navigation():
    shown = set()
    for page in PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            entries = [line.strip() for line in block.splitlines()]
            for entry in entries:
                if entry and not entry.startswith(":"):
                    pattern = str((page.parent / f"{entry}.md").resolve())
                    shown |= {path for path in PAGES if fnmatch.fnmatch(str(path), pattern)}
    missing = {path for path in PAGES if path.is_relative_to(DOCS)} - shown - {DOCS / "index.md"}
    assert sorted(map(name_of, missing)) == []


def test_every_public_name_has_a_page():
    listed = re.findall(r"^   ([\w.]+)$", (DOCS / "reference" / "api.rst").read_text("utf-8"), re.M)
    assert {name for name in hf.__all__ if not name.startswith("_")} <= set(listed)
    assert len(listed) == len(set(listed))


def commands(path):
    """What a page tells to type: lines of its shell blocks, joined where they go on."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"^(?:    (?:holdfast|make) .*\n)+", text, re.MULTILINE)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            line = line.replace("…", " ").strip()
            try:
                words = shlex.split(line, comments=True)
            except ValueError:
                continue
            start = 0
            for at, word in enumerate([*words, "&&"]):
                if word in ("&&", "|", ">"):
                    if words[start:at] and words[start] in ("holdfast", "make"):
                        yield words[start:at]
                    start = at + 1


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for words in commands(page):
        if words[0] == "make":
            named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
            assert set(named) <= set(targets), words
            continue
        command = typer.main.get_command(app)
        rest = words[1:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, words
            command = command.commands[rest.pop(0)]
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        for word in rest:
            if word.startswith("--"):
                assert word.partition("=")[0] in {*known, "--help"}, words


def test_readme_commands_are_looked_at():
    assert len(list(commands(ROOT / "README.md"))) >= 3
    assert len(list(commands(DOCS / "ledger.md"))) >= 8

"""Pages are written to read well on GitHub; two things of theirs are done otherwise here.

GitHub shows ``<picture>`` with a source for dark mode. Here it becomes two images, so that the
build checks that both files are there, and the theme shows the one that belongs to the page's mode.
A link that is named like the file it leads to (``[harden.md](harden.md)``) gets the page's title.
Files at the root (the changelog and others) are taken in with their links led from where they are
shown.
"""

from __future__ import annotations

import re
from pathlib import Path

PICTURE = re.compile(
    r"<picture>\s*<source[^>]*srcset=\"(?P<dark>[^\"]+)\"[^>]*>\s*"
    r"<img\s+alt=\"(?P<alt>[^\"]*)\"\s+src=\"(?P<light>[^\"]+)\"[^>]*>\s*</picture>"
)
NAMED = re.compile(r"\[[\w/.-]+\.md\](?=\([^)\s]+\.md\))")

TAKEN_IN = re.compile(r"```\{include\} \.\./\.\./(?P<name>\S+\.md)\n```")
#: files at the root that have a page, and where
AT_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def taken_in(text: str) -> str:
    """A file at the root as a page in ``docs/project`` shows it."""

    def led(link):
        target = link[1]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        if target.startswith("docs/"):
            return f"](../{target.removeprefix('docs/')})"
        return f"]({AT_ROOT.get(target) or f'../../{target}'})"

    return re.sub(r"\]\(([^)\s]+)\)", led, text)


def here(text: str) -> str:
    """A page of Markdown as the site shows it."""
    text = PICTURE.sub(
        r"![\g<alt>](\g<light>){.only-light}\n![\g<alt>](\g<dark>){.only-dark}", text
    )
    return NAMED.sub("[]", text)


def _read(app, name, source):
    if str(app.env.doc2path(name)).endswith(".md"):
        found = TAKEN_IN.search(source[0])
        if found:
            path = Path(app.srcdir).parent / found["name"]
            app.env.note_dependency(str(path))
            source[0] = taken_in(path.read_text(encoding="utf-8"))
        source[0] = here(source[0])


def setup(app):
    """Look at every page as it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}

"""Pages are written to read well on GitHub; two things of theirs are done otherwise here.

GitHub shows ``<picture>`` with a source for dark mode. Here it becomes two images, so that the
build checks that both files are there, and the theme shows the one that belongs to the page's mode.
A link that is named like the file it leads to (``[harden.md](harden.md)``) gets the page's title.
"""

from __future__ import annotations

import re

PICTURE = re.compile(
    r"<picture>\s*<source[^>]*srcset=\"(?P<dark>[^\"]+)\"[^>]*>\s*"
    r"<img\s+alt=\"(?P<alt>[^\"]*)\"\s+src=\"(?P<light>[^\"]+)\"[^>]*>\s*</picture>"
)
NAMED = re.compile(r"\[[\w/.-]+\.md\](?=\([^)\s]+\.md\))")


def here(text: str) -> str:
    """A page of Markdown as the site shows it."""
    text = PICTURE.sub(
        r"![\g<alt>](\g<light>){.only-light}\n![\g<alt>](\g<dark>){.only-dark}", text
    )
    return NAMED.sub("[]", text)


def _read(app, name, source):
    if str(app.env.doc2path(name)).endswith(".md"):
        source[0] = here(source[0])


def setup(app):
    """Look at every page as it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}

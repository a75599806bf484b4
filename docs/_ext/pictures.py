"""Pictures for light and dark pages, written once.

GitHub shows ``<picture>`` with a source for dark mode. Here it becomes two images, so that the build
checks that both files are there, and the theme shows the one that belongs to the page's mode.
"""

from __future__ import annotations

import re

PICTURE = re.compile(
    r"<picture>\s*<source[^>]*srcset=\"(?P<dark>[^\"]+)\"[^>]*>\s*"
    r"<img\s+alt=\"(?P<alt>[^\"]*)\"\s+src=\"(?P<light>[^\"]+)\"[^>]*>\s*</picture>"
)


def both(text: str) -> str:
    """The text with every ``<picture>`` as two images of MyST."""
    return PICTURE.sub(
        r"![\g<alt>](\g<light>){.only-light}\n![\g<alt>](\g<dark>){.only-dark}", text
    )


def _read(app, name, source):
    if str(app.env.doc2path(name)).endswith(".md"):
        source[0] = both(source[0])


def setup(app):
    """Look at every page as it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}

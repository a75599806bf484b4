"""What a notebook shows of our objects: a small card, nothing that needs anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

_STYLE = "border-left:4px solid #2563a8;padding:.2rem .9rem;margin:.3rem 0;max-width:52rem"


def card(
    title: str, facts: Mapping[str, Any], table: pd.DataFrame | None = None, text: str = ""
) -> str:
    """A title, what is known, some lines of a table; all of it escaped."""
    parts = [Markup("<b>{}</b>").format(title)]
    said = Markup(" · ").join(Markup("{}: {}").format(k, v) for k, v in facts.items() if v != "")
    if said:
        parts.append(Markup("<br><small>{}</small>").format(said))
    if text:
        parts.append(Markup("<br>{}").format(text))
    if table is not None and len(table):
        parts.append(Markup(table.to_html(escape=True, border=0, max_rows=12)))  # noqa: S704
    inside = Markup("").join(parts)
    return str(Markup('<div style="{}">{}</div>').format(escape(_STYLE), inside))

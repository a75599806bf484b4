"""Text that does nothing where it is shown: on terminals and in spreadsheets."""

from __future__ import annotations

import re
from typing import Any

#: what terminals act on: control characters (but for line ends and tabs), line separators,
#: characters that reverse the direction of what follows, and halves of characters
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: what begins a formula in some spreadsheet
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")


def for_terminal(text: str) -> str:
    r"""The same with what a terminal would act on spelled out.

    Examples
    --------
    >>> from holdfast.inert import for_terminal
    >>> print(for_terminal("\x1b[2Jcustomer"))
    \x1b[2Jcustomer
    """
    return _ACTIVE.sub(lambda found: _spelled(found[0]), text)


def one_line(text: str) -> str:
    r"""The same as :func:`for_terminal`, and line ends spelled out too: for names and ids."""
    return for_terminal(text).replace("\n", r"\n").replace("\t", r"\t")


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def for_spreadsheet(cell: Any) -> Any:
    """The cell of a CSV file: text that would be run as a formula gets an apostrophe before it.

    Text that begins with an apostrophe gets another, so that :func:`from_spreadsheet` finds every
    cell as it was.

    Examples
    --------
    >>> from holdfast.inert import for_spreadsheet, from_spreadsheet
    >>> for_spreadsheet("=1+1"), for_spreadsheet("C-7"), for_spreadsheet(-5)
    ("'=1+1", 'C-7', -5)
    >>> from_spreadsheet("'=1+1")
    '=1+1'
    """
    if isinstance(cell, str) and (cell.startswith("'") or _FORMULA.match(cell)):
        return "'" + cell
    return cell


def from_spreadsheet(cell: Any) -> Any:
    """A cell :func:`for_spreadsheet` wrote, as it was."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") else cell

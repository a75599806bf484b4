"""The page of the command line, written from the commands themselves when the site is built."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

PAGE = Path("reference", "command-line.md")
HEAD = """# Command line

Every command and option, as `holdfast COMMAND --help` has them. Options that several commands
share mean the same everywhere. A settings file (`holdfast audit --init` writes one) has the same
names with underscores.
"""


def page() -> str:
    """The page, in Markdown."""
    import typer.main

    from holdfast.cli import app

    return HEAD + "".join(_command(typer.main.get_command(app), "holdfast", 2))


def _command(command, name: str, level: int):
    if hasattr(command, "commands"):
        for word in sorted(command.commands):
            yield from _command(command.commands[word], f"{name} {word}", level)
        return
    yield f"\n{'#' * level} {name}\n\n{inspect.cleandoc(command.help or '')}\n"
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    rows = [(f"`{_shown(p)}`", _text(getattr(p, "help", None))) for p in arguments]
    rows += [(_names(p), _text(p.help)) for p in options]
    if rows:
        yield "\n| | |\n|---|---|\n"
        for left, right in rows:
            yield f"| {left} | {right} |\n"


def _shown(parameter) -> str:
    return parameter.metavar or parameter.name.upper()


def _names(option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else f" `{option.metavar}`" if option.metavar else ""
    return f"{names}{kind}"


def _text(text: str | None) -> str:
    words = re.sub(r"\s+", " ", text or "").strip()
    return words.replace("|", "\\|").replace("<", "&lt;")


def _write(app):
    path = Path(app.srcdir) / PAGE
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app):
    """Write it before pages are looked for."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}

"""The command line: thin, and quick to say what it can do."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.books import ledger, letters, request
from holdfast.cli.options import (
    AUDIT,
    HARDEN,
    IMPACT,
    MODELS,
    PEOPLE,
    PROMISED,
    RECOURSE,
    TABLE,
    Config,
    Decimal,
    Delimiter,
    Drop,
    Id,
    Label,
    Subject,
    Text,
    option,
    taking,
)
from holdfast.cli.stops import STOP, keep_libraries_quiet, leave_stdout, open_what_is_closed

#: the heading of the desk's options
DESK = "The desk"

app = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Does the advice you gave people still hold when somebody else asks to be forgotten?\n\n"
        "Exit codes: 0 fine, 1 a finding above your threshold, 2 bad usage or bad input, "
        "130 interrupted (128 + the signal's number)."
    ),
)


@app.command()
@taking(TABLE, MODELS, PEOPLE, PROMISED, AUDIT)
def audit(
    config: Config = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented audit.toml (or CONFIG) and stop.")
    ] = False,
    **options: Any,
) -> None:
    """How many promised recourses could a few erasures break?

    Examples:

    - `holdfast audit --train loans.csv --label repaid --favourable 1 --model logistic
      --html report.html`

    - `holdfast audit --train loans.csv --label repaid --id customer --model-file model.skops
      --recourses issued.csv --rate 40/week --horizon 26w --case-file case.html`

    - `holdfast audit --init`, then `holdfast audit audit.toml`
    """
    from holdfast.cli.commands import run_audit, write_template

    if init:
        write_template(config)
        return
    raise typer.Exit(run_audit(told(options), config))


@app.command()
@taking(TABLE, MODELS, PEOPLE, PROMISED, IMPACT)
def impact(
    config: Config = None,
    **options: Any,
) -> None:
    """These people ask to be erased: whose recourse breaks, and what to tell them now?

    Examples:

    - `holdfast impact audit.toml --erase C-1017 --erase C-2044`

    - `holdfast impact audit.toml --erase requests.txt --emit remaining.csv
      --save-model updated.skops`
    """
    from holdfast.cli.erasing import run_impact

    raise typer.Exit(run_impact(told(options), config))


@app.command()
def serve(
    address: Annotated[
        str | None,
        option(
            "--ledger",
            panel=DESK,
            envvar="HOLDFAST_LEDGER",
            show_envvar=False,
            help="The ledger: its file, or postgresql+psycopg://…; else HOLDFAST_LEDGER.",
        ),
    ] = None,
    case: Annotated[
        Path | None, option("--case", panel=DESK, help="A case: an audit.toml.")
    ] = None,
    demo: Annotated[
        bool,
        option("--demo", panel=DESK, help="Try it on a filled ledger made in holdfast-desk-demo."),
    ] = False,
    port: Annotated[int, option("--port", panel=DESK, help="Where to listen; 0: any.")] = 8765,
    host: Annotated[
        str, option("--host", panel=DESK, help="On which interface; the loopback one by default.")
    ] = "127.0.0.1",
    home: Annotated[
        Path | None,
        option("--home", panel=DESK, help="The desk's own folder; beside the ledger by default."),
    ] = None,
    name: Annotated[
        list[str] | None,
        option("--name", panel=DESK, help="A name browsers call it by, behind a proxy."),
    ] = None,
    tls_proxy: Annotated[
        bool, option("--tls-proxy", panel=DESK, help="Behind a proxy that speaks TLS.")
    ] = False,
) -> None:
    """The desk: the ledger and *what if* in a browser, on this machine.

    Examples:

    - `holdfast serve --demo`

    - `holdfast serve --ledger holdfast.db --case audit.toml`
    """
    from holdfast.cli.desk import run_serve

    raise typer.Exit(run_serve(address, case, demo, port, host, home, name or [], tls_proxy))


@app.command()
@taking(TABLE, MODELS, PEOPLE, RECOURSE)
def recourse(
    config: Config = None,
    **options: Any,
) -> None:
    """What should people below the target do?

    Example:

    - `holdfast recourse --train loans.csv --label repaid --id customer --model logistic
      --people declined.csv --out issued.csv`
    """
    from holdfast.cli.commands import run_recourse

    raise typer.Exit(run_recourse(told(options), config))


@app.command()
@taking(TABLE, MODELS, PEOPLE, HARDEN)
def harden(
    config: Config = None,
    **options: Any,
) -> None:
    """What would make recourses survive erasures, and what would it cost?

    Examples:

    - `holdfast harden audit.toml --survive 3`

    - `holdfast harden audit.toml --survive 3 --mitigation margin --out hardened.csv`
    """
    from holdfast.cli.commands import run_harden

    raise typer.Exit(run_harden(told(options), config))


@app.command()
def rules(
    table: Annotated[Path, typer.Argument(help="The training table.", show_default=False)],
    label: Label = None,
    id: Id = None,
    subject: Subject = None,
    drop: Drop = None,
    text: Text = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
) -> None:
    """What may people change? As inferred from a table, with the reasons, for editing.

    Example:

    - `holdfast rules loans.csv --label repaid --id customer > rules.toml`, then
      `holdfast audit ... --actionability rules.toml`
    """
    from holdfast.cli.commands import run_rules

    options = {"label": label, "id": id, "subject": subject, "drop": drop, "text": text}
    raise typer.Exit(run_rules(table, {**options, "delimiter": delimiter, "decimal": decimal}))


@app.command()
def demo(
    html: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("holdfast-demo.html"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """The whole audit on real data that comes with scikit-learn, in about a minute.

    Example:

    - `holdfast demo --html demo.html`
    """
    from holdfast.cli.demo import run_demo

    raise typer.Exit(run_demo(html, quiet))


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            help="all, or some of: outcome, action, classification, gates, onion, wide, bounds, "
            "overshoot, encodings, rules, privacy.",
            metavar="[FIGURE]...",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder results go to.")] = Path("reproduction"),
    data: Annotated[
        Path | None, typer.Option(help="A folder with the data sets' raw files.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of everything, in a few minutes.")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="No caps: nobody left out. Most of a day.")
    ] = False,
    redraw: Annotated[
        bool,
        typer.Option("--redraw", help="Draw and judge what is there; measure nothing."),
    ] = False,
    overshoot: Annotated[
        list[float] | None,
        typer.Option(help="Overshoots in score deviations, instead of 0.001, 0.01, 0.05 and 0.2."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Cases worked on at the same time.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what the folder holds already.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Every figure of the paper from the real data, and a table of its claims.

    Examples:

    - `holdfast reproduce --quick`

    - `holdfast reproduce outcome bounds --out results --resume`
    """
    from holdfast.cli.paper import run_reproduction

    STOP.kept = "what is finished is kept, go on with --resume"
    options = {
        "out": out,
        "data": data,
        "quick": quick,
        "everyone": everyone,
        "redraw": redraw,
        "overshoots": overshoot or None,
        "jobs": jobs,
        "resume": resume,
    }
    raise typer.Exit(run_reproduction(figures or ["all"], options, quiet))


app.add_typer(ledger, name="ledger")
app.add_typer(request, name="request")
app.command("letters")(letters)

_data = typer.Typer(no_args_is_help=True, help="The data sets: listed, fetched, shown.")
app.add_typer(_data, name="data")


@_data.command("list")
def list_data() -> None:
    """What there is, what is predicted, and where it comes from.

    Example:

    - `holdfast data list`
    """
    from holdfast.cli.paper import list_datasets

    raise typer.Exit(list_datasets())


@_data.command("fetch")
def fetch_data(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; all by default.", metavar="[NAME]...")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Have data sets at hand: found, or fetched, verified, cleaned and kept.

    Example:

    - `holdfast data fetch heloc compas`
    """
    from holdfast.cli.paper import fetch_datasets

    raise typer.Exit(fetch_datasets(names or [], quiet))


@_data.command("show")
def show_data(
    name: Annotated[str, typer.Argument(help="Which.")],
    task: Annotated[str | None, typer.Option(help="What is to be predicted.")] = None,
    path: Annotated[Path | None, typer.Option(help="The raw file, or a folder with it.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Rows, what is predicted, and what a person can change.

    Example:

    - `holdfast data show heloc`
    """
    from holdfast.cli.paper import show_dataset

    raise typer.Exit(show_dataset(name, task, path, quiet))


@app.command()
def schema(
    of: Annotated[
        Literal["audit", "impact", "harden"], typer.Argument(help="Of which command.")
    ] = "audit",
) -> None:
    """The JSON Schema of what --json prints.

    Example:

    - `holdfast schema > audit.schema.json`
    """
    from holdfast.cli.commands import print_schema

    print_schema(of)


@app.command()
def version() -> None:
    """The version, and nothing else.

    Example:

    - `holdfast version`
    """
    _print_version(True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def told(options: dict[str, Any]) -> dict[str, Any]:
    """The options as settings."""
    options = dict(options)
    parameters = options.pop("param", None)
    if parameters:
        from holdfast.cli.commands import parameters_of

        options["parameters"] = parameters_of(parameters)
    return options


def _arguments(arguments: list[str]) -> list[str]:
    """``--json FILE.json`` means ``--json-file FILE.json``; ``--json`` alone prints."""
    changed = list(arguments)
    for place, word in enumerate(changed[:-1]):
        if word == "--json" and changed[place + 1].endswith(".json"):
            changed[place] = "--json-file"
    return [
        f"--json-file={word[len('--json=') :]}" if word.startswith("--json=") else word
        for word in changed
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run a command; end with its exit code, and never with a traceback."""
    open_what_is_closed()
    STOP.listen()
    keep_libraries_quiet()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code: 1 is a finding, and nothing else is."""
    STOP.begin()
    try:
        from holdfast.cli.faults import refuse_little_memory
        from holdfast.shared_state import quiet

        refuse_little_memory(arguments)
        with quiet:  # what users must know is said in words
            code = _command()(_arguments(arguments), prog_name="holdfast", standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()
        return int(code) if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        _say(str(STOP))
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        leave_stdout()
        return 0
    except Exception as failure:
        _explain(failure, arguments)
        return 2


@functools.cache
def _command() -> Any:
    """All commands, put together once."""
    return typer.main.get_command(app)


def _explain(failure: Exception, arguments: list[str]) -> None:
    """Say what went wrong, in one message."""
    from holdfast.cli.faults import of_the_machine, reported
    from holdfast.errors import HoldfastError
    from holdfast.inert import for_terminal

    if isinstance(failure, HoldfastError):
        _say(failure.worded(lambda name: "--" + name.replace("_", "-")))
    elif hasattr(failure, "format_message"):  # typer's complaints about usage
        said = failure.format_message()
        failure.show() if said == for_terminal(said) else _say(said)  # type: ignore[attr-defined]
    else:
        leave_stdout()  # nothing more goes there; a full disk must not be met again at the end
        _say(of_the_machine(failure) or reported(failure, arguments))


def _say(message: str) -> None:
    from holdfast.inert import one_line

    with contextlib.suppress(OSError):  # stderr on a full disk: the exit code must do
        print(f"holdfast: {one_line(message)}", file=sys.stderr, flush=True)

"""The commands about the ledger: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.options import (
    MODELS,
    OUTPUT,
    PEOPLE,
    PROMISED,
    TABLE,
    WORK,
    Json,
    Quiet,
    Seed,
    Trust,
    option,
    taking,
)

BOOKS = "The ledger"

Address = Annotated[
    str | None,
    option(
        "--ledger",
        panel=BOOKS,
        envvar="HOLDFAST_LEDGER",
        show_envvar=False,
        help="Its file, or postgresql+psycopg://…; else HOLDFAST_LEDGER, else holdfast.db here.",
    ),
]
By = Annotated[
    str | None, option("--by", panel=BOOKS, help="Who does this, for the log; else the user.")
]
Reason = Annotated[str, option("--reason", panel=WORK, help="Why; the log has it.")]
Numbers = Annotated[
    list[int] | None, typer.Argument(help="Numbers of requests.", metavar="[NUMBER]...")
]
Everybody = Annotated[bool, option("--all", panel=WORK, help="All that are open.")]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids of people.", metavar="[ID]...")]
IdsFile = Annotated[Path | None, option("--file", panel=WORK, help="A file of ids.")]

ledger = typer.Typer(
    no_args_is_help=True,
    help="Books of promises, requests and what became of them: made, filled, read, proven.",
)
request = typer.Typer(
    no_args_is_help=True, help="Requests to be erased: received, previewed, honoured, refused."
)


@ledger.command("init")
def init(
    address: Address = None,
    by: By = None,
    files: Annotated[
        Path | None, option("--files", panel=BOOKS, help="Folder for the table and the model.")
    ] = None,
    due_days: Annotated[
        int | None, option("--due-days", panel=BOOKS, help="Days until a request is due; 30.")
    ] = None,
    extension_days: Annotated[
        int | None, option("--extension-days", panel=BOOKS, help="Days an extension gives; 60.")
    ] = None,
    certify: Annotated[
        int | None,
        option("--certify", panel=BOOKS, help="Erasures certificates look ahead; 5, 0: none."),
    ] = None,
    language: Annotated[
        str | None, option("--language", panel=BOOKS, help="Of letters: en, de, or yours; en.")
    ] = None,
    sender: Annotated[
        str | None, option("--sender", panel=BOOKS, help="At the head of letters.")
    ] = None,
) -> None:
    """Make a ledger, or bring one of an earlier version up to date.

    Example:

    - `holdfast ledger init --due-days 30 --sender "Example Bank, Credit Department"`
    """
    from holdfast.cli.bookkeeping import run_init

    desk: dict[str, Any] = {"due_days": due_days, "extension_days": extension_days}
    desk |= {"certify": certify}
    desk |= {"language": language, "sender": sender}
    raise typer.Exit(run_init(address, by, files, desk))


@ledger.command("import")
@taking(TABLE, MODELS, PEOPLE, PROMISED)
def import_(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Settings as a TOML file, or an export to read back.", show_default=False
        ),
    ] = None,
    address: Address = None,
    by: By = None,
    seed: Seed = None,
    quiet: Quiet = None,
    **options: Any,
) -> None:
    """Fill the ledger: table, model and promises, with the files that audit and recourse take.

    Again with more promises: what is there already is left as it is, and another promise to the
    same person takes the place of the first.

    Examples:

    - `holdfast ledger import audit.toml --recourses issued.csv`

    - `holdfast ledger import backup.zip`
    """
    from holdfast.cli import told
    from holdfast.cli.bookkeeping import run_import

    said = told({**options, "seed": seed, "quiet": quiet})
    raise typer.Exit(run_import(address, by, source, said))


@ledger.command("status")
def status(address: Address = None, json: Json = None) -> None:
    """Promises by state, requests by due date, what is left of the certificates.

    Example:

    - `holdfast ledger status`
    """
    from holdfast.cli.bookkeeping import run_status

    raise typer.Exit(run_status(address, bool(json)))


@ledger.command("verify")
def verify(
    address: Address = None,
    head: Annotated[
        str | None,
        option("--head", panel=WORK, help="The log's last hash noted earlier: is it still there?"),
    ] = None,
    json: Json = None,
) -> None:
    """Follow the log's chain, and hold states, promises and files against it.

    Exit 1 if anything is not as it was written.

    Example:

    - `holdfast ledger verify --head 5f0c…`
    """
    from holdfast.cli.bookkeeping import run_verify

    raise typer.Exit(run_verify(address, head, bool(json)))


@ledger.command("log")
def log(
    address: Address = None,
    last: Annotated[
        int, option("--last", min=1, panel=OUTPUT, help="How many lines; the last 20.")
    ] = 20,
    json: Json = None,
) -> None:
    """Who did what, and when; people go by tokens.

    Example:

    - `holdfast ledger log --last 50`
    """
    from holdfast.cli.bookkeeping import run_log

    raise typer.Exit(run_log(address, last, bool(json)))


@ledger.command("export")
def export(
    path: Annotated[Path, typer.Argument(help="PERSONAL DATA: where it goes.")],
    address: Address = None,
    by: By = None,
) -> None:
    """Everything in one file; once somebody is erased it is made anew in its place.

    Example:

    - `holdfast ledger export backup.zip`
    """
    from holdfast.cli.bookkeeping import run_export

    raise typer.Exit(run_export(address, by, path))


@ledger.command("forget")
def forget(
    ids: Ids = None,
    address: Address = None,
    by: By = None,
    file: IdsFile = None,
) -> None:
    """Purge case files, letters and exports on record; with ids, people's records too.

    For people who are in no training table; whoever is asks to be erased by a request.

    Examples:

    - `holdfast ledger forget`

    - `holdfast ledger forget C-1017`
    """
    from holdfast.cli.bookkeeping import run_forget

    raise typer.Exit(run_forget(address, by, ids or [], file))


@ledger.command("mark")
def mark(
    state: Annotated[Literal["kept", "withdrawn"], typer.Argument(help="What became of them.")],
    ids: Annotated[list[str], typer.Argument(help="Ids of people.", metavar="ID...")],
    address: Address = None,
    by: By = None,
    reason: Reason = "",
) -> None:
    """Promises that were kept, or withdrawn.

    Example:

    - `holdfast ledger mark kept C-1017 --reason "loan granted"`
    """
    from holdfast.cli.bookkeeping import run_mark

    raise typer.Exit(run_mark(address, by, state, ids, reason))


@ledger.command("certify")
def certify(address: Address = None, by: By = None) -> None:
    """New certificates for every live promise, counted from the model in force.

    Those there are cover all erasures since they were given: of k, k − j are left after j.

    Example:

    - `holdfast ledger certify`
    """
    from holdfast.cli.bookkeeping import run_certify

    raise typer.Exit(run_certify(address, by))


@ledger.command("model")
def model(
    model_file: Annotated[
        Path | None, typer.Argument(help="The new model, as .skops.", show_default=False)
    ] = None,
    address: Address = None,
    by: By = None,
    train: Annotated[
        Path | None, option("--train", panel=WORK, help="The table it was fitted on, if another.")
    ] = None,
    target: Annotated[
        float | None, option("--target", panel=WORK, help="Another cutoff: a score.")
    ] = None,
    target_probability: Annotated[
        float | None,
        option("--target-probability", panel=WORK, help="Another cutoff: a probability."),
    ] = None,
    reason: Reason = "",
    trust: Trust = None,
    allow_pickle: Annotated[
        bool, option("--allow-pickle", panel=WORK, help="Load a pickle: it runs its code.")
    ] = False,
) -> None:
    """A new model for another reason than erasure: every live promise is judged again.

    Examples:

    - `holdfast ledger model new.skops --train new.csv --reason "rows of the third quarter"`

    - `holdfast ledger model --target-probability 0.6 --reason "stricter cutoff"`
    """
    from holdfast.cli.bookkeeping import run_model

    new = {"train": train, "target": target, "target_probability": target_probability}
    more = {"trust": trust or [], "allow_pickle": allow_pickle}
    raise typer.Exit(run_model(address, by, model_file, reason, {**new, **more}))


@request.command("add")
def add(
    ids: Ids = None,
    address: Address = None,
    by: By = None,
    file: IdsFile = None,
    opendsr: Annotated[
        Path | None, option("--opendsr", panel=WORK, help="A JSON file of OpenDSR requests.")
    ] = None,
    received: Annotated[
        str | None, option("--received", panel=WORK, help="The day it came, 2026-01-31; today.")
    ] = None,
    unknown: Annotated[
        bool, option("--unknown", panel=WORK, help="Also of people nobody knows, to be refused.")
    ] = False,
) -> None:
    """Somebody asks to be erased.

    Examples:

    - `holdfast request add C-1017`

    - `holdfast request add --opendsr incoming.json`
    """
    from holdfast.cli.bookkeeping import run_add

    raise typer.Exit(run_add(address, by, ids or [], file, opendsr, received, unknown))


@request.command("preview")
def preview(
    numbers: Numbers = None,
    everybody: Everybody = False,
    address: Address = None,
    trust: Trust = None,
    json: Json = None,
) -> None:
    """What honouring requests would do: who breaks, by how much, what they would be told.

    Nothing is written.

    Example:

    - `holdfast request preview 3 4`
    """
    from holdfast.cli.bookkeeping import run_preview

    raise typer.Exit(run_preview(address, numbers or [], everybody, trust or [], bool(json)))


@request.command("honour")
def honour(
    numbers: Numbers = None,
    everybody: Everybody = False,
    address: Address = None,
    by: By = None,
    trust: Trust = None,
    quiet: Quiet = None,
) -> None:
    """Erase them: refit, write model and table without them, mark promises, make letters due.

    All of it or nothing; safe to repeat.

    Example:

    - `holdfast request honour 3 4 --by "A. Officer"`
    """
    from holdfast.cli.bookkeeping import run_honour

    raise typer.Exit(run_honour(address, by, numbers or [], everybody, trust or [], bool(quiet)))


@request.command("refuse")
def refuse(
    number: Annotated[int, typer.Argument(help="Number of the request.")],
    reason: Annotated[str, option("--reason", panel=WORK, help="Why; the log has it.")],
    address: Address = None,
    by: By = None,
) -> None:
    """Close a request without erasing anybody.

    Example:

    - `holdfast request refuse 5 --reason "no data about this person is held"`
    """
    from holdfast.cli.bookkeeping import run_refuse

    raise typer.Exit(run_refuse(address, by, number, reason))


@request.command("extend")
def extend(
    number: Annotated[int, typer.Argument(help="Number of the request.")],
    reason: Annotated[str, option("--reason", panel=WORK, help="Why; the log has it.")],
    days: Annotated[
        int | None, option("--days", panel=WORK, help="How many more; 60, or as the ledger says.")
    ] = None,
    address: Address = None,
    by: By = None,
) -> None:
    """More time for a request: once, with the reason.

    Example:

    - `holdfast request extend 5 --reason "many requests at once"`
    """
    from holdfast.cli.bookkeeping import run_extend

    raise typer.Exit(run_extend(address, by, number, reason, days))


@request.command("list")
def list_(
    address: Address = None,
    open_only: Annotated[bool, option("--open", panel=WORK, help="Only those still open.")] = False,
    callbacks: Annotated[
        Path | None,
        option("--callbacks", panel=OUTPUT, help="A folder for OpenDSR status callbacks."),
    ] = None,
    json: Json = None,
) -> None:
    """All requests, by due date.

    Examples:

    - `holdfast request list --open`

    - `holdfast request list --callbacks outgoing`
    """
    from holdfast.cli.bookkeeping import run_list

    raise typer.Exit(run_list(address, open_only, callbacks, bool(json)))


def letters(
    out: Annotated[
        Path | None, option("--out", panel=OUTPUT, help="PERSONAL DATA: the folder they go to.")
    ] = None,
    told: Annotated[
        bool, option("--told", panel=WORK, help="Letters that were written have been sent.")
    ] = False,
    letter: Annotated[
        list[int] | None, option("--letter", panel=WORK, help="With --told: only these.")
    ] = None,
    language: Annotated[
        str | None, option("--language", panel=OUTPUT, help="en, de, or yours.")
    ] = None,
    templates: Annotated[
        Path | None,
        option("--templates", panel=OUTPUT, help="A folder with templates of your own."),
    ] = None,
    pdf: Annotated[
        bool, option("--pdf", panel=OUTPUT, help="Also as PDF, printed by a browser.")
    ] = False,
    address: Address = None,
    by: By = None,
) -> None:
    """Letters to people whose promise broke; then `--told`, once they were sent.

    Examples:

    - `holdfast letters --out letters --language de --pdf`

    - `holdfast letters --told`
    """
    from holdfast.cli.bookkeeping import run_letters

    more = {"language": language, "templates": templates, "pdf": pdf}
    raise typer.Exit(run_letters(address, by, out, told, letter or [], more))

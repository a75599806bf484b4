"""The command line: thin, and quick to say what it can do."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Does the advice you gave people still hold when somebody else asks to be forgotten?\n\n"
        "Exit codes: 0 fine, 1 a finding above your threshold, 2 bad usage or bad input, "
        "130 interrupted."
    ),
)

Kind = Literal["linear", "ridge", "logistic", "ntk", "lssvm", "mlp", "boosting"]
Finder = Literal["scfe", "dice", "dice-random", "cem", "growing-spheres", "actionable"]
Searcher = Literal["best", "greedy", "greedy-count", "greedy-soft", "influence", "gates", "optimal"]

_DATA, _MODEL, _PROMISES = "The table", "The model", "People and promises"
_WORK, _OUTPUT = "The work", "Output"


def _option(*names: str, panel: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


Config = Annotated[
    Path | None,
    typer.Argument(help="Settings as a TOML file; options win over its keys.", show_default=False),
]
Train = Annotated[
    Path | None, _option("--train", panel=_DATA, help="Training table: CSV or Parquet.")
]
Label = Annotated[str | None, _option("--label", panel=_DATA, help="Its label column.")]
Favourable = Annotated[
    str | None,
    _option("--favourable", panel=_DATA, help="The good outcome; for numbers 'high' or 'low'."),
]
Id = Annotated[str | None, _option("--id", panel=_DATA, help="Column that names rows.")]
Subject = Annotated[str | None, _option("--subject", panel=_DATA, help="Column that names people.")]
Delimiter = Annotated[
    str | None, _option("--delimiter", panel=_DATA, help="Of CSV files; a comma by default.")
]
Decimal = Annotated[
    Literal[".", ","] | None,
    _option("--decimal", panel=_DATA, help="Before fractions in CSV files; a point by default."),
]
Text = Annotated[
    list[str] | None, _option("--text", panel=_DATA, help="Column to read as text. Repeatable.")
]
Drop = Annotated[
    list[str] | None, _option("--drop", panel=_DATA, help="Column that is no feature. Repeatable.")
]
Erased = Annotated[
    Path | None, _option("--erased", panel=_DATA, help="Ids whose erasure was honoured already.")
]
Model = Annotated[
    Kind | None,
    _option(
        "--model",
        panel=_MODEL,
        help="Fit a model of this kind; text becomes one-hot, numbers are scaled, gaps filled.",
    ),
]
Parameter = Annotated[
    list[str] | None,
    _option("--param", panel=_MODEL, help="Parameter of the model, as NAME=VALUE. Repeatable."),
]
ModelFile = Annotated[
    Path | None, _option("--model-file", panel=_MODEL, help="Or a fitted model: a .skops file.")
]
AllowPickle = Annotated[
    bool | None,
    _option(
        "--allow-pickle",
        panel=_MODEL,
        help="Load pickle and joblib files too. They run whatever code they hold.",
    ),
]
Trust = Annotated[
    list[str] | None,
    _option("--trust", panel=_MODEL, help="Type in a .skops file to be trusted. Repeatable."),
]
People = Annotated[
    Path | None,
    _option("--people", panel=_PROMISES, help="Who needs recourse; else a held-out part."),
]
Holdout = Annotated[
    float | None, _option("--holdout", panel=_PROMISES, help="How large that part is; 0.2.")
]
Recourses = Annotated[
    Path | None,
    _option(
        "--recourses",
        panel=_PROMISES,
        help="Promises made already, by id; may have the columns issued, expires, model.",
    ),
]
AsOf = Annotated[
    str | None, _option("--as-of", panel=_PROMISES, help="Day promises must be alive on; today.")
]
Method = Annotated[Finder | None, _option("--method", panel=_PROMISES, help="Or how to make them.")]
Overshoot = Annotated[
    float | None,
    _option(
        "--overshoot", panel=_PROMISES, help="Beyond the target, in deviations of the score; 0.01."
    ),
]
Cost = Annotated[
    Literal["l1", "l2"] | None, _option("--cost", panel=_PROMISES, help="How changes add up.")
]
Target = Annotated[
    float | None,
    _option("--target", panel=_PROMISES, help="Score to reach; median label or even odds."),
]
TargetProbability = Annotated[
    float | None,
    _option("--target-probability", panel=_PROMISES, help="The same as a probability."),
]
ActionabilityFile = Annotated[
    str | None,
    _option(
        "--actionability",
        panel=_PROMISES,
        help="What people can change: a TOML file, 'infer' (default) or 'none'.",
    ),
]
Survive = Annotated[
    int | None,
    _option("--survive", panel=_WORK, help="What makes recourse survive so many erasures?"),
]
Mitigations = Annotated[
    list[str] | None,
    _option("--mitigation", panel=_WORK, help="One way to measure; all by default. Repeatable."),
]
Seed = Annotated[int | None, _option("--seed", panel=_WORK, help="For everything random; 0.")]
Jobs = Annotated[
    int | None, _option("--jobs", panel=_WORK, help="Refits at a time; -1: one per core.")
]
Html = Annotated[
    Path | None, _option("--html", panel=_OUTPUT, help="The report: aggregates, can be shared.")
]
Json = Annotated[
    bool | None,
    _option("--json", panel=_OUTPUT, help="One JSON document on stdout, nothing else there."),
]
JsonFile = Annotated[
    Path | None, _option("--json-file", panel=_OUTPUT, help="The same into a file.")
]
CaseFile = Annotated[
    Path | None,
    _option(
        "--case-file",
        panel=_OUTPUT,
        help="PERSONAL DATA: an .html page, or a folder of CSV files, for their owner only.",
    ),
]
Quiet = Annotated[
    bool | None, _option("--quiet", "-q", panel=_OUTPUT, help="No progress, no remarks.")
]


@app.command()
def audit(
    config: Config = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented audit.toml (or CONFIG) and stop.")
    ] = False,
    train: Train = None,
    label: Label = None,
    favourable: Favourable = None,
    id: Id = None,
    subject: Subject = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    text: Text = None,
    drop: Drop = None,
    erased: Erased = None,
    model: Model = None,
    param: Parameter = None,
    model_file: ModelFile = None,
    allow_pickle: AllowPickle = None,
    trust: Trust = None,
    people: People = None,
    holdout: Holdout = None,
    recourses: Recourses = None,
    as_of: AsOf = None,
    method: Method = None,
    overshoot: Overshoot = None,
    cost: Cost = None,
    target: Target = None,
    target_probability: TargetProbability = None,
    actionability: ActionabilityFile = None,
    max_deletions: Annotated[
        int | None, _option("--max-deletions", panel=_WORK, help="Most erasures looked at; 14.")
    ] = None,
    search: Annotated[
        Searcher | None, _option("--search", panel=_WORK, help="How to look for them; best.")
    ] = None,
    unit: Annotated[
        Literal["row", "subject"] | None,
        _option(
            "--unit",
            panel=_WORK,
            help="What an erasure removes; by default what --subject names, else a row.",
        ),
    ] = None,
    certify: Annotated[
        bool | None,
        _option("--certify/--no-certify", panel=_WORK, help="Prove what survives; yes."),
    ] = None,
    time_limit: Annotated[
        float | None, _option("--time-limit", panel=_WORK, help="Seconds for proofs; 60.")
    ] = None,
    draws: Annotated[
        int | None, _option("--draws", panel=_WORK, help="Random erasures drawn; 20.")
    ] = None,
    rate: Annotated[
        str | None, _option("--rate", panel=_WORK, help="Expected erasures, as in 40/week.")
    ] = None,
    horizon: Annotated[
        str | None, _option("--horizon", panel=_WORK, help="For how long, as in 26w.")
    ] = None,
    cohort: Annotated[
        str | None, _option("--cohort", panel=_WORK, help="Column whose groups go one at a time.")
    ] = None,
    survive: Survive = None,
    mitigation: Mitigations = None,
    seed: Seed = None,
    jobs: Jobs = None,
    html: Html = None,
    json: Json = None,
    json_file: JsonFile = None,
    csv: Annotated[
        Path | None, _option("--csv", panel=_OUTPUT, help="The report's tables, into a folder.")
    ] = None,
    case_file: CaseFile = None,
    fail_above: Annotated[
        str | None,
        _option(
            "--fail-above",
            panel=_OUTPUT,
            help="0.2@3: exit 1 if 3 erasures break more than 20 %, confirmed by refitting.",
        ),
    ] = None,
    fail_unproven: Annotated[
        str | None,
        _option(
            "--fail-unproven",
            panel=_OUTPUT,
            help="0.2@3: exit 1 unless it is proven that no 3 erasures break more than 20 %.",
        ),
    ] = None,
    quiet: Quiet = None,
) -> None:
    """How many promised recourses could a few erasures break?

    Examples:

    - `holdfast audit --train loans.csv --label repaid --favourable 1 --model logistic
      --html report.html`

    - `holdfast audit --train loans.csv --label repaid --id customer --model-file model.skops
      --recourses issued.csv --rate 40/week --horizon 26w --case-file case.html`

    - `holdfast audit --init`, then `holdfast audit audit.toml`
    """
    options = dict(locals())
    from holdfast.cli.commands import run_audit, write_template

    if options.pop("init"):
        write_template(options["config"])
        return
    raise typer.Exit(run_audit(_told(options), config))


@app.command()
def impact(
    config: Config = None,
    erase: Annotated[
        list[str] | None,
        _option("--erase", panel=_WORK, help="An id, or a file of ids. Repeatable."),
    ] = None,
    train: Train = None,
    label: Label = None,
    favourable: Favourable = None,
    id: Id = None,
    subject: Subject = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    text: Text = None,
    drop: Drop = None,
    erased: Erased = None,
    model: Model = None,
    param: Parameter = None,
    model_file: ModelFile = None,
    allow_pickle: AllowPickle = None,
    trust: Trust = None,
    people: People = None,
    holdout: Holdout = None,
    recourses: Recourses = None,
    as_of: AsOf = None,
    method: Method = None,
    overshoot: Overshoot = None,
    cost: Cost = None,
    target: Target = None,
    target_probability: TargetProbability = None,
    actionability: ActionabilityFile = None,
    from_scratch: Annotated[
        bool | None,
        _option("--from-scratch", panel=_WORK, help="Refit networks from new random weights."),
    ] = None,
    seed: Seed = None,
    emit: Annotated[
        Path | None, _option("--emit", panel=_OUTPUT, help="The table without the erased rows.")
    ] = None,
    save_model: Annotated[
        Path | None, _option("--save-model", panel=_OUTPUT, help="The refitted model, as .skops.")
    ] = None,
    json: Json = None,
    json_file: JsonFile = None,
    case_file: CaseFile = None,
    quiet: Quiet = None,
) -> None:
    """These people ask to be erased: whose recourse breaks, and what to tell them now?

    Examples:

    - `holdfast impact audit.toml --erase C-1017 --erase C-2044`

    - `holdfast impact audit.toml --erase requests.txt --emit remaining.csv
      --save-model updated.skops`
    """
    options = dict(locals())
    from holdfast.cli.erasing import run_impact

    raise typer.Exit(run_impact(_told(options), config))


@app.command()
def recourse(
    config: Config = None,
    train: Train = None,
    label: Label = None,
    favourable: Favourable = None,
    id: Id = None,
    subject: Subject = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    text: Text = None,
    drop: Drop = None,
    erased: Erased = None,
    model: Model = None,
    param: Parameter = None,
    model_file: ModelFile = None,
    allow_pickle: AllowPickle = None,
    trust: Trust = None,
    people: People = None,
    holdout: Holdout = None,
    method: Method = None,
    overshoot: Overshoot = None,
    cost: Cost = None,
    target: Target = None,
    target_probability: TargetProbability = None,
    actionability: ActionabilityFile = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, _option("--out", panel=_OUTPUT, help="PERSONAL DATA: a CSV file, mode 0600.")
    ] = None,
    quiet: Quiet = None,
) -> None:
    """What should people below the target do?

    Example:

    - `holdfast recourse --train loans.csv --label repaid --id customer --model logistic
      --people declined.csv --out issued.csv`
    """
    options = dict(locals())
    from holdfast.cli.commands import run_recourse

    raise typer.Exit(run_recourse(_told(options), config))


@app.command()
def harden(
    config: Config = None,
    survive: Survive = None,
    mitigation: Mitigations = None,
    train: Train = None,
    label: Label = None,
    favourable: Favourable = None,
    id: Id = None,
    subject: Subject = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    text: Text = None,
    drop: Drop = None,
    erased: Erased = None,
    model: Model = None,
    param: Parameter = None,
    model_file: ModelFile = None,
    allow_pickle: AllowPickle = None,
    trust: Trust = None,
    people: People = None,
    holdout: Holdout = None,
    method: Method = None,
    overshoot: Overshoot = None,
    cost: Cost = None,
    target: Target = None,
    target_probability: TargetProbability = None,
    actionability: ActionabilityFile = None,
    seed: Seed = None,
    jobs: Jobs = None,
    html: Html = None,
    json: Json = None,
    json_file: JsonFile = None,
    out: Annotated[
        Path | None,
        _option("--out", panel=_OUTPUT, help="PERSONAL DATA: the proven recourses, a CSV file."),
    ] = None,
    quiet: Quiet = None,
) -> None:
    """What would make recourses survive erasures, and what would it cost?

    Examples:

    - `holdfast harden audit.toml --survive 3`

    - `holdfast harden audit.toml --survive 3 --mitigation margin --out hardened.csv`
    """
    options = dict(locals())
    from holdfast.cli.commands import run_harden

    raise typer.Exit(run_harden(_told(options), config))


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


def _told(options: dict[str, Any]) -> dict[str, Any]:
    """The options as settings."""
    options = {name: value for name, value in options.items() if name != "config"}
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
    """Run a command; end with its exit code, and never with a traceback for bad input."""
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, _interrupted)
    _keep_libraries_quiet()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _keep_libraries_quiet() -> None:
    """What compiled libraries print on stdout goes nowhere; what we print still arrives."""
    try:
        ours = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding or "utf-8")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.stdout = ours
    except (OSError, ValueError):  # no stdout at all
        return


def _interrupted(number: int, frame: Any) -> None:
    """Ctrl-C ends at once, whatever library is at work: an exception there may be swallowed."""
    files = sys.modules.get("holdfast.files")
    if files is not None:
        files.remove_unfinished()
    _say("interrupted: nothing was written")
    sys.stderr.flush()
    os._exit(130)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what users must know is said in words
            code = app(_arguments(arguments), prog_name="holdfast", standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        return int(code) if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted: nothing was written")
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        _say("not enough memory: use fewer rows or people, or a larger machine")
        return 2
    except Exception as failure:
        from holdfast.errors import HoldfastError

        if isinstance(failure, HoldfastError):
            _say(str(failure))
        elif hasattr(failure, "show"):  # typer's complaints about usage
            failure.show()
        else:
            raise
        return 2


def _say(message: str) -> None:
    print(f"holdfast: {message}", file=sys.stderr)

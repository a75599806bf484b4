"""Options that several commands share: the same words, help and panels everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cases.kinds import Finder, Kind, Searcher

DATA, MODEL, PROMISES = "The table", "The model", "People and promises"
WORK, OUTPUT = "The work", "Output"


def option(*names: str, panel: str, help: str, **more: Any) -> Any:
    """An option in one of the panels of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


Config = Annotated[
    Path | None,
    typer.Argument(help="Settings as a TOML file; options win over its keys.", show_default=False),
]
Train = Annotated[
    Path | None,
    option(
        "--train",
        panel=DATA,
        help="Training table: CSV or Parquet; a folder or 'loans/*.parquet' is read by blocks.",
    ),
]
Engine = Annotated[
    Literal["threads", "dask"] | None,
    option("--engine", panel=DATA, help="Read by blocks, worked on by threads, or by Dask."),
]
Scheduler = Annotated[
    str | None, option("--scheduler", panel=DATA, help="Address of a Dask scheduler, tls://…")
]
BlocksAbove = Annotated[
    float | None,
    option("--blocks-above", panel=DATA, help="Megabytes from which a file is read by blocks."),
]
Hold = Annotated[
    Path | None,
    option(
        "--hold",
        panel=DATA,
        help="PERSONAL DATA: sums kept beside a model by blocks; read if there, else written.",
    ),
]
Label = Annotated[str | None, option("--label", panel=DATA, help="Its label column.")]
Favourable = Annotated[
    str | None,
    option("--favourable", panel=DATA, help="The good outcome; for numbers 'high' or 'low'."),
]
Id = Annotated[str | None, option("--id", panel=DATA, help="Column that names rows.")]
Subject = Annotated[str | None, option("--subject", panel=DATA, help="Column that names people.")]
Delimiter = Annotated[
    str | None, option("--delimiter", panel=DATA, help="Of CSV files; a comma by default.")
]
Decimal = Annotated[
    Literal[".", ","] | None,
    option("--decimal", panel=DATA, help="Before fractions in CSV files; a point by default."),
]
Text = Annotated[
    list[str] | None, option("--text", panel=DATA, help="Column to read as text. Repeatable.")
]
Drop = Annotated[
    list[str] | None, option("--drop", panel=DATA, help="Column that is no feature. Repeatable.")
]
Erased = Annotated[
    Path | None, option("--erased", panel=DATA, help="Ids whose erasure was honoured already.")
]
Model = Annotated[
    Kind | None,
    option(
        "--model",
        panel=MODEL,
        help="Fit a model of this kind; text becomes one-hot, numbers are scaled, gaps filled.",
    ),
]
Parameter = Annotated[
    list[str] | None,
    option("--param", panel=MODEL, help="Parameter of the model, as NAME=VALUE. Repeatable."),
]
Shards = Annotated[
    int | None,
    option(
        "--shards",
        panel=MODEL,
        min=1,
        help="Average so many such models, each fitted on its own people: provable for any kind.",
    ),
]
ModelFile = Annotated[
    Path | None,
    option(
        "--model-file",
        panel=MODEL,
        help="Or a fitted model: .skops, or a boosting library's .txt, .json, .ubj, .cbm.",
    ),
]
AllowPickle = Annotated[
    bool | None,
    option(
        "--allow-pickle",
        panel=MODEL,
        help="Load pickle and joblib files too. They run whatever code they hold.",
    ),
]
Trust = Annotated[
    list[str] | None,
    option(
        "--trust",
        panel=MODEL,
        help="A type of your own in a .skops file: its code may run. Repeatable.",
    ),
]
Update = Annotated[
    Literal["refit", "leaves", "bins"] | None,
    option(
        "--update",
        panel=MODEL,
        help="How erasing changes a boosting model: refit; or leaves, bins, which keep something.",
    ),
]
People = Annotated[
    Path | None,
    option(
        "--people", panel=PROMISES, help="Who needs recourse; else a held-out part, or the rows."
    ),
]
Holdout = Annotated[
    float | None, option("--holdout", panel=PROMISES, help="How large that part is; 0.2.")
]
Recourses = Annotated[
    Path | None,
    option(
        "--recourses",
        panel=PROMISES,
        help="Promises made already, by id; may have the columns issued, expires, model.",
    ),
]
AsOf = Annotated[
    str | None, option("--as-of", panel=PROMISES, help="Day promises must be alive on; today.")
]
Method = Annotated[Finder | None, option("--method", panel=PROMISES, help="Or how to make them.")]
Overshoot = Annotated[
    float | None,
    option(
        "--overshoot", panel=PROMISES, help="Beyond the target, in deviations of the score; 0.01."
    ),
]
Cost = Annotated[
    Literal["l1", "l2"] | None, option("--cost", panel=PROMISES, help="How changes add up.")
]
Target = Annotated[
    float | None,
    option("--target", panel=PROMISES, help="Score to reach; median label or even odds."),
]
TargetProbability = Annotated[
    float | None,
    option("--target-probability", panel=PROMISES, help="The same as a probability."),
]
TargetRule = Annotated[
    str | None,
    option(
        "--target-rule",
        panel=PROMISES,
        help="Whether the target stays (fixed), or is a quantile of the training rows' scores "
        "(quantile) or labels (label-quantile) and moves with every refit.",
    ),
]
ActionabilityFile = Annotated[
    str | None,
    option(
        "--actionability",
        panel=PROMISES,
        help="What people can change: a TOML file, 'infer' (default) or 'none'.",
    ),
]
LabelsFile = Annotated[
    Path | None,
    option(
        "--labels", panel=PROMISES, help="Your words for columns, units and codes: a TOML file."
    ),
]
Ways = Annotated[
    int | None,
    option(
        "--ways",
        panel=PROMISES,
        help="Ways for everybody, up to 3: cheapest, fewest changes, different features.",
    ),
]
MaxChanged = Annotated[
    int | None,
    option("--max-changed", panel=PROMISES, help="How many things may change at once."),
]
Survive = Annotated[
    int | None,
    option("--survive", panel=WORK, help="What makes recourse survive so many erasures?"),
]
Mitigations = Annotated[
    list[str] | None,
    option("--mitigation", panel=WORK, help="One way to measure; all by default. Repeatable."),
]
Seed = Annotated[int | None, option("--seed", panel=WORK, help="For everything random; 0.")]
Jobs = Annotated[
    int | None, option("--jobs", panel=WORK, help="Refits at a time; -1: one per core.")
]
Html = Annotated[
    Path | None, option("--html", panel=OUTPUT, help="The report: aggregates, can be shared.")
]
Json = Annotated[
    bool | None,
    option("--json", panel=OUTPUT, help="One JSON document on stdout, nothing else there."),
]
JsonFile = Annotated[Path | None, option("--json-file", panel=OUTPUT, help="The same into a file.")]
CaseFile = Annotated[
    Path | None,
    option(
        "--case-file",
        panel=OUTPUT,
        help="PERSONAL DATA: an .html page, or a folder of CSV files, for their owner only.",
    ),
]
Quiet = Annotated[
    bool | None, option("--quiet", "-q", panel=OUTPUT, help="No progress, no remarks.")
]


#: the files
TABLE = {
    "train": Train,
    "label": Label,
    "favourable": Favourable,
    "id": Id,
    "subject": Subject,
    "delimiter": Delimiter,
    "decimal": Decimal,
    "text": Text,
    "drop": Drop,
    "erased": Erased,
    "engine": Engine,
    "scheduler": Scheduler,
    "blocks_above": BlocksAbove,
    "hold": Hold,
}
#: the model
MODELS = {
    "model": Model,
    "param": Parameter,
    "shards": Shards,
    "model_file": ModelFile,
    "allow_pickle": AllowPickle,
    "trust": Trust,
    "update": Update,
}
#: who needs recourse, and how it is found
PEOPLE = {
    "people": People,
    "holdout": Holdout,
    "method": Method,
    "overshoot": Overshoot,
    "cost": Cost,
    "target": Target,
    "target_probability": TargetProbability,
    "actionability": ActionabilityFile,
    "labels": LabelsFile,
    "max_changed": MaxChanged,
}
#: promises made before
PROMISED = {
    "target_rule": TargetRule,
    "recourses": Recourses,
    "as_of": AsOf,
}
#: what only ``audit`` is told
AUDIT = {
    "max_deletions": Annotated[
        int | None, option("--max-deletions", panel=WORK, help="Most erasures looked at; 14.")
    ],
    "search": Annotated[
        Searcher | None, option("--search", panel=WORK, help="How to look for them; best.")
    ],
    "max_refits": Annotated[
        int | None,
        option(
            "--max-refits",
            panel=WORK,
            help="For models known by refitting only: refits the search may make.",
        ),
    ],
    "unit": Annotated[
        Literal["row", "subject"] | None,
        option(
            "--unit",
            panel=WORK,
            help="What an erasure removes; by default what --subject names, else a row.",
        ),
    ],
    "certify": Annotated[
        bool | None,
        option("--certify/--no-certify", panel=WORK, help="Prove what survives; yes."),
    ],
    "time_limit": Annotated[
        float | None,
        option("--time-limit", panel=WORK, help="Seconds for all of it."),
    ],
    "quick": Annotated[
        bool | None, option("--quick", panel=WORK, help="A first answer, nothing proven.")
    ],
    "draws": Annotated[
        int | None, option("--draws", panel=WORK, help="Random erasures drawn; 20.")
    ],
    "rate": Annotated[
        str | None, option("--rate", panel=WORK, help="Expected erasures, as in 40/week.")
    ],
    "horizon": Annotated[
        str | None, option("--horizon", panel=WORK, help="For how long, as in 26w.")
    ],
    "cohort": Annotated[
        str | None, option("--cohort", panel=WORK, help="Column whose groups go one at a time.")
    ],
    "group": Annotated[
        str | None,
        option("--group", panel=WORK, help="Column of the people: whose promises break more?"),
    ],
    "survive": Survive,
    "mitigation": Mitigations,
    "seed": Seed,
    "jobs": Jobs,
    "html": Html,
    "json": Json,
    "json_file": JsonFile,
    "csv": Annotated[
        Path | None, option("--csv", panel=OUTPUT, help="The report's tables, into a folder.")
    ],
    "case_file": CaseFile,
    "fail_above": Annotated[
        str | None,
        option(
            "--fail-above",
            panel=OUTPUT,
            help="0.2@3: exit 1 if 3 erasures break more than 20 %, confirmed by refitting.",
        ),
    ],
    "fail_unproven": Annotated[
        str | None,
        option(
            "--fail-unproven",
            panel=OUTPUT,
            help="0.2@3: exit 1 unless it is proven that no 3 erasures break more than 20 %.",
        ),
    ],
    "quiet": Quiet,
}
#: what only ``impact`` is told
IMPACT = {
    "erase": Annotated[
        list[str] | None,
        option("--erase", panel=WORK, help="An id, or a file of ids. Repeatable."),
    ],
    "erase_id": Annotated[
        list[str] | None,
        option("--erase-id", panel=WORK, help="An id, even where a file has its name. Repeatable."),
    ],
    "erase_file": Annotated[
        list[str] | None, option("--erase-file", panel=WORK, help="A file of ids. Repeatable.")
    ],
    "from_scratch": Annotated[
        bool | None,
        option("--from-scratch", panel=WORK, help="Refit networks from new random weights."),
    ],
    "confirm": Annotated[
        bool | None,
        option("--confirm", panel=WORK, help="With --hold: read the files again to confirm."),
    ],
    "seed": Seed,
    "emit": Annotated[
        Path | None, option("--emit", panel=OUTPUT, help="The table without the erased rows.")
    ],
    "save_model": Annotated[
        Path | None, option("--save-model", panel=OUTPUT, help="The refitted model, as .skops.")
    ],
    "json": Json,
    "json_file": JsonFile,
    "case_file": CaseFile,
    "quiet": Quiet,
}
#: what only ``harden`` is told
HARDEN = {
    "survive": Survive,
    "mitigation": Mitigations,
    "seed": Seed,
    "jobs": Jobs,
    "html": Html,
    "json": Json,
    "json_file": JsonFile,
    "out": Annotated[
        Path | None,
        option("--out", panel=OUTPUT, help="PERSONAL DATA: the proven recourses, a CSV file."),
    ],
    "quiet": Quiet,
}
#: what only ``recourse`` is told
RECOURSE = {
    "ways": Ways,
    "seed": Seed,
    "out": Annotated[
        Path | None, option("--out", panel=OUTPUT, help="PERSONAL DATA: a CSV file, mode 0600.")
    ],
    "quiet": Quiet,
}


def taking(*groups: dict[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes ``**options`` the options of these groups."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        mine = [p for p in own if p.kind is not p.VAR_KEYWORD]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for group in groups
            for name, kind in group.items()
        ]
        command.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]
        return command

    return decorated

"""What a command is asked to do: from options, from a TOML file, or both."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from holdfast.arguments import near_name
from holdfast.cases.kinds import Kind
from holdfast.errors import HoldfastError
from holdfast.tables import read_toml

#: keys that name files; in a TOML file they are relative to it
PATHS = (
    *("train", "model_file", "people", "recourses", "erased", "actionability", "labels"),
    *("html", "json_file", "csv", "case_file", "emit", "save_model", "out", "erase_file", "hold"),
    "erase_folder",
)

#: keys that let a model file run code: only whoever types the command may say so
COMMAND_LINE_ONLY = ("allow_pickle", "trust")

#: words that may stand where a path may
WORDS = {"actionability": ("infer", "none")}


class Settings(BaseModel):
    """Everything a command can be told; the same words as its options."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    train: Path
    label: str
    favourable: str | None = None
    id: str | None = None
    subject: str | None = None
    delimiter: str = ","
    decimal: Literal[".", ","] = "."
    text: list[str] = Field(default_factory=list)
    drop: list[str] = Field(default_factory=list)
    engine: Literal["threads", "dask"] | None = None
    scheduler: str | None = None
    blocks_above: float = Field(1000.0, ge=0, allow_inf_nan=False)
    hold: Path | None = None
    confirm: bool = False

    model: Kind | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    shards: int | None = Field(None, ge=1)
    model_file: Path | None = None
    allow_pickle: bool = False
    trust: list[str] = Field(default_factory=list)
    update: Literal["refit", "leaves", "bins"] = "refit"

    people: Path | None = None
    holdout: float = Field(0.2, gt=0, lt=1)
    recourses: Path | None = None
    as_of: datetime.date | None = None
    method: str | None = None
    overshoot: float = Field(0.01, ge=0, allow_inf_nan=False)
    cost: Literal["l1", "l2"] = "l1"
    target: float | None = Field(None, allow_inf_nan=False)
    target_probability: float | None = Field(None, gt=0, lt=1)
    target_rule: Literal["fixed", "quantile", "label-quantile"] = "fixed"
    actionability: str = "infer"
    labels: Path | None = None
    ways: int = Field(1, ge=1, le=3)
    max_changed: int | None = Field(None, ge=1)
    erased: Path | None = None

    max_deletions: int = Field(14, ge=1)
    search: str = "best"
    max_refits: int | None = Field(None, ge=1)
    unit: Literal["row", "subject"] | None = None
    certify: bool = True
    time_limit: float | None = Field(None, ge=0, allow_inf_nan=False)
    quick: bool = False
    draws: int = Field(20, ge=2)
    seed: int = Field(0, ge=0)
    jobs: int = 1
    rate: str | None = None
    horizon: str | None = None
    cohort: str | None = None
    group: str | None = None

    html: Path | None = None
    json_: bool = Field(False, alias="json")
    json_file: Path | None = None
    csv: Path | None = None
    case_file: Path | None = None
    fail_above: str | None = None
    fail_unproven: str | None = None

    survive: int | None = Field(None, ge=1)
    mitigation: list[str] = Field(default_factory=list)
    erase: list[str] = Field(default_factory=list)
    erase_id: list[str] = Field(default_factory=list)
    erase_file: list[str] = Field(default_factory=list)
    #: where words of ``erase`` are looked for as files
    erase_folder: Path = Path()
    emit: Path | None = None
    save_model: Path | None = None
    from_scratch: bool = False
    out: Path | None = None
    quiet: bool = False

    @field_validator("favourable", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else str(value)

    @field_validator(
        *("text", "drop", "trust", "erase", "erase_id", "erase_file", "mitigation"), mode="before"
    )
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        some = [value] if isinstance(value, str | int) else value
        return [str(v) for v in some] if isinstance(some, list | tuple) else some

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or value in '"\r\n':
            raise ValueError("must be one character")
        return value

    @field_validator("jobs")
    @classmethod
    def _some_jobs(cls, value: int) -> int:
        if value == 0 or not -1 <= value <= 1000:
            raise ValueError("must be a number of refits at a time, or -1 for one per core")
        return value


def made(options: dict[str, Any], config: Path | None) -> Settings:
    """Settings from options over those of a TOML file; errors name the key and what is wanted."""
    told = {name: value for name, value in options.items() if value not in (None, [], ())}
    if config is not None:
        read = _read(config)
        for one, other in (("model", "model_file"), ("model_file", "model")):
            if one in told:  # an option wins, also over the other way of saying it
                read.pop(other, None)
                if one == "model_file":
                    read.pop("parameters", None)
                    read.pop("shards", None)
        for one, other in (
            ("target", "target_probability"),
            ("target_probability", "target"),
            ("method", "recourses"),
            ("recourses", "method"),
        ):
            if one in told:
                read.pop(other, None)
        if "erase" in told:  # words of the command line are looked for where it was typed
            read.pop("erase_folder", None)
        told = {**read, **told}
    _refuse_unknown(told, config)
    for name in ("train", "label"):
        if name not in told:
            raise HoldfastError(f"{_option(name)} is missing{_where(config)}")
    try:
        return Settings(**told)
    except ValidationError as wrong:
        raise HoldfastError(_first(wrong, config)) from None


def _option(name: str) -> str:
    return f"⟦{name}⟧"


def _where(config: Path | None) -> str:
    return "" if config is None else f" (neither an option nor a key of {str(config)!r})"


def _read(config: Path) -> dict[str, Any]:
    told = read_toml(config, "the settings file")
    told = {name.replace("-", "_"): value for name, value in told.items()}
    for name in COMMAND_LINE_ONLY:
        if told.pop(name, None):
            raise HoldfastError(
                f"{str(config)!r} has the key {name!r}, which lets a model file run code: say so "
                f"with {_option(name)} on the command line, or leave it out"
            )
    if isinstance(told.get("json"), str):
        told["json_file"] = told.pop("json")
    if "erase" in told:
        told.setdefault("erase_folder", "")
    for name in PATHS:
        value = told.get(name)
        if isinstance(value, list):
            told[name] = [str(config.parent / v) if isinstance(v, str) else v for v in value]
        elif isinstance(value, str) and value not in WORDS.get(name, ()):
            told[name] = str(config.parent / value)
    return told


def _refuse_unknown(told: dict[str, Any], config: Path | None) -> None:
    known = [name.rstrip("_") for name in Settings.model_fields]
    for name in told:
        if name not in known:
            place = "" if config is None else f" in {str(config)!r}"
            hint = near_name(name, known) or f". Known keys: {', '.join(known)}"
            raise HoldfastError(f"unknown key {name!r}{place}{hint}")


def _first(wrong: ValidationError, config: Path | None) -> str:
    error = wrong.errors()[0]
    name = str(error["loc"][0]) if error["loc"] else "settings"
    said = re.sub(r"^(Value error, |Input should be )", "must be ", error["msg"])
    said = said.replace("must be must be", "must be")
    got = "" if name.startswith("erase") else f", got {str(error['input'])[:60]!r}"
    place = "" if config is None else f" (or the key {name!r} in {str(config)!r})"
    return f"{_option(name)}{place}: {said}{got}"


def threshold(text: str | None, name: str, most: int) -> tuple[float, int] | None:
    """``"0.2@3"`` as a share and a number of deletions."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(0|1|0?\.\d+|[01]\.\d*)\s*@\s*(\d{1,9})\s*", text)
    if found is None or not 0 <= float(found[1]) <= 1:
        raise HoldfastError(
            f"{_option(name)} must be a share and a number of deletions like 0.2@3, got {text!r}"
        )
    k = int(found[2])
    if not 1 <= k <= most:
        raise HoldfastError(
            f"{_option(name)} {text}: the audit looks at 1 to {most} deletions; raise "
            "⟦max_deletions⟧"
        )
    return float(found[1]), k


TEMPLATE = """\
# Settings of an audit: holdfast audit THIS-FILE
# Relative paths are relative to this file. Options on the command line win over keys here.

train = "train.csv"          # the table the model was fitted on: CSV or Parquet; a folder or a
                             # pattern like "loans/*.parquet" is read by blocks
# blocks_above = 1000        # megabytes from which one file is, too
# engine = "threads"         # where blocks are worked on: threads, or dask
# scheduler = "tls://…"      # of a Dask cluster
# hold = "loans.hold"        # PERSONAL DATA: sums kept beside the model; impact needs no pass
label = "outcome"            # its label column
favourable = "1"             # the good outcome; for numbers "high" or "low"
# id = "id"                  # a column that names rows; left out of the features
# subject = "customer"       # a column that names people, who may own several rows
# drop = ["notes"]           # columns that are no features
# text = ["postcode"]        # columns to be read as text though they look like numbers
# delimiter = ","
# decimal = "."              # or "," as in 3,5

model = "logistic"           # fit it: linear, ridge, logistic, ntk, lssvm, mlp, boosting
# parameters = { C = 1.0 }   # of the model
# shards = 100               # one such model for every shard of the people, averaged: k erasures
                             # touch k shards at most, a certificate for any kind
# model_file = "model.skops" # or a fitted model (instead of model)
                             # (pickles, and types of your own: --allow-pickle, --trust NAME)
                             # or what a boosting library saves: .txt, .json, .ubj, .cbm
# update = "leaves"          # of boosting models; what it keeps is said beside every number

# people = "people.csv"      # who needs recourse; else a held-out part of the table
# holdout = 0.2              # how large that part is
# recourses = "issued.csv"   # promises made already, by id; may have issued, expires, model
# as_of = 2026-01-31         # the day promises must be alive on; today if left out
# method = "scfe"            # or make them: scfe, dice, cem, growing-spheres, actionable ...
# overshoot = 0.01           # how far beyond the target, in deviations of the scores
# cost = "l1"
# target = 0.0               # a score; else the median label, or even odds
# target_probability = 0.5   # instead of target
# target_rule = "quantile"   # it is one of the scores (or "label-quantile"), and moves with refits
# actionability = "infer"    # what people can change: a TOML file, "infer" or "none"
# labels = "labels.toml"     # your words for columns, units and codes
# max_changed = 3            # how many things may change at once
# ways = 3                   # ways for everybody: cheapest, fewest changes, different features
# erased = "erased.txt"      # ids whose erasure was honoured already

max_deletions = 14
# search = "best"
# max_refits = 200           # for models known by refitting only: what the search may spend
# unit = "subject"           # what one erasure removes: row or subject
# certify = true
# time_limit = 600           # seconds for all of it
# quick = false              # a first answer within seconds: nothing proven
# draws = 20                 # random erasures drawn
# seed = 0
# jobs = 1                   # refits at a time; -1: one per core

# survive = 3                # also: what would make recourses survive so many erasures?
# mitigation = ["margin"]    # some of the ways; all if left out

# rate = "40/week"           # how many erasures are expected ...
# horizon = "26w"            # ... and for how long
# cohort = "region"          # a column whose groups are erased one at a time
# group = "region"           # a column of the people: whose promises break?

html = "report.html"         # aggregates only: can be shared
# json_file = "audit.json"   # the same for machines
# csv = "tables"             # the same as CSV files in a folder
# case_file = "case.html"    # PERSONAL DATA: who is critical, every recourse by id
# fail_above = "0.2@3"       # exit 1 if 3 deletions break more than 20 %, confirmed by refitting
# fail_unproven = "0.2@3"    # exit 1 unless 20 % is proven to be the most 3 deletions break
"""

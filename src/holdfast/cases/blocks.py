"""A case whose training table is read by blocks: files that need not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.algebra.rows import as_text
from holdfast.audits.about import About
from holdfast.cases.files import Table, ids_in, people_table
from holdfast.cases.fitting import described
from holdfast.cases.promises import declared_rules, promised
from holdfast.cases.remarks import Remarks
from holdfast.cases.scanning import BY_BLOCKS, fit, index_of
from holdfast.cases.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.models.hold import held
from holdfast.models.ids import IdIndex
from holdfast.models.refits import Progress
from holdfast.models.scanned import ScannedModel
from holdfast.recourse import target_of
from holdfast.recourse.inference import near
from holdfast.scale.engines import engine_of
from holdfast.scale.scan import Scan, is_table, scan

#: rows held out for recourse where nobody is named, at most
HELD_OUT = 5_000


def reads_by_blocks(settings: Settings) -> bool:
    """Whether the table is read by blocks: several files, a large one, or because it is asked."""
    asked = settings.engine is not None or settings.scheduler is not None
    several = any(mark in str(settings.train) for mark in "*?[") or Path(settings.train).is_dir()
    if settings.hold is not None or asked or (several and not Path(settings.train).is_file()):
        _refuse_other_models(settings)
        return True
    file = Path(settings.train)
    if settings.model not in BY_BLOCKS or not file.is_file() or not is_table(file):
        return False
    return file.stat().st_size > settings.blocks_above * 1e6


def _refuse_other_models(settings: Settings) -> None:
    if settings.model_file is not None:
        raise HoldfastError(
            "a table read by blocks is for a model that is fitted here: name its kind with ⟦model⟧ "
            f"({', '.join(BY_BLOCKS)}) instead of ⟦model_file⟧"
        )
    if settings.model is not None and settings.model not in BY_BLOCKS:
        raise HoldfastError(
            f"a {settings.model} model is not fitted by blocks: {', '.join(BY_BLOCKS)} are"
        )
    for name in ("cohort", "rate", "group"):
        if getattr(settings, name) is not None:
            raise HoldfastError(f"⟦{name}⟧ is for tables that fit into memory")
    if settings.target_rule != "fixed":
        raise HoldfastError("⟦target_rule⟧ must be fixed for a table that is read by blocks")


class Loaded:
    """A scanned table, the model fitted on it, and who is held out.

    Attributes
    ----------
    scan : Scan
    model : ScannedModel
    people, train : Table
        Who needs recourse; and a sample of the training rows.
    gone : rows whose erasure was honoured before
    """

    def __init__(
        self, settings: Settings, remarks: Remarks, tell: Progress, hold_out: bool
    ) -> None:
        self.settings, self.remarks = settings, remarks
        kept = settings.hold is not None and Path(settings.hold).exists()
        engine = engine_of(settings.engine, settings.scheduler)
        self.gone = np.zeros(0, dtype=np.intp)
        nobody = settings.people is None and settings.recourses is None
        if kept:
            self.model = held(settings.hold, engine)
            self.scan = self.model.recipe.scan
            self.gone = np.setdiff1d(self.model.recipe.gone, self.model.held_out)
            self._refuse_other_columns()
            remarks.add(f"The model and its sums are read from {Path(str(settings.hold)).name!r}.")
            if nobody:
                raise HoldfastError(
                    "a model that is read back has nobody held out: name people with ⟦people⟧, or "
                    "promises with ⟦recourses⟧"
                )
        else:
            self.scan = self._scanned(tell)
            index = index_of(self.scan, engine, tell) if self.scan.key is not None else None
            self.gone = self._erased_before(index)
            held_out = self._held_out() if nobody and hold_out else np.zeros(0, dtype=np.intp)
            tell("fitting the model", 0, 1)
            self.model = fit(
                str(settings.model),
                self.scan,
                engine,
                random_state=settings.seed,
                progress=tell,
                without=np.union1d(self.gone, held_out),
                index=index,
                **settings.parameters,
            )
            self.model.held_out = held_out
            tell("fitting the model", 1, 1)
        self.train = self._sample()
        self.people: Table = self.train
        if nobody and hold_out:
            frame = self._read(held_out)
            self.people = Table(frame, None, None, frame)
            remarks.add(
                f"{len(held_out):,} rows are held out (seed {settings.seed}); the model is fitted "
                f"on the other {self.model.many:,}, and those held out below the target get "
                "recourse."
            )
        elif settings.people is not None:
            found = people_table(settings, self.train)
            assert found is not None
            self.people = found
        elif settings.recourses is not None:
            self.people = self._those_with_promises()
        else:
            raise HoldfastError("name people with ⟦people⟧, or promises with ⟦recourses⟧")
        self._say_how()

    def _scanned(self, tell: Progress) -> Scan:
        settings = self.settings
        tell("reading the table", 0, 1)
        found = scan(
            str(settings.train),
            settings.label,
            settings.favourable,
            settings.id,
            settings.subject,
            drop=settings.drop,
            text=settings.text,
            delimiter=settings.delimiter,
            decimal=settings.decimal,
        )
        tell("reading the table", 1, 1)
        return found

    def _refuse_other_columns(self) -> None:
        settings, scan = self.settings, self.scan
        for name in ("label", "id", "subject"):
            if getattr(settings, name) != getattr(scan, name):
                raise HoldfastError(
                    f"⟦{name}⟧ is {getattr(settings, name)!r}, and {getattr(scan, name)!r} in "
                    f"{str(settings.hold)!r}: fit the model again"
                )

    def _erased_before(self, index: IdIndex | None) -> Any:
        settings = self.settings
        if settings.erased is None:
            return np.zeros(0, dtype=np.intp)
        if index is None:
            raise HoldfastError(
                "⟦erased⟧ names people by id: say which column with ⟦id⟧ or ⟦subject⟧"
            )
        ids = ids_in(settings.erased, settings)
        gone = index.known(ids)
        self.remarks.add(
            f"{len(ids):,} erasures were honoured before: {gone.size:,} rows still in the table "
            "are left out."
        )
        return gone

    def _held_out(self) -> Any:
        """Some rows at random that the model is not fitted on."""
        n = self.scan.rows
        many = min(HELD_OUT, int(self.settings.holdout * n))
        if many < 1 or n < 5:
            raise HoldfastError(f"{n} rows are too few to hold some out: name people with ⟦people⟧")
        rng = np.random.default_rng(self.settings.seed)
        chosen = np.sort(rng.choice(n, many, replace=False))
        return np.setdiff1d(chosen, self.gone)

    def _read(self, rows: Any) -> pd.DataFrame:
        """Rows of the files as a frame, named by id where there is one."""
        scan, frames = self.scan, []
        more = [] if scan.id is None else [scan.id]
        numbers = scan.part_of(rows)
        for number in np.unique(numbers).tolist():
            part = scan.parts[number]
            frames.append(scan.frame(part, rows[numbers == number] - part.first, more))
        frame = pd.concat(frames, ignore_index=True)
        index = pd.Index([f"row {row + 1}" for row in rows.tolist()])
        if scan.id is not None:
            index = pd.Index([as_text(v) for v in frame[scan.id]], name=scan.id)
        frame = frame[scan.features].set_axis(index, axis=0)
        return frame.astype({name: object for name in scan.texts})

    def _sample(self) -> Table:
        """A sample of the training rows, in place of all of them."""
        model = self.model
        return Table(model.X, None, None, model.X)

    def _those_with_promises(self) -> Table:
        """The training rows that promises were given to, looked up by id."""
        from holdfast.cases.files import read, unique_ids

        settings, index = self.settings, self.model.index
        assert settings.recourses is not None
        if settings.id is None or index is None or settings.subject is not None:
            raise HoldfastError("promises are read back by id: say which column with ⟦id⟧")
        issued = read(settings, settings.recourses, self.train.X)
        if settings.id not in issued.columns:
            raise HoldfastError(f"{str(settings.recourses)!r} has no column {settings.id!r}")
        rows = index.known(unique_ids(issued[settings.id], str(settings.recourses)))
        frame = self._read(np.sort(rows))
        return Table(frame, None, None, frame)

    def _say_how(self) -> None:
        scan, recipe = self.scan, self.model.recipe
        files = len({part.source for part in scan.parts})
        self.remarks.add(
            f"The table is read by blocks ({scan.rows:,} rows in {files} "
            f"{'file' if files == 1 else 'files'}, {len(scan.parts):,} row groups, engine "
            f"{self.model.engine.name}): it is never in memory whole. Rules, ranges and the units "
            f"of costs are inferred from a sample of {self.model.rows.own:,} rows.",
            shareable=True,
        )
        for name, many in recipe.rare.items():
            self.remarks.add(
                f"Column {name!r}: {many:,} rarer values have no column of their own (fewer than "
                "50 rows, or beyond the 200 commonest).",
                shareable=True,
            )


def case_by_blocks(
    settings: Settings,
    remarks: Remarks,
    about: About,
    tell: Progress,
    hold_out: bool,
    make: Callable[..., Any],
) -> Any:
    """The case of a table that is read by blocks; ``make`` puts it together."""
    rules = declared_rules(settings)
    found = Loaded(settings, remarks, tell, hold_out)
    model = found.model
    about.preprocessing = described(model.estimator)
    for line in about.preprocessing:
        remarks.add(f"Before the model: {line}.")
    asked = settings.target
    if asked is None and settings.target_probability is None and not model.problem.classes:
        asked = 0.5
        if not model.recipe.labels.good:
            asked = near(model.median_label, model.y.astype(float))
    target = target_of(model, asked, settings.target_probability)
    given = promised(
        settings,
        model,
        found.people,
        found.train,
        np.zeros(0, dtype=np.intp),
        target,
        rules,
        remarks,
        about,
        tell,
    )
    return make(
        table=model.X,
        subjects=None,
        names=[],
        training=np.arange(model.rows.own),
        model=model,
        people=found.people,
        train=found.train,
        gone=found.gone,
        labels=None,
        target=target,
        given=given,
        about=about,
    )


def honoured(model: ScannedModel, ids: list[str]) -> Any:
    """The rows of everybody who asks to be erased; strangers are refused."""
    try:
        return model.positions_of(ids)
    except HoldfastError as refusal:
        raise HoldfastError(f"{refusal.args[0]}: nothing was done") from None

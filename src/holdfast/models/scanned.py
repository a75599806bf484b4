r"""A linear model fitted on files that are read by blocks: a model like any other.

In memory are a list of rows (a fair sample, or those that matter to some promises) and the triangle
of all others (:mod:`holdfast.models.passes`). With ``φ`` the features and ``m`` where there were
gaps, another fill, centre or scale of a column is a linear map of the same rows,
:math:`φ' = [φ, m] B`: so the whole pipeline is refitted without some rows from these sums, and a
pass over the files confirms it.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from holdfast.algebra.rows import Array, Positions, TrainingRows, as_text
from holdfast.cards import card
from holdfast.errors import HoldfastError, SingularDeletionError
from holdfast.models.anchored import AnchoredLinear, AnchoredSmooth, Standing
from holdfast.models.by_sums import BySums, taken_off
from holdfast.models.core import Training
from holdfast.models.erasable import ErasableModel
from holdfast.models.ids import IdIndex
from holdfast.models.looking import Counting, Moments, median_of, medians
from holdfast.models.passes import Batch, Gathered, Gathering, Linearised, folded
from holdfast.models.posed import Posed
from holdfast.models.preprocessing import Preprocessing
from holdfast.models.readings import Reading
from holdfast.models.recipe import Blocks, Recipe, between, refilled
from holdfast.models.scanned_scales import ScannedScales
from holdfast.models.shortlist import Looked, Shortlist
from holdfast.scale.engines import Engine

Tell = Callable[[str, int, int], None]


def files_of(model: Any) -> list[str]:
    """The files a model was fitted on by blocks; none for one in memory."""
    if not isinstance(model, ScannedList):
        return []
    return sorted({part.source for part in model.recipe.scan.parts})


def silent(stage: str, done: int, total: int) -> None:
    """Nobody is told."""


class ScannedList(Shortlist):
    """Some rows of a table in files, and the sums of all others."""

    is_whole = False
    recipe: Recipe
    engine: Engine
    problem: Posed
    theta: Array
    found: Gathered
    table: pd.DataFrame

    def _made(self, names: Positions, sample: Positions, looked: Looked) -> None:
        """Everything a model has, from what was gathered."""
        recipe, found, problem = self.recipe, self.found, self.problem
        scan, width = recipe.scan, recipe.width
        self.looked, self.outside = looked, found.outside
        here = found.weights > 0  # others are there no more
        self.favourable = 1 if problem.classes else {1: "high", -1: "low"}[recipe.labels.sign]
        self.sign = recipe.labels.sign
        self.feature_names, self._takes_frames = scan.features, True
        index = pd.Index(names + 1)
        if scan.id is not None:
            index = pd.Index([as_text(v) for v in self.table[scan.id]], name=scan.id)
        self.X = self.table[scan.features].set_axis(index, axis=0)
        for name in scan.texts:
            self.X[name] = self.X[name].astype(object)
        self.y = (found.y if problem.classes else self.sign * found.y).astype(
            np.int64 if problem.classes else float
        )
        self._oriented, self.sample_weight = found.y, None
        self.cutoff, self.shift, self._scores_raw = None, 0.0, False
        self.estimator = Pipeline([*recipe.transformer().steps, ("estimator", self._fitted())])
        self.preprocessing = Preprocessing(self.estimator[:-1])
        subjects = None
        if scan.subject is not None:
            subjects = self.table[scan.subject].map(as_text).to_numpy(dtype=object)
        classes = found.y.astype(np.intp) if problem.classes else None
        fair = np.searchsorted(names, sample)
        rows = TrainingRows(len(names), subjects, classes, names=names, sample=fair)
        if not here.all():
            rows = rows.only(np.flatnonzero(here))
            self.X, self.y = self.X[here], self.y[here]
            self._oriented, self.table = self._oriented[here], self.table[here]
            self.found = found = replace(
                found,
                phi=found.phi[here],
                y=found.y[here],
                gaps=found.gaps[here],
                weights=found.weights[here],
            )
        Z = np.ascontiguousarray(found.phi[:, 1:])
        data = Training(Z, found.y, np.ones(len(Z)), rows, self.sign)
        standing = Standing.of(found.triangle, width, self._labels_outside(found))
        last = self.estimator[-1]
        if problem.squared:
            self.core = AnchoredLinear(last, data, standing, np.zeros(width - 1))
        else:
            averaged = recipe.rows if problem.average else 0
            smooth = AnchoredSmooth(Reading.of(last), data, standing, averaged)
            smooth.longest = found.longest
            self.core = smooth
        self.rows = self.core.rows

    def _labels_outside(self, found: Gathered) -> Array | None:
        """A class for every row that stands for others, one they have; ``None``: there are none."""
        many = self.recipe.rows - len(found.y)
        if many <= 0:
            return None
        good = round(found.labels)
        size = len(found.triangle)
        if 0 < good < many:
            return (np.arange(size) % 2).astype(np.float64)
        return np.full(size, float(good > 0))

    def _fitted(self) -> Any:
        """The estimator with the parameters of the fit."""
        made = copy.copy(self.problem.estimator)
        weights, constant = self.sign * self.theta[1:], self.sign * self.theta[0]
        made.n_features_in_ = len(weights)
        if self.problem.classes:
            made.classes_ = np.array([0, 1])
            made.coef_, made.intercept_ = weights[None], np.array([constant])
            made.n_iter_ = np.array([1], dtype=np.int32)
        else:
            made.coef_, made.intercept_ = weights, float(constant)
        return made

    # what is asked of any model ---------------------------------------------------------------

    @property
    def linearised(self) -> Linearised:
        """The loss where it is expanded."""
        problem = self.problem
        return Linearised() if problem.squared else Linearised(problem.loss, self.theta)

    @property
    def many(self) -> int:
        return self.recipe.rows

    @property
    def people(self) -> int:
        index = self.whole.index
        return 0 if index is None else index.count(self.recipe.gone)

    @property
    def scales(self) -> Any:
        if "_scales" not in self.__dict__:
            plain = self.recipe.gaps.size == 0
            self.__dict__["_scales"] = ScannedScales(self) if plain else None
        return self.__dict__["_scales"]

    @property
    def score_unit(self) -> float:
        return self.whole._unit

    @property
    def in_passes(self) -> Any:
        """Scores of points without each of some sets of the list."""
        return self._in_passes

    def _in_passes(
        self, points: Any, sets: Sequence[Positions], preprocessing: str, look: bool
    ) -> Array:
        """Scores (sets, q): from sums, or (``look``) with a pass over the files."""
        assert self.rows.names is not None
        names = [self.rows.names[rows] for rows in sets]
        return self.whole.scores_without(points, names, preprocessing == "refitted", look, self)

    def source(self, tell: Tell | None = None, carry: bool = False) -> Blocks:
        return self.whole.source(tell, carry)

    def listed(self, names: Positions, looked: Looked, tell: Tell | None = None) -> ScannedList:
        return self.whole.listed(names, looked, tell)

    def without(
        self,
        rows: Any = None,
        *,
        subjects: Any = None,
        refit_preprocessing: bool = True,
        start: str = "fitted",
    ) -> ErasableModel:
        """The whole model refitted without some rows of the list."""
        gone = self.rows.positions(rows, subjects)
        assert self.rows.names is not None
        names = self.rows.names[gone]
        return self.whole.without(
            names, refit_preprocessing=refit_preprocessing, start=start, beside=self
        )

    def __repr__(self) -> str:
        return f"<Shortlist of {self.rows.own:,} rows of {self.whole!r}>"


class ScannedModel(ScannedList):
    """What :func:`holdfast.fit` returns for a table in files.

    Positions of rows are those in the whole table. Ids are looked up in the files.
    """

    is_whole = True
    #: of the labels as numbers
    label_moments: Any = None
    #: rows that are in the files and were not fitted on, to be recourse's
    held_out: Positions = np.zeros(0, dtype=np.intp)

    def __init__(
        self,
        recipe: Recipe,
        engine: Engine,
        problem: Posed,
        theta: Array,
        names: Positions,
        found: Gathered,
        index: IdIndex | None = None,
        passes: int = 0,
    ):
        self.recipe, self.engine, self.problem, self.theta = recipe, engine, problem, theta
        self.found, self.index, self.passes = found, index, passes
        self.table = pd.concat(found.frames, ignore_index=True)
        self._made(names, names, Looked())

    @property
    def whole(self) -> ScannedModel:
        """It is the model of all rows."""
        return self

    def __repr__(self) -> str:
        return f"<ScannedModel {self.name}, n={self.many:,}, {self.algebra}>"

    def _repr_html_(self) -> str:
        facts = {
            "rows": f"{self.many:,}",
            "files": len({part.source for part in self.recipe.scan.parts}),
            "features": len(self.feature_names or []),
            "deletions": self.algebra,
            "passes over the files": self.passes,
        }
        return card(f"{self.name} that can forget", facts)

    @cached_property
    def _unit(self) -> float:
        """The standard deviation of all scores; of labels where those hardly vary."""
        count, first, second = self._scored
        spread = float(np.sqrt(max(second / count - (first / count) ** 2, 0.0)))
        largest = float(np.abs(self.scores(self.X)).max())
        if spread > 1e-9 * largest:
            return spread
        return float(np.std(self._oriented)) or 1.0

    @cached_property
    def _scored(self) -> Array:
        """How many rows there are, the sum of their scores, and of the squares."""
        if not self.problem.squared:
            return np.asarray(self.found.scored)
        gram = self.triangle[:, : self.recipe.width]
        gram = gram.T @ gram
        return np.array([self.many, gram[0] @ self.theta, self.theta @ gram @ self.theta])

    @cached_property
    def triangle(self) -> Array:
        """The triangle of all rows, those of the list included."""
        return folded([self.found.triangle, self.rows_of(self.found)])

    def rows_of(self, found: Gathered, some: Any = slice(None)) -> Array:
        """Gathered rows as rows of the triangle: ``[a, gaps, b]``."""
        batch = Batch(0, found.phi[some], found.y[some], None, found.gaps[some])
        root, b = self.linearised(batch)
        wide = np.hstack([batch.phi, batch.gaps]) * root[:, None]
        return np.column_stack([wide, b])

    @property
    def median_label(self) -> float:
        return self.sign * self.core.label_score(self._label_median)

    @cached_property
    def _label_median(self) -> float:
        scan = self.recipe.scan
        if self.problem.classes or self.recipe.labels.good:
            return float(np.median(self.y))
        left = replace(self.label_moments, count=np.array([float(self.many)]))
        found = medians(scan, [scan.label], left, self.recipe.gone, self.engine, silent)
        return median_of(*found[0], self.many)

    def as_list(self) -> ScannedList:
        """The sample as a list of rows, numbered as such."""
        made = ScannedList.__new__(ScannedList)
        made.__dict__.update(self.__dict__)
        made.whole = self
        return made

    def source(self, tell: Tell | None = None, carry: bool = False) -> Blocks:
        """All rows, for one pass or more."""
        made = _Counted(replace(self.recipe, carry=carry), self.engine, tell or silent)
        made.model = self
        return made

    def listed(self, names: Positions, looked: Looked, tell: Tell | None = None) -> ScannedList:
        """The same fit with some rows in memory, beside a fair sample: one pass."""
        mine = self.rows.names
        assert mine is not None
        sample = mine if self.rows.sample is None else mine[self.rows.sample]
        names = np.setdiff1d(np.union1d(names, sample), self.recipe.gone)
        if self.recipe.scan.subject is not None and self.index is not None:
            names = self._with_subjects(names)
        made = ScannedList.__new__(ScannedList)
        made.recipe, made.engine, made.problem = self.recipe, self.engine, self.problem
        made.theta, made.whole = self.theta, self
        core: Any = self.core
        work = Gathering(names, self.linearised, core.design.T, core.theta)
        made.found = work.over(self.source(tell, carry=True), "gathering rows")
        made.table = pd.concat(made.found.frames, ignore_index=True)
        made._made(names, sample, looked)
        return made

    def _with_subjects(self, names: Positions) -> Positions:
        """All rows of everybody who has one of some rows."""
        assert self.index is not None
        return np.setdiff1d(self.index.companions(names), self.recipe.gone)

    # without some rows ------------------------------------------------------------------------

    def gathered(self, names: Positions, look: bool, beside: ScannedList | None = None) -> Gathered:
        """Rows by their numbers: from memory where they are there, else from their row groups.

        ``look``: with a pass over everything, and the triangle of all other rows.
        """
        if look:
            source = self.source(carry=True)
            return Gathering(names, self.linearised).over(source, "refits")
        for known in (self, beside):
            mine = None if known is None else known.rows.names
            if known is not None and mine is not None and np.isin(names, mine).all():
                at = np.searchsorted(mine, names)
                some = known.found
                return replace(
                    some,
                    phi=some.phi[at],
                    y=some.y[at],
                    gaps=some.gaps[at],
                    weights=some.weights[at],
                    frames=[known.table.iloc[at]],
                )
        return self._fetched(names)

    def _fetched(self, names: Positions) -> Gathered:
        scan, recipe = self.recipe.scan, replace(self.recipe, carry=True)
        kept, frames = [], []
        for number in np.unique(scan.part_of(names)).tolist():
            part = scan.parts[number]
            for batch in recipe.batches(part):
                ends = np.searchsorted(names, [batch.first, batch.first + len(batch.y)])
                own = names[ends[0] : ends[1]] - batch.first
                if own.size and batch.raw is not None:
                    kept.append((batch.phi[own], batch.y[own], batch.gaps[own]))
                    frames.append(batch.raw(own))
        phi, y, gaps = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        return replace(self.found, phi=phi, y=y, gaps=gaps, weights=np.ones(len(y)), frames=frames)

    def scores_without(
        self,
        points: Any,
        sets: Sequence[Positions],
        refit_preprocessing: bool = True,
        look: bool = False,
        beside: ScannedList | None = None,
    ) -> Array:
        """Scores of points without each of some sets of rows, (sets, q).

        Parameters
        ----------
        sets : numbers of rows in the whole table
        look : bool
            Whether to read all rows again: one pass for all sets together, a few for losses that
            are not squared. Else sums that are in memory say it.
        """
        fine, names = [], [np.sort(np.asarray(rows, dtype=np.intp)) for rows in sets]
        for place, rows in enumerate(names):
            with contextlib.suppress(SingularDeletionError):
                self.refuse_if_too_much(rows, beside)
                fine.append(place)
        found = self.refits([names[place] for place in fine], refit_preprocessing, look, beside)
        queries = self.queries(points)
        phi = np.column_stack([np.ones(len(queries)), self.features(queries)])
        gaps = np.zeros((len(phi), self.recipe.gaps.size))
        for place, column in enumerate(self.recipe.gaps.tolist()):
            name = self.recipe.scan.numbers[column]
            gaps[:, place] = queries[name].isna().to_numpy()
        wide = np.hstack([phi, gaps])
        scores = np.full((len(sets), len(wide)), np.nan)
        for place, (_, B, theta) in zip(fine, found, strict=True):
            scores[place] = wide @ (B @ theta)
        return scores

    def refuse_if_too_much(self, rows: Positions, beside: ScannedList | None = None) -> None:
        """Raise where nothing, or nothing of a class, would be left."""
        if len(rows) >= self.many:
            raise SingularDeletionError("all rows would be deleted: nothing is left to fit", rows)
        if not self.problem.classes or len(rows) < min(self._classes):
            return
        good = int(self.gathered(rows, False, beside).y.sum())
        if good >= self._classes[1] or len(rows) - good >= self._classes[0]:
            raise SingularDeletionError(
                "deleting these rows would leave no training row of one of the two classes: there "
                "is no classifier without them",
                rows,
            )

    def _anew(self, columns: list[str], gone: Positions) -> tuple[Moments, list[Any]]:
        """Moments and values around the medians of some columns, without some rows: passes."""
        moments: Moments | None = None
        work = Counting(self.recipe.scan, columns, gone)
        for part in self.engine.map(work, self.recipe.scan.parts):
            moments = part if moments is None else moments.plus(part)
        assert moments is not None
        scan = self.recipe.scan
        return moments, medians(scan, columns, moments, gone, self.engine, silent)

    @cached_property
    def _classes(self) -> tuple[int, int]:
        """How many rows there are of either class."""
        good = round(self.found.labels + float(self.found.y.sum()))
        return self.many - good, good

    def refits(
        self,
        sets: Sequence[Positions],
        refit_preprocessing: bool = True,
        look: bool = False,
        beside: ScannedList | None = None,
    ) -> list[tuple[Recipe, Array, Array]]:
        """Recipe, ``B`` and parameters without each set."""
        named = [np.sort(np.asarray(rows, dtype=np.intp)) for rows in sets]
        union = np.unique(np.concatenate([*named, np.zeros(0, dtype=np.intp)]))
        if not union.size:
            same = np.eye(self.recipe.width + self.recipe.gaps.size, self.recipe.width)
            return [(self.recipe, same, self.theta) for _ in named]
        gathered = self.gathered(union, look, beside)
        table = pd.concat(gathered.frames, ignore_index=True)
        X = table[self.recipe.scan.numbers].to_numpy(dtype=float)
        places = [np.searchsorted(union, rows) for rows in named]
        new = []
        for rows, at in zip(named, places, strict=True):
            recipe = replace(self.recipe, gone=np.union1d(self.recipe.gone, rows))
            if refit_preprocessing:
                recipe = refilled(self.recipe, X[at], rows, self._anew)
            new.append((recipe, between(self.recipe, recipe)))
        work = BySums(self, gathered)
        if not self.problem.squared:
            thetas = work.newton(places, new, look)
        else:
            solve = work.added_back if look else work.down_dated
            thetas = [solve(at, B) for at, (_, B) in zip(places, new, strict=True)]
        return [(recipe, B, theta) for (recipe, B), theta in zip(new, thetas, strict=True)]

    def deletions(
        self,
        Q: Any,
        of: str = "scores",
        method: str | None = None,
        preprocessing: str = "refitted",
    ) -> Any:
        """What deletions of any rows of the table do; their rows are looked up when asked for."""
        return ScannedDeletions(self, Q, of, method, preprocessing)

    def without(
        self,
        rows: Any = None,
        *,
        subjects: Any = None,
        refit_preprocessing: bool = True,
        start: str = "fitted",
        look: bool = False,
        beside: ScannedList | None = None,
    ) -> ScannedModel:
        """The same model refitted without some rows, by their numbers in the whole table.

        From the sums that are kept; for losses that are not squared, and with ``look``, by reading
        the files.
        """
        names = self.positions(rows, subjects)
        if not names.size:
            return self
        self.refuse_if_too_much(names, beside)
        look = look or not self.problem.squared
        recipe, B, theta = self.refits([names], refit_preprocessing, look, beside)[0]
        mine = self.rows.names
        assert mine is not None
        keep = np.setdiff1d(mine, names)
        found = None
        if self.problem.squared and not look:
            others = np.setdiff1d(names, mine)
            theirs = self.rows_of(self.gathered(others, False, beside)) if others.size else None
            found = self._moved(recipe, B, np.isin(mine, keep), theirs)
        if found is None:
            problem = self.problem
            at = Linearised() if problem.squared else Linearised(problem.loss, theta)
            work = Gathering(keep, at, None, theta)
            source = Blocks(replace(recipe, carry=True), self.engine, silent)
            found = work.over(source, "gathering rows")
        made = ScannedModel(
            recipe, self.engine, self.problem, theta, keep, found, self.index, self.passes
        )
        made.label_moments, made.held_out = self.label_moments, self.held_out
        return made

    def _moved(self, recipe: Recipe, B: Array, keep: Any, gone: Array | None) -> Gathered | None:
        """What is in memory, in the units of another recipe; ``gone`` rows taken off the sums."""
        found, g = self.found, self.recipe.gaps.size
        if gone is not None:
            less = taken_off(found.triangle, gone)
            if less is None:
                return None
            found = replace(found, triangle=less)
        wide = np.zeros((self.recipe.width + g + 1, self.recipe.width + g + 1))
        wide[: len(B), : B.shape[1]] = B
        wide[self.recipe.width : -1, B.shape[1] : -1] = np.eye(g)
        wide[-1, -1] = 1.0
        triangle = folded([found.triangle @ wide])
        phi = np.hstack([found.phi, found.gaps]) @ B
        return replace(
            found,
            triangle=triangle,
            phi=phi[keep],
            y=found.y[keep],
            gaps=found.gaps[keep],
            weights=found.weights[keep],
            frames=[self.table[keep]],
        )

    def _in_passes(
        self, points: Any, sets: Sequence[Positions], preprocessing: str, look: bool
    ) -> Array:
        return self.scores_without(points, sets, preprocessing == "refitted", look)

    def values_of(self, rows: Positions) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The raw cells of some rows, and of a sample of others."""
        found = self.gathered(np.sort(rows), look=False)
        theirs = pd.concat(found.frames, ignore_index=True)[self.recipe.scan.features]
        assert self.rows.names is not None
        return theirs, self.X[~np.isin(self.rows.names, rows)]

    def owners_of(self, rows: Positions) -> list[str]:
        return list(map(str, rows)) if self.index is None else self.index.names(rows)

    def positions(self, rows: Any = None, subjects: Any = None) -> Positions:
        """Numbers of rows in the whole table, checked."""
        if subjects is not None:
            return self.positions_of(subjects)
        whole = TrainingRows(self.recipe.scan.rows)
        found = np.sort(whole._as_positions(rows))
        gone = np.intersect1d(found, self.recipe.gone)
        if gone.size:
            raise HoldfastError(f"row {int(gone[0])} is there no more: it was erased before")
        return found

    def positions_of(self, ids: Any) -> Positions:
        """The rows people mean by ids, looked up."""
        if self.index is None:
            raise HoldfastError(
                "the rows have no ids: name the column with id= or subject= of hf.scan"
            )
        listed = [ids] if isinstance(ids, str) or not np.iterable(ids) else list(ids)
        return self.index.find([as_text(name) for name in listed], self.recipe.gone)


class _Counted(Blocks):
    """Passes that are counted with the model they are made for."""

    model: ScannedModel

    def each(self, work: Any, stage: str) -> Any:
        self.model.passes += 1
        return super().each(work, stage)


class ScannedDeletions:
    """What deletions of any rows of a table in files do to some scores.

    Attributes
    ----------
    shape : tuple of int
    exact : bool
    """

    def __init__(self, model: ScannedModel, Q: Any, of: str, method: str | None, kept: str):
        self._model, self._Q, self._of = model, Q, of
        self._method, self._kept = method, kept
        inner: Any = model.as_list().deletions(Q, of, method, kept)
        self.shape, self.exact, self._inner = inner.shape, inner.exact, inner

    def effect(self, rows: Any = None, *, subjects: Any = None) -> Array:
        """The drop of every functional when these rows go together."""
        return self.effect_at(self._model.positions(rows, subjects))

    def effect_at(self, names: Positions) -> Array:
        """The same for numbers of rows already checked."""
        model = self._model
        model.refuse_if_too_much(names)
        mine = model.rows.names
        assert mine is not None
        if np.isin(names, mine).all():
            found: Array = self._inner.effect_at(np.searchsorted(mine, names))
            return found
        if self._of != "scores":
            raise HoldfastError("gradients are known without rows of the sample only")
        after = model.scores_without(self._Q, [names], self._kept == "refitted")[0]
        return model.scores(self._Q) - after

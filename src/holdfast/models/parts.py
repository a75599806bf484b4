r"""A mean of parts, each of which knows few of the rows: shards, or trees with keyed draws.

The score is monotone in the mean of what ``T`` parts say, ``f = link(1/T Σ_t p_t)``. A row is in
few parts (one shard, five trees), by a draw of its own that nobody else's erasure moves. Without
the rows ``S`` only the parts that had some of them are fitted again, and

.. math:: \bar p - \bar p_{−S} = \frac1T \sum_{t \ni S} \left(p_t − p_{t,−S_t}\right)

exactly, whatever the parts are: effects on the mean add up over parts. On the score they do not,
so searches and proofs go by the mean and by what the target is there.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from joblib import hash as content
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from holdfast.algebra.additive import Additive
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions, listed, take
from holdfast.algebra.threads import cores, one_thread
from holdfast.algebra.units import Units
from holdfast.errors import DataMismatchError, HoldfastError, UnsupportedModelError
from holdfast.models.core import Capabilities, Training
from holdfast.models.linear_shards import ROUNDING, LinearShards, Maker
from holdfast.models.refit import CLIP, RefitCore

#: numbers remembered of what parts say without some rows
REMEMBERED = 1 << 24
#: parts fitted again that are kept for other points
FITS = 1_500
#: tables of queries whose parts are remembered
_TABLES = 4
#: a part fitted again on its own rows says the same to this, or these are other data
_SAME = 1e-6

#: why there is no certificate behind a scaler that saw everybody
OUTSIDE = (
    "its preprocessing is fitted on all rows, so that one erasure moves every part: put the "
    "pipeline inside, hf.ShardedClassifier(make_pipeline(...))"
)


@dataclass(frozen=True)
class Falls:
    """What units do alone at some points.

    Attributes
    ----------
    mean : ndarray of shape (q, units)
        By how much the mean falls without each.
    part : ndarray of shape (q, parts)
        By how much each part falls at most without any one of them, 0 at least.
    shared : ndarray of shape (q, units)
        What each can be charged with where it may share parts with others that go: in every part
        the larger of its own fall and half of all the part says.
    done : positions of the units there was time for
    """

    mean: Array
    part: Array
    shared: Array
    done: Positions


class PartsCore(RefitCore):
    """The mean of shards, or of trees: exact by refitting the few parts that had a row."""

    def __init__(self, estimator: Any, data: Training, core_of: Maker | None = None):
        super().__init__(estimator, data.rows, data.sign)
        piped = isinstance(estimator, Pipeline) and len(estimator.steps) > 1
        self._front = estimator[:-1] if piped else None
        self.mean = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        self._data = data
        n = len(self.mean.membership_)
        if n != data.rows.n:
            raise DataMismatchError(
                f"{type(self.mean).__name__} was fitted on {n} rows, and X has {data.rows.n}"
            )
        self.membership = self.mean.membership_
        low, high = self.mean.part_range_
        classifies = is_classifier(self.mean)
        self._flip = data.sign < 0
        self.low = (1.0 - high if classifies else -high) if self._flip else low
        self._classifies = classifies
        self._base: OrderedDict[str, Array] = OrderedDict()
        self._moved: OrderedDict[Any, Array] = OrderedDict()
        self._held = 0
        self._refits: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        #: whether a part can be fitted again by itself, and every row is in one
        self._by_part = hasattr(self.mean, "part_without")
        self._core_of = core_of if self._by_part and self._front is None else None

    @property
    def can(self) -> Capabilities:
        if self._front is not None:
            return Capabilities(why_not=OUTSIDE, uncertified=OUTSIDE, gradients=False)
        return Capabilities(
            predictions=("parts",),
            why_not="what its parts say has no gradient",
            gradients=False,
            solves=True,
            certificate="parts",
            form="parts",
            rounding=ROUNDING if self.linear is not None else 1e-11,
        )

    @cached_property
    def linear(self) -> LinearShards | None:
        """The shards by their own algebra; ``None`` where they are fitted again instead."""
        if self._core_of is None:
            return None
        return LinearShards.of(self.mean, self._data, self._core_of)

    def resemble(self, other: Any) -> None:
        known = other.linear
        self.linear = None if known is None else known.after(self.mean, self._data)
        self.drift = other.drift

    def quick(self, units: Units) -> bool:
        """Whether what every unit does alone is known in next to no time.

        Of shards with an algebra of their own. Of a forest, where one unit is what it deletes as
        one: a row, or a person by its keys.
        """
        if self.linear is not None:
            return True
        if not hasattr(self.mean, "single_falls") or self._front is not None:
            return False
        if not self.mean.grouped_:
            return bool(units.single)
        owners = pd.factorize(np.asarray(self.mean.keys_))[0][units.order]
        numbers = np.repeat(np.arange(len(units)), units.sizes)
        pairs = set(zip(owners.tolist(), numbers.tolist(), strict=True))
        return len(pairs) == len(units) == len(set(owners.tolist()))

    # scores -----------------------------------------------------------------------------------

    def outputs(self, X: Any, some: Any = None, of: Any = None) -> Array:
        """What every part says of every row, good outcome up, (q, parts)."""
        if self.linear is not None and of is None:
            found = self.linear.outputs(X, some)
            if found is not None:
                return self._up(found)
            self.mean.parts(X)  # says what is wrong with the table
            raise HoldfastError("some of these rows cannot be read as numbers and texts")
        mean = self.mean if of is None else of
        return self._up(mean.parts(X if self._front is None else self._front.transform(X), some))

    def _up(self, said: Array) -> Array:
        """What parts say, the good outcome up."""
        if not self._flip:
            return said
        return 1.0 - said if self._classifies else -said

    def known_outputs(self, X: Any) -> Array:
        """The same, remembered for a few tables."""
        return self._known(X, content(X))

    def _known(self, X: Any, name: str) -> Array:
        if name not in self._base:
            while len(self._base) >= _TABLES:
                self._base.popitem(last=False)
            self._base[name] = self.outputs(X)
        self._base.move_to_end(name)
        return self._base[name]

    def _scores(self, X: Any) -> Array:
        return self.scored(self.outputs(X).mean(axis=1))

    def scored(self, means: Array) -> Array:
        """Means as scores: log-odds of probabilities, predictions as they are."""
        if not self._classifies:
            return means
        p = np.clip(means, CLIP, 1.0 - CLIP)
        found: Array = np.log(p) - np.log1p(-p)
        return found

    def mean_at(self, score: float) -> float:
        """The mean at which the score is this."""
        return float(expit(score)) if self._classifies else float(score)

    # without some rows ------------------------------------------------------------------------

    def means_without(self, X: Any, sets: Sequence[Positions]) -> Array:
        """The mean of all parts without each set of rows, (sets, q)."""
        name = content(X)
        base = self._known(X, name)
        out = np.empty((len(sets), len(base)))
        for place, rows in enumerate(sets):
            now = base.copy()
            for group in self._apart(np.asarray(rows, dtype=np.intp)):
                touched = np.unique(self.membership[group])
                now[:, touched] = self._without(X, name, group, touched)
            out[place] = now.mean(axis=1)
        return out

    def _apart(self, rows: Positions) -> list[Positions]:
        """Rows that share no part, apart: by shard where each is in one."""
        rows = np.sort(rows)
        if self.membership.shape[1] > 1 or rows.size == 0:
            return [rows] if rows.size else []
        shard = self.membership[rows, 0]
        return [rows[shard == t] for t in np.unique(shard)]

    def _without(self, X: Any, name: str, rows: Positions, touched: Any) -> Array:
        """What the parts that had some rows say without them, (q, touched)."""
        key = (name, *rows.tolist())
        if key in self._moved:
            self._moved.move_to_end(key)
            return self._moved[key]
        found = self._says_without(rows, touched, X)
        self._held += found.size
        while self._held > REMEMBERED and self._moved:
            self._held -= self._moved.popitem(last=False)[1].size
        self._moved[key] = found
        return found

    def _says_without(self, rows: Positions, touched: Any, X: Any) -> Array:
        """The same for rows that go together, fitted again unless that was done lately."""
        if self.linear is not None:
            said = self._by_algebra(rows, int(touched[0]), X)
            return self._up(said)[:, None]
        key = tuple(rows.tolist())
        fresh = self._refits.get(key)
        if fresh is None:
            fresh = self._refits[key] = self._fitted_without(rows)
            while len(self._refits) > FITS:
                self._refits.popitem(last=False)
        if not self._by_part:
            return self.outputs(X, touched, fresh)
        said = self.mean.part_says(fresh, X if self._front is None else self._front.transform(X))
        return self._up(said)[:, None]

    def _by_algebra(self, rows: Positions, shard: int, X: Any) -> Array:
        """What a shard with an algebra of its own says without some of its rows, (q,)."""
        assert self.linear is not None
        matrix = self.linear.matrix(X)
        if matrix is not None:
            said = self.linear.without(matrix, shard, [rows])[0]
            if not np.isnan(said).any():
                return said
        left = np.setdiff1d(np.flatnonzero(self.membership[:, 0] == shard), rows)
        return self.linear.refitted(self._fitted_without(rows), left, X)

    def _fitted_without(self, rows: Positions) -> Any:
        """The one part that all of some rows are in, fitted without them; or all parts."""
        data = self._data
        again = self.mean.part_without if self._by_part else self.mean.without
        try:
            return again(rows, self._features, data.y, self._weights)
        except HoldfastError:
            raise
        except Exception as failure:  # whatever the estimator inside does
            raise HoldfastError(
                f"{type(self.mean).__name__} cannot be refitted without rows "
                f"{listed(rows)}: {failure}"
            ) from failure

    @property
    def _features(self) -> Any:
        return self._data.X if self._front is None else self._front.transform(self._data.X)

    @property
    def _weights(self) -> Any:
        weights = self._data.weights
        return None if np.all(weights == 1.0) else weights

    def falls(
        self,
        X: Any,
        units: Sequence[Positions],
        quick: bool = False,
        until: float = math.inf,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> Falls:
        """What every unit does alone: refits of the parts that have it, on all cores.

        ``quick``: the parts know it themselves. ``until``: by :func:`time.monotonic`; units that
        are not done by then are left out.
        """
        if quick and self.linear is not None:
            return self._linear_falls(X, units, until, tell)
        if quick:
            first = [int(rows[0]) for rows in units]
            mean, most, shared = self.mean.single_falls(X, first, up=not self._flip)
            return Falls(mean, most, shared, np.arange(len(units)))
        base, done = self.known_outputs(X), list[int]()
        falls = np.empty((len(base), len(units)))
        most = np.zeros(base.shape)
        above = base - self.low
        shared = falls if self._alone_in(units) else np.empty_like(falls)

        def one(place: int) -> tuple[int, Any, Array] | None:
            if time.monotonic() > until:
                return None
            touched = np.unique(self.membership[units[place]])
            now = base[:, touched].copy()
            for group in self._apart(units[place]):
                some = np.unique(self.membership[group])
                now[:, np.searchsorted(touched, some)] = self._says_without(group, some, X)
            return place, touched, base[:, touched] - now

        with one_thread, Parallel(cores(), prefer="threads", return_as="generator") as parallel:
            for found in parallel(delayed(one)(u) for u in range(len(units))):
                if found is None:
                    continue
                place, touched, fall = found
                falls[:, len(done)] = fall.sum(axis=1) / base.shape[1]
                most[:, touched] = np.maximum(most[:, touched], fall)
                if shared is not falls:
                    half = np.maximum(fall, above[:, touched] / 2)
                    shared[:, len(done)] = half.sum(axis=1) / base.shape[1]
                done.append(place)
                tell(len(done), len(units))
        count = len(done)
        return Falls(falls[:, :count], most, shared[:, :count], np.array(done, dtype=np.intp))

    def _linear_falls(
        self,
        X: Any,
        units: Sequence[Positions],
        until: float,
        tell: Callable[[int, int], None],
    ) -> Falls:
        """The same by the shards' own algebra, all units of a shard at once."""
        assert self.linear is not None
        base, matrix = self.known_outputs(X), self.linear.matrix(X)
        parts = base.shape[1]
        falls, most = np.zeros((len(base), len(units))), np.zeros(base.shape)
        alone = self._alone_in(units)
        shared = falls if alone else np.zeros_like(falls)
        here: list[list[tuple[int, Positions]]] = [[] for _ in range(parts)]
        last = np.zeros(len(units), dtype=np.intp)
        for u, rows in enumerate(units):
            for group in self._apart(rows):
                last[u] = self.membership[group[0], 0]
                here[last[u]].append((u, group))
        finished = parts
        for t, mine in enumerate(here):
            if time.monotonic() > until:
                finished = t
                break
            if not mine:
                continue
            said = np.full((len(mine), len(base)), np.nan)
            if matrix is not None:
                said = self.linear.without(matrix, t, [rows for _, rows in mine])
            for place in np.flatnonzero(np.isnan(said).any(axis=1)).tolist():
                said[place] = self._by_algebra(mine[place][1], t, X)
            fall = base[:, [t]] - self._up(said).T
            which = [u for u, _ in mine]
            falls[:, which] += fall / parts
            most[:, t] = fall.max(axis=1, initial=0.0)
            if not alone:
                half = np.maximum(fall, (base[:, [t]] - self.low) / 2)
                shared[:, which] += half / parts
            tell(int((last <= t).sum()), len(units))
        done = np.flatnonzero(last < finished)
        return Falls(falls[:, done], most, shared[:, done], done)

    def _alone_in(self, units: Sequence[Positions]) -> bool:
        """Whether every unit is in one part."""
        return all(np.unique(self.membership[rows]).size == 1 for rows in units)

    # what a model that can forget says --------------------------------------------------------

    def deletions(self, X: Any, of: str = "scores", method: str | None = None) -> Deletions:
        if of != "scores":
            raise HoldfastError("a mean of parts has no gradients")
        return PartsDeletions(self, X)

    def scores_without(
        self,
        X: Any,
        sets: Sequence[Positions],
        factors: Array | None = None,
        nearly: bool = False,
    ) -> Array:
        """Scores without each set, by refits of the parts that had some of it."""
        return self.scored(self.means_without(X, sets))

    def own_scores_without(self, X: Any, sets: Sequence[Positions]) -> Array:
        """The score of each row of ``X`` without its own set."""
        where: dict[tuple[int, ...], list[int]] = {}
        for place, rows in enumerate(sets):
            where.setdefault(tuple(np.sort(rows).tolist()), []).append(place)
        # a part without some rows is fitted once for all whom it concerns
        groups: dict[tuple[int, ...], list[int]] = {}
        for all_of_it, places in where.items():
            for group in self._apart(np.array(all_of_it, dtype=np.intp)):
                groups.setdefault(tuple(group.tolist()), []).extend(places)
        now = self.known_outputs(X).copy()
        for named, places in groups.items():
            gone = np.array(named, dtype=np.intp)
            touched = np.unique(self.membership[gone])
            said = self._says_without(gone, touched, take(X, places))
            now[np.array(places)[:, None], touched] = said
        return self.scored(now.mean(axis=1))

    def verify(self, fitted: Array, again: Array) -> str | None:
        """Refuse data the parts were not fitted on."""
        if self._front is None:
            off = self.mean.unlike(self._data.X, self._data.y, self._weights)
            if off > _SAME:
                raise DataMismatchError(
                    f"a part of the {type(self.mean).__name__}, fitted again on its rows, says "
                    f"something else (by up to {off:.2g}): X, y and the weights are not those of "
                    "the fit, in its order, or the estimator draws without a seed"
                )
        if self.linear is None:
            return None
        self.drift = self.linear.drift
        return self.linear.warning

    def reweighted(self, omega: Array) -> Reweighted:
        raise UnsupportedModelError(
            f"a {type(self.mean).__name__} has no closed form in the row weights: a row is there "
            "or it is not"
        )


class PartsDeletions(Additive):
    """Deletions of a mean of parts: refits of the parts that had the rows.

    ``effect`` is exact. The triple is that of the *mean*, each row by itself (``C`` a table,
    ``P = I``, ``r = 1``): it adds up over rows that share no part, and asking for all of it takes
    refits for every row.
    """

    exact = True

    def __init__(self, core: PartsCore, queries: Any):
        self.core, self.queries, self.rows = core, queries, core.rows
        self.shape = (len(queries),)

    @cached_property
    def effects(self) -> Array:
        found = np.full((len(self.queries), self.rows.n), np.nan)
        alone = np.delete(np.arange(self.rows.n), self.rows.undeletable())
        units = [np.array([i]) for i in alone]
        quick = self.core.linear is not None
        found[:, alone] = self.core.falls(self.queries, units, quick).mean
        return found

    def _by_formula(self, positions: Positions) -> Array:
        before = self.core.scored(self.core.known_outputs(self.queries).mean(axis=1))
        found: Array = before - self.core.scores_without(self.queries, [positions])[0]
        return found

    def single_effects(self) -> Array:
        """Every row alone: by how much the scores fall, (q, n)."""
        if self.whole is not None:  # against a target that moves
            every = [self.effect_at(np.array([i], dtype=np.intp)) for i in range(self.rows.n)]
            return np.column_stack(every)
        means = self.core.known_outputs(self.queries).mean(axis=1)[:, None]
        found: Array = self.core.scored(means) - self.core.scored(means - self.effects)
        return found

"""Which rows can do most to each recourse, and what is known of all the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from holdfast.algebra.box_loops import candidates, reach
from holdfast.algebra.boxes import Boxes
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Mask, Positions

#: rows kept per recourse; entries of a tile of C
KEPT, _TILE = 128, 1 << 22


@dataclass(frozen=True)
class Missed:
    """What the formula may miss of the true effect of ``k`` deletions: ``price · Σ_S charge``.

    Attributes
    ----------
    price : (q, budget + 1)
    charge : (budget + 1, n)
    limit : the largest ``k`` it holds for
    """

    price: Array
    charge: Array
    limit: int

    def useful(self, margins: Array) -> int:
        """The largest ``k`` at which it leaves most recourses some margin to be certified with."""
        for k in range(self.limit, 0, -1):
            if not self.charge[k].any():
                return k
            total = np.partition(self.charge[k], -k)[-k:].sum()
            if np.median(self.price[:, k] * total / margins) < 0.5:
                return k
        return min(self.limit, 1)


Remainder = Callable[[Boxes], Missed]


@dataclass
class Verdicts:
    """Per recourse: the deletions it survives, and the fewest known to break it (0: none known)."""

    certified: Positions
    attacked: Positions
    witness: list[tuple[int, ...]]
    bound: Array
    singular: Mask
    limit: int
    boxes: Boxes | None = field(default=None, repr=False)
    missed: Missed | None = field(default=None, repr=False)


class Candidates:
    """For every recourse the rows that can do most to it, and a ceiling for all others."""

    def __init__(self, deletions: Deletions, found: Boxes, missed: Missed, limit: int):
        self.deletions, self.missed = deletions, missed
        n, q = deletions.rows.n, int(np.prod(deletions.shape))
        kept = min(max(KEPT, 2 * limit), n)
        self.values, self.places = np.zeros((q, kept)), np.zeros((q, kept), np.int64)
        self.rest = np.zeros(q)
        low, high = found.low[limit], found.high[limit]
        price, charge = np.ascontiguousarray(missed.price[:, limit]), missed.charge[limit]
        many = max(1, _TILE // n)
        for start in range(0, q, many):
            rows = slice(start, min(start + many, q))
            candidates(
                deletions.functionals(rows),
                low,
                high,
                price[rows],
                charge,
                self.values[rows],
                self.places[rows],
                self.rest[rows],
            )

        self._add_clusters(found)

    def _add_clusters(self, found: Boxes) -> None:
        """What groups of fragile rows can add to each recourse, (groups, q) for every ``k``."""
        self.cluster_gains: list[Array] = []
        self.cap = np.full(len(self.values), 10**6, dtype=np.intp)
        columns = [self.deletions.columns(cluster.rows) for cluster in found.clusters]
        for cluster, C in zip(found.clusters, columns, strict=True):
            self.cap = np.minimum(self.cap, cluster.first_touch(C, self.deletions.lengths) - 1)
        for k in range(found.limit + 1):
            gains = [c.gains(C, k) for c, C in zip(found.clusters, columns, strict=True)]
            self.cluster_gains.append(np.array(gains).reshape(len(gains), len(self.values)))

    def reach(self, found: Boxes, k: int) -> Array:
        """A bound on what ``k`` deletions can do to each recourse; ∞ where one may be singular."""
        price, charge = np.ascontiguousarray(self.missed.price[:, k]), self.missed.charge[k]
        out = np.empty(len(self.values))
        reach(*self.parts, found.low[k], found.high[k], price, charge, k, out)
        if found.clusters:  # somebody of a group and k − 1 others, or k others
            fewer = np.zeros(len(out))
            if k > 1:
                reach(*self.parts, found.low[k], found.high[k], price, charge, k - 1, fewer)
            out = np.maximum(out, fewer + self.cluster_gains[k].sum(axis=0))
        return np.where(self.cap < k, np.inf, out)

    @property
    def parts(self) -> tuple[Array, npt.NDArray[np.int64], Array]:
        return self.values, self.places, self.rest

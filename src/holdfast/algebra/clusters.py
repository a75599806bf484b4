r"""Rows bounded together, because a few of them may leave a singular fit.

Eight people who alone have some rare category determine its coefficient: delete all eight and it
has no unique value, so no interval contains every :math:`P_{SS}^{-1}r_S`. For recourses that do not
touch that coefficient every refit is nevertheless well defined. So the group ``B`` is treated as
one row more: whatever part ``T ⊂ B`` of it goes, with :math:`P_{TT}^{+}` the pseudo-inverse,

- :math:`‖P_{TT}^{+½} r_T‖` is at most its *length*,
- :math:`‖P_{TT}^{+½} P_{Ti}‖` is at most its *coupling* to row ``i``,

both found by going through all parts. The super-solution of :mod:`holdfast.algebra.boxes` then
bounds :math:`‖P_{TT}^{½}u_T‖` too, and what the group adds to an effect is at most
:math:`\max_T c_TᵀP_{TT}^{+}r_T + ‖P_{TT}^{+½}c_T‖ (ζ − length)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Positions

#: rows a group may have (all its parts are gone through), and how many groups there may be
LARGEST, MOST = 10, 8
#: rows whose strongest ties add up to this are fragile; ties that bind a group
_FRAGILE, _TIE = 0.6, 0.04


@dataclass
class Cluster:
    """A group of rows, with bounds on all its parts.

    Attributes
    ----------
    rows : (m,)
    parts : list of arrays of places in ``rows``
    roots : list of arrays
        ``P_TT^{+½}`` of every part.
    nulls : list of arrays
        Directions in which ``P_TT`` vanishes.
    length, coupling : float and (n,)
        Bounds on ``‖P_TT^{+½} r_T‖`` and ``‖P_TT^{+½} P_Ti‖``.
    reach : (limit + 1,)
        Bounds on ``‖P_TT^{½} u_T‖`` for sets of up to ``k`` rows.
    """

    rows: Positions
    parts: list[Positions]
    roots: list[Array]
    nulls: list[Array]
    residuals: Array
    length: float
    coupling: Array
    largest_root: float
    reach: Array = field(default_factory=lambda: np.zeros(1))

    def towards(self, other: Cluster) -> float:
        """A bound on the coupling of any part of this group with any part of another."""
        return float(np.linalg.norm(self.coupling[other.rows])) * other.largest_root

    def gains(self, C: Array, k: int) -> Array:
        """What deleting some of the group can add to each effect, at most; ``C`` is (q, m)."""
        best = np.zeros(len(C))
        excess = max(float(self.reach[k]) - self.length, 0.0)
        for part, root in zip(self.parts, self.roots, strict=True):
            if part.size <= k:
                c = C[:, part] @ root
                direct = c @ (root @ self.residuals[part])
                best = np.maximum(best, direct + np.linalg.norm(c, axis=1) * excess)
        return best

    @cached_property
    def sizes(self) -> Positions:
        """How many rows each part has."""
        return np.array([part.size for part in self.parts])

    @cached_property
    def _inverses(self) -> Array:
        """``P_TT⁺`` of every part, in the places of the group, (parts, m, m)."""
        m = self.rows.size
        out = np.zeros((len(self.parts), m, m))
        for t, (part, root) in enumerate(zip(self.parts, self.roots, strict=True)):
            out[t][np.ix_(part, part)] = root @ root
        return out

    def alone(self, c: Array) -> tuple[Array, Array]:
        """Effects of every part on one recourse, and ``P_TT⁺ c_T`` (parts, m)."""
        weights = self._inverses @ c
        return weights @ self.residuals, weights

    def widths(self, c: Array) -> Array:
        """``‖P_TT^{+½} c_T‖`` of every part."""
        return np.sqrt(np.maximum((self._inverses @ c) @ c, 0.0))

    def first_touch(self, C: Array, scale: Array) -> Positions:
        """For each recourse, the size of the smallest part without a unique refit that touches it.

        A number larger than the group where there is none.
        """
        found = np.full(len(C), 10**6, dtype=np.intp)
        for part, null in zip(self.parts, self.nulls, strict=True):
            if null.shape[1]:
                touched = np.any(np.abs(C[:, part] @ null) > 1e-7 * scale[:, None], axis=1)
                found = np.where(touched, np.minimum(found, part.size), found)
        return found


def clusters_among(
    deletions: Deletions, alive: Positions, ties: Array, places: npt.NDArray[np.int64]
) -> list[Cluster]:
    """The groups, or none where they are too many or too large to go through."""
    fragile = np.flatnonzero(ties.sum(axis=1) > _FRAGILE)
    if fragile.size == 0 or fragile.size > LARGEST * MOST:
        return []
    inside = np.zeros(len(ties), dtype=bool)
    inside[fragile] = True
    one, tie = np.nonzero((ties > _TIE) & inside[:, None] & inside[places])
    edges = coo_array((np.ones(one.size), (one, places[one, tie])), shape=(len(ties),) * 2)
    _, labels = connected_components(edges, directed=False)
    groups = [fragile[labels[fragile] == label] for label in np.unique(labels[fragile])]
    if len(groups) > MOST or any(group.size > LARGEST for group in groups):
        return []
    return [_cluster(deletions, alive[group]) for group in groups]


def _cluster(deletions: Deletions, rows: Positions) -> Cluster:
    P, r = deletions.block(rows), deletions.residuals[rows]
    towards = deletions.coupling(rows).T
    floor = max(deletions.floor, deletions.lost)
    parts, roots, nulls = [], [], []
    length, largest, coupling = 0.0, 0.0, np.zeros(towards.shape[1])
    for code in range(1, 1 << rows.size):
        part = np.flatnonzero([(code >> place) & 1 for place in range(rows.size)])
        values, vectors = linalg.eigh(P[np.ix_(part, part)])
        fine = values > floor
        root = (vectors[:, fine] * values[fine] ** -0.5) @ vectors[:, fine].T
        parts.append(part)
        roots.append(root)
        nulls.append(vectors[:, ~fine])
        length = max(length, float(np.linalg.norm(root @ r[part])))
        largest = max(largest, float(np.abs(root).sum(axis=1).max()))
        coupling = np.maximum(coupling, np.linalg.norm(root @ towards[part], axis=0))
    return Cluster(
        rows, parts, roots, nulls, r, length * (1 + 1e-9), coupling * (1 + 1e-9), largest
    )

r"""What a deletion does to a score, in one formula.

For every family of models in this package, deleting the rows ``S`` lowers ``q`` scores by

.. math:: \mathrm{effect}(S) = C_{:S}\, P_{SS}^{-1}\, r_S

with ``C`` (q, n), ``P`` (n, n) and ``r`` (n,) fixed by the model. None of the large matrices
is stored: a family hands over factors from which the few columns of a deletion are made.
The same triple serves any linear functional of the fit, not only scores: ``C`` then has one
row per functional, and :attr:`Deletions.shape` says how the functionals are arranged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from holdfast.algebra.dual import DualInverse
from holdfast.algebra.fit_by_weight import DualFit, FitByWeight, LowRankFit
from holdfast.algebra.outside import Outside
from holdfast.algebra.rows import Array, Positions, TrainingRows, listed
from holdfast.algebra.tiles import Products, Stored, Tiles
from holdfast.errors import HoldfastError, SingularDeletionError

#: eigenvalues of I − U_S U_Sᵀ below this are rounding noise
FLOOR = 1e-8

#: rows deleted → drop of the functionals with everything that depends on the rows refitted
Whole = Callable[[Positions], Array]

#: whitened first-order change of the parameters, rows deleted → drop of the functionals
Move = Callable[[Array, Positions], Array]

#: low-rank models with more parameters than this are cheaper to hold as a dense C
STREAMED_RANK = 128


@dataclass(frozen=True)
class Also:
    """What a row that goes changes beside its own term in a training problem, to first order.

    Attributes
    ----------
    functionals : (functionals, m)
    rows : (n, m)
        Their product transposed is added to every row's effect: it needs no solving.
    """

    functionals: Array = field(repr=False)
    rows: Array = field(repr=False)

    def worth(self, margins: Array) -> float:
        """How many recourses the row that changes most is worth, softly counted, by this alone."""
        room, most = np.maximum(margins, 1e-12), 0.0
        for start in range(0, len(self.rows), 4096):
            part = np.abs(self.rows[start : start + 4096] @ self.functionals.T) / room
            most = max(most, float(np.minimum(part, 1.0).sum(axis=1).max(initial=0.0)))
        return most

    def plus(self, other: Also | None) -> Also:
        """Two such changes together."""
        if other is None:
            return self
        return Also(
            np.hstack([self.functionals, other.functionals]), np.hstack([self.rows, other.rows])
        )

    def effect(self, rows: Any) -> Array:
        """Of some rows together, (functionals,)."""
        found: Array = self.functionals @ self.rows[rows].sum(axis=0)
        return found


class Deletions(ABC):
    """The triple ``C, P, r`` for a set of functionals, in factored form.

    Attributes
    ----------
    rows : TrainingRows
    residuals : ndarray of shape (n,)
        ``r``.
    shape : tuple of int
        How the functionals are arranged: ``(q,)`` for scores, ``(q, d)`` for gradients.
    exact : bool
        Whether the formula is exact for this model, or an approximation.
    """

    rows: TrainingRows
    residuals: Array
    shape: tuple[int, ...]
    exact: bool
    #: eigenvalues of P_SS below this are rounding noise: the remaining fit is singular
    floor: float
    #: in words, how effects are worked out where a family has several ways
    how: str = ""

    @abstractmethod
    def columns(self, rows: Positions | slice) -> Array:
        """``C[:, rows]``, one row per functional."""

    @abstractmethod
    def block(self, rows: Positions) -> Array:
        """``P[rows, rows]``."""

    @abstractmethod
    def coupling(self, rows: Positions, at: Positions | None = None) -> Array:
        """``P[:, rows]`` of shape (n, k), or ``P[at, rows]``: what greedy searches down-date by."""

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of ``P``."""

    def effect(self, rows: Any = None, *, subjects: Any = None) -> Array:
        """The drop of every functional when these rows go together.

        Parameters
        ----------
        rows : int or sequence of int
            Positions in the training data.
        subjects : id or sequence of ids
            Instead of ``rows``: everybody whose rows go, all of them.

        Returns
        -------
        ndarray of shape ``self.shape``
            ``f − f₋S``: positive where the score falls.

        Raises
        ------
        SingularDeletionError
            If the remaining fit would be singular, naming the rows.
        HoldfastError
            If a step of the pipeline cannot be refitted, naming the rows and the step.
        """
        return self._effect(self.rows.positions(rows, subjects))

    def effect_at(self, positions: Positions) -> Array:
        """:meth:`effect` for positions already checked; ∞ where there is no refit at all."""
        try:
            return self._effect(positions)
        except SingularDeletionError:
            raise
        except HoldfastError:
            return np.full(self.shape, np.inf)

    def _effect(self, positions: Positions) -> Array:
        if self.whole is not None:
            self.solve(positions)  # says which rows cannot go
            return self.whole(positions).reshape(self.shape)
        return self._by_formula(positions).reshape(self.shape)

    def _by_formula(self, positions: Positions) -> Array:
        drop: Array = self.columns(positions) @ self.solve(positions)
        return drop

    def solve(self, rows: Positions) -> Array:
        """``P_SS⁻¹ r_S``, refusing where ``P_SS`` is singular to working precision."""
        if rows.size == 0:
            return np.zeros(0)
        values, vectors = linalg.eigh(self.block(rows))
        if values[0] <= self.floor:
            share = np.abs(vectors[:, 0])
            culprits = rows[share > 0.1 * share.max()]
            raise SingularDeletionError(
                f"rows {listed(culprits)} cannot be deleted: together they alone determine a "
                f"direction of the fit (smallest eigenvalue of P_SS {values[0]:.1e}, "
                f"below {self.floor:.0e}), so what remains has no unique solution",
                culprits,
            )
        solution: Array = vectors @ ((vectors.T @ self.residuals[rows]) / values)
        return solution

    def single_effects(self) -> Array:
        """Every row deleted alone: a dense (functionals, n) matrix, NaN where a row cannot go."""
        effects = self.dense()
        effects *= self.single_steps
        return effects

    @property
    def row_lengths(self) -> Array | None:
        """How long each row is in few coordinates, which bounds what ties it to others."""
        return None

    @property
    def lengths(self) -> Array:
        """How long each functional is, (functionals,): what entries of ``C`` are small beside."""
        return np.ones(int(np.prod(self.shape)))

    @cached_property
    def single_steps(self) -> Array:
        """``r_i / P_ii``, NaN where a row cannot go alone."""
        steps = np.full(self.rows.n, np.nan)
        alone = self.deletable
        steps[alone] = self.residuals[alone] / self.diagonal[alone]
        return steps

    @cached_property
    def deletable(self) -> Any:
        """Boolean mask of the rows that can be deleted alone."""
        alone = self.diagonal > self.floor
        alone[self.rows.undeletable()] = False
        return alone

    def dense(self) -> Array:
        """``C`` as one (functionals, n) matrix, for those who ask for it."""
        return self.columns(slice(None))

    @abstractmethod
    def less(self, others: Deletions, weights: Array) -> Deletions:
        """Of the differences between these functionals and one mean of others."""

    # how the triple is laid out, for those who go through all of it ---------------------------

    #: whether rows of ``C`` are made faster by a product than they are read from memory
    streams: bool = False
    #: whether deleting one row changes what deleting another does (``P`` is not the identity)
    coupled: bool = True
    #: an eigenvalue of a block of ``P`` below this is a direction lost, not a small number
    lost: float = 0.0
    #: whether :meth:`effect` says more than the formula, at the cost of a look at the data
    refined: bool = False
    #: for pipelines: the effect with the preprocessing refitted too, which the triple keeps
    whole: Whole | None = None
    #: what a row that goes changes beside its own term
    also: Also | None = None
    #: rows that can go too but are not among these
    outside: Outside | None = None
    #: rows whose weights a :meth:`fit_by_weight` can follow at once; ``None``: all
    most_weighted: int | None = None

    def prepare(self) -> None:  # noqa: B027 (most have nothing to prepare)
        """Do once what many looks at columns and blocks would otherwise do each time."""

    @abstractmethod
    def tiles(self, order: Positions) -> Tiles:
        """``C`` transposed, some rows at a time, the rows arranged in ``order``."""

    @abstractmethod
    def blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        """``P_BB`` of groups of equally many rows: (groups, b) positions → (groups, b, b)."""

    @abstractmethod
    def functionals(self, some: slice) -> Array:
        """``C[some]`` of shape (b, n): what every row does to a few functionals."""

    @abstractmethod
    def couplings(self, rows: Positions, whitening: Any) -> Callable[[slice], Array]:
        """``−W P Wᵀ`` off the blocks of ``W``, some rows at a time: how rows act on each other.

        ``whitening`` is what ``P`` is scaled by on both sides, (len(rows), len(rows)), sparse or a
        vector for a diagonal one.
        """

    @abstractmethod
    def fit_by_weight(self, rows: Positions) -> FitByWeight:
        """The fit as a function of the weights of some rows, the others' staying 1."""


@dataclass(frozen=True)
class LowRankDeletions(Deletions):
    """``C = W Uᵀ`` and ``P = I − U Uᵀ`` (or ``I``), for models with few parameters.

    Parameters
    ----------
    queries : ndarray of shape (functionals, p)
        ``W``, the functionals in the whitened coordinates of the parameters.
    factor : ndarray of shape (n, p)
        ``U``, the rows in the same coordinates.
    residuals : ndarray of shape (n,)
    rows : TrainingRows
    shape : tuple of int
    coupled : bool
        Whether the rows' own curvature leaves with them (``P = I − UUᵀ``: exact least squares,
        one Newton step) or stays (``P = I``: the infinitesimal jackknife).
    exact : bool
    move : callable, optional
        For approximate families: turns the formula's change of the parameters into a better
        value of the functionals' drop, at the cost of one look at the data. The formula is what
        searches screen with; :meth:`effect` gives the better value.
    how : str
        In words, where a family has several ways.
    """

    queries: Array = field(repr=False)
    factor: Array = field(repr=False)
    residuals: Array = field(repr=False)
    rows: TrainingRows
    shape: tuple[int, ...]
    coupled: bool = True
    exact: bool = True
    move: Move | None = field(default=None, repr=False)
    floor: float = FLOOR
    lost: float = 1e-7
    whole: Whole | None = field(default=None, repr=False)
    also: Also | None = field(default=None, repr=False)
    outside: Outside | None = field(default=None, repr=False)
    how: str = ""

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.queries.shape[1] <= STREAMED_RANK

    @property
    def refined(self) -> bool:  # type: ignore[override]
        return self.move is not None or self.whole is not None

    @property
    def lengths(self) -> Array:
        return np.linalg.norm(self.queries, axis=1)

    @cached_property
    def row_lengths(self) -> Array:
        lengths: Array = np.linalg.norm(self.factor, axis=1)
        return lengths if self.coupled else np.zeros(len(lengths))

    def less(self, others: Deletions, weights: Array) -> Deletions:
        assert isinstance(others, LowRankDeletions)
        return replace(self, queries=self.queries - weights @ others.queries, move=None)

    def columns(self, rows: Positions | slice) -> Array:
        return self.queries @ self.factor[rows].T

    def single_effects(self) -> Array:
        effects: Array = self.queries @ (self.factor * self.single_steps[:, None]).T
        return effects if self.also is None else effects + self.also.functionals @ self.also.rows.T

    def block(self, rows: Positions) -> Array:
        identity = np.eye(rows.size)
        return identity - self.factor[rows] @ self.factor[rows].T if self.coupled else identity

    def coupling(self, rows: Positions, at: Positions | None = None) -> Array:
        if at is not None:
            same = np.asarray(at[:, None] == rows, dtype=float)
            return same - self.factor[at] @ self.factor[rows].T if self.coupled else same
        p: Array = np.zeros((self.rows.n, rows.size))
        if self.coupled:
            p -= self.factor @ self.factor[rows].T
        p[rows, np.arange(rows.size)] += 1.0
        return p

    @cached_property
    def diagonal(self) -> Array:
        if not self.coupled:
            return np.ones(self.rows.n)
        return 1.0 - np.einsum("ij,ij->i", self.factor, self.factor)

    def _by_formula(self, positions: Positions) -> Array:
        if self.move is None:
            found = super()._by_formula(positions)
            return found if self.also is None else found + self.also.effect(positions)
        change = self.factor[positions].T @ self.solve(positions)
        return self.move(change, positions)

    def tiles(self, order: Positions) -> Tiles:
        if self.streams:
            return Products(self.queries, np.ascontiguousarray(self.factor[order]), self._moved)
        return Stored(np.ascontiguousarray(self.dense().T[order]))

    def _moved(self, gone: Positions) -> Array | None:
        """``I + U_Tᵀ Z U_T``, by which queries move when rows go; ``None`` if they do not."""
        if not self.coupled:
            return None
        U = self.factor[gone]
        moved: Array = np.eye(U.shape[1]) + U.T @ linalg.inv(self.block(gone)) @ U
        return moved

    def blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        size = rows.shape[1]
        blocks = np.broadcast_to(np.eye(size), (len(rows), size, size)).copy()
        if self.coupled:
            u = self.factor[rows]
            blocks -= np.einsum("gip,gjp->gij", u, u)
        return blocks

    def functionals(self, some: slice) -> Array:
        tile: Array = self.queries[some] @ self.factor.T
        return tile

    def couplings(self, rows: Positions, whitening: Any) -> Callable[[slice], Array]:
        factor = self.factor[rows] if self.coupled else np.zeros((len(rows), 1))
        scaled = whitening[:, None] * factor if np.ndim(whitening) == 1 else whitening @ factor
        return lambda some: scaled[some] @ scaled.T

    def fit_by_weight(self, rows: Positions) -> FitByWeight:
        return LowRankFit(self.queries, self.factor[rows], self.residuals[rows], self.coupled)


@dataclass(frozen=True)
class KernelDeletions(Deletions):
    """``C = F P`` with ``P`` the (bordered) inverse kernel matrix, held as one triangular factor.

    Parameters
    ----------
    queries : ndarray of shape (functionals, n)
        ``F``: what each functional says of each dual weight; ``K(X̌, X)`` for scores.
    inverse : DualInverse
        ``P``, and the bias of the LS-SVM if there is one.
    residuals : ndarray of shape (n,)
        The dual weights.
    ridge : float
        ``β``, what is added to the kernel matrix.
    offset : float or ndarray of shape (functionals,)
        What the functionals say of a constant: 1 for scores, 0 for gradients.
    """

    queries: Array = field(repr=False)
    inverse: DualInverse = field(repr=False)
    residuals: Array = field(repr=False)
    rows: TrainingRows
    shape: tuple[int, ...]
    ridge: float
    offset: Array | float = 1.0
    exact: bool = True
    most_weighted: int | None = 500
    whole: Whole | None = field(default=None, repr=False)

    @property
    def refined(self) -> bool:  # type: ignore[override]
        return self.whole is not None

    @property
    def floor(self) -> float:  # type: ignore[override]
        return 1e-12 * float(self.diagonal.max())

    def less(self, others: Deletions, weights: Array) -> Deletions:
        assert isinstance(others, KernelDeletions)
        offset = self.offset - float(weights @ np.broadcast_to(others.offset, weights.shape))
        return replace(self, queries=self.queries - weights @ others.queries, offset=offset)

    def columns(self, rows: Positions | slice) -> Array:
        if isinstance(rows, slice):
            return self.dense()[:, rows]
        return self._with_bias(self.queries @ self.inverse.columns(rows), rows)

    def dense(self) -> Array:
        return self._with_bias(self.inverse.times(self.queries), slice(None))

    def _with_bias(self, c: Array, rows: Positions | slice) -> Array:
        if self.inverse.total:
            c += np.multiply.outer(self.offset, self.inverse.bias_weights[rows])
        return c

    def block(self, rows: Positions) -> Array:
        return self.inverse.block(rows)

    def coupling(self, rows: Positions, at: Positions | None = None) -> Array:
        columns = self.inverse.columns(rows)
        return columns if at is None else columns[at]

    @property
    def diagonal(self) -> Array:
        return self.inverse.diagonal

    def prepare(self) -> None:
        self.inverse.form()

    @cached_property
    def _whole(self) -> Array:
        """``C``, which costs as much whole as in parts."""
        return self.dense()

    def tiles(self, order: Positions) -> Tiles:
        return Stored(np.ascontiguousarray(self.dense().T[order]))

    def blocks(self, rows: npt.NDArray[np.intp]) -> Array:
        return np.stack([self.block(group) for group in rows])

    def functionals(self, some: slice) -> Array:
        return np.ascontiguousarray(self._whole[some])

    def couplings(self, rows: Positions, whitening: Any) -> Callable[[slice], Array]:
        everything = np.array_equal(rows, np.arange(self.rows.n))

        def tile(some: slice) -> Array:
            P = self.coupling(rows[some]).T
            P = P if everything else P[:, rows]
            if np.ndim(whitening) == 1:
                return np.ascontiguousarray(P * (-whitening[some, None] * whitening))
            return -(whitening[some][:, some] @ (P @ whitening.T))

        return tile

    def fit_by_weight(self, rows: Positions) -> FitByWeight:
        return DualFit(self.columns(rows), self.block(rows), self.residuals[rows], self.ridge)

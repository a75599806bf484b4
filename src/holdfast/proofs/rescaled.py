r"""What refitting scalers may add to the effect of a deletion.

Where refitting the preprocessing re-weights penalties and does nothing more
(:mod:`holdfast.models.scales`), write ``t`` for the parameters in coordinates in which the normal
matrix (or the Hessian) is the identity, :math:`τ_f` for the row of feature ``f`` there, ``w`` for a
recourse, :math:`δ_f = ρ_f(S) − 1` and :math:`D = Σ_f α δ_f τ_f τ_fᵀ`. At the optimum without ``S``
the gradient of the re-weighted problem is :math:`Σ_f α δ_f θ_{S,f} τ_f`, so

.. math:: effect_{whole}(S) = effect_{kept}(S) + Σ_f α δ_f θ_{S,f}\; w B^{-1} τ_f ,

where for least squares :math:`B = I_S + D`, :math:`I_S = I − U_SᵀU_S`, and for a smooth loss ``B``
is the re-weighted Hessian averaged between the two optima.

*First order*: :math:`Σ_f δ_f(S)\, G_f`, :math:`G_f = α θ_f\, w τ_f`. A variance, a range and a
largest value move by no more than the sum of what each row of ``S`` does to them
(:meth:`holdfast.models.scales.Scales.shares`), so every row is charged its part, with its sign; for
quantiles the largest move of all is taken off everybody's margin.

*The rest.* With :math:`\bar δ_f ≥ |δ_f|` and :math:`φ` the
largest fall over all ``S`` of ``k`` rows, ``h`` the sum of the largest leverages,
:math:`ν = ‖Tᵀ R T‖ ≤ 1`, and :math:`c_k, g_{f,k}, r_k` the lengths of the ``k`` largest entries of
:math:`U w`, :math:`U τ_f` and the residuals, :math:`I_S ≽ 1 − h`, :math:`B ≽ (1 − φ) I_S` and
:math:`B ≽ I_S − νφ` give

.. math:: |w B^{-1} τ_f − w τ_f| ≤ \frac{c_k g_{f,k}}{1−h}
          + \frac{\sqrt{ν \max \bar δ\; Σ_g α \bar δ_g a_g^2}\; ‖τ_f‖}{b},
          \qquad |θ_{S,f} − θ_f| ≤ \frac{g_{f,k} r_k}{1−h},

:math:`a_g = |w τ_g| + c_k g_{g,k}/(1−h) ≥ |w I_S^{-1} τ_g|` and
:math:`b = \max((1−h)(1−φ), 1−h−νφ)`. All terms are linear in the :math:`|δ_f|`, so rows are charged
their parts here too.

For a smooth loss, let ``M`` bound how far a remaining row's score moves when ``S`` goes, and ``m``
how far it moves further. Curvatures change by :math:`e^{±(M+m)}` at most, so with
:math:`v = (1−h) e^{-M} (1 − e^{-m})/m`

.. math:: \max((1−φ) v, v − νφ) ≼ B ≼ e^{M} \tfrac{e^{m} − 1}{m} + ν \max δ,

which bounds :math:`‖B^{-1} − I‖`; where it is less, :math:`|w B^{-1} τ − w τ|` is bounded by
:math:`(\sqrt{ν \max \bar δ\; Σ_g α \bar δ_g (w τ_g)^2} + ε‖w‖) ‖B^{-1}‖ ‖τ‖`, ``ε`` the most that
the curvatures change ``B`` by; and :math:`|θ_{S,f} − θ_f| ≤ ‖τ_f‖ ‖d‖_H`. The identity for the
rows themselves gives :math:`1 − e^{-m} ≤ L s e^{M} / ((1−φ)(1−h))` with ``L`` the longest row and
:math:`s ≥ ‖Σ α δ_f θ_{S,f} τ_f‖`, and then
:math:`m ≤ F(m) = Σ_f α |δ_f θ_{S,f}| \max_i |φ_i τ_f| + L s ‖B^{-1} − I‖`: as scaling the
:math:`δ_f` from 0 to 1 moves ``m`` continuously from 0, an ``m`` with ``F(m) < m`` is never
crossed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import numpy as np

from holdfast.algebra.boxes import many_rows
from holdfast.algebra.deletions import LowRankDeletions
from holdfast.algebra.rows import Array
from holdfast.proofs.candidates import Asked, Missed
from holdfast.proofs.logistic import Path, growth

#: moves of a score beyond which nothing is bounded
FARTHEST = 5.0

#: terms ``one_j Σ_f α |δ_f| each_f`` of what is beyond the first order: (q, m) and (m, features)
Beyond = list[tuple[Array, Array]]


class Rescaled:
    """What refitting the scalers may add to any deletion, for some recourses.

    Parameters
    ----------
    asked : Asked
    """

    def __init__(self, asked: Asked):
        model, units, points = asked.model, asked.units, asked.points
        self.model, self.units, self.budget = model, units, asked.budget
        self._form: Any = model.form(str(model.can.form))
        self.scales = model.scales
        self.kept = cast(LowRankDeletions, model.deletions(points, preprocessing="kept"))
        self.stay = units.rows(asked.stay)
        self.free = np.setdiff1d(np.arange(self.kept.rows.own), self.stay)
        first = int(self._form.intercept)
        self.T, self.theta = self._form.design.T[first:], self._form.theta[first:]
        self.penalty = self._form.penalty[first:]
        W = self.kept.queries
        self.along, self.lengths = W @ self.T.T, np.linalg.norm(W, axis=1)
        self.reach = np.linalg.norm(self.T, axis=1)
        self._latest: dict[int, tuple[Array, Array, Array, Any]] = {}

    def off_margins(self) -> Array:
        """For sets of ``k`` units, least squares: all of it off the margins, (q, budget + 1)."""
        hidden = np.zeros((len(self.lengths), self.budget + 1))
        if self._form.strength == 0 or not self.free.size:
            return hidden
        for k in range(1, self.budget + 1):
            beyond = self._beyond(k)
            if beyond is None:
                hidden[:, k:] = np.inf
                break
            weights = self.penalty * self._interval(k)[0]
            hidden[:, k] = np.abs(self.along) @ (weights * np.abs(self.theta))
            hidden[:, k] += sum(one @ (each @ weights) for one, each in beyond)
        return hidden * (1.0 + 1e-9)

    def by_row(self, missed: Missed | None = None, paths: list[Path] | None = None) -> Missed:
        """For sets of ``k`` rows: every row charged its part.

        For a smooth loss beside what its Newton step ``missed``; ``paths``: how far each ``k``
        leads.
        """
        q, n = len(self.lengths), self.kept.rows.n
        budget = self.budget if paths is None else len(paths) - 1
        if self._form.strength == 0:
            return missed or Missed.nothing(q, n, budget)
        slope = self.along * (self.penalty * self.theta)
        up_by, down_by = np.maximum(slope, 0.0), np.maximum(-slope, 0.0)
        parts: list[list[tuple[Array, Array]]] = [[]]
        hidden, beside = np.zeros((2, q, budget + 1))
        for k in range(1, budget + 1):
            beyond = self._beyond(k) if paths is None else self._beyond_newton(k, paths[k])
            if self.scales is None or beyond is None:
                budget = k - 1
                break
            up, down, either, known = self._shares(k)
            moved = self._interval(k)[0]
            part = [(up_by[:, known], up), (down_by[:, known], down)]
            if missed is not None:
                part += missed.parts[k]
                hidden[:, k] = missed.hidden[:, k]
            hidden[:, k] += np.abs(slope[:, ~known]) @ moved[~known]
            strange = self._strange(k)
            beside[:, k] = up_by @ strange[0] + down_by @ strange[1]
            if missed is not None and np.ndim(missed.outside):
                beside[:, k] += missed.outside[:, k]
            for one, each in beyond:
                weights = each * self.penalty
                part.append((one, weights[:, known] @ either))
                hidden[:, k] += one @ (weights[:, ~known] @ moved[~known])
                beside[:, k] += one @ (weights @ np.maximum(*strange))
            parts.append(part)
        beside = beside[:, : budget + 1] * (1.0 + 1e-9)
        return Missed(n, parts, hidden[:, : budget + 1] * (1.0 + 1e-9), budget, beside)

    def _strange(self, k: int) -> tuple[Array, Array]:
        """The most a row outside adds to each ``ρ − 1``, and to the contrary."""
        if self.kept.outside is None or self.scales is None:
            return np.zeros(len(self.penalty)), np.zeros(len(self.penalty))
        found: tuple[Array, Array] = self.scales.outside_shares(k)
        return found

    def _shares(self, k: int) -> tuple[Array, Array, Array, Any]:
        """Rows' parts, their larger one, and of which features.

        What holds for sets of up to ``k`` rows holds for smaller ones, and of many rows it is
        hardly less: there one look at them is enough.
        """
        k = self.budget if many_rows(self.kept) else k
        if k not in self._latest:
            assert self.scales is not None
            up, down, known = self.scales.shares(k, self.stay)
            known = known & self.scales.moving
            if not known.all():
                up, down = up[known], down[known]
            self._latest = {k: (up, down, np.maximum(np.maximum(up, down), 0.0), known)}
        return self._latest[k]

    def _interval(self, k: int) -> tuple[Array, float, float]:
        """How far each scale moves, the largest fall and the largest rise."""
        many = self._rows_of(k)
        memory = self.model.rows.memory.setdefault("whole", {})
        key = ("interval", many, *self.stay.tolist())
        if key not in memory:
            assert self.scales is not None
            memory[key] = self.scales.interval(many, self.stay)
        low, high = memory[key]
        fall, rise = float((1.0 - low).max(initial=0.0)), float((high - 1.0).max(initial=0.0))
        return np.maximum(1.0 - low, high - 1.0), fall, rise

    def _rows_of(self, k: int) -> int:
        return min(int(self._sizes[:k].sum()), self.free.size)

    @cached_property
    def _sizes(self) -> Any:
        return np.sort(self.units.sizes)[::-1]

    @cached_property
    def _largest(self) -> tuple[Array, Array, Array, Array]:
        """Leverages and lengths of the largest residuals and products, by how many rows go."""
        most, free = self._rows_of(self.budget), self.free
        outside = self.kept.outside
        leverage, residual = (0.0, 0.0) if outside is None else (outside.leverage, outside.residual)
        length = np.sqrt(leverage)  # of a row that is not here
        return (
            np.cumsum(np.maximum(np.sort(1.0 - self.kept.diagonal[free])[::-1], leverage)),
            _lengths(self.kept.residuals[None, free], most, np.array([residual]))[0],
            _lengths(self.T @ self.kept.factor[free].T, most, length * self.reach),
            np.concatenate(
                [
                    _lengths(
                        self.kept.functionals(slice(at, at + 256))[:, free],
                        most,
                        length * self.lengths[at : at + 256],
                    )
                    for at in range(0, len(self.lengths), 256)
                ]
            ),
        )

    @cached_property
    def _share(self) -> float:
        return float(np.linalg.norm((self.T.T * self.penalty) @ self.T, 2))

    def _beyond(self, k: int) -> Beyond | None:
        """Least squares, beyond the first order."""
        if self.scales is None:
            return None
        leverage, residuals, over_rows, over_points = self._largest
        many = self._rows_of(k)
        moved, fall, _ = self._interval(k)
        h = float(leverage[many - 1])
        if not (h < 1.0 and fall < 1.0):
            return None
        left = 1.0 - h
        g, c, r = over_rows[:, many - 1], over_points[:, many - 1, None], residuals[many - 1]
        further = g * r / left
        most = np.abs(self.theta) + further
        towards = np.abs(self.along) + c * g / left
        bent = np.sqrt(towards**2 @ (self.penalty * moved))
        bent *= np.sqrt(self._share * float(moved.max(initial=0.0)))
        bent /= max(left * (1.0 - fall), left - self._share * fall)
        return [
            (np.abs(self.along), np.diag(further)),
            (c / left, (g * most)[None]),
            (bent[:, None], (self.reach * most)[None]),
        ]

    def _beyond_newton(self, k: int, path: Path) -> Beyond | None:
        """A smooth loss, beyond the first order."""
        if self.scales is None:
            return None
        moved, fall, rise = self._interval(k)
        if not fall < 1.0:  # a column may become constant, and its scale another one altogether
            return None
        further = self.reach * path.distance
        most = np.abs(self.theta) + further
        size, nearby = self._size(k, self.reach * most), self._size(k, self._farthest * most)
        left = (1.0 - path.h) * np.exp(-path.M)

        def bent(m: float) -> float:
            """‖B⁻¹ − I‖ where no score moves further than ``m``."""
            if not m < FARTHEST:
                return np.inf
            curved = left / growth(m)
            least = max((1.0 - fall) * curved, curved - self._share * fall)
            highest = np.exp(path.M + m) / growth(m) + self._share * rise
            return float(max(1.0 / least - 1.0, 1.0 - 1.0 / highest)) if least > 0 else np.inf

        moves = self._longest * size / max((1.0 - fall) * left, 1e-300)
        m = float(-np.log1p(-moves)) if moves < 1.0 else np.inf
        m = min(m, _never_crossed(lambda at: nearby + self._longest * size * bent(at)))
        if not np.isfinite(m):
            return None
        curved = left / growth(m)
        inverse = 1.0 / max((1.0 - fall) * curved, curved - self._share * fall)
        # the penalty's part by how far a recourse lies along it, the curvatures' by lengths
        changed = max(path.h - np.expm1(-path.M - m), np.expm1(path.M + m))
        widest = self._share * float(moved.max(initial=0.0))
        aligned = np.sqrt(self.along**2 @ (self.penalty * moved) * widest)
        either = np.minimum(self.lengths * bent(m), (aligned + self.lengths * changed) * inverse)
        return [
            (np.abs(self.along), np.diag(further)),
            (either[:, None], (self.reach * most)[None]),
        ]

    def _size(self, k: int, each: Array) -> float:
        """The most ``Σ_f α |δ_f| each_f`` can be."""
        _, _, either, known = self._shares(k)
        weights, moved = self.penalty * each, self._interval(k)[0]
        by_row = weights[known] @ either
        strange = float(weights @ np.maximum(*self._strange(k)))
        rows = float(np.maximum(np.partition(by_row, -k)[-k:], strange).sum())
        rows += float(weights[~known] @ moved[~known])
        return min(rows, float(weights @ moved)) * (1.0 + 1e-9)

    @cached_property
    def _rows(self) -> Array:
        whitened: Array = self._form.design.whiten(self._form.training_features)
        return whitened

    @cached_property
    def _longest(self) -> float:
        if self.kept.outside is not None:
            return float(self._form.longest)
        return float(np.linalg.norm(self._rows, axis=1).max())

    @cached_property
    def _farthest(self) -> Array:
        """How far a row reaches in the direction of each feature."""
        if self.kept.outside is not None:
            return self._longest * self.reach
        return np.asarray(np.abs(self._rows @ self.T.T).max(axis=0))


def _never_crossed(F: Callable[[float], float]) -> float:
    """An ``m`` with ``F(m) < m``: what starts at 0 and moves continuously never passes it."""
    m = F(0.0)
    for _ in range(100):
        further = F(m) * (1.0 + 1e-6) + 1e-12
        if not further < FARTHEST:
            break
        if F(further) < further:
            return further
        m = further
    return np.inf


def _lengths(entries: Array, most: int, strange: Array) -> Array:
    """The lengths of the 1, 2, … largest entries of every line; ``strange``: of a row outside."""
    squares = entries**2
    if most < squares.shape[1]:
        squares = np.partition(squares, squares.shape[1] - most, axis=1)[:, -most:]
    squares = np.maximum(-np.sort(-squares, axis=1), strange[:, None] ** 2)
    return np.asarray(np.sqrt(np.cumsum(squares, axis=1)))

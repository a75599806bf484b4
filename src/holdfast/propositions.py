"""The paper's propositions as numbers, each beside what it bounds.

Every function returns a :class:`Bound`: the bound, the measured worst case over single deletions,
and their ratio. A bound whose assumptions the model does not meet is refused, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad_vec

from holdfast.algebra.rows import Array, Positions
from holdfast.errors import UnsupportedModelError
from holdfast.instability import first_order_change
from holdfast.models.erasable import ErasableModel
from holdfast.recourse.promises import points_of


@dataclass(frozen=True)
class Bound:
    """A bound and what it bounds, for every recourse or person.

    Attributes
    ----------
    name : str
    bound, measured : ndarray of shape (q,)
        The bound, and the largest value any single deletion reaches.
    assumptions : tuple of str
        What was checked to hold.
    """

    name: str
    bound: Array
    measured: Array
    assumptions: tuple[str, ...]

    @property
    def ratio(self) -> Array:
        """Bound over measured: 1 is tight."""
        return self.bound / np.where(self.measured > 0, self.measured, np.nan)


def outcome_linear(model: ErasableModel, given: Any) -> Bound:
    """Proposition 1: ``Δ ≤ ‖x̌‖ max_i ‖d_i‖`` for linear models.

    With an intercept, ``x̌`` and ``d_i`` are those with the constant included.
    """
    core = model.form("linear")
    points = points_of(given)
    deletions = model.deletions(points)
    alone = _deletable(deletions)
    shifts = (
        core.design.U * np.where(alone, deletions.single_steps, 0.0)[:, None]
    ) @ core.design.T.T
    longest = float(np.linalg.norm(shifts, axis=1).max())
    if deletions.outside is not None:
        longest = max(longest, float(np.linalg.norm(core.design.T, 2)) * deletions.outside.step)
    x = model.features(points)
    if core.centre is not None:  # parameters and features around the same centre
        x = np.column_stack([np.ones(len(x)), x - core.centre])
    return Bound(
        "Proposition 1",
        np.linalg.norm(x, axis=1) * longest,
        _worst(deletions.single_effects()),
        ("linear model", "one deletion"),
    )


def outcome_kernel(model: ErasableModel, given: Any) -> Bound:
    """Proposition 3: ``Δ ≤ ‖K(x̌, X)‖ max_i ‖d_i‖`` for the NTK and other kernel models."""
    core = model.form("kernel")
    if core.has_bias:
        raise UnsupportedModelError(
            f"Proposition 3 is about kernel ridge regression without a bias, not {model!r}"
        )
    points = points_of(given)
    deletions = model.deletions(points)
    _deletable(deletions)
    steps = np.nan_to_num(deletions.single_steps)
    longest, n = 0.0, model.rows.n
    for start in range(0, n, 512):
        rows = np.arange(start, min(start + 512, n))
        shifts = np.sqrt(core.weights)[:, None] * core.inverse.columns(rows) * steps[rows]
        longest = max(longest, float(np.linalg.norm(shifts, axis=0).max()))
    return Bound(
        "Proposition 3",
        np.linalg.norm(core.kernel(model.features(points), core.X), axis=1) * longest,
        _worst(deletions.single_effects()),
        ("kernel model without a bias", "one deletion"),
    )


def action_path(model: ErasableModel, people: Any, target: float, rows: Any) -> Bound:
    """Proposition 2: ``Φ₂ ≤ ‖d‖ ∫ ‖Dδ/Dw‖ dγ`` along the straight path, by quadrature.

    For one row or a set of them, and for every model whose optimal recourse has a Jacobian in
    closed form: linear models; logistic ones and their relatives, whose score is linear in the
    features; and kernel models, with the paper's first-order recourse ``(s − f) ∇f / ‖∇f‖²`` and
    the dual weights as parameters. The intercept is part of ``w``. The quadrature is adaptive, and
    its error estimate is added. Refused where the path passes through a vanishing gradient.
    """
    gone = np.atleast_1d(np.asarray(rows, dtype=np.intp))
    path = _kernel_path(model, people, gone) if model.can.form == "kernel" else None
    if path is None:
        path = _linear_path(model, people, gone)
    turned = path.g_after - path.g
    along = np.einsum("qd,qd->q", turned, turned)
    nearest = -np.einsum("qd,qd->q", path.g, turned) / np.where(along > 0, along, 1.0)
    nearest = np.clip(nearest, 0.0, 1.0)[:, None]
    shortest = np.linalg.norm(path.g + nearest * turned, axis=1)
    longest = np.maximum(np.linalg.norm(path.g, axis=1), np.linalg.norm(path.g_after, axis=1))
    if np.any(shortest < 1e-6 * longest):
        raise UnsupportedModelError(
            "the straight path between the weights passes through 0, where recourse is undefined: "
            "use action_linear"
        )
    integral, error = quad_vec(
        lambda share: path.norms(share, target), 0.0, 1.0, epsrel=1e-8, norm="max", limit=10_000
    )
    before = first_order_change(target - path.f, path.g)
    after = first_order_change(target - path.f_after, path.g_after)
    what = "one deletion" if gone.size == 1 else f"one set of {gone.size} deletions"
    return Bound(
        "Proposition 2",
        path.distance * (integral + error),
        np.linalg.norm(after - before, axis=1),
        (path.family, what, "λ → 0"),
    )


@dataclass(frozen=True)
class _Path:
    """Scores ``f`` and gradients ``g`` of q people, both linear in the weights, at both ends.

    ``kk``, ``kJ``, ``JJ`` are the products of their derivatives in the weights, ``k`` (q, p) and
    ``J`` (q, d, p): all that the Jacobian's norm needs of a long vector of weights.
    """

    family: str
    distance: float
    f: Array
    f_after: Array
    g: Array
    g_after: Array
    kk: Array
    kJ: Array
    JJ: Array

    def norms(self, share: float, target: float) -> Array:
        """Operator norms of ``D δ/D w`` where the path has ``share`` of the old weights (q,).

        ``Dδ/Dw = u kᵀ + M J`` with ``u = −g/‖g‖²`` and ``M = (s − f)/‖g‖² (I − 2 g gᵀ/‖g‖²)``.
        """
        f = share * self.f + (1 - share) * self.f_after
        g = share * self.g + (1 - share) * self.g_after
        length = np.einsum("qd,qd->q", g, g)
        u = -g / length[:, None]
        M = 2.0 * np.einsum("qd,qe->qde", u, g)
        M[:, np.arange(g.shape[1]), np.arange(g.shape[1])] += 1.0
        M *= ((target - f) / length)[:, None, None]
        cross = np.einsum("qd,qe,qfe->qdf", u, self.kJ, M)
        square = self.kk[:, None, None] * np.einsum("qd,qe->qde", u, u)
        square = square + cross + cross.transpose(0, 2, 1) + M @ self.JJ @ M.transpose(0, 2, 1)
        found: Array = np.sqrt(np.maximum(np.linalg.eigvalsh(square)[:, -1], 0.0))
        return found


def _linear_path(model: ErasableModel, people: Any, gone: Positions) -> _Path:
    """Of a score that is linear in the features: weights, and the intercept if there is one."""
    x, d = model.features(people), model.features(people).shape[1]
    probes = np.vstack([np.zeros(d), np.eye(d)])
    family = "linear model"
    if model.can.form == "linear":
        core = model.form("linear")
        before = core.scores(probes)
        after = before - core.deletions(probes, "scores", None).effect(gone)
        intercept = bool(core.intercept)
    else:
        core, family = model.form("smooth"), "score linear in the features, refitted"
        before, after = core.scores(probes), core.scores_at(core.optimum_without(gone), probes)
        intercept = True
    w, v = before[1:] - before[0], after[1:] - after[0]
    moved = np.append(w - v, before[0] - after[0] if intercept else 0.0)
    q = len(x)
    return _Path(
        family,
        float(np.linalg.norm(moved)),
        before[0] + x @ w,
        after[0] + x @ v,
        np.tile(w, (q, 1)),
        np.tile(v, (q, 1)),
        np.einsum("qd,qd->q", x, x) + float(intercept),
        x,
        np.tile(np.eye(d), (q, 1, 1)),
    )


def _kernel_path(model: ErasableModel, people: Any, gone: Positions) -> _Path:
    """Of a kernel model without a bias: its dual weights."""
    core = model.form("kernel")
    if core.has_bias:
        raise UnsupportedModelError(
            f"Proposition 2 is worked out for kernel models without a bias, not for {model!r}"
        )
    x = model.features(people)
    duals, moved = core.duals_with_and_without(gone)
    q, d = x.shape
    f, fell, kk = np.empty(q), np.empty(q), np.empty(q)
    g, turned, kJ, JJ = np.empty((q, d)), np.empty((q, d)), np.empty((q, d)), np.empty((q, d, d))
    for i in range(q):
        k = core.kernel(x[i : i + 1], core.X)[0]
        J = core.kernel.jacobian(x[i : i + 1], core.X).reshape(d, -1)
        f[i], fell[i], kk[i] = k @ duals, k @ moved, k @ k
        g[i], turned[i], kJ[i], JJ[i] = J @ duals, J @ moved, J @ k, J @ J.T
    distance = float(np.linalg.norm(moved))
    return _Path("kernel model", distance, f, f - fell, g, g - turned, kk, kJ, JJ)


def action_linear_paper(model: ErasableModel, people: Any, target: float) -> Bound:
    """The paper's corollary, ``Φ₂ ≤ 4√2 ‖x‖ max‖d_i‖ / min(‖w‖, ‖w₋ᵢ‖)``.

    Holds for target 0, no intercept, λ → 0, one deletion and ``wᵀw₋ᵢ ≥ 0`` (the appendix prints
    ``≤``) only, and is refused elsewhere.
    """
    core = model.form("linear")
    if target != 0 or core.intercept:
        raise UnsupportedModelError(
            f"the paper's corollary holds for target 0 and no intercept; here the target is "
            f"{target:g}{' and there is an intercept' if core.intercept else ''}: use action_linear"
        )
    x, (b, w), b_after, w_after = before_and_after(model, people, None)
    if np.any(w_after @ w < 0):
        raise UnsupportedModelError(
            "the paper's corollary assumes that no deletion turns the weights around (wᵀw₋ᵢ ≥ 0); "
            "one does: use action_linear"
        )
    shortest = min(np.linalg.norm(w), np.linalg.norm(w_after, axis=1).min())
    longest = np.linalg.norm(w - w_after, axis=1).max()
    bound = 4 * np.sqrt(2) * np.linalg.norm(x, axis=1) * longest / shortest
    measured = action_by_row(x, w, b, w_after, b_after, target).max(axis=0)
    assumptions = ("target 0", "no intercept", "λ → 0", "one deletion", "wᵀw₋ᵢ ≥ 0")
    return Bound("Corollary (paper)", bound, measured, assumptions)


def action_linear(model: ErasableModel, people: Any, target: float, rows: Any = None) -> Bound:
    r"""A bound on Φ₂ for any target, with an intercept, any deleted set and no sign condition.

    The recourse is the projection ``x̌ = (I − ŵŵᵀ)x + (s − b) w/‖w‖²``. Projections along two
    directions differ by at most ``‖x‖ sin θ ≤ ‖x‖ ‖w − w₋‖ / max(‖w‖, ‖w₋‖)``, and inversion maps
    ``w`` and ``w₋`` to points ``‖w − w₋‖ / (‖w‖‖w₋‖)`` apart, so

    .. math:: Φ ≤ ‖w − w₋‖ \Big( \frac{‖x‖}{\max(‖w‖, ‖w₋‖)} + \frac{|s − b|}{‖w‖‖w₋‖} \Big)
              + \frac{|b − b₋|}{‖w₋‖}.

    Parameters
    ----------
    rows : sequence of int, optional
        One deleted set; by default the worst single row.
    """
    x, (b, w), b_after, w_after = before_and_after(model, people, rows)
    moved = np.linalg.norm(w - w_after, axis=1)
    length, lengths = np.linalg.norm(w), np.linalg.norm(w_after, axis=1)
    per_unit = moved / np.maximum(length, lengths)
    constant = moved * abs(target - b) / (length * lengths) + np.abs(b - b_after) / lengths
    bounds = np.linalg.norm(x, axis=1)[None] * per_unit[:, None] + constant[:, None]
    measured = action_by_row(x, w, b, w_after, b_after, target)
    assumptions = ("linear model", "λ → 0", "one deletion" if rows is None else "one deleted set")
    return Bound("Corollary (general)", bounds.max(axis=0), measured.max(axis=0), assumptions)


def before_and_after(
    model: ErasableModel, people: Any, rows: Any
) -> tuple[Array, tuple[float, Array], Array, Array]:
    """Features; intercept and weights; the same after each single deletion, or one set's."""
    core = model.form("linear")
    x = model.features(people)
    d = x.shape[1]
    # the weights are linear functionals of the fit: scores at the unit vectors minus at 0
    probes = np.vstack([np.zeros(d), np.eye(d)])
    deletions = core.deletions(probes, "scores", None)
    before = core.scores(probes)
    if rows is None:
        drops = deletions.single_effects()
        drops = drops[:, _deletable(deletions)].T
    else:
        drops = deletions.effect(rows)[None]
    after = before - drops
    weights = before[1:] - before[0]
    return x, (float(before[0]), weights), after[:, 0], after[:, 1:] - after[:, :1]


def action_by_row(
    x: Array, w: Array, b: float, w_after: Array, b_after: Array, target: float
) -> Array:
    """Φ₂ of every person for every alternative, (alternatives, q)."""
    now = first_order_change(target - b - x @ w, np.broadcast_to(w, x.shape))
    then = [
        first_order_change(target - c - x @ v, np.broadcast_to(v, x.shape))
        for v, c in zip(w_after, b_after, strict=True)
    ]
    return np.linalg.norm(np.asarray(then) - now, axis=2)


def _deletable(deletions: Any) -> Any:
    """Which rows can go alone; a bound over none of them says nothing."""
    if not deletions.deletable.any():
        raise UnsupportedModelError(
            "no training row can be deleted alone: there are too few for this model"
        )
    return deletions.deletable


def _worst(effects: Array) -> Array:
    return np.nanmax(np.abs(effects), axis=1)

r"""Certificates in numbers of people, each taking all their rows along.

The block form of the boxes: with :math:`c̃_B = P_{BB}^{-½}c_B`, :math:`r̃_B = P_{BB}^{-½}r_B` and
:math:`E_{BB'} = −P_{BB}^{-½}P_{BB'}P_{B'B'}^{-½}`, :math:`effect = Σ_B c̃_Bᵀ x_B` where
:math:`x_B = r̃_B + Σ_{B'} E_{BB'} x_{B'}`. A verified super-solution of
:math:`ζ_B = ‖r̃_B‖ + \text{top}_{k−1} ‖E_{BB'}‖_F ζ_{B'}` bounds :math:`‖x_B‖`, so that

.. math:: effect(S) ≤ Σ_{B ∈ S} \left( c̃_Bᵀr̃_B + ‖c̃_B‖ (ζ_B − ‖r̃_B‖) \right)^+ .

It is exact for one person. For more it is valid but weaker than the row form (norms forget signs),
and no tree is grown on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from scipy import linalg, sparse

from holdfast.algebra.boxes import Lists
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Mask
from holdfast.algebra.units import Units
from holdfast.proofs.candidates import Verdicts
from holdfast.proofs.rows import by_bound


def verdicts_by_subject(
    deletions: Deletions,
    units: Units,
    margins: Array,
    errors: Array,
    hidden: Array,
    budget: int,
    deadline: float,
) -> Verdicts:
    """Certify and attack every recourse, one unit of deletion being one subject.

    ``errors`` (q,) is what rounding may hide, ``hidden`` (q, budget + 1) what the formula misses.
    """
    q, count = margins.size, len(units)
    whitening, touched = _whitening(deletions, units)
    residuals = whitening @ deletions.residuals[units.order]
    starts = units.starts[:-1]
    lengths = np.sqrt(np.add.reduceat(residuals**2, starts))

    def tiles() -> Iterator[tuple[int, Array]]:
        return _norms(deletions, units, whitening)

    lists = Lists(tiles, lengths, budget)
    C = deletions.dense()[:, units.order] @ whitening.T
    direct = np.add.reduceat(C * residuals, starts, axis=1)
    widths = np.sqrt(np.add.reduceat(C**2, starts, axis=1))
    bound = np.zeros((q, budget + 1))
    z, limit = lengths, 0
    for k in range(1, budget + 1):
        grown = lists.super_solution(lengths, z, k)
        if grown is None:
            break
        limit, z = k, grown
        excess = np.zeros(count) if k == 1 else z - lengths
        gains = np.maximum(direct + widths * excess, 0.0)
        bound[:, k] = np.partition(gains, count - k, axis=1)[:, -k:].sum(axis=1)
    bound *= 1.0 + 1e-9
    proof = (margins - errors)[:, None] - hidden[:, : limit + 1]
    result = by_bound(bound[:, : limit + 1], proof, touched)
    for j in np.flatnonzero((result.certified < budget) & ~touched).tolist():
        if time.monotonic() > deadline:
            break
        _attack(result, deletions, units, direct[j], j, budget, float(margins[j] + errors[j]))
    return result


def _attack(
    result: Verdicts,
    deletions: Deletions,
    units: Units,
    alone: Array,
    j: int,
    budget: int,
    margin: float,
) -> None:
    """The people who do most alone, taken together until the recourse breaks."""
    order = np.argsort(-alone)[:budget]
    for k in range(int(result.certified[j]) + 1, budget + 1):
        rows = units.rows(order[:k].tolist())
        try:
            drop = deletions.columns(rows)[j] @ deletions.solve(rows)
        except ValueError:  # together they leave no unique fit
            return
        if drop > margin:
            result.attacked[j], result.witness[j] = k, tuple(order[:k].tolist())
            return


def _whitening(deletions: Deletions, units: Units) -> tuple[sparse.csr_array, Mask]:
    """``P_BB^-½`` of every unit, block by block, and recourses a singular block touches.

    A direction in which ``P_BB`` vanishes has residual 0 and no coupling: it is left out.
    """
    q = int(np.prod(deletions.shape))
    blocks, touched = [], np.zeros(q, dtype=bool)
    for u in range(len(units)):
        rows = units.rows([u])
        values, vectors = linalg.eigh(deletions.block(rows))
        fine = values > deletions.floor
        if not fine.all():
            c = np.abs(deletions.columns(rows) @ vectors[:, ~fine])
            touched |= np.any(c > 1e-7 * deletions.lengths[:, None], axis=1)
        root = np.where(fine, values, 1.0) ** -0.5 * fine
        blocks.append((vectors * root) @ vectors.T)
    return sparse.csr_array(sparse.block_diag(blocks, format="csr")), touched


def _norms(
    deletions: Deletions, units: Units, whitening: sparse.csr_array
) -> Iterator[tuple[int, Array]]:
    """``‖E_BB'‖_F`` for a few units at a time."""
    starts, order = units.starts, units.order
    couplings = deletions.couplings(order, whitening)
    for first, last in units.chunks(max(1, (1 << 22) // order.size)):
        rows = slice(int(starts[first]), int(starts[last]))
        squares = np.add.reduceat(couplings(rows) ** 2, starts[:-1], axis=1)
        tile = np.sqrt(np.add.reduceat(squares, starts[first:last] - starts[first], axis=0))
        tile[np.arange(last - first), np.arange(first, last)] = 0.0
        yield first, np.ascontiguousarray(tile)

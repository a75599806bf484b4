"""Certificates by the algebra: how many deletions each recourse provably survives."""

from __future__ import annotations

import numpy as np

from holdfast.algebra.boxes import boxes
from holdfast.algebra.deletions import Deletions
from holdfast.algebra.rows import Array, Mask
from holdfast.proofs.candidates import Candidates, Missed, Remainder, Verdicts
from holdfast.proofs.refined import Refined


def verdicts(
    deletions: Deletions,
    margins: Array,
    errors: Array,
    budget: int,
    deadline: float,
    remainder: Remainder | None = None,
) -> Verdicts:
    """Certify and attack every recourse.

    Parameters
    ----------
    deletions : Deletions
        Of the recourses' scores.
    margins : (q,)
        Score minus target.
    errors : (q,)
        What rounding may hide, absolute.
    remainder : callable, optional
        From the boxes, what the formula may miss of a true effect; nothing where it is exact.
    """
    q, n = margins.size, deletions.rows.n
    found = boxes(deletions, budget, groups=deletions.exact)
    missed = Missed.nothing(q, n, budget) if remainder is None else remainder(found)
    apart = [cluster.rows for cluster in found.clusters]
    apart.append(np.flatnonzero(~deletions.deletable))
    missed = missed.set_aside(np.concatenate(apart))
    limit = min(found.limit, missed.limit if deletions.exact else missed.useful(margins))
    lists = Candidates(deletions, found, missed, limit)
    reached = np.zeros((q, limit + 1))
    for k in range(1, limit + 1):
        reached[:, k] = lists.reach(found, k)
    reached *= 1.0 + 1e-10
    proof = margins[:, None] - errors[:, None] - missed.hidden[:, : limit + 1] - 1e-9 * reached
    result = by_bound(reached, proof, _touched_by_singular(deletions))
    result.boxes, result.missed = found, missed
    for j in np.flatnonzero((result.certified < budget) & ~result.singular).tolist():
        Refined(deletions, found, lists, j, margins[j], errors[j], proof[j]).into(
            result, budget, deadline
        )
    result.singular |= (result.certified == lists.cap) & (result.attacked != lists.cap + 1)
    return result


def by_bound(reached: Array, proof: Array, singular: Mask) -> Verdicts:
    """What bounds alone certify: ``reached`` and ``proof`` are (q, limit + 1), ``k`` = 0 first."""
    q, limit = len(reached), reached.shape[1] - 1
    proven = reached <= proof
    proven[:, 0] = True
    certified = np.where(proven.all(axis=1), limit, np.argmin(proven, axis=1) - 1)
    certified[singular] = 0
    return Verdicts(
        certified=certified,
        attacked=np.zeros(q, dtype=np.intp),
        witness=[()] * q,
        bound=reached[np.arange(q), certified],
        singular=singular,
        limit=limit,
    )


def _touched_by_singular(deletions: Deletions) -> Mask:
    """Recourses whose score a deletion without a unique refit would touch (q,) bool.

    A row of leverage 1 has residual 0 and is coupled to no other: deleting it moves only scores
    with a component in the direction it alone determines.
    """
    q = int(np.prod(deletions.shape))
    alone = np.flatnonzero(deletions.diagonal <= deletions.floor)
    if alone.size == 0:
        return np.zeros(q, dtype=bool)
    touched = np.abs(deletions.columns(alone))
    found: Mask = np.any(touched > 1e-7 * deletions.lengths[:, None], axis=1)
    return found

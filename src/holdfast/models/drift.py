"""How far a fitted model is from its own optimum, and when that matters."""

from __future__ import annotations

import numpy as np

from holdfast.algebra.rows import Array
from holdfast.errors import DataMismatchError

#: drift, in standard deviations of the training scores, worth a warning
WORTH_A_WARNING = 0.01
#: drift, and share of the rows' gradients not cancelled, beyond which the data are not the fit's
TOO_FAR, UNCANCELLED = 0.05, 0.003


def spread_of(scores: Array, y: Array) -> float:
    """The standard deviation of the scores, or of the labels where the scores hardly vary."""
    noise = 1e-9 * float(np.max(np.abs(scores), initial=0.0))
    for spread in (float(np.std(scores)), float(np.std(y))):
        if spread > noise:
            return spread
    return float(np.max(np.abs(y), initial=0.0)) or 1.0


def drift_between(fitted: Array, optimal: Array, y: Array) -> float:
    """Largest change of a training score, in standard deviations of the scores."""
    return float(np.max(np.abs(fitted - optimal))) / spread_of(optimal, y)


def gradient_share(total: Array, row_norms: Array) -> float:
    """How much of the rows' gradients does not cancel at the fitted weights: 0 at an optimum."""
    return float(np.linalg.norm(total) / (row_norms.sum() or 1.0))


def judge(drift: float, share: float, name: str, advice: str, noise: float = 1.0) -> str | None:
    """Refuse what is too far from stationary to be an early stop; word a drift that matters.

    ``noise``: how many times as far as others a fit may stop that goes by random rows.
    """
    if drift > noise * TOO_FAR and share > noise * UNCANCELLED:
        raise DataMismatchError(
            f"either X and y are not the data this {name} was fitted on, or its fit stopped far "
            f"from its optimum: at its weights {share:.1%} of the rows' gradients do not cancel, "
            f"and at the optimum on these data a training row scores differently by up to "
            f"{drift:.3g} standard deviations of the scores. Pass the training data themselves, "
            f"with the sample_weight of the fit if any. If they are right: {advice}"
        )
    return warning_of(drift, advice)


def warning_of(drift: float, advice: str) -> str | None:
    """What to warn of where a drift matters."""
    if drift <= WORTH_A_WARNING:
        return None
    return (
        f"the fitted model had stopped short of its optimum: polishing it moved a training score "
        f"by up to {drift:.2g} standard deviations of the scores. Scores, deletions and refits "
        f"here are those of the optimum. {advice}"
    )

r"""Networks trained with differential privacy, on a path of ε: does that help promises to survive?

The network is trained again by DP-SGD (opacus), from new parameters, behind the same
preprocessing: ``(ε, δ)``-differentially private for one row added or removed, with ``δ`` the power
of ten at or below ``0.1/n``, **provided that the preprocessing, the number of rows and the range of
a regression's labels are public**. People are promised recourse by that model. The attack trains
it again without rows, the seed of its noise kept; what fresh noise alone breaks, with nobody
erased, is measured beside it, and so is quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from holdfast.audits.hardening.comparison import Comparison, Mitigation, promised
from holdfast.errors import UnsupportedModelError
from holdfast.estimators.private_networks import (
    PrivateNetworkClassifier,
    PrivateNetworkRegressor,
    training,
)
from holdfast.models.erasable import ErasableModel, erasable
from holdfast.models.refits import Refits, shares_broken
from holdfast.shared_state import quiet

#: trainings with other seeds, to tell what fresh noise breaks
FRESH = 3


def private_networks(
    case: Comparison, epsilons: Sequence[float], draws: int, epochs: int
) -> list[Mitigation]:
    """One way of doing it for every ε and draw of the noise."""
    base = case.model
    if base.sample_weight is not None or case.unit != "row":
        raise UnsupportedModelError(
            "private training is accounted for by single rows of equal weight"
        )
    if base.form("network").problem.loss.name == "callable":
        raise UnsupportedModelError(
            "a network is trained privately under logistic or squared loss; this one has a loss of "
            "its own"
        )
    training()  # says what is missing before anything is trained
    seeds = np.random.default_rng(case.random_state)
    made: list[Mitigation] = []
    for epsilon in epsilons:
        for draw in range(draws):
            case.tell("private training", len(made), len(epsilons) * draws)
            made.append(_at(case, epsilon, draw, epochs, int(seeds.integers(2**31))))
    case.tell("private training", len(made), len(made))
    return made


def _at(case: Comparison, epsilon: float, draw: int, epochs: int, seed: int) -> Mitigation:
    """Recourse by the privately trained network, for the same people."""
    model = _trained(case.model, epsilon, epochs, seed)
    given = case.recourse(model)
    made = promised("private", f"ε={epsilon:g}, draw {draw + 1}", model, given, case)
    again = float("nan")
    if len(made.points):
        fresh = Refits(model, made.points).reseeded(np.random.default_rng(seed), FRESH)
        again = float(shares_broken(fresh, case.target).mean())
    last: Any = model.last_step.estimator
    made.note = (
        f"(ε, δ)-differentially private weights (ε = {last.epsilon_:.3g}, δ = {last.delta_:.1e}; "
        f"DP-SGD, {epochs} epochs, a row in a batch with probability {last.share_:.3g}, gradients "
        f"clipped at {last.clip:g}, noise {last.noise_multiplier_:.2f} times that; Rényi "
        "accounting), taking preprocessing, number of rows and label range as public; the same "
        f"seed kept on refitting. Fresh noise alone breaks {again:.0%}"
    )
    return made


def _trained(base: ErasableModel, epsilon: float, epochs: int, seed: int) -> ErasableModel:
    core: Any = base.form("network")
    kind: Any = PrivateNetworkRegressor if base.classes is None else PrivateNetworkClassifier
    penalty = float(core.network.penalty.max())
    last = kind(core.network.as_module(), epsilon, penalty, epochs, random_state=seed)
    estimator = last
    if base.preprocessing is not None:
        estimator = Pipeline([*clone(base.estimator).steps[:-1], ("private", last)])
    with quiet:
        fitted = estimator.fit(base.queries(base.X, "X"), base.y)
        return erasable(fitted, base.X, base.y, base.rows.subjects, None, base.favourable)

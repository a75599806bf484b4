"""DP-SGD by opacus (imported only beside torch and opacus)."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.validators import ModuleValidator
from torch.utils.data import DataLoader, TensorDataset

from holdfast.algebra.rows import Array
from holdfast.errors import UnsupportedModelError
from holdfast.estimators.torch_network import LOSSES, started_anew
from holdfast.shared_state import quiet


def trained_privately(
    module: Any,
    loss: str,
    X: Array,
    y: Array,
    epsilon: float,
    delta: float,
    epochs: int,
    share: float,
    clip: float,
    rate: float,
    decay: float,
    seed: int,
) -> tuple[Any, float, float]:
    """A copy of the module trained from new parameters, ε as accounted for, the noise multiplier.

    Parameters
    ----------
    share : float
        Which part of the rows is in a batch on average: every row is drawn by itself.
    clip : float
        The longest gradient of one row.
    rate, decay : float
        Of Adam.
    """
    made = started_anew(module, seed).double().train()
    wrong = ModuleValidator.validate(made)
    if wrong:
        raise UnsupportedModelError(
            f"opacus cannot train this module privately: {str(wrong[0]).splitlines()[0]}"
        )
    rows = TensorDataset(torch.tensor(X), torch.tensor(y))
    sampling = torch.Generator().manual_seed(seed)
    batch = max(1, round(share * len(rows)))
    loader: Any = DataLoader(rows, batch_size=batch, generator=sampling)
    optimizer: Any = torch.optim.Adam(made.parameters(), lr=rate, weight_decay=decay)
    with quiet:
        engine = PrivacyEngine(accountant="rdp")
        noise, spent = _account(epsilon, delta, 1.0 / len(loader), epochs)
        private, optimizer, loader = engine.make_private(
            module=made,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=clip,
            noise_generator=torch.Generator().manual_seed(seed + 1),
        )
        for _ in range(epochs):
            for x, labels in loader:
                optimizer.zero_grad()
                LOSSES[loss](private(x).reshape(-1), labels).mean().backward()
                optimizer.step()
    trained = copy.deepcopy(module).double().eval()  # without the hooks that opacus leaves
    trained.load_state_dict(private._module.state_dict())
    return trained, spent, noise


@functools.lru_cache(maxsize=256)
def _account(epsilon: float, delta: float, share: float, epochs: int) -> tuple[float, float]:
    """The noise that keeps all steps within ε, and what they spend; seconds of work, so kept."""
    noise = get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=share,
        epochs=epochs,
        accountant="rdp",
    )
    accountant = RDPAccountant()
    accountant.history = [(noise, share, int(epochs / share))]
    return float(noise), float(accountant.get_epsilon(delta))

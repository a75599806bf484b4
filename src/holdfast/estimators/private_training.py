"""DP-SGD by opacus (imported only beside torch and opacus)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from opacus import PrivacyEngine
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
    sampling, noise = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 1)
    batch = max(1, round(share * len(rows)))
    loader: Any = DataLoader(rows, batch_size=batch, generator=sampling)
    optimizer: Any = torch.optim.Adam(made.parameters(), lr=rate, weight_decay=decay)
    engine = PrivacyEngine(accountant="rdp")
    with quiet:
        private, optimizer, loader = engine.make_private_with_epsilon(
            module=made,
            optimizer=optimizer,
            data_loader=loader,
            target_epsilon=epsilon,
            target_delta=delta,
            epochs=epochs,
            max_grad_norm=clip,
            noise_generator=noise,
        )
        for _ in range(epochs):
            for x, labels in loader:
                optimizer.zero_grad()
                LOSSES[loss](private(x).reshape(-1), labels).mean().backward()
                optimizer.step()
        spent = float(engine.get_epsilon(delta))
    trained = copy.deepcopy(module).double().eval()  # without the hooks that opacus leaves
    trained.load_state_dict(private._module.state_dict())
    return trained, spent, float(optimizer.noise_multiplier)

"""Small trainings inside a trial, of models or losses that no recipe describes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import torch
from torch import Tensor, nn

from inweights.lab import Draw
from inweights.ledger import Trial, kept

M = TypeVar("M", bound=nn.Module)


def fitted(
    trial: Trial,
    name: str,
    build: Callable[[], M],
    loss: Callable[[M, Draw], Tensor],
    *,
    steps: int,
    batch: int = 64,
    rate: float = 3e-3,
) -> M:
    """A model with the seed of the trial after `steps` steps of Adam on `loss(model, draw)`, where the draw has `batch`
    rows. The rate falls linearly to 0 after a short rise. Trained once: claims that share a `name` share the weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        model = build().to(trial.device)

    @wraps(loss)  # so that the code that it reaches is part of the key
    def train() -> dict[str, Tensor]:
        optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.99), fused=True)
        for step in range(steps):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
            optimiser.zero_grad(set_to_none=True)
            loss(model, Draw(trial.seed, step, batch, device=trial.device)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            trial.beat()
        return {name: value.detach() for name, value in model.state_dict().items()}

    model.load_state_dict(kept(f"{name}-{trial.seed}-{steps}-{batch}-{rate:g}", train))
    return model.eval().requires_grad_(False)

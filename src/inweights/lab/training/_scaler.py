"""Loss scaling for float16: gradients are scaled against underflow, and steps with overflow are skipped."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scaler:
    """Like `torch.amp.GradScaler`, but without synchronising with the device, so that it can be part of a CUDA graph.

    `overflow` is 1 if the last gradients were not finite: the step must then do nothing. The scale is halved after an
    overflow, and doubled after `patience` steps without one.
    """

    def __init__(self, device: torch.device, patience: int = 500) -> None:
        self.scale = torch.full((), 2.0**10, device=device)
        self.good = torch.zeros((), dtype=torch.int32, device=device)
        self.overflow = torch.zeros((), device=device)
        self.patience = patience

    def backward(self, objective: Tensor, model: nn.Module) -> None:
        """Computes the unscaled gradients of the objective in the parameters, and sets `overflow`."""
        (objective * self.scale).backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        self.overflow.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(grads, self.overflow, self.scale.reciprocal())
        torch._amp_update_scale_(self.scale, self.good, self.overflow, 2.0, 0.5, self.patience)

    def state(self) -> dict[str, Tensor]:
        return {"scaler.scale": self.scale, "scaler.good": self.good}

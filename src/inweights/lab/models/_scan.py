"""A linear recurrence that is cheap to train."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo


class _Scan(torch.autograd.Function):
    generate_vmap_rule = True  # several weights at once

    @staticmethod
    def forward(decay: Tensor, x: Tensor) -> Tensor:
        state, states = x[:, 0], [x[:, 0]]
        for i in range(1, x.shape[1]):
            state = torch.addcmul(x[:, i], decay[:, i], state)
            states.append(state)
        return torch.stack(states, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        decay, y = ctx.saved_tensors
        n = y.shape[1]
        g, gs = grad[:, -1], [grad[:, -1]]
        for i in range(n - 2, -1, -1):
            g = torch.addcmul(grad[:, i], decay[:, i + 1], g)
            gs.append(g)
        x_grad = torch.stack(gs[::-1], 1)
        decay_grad = torch.cat([torch.zeros_like(y[:, :1]), x_grad[:, 1:] * y[:, :-1]], 1)
        return decay_grad, x_grad


# Not compiled: torch.compile would unroll the loop over tokens. `torch.compiler.disable` would import the compiler at
# once, which takes as long as torch itself; this waits for the first call.
@_disable_dynamo
def _apply(decay: Tensor, x: Tensor) -> Any:
    return _Scan.apply(decay, x)


def scan(decay: Tensor, x: Tensor) -> Tensor:
    """`y_i = decay_i ⊙ y_{i−1} + x_i`, all `(batch, n, d)`: `blocks`' `linear_scan`, for training on short sequences.

    `linear_scan` takes `log2 n` steps over the whole sequence and stores each for the backward pass. This makes one
    pass forward and one back: on one core, for 64 prompts of 82 tokens, it is 9 times faster for d = 64, and 36 times
    for d = 2,048.
    """
    y: Tensor = _apply(decay, x)
    return y

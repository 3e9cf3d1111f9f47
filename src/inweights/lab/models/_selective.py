"""Mamba's selective scan, with a backward pass of its own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo


class _Selective(torch.autograd.Function):
    """Of the tensors of size tokens × width × state only the states are stored; others are recomputed in pieces.

    The states are outputs beside the result, as only inputs and outputs can be saved where several weights are scanned
    at once."""

    generate_vmap_rule = True

    @staticmethod
    def forward(delta: Tensor, u: Tensor, b: Tensor, c: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        state = u.new_zeros(u.shape[0], *rate.shape)
        states, outputs = [state], []
        for piece in _pieces(u):
            d = delta[:, piece]
            decay = torch.exp(-d.unsqueeze(-1) * rate)
            x = (d * u[:, piece]).unsqueeze(-1) * b[:, piece].unsqueeze(-2)
            for i in range(d.shape[1]):
                state = torch.addcmul(x[:, i], decay[:, i], state)
                states.append(state)
            after = torch.stack(states[piece.start + 1 :], 1)
            outputs.append((after @ c[:, piece].unsqueeze(-1)).squeeze(-1))
        return torch.cat(outputs, 1), *states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        states = output[1:]
        ctx.mark_non_differentiable(*states)
        ctx.set_materialize_grads(False)  # no zeros for the states
        ctx.save_for_backward(*inputs, *states)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        delta, u, b, c, rate, *states = ctx.saved_tensors
        later, rate_grad = torch.zeros_like(states[0]), torch.zeros_like(rate)
        grads = []
        for piece in reversed(_pieces(u)):
            d, v, g = delta[:, piece], u[:, piece], grad[:, piece]
            before, after = (torch.stack(states[piece.start + k : piece.stop + k], 1) for k in (0, 1))
            decay = torch.exp(-d.unsqueeze(-1) * rate)
            own = g.unsqueeze(-1) * c[:, piece].unsqueeze(-2)
            reached = []  # the gradients of the states, from the last to the first
            for i in reversed(range(d.shape[1])):
                reached.append(own[:, i] + later)
                later = reached[-1] * decay[:, i]
            G = torch.stack(reached[::-1], 1)
            c_grad = (g.unsqueeze(-2) @ after).squeeze(-2)
            b_grad = ((d * v).unsqueeze(-2) @ G).squeeze(-2)
            in_grad = (G @ b[:, piece].unsqueeze(-1)).squeeze(-1)
            exponent_grad = G * before * decay
            rate_grad -= (d.unsqueeze(-1) * exponent_grad).sum((0, 1))
            grads.append((in_grad * v - (exponent_grad * rate).sum(-1), in_grad * d, b_grad, c_grad))
        parts = zip(*reversed(grads), strict=True)
        return (*(torch.cat(part, 1) for part in parts), rate_grad)


def _pieces(u: Tensor) -> list[slice]:
    """The tokens that are processed together: all on a GPU, one on a CPU, to fit its cache."""
    n = u.shape[1]
    size = n if u.is_cuda else 1
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


# Not compiled: torch.compile would unroll the loop over tokens. `torch.compiler.disable` would import the compiler at
# once, which takes as long as torch itself; this waits for the first call.
@_disable_dynamo
def _apply(delta: Tensor, u: Tensor, b: Tensor, c: Tensor, rate: Tensor) -> Any:
    return _Selective.apply(delta, u, b, c, rate)[0]


def selective_scan(delta: Tensor, u: Tensor, b: Tensor, c: Tensor, rate: Tensor) -> Tensor:
    """`H_i = exp(−δ_i rate) ⊙ H_{i−1} + (δ_i ⊙ u_i) b_iᵀ`, `y_i = H_i c_i`.

    `delta` and `u` are `(batch, n, inner)`, `b` and `c` `(batch, n, size)`, `rate` `(inner, size)`; the result is
    `(batch, n, inner)`.
    """
    # Decays are multiplied hundreds of times: they keep the precision of their rates under autocast.
    with nullcontext() if u.is_meta else torch.autocast(u.device.type, enabled=False):  # meta has no autocast
        delta, u, b, c = (t.to(rate.dtype) for t in (delta, u, b, c))
        y: Tensor = _apply(delta, u, b, c, rate)
    return y.to(u.dtype)

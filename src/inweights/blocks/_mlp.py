"""The dense part of a block, and the two ways in which changes of its weights act.

*Input controls* are the matrices that read its input `z`: with `ΔW = W Δz zᵀ/‖z‖²` on each of them, the
input `z` has the effect that `z + Δz` had before. *Output controls* add a given vector to its output.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights._errors import InputError, Problems
from inweights.theory import Shift, Update, implicit_update, residual_bias, residual_matrix


class Dense(nn.Module):
    """`W' g(W z + b) + b'`.

    - `inputs`: names of the parameters that are input controls.
    - `outputs`: its output controls, the preferred one first: `"matrix"` (`W'`) or `"bias"` (`b'`).
    """

    inputs: tuple[str, ...] = ("first.weight",)
    outputs: tuple[str, ...] = ("matrix", "bias")

    def __init__(
        self,
        width: int,
        hidden: int,
        out: int | None = None,
        activation: Callable[[Tensor], Tensor] = F.gelu,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, out or width)
        self.activation = activation

    def inner(self, z: Tensor) -> Tensor:
        """The inner activation `h`, which the last matrix reads: `(..., hidden)`."""
        return self.activation(self.first(z))

    def forward(self, z: Tensor) -> Tensor:
        return self.last(self.inner(z))

    def steer(self, z: Tensor, dz: Tensor, carrier: Tensor | None = None) -> tuple[Update, ...]:
        """Updates of the input controls with which `z` has the effect of `z + dz`: both `(..., width)`."""
        return tuple(
            implicit_update(self.get_parameter(name), z, dz, carrier=carrier, name=name) for name in self.inputs
        )

    def add(self, z: Tensor, delta: Tensor, control: str) -> tuple[Update | Shift, ...]:
        """A change that adds `delta` to the output when the inner activation is that of `z`."""
        if control == "bias":
            return (residual_bias(delta, name="last.bias"),)
        return (residual_matrix(self.inner(z), delta, name="last.weight"),)


class Gated(Dense):
    """`W_down (g(W_gate z) ⊙ W_up z)`, without biases, as in Llama: two matrices read the input."""

    inputs = ("gate.weight", "up.weight")
    outputs = ("matrix",)

    def __init__(
        self,
        width: int,
        hidden: int,
        out: int | None = None,
        activation: Callable[[Tensor], Tensor] = F.silu,
    ) -> None:
        nn.Module.__init__(self)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.last = nn.Linear(hidden, out or width, bias=False)
        self.activation = activation

    def inner(self, z: Tensor) -> Tensor:
        return self.activation(self.gate(z)) * self.up(z)


class Mixture(Dense):
    """A mixture of gated experts with top-k routing, as in Mixtral: `Σ_e p_e W_down,e h_e` over k experts.

    Router and experts all read the input, so the same input update on each of them keeps the routing.

    - `renormalise`: whether the k chosen probabilities are made to sum to 1 (Mixtral does, Qwen may not).
    """

    inputs = ("router.weight", "gates", "ups")
    outputs = ("matrix",)

    def __init__(
        self,
        width: int,
        hidden: int,
        out: int | None = None,
        *,
        experts: int = 4,
        top_k: int = 2,
        renormalise: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        problems = Problems()
        problems.unless(experts >= 1, f"`experts` is {experts}, but a mixture needs at least 1.")
        problems.unless(
            1 <= top_k <= max(experts, 1),
            f"`top_k` is {top_k}, but there are {experts} experts: choose between 1 and {experts}.",
        )
        problems.stop()
        self.top_k, self.renormalise = top_k, renormalise
        self.router = nn.Linear(width, experts, bias=False)
        self.gates = nn.Parameter(torch.randn(experts, hidden, width) / width**0.5)
        self.ups = nn.Parameter(torch.randn(experts, hidden, width) / width**0.5)
        self.downs = nn.Parameter(torch.randn(experts, out or width, hidden) / hidden**0.5)

    def routing(self, z: Tensor) -> Tensor:
        """The weight of every expert, zero for those not chosen: `(..., experts)`."""
        p = self.router(z).softmax(-1)
        top = p.topk(self.top_k, -1)
        chosen = torch.zeros_like(p).scatter(-1, top.indices, top.values)
        return chosen / chosen.sum(-1, keepdim=True) if self.renormalise else chosen

    def inner(self, z: Tensor) -> Tensor:
        """The inner activations of all experts: `(..., experts, hidden)`."""
        z = z.unsqueeze(-2).unsqueeze(-1)  # (..., 1, width, 1)
        return (F.silu(self.gates @ z) * (self.ups @ z)).squeeze(-1)

    def forward(self, z: Tensor) -> Tensor:
        each = (self.downs @ self.inner(z).unsqueeze(-1)).squeeze(-1)  # (..., experts, out)
        return (self.routing(z).unsqueeze(-1) * each).sum(-2)

    def steer(self, z: Tensor, dz: Tensor, carrier: Tensor | None = None) -> tuple[Update, ...]:
        def update(name: str) -> Update:
            W = self.get_parameter(name)
            # Experts are one more leading dimension, over which the right factor is shared.
            args = [t if t is None or W.ndim == 2 else t.unsqueeze(-2) for t in (z, dz, carrier)]
            # Only the carrier can be None, which a list does not tell mypy.
            return implicit_update(W, args[0], args[1], carrier=args[2], name=name)  # type: ignore[arg-type]

        return tuple(update(name) for name in self.inputs)

    def add(self, z: Tensor, delta: Tensor, control: str) -> tuple[Update | Shift, ...]:
        p, h = self.routing(z), self.inner(z)
        # Each active expert adds δ/S, S the actual sum of the weights: rounding keeps it from being 1.
        share = (p > 0).to(p.dtype) / p.sum(-1, keepdim=True)
        if bool(((p > 0) & (h == 0).all(-1)).any()):
            raise InputError("An active expert has a zero inner activation, which no update can act on.")
        # Idle experts get a zero update; any non-zero vector may stand for their activation.
        h = torch.where((p > 0).unsqueeze(-1), h, 1.0)
        return (residual_matrix(h, share.unsqueeze(-1) * delta.unsqueeze(-2), name="downs"),)

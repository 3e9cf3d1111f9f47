"""Recurrences that are linear in their state, so that a scan replaces the loop: Griffin's and Mamba's."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights.blocks._recurrent import Drive, Recurrence
from inweights.blocks._scan import linear_scan


class LinearRecurrence(Recurrence):
    """`h' = decay ⊙ h + input`: the first two tensors of the drive are `decay` and `input`."""

    def step(self, state: Tensor, drive: Drive) -> Tensor:
        return drive[0] * state + drive[1]

    def states(self, drive: Drive, keep: Tensor | None) -> Tensor:
        decay, x = drive[:2]
        if keep is not None:
            decay = torch.where(keep.unsqueeze(-1), decay, 1.0)
            x = torch.where(keep.unsqueeze(-1), x, 0.0)
        return (
            torch.cat([torch.zeros_like(x[..., :1, :]), linear_scan(decay, x)], -2)
            if x.shape[-2]
            else (x.new_zeros(*x.shape[:-2], 1, self.state))
        )


class GatedLinearRecurrence(LinearRecurrence):
    """The real-gated linear recurrent unit of Griffin (arXiv 2402.19427).

    `r = σ(W_r x)`, `i = σ(W_i x)`, `a = exp(−8 softplus(Λ) r)`, `h' = a h + √(1 − a²) (i ⊙ W x)`.
    """

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__(width, out)
        self.x = nn.Linear(width, self.out)
        self.r = nn.Linear(width, self.out)
        self.i = nn.Linear(width, self.out)
        self.o = nn.Linear(self.out, self.out, bias=False)
        # Decays exp(−8 softplus(Λ)) spread between 0.9 and 0.999, as in the paper.
        rate = -torch.linspace(0.9, 0.999, self.out).log() / 8
        self.decay = nn.Parameter(rate.expm1().log())

    def drive(self, tokens: Tensor, keep: Tensor | None) -> Drive:
        log_a = -8 * F.softplus(self.decay) * torch.sigmoid(self.r(tokens))
        x = torch.sigmoid(self.i(tokens)) * self.x(tokens)
        return log_a.exp(), (-torch.expm1(2 * log_a)).sqrt() * x

    def emit(self, state: Tensor, drive: Drive) -> Tensor:
        return self.o(state)

    def suffixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        decay, x = self.drive(tokens, None)
        # c_j reaches the end multiplied by the decays of all tokens behind it.
        behind = torch.cat([decay[..., 1:, :], torch.ones_like(decay[..., :1, :])], -2)
        arrived = x * behind.flip(-2).cumprod(-2).flip(-2)
        last = arrived.flip(-2).cumsum(-2).flip(-2)
        states = torch.cat([last, torch.zeros_like(x[..., :1, :])], -2)
        drive = tuple(d.unsqueeze(-2) for d in self.drive_query(tokens, query, None))
        return self.emit(self.step(states, drive), drive)


class SelectiveStateSpace(LinearRecurrence):
    """The selective state space of Mamba (arXiv 2312.00752), its short convolution and gate included.

    `u = silu(conv(W_u x))`, `δ = softplus(W_δ u + b)`, `H' = exp(−δ e^A) H + δ u Bᵀ` with `B, C` linear in
    `u`; the output is `W_o ((H C + D u) ⊙ silu(W_z x))`. Tokens that are left out are zero in the
    convolution: positions stay absolute there too.
    """

    def __init__(self, width: int, out: int | None = None, *, expand: int = 2, size: int = 16, conv: int = 4) -> None:
        inner = expand * width
        super().__init__(width, out, state=inner * size)
        self.inner, self.size, self.taps = inner, size, conv
        self.u = nn.Linear(width, inner, bias=False)
        self.z = nn.Linear(width, inner, bias=False)
        self.conv = nn.Parameter(torch.randn(inner, conv) / conv**0.5)  # the last tap is the token's own
        self.conv_bias = nn.Parameter(torch.zeros(inner))
        self.delta = nn.Linear(inner, inner)
        # Steps of about 0.3: a state that forgets within a few tokens would hardly depend on its context.
        nn.init.constant_(self.delta.bias, -1.0)
        self.b = nn.Linear(inner, size, bias=False)
        self.c = nn.Linear(inner, size, bias=False)
        self.log_rate = nn.Parameter(torch.arange(1, size + 1.0).log().expand(inner, size).clone())
        self.direct = nn.Parameter(torch.ones(inner))
        self.o = nn.Linear(inner, self.out, bias=False)

    def drive(self, tokens: Tensor, keep: Tensor | None) -> Drive:
        u = self.u(tokens)
        if keep is not None:
            u = u * keep.unsqueeze(-1)
        n, padded = u.shape[-2], F.pad(u, (0, 0, self.taps - 1, 0))
        mixed = sum((padded[..., k : k + n, :] * self.conv[:, k] for k in range(self.taps)), torch.zeros_like(u))
        return self._selected(mixed, self.z(tokens))

    def drive_query(self, tokens: Tensor, query: Tensor, keep: Tensor | None) -> Drive:
        recent = self.u(tokens[..., max(0, tokens.shape[-2] - self.taps + 1) :, :])
        if keep is not None:
            recent = recent * keep[..., max(0, keep.shape[-1] - self.taps + 1) :, None]
        taps = self.conv[:, self.taps - 1 - recent.shape[-2] : self.taps - 1].mT
        mixed = (recent * taps).sum(-2) + self.u(query) * self.conv[:, -1]
        return self._selected(mixed, self.z(query))

    def _selected(self, mixed: Tensor, gate: Tensor) -> Drive:
        u = F.silu(mixed + self.conv_bias)
        delta = F.softplus(self.delta(u)).unsqueeze(-1)  # (..., inner, 1)
        decay = (-delta * self.log_rate.exp()).exp()
        x = delta * u.unsqueeze(-1) * self.b(u).unsqueeze(-2)
        return decay.flatten(-2), x.flatten(-2), self.c(u), u, F.silu(gate)

    def emit(self, state: Tensor, drive: Drive) -> Tensor:
        c, u, gate = drive[2:]
        read = (state.unflatten(-1, (self.inner, self.size)) * c.unsqueeze(-2)).sum(-1)
        return self.o((read + self.direct * u) * gate)

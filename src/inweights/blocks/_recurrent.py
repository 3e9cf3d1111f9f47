"""Recurrent contextual layers: tokens are read into a state, and the query is read last."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inweights.blocks._layer import ContextualLayer, _staircase

Drive = tuple[Tensor, ...]
"""The inputs of the recurrence that do not depend on the state: tensors `(..., n, ·)`."""


class Recurrence(ContextualLayer):
    """A layer that reads tokens one after another into a state of fixed size.

    Subclasses give `drive`, `step` and `emit`. A token that is left out leaves the state as it was.
    All prefixes come from one run over the context: each state on the way reads the query, all at once.
    """

    def __init__(self, width: int, out: int | None = None, *, state: int | None = None) -> None:
        super().__init__(width, out)
        self.state = self.out if state is None else state

    def drive(self, tokens: Tensor, keep: Tensor | None) -> Drive:
        """The drive of the tokens, computed for all of them together."""
        raise NotImplementedError

    def drive_query(self, tokens: Tensor, query: Tensor, keep: Tensor | None) -> Drive:
        """The drive of the query: tensors `(..., ·)`. Depends on the context only through a convolution."""
        return tuple(d.squeeze(-2) for d in self.drive(query.unsqueeze(-2), None))

    def step(self, state: Tensor, drive: Drive) -> Tensor:
        """The state after one more token: `(..., state)`."""
        raise NotImplementedError

    def emit(self, state: Tensor, drive: Drive) -> Tensor:
        """The layer's output in a state: `(..., out)`."""
        raise NotImplementedError

    def states(self, drive: Drive, keep: Tensor | None) -> Tensor:
        """The states before the first token, after the first, …, after the last: `(..., n+1, state)`."""
        n, batch = drive[0].shape[-2], drive[0].shape[:-2]
        if keep is not None:
            batch = torch.broadcast_shapes(batch, keep.shape[:-1])
        state = drive[0].new_zeros(*batch, self.state)
        states = [state]
        for i in range(n):
            new = self.step(state, tuple(d[..., i, :] for d in drive))
            state = new if keep is None else torch.where(keep[..., i, None], new, state)
            states.append(state)
        return torch.stack(states, -2)

    def forward(self, tokens: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
        last = self.states(self.drive(tokens, keep), keep)[..., -1, :]
        drive = self.drive_query(tokens, query, keep)
        return self.emit(self.step(last, drive), drive)

    def prefixes(self, tokens: Tensor, query: Tensor) -> Tensor:
        states = self.states(self.drive(tokens, None), None)
        keep = _staircase(tokens.shape[-2], tokens.device)
        drive = self.drive_query(tokens.unsqueeze(-3), query.unsqueeze(-2), keep)
        return self.emit(self.step(states, drive), drive)

    def sequence(self, tokens: Tensor) -> Tensor:
        drive = self.drive(tokens, None)
        return self.emit(self.states(drive, None)[..., 1:, :], drive)


class ElmanRNN(Recurrence):
    """`h' = tanh(W_x x + W_h h + b)`."""

    gates = 1

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__(width, out)
        self.x = nn.Linear(width, self.gates * self.out)
        self.h = nn.Linear(self.out, self.gates * self.out)

    def drive(self, tokens: Tensor, keep: Tensor | None) -> Drive:
        return (self.x(tokens),)

    def step(self, state: Tensor, drive: Drive) -> Tensor:
        return torch.tanh(drive[0] + self.h(state))

    def emit(self, state: Tensor, drive: Drive) -> Tensor:
        return state[..., : self.out]


class GRU(ElmanRNN):
    """`h' = (1 − z) n + z h`, `n = tanh(W_n x + r ⊙ U_n h)`; gates `r` (reset) and `z` (keep)."""

    gates = 3

    def step(self, state: Tensor, drive: Drive) -> Tensor:
        r_x, z_x, n_x = drive[0].chunk(3, -1)
        r_h, z_h, n_h = self.h(state).chunk(3, -1)
        z = torch.sigmoid(z_x + z_h)
        return (1 - z) * torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h) + z * state


class LSTM(ElmanRNN):
    """`c' = f c + i g`, `h' = o tanh(c')`. The state is `[h, c]`; the output is `h`."""

    gates = 4

    def __init__(self, width: int, out: int | None = None) -> None:
        super().__init__(width, out)
        self.state = 2 * self.out
        # The usual initial bias of the forget gate, which keeps the state.
        nn.init.constant_(self.h.bias[self.out : 2 * self.out], 1.0)

    def step(self, state: Tensor, drive: Drive) -> Tensor:
        h, c = state.chunk(2, -1)
        i, f, g, o = (drive[0] + self.h(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], -1)

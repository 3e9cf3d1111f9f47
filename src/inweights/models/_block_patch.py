"""`BlockPatch`: the changes of one block, in factors; and the goal that they are solved for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from inweights.running import Block
from inweights.theory import Changes, Shift, Update

Slot = tuple[str, int]
"""A matrix: the parameter's name, and which expert of it (−1 for a plain matrix)."""


@dataclass(frozen=True)
class Goal:
    """The values at one block at the query tokens with the full context: both `(tokens, width)`.

    - `read`: the input of the MLP, if the block has input controls.
    - `output`: the block's output (before the norm, where a norm of the sum ends the block).
    """

    read: Tensor | None
    output: Tensor

    def at(self, token: int) -> Goal:
        """The goal of one query token."""
        pick = slice(token, token + 1)
        return Goal(None if self.read is None else self.read[pick], self.output[pick])


@dataclass(frozen=True, eq=False)
class BlockPatch:
    """The changes of one block, in factors. Leading dimension: the query token in token mode, none in static mode.

    - `read`: the map of the MLP's input, `z → z + Δz`; each input control `W` gets `W` times it.
    - `added`: updates of the last matrices.
    - `moved`: changes of vectors (the scale or bias of a norm).
    - `residual`, `condition`, `rank`, `exact`: how far the solution can be trusted; see `theory.Solution`.
    - `amplification`: `‖δ_out‖/‖δ_in‖` of the patched block, the largest over the query tokens, where `δ_in` is a
      relative error of each coordinate of its input, as rounding makes them; `None` where it was not measured.
    - `inversion`: how a norm on the branch was inverted; empty where there is none.
    """

    block: Block
    read: Update | None = None
    added: Mapping[Slot, Update] = field(default_factory=dict)
    moved: Mapping[str, Tensor] = field(default_factory=dict)
    residual: float = 0.0
    condition: float = 1.0
    rank: int = 1
    exact: bool = True
    amplification: float | None = None
    inversion: str = ""

    def at(self, token: int) -> BlockPatch:
        """The changes for one query token."""

        # New memory: kernels sum in another order where a slice is aligned differently, and a proof must repeat
        # the operations of the solution bit for bit.
        def own(update: Update) -> Update:
            picked = update[token]
            return Update(picked.u.clone(), picked.v.clone())

        return replace(
            self,
            read=None if self.read is None else own(self.read),
            added={slot: own(update) for slot, update in self.added.items()},
            moved={name: delta[token].clone() for name, delta in self.moved.items()},
        )

    def changes(self, net: nn.Module) -> Changes:
        """One change for each parameter, matrices of the mathematical shape `(out, in)` however they are stored.

        Experts that are stored together in one tensor are left out: see `parameters`.
        """
        updates: dict[str, Update] = {}
        if self.read is not None:
            for control in self.block.inputs:
                W = net.get_parameter(control.name).detach()
                updates[control.name] = self.read.premultiplied(W.mT if control.transposed else W)
        for (name, expert), update in self.added.items():
            if expert < 0:  # a matrix may be read from and written to
                updates[name] = updates[name] + update if name in updates else update
        shifts = [Shift(delta, name) for name, delta in self.moved.items()]
        return Changes((*(update.named(name) for name, update in updates.items()), *shifts))

    def parameters(self, net: nn.Module) -> dict[str, Tensor]:
        """The changed parameters, dense, as the model stores them."""
        new: dict[str, Tensor] = {}
        turned = {c.name: c.transposed for c in (*self.block.inputs, *self.block.outputs)}
        with torch.no_grad():
            for item in self.changes(net).items:
                W = net.get_parameter(item.name)
                new[item.name] = _added(item, W, turned[item.name]) if isinstance(item, Update) else item.added_to(W)
            for (name, expert), update in self.added.items():
                if expert >= 0:
                    changed = new.setdefault(name, net.get_parameter(name).detach().clone())
                    changed[expert].add_(update.dense().mT if turned[name] else update.dense())
        return new


def stacked(patches: Sequence[BlockPatch]) -> BlockPatch:
    """The changes of one block for several tokens, from those of each."""
    first = patches[0]

    def beside(updates: Sequence[Update | None]) -> Update:
        like = next(u for u in updates if u is not None)
        zero = Update(torch.zeros_like(like.u), torch.zeros_like(like.v))
        parts = [u or zero for u in updates]  # an expert that a token does not visit stays as it is
        return Update(torch.cat([p.u for p in parts]), torch.cat([p.v for p in parts]))

    slots = dict.fromkeys(slot for p in patches for slot in p.added)
    return BlockPatch(
        first.block,
        None if first.read is None else beside([p.read for p in patches]),
        {slot: beside([p.added.get(slot) for p in patches]) for slot in slots},
        _moved(patches),
        amplification=max((p.amplification for p in patches if p.amplification is not None), default=None),
        inversion=", ".join(dict.fromkeys(p.inversion for p in patches if p.inversion)),
    )


def _moved(patches: Sequence[BlockPatch]) -> dict[str, Tensor]:
    """The changes of vectors, one row for each token; zero for a token that leaves the vector as it is."""
    like = {name: delta for p in patches for name, delta in p.moved.items()}
    return {
        name: torch.cat([p.moved.get(name, torch.zeros_like(delta)) for p in patches]) for name, delta in like.items()
    }


def _added(update: Update, W: Tensor, transposed: bool) -> Tensor:
    """`W + ΔW`, dense, in the way in which `W` is stored.

    The sum is made in the memory of `ΔW`: a third matrix beside the two costs up to as much again as all changed
    weights, since an allocator can seldom give its place to the next one.
    """
    u, v = update.factors
    return (v @ u.mT if transposed else u @ v.mT).add_(W)

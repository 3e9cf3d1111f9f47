"""One block with its inputs, re-run as often as solving needs, and what these runs measure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from inweights.running._block import Block
from inweights.running._hidden import stream, with_stream, without_cache
from inweights.running._hooks import hooked
from inweights.running._tape import Product, Tape


class Rerun:
    """One block with its inputs, to be re-run as often as solving needs."""

    def __init__(
        self,
        model: nn.Module,
        block: Block,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        rows: Tensor,
        restore: Callable[[], None] | None = None,
    ) -> None:
        self.model, self.block, self.rows = model, block, rows
        self.module = model.get_submodule(block.name)
        # `restore` puts a cache back to what it was before this block; without it, no cache is used.
        self.restore = restore
        self.args, self.kwargs = (args, kwargs) if restore else without_cache(args, kwargs)

    def noise(self) -> Tensor | None:
        """A relative error of every coordinate of the block's input at the query tokens, `(1, n, width)`.

        As large as the square root of the machine epsilon: far above rounding, and small enough for the block to be
        linear over it.
        `None` where the input is not among the block's arguments.
        """
        x = stream(self.args, self.kwargs)
        if x is None or x.ndim != 3:
            return None
        shape, generator = (len(self.rows), x.shape[-1]), torch.Generator().manual_seed(0)
        shares = torch.randn(shape, generator=generator, dtype=torch.float64).to(x.dtype).to(x.device)
        return put(torch.zeros_like(x), self.rows, x[0, self.rows] * shares * torch.finfo(x.dtype).eps ** 0.5)

    def __call__(self, tape: Tape | None = None, noise: Tensor | None = None) -> tuple[Any, dict[str, Tensor]]:
        """The block's output, and the tensors around its norm, if its tail has one; `noise` is added to its input."""
        if self.restore:
            self.restore()
        args, kwargs = self.args, self.kwargs
        x = stream(args, kwargs)
        if noise is not None and x is not None:
            args, kwargs = with_stream(args, kwargs, x + noise)
        seen: dict[str, Tensor] = {}

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen["u"] = args[0]

        def after(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], y: Tensor) -> Tensor:
            if torch.is_grad_enabled() and self.block.tail == "branch-norm":
                y = y.detach().requires_grad_()
            seen["n"] = y
            return y

        norms = [self.model.get_submodule(self.block.norm)] if self.block.norm else []
        hooks = hooked(before=[(m, before) for m in norms], after=[(m, after) for m in norms])
        with hooks, tape or nullcontext():
            out = self.module.forward(*args, **kwargs)
        return out, seen


def read_input(rerun: Rerun) -> tuple[Tensor, int]:
    """The MLP's input at the query tokens, without any change, `(tokens, width)`; and how many tokens there are."""
    name = rerun.block.inputs[0].name
    tape = Tape({name: rerun.model.get_parameter(name)})
    with torch.no_grad():
        rerun(tape)
    x = tape.products[-1].x[0]
    return x[rerun.rows].detach(), len(x)


class Steer:
    """Has the input controls act on `z + Δz` at the query tokens, which is the effect of their updates."""

    def __init__(self, rerun: Rerun, z: Tensor, dz: Tensor, tokens: int) -> None:
        self.watched = {c.name: rerun.model.get_parameter(c.name) for c in rerun.block.inputs}
        self.z, self.dz, self.rows, self.tokens = z, dz, rerun.rows, tokens

    def __call__(self, p: Product) -> Tensor | None:
        if p.name not in self.watched:
            return None
        W: Tensor = self.watched[p.name]
        if p.experts is not None:
            W = W[p.experts.start : p.experts.stop]
        W = W.mT if p.transposed else W
        change = torch.zeros_like(p.x)
        if p.experts is None and p.x.shape[1] == self.tokens:
            change[0, self.rows] = self.dz
        else:  # an expert is given some of the tokens: which ones
            same = (p.x.unsqueeze(-2) == self.z).all(-1)  # (experts, rows, query tokens)
            change = self.dz[same.int().argmax(-1)] * same.any(-1, keepdim=True)
        return p.made + (change @ W.mT).reshape(p.made.shape)


def leaves(model: nn.Module, block: Block, steer: Steer | None = None) -> Tape:
    """A tape on which the results of the last matrices are where the graph begins."""
    last = {c.name: model.get_parameter(c.name).detach() for c in block.outputs}
    watched = {**last, **(steer.watched if steer else {})}

    def change(p: Product) -> Tensor | None:
        if p.name in last:
            return p.made.detach().requires_grad_()
        return steer(p) if steer else None

    return Tape({name: p.detach() for name, p in watched.items()}, change)


def cotangent(like: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    c = torch.zeros_like(like)
    c[0, rows] = 1 if weights is None else weights.to(like).unsqueeze(-1)
    return c


def put(y: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    y = y.clone()
    y[0, rows] = values
    return y

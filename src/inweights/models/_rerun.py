"""One block with its inputs, run again as often as solving needs, and what is read off such runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._block import Block
from inweights.models._block_patch import Slot
from inweights.models._hidden import stream, with_stream, without_cache
from inweights.models._tape import Product, Tape
from inweights.theory import Update, pseudoinverse


class Rerun:
    """One block with its inputs, to be run again as often as solving needs."""

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

        As large as the square root of the machine epsilon: far above rounding, far below the block's own bends.
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
        hooks = []
        if self.block.norm:
            norm = self.model.get_submodule(self.block.norm)

            def before(_: nn.Module, args: tuple[Any, ...]) -> None:
                seen["u"] = args[0]

            def after(_: nn.Module, __: tuple[Any, ...], y: Tensor) -> Tensor | None:
                if torch.is_grad_enabled() and self.block.tail == "branch-norm":
                    y = y.detach().requires_grad_()
                seen["n"] = y
                return y

            hooks = [norm.register_forward_pre_hook(before), norm.register_forward_hook(after)]
        try:
            if tape is None:
                out = self.module.forward(*args, **kwargs)
            else:
                with tape:
                    out = self.module.forward(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        return out, seen


def read(rerun: Rerun) -> tuple[Tensor, int]:
    """What the MLP reads at the query tokens, without any change, `(tokens, width)`; and how many tokens there are."""
    name = rerun.block.inputs[0].name
    tape = Tape({name: rerun.model.get_parameter(name)})
    with torch.no_grad():
        rerun(tape)
    x = tape.products[-1].x[0]
    return x[rerun.rows].detach(), len(x)


class Steer:
    """Makes the input controls act on `z + Δz` at the query tokens: what their updates will do."""

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
        else:  # an expert is given some of the tokens: find which
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


def features(tape: Tape, aim: Tensor, rows: Tensor, block: Block) -> tuple[dict[Slot, Tensor], Tensor]:
    """What each last matrix multiplies for each query token, and how its result is scaled on the way to `aim`.

    Returns `{slot: (tokens, in)}` and `(tokens, out)`: a change of the matrices adds
    `scale ⊙ Σ_slots ΔW_slot feature_slot`.
    """
    names = {c.name for c in block.outputs}
    products = [p for p in tape.products if p.name in names]
    if block.unit:
        return {(products[-1].name, -1): products[-1].x[0, rows].detach()}, torch.ones_like(aim[0, rows]).detach()
    made = [p.made for p in products]
    # Whose row is it? Two cotangents count the tokens in digits, small enough for any precision.
    count = torch.arange(len(rows), device=aim.device)
    ones, ramp, tens = (
        torch.autograd.grad(aim, made, cotangent(aim, rows, w), retain_graph=True)
        for w in (None, count % 16 + 1, count // 16 + 1)
    )
    n = len(rows)
    parts: list[tuple[Slot, int, Tensor, Tensor]] = []
    for p, once, low, high in zip(products, ones, ramp, tens, strict=True):
        g1, g2, g3 = p.rows(once), p.rows(low), p.rows(high)
        for e, r in (g1 != 0).any(-1).nonzero().tolist():
            k = int(g1[e, r].abs().argmax())
            digits = [round(float(g[e, r, k] / g1[e, r, k])) - 1 for g in (g2, g3)]
            slot = (p.name, -1 if p.experts is None else p.experts.start + e)
            parts.append((slot, min(max(digits[0] + 16 * digits[1], 0), n - 1), g1[e, r], p.x[e, r].detach()))
    # Of the experts that serve a token, the one that counts most sets its scale: others may count for nearly nothing.
    scale = aim.new_zeros(n, aim.shape[-1])
    for _, token, g, _ in parts:
        if g.abs().max() > scale[token].abs().max():
            scale[token] = g
    largest = scale.abs().amax(-1)
    result: dict[Slot, Tensor] = {}
    for slot, token, g, x in parts:
        unit = scale[token] / largest[token]
        share = (g / largest[token] * unit).sum() / unit.square().sum()
        result.setdefault(slot, x.new_zeros(n, len(x)))[token] += share * x
    if not bool(scale.any(-1).all()):
        raise InputError(
            f"The last matrices of {block.name} do not reach each query token by themselves (something behind them "
            "mixes tokens), so one change for several tokens cannot be solved: use token mode."
        )
    return result, scale


def carried(multiplied: Mapping[Slot, Tensor], delta: Tensor) -> dict[Slot, Update]:
    """Updates of the last matrices that add `delta` for each token: `δ fᵀ/‖f‖²`, with `f` all their features.

    `multiplied` is `{slot: (tokens, in)}`, `delta` is `(tokens, out)`.
    """
    v = pseudoinverse(torch.cat(list(multiplied.values()), -1))
    parts = v.split([f.shape[-1] for f in multiplied.values()], -1)
    return {slot: Update(delta.unsqueeze(-1), part.unsqueeze(-1)) for slot, part in zip(multiplied, parts, strict=True)}


def split(update: Update, features: Mapping[Slot, Tensor]) -> list[Update]:
    """The columns of one solution over concatenated features, back to each matrix."""
    sizes = [f.shape[-1] for f in features.values()]
    return [Update(update.u, v) for v in update.v.split(sizes, -2)]


def put(y: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    y = y.clone()
    y[0, rows] = values
    return y

"""The changes of one block, given what it must say: input controls first, then whatever is still missing.

Whatever the input update leaves undone, the output control adds: `δ` is measured on the block as it is by then,
so errors do not pass from layer to layer, and blocks without an input control need nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from inweights.models._anatomy import Block, Control, hidden, with_hidden, without_cache
from inweights.models._stable import closest
from inweights.models._tape import Product, Tape
from inweights.theory import Update, exchanged, least_squares

Slot = tuple[str, int]
"""A matrix: the parameter's name, and which expert of it (−1 for a plain matrix)."""


@dataclass(frozen=True)
class Goal:
    """What the full context makes of the query tokens at one block: both `(tokens, width)`.

    - `read`: the input of the MLP, if the block has input controls.
    - `said`: the block's output (before the norm, where a norm of the sum ends the block).
    """

    read: Tensor | None
    said: Tensor

    def at(self, token: int) -> Goal:
        """The goal of one query token."""
        pick = slice(token, token + 1)
        return Goal(None if self.read is None else self.read[pick], self.said[pick])


@dataclass(frozen=True, eq=False)
class BlockPatch:
    """The changes of one block, in factors. Leading dimension: the query token in token mode, none in static mode.

    - `read`: the map of the MLP's input, `z → z + Δz`; each input control `W` gets `W` times it.
    - `added`: updates of the last matrices.
    - `moved`: changes of vectors (the scale or bias of a norm).
    - `residual`, `condition`, `rank`, `exact`: how far the solution can be trusted; see `theory.Solution`.
    """

    block: Block
    read: Update | None = None
    added: Mapping[Slot, Update] = field(default_factory=dict)
    moved: Mapping[str, Tensor] = field(default_factory=dict)
    residual: float = 0.0
    condition: float = 1.0
    rank: int = 1
    exact: bool = True

    def at(self, token: int) -> BlockPatch:
        """The changes for one query token."""
        return BlockPatch(
            self.block,
            None if self.read is None else self.read[token],
            {slot: update[token] for slot, update in self.added.items()},
            {name: delta[token] for name, delta in self.moved.items()},
            self.residual, self.condition, self.rank, self.exact,
        )  # fmt: skip

    def parameters(self, model: nn.Module) -> dict[str, Tensor]:
        """The changed parameters, dense."""
        new: dict[str, Tensor] = {}
        with torch.no_grad():
            if self.read is not None:
                for control in self.block.inputs:
                    W = model.get_parameter(control.name)
                    new[control.name] = W + _effect(self.read, W, control)
            turned = {c.name: c.transposed for c in self.block.outputs}
            for (name, expert), update in self.added.items():
                changed = new.setdefault(name, model.get_parameter(name).detach().clone())
                change = update.dense().mT if turned[name] else update.dense()
                (changed if expert < 0 else changed[expert]).add_(change)
            for name, delta in self.moved.items():
                new[name] = model.get_parameter(name) + delta
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
        {name: torch.cat([p.moved[name] for p in patches]) for name in first.moved},
    )


def _effect(read: Update, W: Tensor, control: Control) -> Tensor:
    """`W M`, dense, in the way in which `W` is stored."""
    change = read.premultiplied(W.mT if control.transposed else W).dense()
    return change.mT if control.transposed else change


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
        self.args, self.kwargs = args, kwargs if restore else without_cache(kwargs)

    def __call__(self, tape: Tape | None = None) -> tuple[Any, dict[str, Tensor]]:
        """The block's output, and the tensors around its norm, if its tail has one."""
        if self.restore:
            self.restore()
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
                out = self.module.forward(*self.args, **self.kwargs)
            else:
                with tape:
                    out = self.module.forward(*self.args, **self.kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        return out, seen


def solve_static(rerun: Rerun, goal: Goal) -> tuple[BlockPatch, Any]:
    """One change for all query tokens, and the block's output with it."""
    block, model, rows = rerun.block, rerun.model, rerun.rows
    read, new = None, {}
    if goal.read is not None:
        z, _ = _read(rerun)
        read = least_squares(z, goal.read - z).update
        new = BlockPatch(block, read).parameters(model)
    with exchanged(model, new):
        tape = _leaves(model, block)
        with torch.enable_grad():
            out, seen = rerun(tape)
            target, moved = _static_target(rerun, goal, out, seen)
            features, scale = _features(tape, target[0], rows, block)
    solved = least_squares(torch.cat(list(features.values()), -1), target[1] / scale)
    added = dict(zip(features, _split(solved.update, features), strict=True))
    patch = BlockPatch(
        block, read, added, moved,
        float(solved.residual), float(solved.condition), int(solved.rank), bool(solved.exact),
    )  # fmt: skip
    with exchanged(model, patch.parameters(model)):
        out, _ = rerun()
    return patch, out


def solve_token(rerun: Rerun, goal: Goal, *, whole: bool = False, stable: bool = False) -> tuple[BlockPatch, Any]:
    """A change for each query token, and the block's output with all of them.

    `whole` leaves the input controls alone: the output control carries the whole effect. `stable` is for low
    precision: norms are inverted stably, and the output is what the *rounded* changes really make of it, so that the
    next block corrects what rounding did.
    """
    block, model, rows = rerun.block, rerun.model, rerun.rows
    read, steer = None, None
    if goal.read is not None and not whole:
        z, tokens = _read(rerun)
        dz = goal.read - z
        read = Update(dz.unsqueeze(-1), (z / z.square().sum(-1, keepdim=True)).unsqueeze(-1))
        steer = _Steer(rerun, z, dz, tokens)
    tape = _leaves(model, block, steer)
    with torch.enable_grad():
        out, seen = rerun(tape)
        y = hidden(out)
        if block.tail == "branch-norm":
            scale = torch.autograd.grad(y, seen["n"], _cotangent(y, rows), retain_graph=True)[0][0, rows]
            delta = (goal.said - y[0, rows]).detach() / scale
            if stable and block.scale and not block.shift:
                patch = _stable_norm(rerun, read, tape, seen, delta)
            else:
                patch = BlockPatch(block, read, {}, _norm_shift(rerun, seen["u"].detach(), delta))
            said = _put(y.detach(), rows, goal.said)
            return patch, with_hidden(out, _said(rerun, patch, said) if stable else said)
        aim = seen["u"] if block.tail == "post-norm" else y
        features, scale = _features(tape, aim, rows, block)
    delta = (goal.said - aim[0, rows]).detach() / scale
    size = sum(f.square().sum(-1, keepdim=True) for f in features.values())
    added = {slot: Update(delta.unsqueeze(-1), (f / size).unsqueeze(-1)) for slot, f in features.items()}
    patch = BlockPatch(block, read, added)
    said = _put(aim.detach(), rows, goal.said)
    if block.tail == "post-norm":
        said = _put(y.detach(), rows, model.get_submodule(block.norm)(said)[0, rows])
    return patch, with_hidden(out, _said(rerun, patch, said) if stable else said)


def _said(rerun: Rerun, patch: BlockPatch, ideal: Tensor) -> Tensor:
    """What the block really says with each token's changes in place: it is run again for each of them."""
    for i, row in enumerate(rerun.rows.tolist()):
        with exchanged(rerun.model, patch.at(i).parameters(rerun.model)):
            ideal[0, row] = hidden(rerun()[0])[0, row]
    return ideal


# --- what the two have in common ---------------------------------------------------------------------


def _read(rerun: Rerun) -> tuple[Tensor, int]:
    """What the MLP reads at the query tokens, without any change, `(tokens, width)`; and how many tokens there are."""
    name = rerun.block.inputs[0].name
    tape = Tape({name: rerun.model.get_parameter(name)})
    with torch.no_grad():
        rerun(tape)
    x = tape.products[-1].x[0]
    return x[rerun.rows].detach(), len(x)


class _Steer:
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


def _leaves(model: nn.Module, block: Block, steer: _Steer | None = None) -> Tape:
    """A tape on which the results of the last matrices are where the graph begins."""
    last = {c.name: model.get_parameter(c.name).detach() for c in block.outputs}
    watched = {**last, **(steer.watched if steer else {})}

    def change(p: Product) -> Tensor | None:
        if p.name in last:
            return p.made.detach().requires_grad_()
        return steer(p) if steer else None

    return Tape({name: p.detach() for name, p in watched.items()}, change)


def _cotangent(like: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    c = torch.zeros_like(like)
    c[0, rows] = 1 if weights is None else weights.to(like).unsqueeze(-1)
    return c


def _features(tape: Tape, aim: Tensor, rows: Tensor, block: Block) -> tuple[dict[Slot, Tensor], Tensor]:
    """What each last matrix multiplies for each query token, and how its result is scaled on the way to `aim`.

    Returns `{slot: (tokens, in)}` and `(tokens, out)`: a change of the matrices adds
    `scale ⊙ Σ_slots ΔW_slot feature_slot`.
    """
    names = {c.name for c in block.outputs}
    products = [p for p in tape.products if p.name in names]
    if block.unit:
        return {(products[-1].name, -1): products[-1].x[0, rows].detach()}, torch.ones_like(aim[0, rows]).detach()
    made = [p.made for p in products]
    count = torch.arange(1, len(rows) + 1, device=aim.device)
    ones = torch.autograd.grad(aim, made, _cotangent(aim, rows), retain_graph=True)
    ramp = torch.autograd.grad(aim, made, _cotangent(aim, rows, count), retain_graph=True)
    n, width = len(rows), aim.shape[-1]
    scale = aim.new_zeros(n, width)
    features: dict[Slot, Tensor] = {}
    for p, once, counted in zip(products, ones, ramp, strict=True):
        g1, g2 = p.rows(once), p.rows(counted)
        for e, r in (g1 != 0).any(-1).nonzero().tolist():
            # The second cotangent counts the tokens: the ratio tells whose row this is.
            k = int(g1[e, r].abs().argmax())
            token = round(float(g2[e, r, k] / g1[e, r, k])) - 1
            if not bool(scale[token].any()):
                scale[token] = g1[e, r]
            share = (g1[e, r] * scale[token]).sum() / scale[token].square().sum()
            slot = (p.name, -1 if p.experts is None else p.experts.start + e)
            if slot not in features:
                features[slot] = p.x.new_zeros(n, p.x.shape[-1])
            features[slot][token] += (share * p.x[e, r]).detach()
    return features, scale


def _split(update: Update, features: Mapping[Slot, Tensor]) -> list[Update]:
    """The columns of one solution over concatenated features, back to each matrix."""
    sizes = [f.shape[-1] for f in features.values()]
    return [Update(update.u, v) for v in update.v.split(sizes, -2)]


def _put(y: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    y = y.clone()
    y[0, rows] = values
    return y


# --- norms on the branch -----------------------------------------------------------------------------


def _with(rerun: Rerun, name: str, value: float, u: Tensor) -> Tensor:
    """The norm of the branch with a constant as its scale."""
    W = rerun.model.get_parameter(name)
    with torch.no_grad(), exchanged(rerun.model, {name: torch.full_like(W, value)}):
        return rerun.model.get_submodule(rerun.block.norm).forward(u)


def _normalised(rerun: Rerun, u: Tensor) -> Tensor:
    """`n(u)`: what the norm makes of `u` before its scale. (Gemma stores the scale less one: hence two runs.)"""
    return _with(rerun, rerun.block.scale, 1.0, u) - _with(rerun, rerun.block.scale, 0.0, u)


def _norm_shift(rerun: Rerun, u: Tensor, delta: Tensor) -> dict[str, Tensor]:
    if rerun.block.shift:
        return {rerun.block.shift: delta}
    n = _normalised(rerun, u)[0, rerun.rows]
    # A zero coordinate cannot be scaled into anything; the paper divides by one there.
    return {rerun.block.scale: delta / torch.where(n == 0, 1.0, n)}


def _stable_norm(rerun: Rerun, read: Update | None, tape: Tape, seen: dict[str, Tensor], delta: Tensor) -> BlockPatch:
    """The last matrix turns the branch to where the old scale serves best; the scale corrects what is left."""
    block, rows = rerun.block, rerun.rows
    u, n = seen["u"], seen["n"]
    goal = (n[0, rows] + delta).detach()
    W = rerun.model.get_parameter(block.scale).detach()
    scale = W + _offset(rerun, u)
    y = closest(goal, scale).to(goal.dtype)
    size = u.detach()[0, rows].square().mean(-1, keepdim=True).sqrt()
    features, path = _features(tape, u, rows, block)
    wanted = (size * y - u[0, rows]).detach() / path
    length = sum(f.square().sum(-1, keepdim=True) for f in features.values())
    added = {slot: Update(wanted.unsqueeze(-1), (f / length).unsqueeze(-1)) for slot, f in features.items()}
    turned = _put(u.detach(), rows, size * y)
    reached = _normalised(rerun, turned)[0, rows]
    left = goal - scale * reached
    return BlockPatch(block, read, added, {block.scale: left / torch.where(reached == 0, 1.0, reached)})


def _offset(rerun: Rerun, u: Tensor) -> Tensor:
    """What the norm adds to its stored scale: 0, or 1 for Gemma."""
    probe = u.detach()[:, :1]
    return (_with(rerun, rerun.block.scale, 0.0, probe) / _normalised(rerun, probe)).nanmean().round()


def _static_target(
    rerun: Rerun, goal: Goal, out: Any, seen: dict[str, Tensor]
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """The tensor that the last matrices add to, and what it lacks: `(aim, (tokens, width))`; and changed vectors."""
    block, rows, y = rerun.block, rerun.rows, hidden(out)
    if block.tail != "branch-norm":
        aim = seen["u"] if block.tail == "post-norm" else y
        return (aim, (goal.said - aim[0, rows]).detach()), {}
    # The norm fixes how much the branch adds, but for its ε: with a large scale, small inputs reach any goal.
    u, n = seen["u"], seen["n"]
    scale = torch.autograd.grad(y, n, _cotangent(y, rows), retain_graph=True)[0][0, rows]
    stream = y[0, rows] - scale * n[0, rows]
    g = ((goal.said - stream) / scale).detach()
    eps = _epsilon(rerun, u.detach())
    c = (2 * g.square().mean(-1).max()).sqrt()
    aims = g / c
    wanted = aims * (eps / (1 - aims.square().mean(-1, keepdim=True))).sqrt()
    W = rerun.model.get_parameter(block.scale)
    return (u, (wanted - u[0, rows]).detach()), {block.scale: (c - _offset(rerun, u)) - W.detach()}


def _epsilon(rerun: Rerun, u: Tensor) -> Tensor:
    """The ε of an RMS norm, from what it does to a constant input: `t/√(t² + ε)`."""
    t = 1e-3
    n = _normalised(rerun, torch.full_like(u[:, :1], t)).mean()
    return t * t * (1 / n.square() - 1)

"""The matrices of each block that a fold is solved for, and one run of a block that shows what they read."""

from __future__ import annotations

import copy
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights._errors import out_of_memory
from inweights.models import Block, Control, Model
from inweights.running import (
    After,
    Chain,
    Product,
    Stop,
    Store,
    Tape,
    Walk,
    hooked,
    matrices,
    probe,
    standing_in,
    with_hidden,
)

Until = Literal["stream", "read", "out"]
"""Where a run of a block ends: at the entry norm, at the input of the MLP, or at its end."""


@dataclass(frozen=True, eq=False)
class Part:
    """What is solved for in one block.

    - `attention`: the matrix whose result is added to the stream before the MLP reads it, if there is one.
    - `child`, `child_out`: the part of the block that returns that result, and in which structure. Without it the
      attention cannot be left out when the block is run again.
    - `entry`: the norm between stream and MLP; `inputs`: the matrices that read the MLP's input; `last`: its last one.
    - `reason`: why nothing is solved here; empty otherwise.
    """

    name: str
    attention: Control | None = None
    child: str = ""
    child_out: Any = None
    entry: str = ""
    inputs: tuple[Control, ...] = ()
    last: Control | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Seen:
    """The tensors recorded in one run of a block, each `(b, T, ·)`, where they exist.

    - `fed`: the input of the attention's matrix.
    - `stream`: the stream after attention, which the entry norm reads.
    - `read`: the input of the MLP; `inner`: the input of the last matrix; `out`: the block's output.
    """

    fed: Tensor | None = None
    stream: Tensor | None = None
    read: Tensor | None = None
    inner: Tensor | None = None
    out: Tensor | None = None


def look(walk: Walk, k: int, part: Part, batch: int, *, until: Until = "out", skip: bool = False) -> Seen:
    """Runs block `k` on the current state of a batch, up to some point.

    With `skip` the hidden states of the walk are the stream after attention already, and no attention is run.
    """
    net, x = walk.chain.net, walk[batch]
    results: dict[str, Tensor] = {}
    controls = {"fed": part.attention, "read": part.inputs[0] if part.inputs else None, "inner": part.last}
    roles = {control.name: role for role, control in controls.items() if control}

    def note(p: Product) -> Tensor | None:
        results[roles[p.name]] = p.x.reshape(*x.shape[:2], -1)
        if roles[p.name] == until:
            raise Stop
        return None

    def entering(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = args[0] if args else next(iter(kwargs.values()))
        results["stream"] = stream.reshape(x.shape)  # some blocks flatten their tokens
        if until == "stream":
            raise Stop

    with ExitStack() as stack:
        if part.entry:
            stack.enter_context(hooked(before=[(net.get_submodule(part.entry), entering)]))
        if skip:
            nothing = with_hidden(copy.copy(part.child_out), torch.zeros_like(x))
            stack.enter_context(standing_in(net.get_submodule(part.child), lambda *_, **__: nothing))
        try:
            with Tape({name: net.get_parameter(name) for name in roles}, note):
                results["out"] = walk.run(k, batch)
        except Stop:
            pass
    return Seen(**results)


def parts_of(model: Model) -> list[Part]:
    """The parts of all blocks, in order; those in which nothing can be solved have a reason."""
    net = model.model
    blocks = [b for b in model.anatomy.blocks if b.tail != "head"]
    # A matrix in two blocks is counted twice.
    uses = Counter(p.data_ptr() for b in blocks for p in net.get_submodule(b.name).parameters())
    results = []
    for b in blocks:
        shared = any(uses[net.get_parameter(c.name).data_ptr()] > 1 for c in (*b.inputs, *b.outputs))
        reason = _why_not(b) or ("it shares its matrices with another block" if shared else "")
        last = None if reason else b.outputs[0]
        results.append(Part(b.name, entry=b.entry, inputs=b.inputs, last=last, reason=reason))
    return results


def left_out(model: Model) -> dict[str, str]:
    """The blocks that a closed form leaves out, and why."""
    return {part.name: part.reason for part in parts_of(model) if part.reason}


def with_attention(chain: Chain, parts: list[Part]) -> list[Part]:
    """The same parts with the matrices of their attention, where they have one, from a short forward."""
    results = []
    with Store() as store:
        walk = Walk(chain, [probe(chain.net)], store, "probe")
        for k, part in enumerate(parts):
            results.append(_attending(walk, k, part) if part.entry and not part.reason else part)
            walk.advance(k)
    return results


def _why_not(block: Block) -> str:
    if not block.supported:
        return block.reason
    if block.tail != "sum":
        return "a norm stands between its last matrix and the stream"
    if any(c.experts for c in (*block.inputs, *block.outputs)):
        return "it has experts, each with matrices of its own"
    if not block.unit:
        return "what its last matrix makes is scaled before it reaches the stream"
    return ""


def _attending(walk: Walk, k: int, part: Part) -> Part:
    """The part with the matrix whose result is added to the stream before the entry norm, if there is one."""
    block, x = walk.chain.module(k), walk[0]
    children: dict[str, Any] = {}

    def keep(name: str) -> After:
        return lambda module, args, kwargs, out: children.__setitem__(name, out)

    watched = matrices(block, f"{part.name}.")
    with hooked(after=[(child, keep(name)) for name, child in block.named_children()]), Tape(watched) as tape:
        seen = look(walk, k, part, 0)
    assert seen.stream is not None
    assert seen.out is not None
    # Whatever was added to the stream is known from it only up to the stream's own rounding.
    blur = 8 * torch.finfo(x.dtype).eps * (x.abs() + seen.stream.abs())
    gained = seen.stream - x
    for p in reversed(tape.products):
        if p.experts is None and p.made.numel() == x.numel():
            if not bool(((p.made.reshape(x.shape) - gained).abs() <= blur).all()):
                continue
            part = replace(part, attention=Control(p.name, p.transposed))
            name = p.name.removeprefix(f"{part.name}.").partition(".")[0]
            if name not in children:
                return part
            able = replace(part, child=f"{part.name}.{name}", child_out=children[name])
            return able if _skippable(walk, k, able, seen.stream, seen.out) else part
    return part


def _skippable(walk: Walk, k: int, part: Part, stream: Tensor, out: Tensor) -> bool:
    """Whether the block has the same output for the stream after attention with an attention that adds nothing."""
    before, walk[0] = walk[0], stream
    try:
        again = look(walk, k, part, 0, skip=True).out
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if out_of_memory(error):  # no reason to run the attention twice from now on
            raise
        return False
    finally:
        walk[0] = before
    return again is not None and torch.allclose(again, out, rtol=1e-3, atol=1e-3 * float(out.abs().mean()))

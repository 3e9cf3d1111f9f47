"""The two runs behind every patch: one with the whole context, one on the reduced prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.models._anatomy import Anatomy
from inweights.models._block_patch import BlockPatch, Goal, stacked
from inweights.models._branch_norm import Inversion
from inweights.models._solve import solve_static, solve_token
from inweights.running import Block, Rerun, Tape, bookmark, hidden, hooked, inputs, run, step, steppable
from inweights.theory import require_finite

Mode = Literal["token", "static", "output"]


def goals(
    model: nn.Module, anatomy: Anatomy, ids: Tensor, rows: Tensor, positions: Tensor | None = None
) -> tuple[dict[str, Goal], Tensor]:
    """The goal of every block at the query tokens, from a run with the whole context; and its logits
    `(tokens, vocabulary)`."""
    outputs: dict[str, Tensor] = {}
    blocks = [b for b in anatomy.blocks if b.supported]
    readers = {b.inputs[0].name: b.name for b in blocks if b.inputs}
    tape = Tape({name: model.get_parameter(name) for name in readers}, rows=rows)

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, out: Any = None) -> None:
            value = args[0] if out is None else hidden(out)
            outputs[name] = value[0, rows].detach()

        return hook

    before = [(model.get_submodule(b.norm), note(b.name)) for b in blocks if b.tail == "post-norm"]
    after = [(model.get_submodule(b.name), note(b.name)) for b in blocks if b.tail != "post-norm"]
    with hooked(before=before, after=after), torch.no_grad(), tape:
        first = int(rows.min())
        logits = _logits(model, anatomy, ids, ids.shape[1] - first, positions)[0, rows - first]
    read = {readers[p.name]: p.x[0].detach() for p in tape.products}
    return {b.name: Goal(read.get(b.name), outputs[b.name]) for b in blocks}, logits


def _logits(model: nn.Module, anatomy: Anatomy, ids: Tensor, last: int, positions: Tensor | None) -> Tensor:
    """The logits of the last tokens; a patched head needs its input at all tokens, so that then all are computed."""
    head = any(b.tail == "head" for b in anatomy.blocks)
    return run(model, ids, last=0 if head else last, **inputs(model, ids, positions))[:, -last:]


def solve_patches(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    ids: Tensor,
    positions: Tensor,
    rows: Tensor,
    mode: Mode,
    inversion: Inversion = "best",
    *,
    measure: bool = True,
) -> list[BlockPatch]:
    """The changes of all blocks, solved on the reduced stream, each block on the actual output of those before it.

    `inversion` and `measure`: see `solve_token`.
    """
    alone = len(rows) == 1 == ids.shape[1]
    if mode == "static" or alone or steppable(model, ids):
        with torch.no_grad(), solving(model, anatomy, wanted, rows, mode, inversion, measure=measure) as patches:
            _logits(model, anatomy, ids, 1, positions)
        return patches
    return _in_turn(model, anatomy, wanted, ids, positions, rows, mode, inversion, measure)


def _in_turn(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    ids: Tensor,
    positions: Tensor,
    rows: Tensor,
    mode: Mode,
    inversion: Inversion,
    measure: bool,
) -> list[BlockPatch]:
    """Token by token over a cache, with exactly the operations of the proof: where blocks amplify rounding errors, even
    the order of a sum counts, and the rounding errors of one block are corrected in the next only if the proof repeats
    them."""
    first = int(rows[0])
    cache: dict[str, Any] = {}
    each: list[list[BlockPatch]] = []
    own = torch.zeros(1, dtype=torch.long, device=ids.device)
    with torch.no_grad():
        if first:
            _, cache = step(model, ids[:, :first], positions[:, :first], first, cache)
        for i in range(len(rows)):
            at = slice(first + i, first + i + 1)
            goal = {name: whole.at(i) for name, whole in wanted.items()}
            with solving(model, anatomy, goal, own, mode, inversion, measure=measure) as patches:
                _, cache = step(model, ids[:, at], positions[:, at], first + i + 1, cache)
            each.append(patches)
    return [stacked(block) for block in zip(*each, strict=True)]


@contextmanager
def solving(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    rows: Tensor,
    mode: Mode,
    inversion: Inversion = "best",
    *,
    measure: bool = True,
) -> Iterator[list[BlockPatch]]:
    """While active, a forward solves and patches each block as it is reached; the changes are appended to the list."""
    patches: list[BlockPatch] = []
    states: dict[str, Callable[[], None]] = {}

    def before(block: Block) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            restore = bookmark(module, (*args, *kwargs.values()))
            if restore:
                states[block.name] = restore

        return hook

    def patch(block: Block) -> Callable[..., Any]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            rerun = Rerun(model, block, args, kwargs, rows, states.get(block.name))
            goal = wanted[block.name]
            try:
                require_finite(goal=goal.output)
                if mode == "static":
                    made, out = solve_static(rerun, goal, measure=measure)
                else:
                    made, out = solve_token(rerun, goal, whole=mode == "output", inversion=inversion, measure=measure)
                require_finite(output=hidden(out)[0, rows])
            except InputError as error:
                raise InputError(f"{block.name or 'The head'} cannot be patched: {error}") from None
            patches.append(made)
            return out

        return hook

    modules = [(b, model.get_submodule(b.name)) for b in anatomy.blocks if b.supported]
    with hooked(before=[(m, before(b)) for b, m in modules], after=[(m, patch(b)) for b, m in modules]):
        yield patches

"""The two runs behind every patch: one with the whole context, one with what is left of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from inweights.models._anatomy import Anatomy
from inweights.models._block import Block
from inweights.models._block_patch import BlockPatch, Goal, stacked
from inweights.models._hidden import hidden, is_cache, run
from inweights.models._rerun import Rerun
from inweights.models._solve import solve_static, solve_token
from inweights.models._tape import Tape

Mode = Literal["token", "static", "output"]


def inputs(model: nn.Module, ids: Tensor, positions: Tensor | None) -> dict[str, Tensor]:
    """What a forward over some of the tokens is called with: absolute positions, where the model takes them."""
    extra: dict[str, Tensor] = {"attention_mask": torch.ones_like(ids)}
    if positions is not None and takes_positions(model):
        extra["position_ids"] = positions
    return extra


def takes_positions(model: nn.Module) -> bool:
    """Whether the model can be told the positions of its tokens."""
    inner = getattr(model, "get_base_model", lambda: model)()  # an adapter's wrapper hides the signature
    return "position_ids" in inspect.signature(inner.forward).parameters


def goals(
    model: nn.Module, anatomy: Anatomy, ids: Tensor, rows: Tensor, positions: Tensor | None = None
) -> tuple[dict[str, Goal], Tensor]:
    """What every block makes of the query tokens with the whole context, and the logits `(tokens, vocabulary)`."""
    said: dict[str, Tensor] = {}
    blocks = [b for b in anatomy.blocks if b.supported]
    readers = {b.inputs[0].name: b.name for b in blocks if b.inputs}
    tape = Tape({name: model.get_parameter(name) for name in readers})

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, out: Any = None) -> None:
            value = args[0] if out is None else hidden(out)
            said[name] = value[0, rows].detach()

        return hook

    with ExitStack() as stack, torch.no_grad():
        for b in blocks:
            if b.tail == "post-norm":
                handle = model.get_submodule(b.norm).register_forward_pre_hook(note(b.name))
            else:
                handle = model.get_submodule(b.name).register_forward_hook(note(b.name))
            stack.callback(handle.remove)
        with tape:
            logits = run(model, ids, **inputs(model, ids, positions))[0, rows]
    read = {readers[p.name]: p.x[0, rows].detach() for p in tape.products}
    return {b.name: Goal(read.get(b.name), said[b.name]) for b in blocks}, logits


def solve(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    ids: Tensor,
    positions: Tensor,
    rows: Tensor,
    mode: Mode,
    stable: bool = False,
) -> list[BlockPatch]:
    """The changes of all blocks, solved on the reduced stream, each block on what the patched ones before it say.

    `stable` is for low precision, where rounding must be followed from block to block.
    """
    alone = len(rows) == 1 == ids.shape[1]
    if mode == "static" or alone or not stable or steppable(model, ids):
        with torch.no_grad(), solving(model, anatomy, wanted, rows, mode, stable) as patches:
            run(model, ids, **inputs(model, ids, positions))
        return patches
    return _in_turn(model, anatomy, wanted, ids, positions, rows, mode)


def _in_turn(
    model: nn.Module,
    anatomy: Anatomy,
    wanted: dict[str, Goal],
    ids: Tensor,
    positions: Tensor,
    rows: Tensor,
    mode: Mode,
) -> list[BlockPatch]:
    """Token by token over a cache, with the very operations of the proof: in low precision even the order of a sum
    counts, and what rounding does in one block is corrected in the next only if it does the same again."""
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
            with solving(model, anatomy, goal, own, mode, stable=True) as patches:
                _, cache = step(model, ids[:, at], positions[:, at], first + i + 1, cache)
            each.append(patches)
    return [stacked(block) for block in zip(*each, strict=True)]


@contextmanager
def solving(
    model: nn.Module, anatomy: Anatomy, wanted: dict[str, Goal], rows: Tensor, mode: Mode, stable: bool
) -> Iterator[list[BlockPatch]]:
    """While active, a forward is patched block by block as it goes; the changes end up in the list."""
    patches: list[BlockPatch] = []
    states: dict[str, Callable[[], None]] = {}

    def before(block: Block) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            bookmark = _bookmark(module, (*args, *kwargs.values()))
            if bookmark:
                states[block.name] = bookmark

        return hook

    def patch(block: Block) -> Callable[..., Any]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            rerun = Rerun(model, block, args, kwargs, rows, states.get(block.name))
            if mode == "static":
                made, out = solve_static(rerun, wanted[block.name])
            else:
                made, out = solve_token(rerun, wanted[block.name], whole=mode == "output", stable=stable)
            patches.append(made)
            return out

        return hook

    with ExitStack() as stack:
        for b in anatomy.blocks:
            if b.supported:
                module = model.get_submodule(b.name)
                stack.callback(module.register_forward_pre_hook(before(b), with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(patch(b), with_kwargs=True).remove)
        yield patches


def _bookmark(module: nn.Module, arguments: Iterable[Any]) -> Callable[[], None] | None:
    """What puts the cache of this block back to how it is now: a block that runs again would write to it again."""
    index: Any = next((m.layer_idx for m in module.modules() if isinstance(getattr(m, "layer_idx", None), int)), None)
    cache = next((a for a in arguments if is_cache(a)), None)
    layers = getattr(cache, "layers", None)
    if layers is None or index is None:
        return None
    known = index < len(layers)
    state = _copied(vars(layers[index])) if known else {}

    def restore() -> None:
        if known:
            vars(layers[index]).update(_copied(state))
        else:
            del layers[index:]

    return restore


def _copied(value: Any) -> Any:
    """Tensors anew, also those in dicts and lists; everything else as it is."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def steppable(model: nn.Module, ids: Tensor) -> str:
    """Why the model cannot be run token by token over its cache; empty if that gives what a whole forward gives."""
    ids = ids[:, -4:]
    at = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    try:
        with torch.no_grad():
            whole = run(model, ids, **inputs(model, ids, at))
            cache: dict[str, Any] = {}
            for i in range(ids.shape[1]):
                logits, cache = step(model, ids[:, i : i + 1], at[:, i : i + 1], i + 1, cache)
                off = float((logits[0, -1] - whole[0, i]).abs().max())
                if not off <= 0.02 * float(whole[0, i].abs().max()):
                    return f"its logits then differ by {off:.1e}"
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ""


def step(
    net: nn.Module, ids: Tensor, positions: Tensor, seen: int, cache: dict[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """One forward over a cache: logits `(1, n, vocabulary)` and the cache after it."""
    extra: dict[str, Any] = {"attention_mask": torch.ones(1, seen, dtype=torch.long, device=ids.device)}
    if takes_positions(net):
        extra["position_ids"] = positions
    out = net(input_ids=ids, use_cache=True, **extra, **cache)
    kept = {k: out[k] for k in ("past_key_values", "cache_params", "state") if k in out and out[k] is not None}
    return out.logits, kept

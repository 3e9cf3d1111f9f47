"""The trajectory on a language model: how every block's update builds up while the context is read.

n+1 copies of the query, each attending to its own prefix of one shared context by a mask, are run through the model in
packed pieces over the cached context. Each copy has a bare twin, whose attention is masked from the context and whose
stream is the output of the patched blocks before; the difference of their attention outputs is the update.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from inweights._draw import Shown, draw_heatmap, heatmap_size, readable
from inweights._errors import InputError, out_of_memory
from inweights.models._block_patch import BlockPatch
from inweights.models._packed import PackedFactors, matrix, packed
from inweights.models._patch import Patch, require_supported
from inweights.models._prompt import Prompt
from inweights.models._run import goals, solve_patches
from inweights.models._twin import twins
from inweights.running import Block, full_precision, takes_positions
from inweights.theory import norm


@dataclass(frozen=True, eq=False)
class Trace(Shown):
    """How the updates of the last query token build up. All of shape `(layers, folded tokens)`.

    - `norms`: `‖ΔW_{i+1} − ΔW_i‖_F` of the input update, caused by folded token i; all input controls of a block
      count as one matrix.
    - `totals`: `‖ΔW_{i+1}‖_F / ‖W‖_F`: how far the weights have moved once token i is read.
    - `output_norms`, `output_totals`: the same for the output control.
    - `how`: `"packed"`, or why each prefix had to be run by itself.
    """

    tokens: list[str]
    layers: list[str]
    norms: Tensor
    totals: Tensor
    output_norms: Tensor
    output_totals: Tensor
    seconds: float
    how: str = "packed"

    def top(self, most: int = 10) -> list[tuple[str, int, float]]:
        """The tokens that move the weights most: token, index, and the mean of `norms` over layers."""
        mean = self.norms.mean(0)
        order = mean.topk(min(most, len(mean))).indices.tolist()
        return [(self.tokens[i], i, float(mean[i])) for i in order]

    def _draw(self, axes: Any) -> None:
        draw_heatmap(axes, self.norms.tolist(), self.tokens, "‖ΔWᵢ₊₁ − ΔWᵢ‖")

    def _size(self) -> tuple[float, float]:
        return heatmap_size(self.tokens)

    def _rows(self) -> list[tuple[str, str]]:
        first = ", ".join(repr(readable(token)) for token, *_ in self.top(5))
        way = "all prefixes packed into few passes" if self.how == "packed" else self.how
        return [
            ("tokens × layers", f"{len(self.tokens)} × {len(self.layers)}"),
            ("tokens that move the weights most", first),
            ("‖ΔW‖/‖W‖ after the context, mean over layers", f"{float(self.totals[:, -1].mean()):.3g}"),
            ("computed in", f"{self.seconds:.1f} s ({way})"),
        ]


def trace(prompt: Prompt, *, piece: int = 64, leave_one_out: bool = False, made: Patch | None = None) -> Trace:
    """The trajectory over all prefixes of what the prompt folds.

    **Arguments:**

    - `piece`: how many copies of the query are packed into one forward.
    - `leave_one_out`: instead of prefixes, what each folded token adds when all others are seen: `norms` then holds
      `‖ΔW(all) − ΔW(all but i)‖_F` and `totals` the size of the latter. What other context tokens took from token i
      stays with them.
    - `made`: the patch of this prompt in token mode, where there is one: the check of the packed passes then needs no
      run of its own.

    **Example:**

    ```python
    import inweights as iw

    m = iw.load("smollm2", dtype="float64")
    prompt = iw.Prompt(m, context="My name is Bob. ", query="I am")
    print(iw.trace(prompt).norms.shape[1])  # a row for each block, a column for each folded token
    # prints 6
    ```
    """
    start = time.perf_counter()
    keeps = staircase(prompt)
    if leave_one_out:
        keeps = torch.cat([_all_but_one(prompt), keeps[-1:]])
    results, blocks, why = factors(prompt, keeps, piece, made)
    net = prompt.model.model
    steps = {kind: [_steps(u, v, against_last=leave_one_out) for u, v in results[kind]] for kind in ("input", "output")}
    sizes = {"input": [_size(net, [c.name for c in b.inputs]) for b in blocks]}
    sizes["output"] = [_size(net, b.adding) for b in blocks]
    norms = {kind: torch.stack([step for step, _ in pairs]) for kind, pairs in steps.items()}
    totals = {
        kind: torch.stack([total / size for (_, total), size in zip(pairs, sizes[kind], strict=True)])
        for kind, pairs in steps.items()
    }
    tok = prompt.model.tokenizer
    ids = prompt.ids[0, _folded(prompt)].tolist()
    return Trace(
        [str(i) for i in ids] if tok is None else tok.convert_ids_to_tokens(ids),
        [b.name or "head" for b in blocks],
        norms["input"],
        totals["input"],
        norms["output"],
        totals["output"],
        time.perf_counter() - start,
        why or "packed",
    )


def factors(
    prompt: Prompt, keeps: Tensor, piece: int = 64, made: Patch | None = None
) -> tuple[PackedFactors, tuple[Block, ...], str]:
    """The factors of the updates for every row of `keeps`, the blocks they are of, and why they were not packed."""
    why = unpackable(prompt)
    if not why:
        results, why = _packed_if_right(prompt, keeps, piece, made)
        if not why:
            return results, prompt.model.anatomy.blocks, ""
    return *one_by_one(prompt, keeps), why


def _packed_if_right(prompt: Prompt, keeps: Tensor, piece: int, made: Patch | None) -> tuple[PackedFactors, str]:
    """The packed factors, unless the model's attention does not follow the mask (windows, caches of other kinds): the
    copy that attends to the whole context must have the results of the plain prompt."""
    try:
        result = packed(prompt, keeps, piece)
    except (RuntimeError, ValueError, KeyError, AttributeError, TypeError) as error:
        if isinstance(error, InputError) or out_of_memory(error):
            raise
        return {}, (str(error).strip().splitlines() or [type(error).__name__])[0]
    net = prompt.model.model
    if made is None or any(b.inversion for b in made.blocks):  # which may share the work of a norm in another way
        plain = [u[0] for u, _ in one_by_one(prompt, keeps[-1:])[0]["input"]]
    else:
        plain = [_input_factors(net, b.at(prompt.asked - 1))[0] for b in made.blocks]
    for (mine, _), other in zip(result["input"], plain, strict=True):
        # Written so that NaN counts as a difference.
        if not float((mine[-1] - other).norm()) <= 1e-2 * float(other.norm()):
            return {}, "its attention does not see just what the mask allows"
    return result, ""


def staircase(prompt: Prompt) -> Tensor:
    """Which context tokens each copy sees, `(folded + 1, context)`: copy i all kept ones and the first i folded."""
    folded, n = _folded(prompt), prompt.context_tokens
    keeps = torch.ones(len(folded) + 1, n, dtype=torch.bool, device=prompt.ids.device)
    keeps[:, folded] = torch.ones(len(folded) + 1, len(folded), dtype=torch.bool, device=keeps.device).tril(-1)
    return keeps


def _all_but_one(prompt: Prompt) -> Tensor:
    folded = _folded(prompt)
    keeps = torch.ones(len(folded), prompt.context_tokens, dtype=torch.bool, device=prompt.ids.device)
    keeps[torch.arange(len(folded)), folded] = False
    return keeps


def _folded(prompt: Prompt) -> Tensor:
    seen = torch.zeros(prompt.context_tokens, dtype=torch.bool, device=prompt.ids.device)
    seen[prompt.left[prompt.left < prompt.context_tokens]] = True
    return (~seen).nonzero().squeeze(-1)


def unpackable(prompt: Prompt) -> str:
    """Why copies of the query cannot be packed into one forward here; empty if they can."""
    model = prompt.model
    require_supported(model)
    if len(prompt.left) > prompt.asked:
        return "tokens are kept, and each copy's twin would need a run of them by itself"
    if not takes_positions(model.model) or prompt.positions == "shifted":
        return "the model takes no positions, or they are shifted"
    if not all(b.inputs for b in model.anatomy.blocks):
        return "a block has no input control"
    return twins(model.anatomy, model.model)


def one_by_one(prompt: Prompt, keeps: Tensor) -> tuple[PackedFactors, tuple[Block, ...]]:
    """The same factors as `packed`, by one run for each row of `keeps`, for any model; and the blocks they are of."""
    model, net, query = prompt.model, prompt.model.model, prompt.query_rows
    each: list[list[BlockPatch]] = []
    with full_precision(model.model):
        for keep in keeps:
            seen = torch.cat([keep.nonzero().squeeze(-1), query])
            rows = torch.arange(len(seen) - prompt.asked, len(seen), device=seen.device)
            wanted, _ = goals(net, model.anatomy, prompt.ids[:, seen], rows, seen.unsqueeze(0))
            # One kind of change for all prefixes, so that they can be compared: on a branch norm, its scale alone.
            patches = solve_patches(
                net, model.anatomy, wanted, prompt.reduced_ids, prompt.reduced_positions, prompt.reduced_rows, "token",
                "naive", measure=False,
            )  # fmt: skip
            each.append([p.at(prompt.asked - 1) for p in patches])
    results: PackedFactors = {"input": [], "output": []}
    for copies in zip(*each, strict=True):
        for kind, of in (("input", _input_factors), ("output", _output_factors)):
            pairs = [of(net, p) for p in copies]
            results[kind].append((torch.stack([u for u, _ in pairs]), torch.stack([v for _, v in pairs])))
    return results, tuple(p.block for p in each[0])


def _input_factors(net: nn.Module, patch: BlockPatch) -> tuple[Tensor, Tensor]:
    """The input update of one token as vectors `u` (over all input controls, experts too) and `v`."""
    if patch.read is None:
        none = next(net.parameters()).new_zeros(1)
        return none, none
    # `W Δz` of every matrix that reads the input, one after the other.
    stack = torch.cat([matrix(net, c).flatten(0, -2) for c in patch.block.inputs])
    u, v = (f.squeeze(-1) for f in patch.read.premultiplied(stack).factors)
    return u, v


def _output_factors(net: nn.Module, patch: BlockPatch) -> tuple[Tensor, Tensor]:
    """The output update of one token as vectors."""
    some = next(net.parameters())
    if patch.moved and not patch.added:  # a vector: as if carried by the number 1
        return next(iter(patch.moved.values())), some.new_ones(1)
    u = next(iter(patch.added.values())).u.squeeze(-1)
    # One long vector over all experts of all last matrices: those that are not visited stay zero.
    parts = []
    for c in patch.block.outputs:
        width = matrix(net, c).shape[-1]
        for expert in range(c.experts) if c.experts else (-1,):
            update = patch.added.get((c.name, expert))
            parts.append(some.new_zeros(width) if update is None else update.v.squeeze(-1))
    return u, torch.cat(parts)


def _size(net: nn.Module, names: Iterable[str]) -> float:
    """`‖W‖_F` of some parameters together; 1 where there are none, so that nothing stays nothing."""
    return math.hypot(*(float(norm(net.get_parameter(n).detach().flatten())) for n in names)) or 1.0


def _steps(u: Tensor, v: Tensor, *, against_last: bool) -> tuple[Tensor, Tensor]:
    """`‖ΔW_{i+1} − ΔW_i‖` and `‖ΔW_{i+1}‖` from factors `(copies, ·)`; or the steps from each copy to the last one,
    and the size of each."""
    # Sizes first: squares of massive or tiny factors would leave the range.
    sizes = [t.abs().max().clamp_min(torch.finfo(t.dtype).tiny) for t in (u, v)]
    u, v = u / sizes[0], v / sizes[1]
    u0, v0 = u[:-1], v[:-1]
    u1, v1 = (u[-1:].expand_as(u0), v[-1:].expand_as(v0)) if against_last else (u[1:], v[1:])
    # u1 v1ᵀ − u0 v0ᵀ = (u1 − u0) v1ᵀ + u0 (v1 − v0)ᵀ: no large numbers are subtracted from each other.
    du, dv = u1 - u0, v1 - v0
    square = (
        du.square().sum(-1) * v1.square().sum(-1)
        + u0.square().sum(-1) * dv.square().sum(-1)
        + 2 * (du * u0).sum(-1) * (v1 * dv).sum(-1)
    )
    total = (u0 if against_last else u1).norm(dim=-1) * (v0 if against_last else v1).norm(dim=-1)
    size = sizes[0] * sizes[1]
    return (size * square.clamp_min(0).sqrt()).cpu(), (size * total).cpu()

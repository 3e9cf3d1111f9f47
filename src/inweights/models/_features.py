"""The inputs of the last matrices of a block for each query token, and updates that add a given vector."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.models._block_patch import Slot
from inweights.running import Block, Tape, cotangent
from inweights.theory import Update, pseudoinverse


def features(tape: Tape, aim: Tensor, rows: Tensor, block: Block) -> tuple[dict[Slot, Tensor], Tensor]:
    """The input of each last matrix for each query token, and how its result is scaled on the way to `aim`.

    Returns `{slot: (tokens, in)}` and `(tokens, out)`: a change of the matrices adds
    `scale ⊙ Σ_slots ΔW_slot feature_slot`.
    """
    names = {c.name for c in block.outputs}
    products = [p for p in tape.products if p.name in names]
    if block.unit:
        return {(products[-1].name, -1): products[-1].x[0, rows].detach()}, torch.ones_like(aim[0, rows]).detach()
    made = [p.made for p in products]
    # The token of each row: two cotangents encode its number in digits, small enough for any precision.
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
    """The columns of one solution over concatenated features, split by matrix."""
    sizes = [f.shape[-1] for f in features.values()]
    return [Update(update.u, v) for v in update.v.split(sizes, -2)]

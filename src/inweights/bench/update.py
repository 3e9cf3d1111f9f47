"""The updates of all tokens of many prompts: factors against dense matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.bench._measure import Result, Row, race
from inweights.theory import Update, implicit_update


def run(tasks: int = 64, tokens: int = 40, out: int = 252, width: int = 63, rounds: int = 7) -> Result:
    """Runs the benchmark. Both sides compute the update of every token of every task, its Frobenius norm, and its
    contribution to the output. The rival forms each `ΔW` as a dense matrix, as public code does."""
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    W = randn(out, width) / width**0.5
    a, deltas = randn(tasks, 1, width), randn(tasks, tokens, width)

    def factors() -> tuple[Update, Tensor, Tensor]:
        update = implicit_update(W, a, deltas)
        return update, update.frobenius(), update(a)

    def dense() -> tuple[Tensor, Tensor, Tensor]:
        scaled = a / a.square().sum(-1, keepdim=True)
        update = torch.einsum("tni,tj->tnij", deltas @ W.mT, scaled.squeeze(1))
        return update, torch.linalg.matrix_norm(update), torch.einsum("tnij,tj->tni", update, a.squeeze(1))

    ours, rival = factors(), dense()
    pairs = zip((ours[0].dense(), *ours[1:]), rival, strict=True)
    error = max((x - y).abs().max().item() for x, y in pairs)
    memory = Row("memory", ours[0].nbytes, rival[0].nbytes, "bytes", goal=60)
    del ours, rival, pairs
    fast, slow = race(factors, dense, rounds=rounds)
    return Result(
        setting=f"{tasks} tasks × {tokens} tokens, W {out} × {width}, float32, {torch.get_num_threads()} thread(s)",
        headline="time",
        rows=(Row("time", fast, slow, "seconds", goal=10), memory),
        error=error,
        tolerance=1e-4,
    )

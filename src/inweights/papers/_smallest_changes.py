"""Changes of the first matrix computed without our formulas: dense matrices from LAPACK or from training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from inweights.blocks import ContextualBlock
from inweights.theory import Changes, Update


def smallest(reads: Tensor, targets: Tensor) -> Tensor:
    """The matrices `(..., out, in)` of least norm that map `reads` `(..., k, in)` to `targets` `(..., k, out)`: least
    squares by singular values."""
    return torch.linalg.lstsq(reads, targets, driver="gelsd").solution.mT


def run(block: ContextualBlock, change: Tensor, context: Tensor, query: Tensor, keep: Tensor | None = None) -> Tensor:
    """The outputs of the block with dense changes `(..., out, in)` of its first matrix, one for each prompt."""
    identity = torch.eye(change.shape[-1], dtype=change.dtype).expand(*change.shape[:-2], -1, -1)
    changes = Changes((Update(change, identity, block.input_controls[0]),))
    out = changes.run(block, context, query) if keep is None else changes.run(block, context, query, keep=keep)
    assert isinstance(out, Tensor)
    return out.detach()


def trained(block: ContextualBlock, queries: Tensor, wanted: Tensor, start: Tensor, seed: int) -> Tensor:
    """For each query `(prompts, width)` a change `(prompts, out, in)` of the first matrix, trained from `start` until
    the output for the query alone is `wanted`. Only outputs and their derivatives are used.

    A training that does not converge is repeated, up to nine times, from `start` plus random numbers from `seed`.
    """
    W = block.get_parameter(block.input_controls[0]).detach()
    random = torch.Generator().manual_seed(seed)
    change, miss = _descended(block, queries, wanted, start)
    for _ in range(9):
        stuck = miss > 1e-10
        if not bool(stuck.any()):
            break
        noise = W.std() * torch.randn(start.shape, generator=random, dtype=start.dtype)
        again, still = _descended(block, queries[stuck], wanted[stuck], (start + noise)[stuck])
        better = still < miss[stuck]
        change[stuck] = torch.where(better[:, None, None], again, change[stuck])
        miss[stuck] = torch.where(better, still, miss[stuck])
    return change


def _descended(block: ContextualBlock, queries: Tensor, wanted: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """The change after 30 Levenberg-Marquardt steps, each damped until it reduces the error; and the largest error of
    an output, `(prompts,)`."""
    name = block.input_controls[0]
    W = block.get_parameter(name).detach()

    def say(change: Tensor, query: Tensor) -> Tensor:
        out = functional_call(block, {name: W + change}, (query.unsqueeze(0)[:0], query))
        assert isinstance(out, Tensor)
        return out

    slopes, say_all = vmap(jacrev(say)), vmap(say)
    damping = wanted.new_full((len(wanted), 1, 1), 1e-2)
    identity = torch.eye(wanted.shape[-1], dtype=wanted.dtype)
    with torch.no_grad():
        missed = wanted - say_all(change, queries)
        for _ in range(30):
            J = slopes(change, queries).flatten(2)  # (prompts, outputs, numbers)
            step = J.mT @ torch.linalg.solve(J @ J.mT + damping * identity, missed.unsqueeze(-1))
            if not bool(step.any()):  # no change has an effect
                break
            after = change + step.reshape_as(change)
            left = wanted - say_all(after, queries)
            helps = left.norm(dim=-1) < missed.norm(dim=-1)
            change = torch.where(helps[:, None, None], after, change)
            missed = torch.where(helps[:, None], left, missed)
            damping = (damping * torch.where(helps, 0.2, 5.0)[:, None, None]).clamp(1e-12, 1e6)
    return change, missed.abs().amax(-1)

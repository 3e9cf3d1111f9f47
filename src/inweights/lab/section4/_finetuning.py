"""Training on examples, against the implicit update of reading them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from inweights.blocks import ContextualBlock, trajectory
from inweights.lab.section4._coincidence import WEIGHT
from inweights.lab.section4._linear import LinearTask, Prompts
from inweights.lab.section4._one_block import predict


class Finetuning(NamedTuple):
    """Test losses after the first i examples, `i = 0 … n`; all of shape `(trials, n+1)`.

    - `sgd`: after i steps of SGD on `W`, one example each; one `W` for all queries of a trial.
    - `implicit`: with `W + ΔW(c_1…c_i)`, where every query has its own `ΔW`.
    - `borrowed`: the control for `implicit`: a query with the `ΔW` of another query of the same trial.
    - `untrained`: the control for `sgd`: the same in an untrained block.
    - `rate`: the learning rate of SGD, the best of `rates` on other trials; `untrained_rate` likewise.
    """

    sgd: Tensor
    implicit: Tensor
    borrowed: Tensor
    untrained: Tensor
    rate: float
    untrained_rate: float
    rates: tuple[float, ...]


def finetuning(
    block: ContextualBlock,
    untrained: ContextualBlock,
    task: LinearTask,
    examples: int,
    *,
    trials: int = 100,
    queries: int = 16,
    seed: int,
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
) -> Finetuning:
    """Fine-tuning by SGD on the first i examples against the implicit update of the same examples.

    SGD changes the matrix that `ΔW` changes, and nothing else. Its learning rate is chosen for the smallest mean loss
    over the whole curve, on separate trials.
    """
    rehearsal = task.prompts(trials, examples, seed=seed, step=1, queries=queries)
    prompts = task.prompts(trials, examples, seed=seed, step=2, queries=queries)

    def best(b: ContextualBlock) -> tuple[float, Tensor]:
        rate = min(rates, key=lambda r: _finite_mean(_sgd_losses(b, rehearsal, r)))
        return rate, _sgd_losses(b, prompts, rate)

    (rate, sgd), (untrained_rate, control) = best(block), best(untrained)
    own, borrowed = (_implicit_losses(block, prompts, shift) for shift in (0, 1))
    return Finetuning(sgd, own, borrowed, control, rate, untrained_rate, rates)


def _implicit_losses(block: ContextualBlock, prompts: Prompts, shift: int) -> Tensor:
    """Losses `(trials, n+1)` with the update of each query itself, or of the query `shift` places further on."""
    context, query, target = prompts
    n = context.shape[-2]
    context = context.unsqueeze(1)  # shared by the queries of a trial
    changes = trajectory(block, context, query.roll(shift, 1))  # (trials, queries, n+1)
    batch = (*target.shape, n + 1)
    with torch.no_grad():
        out = changes.run(
            block,
            # The query runs alone, with an empty context, so that no information can leak through it.
            context[..., :0, :].unsqueeze(-3).expand(*batch, 0, context.shape[-1]),
            query.unsqueeze(-2).expand(*batch, query.shape[-1]),
            chunk=4096,
        )
    return (predict(out) - target.unsqueeze(-1)).square().mean(1)


def _sgd_losses(block: ContextualBlock, prompts: Prompts, rate: float) -> Tensor:
    context, query, target = prompts
    points, labels = context.clone(), context[..., -1]
    points[..., -1] = 0  # an example as a query: its label hidden
    nothing = context[0, :0]

    def losses(W: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The losses of one trial; `x` is `(k, width)`, `y` is `(k,)`."""
        out = functional_call(block, {WEIGHT: W}, (nothing.expand(len(x), *nothing.shape), x))
        return (predict(out) - y).square().mean()

    W = block.get_parameter(WEIGHT).detach().expand(len(context), -1, -1)
    test, slope = vmap(losses), vmap(grad(losses))
    curve = [test(W, query, target)]
    for i in range(context.shape[1]):
        W = W - rate * slope(W, points[:, i : i + 1], labels[:, i : i + 1])
        curve.append(test(W, query, target))
    return torch.stack(curve, 1).detach()


def _finite_mean(losses: Tensor) -> float:
    return losses.mean().nan_to_num(torch.inf).item()

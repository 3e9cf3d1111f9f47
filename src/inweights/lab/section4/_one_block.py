"""The one-block transformer of the paper's section 4, and its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights._errors import InputError, Problems
from inweights.blocks import ContextualBlock, Dense, SoftmaxAttention
from inweights.lab.section4._linear import LinearTask


@dataclass(frozen=True)
class OneBlock:
    """Settings of the experiment: one attention layer and one dense part, no skip, no norm, no positions.

    Sizes follow the public replication of the paper's section 4.1 (8 heads of width 4, attention output 32,
    128 hidden units, 2 dimensions); the paper does not state optimiser and steps.
    """

    dims: int = 2
    examples: int = 50
    heads: int = 8
    head_width: int = 4
    read: int = 32
    hidden: int = 128
    steps: int = 2000
    batch: int = 256
    rate: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        problems = Problems()
        for name in ("dims", "examples", "heads", "head_width", "read", "hidden", "steps", "batch"):
            value = getattr(self, name)
            problems.unless(value >= 1, f"`{name}` is {value}, but must be at least 1.")
        problems.unless(self.rate > 0, f"`rate` is {self.rate}, but must be positive.")
        problems.stop()

    @property
    def task(self) -> LinearTask:
        """The task that the block is trained on."""
        return LinearTask(self.dims)

    def make(self) -> ContextualBlock:
        """The untrained block; the same seed gives the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            layer = SoftmaxAttention(self.dims + 1, self.read, heads=self.heads, head_width=self.head_width)
            return ContextualBlock(layer, Dense(self.read, self.hidden, self.dims + 1, F.relu))


def predict(output: Tensor) -> Tensor:
    """The block's prediction: the last coordinate of its output, which is the label's place in the query."""
    return output[..., -1]


@dataclass
class BlockTraining:
    """A trained block and its training curve: the loss on the batch of every step."""

    block: ContextualBlock
    losses: list[float] = field(default_factory=list)


def train_block(settings: OneBlock, after: Callable[[int, ContextualBlock], None] | None = None) -> BlockTraining:
    """Trains by Adam with a one-cycle rate on fresh prompts.

    `after(step, block)` is called before the first step with 0 and then after each one.
    """
    run = BlockTraining(settings.make())
    optimiser = torch.optim.Adam(run.block.parameters(), settings.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.rate, total_steps=settings.steps + 1, pct_start=0.1
    )
    if after:
        after(0, run.block)
    for step in range(1, settings.steps + 1):
        prompts = settings.task.prompts(settings.batch, settings.examples, seed=settings.seed, step=step)
        loss = F.mse_loss(predict(run.block(prompts.context, prompts.query)), prompts.target)
        run.losses.append(loss.item())
        if not loss.isfinite():
            raise InputError(
                f"The loss became {loss.item()} at step {step}: train with a `rate` below {settings.rate}."
            )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(run.block.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if after:
            after(step, run.block)
    return run

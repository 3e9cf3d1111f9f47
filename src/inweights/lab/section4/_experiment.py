"""The experiment of the paper's section 4: train the one-block transformer, and measure it during and after."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inweights.blocks import ContextualBlock
from inweights.lab.section4._coincidence import Coincidence, coincidence, decay_exponent, implicit_path
from inweights.lab.section4._finetuning import Finetuning, finetuning
from inweights.lab.section4._linear import Prompts
from inweights.lab.section4._one_block import OneBlock, train_block

# Tolerances: predictions are of order 1, and both sides make some hundred roundings.
FLOAT32, FLOAT64, MISS = 1e-4, 1e-10, 1e-2


@dataclass(frozen=True)
class Section4:
    """The measurements of the experiment.

    - `steps`, `during`: prompt against weights at some steps of the training, float32.
    - `exact`: the same after the training, float64.
    - `trained`, `untrained`: `‖ΔW_i − ΔW_{i−1}‖`, `i = 1 … n`, on test prompts, shape `(prompts, n)`.
    - `relative`: the median of `‖ΔW‖_F / ‖W‖_F` over test prompts, all examples read.
    - `tuned`: reading examples against training on them.
    - `seconds`: the duration of the training, including the measurements during it.
    """

    settings: OneBlock
    seconds: float
    steps: list[int]
    during: list[Coincidence]
    exact: Coincidence
    trained: Tensor
    untrained: Tensor
    relative: float
    tuned: Finetuning

    @property
    def holds(self) -> bool:
        """Whether prompt and weights agree to rounding, and a random update of equal norm does not."""
        return (
            max(c.difference for c in self.during) <= FLOAT32
            and self.exact.difference <= FLOAT64
            and min(self.during[-1].control, self.exact.control) > MISS
        )

    def numbers(self) -> dict[str, float]:
        """The measurements in one number each."""
        return {
            "relative_update": self.relative,
            "untrained_loss": self.during[0].prompt_loss,
            "prompt_loss": self.during[-1].prompt_loss,
            "weights_loss": self.during[-1].weights_loss,
            "max_difference_float32": max(c.difference for c in self.during),
            "max_difference_float64": self.exact.difference,
            "control_difference": self.exact.control,
            "increment_exponent_trained": decay_exponent(self.trained.median(0).values),
            "increment_exponent_untrained": decay_exponent(self.untrained.median(0).values),
            "finetuning_rate": self.tuned.rate,
            "finetuning_loss": self.tuned.sgd.mean(0)[-1].item(),
            "finetuning_loss_untrained": self.tuned.untrained.mean(0)[-1].item(),
            "implicit_loss": self.tuned.implicit.mean(0)[-1].item(),
            "implicit_loss_borrowed": self.tuned.borrowed.mean(0)[-1].item(),
            "seconds_training": self.seconds,
        }


def section4(settings: OneBlock, after: Callable[[int, float], None] | None = None) -> Section4:
    """Runs the experiment; `after(step, loss)` is called with 0 and after every step, with the last test loss."""
    # Test prompts have a separate seed: no training step has seen them.
    test = settings.task.prompts(1000, settings.examples, seed=settings.seed + 1_000_003)
    moments = {round(settings.steps * i / 40) for i in range(41)}
    steps: list[int] = []
    during: list[Coincidence] = []

    def look(step: int, block: ContextualBlock) -> None:
        if step in moments:
            steps.append(step)
            during.append(coincidence(block, test))
        if after:
            after(step, during[-1].prompt_loss)

    start = time.perf_counter()
    block = train_block(settings, look).block
    seconds = time.perf_counter() - start
    paths = [implicit_path(b, test) for b in (block, settings.make())]
    trained, untrained = (path.increments() for path in paths)
    relative = (paths[0].updates[:, -1].frobenius() / torch.linalg.matrix_norm(paths[0].W0)).median().item()
    tuned = finetuning(block, settings.make(), settings.task, settings.examples, seed=settings.seed + 2_000_003)
    exact = coincidence(block.double(), Prompts(*(t.double() for t in test)))
    return Section4(settings, seconds, steps, during, exact, trained, untrained, relative, tuned)

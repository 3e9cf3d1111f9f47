"""*Learning without training* (arXiv 2507.16003): the experiments of its section 4, on one small block."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cache

import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional as F

from inweights.blocks import ContextualBlock, Dense, LinearAttention, absorb
from inweights.lab.section4 import (
    LinearTask,
    OneBlock,
    Prompts,
    decay_exponent,
    finetuning,
    implicit_path,
    predict,
    train_block,
)
from inweights.ledger import Measurement, Plot, Trial, claim, kept
from inweights.papers._papers import DHERIN
from inweights.theory import Changes

LOSSES = ("context", "update", "random update")


@dataclass(frozen=True)
class Trained:
    """The block of section 4 after its training.

    - `steps`: the steps of the measurements. `losses[name]`: the losses at these steps with the context, with the
      update in its place, and with a random update.
    - `test`: prompts that it was not trained on.
    """

    settings: OneBlock
    block: ContextualBlock
    test: Prompts
    steps: list[int]
    losses: dict[str, list[float]]


def trained(trial: Trial) -> Trained:
    """The trained block, which several claims share; it is trained once."""
    return _trained(trial.seed, trial.quick)


@cache
def _trained(seed: int, quick: bool) -> Trained:
    settings = OneBlock(steps=400, batch=64, seed=seed) if quick else OneBlock(seed=seed)
    test = settings.task.prompts(200 if quick else 1000, settings.examples, seed=seed + 1_000_003)
    moments = range(0, settings.steps + 1, settings.steps // 20)
    result = kept(f"section4-{seed}-{'quick' if quick else 'full'}", lambda: training(settings, test, moments))
    losses = {name: result.pop(name).tolist() for name in LOSSES}
    block = settings.make()
    block.load_state_dict(result)
    return Trained(settings, block, test, list(moments), losses)


def training(settings: OneBlock, test: Prompts, moments: Container[int]) -> dict[str, Tensor]:
    """The parameters after training, and the three losses by name at some steps of it, each `(moments,)`."""
    seen: list[dict[str, float]] = []

    def look(step: int, block: ContextualBlock) -> None:
        if step in moments:
            seen.append(three_losses(block, test, settings.seed))

    block = train_block(settings, look).block
    losses = {name: torch.tensor([each[name] for each in seen], dtype=torch.float64) for name in LOSSES}
    return losses | block.state_dict()


def three_losses(block: ContextualBlock, prompts: Prompts, seed: int) -> dict[str, float]:
    """Mean squared errors with the context, with the update in its place, and with a random one of equal norm."""
    context, query, target = prompts
    changes = absorb(block, context, query)

    def alone(changes: Changes) -> Tensor:
        return changes.run(block, context[:, :0], query)

    with torch.no_grad():
        output = (block(context, query), alone(changes), alone(changes.random_like(seed)))
    return {name: F.mse_loss(predict(out), target).item() for name, out in zip(LOSSES, output, strict=True)}


@claim("dherin-losses-coincide", DHERIN, "Section 4, check of the theorem", cost=(12, 300))
def losses_coincide(trial: Trial) -> Measurement:
    """Throughout training, the test loss of the block with the prompt equals that of the block with ΔW and no prompt.

    Measured: the difference of the two losses at each of 20 steps of the training.

    Control: the same with a random update of rank 1 and equal norm. (Before the first step the block's output is close
    to 0 with any update: that point is plotted, but not judged.)

    Settings: the block of section 4 (2 dimensions, 50 examples, 8 heads of width 4, 128 hidden units), Adam, 400 steps
    of 64 prompts (full: 2,000 of 256), 200 test prompts (full: 1,000), float32.
    """
    result = trained(trial)
    context = torch.tensor(result.losses["context"])
    value, control = ((torch.tensor(result.losses[name]) - context)[1:].abs() for name in ("update", "random update"))
    plot = Plot("Prompt and weights during training", "step", "test loss", result.steps, result.losses, log="y")
    return Measurement({"difference": (value, control)}, plot, {"loss in the end": result.losses["context"][-1]})


def summing(settings: OneBlock) -> ContextualBlock:
    """The untrained block with linear attention, which sums over the context instead of averaging."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        layer = LinearAttention(settings.dims + 1, settings.read, heads=settings.heads, head_width=settings.head_width)
        return ContextualBlock(layer, Dense(settings.read, settings.hidden, settings.dims + 1, F.relu))


def rank_correlation(line: Tensor) -> float:
    """Spearman's rank correlation of a sequence with its index."""
    return float(spearmanr(range(len(line)), line.tolist()).statistic)


@claim("dherin-increments-vanish", DHERIN, "Section 4, convergence of ΔW", cost=(12, 300))
def increments_vanish(trial: Trial) -> Measurement:
    """The more examples are read, the less the next one changes the weights: ‖ΔW_{i+1} − ΔW_i‖ goes to zero, like the
    steps of converging gradient descent.

    Measured: on the mean over test prompts, the rank correlation with i, and the last increment over the first.

    Control: an untrained block with linear attention, which sums over the context, where softmax averages.

    Rival: averaging alone: the same block before its training, on the same prompts. If its increments vanish too, this
    is no evidence of learning. (Also measured: the exponents of both.)

    Settings: the trained block of section 4, as for `dherin-losses-coincide`, 50 examples; exponents of
    ‖ΔW_{i+1} − ΔW_i‖ as a power of i by least squares, on the median over test prompts.
    """
    result = trained(trial)
    blocks = {
        "trained": result.block,
        "untrained": result.settings.make(),
        "linear attention, untrained": summing(result.settings),
    }
    paths = {name: implicit_path(block, result.test).increments() for name, block in blocks.items()}
    lines = {name: path.mean(0) for name, path in paths.items()}
    ranks = {name: rank_correlation(line) for name, line in lines.items()}
    ratios = {name: float(line[-1] / line[0]) for name, line in lines.items()}
    shown = {name: (line / line[0]).tolist() for name, line in lines.items()}
    x = list(range(1, len(lines["trained"]) + 1))
    added = "linear attention, untrained"
    return Measurement(
        {
            "rank_correlation": (ranks["trained"], ranks[added]),
            "last_to_first": (ratios["trained"], ratios[added]),
        },
        Plot("What each example adds to the weights", "example", "‖ΔW_i − ΔW_{i−1}‖, first = 1", x, shown, log="xy"),
        {f"exponent, {name}": decay_exponent(paths[name].median(0).values) for name in ("trained", "untrained")},
        {"rank_correlation": ranks["untrained"], "last_to_first": ratios["untrained"]},
    )


@dataclass(frozen=True)
class OtherLabels(LinearTask):
    """Prompts with examples of another function than that of the query."""

    def prompts(self, batch: int, examples: int, *, seed: int, step: int = 0, queries: int = 1) -> Prompts:
        result = super().prompts(batch, examples, seed=seed, step=step, queries=queries)
        return result._replace(context=result.context.roll(1, 0))


@claim("dherin-finetuning", DHERIN, "Section 4, comparison with fine-tuning", cost=(24, 400))
def finetuned(trial: Trial) -> Measurement:
    """Reading examples lowers the test loss in the same way as training on them, one step of SGD for each.

    Measured: the correlation of the two mean test losses over the number of examples, 0 to 50.

    Control: SGD on the examples of another function.

    Rival: any two falling curves are similar: SGD in the same block before its training, against the same reading.

    Settings: the trained block of section 4, as for `dherin-losses-coincide`; SGD on W alone, the best of three rates
    (full: six), 40 trials of 4 queries (full: 100 of 16).
    """
    results = trained(trial)
    trials, queries, rates = trial.size((40, 4, (0.1, 0.3, 1.0)), (100, 16, (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)))

    def tuned(task: LinearTask) -> dict[str, Tensor]:
        result = finetuning(
            results.block, results.settings.make(), task, results.settings.examples,
            trials=trials, queries=queries, seed=trial.seed + 2_000_003, rates=rates,
        )  # fmt: skip
        return {"SGD": result.sgd.mean(0), "ΔW": result.implicit.mean(0), "SGD, untrained": result.untrained.mean(0)}

    lines = tuned(results.settings.task)
    lines["SGD, other labels"] = tuned(OtherLabels(results.settings.dims))["SGD"]
    like = {name: float(torch.corrcoef(torch.stack([line, lines["ΔW"]]))[0, 1]) for name, line in lines.items()}
    plot = Plot(
        "Reading examples and training on them", "examples", "test loss", range(len(lines["SGD"])),
        {name: line.tolist() for name, line in lines.items()}, log="y",
    )  # fmt: skip
    quantities = {"correlation": (like["SGD"], like["SGD, other labels"])}
    return Measurement(quantities, plot, rivals={"correlation": like["SGD, untrained"]})


@claim("dherin-gradient-alignment", DHERIN, "Comparison with fine-tuning in later versions", cost=(12, 300))
def gradient_alignment(trial: Trial) -> Measurement:
    """The implicit update of a context is aligned with the gradient of fine-tuning on its examples.

    Measured: for each context, the cosine of the mean of ΔW(C) over 16 queries with the negative gradient by W of the
    mean squared error over the examples, each of them as a query without a context.

    Control: the gradient on the examples of another context.

    Settings: the trained block of section 4, as for `dherin-losses-coincide`; 50 contexts (full: 200) of 50 examples.
    """
    result = trained(trial)
    task, count = result.settings.task, trial.size(50, 200)
    prompts = task.prompts(count, result.settings.examples, seed=trial.seed + 3_000_003, queries=16)
    cosines = [alignment(result.block, prompts, shift) for shift in (0, 1)]
    untrained = alignment(result.settings.make(), prompts, 0)
    return Measurement({"cosine": (cosines[0], cosines[1])}, reported={"cosine, untrained": float(untrained.mean())})


def alignment(block: ContextualBlock, prompts: Prompts, shift: int) -> Tensor:
    """The cosine of each context's mean update with the gradient on the context `shift` further on, `(contexts,)`."""
    context, query, _ = prompts
    update = absorb(block, context.unsqueeze(1), query).updates[0]
    reading = update.dense().mean(1)
    points = context.roll(shift, 0).clone()
    labels = points[..., -1].clone()
    points[..., -1] = 0  # an example as a query: its label hidden
    W = block.get_parameter(update.name)
    slopes = []
    for x, y in zip(points, labels, strict=True):
        loss = F.mse_loss(predict(block(x.new_zeros(len(x), 0, x.shape[-1]), x)), y)
        slopes.append(torch.autograd.grad(loss, W)[0])
    return F.cosine_similarity(reading.flatten(1), -torch.stack(slopes).flatten(1))

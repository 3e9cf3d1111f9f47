"""Zhang et al. 2024: Memory Mosaics, networks of associative memories (arXiv 2405.06394)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights.lab import Draw
from inweights.lab.models import AttentionOnly
from inweights.lab.tasks import Repeats
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import ZHANG
from inweights.papers.memory_mosaics._memory import MosaicLayer, recall

PERIODS, SEEN = (7, 8, 9), 60
SHARPNESS, NOISE = 200.0, 0.05


def moons(draw: Draw, periods: Sequence[int]) -> Tensor:
    """The positions of moons on their circles, `(batch, moons, SEEN + 1, 2)`, as they are seen, with noise."""
    speeds = 2 * math.pi / torch.tensor(periods, dtype=draw.dtype)
    angles = draw.uniform(len(periods), 1, high=2 * math.pi) + speeds.unsqueeze(-1) * torch.arange(SEEN + 1)
    return torch.stack([angles.cos(), angles.sin()], -1) + NOISE * draw.normal(len(periods), SEEN + 1, 2)


def expected(sky: Tensor) -> Tensor:
    """The next positions that a memory expects, `(..., SEEN, size)`: the key is where things are, the value where they
    are one step later, `(..., SEEN + 1, size)`."""
    keys = F.normalize(sky[..., :-1, :], dim=-1)
    return recall(keys, sky[..., 1:, :], keys, SHARPNESS)


def errors(sky: Tensor) -> dict[str, Tensor]:
    """The mean squared error after each number of steps, `(SEEN,)`, of a memory for each moon, and of one for all."""
    together = sky.transpose(1, 2).flatten(2)  # (batch, SEEN + 1, 2 moons)
    each = (expected(sky) - sky[..., 1:, :]).square().mean((0, 1, 3))
    return {"one for each moon": each, "one for all": (expected(together) - together[:, 1:]).square().mean((0, 2))}


@claim("mosaic-moons", ZHANG, "Section 3, the three moons", cost=(0.6, 2))
def three_moons(trial: Trial) -> Measurement:
    """Predictive disentanglement: memories that each predict one moon know the sky as soon as every moon has gone
    round, where one memory for all has to wait until they meet again.

    Measured: the mean squared error of three memories divided by that of one, after 20 to 60 steps.

    Control: the same for three moons of one period, whose sky repeats with them.

    Settings: moons of periods 7, 8 and 9, which meet again after 504 steps; memories by kernel regression, β = 200;
    200 skies (full: 2,000) of random phases, seen with noise of 0.05, float64.
    """
    draw = trial.draw(trial.size(200, 2000), dtype=torch.float64)
    line, control = (errors(moons(draw, periods)) for periods in (PERIODS, (8, 8, 8)))
    ratios = [float(e["one for each moon"][20:].mean() / e["one for all"][20:].mean()) for e in (line, control)]
    lines = {name: values[1:].tolist() for name, values in line.items()}
    plot = Plot("The three moons", "steps seen", "squared error", range(1, SEEN), lines, log="y")
    return Measurement({"against_one": (ratios[0], ratios[1])}, plot)


TASK, POINTS = Repeats(vocabulary=64, shortest=16, longest=32), 80


def train(trial: Trial, model: nn.Module) -> nn.Module:
    """Trains on repeated sequences by Adam; only positions whose next token is determined count."""
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(trial.size(100, 400)):
        sample = TASK.sample(Draw(trial.seed, step, 64), POINTS)
        losses = F.cross_entropy(model(sample.xs).flatten(0, 1), sample.ys.flatten(), reduction="none")
        assert sample.scored is not None
        optimiser.zero_grad(set_to_none=True)
        losses[sample.scored.flatten()].mean().backward()
        optimiser.step()
        trial.beat()
    return model.eval()


@claim("mosaic-in-context", ZHANG, "Abstract, in-context learning", cost=(18, 240))
def in_context(trial: Trial) -> Measurement:
    """Like transformers, Memory Mosaics learn in context; one layer of them is enough to continue a sequence that
    repeats.

    Measured: the share of next tokens that a layer of memories predicts, on new sequences, from where they repeat.

    Control: one layer of attention with positions, trained in the same way.

    Settings: random sequences of 16 to 32 of 64 tokens, repeated, 80 points; 4 heads of 16, 100 steps of 64 prompts by
    Adam at 5e-3 (full: 400); 512 new prompts.
    """
    shares = []
    for kind in ("mosaic", "attention"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            settings = AttentionOnly(layers=1, width=64, heads=4)
            model = MosaicLayer(TASK.vocabulary, 64, 4) if kind == "mosaic" else settings.build(TASK, POINTS)
        shares.append(accuracy(trial, train(trial, model)))
    return Measurement({"accuracy": (shares[0], shares[1])})


@torch.no_grad()
def accuracy(trial: Trial, model: nn.Module) -> float:
    """The share of right next tokens on new prompts, where the sequence repeats."""
    sample = TASK.sample(trial.draw(512), POINTS)
    assert sample.scored is not None
    return float((model(sample.xs).argmax(-1) == sample.ys)[sample.scored].double().mean())

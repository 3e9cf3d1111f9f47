"""Li et al. 2023: the stability of transformers with bounded weights (Theorem 3.2), on random and chosen weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._bounded import Bounded, bounded, change, count, opposite, orthogonal, slope, unit_tokens
from inweights.papers._papers import LI

WIDTH = 8
LENGTHS = (5, 20, 80)
GAMMAS = (0.25, 1.0, 2.0)
DEPTHS = (1, 2, 4)
SMALL = (0.01, 0.05)
"""The Γ at which nothing but the change of the two tokens themselves counts."""
SHORTER, LONGER = (10, 20, 40, 80), (20, 40, 80, 160)


def theirs(m: int, gamma: float, layers: int) -> float:
    """The bound of the theorem: `2 / (2m − 1) ((1 + Γ) e^Γ)^D`."""
    return 2 / (2 * m - 1) * ((1 + gamma) * math.exp(gamma)) ** layers


def on_random(trial: Trial) -> Tensor:
    """The changes of random transformers, divided by the bound."""
    random, results = trial.generator(), []
    for m in LENGTHS:
        for gamma in GAMMAS:
            for layers in DEPTHS:
                model = bounded(random, count(trial), layers, WIDTH, gamma)
                tokens = unit_tokens(random, count(trial), m, WIDTH)
                places = torch.randperm(m - 1, generator=random)[:4].tolist()
                results.append((change(model, tokens, opposite(tokens, places)) / theirs(m, gamma, layers)).flatten())
    return torch.cat(results)


def averaging(random: torch.Generator, batch: int, layers: int, gamma: float) -> Bounded:
    """Transformers whose layers pass averages of tokens on: ‖W‖ = Γ/2, and V and M are the identity."""
    same = torch.eye(WIDTH, dtype=torch.float64).expand(layers, batch, -1, -1)
    return Bounded(gamma / 2 * orthogonal(random, layers, batch, WIDTH, WIDTH), same, same)


def on_chosen(trial: Trial) -> Tensor:
    """The same for prompts of equal tokens, of which those of one example become their opposites, and for layers that
    average, with a W as small as Γ allows."""
    random, results = trial.generator(), []
    for m in LENGTHS:
        tokens = torch.zeros(1, 2 * m - 1, WIDTH, dtype=torch.float64)
        tokens[..., 0] = 1  # positive, so that no ReLU hides a change
        for gamma in SMALL:
            for layers in DEPTHS:
                model = averaging(random, 1, layers, gamma)
                results.append((change(model, tokens, opposite(tokens, range(2))) / theirs(m, gamma, layers)).flatten())
    return torch.cat(results)


def attending(tokens: Tensor, model: Bounded) -> Tensor:
    """The prompts with the first example's input in the direction that the query attends to most in the first layer."""
    toward = (tokens[:, -1:] @ model.compare[0]).squeeze(1)
    first = (toward / toward.norm(dim=-1, keepdim=True)).unsqueeze(1)
    return torch.cat([first, tokens[:, 1:]], 1)


def beyond(trial: Trial) -> Tensor:
    """The changes, divided by the bound, where W is 400 times as large as the bound assumes, so that a query attends to
    one token, and a layer passes it on: V and M are the identity, and the token is positive, so that no ReLU hides a
    change."""
    random, m, gamma = trial.generator(), LENGTHS[-1], GAMMAS[0]
    model = averaging(random, count(trial), 1, gamma)
    tokens = unit_tokens(random, count(trial), m, WIDTH)
    tokens[:, 0] = tokens[:, 0].abs()
    tokens[:, -1:] = F.normalize(tokens[:, :1] @ model.compare[0].mT, dim=-1)  # the query that looks for it
    return change(model.sharper(400), tokens, opposite(tokens, [0])).flatten() / theirs(m, gamma, 1)


@claim("li-stability-bound", LI, "Theorem 3.2", exact=True, cost=(4.8, 30))
def bound(trial: Trial) -> Measurement:
    """If tokens lie in the unit ball, ‖V‖ ≤ 1, ‖W‖ ≤ Γ/2 and MLPs are 1-Lipschitz, then exchanging one example other
    than the last moves the output of a transformer of D layers by at most 2/(2m − 1) ((1 + Γ) e^Γ)^D.

    Measured: the change of the output divided by the bound. `random`: transformers with random weights of the largest
    allowed norms, on random tokens of norm 1, of which those of one example become their opposites. `worst`: layers
    that average, on equal tokens. `corrected`: both, with a bound twice as large: an example has two tokens, and each
    moves the average by up to 2/(2m − 1).

    Control: W 400 times as large as Γ allows, V and M the identity, for an example that the query attends to.

    Settings: 5, 20 and 80 points, Γ = 0.25, 1, 2 and, for `worst`, 0.01 and 0.05, 1, 2 and 4 layers, width 8, 16
    transformers of each kind (full: 64), float64.
    """
    random, worst, control = on_random(trial), on_chosen(trial), beyond(trial)
    both = torch.cat([random, worst]) / 2
    return Measurement(
        {"random": (random, control), "worst": (worst, control), "corrected": (both, control / 2)},
        reported={"largest, random": random.max().item(), "largest, chosen": worst.max().item()},
    )


def mean_changes(trial: Trial, lengths: Sequence[int], gamma: float, layers: int, *, last: bool = False) -> list[float]:
    """The mean change of random transformers at each length, if one of four random examples, or with `last` the query,
    is replaced by its opposite."""
    random, results = trial.generator(), []
    for m in lengths:
        model = bounded(random, 4 * count(trial), layers, WIDTH, gamma)
        tokens = unit_tokens(random, 4 * count(trial), m, WIDTH)
        places = [m - 1] if last else torch.randperm(m - 1, generator=random)[:4].tolist()
        results.append(change(model, tokens, opposite(tokens, places)).mean().item())
    return results


def sharp_changes(trial: Trial, lengths: Sequence[int], *, sharp: bool) -> list[float]:
    """The mean change at each length by the example that the query attends to, with Γ = 4 log m, or 1."""
    random, results = trial.generator(), []
    for m in lengths:
        model = bounded(random, count(trial), 1, 64, 4 * math.log(m) if sharp else 1.0)
        tokens = attending(unit_tokens(random, count(trial), m, 64), model)
        results.append(change(model, tokens, opposite(tokens, [0])).mean().item())
    return results


@claim("li-stability-rate", LI, "Theorem 3.2, Assumption 3.1", cost=(3.6, 20))
def rate(trial: Trial) -> Measurement:
    """The stability of a transformer with bounded weights falls as K/m with the number m of examples.

    Measured: the slope of the logarithm of the mean change of the output, by one exchanged example, against log m.

    Control: weights that grow with m, Γ = 4 log m, for the example that the query attends to.

    Settings: random transformers of 2 layers, Γ = 2, width 8 (control: one layer, width 64), m = 10, 20, 40, 80, random
    tokens of norm 1, of which those of four examples in turn become their opposites; 64 transformers of each length
    (full: 256), float64.
    """
    lines = {"Γ = 2": mean_changes(trial, SHORTER, 2.0, 2), "Γ = 4 log m": sharp_changes(trial, SHORTER, sharp=True)}
    plot = Plot("Change of the output", "examples m", "mean norm", SHORTER, lines, log="xy")
    value, control = (slope(SHORTER, line) for line in lines.values())
    return Measurement({"slope": (value, control)}, plot)


@claim("li-stability-limits", LI, "Section 3, after Theorem 3.2", cost=(3.6, 20))
def limits(trial: Trial) -> Measurement:
    """The stability does not extend to the last token, nor to weights that grow with the context: with Γ of the order
    of log m, attention can select a single example.

    Measured: the slope of the logarithm of the mean change of the output against log m. `last`: the query is exchanged;
    `sharp`: Γ = 4 log m, and the example is exchanged that the query attends to.

    Control: `last`: another example; `sharp`: the same example with Γ = 1.

    Settings: one layer; `last`: Γ = 8, width 8; `sharp`: width 64; m = 20, 40, 80, 160, random tokens of norm 1, which
    become their opposites; 64 and 16 transformers of each length (full: 256 and 64), float64.
    """
    last = [slope(LONGER, mean_changes(trial, LONGER, 8.0, 1, last=which)) for which in (True, False)]
    lines = {
        name: sharp_changes(trial, LONGER, sharp=sharp) for name, sharp in (("Γ = 4 log m", True), ("Γ = 1", False))
    }
    plot = Plot("Change by the example attended to", "examples m", "mean norm", LONGER, lines, log="xy")
    sharp = [slope(LONGER, line) for line in lines.values()]
    return Measurement({"last": (last[0], last[1]), "sharp": (sharp[0], sharp[1])}, plot)


# Claims about trained transformers are in `trained`.

"""Akyürek et al. 2023: what can be decoded from the layers of an in-context learner."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights.lab import states
from inweights.lab.models import Learner
from inweights.lab.predictors import OLS, moments
from inweights.lab.tasks import Linear, Sample
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import AKYUREK

DIMS, POINTS = 5, 16
EXAMPLES = 2 * DIMS
WIDTH = 128
TARGETS = ("weights", "moments")


@claim("akyurek-probe", AKYUREK, "Section 5, Figure 4 and appendix E", needs=("depth-8",), cost=(60, 500))
def probe(trial: Trial) -> Measurement:
    """The weights of least squares and the moments `Xᵀy` can be decoded from the layers of an in-context learner, far
    better than from those of a model trained on a task that needs no learning in context.

    Measured: R² of a probe for the weights, and of one for the moments, on held-out prompts, at the best layer, minus
    that of the same probe on the paper's control model: the same decoder, trained on labels with a weight vector that
    is always 1.

    Control: the same decoder untrained, in place of the trained one.

    Settings: d = 5, a decoder of 8 layers of width 40 (the paper: d = 4, 16 layers of width 512), targets after 10
    examples. One probe, that of appendix E: learned attention over positions, a projection, and a layer of GELU units,
    128 of each (512), one probe for each layer and target, Adam at 1e-3, for the scores of positions at 1e-2. All
    models are given the same prompts, with weights from N(0, I), and the best layer is taken for each model, as in the
    paper.

    Precondition: the control model has learned its task: its squared error is below 0.05 times that of always answering
    0. The probe can decode what is present: R² is above 0.9 for a linear code of the target in place of one state of a
    layer.
    """
    task = Linear(dims=DIMS)
    counts = trial.size((4096, 1024), (16384, 4096))  # prompts to fit, to measure
    fit, test = (task.sample(trial.draw(n, step), POINTS) for step, n in enumerate(counts))
    models = {
        "trained": trial.trained("depth-8"),
        "control task": control_model(trial),
        "untrained": build(trial.recipe("depth-8")).to(trial.device),
    }
    for target in range(len(TARGETS)):
        known, wanted = (targets(sample)[target : target + 1] for sample in (fit, test))
        planted = [plant(states(models["untrained"], s.xs, s.ys)[:1], targets(s)[target]) for s in (fit, test)]
        ((result,),) = probed(trial, planted[0], planted[1], known, wanted)
        trial.require(
            result > 0.9, f"a planted code of the {TARGETS[target]} is read with R² {result:.3g}, not above 0.9"
        )
    lines: dict[str, list[float]] = {}
    for name, model in models.items():
        seen = [states(model, sample.xs, sample.ys) for sample in (fit, test)]
        read = probed(trial, seen[0], seen[1], targets(fit), targets(test))
        lines |= {f"{target}, {name}": r for target, r in zip(TARGETS, read, strict=True)}
    best = {name: max(r) for name, r in lines.items()}
    gained = {
        name: tuple(best[f"{name}, {who}"] - best[f"{name}, control task"] for who in ("trained", "untrained"))
        for name in TARGETS
    }
    layers = range(1, 1 + len(lines["weights, trained"]))
    plot = Plot("What can be read from a layer", "layer", "R²", layers, lines)
    return Measurement({name: (g[0], g[1]) for name, g in gained.items()}, plot=plot, reported=best)


def targets(sample: Sample) -> Tensor:
    """The weights of least squares and the moments after the examples, `(2, batch, dims)`."""
    after = slice(0, EXAMPLES + 1)
    weights = OLS().weights(sample.xs[:, after], sample.ys[:, after])[:, -1]
    return torch.stack([weights, moments(sample.xs[:, after], sample.ys[:, after])[:, -1] / EXAMPLES])


def plant(layer: Tensor, target: Tensor) -> Tensor:
    """The same states, `(1, prompts, points, width)`, with a code of the target, of equal scale, after the last
    example."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.randn(DIMS, layer.shape[-1], generator=generator).to(layer) * DIMS**-0.5
    code = (target / target.std(0)) @ turn * layer.std()
    return torch.cat([layer[:, :, :EXAMPLES], code[None, :, None], layer[:, :, EXAMPLES + 1 :]], 2)


def control_model(trial: Trial) -> Learner:
    """A decoder trained to sum the coordinates of a query, for which the examples carry no information."""
    model, task = build(trial.recipe("depth-8")).to(trial.device), Linear(dims=DIMS)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    steps = trial.size(300, 1000)
    for step in range(steps + 1):
        xs = task.inputs(trial.draw(64, 1000 + step), POINTS)
        loss = (model(xs, xs.sum(-1)) - xs.sum(-1)).square().mean() / DIMS
        if step < steps:
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            trial.beat()
    trial.require(loss.item() < 0.05, f"the control model has an error of {loss.item():.3g}, not below 0.05")
    return model.requires_grad_(False)


class Probes(nn.Module):
    """A probe for each layer and target: `(layers, points, batch, width)` → `(layers, targets, batch, dims)`. Those of
    a layer have the same initial weights. Scores are multiplied by ten, which for Adam amounts to ten times the rate:
    at 1e-3, the attention would stay nearly uniform after some hundred steps."""

    def __init__(self, layers: int, targets: int, points: int, width: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers, targets, points))
        shapes = (width, WIDTH), (WIDTH, WIDTH), (WIDTH, DIMS)
        drawn = [torch.randn(layers, a, b) * a**-0.5 for a, b in shapes]
        self.weights = nn.ParameterList(w.repeat_interleave(targets, 0) for w in drawn)
        self.biases = nn.ParameterList(torch.zeros(layers * targets, 1, b) for _, b in shapes)

    def forward(self, h: Tensor) -> Tensor:
        layers, points, batch, width = h.shape
        seen = (10 * self.scores).softmax(-1) @ h.view(layers, points, batch * width)
        projected, inner, out = zip(self.weights, self.biases, strict=True)
        value = torch.baddbmm(projected[1], seen.view(-1, batch, width), projected[0])
        result = torch.baddbmm(out[1], F.gelu(torch.baddbmm(inner[1], value, inner[0])), out[0])
        return result.view(layers, -1, batch, DIMS)


def probed(trial: Trial, fit: Tensor, test: Tensor, known: Tensor, wanted: Tensor) -> list[list[float]]:
    """R² for each target and layer, of probes fitted to the states `fit` and evaluated on `test`, `(layers, prompts,
    points, width)`; `known` and `wanted` are `(targets, prompts, dims)`."""
    middle, spread = fit.mean((1, 2), keepdim=True), fit.std((1, 2), keepdim=True).clamp(min=1e-6)
    # Points before prompts: the data of a step is then contiguous for each point.
    fit, test = (((h - middle) / spread).transpose(1, 2).contiguous() for h in (fit, test))
    mean, scale = known.mean(1, keepdim=True), known.std(1, keepdim=True)  # (targets, 1, dims)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        probes = Probes(len(fit), len(known), fit.shape[1], fit.shape[3]).to(fit.device)
    optimiser = torch.optim.Adam(probes.parameters(), 1e-3, fused=True)
    chosen = torch.randint(known.shape[1], (trial.size(600, 4000), 128), generator=trial.generator())
    for rows in chosen.to(fit.device):
        loss = (probes(fit.index_select(2, rows)) - (known[:, rows] - mean) / scale).square().mean((2, 3)).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        trial.beat()
    with torch.no_grad():
        left = (probes(test) * scale + mean - wanted).square().mean(2) / wanted.var(1, correction=0)
    return (1 - left.mean(-1)).mT.tolist()

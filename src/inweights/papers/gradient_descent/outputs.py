"""Von Oswald et al. 2023: one trained layer of linear self-attention on labels with several components."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.tasks import Sample, SeveralOutputs
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._descent import FITTED, TESTED, Answers, prompts, trained
from inweights.papers._papers import OSWALD

D = N = 10
OUTPUTS = 3


@dataclass(frozen=True)
class Step:
    """One step of gradient descent on `Σ |W x − y|² / 2` from W = 0, with the rate η."""

    eta: float
    turned: bool = False  # the control: the components of the labels exchanged

    def __call__(self, xs: Tensor, ys: Tensor) -> Tensor:
        """Predictions for the last points, `(batch, 1, outputs)`."""
        labels = ys[:, :-1].roll(1, -1) if self.turned else ys[:, :-1]
        return self.eta * (xs[:, -1:] @ xs[:, :-1].mT) @ labels


def best_step(sample: Sample) -> Step:
    """The step with the least squared error on these prompts, by least squares in η."""
    raw, wanted = Step(1.0)(sample.xs, sample.ys), sample.ys[:, -1:]
    return Step(float((raw * wanted).sum() / raw.square().sum()))


def slopes(model: Answers, sample: Sample) -> Tensor:
    """The derivatives of the predictions by the query, `(batch, outputs · dims)`."""
    query = sample.xs[:, -1:].clone().requires_grad_()
    answers = model(torch.cat([sample.xs[:, :-1], query], 1), sample.ys)
    rows = [torch.autograd.grad(answers[..., k].sum(), query, retain_graph=True)[0] for k in range(OUTPUTS)]
    return torch.stack(rows, 1).flatten(1)


@claim(
    "oswald-outputs", OSWALD, "Proposition 1 and Figure 2, for several outputs", cost=(3, 10), needs=("lsa-1-outputs",)
)
def outputs(trial: Trial) -> Measurement:
    """A layer of linear self-attention that is trained on functions with several outputs makes a step of gradient
    descent on their matrix: in its loss, in the derivative of its predictions by the query, and in its predictions.

    Measured: the relative excess of its loss over that of descent with the best η; the mean cosine of the two
    derivatives by the query; the mean distance of the two predictions.

    Control: descent on labels whose components are exchanged cyclically.

    Settings: 10 dimensions, 3 outputs, 10 examples, inputs U(−½, ½), the training of `lsa-1` with a quarter of its
    prompts; η is fitted to 4,000 other prompts; 2,000 or 10,000 prompts, float64.
    """
    task = SeveralOutputs(dims=D, components=OUTPUTS)
    sample, model = prompts(trial, task, trial.size(2000, 10_000), N, TESTED), trained(trial, "lsa-1-outputs")
    step = best_step(prompts(trial, task, 4000, N, FITTED))
    own = slopes(model, sample)
    answers, wanted = model(sample.xs, sample.ys), sample.ys[:, -1:]

    def beside(other: Step) -> dict[str, float]:
        there = other(sample.xs, sample.ys)
        losses = [(each - wanted).square().mean().item() for each in (answers, there)]
        return {
            "loss": losses[0] / losses[1] - 1,
            "cosine": F.cosine_similarity(own, slopes(other, sample)).mean().item(),
            "difference": (answers - there).abs().mean().item(),
        }

    value, control = beside(step), beside(Step(step.eta, turned=True))
    reported = {"loss of descent, of each output": (step(sample.xs, sample.ys) - wanted).square().mean().item() / 2}
    return Measurement({name: (value[name], control[name]) for name in value}, reported=reported)

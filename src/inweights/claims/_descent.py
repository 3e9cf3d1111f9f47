"""What claims about gradient descent are measured with: the best descent there is, losses, and sensitivities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from inweights.claims._trial import Trial
from inweights.lab._curves import Source
from inweights.lab.models import LSA, LSAModel, gdpp_construction
from inweights.lab.tasks import Sample

Answers = Callable[[Tensor, Tensor], Tensor]
"""Inputs and labels of prompts to answers for their last points, `(batch, 1)`."""

TESTED, FITTED = 0, 1
"""Steps of a trial's draws: what is measured on is not what was fitted to."""


def prompts(trial: Trial, source: Source, count: int, examples: int, step: int = TESTED) -> Sample:
    """In double precision."""
    return source.sample(trial.draw(count, step, dtype=torch.float64), examples + 1)


def trained(trial: Trial, name: str) -> LSAModel:
    """A trained model in double, of which no weight is learned any more."""
    model = trial.trained(name).double().requires_grad_(False)
    assert isinstance(model, LSAModel)
    return model


@torch.no_grad()
def mean_square(model: Answers, sample: Sample) -> float:
    """Of the errors at the last points; half of it is the loss of von Oswald et al. 2023."""
    return (model(sample.xs, sample.ys)[:, -1] - sample.ys[:, -1]).square().mean().item()


def excess(model: Answers, other: Answers, sample: Sample) -> float:
    """By what part the loss of a model is larger than that of another."""
    return mean_square(model, sample) / mean_square(other, sample) - 1


class Descent(NamedTuple):
    """The best steps, `(steps,)` each: `eta`, their sizes for an example (η / N), and `gamma`, 0 for plain descent."""

    eta: Tensor
    gamma: Tensor

    def model(self, dims: int) -> LSAModel:
        """A layer of linear self-attention for each step."""
        model = LSAModel(LSA(layers=len(self.eta)), dims, 1).to(self.eta)
        return gdpp_construction(model, self.eta.tolist(), self.gamma.tolist(), 1).requires_grad_(False)


def best_descent(
    trial: Trial,
    source: Source,
    examples: int,
    steps: int,
    *,
    plus: bool = False,
    tied: bool = False,
    count: int = 4000,
) -> Descent:
    """The steps of gradient descent, or with `plus` of GD++, that leave the least error on linear functions without
    noise, after so many examples; every step has numbers of its own unless they are `tied`.

    If queries and weights have no preferred direction, the mean over both is known: along an axis of `Σ x xᵀ` with
    eigenvalue λ, a step leaves `1 − η T² λ` of the error and `1 − γ T² λ` of the inputs, whose size is T. So a search
    has eigenvalues to look at and nothing else.
    """
    xs = prompts(trial, source, count, examples, FITTED).xs[:, :-1]
    values = torch.linalg.eigvalsh(xs.mT @ xs)  # (count, dims)
    best = values.sum() / values.square().sum()  # of a single step
    own = 1 if tied else steps
    apart = torch.arange(own).to(values) / own  # sizes that began alike would stay alike
    searched = [((begin * best).log() + apart).requires_grad_() for begin in ((1, 0.1) if plus else (1,))]

    def both() -> list[Tensor]:
        found = [each.exp().expand(steps) for each in searched]
        return found if plus else [*found, torch.zeros_like(found[0])]

    def closure() -> Tensor:
        search.zero_grad()
        left, size = torch.ones_like(values), torch.ones_like(values)
        for eta, gamma in zip(*both(), strict=True):
            steep = size.square() * values
            left, size = left * (1 - eta * steep), size * (1 - gamma * steep)
        loss = left.square().mean()
        loss.backward()
        return loss

    search = torch.optim.LBFGS(searched, max_iter=300, tolerance_change=1e-12, line_search_fn="strong_wolfe")
    search.step(closure)
    eta, gamma = (each.detach() for each in both())
    return Descent(eta, gamma)


def sensitivities(model: Answers, sample: Sample) -> tuple[Tensor, Tensor]:
    """How the answer changes with the query, `(batch, dims)`, and with the labels of the examples, `(batch, N)`."""
    xs, ys = sample.xs.clone().requires_grad_(), sample.ys.clone().requires_grad_()
    to_x, to_y = torch.autograd.grad(model(xs, ys).sum(), (xs, ys))
    return to_x[:, -1], to_y[:, :-1]

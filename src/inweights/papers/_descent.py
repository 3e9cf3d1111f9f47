"""Measurements for claims about gradient descent: the best gradient descent, losses, and sensitivities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from inweights.lab import Draw, PromptSource
from inweights.lab.models import LSA, LSAModel, gdpp_construction
from inweights.lab.tasks import Linear, Sample
from inweights.ledger import Trial

Answers = Callable[[Tensor, Tensor], Tensor]
"""A function from inputs and labels of prompts to predictions for their last points, `(batch, 1)`."""

TESTED, FITTED = 0, 1
"""Steps of a trial's draws: prompts for fits and for measurements differ."""


def prompts(trial: Trial, source: PromptSource, count: int, examples: int, step: int = TESTED) -> Sample:
    """Prompts with `examples` examples and a query, in float64."""
    return source.sample(trial.draw(count, step, dtype=torch.float64), examples + 1)


def trained(trial: Trial, name: str) -> LSAModel:
    """A trained model in float64, with frozen weights."""
    model = trial.trained(name).double().requires_grad_(False)
    assert isinstance(model, LSAModel)
    return model


class OtherLaw(NamedTuple):
    """Linear functions of inputs from another distribution than U(−½, ½), with the same mean square: "normal",
    "laplace", or "exponential" (its positive half)."""

    law: str
    dims: int

    def sample(self, draw: Draw, points: int) -> Sample:
        shape = points, self.dims
        xs = draw.normal(*shape) if self.law == "normal" else -draw.uniform(*shape).log() / 2**0.5
        if self.law == "laplace":
            xs = xs * (2 * draw.bernoulli(0.5, *shape) - 1)
        ys, hidden = Linear(dims=self.dims).labels(draw, xs / 12**0.5)
        return Sample(xs / 12**0.5, ys, hidden)


class NoiseForLabels(NamedTuple):
    """Prompts of a source in which some examples have a standard normal number as their label."""

    source: PromptSource
    replaced: int

    def sample(self, draw: Draw, points: int) -> Sample:
        sample = self.source.sample(draw, points)
        noise = draw.normal(self.replaced).to(sample.ys)
        return sample._replace(ys=torch.cat([noise, sample.ys[:, self.replaced :]], 1))


@torch.no_grad()
def mean_square(model: Answers, sample: Sample) -> float:
    """The mean squared error at the last points; half of it is the loss of von Oswald et al. 2023."""
    return (model(sample.xs, sample.ys)[:, -1] - sample.ys[:, -1]).square().mean().item()


def excess(model: Answers, other: Answers, sample: Sample) -> float:
    """The relative excess of a model's loss over that of another."""
    return mean_square(model, sample) / mean_square(other, sample) - 1


class Descent(NamedTuple):
    """Steps of GD++, `(steps,)` each: `eta`, the step sizes per example (η / N), and `gamma`, 0 for plain descent."""

    eta: Tensor
    gamma: Tensor

    @classmethod
    def of(cls, model: LSAModel) -> Descent:
        """The steps encoded in the weights of a model with one head, as in the paper: the means of the diagonals of `P
        W_V`, over labels and over inputs, times that of `W_Kᵀ W_Q` over inputs, as only the product matters."""
        out, compare = (each.detach()[:, 0].diagonal(dim1=-2, dim2=-1) for each in model.form.products())
        scale = -compare[:, : model.dims].mean(1)
        return cls(scale * out[:, model.dims :].mean(1), scale * out[:, : model.dims].mean(1))

    def model(self, dims: int, clip: float = 0.0) -> LSAModel:
        """Linear self-attention with one layer per step; entries are clipped to ±`clip`, if that is not 0."""
        model = LSAModel(LSA(layers=len(self.eta), clip=clip), dims, 1).to(self.eta)
        return gdpp_construction(model, self.eta.tolist(), self.gamma.tolist(), 1).requires_grad_(False)


def best_descent(
    trial: Trial,
    source: PromptSource,
    examples: int,
    steps: int,
    *,
    plus: bool = False,
    tied: bool = False,
    count: int = 4000,
) -> Descent:
    """The steps of gradient descent, or with `plus` of GD++, with the least error on linear functions without noise,
    after `examples` examples; every step has its own parameters unless they are `tied`."""
    values = eigenvalues(trial, source, examples, count)
    best = values.sum() / values.square().sum()  # the best single step
    own = 1 if tied else steps
    apart = torch.arange(own).to(values) / own  # equal initial sizes would stay equal
    searched = [((begin * best).log() + apart).requires_grad_() for begin in ((1, 0.1) if plus else (1,))]

    def both() -> Descent:
        results = [each.exp().expand(steps) for each in searched]
        return Descent(results[0], results[1] if plus else torch.zeros_like(results[0]))

    _searched(searched, lambda: left_error(values, both()))
    return Descent(*(each.detach() for each in both()))


GROWTHS = (2.0, 3.0, 5.0, 9.0)
"""Growth factors of γ from step to step at the starting points of searches. Up to 9: if `γ λ < 4/3` for all eigenvalues
before a step, they are at most `4/27 / γ` after it, and γ can be 9 times as large."""


def best_plus(trial: Trial, source: PromptSource, examples: int, learned: Descent, count: int) -> Descent:
    """The best GD++ of several searches, with an η and a γ for each step. There are many local minima, in which
    training can end too: so searches start from the `learned` steps, and from γ and η with several growth factors. They
    use some of the prompts, including those with the largest eigenvalues, where too large a step costs most; the best
    two are refined on all prompts."""
    many = eigenvalues(trial, source, examples, count)
    few = torch.cat([many[:2000], many[many.amax(1).argsort(descending=True)[:50]]])
    step = torch.arange(len(learned.eta)).to(many)
    begins = [learned]
    for growth in GROWTHS:
        for share in (0.6, 0.9):  # of the bound by the largest eigenvalue
            gamma = share * 4 / 3 / many.max() * growth**step
            begins.append(Descent(gamma, gamma))
    results = sorted((improved(few, each) for each in begins), key=lambda each: _rank(few, each))
    return min((improved(many, each) for each in results[:2]), key=lambda each: _rank(many, each))


def improved(values: Tensor, begin: Descent) -> Descent:
    """The local minimum that a search from `begin` reaches; parameters are scaled by their initial values."""
    factors = [torch.ones_like(each, dtype=torch.float64).requires_grad_() for each in begin]

    def now() -> Descent:
        return Descent(*(each.to(f) * f for each, f in zip(begin, factors, strict=True)))

    _searched(factors, lambda: left_error(values, now()))
    return Descent(*(each.detach() for each in now()))


def _rank(values: Tensor, descent: Descent) -> float:
    return left_error(values, descent).nan_to_num(torch.inf).item()


def eigenvalues(trial: Trial, source: PromptSource, examples: int, count: int) -> Tensor:
    """The eigenvalues of `Σ x xᵀ` over the examples of the prompts for fits, `(count, dims)`."""
    xs = prompts(trial, source, count, examples, FITTED).xs[:, :-1]
    return torch.linalg.eigvalsh(xs.mT @ xs)


def left_error(values: Tensor, descent: Descent) -> Tensor:
    """The mean squared error after these steps, relative to that before them.

    If the distributions of queries and weights are isotropic, the mean over both has a closed form: along an
    eigenvector of `Σ x xᵀ` with eigenvalue λ, a step multiplies the error by `1 − η T² λ` and the scale T of the inputs
    by `1 − γ T² λ`. So a search needs only the eigenvalues."""
    left, size = torch.ones_like(values), torch.ones_like(values)
    for eta, gamma in zip(*descent, strict=True):
        steep = size.square() * values
        left, size = left * (1 - eta * steep), size * (1 - gamma * steep)
    return left.square().mean()


def _searched(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimises the logarithm of the loss in place; of the logarithm, as too large a step can cost any power of ten."""

    def closure() -> float:
        search.zero_grad()
        result = loss().log()
        result.backward()
        if not result.isfinite():  # treated as a barrier by the line search
            for each in parameters:
                each.grad = torch.zeros_like(each)
            return 1e3
        return result.item()

    search = torch.optim.LBFGS(parameters, max_iter=300, tolerance_change=1e-12, line_search_fn="strong_wolfe")
    search.step(closure)


def sensitivities(model: Answers, sample: Sample) -> tuple[Tensor, Tensor]:
    """The derivatives of the prediction by the query, `(batch, dims)`, and by the labels of the examples, `(batch,
    N)`."""
    xs, ys = sample.xs.clone().requires_grad_(), sample.ys.clone().requires_grad_()
    to_x, to_y = torch.autograd.grad(model(xs, ys).sum(), (xs, ys))
    return to_x[:, -1], to_y[:, :-1]

"""Claims of the notes about regression and gradient descent, including mistakes, and corrected forms."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import LSA, LSAModel, gdpp_construction
from inweights.lab.predictors import GD, SGD, Predictor
from inweights.lab.tasks import Linear, Sample
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._random_blocks import each


def regression(trial: Trial, prompts: int, points: int, *, dims: int = 5, noise: float = 0.1) -> Sample:
    """Linear functions with noisy labels, float64."""
    return Linear(dims=dims, noise=noise).sample(trial.draw(prompts, dtype=torch.float64), points)


def asked_after(sample: Sample, queries: Tensor) -> tuple[Tensor, Tensor]:
    """The note's linear attention, no softmax and no scale, for queries `(batch, k, dims)`: `Σ (x·x_i) y_i`, of shape
    `(batch, k)`, and its scores `x·x_i`, `(batch, k, n)`."""
    scores = queries @ sample.xs.mT
    return (scores @ sample.ys.unsqueeze(-1)).squeeze(-1), scores


def one_step(sample: Sample, queries: Tensor) -> Tensor:
    """The predictions `(batch, k)` of one step of gradient descent from zero, rate 1, on half the mean squared
    error."""
    n = sample.xs.shape[1]
    w = torch.zeros(len(sample.xs), sample.xs.shape[2], dtype=sample.xs.dtype, requires_grad=True)
    missed = (sample.xs @ w.unsqueeze(-1)).squeeze(-1) - sample.ys
    slope = torch.autograd.grad(missed.square().sum() / (2 * n), w)[0]
    return (queries @ -slope.unsqueeze(-1)).squeeze(-1)


def miss_at_best_rate(answers: Tensor, step: Tensor) -> Tensor:
    """For each prompt the largest difference of predictions `(batch, k)` from those of a step, at its best rate."""
    rate = (answers * step).sum(-1, keepdim=True) / step.square().sum(-1, keepdim=True)
    return each(answers, rate * step)


def softmax_answers(sample: Sample, scores: Tensor) -> Tensor:
    """The same attention with a softmax."""
    return (scores.softmax(-1) @ sample.ys.unsqueeze(-1)).squeeze(-1)


@claim("note-attention-demo", NOTES, "004, section 8.1", exact=True, cost=(0.2, 0.5))
def attention_demo(trial: Trial) -> Measurement:
    """The demonstration's class, linear attention Σ (x·x_i) y_i, performs gradient descent: it is one step from zero.

    Measured: for each context the largest difference of its predictions for 20 queries from those of one step on half
    the mean squared error with rate η = N, with the gradient by autograd.

    Control: the same attention with a softmax; and divided by Σ (x·x_i)², as in the function below the class, which the
    note compares with kernel regression and does not call a step. Each at the best rate for the context.

    Settings: 5 dimensions, N = 20 examples, noise 0.1, 50 contexts (full: 500), float64, as in the note.
    """
    sample = regression(trial, trial.size(50, 500), 20)
    queries = trial.draw(len(sample.xs), 1, dtype=torch.float64).normal(20, 5)
    summed, scores = asked_after(sample, queries)
    step = one_step(sample, queries)
    divided = summed / (scores.square().sum(-1) + 1e-6)
    others = [miss_at_best_rate(a, step) for a in (softmax_answers(sample, scores), divided)]
    return Measurement({"error": (each(summed, 20 * step), torch.cat(others))})


def plus_plus(sample: Sample, eta: float, gamma: float, layers: int = 2) -> Tensor:
    """The weights after some layers of GD++ as von Oswald et al. define it, `(batch, dims)`: a plain step, and at the
    same time x ← (I − γ X Xᵀ) x for all inputs, the query included."""
    X, y = sample.xs, sample.ys.unsqueeze(-1)
    n, identity = X.shape[1], torch.eye(X.shape[2], dtype=X.dtype)
    change, w, missed = identity.expand(len(X), -1, -1), torch.zeros_like(X[:, 0].unsqueeze(-1)), y
    for _ in range(layers):
        step = eta / n * X.mT @ missed  # with the current inputs
        w = w + change.mT @ step
        missed = missed - X @ step
        now = identity - gamma * X.mT @ X
        X, change = X @ now, now @ change
    return w.squeeze(-1)


def slope(sample: Sample, w: Tensor) -> Tensor:
    """∇L at weights `(batch, dims)`, for half the mean squared error."""
    X = sample.xs
    return (X.mT @ (X @ w.unsqueeze(-1) - sample.ys.unsqueeze(-1))).squeeze(-1) / X.shape[1]


def newton_step(sample: Sample, w: Tensor) -> Tensor:
    """−H⁻¹ ∇L at weights `(batch, dims)`."""
    X = sample.xs
    return -torch.linalg.solve(X.mT @ X / X.shape[1], slope(sample, w).unsqueeze(-1)).squeeze(-1)


def miss_with_one_matrix(steps: Tensor, slopes: Tensor) -> Tensor:
    """For each prompt the largest difference of a step `(batch, dims)` from one matrix times the gradient, with the
    best matrix for all prompts together."""
    return each(steps, slopes @ torch.linalg.lstsq(slopes, steps).solution)


@claim("note-plus-is-newton", NOTES, "004, section 2.4", exact=True, cost=(0.2, 0.5))
def plus_is_newton(trial: Trial) -> Measurement:
    """In layer l, GD++ moves the weights by −η_l H_l⁻¹ ∇L(w), where H_l is a learned preconditioner: curvature is
    corrected by the Hessian, so that layers approach Newton's method.

    Measured: for each prompt the largest difference between the second layer's change of the weights in GD++ and −η H⁻¹
    ∇L at its start, in the more favourable reading of the note: H is the Hessian, with the best η for the prompt; or H
    is learned, so one for all prompts, and η H⁻¹ is the best matrix for all of them.

    Control: a step along the signs of the gradient.

    Settings: 5 dimensions, 20 examples, noise 0.1, η = 0.5, γ = 0.01; 50 prompts (full: 500), float64. The note's
    momentum is not tested.
    """
    sample = regression(trial, trial.size(50, 500), 20)
    start = plus_plus(sample, 0.5, 0.01, 1)
    added, slopes = plus_plus(sample, 0.5, 0.01, 2) - start, slope(sample, start)
    newton = newton_step(sample, start)
    by_reading = [(miss_at_best_rate(s, newton), miss_with_one_matrix(s, slopes)) for s in (added, slopes.sign())]
    value, control = (torch.minimum(*both) for both in by_reading)
    reported = {name: float(m.max()) for name, m in zip(("H the Hessian", "H learned"), by_reading[0], strict=True)}
    return Measurement({"error": (value, control)}, reported=reported)


@claim(
    "note-plus-corrected", NOTES, "004, section 2.4, corrected", exact=True, cost=(0.2, 1),
    repeats="oswald-construction-plus",
)  # fmt: skip
def plus_corrected(trial: Trial) -> Measurement:
    """GD++ is a step of plain gradient descent and a transform of the data, x ← (I − γ X Xᵀ) x, with one number γ for
    each layer; linear self-attention computes it.

    Measured: for each context the largest difference, over 20 queries, between the predictions of two layers of linear
    self-attention with these weights and of GD++ computed directly.

    Control: γ = 0 in the attention, without the transform.

    Settings: 5 dimensions, 20 examples, noise 0.1, η = 0.5, γ = 0.01; 50 contexts (full: 500), float64.
    """
    task, n = Linear(dims=5, noise=0.1), 20
    sample = regression(trial, trial.size(50, 500), n)
    queries = trial.draw(len(sample.xs), 1, dtype=torch.float64).normal(20, 5)
    answers = (queries @ plus_plus(sample, 0.5, 0.01).unsqueeze(-1)).squeeze(-1)
    # Every query has its own prompt with the same examples.
    xs = torch.cat([sample.xs.unsqueeze(1).expand(-1, 20, -1, -1), queries.unsqueeze(2)], 2).flatten(0, 1)
    ys = torch.cat([sample.ys, torch.zeros_like(sample.ys[:, :1])], 1).repeat_interleave(20, 0)

    def attention(gamma: float) -> Tensor:
        model = LSA(layers=2).build(task, n + 1).double()
        assert isinstance(model, LSAModel)
        with torch.no_grad():
            return gdpp_construction(model, 0.5, gamma, n)(xs, ys)[:, -1].reshape_as(answers)

    errors, controls = (each(attention(gamma), answers) for gamma in (0.01, 0.0))
    return Measurement({"error": (errors, controls)})


def sensitivity(model: Predictor, trial: Trial, prompts: int) -> Tensor:
    """The standard deviation of the prediction over 10 orders of the examples, for each prompt."""
    n = 20
    sample = regression(trial, prompts, n + 1)
    random, answers = trial.generator(), []
    for _ in range(10):
        order = torch.cat([torch.randperm(n, generator=random), torch.tensor([n])])
        answers.append(model.predict_prefixes(sample.xs[:, order], sample.ys[:, order])[:, -1])
    return torch.stack(answers).std(0)


@claim("note-order-stable", NOTES, "003, order sensitivity", exact=True, cost=(0.2, 0.5))
def order_stable(trial: Trial) -> Measurement:
    """Gradient descent is order-stable: it does not depend on the order of its inputs.

    Measured: for each prompt the standard deviation of the prediction over 10 orders, after 20 steps on all examples.
    Gradient descent without a further word is on the whole loss, which is how a reader takes it.

    Control: SGD, one step for each example, which the paper that the note summarises measures too.

    Settings: 5 dimensions, 20 examples, noise 0.1, rates 0.3 and 0.05; 50 prompts (full: 500), float64.
    """
    prompts = trial.size(50, 500)
    value, control = (sensitivity(p, trial, prompts) for p in (GD(rate=0.3, steps=20), SGD(rate=0.05)))
    return Measurement({"sensitivity": (value, control)})


# Last, so that the ledger has the claims in this order.

"""Garg et al. 2022: what can transformers learn in-context? (arXiv 2208.01066)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab import zoo
from inweights.lab.models import Learner
from inweights.lab.predictors import OLS, Averaging, Nearest, Predictor, Ridge, lasso_path
from inweights.lab.tasks import SHIFTS, Linear, Sample, Task
from inweights.lab.training import build
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import GARG

DIMS, POINTS = 5, 16
NOISE = 0.5
LASSO = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # the paper's penalties


@claim("garg-linear", GARG, "Section 3.1, Figure 2", needs=("depth-8",), tells=("linear-20",), cost=(6, 40))
def linear(trial: Trial) -> Measurement:
    """Transformers learn linear functions in context about as well as least squares, which is optimal, for any number
    of examples, and far better than simple baselines.

    Measured: the squared error in units of always answering 0, minus that of least squares, at the number of examples
    from 1 to 3d where the difference is largest; and the error after d to 3d examples divided by that of averaging `x
    y`.

    Control: the same decoder untrained.

    Settings: d = 5 (the paper: 20), a decoder of 8 layers of width 40 (12 of 256), five trainings. Also measured: one
    decoder of the paper's size with d = 20, trained once.
    """
    task = Linear(dims=DIMS)
    sample = task.sample(trial.draw(trial.size(1024, 6400)), POINTS)
    error = {
        "decoder": errors(trial.trained("depth-8"), sample, task),
        "untrained": errors(before(trial, "depth-8"), sample, task),
        "least squares": errors(OLS(), sample, task),
        "averaging": errors(Averaging(), sample, task),
    }
    excess = {name: (e - error["least squares"]).mean(0)[1:].max().item() for name, e in error.items()}
    late = {name: e[:, DIMS:].mean(1) for name, e in error.items()}
    mean = late["averaging"].mean()
    return Measurement(
        {
            "against_ols": (excess["decoder"], excess["untrained"]),
            "against_averaging": (late["decoder"] / mean, late["untrained"] / mean),
        },
        plot=over_examples("Linear functions", error),
        reported={
            **{name: error["decoder"][:, k].mean().item() for name, k in (("at d", DIMS), ("at 2d", 2 * DIMS))},
            **full_size(trial, at_both),
            "paper, at d": 0.02,
            "paper, at 2d": 0.0006,
        },
    )


Measured = Callable[[Learner, Sample, Task], dict[str, float]]


def full_size(trial: Trial, measured: Measured, *, shift: str = "", noise: float = 0.0) -> dict[str, float]:
    """The same measurements for a decoder of the paper's size, if it is available, in one trial, as it was trained
    once."""
    model = None if trial.seed else zoo.seeded("linear-20", 0)
    if model is None:
        return {}
    task = Linear(dims=20, noise=noise)
    draw = trial.draw(trial.size(64, 640), 1)
    sample = SHIFTS.make(shift).sample(task, draw, 41) if shift else task.sample(draw, 41)
    result = measured(model.to(trial.device).eval(), sample, task)
    return {f"{name}, the paper's size": value for name, value in result.items()}


@torch.no_grad()
def at_both(model: Learner, sample: Sample, task: Task) -> dict[str, float]:
    """Mean errors after d and after 2d examples only, as a large model is slow."""
    asked, result = sample.xs if sample.queries is None else sample.queries, {}
    for name, k in (("at d", task.dims), ("at 2d", 2 * task.dims)):
        answers = model(torch.cat([sample.xs[:, :k], asked[:, k : k + 1]], 1), F.pad(sample.ys[:, :k], (0, 1)))[:, -1]
        result[name] = ((answers.double() - sample.target[:, k]).square().mean() / task.power).item()
    return result


@claim("garg-sparse", GARG, "Section 5, Figure 5a", needs=("sparse-8",), cost=(0.6, 5))
def sparse(trial: Trial) -> Measurement:
    """A transformer trained on sparse linear functions is about as good as the Lasso, and better than least squares.

    Measured: the squared error after 1 to d examples divided by that of the Lasso with the paper's penalty, 0.01.

    Control: least squares in place of the decoder.

    Settings: 2 of 8 weights are not zero (the paper: 3 of 20), a decoder of 8 layers of width 44 (12 of 256). Also
    measured: the same with the best of five penalties, 1 to 1e-4, for each number of examples.
    """
    task = trial.recipe("sparse-8").make_task()
    sample = task.sample(trial.draw(trial.size(512, 4096)), 17)
    error = {"decoder": errors(trial.trained("sparse-8"), sample, task), "least squares": errors(OLS(), sample, task)}
    path = (lasso_path(sample.xs, sample.ys, LASSO) * sample.xs).sum(-1)
    lasso = ((path - sample.ys).square() / task.power).mean(1)  # (penalties, points)
    paper, best = lasso[LASSO.index(0.01)], lasso.min(0).values
    mean = {name: e.mean(0)[1 : task.dims + 1].mean().item() for name, e in error.items()}
    rival, least = (line[1 : task.dims + 1].mean().item() for line in (paper, best))
    plot = over_examples("Sparse linear functions", error | {"Lasso": paper.unsqueeze(0)})
    return Measurement(
        {"against_lasso": (mean["decoder"] / rival, mean["least squares"] / rival)},
        plot=plot,
        reported={"against the best Lasso": mean["decoder"] / least},
    )


@claim(
    "garg-double-descent", GARG, "Section 4, Figure 4b", needs=("depth-8", "depth-2", "ridge-0.5"),
    tells=("linear-20",), cost=(1.8, 23),
)  # fmt: skip
def double_descent(trial: Trial) -> Measurement:
    """On noisy labels, a transformer trained without noise shows the double descent of least squares: its error rises
    where there are as many examples as dimensions.

    Measured: the largest mean error after d − 1 to d + 1 examples divided by the smallest with fewer.

    Control: the same decoder on the same prompts without the noise; and ridge regression with the optimal penalty for
    the noise; whichever rises more.

    Settings: d = 5, noise of standard deviation 0.5 (σ²/d = 1/20, as in the paper, d = 20 and σ = 1), errors against
    labels without noise, a decoder of 8 layers of width 40. Also measured: decoders of 2 layers trained without noise
    and with this noise, and one of the paper's size, trained once.
    """
    task = Linear(dims=DIMS, noise=NOISE)
    sample = task.sample(trial.draw(trial.size(2048, 12800)), POINTS)
    predictors: dict[str, Predictor] = {
        "decoder": trial.trained("depth-8"),
        "ridge regression": Ridge(penalty=NOISE**2),
        "2 layers": trial.trained("depth-2"),
        "2 layers, trained with noise": trial.trained("ridge-0.5"),
        "least squares": OLS(),
    }
    error = {name: errors(p, sample, task, clean=True) for name, p in predictors.items()}
    error["decoder, no noise"] = errors(predictors["decoder"], sample._replace(ys=sample.hidden["clean"]), task)
    bumps = {name: bump(e.mean(0), DIMS) for name, e in error.items()}
    ours, control = bumps.pop("decoder"), max(bumps[name] for name in ("ridge regression", "decoder, no noise"))
    large = full_size(trial, lambda m, s, t: {"bump": bump(errors(m, s, t, clean=True).mean(0), 20)}, noise=1.0)
    plot = over_examples("Noisy labels", error)
    return Measurement({"bump": (ours, control)}, plot=plot, reported=bumps | large)


def bump(curve: Tensor, dims: int) -> float:
    """The rise of an error curve, `(points,)`, around `dims` examples."""
    return (curve[dims - 1 : dims + 2].max() / curve[: dims - 1].min()).item()


@claim("garg-orthants", GARG, "Section 4, Figure 4c", needs=("depth-8",), tells=("linear-20",), cost=(1.8, 20))
def orthants(trial: Trial) -> Measurement:
    """A transformer predicts queries in other orthants than all of its examples: it does not rely on similar inputs.

    Measured: the squared error after k = d examples in one orthant, for a query anywhere, in units of always answering
    0; and its excess over the error of the same predictor with examples anywhere.

    Control: the mean of the three nearest examples, as in the paper, in place of the decoder: it is better than always
    answering 0 with examples anywhere, and worse with examples in one orthant.

    Settings: d = 5, one of the 32 orthants for each prompt, a decoder of 8 layers of width 40; the paper's numbers are
    for d = 20. Also measured: one decoder of the paper's size with d = 20, trained once.
    """
    task, points, prompts = Linear(dims=DIMS), 2 * DIMS + 1, trial.size(512, 4096)
    shifted = SHIFTS.make("orthants").sample(task, trial.draw(prompts), points)
    plain = task.sample(trial.draw(prompts, 2), points)
    predictors: dict[str, Predictor] = {"decoder": trial.trained("depth-8"), "three nearest": Nearest()}
    error = {name: errors(p, shifted, task) for name, p in predictors.items()}
    usual = {name: errors(p, plain, task) for name, p in predictors.items()}
    lost = {name: error[name][:, DIMS] - usual[name][:, DIMS] for name in predictors}
    reported = {
        "at 2d": error["decoder"][:, 2 * DIMS].mean().item(),
        "three nearest, examples anywhere": usual["three nearest"][:, DIMS].mean().item(),
        **full_size(trial, at_both, shift="orthants"),
        "paper, at d": 0.062,
        "paper, at 2d": 0.004,
    }
    plot = over_examples("Queries in other orthants", error | {f"{n}, examples anywhere": e for n, e in usual.items()})
    quantities = {
        "error": (error["decoder"][:, DIMS], error["three nearest"][:, DIMS]),
        "lost": (lost["decoder"], lost["three nearest"]),
    }
    return Measurement(quantities, plot=plot, reported=reported)


@claim("garg-gradient", GARG, "Section 3.2, Figure 3b", needs=("depth-8",), tells=("linear-20",), cost=(1.8, 25))
def gradient(trial: Trial) -> Measurement:
    """The gradient of a transformer's prediction with respect to the query is the part of the weights that the examples
    determine.

    Measured: the cosine between that gradient and the weights, projected on the span of the examples, after 1 to 2d.

    Control: averaging `x y`, one step of gradient descent, in place of the decoder.

    Settings: d = 5, a decoder of 8 layers of width 40. Also measured: the cosine after d examples of one decoder of the
    paper's size, trained once.
    """
    task = Linear(dims=DIMS)
    sample = task.sample(trial.draw(trial.size(256, 2048)), 2 * DIMS + 1)
    cosine = {
        "decoder": F.cosine_similarity(query_gradients(trial.trained("depth-8"), sample), known(sample), dim=-1),
        "averaging": F.cosine_similarity(Averaging().weights(sample.xs, sample.ys)[:, 1:], known(sample), dim=-1),
    }
    lines = {name: c.mean(0).tolist() for name, c in cosine.items()}
    plot = Plot("Gradient of the answer", "examples", "cosine with the known weights", range(1, 2 * DIMS + 1), lines)
    reported = full_size(trial, at_as_many_examples)
    return Measurement(
        {"cosine": (cosine["decoder"].mean(1), cosine["averaging"].mean(1))}, plot=plot, reported=reported
    )


def at_as_many_examples(model: Learner, sample: Sample, task: Task) -> dict[str, float]:
    """The cosine after d examples."""
    part = Sample(sample.xs[:, : task.dims + 1], sample.ys[:, : task.dims + 1], {})
    result = F.cosine_similarity(query_gradients(model, part, [task.dims])[:, 0], known(part)[:, -1], dim=-1)
    return {"cosine at d": result.mean().item()}


def known(sample: Sample) -> Tensor:
    """The projection of the weights on the span of 1, 2, … examples, `(batch, points − 1, dims)`: least squares without
    noise."""
    return OLS().weights(sample.xs, sample.ys)[:, 1:]


def query_gradients(model: Learner, sample: Sample, after: Sequence[int] = ()) -> Tensor:
    """The gradients of the predictions after the given numbers of examples (by default 1, 2, …), each by its query:
    `(batch, …, dims)`."""
    results = []
    for i in after or range(1, sample.xs.shape[1]):
        xs = sample.xs[:, : i + 1].clone().requires_grad_()
        answer = model(xs, sample.ys[:, : i + 1])[:, -1].sum()
        results.append(torch.autograd.grad(answer, xs)[0][:, -1])
    return torch.stack(results, 1)


def before(trial: Trial, recipe: str) -> Learner:
    """The untrained decoder of a recipe."""
    return build(trial.recipe(recipe)).to(trial.device).eval()


def errors(predictor: Predictor, sample: Sample, task: Task, *, clean: bool = False) -> Tensor:
    """Squared errors in units of always answering 0, `(batch, points)`."""
    answers = predictor.predict_prefixes(sample.xs, sample.ys, sample.queries)
    target = sample.hidden["clean"] if clean else sample.target
    return (answers.double() - target).square() / task.power


def over_examples(title: str, error: dict[str, Tensor]) -> Plot:
    """A plot of mean errors after 1, 2, … examples."""
    points = next(iter(error.values())).shape[1]
    lines = {name: e.mean(0)[1:].tolist() for name, e in error.items()}
    return Plot(title, "examples", "squared error / that of 0", range(1, points), lines, log="y")

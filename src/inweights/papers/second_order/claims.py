"""Fu et al. 2023: transformers learn higher-order optimisation methods (arXiv 2310.17086). Exact claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.lab.models import LSA, LSAModel, gd_construction
from inweights.lab.predictors import Newton, counts, grams, moments, times
from inweights.lab.tasks import Linear, Skewed
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._asked import apart, asked_weights
from inweights.papers._descent import Answers
from inweights.papers._papers import FU


@claim("fu-newton-converges", FU, "Section 3.1, Iterative Newton's method", exact=True, cost=(1, 8))
def newton_converges(trial: Trial) -> Measurement:
    """Iterative Newton from `M = 2 S / |S Sᵀ|` needs O(log κ + log log 1/ε) steps to an error of ε, where gradient
    descent needs O(κ log 1/ε).

    Measured: the first step with |w − w*| < ε |w*|, divided by 1 + 2 log₂ κ + log₂ ln(1/ε), which is the bound for
    every start `α S` with α from 1/|S Sᵀ| to (2 − κ⁻²)/|S Sᵀ|; 32 if it is not reached within 31 steps. `inside`: the
    same for the start of the authors' code, `S / |S Sᵀ|` in the Frobenius norm, which is the corrected form; it is at
    most √d times the spectral one, so that the bound has ½ log₂ d more.

    Control: the same for gradient descent at its best rate, for up to 16,000 steps.

    Settings: d = 8, 16 examples, float64, eigenvalues of S from 1/κ to 1 in equal ratios; κ = 10, 100 and 1000, ε =
    1e-3, 1e-6 and 1e-9. The start is exactly that of the paper, with the spectral norm: the limit of convergence, where
    nothing is learned along the direction of the largest eigenvalue.
    """
    as_written, inside = steps_needed(trial, "paper", 0.0), steps_needed(trial, "code", 0.5 * math.log2(8))
    return replace(as_written, quantities={**as_written.quantities, "inside": inside.quantities["steps"]})


def steps_needed(trial: Trial, start: Literal["code", "paper"], slack: float) -> Measurement:
    """The steps of iterative Newton and of gradient descent, relative to Newton's bound: for each κ, ε and prompt."""
    dims, examples, kappas, epsilons = 8, 16, (10.0, 100.0, 1000.0), (1e-3, 1e-6, 1e-9)
    generator, prompts = trial.generator(), trial.size(4, 64)
    shares: dict[str, list[Tensor]] = {"newton": [], "gradient descent": []}
    lines: dict[str, list[float]] = {}
    for kappa in kappas:
        values = torch.logspace(-math.log10(kappa), 0, dims, dtype=torch.float64)
        left = torch.linalg.qr(torch.randn(prompts, examples, dims, dtype=torch.float64, generator=generator))[0]
        right = torch.linalg.qr(torch.randn(prompts, dims, dims, dtype=torch.float64, generator=generator))[0]
        w = torch.randn(prompts, dims, 1, dtype=torch.float64, generator=generator)
        xs = F.pad((left * values.sqrt()) @ right.mT, (0, 0, 0, 1))  # an unused query at the end
        ys = (xs @ w).squeeze(-1)
        newton = torch.stack([Newton(steps=k, start=start).weights(xs, ys)[:, -1] for k in range(32)])
        at = torch.tensor(sorted({math.ceil(1.05**j) for j in range(200)}))  # up to 16,000
        descent = descended(xs, ys, at, 2 * examples / (1 + 1 / kappa))[:, :, -1]
        for epsilon in epsilons:
            bound = 1 + 2 * math.log2(kappa) + math.log2(math.log(1 / epsilon)) + slack
            lines.setdefault(f"bound, ε = {epsilon:g}", []).append(bound)
            for name, path, steps in (("newton", newton, torch.arange(32)), ("gradient descent", descent, at)):
                near = (path - w.squeeze(-1)).norm(dim=-1) < epsilon * w.squeeze(-1).norm(dim=-1)
                first = torch.where(near.any(0), steps[near.int().argmax(0)], steps[-1] + 1)
                shares[name].append(first / bound)
                lines.setdefault(f"{name}, ε = {epsilon:g}", []).append(first.double().mean().item())
    plot = Plot(
        "Steps until the weights are found",
        "condition number",
        "steps (32 of Newton: none in 31)",
        kappas,
        lines,
        log="xy",
    )
    return Measurement({"steps": (torch.cat(shares["newton"]), torch.cat(shares["gradient descent"]))}, plot=plot)


@claim("fu-construction", FU, "Theorem 5.1", exact=True, cost=(1, 1))
@torch.no_grad()
def construction(trial: Trial) -> Measurement:
    """A transformer can implement k iterations of Newton's method with k + O(1) layers and a width of O(d).

    Measured: the distance of the implicit weights of a stack of k + 2 layers of linear self-attention of width 2d + 1,
    measured with all unit vectors as queries, from those of k steps of iterative Newton, relative to their norm; for k
    = 1, 2, 4 and 8.

    Control: gradient descent in as many layers, with the step size that removes the error along the steepest direction
    at once.

    Settings: d = 5, 20 examples with standard deviations 1, 1/2, … 1/5 (with equal ones, descent would converge as
    fast), float64. The start `M = α S` has an α that is a weight of the model, as in the paper; prompts are scaled to
    |S²| = 1, where α = 1 converges. Attention is linear, which corresponds to two heads of the paper; the paper counts
    k + 8 layers, as it also has to move labels to their inputs.
    """
    dims, examples = 5, 20
    sample = Skewed(dims=dims).sample(trial.draw(trial.size(32, 256), dtype=torch.float64), examples + 1)
    S = sample.xs[:, :-1].mT @ sample.xs[:, :-1]
    scale = torch.linalg.matrix_norm(S @ S) ** -0.25
    xs, ys = sample.xs * scale[:, None, None], sample.ys
    errors: list[Tensor] = []
    controls: list[Tensor] = []
    for steps in (1, 2, 4, 8):
        wanted = Newton(steps=steps).weights(xs, ys)[:, -1]
        stack = newton_construction(steps, dims).to(xs.device)
        layers = LSA(layers=steps + 2).build(Linear(dims=dims), examples + 1).to(xs)
        descent = gd_construction(layers, float(examples), examples)  # eigenvalues are at most 1
        errors.append(apart(asked_weights(padded(stack, dims), xs, ys), wanted))
        controls.append(apart(asked_weights(descent, xs, ys), wanted))
    return Measurement({"error": (torch.cat(errors), torch.cat(controls))})


def padded(model: LSAModel, zeros: int) -> Answers:
    """A model applied to inputs with `zeros` zeros appended."""

    def answers(xs: Tensor, ys: Tensor) -> Tensor:
        result: Tensor = model(F.pad(xs, (0, zeros)), ys)
        return result

    return answers


def newton_construction(steps: int, dims: int) -> LSAModel:
    """`steps` of iterative Newton from `M = S` as `steps + 2` layers of linear self-attention, in float64.

    Inputs are padded with as many zeros, `(x, 0)`, where the layers store `m = N x` with `M = 2ˢ N` after s steps. That
    removes the factor 2 from `M ← 2M − M S M`: the rest, `m_j ← m_j − 2ˢ⁻¹ Σ m_i ⟨x_i, m_j⟩`, is what attention adds to
    a token. The first layer computes `m = S x`, the last predicts `2ˢ Σ y_i ⟨x_i, m⟩`.
    """
    model = LSA(layers=steps + 2).build(Linear(dims=2 * dims), 0).double()
    eye = torch.eye(dims, dtype=torch.float64)
    x, m, y = slice(0, dims), slice(dims, 2 * dims), 2 * dims
    out = torch.zeros(steps + 2, 1, 2 * dims + 1, 2 * dims + 1, dtype=torch.float64)
    compare = torch.zeros_like(out)
    out[0, 0, m, x], compare[0, 0, x, x] = eye, eye
    for step in range(steps):
        out[step + 1, 0, m, m] = -(2.0 ** (step - 1)) * eye
    out[-1, 0, y, y] = -(2.0**steps)  # an lsa predicts minus the label's entry
    compare[1:, 0, x, m] = eye
    model.form.write(out, compare)
    return model


def descended(xs: Tensor, ys: Tensor, steps: Tensor, rate: float | Tensor) -> Tensor:
    """The weights of gradient descent after each prefix and each number of `steps`, `(steps, batch, points, dims)`: the
    same as the lab's `GD`, but in closed form by the eigenvectors of `S`. `rate` is on the mean over examples; one
    number, or one for each prefix, `(points, 1)`."""
    n = counts(xs).unsqueeze(-1)
    values, axes = torch.linalg.eigh(grams(xs) / n.unsqueeze(-1))
    b = times(axes.mT, moments(xs, ys) / n)
    left = (1 - rate * values).pow(steps.view(-1, 1, 1, 1))
    gains = torch.where(values > 1e-12, (1 - left) / values.clamp(min=1e-12), 0.0)  # other directions stay 0
    return times(axes, gains * b)


# The claims about trained models come after those about the method.

"""Bai et al. 2023: ridge regression, the Lasso and generalised linear models, as layers with ReLU attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat

import torch
from torch import Tensor

from inweights.lab.predictors import Lasso, Ridge
from inweights.lab.tasks import Linear, Logistic, Sparse
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import BAI
from inweights.papers.statisticians._written import (
    Head,
    Layer,
    Places,
    penalty_head,
    read_heads,
    run,
    soft_threshold,
    squared_heads,
)

DIMS, EXAMPLES = 5, 20
CURVATURE = 3**0.5 / 18
"""The largest second derivative of the logistic function."""


def covariance(xs: Tensor) -> Tensor:
    """`XᵀX / n` of the examples, `(batch, dims, dims)`, without the query."""
    X = xs[:, :-1]
    return X.mT @ X / X.shape[1]


@claim("bai-ridge", BAI, "Theorem 4, Corollary 5", exact=True, cost=(1.1, 6))
@torch.no_grad()
def ridge(trial: Trial) -> Measurement:
    """A transformer of O(κ log(1/ε)) layers with three heads of ReLU attention predicts like ridge regression, up to ε.

    Measured: the difference of its prediction from that of ridge regression, as a share of ε.

    Control: the same layers without the third head, which is that of the penalty.

    Settings: weights written by hand, float64; d = 5, 20 examples with noise 0.5; λ = 0.1 and 1 times the number of
    examples; ε = 1e-8; κ log(B_x B_w / 2ε) layers and one that reads the prediction, where κ = (β + λ)/(α + λ), α and β
    bound the eigenvalues of XᵀX/n, B_x the query and B_w/2 the weights: the number that gradient descent needs at the
    rate 1/(β + λ); 64 prompts (full: 512).
    """
    allowed = 1e-8
    at = Places(DIMS, {"w": DIMS})
    sample = Linear(dims=DIMS, noise=0.5).sample(trial.draw(trial.size(64, 512), dtype=torch.float64), EXAMPLES + 1)
    eigenvalues = torch.linalg.eigvalsh(covariance(sample.xs))
    low, high = float(eigenvalues.min()), float(eigenvalues.max())
    shares: list[Tensor] = []
    controls: list[Tensor] = []
    for penalty in (0.1, 1.0):
        wanted = Ridge(penalty=penalty * EXAMPLES).weights(sample.xs, sample.ys)[:, -1]
        condition = (high + penalty) / (low + penalty)
        size = float(sample.xs[:, -1].norm(dim=-1).max() * wanted.norm(dim=-1).max())
        steps, rate = math.ceil(condition * math.log(size / allowed)), 1 / (high + penalty)
        heads = [*squared_heads(at, EXAMPLES, rate), penalty_head(at, rate * penalty)]
        truth = (wanted * sample.xs[:, -1]).sum(-1)
        for used, into in ((heads, shares), (heads[:2], controls)):
            layers = [*repeat(Layer(used), steps), Layer(read_heads(at, EXAMPLES, "w", "answer"))]
            answer = run(layers, at.tokens(sample.xs, sample.ys))[:, -1] @ at["answer"][0]
            into.append((answer - truth).abs() / allowed)
    return Measurement(
        {"share": (torch.cat(shares), torch.cat(controls))}, reported={"layers, the larger λ": steps + 1}
    )


@claim("bai-lasso", BAI, "Theorem 7: the Lasso", exact=True, cost=(0.8, 6))
@torch.no_grad()
def lasso(trial: Trial) -> Measurement:
    """A transformer performs proximal gradient descent, a layer for each step, with the MLP as soft threshold, and thus
    the Lasso: after L layers its objective is at most β ‖w‖² / 2L above the least.

    Measured: the objective of its weights minus the least one, as a share of that bound, after 1, 4, 16, 64 and 256
    layers.

    Control: the same layers without MLPs, which is gradient descent without the penalty, after 256.

    Settings: weights written by hand, float64; d = 8, 10 examples of functions of 3 coordinates, penalty 0.3, rate 1/β,
    β the largest eigenvalue of XᵀX/n of all prompts; labels are scaled so that all weights are 0 from three times the
    penalty on; 64 prompts (full: 512). The least objective is that of the exact regularisation path.
    """
    dims, examples, penalty = 8, 10, 0.3
    at = Places(dims, {"w": dims})
    sample = Sparse(dims=dims).sample(trial.draw(trial.size(64, 512), dtype=torch.float64), examples + 1)
    xs, X = sample.xs, sample.xs[:, :-1]
    largest = (X.mT @ sample.ys[:, :-1, None] / examples).abs().amax((1, 2))
    ys = sample.ys * (3 * penalty / largest).unsqueeze(1)

    def objective(w: Tensor) -> Tensor:
        left = ys[:, :-1] - (X @ w.unsqueeze(-1)).squeeze(-1)
        return left.square().mean(1) / 2 + penalty * w.abs().sum(-1)

    best = Lasso(penalty=penalty).weights(xs, ys)[:, -1]
    top = float(torch.linalg.eigvalsh(covariance(xs)).max())
    heads = squared_heads(at, examples, 1 / top)

    def share(layer: Layer, layers: int) -> Tensor:
        w = run(repeat(layer, layers), at.tokens(xs, ys))[:, -1] @ at["w"].mT
        return (objective(w) - objective(best)) / (top * best.square().sum(-1) / (2 * layers))

    proximal = Layer(heads, soft_threshold(at, penalty / top))
    shares = [share(proximal, layers) for layers in (1, 4, 16, 64, 256)]
    return Measurement({"share": (torch.cat(shares), share(Layer(heads), 256))})


@claim("bai-accumulation", BAI, "Lemma 14", exact=True, cost=(0.2, 4))
@torch.no_grad()
def accumulation(trial: Trial) -> Measurement:
    """Where each step of gradient descent on a convex function is wrong by at most ε, L steps are wrong by at most L ε,
    if the rate is at most 2 over the smoothness.

    Measured: the distance from exact gradient descent after 1, 2, … 40 steps, as a share of L ε; each step has an error
    of norm ε in the direction in which it hurts most, that of the distance so far.

    Control: squared loss at a rate of 2.5 over the smoothness, after 40 steps.

    Settings: float64; squared and logistic loss of linear functions, d = 5, 20 examples; rates of 1 and 2 over the
    smoothness of each prompt; ε = 1e-3; 64 prompts (full: 512).
    """
    sample = Logistic(dims=DIMS).sample(trial.draw(trial.size(64, 512), dtype=torch.float64), EXAMPLES + 1)
    X, y = sample.xs[:, :-1], sample.ys[:, :-1]
    smooth = torch.linalg.eigvalsh(covariance(sample.xs))[:, -1:]

    def squared(w: Tensor) -> Tensor:
        return slopes(X, lambda s: s - y, w)

    def logistic(w: Tensor) -> Tensor:
        return slopes(X, lambda s: -y * torch.sigmoid(-y * s), w)

    shares = [
        wrong(gradient, rate / size, 40)
        for gradient, size in ((squared, smooth), (logistic, smooth / 4))
        for rate in (1.0, 2.0)
    ]
    return Measurement({"share": (torch.cat(shares).flatten(), wrong(squared, 2.5 / smooth, 40)[:, -1])})


def slopes(X: Tensor, derivative: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """The gradient of a mean of losses of `⟨w, x⟩`, `(batch, dims)`, from the losses' derivative."""
    return (X.mT @ derivative((X @ w.unsqueeze(-1)).squeeze(-1)).unsqueeze(-1)).squeeze(-1) / X.shape[1]


def wrong(gradient: Callable[[Tensor], Tensor], rate: Tensor, steps: int, size: float = 1e-3) -> Tensor:
    """The distance of a descent with errors from one without, `(batch, steps)`, divided by `size` times the step."""
    exact = rate.new_zeros(len(rate), DIMS)
    erring = exact.clone()
    results = []
    for step in range(1, steps + 1):
        exact, erring = exact - rate * gradient(exact), erring - rate * gradient(erring)
        away = erring - exact
        away = torch.where(away.norm(dim=1, keepdim=True) > 0, away, torch.ones_like(away))  # the first may go anywhere
        erring = erring + size * away / away.norm(dim=1, keepdim=True)
        results.append((erring - exact).norm(dim=1) / (size * step))
    return torch.stack(results, 1)


@claim("bai-glm", BAI, "Section 3.3: generalised linear models", exact=True, cost=(0.8, 10))
@torch.no_grad()
def glm(trial: Trial) -> Measurement:
    """A transformer performs gradient descent on a generalised linear model: its heads add up ReLUs to the link
    function, and after L layers its weights differ from those of L steps by at most L ε, with ε the error of one step.

    Measured: that difference for logistic regression, as a share of L ε, after 1, 5 and 20 layers. ε is what the error
    of the sum of ReLUs allows: at most max(h²/8 · max σ″, σ(−B)) times the rate and the mean norm of inputs.

    Control: the difference from steps on the squared loss.

    Settings: weights written by hand, float64; d = 5, 20 examples with labels 1 and −1; 65 ReLUs with kinks h = ¼ apart
    on [−B, B], B = 8; the rate is 1 over the smoothness of the loss of all prompts; 32 prompts (full: 256).
    """
    at = Places(DIMS, {"w": DIMS})
    sample = Logistic(dims=DIMS).sample(trial.draw(trial.size(32, 256), dtype=torch.float64), EXAMPLES + 1)
    X, y = sample.xs[:, :-1], sample.ys[:, :-1]
    rate = 4 / float(torch.linalg.eigvalsh(covariance(sample.xs)).max())
    kinks = torch.linspace(-8, 8, 65, dtype=torch.float64)
    off = max(float(kinks[1] - kinks[0]) ** 2 / 8 * CURVATURE, float(torch.sigmoid(kinks[0])))
    layer = Layer(logistic_heads(at, EXAMPLES, rate, kinks))
    shares: list[Tensor] = []
    controls: list[Tensor] = []
    for steps in (1, 5, 20):
        own = run(repeat(layer, steps), at.tokens(sample.xs, sample.ys))[:, -1] @ at["w"].mT
        bound = steps * rate * off * X.norm(dim=-1).mean(1)
        for derivative, into in ((lambda s: -y * torch.sigmoid(-y * s), shares), (lambda s: s - y, controls)):
            w = torch.zeros_like(own)
            for _ in range(steps):
                w = w - rate * slopes(X, derivative, w)
            into.append((own - w).norm(dim=1) / bound)
    return Measurement({"share": (torch.cat(shares), torch.cat(controls))}, reported={"error of the link": off})


def logistic_heads(at: Places, examples: int, rate: float, kinks: Tensor) -> list[Head]:
    """A step of gradient descent on the logistic loss: the derivative `σ(s) − (1 + y)/2` as heads, with `σ` replaced by
    the piecewise linear function that agrees with it at the kinks, and is constant beyond them."""
    values = torch.sigmoid(kinks)
    slope = torch.cat([kinks.new_zeros(1), values.diff() / kinks.diff(), kinks.new_zeros(1)])
    out = -rate * (examples + 1) / examples * at["w"].mT @ at["x"]
    margin, one = at.forms(at["w"], at["x"]), at.forms(at["one"], at["one"])
    heads = [
        Head(at.ignoring(margin - float(kink) * one, "query"), float(bend) * out)
        for kink, bend in zip(kinks, slope.diff(), strict=True)
    ]
    # σ at the first kink, less (1 + y)/2, which is never below 0 for labels 1 and −1.
    label = (one + at.forms(at["one"], at["y"])) / 2
    return [*heads, Head(at.ignoring(float(values[0]) * one, "query"), out), Head(at.ignoring(label, "query"), -out)]

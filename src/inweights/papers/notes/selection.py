"""What the notes say of algorithms that a transformer chooses by its context, and of the paper on it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from inweights.lab.predictors import KernelRidge, Network, Predictor, Ridge
from inweights.lab.tasks import Linear, Relu, Sample, Task
from inweights.lab.training import read
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES

Answers = Callable[[Sample, float], Tensor]
"""From prompts and a penalty to answers for the last point of each, `(batch,)`."""


def last(predictor: Predictor, sample: Sample) -> Tensor:
    """The answers for the last point of each prompt, `(batch,)`, after all examples before it."""
    with torch.no_grad():
        return predictor.predict_prefixes(sample.xs, sample.ys)[:, -1].double()


def linear(sample: Sample, penalty: float) -> Tensor:
    """Those of ridge regression."""
    return last(Ridge(penalty=penalty), sample)


def kernel(sample: Sample, penalty: float) -> Tensor:
    """Those of kernel regression with a Gaussian, as wide as inputs are apart: √(2 d), near the median."""
    return last(KernelRidge(penalty=penalty, scale=(2 * sample.xs.shape[-1]) ** 0.5), sample)


def network(sample: Sample, penalty: float) -> Tensor:
    """Those of a network of ReLUs, trained by gradients on the examples (Garg et al. 2022). It has no penalty."""
    return last(Network(), sample)


def wide_networks(sample: Sample, penalty: float) -> Tensor:
    """Those of kernel regression with the covariance of random networks of ReLUs, infinitely wide (Cho & Saul 2009)."""
    X, y = sample.xs.double(), sample.ys[:, :-1].double()
    norms = X.norm(dim=-1)
    product = norms.unsqueeze(-1) * norms.unsqueeze(-2)
    cosine = (X @ X.mT / product).clamp(-1, 1)
    K = product / math.pi * ((1 - cosine.square()).sqrt() + (math.pi - cosine.acos()) * cosine)
    known = K[:, :-1, :-1] + penalty * torch.eye(y.shape[1], dtype=K.dtype)
    return (torch.linalg.solve(known, y) * K[:, -1, :-1]).sum(-1)


def huber(noise: float) -> Answers:
    """Those of Huber's regression: residuals beyond 1.345 deviations of the noise count by their size alone. With the
    penalty of ridge regression, so that the two differ in nothing else; 30 times least squares with new weights."""

    def answers(sample: Sample, penalty: float) -> Tensor:
        X, y, query = sample.xs[:, :-1].double(), sample.ys[:, :-1, None].double(), sample.xs[:, -1].double()
        counted, identity = torch.ones_like(y), torch.eye(X.shape[-1], dtype=X.dtype)
        for _ in range(30):
            w = torch.linalg.solve(X.mT @ (counted * X) + penalty * identity, X.mT @ (counted * y))
            counted = (1.345 * noise / (y - X @ w).abs()).clamp(max=1)
        return (query * w.squeeze(-1)).sum(-1)

    return answers


def apart(model: Tensor, answers: Answers, sample: Sample, penalties: Sequence[float]) -> float:
    """The mean squared difference of a model's answers from those of an algorithm, with the penalty that is nearest."""
    return min(float((answers(sample, p) - model).square().mean()) for p in penalties)


def distances(
    trial: Trial, name: str, task: Task, prompts: int, algorithms: Mapping[Answers, Sequence[float]]
) -> list[float]:
    """How far a trained model's answers on prompts of its task are from those of each algorithm, with its penalties."""
    sample = task.sample(trial.draw(prompts), read(name).points)
    model = last(trial.trained(name), sample)
    return [apart(model, answers, sample, penalties) for answers, penalties in algorithms.items()]


@claim("note-kernel", NOTES, "004, section 5.1", cost=(20, 70), needs=("relu-5", "depth-2"))
def kernel_regression(trial: Trial) -> Measurement:
    """Of contexts with a nonlinear pattern, a transformer makes kernel regression.

    Measured: on functions that are not linear, the mean squared difference of a decoder's answers from those of kernel
    regression, over that from the nearer of two others: linear regression (the note's other choice), and a network
    trained by gradients on the examples. Regressions with the penalty that brings them nearest.

    Control: a decoder trained on linear functions, on those.

    Settings: `relu-5`, networks of 5 dimensions, 32 examples, and `depth-2`, linear functions, 15; Gaussian kernel,
    √10 wide; penalties 2⁻⁹, 2⁻⁸, … 4; 100 hidden units, 100 steps of Adam with rate 0.005, as in Garg et al., and no
    choice there: that favours the note; 256 prompts (full: 1,024). A decoder for each kind of context: what it makes is
    measured, not that it chooses. The paper that the note sums up (Bai et al. 2023) says nothing of kernels: its
    transformers choose the penalty of ridge regression, or between regression and classification.
    """
    penalties, prompts = [2.0**j for j in range(-9, 3)], trial.size(256, 1024)
    algorithms: dict[Answers, Sequence[float]] = {kernel: penalties, linear: penalties, network: [0.0]}
    curved = distances(trial, "relu-5", Relu(dims=5, width=100), prompts, {**algorithms, wide_networks: penalties})
    straight = distances(trial, "depth-2", Linear(dims=5), prompts, algorithms)
    value, control = (d[0] / min(d[1:3]) for d in (curved, straight))
    names = ("a Gaussian kernel", "a line", "a trained network", "the kernel of infinitely wide networks")
    reported = {f"squared difference from {name}": d for name, d in zip(names, curved, strict=True)}
    return Measurement({"nearer": (value, control)}, reported=reported)


@claim(
    "note-robust", NOTES, "004, section 5.1", cost=(10, 30), needs=("ridge-2", "ridge-0.5"),
    aside="the noise of the contexts is normal, for which ridge regression is Bayes' answer, so that it can only fail",
)  # fmt: skip
def robust_estimator(trial: Trial) -> Measurement:
    """Of contexts with much noise, a transformer makes a robust estimator.

    Measured: where the noise has a deviation of 2, the mean squared difference of a decoder's answers from those of
    Huber's regression, over that from those of ridge regression, both with the penalty that brings them nearest.

    Control: a decoder trained with a deviation of 0.5, on such contexts: where there is little noise, the note has
    linear regression.

    Settings: `ridge-2` and `ridge-0.5`, 5 dimensions, weights of variance 1, 15 examples, bend at 1.345 deviations;
    penalties σ²/8 to 4σ², each √2 times the one before; 1,024 prompts (full: 4,096). A decoder for each level of
    noise. The paper that the note sums up (Bai et al. 2023) says nothing of robust estimators: with more noise, its
    transformers choose a larger penalty of ridge regression.
    """
    ratios = []
    for s in (2.0, 0.5):
        penalties = [s**2 * 2 ** (j / 2) for j in range(-6, 5)]
        algorithms: dict[Answers, Sequence[float]] = {huber(s): penalties, linear: penalties}
        robust, ridge = distances(trial, f"ridge-{s:g}", Linear(dims=5, noise=s), trial.size(1024, 4096), algorithms)
        ratios.append(robust / ridge)
    return Measurement({"nearer": (ratios[0], ratios[1])})


NEURIPS = "https://papers.nips.cc/paper_files/paper"
REFERENCES = (
    ("Bai et al.", 2024, f"{NEURIPS}/2023/hash/b2e63e36c57e153b9015fece2352a9f9-Abstract-Conference.html"),
    ("Garg et al.", 2022, f"{NEURIPS}/2022/hash/c529dba08a146ea8d6cf715ae8930cbe-Abstract-Conference.html"),
    ("Li et al.", 2023, "https://icml.cc/virtual/2023/poster/24149"),
)
"""Papers that the note cites with a conference: the year that it gives, and the paper's page at the conference."""


@claim(
    "note-venue", NOTES, "004, section 5.1 and references", exact=True, cost=(0.1, 0.1), aside="looked up, not measured"
)
def venue(trial: Trial) -> Measurement:
    """*Transformers as Statisticians* was at NeurIPS 2024 (and other papers at their conferences in their years).

    Measured: for each of three papers how many years the note's year is from the one in the address of the paper's page
    at the conference. Nothing is computed: who doubts it opens the pages.

    Control: all of the note's years moved on by one.

    Settings: the papers of the note's list whose pages we have seen: Bai et al., Garg et al. (NeurIPS), Li et al.
    (ICML). The others are not judged.
    """
    return Measurement(
        {"years_off": (years_off(REFERENCES), years_off([(p, y + 1, page) for p, y, page in REFERENCES]))}
    )


def years_off(references: Sequence[tuple[str, int, str]]) -> list[float]:
    """How far each year is from the one in the address of its page."""
    results = [(year, re.search(r"/(20\d\d)/", page)) for _, year, page in references]
    return [float(abs(year - int(at[1]))) if at else float("nan") for year, at in results]

"""Claims of the notes about algorithms that a transformer selects by its context, and about the paper on it."""

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
"""A function from prompts and a penalty to predictions for the last point of each, `(batch,)`."""


def last(predictor: Predictor, sample: Sample) -> Tensor:
    """The predictions for the last point of each prompt, `(batch,)`, after all examples before it."""
    with torch.no_grad():
        return predictor.predict_prefixes(sample.xs, sample.ys)[:, -1].double()


def linear(sample: Sample, penalty: float) -> Tensor:
    """The predictions of ridge regression."""
    return last(Ridge(penalty=penalty), sample)


def kernel(sample: Sample, penalty: float) -> Tensor:
    """The predictions of kernel regression with a Gaussian kernel of width √(2 d), near the median distance of
    inputs."""
    return last(KernelRidge(penalty=penalty, scale=(2 * sample.xs.shape[-1]) ** 0.5), sample)


def network(sample: Sample, penalty: float) -> Tensor:
    """The predictions of a ReLU network trained on the examples (Garg et al. 2022). It has no penalty."""
    return last(Network(), sample)


def wide_networks(sample: Sample, penalty: float) -> Tensor:
    """The predictions of kernel regression with the covariance of infinitely wide random ReLU networks (Cho & Saul
    2009)."""
    X, y = sample.xs.double(), sample.ys[:, :-1].double()
    norms = X.norm(dim=-1)
    product = norms.unsqueeze(-1) * norms.unsqueeze(-2)
    cosine = (X @ X.mT / product).clamp(-1, 1)
    K = product / math.pi * ((1 - cosine.square()).sqrt() + (math.pi - cosine.acos()) * cosine)
    known = K[:, :-1, :-1] + penalty * torch.eye(y.shape[1], dtype=K.dtype)
    return (torch.linalg.solve(known, y) * K[:, -1, :-1]).sum(-1)


def huber(noise: float) -> Answers:
    """The predictions of Huber regression: residuals beyond 1.345 standard deviations of the noise have an absolute
    loss. With the penalty of ridge regression, so that the two differ only in the loss; by 30 iterations of reweighted
    least squares."""

    def answers(sample: Sample, penalty: float) -> Tensor:
        X, y, query = sample.xs[:, :-1].double(), sample.ys[:, :-1, None].double(), sample.xs[:, -1].double()
        counted, identity = torch.ones_like(y), torch.eye(X.shape[-1], dtype=X.dtype)
        for _ in range(30):
            w = torch.linalg.solve(X.mT @ (counted * X) + penalty * identity, X.mT @ (counted * y))
            counted = (1.345 * noise / (y - X @ w).abs()).clamp(max=1)
        return (query * w.squeeze(-1)).sum(-1)

    return answers


def apart(model: Tensor, answers: Answers, sample: Sample, penalties: Sequence[float]) -> float:
    """The mean squared difference of a model's predictions from those of an algorithm, at the closest penalty."""
    return min(float((answers(sample, p) - model).square().mean()) for p in penalties)


def distances(
    trial: Trial, name: str, task: Task, prompts: int, algorithms: Mapping[Answers, Sequence[float]]
) -> list[float]:
    """The distances of a trained model's predictions on prompts of its task from those of each algorithm."""
    sample = task.sample(trial.draw(prompts), read(name).points)
    model = last(trial.trained(name), sample)
    return [apart(model, answers, sample, penalties) for answers, penalties in algorithms.items()]


@claim("note-kernel", NOTES, "004, section 5.1", cost=(12, 70), needs=("relu-5", "depth-2"))
def kernel_regression(trial: Trial) -> Measurement:
    """On contexts with a nonlinear pattern, a transformer performs kernel regression.

    Measured: on functions that are not linear, the mean squared difference of a decoder's predictions from those of
    kernel regression, divided by that from the closer of two others: linear regression (the note's alternative), and a
    network trained on the examples. Regressions use the closest penalty.

    Control: a decoder trained on linear functions, on linear functions.

    Settings: `relu-5`, networks of 5 dimensions, 32 examples, and `depth-2`, linear functions, 15; Gaussian kernel, √10
    wide; penalties 2⁻⁹, 2⁻⁸, … 4; 100 hidden units, 100 steps of Adam with rate 0.005, as in Garg et al., without
    tuning, which favours the note; 256 prompts (full: 1,024). There is one decoder for each kind of context: its
    algorithm is measured, not whether it selects one. The paper that the note summarises (Bai et al. 2023) does not
    mention kernels: its transformers select the penalty of ridge regression, or between regression and classification.
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
    "note-robust", NOTES, "004, section 5.1", cost=(2.1, 30), needs=("ridge-2", "ridge-0.5"),
    aside="undecidable: the note names no estimator, and for normal noise, of its contexts, ridge regression is Bayes'",
)  # fmt: skip
def robust_estimator(trial: Trial) -> Measurement:
    """On contexts with much noise, a transformer becomes a robust estimator.

    Measured: for noise of standard deviation 2, the mean squared difference of a decoder's predictions from those of
    Huber regression, divided by that from ridge regression, both at the closest penalty.

    Control: a decoder trained with a standard deviation of 0.5, on such contexts: for little noise, the note claims
    linear regression.

    Settings: `ridge-2` and `ridge-0.5`, 5 dimensions, weights of variance 1, 15 examples, Huber threshold at 1.345
    standard deviations; penalties σ²/8 to 4σ², each √2 times the one before; 1,024 prompts (full: 4,096). There is one
    decoder for each level of noise. The paper that the note summarises (Bai et al. 2023) does not mention robust
    estimators: with more noise, its transformers select a larger penalty of ridge regression.
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
"""Papers that the note cites with a conference: the year in the note, and the paper's page at the conference."""


@claim(
    "note-venue", NOTES, "004, section 5.1 and references", exact=True, cost=(0.2, 0.1), aside="looked up, not measured"
)
def venue(trial: Trial) -> Measurement:
    """*Transformers as Statisticians* appeared at NeurIPS 2024 (and other papers at the stated conferences and years).

    Measured: for each of three papers the difference in years between the note and the address of the paper's page at
    the conference. Nothing else is computed: the pages can be checked directly.

    Control: all of the note's years increased by one.

    Settings: the papers in the note's list with pages that were checked: Bai et al., Garg et al. (NeurIPS), Li et al.
    (ICML). The others are not judged.
    """
    return Measurement(
        {"years_off": (years_off(REFERENCES), years_off([(p, y + 1, page) for p, y, page in REFERENCES]))}
    )


def years_off(references: Sequence[tuple[str, int, str]]) -> list[float]:
    """The difference of each year from the one in the address of its page."""
    results = [(year, re.search(r"/(20\d\d)/", page)) for _, year, page in references]
    return [float(abs(year - int(at[1]))) if at else float("nan") for year, at in results]

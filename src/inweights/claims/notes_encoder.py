"""What the notes say of a trained encoder and of least squares, its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.stats import spearmanr
from torch import Tensor

from inweights.claims._claim import Found, Plot, claim
from inweights.claims._papers import NOTES
from inweights.claims._trial import Trial
from inweights.lab import curves
from inweights.lab.models import Learner
from inweights.lab.predictors import OLS, Predictor, Ridge
from inweights.lab.tasks import Linear
from inweights.lab.training import build

LENGTHS = list(range(5, 51, 5))
"""The context lengths of the note's figure."""


@dataclass(frozen=True)
class Sometimes:
    """A model that is asked after some numbers of examples alone: every one of them is a run of an encoder."""

    model: Learner
    lengths: Sequence[int]

    @torch.no_grad()
    def predict_prefixes(self, xs: Tensor, ys: Tensor, queries: Tensor | None = None) -> Tensor:
        answers = torch.full_like(ys, torch.nan)
        for n in self.lengths:
            hidden = torch.cat([ys[:, :n], torch.zeros_like(ys[:, :1])], 1)
            answers[:, n] = self.model(xs[:, : n + 1], hidden)[:, -1]
        return answers


def errors_of(models: dict[str, Predictor], trial: Trial, lengths: Sequence[int]) -> dict[str, list[float]]:
    """Mean squared errors against labels without noise after so many examples of 10 dimensions, as shares of 10."""
    task, prompts = Linear(dims=10, noise=0.1), trial.size(512, 5120)
    asked = {name: Sometimes(m, lengths) if isinstance(m, Learner) else m for name, m in models.items()}
    found = curves(task, max(lengths) + 1, asked, prompts=prompts, seed=trial.seed, clean=True)
    return {name: errors[:, lengths].mean(0).tolist() for name, errors in found.items()}


def untrained(trial: Trial) -> Learner:
    """The note's encoder before any training."""
    return build(trial.recipe("seed-encoder")).eval()


@claim("note-encoder", NOTES, "004, section 8.2", cost=(5, 30), needs=("seed-encoder",))
def encoder(trial: Trial) -> Found:
    """The note's small encoder learns linear regression in context almost as well as least squares does it.

    Measured: its mean squared error over that of OLS on the same prompts, both against labels without noise.

    Control: the encoder untrained.

    Settings: recipe `seed-encoder`: 10 dimensions, 20 examples with noise 0.1; 512 prompts (full: 5,120).
    """
    model = trial.trained("seed-encoder").cpu()
    return against_ols(model, trial)


def against_ols(model: Predictor, trial: Trial) -> Found:
    """A model's error over that of OLS, beside that of the untrained encoder."""
    models = {"model": model, "untrained": untrained(trial), "ols": OLS(), "ridge": Ridge(penalty=0.01)}
    last = {name: error for name, (error,) in errors_of(models, trial, [20]).items()}
    told = {"OLS over ridge": last["ols"] / last["ridge"]}
    return Found({"against_ols": (last["model"] / last["ols"], last["untrained"] / last["ols"])}, told=told)


@claim("note-context-length", NOTES, "004, section 8.3", cost=(20, 200), needs=("seed-encoder",))
def context_length(trial: Trial) -> Found:
    """The longer the context, the smaller the encoder's error, over the lengths of the note's figure.

    Measured: the rank correlation of its mean squared error with the length, 5, 10, … 50.

    Control: the encoder untrained.

    Settings: recipe `seed-encoder`, trained with 20 examples; 512 prompts (full: 5,120), noise 0.1.
    """
    model = trial.trained("seed-encoder").cpu()
    return over_lengths(model, trial)


def over_lengths(model: Predictor, trial: Trial) -> Found:
    """The rank correlation of a model's error with the length, beside that of the untrained encoder."""
    models = {"model": model, "untrained": untrained(trial), "ols": OLS()}
    lines = errors_of(models, trial, LENGTHS)
    value, control, short = (
        float(spearmanr(range(len(line)), line).statistic)
        for line in (lines["model"], lines["untrained"], lines["model"][:4])
    )
    plot = Plot("Error and length of the context", "examples", "squared error / 10", LENGTHS, lines, log="y")
    return Found({"rank_correlation": (value, control)}, plot, {"up to 20 examples": short})


@claim("note-ols-reference", NOTES, "004, sections 8.2 and 8.3", cost=(3, 10))
def ols_reference(trial: Trial) -> Found:
    """Least squares is the reference for contexts with noisy labels: nothing does better by more than 1%.

    Measured: the mean squared error of OLS over that of ridge regression with the penalty of the noise, the largest
    over the lengths of the note's figure, 5, 10, … 50. No error counts for more than that of always answering 0: at as
    many examples as dimensions, OLS has no finite mean.

    Control: noise 1, where shrinking is known to help.

    Settings: 10 dimensions, noise 0.1, 512 prompts (full: 5,120), against labels without noise.
    """
    ratios = {noise: ols_over_ridge(trial, noise) for noise in (0.1, 1.0)}
    lines = {f"noise {noise:g}": line for noise, line in ratios.items()}
    plot = Plot("OLS against ridge", "examples", "squared error, OLS over ridge", LENGTHS, lines, log="y")
    told = {f"at {n} examples": ratios[0.1][LENGTHS.index(n)] for n in (5, 15, 20)}
    return Found({"against_ridge": (max(ratios[0.1]), max(ratios[1.0]))}, plot, told)


def ols_over_ridge(trial: Trial, noise: float) -> list[float]:
    """The mean squared error of OLS over that of ridge regression with the penalty of the noise, for each length; no
    error is larger than that of always answering 0."""
    task, models = Linear(dims=10, noise=noise), {"ols": OLS(), "ridge": Ridge(penalty=noise**2)}
    found = curves(task, LENGTHS[-1] + 1, models, prompts=trial.size(512, 5120), seed=trial.seed, clean=True)
    means = {name: errors[:, LENGTHS].clamp(max=1).mean(0) for name, errors in found.items()}
    return (means["ols"] / means["ridge"]).tolist()

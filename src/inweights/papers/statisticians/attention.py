"""Bai et al. 2023: an encoder with ReLU attention, trained on linear functions."""

from __future__ import annotations

import torch

from inweights.lab.models import MODELS, Learner
from inweights.lab.predictors import OLS, Averaging
from inweights.lab.tasks import Linear
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import BAI
from inweights.papers._trained_now import trained_now

DIMS, POINTS = 2, 9
MODEL = {"kind": "relu-encoder", "layers": 4, "width": 32, "heads": 4}


def encoder(trial: Trial) -> Learner:
    """The encoder after its training."""
    steps = trial.size(300, 800)
    task = {"kind": "linear", "dims": DIMS}
    return trained_now(trial, task, MODEL, points=POINTS, steps=steps, rate=3e-3, optimiser="muon")


def untrained(trial: Trial, task: Linear) -> Learner:
    """An encoder as it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        return MODELS.make(MODEL["kind"], **{k: v for k, v in MODEL.items() if k != "kind"}).build(task, POINTS)  # type: ignore[arg-type]


@claim("bai-relu-attention", BAI, "Corollary 5 and Section 6", cost=(8, 70))
def relu_attention(trial: Trial) -> Measurement:
    """A transformer with ReLU attention in place of a softmax learns least squares in context.

    Measured: the mean squared difference of its predictions from those of least squares, in units of always answering
    0, after 8 examples: below 0.1, which is our choice.

    Control: the encoder before its training.

    Rival: one step of gradient descent, the average of labels times inputs.

    Settings: d = 2, 8 examples, without noise (the paper: d = 20, 40 examples); an encoder of 4 layers of width 32 with
    MLPs as wide (the paper: 12 of width 64), 300 steps of 64 prompts by Muon at 3e-3 (full: 800; the paper: 300,000).
    2,048 prompts (full: 8,192).
    """
    task = Linear(dims=DIMS)
    sample = task.sample(trial.draw(trial.size(2048, 8192)), POINTS)
    known = OLS().predict_prefixes(sample.xs, sample.ys)[:, -1]
    models = encoder(trial), untrained(trial, task)
    with torch.no_grad():
        answers = [model(sample.xs, sample.ys)[:, -1] for model in models]
    answers.append(Averaging().predict_prefixes(sample.xs, sample.ys)[:, -1])
    value, control, rival = (float((a - known).double().square().mean() / task.power) for a in answers)
    return Measurement({"difference": (value, control)}, rivals={"difference": rival})

"""Claims of the notes about efficient in-context learning: prompt, fold and fine-tuning as the context grows."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from inweights.lab.models import DecoderBlock, DecoderModel
from inweights.lab.tasks import Linear
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES
from inweights.theory import least_squares

DIMS, LENGTHS, QUERIES = 5, (5, 10, 15), 256
RATES, STEPS = (1e-3, 3e-3, 1e-2), (30, 100)


def asked(xs: Tensor, ys: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """One context `(n, dims)`, `(n,)` with each of some queries `(k, dims)` as its last point: `(k, n + 1, dims)`,
    `(k, n + 1)`."""
    points = torch.cat([xs.expand(len(queries), -1, -1), queries.unsqueeze(1)], 1)
    return points, torch.cat([ys, ys.new_zeros(1)]).expand(len(queries), -1)


@torch.no_grad()
def folded(model: DecoderModel, xs: Tensor, ys: Tensor, queries: Tensor) -> DecoderModel:
    """The model with new matrices in its MLPs, so that queries alone have the outputs that they have with the context:
    by least squares on these queries, block after block, each given what the changed blocks before it put out."""
    result = copy.deepcopy(model)
    h = model.enter(*asked(xs, ys, queries))
    alone = h[:, -1:]
    for old, new in zip(model.blocks, result.blocks, strict=True):
        assert isinstance(old, DecoderBlock)
        assert isinstance(new, DecoderBlock)
        full, own = old.attend(h)[:, -1], old.attend(alone)[:, -1]
        h = old(h)
        z, wanted = old.norm2(own), old.up(old.norm2(full))
        new.up.weight.copy_(fitted(z, wanted - old.up.bias))
        inner = new.inner(z)
        new.down.weight.copy_(fitted(inner, h[:, -1] - own - old.down.bias))
        alone = (own + new.down(inner)).unsqueeze(1)
    return result


def fitted(inputs: Tensor, wanted: Tensor) -> Tensor:
    """The matrix that takes inputs `(k, in)` to what is wanted, `(k, out)`, with a small ridge penalty."""
    update = least_squares(inputs.double(), wanted.double(), ridge=1e-6 * len(inputs)).update
    return update.dense().to(inputs.dtype)


def finetuned(model: DecoderModel, xs: Tensor, ys: Tensor) -> Iterator[DecoderModel]:
    """The model trained on the examples, each without the context, by Adam: at several rates, after several steps."""
    at = torch.tensor(len(xs))
    prompts = asked(xs, ys, xs)
    for rate in RATES:
        own = copy.deepcopy(model).requires_grad_(True)
        optimiser = torch.optim.Adam(own.parameters(), rate)
        for step in range(1, max(STEPS) + 1):
            optimiser.zero_grad(set_to_none=True)
            (own(*prompts, at)[:, 0] - ys).square().mean().backward()
            optimiser.step()
            if step in STEPS:
                yield copy.deepcopy(own)


@claim("note-efficient", NOTES, "004, section 9.2, efficiency", needs=("depth-2",), cost=(24, 60))
def efficient(trial: Trial) -> Measurement:
    """In-context learning can be made efficient by folding: a context that was folded into weights once answers every
    query at the cost of one token, and better than weights that were fine-tuned on the examples.

    Measured: the squared error on new queries, without the context, of a decoder with the context folded into its MLPs,
    divided by that after fine-tuning on the examples, over contexts of 15 examples.

    Control: the fold of another context.

    Settings: linear functions of 5 dimensions, decoder `depth-2`; folds by least squares on 256 random queries, without
    labels; all weights fine-tuned by Adam, with the best of three rates and of 30 and 100 steps for each context; 64
    new queries, 3 contexts of each of 5, 10 and 15 examples (full: 16). Per query the prompt takes n + 1 tokens, the
    others 1; once, the fold takes 256 (n + 1), fine-tuning 3 n for each step.
    """
    model = trial.trained("depth-2")
    assert isinstance(model, DecoderModel)
    totals = {name: torch.zeros(len(LENGTHS)) for name in ("prompt", "fold", "fold of another", "fine-tuning")}
    for k, n in enumerate(LENGTHS):
        sample = Linear(dims=DIMS).sample(trial.draw(trial.size(3, 16), k), n)
        known = trial.draw(1, 10 + k).normal(QUERIES, DIMS)[0]
        folds = [folded(model, xs, ys, known) for xs, ys in zip(sample.xs, sample.ys, strict=True)]
        for i, (xs, ys, w) in enumerate(zip(sample.xs, sample.ys, sample.hidden["w"], strict=True)):
            queries = trial.draw(1, 100 * (k + 1) + i).normal(64, DIMS)[0]
            prompts, truth = asked(xs, ys, queries), queries @ w
            totals["prompt"][k] += error(model(*prompts)[:, -1], truth)
            for name, fold in (("fold", folds[i]), ("fold of another", folds[i - 1])):
                totals[name][k] += error(fold(*prompts, torch.tensor(n))[:, 0], truth)
            tuned = [error(m(*prompts, torch.tensor(n))[:, 0], truth) for m in finetuned(model, xs, ys)]
            totals["fine-tuning"][k] += min(tuned)
            trial.beat()
    lines = {name: (total / len(sample.xs) / DIMS).tolist() for name, total in totals.items()}
    value, control = (lines[name][-1] / lines["fine-tuning"][-1] for name in ("fold", "fold of another"))
    plot = Plot("Prompt, fold, fine-tuning", "examples", "share of always answering 0", LENGTHS, lines, log="y")
    return Measurement({"against_finetuning": (value, control)}, plot)


def error(answers: Tensor, truth: Tensor) -> float:
    """The mean squared error."""
    return float((answers - truth).detach().square().mean())

"""Claims of the notes about efficient in-context learning: contexts that are longer than a model can take."""

from __future__ import annotations

import torch
from torch import Tensor

from inweights.lab.models import LSA, LSAModel, Softmax
from inweights.lab.predictors import Ridge
from inweights.lab.tasks import Linear
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._asked import asked_weights
from inweights.papers._papers import NOTES
from inweights.papers._random_blocks import each
from inweights.papers.notes.limits import DIMS, drawn

QUERIES, CHUNKS, CHUNK = 20, 4, 15


@claim("note-fold-constant", NOTES, "004, section 9.2, efficiency", exact=True, cost=(0.6, 15))
@torch.no_grad()
def fold_constant(trial: Trial) -> Measurement:
    """The limit of the context length can be overcome: in linear self-attention, of any depth, a context of any length
    is worth as many weights as there are dimensions, which serve all queries without it.

    Measured: for each context the largest difference of the predictions for 20 queries with the context and with its d
    weights, relative to their root mean square; contexts of 10, 50 and 250 examples.

    Control: the same for softmax attention with the same weights, the mean over contexts.

    Settings: 5 dimensions, 1, 2 and 4 layers with random weights; 5 contexts (full: 25), float64. The weights are the
    predictions for unit vectors. A prediction with the context takes at least n·d products, with the weights d.
    """
    values: list[Tensor] = []
    controls: list[Tensor] = []
    for step, n in enumerate((10, 50, 250)):
        draw = trial.draw(trial.size(5, 25), step, dtype=torch.float64)
        sample, queries = Linear(dims=DIMS).sample(draw, n + 1), draw.normal(QUERIES, DIMS)
        for layers in (1, 2, 4):
            linear, softmax = (
                drawn(kind(layers=layers, heads=2, form="products"), trial.generator()) for kind in (LSA, Softmax)
            )
            values.append(apart(linear, sample.xs, sample.ys, queries))
            controls.append(apart(softmax, sample.xs, sample.ys, queries).mean(0, keepdim=True))
    return Measurement({"error": (torch.cat(values), torch.cat(controls))})


def apart(model: LSAModel, xs: Tensor, ys: Tensor, queries: Tensor) -> Tensor:
    """The largest relative difference of predictions with a context and with its weights, `(batch,)`; the last point of
    a prompt is ignored."""
    folded = queries @ asked_weights(model, xs, ys).unsqueeze(-1)
    prompts = torch.cat([xs[:, :-1].unsqueeze(1).expand(-1, QUERIES, -1, -1), queries.unsqueeze(2)], 2)
    answers = model(prompts.flatten(0, 1), ys.repeat_interleave(QUERIES, 0))[:, -1].view(len(xs), QUERIES)
    return each(folded.squeeze(-1), answers) / answers.square().mean(-1).sqrt()


@claim("note-chunks", NOTES, "004, section 9.2, efficiency", needs=("ridge-1",), cost=(2.5, 4))
@torch.no_grad()
def chunks(trial: Trial) -> Measurement:
    """The limit of the context length can be overcome: more examples than a model has positions for are used by
    averaging its predictions over parts of the context.

    Measured: the squared error of the mean prediction over 4 parts of 15 examples, the model's largest number, divided
    by that of one part.

    Control: the mean over 4 orders of the same 15 examples.

    Settings: linear functions of 5 dimensions with noise 1, decoder `ridge-1`; errors against labels without noise;
    2,048 prompts (full: 16,384). Reported: the same for ridge regression on all 60 examples.
    """
    model, task = trial.trained("ridge-1"), Linear(dims=DIMS, noise=1.0)
    sample = task.sample(trial.draw(trial.size(2048, 16384)), CHUNKS * CHUNK + 1)
    truth, query = sample.hidden["clean"][:, -1], slice(-1, None)

    def answers(rows: Tensor) -> Tensor:
        """The prediction after these examples, `(batch,)`."""
        xs = torch.cat([sample.xs[:, rows], sample.xs[:, query]], 1)
        return model(xs, torch.cat([sample.ys[:, rows], torch.zeros_like(sample.ys[:, query])], 1))[:, -1]

    parts = torch.arange(CHUNKS * CHUNK).view(CHUNKS, CHUNK)
    random = trial.generator()
    orders = [parts[0][torch.randperm(CHUNK, generator=random)] for _ in range(CHUNKS)]
    one = error(answers(parts[0]), truth)
    value, control = (error(torch.stack([answers(rows) for rows in each]).mean(0), truth) for each in (parts, orders))
    whole = error(Ridge(penalty=1.0).predict_prefixes(sample.xs, sample.ys)[:, -1], truth)
    return Measurement({"against_one": (value / one, control / one)}, reported={"ridge on all": whole / one})


def error(answers: Tensor, truth: Tensor) -> float:
    """The mean squared error."""
    return float((answers.double() - truth).square().mean())

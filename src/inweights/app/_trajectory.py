"""Trajectory: the implicit descent of one query as tokens arrive, and beside it linear regression in the lab."""

from __future__ import annotations

from typing import Any

import torch

from inweights.app._limits import TrajectoryRequest
from inweights.app._prompt import rounded, texts
from inweights.app._worker import Desk, Tell
from inweights.lab.predictors import GD, OLS
from inweights.lab.section4 import OneBlock, Prompts, implicit_path, predict, train_block
from inweights.models import Prompt, trace

STEPS = 400
"""Steps of training of the one-block transformer: enough to do the task, in seconds."""
PROBES = 64
"""Queries from which the block's linear prediction is read off."""
RATE = 0.5
"""The rate of gradient descent."""


def trajectory_job(request: TrajectoryRequest, tell: Tell, desk: Desk) -> dict[str, Any]:
    """Both pictures, each with an entry for every token or example that was read."""
    tell.progress("loading the model")
    model = desk.model(request.model, "float64")
    asked = Prompt(model, request.context, request.query, chat=request.chat)
    tell.progress("updates, token by token")
    path = trace(asked)
    kept = set(asked.left.tolist())
    ids = [i for place, i in enumerate(asked.ids[0].tolist()) if place not in kept]
    result = {
        "tokens": texts(model, ids), "layers": path.layers, "norms": rounded(path.norms),
        "totals": rounded(path.totals),
    }  # fmt: skip
    tell.news("path", **result)
    return {"path": result, "lab": regression(request.examples, request.seed, tell, desk)}


def regression(examples: int, seed: int, tell: Tell, desk: Desk) -> dict[str, Any]:
    """One prompt of linear regression: after i examples the weights that the trained block predicts with, those of
    gradient descent with i steps, of least squares, and the block's own `‖ΔW_i − ΔW_{i−1}‖`.

    The block's predictions are not linear in the query: its weights are those of the best linear fit over `PROBES`
    queries, `fit` is the share of the predictions' variance that this fit explains.
    """
    settings = OneBlock(steps=STEPS, examples=examples, batch=128)
    if desk.last.get("block", (None,))[0] != settings:
        block = train_block(settings, lambda step, _: tell.progress("training the lab's block", step, STEPS)).block
        desk.last["block"] = (settings, block)
    block = desk.last["block"][1]
    prompts = settings.task.prompts(1, examples, seed=seed + 7_000_003, queries=PROBES)
    context, queries, targets = prompts.context[0], prompts.query[0], prompts.target[0]
    x = queries[:, :-1].double()
    truth = torch.linalg.lstsq(x, targets.double().unsqueeze(-1)).solution[:, 0]
    weights, fits = [], []
    with torch.no_grad():
        for i in range(examples + 1):
            read = context[:i].expand(PROBES, i, -1) if i else context[:1].expand(PROBES, 1, -1) * 0
            y = predict(block(read, queries)).double().unsqueeze(-1)
            w = torch.linalg.lstsq(x, y).solution
            weights.append(w[:, 0])
            fits.append(1 - float((y - x @ w).square().sum() / y.square().sum().clamp_min(1e-12)))
        path = implicit_path(block, Prompts(context[None], queries[:1], targets[:1]))
    xs = torch.cat([context[:, :-1], queries[:1, :-1]])[None].double()
    ys = torch.cat([context[:, -1], targets[:1]])[None].double()
    descents = [torch.zeros(settings.dims, dtype=torch.float64)]
    descents += [GD(rate=RATE, steps=i).weights(xs, ys)[0, i] for i in range(1, examples + 1)]
    return {
        "truth": rounded(truth), "block": rounded(torch.stack(weights)), "fit": fits, "rate": RATE, "steps": STEPS,
        "descent": rounded(torch.stack(descents)), "least_squares": rounded(OLS().weights(xs, ys)[0]),
        "increments": rounded(path.increments()[0]), "examples": rounded(context),
    }  # fmt: skip

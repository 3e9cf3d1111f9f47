"""Garg et al. 2022: transformers against algorithms that are fitted to the examples of each prompt."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from inweights.lab.predictors import OLS, Network, Predictor, RegressionTree
from inweights.lab.tasks import Sample, Task, Tree
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import GARG
from inweights.papers.what_can._boosted import boosted
from inweights.papers.what_can.claims import before, errors

TREES, NETWORKS = (16, 32, 48), (16, 20, 24, 28, 32)
"""The numbers of examples after which errors are measured: every other prefix would need fits of its own."""


@claim("garg-tree", GARG, "Section 5, Figure 5b", needs=("tree-3",), cost=(6, 300))
def tree(trial: Trial) -> Measurement:
    """On decision trees a transformer does better than greedily grown trees and than XGBoost.

    Measured: the squared error after 16, 32 and 48 examples divided by that of a greedy tree of the correct depth, and
    by that of XGBoost with the paper's settings, both on the signs of the inputs, where they do best.

    Control: least squares in place of the decoder.

    Settings: trees of depth 3 over 8 coordinates (the paper: 4 and 20), a decoder of 4 layers of width 40 (12 of 256);
    XGBoost with 50 trees of depth 4, rate 0.1; 64 prompts (full: 256).
    """
    task, sample = prompts(trial, "tree-3", trial.size(64, 256))
    assert isinstance(task, Tree)
    error = of_models(trial, "tree-3", task, sample, TREES)
    error["greedy tree"] = errors(RegressionTree(depth=task.depth, signs=True), sample, task)[:, TREES]
    error["XGBoost"] = (boosted(sample, TREES) - sample.target[:, TREES]).square() / task.power
    return against({"against_greedy": "greedy tree", "against_boosting": "XGBoost"}, error, "Decision trees", TREES)


@claim("garg-relu", GARG, "Section 5, Figure 5c", needs=("relu-5",), cost=(18, 500))
def relu(trial: Trial) -> Measurement:
    """On networks with one hidden layer a transformer does as well as a network trained on the examples.

    Measured: the squared error after 16, 20, … 32 examples divided by that of a network of the same shape, trained by
    Adam.

    Control: least squares in place of the decoder.

    Settings: 100 hidden units, d = 5 (the paper: 20), a decoder of 3 layers of width 32 (12 of 256); the network is
    trained as in the paper, 5,000 steps of Adam at 5e-3 on batches of 10; 16 prompts (full: 128). Also measured: the
    same against 100 steps on all examples, with which this claim was first judged.
    """
    task, sample = prompts(trial, "relu-5", trial.size(16, 128))
    error = of_models(trial, "relu-5", task, sample, NETWORKS)
    for name, network in {"network": Network(steps=5000, batch=10), "network, 100 steps": Network()}.items():
        answers = network.predict_after(sample.xs, sample.ys, NETWORKS)[:, NETWORKS].double()
        error[name] = (answers - sample.target[:, NETWORKS]).square() / task.power
    return against({"against_network": "network"}, error, "Networks", NETWORKS)


def prompts(trial: Trial, recipe: str, count: int) -> tuple[Task, Sample]:
    """The task of a recipe, and prompts of it as long as in its training."""
    task = trial.recipe(recipe).make_task()
    return task, task.sample(trial.draw(count), trial.recipe(recipe).points)


def of_models(trial: Trial, recipe: str, task: Task, sample: Sample, after: Sequence[int]) -> dict[str, Tensor]:
    """The errors of a decoder, trained and untrained, and of least squares, `(batch, len(after))` each."""
    models: dict[str, Predictor] = {
        "decoder": trial.trained(recipe),
        "least squares": OLS(),
        "untrained": before(trial, recipe),
    }
    return {name: errors(p, sample, task)[:, after] for name, p in models.items()}


def against(rivals: dict[str, str], error: dict[str, Tensor], title: str, after: Sequence[int]) -> Measurement:
    """The mean errors of the decoder and of least squares, as the control, divided by that of each rival."""
    mean = {name: e.mean().item() for name, e in error.items()}
    lines = {name: e.mean(0).tolist() for name, e in error.items()}
    plot = Plot(title, "examples", "squared error / that of 0", after, lines, log="y")
    quantities = {
        name: (mean["decoder"] / mean[rival], mean["least squares"] / mean[rival]) for name, rival in rivals.items()
    }
    others = [name for name in error if name not in ("decoder", *rivals.values())]
    return Measurement(quantities, plot, {f"against {name}": mean["decoder"] / mean[name] for name in others})

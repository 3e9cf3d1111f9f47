"""Baselines for each task: the best known predictor, and simple ones."""

from __future__ import annotations

from inweights.lab import tasks
from inweights.lab.predictors import (
    OLS,
    Averaging,
    DiscreteMMSE,
    KernelRidge,
    Lasso,
    LogisticPredictor,
    Nearest,
    Network,
    Outputs,
    Predictor,
    RegressionTree,
    Ridge,
    WeightedRidge,
    Zero,
)
from inweights.lab.tasks import Hetero, Linear, MixedNoise, Pool, Scaled, Sparse, Task

SMALL = 1e-3  # without noise, the Bayes predictor is a limit


def rivals(task: Task) -> dict[str, Predictor]:
    """The baselines of a task, by name. Tasks over tokens have none."""
    if task.loss == "tokens":
        return {}
    if task.loss == "logistic":
        return {"logistic": LogisticPredictor(), "ols": OLS(), "nearest": Nearest()}
    results: dict[str, Predictor] = {"zero": Zero(), "averaging": Averaging(), "ols": OLS(), "nearest": Nearest()}
    if isinstance(task, Hetero):
        results["weighted-ridge"] = WeightedRidge(prior=task.variances, noise=task.noise or SMALL)
    elif isinstance(task, Linear) and task.noise > SMALL:
        spread = task.spread if isinstance(task, Scaled) else 1.0
        results["ridge"] = Ridge(penalty=(task.noise / spread) ** 2)  # the Bayes predictor for normal weights
    if isinstance(task, MixedNoise):
        results |= {f"ridge, noise {s:g}": Ridge(penalty=task.dims * s**2) for s in task.levels if s}
    if isinstance(task, Sparse):
        results["lasso"] = Lasso(penalty=0.01)
    if isinstance(task, Pool):
        results["dmmse"] = DiscreteMMSE(pool=task.weights(), noise=task.noise or SMALL)
    if isinstance(task, tasks.Tree):
        results["tree"] = RegressionTree(depth=task.depth, signs=True)
    if isinstance(task, tasks.Relu):
        results["network"] = Network()
    if isinstance(task, tasks.Kernel):
        results["kernel-ridge"] = KernelRidge(scale=task.scale, penalty=max(task.noise**2, SMALL))
    if isinstance(task, tasks.Sine):
        results["kernel-ridge"] = KernelRidge(penalty=SMALL)
    return results if task.outputs == 1 else {name: Outputs(of=p) for name, p in results.items()}

"""Who a trained model is held against on a task: the best predictor that is known for it, and plain ones."""

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

SMALL = 1e-3  # where there is no noise, Bayes' answer is a limit


def rivals(task: Task) -> dict[str, Predictor]:
    """By name. For tasks over tokens there are none."""
    if task.loss == "tokens":
        return {}
    if task.loss == "logistic":
        return {"logistic": LogisticPredictor(), "ols": OLS(), "nearest": Nearest()}
    found: dict[str, Predictor] = {"zero": Zero(), "averaging": Averaging(), "ols": OLS(), "nearest": Nearest()}
    if isinstance(task, Hetero):
        found["weighted-ridge"] = WeightedRidge(prior=task.variances, noise=task.noise or SMALL)
    elif isinstance(task, Linear) and task.noise > SMALL:
        spread = task.spread if isinstance(task, Scaled) else 1.0
        found["ridge"] = Ridge(penalty=(task.noise / spread) ** 2)  # Bayes' answer where weights are normal
    if isinstance(task, MixedNoise):
        found |= {f"ridge, noise {s:g}": Ridge(penalty=task.dims * s**2) for s in task.levels if s}
    if isinstance(task, Sparse):
        found["lasso"] = Lasso(penalty=0.01)
    if isinstance(task, Pool):
        found["dmmse"] = DiscreteMMSE(pool=task.weights(), noise=task.noise or SMALL)
    if isinstance(task, tasks.Tree):
        found["tree"] = RegressionTree(depth=task.depth, signs=True)
    if isinstance(task, tasks.Relu):
        found["network"] = Network()
    if isinstance(task, tasks.Kernel):
        found["kernel-ridge"] = KernelRidge(scale=task.scale, penalty=max(task.noise**2, SMALL))
    if isinstance(task, tasks.Sine):
        found["kernel-ridge"] = KernelRidge(penalty=SMALL)
    return found if task.outputs == 1 else {name: Outputs(of=p) for name, p in found.items()}

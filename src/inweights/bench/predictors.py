"""Classical predictors on all prefixes at once, against the loops of public code for in-context learning."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from inweights._errors import InputError
from inweights.bench._measure import Result, Row, race
from inweights.lab import Draw
from inweights.lab.predictors import OLS, DiscreteMMSE, Network, Ridge, lasso_path
from inweights.lab.tasks import Linear

PENALTIES = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # of Garg et al. 2022
RIDGE, NOISE = 0.25, 0.5

Job = Callable[[Tensor, Tensor], Tensor]


def run(
    tasks: int = 64,
    points: int = 41,
    dims: int = 20,
    pool: int = 1024,
    sample: int = 8,
    prefixes: Sequence[int] = (5, 15, 25, 35),
    rounds: int = 5,
) -> Result:
    """Runs the benchmark. The rivals are reimplementations of the loops in public repositories.

    - `lasso`: scikit-learn, fitted for every task, prefix and penalty by itself, as sparse tasks are scored in Garg et
      al. 2022, timed on every `sample`-th task and scaled up.
    - `ridge`, `ols`, `dmmse`: a loop over prefixes, batched over tasks.
    - `network`: for each prefix a list of modules, one per task, with autograd and Adam, timed on `prefixes` and scaled
      up. A version with batched products, which public code does not have, is also measured.

    Times are in float32. The predictions of both sides are compared in float64 (the network's in float32): root mean
    square difference, relative to the predictions. scikit-learn's Lasso stops before it has converged, and its
    predictions differ by more than rounding; there the difference is the largest excess of our objective over the
    rival's over all problems, relative to the objective of zero weights. As the objective is convex, a lower value is
    closer to the solution.
    """
    draw = Draw(0, 0, tasks)
    drawn = Draw(1, 0, pool).normal(dims)
    dense = Linear(dims=dims, noise=NOISE).sample(draw, points)
    xs, ys = dense.xs, dense.ys
    sparse = (xs[..., :3] @ dense.hidden["w"][:, :3, None]).squeeze(-1)
    belief = DiscreteMMSE(pool=drawn, noise=NOISE)
    rows = []

    def compare(name: str, ours: Job, rival: Job, goal: float) -> None:
        difference = _difference(ours(xs.double(), ys.double()), rival(xs.double(), ys.double()))
        fast, slow = race(lambda: ours(xs, ys), lambda: rival(xs, ys), rounds=rounds)
        rows.append(Row(name, fast, slow, "seconds", goal, {"difference": difference}))

    with _one_thread():
        rows.append(_lasso(xs, sparse, sample, rounds))
        compare("ridge", Ridge(penalty=RIDGE).predict_prefixes, _ridge, goal=3)
        compare("dmmse", belief.predict_prefixes, lambda xs, ys: _dmmse(xs, ys, drawn.to(xs)), goal=3)
        rows.append(_network(xs, ys, prefixes))
        compare("ols", OLS().predict_prefixes, _ols, goal=1)
    return Result(
        setting=f"{tasks} tasks, {points} points, {dims} dimensions, a pool of {pool}, float32, 1 thread; the Lasso's "
        f"rival timed on {len(xs[::sample])} tasks, the network's on {len(prefixes)} prefixes, both scaled up",
        headline="lasso",
        rows=tuple(rows),
        error=max(row.beside["difference"] for row in rows),
        tolerance=1e-3,
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _difference(ours: Tensor, rival: Tensor) -> float:
    return float((ours - rival).square().mean().sqrt() / rival.square().mean().sqrt())


def _lasso(xs: Tensor, ys: Tensor, sample: int, rounds: int) -> Row:
    try:
        from sklearn.linear_model import Lasso
    except ImportError:
        raise InputError(
            "The benchmark predictors needs scikit-learn: install it with pip install 'inweights[lab]'."
        ) from None
    some_xs, some_ys = xs[::sample], ys[::sample]

    def rival() -> Tensor:
        """The weights fitted by scikit-learn, `(penalties, tasks, points, dims)`."""
        result = xs.new_zeros(len(PENALTIES), *some_xs.shape)
        for k, penalty in enumerate(PENALTIES):
            for i in range(1, ys.shape[1]):
                for b in range(len(some_xs)):
                    model = Lasso(alpha=penalty, fit_intercept=False, max_iter=100_000)
                    model.fit(some_xs[b, :i].numpy(), some_ys[b, :i].numpy())
                    result[k, b, i] = torch.from_numpy(model.coef_)
        return result

    def objectives(weights: Tensor) -> Tensor:
        """The objectives relative to those of zero weights, `(penalties, tasks, points - 1)`."""
        X, y, w = some_xs.double(), some_ys.double(), weights.double()
        misses = (w @ X.mT - y.unsqueeze(1)).square()  # (penalties, tasks, prefixes, examples)
        known = torch.ones_like(misses[0, 0]).tril(-1)
        count = known.sum(-1).clamp(min=1)
        penalties = torch.tensor(PENALTIES, dtype=X.dtype)[:, None, None]
        value = (misses * known).sum(-1) / (2 * count) + penalties * w.abs().sum(-1)
        return (value / ((y.square().unsqueeze(1) * known).sum(-1) / (2 * count)))[..., 1:]

    ours, theirs = lasso_path(some_xs, some_ys, PENALTIES), rival()
    excess = objectives(ours) - objectives(theirs)
    errors = [float(((w * some_xs).sum(-1) - some_ys).square().mean()) for w in (ours, theirs)]
    beside = {
        "difference": float(excess.max().clamp(min=0)),
        "rival_above": float((-excess).max()),
        "squared_error_ours": errors[0],
        "squared_error_rival": errors[1],
    }
    fast, slow = race(lambda: lasso_path(xs, ys, PENALTIES), rival, rounds=rounds)
    return Row("lasso", fast, slow * len(xs) / len(some_xs), "seconds", 10, beside)


def _ridge(xs: Tensor, ys: Tensor) -> Tensor:
    penalty = RIDGE * torch.eye(xs.shape[2], dtype=xs.dtype)
    results = [torch.zeros_like(ys[:, 0])]
    for i in range(1, ys.shape[1]):
        X = xs[:, :i]
        w = torch.linalg.solve(X.mT @ X + penalty, X.mT @ ys[:, :i, None])
        results.append((xs[:, i : i + 1] @ w).flatten())
    return torch.stack(results, 1)


def _ols(xs: Tensor, ys: Tensor) -> Tensor:
    results = [torch.zeros_like(ys[:, 0])]
    for i in range(1, ys.shape[1]):
        w = torch.linalg.lstsq(xs[:, :i], ys[:, :i, None]).solution
        results.append((xs[:, i : i + 1] @ w).flatten())
    return torch.stack(results, 1)


def _dmmse(xs: Tensor, ys: Tensor, pool: Tensor) -> Tensor:
    results = []
    for i in range(ys.shape[1]):
        misfit = (ys[:, :i, None] - xs[:, :i] @ pool.mT).square().sum(1)
        w = torch.softmax(-misfit / (2 * NOISE**2), -1) @ pool
        results.append((xs[:, i] * w).sum(-1))
    return torch.stack(results, 1)


def _network(xs: Tensor, ys: Tensor, prefixes: Sequence[int]) -> Row:
    """Times the network on each of `prefixes`, alternating: ours on all prefixes, the rivals on this prefix."""
    network = Network()
    jobs: dict[str, Callable[[int], Tensor]] = {
        "ours": lambda _: network.predict_prefixes(xs, ys),
        "separate": lambda i: _separate(xs, ys, i, network),
        "batched": lambda i: _batched(xs, ys, i, network),
    }
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    differences = []
    for i in prefixes:
        answers = {}
        for name, job in jobs.items():
            start = time.perf_counter()
            answers[name] = job(i)
            taken[name].append(time.perf_counter() - start)
        differences += [_difference(answers["ours"][:, i], answers[name]) for name in ("separate", "batched")]
    ours = statistics.median(taken["ours"])
    separate, batched = (statistics.mean(taken[name]) * (ys.shape[1] - 1) for name in ("separate", "batched"))
    beside = {"difference": max(differences), "ratio_to_batched": batched / ours}
    return Row("network", ours, separate, "seconds", 10, beside)


def _separate(xs: Tensor, ys: Tensor, i: int, network: Network) -> Tensor:
    """Predictions after i examples, `(tasks,)`: one module per task, one optimiser, and the same initial weights as
    ours."""
    models = nn.ModuleList()
    for W, v, b in zip(*network.start(xs), strict=True):
        model = nn.Sequential(nn.Linear(xs.shape[2], network.hidden), nn.ReLU(), nn.Linear(network.hidden, 1))
        start = (W[:-1].mT, W[-1], v, b.flatten())
        model.load_state_dict(dict(zip(model.state_dict(), start, strict=True)))
        models.append(model)

    def answer(inputs: Tensor) -> Tensor:
        return torch.stack([model(x).squeeze(-1) for model, x in zip(models, inputs, strict=True)])

    _adam(list(models.parameters()), lambda: answer(xs[:, :i]) - ys[:, :i], network)
    return answer(xs[:, i : i + 1]).squeeze(1).detach()


def _batched(xs: Tensor, ys: Tensor, i: int, network: Network) -> Tensor:
    """Predictions after i examples, `(tasks,)`: the networks of all tasks as batched products, with autograd."""
    W, v, b = (layer.clone().requires_grad_() for layer in network.start(xs))
    inputs = pad(xs, (0, 1), value=1.0)

    def answer(inputs: Tensor) -> Tensor:
        return ((inputs @ W).relu() @ v.mT + b).squeeze(-1)

    _adam([W, v, b], lambda: answer(inputs[:, :i]) - ys[:, :i], network)
    return answer(inputs[:, i : i + 1]).squeeze(1).detach()


def _adam(parameters: list[Tensor], miss: Callable[[], Tensor], network: Network) -> None:
    optimizer = torch.optim.Adam(parameters, lr=network.rate)
    for _ in range(network.steps):
        optimizer.zero_grad()
        miss().square().mean(1).sum().backward()
        optimizer.step()

"""Note 004, section 9.1: the theorem's exact update in trained models of other architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from inweights.lab.models import EncoderModel, Learner
from inweights.lab.tasks import Linear
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._trained_now import trained_now
from inweights.running import hooked
from inweights.theory import Changes, Shift, Update, implicit_update, residual_bias

SHAPES: dict[str, dict[str, Any]] = {
    "relu-encoder": {"layers": 2, "width": 16, "heads": 2},
    "mamba": {"layers": 1, "width": 16},
    "hybrid": {"layers": 1, "width": 16, "heads": 2},
    "griffin": {"layers": 3, "width": 16, "heads": 2},
}
DIMS, POINTS = 2, 9
TRAINED = "lstm-5"


def models(trial: Trial) -> dict[str, Learner]:
    """A trained model of each architecture, in double precision."""
    task, steps = {"kind": "linear", "dims": DIMS}, trial.size(40, 300)
    made = {
        name: trained_now(trial, task, {"kind": name, **shape}, points=POINTS, steps=steps, rate=5e-3)
        for name, shape in SHAPES.items()
    }
    return {name: model.double() for name, model in (made | {"lstm": trial.trained(TRAINED)}).items()}


def readers(model: Learner) -> dict[str, int]:
    """The matrices that read what depends on other tokens, and the place of the query among the tokens that they read.

    They are the output matrices of attention, of state spaces and of gated recurrences; of an LSTM, whose layers have
    none, the matrix behind all of them.
    """
    names = [name for name, _ in model.named_modules()]
    if isinstance(model, EncoderModel):
        return {name: -1 for name in names if name.startswith("layers.") and name.endswith(".out")}
    # A token of the query's label follows the query.
    return {name: -2 for name in names if name.endswith((".part.out", ".layer.o"))} or {"read_out": -1}


After = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Any]


def run(model: Learner, xs: Tensor, ys: Tensor, after: Callable[[str, int], After] | None = None) -> Tensor:
    """The last prediction of one prompt, with a hook for each of the readers."""
    places = readers(model) if after else {}
    hooks = [(model.get_submodule(name), after(name, at)) for name, at in places.items()] if after else []
    with hooked(after=hooks):
        answer: Tensor = model(xs, ys)[0, -1]
    return answer


def exact(model: Learner, xs: Tensor, ys: Tensor, kept: Tensor) -> Changes:
    """The changes, one for each reader, under which the points `kept` of a prompt give the prediction of all of it."""
    wanted: dict[str, Tensor] = {}
    changes: list[Update | Shift] = []

    def note(name: str, at: int) -> After:
        def after(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
            wanted[name] = args[0][0, at]

        return after

    def change(name: str, at: int) -> After:
        def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Tensor:
            a, weight = args[0][0, at], module.get_parameter("weight")
            if not a.any():  # attention to nothing: no matrix can act on it
                shift = residual_bias(weight @ wanted[name], name=f"{name}.bias")
                changes.append(shift)
                return out + shift.delta
            update = implicit_update(weight, a, wanted[name] - a, name=f"{name}.weight")
            changes.append(update)
            return out + args[0] @ update.v @ update.u.mT  # the matrix is changed for all tokens

        return after

    run(model, xs, ys, note)
    run(model, xs[:, kept], ys[:, kept], change)
    return Changes(tuple(changes))


@torch.no_grad()
def measured(trial: Trial, model: Learner, dims: int, points: int) -> tuple[dict[str, Tensor], float]:
    """Of each prompt how far predictions from the kept half are from those of all examples, `(prompts,)`: with the
    exact update, a random one, that of the prompt before, and none. And the share of changes that are of a bias."""
    count = trial.size(4, 24)
    xs, ys = Linear(dims=dims).sample(trial.draw(count, dtype=torch.float64), points)[:2]
    kept = torch.tensor([*range((points - 1) // 2), points - 1])
    prompts = [(xs[k : k + 1], ys[k : k + 1]) for k in range(count)]
    changes = [exact(model, x, y, kept) for x, y in prompts]
    full, bare = (torch.stack([run(model, x[:, i], y[:, i]) for x, y in prompts]) for i in (slice(None), kept))

    def missed(each: list[Changes]) -> Tensor:
        answers = []
        for (x, y), change in zip(prompts, each, strict=True):
            with change.applied(model):
                answers.append(run(model, x[:, kept], y[:, kept]))
        return (torch.stack(answers) - full).abs()

    biases = sum(len(c.shifts) for c in changes) / sum(len(c.items) for c in changes)
    return {
        "exact": missed(changes),
        "random": missed([c.random_like(trial.seed + k) for k, c in enumerate(changes)]),
        "another prompt's": missed([changes[-1], *changes[:-1]]),
        "none": (bare - full).abs(),
    }, biases


def size(differences: Tensor) -> float:
    """The root of the mean square."""
    return float(differences.square().mean().sqrt())


@claim("note-update-architectures", NOTES, "004, section 9.1", exact=True, needs=(TRAINED,), cost=(10, 100))
def architectures(trial: Trial) -> Measurement:
    """In every architecture, what some of the examples do is exactly a change of rank 1 of each matrix that reads a
    layer with a context: ReLU attention, a state-space model, hybrids of both kinds, and an LSTM, all trained. Where
    ReLU attends to nothing, no matrix can act, and it is a change of the bias.

    Measured: for each architecture and prompt the difference between the prediction from all examples and that from
    half of them by the model with changed matrices.

    Control: for each architecture the smaller of two: the same, as the root of the mean square over prompts, with
    random changes of equal rank and norm, and with those of another prompt.

    Settings: an encoder with ReLU attention, Mamba, a hybrid and Griffin, 16 wide, trained on linear functions of 2
    dimensions with 8 examples, 40 steps of 64 prompts (full: 300); the LSTM of the recipe `lstm-5`, whose layers are
    read by one matrix; the second half of the examples is replaced; 4 prompts (full: 24); float64. Also measured: the
    difference without any change, how many matrices are changed, and in which share of cases it is the bias.
    """
    errors, controls, reported = [], [], dict[str, float]()
    for name, model in models(trial).items():
        shape = (5, trial.recipe(TRAINED).points) if name == "lstm" else (DIMS, POINTS)
        apart, biases = measured(trial, model, *shape)
        errors += apart["exact"].tolist()
        controls.append(min(size(apart["random"]), size(apart["another prompt's"])))
        reported |= {
            f"{name}, no change": size(apart["none"]),
            f"{name}, matrices": len(readers(model)),
            f"{name}, share of biases": biases,
        }
    return Measurement({"error": (errors, controls)}, reported=reported)

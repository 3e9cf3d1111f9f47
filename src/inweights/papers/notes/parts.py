"""Claims of the notes about the parts of a transformer, each varied or removed alone in small trainings."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import Decoder, DecoderBlock, DecoderModel, Learner
from inweights.lab.predictors import DiscreteMMSE, Predictor, Ridge
from inweights.lab.tasks import TASKS, Linear, Pool
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._papers import NOTES
from inweights.papers._trained_now import trained_now

DEPTHS = (1, 2, 4)


@torch.no_grad()
def last_error(trial: Trial, model: Predictor, task: dict[str, Any], points: int) -> float:
    """The mean squared error at the last point, in units of always answering 0."""
    made = TASKS.make(task["kind"], **{k: v for k, v in task.items() if k != "kind"})
    sample = made.sample(trial.draw(trial.size(2048, 8192)), points)
    answers = model(sample.xs, sample.ys) if isinstance(model, Learner) else model.predict_prefixes(*sample[:2])
    return float((answers[:, -1] - sample.ys[:, -1]).double().square().mean() / made.power)


def exponent(sizes: Sequence[float], errors: Sequence[float]) -> float:
    """The slope of the logarithm of an error against that of a size, by least squares."""
    x = torch.tensor(sizes, dtype=torch.float64).log()
    x = x - x.mean()
    return float((torch.tensor(errors, dtype=torch.float64).log() * x).sum() / x.square().sum())


@claim("note-depth", NOTES, "004, section 6.2, depth", cost=(25, 90))
def depth(trial: Trial) -> Measurement:
    """Depth is the number of steps of an iterative optimisation: the same layer, applied more often, has a smaller
    error, without any further parameter.

    Measured: the exponent with which the squared error falls with the number of layers, 1, 2 and 4, that share one set
    of weights.

    Control: one layer with 1, 2 and 4 heads, which has more parameters and no more depth.

    Settings: linear self-attention, linear functions of 5 dimensions, inputs uniform as in von Oswald et al., 10
    examples; 400 steps of 256 prompts (full: 1,500) by Adam.
    """
    task, errors = {"kind": "uniform", "dims": 5}, {}
    for name, shapes in (
        ("layers, one set of weights", [{"layers": k, "tied": True} for k in DEPTHS]),
        ("heads of one layer", [{"layers": 1, "heads": k} for k in DEPTHS]),
    ):
        errors[name] = [
            last_error(
                trial,
                trained_now(
                    trial, task, {"kind": "lsa", **shape}, points=11,
                    steps=trial.size(400, 1500), batch=256, rate=1e-2, clip=0.01, betas=(0.9, 0.98),
                ),
                task, 11,
            )
            for shape in shapes
        ]  # fmt: skip
    value, control = (exponent(DEPTHS, line) for line in errors.values())
    plot = Plot("Depth and heads", "layers or heads", "share of always answering 0", DEPTHS, errors, log="xy")
    return Measurement({"exponent": (value, control)}, plot)


@claim("note-mlp", NOTES, "004, section 6.2, MLP", cost=(15, 65))
def mlp(trial: Trial) -> Measurement:
    """An MLP transforms inputs nonlinearly and extracts features: without it, attention does not learn functions that
    are not linear, and loses nothing on those that are.

    Measured: the squared error of linear self-attention behind an MLP, divided by that of linear self-attention alone:
    `against_without` on quadratic functions, and `linear` on linear ones.

    Control: of either, the other one.

    Settings: 3 dimensions, 24 examples, 16 features by an MLP of 32 units; one layer of linear self-attention; 300
    steps of 256 prompts (full: 1,500) by Adam.
    """
    points, ratios, reported = 25, [], {}
    kinds: dict[str, dict[str, Any]] = {
        "with": {"kind": "mlp-lsa", "form": "products", "features": 16, "hidden": 32},
        "without": {"kind": "lsa", "form": "products"},
    }
    for kind in ("quadratic", "linear"):
        task = {"kind": kind, "dims": 3}
        for name, model in kinds.items():
            made = trained_now(
                trial, task, model, points=points, steps=trial.size(300, 1500), batch=256, rate=1e-2, clip=0.1
            )
            reported[f"{kind}, {name}"] = last_error(trial, made, task, points)
        ratios.append(reported[f"{kind}, with"] / reported[f"{kind}, without"])
    return Measurement({"against_without": (ratios[0], ratios[1]), "linear": (ratios[1], ratios[0])}, reported=reported)


WIDTHS, POOLS, POOL_DIMS, POOL_NOISE = (8, 48), (8, 2), 4, 1.0


def held(trial: Trial, width: int, size: int, layers: int = 2) -> float:
    """How much of what a pool of functions is worth a decoder holds: 0 for an error as that of ridge regression, which
    does not know the pool, or a larger one, and 1 for that of the posterior mean over it."""
    task = {"kind": "pool", "dims": POOL_DIMS, "size": size, "noise": POOL_NOISE, "which": trial.seed}
    shape = {"kind": "decoder", "layers": layers, "width": width, "heads": 2, "tokens": "one"}
    model = trained_now(trial, task, shape, points=7, steps=trial.size(300, 1500), rate=5e-3, optimiser="muon")
    made = Pool(dims=POOL_DIMS, size=size, noise=POOL_NOISE, which=trial.seed)
    sample = made.sample(trial.draw(trial.size(2048, 8192)), 7)

    def error(predictor: Predictor) -> float:
        answers = predictor.predict_prefixes(sample.xs, sample.ys)[:, 1:]
        return float((answers - sample.hidden["clean"][:, 1:]).double().square().mean())

    ridge, best = error(Ridge(penalty=POOL_NOISE**2)), error(DiscreteMMSE(pool=made.weights(), noise=POOL_NOISE))
    return max(0.0, (ridge - error(model)) / (ridge - best))


@claim("note-width", NOTES, "004, section 6.2, width", cost=(40, 190))
def width(trial: Trial) -> Measurement:
    """Width is the number of hypotheses that are held at once: of a pool of several functions a narrow model holds less
    than a wide one, of a pool of two as much.

    Measured: what a decoder of width 48 holds of a pool of 8 functions minus what one of width 8 holds, as a share of
    the difference between ridge regression, which knows no pool, and the posterior mean over the pool.

    Control: the same for a pool of 2 functions.

    Rival: parameters of any kind: a decoder of width 8 with 8 layers in place of the wide one.

    Settings: linear functions of 4 dimensions, noise 1, after 1 to 6 examples; 2 layers, 2 heads, 300 steps of 64
    prompts (full: 1,500) by Muon.
    """
    narrow, wide = WIDTHS
    many, few = ({w: held(trial, w, size) for w in WIDTHS} for size in POOLS)
    deep = held(trial, narrow, POOLS[0], layers=8)
    reported = {
        f"width {w}, {size} functions": s[w] for size, s in zip(POOLS, (many, few), strict=True) for w in WIDTHS
    }
    return Measurement(
        {"held": (many[wide] - many[narrow], few[wide] - few[narrow])},
        reported=reported | {"width 8, 8 layers": deep},
        rivals={"held": deep - many[narrow]},
    )


DIMS, POINTS = 2, 10


def two_tasks(draw: Draw, constant: Tensor) -> tuple[Tensor, Tensor]:
    """Prompts of two tasks, which a last input marks: linear functions, and, where `constant` `(batch,)` is true,
    labels that are all the same."""
    sample = Linear(dims=DIMS).sample(draw, POINTS)
    mark = torch.where(constant, 1.0, -1.0)[:, None, None].expand(-1, POINTS, 1)
    same = math.sqrt(DIMS) * draw.normal(1).expand(-1, POINTS)
    return torch.cat([sample.xs, mark], -1), torch.where(constant.unsqueeze(-1), same, sample.ys)


def learner_of_two(trial: Trial) -> DecoderModel:
    """A decoder trained on prompts of which half belong to either task."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        model = Decoder(layers=2, width=32, heads=4, tokens="one").build(Linear(dims=DIMS + 1), POINTS)
    assert isinstance(model, DecoderModel)
    optimiser, constant = torch.optim.Adam(model.parameters(), 3e-3), torch.arange(64) % 2 == 0
    for step in range(trial.size(400, 2000)):
        xs, ys = two_tasks(Draw(trial.seed, step, 64), constant)
        optimiser.zero_grad(set_to_none=True)
        (model(xs, ys) - ys).square().mean().backward()
        optimiser.step()
        trial.beat()
    return model.requires_grad_(False).eval()


def without_head(model: DecoderModel, layer: int, head: int) -> DecoderModel:
    """The model without what one head adds to the stream."""
    other = copy.deepcopy(model)
    block = other.blocks[layer]
    assert isinstance(block, DecoderBlock)
    size = model.width // model.heads
    block.out.weight[:, head * size : (head + 1) * size] = 0
    return other


def apart(one: Tensor, other: Tensor) -> float:
    """How far the harms of heads to two tasks, each `(heads,)`, are apart: 0 if they are in proportion, 1 if no head
    harms both."""
    shares = [harm.clamp(min=0) / harm.clamp(min=0).sum() for harm in (one, other)]
    return float((shares[0] - shares[1]).abs().sum() / 2)


@claim("note-heads-tasks", NOTES, "004, section 6.2, attention heads", cost=(11, 70))
def heads_tasks(trial: Trial) -> Measurement:
    """Attention heads execute algorithms in parallel: of a model trained on two tasks, different heads carry the one
    and the other.

    Measured: half the sum over heads of the absolute difference between their shares in two tasks; the share of a head
    is the rise of the squared error without it, relative to the sum over all heads.

    Control: the same for two samples of one task, the linear functions.

    Settings: linear functions of 2 dimensions, and constant labels, marked by an input; a decoder of 2 layers of 4
    heads, width 32, 400 steps of 64 prompts (full: 2,000) by Adam; after 3 to 9 examples, 1,024 prompts (full: 4,096).
    """
    model, rows = learner_of_two(trial), trial.size(1024, 4096)

    def harms(constant: bool, step: int) -> Tensor:
        """The rise of the error on a task without each head, `(layers · heads,)`."""
        xs, ys = two_tasks(trial.draw(rows, step), torch.full((rows,), constant))

        def error(one: DecoderModel) -> Tensor:
            return (one(xs, ys) - ys)[:, 3:].square().mean()

        whole = error(model)
        places = [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
        return torch.stack([error(without_head(model, *place)) - whole for place in places])

    linear = harms(False, 0)
    value, control = apart(linear, harms(True, 1)), apart(linear, harms(False, 2))
    return Measurement({"apart": (value, control)})

"""Properties of every model in the registry, on every kind of task that it supports."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from inweights._errors import InputError
from inweights.lab._draw import Draw
from inweights.lab.models import MODELS, Learner
from inweights.lab.tasks import Linear, Loss, Sample, Task

POINTS, BATCH = 6, 4


@dataclass(frozen=True, kw_only=True)
class Several(Task):
    """Three linear functions of one input."""

    @property
    def power(self) -> float:
        return float(self.dims)

    @property
    def outputs(self) -> int:
        return 3

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        w = draw.normal(self.dims, 3)
        return xs @ w, {"w": w}


@dataclass(frozen=True, kw_only=True)
class Signs(Linear):
    """The signs of linear functions."""

    loss: ClassVar[Loss] = "logistic"

    def labels(self, draw: Draw, xs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        ys, hidden = super().labels(draw, xs)
        return ys.sign(), hidden


@dataclass(frozen=True, kw_only=True)
class Words(Task):
    """Random tokens; the label of each is the next."""

    dims: int = 1
    loss: ClassVar[Loss] = "tokens"

    @property
    def power(self) -> float:
        return math.log(7)

    @property
    def outputs(self) -> int:
        return 7

    def sample(self, draw: Draw, points: int, *, active: Tensor | int | None = None) -> Sample:
        tokens = draw.integers(7, points + 1)
        return Sample(tokens[:, :-1], tokens[:, 1:], {})


TASKS: dict[str, Task] = {
    "linear": Linear(dims=5),
    "several": Several(dims=5),
    "signs": Signs(dims=5),
    "words": Words(),
}


def make(name: str, task: Task, seed: int = 0) -> Learner:
    """A small model of this kind; a stack has three layers, the fewest in which Griffin has all of its parts."""
    small = {"size": "tiny", "layers": 3, "width": 16, "heads": 2, "form": "products"}
    known = MODELS.fields(name)
    torch.manual_seed(seed)
    return MODELS.make(name, **{key: value for key, value in small.items() if key in known}).build(task, POINTS)


def cases() -> list[tuple[str, str]]:
    """Every model with every task that it can read."""
    result = []
    for name in MODELS:
        for kind, task in TASKS.items():
            try:
                make(name, task)
            except InputError:
                continue
            result.append((name, kind))
    return result


CASES = cases()
FIRST = dict(reversed(CASES))  # each model with one task


def case(name: str, kind: str, points: int = POINTS) -> tuple[Learner, Tensor, Tensor]:
    drawn = TASKS[kind].sample(Draw(1, 0, BATCH), points)
    return make(name, TASKS[kind]), drawn.xs, drawn.ys


def wanted_shape(learner: Learner, kind: str, points: int = POINTS) -> tuple[int, ...]:
    answered = points if learner.causal else 1
    return (BATCH, answered) if TASKS[kind].outputs == 1 else (BATCH, answered, TASKS[kind].outputs)


def changed(values: Tensor) -> Tensor:
    return values + 1 if values.is_floating_point() else (values + 1) % 7


def sees_too_much(learner: nn.Module, xs: Tensor, ys: Tensor) -> bool:
    """Whether some prediction changes with its own label, or with anything later."""
    answers = learner(xs, ys)
    points, answered = xs.shape[1], answers.shape[1]
    for i in range(points - answered, points):
        x, y = xs.clone(), ys.clone()
        x[:, i + 1 :], y[:, i:] = changed(x[:, i + 1 :]), changed(y[:, i:])
        upto = i + 1 - (points - answered)
        if not torch.allclose(learner(x, y)[:, :upto], answers[:, :upto], atol=1e-6):
            return True
    return False


def test_every_model_reads_something() -> None:
    assert set(FIRST) == set(MODELS)
    assert {"linear", "several", "signs", "words"} == {kind for _, kind in CASES}


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_answers_have_the_shape_of_labels(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    answers = learner(xs, ys)
    assert answers.shape == wanted_shape(learner, kind)
    assert answers.isfinite().all()
    first = learner(xs[:, :1], ys[:, :1])  # no example at all
    assert first.shape == wanted_shape(learner, kind, points=1)
    assert first.isfinite().all()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_answer_sees_its_label_or_what_comes_later(name: str, kind: str) -> None:
    assert not sees_too_much(*case(name, kind))


def test_a_model_that_cheats_is_caught() -> None:
    class Cheat(nn.Module):
        def __init__(self, shift: int) -> None:
            super().__init__()
            self.shift = shift

        def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
            return ys.roll(self.shift, 1)

    _, xs, ys = case("lsa", "linear")
    assert sees_too_much(Cheat(0), xs, ys)
    assert sees_too_much(Cheat(-1), xs, ys)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_input_and_the_examples_are_read(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    answers = learner(xs, ys)[:, -1]
    other = xs.clone()
    other[:, -1] = changed(other[:, -1])
    assert not torch.equal(learner(other, ys)[:, -1], answers)
    other = xs.clone()
    other[:, 0] = changed(other[:, 0])
    assert not torch.equal(learner(other, ys)[:, -1], answers)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_gradients_reach_every_parameter(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    learner(xs, ys).square().mean().backward()
    for parameter, p in learner.named_parameters():
        assert p.grad is not None, parameter
        assert p.grad.isfinite().all(), parameter
        assert (p.grad != 0).any(), parameter


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_bfloat16_is_close(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    exact = learner(xs, ys)
    low = learner.bfloat16()(*(t.bfloat16() if t.is_floating_point() else t for t in (xs, ys)))
    assert low.dtype == torch.bfloat16
    assert (low - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_the_same_seed_gives_the_same_weights(name: str, kind: str) -> None:
    one, same, other = (make(name, TASKS[kind], seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_order_is_ignored_only_by_encoders_without_positions(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    turned = torch.tensor([*range(POINTS - 2, -1, -1), POINTS - 1])
    before, after = learner(xs, ys)[:, -1], learner(xs[:, turned], ys[:, turned])[:, -1]
    unordered = not learner.causal and learner.max_points is None
    assert torch.allclose(before, after, atol=1e-6) == unordered


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_prefixes_are_runs_on_prefixes(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind)
    answers = learner.predict_prefixes(xs, ys)
    assert answers.shape[:2] == (BATCH, POINTS)
    for i in range(POINTS):
        torch.testing.assert_close(answers[:, i], learner(xs[:, : i + 1], ys[:, : i + 1])[:, -1])
    assert learner.training


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_longer_prompts_are_read_or_refused_in_one_sentence(name: str, kind: str) -> None:
    learner, xs, ys = case(name, kind, points=2 * POINTS)
    if learner.max_points is None:
        assert learner(xs, ys).shape == wanted_shape(learner, kind, points=2 * POINTS)
    else:
        assert learner.max_points == POINTS
        with pytest.raises(InputError, match=r"12 points.*positions for 6: ask with fewer"):
            learner.predict_prefixes(xs, ys)


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_nothing_waits_for_a_number(name: str, kind: str) -> None:
    """Tensors without numbers pass through a step: no value is read on the host, as CUDA graphs need it."""
    learner, xs, ys = case(name, kind)
    learner.to("meta")(xs.to("meta"), ys.to("meta")).square().mean().backward()


def test_the_guard_of_waiting_can_fail() -> None:
    with pytest.raises(RuntimeError, match="meta"):
        torch.ones(1, device="meta").item()


@pytest.mark.parametrize("name", list(MODELS))
def test_a_task_of_the_wrong_kind_is_refused_in_one_sentence(name: str) -> None:
    kinds = {kind for model, kind in CASES if model == name}
    for kind in set(TASKS) - kinds:
        with pytest.raises(
            InputError, match=rf"^The model {name} reads .*, but the task gives .*: take the [\w -]+\.$"
        ):
            make(name, TASKS[kind])


@pytest.mark.parametrize("name", list(MODELS))
def test_settings_are_written_down_and_checked(name: str) -> None:
    kind, settings = MODELS[name], {key: field.default for key, field in MODELS.fields(name).items()}
    assert dataclasses.MISSING not in settings.values(), "every setting has a default"
    assert kind.__doc__ is not None
    for key, value in settings.items():
        if type(value) is int or (type(value) is float and key != "noise"):
            with pytest.raises(InputError, match=rf"^The model {name}: `{key}` is -1(\.0)?, but must be at least [01]"):
                MODELS.make(name, **{key: -1})
        elif type(value) is str:
            with pytest.raises(InputError, match=r"'nonsense'.* must be .* or .*\.$"):
                MODELS.make(name, **{key: "nonsense"})


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_the_bias_of_keys_is_left_alone(kind: str) -> None:
    """Softmax does not depend on it (float64, 1e-12), so it gets no gradient; it depends on that of queries, which gets
    one."""
    task = Linear(dims=3)
    model = MODELS.make(kind, layers=2, width=16, heads=2).build(task, 6).double()
    sample = task.sample(Draw(0, 0, 4, dtype=torch.float64), 6)
    biases = [p for name, p in model.named_parameters() if name.endswith("qkv.bias")]
    assert len(biases) == 2
    before = model(sample.xs, sample.ys)
    before.square().sum().backward()
    for bias in biases:
        assert bias.grad is not None
        q, k, v = bias.grad.chunk(3)
        assert k.abs().max() == 0 < min(q.abs().max(), v.abs().max())
    for part, seen in ((1, False), (0, True)):
        with torch.no_grad():
            for bias in biases:
                bias.chunk(3)[part].add_(torch.linspace(-2, 2, 16))
        moved = (model(sample.xs, sample.ys) - before).abs().max()
        assert moved > 1e-6 if seen else moved < 1e-12

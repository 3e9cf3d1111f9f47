"""Shifts of every kind, on tasks of several kinds; each law with a control."""

from __future__ import annotations

import math

import pytest
import torch

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.tasks import SHIFTS, TASKS, Linear, Sample

EVERY = list(SHIFTS)
ROWS, POINTS = 6, 12
ON = ["linear", "sparse", "pool"]
OTHERS = ["kernel", "tree", "relu", "composition"]


def shifted(name: str, on: str = "linear", rows: int = ROWS, points: int = POINTS, step: int = 3, first: int = 0,
            **settings: object) -> Sample:  # fmt: skip
    draw = Draw(5, step, rows, first=first, dtype=torch.float64)
    return SHIFTS.make(name, **settings).on(TASKS.make(on)).sample(draw, points)


def plain(rows: int = ROWS, points: int = POINTS) -> Sample:
    return Linear().sample(Draw(5, 3, rows, dtype=torch.float64), points)


def tensors(of: Sample) -> dict[str, torch.Tensor]:
    asked = {} if of.queries is None or of.answers is None else {"queries": of.queries, "answers": of.answers}
    return {"xs": of.xs, "ys": of.ys, **asked, **of.hidden}


@pytest.mark.parametrize("on", ON + OTHERS)
@pytest.mark.parametrize("name", EVERY)
def test_shifts_keep_the_promises_of_tasks(name: str, on: str) -> None:
    if name == "scaled-weights" and on in OTHERS:
        return
    many, again, one = (tensors(shifted(name, on, **at)) for at in ({}, {}, {"rows": 1, "first": 4}))
    for key, value in many.items():
        assert torch.equal(value, again[key])
        assert value.isfinite().all()
        torch.testing.assert_close(value[4:5], one[key], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(many["ys"][3:4], one["ys"])
    assert not torch.equal(many["ys"], shifted(name, on, step=4).ys)
    assert many["ys"].shape == many["clean"].shape == (ROWS, POINTS)
    if "queries" in many:
        assert many["queries"].shape == many["xs"].shape
        assert many["answers"].shape == many["ys"].shape


@pytest.mark.parametrize("name", EVERY)
def test_labels_of_shifted_inputs_are_those_of_the_task(name: str) -> None:
    made = shifted(name)
    torch.testing.assert_close(torch.einsum("bpd,bd->bp", made.xs, made.hidden["w"]), made.hidden["clean"])
    if made.queries is not None:
        torch.testing.assert_close(torch.einsum("bpd,bd->bp", made.queries, made.hidden["w"]), made.answers)
        assert made.target is made.answers


@pytest.mark.parametrize("name", EVERY)
def test_a_shift_shifts(name: str) -> None:
    made, before = shifted(name), plain()
    assert made.queries is not None or not torch.allclose(made.xs, before.xs) or not torch.allclose(made.ys, before.ys)


def test_scaled_inputs() -> None:
    torch.testing.assert_close(shifted("scaled-inputs", factor=3.0).xs, 3 * plain().xs)


def test_skewed_inputs_keep_their_power_and_lose_their_balance() -> None:
    made, before = shifted("skewed-inputs", rows=4, points=2000), plain(rows=4, points=2000)
    for xs, skew in ((made.xs, True), (before.xs, False)):
        values = torch.linalg.eigvalsh(xs.mT @ xs / 2000)
        assert values.mean().item() == pytest.approx(1, abs=0.1)
        wanted = 1 / torch.arange(20, 0, -1).double().square()
        wanted = wanted * 20 / wanted.sum()
        assert bool(((values / wanted - 1).abs() < 0.25).all()) == skew


def test_inputs_of_a_prompt_lie_in_a_subspace_of_its_own() -> None:
    made = shifted("subspace", points=40)
    assert (torch.linalg.matrix_rank(made.xs) == 10).all()
    assert torch.linalg.matrix_rank(made.xs[:2].flatten(0, 1)) == 20
    assert (torch.linalg.matrix_rank(plain(points=40).xs) == 20).all()
    assert made.xs.square().mean().item() == pytest.approx(1, abs=0.1)


def test_scaled_weights_leave_the_noise_alone() -> None:
    draws = [Draw(5, 3, ROWS, dtype=torch.float64) for _ in range(2)]
    task = Linear(noise=0.5)
    made, before = SHIFTS.make("scaled-weights", factor=3.0).sample(task, draws[0], 9), task.sample(draws[1], 9)
    torch.testing.assert_close(made.hidden["w"], 3 * before.hidden["w"])
    torch.testing.assert_close(made.ys - made.hidden["clean"], before.ys - before.hidden["clean"])
    assert not torch.allclose(made.ys, 3 * before.ys)


def test_noisy_labels_have_noise_of_the_given_spread() -> None:
    made = shifted("noisy-labels", rows=200, points=50, noise=0.5)
    assert (made.ys - made.hidden["clean"]).std().item() == pytest.approx(0.5, rel=0.03)
    assert torch.equal(shifted("noisy-labels", noise=0.0).ys, plain().ys)
    several = SHIFTS.make("noisy-labels").sample(TASKS.make("retrieval"), Draw(0, 0, 3), 20)
    assert several.ys.shape == (3, 20, 20)


def test_examples_share_an_orthant_and_queries_do_not() -> None:
    made = shifted("orthants")
    assert made.queries is not None
    assert (made.xs.sign() == made.xs[:, :1].sign()).all()
    assert (made.queries.sign() != made.xs.sign()).any(2).all()
    assert not (made.queries.sign() == made.queries[:, :1].sign()).all(2)[:, 1:].any()
    assert not (made.xs[0].sign() == made.xs[1].sign()).all(), "each prompt has its own"
    assert abs(shifted("orthants", rows=400).xs.sign().mean()) < 0.05


def test_the_query_is_an_example_before_it() -> None:
    made = shifted("repeated-query", rows=2000)
    assert made.queries is not None
    assert made.answers is not None
    same = (made.queries.unsqueeze(2) == made.xs.unsqueeze(1)).all(3)  # (batch, query, example)
    assert (same.sum(2) == 1).all()
    which = same.double().argmax(2)
    assert (which[:, 1:] < torch.arange(1, POINTS)).all()
    assert (which[:, 0] == 0).all()
    torch.testing.assert_close(made.answers, made.ys.gather(1, which))
    for i in (2, 5, POINTS - 1):
        counts = which[:, i].bincount(minlength=i).double()
        assert (counts - 2000 / i).abs().max() < 5 * math.sqrt(2000 / i)


def test_answers_to_repeated_queries_have_noise_of_their_own() -> None:
    made = SHIFTS.make("repeated-query").sample(Linear(noise=0.5), Draw(5, 3, 500, dtype=torch.float64), 2)
    assert made.answers is not None
    assert (made.answers[:, 1] - made.ys[:, 0]).std().item() == pytest.approx(0.5 * math.sqrt(2), rel=0.1)


@pytest.mark.parametrize(
    ("name", "on", "message"),
    [
        ("orthants", "dynamics", "`task` is Dynamics, but Orthants needs one with labels that are functions of their"),
        ("subspace", "repeats", "`task` is Repeats, but Subspace needs one with labels that are functions of their"),
        ("scaled-weights", "tree", "`task` is Tree, but ScaledWeights needs one with labels that are linear in their"),
        ("noisy-labels", "sign", "`task` is Sign, but NoisyLabels needs one with labels that are numbers, not classes"),
    ],
)
def test_shifts_say_which_tasks_they_need(name: str, on: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        shifted(name, on)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("subspace", {"share": 0.0}, "The shift subspace: `share` is 0.0, but must be above 0 and at most 1."),
        ("noisy-labels", {"noise": -1.0}, "The shift noisy-labels: `noise` is -1.0, but must be at least 0."),
        (
            "scaled-inputs",
            {"factor": 0.0},
            "The shift scaled-inputs: `factor` is 0, but must not be: nothing would be left to learn from.",
        ),
        (
            "scaled-weights",
            {"factor": 0.0},
            "The shift scaled-weights: `factor` is 0, but must not be: all labels would be 0.",
        ),
    ],
)
def test_bad_settings_are_named(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        SHIFTS.make(name, **settings)
    assert str(error.value) == message

"""Claims of the notes about parts of a transformer and scaling: with known errors in place of trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import parts, scaling

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""
QUICK = {400: 10, 300: 10}


def errors(monkeypatch: pytest.MonkeyPatch, of: Callable[[dict[str, Any], dict[str, Any]], float]) -> None:
    """Trainings whose errors are a function of task and model."""
    monkeypatch.setattr(parts, "trained_now", lambda trial, task, model, **settings: model)
    monkeypatch.setattr(parts, "last_error", lambda trial, model, task, points: of(task, model) * 1.01**trial.seed)


@pytest.mark.parametrize(("power", "wanted"), [(-1.5, Verdict.PASS), (-0.1, Verdict.FAIL)])
def test_depth(power: float, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    errors(monkeypatch, lambda task, model: 0.3 * model.get("layers", 1) ** power)
    assert verdict("note-depth", 3, FIRST)[0] is wanted


def test_more_heads_that_help_as_much_are_no_control(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    errors(monkeypatch, lambda task, model: 0.3 / (model.get("layers", 1) * model.get("heads", 1)))
    assert verdict("note-depth", 3, FIRST)[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("quadratic", "linear", "wanted"),
    [
        (0.2, 0.1, Verdict.PASS),
        (0.9, 0.1, Verdict.FAIL),
        (0.2, 0.06, Verdict.FAIL),  # attention alone does lose on linear functions
    ],
)
def test_an_mlp(
    quadratic: float, linear: float, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    table = {("quadratic", "mlp-lsa"): quadratic, ("quadratic", "lsa"): 1.0, ("linear", "mlp-lsa"): linear}
    errors(monkeypatch, lambda task, model: table.get((task["kind"], model["kind"]), 0.1))
    assert verdict("note-mlp", 3, FIRST)[0] is wanted


def test_an_mlp_is_trained_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real training, of a few steps: nothing is learned, and errors are about those of answering 0."""
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: QUICK.get(quick, 256))
    result = parts.mlp(Trial(FIRST))
    assert all(0.5 < value < 2 for value in result.reported.values()), result.reported


HELD = {(8, 8, 2): 0.3, (48, 8, 2): 0.7, (8, 2, 2): 0.98, (48, 2, 2): 0.99, (8, 8, 8): 0.3}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, Verdict.PASS),
        ({(48, 8, 2): 0.35}, Verdict.FAIL),
        ({(8, 8, 8): 0.7}, Verdict.HOLDS_NOT_DIAGNOSTIC),  # depth does as well
        ({(8, 2, 2): 0.3}, Verdict.INCONCLUSIVE),  # the narrow decoder cannot do anything
    ],
)
def test_width(
    changed: dict[tuple[int, int, int], float], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    table = HELD | changed
    monkeypatch.setattr(parts, "held", lambda trial, width, size, layers=2: table[width, size, layers])
    assert verdict("note-width", 3, FIRST)[0] is wanted


def test_an_untrained_decoder_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: QUICK.get(quick, 256))
    assert parts.held(Trial(FIRST), 8, 8) == 0


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [([1, 2, 3], [2, 4, 6], 0.0), ([1, 1, 0], [0, 0, 5], 1.0), ([1, 1, -3], [1, 0, 0], 0.5)],
)
def test_how_far_heads_are_apart(one: list[float], other: list[float], wanted: float) -> None:
    assert parts.apart(torch.tensor(one).float(), torch.tensor(other).float()) == pytest.approx(wanted)


def test_a_head_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: QUICK.get(quick, 64))
    model = parts.learner_of_two(Trial(FIRST))
    xs, ys = parts.two_tasks(Trial(FIRST).draw(8), torch.arange(8) % 2 == 0)
    torch.testing.assert_close(ys[0], ys[0, :1].expand(parts.POINTS))  # the labels of the second task are constant
    whole, part = model(xs, ys), parts.without_head(model, 0, 1)(xs, ys)
    assert (whole - part).abs().max() > 1e-6
    # All heads of both layers: no position depends on another one any more (float32).
    bare = model
    for layer in range(2):
        for head in range(4):
            bare = parts.without_head(bare, layer, head)
    moved = xs.clone()
    moved[:, 0] += 1
    torch.testing.assert_close(bare(xs, ys)[:, 5:], bare(moved, ys)[:, 5:])


def test_heads_that_all_do_everything_fail(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: QUICK.get(quick, 64))
    shares = iter([0.3, 0.01, 0.31, 0.01, 0.29, 0.02, 0.8, 0.01, 0.8, 0.02, 0.81, 0.01])
    monkeypatch.setattr(parts, "apart", lambda one, other: next(shares))
    assert verdict("note-heads-tasks", 3, FIRST)[0] is Verdict.FAIL
    assert verdict("note-heads-tasks", 3, FIRST)[0] is Verdict.PASS


def test_what_attention_reads_has_its_moments() -> None:
    # float64, 4,096 prompts: a mean of squares is within 15% of its expectation, which j = 1 alone would be 60% off.
    random = torch.Generator().manual_seed(0)
    Z, y = scaling.prompts(random, 4096, scaling.waves())
    torch.testing.assert_close(Z.square().mean(0), scaling.moments()[: Z.shape[1]], rtol=0.25, atol=0)
    assert float(y.square().mean()) == pytest.approx(float(scaling.variances().sum()), rel=0.1)
    table = scaling.waves()
    torch.testing.assert_close(table.mT @ table / scaling.GRID, torch.eye(scaling.FEATURES).double())


def world(monkeypatch: pytest.MonkeyPatch, bend: float) -> None:
    """Errors that are power laws of size and data, up to a bend."""
    sizes, data = (torch.tensor(x, dtype=torch.float64) for x in (scaling.SIZES, scaling.DATA))
    size = 1 / sizes * torch.exp(-bend * sizes)
    each = 3 * sizes.unsqueeze(-1) / data * torch.exp(-bend * data / 64)
    monkeypatch.setattr(scaling, "trained", lambda trial: scaling.Trained(size, each))


@pytest.mark.parametrize("id", ["note-scaling-size", "note-scaling-data", "note-scaling-compute"])
def test_power_laws_pass_and_others_fail(id: str, monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    world(monkeypatch, 0.0)
    if id == "note-scaling-size":  # the data of this claim's models is limited
        sizes = torch.tensor(scaling.SIZES, dtype=torch.float64)
        monkeypatch.setattr(scaling, "trained", lambda trial: scaling.Trained(1 / sizes, torch.zeros(5, 5).double()))
    result, judged = verdict(id, 2, FIRST)
    assert result is Verdict.PASS, judged
    world(monkeypatch, 0.1)
    result, judged = verdict(id, 2, FIRST)
    assert result is Verdict.FAIL, judged

"""Claims about induction heads in small models: a head written by hand in place of a trained one, and none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from inweights.lab.models import AttentionOnly, AttentionOnlyModel
from inweights.lab.training import changed, read
from inweights.ledger import CLAIMS, Trial, UnmetError, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.induction_heads import _forming, claims, phase
from inweights.papers.induction_heads._forming import Formed, formed, late_loss
from inweights.papers.induction_heads._scores import (
    after_copies,
    best,
    copying,
    mostly_previous,
    prefix_matching,
    previous_token,
    repeated,
    stripe,
)

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
V, N = 16, 48  # tokens, points
WIDTH = 3 * V + N
"""The token, what the first head copied, the output, the position."""


def written(back: int = 1, layers: int = 2) -> AttentionOnlyModel:
    """An induction head: the first head copies the token `back` places before, the second matches it and copies."""
    model = AttentionOnlyModel(AttentionOnly(layers=layers, width=WIDTH, heads=1, positions="shortformer"), V, N)
    token, before, out, at = (torch.arange(k * V, k * V + n) for k, n in ((0, V), (1, V), (2, V), (3, N)))
    for p in model.parameters():
        p.data.zero_()
    for norm in (*(layer.norm for layer in model.layers), model.norm):
        norm.weight.data.fill_(1.0)
    model.embedding.data[:, token] = torch.eye(V)
    model.positions.data[:, at] = torch.eye(N)
    first, second = model.layers
    first.qk.weight.data[at[back:], at[back:]] = 1000.0
    first.qk.weight.data[WIDTH + at[back:], at[:-back]] = 1.0
    first.v.weight.data[token, token] = first.out.weight.data[before, token] = 1.0
    second.qk.weight.data[token, token] = 100.0
    second.qk.weight.data[WIDTH + token, before] = 1.0
    second.v.weight.data[token, token] = second.out.weight.data[out, token] = 1.0
    model.read_out.weight.data[:, out] = 5 * torch.eye(V)
    return model.eval()


def untrained(layers: int) -> AttentionOnlyModel:
    torch.manual_seed(0)
    return AttentionOnlyModel(AttentionOnly(layers=layers, width=WIDTH, heads=1, positions="shortformer"), V, N).eval()


RISES = [0.1, 0.1, 0.1, 0.5, 0.95, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
FALLS = [2.7, 2.7, 2.6, 1.5, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
FLAT = [2.8, 2.75, 2.7, 2.65, 2.6, 2.6, 2.55, 2.5, 2.5, 2.5, 2.45, 2.45]


def course(model: AttentionOnlyModel, trial: Trial, prefix: list[float], late: list[float]) -> Formed:
    tokens = repeated(torch.arange(V), N // 4, 4, 16, trial.generator())
    return Formed(model, tokens, prefix, [*late[:-1], late_loss(model, tokens)] if late is FALLS else late)


World = Callable[..., None]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Models of recipes by name; those that are not given are untrained, with a course that shows nothing."""

    def make(**models: tuple[AttentionOnlyModel, list[float], list[float]]) -> None:
        def stand_in(trial: Trial, name: str) -> Formed:
            layers = 2 if name == "induction-2" else 1
            return course(
                *((m := models.get(name.replace("-", "_"), (untrained(layers), [0.1] * 12, FLAT)))[0], trial), *m[1:]
            )

        for module in (claims, phase):
            monkeypatch.setattr(module, "formed", stand_in)

    return make


HOLD = ["two-layers", "previous-token", "k-composition", "copying", "phase-change", "together", "ablation"]


@pytest.mark.parametrize("id", [f"olsson-{name}" for name in HOLD])
def test_a_head_written_by_hand_passes(id: str, world: World, verdict: Judge) -> None:
    world(induction_2=(written(), RISES, FALLS))
    result, judged = verdict(id, 10)  # zeros and ones count as shares, with wide intervals
    assert result is Verdict.PASS, judged


def test_no_head_no_two_layers(world: World, verdict: Judge) -> None:
    world()
    assert verdict("olsson-two-layers", 10)[0] is Verdict.FAIL


def test_one_layer_with_more_parameters_would_explain_it_too(world: World, verdict: Judge) -> None:
    world(induction_2=(written(), RISES, FALLS), induction_1_wide=(written(), RISES, FALLS))
    assert verdict("olsson-two-layers", 10)[0] is Verdict.HOLDS_NOT_DIAGNOSTIC


def test_a_first_head_that_looks_two_places_back_fails(world: World, verdict: Judge) -> None:
    world(induction_2=(written(back=2), RISES, FALLS))
    assert verdict("olsson-previous-token", 10)[0] is Verdict.FAIL


def test_keys_that_need_no_first_head_fail(world: World, verdict: Judge) -> None:
    """The queries compose, not the keys: the control is as good as the value, or better."""
    model = written()
    second = model.layers[1]
    # Attends from a token to the place one period earlier and one on, whatever the tokens are.
    second.qk.weight.data.zero_()
    at = torch.arange(3 * V, WIDTH)
    second.qk.weight.data[at[11:], at[11:]] = 1000.0
    second.qk.weight.data[WIDTH + at[11:], at[:-11]] = 1.0
    world(induction_2=(model, RISES, FALLS))
    assert verdict("olsson-k-composition", 10)[0] is Verdict.FAIL


def test_a_head_that_raises_another_token_does_not_copy(world: World, verdict: Judge) -> None:
    model = written()
    model.read_out.weight.data = model.read_out.weight.data.roll(1, 0)
    world(induction_2=(model, RISES, FALLS))
    assert verdict("olsson-copying", 10)[0] is Verdict.FAIL


@pytest.mark.parametrize("id", ["olsson-phase-change", "olsson-together"])
def test_a_loss_that_falls_after_the_heads_have_formed_fails(id: str, world: World, verdict: Judge) -> None:
    afterwards = [2.8] * 6 + [2.4, 2.0, 1.6, 1.2, 0.8, 0.4]
    world(induction_2=(written(), RISES, afterwards))
    result, judged = verdict(id)
    assert result is Verdict.FAIL, judged


def test_smeared_keys(world: World, verdict: Judge) -> None:
    model = written()
    for layer in model.layers:
        layer.smear = torch.nn.Parameter(torch.full((1,), 50.0))  # all of a key is its own
    world(induction_smeared=(model, RISES, FALLS))
    assert verdict("olsson-smeared-keys", 10)[0] is Verdict.PASS
    nothing = untrained(1)
    nothing.layers[0].smear = torch.nn.Parameter(torch.zeros(1))
    world(induction_smeared=(nothing, [0.1] * 12, FLAT))
    assert verdict("olsson-smeared-keys", 10)[0] is Verdict.FAIL


def test_heads_that_nothing_depends_on_fail(world: World, verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    world(induction_2=(written(), RISES, [0.5] * 12))
    monkeypatch.setattr(claims, "late_loss", lambda model, tokens, fixed: 0.5)
    assert verdict("olsson-ablation")[0] is Verdict.FAIL


@pytest.mark.parametrize("name", ["previous-token", "k-composition", "copying", "phase-change", "together", "ablation"])
def test_where_nothing_formed_nothing_is_judged(name: str, world: World) -> None:
    world()
    with pytest.raises(UnmetError, match="no induction head has formed"):
        CLAIMS[f"olsson-{name}"].measure(Trial(0))


def test_a_training_is_kept_with_its_course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """20 steps, and half of the looks: far too few for a head."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "recipe", lambda trial, name: changed(read(name), ["steps=30", f"seed={trial.seed}"]))
    formed.cache_clear()
    once = formed(Trial(900), "induction-smeared")
    formed.cache_clear()
    monkeypatch.setattr(_forming, "_trained", lambda recipe: pytest.fail("it is trained twice"))
    again = formed(Trial(900), "induction-smeared")
    formed.cache_clear()
    assert once.steps == [10, 20]
    assert once.prefix == again.prefix
    assert max(once.prefix) < 0.3
    assert once.late[-1] == pytest.approx(late_loss(again.model, again.tokens), abs=1e-5)
    assert once.gain == pytest.approx(once.nothing - once.late[-1])


def test_scores_of_patterns_that_are_known() -> None:
    tokens = repeated(torch.arange(9), 4, 3, 5, torch.Generator().manual_seed(0))
    assert all(len(set(row[:4].tolist())) == 4 for row in tokens)
    where = after_copies(tokens)
    assert where[0, 4].nonzero().flatten().tolist() == [1]
    assert where[0, 9].nonzero().flatten().tolist() == [2, 6]
    assert not where[0, :3].any()
    previous = torch.eye(12).roll(-1, 1)[None, None, None].expand(5, 2, 1, 12, 12).clone()
    previous[:, 1] = torch.where(where, 1.0, 0.0).div(where.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(1)
    # 0: attends to the token before (row i has column i − 1); 1: attends evenly to all tokens after earlier copies.
    previous[:, 0] = torch.eye(12).roll(-1, 1)
    previous[:, 0, :, 0] = 0
    assert previous_token(previous)[0, 0] == 1
    assert mostly_previous(previous)[:, 0].tolist() == [1, 0]
    torch.testing.assert_close(prefix_matching(previous, tokens)[:, 0], torch.tensor([0.0, 1.0]), atol=1e-6, rtol=0)
    # The stripe sees one copy of the two that the last third has: 9 rows, 4 of them of 1 and 4 of ½, and one with none.
    assert stripe(previous, 4)[1, 0] < prefix_matching(previous, tokens)[1, 0]
    assert best(prefix_matching(previous, tokens)) == (1, 0)


def test_copying_of_raises_that_are_known() -> None:
    own = torch.eye(6).expand(2, 1, 6, 6)
    assert copying(own).item() == pytest.approx(1.0)
    assert copying(own.roll(1, -1)).item() == 0
    noise = torch.randn(400, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    assert copying(noise).item() == pytest.approx(1 / 6, abs=0.02)

"""The claims of section 4 of "Learning without training": a small trained block, and sabotaged measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.blocks import ContextualBlock
from inweights.lab.section4 import Finetuning, LinearTask, OneBlock, implicit_path, train_block
from inweights.ledger import Trial, Verdict
from inweights.ledger._kept_weights import kept
from inweights.papers.learning_without_training import experiments

SMALL = OneBlock(examples=20, steps=150, batch=64)


@pytest.fixture(scope="module")
def small() -> experiments.Trained:
    block = train_block(SMALL).block
    return experiments.Trained(SMALL, block, SMALL.task.prompts(100, 20, seed=9), [], {})


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    return tmp_path / "claims" / "trained"


def test_a_training_is_kept_and_a_damaged_file_is_not_trusted(own_cache: Path) -> None:
    trainings: list[Tensor] = []

    def train_block() -> dict[str, Tensor]:
        trainings.append(torch.full((2,), float(len(trainings))))
        return {"w": trainings[-1]}

    for _ in range(2):
        assert torch.equal(kept("one", train_block)["w"], torch.zeros(2))
    assert torch.equal(kept("another", train_block)["w"], torch.ones(2))
    (file,) = own_cache.glob("one-*")
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    assert torch.equal(kept("one", train_block)["w"], torch.full((2,), 2.0))
    assert torch.equal(kept("one", train_block)["w"], torch.full((2,), 2.0))


def test_what_is_kept_of_section_4_is_what_was_trained(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "OneBlock", lambda seed, **_: OneBlock(examples=5, steps=40, batch=8, seed=seed))
    first, again = (experiments._trained.__wrapped__(1, True) for _ in range(2))
    assert len(list(own_cache.iterdir())) == 1
    assert again.losses == first.losses
    assert first.steps == list(range(0, 41, 2))
    assert len(first.losses["context"]) == 21
    assert first.losses["context"][-1] == experiments.three_losses(first.block, first.test, 1)["context"]
    fresh = train_block(OneBlock(examples=5, steps=40, batch=8, seed=1)).block.state_dict()
    for name, value in again.block.state_dict().items():
        assert torch.equal(value, fresh[name])


def test_losses_with_the_update_are_those_with_the_context(small: experiments.Trained) -> None:
    losses = experiments.three_losses(small.block, small.test, 0)
    assert losses["update"] == pytest.approx(losses["context"], abs=1e-5)  # float32
    assert losses["random update"] > losses["context"] + 0.1


def test_averaging_makes_increments_vanish_and_adding_up_does_not(small: experiments.Trained) -> None:
    trained, untrained, summing = (
        implicit_path(block, small.test).increments().mean(0)
        for block in (small.block, SMALL.make(), experiments.summing(SMALL))
    )
    assert experiments.rank_correlation(trained) < -0.8
    assert experiments.rank_correlation(untrained) < -0.8
    assert abs(experiments.rank_correlation(summing)) < 0.8
    assert summing[-1] / summing[0] > 0.4
    assert experiments.rank_correlation(torch.arange(5.0)) == pytest.approx(1)


def found_as(monkeypatch: pytest.MonkeyPatch, block: ContextualBlock, **losses: list[float]) -> None:
    """Makes training return this block, with these losses."""
    named: dict[str, list[float]] = {"context": [], "update": [], "random update": []} | {
        k.replace("_", " "): v for k, v in losses.items()
    }

    def trained(trial: Trial) -> experiments.Trained:
        test = SMALL.task.prompts(100, 20, seed=trial.seed + 9)
        return experiments.Trained(SMALL, block, test, list(range(len(named["context"]))), named)

    monkeypatch.setattr(experiments, "trained", trained)


@pytest.mark.parametrize(
    ("update", "random_update", "wanted"),
    [
        ([2.0, 1.0, 0.5], [2.0, 1.5, 1.6], Verdict.PASS),
        ([2.0, 1.0, 0.6], [2.0, 1.5, 1.6], Verdict.FAIL),
        ([2.0, 1.0, 0.5], [2.0, 1.5, 0.5], Verdict.INCONCLUSIVE),  # at one moment, anything would do
    ],
)
def test_losses_must_coincide_at_every_moment(
    update: list[float],
    random_update: list[float],
    wanted: Verdict,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., tuple[Verdict, object]],
) -> None:
    found_as(monkeypatch, SMALL.make(), context=[2.0, 1.0, 0.5], update=update, random_update=random_update)
    assert verdict("dherin-losses-coincide")[0] is wanted


def test_vanishing_increments_count_only_where_an_untrained_block_has_none(
    small: experiments.Trained, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    found_as(monkeypatch, small.block)
    wanted = Verdict.HOLDS_NOT_DIAGNOSTIC  # they vanish untrained: this is the point
    assert verdict("dherin-increments-vanish", 5)[0] is wanted
    monkeypatch.setattr(OneBlock, "make", experiments.summing)  # in which they do not
    assert verdict("dherin-increments-vanish", 5)[0] is Verdict.PASS
    found_as(monkeypatch, experiments.summing(SMALL))
    assert verdict("dherin-increments-vanish", 5)[0] is Verdict.FAIL


def test_an_untrained_block_has_no_gradient_to_follow(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    found_as(monkeypatch, SMALL.make())
    assert verdict("dherin-gradient-alignment")[0] is Verdict.FAIL


@pytest.mark.parametrize(
    ("slope", "untrained_slope", "wanted"),
    [
        (-1.0, 1.0, Verdict.PASS),
        (1.0, 1.0, Verdict.FAIL),
        (-1.0, -0.5, Verdict.HOLDS_NOT_DIAGNOSTIC),  # it falls in a block that has learned nothing, too
    ],
)
def test_curves_that_fall_alike_count_only_where_an_untrained_block_has_none(
    slope: float,
    untrained_slope: float,
    wanted: Verdict,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., tuple[Verdict, object]],
) -> None:
    def known(block: object, untrained: object, task: LinearTask, *args: object, **kwargs: object) -> Finetuning:
        falling = torch.linspace(1, 0.2, 21).expand(3, -1)
        own = 1.0 if isinstance(task, experiments.OtherLabels) else slope  # of another function nothing is learned
        sgd, begun = (1 + each * (1 - falling) for each in (own, untrained_slope))
        return Finetuning(sgd, falling, falling, begun, 0.1, 0.1, (0.1,))

    found_as(monkeypatch, SMALL.make())
    monkeypatch.setattr(experiments, "finetuning", known)
    assert verdict("dherin-finetuning")[0] is wanted


def test_examples_of_another_function_belong_to_another_prompt() -> None:
    own = LinearTask(2).prompts(4, 5, seed=1, queries=2)
    other = experiments.OtherLabels(2).prompts(4, 5, seed=1, queries=2)
    assert torch.equal(other.context[1], own.context[0])
    assert not torch.equal(other.context[1], own.context[1])
    assert torch.equal(other.target, own.target)


def test_the_update_leans_towards_the_gradient_only_in_a_trained_block(small: experiments.Trained) -> None:
    prompts = SMALL.task.prompts(20, 20, seed=5, queries=8)
    own = experiments.alignment(small.block, prompts, 0).mean()
    assert own > experiments.alignment(small.block, prompts, 1).mean() + 0.2
    assert own > experiments.alignment(SMALL.make(), prompts, 0).mean() + 0.2

"""The small experiments of the lab: the task, the training, and their measurements."""

from __future__ import annotations

import pytest
import torch

from inweights import InputError
from inweights.lab import bootstrap
from inweights.lab.section4 import (
    LinearTask,
    OneBlock,
    Prompts,
    coincidence,
    decay_exponent,
    finetuning,
    implicit_path,
    section4,
    train_block,
)

SMALL = OneBlock(examples=20, steps=300, batch=64)


def test_any_batch_can_be_made_again() -> None:
    task = LinearTask(3)
    one, again, other = (task.prompts(4, 5, seed=1, step=s) for s in (7, 7, 8))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one.context, other.context)
    assert not torch.equal(one.context, task.prompts(4, 5, seed=2, step=7).context)


def test_prompts_hide_the_label_and_are_linear() -> None:
    prompts = LinearTask(3).prompts(8, 10, seed=0, queries=2)
    assert prompts.context.shape == (8, 10, 4)
    assert prompts.query.shape == (8, 2, 4)
    assert prompts.query[..., -1].abs().max() == 0
    x, y = prompts.context[..., :-1], prompts.context[..., -1:]
    w = torch.linalg.lstsq(x, y).solution
    torch.testing.assert_close((prompts.query[..., :-1] @ w).squeeze(-1), prompts.target, rtol=1e-3, atol=1e-4)


def test_training_learns_and_the_theorem_holds_throughout() -> None:
    seen = []
    test = SMALL.task.prompts(200, SMALL.examples, seed=99)
    run = train_block(SMALL, lambda step, block: seen.append(coincidence(block, test)) if step % 100 == 0 else None)
    assert len(seen) == 4
    assert seen[0].prompt_loss > 1.5
    assert seen[-1].prompt_loss < 0.5
    for result in seen:
        assert result.difference <= 1e-4  # float32
        assert abs(result.weights_loss - result.prompt_loss) <= 1e-5
        assert result.control > 1e-2
    exact = coincidence(run.block.double(), Prompts(*(t.double() for t in test)))
    assert exact.difference <= 1e-10
    assert exact.control > 1e-2


def test_the_same_seed_gives_the_same_weights() -> None:
    short = OneBlock(examples=5, steps=5, batch=8)
    one, two = (train_block(short).block for _ in range(2))
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))


def test_increments_decay_also_without_any_training() -> None:
    """The control of the paper's figure: attention averages, trained or not."""
    untrained = SMALL.make()
    steps = implicit_path(untrained, SMALL.task.prompts(200, 50, seed=3)).increments()
    assert steps.shape == (200, 50)
    assert decay_exponent(steps.median(0).values) < -0.7


def test_the_exponent_of_a_power_is_the_power() -> None:
    i = torch.arange(1, 30, dtype=torch.float64)
    assert decay_exponent(3 * i**-1.5) == pytest.approx(-1.5)


def test_finetuning_changes_the_same_matrix_and_starts_from_the_same_loss() -> None:
    block = train_block(SMALL).block
    before = {name: p.clone() for name, p in block.named_parameters()}
    result = finetuning(block, SMALL.make(), SMALL.task, 20, trials=30, queries=8, seed=5)
    assert result.sgd.shape == result.implicit.shape == (30, 21)
    torch.testing.assert_close(result.sgd[:, 0], result.implicit[:, 0])  # nothing read, nothing trained on
    assert result.implicit[:, -1].mean() < 0.5 * result.implicit[:, 0].mean()
    assert result.sgd[:, -1].mean() < 0.5 * result.sgd[:, 0].mean()
    assert result.rate in result.rates
    # The controls: another query's update serves badly, and SGD needs no trained block.
    assert result.borrowed[:, -1].mean() > 2 * result.implicit[:, -1].mean()
    assert result.untrained.shape == (30, 21)
    assert all(torch.equal(p, before[name]) for name, p in block.named_parameters())


def test_reading_examples_by_weights_is_reading_them() -> None:
    """The implicit losses of the fine-tuning figure are those of the prompted block."""
    block = train_block(SMALL).block
    result = finetuning(block, SMALL.make(), SMALL.task, 20, trials=10, queries=4, seed=5)
    prompts = SMALL.task.prompts(10, 20, seed=5, step=2, queries=4)
    with torch.no_grad():
        for i in (1, 7, 20):
            output = block(prompts.context[:, None, :i], prompts.query)[..., -1]
            torch.testing.assert_close((output - prompts.target).square().mean(1), result.implicit[:, i])


def test_bootstrap_intervals_have_their_nominal_coverage() -> None:
    g = torch.Generator().manual_seed(0)
    inside = 0
    for trial in range(200):
        band = bootstrap(torch.randn(50, generator=g, dtype=torch.float64), draws=300, seed=trial)
        inside += bool(band.low <= 0 <= band.high)
    assert 178 <= inside <= 198  # 95% of 200 is 190; small samples cover a little less


def test_bootstrap_keeps_the_shape_and_the_mean() -> None:
    samples = torch.arange(24.0).reshape(4, 3, 2)
    band = bootstrap(samples)
    torch.testing.assert_close(band.mean, samples.double().mean(0))
    assert band.low.shape == band.high.shape == (3, 2)


def test_a_diverging_loss_stops_with_a_sentence() -> None:
    with pytest.raises(InputError, match=r"The loss became (nan|inf) at step \d+: train with a `rate` below 1e\+20"):
        train_block(OneBlock(examples=5, steps=20, batch=8, rate=1e20))


def test_all_impossible_settings_are_listed_at_once() -> None:
    with pytest.raises(InputError) as error:
        OneBlock(steps=0, batch=-1, rate=0.0)
    assert [line.split("`")[1] for line in str(error.value).splitlines()] == ["steps", "batch", "rate"]


def test_section_4_does_not_hold_where_the_control_agrees() -> None:
    import dataclasses

    result = section4(OneBlock(examples=5, steps=3, batch=8))
    assert result.holds
    assert not dataclasses.replace(result, exact=result.exact._replace(control=0.0)).holds
    assert not dataclasses.replace(result, exact=result.exact._replace(difference=1e-6)).holds

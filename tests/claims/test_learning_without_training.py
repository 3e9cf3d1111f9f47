"""The claims of *Learning without training*: the exact ones as a whole, the others on parts whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from inweights.claims import CLAIMS, Trial, Verdict
from inweights.claims import learning_without_training as exact
from inweights.claims import learning_without_training_experiments as experiments
from inweights.claims import learning_without_training_smollm2 as smollm2
from inweights.claims._random_blocks import block_and_prompts
from inweights.claims.learning_without_training_dynamics import (
    descent_error,
    peeling_error,
    products,
    token_factors,
)
from inweights.lab.section4 import LinearTask, OneBlock, train
from inweights.models._block import Block
from inweights.models._block_patch import BlockPatch
from inweights.models._patch import Patch
from inweights.theory import Update

EXACT = [id for id, c in CLAIMS.items() if id.startswith("dherin") and c.exact]


@pytest.mark.parametrize("id", EXACT)
def test_exact_claims_pass(id: str, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert verdict(id, 3)[0] is Verdict.PASS


def test_there_are_eleven_of_them() -> None:
    assert len(EXACT) == 11


def test_a_wrong_update_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exact.absorb
    monkeypatch.setattr(exact, "absorb", lambda *args, **kwargs: whole(*args, **kwargs).random_like())
    error = CLAIMS["dherin-corollary"].measure(Trial(0)).quantities["error"][0]
    assert isinstance(error, float)
    assert error > 1e-2


def test_steps_and_factors_hold_in_their_own_order_alone() -> None:
    # float64; the tolerance of the criteria
    block, contexts, queries = block_and_prompts(Trial(7), 1)
    context, query = contexts[0], queries[0]
    h = float(block.joint(context[:0], query).read.detach().square().sum().reciprocal())
    assert descent_error(block, context, query, h) < 1e-10
    assert descent_error(block, context, query, 1.1 * h) > 1e-2
    assert descent_error(block, context, query, h, shift=1) > 1e-2
    W0 = block.get_parameter(block.input_controls[0]).detach()
    each = token_factors(block, context, query)
    assert peeling_error(block, context, query, products(W0, each)) < 1e-10
    assert peeling_error(block, context, query, [W0] * len(each)) > 1e-2


SMALL = OneBlock(examples=20, steps=150, batch=64)


@pytest.fixture(scope="module")
def small() -> experiments.Trained:
    block = train(SMALL).block
    return experiments.Trained(SMALL, block, SMALL.task.prompts(100, 20, seed=9), [], {})


def test_losses_with_the_update_are_those_with_the_context(small: experiments.Trained) -> None:
    losses = experiments.three_losses(small.block, small.test, 0)
    assert losses["update"] == pytest.approx(losses["context"], abs=1e-5)  # float32
    assert losses["random update"] > losses["context"] + 0.1


def test_averaging_makes_increments_vanish_and_adding_up_does_not(small: experiments.Trained) -> None:
    trained, untrained, summing = (
        experiments.increments(block, small.test) for block in (small.block, SMALL.make(), experiments.summing(SMALL))
    )
    assert experiments.rank_correlation(trained) < -0.8
    assert experiments.rank_correlation(untrained) < -0.8
    assert abs(experiments.rank_correlation(summing)) < 0.8
    assert summing[-1] / summing[0] > 0.4
    assert experiments.rank_correlation(torch.arange(5.0)) == pytest.approx(1)


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


def test_the_updates_of_the_first_token_for_all() -> None:
    random = torch.Generator().manual_seed(0)
    read, added = (Update(torch.randn(3, 4, 1, generator=random), torch.randn(3, 5, 1, generator=random)) for _ in "ab")
    made = Patch("token", (BlockPatch(Block("b"), read, {("w", -1): added}),), 3, "base")
    (stale,) = smollm2.first_updates(made).blocks
    assert stale.read is not None
    for token in range(3):
        assert torch.equal(stale.read[token].dense(), read[0].dense())
        assert torch.equal(stale.added["w", -1][token].dense(), added[0].dense())
    assert not torch.equal(read[1].dense(), read[0].dense())

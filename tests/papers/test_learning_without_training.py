"""The claims of *Learning without training*: the exact ones as a whole, the others on parts with known results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.blocks import ContextualBlock, absorb
from inweights.lab.section4 import Finetuning, LinearTask, OneBlock, implicit_path, train_block
from inweights.ledger import CLAIMS, Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.ledger._kept_weights import kept
from inweights.ledger._trial import UnmetError
from inweights.models import patch, verify
from inweights.models._block_patch import BlockPatch
from inweights.models._patch import Patch
from inweights.papers._random_blocks import TOKENS, block_and_prompts
from inweights.papers._smallest_changes import run, smallest, trained
from inweights.papers.learning_without_training import claims as exact
from inweights.papers.learning_without_training import dynamics, experiments, limits, smollm2
from inweights.papers.learning_without_training.dynamics import (
    descent_error,
    peeling_error,
    products,
    token_factors,
)
from inweights.papers.modern_blocks._patched import last_token, random_ids, random_model
from inweights.running._block import Block
from inweights.theory import Changes, Update

EXACT = [id for id, c in CLAIMS.items() if id.startswith("dherin") and c.exact]


@pytest.mark.parametrize("id", EXACT)
def test_exact_claims_pass(id: str, exact_verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert exact_verdict(id)[0] is Verdict.PASS


def test_there_are_twelve_of_them() -> None:
    assert len(EXACT) == 12


def test_what_nothing_but_algebra_decides_is_not_counted() -> None:
    assert {id for id in EXACT if CLAIMS[id].repeats} == {"dherin-rank-one", "dherin-precondition"}


@pytest.mark.parametrize("id", ["dherin-theorem", "dherin-corollary", "dherin-residual", "dherin-other-layers"])
def test_a_wrong_update_fails(
    id: str, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    monkeypatch.setattr(exact, "absorb", lambda *args, **kwargs: absorb(*args, **kwargs).random_like(9))
    assert verdict(id, 1)[0] is Verdict.FAIL


def test_an_update_that_is_not_the_smallest_fails(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:

    def larger(block: ContextualBlock, context: Tensor, query: Tensor) -> Changes:
        """As exact, with another right factor, so that what is added at a right angle can make it smaller."""
        carrier = torch.randn(query.shape, generator=torch.Generator().manual_seed(1), dtype=query.dtype)
        return absorb(block, context, query, carrier=carrier)

    monkeypatch.setattr(exact, "absorb", larger)
    found, judged = verdict("dherin-minimum-norm", 3)
    assert found is not Verdict.PASS
    assert judged["excess"].value.value < 0
    assert judged["error"].verdict is Verdict.PASS


def deaf(trial: Trial, prompts: int) -> tuple[ContextualBlock, Tensor, Tensor]:
    """A block that the context has no effect on: any update of it is as good as another."""
    block, context, query = block_and_prompts(trial, prompts)
    torch.nn.init.zeros_(block.get_parameter("mlp.first.weight"))
    return block, context, query


def test_an_update_that_serves_every_token_fails(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    monkeypatch.setattr(limits, "block_and_prompts", deaf)
    assert verdict("dherin-last-token", 1)[0] is Verdict.FAIL


def test_an_update_that_fails_on_its_own_token_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "absorb", lambda *args: absorb(*args).random_like(9))
    with pytest.raises(UnmetError, match="at the last token"):
        CLAIMS["dherin-last-token"].measure(Trial(0))


def test_a_control_of_the_last_token_that_does_not_fail_is_seen(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    def own_last_only(block: ContextualBlock, context: Tensor, query: Tensor, part: range) -> Changes:
        found = absorb(block, context, query, part)
        return found if context.shape[1] == TOKENS else found.random_like(9)

    monkeypatch.setattr(limits, "absorb", own_last_only)
    assert verdict("dherin-last-token", 1)[0] is Verdict.INCONCLUSIVE


def test_every_unit_counts(verdict: Callable[..., tuple[Verdict, object]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A single prompt with a control that does not fail is detected."""

    def lucky(block: ContextualBlock, context: Tensor, query: Tensor) -> Changes:
        context = context.clone()
        context[7] = block_and_prompts(Trial(0), 100)[1][7]
        return absorb(block, context, query)

    monkeypatch.setattr(exact, "absorb", lucky)
    assert verdict("dherin-corollary", 1)[0] is Verdict.INCONCLUSIVE


class AllOfThem(Changes):
    """Changes that leave nothing out where only those of matrices are asked for."""

    updates = property(lambda self: self.items)


Sabotage = Callable[[pytest.MonkeyPatch], None]
SABOTAGE: dict[str, Sabotage] = {
    "dherin-theorem": lambda m: m.setattr(Changes, "random_like", lambda self, seed: self),
    "dherin-other-layers": lambda m: m.setattr(Changes, "random_like", lambda self, seed: self),
    "dherin-residual": lambda m: m.setattr(exact, "absorb", lambda *a, **k: AllOfThem(absorb(*a, **k).items)),
    "dherin-family": lambda m: m.setattr(Update, "__mul__", lambda self, factor: self),
    "dherin-gradient-steps": lambda m: m.setattr(dynamics, "block_and_prompts", deaf),
    "dherin-factors": lambda m: m.setattr(dynamics, "block_and_prompts", deaf),
}


@pytest.mark.parametrize("id", SABOTAGE)
def test_a_control_that_is_no_different_is_never_a_pass(
    id: str, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:
    """In each of these worlds the claim holds, and so does its control."""
    SABOTAGE[id](monkeypatch)
    found, judged = verdict(id, 1)
    assert found is Verdict.INCONCLUSIVE
    assert {j.why for j in judged.values()} == {"the control did not fail"}


def test_changes_are_computed_without_a_formula() -> None:
    # float64
    block, context, query = block_and_prompts(Trial(3), 4)
    wanted, nothing = block(context, query).detach(), context[:, :0]
    update = absorb(block, context, query).updates[0].dense()
    a, full = (block.joint(c, query).read.detach() for c in (nothing, context))
    W = block.get_parameter("mlp.first.weight").detach()
    torch.testing.assert_close(
        smallest(a.unsqueeze(1), ((full - a) @ W.mT).unsqueeze(1)), update, rtol=1e-12, atol=1e-12
    )
    starts = [torch.zeros_like(update), 0.1 * torch.ones_like(update)]
    found = [trained(block, query, wanted, start, 0) for start in starts]
    for change in found:
        torch.testing.assert_close(run(block, change, nothing, query), wanted, rtol=1e-12, atol=1e-12)
    assert (found[0] - found[1]).abs().max() > 0.1
    assert (run(block, starts[0], nothing, query) - wanted).abs().max() > 0.1


def test_the_first_block_alone() -> None:
    made = Patch("token", (BlockPatch(Block("a")), BlockPatch(Block("b"))), 1, "base")
    assert [b.block.name for b in smollm2.only_first(made).blocks] == ["a"]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_last_block_alone_stands_for_the_context_and_the_first_does_not(family: str) -> None:
    """Three blocks, float64: to 1e-10 against more than 0.1. The last block's part of a patch of all blocks is made for
    what the patched ones before it say, and is not it."""
    model = random_model(Trial(0), family)
    prompt = last_token(model, random_ids(Trial(0), 1)[0])
    made = patch(prompt)
    assert verify(prompt, smollm2.only_last(prompt)).max_abs_logit_error < 1e-10
    for other in (smollm2.only_first(made), replace(made, blocks=made.blocks[-1:])):
        assert verify(prompt, other).max_abs_logit_error > 0.1


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

"""The claims of *Learning without training*: the exact ones as a whole, the others on parts with known results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inweights.blocks import ContextualBlock, absorb
from inweights.ledger import CLAIMS, Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.ledger._trial import UnmetError
from inweights.models import patch, verify
from inweights.models._block_patch import BlockPatch
from inweights.models._patch import Patch
from inweights.papers._random_blocks import TOKENS, block_and_prompts
from inweights.papers._smallest_changes import run, smallest, trained
from inweights.papers.learning_without_training import claims as exact
from inweights.papers.learning_without_training import dynamics, limits, smollm2
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
    result, judged = verdict("dherin-minimum-norm", 3)
    assert result is not Verdict.PASS
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
        result = absorb(block, context, query, part)
        return result if context.shape[1] == TOKENS else result.random_like(9)

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
    result, judged = verdict(id, 1)
    assert result is Verdict.INCONCLUSIVE
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
    result = [trained(block, query, wanted, start, 0) for start in starts]
    for change in result:
        torch.testing.assert_close(run(block, change, nothing, query), wanted, rtol=1e-12, atol=1e-12)
    assert (result[0] - result[1]).abs().max() > 0.1
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

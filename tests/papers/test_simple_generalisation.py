"""The claims of *A simple generalisation …*: exact ones on stacks hardly trained, alignments where they are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.ledger import CLAIMS, Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers._smallest_changes import smallest
from inweights.papers.simple_generalisation import _stack
from inweights.papers.simple_generalisation import claims as simple_generalisation
from inweights.theory import Changes, Update

EXACT = [id for id, c in CLAIMS.items() if id.startswith("innocenti") and c.exact]


@pytest.fixture(autouse=True)
def hardly_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equalities need no training; 5 steps move every parameter."""
    monkeypatch.setattr(
        simple_generalisation,
        "trained",
        lambda trial, *, norms=False: _stack._trained(trial.seed, norms, 20, 16, 5),
    )


@pytest.mark.parametrize("id", EXACT)
def test_exact_claims_pass(id: str, verdict: Callable[..., tuple[Verdict, object]]) -> None:
    assert verdict(id, 3)[0] is Verdict.PASS


def test_there_are_four_of_them() -> None:
    assert len(EXACT) == 4


def test_claims_decided_by_algebra_or_without_a_sentence_are_not_counted() -> None:
    asides = {id for id, c in CLAIMS.items() if id.startswith("innocenti") and c.aside}
    assert asides == {"innocenti-sum-rank", "innocenti-block-alignment", "innocenti-token-alignment"}


@pytest.mark.parametrize("norms", [False, True])
def test_a_position_is_the_block_on_what_comes_before_it(norms: bool) -> None:
    block = _stack._trained(0, norms, 20, 16, 5).each()[0]
    tokens = _stack.new_tokens(Trial(0), 3)
    whole = block.sequence(tokens)
    for i in (0, 7, 20):
        torch.testing.assert_close(whole[:, i], block(tokens[:, :i], tokens[:, i]), rtol=1e-12, atol=1e-12)  # float64
    assert (whole[:, 7] - block(tokens[:, :6], tokens[:, 7])).abs().max() > 1e-3


def test_training_learns() -> None:
    trial = Trial(1)
    trained = _stack._trained(1, False, 20, 32, 40)
    assert _stack.loss_of(trained, trial) < 0.8 * _stack.loss_of(_stack.untrained(trial), trial)


def test_what_is_kept_of_a_stack_is_what_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    fresh = _stack._trained(2, True, 5, 4, 3)
    for _ in range(2):
        result = _stack._kept.__wrapped__(2, True, 5, 4, 3).state_dict()
        assert result.keys() == fresh.state_dict().keys()
        assert all(torch.equal(result[name], value) for name, value in fresh.state_dict().items())
    assert len(list((tmp_path / "claims" / "trained").iterdir())) == 1


def test_cosines_of_known_updates() -> None:
    u = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], dtype=torch.float64).unsqueeze(-1).unsqueeze(0)
    v = torch.ones(1, 1, 4, 1, dtype=torch.float64)
    result = simple_generalisation.cosines(Update(u, v), Update(u, v))
    wanted = torch.tensor([[[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]], dtype=torch.float64)
    torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-12)
    assert simple_generalisation.off_diagonal(result).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("id", ["innocenti-all-positions", "innocenti-any-block", "innocenti-layer-norm"])
def test_wrong_updates_fail(
    id: str, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    right = simple_generalisation.updates
    monkeypatch.setattr(simple_generalisation, "updates", lambda *args: right(*args).random_like(1))
    assert verdict(id, 2)[0] is Verdict.FAIL


def without_norms(trial: Trial, *, norms: bool = False) -> _stack.Stack:
    return _stack._trained(trial.seed, False, 20, 16, 5)


def one_token(trial: Trial, prompts: int) -> Tensor:
    """The same at all positions: no Δz."""
    return _stack.new_tokens(trial, prompts)[:, -1:].expand(-1, 21, -1)


def one_prompt(trial: Trial, prompts: int) -> Tensor:
    """All prompts have the same query."""
    return _stack.new_tokens(trial, prompts)[:1].expand(prompts, -1, -1)


def the_prompt_everywhere(net: _stack.Stack, tokens: Tensor) -> list[tuple[_stack.Skips, Tensor]]:
    """What enters the first block enters every block."""
    return [(block, tokens) for block in net.each()]


@pytest.mark.parametrize(
    ("id", "where", "name", "world"),
    [
        ("innocenti-all-positions", simple_generalisation, "new_tokens", one_token),
        ("innocenti-any-block", _stack.Stack, "entering", the_prompt_everywhere),
        ("innocenti-layer-norm", simple_generalisation, "trained", without_norms),
        ("innocenti-sum-rank", simple_generalisation, "new_tokens", one_prompt),
    ],
)
def test_a_control_that_is_no_different_is_never_a_pass(
    id: str,
    where: object,
    name: str,
    world: object,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., tuple[Verdict, dict[str, Judged]]],
) -> None:
    """In each of these worlds the claim holds, and so does its control."""
    monkeypatch.setattr(where, name, world)
    result, judged = verdict(id, 1)
    assert result is Verdict.INCONCLUSIVE
    assert {j.why for j in judged.values()} == {"the control did not fail"}


def test_a_sum_of_higher_rank_fails(
    monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, object]]
) -> None:
    def noisy(reads: Tensor, targets: Tensor) -> Tensor:
        result = smallest(reads, targets)
        return result + 1e-6 * torch.randn(result.shape, generator=torch.Generator().manual_seed(0), dtype=result.dtype)

    monkeypatch.setattr(simple_generalisation, "smallest", noisy)
    assert verdict("innocenti-sum-rank", 2)[0] is Verdict.FAIL


Directions = Callable[[Tensor, int], Tensor]
"""Unit vectors `(prompts, positions, 12)` for each block's number, from random numbers of that shape."""


def shared(noise: Tensor, block: int) -> Tensor:
    """One direction for all positions of a prompt, another for every prompt."""
    return noise[:, :1].expand_as(noise)


def all_but_last(noise: Tensor, block: int) -> Tensor:
    """The last position has a direction of its own."""
    return torch.cat([shared(noise, block)[:, :-1], noise[:, -1:]], 1)


def apart(noise: Tensor, block: int) -> Tensor:
    """Every position has a direction of its own, in every block another."""
    return noise.roll(block, -1)


@pytest.mark.parametrize(
    ("id", "learned", "begun", "wanted"),
    [
        ("innocenti-token-alignment", shared, apart, Verdict.PASS),
        ("innocenti-token-alignment", apart, apart, Verdict.FAIL),
        ("innocenti-token-alignment", shared, shared, Verdict.INCONCLUSIVE),
        ("innocenti-last-token", all_but_last, apart, Verdict.PASS),
        ("innocenti-last-token", shared, apart, Verdict.FAIL),
        ("innocenti-last-token", apart, apart, Verdict.FAIL),
        ("innocenti-last-token", all_but_last, all_but_last, Verdict.HOLDS_NOT_DIAGNOSTIC),
        ("innocenti-block-alignment", shared, apart, Verdict.PASS),
        ("innocenti-block-alignment", apart, apart, Verdict.FAIL),
        ("innocenti-block-alignment", shared, shared, Verdict.INCONCLUSIVE),
    ],
)
def test_alignments_where_they_are_known(
    id: str,
    learned: Directions,
    begun: Directions,
    wanted: Verdict,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[..., tuple[Verdict, object]],
) -> None:
    """Updates in known directions stand in for those of trained stacks, and of untrained ones: where these are aligned
    as well, nothing follows."""
    after, before = _stack._trained(0, False, 20, 16, 5), _stack._trained(1, False, 20, 1, 0)

    def known(block: _stack.Skips, tokens: Tensor) -> Changes:
        directions, net = next((d, net) for d, net in ((learned, after), (begun, before)) if block in net.each())
        noise = torch.randn(*tokens.shape[:-1], 12, generator=torch.Generator().manual_seed(0), dtype=tokens.dtype)
        v = torch.ones(len(tokens), 1, 3, 1, dtype=tokens.dtype)
        u = directions(noise, net.each().index(block)).unsqueeze(-1)
        return Changes((Update(u, v, "mlp.first.weight"),))

    monkeypatch.setattr(simple_generalisation, "updates", known)
    monkeypatch.setattr(simple_generalisation, "trained", lambda trial: after)
    monkeypatch.setattr(simple_generalisation, "untrained", lambda trial: before)
    monkeypatch.setattr(simple_generalisation, "during", lambda trial, steps: after if steps else before)
    assert verdict(id, 5)[0] is wanted


@pytest.mark.parametrize(("block", "steps"), [(0, 90), (3, 10), (4, 50)])
def test_one_block_at_one_step_is_enough_to_fail(
    block: int, steps: int, monkeypatch: pytest.MonkeyPatch, verdict: Callable[..., tuple[Verdict, dict[str, Judged]]]
) -> None:
    """Everywhere else, the updates of a prompt are the same but for the untrained stack's."""
    stacks = {at: _stack._trained(at, False, 20, 1, 0) for at in simple_generalisation.STEPS}

    def known(net: _stack.Stack, tokens: Tensor) -> list[Update]:
        noise = torch.randn(*tokens.shape[:-1], 12, generator=torch.Generator().manual_seed(0), dtype=tokens.dtype)
        v = torch.ones(len(tokens), 1, 3, 1, dtype=tokens.dtype)
        alike = [net is not stacks[0] and (net is not stacks[steps] or b != block) for b in range(5)]
        return [Update((shared(noise, b) if a else noise).unsqueeze(-1), v) for b, a in enumerate(alike)]

    monkeypatch.setattr(simple_generalisation, "during", lambda trial, at: stacks[at])
    monkeypatch.setattr(simple_generalisation, "by_block", known)
    result, judged = verdict("innocenti-token-alignment", 2)
    assert result is Verdict.FAIL
    assert [name for name, j in judged.items() if j.verdict is Verdict.FAIL] == [f"block_{block + 1}"]


def test_a_stack_during_its_training_is_the_stack_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal bit for bit; a step more has other weights."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(_stack, "_kept", _stack._kept.__wrapped__)
    result = _stack.during(Trial(2), 2).state_dict()
    same, more = (_stack._trained(2, False, 20, 64, steps).state_dict() for steps in (2, 3))
    assert all(torch.equal(result[name], value) for name, value in same.items())
    assert not any(torch.equal(result[name], value) for name, value in more.items())


def test_what_updates_have_in_common_by_algebra() -> None:
    # The cosine of two differences from one point is ½ where there are many dimensions, and less in three.
    assert 0.4 < simple_generalisation.independent_reads() < 0.45

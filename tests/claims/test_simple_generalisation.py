"""The claims of *A simple generalisation …*: exact ones on stacks hardly trained, alignments where they are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from inweights.claims import CLAIMS, Trial, Verdict, _stack, simple_generalisation
from inweights.theory import Update

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


def test_cosines_of_known_updates() -> None:
    u = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], dtype=torch.float64).unsqueeze(-1).unsqueeze(0)
    v = torch.ones(1, 1, 4, 1, dtype=torch.float64)
    found = simple_generalisation.cosines(Update(u, v), Update(u, v))
    wanted = torch.tensor([[[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert simple_generalisation.off_diagonal(found).item() == pytest.approx(1 / 3)


def test_alignment_is_between_minus_one_and_one_for_every_prompt() -> None:
    for id in ("innocenti-token-alignment", "innocenti-last-token", "innocenti-block-alignment"):
        (pair,) = CLAIMS[id].measure(Trial(0)).quantities.values()
        for numbers in pair:
            assert isinstance(numbers, torch.Tensor)
            assert numbers.shape == (32,)
            assert numbers.abs().max() <= 2
            assert numbers.std() > 0

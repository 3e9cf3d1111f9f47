"""The scan for training is the scan of the blocks, and the recurrent parts are their layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from inweights.blocks._scan import linear_scan
from inweights.lab.models import MODELS, _selective
from inweights.lab.models._recurrent import GatedRecurrence, StateSpace
from inweights.lab.models._scan import scan
from inweights.lab.models._selective import selective_scan
from inweights.lab.tasks import Linear


def test_the_scan_and_its_gradients_are_those_of_the_blocks() -> None:
    torch.manual_seed(0)
    decay = torch.rand(2, 9, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 9, 3, dtype=torch.float64)
    results = []
    for run in (scan, linear_scan):
        y = run(decay, x)
        results.append((y, *torch.autograd.grad((y * weight).sum(), (decay, x))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradcheck(scan, (decay, x))


def test_a_single_token_is_its_own_state() -> None:
    x = torch.randn(2, 1, 3)
    assert torch.equal(scan(torch.rand(2, 1, 3), x), x)


def selective_by_hand(delta: Tensor, u: Tensor, b: Tensor, c: Tensor, rate: Tensor) -> Tensor:
    state, output = torch.zeros(len(u), *rate.shape, dtype=u.dtype), []
    for i in range(u.shape[1]):
        taken = (delta[:, i] * u[:, i]).unsqueeze(2) * b[:, i].unsqueeze(1)
        state = (-delta[:, i].unsqueeze(2) * rate).exp() * state + taken
        output.append((state * c[:, i].unsqueeze(1)).sum(2))
    return torch.stack(output, 1)


@pytest.mark.parametrize("together", [1, 4, 100])
def test_the_selective_scan_and_its_gradients(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tokens are worked on together."""
    monkeypatch.setattr(
        _selective, "_pieces", lambda u: [slice(i, min(i + together, 9)) for i in range(0, 9, together)]
    )
    torch.manual_seed(0)
    inputs = [torch.rand(2, 9, w, dtype=torch.float64).requires_grad_() for w in (3, 3, 4, 4)]
    inputs.append(torch.rand(3, 4, dtype=torch.float64).requires_grad_())
    torch.testing.assert_close(selective_scan(*inputs), selective_by_hand(*inputs))
    assert torch.autograd.gradcheck(selective_scan, inputs)


def test_a_state_space_matches_its_layer() -> None:
    torch.manual_seed(0)
    tokens, part = torch.randn(2, 11, 8), StateSpace(8)
    torch.nn.init.normal_(part.layer.conv_bias)
    torch.testing.assert_close(part(tokens), part.layer.sequence(tokens))


def test_a_gated_recurrence_reads_a_convolution() -> None:
    torch.manual_seed(0)
    tokens, part = torch.randn(2, 11, 8), GatedRecurrence(8)
    taps = part.conv.weight.squeeze(1)  # the last is the token's own
    padded = F.pad(tokens, (0, 0, 3, 0))
    mixed = sum(padded[:, k : k + 11] * taps[:, k] for k in range(4)) + part.conv.bias
    wanted = part.out(part.layer.sequence(mixed) * F.gelu(part.gate(tokens)))
    torch.testing.assert_close(part(tokens), wanted)


def test_the_parts_come_in_turns() -> None:
    def parts(name: str) -> str:
        body = MODELS.make(name, layers=3, width=8).build(Linear(), 5).body
        return " ".join(type(block.part).__name__ for block in body[:-1])  # type: ignore[attr-defined]

    assert parts("hybrid") == "StateSpace" + 3 * " CausalAttention StateSpace"
    assert parts("mamba") == " ".join(6 * ["StateSpace"])
    assert parts("griffin") == "GatedRecurrence Gated GatedRecurrence Gated CausalAttention Gated"

"""Fused norms: the same numbers in one kernel, and nothing left behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inweights.running._norms import fused_norms


class LlamaRMSNorm(nn.Module):
    """As transformers writes it, with what to add to the weight."""

    def __init__(self, width: int, plus: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width, generator=torch.Generator().manual_seed(1)) + 0.5)
        self.variance_epsilon, self.plus = 1e-5, plus

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.float().square().mean(-1, keepdim=True)
        return (self.weight + self.plus) * (x.float() * torch.rsqrt(mean + self.variance_epsilon)).to(x.dtype)


class GatedRMSNorm(LlamaRMSNorm):
    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x) * gate


def model(*norms: nn.Module) -> nn.Module:
    return nn.ModuleList(norms)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_form_gives_the_same_and_leaves_nothing(dtype: torch.dtype) -> None:
    norm = LlamaRMSNorm(64).to(dtype)
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    own = norm(x)
    with fused_norms(model(norm)) as names:
        assert names == ["0"]
        assert "forward" in vars(norm)
        unit = torch.finfo(dtype).eps
        torch.testing.assert_close(norm(x), own, rtol=4 * unit, atol=4 * unit)
    assert "forward" not in vars(norm)
    assert torch.equal(norm(x), own)


def test_norms_of_another_law_are_left_alone() -> None:
    with fused_norms(model(LlamaRMSNorm(8, plus=1.0), GatedRMSNorm(8), nn.LayerNorm(8), LlamaRMSNorm(8))) as names:
        assert names == ["3"]


def test_it_is_undone_after_an_error() -> None:
    norm = LlamaRMSNorm(8)
    with pytest.raises(RuntimeError), fused_norms(model(norm)):
        raise RuntimeError
    assert "forward" not in vars(norm)

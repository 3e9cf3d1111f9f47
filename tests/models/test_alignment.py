"""Cosines between the steps of context tokens are those of dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cosine_similarity

from inweights import InputError
from inweights.models import Prompt, step_alignment
from inweights.models._load import as_model
from inweights.models._tiny import tiny
from inweights.models._trace import one_by_one, staircase

IDS = (torch.arange(20) * 5 + 35) % 90 + 3


@pytest.mark.parametrize("name", ["llama", "mixtral"])
@pytest.mark.parametrize("layer", [0, 1])
def test_alignment_is_that_of_the_dense_steps(name: str, layer: int) -> None:
    """float64, 1e-8, with updates of each prefix by itself; those of the tokens beside are other numbers."""
    asked = Prompt(as_model(tiny(name)), IDS[:9], IDS[9:12])
    u, v = one_by_one(asked, staircase(asked))[0]["input"][layer]
    steps = (u.unsqueeze(-1) * v.unsqueeze(-2)).flatten(1).diff(dim=0)
    wanted = cosine_similarity(steps.unsqueeze(0), steps.unsqueeze(1), dim=-1)
    got = step_alignment(asked, layer)
    torch.testing.assert_close(got, wanted, atol=1e-8, rtol=0)
    torch.testing.assert_close(got.diagonal(), torch.ones(9).double(), atol=1e-12, rtol=0)
    assert float((got - wanted.roll(1, 0)).abs().max()) > 1e-2


def test_a_layer_that_is_not_there_is_refused() -> None:
    asked = Prompt(as_model(tiny("llama")), IDS[:9], IDS[9:12])
    with pytest.raises(InputError, match="`layer` is 7, but the model has 3, counted from 0"):
        step_alignment(asked, 7)

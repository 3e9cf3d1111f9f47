"""A patched stream at a strength: the bare model at 0, the prompted one at 1, and between the two in between."""

from __future__ import annotations

import pytest
import torch
from talking import talker
from torch import Tensor

import inweights as iw
from inweights.models._twin import joined


def logits(prompt: iw.Prompt, strength: float) -> Tensor:
    """Of the prompted and of the patched stream, at the last token."""
    n = prompt.ids.shape[1]
    seen = torch.zeros(2, n, dtype=torch.long)
    seen[0] = 1
    seen[1, prompt.left] = 1
    positions = torch.arange(n).expand(2, -1).clone()
    positions[1, prompt.left] = prompt.reduced_positions[0]
    net, rows = prompt.model.model, slice(prompt.context_tokens, None)
    with torch.no_grad(), joined(net, prompt.model.anatomy, rows, strength):
        return net(prompt.ids.expand(2, -1), position_ids=positions, attention_mask=seen).logits[:, -1]


def test_the_stream_goes_from_bare_to_prompted() -> None:
    """float64, 1e-9; at ½ it is neither, and nearer to the prompted one than the bare one is."""
    prompt = iw.Prompt(talker(dtype=torch.float64), "My name is Bob. ", "I am")
    bare = prompt.model.model(prompt.reduced_ids, position_ids=prompt.reduced_positions).logits[0, -1]
    prompted, none = logits(prompt, 0.0)
    half, whole = logits(prompt, 0.5)[1], logits(prompt, 1.0)[1]
    control = float((prompted - bare).norm())
    assert float((none - bare).norm()) < 1e-9
    assert float((whole - prompted).norm()) < 1e-9
    assert 1e-2 < float((half - prompted).norm()) < control


def test_generated_tokens_follow_the_strength() -> None:
    prompt = iw.Prompt(talker(dtype=torch.float64), "My name is Bob. ", "I am")
    none, whole = iw.generate(prompt, 5, strength=0.0), iw.generate(prompt, 5, strength=1.0)
    assert none.patched == none.bare != none.prompted
    assert whole.patched == whole.prompted


def test_a_stream_that_runs_alone_has_no_strength() -> None:
    prompt = iw.Prompt(talker(), "My name is Bob. ", "I am")
    with pytest.raises(iw.InputError, match=r"`strength` is 0\.5, but for this model only 1 is possible"):
        iw.generate(prompt, 2, cached=False, strength=0.5)

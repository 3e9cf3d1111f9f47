"""Queries of a decoder, all in one run."""

from __future__ import annotations

import pytest
import torch

from inweights.lab import Draw
from inweights.lab.models import Decoder, Learner
from inweights.lab.models._learner import ask
from inweights.lab.tasks import SHIFTS, Linear


@pytest.mark.parametrize("tokens", ["one", "two"])
@pytest.mark.parametrize("shift", ["orthants", "repeated-query"])
def test_one_run_answers_as_one_for_each_prefix(tokens: str, shift: str, device: str) -> None:
    torch.manual_seed(0)
    task = Linear(dims=3)
    model = Decoder(layers=2, width=16, heads=2, tokens=tokens).build(task, 7).to(device).double().eval()
    sample = SHIFTS.make(shift).on(task).sample(Draw(0, 0, 5, device=device, dtype=torch.float64), 7)
    assert sample.queries is not None
    for p in model.parameters():  # large enough for every token to matter
        p.data += 0.3 * torch.randn_like(p)
    packed = model.predict_prefixes(sample.xs, sample.ys, sample.queries)
    with torch.no_grad():
        single = ask.dispatch(Learner)(model, sample.xs, sample.ys, sample.queries)
    assert packed.shape == (5, 7)
    assert (packed - single).abs().max() < 1e-10
    # The control: other examples, other answers, but only after them.
    other = model.predict_prefixes(sample.xs, sample.ys + torch.arange(7, device=device).eq(3), sample.queries)
    assert (other - packed)[:, :4].abs().max() == 0
    assert (other - packed)[:, 4:].abs().max(0).values.min() > 1e-4

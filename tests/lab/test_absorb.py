"""The examples of a prompt as changes of a decoder's weights: each input alone is answered as in its prompt."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from inweights import InputError
from inweights.lab import Draw, absorb_decoder, alone
from inweights.lab.models import MODELS
from inweights.lab.tasks import TASKS
from inweights.lab.zoo import trained


@pytest.mark.parametrize("output", ["matrix", "bias"])
@pytest.mark.parametrize("tokens", ["one", "two"])
def test_each_input_alone_is_answered_as_in_its_prompt(tokens: str, output: Literal["matrix", "bias"]) -> None:
    task = TASKS.make("linear", dims=4)
    torch.manual_seed(0)
    model = MODELS.make("decoder", layers=3, width=16, heads=2, tokens=tokens).build(task, 7).double()
    for p in model.parameters():
        p.data = torch.randn_like(p) / p.shape[-1] ** 0.5  # no parameter hides behind a zero or a one
    sample = task.sample(Draw(0, 0, 3), 7)
    xs, ys = sample.xs.double(), sample.ys.double()
    wanted, changes = model(xs, ys), absorb_decoder(model, xs, ys, output=output)
    assert (alone(model, xs, ys, changes) - wanted).abs().max() < 1e-10
    # The controls: random changes of equal norms, and none. The first input has no examples before it.
    for other in (changes.random_like(), None):
        assert ((alone(model, xs, ys, other) - wanted)[:, 1:].abs().mean(0) > 1e-2).all()
    assert (alone(model, xs, ys) - wanted)[:, 0].abs().max() < 1e-12


def test_a_trained_decoder() -> None:
    model, recipe, _ = trained("depth-4")
    task = recipe.make_task()
    sample = task.sample(Draw(7, 0, 2), recipe.points)
    model, xs, ys = model.double(), sample.xs.double(), sample.ys.double()
    wanted = model(xs, ys)
    assert (alone(model, xs, ys, absorb_decoder(model, xs, ys)) - wanted).abs().max() < 1e-9
    assert (alone(model, xs, ys) - wanted).abs().max() > 0.1


def test_only_decoders() -> None:
    model, recipe, _ = trained("lsa-1")
    sample = recipe.make_task().sample(Draw(0, 0, 2), recipe.points)
    with pytest.raises(InputError, match="decoders"):
        absorb_decoder(model, sample.xs, sample.ys)

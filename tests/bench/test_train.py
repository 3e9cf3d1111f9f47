"""The training bench: both sides really do the same arithmetic."""

from __future__ import annotations

import torch

from inweights.bench.train import DIMS, POINTS, Reference, _difference, copy_weights, recipe, reference_loop
from inweights.lab.models import DecoderModel
from inweights.lab.training import build

SHAPE = (2, 32, 2)


def pair() -> tuple[DecoderModel, Reference]:
    torch.manual_seed(0)
    ours = build(recipe(*SHAPE, "float32"))
    assert isinstance(ours, DecoderModel)
    return ours, Reference(*SHAPE)


def test_with_the_same_weights_both_answer_the_same() -> None:
    ours, reference = pair()
    cpu = torch.device("cpu")
    assert _difference(ours, reference, cpu) > 1e-2, "they agreed before: the copy shows nothing"
    copy_weights(ours, reference)
    assert _difference(ours, reference, cpu) < 1e-5  # float32


def test_the_reference_moves() -> None:
    _, reference = pair()
    xs = torch.randn(64, POINTS, DIMS)
    ys = (xs @ torch.randn(64, DIMS, 1)).squeeze(-1)
    before = reference(xs, ys).detach()
    reference_loop(reference, torch.device("cpu"))(2)
    assert not torch.equal(reference(xs, ys), before)

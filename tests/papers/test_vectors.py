"""Vectors at the last token: read from prompts and put into others, on a tiny model of random weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from worded import ROWS, reader

from inweights.models import Model
from inweights.papers import _vectors
from inweights.papers._vectors import accuracy, gained, question, read, run_last, run_with, states, words
from inweights.running import full_precision


@pytest.fixture
def model() -> Model:
    return reader(dtype=torch.float64)


TEXTS = ((3, 5, 7, 4), (6, 2, 9), (8, 4, 4, 4, 3))


def logits(model: Model, text: tuple[int, ...]) -> Tensor:
    with torch.no_grad(), full_precision(model.model):
        return model.model(torch.tensor([text])).logits[0, -1]


def test_texts_of_different_lengths_are_read_as_alone(model: Model) -> None:
    """float64, 1e-9; after a prefix that is read once as after one that is read with each."""
    wanted = torch.stack([logits(model, text) for text in TEXTS])
    torch.testing.assert_close(run_last(model, TEXTS), wanted, rtol=0, atol=1e-9)
    prefix = (5, 9, 2, 2, 7)
    after = torch.stack([logits(model, (*prefix, *text)) for text in TEXTS])
    past = read(model, prefix)
    for _ in range(2):  # the cache is not used up
        torch.testing.assert_close(run_last(model, TEXTS, past), after, rtol=0, atol=1e-9)
    assert (after - wanted).abs().max() > 1e-3


def test_a_state_put_where_it_was_changes_nothing(model: Model) -> None:
    result = states(model, TEXTS)  # (layers, texts, width)
    assert result.shape == (4, 3, 32)
    layers = [0, 3, 2]
    own = torch.stack([result[layer, i] for i, layer in enumerate(layers)])
    torch.testing.assert_close(run_with(model, TEXTS, layers, own), run_last(model, TEXTS), rtol=0, atol=1e-9)
    zero = torch.zeros_like(own)
    torch.testing.assert_close(
        run_with(model, TEXTS, layers, zero, add=True), run_last(model, TEXTS), rtol=0, atol=1e-9
    )
    assert (run_with(model, TEXTS, layers, own.roll(1, 0)) - run_last(model, TEXTS)).abs().max() > 1e-3


def test_a_state_of_the_last_layer_is_the_answer(model: Model) -> None:
    """The next token after one text is that of another whose last state is put there."""
    result, wanted = states(model, TEXTS), run_last(model, TEXTS)
    moved = run_with(model, TEXTS, [3] * 3, result[3].roll(1, 0), past=read(model, (5, 9)))
    torch.testing.assert_close(moved, wanted.roll(1, 0), rtol=0, atol=1e-9)


def test_words_and_shares(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vectors, "pairs", lambda name: ROWS)
    shown = words(model, "sst2", 4, 3, 0)
    assert {question(shown, i) for i in range(3)} <= {row[0] for row in ROWS}
    assert question(shown, 0) in shown.texts[4][0]
    assert accuracy(torch.eye(3), torch.tensor([0, 1, 1])) == pytest.approx(2 / 3)
    assert gained(0.6, 0.2, 1.0) == pytest.approx(0.5)

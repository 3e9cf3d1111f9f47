"""Batches of a few shapes, as CUDA graphs need them, are the same batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from talking import talker

from inweights.folding import Examples, Frame, Steps, answered, made_up
from inweights.folding._graphs import STEP, shapes
from inweights.folding._lora import Lora
from inweights.folding._match import Fit, fit
from inweights.folding._teacher import prompted
from inweights.models import Model


def some(model: Model) -> Examples:
    """Examples whose widths differ by far more than one shape."""
    frame = Frame.of(model, "Speak like a pirate.")
    queries = [q + " again and again" * n for n, q in enumerate(made_up(frame, 8, 0, new=4))]
    return answered(frame, queries, 0, new=6)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 300)), min_size=1, max_size=30))
def test_every_example_fits_into_its_shape(sizes: list[tuple[int, int]]) -> None:
    """And into every wider one; at most one shape for each `STEP` tokens; nothing is wider than the longest."""
    answers = [(0,) * rows for rows, _ in sizes]
    lengths = [rows + more for rows, more in sizes]
    assert shapes(lengths, answers, graph=False) == list(zip(lengths, map(len, answers), strict=True))
    own = shapes(lengths, answers, graph=True)
    assert len(set(own)) <= max(lengths) // STEP + 1
    assert max(w for w, _ in own) == max(lengths)
    for width, most in own:
        assert all(len(a) <= most for n, a in zip(lengths, answers, strict=True) if n <= width)
    assert all(w >= n for n, (w, _) in zip(lengths, own, strict=True))


@pytest.mark.parametrize("match", [0.0, 1.0])
def test_a_wider_shape_changes_nothing(match: float) -> None:
    """Divergence and error of the blocks, float32, 1e-5; of other examples they differ by more than 1e-3."""
    model = talker()
    examples = some(model)
    steps = Steps(count=4, rate=1e-3, batch=2, match=match)
    teacher = prompted(model, examples, blocks=match > 0)
    lora = Lora(model, 2, merged=True)
    exact, padded = (Fit(model, examples, teacher, lora, replace(steps, graph=graph)) for graph in (False, True))
    assert len(set(padded.shapes)) > 1
    for chosen in ([0, 1], [3, 2], [6, 7]):
        narrow, wide = exact.load(chosen), padded.load(chosen)
        assert wide[0] >= narrow[0]
        assert wide[1] >= narrow[1]
        (ours, blocks), (plain, expected) = padded.terms(), exact.terms()
        assert torch.allclose(ours, plain, rtol=1e-5, atol=1e-6)
        assert torch.allclose(blocks, expected, rtol=1e-5, atol=1e-6)
        exact.load([4, 5])
        assert (exact.terms()[0] - ours).abs() > 1e-3


def test_tensors_of_one_shape_stay_where_they_are() -> None:
    """A graph reads the same memory at every replay."""
    model = talker()
    examples = some(model)
    doing = Fit(
        model, examples, prompted(model, examples), Lora(model, 2, merged=True), Steps(4, 1e-3, 2, 0.0, graph=True)
    )
    for chosen in ([0, 1], [6, 7], [1, 0], [7, 6]):
        doing.load(chosen)
    assert len(doing.places) == 2
    doing.load([0, 1])
    before = doing.now[0]
    doing.load([1, 0])
    assert doing.now[0] is before
    assert torch.equal(before, doing.ids[[1, 0], : before.shape[1]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the first backward pass of a process
def test_graphs_take_the_same_steps() -> None:
    """The losses of twelve steps, as graphs and without, in float32: 2% of the first."""
    model = talker()
    model.model.to("cuda")
    examples = some(model)
    teacher = prompted(model, examples, blocks=True)
    steps = Steps(count=12, rate=5e-3, batch=4, match=1.0)
    losses = [
        torch.tensor(fit(model, examples, teacher, Lora(model, 2, merged=graph), replace(steps, graph=graph)))
        for graph in (False, True)
    ]
    assert (losses[0] - losses[1]).abs().max() < 0.02 * losses[0][0]
    assert losses[1][-1] < 0.9 * losses[1][0]

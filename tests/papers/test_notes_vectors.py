"""Vectors of tasks beside one another: verdicts where accuracies and directions are known, and what an update adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from worded import ROWS, reader

from inweights.compare import Shots
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers import _vectors
from inweights.papers.notes import vectors
from inweights.papers.task_vectors.claims import Task
from inweights.papers.transmuting.steering import Vectors

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
ONES = torch.ones(30, 4)


class Known(SimpleNamespace):
    """A task that demonstrations raise from 0.1 to 0.9, and its task vector to 0.8 from layer 20 on."""

    name, vector, model = "known", ONES, SimpleNamespace(anatomy=SimpleNamespace(names=range(30)))
    dev, tests = range(2, 6), range(6, 10)

    def replaced(self, by_layer: Tensor, layers: Sequence[int], queries: range) -> list[float]:
        return [0.8 if layer >= 20 else 0.1 for layer in layers]

    def prompted(self, queries: range) -> float:
        return 0.9

    def bare(self, queries: range) -> float:
        return 0.1


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thought vectors of ones, and of minus one for the other task, so that a sum names its layer."""
    both = (Vectors(ONES, ONES), Vectors(-ONES, -ONES))
    monkeypatch.setattr(vectors, "pair", lambda trial: (Known(), Known()))
    monkeypatch.setattr(vectors, "of_both", lambda trial: both)


def added(works: Callable[[float, int], bool]) -> Callable[..., list[float]]:
    """0.8 where a vector with this first number works in a layer, else 0.1."""
    return lambda task, by_layer, layers, queries: [
        0.8 if works(by_layer[k][0].item(), k) and bool((by_layer[k] == by_layer[k][0]).all()) else 0.1 for k in layers
    ]


@pytest.mark.parametrize(
    ("works", "wanted"),
    [
        (lambda value, layer: value == layer + 1 and layer >= 12, Verdict.PASS),
        (lambda value, layer: False, Verdict.FAIL),
        (lambda value, layer: value > 0, Verdict.INCONCLUSIVE),  # so does the sum of another layer
    ],
)
def test_summed_thought_vectors(
    works: Callable[[float, int], bool], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    monkeypatch.setattr(vectors, "added", added(works))
    result, judged = verdict("note-vectors-thought", 3, FIRST)
    assert result is wanted, judged


@pytest.mark.parametrize(
    ("works", "wanted"),
    [
        (lambda value, layer: value == 2 and layer >= 20, Verdict.PASS),
        (lambda value, layer: False, Verdict.FAIL),
        (lambda value, layer: value == 2 and layer == 5, Verdict.FAIL),  # far from the layer of the task vector
        (lambda value, layer: value in (2, 3) and layer >= 20, Verdict.INCONCLUSIVE),  # so does another task's
    ],
)
def test_a_function_vector(
    works: Callable[[float, int], bool], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    task = SimpleNamespace(
        heads=[], layer=9, vector=lambda heads: 2 * ONES[0], random=lambda generator: torch.tensor([1.0, -1, 1, -1])
    )
    monkeypatch.setattr(vectors, "function", lambda trial: task)
    monkeypatch.setattr(vectors, "of_other_task", lambda trial, task, name: 3 * ONES[0])
    monkeypatch.setattr(vectors, "added", added(works))
    result, judged = verdict("note-vectors-function", 3, FIRST)
    assert result is wanted, judged


@pytest.mark.parametrize(
    ("own", "other", "wanted"),
    [(True, False, Verdict.PASS), (False, False, Verdict.FAIL), (True, True, Verdict.HOLDS_NOT_DIAGNOSTIC)],
)
def test_what_the_exact_update_adds(
    own: bool, other: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    generator = torch.Generator().manual_seed(0)
    stream, noise = (torch.randn(30, 64, generator=generator) for _ in range(2))
    steps = torch.cat([stream[:1], stream.diff(dim=0)])
    which = iter([own, other] * 3)
    monkeypatch.setattr(vectors, "vectors", lambda task, queries: Vectors(stream, noise))
    monkeypatch.setattr(vectors, "written", lambda task, queries: steps if next(which) else noise)
    result, judged = verdict("note-vectors-exact", 3, FIRST)
    assert result is wanted, judged


def test_an_update_that_changes_nothing_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32, 1e-6; the exact update adds more than 1e-3 in every block."""
    model, source = reader(dtype=torch.float32), _vectors.source("sst2")
    monkeypatch.setattr(_vectors, "pairs", lambda name: ROWS)
    monkeypatch.setattr(_vectors, "source", lambda name: source)
    shown: Shots = _vectors.words(model, "sst2", vectors.SHOWN, 1, 0)
    task = Task(model, "sst2", shown, ONES, 0)
    assert (vectors.written(task, range(1)).norm(dim=1) > 1e-3).all()
    unchanged: Any = SimpleNamespace(applied=lambda model: nullcontext())
    monkeypatch.setattr(vectors, "patch", lambda prompt, mode: unchanged)
    assert vectors.written(task, range(1)).abs().max() < 1e-6


def test_random_vectors_have_the_same_lengths() -> None:
    like = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    made = vectors.of_length(like, Trial(FIRST).generator())
    torch.testing.assert_close(made.norm(dim=1), torch.tensor([5.0, 1.0]))
    assert not torch.allclose(made, like)

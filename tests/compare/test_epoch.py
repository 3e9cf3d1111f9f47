"""Epochs of a descent: the same numbers whether steps are launched one by one or replayed as a graph."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from worded import reader, reviews

from inweights.compare import _epoch as epochs_of
from inweights.compare import descend, way, zero_shot
from inweights.models import Model

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NAMES = ("gd", "layer-causal", "lora", "sgd-1", "adam-2")


class Counted:
    """Steps that add to a number in place, on a device of some type."""

    def __init__(self, device: str) -> None:
        self.model: Any = SimpleNamespace(device=SimpleNamespace(type=device), model=None)
        self.total = torch.zeros(())

    def step(self, lesson: float) -> torch.Tensor:
        self.total += lesson
        return self.total.clone()


@pytest.mark.parametrize("works", [True, False])
def test_each_step_is_taken_once_whether_it_is_captured_or_not(works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def captured(work: Callable[[], torch.Tensor], net: Any, device: Any) -> tuple[torch.Tensor, Any]:
        calls.append(1)
        return work(), work if works else None

    monkeypatch.setattr(epochs_of, "captured", captured)
    lessons, wanted = [1.0, 10.0], [[1, 11], [12, 22], [23, 33]]
    for device, made in (("cpu", 0), ("cuda", 1)):
        one = epochs_of.once(Counted(device), lessons, 9)
        assert [one(k).tolist() for k in (1, 2, 3)] == wanted
        assert len(calls) == made
    epochs_of.once(Counted("cuda"), lessons, 7)(2)  # too few epochs
    epochs_of.once(Counted("cuda"), lessons * 5, 9)(2)  # too many steps
    assert len(calls) == 1


@GPU
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten epochs in float64, log-probabilities equal to 1e-9; and it is a graph that gave them."""
    model = reader()
    model = Model(model.model.cuda(), model.tokenizer, "there")
    shown, made = reviews(model), []
    real = epochs_of.captured

    def noted(*args: Any) -> Any:
        result = real(*args)
        made.append(result[1])
        return result

    monkeypatch.setattr(epochs_of, "captured", noted)
    rate = 1e-3 if "adam" in name or name == "lora" else 1e-2

    def after() -> tuple[torch.Tensor, float]:
        (point,) = descend(model, shown, way(name), rate, epochs=10, every=10)
        return zero_shot(model, shown, point.descent.forward), point.loss

    one, loss = after()
    monkeypatch.setattr(epochs_of, "LEAST", 99)
    other, again = after()
    assert len(made) == 1
    assert made[0] is not None
    assert (one - other).abs().max() <= 1e-9
    assert abs(loss - again) <= 1e-9
    assert (one - zero_shot(model, shown)).abs().max() > 1e-3

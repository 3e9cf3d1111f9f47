"""The exact update in other architectures: on untrained models, against another prompt's, and where it must fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner, ReluEncoder
from inweights.lab.tasks import Linear
from inweights.lab.training import build
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import updates
from inweights.theory import Shift, Update

Stand = Callable[[Mapping[str, Callable[[Trial], Any]]], None]
Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, stand_in: Stand) -> None:
    """A few steps of training, and an LSTM whose answers depend on examples more than those of an untrained one."""
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: min(quick, 10))

    def lstm(trial: Trial) -> Learner:
        model = build(trial.recipe("lstm-5"))
        for weight in model.parameters():
            weight.data *= 3
        return model

    stand_in({"lstm-5": lstm})


def test_the_update_of_all_five_is_exact(verdict: Judge) -> None:
    assert verdict("note-update-architectures", 1, FIRST)[0] is Verdict.PASS


def test_an_update_that_is_a_thousandth_off_fails(monkeypatch: pytest.MonkeyPatch, verdict: Judge) -> None:
    right = updates.implicit_update

    def off(weight: Tensor, a: Tensor, delta: Tensor, *, name: str) -> Update:
        return right(weight, a, 1.001 * delta, name=name)

    monkeypatch.setattr(updates, "implicit_update", off)
    assert verdict("note-update-architectures", 1, FIRST)[0] is Verdict.FAIL


def test_where_relu_attends_to_nothing_the_bias_is_changed() -> None:
    """Float64, a tolerance of 1e-12; without the changes the difference is above 1e-3. Keys that are opposite to
    queries have no positive product."""
    torch.manual_seed(0)
    model = ReluEncoder(layers=2, width=8, heads=2).build(Linear(dims=2), 5).double().requires_grad_(False)
    xs, ys = torch.randn(1, 5, 2, dtype=torch.float64), torch.randn(1, 5, dtype=torch.float64)
    first = model.get_submodule("layers.0")
    weight, bias = first.get_parameter("qkv.weight"), first.get_parameter("qkv.bias")
    weight[8:16], bias[8:16] = -weight[:8], -bias[:8]  # a token attends to itself with relu(−|q|²), to others with any
    query = torch.tensor([4])
    changes = updates.exact(model, xs, ys, query)
    assert isinstance(changes.items[0], Shift)
    full = updates.run(model, xs, ys)
    with changes.applied(model):
        assert (updates.run(model, xs[:, query], ys[:, query]) - full).abs() < 1e-12
    assert (updates.run(model, xs[:, query], ys[:, query]) - full).abs() > 1e-3

"""Batched predictions are those of one forward for each order and query."""

from __future__ import annotations

import pytest
import torch
from worded import reader, reviews

from inweights.compare import in_context, orders, zero_shot
from inweights.running import full_precision, run


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_all_orders_and_queries_at_once(family: str) -> None:
    """float64, ≤ 1e-10; another order is off by more than 1e-3."""
    model = reader(family)
    shown = reviews(model)
    some = orders(4, 3, torch.Generator().manual_seed(0))
    found = in_context(model, shown, some)
    alone = torch.zeros_like(found)
    with torch.no_grad(), full_precision(model.model):
        for k, order in enumerate(some.tolist()):
            for q, query in enumerate(shown.queries):
                ids = torch.tensor([[*shown.prefix(order), *query]])
                alone[k, q] = run(model.model, ids)[0, -1].log_softmax(-1)
    assert (found - alone).abs().max() <= 1e-10
    assert (found[0] - alone[1]).abs().max() > 1e-3
    assert torch.allclose(found.exp().sum(-1), torch.ones(3, 6, dtype=torch.float64))


def test_batches_do_not_change_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader()
    shown = reviews(model)
    whole = zero_shot(model, shown)
    monkeypatch.setattr("inweights.compare._predict.TOKENS", {"cpu": 1, "cuda": 1})
    assert (zero_shot(model, shown) - whole).abs().max() <= 1e-12

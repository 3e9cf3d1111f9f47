"""Batched predictions are those of one forward for each order and query."""

from __future__ import annotations

import pytest
import torch
from worded import reader, reviews

from inweights.compare import in_context, orders, zero_shot
from inweights.compare._predict import ROOM, Room, batches, begin_alike
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


def test_batches_hold_texts_of_about_one_length() -> None:
    lengths = [9, 30, 8, 31, 10, 64, 8]
    found = batches(lengths, Room(64, 256, 9 / 8))
    assert sorted(i for group in found for i in group) == list(range(7))
    assert found == [[2, 6, 0], [4], [1, 3], [5]]
    assert batches([100], Room(10, 256, 9 / 8)) == [[0]]


def test_a_batch_that_is_worth_a_pass_takes_no_longer_texts() -> None:
    """Ten rows of 30 tokens are enough; fewer are joined by those of 31."""
    found = batches([30] * 10 + [31] * 10, ROOM["cpu"])
    assert [len(group) for group in found] == [10, 10]
    assert [len(group) for group in batches([30] * 3 + [31] * 3, ROOM["cpu"])] == [6]
    assert [len(group) for group in batches([30] * 10 + [31] * 10, ROOM["cuda"])] == [20]


def test_long_prefixes_leave_room_for_fewer_texts() -> None:
    """Keys and values of a prefix are copied for each text: those of 8,000 tokens take 0.4 GB of SmolLM2."""
    assert [len(group) for group in batches([30] * 20, ROOM["cpu"], 8000)] == [8, 8, 4]
    assert [len(group) for group in batches([30] * 20, ROOM["cpu"], 135)] == [20]
    assert batches([30, 30], Room(99, 1, 1, 10), 50) == [[0], [1]]


def test_what_all_queries_begin_with_is_read_with_the_demonstrations() -> None:
    assert begin_alike([(5, 6, 7), (5, 6, 8, 9)]) == 2
    assert begin_alike([(5, 6), (5, 6, 8)]) == 1  # each keeps a token of its own
    assert begin_alike([(5,), (5, 6)]) == 0
    assert begin_alike([(1, 2), (3, 2)]) == 0
    shown = reviews(reader())
    assert begin_alike(shown.queries) > 0


def test_batches_do_not_change_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reader()
    shown = reviews(model)
    whole = zero_shot(model, shown)
    for room in (Room(1, 1, 1), ROOM["cuda"]):
        monkeypatch.setattr("inweights.compare._predict.ROOM", {"cpu": room})
        assert (zero_shot(model, shown) - whole).abs().max() <= 1e-12

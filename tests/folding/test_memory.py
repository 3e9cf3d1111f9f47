"""Folding and memory: what does not fit is refused, running out is not hidden, long contexts form no logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from talking import talker

from inweights._errors import InputError
from inweights.folding import fold
from inweights.folding._estimate import fold_memory
from inweights.folding._parts import parts_of, with_attention
from inweights.models import Model, _estimate
from inweights.running._sample import sample
from inweights.running._walk import chain_of

QUERIES = ["What is this?", "Who are you?", "And why?"]


def test_a_fold_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = talker()
    assert fold(model, "Be brief.", calibration=QUERIES, method="vector").rank == 1
    monkeypatch.setattr(_estimate, "available_memory", lambda _: 0)
    with pytest.raises(InputError) as error:
        fold(model, "Be brief.", calibration=QUERIES, method="vector")
    assert "GiB of memory more" in str(error.value)
    assert "try a smaller --calibration, a shorter --context, a lower --rank, or" in str(error.value)


@pytest.mark.parametrize("method", ["match", "closed", "polish", "distil", "vector", "mean"])
def test_more_queries_and_longer_contexts_take_more(method: str) -> None:
    model = talker()

    def extra(**more: Any) -> int:
        given: dict[str, Any] = {
            "context": 10, "queries": 200, "query": 20, "new": 48, "method": method, "rank": 16, "report": True,
        }  # fmt: skip
        return fold_memory(model, **given | more).extra

    assert extra(context=4000) > extra()
    assert extra(queries=2000) > extra()


@contextmanager
def attention_run(model: Model, number: int, error: Exception) -> Iterator[None]:
    """While active, that run of the MLP of the first block ends with an error."""
    runs = iter(range(1000))

    def hook(*_: Any) -> None:
        if next(runs) == number:
            raise error

    handle = model.model.get_submodule("model.layers.0.mlp").register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def test_running_out_of_memory_is_no_reason_for_the_slow_way() -> None:
    """The second run of the block finds out whether its attention can be left out; other errors mean: it cannot."""
    model = talker()
    chain, parts = chain_of(model.model, [b.name for b in model.anatomy.blocks]), parts_of(model)
    with torch.no_grad():
        assert with_attention(chain, parts)[0].child
        with attention_run(model, 1, RuntimeError("shapes do not fit")):
            assert not with_attention(chain, parts)[0].child
        full = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        with attention_run(model, 1, full), pytest.raises(RuntimeError, match="can't allocate"):
            with_attention(chain, parts)


def test_the_logits_of_a_long_context_are_not_formed() -> None:
    model = talker()
    rows: list[int] = []
    head: Any = model.model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, args: rows.append(args[0].shape[1]))
    sample(model.model, list(range(5, 205)), [[7, 8, 9]], new=2, temperature=0.0, seed=0, ends=lambda _: False)
    handle.remove()
    assert rows == [1, 1, 1]

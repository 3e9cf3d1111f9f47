"""Continuations of many texts at once are those of each text alone."""

from __future__ import annotations

import pytest
import torch
from talking import talker

from inweights.running import sample
from inweights.running._advance import Growing


@pytest.mark.parametrize("shared", [(), (5, 9, 7)])
def test_greedy_texts_in_a_batch_are_those_alone_also_when_others_have_ended(
    shared: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """float64, so that no rounding decides; rows of the batch end one after the other and are dropped."""
    net = talker(dtype=torch.float64).model
    texts = [(3, 4), (60, 61, 62, 63), (100,), (7, 8, 9), (200, 201), (33, 44, 55)]
    widths: list[int] = []
    whole = net.forward

    def seen(*args: object, **kwargs: object) -> object:
        widths.append(len(kwargs["input_ids"]))  # type: ignore[arg-type]
        return whole(*args, **kwargs)

    monkeypatch.setattr(net, "forward", seen)

    def run(some: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return sample(net, shared, some, new=12, temperature=0.0, seed=0, ends=lambda t: t % 7 == 0)

    together = run(texts)
    assert min(widths[-3:]) < len(texts)
    assert together == [run([t])[0] for t in texts]
    assert len({len(t) for t in together}) > 1
    monkeypatch.setattr(Growing, "drop", 0.0)
    assert run(texts) == together

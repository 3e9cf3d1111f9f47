"""Claims about thought vectors and about stages over layers, where vectors and layers are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from inweights.lab.tasks import Linear
from inweights.lab.training import build, read
from inweights.ledger import CLAIMS, Trial, UnmetError, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import stages
from inweights.papers.transmuting import steering
from inweights.papers.transmuting.steering import Vectors

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def test_orders_and_places() -> None:
    assert stages.in_order([1, 2, 3, 4]) == [1] * 6
    assert stages.in_order([4, 3, 2, 1]) == [0] * 6
    assert stages.in_order([2, 2, 2, 2]) == [0.5] * 6
    assert stages.in_order([1, 2, math.nan, 3]) == [1, 0, 1, 0, 1, 0]
    assert stages.in_place([0.25, 0.5, 0.6, 0.9]) == [1] * 4
    assert stages.in_place([0.26, 0.5, 0.5, 0.75]) == [0, 1, 0, 0]
    assert stages.formed([0.0, 0.5, 0.95, 1.0]) == 3
    assert math.isnan(stages.formed([0.0, 0.05, 0.0]))


@pytest.mark.parametrize(
    ("layers", "order", "places"),
    [([0.2, 0.4, 0.6, 0.9], Verdict.PASS, Verdict.PASS), ([0.9, 0.8, 0.6, 0.1], Verdict.FAIL, Verdict.FAIL),
     ([0.57, 0.63, 0.7, 0.9], Verdict.PASS, Verdict.FAIL)],
)  # fmt: skip
def test_known_stages(
    layers: list[float], order: Verdict, places: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    monkeypatch.setattr(stages, "both", lambda trial: (layers, [0.8, 0.1, 0.03, 0.2]))
    for name, wanted in (("order", order), ("places", places)):
        result, judged = verdict(f"note-stages-{name}", 10)
        assert result is wanted, judged


CURVES = {
    "position": [0.9] * 8,
    "matching": [0.0, 0.2, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9],
    "task": [0.0, 0.0, 0.1, 0.2, 0.8, 0.9, 0.9, 0.9],
    "answer": [0.0, 0.1, 0.1, 0.2, 0.3, 0.5, 0.9, 0.95],
}


@pytest.mark.parametrize(("task", "wanted"), [(CURVES["task"], Verdict.PASS), ([0.0] * 8, Verdict.FAIL)])
def test_stages_of_a_decoder(
    task: list[float], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    """A task that can never be read is in no order."""
    trained = build(read("depth-2"))
    monkeypatch.setattr(Trial, "trained", lambda trial, name: trained)
    bare = {name: [0.6 if name == "position" else 0.0] * 8 for name in stages.STAGES}
    monkeypatch.setattr(stages, "read_out", lambda model, a, b: CURVES | {"task": task} if model is trained else bare)
    result, judged = verdict("note-stages-lab", 10)
    assert result is wanted, judged
    monkeypatch.setattr(stages, "read_out", lambda model, a, b: bare)
    with pytest.raises(UnmetError, match="has not learned"):
        CLAIMS["note-stages-lab"].measure(Trial(0))


def test_an_untrained_decoder_knows_nothing_of_the_answer() -> None:
    known, asked = (Linear(dims=5).sample(Trial(900).draw(64, step), 16) for step in (0, 1))
    curves = stages.read_out(build(read("depth-2")), known, asked)
    assert max(curves["answer"]) < 0.1
    assert all(len(curve) == 2 for curve in curves.values())
    of = stages.quantities(known)
    assert of["task"].shape == (64, 15, 5)
    w = known.hidden["w"].double()
    torch.testing.assert_close(of["task"][:, -1], w, rtol=0, atol=0.1)  # 15 examples without noise, a ridge of 0.01
    wanted = sum((known.xs[:, 2] * known.xs[:, i]).sum(-1) * known.ys[:, i] for i in range(2)) / 2
    torch.testing.assert_close(of["matching"][:, 1, 0], wanted.double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("own", "shared", "wanted"),
    [(True, False, Verdict.PASS), (True, True, Verdict.HOLDS_NOT_DIAGNOSTIC), (False, False, Verdict.FAIL)],
)
def test_thought_vectors(
    own: bool, shared: bool, wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    """Steering vectors that are the sums of thought vectors; of one task alone, or of both."""

    def vectors(task: str, queries: range) -> Vectors:
        generator = torch.Generator().manual_seed(100 if shared else 100 + len(task))
        thought = torch.randn(30, 576, generator=generator)
        return Vectors(thought.cumsum(0) if own else torch.randn(30, 576, generator=generator), thought)

    class Task(str):
        shown = SimpleNamespace(queries=[(1, 2)], prefix=lambda order: (3, 4))
        model = None

    monkeypatch.setattr(steering, "pair", lambda trial: (Task("one"), Task("other")))
    monkeypatch.setattr(steering, "vectors", vectors)
    monkeypatch.setattr(steering, "function", lambda trial: SimpleNamespace(heads=[], vector=lambda h: torch.ones(576)))
    monkeypatch.setattr(steering, "Prompt", lambda *args: None)
    monkeypatch.setattr(steering, "patch", lambda *args: SimpleNamespace(applied=lambda model: nullcontext()))
    monkeypatch.setattr(steering, "run_last", lambda model, texts: torch.zeros(1, 5))
    result, judged = verdict("mazzawi-steering", 5)
    assert result is wanted, judged

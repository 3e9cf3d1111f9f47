"""Associative memories: what they recall, the three moons, and a layer of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.memory_mosaics import claims as mosaic
from inweights.papers.memory_mosaics._memory import MosaicLayer, recall

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""


def test_a_memory_recalls_what_came_with_a_key() -> None:
    keys = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 1, 0]]
    values = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]], dtype=torch.float64)
    result = recall(keys, values, keys, 50.0).squeeze(-1)
    # Nothing, then what is there, then the mean of two values of equally unlike keys, then the right ones.
    torch.testing.assert_close(result, torch.tensor([0, 1, 1.5, 2, 1], dtype=torch.float64), rtol=0, atol=1e-9)


def test_the_moons(verdict: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    result, judged = verdict("mosaic-moons", 3, FIRST)
    assert result is Verdict.PASS, judged
    monkeypatch.setattr(mosaic, "PERIODS", (7, 7, 7))  # the sky repeats as soon as a moon does
    assert verdict("mosaic-moons", 3, FIRST)[0] is Verdict.FAIL


def test_a_position_depends_on_nothing_later() -> None:
    torch.manual_seed(0)
    layer, tokens = MosaicLayer(8, 16, 2), torch.randint(8, (2, 12))
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 8
    before, after = layer(tokens), layer(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert (before[:, 8:] - after[:, 8:]).abs().max() > 1e-4


def test_a_leaky_mean() -> None:
    layer = MosaicLayer(4, 2, 1)
    with torch.no_grad():
        layer.leak.fill_(0.0)  # λ = ½
    keys = torch.tensor([[1.0, 0], [0, 1], [0, 0]]).view(1, 1, 3, 2)
    wanted = torch.tensor([[1.0, 0], [0.5, 1], [0.25, 0.5]]).view(1, 1, 3, 2)
    torch.testing.assert_close(layer.leaky(keys), wanted)


class Fixed(nn.Module):
    """A model with a share of right answers on the task."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, tokens: Tensor) -> Tensor:
        right = mosaic.TASK.sample(Trial(self.seed).draw(512), mosaic.POINTS).ys
        known, tokens = torch.rand(right.shape, generator=torch.Generator().manual_seed(0)), mosaic.TASK.vocabulary
        answers = torch.where(known < self.share, right, (right + 1) % tokens)
        return nn.functional.one_hot(answers, tokens).float()

    seed = 0


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [((0.97, 0.3), Verdict.PASS), ((0.6, 0.3), Verdict.FAIL), ((0.97, 0.97), Verdict.INCONCLUSIVE)],
)
def test_a_layer_that_learns_in_context(
    shares: tuple[float, float], wanted: Verdict, monkeypatch: pytest.MonkeyPatch, verdict: Judge
) -> None:
    def trained(trial: Trial, model: nn.Module) -> nn.Module:
        fixed = Fixed(shares[0] if isinstance(model, MosaicLayer) else shares[1])
        fixed.seed = trial.seed
        return fixed

    monkeypatch.setattr(mosaic, "train", trained)
    assert verdict("mosaic-in-context", 3, FIRST)[0] is wanted


def test_training_lowers_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(FIRST)
    torch.manual_seed(0)
    layer = MosaicLayer(mosaic.TASK.vocabulary, 64, 4)
    before = mosaic.accuracy(trial, layer)
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 30)
    assert mosaic.accuracy(trial, mosaic.train(trial, layer)) > before + 0.1

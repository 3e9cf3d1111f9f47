"""Prompt, fold and fine-tuning of a small decoder: what a fold is, and when the claim fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from inweights.lab import zoo
from inweights.lab.models import DecoderModel, Learner
from inweights.lab.tasks import Linear
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import efficient

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]
Stand = Callable[..., None]
FIRST = 900
"""The first seed of trials here: not one of those that the ledger records."""


@pytest.fixture(scope="module")
def decoder() -> DecoderModel:
    model = zoo.trained("depth-2")[0].eval()
    assert isinstance(model, DecoderModel)
    return model.requires_grad_(False)


def test_a_fold_does_without_the_context_what_the_model_does_with_it(decoder: DecoderModel) -> None:
    trial = Trial(FIRST)
    sample = Linear(dims=5).sample(trial.draw(2), 10)
    known, new = (trial.draw(1, step).normal(efficient.QUERIES, 5)[0] for step in (1, 2))
    fold, other = (efficient.folded(decoder, xs, ys, known) for xs, ys in zip(sample.xs, sample.ys, strict=True))
    prompts = efficient.asked(sample.xs[0], sample.ys[0], new)
    at, wanted = torch.tensor(10), decoder(*prompts)[:, -1]
    # float32, a fit by least squares on other queries: 5% of the spread. Another context's fold, or none, is far off.
    assert efficient.error(fold(*prompts, at)[:, 0], wanted) < 0.05 * wanted.var()
    for wrong in (other, decoder):
        assert efficient.error(wrong(*prompts, at)[:, 0], wanted) > 0.3 * wanted.var()


def test_fine_tuning_fits_the_examples(decoder: DecoderModel, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Linear(dims=5).sample(Trial(FIRST).draw(1), 10)
    xs, ys = sample.xs[0], sample.ys[0]
    monkeypatch.setattr(efficient, "RATES", (3e-3,))
    before = efficient.error(decoder(*efficient.asked(xs, ys, xs), torch.tensor(10))[:, 0], ys)
    tuned = list(efficient.finetuned(decoder, xs, ys))
    assert len(tuned) == len(efficient.STEPS)
    after = [efficient.error(m(*efficient.asked(xs, ys, xs), torch.tensor(10))[:, 0], ys) for m in tuned]
    assert after[1] < after[0] < before
    assert after[1] < before / 2


class Exact(DecoderModel):
    """Knows a function: its prediction for a query is that of weights, times a factor."""

    def __init__(self, like: DecoderModel, w: Tensor, factor: float) -> None:
        torch.nn.Module.__init__(self)
        self.like, self.w, self.factor = [like], w, factor

    def forward(self, xs: Tensor, ys: Tensor, at: Tensor | None = None) -> Tensor:
        return self.factor * xs[:, -1:] @ self.w


@pytest.mark.parametrize(("fold", "tuned", "wanted"), [(0.9, 0.5, Verdict.PASS), (0.5, 0.9, Verdict.FAIL)])
def test_a_fold_that_is_worse_than_fine_tuning_fails(
    fold: float,
    tuned: float,
    wanted: Verdict,
    decoder: DecoderModel,
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Stand,
    verdict: Judge,
) -> None:
    def known(factor: float) -> Callable[..., Learner]:
        def made(model: DecoderModel, xs: Tensor, ys: Tensor, *queries: Tensor) -> Learner:
            return Exact(decoder, torch.linalg.lstsq(xs, ys.unsqueeze(-1)).solution.squeeze(-1), factor)

        return made

    def each(model: DecoderModel, xs: Tensor, ys: Tensor) -> Iterator[Learner]:
        yield known(tuned)(model, xs, ys)

    stand_in({"depth-2": lambda trial: decoder})
    monkeypatch.setattr(efficient, "folded", known(fold))
    monkeypatch.setattr(efficient, "finetuned", each)
    assert verdict("note-efficient", 3, FIRST)[0] is wanted

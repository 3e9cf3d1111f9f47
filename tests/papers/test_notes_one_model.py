"""One model on several kinds of contexts: an algorithm for each of them in its place, and one for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.lab.models import Learner
from inweights.lab.tasks import Sample
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.papers.notes import one_model
from inweights.papers.notes.selection import Answers, huber, linear

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


class Following(Learner):
    """Follows the algorithms in the order in which it is given the kinds of contexts; a bit off, as a model is."""

    def __init__(self, algorithms: list[Answers]) -> None:
        super().__init__()
        self.algorithms, self.asked = algorithms, 0

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        answers = self.algorithms[self.asked % len(self.algorithms)]
        self.asked += 1
        off = 0.05 * torch.sin(1e3 * xs[:, -1, 0])
        return (answers(Sample(xs, ys, {}), 0.05) + off).unsqueeze(-1)


ROBUST = huber(one_model.NOISE)


@pytest.mark.parametrize(
    ("algorithms", "wanted"),
    [
        ([linear, one_model.curve, linear, ROBUST], Verdict.PASS),
        ([linear, one_model.curve, linear, linear], Verdict.FAIL),  # not robust
        ([linear, linear, linear, ROBUST], Verdict.FAIL),  # a line everywhere
    ],
)
def test_algorithms_are_distinguished(
    algorithms: list[Answers], wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 128)
    monkeypatch.setattr(one_model, "one_model", lambda trial: Following(algorithms))
    result, judged = verdict("note-one-model")
    if wanted is Verdict.PASS:
        assert result is wanted, judged
    else:
        assert result is not Verdict.PASS, judged


def test_one_in_five_labels_is_an_outlier() -> None:
    plain, far = (one_model.contexts(kind, Trial(0).draw(500)) for kind in ("straight", "outliers"))
    share = ((far.ys - far.hidden["clean"]).abs() > 0.5).double().mean()
    assert 0.15 < share < 0.2  # most outliers are this far
    assert ((plain.ys - plain.hidden["clean"]).abs() > 0.5).double().mean() < 0.001


def test_a_training_on_all_kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 100)
    model = one_model.one_model(Trial(0))
    sample = one_model.contexts("straight", Trial(0).draw(512))
    errors = [(a - sample.hidden["clean"]).square().mean() for a in (model(sample.xs, sample.ys), torch.tensor(0.0))]
    assert errors[0] < 0.8 * errors[1]

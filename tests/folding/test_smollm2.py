"""A small fold of the real model: it works on questions it has not seen, and the controls do not."""

from __future__ import annotations

import torch

from inweights.bench._suite import FRENCH, PIRATE
from inweights.folding import Fold, Frame, Steps, answered, measure, questions, solve_updates, working
from inweights.folding._card import Card
from inweights.models import load

CALIBRATION, HELD_OUT = questions()[:8], questions()[40:48]


def test_a_pirate_without_the_prompt() -> None:
    """Eight questions and eight steps recover more than half of the prompt on eight others, float32; the fold of
    another prompt recovers less than half of that, random updates of equal norms nothing, and the model is left as it
    was."""
    model = load("smollm2")
    low = working(model)
    before = {name: p.clone() for name, p in model.model.named_parameters()}
    folds = {}
    for name, context in (("pirate", PIRATE), ("french", FRENCH)):
        examples = answered(Frame.of(low, context), CALIBRATION, seed=1, new=12)
        steps = Steps(count=8, rate=3e-3, batch=4)
        folds[name] = Fold(solve_updates(model, examples, low=low, steps=steps).updates, Card(), model)
    held_out = answered(Frame.of(model, PIRATE), HELD_OUT, new=16, temperature=0.0)
    result = measure("held out", held_out, folds["pirate"], others={"french": folds["french"]})
    assert result.recovered.value > 0.5
    assert result.agree_folded > result.agree_bare
    assert result.controls["random updates of equal norms"].high < 0.05
    assert result.controls["french"].value < result.recovered.value / 2
    assert result.controls["french"].high < result.recovered.low
    assert all(torch.equal(p, before[name]) for name, p in model.model.named_parameters())

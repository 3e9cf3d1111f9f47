"""Language models are few-shot learners (Brown et al. 2020): a few demonstrations against none."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import BROWN
from inweights.papers._relabelled import WORDS, drawn, hits, without


@claim("brown-few-shot", BROWN, "Section 3, Figure 1.2", cost=(14, 150), needs=("smollm2", *WORDS))
def few_shot(trial: Trial) -> Measurement:
    """With a few examples in its prompt, and no update of its parameters, a language model does a task that it does not
    do without them.

    Measured: the accuracy over the labels with 8 demonstrations, less that without any.

    Control: the same demonstrations, each with the answer of another one.

    Rival: demonstrations of the other of the two tasks: that any examples show the format.

    Settings: SmolLM2-135M, past tenses and plurals, 24 queries each (full: 60), float32.
    """
    model, random = trial.language_model("float32"), trial.generator()
    value: list[Tensor] = []
    control: list[Tensor] = []
    rival: list[Tensor] = []
    both = [drawn(trial, model, name, trial.size(24, 60)) for name in WORDS]
    for shown, foreign in zip(both, reversed(both), strict=True):
        zero = without(model, shown)
        value.append(hits(model, shown) - zero)
        control.append(hits(model, shown.relabelled(random)) - zero)
        rival.append(hits(model, replace(shown, asked=foreign.asked, answered=foreign.answered)) - zero)
    return Measurement({"gain": (torch.cat(value), torch.cat(control))}, rivals={"gain": torch.cat(rival)})

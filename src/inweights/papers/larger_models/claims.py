"""Larger language models do in-context learning differently (Wei et al. 2023): flipped and unrelated labels."""

from __future__ import annotations

import torch

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import WEI
from inweights.papers._relabelled import NOVEL, WORDS, drawn, flipped, hits, renamed, reviews, shuffled, without


@claim("wei-flipped-labels", WEI, "Section 3, Figure 2", cost=(28, 400), needs=("smollm2", "sst2", *WORDS))
def flipped_labels(trial: Trial) -> Measurement:
    """Small language models ignore flipped labels in their demonstrations: they recognise the task, and do not learn
    the rule that is shown.

    Measured: the accuracy over the labels, by the right ones, after demonstrations with right labels, less that after
    the same demonstrations with flipped ones. A model that follows its demonstrations would lose most of it.

    Control: past tenses and plurals, each with the answer of another one.

    Settings: SmolLM2-135M, SST-2, 8 demonstrations, 2 draws of 8 queries (full: 5 of 12), float32. The paper shows
    flat curves for its small models, without numbers: that flat means within 0.1 is our choice.
    """
    model, random = trial.language_model("float32"), trial.generator()
    sets = reviews(trial, model)
    right = torch.cat([hits(model, shown) for shown in sets])
    wrong = torch.cat([hits(model, flipped(shown)) for shown in sets])
    words = [drawn(trial, model, name, 24) for name in WORDS]
    control = torch.cat([hits(model, s) - hits(model, s.relabelled(random)) for s in words])
    reported = {"right labels": right.mean().item(), "flipped labels": wrong.mean().item()}
    return Measurement({"moved": (right - wrong, control)}, reported=reported)


@claim("wei-unrelated-labels", WEI, "Section 4, Figure 3", cost=(25, 400), needs=("smollm2", "sst2"))
def unrelated_labels(trial: Trial) -> Measurement:
    """Small language models hardly learn a task whose labels have no meaning of their own: that ability comes with
    size.

    Measured: the accuracy over two labels, “foo” and “bar”, in place of “positive” and “negative”.

    Control: the same queries without demonstrations, with labels that have their meaning.

    Settings: SmolLM2-135M, SST-2, 8 demonstrations, 2 draws of 8 queries (full: 5 of 12), float32; which label means
    which changes with the draw. That hardly means fewer than 60 of 100 right, where 50 are chance, is our choice. Also
    measured: the same with these labels in a random order among the demonstrations.
    """
    model, random = trial.language_model("float32"), trial.generator()
    sets = reviews(trial, model)
    renamed_sets = [renamed(model, shown, NOVEL[:: (-1) ** k]) for k, shown in enumerate(sets)]
    value = torch.cat([hits(model, shown) for shown in renamed_sets])
    control = torch.cat([without(model, shown) for shown in sets])
    chance = torch.cat([hits(model, shuffled(shown, random)) for shown in renamed_sets])
    return Measurement({"accuracy": (value, control)}, reported={"in a random order": chance.mean().item()})

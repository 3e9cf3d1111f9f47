"""Rethinking the role of demonstrations (Min et al. 2022): random labels in place of the right ones."""

from __future__ import annotations

import torch

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import MIN
from inweights.papers._relabelled import WORDS, drawn, hits, reviews, shuffled, without


@claim("min-random-labels", MIN, "Section 4, Figure 3", cost=(32, 400), needs=("smollm2", "sst2", *WORDS))
def random_labels(trial: Trial) -> Measurement:
    """Demonstrations with random labels are hardly worse than those with the right ones: the task is recognised, not
    learned from its labels.

    Measured: the accuracy over the labels after demonstrations with the right labels, less that after the same
    demonstrations with their labels in a random order, on reviews.

    Control: past tenses and plurals, where each answer belongs to its question.

    Settings: SmolLM2-135M, SST-2, 8 demonstrations, 2 draws of 8 queries (full: 5 of 12), float32. The paper reports a
    loss of 0 to 5 points with 16 demonstrations. Also measured: the accuracy with right labels, with random ones, and
    without demonstrations.
    """
    model, random = trial.language_model("float32"), trial.generator()
    sets = reviews(trial, model)
    right = torch.cat([hits(model, shown) for shown in sets])
    wrong = torch.cat([hits(model, shuffled(shown, random)) for shown in sets])
    words = [drawn(trial, model, name, 24) for name in WORDS]
    control = torch.cat([hits(model, s) - hits(model, s.relabelled(random)) for s in words])
    reported = {
        "right labels": right.mean().item(),
        "random labels": wrong.mean().item(),
        "no demonstrations": torch.cat([without(model, shown) for shown in sets]).mean().item(),
    }
    return Measurement({"lost": (right - wrong, control)}, reported=reported)

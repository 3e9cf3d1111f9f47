"""Reuter et al. 2025: the samples by which posteriors in context are judged, beside exact ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import REUTER
from inweights.papers.full_bayes._distances import c2st, mmd, w2
from inweights.papers.full_bayes._normal import samples, variational
from inweights.papers.full_bayes._nuts import available, by_nuts
from inweights.papers.full_bayes._scenarios import Factors, Mixture, Regression, Scenario
from inweights.papers.full_bayes.claims import SAMPLES, grid

CASES: Mapping[str, tuple[Scenario, float, int]] = {
    "glm": (Regression(), 5.0, 100),
    "factor": (Factors(), 4.0, 60),
    "mixture": (Mixture(), 12.0, 240),
}
"""Each scenario with the reach of its grid and the number of its cells."""
OTHER = 1000
"""What is added to the seed of a trial for a second set of exact samples."""


def accuracy(one: Tensor, other: Tensor, seed: int) -> float:
    """C2ST, a mean over data sets."""
    return fmean(c2st(a, b, seed) for a, b in zip(one, other, strict=True))


@claim("reuter-reference", REUTER, "Section 5: HMC as the gold standard", cost=(60, 200))
def reference(trial: Trial) -> Measurement:
    """Samples by HMC are as good as those of the posterior itself, so that they can be the standard for others.

    Measured: the accuracy of a classifier that tells samples of NUTS from exact ones (C2ST), for each scenario; and
    that for two sets of exact ones (`exact`), the mean over the scenarios: by how much accuracy deviates from a half
    where nothing can be told. A mean over data sets. MMD and W2 of both are reported, R-hat and the number of
    independent samples too.

    Control: samples for the data of another prompt.

    Rival: that the classifier cannot tell anything: mean-field variational inference in place of NUTS.

    Settings: the scenarios of `reuter-glm`, `reuter-factor` and `reuter-mixture`; exact samples on grids of 100³, 60³
    and 240² cells. NumPyro's NUTS, four chains of 300 and 500 steps. Of equivalent modes one is sampled (the largest
    loading positive, the means in order), and each sample is put into either with equal probability. 300 samples, the
    classifier of `reuter-glm`; 2 data sets (full: 4).

    Precondition: R-hat of NUTS is below 1.05, and there are more than 200 independent samples.
    """
    available()
    values: dict[str, tuple[float, float]] = {}
    rivals: dict[str, float] = {}
    exact_ones: list[tuple[float, float]] = []
    reported: dict[str, float] = {}
    for name, (scenario, reach, cells) in CASES.items():
        _, data = scenario.sample(trial.draw(trial.size(2, 4)))
        start, _ = scenario.sample(trial.draw(len(data), 1))
        gold = grid(scenario, reach, cells)
        exact, again = gold(trial, data), gold(replace(trial, seed=trial.seed + OTHER), data)
        nuts = by_nuts(trial, scenario, data, SAMPLES)
        with torch.enable_grad():
            normal = variational(scenario, data, start, diagonal=True, seed=trial.seed)
        own, other = (accuracy(nuts.samples, gold, trial.seed) for gold in (exact, exact.roll(1, 0)))
        values[name] = own, other
        rivals[name] = accuracy(samples(normal, SAMPLES, trial.seed), exact, trial.seed)
        exact_ones.append((accuracy(again, exact, trial.seed), accuracy(again, exact.roll(1, 0), trial.seed)))
        reported |= {f"R-hat, {name}": nuts.rhat, f"ESS, {name}": nuts.ess}
        reported |= {f"C2ST, NUTS, {name}": own, f"C2ST, exact, {name}": exact_ones[-1][0]}
        for who, drawn in (("NUTS", nuts.samples), ("exact", again)):
            for kind, distance in (("MMD", mmd), ("W2", w2)):
                each = [distance(a, b) for a, b in zip(drawn, exact, strict=True)]
                reported[f"{kind}, {who}, {name}"] = fmean(each)
    value, control = (fmean(column) for column in zip(*exact_ones, strict=True))
    return Measurement(values | {"exact": (value, control)}, reported=reported, rivals=rivals)

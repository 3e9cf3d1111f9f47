"""Falck et al. 2024: the martingale property of a Bayesian rule itself, on which all tests of models rest."""

from __future__ import annotations

import torch

from inweights.compare import Sampler, bayesian, martingale_test, recent
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._papers import FALCK

THETAS = (0.3, 0.5, 0.7)
SEQUENCES, PATHS = 2, 100


@claim("falck-bayesian", FALCK, "Section 3: the martingale property", cost=(8, 18))
def exact(trial: Trial) -> Measurement:
    """The predictions of a Bayesian rule for exchangeable observations are a martingale: what it expects of an
    observation does not depend on how far ahead it lies, and its own continuations pass the tests.

    Measured: the share of sequences in which T1 or T2 of exact Bayesian continuations lies outside of the interval that
    other such continuations have (95% for all of them together, and 0.1/n more). By chance, about one in twenty does.

    Control: continuations by a rule that looks at the last two observations alone.

    Settings: θ = 0.3, 0.5, 0.7, a uniform prior; 20 observations, 10 and 40 more, 100 paths, two sequences for each θ
    (full: 50 observations, 25 and 100 more).
    """
    return Measurement({"violated": (violations(trial, bayesian), violations(trial, recent))})


def violations(trial: Trial, sampler: Sampler) -> list[float]:
    """1 for each sequence in which T1 or T2 is outside, else 0: continuations half and twice as long as it."""
    n, results = trial.size(20, 50), []
    for k, theta in enumerate(SEQUENCES * THETAS):
        observed = (trial.draw(1, k).uniform(n).squeeze(0) < theta).double()
        for ahead in (n // 2, 2 * n):
            generator = torch.Generator().manual_seed(1000 * trial.seed + k)
            results.append(float(martingale_test(sampler, observed, ahead, PATHS, generator).violated))
    return results

"""Is in-context learning in large language models Bayesian? (Falck et al. 2024): martingale tests."""

from __future__ import annotations

import torch

from inweights.compare import Sampler, Tested, bayesian, by_model, martingale_test
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._demonstrated import mean
from inweights.papers._papers import FALCK

THETAS = (0.3, 0.5, 0.7)


def _tests(trial: Trial, sampler: Sampler, ahead: float) -> list[Tested]:
    """The tests for each θ, with continuations `ahead` times as long as what was observed."""
    n, paths = trial.size(20, 50), trial.size(24, 100)
    results = []
    for theta in THETAS:
        generator = trial.generator()
        observed = (torch.rand(n, generator=generator) < theta).double()
        results.append(martingale_test(sampler, observed, round(ahead * n), paths, generator))
    return results


def _violations(trial: Trial, ahead: float) -> tuple[list[Tested], list[Tested]]:
    """The tests of SmolLM2, and of the Bayesian rule itself."""
    return _tests(trial, by_model(trial.language_model("float32")), ahead), _tests(trial, bayesian, ahead)


@claim("falck-short", FALCK, "Section 5.1: m = n/2", cost=(21, 1100), needs=("smollm2",))
def short(trial: Trial) -> Measurement:
    """Over short horizons, half as long as the observed sequence, a model's continuations of Bernoulli sequences mostly
    pass the martingale tests.

    Measured: the share of sequences in which T1 or T2 lies outside of the interval that exact Bayesian continuations
    have (95% for all of them together, and 0.1/n more).

    Control: continuations that look at the last two observations alone.

    Settings: SmolLM2-135M, not the paper's 7 to 170 billion; θ = 0.3, 0.5, 0.7; 20 observations, 10 more, 24 paths
    (full: 50, 25, 100), sampled from the two digits.
    """
    from inweights.compare import recent

    own = _tests(trial, by_model(trial.language_model("float32")), 0.5)
    other = _tests(trial, recent, 0.5)
    return Measurement({"violated": ([float(t.violated) for t in own], [float(t.violated) for t in other])})


@claim("falck-long", FALCK, "Section 5.1: m = 2n", cost=(87, 2560), needs=("smollm2",))
def long(trial: Trial) -> Measurement:
    """Over long horizons, twice as long as the observed sequence, a model's continuations violate the martingale
    property: in-context learning is not Bayesian.

    Measured: the share of sequences in which T1 or T2 lies outside of the interval of exact Bayesian continuations.

    Control: exact Bayesian continuations.

    Settings: those of falck-short, with 40 further observations (full: 100).
    """
    own, exact = _violations(trial, 2.0)
    return Measurement({"violated": ([float(t.violated) for t in own], [float(t.violated) for t in exact])})


@claim("falck-uncertainty", FALCK, "Section 5.2: T3", cost=(21, 950), needs=("smollm2",))
def uncertainty(trial: Trial) -> Measurement:
    """The spread of a model's continuations, its uncertainty about θ, is not that of a Bayesian.

    Measured: the distance from 0 of the logarithm of T3, the interquartile range of the paths' means, relative to the
    median of exact Bayesian continuations; a mean over θ.

    Control: exact Bayesian continuations.

    Settings: those of falck-short.
    """
    own, exact = _violations(trial, 0.5)

    def off(tests: list[Tested]) -> float:
        ratios = torch.tensor([max(t.t3_ratio, 1e-3) for t in tests], dtype=torch.float64)
        return float(ratios.log().abs().mean())

    return Measurement({"log_ratio": (off(own), off(exact))}, reported={"ratio": mean([t.t3_ratio for t in own])})

"""Posteriors in context (Reuter et al.): distances, normal approximations, and the flow replaced by known samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inweights.lab.models import FlowPosterior
from inweights.ledger import Trial, Verdict
from inweights.ledger._judge import Judged
from inweights.ledger._trial import NotHereError, UnmetError
from inweights.papers.full_bayes import _distances as distances
from inweights.papers.full_bayes import _normal as normal
from inweights.papers.full_bayes import _nuts, claims, reference
from inweights.papers.full_bayes._scenarios import Factors, Mixture, Regression, Scenario, on_grid

Judge = Callable[..., tuple[Verdict, dict[str, Judged]]]


def cloud(count: int, shift: float = 0.0, seed: int = 0) -> Tensor:
    return shift + torch.randn(count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_distances_of_equal_and_of_other_samples() -> None:
    same, far = (cloud(120), cloud(120, seed=1)), (cloud(120), cloud(120, 3.0, 1))
    assert abs(distances.c2st(*same) - 0.5) < 0.12 < 0.4 < distances.c2st(*far) - 0.5
    assert distances.mmd(*same) < 0.05 < 0.5 < distances.mmd(*far)
    assert distances.w2(*same) < 0.8
    assert distances.w2(*far) == pytest.approx(3 * 2**0.5, rel=0.1)
    assert distances.w2(cloud(50), cloud(50) + 1) == pytest.approx(2**0.5)


@pytest.mark.parametrize(("scenario", "reach", "cells"), [(Mixture(), 12.0, 120), (Factors(), 4.0, 50)])
def test_the_grid_has_the_posterior(scenario: Scenario, reach: float, cells: int) -> None:
    """Simulation-based calibration: among samples of its posterior, the rank of a latent variable is uniform; among
    those of another one it is often the first or the last."""
    latent, data = scenario.sample(Trial(0).draw(40))

    def ranks(data: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        drawn = [on_grid(scenario, own, 40, generator, reach, cells)[:, 0] for own in data]
        return torch.stack([(d < z[0]).double().mean() for d, z in zip(drawn, latent, strict=True)])

    own, other = ranks(data), ranks(data.roll(1, 0))
    assert abs(own.mean() - 0.5) < 0.15
    assert abs(own.std() - 12**-0.5) < 0.1
    outside = [((r == 0) | (r == 1)).double().mean() for r in (own, other)]
    assert outside[0] < 0.1 < 0.15 < outside[1]


def test_normal_approximations_of_a_normal_posterior() -> None:
    """A linear model is approximated by full rank and by Laplace's method; mean-field is too narrow. float64."""

    class Known:
        """A posterior that is normal, with correlation 0.9 (prior and data are one quadratic form)."""

        latents, width = 2, 1
        precision = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64).inverse()

        def log_joint(self, z: Tensor, data: Tensor) -> Tensor:
            away = z - 1
            return -(away @ self.precision * away).sum(-1) / 2

        def sample(self, draw: object) -> tuple[Tensor, Tensor]:
            raise NotImplementedError

    data, start = torch.zeros(3, 1, 1), torch.zeros(3, 2)
    fits = {
        "full": normal.variational(Known(), data, start, diagonal=False),
        "laplace": normal.laplace(Known(), data, start),
        "mean-field": normal.variational(Known(), data, start, diagonal=True),
    }
    for name, (mean, factor) in fits.items():
        variance = (factor @ factor.mT)[:, 0, 0]
        assert (mean - 1).abs().max() < 0.25, name
        wanted = 0.19 if name == "mean-field" else 1.0  # 1 over the diagonal of the precision
        assert ((variance / wanted).log().abs() < 0.4).all(), name
    drawn = normal.samples(fits["laplace"], 4000)
    assert torch.corrcoef(drawn[0].mT)[0, 1] == pytest.approx(0.9, abs=0.03)


class Sampling:
    """Exact samples in the place of a flow."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def sample(self, xs: Tensor, data: Tensor, draw: object, *, count: int) -> Tensor:
        generator = torch.Generator().manual_seed(99)
        return torch.stack([on_grid(self.scenario, own, count, generator, 12.0, 240) for own in data])


def test_exact_samples_beat_normal_ones_and_those_for_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """One trial of four data sets."""
    real = claims.flow

    def flow(trial: Trial, scenario: Scenario, *, trained: bool = True) -> object:
        return Sampling(scenario) if trained else real(trial, scenario, trained=False)

    monkeypatch.setattr(claims, "flow", flow)
    monkeypatch.setattr(claims, "SAMPLES", 200)
    scores, reported = claims.compared(Trial(0), Mixture(), claims.grid(Mixture(), 12.0, 240))
    mean = {name: sum(each) / len(each) for name, each in scores.items()}
    assert mean["flow"] < min(0.56, min(mean[name] for name in claims.NORMAL) - 0.03)
    assert min(mean["untrained"], mean["other data"]) > 0.75
    assert reported["W2, flow"] < reported["W2, full rank"]


@pytest.mark.parametrize(
    ("flow", "other", "wanted"),
    [(0.55, 0.95, Verdict.PASS), (0.72, 0.95, Verdict.FAIL), (0.55, 0.55, Verdict.HOLDS_NOT_DIAGNOSTIC)],
)
@pytest.mark.parametrize("id", ["reuter-glm", "reuter-factor", "reuter-mixture"])
def test_verdicts_about_scores(
    id: str, flow: float, other: float, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples closer than the normal ones, not closer, and just as close with other data."""

    def compared(trial: Trial, *_: object) -> tuple[dict[str, list[float]], dict[str, float]]:
        means = {"flow": flow, "untrained": 0.97, "other data": other} | dict.fromkeys(claims.NORMAL, 0.7)
        return {name: [mean + 0.01 * (trial.seed % 3), mean - 0.01] for name, mean in means.items()}, {}

    monkeypatch.setattr(claims, "compared", compared)
    monkeypatch.setattr(claims, "available", lambda: None)
    result, judged = verdict(id, 5)
    assert result is wanted, judged


def test_the_flow_is_trained_and_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A few steps reduce its loss on other prompts."""
    monkeypatch.setenv("INWEIGHTS_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "size", lambda trial, quick, full: 60)
    trial, scenario = Trial(0), Factors()
    z, data = scenario.sample(trial.draw(256))

    def loss(model: FlowPosterior) -> float:
        return float(model.loss(torch.ones_like(data[..., :1]), data, z, trial.draw(256, 5)))

    assert loss(claims.flow(trial, scenario)) < 0.8 * loss(claims.flow(trial, scenario, trained=False))


def test_the_best_of_the_rivals_counts() -> None:
    scores = {"flow": [0.6, 0.9], "a": [0.7, 0.8], "b": [0.9, 0.7]}
    assert claims.beside(scores, ("a", "b"), "flow") == pytest.approx([-0.1, 0.1])


def test_without_numpyro_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nuts, "find_spec", lambda name: None)
    with pytest.raises(NotHereError, match=r"pip install 'inweights\[bayes\]'"):
        claims.glm(Trial(0))


@pytest.mark.parametrize(("rhat", "ess", "wrong"), [(1.2, 900.0, "R-hat is 1.2"), (1.0, 50.0, "50 independent")])
def test_chains_that_disagree_stop_the_trial(rhat: float, ess: float, wrong: str) -> None:
    _nuts.checked(Trial(0), 1.01, 900.0)
    with pytest.raises(UnmetError, match=wrong):
        _nuts.checked(Trial(0), rhat, ess)


@pytest.mark.parametrize("name", reference.CASES)
def test_nuts_agrees_with_the_grid(name: str) -> None:
    """Where NumPyro is installed: 300 samples, a C2ST below 0.62; above 0.7 if they are shifted."""
    pytest.importorskip("numpyro")
    scenario, reach, cells = reference.CASES[name]
    _, data = scenario.sample(Trial(0).draw(2))
    drawn = _nuts.by_nuts(Trial(0), scenario, data, 300).samples
    generator = torch.Generator().manual_seed(0)
    for own, samples in zip(data, drawn, strict=True):
        exact = on_grid(scenario, own, 300, generator, reach, cells)
        assert distances.c2st(samples, exact) < 0.62
        assert distances.c2st(samples + 0.8, exact) > 0.7


@pytest.mark.parametrize(("shift", "wanted"), [(0.0, Verdict.PASS), (1.0, Verdict.FAIL)])
def test_a_reference_that_is_exact_or_shifted(
    shift: float, wanted: Verdict, verdict: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples from a grid in place of NUTS, for the mixture alone."""
    cases = dict.fromkeys(("glm", "factor", "mixture"), (Mixture(), 12.0, 120))

    def by_nuts(trial: Trial, scenario: Scenario, data: Tensor, count: int) -> _nuts.Sampled:
        return _nuts.Sampled(claims.grid(scenario, 12.0, 120)(Trial(99), data) + shift, 1.0, 900.0)

    monkeypatch.setattr(reference, "CASES", cases)
    monkeypatch.setattr(reference, "by_nuts", by_nuts)
    monkeypatch.setattr(reference, "available", lambda: None)
    result, judged = verdict("reuter-reference", 3)
    assert result is wanted, judged


def test_labels_and_latents_belong_together() -> None:
    """The joint density of the drawn latent vector is above that of another one, mostly."""
    for scenario in (Mixture(), Factors(), Regression()):
        z, data = scenario.sample(Trial(0).draw(64, dtype=torch.float64))
        own, other = (scenario.log_joint(each.unsqueeze(1), data).squeeze(1) for each in (z, z.roll(1, 0)))
        assert (own > other).double().mean() > 0.9, scenario

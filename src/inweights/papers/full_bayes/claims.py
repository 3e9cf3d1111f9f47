"""Reuter et al. 2025: posteriors in context by flow matching, beside normal approximations that fit each data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

import torch
from torch import Tensor

from inweights.lab import Draw
from inweights.lab.models import FlowPosterior
from inweights.ledger import Measurement, Trial, claim
from inweights.papers._fitted import fitted
from inweights.papers._papers import REUTER
from inweights.papers.full_bayes._distances import c2st, mmd, w2
from inweights.papers.full_bayes._normal import laplace, samples, variational
from inweights.papers.full_bayes._nuts import available, by_nuts
from inweights.papers.full_bayes._scenarios import Factors, Mixture, Regression, Scenario, on_grid

SAMPLES = 300
NORMAL = ("mean-field", "full rank", "Laplace")
Gold = Callable[[Trial, Tensor], Tensor]
"""A function from data sets to samples of their posteriors, `(batch, SAMPLES, latents)`."""


def flow(trial: Trial, scenario: Scenario, *, trained: bool = True) -> FlowPosterior:
    """The sampler in context for a scenario, after a short training or before it."""

    def build() -> FlowPosterior:
        return FlowPosterior(1, scenario.latents, outputs=scenario.width, layers=2, looks=2, width=32)

    if not trained:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(trial.seed)
            return build().to(trial.device).eval().requires_grad_(False)

    def loss(model: FlowPosterior, draw: Draw) -> Tensor:
        z, data = scenario.sample(draw)
        return model.loss(torch.ones_like(data[..., :1]), data, z, draw, copies=8)

    name = f"flow-{type(scenario).__name__.lower()}"
    return fitted(trial, name, build, loss, steps=trial.size(400, 2000), batch=64)


def in_context(model: FlowPosterior, data: Tensor, draw: Draw) -> Tensor:
    """Samples of each posterior, `(batch, SAMPLES, latents)`."""
    return model.sample(torch.ones_like(data[..., :1]), data, draw, count=SAMPLES).double()


def compared(trial: Trial, scenario: Scenario, gold: Gold) -> tuple[dict[str, list[float]], dict[str, float]]:
    """C2ST against the posterior of each data set: of the flow, the flow before its training, the flow with the data of
    another prompt, and normal approximations; and means of MMD and W2, to report."""
    _, data = scenario.sample(trial.draw(trial.size(4, 8)))
    start, _ = scenario.sample(trial.draw(len(data), 1))
    trained = flow(trial, scenario)
    with torch.enable_grad():
        normal = [variational(scenario, data, start, diagonal=d, seed=trial.seed) for d in (True, False)]
        normal.append(laplace(scenario, data, start))
    sets: dict[str, Tensor] = {
        "flow": in_context(trained, data, trial.draw(len(data), 2)),
        "untrained": in_context(flow(trial, scenario, trained=False), data, trial.draw(len(data), 2)),
        "other data": in_context(trained, data.roll(1, 0), trial.draw(len(data), 2)),
    } | {name: samples(each, SAMPLES, trial.seed) for name, each in zip(NORMAL, normal, strict=True)}
    exact = gold(trial, data)
    scores = {n: [c2st(s, e, trial.seed) for s, e in zip(each, exact, strict=True)] for n, each in sets.items()}
    reported = {f"C2ST, {name}": fmean(each) for name, each in scores.items()}
    for name in ("flow", *NORMAL):
        for kind, distance in (("MMD", mmd), ("W2", w2)):
            reported[f"{kind}, {name}"] = fmean(distance(s, e) for s, e in zip(sets[name], exact, strict=True))
    return scores, reported


def beside(scores: Mapping[str, list[float]], rivals: tuple[str, ...], who: str) -> list[float]:
    """C2ST of one set of samples minus that of the rival with the least mean, for each data set."""
    best = min(rivals, key=lambda name: fmean(scores[name]))
    return [own - other for own, other in zip(scores[who], scores[best], strict=True)]


def measured(trial: Trial, scenario: Scenario, gold: Gold, name: str, rivals: tuple[str, ...]) -> Measurement:
    """The flow beside normal approximations; its control is untrained, its rival ignores which data it is given."""
    scores, reported = compared(trial, scenario, gold)
    value, control, rival = (beside(scores, rivals, who) for who in ("flow", "untrained", "other data"))
    return Measurement({name: (value, control)}, reported=reported, rivals={name: rival})


def grid(scenario: Scenario, reach: float, cells: int) -> Gold:
    """Samples of posteriors on a grid."""

    def gold(trial: Trial, data: Tensor) -> Tensor:
        generator = trial.generator()
        return torch.stack([on_grid(scenario, own, SAMPLES, generator, reach, cells) for own in data])

    return gold


@claim("reuter-glm", REUTER, "Section 5.1, Table 1: generalised linear models", cost=(45, 900))
def glm(trial: Trial) -> Measurement:
    """For generalised linear models, samples of a posterior in context are closer to those of HMC than mean-field and
    full-rank variational inference are.

    Measured: the accuracy of a classifier that tells samples of the flow from those of NUTS (C2ST), minus that for
    mean-field variational inference (`against_mean_field`) and for that of full rank (`against_full_rank`); a mean over
    data sets. Laplace's method, MMD and W2 are reported.

    Control: the flow before its training.

    Rival: the trained flow with the data of another prompt, i.e. samples that look like those of some posterior.

    Settings: linear regression with two coefficients from N(0, I), inputs with correlation 0.9, a noise variance from
    the inverse gamma (5, 2), which is latent too; 20 examples (the paper: 5 coefficients, 50). A flow of width 32, two
    encoder layers and two of cross-attention, 400 steps of 64 prompts (full: 2,000; the paper: width 512, 8 and 6
    layers, 73,200 steps of 1,024). NumPyro's NUTS, four chains. 300 samples; a forest of 40 trees, four folds; 4 data
    sets (full: 8).

    Precondition: for each data set, R-hat of NUTS is below 1.05 and there are more than 200 independent samples.
    """
    available()
    scenario = Regression()
    scores, reported = compared(trial, scenario, lambda trial, data: by_nuts(trial, scenario, data, SAMPLES).samples)
    value, control, rival = (
        {f"against_{name.replace('-', '_').replace(' ', '_')}": beside(scores, (name,), who) for name in NORMAL[:2]}
        for who in ("flow", "untrained", "other data")
    )
    return Measurement({name: (value[name], control[name]) for name in value}, reported=reported, rivals=rival)


@claim("reuter-factor", REUTER, "Section 5.2, Table 2: factor analysis", cost=(35, 600))
def factor(trial: Trial) -> Measurement:
    """For factor analysis, samples of a posterior in context are closer to the exact ones than variational inference
    is.

    Measured: the accuracy of a classifier that tells samples of the flow from exact ones (C2ST), minus that for
    the best of mean-field and full-rank variational inference and Laplace's method; a mean over data sets.

    Control: the flow before its training.

    Rival: the trained flow with the data of another prompt.

    Settings: the loading of one factor in three dimensions from N(0, I), noise of deviation 0.5, 20 examples (the
    paper: three factors, 50). The factor's values are integrated out, so that a grid of 60³ cells gives exact samples.
    Flow, classifier and data sets as in `reuter-glm`.
    """
    return measured(trial, Factors(), grid(Factors(), 4.0, 60), "against_normal", NORMAL)


@claim("reuter-mixture", REUTER, "Section 5.3, Table 3: mixture models", cost=(33, 600))
def mixture(trial: Trial) -> Measurement:
    """For mixture models, samples of a posterior in context are closer to the exact ones than variational inference
    is.

    Measured: the accuracy of a classifier that tells samples of the flow from exact ones (C2ST), minus that for
    the best of mean-field and full-rank variational inference and Laplace's method; a mean over data sets.

    Control: the flow before its training.

    Rival: the trained flow with the data of another prompt.

    Settings: the means of two components of equal weight and deviation 1, from N(0, 3²), 20 examples (the paper: five
    components with unknown weights and variances, 50). A grid of 240² cells gives exact samples. Flow, classifier and
    data sets as in `reuter-glm`.
    """
    return measured(trial, Mixture(), grid(Mixture(), 12.0, 240), "against_normal", NORMAL)

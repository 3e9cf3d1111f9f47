"""The No-U-Turn Sampler of NumPyro as a reference. The package is optional."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from inweights.ledger import NotHereError, Trial
from inweights.papers.full_bayes._scenarios import Factors, Mixture, Scenario

CHAINS, WARMUP, DRAWS = 4, 300, 500
RHAT, ESS = 1.05, 200.0


class Sampled(NamedTuple):
    """Samples of posteriors, `(batch, count, latents)`, with the largest R-hat and the smallest effective sample size
    of any latent variable."""

    samples: Tensor
    rhat: float
    ess: float


def available() -> None:
    """Stops the trial if NumPyro is not installed, before any work is done."""
    if find_spec("numpyro") is None:
        raise NotHereError("NumPyro is not installed: pip install 'inweights[bayes]' installs it")


def by_nuts(trial: Trial, scenario: Scenario, data: Tensor, count: int) -> Sampled:
    """Samples given data sets `(batch, examples, width)`, thinned from several chains. Posteriors are independent, but
    sampled as one model, since compiling takes longer than sampling.

    The trial is stopped unless all chains agree (R-hat) and there are enough independent samples (ESS). A chain finds
    one of two equivalent modes, loadings ± w or means in either order: samples are first brought to one of them, where
    chains are compared, and then each is put into either with equal probability.
    """
    z = _chains(trial, _model(scenario), data)
    coins = torch.randint(2, (*z.shape[:-1], 1), generator=trial.generator(), dtype=z.dtype)
    if isinstance(scenario, Factors):
        direction = torch.linalg.eigh(data.double().mT @ data.double()).eigenvectors[..., -1]
        one = z * (z * direction).sum(-1, keepdim=True).sign()
        either = one * (2 * coins - 1)
    elif isinstance(scenario, Mixture):
        one = z.sort(-1).values
        either = torch.where(coins == 1, one.flip(-1), one)
    else:
        one = either = z
    rhat, ess = diagnosed(one)
    checked(trial, rhat, ess)
    drawn = either.flatten(0, 1)  # (draws, batch, latents)
    return Sampled(drawn[torch.linspace(0, len(drawn) - 1, count).round().long()].transpose(0, 1), rhat, ess)


def _model(scenario: Scenario) -> Callable[[Any], None]:
    if isinstance(scenario, Factors):
        return _factors(scenario)
    if isinstance(scenario, Mixture):
        return _mixture(scenario)
    return _regression


def _regression(data: Any) -> None:
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist

    w = numpyro.sample("w", dist.Normal(0, 1).expand([len(data), 2]).to_event(2))
    variance = numpyro.sample("variance", dist.InverseGamma(5.0, 2.0).expand([len(data)]).to_event(1))
    middle = (data[..., :2] * w[:, None]).sum(-1)
    numpyro.sample("y", dist.Normal(middle, variance[:, None] ** 0.5).to_event(2), obs=data[..., 2])
    numpyro.deterministic("z", jnp.concatenate([w, jnp.log(variance)[:, None]], -1))


def _factors(scenario: Factors) -> Callable[[Any], None]:
    def model(data: Any) -> None:
        import jax.numpy as jnp
        import numpyro
        from numpyro import distributions as dist

        z = numpyro.sample("z", dist.Normal(0, 1).expand([len(data), scenario.latents]).to_event(2))
        law = dist.LowRankMultivariateNormal(jnp.zeros_like(z), z[..., None], jnp.full(z.shape, scenario.noise**2))
        numpyro.sample("y", law.expand([data.shape[1], len(data)]).to_event(2), obs=data.swapaxes(0, 1))

    return model


def _mixture(scenario: Mixture) -> Callable[[Any], None]:
    def model(data: Any) -> None:
        import numpyro
        from jax.scipy.special import logsumexp
        from numpyro import distributions as dist

        z = numpyro.sample("z", dist.Normal(0, scenario.spread).expand([len(data), scenario.latents]).to_event(2))
        numpyro.factor("y", logsumexp(-((data - z[:, None]) ** 2) / 2, -1).sum())

    return model


def _chains(trial: Trial, model: Callable[[Any], None], data: Tensor) -> Tensor:
    """The latent variables `z` of a model, `(chains, draws, batch, latents)`."""
    import jax
    from numpyro.infer import MCMC, NUTS

    mcmc: Any = MCMC(
        NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.PRNGKey(trial.seed), data.double().numpy())
    return torch.tensor(jax.device_get(mcmc.get_samples(group_by_chain=True)["z"]).tolist(), dtype=torch.float64)


def diagnosed(chains: Tensor) -> tuple[float, float]:
    """The largest R-hat and the smallest effective sample size of variables `(chains, draws, …)`."""
    from numpyro.diagnostics import summary

    diagnostics: Any = summary({"z": chains.numpy()})["z"]
    return float(diagnostics["r_hat"].max()), float(diagnostics["n_eff"].min())


def checked(trial: Trial, rhat: float, ess: float) -> None:
    """Stops the trial if R-hat or the effective sample size is not good enough."""
    trial.require(rhat < RHAT, f"the chains of NUTS disagree: R-hat is {rhat:.3g}, not below {RHAT}")
    trial.require(ess > ESS, f"there are {ess:.0f} independent samples of NUTS, not above {ESS:.0f}")

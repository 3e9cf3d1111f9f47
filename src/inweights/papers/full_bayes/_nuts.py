"""The No-U-Turn Sampler of NumPyro as a reference. The package is optional."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from inweights.ledger import NotHereError, Trial

CHAINS, WARMUP, DRAWS = 4, 300, 500
RHAT, ESS = 1.05, 200.0


def available() -> None:
    """Stops the trial if NumPyro is not installed, before any work is done."""
    if find_spec("numpyro") is None:
        raise NotHereError("NumPyro is not installed: pip install 'inweights[bayes]' installs it")


def regression(trial: Trial, data: Tensor, count: int) -> Tensor:
    """Samples of coefficients and log-variances given data sets of `Regression`, `(batch, examples, 3)`: `(batch,
    count, 3)`. They are independent, but sampled as one model, since compiling takes longer than sampling.

    Samples are thinned from several chains. The trial is stopped unless all chains agree (R-hat) and there are enough
    independent samples (ESS).
    """
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    def model(xs: Any, ys: Any) -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([len(xs), 2]).to_event(2))
        variance = numpyro.sample("variance", dist.InverseGamma(5.0, 2.0).expand([len(xs)]).to_event(1))
        numpyro.sample("y", dist.Normal((xs * w[:, None]).sum(-1), variance[:, None] ** 0.5).to_event(2), obs=ys)

    array = data.double().numpy()
    mcmc: Any = MCMC(
        NUTS(model), num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.PRNGKey(trial.seed), array[..., :2], array[..., 2])
    chains = mcmc.get_samples(group_by_chain=True)
    checked(trial, {name: (float(v["r_hat"].max()), float(v["n_eff"].min())) for name, v in summary(chains).items()})
    drawn = {name: torch.tensor(jax.device_get(v).tolist(), dtype=torch.float64) for name, v in chains.items()}
    both = torch.cat([drawn["w"], drawn["variance"].log().unsqueeze(-1)], -1).flatten(0, 1)  # (draws, batch, 3)
    return both[torch.linspace(0, len(both) - 1, count).round().long()].transpose(0, 1)


def checked(trial: Trial, diagnostics: Mapping[str, tuple[float, float]]) -> None:
    """Stops the trial if R-hat or the effective sample size of a variable is not good enough."""
    for name, (rhat, ess) in diagnostics.items():
        trial.require(rhat < RHAT, f"the chains disagree about {name}: R-hat is {rhat:.3g}, not below {RHAT}")
        trial.require(ess > ESS, f"there are {ess:.0f} independent samples of {name}, not above {ESS:.0f}")

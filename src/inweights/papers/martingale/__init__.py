"""Is in-context learning in large language models Bayesian? (Falck et al. 2024): martingale tests."""

from inweights.papers.martingale import claims as claims

"""Is in-context learning in large language models Bayesian? (Falck et al. 2024): martingale tests."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.martingale import exact as exact
from inweights.papers.martingale import claims as claims

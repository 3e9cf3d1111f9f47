"""Can transformers learn full Bayesian inference in context? (Reuter et al. 2025, arXiv 2501.16825)."""

from inweights.papers.full_bayes import claims as claims
from inweights.papers.full_bayes import reference as reference

"""Akyürek et al. 2023: what learning algorithm is in-context learning? (arXiv 2211.15661)."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.what_algorithm import claims as claims
from inweights.papers.what_algorithm import probe as probe

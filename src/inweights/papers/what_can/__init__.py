"""Garg et al. 2022: what can transformers learn in-context? (arXiv 2208.01066)."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.what_can import claims as claims
from inweights.papers.what_can import rivals as rivals

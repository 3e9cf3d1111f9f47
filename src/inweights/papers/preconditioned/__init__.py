"""Transformers learn to implement preconditioned gradient descent (Ahn et al. 2023)."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.preconditioned import claims as claims

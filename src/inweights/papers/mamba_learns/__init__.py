"""Park et al. 2024: can Mamba learn how to learn? (arXiv 2402.04248)."""

from inweights.papers.mamba_learns import claims as claims

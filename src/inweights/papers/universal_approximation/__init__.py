"""Gen Li et al. 2025: a universal approximation theory of in-context learning (arXiv 2506.05200)."""

from inweights.papers.universal_approximation import claims as claims

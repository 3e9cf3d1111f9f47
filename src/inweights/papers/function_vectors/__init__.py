"""Todd et al. 2024: function vectors in large language models (arXiv 2310.15213)."""

from inweights.papers.function_vectors import claims as claims

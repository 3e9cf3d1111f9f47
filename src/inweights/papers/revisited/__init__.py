"""In-context learning and gradient descent revisited (Deutch et al. 2024): untrained models, layer-causal descent."""

from inweights.papers.revisited import claims as claims
